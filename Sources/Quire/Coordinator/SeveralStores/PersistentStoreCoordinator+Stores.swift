public import Foundation
internal import QuireAtomicStores
internal import QuireSQLite

extension PersistentStoreCoordinator {
    /// The stores, in the order in which they were added.
    public var persistentStores: [any PersistentStore] {
        stores.withLock { $0.members.map(\.store) }
    }

    /// The store whose file is at a path; `nil` if none is.
    public func persistentStore(at path: String) -> (any PersistentStore)? {
        let name = FileName(FileSystem.absolute(path))
        return persistentStores.first {
            $0.path.map { FileName(FileSystem.absolute($0)) } == name
        }
    }

    /// The store whose file is at a URL; `nil` if none is.
    public func persistentStore(for url: URL) -> (any PersistentStore)? {
        url.isFileURL ? persistentStore(at: url.path) : nil
    }

    /// Opens a store and adds it; creates it if the path does not exist.
    ///
    /// On an error the coordinator's stores are unchanged. May be called from any thread; it opens files, so not from the main
    /// queue if they are large.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel` if the configuration does not exist, or does not contain the
    ///   destination of a relationship; `incompatibleModel`, `invalidFormat`, `notFound`, `readOnly`, `locked` or
    ///   `storeUnavailable`; `unsupported` if the type is not registered, `alreadyExists` if the coordinator has the store.
    @discardableResult
    public func addPersistentStore(
        _ description: PersistentStoreDescription
    ) throws -> any PersistentStore {
        _ = try layout.entityNumbers(ofConfiguration: description.configuration)
        if let path = description.path, persistentStore(at: path) != nil {
            throw QuireError(
                .alreadyExists, "The coordinator already has the store “\(path)”.", file: path)
        }
        let store = try StoreTypes.open(description, layout: layout)
        do {
            try add(store)
        } catch {
            try? store.close()
            throw error
        }
        return store
    }

    /// Opens a store and adds it, as ``addPersistentStore(_:)`` does with a description of it.
    ///
    /// - Parameters:
    ///   - type: The kind of store.
    ///   - configuration: The configuration of the model whose entities the store contains; `nil` for all entities.
    ///   - url: The URL of its file; `nil` for a store in memory.
    ///   - options: The options of a SQLite store.
    @discardableResult
    public func addPersistentStore(
        type: StoreType, configuration: String? = nil, at url: URL? = nil,
        options: SQLiteStoreOptions = SQLiteStoreOptions()
    ) throws -> any PersistentStore {
        var description = PersistentStoreDescription(type: type)
        description.url = url
        description.configuration = configuration
        description.sqliteOptions = options
        return try addPersistentStore(description)
    }

    /// Removes the store at a URL, with its log and its external data. It must not be open anywhere.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, or as ``StoreFile/destroy()``.
    public func destroyPersistentStore(at url: URL) throws { try StoreFile(at: url).destroy() }

    /// Replaces the store at a URL by a copy of another of the same type, which may be open. The replaced store must not be open
    /// anywhere. If no store exists at the URL, a SQLite store is copied there.
    ///
    /// The copy has the other's UUID. At every instant, also after a crash or power loss, either the old or the new store is
    /// complete.
    ///
    /// ```swift
    /// try coordinator.replacePersistentStore(at: backup, withPersistentStoreFrom: library)
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `notFound`, or as ``StoreFile/replace(with:)``.
    public func replacePersistentStore(
        at url: URL, withPersistentStoreFrom source: URL
    ) throws {
        let path = try FileSystem.path(of: url)
        let other = try StoreFile(at: source)
        if other.type == .sqlite, !FileSystem.exists(path) {
            return try SQLiteStore.replace(at: path, withStoreAt: other.path)
        }
        try StoreFile(at: path).replace(with: other)
    }

    /// Adds an open store. It must not have been read yet, or belong to another coordinator.
    ///
    /// - Throws: ``QuireError`` with code `incompatibleModel` if it has another model, `alreadyExists` if the coordinator has a
    ///   store of the same UUID: identifiers would be ambiguous.
    public func add(_ store: any PersistentStore) throws {
        if store.layout !== layout, store.layout.model != layout.model {
            throw QuireError(
                .incompatibleModel,
                "The store\(store.path.map { " “\($0)”" } ?? "") was opened with a different model from the coordinator's.",
                file: store.path)
        }
        let numbers = try layout.entityNumbers(ofConfiguration: store.configurationName)
        post(Self.storesWillChangeNotification, [.added: [store]])
        try stores.withLock { stores in
            if let other = stores.members.first(where: {
                $0.store.identity.uuid == store.identity.uuid
            }) {
                throw QuireError(
                    .alreadyExists,
                    "The coordinator already has a store with the UUID \(store.identity.uuid)"
                        + "\(other.store.path.map { ": “\($0)”" } ?? ""). One of them is a copy; use a separate "
                        + "coordinator for it.",
                    file: store.path)
            }
            try store.identity.join(storeIdentity)
            stores.add(CompositeStore.Member(store: store, entityNumbers: numbers))
        }
        store.protectionDomain?.addResponder(self)
        startServices(of: store)
        post(Self.storesDidChangeNotification, [.added: [store]])
    }

    /// Removes a store and closes it. Values of its objects that contexts have read are kept; further reads and saves of them
    /// throw.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the store does not belong to the coordinator, or the errors of closing
    ///   it.
    public func remove(_ store: any PersistentStore) throws {
        guard persistentStores.contains(where: { $0 === store }) else { throw Self.noMember(store) }
        post(Self.storesWillChangeNotification, [.removed: [store]])
        post(Self.willRemoveStoreNotification, [.removed: [store]])
        guard stores.withLock({ $0.remove(store) }) else { throw Self.noMember(store) }
        defer { post(Self.storesDidChangeNotification, [.removed: [store]]) }
        stopServices(of: store)
        rowCache.removeAll()
        try store.close()
    }

    /// Reopens a store at another path, where its file has been moved or copied. Objects keep their identifiers; only opening
    /// reads or writes files.
    ///
    /// The store object is replaced by a new one; the old one is closed.
    ///
    /// - Parameters:
    ///   - path: The file's new path.
    ///   - store: A store of the coordinator.
    ///   - given: The options for opening; its path is ignored.
    /// - Returns: The new store object.
    /// - Throws: ``QuireError`` with code `notFound` if the store does not belong to the coordinator or the file does not exist,
    ///   `incompatibleModel` if the file is another store, or the errors of opening it. Then the coordinator keeps the old
    ///   store.
    @discardableResult
    public func setPath(
        _ path: String, for store: any PersistentStore,
        description given: PersistentStoreDescription? = nil
    ) throws -> any PersistentStore {
        guard persistentStores.contains(where: { $0 === store }) else { throw Self.noMember(store) }
        guard FileSystem.exists(path) else {
            throw QuireError(
                .notFound, "“\(path)” does not exist; the path of the store was not changed.",
                file: path)
        }
        post(Self.storesWillChangeNotification, [.changed: [store]])
        var description = given ?? PersistentStoreDescription(type: store.type)
        if let store = store as? SQLiteStore, given == nil {
            description.sqliteOptions = store.options
        }
        description.path = path
        description.configuration = store.configurationName
        description.isReadOnly = store.isReadOnly
        let other = try StoreTypes.open(description, layout: layout)
        guard other.identity.uuid == store.identity.uuid else {
            try? other.close()
            throw QuireError(
                .incompatibleModel,
                "“\(path)” is another store: its UUID is \(other.identity.uuid), not \(store.identity.uuid).",
                file: path)
        }
        try other.identity.join(storeIdentity)
        replace(store, with: other)
        try? store.close()
        post(Self.storesDidChangeNotification, [.changed: [store, other]])
        return other
    }

    /// Replaces a store, which stays open, by another of the same UUID.
    ///
    /// External data of values read before are read from the new one.
    package func replace(_ store: any PersistentStore, with other: any PersistentStore) {
        stores.withLock { $0.replace(store, with: other) }
        other.protectionDomain?.addResponder(self)
        stopServices(of: store)
        startServices(of: other)
        rowCache.removeAll()
        if let store = store as? SQLiteStore, let other = other as? SQLiteStore {
            store.handOverExternalData(to: other)
        }
    }

    /// The store of an identity that was assigned to a new object.
    func persistentStore(_ identity: StoreIdentity) throws -> any PersistentStore {
        if let store = persistentStores.first(where: { $0.identity === identity }) { return store }
        throw QuireError(
            .storeUnavailable,
            "The store \(identity.uuid), to which an object was assigned, no longer belongs to the coordinator."
        )
    }

    /// The default store of an entity's new objects.
    func storeForNewObjects(of entity: ResolvedEntity) -> StoreIdentity? {
        stores.withLock { stores in
            stores.members.first {
                $0.entityNumbers.contains(entity.number) && !$0.store.isReadOnly
            }?.store.identity
        }
    }

    private static func noMember(_ store: any PersistentStore) -> QuireError {
        QuireError(.notFound, "The store does not belong to the coordinator.", file: store.path)
    }

    /// Checks that new objects of an entity can be saved to a store.
    func checkIsPlace(_ store: any PersistentStore, forNew entity: ResolvedEntity) throws {
        guard let member = stores.withLock({ $0.members.first { $0.store === store } }) else {
            throw QuireError(
                .storeUnavailable, "The store does not belong to the coordinator.",
                entity: entity.name, file: store.path)
        }
        guard member.entityNumbers.contains(entity.number) else {
            throw QuireError(
                .storeUnavailable,
                "The store does not contain \(entity.name): its configuration is “\(store.configurationName ?? "")”.",
                entity: entity.name, file: store.path)
        }
        if store.isReadOnly {
            throw QuireError(
                .readOnly,
                "The store was opened read-only; a new \(entity.name) cannot be assigned to it.",
                entity: entity.name, file: store.path)
        }
    }
}

// MARK: - Types of stores

/// The types of stores that coordinators can open.
enum StoreTypes {
    typealias Opening =
        @Sendable (PersistentStoreDescription, ResolvedModel) throws -> any PersistentStore

    private static let registered = Lock<[StoreType: Opening]>([:])

    static func register(_ type: StoreType, opening: @escaping Opening) {
        registered.withLock { $0[type] = opening }
    }

    /// Opens a store, or creates one.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if the type is not registered, or the errors of opening.
    static func open(
        _ description: PersistentStoreDescription, layout: ResolvedModel
    ) throws -> any PersistentStore {
        if let opening = registered.withLock({ $0[description.type] }) {
            return try opening(description, layout)
        }
        switch description.type {
        case .sqlite:
            let path = try description.requirePath()
            let options = description.effectiveSQLiteOptions
            return try SQLiteStore.openOrCreate(at: path, layout: layout, options: options) {
                if let migration = description.migration, migration.migratesAutomatically {
                    try SQLiteStore.migrate(at: path, to: layout.model, migration, options)
                }
                return try suggestingMigration(description) {
                    try SQLiteStore.open(at: path, model: nil, layout: layout, options: options)
                }
            }
        case .inMemory:
            try StoreProtection.require(description.fileProtection, of: nil, "memory")
            return try InMemoryStore(
                layout: layout, options: description.effectiveAtomicOptions)
        case .xml: return try open(XMLStore.self, description, layout)
        case .binary: return try open(BinaryStore.self, description, layout)
        default:
            throw QuireError(
                .unsupported,
                "The store type “\(description.type.rawValue)” is not registered; register it before you use it."
            )
        }
    }
}

extension StoreTypes {
    private static func open<Store: AtomicStore>(
        _ type: Store.Type, _ description: PersistentStoreDescription, _ layout: ResolvedModel
    ) throws -> Store {
        let path = try description.requirePath()
        let options = description.effectiveAtomicOptions
        if !options.isReadOnly, !FileSystem.exists(path) || AtomicStoreFile.isVacant(path) {
            do {
                return try type.create(at: path, layout: layout, options: options)
            } catch let error as QuireError where error.code == .alreadyExists {
                // Another process has created it.
            }
        }
        if let migration = description.migration, migration.migratesAutomatically {
            try type.migrate(at: path, to: layout.model, migration, options)
        }
        return try suggestingMigration(description) {
            try type.open(at: path, model: nil, layout: layout, options: options)
        }
    }

    /// Opens a store; the error of a model that does not fit says how a description that does not migrate is to.
    private static func suggestingMigration<Store>(
        _ description: PersistentStoreDescription, _ open: () throws -> Store
    ) throws -> Store {
        do {
            return try open()
        } catch let error as QuireError
            where error.code == .incompatibleModel && !description.shouldMigrateStoreAutomatically
            && !description.isReadOnly
        {
            var error = error
            error.message +=
                " If the store was created with an earlier version of the model, set the description's "
                + "migration to StoreMigrationOptions(), or shouldMigrateStoreAutomatically to true."
            throw error
        }
    }
}

extension PersistentStoreCoordinator {
    /// Registers a closure that opens stores of a type, for the whole process.
    ///
    /// ```swift
    /// PersistentStoreCoordinator.registerStoreType(.init(rawValue: "JSONFolder")) { description, layout in
    ///     try JSONFolderStore(at: description.path ?? "", layout: layout)
    /// }
    /// ```
    ///
    /// May be called from any thread; the last registration of a type is used.
    public static func registerStoreType(
        _ type: StoreType,
        opening:
            @escaping @Sendable (PersistentStoreDescription, ResolvedModel) throws
            -> any PersistentStore
    ) {
        StoreTypes.register(type, opening: opening)
    }
}

// MARK: - Migrating

extension PersistentStoreCoordinator {
    /// Migrates a store's objects to a new store at another path, possibly of another type, which replaces it.
    ///
    /// The old store is removed from the coordinator and closed; its file stays. The new one has a new UUID, so contexts can no
    /// longer read or save their objects of the old one: save before, and reset the contexts afterwards. Do not save
    /// meanwhile.
    ///
    /// ```swift
    /// let store = try coordinator.migratePersistentStore(
    ///     store, to: PersistentStoreDescription(path: "library.xml", type: .xml))
    /// ```
    ///
    /// - Parameters:
    ///   - store: A store of the coordinator.
    ///   - description: The path, which must not exist yet, the type and the options. The configuration is that of the
    ///     old store, and so is the protection class, unless the description has another.
    /// - Throws: ``QuireError`` with code `notFound` if the store does not belong to the coordinator, and the errors of
    ///   ``StoreFile/convert(to:type:model:allowsRemoval:fileProtection:protectionDomain:progress:)-(String,_,_,_,_,_,_)`` and
    ///   ``addPersistentStore(_:)``. Then the coordinator keeps the old store, and no new store is created.
    @discardableResult
    public func migratePersistentStore(
        _ store: any PersistentStore, to description: PersistentStoreDescription
    ) throws -> any PersistentStore {
        guard persistentStores.contains(where: { $0 === store }) else { throw Self.noMember(store) }
        let path = try description.requirePath()
        try NewStoreFile(
            path: path, type: description.type,
            sqliteOptions: description.effectiveSQLiteOptions
        ).write(store)
        var description = description
        description.configuration = store.configurationName
        let new: any PersistentStore
        do {
            new = try addPersistentStore(description)
        } catch {
            try? StoreFile(at: path).destroy()
            throw error
        }
        try remove(store)
        return new
    }
}

// MARK: - The stores

extension PersistentStoreCoordinator {
    /// The stores of a coordinator, and their composite.
    struct Stores {
        private(set) var members: [CompositeStore.Member]
        /// The coordinator's store: the only one itself, if it keeps objects of all entities.
        private(set) var combined: any PersistentStore
        private let layout: ResolvedModel
        private let identity: StoreIdentity

        /// No stores.
        init(layout: ResolvedModel, identity: StoreIdentity) {
            self.layout = layout
            self.identity = identity
            members = []
            combined = CompositeStore(members: [], layout: layout, identity: identity)
        }

        /// One store, whose model is the coordinator's.
        init(_ store: any PersistentStore) {
            layout = store.layout
            identity = store.identity
            // The store has been opened with this configuration.
            let numbers = try? layout.entityNumbers(ofConfiguration: store.configurationName)
            members = [
                CompositeStore.Member(
                    store: store, entityNumbers: numbers ?? Set(layout.entities.map(\.number)))
            ]
            combined = store
            if store.configurationName != nil { combine() }
        }

        mutating func add(_ member: CompositeStore.Member) {
            members.append(member)
            combine()
        }

        mutating func remove(_ store: any PersistentStore) -> Bool {
            let count = members.count
            members.removeAll { $0.store === store }
            if members.count < count { combine() }
            return members.count < count
        }

        mutating func replace(_ store: any PersistentStore, with other: any PersistentStore) {
            guard let index = members.firstIndex(where: { $0.store === store }) else { return }
            members[index] = CompositeStore.Member(
                store: other, entityNumbers: members[index].entityNumbers)
            if other.identity === identity, combined === store {
                combined = other
            } else {
                combine()
            }
        }

        private mutating func combine() {
            combined = CompositeStore(members: members, layout: layout, identity: identity)
        }
    }
}

// MARK: - Notifications

/// Notifications of stores that come, go, or are opened at another place.
///
/// ```swift
/// let observer = NotificationCenter.default.addObserver(
///     forName: PersistentStoreCoordinator.willRemoveStoreNotification, object: coordinator, queue: nil
/// ) { _ in
///     background.performAndWait { context in
///         try? context.save()
///         context.reset()
///     }
/// }
/// ```
///
/// They are posted on the thread that changes the stores, which waits for the observers, and on the main thread if a document is
/// saved as another one, moved, reverted to another one, or has its store restored: before a change these may save contexts
/// to the stores as they are, and reset them. The object is the coordinator; ``StoresChangeKey`` lists the keys of the
/// `userInfo`, of which only those are there that have stores. A change that fails has been announced all the same, and is not
/// followed by ``storesDidChangeNotification``.
extension PersistentStoreCoordinator {
    /// Posted before stores are added, removed, or opened at another place.
    public static let storesWillChangeNotification = Notification.Name(
        "NSPersistentStoreCoordinatorStoresWillChangeNotification")

    /// Posted after stores were added, removed, or opened at another place.
    public static let storesDidChangeNotification = Notification.Name(
        "NSPersistentStoreCoordinatorStoresDidChangeNotification")

    /// Posted before a store is removed and closed, after ``storesWillChangeNotification``.
    public static let willRemoveStoreNotification = Notification.Name(
        "NSPersistentStoreCoordinatorWillRemoveStoreNotification")

    /// The keys in the `userInfo` of the notifications, by raw value. Each value is a `[any PersistentStore]`.
    public enum StoresChangeKey: String, Sendable {
        /// The stores that are added. Before they are, they can be asked for their metadata only.
        case added
        /// The stores that are removed; closed, once they are.
        case removed
        /// A store that is opened at another place; afterwards the old one, which is closed, and the new one.
        case changed
    }

    /// Announces that a document is about to replace its store.
    package func willReplace(_ store: any PersistentStore) {
        post(Self.storesWillChangeNotification, [.changed: [store]])
    }

    /// Announces that a document has replaced its store.
    package func didReplace(_ store: any PersistentStore, with other: any PersistentStore) {
        post(Self.storesDidChangeNotification, [.changed: [store, other]])
    }

    func post(_ name: Notification.Name, _ stores: [StoresChangeKey: [any PersistentStore]]) {
        let pairs = stores.map { ($0.rawValue, $1) }
        NotificationCenter.default.post(
            name: name, object: self, userInfo: Dictionary(uniqueKeysWithValues: pairs))
    }
}
