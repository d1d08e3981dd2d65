public import QuireModel
public import QuireSQLite
public import QuireStore
internal import QuireSystem

/// A step in the migration of stores from old models to the newest.
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
    /// fill a new attribute from an attribute that the new model lacks, through an intermediate model that has
    /// both.
    ///
    /// The models must differ in their version hashes, or in uniqueness constraints; a version hash modifier makes them differ.
    ///
    /// - Parameters:
    ///   - allowsRemoval: Whether data without a destination may be removed, such as data that a handler has moved.
    ///   - willMigrate: Called with the store before the migration; if that fails, again the next time.
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

    /// The text that identifies a stage in the record of a store.
    fileprivate var record: String {
        guard case .custom(_, let to, _, _) = kind else { return label }
        return "\(label) \(ManagedObjectModel.versionChecksum(of: to.entityVersionHashes()))"
    }

    /// Refuses a stage whose handlers would never be called, because a store of its first model has its second one already.
    fileprivate func check() throws {
        guard case .custom(let from, let to, let will, let did) = kind, will != nil || did != nil,
            from.isIndistinguishable(from: to)
        else { return }
        throw QuireError(
            .invalidModel,
            "The stage “\(label)” begins and ends with the same version of the model, so its handlers would never be called; "
                + "set a version hash modifier in the new model.")
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
/// Each migration is atomic, and an interrupted one resumes after the last completed stage. What a handler has saved stays
/// saved, even if it throws: it is called again the next time, so it should expect objects that it has already changed.
public struct StagedMigration: Sendable {
    /// The stages, in their order.
    public let stages: [MigrationStage]
    /// The key of the record of a stage that is incomplete although the store has its model.
    private static let record = "QuireMigrationStage"

    /// Creates a migration from stages.
    public init(_ stages: [MigrationStage]) { self.stages = stages }

    /// Migrates a store that is not open.
    ///
    /// - Throws: As ``MigrationManager/migrateStore(from:to:)``, with code `incompatibleModel` if the store has none of the
    ///   models, `invalidModel` if a stage with a handler has two indistinguishable models, and errors of the
    ///   handlers.
    public func migrateStore(
        at path: String, options: SQLiteStoreOptions = SQLiteStoreOptions()
    ) throws {
        for stage in stages { try stage.check() }
        let examination = try StoreExamination(path)
        var place = try Place(examination, stages, path: path)
        for (index, stage) in stages.enumerated().dropFirst(place.stage) {
            switch stage.kind {
            case .lightweight(let models):
                for model in models.dropFirst(index == place.stage ? place.model : 0) {
                    try move(&place, to: model, stage, path, options)
                }
            case .custom(let from, let to, let will, let did):
                if index > place.stage || place.progress == .begun {
                    try move(&place, to: from, stage, path, options)
                    if let will { try handle(will, from, path, options) }
                    if did != nil { try record(stage.record, from, path, options) }
                    try move(&place, to: to, stage, path, options)
                } else if place.progress == .done {
                    continue
                }
                if let did {
                    try handle(did, to, path, options)
                    try record(nil, to, path, options)
                }
            }
        }
    }

    /// The stage that a store has reached.
    private struct Place {
        enum Progress {
            case begun, migrated, done
        }

        var current: ManagedObjectModel
        /// The stage that is to be done, or was done last.
        let stage: Int
        /// The model of a lightweight stage that comes next.
        var model = 0
        let progress: Progress

        init(
            _ examination: StoreExamination, _ stages: [MigrationStage], path: String
        ) throws {
            // A stage that is incomplete, although the next one may begin with the store's model.
            for (index, stage) in stages.enumerated() {
                guard case .custom(let from, let to, _, .some) = stage.kind,
                    examination.records[StagedMigration.record] == stage.record,
                    examination.isCompatible(with: to),
                    !from.isSameVersion(as: to) || examination.isUnique(as: to)
                else { continue }
                (current, self.stage, progress) = (to, index, .migrated)
                return
            }
            // Of versions that differ only in uniqueness, the one with that of the store.
            let fits: [(ManagedObjectModel) -> Bool] = [
                { examination.isCompatible(with: $0) && examination.isUnique(as: $0) },
                examination.isCompatible,
            ]
            for isFit in fits {
                for (index, stage) in stages.enumerated().reversed() {
                    switch stage.kind {
                    case .custom(let from, let to, _, _):
                        for (model, isEnd) in [(to, true), (from, false)] where isFit(model) {
                            (current, self.stage) = (model, index)
                            progress = isEnd ? .done : .begun
                            return
                        }
                    case .lightweight(let models):
                        guard let found = models.lastIndex(where: isFit) else { continue }
                        (current, self.stage, progress) = (models[found], index, .begun)
                        model = found + 1
                        return
                    }
                }
            }
            guard let carried = examination.carriedModel else {
                throw QuireError(
                    .incompatibleModel,
                    "“\(path)” does not match any stage's model and does not contain its own.",
                    file: path)
            }
            (current, stage, progress) = (carried, 0, .begun)
        }
    }

    private func move(
        _ place: inout Place, to model: ManagedObjectModel, _ stage: MigrationStage,
        _ path: String, _ options: SQLiteStoreOptions
    ) throws {
        if place.current.isIndistinguishable(from: model) { return }
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
}

extension ManagedObjectModel {
    /// The uniqueness constraints by entity, which version hashes do not cover.
    fileprivate var uniqueness: [String: Set<Set<String>>] {
        var result: [String: Set<Set<String>>] = [:]
        for entity in entities where !entity.uniquenessConstraints.isEmpty {
            result[entity.name] = Set(entity.uniquenessConstraints.map(Set.init))
        }
        return result
    }

    fileprivate func isIndistinguishable(from other: ManagedObjectModel) -> Bool {
        isSameVersion(as: other) && uniqueness == other.uniqueness
    }
}

extension StoreExamination {
    /// Whether the store is known to have the uniqueness constraints of a model.
    fileprivate func isUnique(as model: ManagedObjectModel) -> Bool {
        carriedModel?.uniqueness == model.uniqueness
    }
}
