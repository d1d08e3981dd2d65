internal import Foundation
internal import Quire
internal import QuireModel
internal import QuireStore

/// The values that have lost against others, and what people make of them.
extension SyncReplica {
    /// The values that have lost against others.
    func conflicts() throws -> [SyncConflict] {
        try reading([]) { tables in
            return try tables.conflicts().compactMap { found in
                if found.key == .existence { return try hiddenConflict(found, tables) }
                let isFile = found.entity == SyncFiles.entity
                if isFile && !SyncFiles.isContent(found.key) { return nil }
                let object = try tables.object(found.id)
                let keptRecord = object.flatMap { $0.record.isAlive ? $0.record : nil }
                var lost = object?.record ?? SyncRecord(id: found.id, entity: found.entity)
                lost.set(found.key, found.lost.value, found.lost.version)
                let name = object?.record.entity ?? found.entity
                let entity = model.entity(named: name)
                let property = found.key.propertyName ?? ""
                let path = isFile ? object.flatMap { SyncFiles(tables).path(of: $0.record) } : nil
                var conflict = SyncConflict(
                    number: found.number, objectID: object?.objectID,
                    entityName: isFile
                        ? SyncConflict.additionalContent : entity?.entity.name ?? name,
                    propertyName: path ?? entity?.propertyName(for: property) ?? property,
                    kind: keptRecord == nil ? .deletion : .value,
                    lost: try described(found.key, of: lost, tables),
                    kept: try keptRecord.map { try described(found.key, of: $0, tables) } ?? .null,
                    date: SyncClock.date(of: found.lost.version.time))
                if case .blob(let blob) = found.lost.value { conflict.lostByteCount = blob.size }
                if case .blob(let blob)? = keptRecord?[found.key]?.value {
                    conflict.keptByteCount = blob.size
                }
                return conflict
            }
        }
    }

    /// A value that a record has, or would have; of a counter, the sum.
    private func described(
        _ key: SyncKey, of record: SyncRecord, _ tables: SyncTables
    ) throws -> AttributeValue {
        guard let value = record[key]?.value else { return .null }
        if let name = key.propertyName,
            let slot = model.entity(named: record.entity)?.slot(named: name),
            let counter = SyncCounter(slot, named: name, of: record), counter.isCounted
        {
            return counter.value
        }
        if case .reference(let id) = value {
            return try tables.object(id)?.objectID.map { .objectID($0) } ?? .null
        }
        return value.attributeValue ?? .null
    }

    /// Gives the object of a conflict the value that has lost, as a new change; one that is deleted comes back.
    ///
    /// - Parameter values: Other values for a hidden object; `nil` to show it as it is.
    /// - Throws: `QuireError` with code `notFound` if there is no such conflict any more.
    func choose(
        _ number: Int64, setting values: [String: AttributeValue]? = nil, at date: Date
    ) throws -> Merged {
        try mergingAfterCapture(blobs: [:], at: date) { tables, merge in
            guard let conflict = try tables.conflicts().first(where: { $0.number == number })
            else { throw noConflict(number) }
            if conflict.key == .existence {
                let changes: [SyncRecord]
                if let values {
                    changes = [try change(of: conflict.id, to: values, tables, at: date)]
                } else {
                    changes = try showHidden(conflict.id, tables, at: date)
                }
                try apply(changes, tables, merge)
                merge.touch([conflict.id])
                return 0
            }
            guard values == nil else {
                throw QuireError(
                    .invalidValue,
                    "Conflict \(number) does not concern a hidden object; choose its value without setting others, or dismiss it.",
                    file: store.storePath, value: String(number))
            }
            guard var object = try tables.object(conflict.id), object.record.canComeBack else {
                throw QuireError(
                    .notFound,
                    "The object of conflict \(number) was deleted on all replicas and cannot be restored; insert a new one with the value, and dismiss the conflict.",
                    file: store.storePath, value: String(number))
            }
            let version = tables.nextVersion(at: date)
            var change = SyncRecord(id: conflict.id, entity: object.record.entity)
            if !object.record.isAlive {
                // All of it: others may have forgotten it.
                change = object.record
                change.set(.existence, .integer(object.record.existenceCount + 1), version)
            }
            // What a peer has counted is still in the record, and is for that peer to change.
            let isCounted = if case .counter = conflict.key { true } else { false }
            if !isCounted { change.set(conflict.key, conflict.lost.value, version) }
            object.record.merge(change)
            try tables.put(object)
            // By its number too: the new value is not later than it if the clock is at its end.
            try tables.removeConflict(number)
            try tables.removeConflicts(of: conflict.id, conflict.key, before: version)
            try tables.addToOutbox([change])
            merge.touch([conflict.id])
            return 0
        }
    }

    /// Takes a conflict off the list: the value that was kept stays. A hidden object is deleted.
    func dismiss(_ number: Int64, at date: Date) throws -> Merged {
        try mergingAfterCapture(blobs: [:], at: date) { tables, merge in
            guard let conflict = try tables.conflicts().first(where: { $0.number == number })
            else { throw noConflict(number) }
            try tables.removeConflict(number)
            if conflict.key == .existence, let record = try tables.object(conflict.id)?.record,
                record.isAlive
            {
                try apply([existence(of: record, plus: 1, tables, at: date)], tables, merge)
            }
            return 0
        }
    }

    /// Applies changes that do not come from a save, and makes them a segment.
    private func apply(
        _ changes: [SyncRecord], _ tables: SyncTables, _ merge: SyncMerge
    ) throws {
        for change in changes {
            guard var object = try tables.object(change.id) else { continue }
            object.record.merge(change)
            try tables.put(object)
            merge.touch([change.id])
        }
        if !changes.isEmpty { try tables.addToOutbox(changes) }
    }

    private func noConflict(_ number: Int64) -> QuireError {
        QuireError(
            .notFound,
            "Conflict \(number) of “\(store.storePath)” does not exist or is already resolved.",
            file: store.storePath, value: String(number))
    }
}
