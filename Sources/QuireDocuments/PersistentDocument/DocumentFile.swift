import Foundation
import Logging
import Quire
internal import QuireAtomicStores
internal import QuireSQLite
internal import QuireStore

/// The file of a ``PersistentDocument``, with its path and format. Opens, creates and copies it.
///
/// All methods block; do not call them on the main queue.
struct DocumentFile: Sendable {
    /// Inserts the objects of a file into a context, in a custom format.
    typealias Reader = @Sendable (URL, ManagedObjectContext) throws -> Void
    /// Writes the objects of a context to a new file, in a custom format.
    typealias Writer = @Sendable (ManagedObjectContext, URL) throws -> Void

    var path: String
    /// The type of the store in the file; `nil` for a custom format.
    var storeType: StoreType?
    /// The model; `nil` for the one stored in the file.
    var model: ManagedObjectModel?
    /// The options of a SQLite store; those of protection for other types too.
    var options = SQLiteStoreOptions()
    /// Whether a SQLite file is opened for reading only. Others are read once, and are written only by saves.
    var isReadOnly = false
    var migration: StoreMigrationOptions?
    /// The progress of writing the file.
    var progress: Progress?
    let read: Reader
    let write: Writer
    /// Adds other stores to the coordinator of the file's store.
    let configure: @Sendable (PersistentStoreCoordinator) throws -> Void

    // MARK: - Opening

    /// Opens the file, and makes a coordinator for its store.
    func open() throws -> PersistentStoreCoordinator { try coordinator(of: openStore()) }

    private func coordinator(
        of store: any PersistentStore
    ) throws -> PersistentStoreCoordinator {
        let coordinator = PersistentStoreCoordinator(store: store)
        do { try configure(coordinator) } catch {
            coordinator.closeSaved()
            throw error
        }
        return coordinator
    }

    private func openStore() throws -> any PersistentStore {
        try FileSystem.requireStoreFile(at: path)
        switch storeType {
        case .sqlite?:
            var options = options
            options.isReadOnly = isReadOnly
            // A document opened for reading only records no history: edits are saved to a copy.
            options.isOnlyWriter = isReadOnly
            if let model, let migration {
                try SQLiteStore.migrate(at: path, to: model, migration, options)
            }
            return try SQLiteStore.open(at: path, model: model, options: options)
        case .xml?: return try open(XMLStore.self)
        case .binary?: return try open(BinaryStore.self)
        case let other?: throw unsupported(other)
        case nil:
            try requireNoProtection()
            return try FormatStore.open(
                at: path, layout: requireModel().layout(), reading: read, writing: write)
        }
    }

    private func open<Store: AtomicStore>(_ type: Store.Type) throws -> Store {
        var options = atomicOptions
        if let model, let migration {
            options.isReadOnly = isReadOnly
            try type.migrate(at: path, to: model, migration, options)
            options.isReadOnly = false
        }
        return try type.open(at: path, model: model, options: options)
    }

    private var atomicOptions: AtomicStoreOptions {
        var atomic = AtomicStoreOptions()
        atomic.configuration = options.configuration
        atomic.fileProtection = options.fileProtection
        atomic.protectionDomain = options.protectionDomain
        return atomic
    }

    /// Checks that no protection is requested, which a file in a custom format cannot have.
    private func requireNoProtection() throws {
        guard let asked = options.fileProtection, asked != .none else { return }
        throw QuireError(
            .protectionUnavailable,
            "“\(path)” cannot be protected (\(asked.rawValue)), because it has a custom format; use a SQLite, XML or binary file.",
            file: path)
    }

    /// Creates the file, which must not exist, without objects, and a coordinator for its store.
    func create() throws -> PersistentStoreCoordinator {
        let store = try createStore()
        do { return try coordinator(of: store) } catch {
            removeUnused()
            throw error
        }
    }

    private func createStore() throws -> any PersistentStore {
        let model = try requireModel()
        switch storeType {
        case .sqlite?: return try SQLiteStore.create(at: path, model: model, options: options)
        case .xml?: return try XMLStore.create(at: path, model: model, options: atomicOptions)
        case .binary?: return try BinaryStore.create(at: path, model: model, options: atomicOptions)
        case let other?: throw unsupported(other)
        case nil:
            try requireNoProtection()
            return try FormatStore.create(at: path, layout: model.layout(), writing: write)
        }
    }

    private func requireModel() throws -> ManagedObjectModel {
        if let model { return model }
        throw QuireError(
            .invalidModel,
            "“\(path)” does not contain its model; pass a model, or override managedObjectModel.",
            file: path)
    }

    private func unsupported(_ type: StoreType) -> QuireError {
        QuireError(
            .unsupported,
            "“\(path)” cannot be a document: a store of type “\(type.rawValue)” has no file; return SQLite, XML or Binary "
                + "from persistentStoreType(forFileType:).",
            file: path)
    }

    /// Removes a file that was created here and is not used.
    func removeUnused() {
        do {
            if storeType == nil {
                try FileSystem.removeFileIfPresent(path)
            } else {
                try StoreFile(at: path).destroy()
            }
        } catch {
            Logger(label: "quire.document").warning("Could not remove “\(path)”: \(error)")
        }
    }

    // MARK: - Copying

    /// Whether a store can be continued in this file, keeping the identifiers of its objects.
    func continues(_ store: any PersistentStore) -> Bool {
        storeType == nil ? store is FormatStore : store.type == storeType
    }

    /// Writes a store with unsaved changes to the file, which must not exist, and opens that.
    ///
    /// - Returns: The store of the file, which continues the other one, and the objects whose derived values have changed.
    func makeSuccessor(
        of store: any PersistentStore, applying changes: ChangeSet
    ) throws -> (store: any PersistentStore, derived: [ManagedObjectID]) {
        if let store = store as? SQLiteStore {
            let derived = try write(copyOf: store, applying: changes)
            do {
                return (
                    try SQLiteStore.open(
                        at: path, continuing: store, options: store.writingOptions), derived
                )
            } catch {
                removeUnused()
                throw error
            }
        }
        guard let store = store as? AtomicStore else { throw unsupported(store.type) }
        try progress?.checkCancelled(copying: store.path ?? path)
        let (new, derived) = try store.continued(at: path, applying: changes) {
            ($0 as? FormatStore)?.use(write)
        }
        return (new, derived)
    }

    /// Writes a store with unsaved changes to the file, which must not exist, in the format of the file.
    ///
    /// - Parameter original: The file of the store, whose permissions the new one gets; `nil` if it has none.
    func write(
        _ store: any PersistentStore, applying changes: ChangeSet, permissionsOf original: String?
    ) throws {
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        if continues(store) {
            if let store = store as? SQLiteStore {
                _ = try write(copyOf: store, applying: changes)
            } else {
                try makeSuccessor(of: store, applying: changes).store.close()
            }
            return
        }
        try withCopy(of: store, applying: changes) { copy in
            try progress?.checkCancelled(copying: store.path ?? path)
            if let storeType {
                return try copy.convert(
                    to: path, type: storeType, options: options, permissionsOf: original)
            }
            try requireNoProtection()
            let data = try FormatStore.bytes(of: copy, forFileAt: path, write)
            let permissions = try original.flatMap { try FileSystem.information(at: $0) }?
                .permissions
            try AtomicStoreFile(path: path, protection: nil)
                .create(with: data, permissions: permissions.map { $0 & 0o777 })
        }
    }

    /// Calls a closure with a store that has the contents of another one, and unsaved changes.
    private func withCopy(
        of store: any PersistentStore, applying changes: ChangeSet,
        _ body: (any PersistentStore) throws -> Void
    ) throws {
        // Their contents are in memory.
        if store is FormatStore || store is InMemoryStore, let store = store as? AtomicStore {
            return try body(InMemoryStore.holding(store.applying(changes).contents))
        }
        try TemporarySibling.buildingFile(beside: path) { temporary in
            var file = self
            file.path = temporary
            let copy = try file.makeSuccessor(of: store, applying: changes).store
            defer { try? copy.close() }
            try body(copy)
        }
    }

    /// Writes a copy of a SQLite store to a folder beside the file, saves unsaved changes to it, and gives it its final name when all
    /// of it is on disk.
    private func write(
        copyOf store: SQLiteStore, applying changes: ChangeSet
    ) throws -> [ManagedObjectID] {
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        return try TemporarySibling.buildingFile(beside: path) { temporary in
            progress?.totalUnitCount = try store.byteCount()
            try store.writeCopy(to: temporary, withoutDraft: true, progress: progress)
            try progress?.checkCancelled(copying: path)
            var derived: [ManagedObjectID] = []
            if !changes.isEmpty {
                let copy = try SQLiteStore.open(
                    at: temporary, continuing: store, options: store.writingOptions)
                do {
                    derived = try copy.save(changes)
                } catch {
                    try? copy.close()
                    throw error
                }
                try copy.close()
            }
            try FileSystem.synchronizeTree(FileSystem.folder(of: temporary))
            try SQLiteStore.moveIntoPlace(temporary, to: path)
            return derived
        }
    }
}

extension PersistentStore {
    /// Whether the file at the store's path is the one that it has open, unchanged since it was last read or written here. Saves of other
    /// processes to a SQLite database do not count as changes.
    func isFileCurrent() throws -> Bool {
        switch self {
        case let store as SQLiteStore: store.fileReplacement == nil
        case let store as AtomicStore: try store.isFileCurrent()
        default: true
        }
    }
}

extension SQLiteStore {
    /// The options of a copy that is written to.
    fileprivate var writingOptions: SQLiteStoreOptions {
        var options = storeOptions
        options.isReadOnly = false
        options.isOnlyWriter = false
        return options
    }
}

extension InMemoryStore {
    /// A store with a snapshot of another's contents, for reading only.
    fileprivate static func holding(_ contents: AtomicContents) -> InMemoryStore {
        var options = AtomicStoreOptions()
        options.isReadOnly = true
        return InMemoryStore(AtomicStoreOpening(contents: contents, file: nil, options: options))
    }
}

// MARK: - Custom formats

/// The objects of a file in a custom format. They are in memory; for each save the program writes all of them to a temporary file,
/// whose bytes replace those of the document's file, as in ``AtomicStore``.
final class FormatStore: AtomicStore, @unchecked Sendable {
    // Unchecked because its superclass is; added state is protected by a lock.

    private let writer = Lock<DocumentFile.Writer?>(nil)

    override class var storeType: StoreType { StoreType(rawValue: "DocumentFormat") }

    required init(_ opening: AtomicStoreOpening) { super.init(opening) }

    /// Sets the closure that writes the file.
    func use(_ writer: @escaping DocumentFile.Writer) { self.writer.withLock { $0 = writer } }

    override class func loadMetadata(from data: Data, path: String) throws -> StoreMetadata {
        throw QuireError(
            .unsupported,
            "“\(path)” is not a store: it has a custom format that only its program can read.",
            file: path)
    }

    override func save(_ objects: AtomicStoreObjects) throws -> Data {
        guard let path, let writer = writer.withLock({ $0 }) else {
            preconditionFailure("A FormatStore has a file and a writer before it is first saved.")
        }
        return try Self.bytes(of: InMemoryStore.holding(objects.contents), forFileAt: path, writer)
    }

    /// The bytes that a writer produces from a store's objects.
    ///
    /// - Parameter path: The file that the bytes are for: the writer gets the URL of a new file beside it, of the same name.
    static func bytes(
        of store: any PersistentStore, forFileAt path: String, _ write: DocumentFile.Writer
    ) throws -> Data {
        try TemporarySibling.buildingFile(beside: path) { temporary in
            let context = QueueConfinedContext(
                coordinator: PersistentStoreCoordinator(store: store))
            do {
                try context.performAndWait {
                    try write($0, URL(fileURLWithPath: temporary))
                }
            } catch {
                throw FileSystem.failure("write", path, thrown: error)
            }
            guard try FileSystem.informationWithoutFollowing(at: temporary)?.kind == .regular
            else {
                throw QuireError(
                    .inputOutput,
                    "“\(path)” was not saved: writeObjects(of:to:type:) did not write a file to its URL.",
                    file: path)
            }
            return try FileSystem.contents(of: temporary)
        }
    }

    // MARK: Opening

    /// Reads a file.
    static func open(
        at path: String, layout: ResolvedModel, reading read: DocumentFile.Reader,
        writing write: @escaping DocumentFile.Writer
    ) throws -> FormatStore {
        let file = AtomicStoreFile(path: path, protection: nil)
        // Another process may replace or rewrite the file while it is read.
        for _ in 0..<5 {
            try file.track()
            let loaded = Result { try load(path, layout, read) }
            if try file.isCurrent() {
                let store = FormatStore(
                    AtomicStoreOpening(
                        contents: try loaded.get(), file: file, options: AtomicStoreOptions()))
                store.use(write)
                return store
            }
        }
        throw QuireError.beingWritten(at: path)
    }

    private static func load(
        _ path: String, _ layout: ResolvedModel, _ read: DocumentFile.Reader
    ) throws -> AtomicContents {
        let store = try InMemoryStore(layout: layout, options: AtomicStoreOptions())
        let context = QueueConfinedContext(coordinator: PersistentStoreCoordinator(store: store))
        do {
            try context.performAndWait { context in
                try read(URL(fileURLWithPath: path), context)
                try context.save()
            }
        } catch let error as QuireError where error.code == .validation {
            throw invalid(path, error.message, error)
        } catch let error as DecodingError {
            throw invalid(path, error.localizedDescription, error)
        } catch {
            throw FileSystem.failure("read", path, thrown: error)
        }
        return try store.currentContents()
    }

    private static func invalid(
        _ path: String, _ reason: String, _ error: any Error
    ) -> QuireError {
        QuireError(
            .invalidFormat,
            "“\(path)” was not opened, because its content is not valid: \(reason)",
            file: path, underlying: error)
    }

    /// Creates a file without objects, which must not exist yet.
    static func create(
        at path: String, layout: ResolvedModel, writing write: @escaping DocumentFile.Writer
    ) throws -> FormatStore {
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        let empty = try InMemoryStore(layout: layout, options: AtomicStoreOptions())
        let store = FormatStore(
            AtomicStoreOpening(
                contents: try empty.currentContents(),
                file: AtomicStoreFile(path: path, protection: nil),
                options: AtomicStoreOptions()))
        store.use(write)
        try store.writeFirst()
        return store
    }
}
