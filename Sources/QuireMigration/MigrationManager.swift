public import Foundation
internal import QuireAtomicStores
internal import QuireModel
internal import QuireQuery
internal import QuireSQLite
public import QuireStore
internal import QuireSystem

/// Migrates the objects of a store to another, whose model and type may differ.
///
/// ```swift
/// let manager = MigrationManager()                        // The mapping is inferred.
/// try manager.migrateStore(from: old, to: new)
/// ```
///
/// Preserved are: primary keys, unless objects of several tables are merged into one; versions; the order of ordered
/// relationships; large values, whose files are copied and verified against the digests in the old store; documents' records
/// and applications' metadata. Stores that support bulk loading, as SQLite stores do, load the objects in one transaction
/// with little memory; others get them in one save, where versions begin at 1.
///
/// References to objects that are missing, or that the mapping does not migrate, become nil in the new store. Objects are not
/// validated, except that a migration fails if a required to-one relationship would be nil, or a to-one relationship would
/// have several objects.
///
/// A manager migrates once, on the calling thread. Its ``progress`` may be observed, and cancelled, on any.
public final class MigrationManager {
    /// The mapping; `nil` for the inferred one.
    public let mappingModel: MappingModel?
    /// The progress, counted in objects. Cancelling it makes the migration fail with code `cancelled`.
    public let progress = Progress(totalUnitCount: -1)

    /// Factories for the policies in the mapping, by their names.
    public var policies: [String: () -> EntityMigrationPolicy] = [:]

    /// Whether an inferred mapping may remove data without a destination; see ``StoreMigrationOptions/allowsRemoval``. A
    /// custom mapping declares its removals itself.
    public var allowsRemoval = false

    /// Gives the bytes of a draft of unsaved changes the names of the new model; `nil` if that cannot be done.
    var draftMigration: StoreMigrationOptions.DraftMigration?

    /// Creates a manager.
    ///
    /// - Parameter mappingModel: The mapping from the old model to the new one; `nil` to infer it.
    public init(mappingModel: MappingModel? = nil) { self.mappingModel = mappingModel }

    /// Migrates all objects of a store to another one, which must be empty.
    ///
    /// The migration is atomic. If the old store keeps a history and the new one can, its history begins with
    /// the insertion of all objects; tokens of the old store do not apply to it.
    ///
    /// - Parameters:
    ///   - source: The old store. It must not be saved to meanwhile.
    ///   - destination: The new store.
    /// - Complexity: O(*n*) in objects and members of their relationships.
    /// - Throws: ``QuireError`` with code `incompatibleModel` if the mapping cannot be inferred or does not match the models,
    ///   `removalDenied`, `validation`, `constraintConflict`, `cancelled`, `outOfSpace`, `readOnly`, `invalidFormat` if large
    ///   values fail verification, `alreadyExists` if the new store is not empty, or `storeUnavailable`.
    public func migrateStore(
        from source: any PersistentStore, to destination: any PersistentStore
    ) throws {
        _ = try migrate(from: source, to: destination)
    }

    /// As ``migrateStore(from:to:)``.
    ///
    /// - Returns: The counts that the new store was verified against; `nil` if removal is allowed.
    package func migrate(
        from source: any PersistentStore, to destination: any PersistentStore
    ) throws -> TransferCheck? {
        try requireEmpty(destination)
        let mapping =
            try mappingModel ?? .inferred(from: source.layout, to: destination.layout)
        try checkRemoval(
            by: mapping, from: source.layout, to: destination.layout, path: source.path
        ) { omissions in
            let removals = try omissions.removals(in: source)
            // A store of another type has no triggers, so they are not migrated.
            guard destination is SQLiteStore, let store = source as? SQLiteStore else {
                return removals
            }
            return try removals + store.read { try omissions.leftOutParts($0, store.schema) }
        }
        var plan = try TransferPlan(mapping, from: source.layout, to: destination.layout)
        try plan.assignKeys(Self.keySpace(from: source, to: destination)) {
            try Self.maximumKey(of: $0, in: source)
        }
        try countUnits(of: plan, in: source)
        var records = try source.records()
        let draft =
            destination is SQLiteStore
            ? try (source as? SQLiteStore)?.draft().map {
                try migratedDraft($0, by: mapping, path: source.path)
            } : nil
        if draft != nil { try plan.requireSameKeys(forDraftIn: source.path) }
        // Written with it, if the new store supports it.
        records[SQLiteStore.draftRecordKey] = nil
        let check =
            allowsRemoval ? nil : try source.counting { try TransferCheck(plan, from: $0) }
        let keepsHistory = try source.lastHistoryTransactionNumber() != nil
        func transfer(_ loading: any BulkInserter) throws {
            if keepsHistory, let bulk = loading as? SQLiteBulkLoad {
                try bulk.beginHistory(isRequired: true)
            }
            try ObjectTransfer(
                plan, from: source, identity: destination.identity, into: loading,
                policies: policies, step: advance
            ).run()
            try loading.setRecords(records)
            if let bulk = loading as? SQLiteBulkLoad {
                try check?.requireAll(
                    in: SQLContentCounter(connection: bulk.connection, schema: bulk.schema),
                    path: source.path)
                if plan.keepsKeys, let store = source as? SQLiteStore {
                    try store.copyFormerIdentifiers(to: bulk.connection)
                }
            }
        }
        if let store = destination as? any BulkInsertingStore {
            try store.load(transfer)
        } else {
            let loading = ChangeSetLoading(destination)
            try transfer(loading)
            try loading.finish { try check?.requireAll(in: $0, path: source.path) }
        }
        for (key, value) in try source.metadata().values where !StoreMetadata.isReserved(key) {
            try destination.setMetadata(value, forKey: key)
        }
        if let draft, let destination = destination as? SQLiteStore {
            try destination.writeDraft(draft)
        }
        finish()
        return check
    }

    /// The draft of a store for the new model.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if it would lose something without a word.
    func migratedDraft(_ draft: Data, by mapping: MappingModel, path: String?) throws -> Data {
        if let draftMigration { return draftMigration(draft, mapping) }
        if !mapping.renames { return draft }
        throw QuireError(
            .unsupported,
            "“\(path ?? "the store")” has a draft of unsaved changes, which would lose changes of renamed entities and "
                + "properties; migrate the document that the store belongs to, or open it with the model it was created "
                + "with, and save or discard the changes first.",
            file: path)
    }

    /// Throws if an inferred mapping would remove data, unless removal is allowed.
    func checkRemoval(
        by mapping: MappingModel, from source: ResolvedModel, to destination: ResolvedModel,
        path: String?, counting: (MappingOmissions) throws -> [MigrationRemoval]
    ) throws {
        if mappingModel != nil || allowsRemoval { return }
        let removals = try counting(MappingOmissions(mapping, from: source, to: destination))
        if !removals.isEmpty { throw QuireError.removalDenied(removals, path: path) }
    }

    private func requireEmpty(_ store: any PersistentStore) throws {
        for entity in store.layout.entities
        where entity.number == entity.rootNumber && store.keeps(entity) {
            var request = FetchSpecification(entity.name)
            request.fetchLimit = 1
            if try store.count(matching: request) > 0 {
                throw QuireError(
                    .alreadyExists,
                    "“\(store.path ?? store.identity.uuid)” already contains objects; migrate to a new store.",
                    entity: entity.name, file: store.path)
            }
        }
    }

    /// In atomic stores keys are unique among all objects.
    private static func keySpace(
        from source: any PersistentStore, to destination: any PersistentStore
    ) -> TransferPlan.KeySpace {
        guard let destination = destination as? AtomicStore else { return .table }
        return source is AtomicStore
            ? .sameStore : .store(first: Swift.type(of: destination).firstPrimaryKey)
    }

    /// The greatest key that an object of a hierarchy has had, as far as the store tells.
    static func maximumKey(
        of root: ResolvedEntity, in store: any PersistentStore
    ) throws -> Int64 {
        guard store.keeps(root) else { return 0 }
        if let store = store as? SQLiteStore { return try store.maximumPrimaryKey(of: root) }
        let ids = try store.objectIDs(matching: FetchSpecification(root.name))
        return ids.lazy.map(\.primaryKey).max() ?? 0
    }

    func countUnits(of plan: TransferPlan, in source: any PersistentStore) throws {
        var total: Int64 = 0
        for transfer in plan.transfers
        where !transfer.source.isAbstract && source.keeps(transfer.source) {
            let count = try source.count(matching: FetchSpecification(only: transfer.source.name))
            total += Int64(transfer.edges.isEmpty ? count : count * 2)
        }
        progress.totalUnitCount = max(total, 1)
    }

    /// Says that everything is done.
    func finish() {
        if progress.totalUnitCount < 1 { progress.totalUnitCount = 1 }
        progress.completedUnitCount = progress.totalUnitCount
    }

    /// Advances the progress, and throws if it was cancelled.
    func advance(_ count: Int) throws {
        if progress.isCancelled {
            throw QuireError(.cancelled, "The migration was cancelled; the old store is unchanged.")
        }
        progress.completedUnitCount += Int64(count)
    }
}
