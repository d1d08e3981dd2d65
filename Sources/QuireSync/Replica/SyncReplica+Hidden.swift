internal import Foundation
internal import Quire
internal import QuireModel
internal import QuireSQLite
internal import QuireStore

/// Objects that exist and have no row, because another one has their unique values, or something that they need is not there.
///
/// Each is listed among the conflicts, under its existence, for as long as it is hidden: nothing of it is lost.
extension SyncTables {
    private static let key = bytes(of: .existence)

    /// The hidden objects that are listed.
    func listedHiddenObjects() throws -> Set<SyncIdentifier> {
        Set(
            try connection.rows("SELECT Z_ID FROM QUIRE_SYNC_CONFLICT WHERE Z_KEY = ?", Self.key) {
                SyncIdentifier(bytes: $0.data(0))
            })
    }

    /// Lists a hidden object.
    func listHidden(_ record: SyncRecord) throws {
        guard let existence = record[.existence] else { return }
        try addConflict(
            of: record, .existence, existence, at: SyncClock.date(of: settings.clock.last))
    }

    /// Takes an object off the list that is hidden no longer.
    func removeHidden(_ id: SyncIdentifier) throws {
        try connection.run(
            "DELETE FROM QUIRE_SYNC_CONFLICT WHERE Z_KEY = ? AND Z_ID = ?", Self.key, id.bytes)
    }
}

extension SyncReplica {
    /// The conflict that lists a hidden object; `nil` if it is hidden no longer.
    func hiddenConflict(_ found: SyncTables.StoredConflict, _ tables: SyncTables) throws
        -> SyncConflict?
    {
        let values = SyncValues(tables, model)
        guard let record = try tables.object(found.id)?.record,
            let entity = model.entity(named: record.entity),
            let obstacle = try values.visibility.obstacle(of: found.id)
        else { return nil }
        var conflict = SyncConflict(
            number: found.number, objectID: nil, entityName: entity.entity.name,
            propertyName: "", kind: .hidden, lost: .null, kept: .null,
            date: SyncClock.date(of: found.lost.version.time))
        switch obstacle {
        case .uniqueValue(let properties, let owner):
            conflict.propertyName = properties.joined(separator: ",")
            conflict.hiddenBy = try tables.object(owner)?.objectID
        case .value(let property), .object(let property, _): conflict.propertyName = property
        }
        for slot in entity.slots {
            guard case .value(let value) = try values.value(of: slot, record, entity),
                !value.isNull
            else { continue }
            conflict.values[slot.name] = value
        }
        return conflict
    }

    /// Shows a hidden object: in the place of the one that has its unique values, which is hidden then; or with the object that it
    /// requires, which comes back.
    func showHidden(_ id: SyncIdentifier, _ tables: SyncTables, at date: Date) throws
        -> [SyncRecord]
    {
        let visibility = SyncVisibility(tables, model)
        var (next, seen) = (id, Set<SyncIdentifier>())
        while seen.insert(next).inserted {
            switch try visibility.obstacle(of: next) {
            case nil: return []
            case .uniqueValue(_, let owner):
                // As if it had been deleted and inserted now: the other one is older.
                guard let record = try tables.object(owner)?.record else { return [] }
                return [try existence(of: record, plus: 2, tables, at: date)]
            case .value(let property):
                throw cannotShow(id, "its “\(property)” has no value that the model allows", tables)
            case .object(let property, let required):
                guard let required, let record = try tables.object(required)?.record,
                    record.canComeBack
                else {
                    throw cannotShow(
                        id,
                        "the object that its “\(property)” requires was deleted on all replicas",
                        tables)
                }
                // All of it: others may have forgotten it.
                if !record.isAlive { return [try existence(of: record, plus: 1, tables, at: date)] }
                next = required
            }
        }
        throw cannotShow(id, "the objects that it requires are hidden too", tables)
    }

    /// A record with a new existence, in which an object has all of its values.
    func existence(
        of record: SyncRecord, plus count: Int64, _ tables: SyncTables, at date: Date
    ) throws -> SyncRecord {
        var changed = record
        changed.set(
            .existence, .integer(record.existenceCount + count), tables.nextVersion(at: date))
        return changed
    }

    private func cannotShow(
        _ id: SyncIdentifier, _ reason: String, _ tables: SyncTables
    ) -> QuireError {
        QuireError(
            .invalidValue,
            "Object \(id) cannot be shown as it is, because \(reason); set other values.",
            file: store.storePath, value: id.description)
    }

    /// A change that gives a hidden object values.
    ///
    /// - Throws: `QuireError` with code `unknownKey` or `invalidValue`; `notFound` if the object is not there any more.
    func change(
        of id: SyncIdentifier, to newValues: [String: AttributeValue], _ tables: SyncTables,
        at date: Date
    ) throws -> SyncRecord {
        guard let record = try tables.object(id)?.record,
            let entity = model.entity(named: record.entity)
        else {
            throw QuireError(
                .notFound, "“\(store.storePath)” no longer contains object \(id).",
                file: store.storePath, value: id.description)
        }
        var change = SyncRecord(id: id, entity: record.entity)
        let version = tables.nextVersion(at: date)
        for (name, value) in newValues.sorted(by: { $0.key < $1.key }) {
            guard let slot = entity.slots.first(where: { $0.name == name }) else {
                throw QuireError(
                    .unknownKey,
                    "\(entity.entity.name) has no synchronized attribute or to-one relationship “\(name)”.",
                    entity: entity.entity.name, property: name)
            }
            if slot.relationshipIndex != nil {
                guard case .objectID(let target) = value,
                    let reference = try tables.object(at: target)?.record.id
                else {
                    throw QuireError(
                        .invalidValue,
                        "\(entity.entity.name).\(name) can only refer to a synchronized object of this store.",
                        entity: entity.entity.name, property: name)
                }
                change.set(.property(entity.name(of: slot)), .reference(reference), version)
                continue
            }
            let coerced = try slot.coerce(value, in: entity.entity)
            let entries = entity.entries(
                for: try SyncValue(coerced), of: slot, in: record, by: tables.settings.peer)
            for (key, value) in entries { change.set(key, value, version) }
        }
        return change
    }
}
