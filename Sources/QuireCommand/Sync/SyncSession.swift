import ArgumentParser
import Foundation
import Quire
import QuireDocuments
import QuireSQLite
import QuireSync

/// The arguments that every verb of `quire sync` has.
struct SyncOptions: ParsableArguments, ResultPrinting {
    @Flag(help: "Print JSON.")
    var json = false

    @Flag(
        help:
            "Send the objects of a protected document even if the shared folder is not encrypted.")
    var inClear = false

    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions
    @OptionGroup var wait: WaitOption
}

/// The password of an encrypted shared document. It is not an argument, which every user of the machine can see.
struct FolderPasswordOption: ParsableArguments {
    @Option(
        name: .customLong("password-fd"),
        help: ArgumentHelp(
            "The password of the shared folder: a line read from this file descriptor.",
            valueName: "N"))
    var descriptor: Int32?

    func validate() throws { try UnlockOptions.check(descriptor, of: "--password-fd") }

    /// The password of a new shared document: from the descriptor, or asked for on the terminal.
    ///
    /// - Throws: ``Failure`` with the status `usage` if there is neither.
    func newPassword() throws -> String {
        if let descriptor { return try SecretLine.read("the password", from: descriptor) }
        if let typed = try SecretLine.askForNew("password", "New password of the shared folder: ") {
            return typed
        }
        throw Failure.usage("--encrypt requires a password; specify it with --password-fd N.")
    }

    /// The password for joining the shared document in a folder: from the descriptor, or asked for on the terminal if the document
    /// is encrypted; `nil` if it is not.
    ///
    /// - Throws: ``Failure`` with the status `locked` if there is neither.
    func password(of transport: FolderTransport) async throws -> String? {
        if let descriptor { return try SecretLine.read("the password", from: descriptor) }
        guard try await SyncContainer.isEncrypted(in: transport) else { return nil }
        if let typed = try SecretLine.ask(
            "the password", "Password of the shared folder “\(transport.path)”: ")
        {
            return typed
        }
        throw Failure(
            sentence:
                "The shared document in “\(transport.path)” is encrypted; specify its password with --password-fd N.",
            status: .locked)
    }
}

/// The files of additional content that a replica leaves out.
struct ExcludedFilesOption: ParsableArguments {
    @Option(
        name: .customLong("exclude"),
        help: ArgumentHelp(
            "Additional content to omit: a name, or a path with * and ?; may be repeated.",
            valueName: "PATTERN"))
    var patterns: [String] = []

    /// Without patterns a replica keeps those that it has.
    func apply(to sync: SyncContainer) async throws {
        if !patterns.isEmpty { try await sync.setExcludedFiles(patterns) }
    }
}

extension DocumentSession {
    /// Opens a document, runs a body with it, saves and closes it.
    ///
    /// - Parameter reportsWaiting: Whether waiting for who has it open is said.
    static func use<Result>(
        _ path: String, _ access: Access, _ wait: WaitOption, reportsWaiting: Bool = true,
        _ body: @MainActor (DocumentSession) async throws -> Result
    ) async throws -> Result {
        let document = try await open(
            path, modelPath: nil, access: access, waiting: wait,
            reportsWaiting: reportsWaiting)
        return try await document.closing {
            let result = try await body(document)
            if access == .write { try await document.save() }
            return result
        }
    }

    /// The replica in the document's store.
    ///
    /// - Parameter inClear: Whether a protected document may be sent to a folder that is not encrypted.
    /// - Throws: `QuireError` with code `unsupported` if its store cannot be synchronized.
    func replica(
        _ transport: any SyncTransport = UnreachableTransport(), inClear: Bool = false
    ) throws -> SyncContainer {
        guard store is SQLiteStore else {
            throw QuireError(
                .unsupported,
                "“\(path)” cannot be synchronized, because every save rewrites the whole file. Convert it with “quire convert --to sqlite”.",
                file: path)
        }
        return try SyncContainer(
            coordinator: coordinator, transport: transport, allowsUnencryptedFolder: inClear)
    }

    /// The status of the replica.
    ///
    /// - Throws: `QuireError` with code `invalidState` if the document is not one.
    func syncStatus() async throws -> SyncStatus {
        if let status = try await replica().status() { return status }
        throw QuireError(
            .invalidState,
            "“\(path)” is not synchronized; run “quire sync init” or “quire sync join” first.",
            file: path)
    }

    /// The path of the shared folder that was given, or else of the one that the replica remembers.
    func sharedFolder(_ given: String?) async throws -> String {
        _ = try await syncStatus()
        if let given { return FolderTransport.place(of: given) }
        if let known = try await replica().transportDescription() { return known }
        throw QuireError(
            .invalidState,
            "The shared folder of “\(path)” is unknown; specify it with “quire sync run PATH FOLDER”.",
            file: path)
    }

    /// Sends and merges changes, or does something else that does.
    func synchronize(
        _ sync: SyncContainer,
        _ body: @MainActor (SyncContainer) async throws -> SyncResult = {
            try await $0.synchronize()
        }
    ) async throws -> SyncResult {
        let result = try await body(sync)
        if !result.isEmpty { didSaveApart() }
        return result
    }
}

extension FolderTransport {
    /// The path of a folder from the root, without going up again, as it is remembered. The folder need not exist.
    static func place(of path: String) -> String {
        let path = FileSystem.absolute(path)
        guard path.split(separator: "/").contains(where: { $0 == ".." || $0 == "." }) else {
            return path
        }
        let real = FileSystem.resolved(path)
        if real != path { return real }
        let folder = FileSystem.resolved(FileSystem.folder(of: path))
        return FileSystem.path(folder, FileSystem.name(of: path))
    }

    /// Opens the folder of a document that is synchronized already.
    ///
    /// - Throws: `QuireError` with code `storeUnavailable` if it is not there.
    static func existing(_ path: String) throws -> FolderTransport {
        do {
            return try FolderTransport(folder: path)
        } catch let error as QuireError where error.code == .notFound {
            throw QuireError(
                .storeUnavailable,
                "The shared folder “\(path)” is missing; reconnect its disk or network. Saved changes will be sent later.",
                file: path, underlying: error)
        }
    }

    /// Checks that neither of a document and a shared folder is inside the other: what carries the folder must not carry an open
    /// document.
    ///
    /// - Throws: `QuireError` with code `invalidValue`.
    static func checkApart(_ folder: String, document path: String) throws {
        try DocumentPackage.checkOutside(folder)
        func resolved(_ path: String) -> String {
            URL(fileURLWithPath: FileSystem.absolute(path)).resolvingSymlinksInPath().path
        }
        let (inner, outer) = (resolved(path), resolved(folder))
        guard (inner + "/").hasPrefix(outer + "/") else { return }
        throw QuireError(
            .invalidValue,
            "“\(path)” is in the shared folder. Move the document out; the folder is only for files of changes.",
            file: path)
    }
}

/// The transport of a replica that is only looked at.
struct UnreachableTransport: SyncTransport {
    private var error: QuireError {
        QuireError(.storeUnavailable, "The shared folder has not been opened.")
    }

    func fileNames(in folder: SyncFileName) async throws -> [String] { throw error }
    func contents(of file: SyncFileName, maximumSize: Int) async throws -> Data? { throw error }
    func create(_ file: SyncFileName, _ contents: Data) async throws -> Bool { throw error }
    func remove(_ file: SyncFileName) async throws { throw error }
    var changes: AsyncStream<Void> { AsyncStream { $0.finish() } }
}
