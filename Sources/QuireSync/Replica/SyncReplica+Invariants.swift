internal import Foundation
internal import Quire
internal import QuireModel
internal import QuireSQLite
internal import QuireStore

/// The invariant of a replica, whenever nothing is waiting to be captured: rows are a function of all records, and every row has a
/// record.
extension SyncReplica {
    /// Compares rows with records, and both with what the tables say of them.
    ///
    /// - Returns: A sentence for each breach; `nil` if something has been saved that is not captured yet, so that nothing can be said.
    func brokenInvariants() throws -> [String]? {
        try transact { tables in
            guard try tables.settings.captured == store.lastHistoryTransactionNumber() ?? 0,
                tables.settings.scan == nil, try tables.namesOfOtherModel() == nil
            else { return nil }
            return try SyncInvariants(tables).check()
        }
    }
}

/// Compares all rows and records, in one transaction.
private final class SyncInvariants {
    private let tables: SyncTables
    private let values: SyncValues
    private var model: SyncModel { tables.model }
    private var store: SQLiteStore { tables.store }
    private var problems: [String] = []

    init(_ tables: SyncTables) {
        self.tables = tables
        values = SyncValues(tables, tables.model)
    }

    func check() throws -> [String] {
        for id in try tables.identifiers(after: nil, through: nil) {
            if let object = try tables.object(id) { try check(object) }
        }
        for entity in store.layout.entities {
            if let entity = model[entity] { try checkRows(of: entity) }
        }
        for (digest, ids) in try tables.missing() {
            for id in ids {
                guard let object = try tables.object(id), object.objectID != nil,
                    object.record.blobs.contains(where: { $0.digest == digest })
                else {
                    report(id, "", "waits for a file that it does not refer to")
                    continue
                }
            }
        }
        return problems
    }

    private func report(_ id: SyncIdentifier, _ entity: String, _ sentence: String) {
        problems.append("The object \(id) of \(entity) \(sentence).")
    }

    // MARK: - Records

    private func check(_ object: SyncTables.Object) throws {
        let (id, name) = (object.record.id, object.record.entity)
        for target in object.record.references where try !tables.referrers(of: target).contains(id)
        {
            report(id, name, "is not listed as a referrer of \(target)")
        }
        for value in SyncUniqueness.values(of: object.record, in: model)
        where try !tables.objects(withUniqueValue: value).contains(id) {
            report(id, name, "is not listed with its unique value")
        }
        guard let entity = model.entity(named: name) else { return }
        guard try values.visibility.isVisible(id) else {
            if object.objectID != nil { report(id, name, "has a row, but should have none") }
            return
        }
        guard let objectID = object.objectID, let row = try store.row(for: objectID) else {
            return report(id, name, "has no row, but should have one")
        }
        if row.entity.number != entity.entity.number {
            return report(id, name, "has a row of entity \(row.entity.name)")
        }
        try check(row, object.record, entity)
    }

    private func check(
        _ row: ObjectSnapshot, _ record: SyncRecord, _ entity: SyncModel.Entity
    ) throws {
        for slot in entity.slots + entity.mirroredSlots {
            let expected = try values.value(of: slot, record, entity)
            let current = try row.valueWithoutLoading(at: slot.index)
            if try expected.isSame(as: current) { continue }
            if case .blob(let blob) = expected, current.isNull,
                try tables.isMissing(blob, of: record.id)
            {
                continue
            }
            report(
                record.id, record.entity, "has a different “\(slot.name)” in its row: \(current)")
        }
        for relationship in entity.memberships {
            let expected = try values.members(of: relationship, record)
            if try Set(members(of: relationship, row)) != expected {
                report(record.id, record.entity, "has different “\(relationship.name)” in its row")
            }
        }
        for relationship in entity.orders {
            let current = try members(of: relationship, row)
            if current != values.sorted(current, in: relationship, of: record) {
                report(
                    record.id, record.entity,
                    "has “\(relationship.name)” in a different order in its row")
            }
        }
    }

    private func members(
        of relationship: ResolvedEntity.Relationship, _ row: ObjectSnapshot
    ) throws -> [SyncIdentifier] {
        let rows = try store.relatedRows(of: row.objectID, through: relationship)
        return try (0..<rows.count).compactMap {
            try tables.object(at: rows[$0].objectID)?.record.id
        }
    }

    // MARK: - Rows

    private func checkRows(of entity: SyncModel.Entity) throws {
        var key: Int64 = 0
        while true {
            let rows = try store.rows(of: entity.entity, after: key, limit: SyncCapture.scanSize)
            for position in 0..<rows.count {
                let row = rows[position]
                key = row.objectID.primaryKey
                guard let object = try tables.object(at: row.objectID) else {
                    problems.append("The row \(row.objectID.shortDescription) has no record.")
                    continue
                }
                try checkEnds(of: row, object.record, entity)
            }
            if rows.count < SyncCapture.scanSize { return }
        }
    }

    /// One-to-one relationships have two ends, and required ones have a value.
    private func checkEnds(
        of row: ObjectSnapshot, _ record: SyncRecord, _ entity: SyncModel.Entity
    ) throws {
        for slot in entity.slots + entity.mirroredSlots {
            guard let index = slot.relationshipIndex else { continue }
            let relationship = entity.entity.relationships[index]
            guard case .objectID(let target) = try row.value(at: slot.index) else {
                if !relationship.description.isOptional,
                    entity.slots.contains(where: { $0.index == slot.index })
                {
                    report(record.id, record.entity, "lacks the required “\(slot.name)”")
                }
                continue
            }
            guard let inverse = model.layout.inverse(of: relationship), !inverse.isToMany,
                let back = inverse.slot
            else { continue }
            if try store.row(for: target)?.value(at: back) != .objectID(row.objectID) {
                report(
                    record.id, record.entity, "has a “\(slot.name)” that does not refer back to it")
            }
        }
    }
}
