public import Foundation

extension StoreFile {
    /// Writes what the store holds into a new store, which may be of another type.
    ///
    /// The new store has a UUID of its own and carries the model; objects get primary keys in the same order. Everything
    /// else is the same: values, relationships and their orders, records, metadata of applications, and, if the store has
    /// them, Apple's version hashes. It has the permissions of the old one. If anything fails there is no new store; it
    /// appears under its name when it is whole and on disk.
    ///
    /// - Parameters:
    ///   - newPath: Where; there must be nothing yet.
    ///   - newType: `sqlite`, `xml` or `binary`.
    ///   - model: The model; `nil` for the one that the store carries, or else one made of its file alone.
    ///   - manager: Has the progress, which can be cancelled.
    /// - Complexity: O(*n*) in objects and what their relationships lead to. SQLite stores are read and written with little
    ///   memory, others are in memory as a whole.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `unsupported` if the new type cannot hold the objects,
    ///   `incompatibleModel`, `invalidFormat`, `cancelled`, `outOfSpace` or `inputOutput`.
    public func convert(
        to newPath: String, type newType: StoreType, model: ManagedObjectModel? = nil,
        progress: ((Progress) -> Void)? = nil
    ) throws {
        let source = try open(model: model)
        defer { try? source.close() }
        try NewStoreFile(path: newPath, type: newType).write(source, progress: progress)
    }
}

/// A store file in the making: in a folder of its own until it is whole.
struct NewStoreFile {
    let path: String
    let type: StoreType
    /// How a SQLite store is written.
    private let sqliteOptions: SQLiteStoreOptions

    init(
        path: String, type: StoreType, sqliteOptions: SQLiteStoreOptions = SQLiteStoreOptions()
    ) {
        self.path = FileSystem.absolute(path)
        self.type = type
        self.sqliteOptions = sqliteOptions
    }

    /// Writes a copy of a store.
    func write(_ source: any PersistentStore, progress: ((Progress) -> Void)? = nil) throws {
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        let sibling = try TemporarySibling.makeFolder(beside: path)
        defer { sibling.remove() }
        let temporary = FileSystem.path(sibling.path, FileSystem.name(of: path))
        try sibling.building {
            try FileSystem.building(path, as: temporary) {
                try fill(temporary, from: source, progress: progress)
                try FileSystem.synchronizeTree(sibling.path)
                try SQLiteStore.moveIntoPlace(temporary, to: path)
            }
        }
    }

    private func fill(
        _ temporary: String, from source: any PersistentStore, progress: ((Progress) -> Void)?
    ) throws {
        let store = try create(at: temporary, source.layout, source.configurationName)
        do {
            let manager = MigrationManager(mappingModel: try .identity(of: source.layout.model))
            progress?(manager.progress)
            try manager.migrateStore(from: source, to: store)
        } catch {
            try? store.close()
            throw error
        }
        try store.close()
        if let original = source.path {
            try SQLiteStore.copyPermissions(of: original, to: temporary)
        }
    }

    private func create(
        at path: String, _ layout: ModelLayout, _ configuration: String?
    ) throws -> any PersistentStore {
        var options = AtomicStoreOptions()
        options.configuration = configuration
        switch type {
        case .sqlite:
            var options = sqliteOptions
            options.isReadOnly = false
            options.configuration = configuration
            return try SQLiteStore.create(at: path, layout: layout, options: options)
        case .xml: return try XMLStore.create(at: path, layout: layout, options: options)
        case .binary: return try BinaryStore.create(at: path, layout: layout, options: options)
        default:
            throw QuireError(
                .unsupported,
                "There are no files of type “\(type.rawValue)”; choose SQLite, XML or Binary.",
                subject: .init(file: path))
        }
    }
}
