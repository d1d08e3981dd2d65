public import Foundation
internal import QuireAtomicStores
internal import QuireSQLite

/// A store's file, which need not be open: its type, its metadata, and operations on it as a whole.
///
/// ```swift
/// let file = try StoreFile(at: "Requests.paw")
/// print(file.type.rawValue, try file.metadata().storeUUID)
/// try file.convert(to: "requests.sqlite", type: .sqlite)
/// ```
///
/// Usable from any thread.
public struct StoreFile: Sendable {
    /// The path, from the root.
    public let path: String
    /// The type of the store, detected by its first bytes.
    public let type: StoreType

    /// Detects a file's type.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` if it is not a store of this framework, or `inputOutput`.
    public init(at path: String) throws {
        let path = FileSystem.absolute(path)
        try FileSystem.requireStoreFile(at: path)
        self.path = path
        type = try Self.type(of: path)
    }

    /// Detects the type of a URL's file; see ``init(at:)-(String)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or as that initializer.
    public init(at url: URL) throws { try self.init(at: FileSystem.path(of: url)) }

    /// The maximum number of bytes of an XML file before the first element, which identifies a store.
    private static let headSize: Int64 = 4096

    private static func type(of path: String) throws -> StoreType {
        // A new open store may have only its log.
        if OpenDatabaseRegistry.contains(path) { return .sqlite }
        let domain = try StoreProtection.domain(ofStoreAt: path)
        let file = try OpenFile.open(path, for: .reading)
        defer { file.close() }
        var head = try file.read(Int(min(file.information().size, headSize)), at: 0)
        if domain != nil {
            // A SQLite database is encrypted page by page, other stores as a whole.
            guard SealedFileHeader.isSealed(head) else { return .sqlite }
            let sealed = try ContentFile(
                file, unsealing: StoreProtection.find(forStoreAt: path)?.classKey)
            head = [UInt8](try sealed.readAll().prefix(Int(headSize)))
        }
        if head.starts(with: Array("SQLite format 3\0".utf8)) { return .sqlite }
        if head.starts(with: Array("CoreData".utf8)) { return .binary }
        let text = String(decoding: head, as: UTF8.self)
        if text.contains("<database>") || text.contains("<!DOCTYPE database") { return .xml }
        if head.isEmpty && domain == nil {
            throw QuireError(
                .invalidFormat,
                "“\(path)” is empty, so it is neither a store nor an archive. Download or copy it again, or restore it from a backup.",
                file: path)
        }
        var message =
            "“\(path)” is not a store: it is neither a SQLite database nor a Core Data XML or binary file"
        if domain == nil,
            SealedFileHeader.isSealed(head) || (try? StoreProtection.checkIsSealed(path)) != nil
        {
            message +=
                "; or it is protected, and its keybag “\(StoreProtection.keybag(ofStoreAt: path).path)” is missing"
        }
        throw QuireError(.invalidFormat, message + ".", file: path)
    }

    // MARK: - Looking

    /// The store's metadata, read without opening it as a store: its objects are not read, its model is not needed.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if the file is damaged, or `inputOutput`.
    public func metadata() throws -> StoreMetadata {
        switch type {
        case .xml: try XMLStore.metadata(at: path)
        case .binary: try BinaryStore.metadata(at: path)
        default: try SQLiteStore.metadata(at: path)
        }
    }

    /// Opens the store with the given model, or else the one it contains, or else, for reading only, one inferred from its
    /// file.
    ///
    /// - Parameters:
    ///   - model: The model; `nil` for the model in the store.
    ///   - isReadOnly: Whether saving is disallowed.
    /// - Throws: As ``PersistentStoreCoordinator/addPersistentStore(_:)``.
    public func open(
        model: ManagedObjectModel? = nil, isReadOnly: Bool = true
    ) throws -> any PersistentStore {
        try open(model: model, isReadOnly: isReadOnly, lockWait: nil)
    }

    /// Opens the store.
    ///
    /// - Parameter lockWait: The wait for other processes' locks. A store that is written as a whole is then locked while it is
    ///   open for writing.
    package func open(
        model: ManagedObjectModel?, isReadOnly: Bool, lockWait: FileLockWait?,
        postsRemoteChanges: Bool = false, verifiesExternalData: Bool = false
    ) throws -> any PersistentStore {
        var atomic = AtomicStoreOptions()
        atomic.isReadOnly = isReadOnly
        atomic.lockWait = lockWait
        switch type {
        case .xml:
            return try open(XMLStore.self, model, atomic, XMLStore.inferredModel(of:path:))
        case .binary:
            return try open(BinaryStore.self, model, atomic, BinaryStore.inferredModel(of:path:))
        default:
            var options = SQLiteStoreOptions()
            options.isReadOnly = isReadOnly
            options.infersModel = isReadOnly
            options.lockWait = lockWait
            options.postsRemoteChanges = postsRemoteChanges
            options.verifiesExternalData = verifiesExternalData
            return try SQLiteStore.open(at: path, model: model, options: options)
        }
    }

    private func open<Store: AtomicStore>(
        _ type: Store.Type, _ model: ManagedObjectModel?, _ options: AtomicStoreOptions,
        _ inferredModel: @escaping ModelOfFile
    ) throws -> Store {
        try type.open(
            at: path, model: model, layout: nil, options: options,
            inferringModel: options.isReadOnly ? inferredModel : nil)
    }

    // MARK: - As a whole

    /// Removes the store, with its log and its external data.
    ///
    /// - Throws: ``QuireError`` with code `locked` if it is open, `readOnly` or `inputOutput`.
    public func destroy() throws {
        if type == .sqlite { return try SQLiteStore.destroy(at: path) }
        let path = StorePath.resolvingLink(path)
        try FileSystem.removeFile(path)
        try FileSystem.synchronizeFolder(containing: path)
        try StoreProtection.removeKeybag(ofStoreAt: path)
    }

    /// Replaces this store by a copy of another of the same type. The copy has the other's UUID and model.
    ///
    /// At every instant, also after a crash or power loss, either the old or the new store is complete.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if the other store is of another type, `locked` if this one is
    ///   open, `protectionUnavailable` if the other one is protected with other keys than this one, `invalidFormat`,
    ///   `outOfSpace`, `readOnly` or `inputOutput`.
    public func replace(with other: StoreFile) throws {
        guard type == other.type else {
            throw QuireError(
                .unsupported,
                "“\(other.path)” is a store of type \(other.type.rawValue), “\(path)” one of type \(type.rawValue); "
                    + "convert it to the same type first.",
                file: other.path)
        }
        if type == .sqlite {
            return try SQLiteStore.replace(at: path, withStoreAt: other.path)
        }
        // Reads and checks all of it: an unreadable store must not replace a readable one.
        try other.open().close()
        let (mine, theirs) = try (
            StoreProtection.find(forStoreAt: path), StoreProtection.find(forStoreAt: other.path)
        )
        if let theirs, theirs.domain.identifier != mine?.domain.identifier {
            throw StoreProtection.otherKeysError(path)
        }
        var data = try FileSystem.contents(of: other.path)
        if let mine, theirs == nil { data = try mine.classKey.sealed(data, path: path) }
        try AtomicFileReplace.replace(path, with: data)
    }
}

// MARK: - Converting

extension StoreFile {
    /// Writes the store's contents to a new store, possibly of another type.
    ///
    /// The new store has a new UUID and contains the model; objects get primary keys in the same order. Everything else is the
    /// same: values, relationships and their orders, records, applications' metadata, and Apple's version hashes, if present.
    /// It has the permissions of the old one. On an error no new store is created; it is renamed into place when it is complete
    /// and on disk, and only if it has as many objects, values and references as the old one.
    ///
    /// A SQLite store keeps one owner for each member of a to-many relationship without an inverse. If the model was inferred
    /// from the file, such a relationship gets a to-many inverse where members have several owners. A given or contained model
    /// is not changed; then the conversion fails, unless the removal is allowed.
    ///
    /// - Parameters:
    ///   - newPath: The path, which must not exist yet.
    ///   - newType: `sqlite`, `xml` or `binary`.
    ///   - model: The model; `nil` for the model in the store, or else one inferred from its file.
    ///   - allowsRemoval: Whether contents that the new type cannot represent may be removed.
    ///   - fileProtection: The protection class of the new store; `nil` for that of the old one.
    ///   - protectionDomain: The domain that unlocks it if the old one is not protected; `nil` for the process's.
    ///   - progress: Called with the progress, which can be cancelled.
    /// - Complexity: O(*n*) in objects and their relationships' contents. SQLite stores are streamed with little memory, other
    ///   stores are in memory as a whole.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `unsupported` if the new type cannot represent the objects,
    ///   `removalDenied` if contents would be lost, `incompatibleModel`, `invalidFormat` also if external data was changed
    ///   after it was saved, `protectionUnavailable`, `cancelled`, `outOfSpace` or `inputOutput`.
    public func convert(
        to newPath: String, type newType: StoreType, model: ManagedObjectModel? = nil,
        allowsRemoval: Bool = false, fileProtection: FileProtection? = nil,
        protectionDomain: ProtectionDomain? = nil, progress: ((Progress) -> Void)? = nil
    ) throws {
        let source = try open(
            model: model, isReadOnly: true, lockWait: nil, verifiesExternalData: true)
        defer { try? source.close() }
        var options = SQLiteStoreOptions()
        (options.fileProtection, options.protectionDomain) = (fileProtection, protectionDomain)
        try NewStoreFile(
            path: newPath, type: newType, sqliteOptions: options, allowsRemoval: allowsRemoval
        ).write(source, progress: progress)
    }

    /// Creates a store file with a model, and lets a closure fill it before it gets its name. On an error there is no file.
    package static func create(
        at path: String, type: StoreType, model: ManagedObjectModel,
        filling body: (any PersistentStore) throws -> Void
    ) throws {
        try NewStoreFile(path: path, type: type).write(model, filling: body)
    }

    /// Writes the store's contents to a new store at a URL; see
    /// ``convert(to:type:model:allowsRemoval:fileProtection:protectionDomain:progress:)-(String,_,_,_,_,_,_)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or as that method.
    public func convert(
        to url: URL, type newType: StoreType, model: ManagedObjectModel? = nil,
        allowsRemoval: Bool = false, fileProtection: FileProtection? = nil,
        protectionDomain: ProtectionDomain? = nil, progress: ((Progress) -> Void)? = nil
    ) throws {
        try convert(
            to: FileSystem.path(of: url), type: newType, model: model,
            allowsRemoval: allowsRemoval, fileProtection: fileProtection,
            protectionDomain: protectionDomain, progress: progress)
    }
}

/// A store file being written: in its own folder until it is complete.
struct NewStoreFile {
    let path: String
    let type: StoreType
    /// The options for writing a SQLite store; those of protection for other types too.
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
    ///
    /// - Parameter original: The file whose permissions the copy gets; `nil` for that of the store, if it has one.
    func write(
        _ source: any PersistentStore, permissionsOf original: String? = nil,
        progress: ((Progress) -> Void)? = nil
    ) throws {
        try building { temporary in
            try fill(
                temporary, from: source, permissionsOf: original ?? source.path,
                progress: progress)
        }
    }

    /// Writes a store that a closure fills.
    func write(
        _ model: ManagedObjectModel, filling body: (any PersistentStore) throws -> Void
    ) throws {
        let layout = try model.layout()
        try building { temporary in
            let store = try create(at: temporary, layout, nil)
            do { try body(store) } catch {
                try? store.close()
                throw error
            }
            try store.close()
        }
    }

    private func building(_ body: (String) throws -> Void) throws {
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        try TemporarySibling.buildingFile(beside: path) { temporary in
            try body(temporary)
            try FileSystem.synchronizeTree(FileSystem.folder(of: temporary))
            try SQLiteStore.moveIntoPlace(temporary, to: path)
        }
    }

    private func fill(
        _ temporary: String, from source: any PersistentStore, permissionsOf original: String?,
        progress: ((Progress) -> Void)?
    ) throws {
        let keybag = try writeKeybag(for: temporary, source.storeProtection)
        defer { withExtendedLifetime(keybag) {} }
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
        // A SQLite store's contents were counted in its transaction; other files are written as a whole, and read back.
        if type != .sqlite, let check {
            let written = try StoreFile(at: temporary).open()
            defer { try? written.close() }
            try written.counting { try check.requireAll(in: $0, path: source.path) }
        }
        if let original {
            try SQLiteStore.copyPermissions(of: original, to: temporary)
        }
    }

    /// Writes the keybag of the new store, if it is to be protected: with the keys of the source, unless another class is asked for.
    ///
    /// - Returns: A new domain, to be retained until the store is written.
    private func writeKeybag(
        for path: String, _ present: StoreProtection?
    ) throws -> ProtectionDomain? {
        guard let asked = sqliteOptions.fileProtection,
            asked != present?.fileProtection ?? FileProtection.none
        else {
            try present?.writeKeybag(forStoreAt: path)
            return nil
        }
        // The store makes its own keybag where the source has none.
        guard asked != .none, let present else { return nil }
        let made = try present.domain.makeKeybag(protection: asked)
        try made.write(to: StoreProtection.keybag(ofStoreAt: path).path)
        return made
    }

    /// The model of the new store: the source's; if inferred from the file, with the inverses that SQLite needs to store all
    /// references.
    private func layout(for source: any PersistentStore) throws -> ResolvedModel {
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
        at path: String, _ layout: ResolvedModel, _ configuration: String?
    ) throws -> any PersistentStore {
        var options = AtomicStoreOptions()
        options.configuration = configuration
        options.fileProtection = sqliteOptions.fileProtection
        options.protectionDomain = sqliteOptions.protectionDomain
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
                "“\(type.rawValue)” is not a type of store file; choose SQLite, XML or Binary.",
                file: path)
        }
    }
}

extension PersistentStore {
    /// Writes the store's contents to a new store file, like ``StoreFile/convert(to:type:model:allowsRemoval:fileProtection:protectionDomain:progress:)-(String,_,_,_,_,_,_)``,
    /// also of a store without a file.
    ///
    /// - Parameters:
    ///   - options: The options of a SQLite store; those of protection for other types too.
    ///   - original: The file whose permissions the new one gets; `nil` for that of the store, if it has one.
    /// - Throws: Errors of that method; then there is no new store.
    package func convert(
        to path: String, type: StoreType, options: SQLiteStoreOptions = SQLiteStoreOptions(),
        permissionsOf original: String? = nil
    ) throws {
        try NewStoreFile(path: path, type: type, sqliteOptions: options)
            .write(self, permissionsOf: original)
    }

    /// The encryption keys of the store's files; `nil` if it is not protected.
    package var storeProtection: StoreProtection? {
        (self as? SQLiteStore)?.protection ?? (self as? AtomicStore)?.protection
    }

    /// Whether an object is a member of a relationship of several objects.
    fileprivate func hasSharedMembers(
        in relationship: ResolvedEntity.Relationship, of owner: ResolvedEntity
    ) throws -> Bool {
        var members: Set<UInt64> = []
        var isShared = false
        try objectIDs(matching: FetchSpecification(owner.name)).forEachBatch {
            for member in try relatedObjects(of: $0, through: relationship).members
            where !members.insert(member).inserted {
                isShared = true
            }
        }
        return isShared
    }
}

extension ManagedObjectModel {
    /// Adds a to-many inverse to a relationship without one, named after both: `author_books`.
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
