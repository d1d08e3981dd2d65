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
        abstract: "Keeps a document the same on several machines, through a shared folder.",
        discussion: """
            The folder is carried by something else: Syncthing, Nextcloud, rclone, a network share, a disk. A document stays \
            where it is, outside of the folder, and is used as any other, with or without the folder. Each machine adds files \
            with its changes to the folder, and merges those of the others, property by property. Of two values that were set \
            without knowledge of each other the later one stays, and the other is listed until somebody resolves it.

            Objects are synchronized, with their large values; a document's additional content and its versions are not. What \
            is sent is encrypted only if the shared document was made with quire sync init --encrypt. A protected document is \
            synchronized through an encrypted folder only, unless --in-clear is given each time. A copy of a replica becomes \
            a replica of its own when it is synchronized.

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
        abstract: "Makes a shared document in a folder from a document, and sends all objects.",
        discussion: """
            The folder is made if it is missing, and remembered. It is for one shared document. The store keeps a history from \
            then on, in which changes are found, whichever program saves them.

            With --encrypt all files in the folder are encrypted, their names as well, with a password that is asked for on the \
            terminal, or read from the descriptor of --password-fd. Each machine needs it once, to join; then the key is in its \
            store, which quire protect protects. Without the password and without a replica nobody can read the folder again. \
            Whoever carries it still learns the number and sizes of files, and when they come and go.

            A document's additional content is synchronized with its objects. --exclude leaves files out on this machine.

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
            "The name of the shared document; that of PATH if not given.", valueName: "NAME"))
    var name: String?

    @Flag(help: "Encrypt the files in the folder with a password.")
    var encrypt = false

    @OptionGroup var excluding: ExcludedFilesOption
    @OptionGroup var password: FolderPasswordOption
    @OptionGroup var options: SyncOptions

    func validate() throws {
        if name?.isEmpty == true { throw ValidationError("--name takes a name.") }
        if password.descriptor != nil, !encrypt {
            throw ValidationError("--password-fd is for --encrypt.")
        }
    }

    @MainActor
    func run() async throws {
        let output = Output(json: options.json, reportsChanges: true)
        try options.unlock.unlock(path)
        let name = name ?? (FileSystem.name(of: path) as NSString).deletingPathExtension
        let folder = FolderTransport.place(of: folder)
        let password = try encrypt ? password.newPassword() : nil
        let (status, count, result) = try await DocumentSession.use(path, .write, options) {
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
            return (try await document.syncStatus(), try document.objectCount(), result)
        }
        result.reportProblems()
        if options.json {
            var members = result.members
            members["path"] = .string(path)
            members["folder"] = .string(folder)
            members["name"] = .string(name)
            members["encrypted"] = .boolean(status.isEncrypted)
            members["container"] = .string(status.container.description)
            members["objects"] = .integer(Int64(count))
            try output.print(.object(members), levels: 1)
        } else {
            try output.print(
                "Made the \(encrypt ? "encrypted " : "")shared document “\(name)” in \(folder): \(Count.of(count, "object")), \(Count.of(result.sentCount, "file")) sent."
            )
        }
        try output.flush()
    }

    private var synchronizedAlready: QuireError {
        QuireError(
            .invalidState,
            "“\(path)” is synchronized already; to make another shared document of it, leave that one first.",
            subject: .init(file: path))
    }
}

/// `quire sync join FOLDER PATH`
struct SyncJoinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "join",
        abstract: "Makes a document a replica of the shared one in a folder.",
        discussion: """
            If there is nothing at PATH, a document is made there, with the model that the folder has, if its name ends in \
            .quire, or else a SQLite store. A document that is there is merged with the shared one: both get what the other \
            has, and nothing is lost. The folder is remembered. If the shared document is encrypted, its password is asked for on \
            the terminal, or read from the descriptor of --password-fd.

            EXAMPLES:
              quire sync join ~/Sync/Library Library.quire
              quire sync join ~/Sync/Library Library.quire --password-fd 3 3< password
              quire sync join /mnt/share/Recipes Recipes.sqlite
            """)

    @Argument(help: ArgumentHelp("The shared folder.", valueName: "FOLDER"))
    var folder: String

    @Argument(
        help: ArgumentHelp("A document or a SQLite store, or where to make one.", valueName: "PATH")
    )
    var path: String

    @OptionGroup var excluding: ExcludedFilesOption
    @OptionGroup var password: FolderPasswordOption
    @OptionGroup var options: SyncOptions

    @MainActor
    func run() async throws {
        let output = Output(json: options.json, reportsChanges: true)
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
        if options.json {
            var members = joined.result.members
            members["path"] = .string(path)
            members["folder"] = .string(folder)
            members["container"] = .string(joined.status.container.description)
            members["made"] = .boolean(isNew)
            members["encrypted"] = .boolean(joined.status.isEncrypted)
            members["objects"] = .integer(Int64(joined.count))
            try output.print(.object(members), levels: 1)
        } else {
            let made = isNew ? "Made \(path) as a replica" : "\(path) is a replica"
            try output.print(
                "\(made) of the shared document in \(folder): \(Count.of(joined.count, "object")); \(joined.result.text)."
            )
        }
        try output.flush()
    }

    private struct Joined {
        let status: SyncStatus
        let count: Int
        let result: SyncResult
    }

    @MainActor
    private func joinExisting(_ transport: FolderTransport) async throws -> Joined {
        try options.unlock.unlock(path)
        // One that is a replica already has the key.
        let isReplica = try await DocumentSession.use(path, .read, options) { document in
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
        return try await DocumentSession.use(path, .write, options) { document in
            let sync = try document.replica(transport, inClear: options.inClear)
            try await sync.join(password: password)
            try await excluding.apply(to: sync)
            let status = try await document.syncStatus()
            try await sync.setTransportDescription(transport.path)
            let result = try await document.synchronize(sync)
            return Joined(status: status, count: try document.objectCount(), result: result)
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
        abstract: "Makes a document a local one again.",
        discussion: """
            Its objects stay as they are, and so do the files in the shared folder and the other replicas. What has not been \
            sent is not sent any more, and the list of conflicts is dropped. With --everywhere the shared document is removed \
            from the folder, and the others leave as well when they look at it the next time.

            EXAMPLES:
              quire sync run Library.quire && quire sync leave Library.quire
              quire sync leave Library.quire --everywhere
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @Flag(help: "Remove the shared document from the folder, for all.")
    var everywhere = false

    @OptionGroup var options: SyncOptions

    @MainActor
    func run() async throws {
        let output = Output(json: options.json, reportsChanges: true)
        try options.unlock.unlock(path)
        let (status, count) = try await DocumentSession.use(path, .write, options) { document in
            let status = try await document.syncStatus()
            let count = try document.objectCount()
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
        if options.json {
            try output.print(
                .object([
                    "path": .string(path), "container": .string(status.container.description),
                    "objects": .integer(Int64(count)), "hadUnsentChanges": .boolean(hasUnsent),
                    "everywhere": .boolean(everywhere),
                ]), levels: 1)
        } else {
            try output.print(
                "\(path) is a local document again; \(count == 1 ? "its object stays" : "its \(count) objects stay")."
                    + (everywhere ? " The shared document was removed from the folder." : "")
                    + (hasUnsent ? " Its last changes were not sent." : ""))
        }
        try output.flush()
    }
}

extension DocumentSession {
    /// The number of objects.
    func objectCount() throws -> Int {
        try layout.entities.filter { $0.number == $0.rootNumber }
            .reduce(0) { try $0 + store.count(matching: FetchSpecification($1.name)) }
    }

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
