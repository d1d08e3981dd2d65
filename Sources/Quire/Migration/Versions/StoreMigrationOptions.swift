/// What is done when a store that is opened was made with another model.
public struct StoreMigrationOptions: Sendable {
    /// Whether the store is migrated. If not, opening it fails.
    public var migratesAutomatically = true
    /// Whether mappings may be inferred. If not, only ``mappings`` are used.
    public var infersMappingModel = true
    /// Mappings made by hand.
    public var mappings: [CustomMapping] = []
    /// The models that the store may have been made with, by name. One that carries its model needs none.
    public var versions: [String: ManagedObjectModel] = [:]
    /// What makes the policies that mappings name.
    public var policies: [String: @Sendable () -> EntityMigrationPolicy] = [:]

    /// Migrates by inferred mappings.
    public init() {}
}

extension SQLiteStore {
    /// Opens a store, which is migrated first if it was made with another model.
    ///
    /// Where a straight mapping is neither given nor to be inferred, the store goes through versions in between; each of
    /// these steps is whole by itself.
    ///
    /// ```swift
    /// let store = try SQLiteStore.open(at: path, model: model, migrating: StoreMigrationOptions())
    /// ```
    ///
    /// - Throws: As ``open(at:model:options:)`` and ``migrate(at:from:to:manager:options:)``; with code
    ///   `incompatibleModel` if the store has to be migrated and may not be, or its model is not known.
    public static func open(
        at path: String, model: ManagedObjectModel, options: SQLiteStoreOptions = .init(),
        migrating migration: StoreMigrationOptions
    ) throws -> SQLiteStore {
        try migrate(at: path, to: model, migration, options)
        return try open(at: path, model: model, options: options)
    }

    /// Migrates a store that was made with another model.
    static func migrate(
        at path: String, to model: ManagedObjectModel, _ migration: StoreMigrationOptions,
        _ options: SQLiteStoreOptions
    ) throws {
        let steps = try steps(at: path, to: model, migration)
        if !steps.isEmpty && options.isReadOnly {
            throw QuireError(
                .readOnly,
                "“\(path)” was made with another version of the model and is opened for reading only, so it cannot be "
                    + "migrated; open it for writing.", subject: .init(file: path))
        }
        for step in steps {
            let manager = MigrationManager(mappingModel: step.mapping)
            for (name, policy) in migration.policies { manager.policies[name] = policy }
            try migrate(
                at: path, from: step.source, to: step.destination, manager: manager,
                options: options)
        }
    }

    /// What it takes to bring a store to a model; nothing if it opens with it as it is.
    ///
    /// - Throws: As ``open(at:model:options:migrating:)``.
    public static func steps(
        at path: String, to model: ManagedObjectModel, _ migration: StoreMigrationOptions
    ) throws -> [MigrationPath.Step] {
        let examination = try StoreExamination(path)
        if examination.isCompatible(with: model) { return [] }
        func fail(_ what: String) -> QuireError {
            QuireError(
                .incompatibleModel,
                "“\(path)” was made with another version of the model; \(what).",
                subject: .init(file: path))
        }
        guard migration.migratesAutomatically else { throw fail("migrate it before it is opened") }
        var versions = migration.versions
        let source: ManagedObjectModel
        if let name = examination.versions(among: versions).last, let found = versions[name] {
            source = found
        } else if let carried = examination.carriedModel {
            source = carried
        } else {
            throw fail("which one is not known: give the versions that there are")
        }
        let name =
            versions.first { $0.value == model }?.key ?? "the model"
        versions[name] = model
        return try MigrationPath(
            from: source, to: name, among: versions, mappings: migration.mappings,
            infers: migration.infersMappingModel
        ).steps
    }
}
