public import QuireModel
public import QuireSQLite
public import QuireStore
internal import QuireSystem

/// A part of the way that stores go from old models to the newest.
public struct MigrationStage: Sendable {
    /// Reads or changes a store, before its model changes or after.
    public typealias Handler = @Sendable (any PersistentStore) throws -> Void

    enum Kind: Sendable {
        case lightweight([ManagedObjectModel])
        case custom(
            from: ManagedObjectModel, to: ManagedObjectModel, will: Handler?, did: Handler?)
    }

    let kind: Kind
    /// The stage's name in errors.
    public let label: String
    /// Whether data without a destination may be removed; see ``StoreMigrationOptions/allowsRemoval``.
    public let allowsRemoval: Bool

    /// A stage that migrates through models in sequence, by inferred mappings.
    public static func lightweight(
        _ label: String = "lightweight", through models: [ManagedObjectModel],
        allowsRemoval: Bool = false
    ) -> MigrationStage {
        MigrationStage(kind: .lightweight(models), label: label, allowsRemoval: allowsRemoval)
    }

    /// A stage with handlers before or after the migration from one model to another by an inferred mapping: for example, to
    /// fill an attribute that the old model lacks from one that the new model lacks, with an intermediate model that has
    /// both.
    ///
    /// - Parameters:
    ///   - allowsRemoval: Whether data without a destination may be removed, such as data that a handler has moved.
    ///   - willMigrate: Called with the store before the migration.
    ///   - didMigrate: Called with the store after the migration. If the process ends before it has returned, it is called
    ///     again the next time.
    public static func custom(
        _ label: String = "custom", from source: ManagedObjectModel,
        to destination: ManagedObjectModel, allowsRemoval: Bool = false,
        willMigrate: Handler? = nil, didMigrate: Handler? = nil
    ) -> MigrationStage {
        MigrationStage(
            kind: .custom(from: source, to: destination, will: willMigrate, did: didMigrate),
            label: label, allowsRemoval: allowsRemoval)
    }
}

/// Migrates stores of any old version to the newest model, in stages.
///
/// ```swift
/// let migration = StagedMigration([
///     .lightweight(through: [v1, v2]),
///     .custom(from: v2, to: v3, didMigrate: { store in … }),
/// ])
/// try migration.migrateStore(at: path)
/// ```
///
/// Each stage is atomic: an interrupted migration resumes after the last completed stage.
public struct StagedMigration: Sendable {
    /// The stages, in their order.
    public let stages: [MigrationStage]
    /// The key of the record of a stage that is incomplete although the store has its model.
    private static let record = "QuireMigrationStage"

    /// Makes a migration of stages.
    public init(_ stages: [MigrationStage]) { self.stages = stages }

    /// Migrates a store that is not open.
    ///
    /// - Throws: As ``MigrationManager/migrateStore(from:to:)``, with code `incompatibleModel` if the store has none of the
    ///   models, and errors of the handlers.
    public func migrateStore(
        at path: String, options: SQLiteStoreOptions = SQLiteStoreOptions()
    ) throws {
        let examination = try StoreExamination(path)
        var place = try Place(examination, stages, path: path)
        for (index, stage) in stages.enumerated().dropFirst(place.stage) {
            switch stage.kind {
            case .lightweight(let models):
                for model in models.dropFirst(index == place.stage ? place.model : 0) {
                    try move(&place, to: model, stage, path, options)
                }
            case .custom(let from, let to, let will, let did):
                if !place.isAtEnd(of: index) {
                    try move(&place, to: from, stage, path, options)
                    if let will { try handle(will, from, path, options) }
                    if did != nil { try record(stage.label, from, path, options) }
                    try move(&place, to: to, stage, path, options)
                }
                if let did, try isRecorded(stage.label, to, path, options) {
                    try handle(did, to, path, options)
                    try record(nil, to, path, options)
                }
            }
        }
    }

    /// The stage that a store has reached.
    private struct Place {
        var current: ManagedObjectModel
        /// The stage that is to be done, or was done last.
        var stage: Int
        /// The model of a lightweight stage that comes next.
        var model = 0
        private let hasDoneStage: Bool

        init(
            _ examination: StoreExamination, _ stages: [MigrationStage], path: String
        ) throws {
            for (index, stage) in stages.enumerated().reversed() {
                switch stage.kind {
                case .custom(let from, let to, _, _):
                    for (model, isEnd) in [(to, true), (from, false)]
                    where examination.isCompatible(with: model) {
                        (current, self.stage, hasDoneStage) = (model, index, isEnd)
                        return
                    }
                case .lightweight(let models):
                    guard let found = models.lastIndex(where: examination.isCompatible) else {
                        continue
                    }
                    (current, self.stage, hasDoneStage) = (models[found], index, false)
                    model = found + 1
                    return
                }
            }
            guard let carried = examination.carriedModel else {
                throw QuireError(
                    .incompatibleModel,
                    "“\(path)” has none of the models of the stages, and does not carry its own.",
                    subject: .init(file: path))
            }
            (current, stage, hasDoneStage) = (carried, 0, false)
        }

        /// Whether the store already has the final model of a stage.
        func isAtEnd(of index: Int) -> Bool { index == stage && hasDoneStage }
    }

    private func move(
        _ place: inout Place, to model: ManagedObjectModel, _ stage: MigrationStage,
        _ path: String, _ options: SQLiteStoreOptions
    ) throws {
        if place.current.isSameVersion(as: model) { return }
        let manager = MigrationManager()
        manager.allowsRemoval = stage.allowsRemoval
        try SQLiteStore.migrate(
            at: path, from: place.current, to: model, manager: manager, options: options)
        place.current = model
    }

    // MARK: - Handlers

    private func handle(
        _ handler: MigrationStage.Handler, _ model: ManagedObjectModel, _ path: String,
        _ options: SQLiteStoreOptions
    ) throws {
        let store = try SQLiteStore.open(at: path, model: model, options: options)
        defer { try? store.close() }
        try handler(store)
    }

    private func record(
        _ label: String?, _ model: ManagedObjectModel, _ path: String,
        _ options: SQLiteStoreOptions
    ) throws {
        try handle(
            { store in
                var changes = ChangeSet()
                changes.records[Self.record] = .some(label)
                try store.save(changes)
            }, model, path, options)
    }

    private func isRecorded(
        _ label: String, _ model: ManagedObjectModel, _ path: String,
        _ options: SQLiteStoreOptions
    ) throws -> Bool {
        let store = try SQLiteStore.open(at: path, model: model, options: options)
        defer { try? store.close() }
        return try store.records()[Self.record] == label
    }
}
