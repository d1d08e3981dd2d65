internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Keeps what the rows of a batch insertion refer to in step: that it is there, that new objects come last where it keeps
/// them in an order, and that it has neither too few nor too many.
final class SQLiteBatchReferences {
    /// A relationship whose other side is more than a set of any number of objects.
    private struct Kept {
        let slot: Int
        let column: String
        let orderColumn: String?
        /// The relationship of the other side, if it leads to a bounded number of objects.
        let counted: EntityLayout.Relationship?
    }

    private struct Place: Hashable {
        let slot: Int
        let owner: Int64
    }

    private let batch: SQLiteBatch
    private let entity: EntityLayout
    private let kept: [Kept]
    private let countCheck: SQLiteCountCheck
    /// Objects that are known to be there.
    private var known: Set<UInt64> = []
    /// The last places in orders that rows were added to.
    private var lastKeys: [Place: Int64] = [:]

    /// How many of each are remembered.
    private static let greatestCount = 10_000

    init(_ entity: EntityLayout, _ batch: SQLiteBatch) throws {
        self.batch = batch
        self.entity = entity
        let store = batch.store
        let place = store.schema.entity(entity)
        kept = entity.relationships.compactMap { relationship in
            guard let slot = relationship.slot, let column = place.columns[slot],
                let inverse = store.layout.inverse(of: relationship)
            else { return nil }
            let counted = inverse.hasCountRules ? inverse : nil
            if column.orderColumn == nil && counted == nil { return nil }
            return Kept(
                slot: slot, column: SQLName.quoted(column.name),
                orderColumn: column.orderColumn.map(SQLName.quoted), counted: counted)
        }
        countCheck = SQLiteCountCheck(store: store, connection: batch.connection)
        if needsOldTargets { try countCheck.begin() }
    }

    /// Whether it matters what an object has referred to before.
    var needsOldTargets: Bool { kept.contains { $0.counted != nil } }

    /// Checks that the objects are there that a row refers to.
    ///
    /// - Throws: ``QuireError`` with code `notFound`.
    func check(_ row: BatchRow) throws {
        for (relationship, target) in row.references where !known.contains(target.bits) {
            let place = batch.store.schema.entity(number: target.entityNumber)
            let found = try batch.connection.integer(
                "SELECT Z_ENT FROM \(SQLName.quoted(place.tableName)) WHERE Z_PK = ?",
                target.primaryKey)
            guard let found, place.subtreeStoreNumbers.contains(Int(found)) else {
                throw QuireError(
                    .notFound,
                    "“\(entity.name).\(relationship.name)” is to lead to \(target.shortDescription), which is not there.",
                    subject: .init(
                        entity: entity.name, property: relationship.name,
                        object: target.uriRepresentation))
            }
            if known.count >= Self.greatestCount { known.removeAll(keepingCapacity: true) }
            known.insert(target.bits)
        }
    }

    /// Notes what a stored object refers to that will lead elsewhere.
    func willLeave(_ present: ObjectSnapshot, _ change: ObjectChange) throws {
        for kept in kept where change.changedSlots.contains(kept.slot) {
            guard let counted = kept.counted,
                case .objectID(let owner) = try present.value(at: kept.slot)
            else { continue }
            try countCheck.note(owner, counted)
        }
    }

    /// Gives a written object its place among those of what it refers to.
    func didWrite(
        _ change: ObjectChange,
        _ references: [(relationship: EntityLayout.Relationship, target: ManagedObjectID)]
    ) throws {
        if kept.isEmpty || references.isEmpty { return }
        for kept in kept where change.changedSlots.contains(kept.slot) {
            guard
                let reference = references.first(where: { $0.relationship.slot == kept.slot })
            else { continue }
            if let counted = kept.counted { try countCheck.note(reference.target, counted) }
            if let order = kept.orderColumn {
                try append(change.objectID, to: reference.target, kept, order)
            }
        }
    }

    /// Gives an object that has no place yet the one after all others.
    private func append(
        _ objectID: ManagedObjectID, to owner: ManagedObjectID, _ kept: Kept, _ order: String
    ) throws {
        let table = SQLName.quoted(batch.store.schema.entity(entity).tableName)
        let place = Place(slot: kept.slot, owner: owner.primaryKey)
        let last =
            try lastKeys[place]
            ?? batch.connection.integer(
                "SELECT max(\(order)) FROM \(table) WHERE \(kept.column) = ?", owner.primaryKey)
        let key = SQLOrderKeys.appending(1, after: last)[0]
        try batch.connection.withStatement(
            "UPDATE \(table) SET \(order) = ?1 WHERE Z_PK = ?2 AND \(order) IS NULL"
        ) {
            try $0.bind(key, at: 1)
            try $0.bind(objectID.primaryKey, at: 2)
            try $0.run()
        }
        if lastKeys.count >= Self.greatestCount { lastKeys.removeAll(keepingCapacity: true) }
        lastKeys[place] = key
    }

    /// Checks how many objects those have that rows referred to.
    func finish() throws {
        if needsOldTargets { try countCheck.finish() }
    }
}
