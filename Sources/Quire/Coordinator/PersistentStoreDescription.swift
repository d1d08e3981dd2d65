public import Foundation

/// The description of a store for adding it to a coordinator: its location, type and options.
///
/// ```swift
/// var description = PersistentStoreDescription(path: "archive.xml", type: .xml)
/// description.configuration = "Archive"
/// description.isReadOnly = true
/// try coordinator.addPersistentStore(description)
/// ```
public struct PersistentStoreDescription: Sendable {
    /// The path of the store's file; `nil` for a store in memory.
    public var path: String?
    /// The URL of the store's file: ``path`` as a file URL.
    public var url: URL? {
        get { path.map { URL(fileURLWithPath: $0) } }
        // Opening reports the whole URL where it is not that of a file.
        set { path = newValue.map { $0.isFileURL ? $0.path : $0.absoluteString } }
    }
    /// The kind of store.
    public var type: StoreType
    /// The configuration of the model whose entities the store contains; `nil` for all entities.
    public var configuration: String?
    /// Whether the store is opened for reading only. It must exist then.
    public var isReadOnly = false
    /// The busy timeout of a SQLite store for other processes' writes; see ``SQLiteStoreOptions/busyTimeout``.
    public var timeout: Duration {
        get { sqliteOptions.busyTimeout }
        set { sqliteOptions.busyTimeout = newValue }
    }
    /// The class of protection that a new store in a file gets; see ``SQLiteStoreOptions/fileProtection``.
    public var fileProtection: FileProtection?
    /// The domain whose keys protect a new store; `nil` for ``ProtectionDomain/default``.
    public var protectionDomain: ProtectionDomain?
    /// Options of a SQLite store. The store is opened read-only if these or ``isReadOnly`` require it, and a
    /// ``configuration`` overrides theirs.
    public var sqliteOptions = SQLiteStoreOptions()
    /// Whether a SQLite store records saves and batch requests in its history; see ``SQLiteStoreOptions/tracksHistory``.
    public var tracksHistory: Bool {
        get { sqliteOptions.tracksHistory }
        set { sqliteOptions.tracksHistory = newValue }
    }
    /// Whether the coordinator reports changes by others in a SQLite store; see
    /// ``PersistentStoreCoordinator/remoteChanges``. Stores of other types are read as a whole when they are opened, and
    /// ignore it.
    public var postsRemoteChanges: Bool {
        get { sqliteOptions.postsRemoteChanges }
        set { sqliteOptions.postsRemoteChanges = newValue }
    }
    /// The migration of a store file created with another model; if `nil`, adding such a store fails. Stores of registered
    /// types migrate themselves.
    public var migration: StoreMigrationOptions?
    /// Whether ``PersistentContainer/loadPersistentStores(completionHandler:)`` opens the store on another thread, and returns
    /// before it is open.
    public var shouldAddStoreAsynchronously = false
    /// Options for stores of registered types.
    public var options: [String: String] = [:]

    /// Creates a description.
    public init(path: String? = nil, type: StoreType = .sqlite) {
        self.path = path
        self.type = type
    }

    /// Creates a description of the store in a file.
    public init(url: URL, type: StoreType = .sqlite) {
        self.init(type: type)
        self.url = url
    }

    /// A description of a store in memory.
    public static var inMemory: Self { Self(type: .inMemory) }

    /// Whether a store file made with another model is migrated: ``StoreMigrationOptions/migratesAutomatically`` of the
    /// ``migration``. False without a ``migration``; setting it to true creates one.
    public var shouldMigrateStoreAutomatically: Bool {
        get { migration?.migratesAutomatically ?? false }
        set {
            if migration != nil || newValue {
                migration = migration ?? StoreMigrationOptions()
                migration?.migratesAutomatically = newValue
            }
        }
    }

    /// Whether a migration may infer its mapping: ``StoreMigrationOptions/infersMappingModel`` of the ``migration``. True
    /// without a ``migration``; setting it does not by itself make a store migrate.
    public var shouldInferMappingModelAutomatically: Bool {
        get { migration?.infersMappingModel ?? true }
        set {
            if migration == nil {
                if newValue { return }
                migration = StoreMigrationOptions()
                migration?.migratesAutomatically = false
            }
            migration?.infersMappingModel = newValue
        }
    }

    /// The options of a SQLite store, including those set here.
    var effectiveSQLiteOptions: SQLiteStoreOptions {
        var options = sqliteOptions
        options.configuration = configuration ?? options.configuration
        options.isReadOnly = isReadOnly || options.isReadOnly
        if let fileProtection { options.fileProtection = fileProtection }
        if let protectionDomain { options.protectionDomain = protectionDomain }
        return options
    }

    /// The options of a store that is written as a whole.
    var effectiveAtomicOptions: AtomicStoreOptions {
        var options = AtomicStoreOptions()
        options.configuration = configuration
        options.isReadOnly = isReadOnly
        options.fileProtection = fileProtection
        options.protectionDomain = protectionDomain
        return options
    }

    /// The path of the file.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if there is none.
    func requirePath() throws -> String {
        if let path { return path }
        throw QuireError(
            .invalidValue,
            "A store of type \(type.rawValue) requires a file; specify a path in the description.")
    }
}
