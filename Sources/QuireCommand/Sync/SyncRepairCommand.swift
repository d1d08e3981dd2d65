import ArgumentParser
import Foundation
import Quire
import QuireSync

/// `quire sync repair PATH`
struct SyncRepairCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "repair",
        abstract: "Makes the shared folder whole again with what a document has.",
        discussion: """
            For a folder that has lost files, or has damaged ones: what this document has of them is sent again, as one snapshot \
            with the large values that are missing. All rows are compared with what has been merged, so changes that another \
            program made without the history are sent, too. Nothing is lost here. Run it on the machine that has most.

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
        abstract: "Makes a document anew from the shared folder.",
        discussion: """
            What was saved here is sent before. Then the objects become those that the files in the folder make, all of them or \
            none. That is refused while the folder lacks files that have been merged before: they may still arrive, or \
            quire sync repair on a machine that has merged them sends them again. With --discard-missing what was in them is \
            lost.

            EXAMPLES:
              cp -a Library.quire Before.quire && quire sync rebuild Library.quire
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @Flag(help: "Give up what was in files that the folder lacks.")
    var discardMissing = false

    @OptionGroup var options: SyncOptions

    @MainActor
    func run() async throws {
        try await SyncRound.run(path, options, done: "Made anew") {
            try await $0.rebuildFromSyncedContent(discardsMissing: discardMissing)
        }
    }
}

/// `quire sync retire PATH REPLICA`
struct SyncRetireCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retire",
        abstract: "Tells all replicas that one does not come back.",
        discussion: """
            Replicas keep deleted objects until all others know that they are deleted. They do not wait for one that was retired, \
            that has left, or from which nothing has come for ninety days. If it does come back, what was changed there is \
            merged as usual. quire sync status lists the replicas.

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
            throw ValidationError("“\(replica)” is not the identifier of a replica: 32 digits.")
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
        let output = Output(json: options.json, reportsChanges: true)
        let result = try await DocumentSession.use(path, .write, options) { document in
            let transport = try FolderTransport.existing(await document.sharedFolder(folder))
            let sync = try document.replica(transport, inClear: options.inClear)
            let result = try await document.synchronize(sync, body)
            try await sync.setTransportDescription(transport.path)
            return result
        }
        result.reportProblems()
        if options.json {
            try output.print(.object(result.members), levels: 1)
        } else {
            try output.print(done.map { "\($0): \(result.text)." } ?? result.sentence)
        }
        try output.flush()
    }
}
