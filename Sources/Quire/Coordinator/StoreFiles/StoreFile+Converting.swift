public import Foundation

extension StoreFile {
    /// Writes what the store holds into a new store, which may be of another type.
    ///
    /// The new store has a UUID of its own and carries the model; objects get primary keys in the same order. Everything
    /// else is the same: values, relationships and their orders, records, metadata of applications, and, if the store has
    /// them, Apple's version hashes. It has the permissions of the old one. If anything fails there is no new store; it
    /// appears under its name when it is whole and on disk, and only if it holds as many objects, values and references
    /// as the old one.
    ///
    /// A SQLite store keeps one owner for each member of a to-many relationship without an inverse. If the model was made
    /// of the file, such a relationship gets a to-many inverse where members have several owners. A model that was
    /// given or is carried is not changed; then the conversion fails, unless the removal is allowed.
    ///
    /// - Parameters:
    ///   - newPath: Where; there must be nothing yet.
    ///   - newType: `sqlite`, `xml` or `binary`.
    ///   - model: The model; `nil` for the one that the store carries, or else one made of its file alone.
    ///   - allowsRemoval: Whether the new store may lack what its type cannot hold.
    ///   - progress: Called with the progress, which can be cancelled.
    /// - Complexity: O(*n*) in objects and what their relationships lead to. SQLite stores are read and written with little
    ///   memory, others are in memory as a whole.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `unsupported` if the new type cannot hold the objects,
    ///   `removalDenied` if something would be missing, `incompatibleModel`, `invalidFormat`, `cancelled`, `outOfSpace` or `inputOutput`.
    public func convert(
        to newPath: String, type newType: StoreType, model: ManagedObjectModel? = nil,
        allowsRemoval: Bool = false, progress: ((Progress) -> Void)? = nil
    ) throws {
        let source = try open(model: model)
        defer { try? source.close() }
        try NewStoreFile(path: newPath, type: newType, allowsRemoval: allowsRemoval)
            .write(source, progress: progress)
    }
}

/// A store file in the making: in a folder of its own until it is whole.
struct NewStoreFile {
    let path: String
    let type: StoreType
    /// How a SQLite store is written.
    private let sqliteOptions: SQLiteStoreOptions
    private let allowsRemoval: Bool

    init(
        path: String, type: StoreType, sqliteOptions: SQLiteStoreOptions = SQLiteStoreOptions(),
        allowsRemoval: Bool = false
    ) {
        self.allowsRemoval = allowsRemoval
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
        // A protected store is converted to a protected one.
        try source.storeProtection?.writeKeybag(forStoreAt: temporary)
        let store = try create(at: temporary, layout(for: source), source.configurationName)
        let check: TransferCheck?
        do {
            let manager = MigrationManager(mappingModel: try .identity(of: source.layout.model))
            manager.allowsRemoval = allowsRemoval
            progress?(manager.progress)
            check = try manager.migrate(from: source, to: store)
        } catch {
            try? store.close()
            throw error
        }
        try store.close()
        // What a SQLite store holds was counted in its transaction; other files are written as a whole, and read back.
        if type != .sqlite, let check {
            let written = try StoreFile(at: temporary).open()
            defer { try? written.close() }
            try written.counting { try check.requireAll(in: $0, path: source.path) }
        }
        if let original = source.path {
            try SQLiteStore.copyPermissions(of: original, to: temporary)
        }
    }

    /// The model of the new store: that of the source, with what a SQLite store needs to hold all references if it was
    /// made of the file.
    private func layout(for source: any PersistentStore) throws -> ModelLayout {
        guard type == .sqlite, (source as? AtomicStore)?.hasInferredModel == true else {
            return source.layout
        }
        var model = source.layout.model
        for owner in source.layout.entities {
            for relationship in owner.relationships
            where relationship.ownerNumber == owner.number && relationship.isToMany
                && source.layout.inverse(of: relationship) == nil
            {
                if try source.hasSharedMembers(in: relationship, of: owner) {
                    model.addInverse(ofRelationship: relationship.name, of: owner.name)
                }
            }
        }
        return model == source.layout.model ? source.layout : try model.layout()
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

extension PersistentStore {
    /// The keys that seal the store's files; `nil` if the store is not protected.
    package var storeProtection: StoreProtection? {
        (self as? SQLiteStore)?.protection ?? (self as? AtomicStore)?.protection
    }

    /// Whether an object is a member of a relationship of several objects.
    fileprivate func hasSharedMembers(
        in relationship: EntityLayout.Relationship, of owner: EntityLayout
    ) throws -> Bool {
        var members: Set<UInt64> = []
        var isShared = false
        try objectIDs(matching: FetchRequest(owner.name)).forEachBatch {
            for member in try relatedObjects(of: $0, through: relationship).members
            where !members.insert(member).inserted {
                isShared = true
            }
        }
        return isShared
    }
}

extension ManagedObjectModel {
    /// Gives a relationship without an inverse a to-many one, called after both: `author_books`.
    fileprivate mutating func addInverse(ofRelationship name: String, of entity: String) {
        guard let owner = entities.firstIndex(where: { $0.name == entity }),
            let index = entities[owner].properties.firstIndex(where: { $0.name == name }),
            case .relationship(var relationship) = entities[owner].properties[index],
            let destination = entities.firstIndex(where: {
                $0.name == relationship.destinationEntityName
            })
        else { return }
        // No property of any entity has the name, so none above or below has.
        let taken = Set(entities.flatMap { $0.properties.map(\.name) })
        var inverseName = "\(entity.lowercased())_\(name)"
        while taken.contains(inverseName) { inverseName += "_" }
        var inverse = RelationshipDescription(
            name: inverseName, destination: entity, inverse: name)
        inverse.isToMany = true
        relationship.inverseName = inverseName
        relationship.deleteRule = .nullify
        entities[owner].properties[index] = .relationship(relationship)
        entities[destination].properties.append(.relationship(inverse))
    }
}
