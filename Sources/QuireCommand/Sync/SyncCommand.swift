import ArgumentParser
import Foundation
import Quire
import QuireDocuments
import QuireSQLite
import QuireSync

/// `quire sync …`
struct SyncCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync",
        abstract: "Synchronizes a document between machines through a shared folder.",
        discussion: """
            Another tool transfers the folder, such as Syncthing, Nextcloud or rclone, or the \
            folder is on a network share or a disk. The document stays outside the folder and works \
            with or without it. Each machine adds files with its changes to the folder and merges \
            those of the others, property by property. Of two concurrent values the later one is \
            kept; the other is listed as a conflict until it is resolved.

            Objects, large values and additional content are synchronized; versions are not. The \
            folder is encrypted only if the shared document was created with quire sync init \
            --encrypt. A protected document is synchronized only through an encrypted folder, \
            unless you specify --in-clear each time. A copy of a replica becomes another replica \
            when it is synchronized.

            EXAMPLES:
              quire sync init Library.quire ~/Sync/Library
              quire sync join ~/Sync/Library Library.quire
              quire sync run Library.quire
              quire sync watch Library.quire
              quire sync conflicts Library.quire
              quire sync ignore ~/Sync
            """,
        subcommands: [
            SyncInitCommand.self, SyncJoinCommand.self, SyncRunCommand.self, SyncWatchCommand.self,
            SyncStatusCommand.self, SyncConflictsCommand.self, SyncResolveCommand.self,
            SyncRepairCommand.self, SyncRebuildCommand.self, SyncRetireCommand.self,
            SyncLeaveCommand.self, SyncIgnoreCommand.self,
        ])
}

/// `quire sync init PATH FOLDER`
struct SyncInitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Shares a document through a folder, and sends all its objects.",
        discussion: """
            The folder is created if it does not exist, and its path is recorded in the store. A \
            folder contains one shared document. From then on the store records a history, so that \
            changes saved by any program are sent.

            With --encrypt all files in the folder and their names are encrypted with a password, \
            read from the terminal or the descriptor of --password-fd. Each machine needs it once, \
            to join. The key is then in its store; quire protect encrypts the store. Without the \
            password or a replica the folder cannot be decrypted. The service that transfers the \
            folder still sees the number, sizes and times of files.

            A document's additional content is synchronized with its objects; --exclude omits files \
            on this machine.

            EXAMPLES:
              quire sync init Library.quire ~/Sync/Library
              quire sync init Library.quire ~/Sync/Library --exclude cache --exclude '*.tmp'
              quire sync init Recipes.sqlite /mnt/share/Recipes --name Recipes
              quire sync init Library.quire ~/Sync/Library --encrypt
              quire sync init Library.quire ~/Sync/Library --encrypt --password-fd 3 3< password
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("The shared folder.", valueName: "FOLDER"))
    var folder: String

    @Option(
        help: ArgumentHelp(
            "The name of the shared document; the name of PATH by default.", valueName: "NAME"))
    var name: String?

    @Flag(help: "Encrypt the files in the folder with a password.")
    var encrypt = false

    @OptionGroup var excluding: ExcludedFilesOption
    @OptionGroup var password: FolderPasswordOption
    @OptionGroup var options: SyncOptions

    func validate() throws {
        if name?.isEmpty == true { throw ValidationError("--name requires a name.") }
        if password.descriptor != nil, !encrypt {
            throw ValidationError("--password-fd requires --encrypt.")
        }
    }

    @MainActor
    func run() async throws {
        try options.unlock.unlock(path)
        let name = name ?? (FileSystem.name(of: path) as NSString).deletingPathExtension
        let folder = FolderTransport.place(of: folder)
        let password = try encrypt ? password.newPassword() : nil
        let (status, count, result) = try await DocumentSession.use(path, .write, options.wait) {
            document in
            // Before anything is made.
            if try await document.replica().status() != nil { throw synchronizedAlready }
            try FolderTransport.checkApart(folder, document: path)
            if !encrypt, !options.inClear { try document.checkProtection() }
            let sync = try document.replica(
                FolderTransport(folder: folder, creates: true), inClear: options.inClear)
            try await sync.create(named: name, password: password)
            try await excluding.apply(to: sync)
            try await sync.setTransportDescription(folder)
            let result = try await document.synchronize(sync)
            return (try await document.syncStatus(), try document.store.objectCount(), result)
        }
        result.reportProblems()
        try options.printResult(
            [
                "Created the \(encrypt ? "encrypted " : "")shared document “\(name)” in \(folder): \(Count.of(count, "object")), \(Count.of(result.sentCount, "file")) sent."
            ]
        ) {
            var members = result.members
            members["path"] = .string(path)
            members["folder"] = .string(folder)
            members["name"] = .string(name)
            members["encrypted"] = .boolean(status.isEncrypted)
            members["container"] = .string(status.container.description)
            members["objects"] = .integer(Int64(count))
            return .object(members)
        }
    }

    private var synchronizedAlready: QuireError {
        QuireError(
            .invalidState,
            "“\(path)” is already synchronized. To share it through another folder, run “quire sync leave” first.",
            file: path)
    }
}

/// `quire sync join FOLDER PATH`
struct SyncJoinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "join",
        abstract: "Creates a replica of the shared document in a folder.",
        discussion: """
            If PATH does not exist, it is created with the model in the folder: a document if its \
            name ends in .quire, otherwise a SQLite store. An existing document is merged with the \
            shared one. The path of the folder is recorded in the store. If the shared document is \
            encrypted, its password is read from the terminal or the descriptor of --password-fd.

            EXAMPLES:
              quire sync join ~/Sync/Library Library.quire
              quire sync join ~/Sync/Library Library.quire --password-fd 3 3< password
              quire sync join /mnt/share/Recipes Recipes.sqlite
            """)

    @Argument(help: ArgumentHelp("The shared folder.", valueName: "FOLDER"))
    var folder: String

    @Argument(
        help: ArgumentHelp(
            "A document or a SQLite store; created if it does not exist.", valueName: "PATH")
    )
    var path: String

    @OptionGroup var excluding: ExcludedFilesOption
    @OptionGroup var password: FolderPasswordOption
    @OptionGroup var options: SyncOptions

    @MainActor
    func run() async throws {
        let folder = FolderTransport.place(of: folder)
        try FolderTransport.checkApart(folder, document: path)
        let transport = try FolderTransport(folder: folder)
        let isNew = !FileSystem.exists(path)
        let joined =
            if isNew {
                try await make(transport)
            } else {
                try await joinExisting(transport)
            }
        joined.result.reportProblems()
        let made = isNew ? "Created \(path) as a replica" : "\(path) is a replica"
        try options.printResult(
            [
                "\(made) of the shared document in \(folder): \(Count.of(joined.count, "object")); \(joined.result.text)."
            ]
        ) {
            var members = joined.result.members
            members["path"] = .string(path)
            members["folder"] = .string(folder)
            members["container"] = .string(joined.status.container.description)
            members["made"] = .boolean(isNew)
            members["encrypted"] = .boolean(joined.status.isEncrypted)
            members["objects"] = .integer(Int64(joined.count))
            return .object(members)
        }
    }

    private typealias Joined = (status: SyncStatus, count: Int, result: SyncResult)

    @MainActor
    private func joinExisting(_ transport: FolderTransport) async throws -> Joined {
        try options.unlock.unlock(path)
        // One that is a replica already has the key.
        let isReplica = try await DocumentSession.use(path, .read, options.wait) { document in
            try await document.replica().status() != nil
        }
        return try await join(
            path, transport, isReplica ? nil : password.password(of: transport))
    }

    @MainActor
    private func join(
        _ path: String, _ transport: FolderTransport, _ password: String?
    ) async throws -> Joined {
        try options.unlock.unlock(path)
        return try await DocumentSession.use(path, .write, options.wait) { document in
            let sync = try document.replica(transport, inClear: options.inClear)
            try await sync.join(password: password)
            try await excluding.apply(to: sync)
            let status = try await document.syncStatus()
            try await sync.setTransportDescription(transport.path)
            let result = try await document.synchronize(sync)
            return (status, try document.store.objectCount(), result)
        }
    }

    /// Makes a replica in a folder beside its path, which it gets when it is complete.
    @MainActor
    private func make(_ transport: FolderTransport) async throws -> Joined {
        try DocumentPackage.checkOutside(path)
        let password = try await password.password(of: transport)
        let model = try await SyncContainer.model(in: transport, password: password)
        let place = FileSystem.absolute(path)
        let sibling = try TemporarySibling.makeFolder(beside: place)
        defer { sibling.remove() }
        let temporary = FileSystem.path(sibling.path, FileSystem.name(of: place))
        do {
            let isPackage = (place as NSString).pathExtension == "quire"
            if isPackage {
                let document = ManagedDocument(path: temporary)
                try await document.create(model: model)
                try await document.close()
            } else {
                try SQLiteStore.create(at: temporary, model: model).close()
            }
            let joined = try await join(temporary, transport, password)
            try FileSystem.synchronizeTree(sibling.path)
            if isPackage {
                try TerminationCleanup.uninterrupted {
                    try FileSystem.renameWithoutReplacing(temporary, to: place)
                }
                try FileSystem.synchronizeFolder(containing: place)
            } else {
                try TerminationCleanup.uninterrupted {
                    try SQLiteStore.moveIntoPlace(temporary, to: place)
                }
            }
            return joined
        } catch {
            // Named by the path that was asked for.
            return try FileSystem.building(path, as: temporary) { throw error }
        }
    }
}

/// `quire sync leave PATH`
struct SyncLeaveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "leave",
        abstract: "Stops synchronizing a document.",
        discussion: """
            Its objects, the files in the shared folder and the other replicas do not change. \
            Unsent changes are not sent, and the list of conflicts is discarded. With --everywhere \
            the shared document is removed from the folder, and the other replicas leave the next \
            time they read it.

            EXAMPLES:
              quire sync run Library.quire && quire sync leave Library.quire
              quire sync leave Library.quire --everywhere
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @Flag(help: "Remove the shared document from the folder, for all replicas.")
    var everywhere = false

    @OptionGroup var options: SyncOptions

    @MainActor
    func run() async throws {
        try options.unlock.unlock(path)
        let (status, count) = try await DocumentSession.use(path, .write, options.wait) {
            document in
            let status = try await document.syncStatus()
            let count = try document.store.objectCount()
            if everywhere {
                let transport = try FolderTransport.existing(await document.sharedFolder(nil))
                try await document.replica(transport).removeSyncedContent()
            } else {
                // The folder may be away for good.
                let transport = try? FolderTransport(folder: await document.sharedFolder(nil))
                try await document.replica(transport ?? UnreachableTransport())
                    .removeSyncMetadata()
            }
            document.didSaveApart()
            return (status, count)
        }
        let hasUnsent = status.outgoingCount > 0 || status.hasNewChanges
        try options.printResult(
            [
                "\(path) is a local document again and keeps its \(count == 1 ? "object" : "\(count) objects")."
                    + (everywhere ? " The shared document was removed from the folder." : "")
                    + (hasUnsent ? " The latest changes were not sent." : "")
            ]
        ) {
            .object([
                "path": .string(path), "container": .string(status.container.description),
                "objects": .integer(Int64(count)), "hadUnsentChanges": .boolean(hasUnsent),
                "everywhere": .boolean(everywhere),
            ])
        }
    }
}

extension DocumentSession {
    /// Throws if the document is protected.
    func checkProtection() throws {
        if let store = store as? SQLiteStore { try SyncContainer.checkProtection(of: store) }
    }
}

extension SyncResult {
    /// Says on standard error which files could not be merged, and why.
    func reportProblems() {
        for sentence in problems.sentences { Output.report(sentence) }
    }
}

/// `quire sync ignore FOLDER`
struct SyncIgnoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ignore",
        abstract: "Tells Syncthing which files of documents and stores to ignore.",
        discussion: """
            For a Syncthing folder that contains documents or stores themselves. An open document \
            has files that must stay on its machine: another machine's write-ahead log would damage \
            the store. Adds patterns for them at the beginning of the folder's .stignore, between \
            two marker lines. Run it on every machine: Syncthing does not transfer that file.

            Such documents are transferred completely only while they are closed. Keep a document \
            that is edited on two machines outside the folder, and use sync init and sync join.

            EXAMPLES:
              quire sync ignore ~/Sync
              quire sync ignore ~/Sync --document-extension recipes --store-extension storedata
            """)

    @Argument(help: ArgumentHelp("The folder that Syncthing synchronizes.", valueName: "FOLDER"))
    var folder: String

    @Option(
        help: ArgumentHelp(
            "Additional file extension of documents, besides quire.", valueName: "EXTENSION"))
    var documentExtension: [String] = []

    @Option(
        help: ArgumentHelp(
            "Additional file extension of stores, besides sqlite, sqlite3, db and store.",
            valueName: "EXTENSION"))
    var storeExtension: [String] = []

    @OptionGroup var printing: JSONOption

    func run() throws {
        let place = FolderTransport.place(of: folder)
        try DocumentPackage.checkOutside(
            FileSystem.path(place, SyncIgnorePatterns.syncthingFileName))
        let patterns = try SyncIgnorePatterns(
            documentExtensions: SyncIgnorePatterns.documentExtensions + documentExtension,
            storeExtensions: SyncIgnorePatterns.storeExtensions + storeExtension)
        let added = try patterns.writeSyncthingIgnoreFile(in: place)
        let file = FileSystem.path(folder, SyncIgnorePatterns.syncthingFileName)
        let sentence =
            added.isEmpty
            ? "\(file) already contains all patterns."
            : "Added \(Count.of(added.count, "pattern")) to \(file)."
        try printing.printResult(levels: 2, [sentence]) {
            .object(["file": .string(file), "added": .array(added.map { .string($0) })])
        }
    }
}
