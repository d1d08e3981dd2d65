/// The types of stores that coordinators can open.
enum StoreTypes {
    typealias Opening =
        @Sendable (PersistentStoreDescription, ModelLayout) throws -> any PersistentStore

    private static let registered = Lock<[StoreType: Opening]>([:])

    static func register(_ type: StoreType, opening: @escaping Opening) {
        registered.withLock { $0[type] = opening }
    }

    /// Opens a store, or makes a new one.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if nobody has registered the type, or what opening throws.
    static func open(
        _ description: PersistentStoreDescription, layout: ModelLayout
    ) throws -> any PersistentStore {
        if let opening = registered.withLock({ $0[description.type] }) {
            return try opening(description, layout)
        }
        switch description.type {
        case .sqlite:
            let path = try description.requirePath()
            let options = description.effectiveSQLiteOptions
            if SQLiteStore.exists(at: path) || options.isReadOnly {
                if let migration = description.migration {
                    try SQLiteStore.migrate(at: path, to: layout.model, migration, options)
                }
                return try SQLiteStore.open(
                    at: path, model: nil, layout: layout, options: options)
            }
            return try SQLiteStore.create(at: path, layout: layout, options: options)
        case .inMemory:
            try StoreProtection.require(description.fileProtection, of: nil, "memory")
            return try InMemoryStore(
                layout: layout, options: description.effectiveAtomicOptions)
        case .xml: return try open(XMLStore.self, description, layout)
        case .binary: return try open(BinaryStore.self, description, layout)
        default:
            throw QuireError(
                .unsupported,
                "There is no store of type “\(description.type.rawValue)”; register the type before it is used."
            )
        }
    }
}

extension StoreTypes {
    private static func open<Store: AtomicStore>(
        _ type: Store.Type, _ description: PersistentStoreDescription, _ layout: ModelLayout
    ) throws -> Store {
        let path = try description.requirePath()
        let options = description.effectiveAtomicOptions
        if FileSystem.exists(path) || options.isReadOnly {
            if let migration = description.migration {
                try type.migrate(at: path, to: layout.model, migration, options)
            }
            return try type.open(at: path, model: nil, layout: layout, options: options)
        }
        return try type.create(at: path, layout: layout, options: options)
    }
}

extension PersistentStoreCoordinator {
    /// Has coordinators open stores of a type with a closure, in the whole process.
    ///
    /// ```swift
    /// PersistentStoreCoordinator.registerStoreType(.init(rawValue: "JSONFolder")) { description, layout in
    ///     try JSONFolderStore(at: description.path ?? "", layout: layout)
    /// }
    /// ```
    ///
    /// May be called from any thread; what is registered last counts.
    public static func registerStoreType(
        _ type: StoreType,
        opening:
            @escaping @Sendable (PersistentStoreDescription, ModelLayout) throws
            -> any PersistentStore
    ) {
        StoreTypes.register(type, opening: opening)
    }
}
