import ArgumentParser
import Foundation
import Quire
import QuireSync

/// `quire sync repair PATH`
struct SyncRepairCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "repair",
        abstract: "Repairs a shared folder with lost or damaged files.",
        discussion: """
            Sends the content of this document again, as one snapshot, with missing large values. \
            All rows are compared with the merged changes, so changes that a program has not \
            recorded in the history are sent too. The document does not change. Run it on the \
            machine with the most complete document.

            EXAMPLES:
              quire sync repair Library.quire
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @OptionGroup var options: SyncOptions

    @MainActor
    func run() async throws {
        try await SyncRound.run(path, options, done: "Repaired") { try await $0.repair() }
    }
}

/// `quire sync rebuild PATH`
struct SyncRebuildCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rebuild",
        abstract: "Rebuilds a document from the shared folder.",
        discussion: """
            Saved changes are sent first. Then the objects are rebuilt from the files in the \
            folder, in one transaction. This fails while the folder lacks files that have been \
            merged before: wait for them, or run quire sync repair on a machine that has merged \
            them. With --discard-missing their changes are lost.

            EXAMPLES:
              cp -a Library.quire Before.quire && quire sync rebuild Library.quire
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @Flag(help: "Discard the changes in files that are missing from the folder.")
    var discardMissing = false

    @OptionGroup var options: SyncOptions

    @MainActor
    func run() async throws {
        try await SyncRound.run(path, options, done: "Rebuilt") {
            try await $0.rebuildFromSyncedContent(discardsMissing: discardMissing)
        }
    }
}

/// `quire sync retire PATH REPLICA`
struct SyncRetireCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retire",
        abstract: "Stops all replicas from waiting for one that will not return.",
        discussion: """
            Replicas keep records of deleted objects until all other replicas have merged the \
            deletion. They do not wait for a replica that was retired, that has left, or that has \
            sent nothing for ninety days. If it returns, its changes are merged as usual. quire \
            sync status lists the replicas.

            EXAMPLES:
              quire sync retire Library.quire 01a2186f83d471f9baa562d40e260cfe
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("The identifier of a replica.", valueName: "REPLICA"))
    var replica: String

    @OptionGroup var options: SyncOptions

    func validate() throws {
        if SyncIdentifier(replica) == nil {
            throw ValidationError(
                "“\(replica)” is not a replica identifier, which has 32 hexadecimal digits.")
        }
    }

    @MainActor
    func run() async throws {
        guard let peer = SyncIdentifier(replica) else { return }
        try await SyncRound.run(path, options, done: "Retired") {
            try await $0.retire(peer)
            return try await $0.synchronize()
        }
    }
}

/// A round of a document with its folder, in which something else is done.
enum SyncRound {
    /// Opens a document and its folder, does something, and prints what was sent and merged.
    ///
    /// - Parameter done: The beginning of the line that is printed.
    @MainActor
    static func run(
        _ path: String, _ options: SyncOptions, folder: String? = nil, done: String? = nil,
        _ body: @MainActor @escaping (SyncContainer) async throws -> SyncResult
    ) async throws {
        try options.unlock.unlock(path)
        if let folder { try FolderTransport.checkApart(folder, document: path) }
        let result = try await DocumentSession.use(path, .write, options.wait) { document in
            let transport = try FolderTransport.existing(await document.sharedFolder(folder))
            let sync = try document.replica(transport, inClear: options.inClear)
            let result = try await document.synchronize(sync, body)
            try await sync.setTransportDescription(transport.path)
            return result
        }
        result.reportProblems()
        try options.printResult([done.map { "\($0): \(result.text)." } ?? result.sentence]) {
            .object(result.members)
        }
    }
}
