internal import Foundation
internal import Quire
internal import QuireModel
internal import QuireSQLite
internal import QuireStore

/// Merges segments into records, and writes the rows that follow from them.
final class SyncMerge {
    private let tables: SyncTables
    private let date: Date
    private let policies: SyncPolicyMerge
    /// The objects whose records have changed.
    private(set) var touched: Set<SyncIdentifier> = []
    /// The objects that another peer has forgotten: their records go when their rows are gone.
    private(set) var forgotten: [SyncIdentifier] = []
    /// The number of values that have lost.
    private(set) var conflictCount = 0

    init(_ tables: SyncTables, date: Date) {
        self.tables = tables
        self.date = date
        policies = SyncPolicyMerge(tables, date: date)
    }

    /// Marks objects whose rows are to be computed again.
    func touch(_ ids: Set<SyncIdentifier>) { touched.formUnion(ids) }

    /// Writes segments with the changes that policies have made, and with values that other peers may have skipped.
    func finish() throws {
        try policies.finish()
        // A peer that has merged one of two segments with the same number skips a snapshot that covers the other one.
        if forks.isEmpty { return }
        try tables.sendAgain {
            forks.contains(SyncTables.SegmentKey(peer: $0.peer, sequence: $0.sequence))
        }
    }

    /// Merges a segment. Merging it again changes nothing.
    ///
    /// - Parameter size: The number of bytes of its file.
    func merge(_ segment: SyncSegment, _ name: SyncSegmentName, size: Int) throws {
        // Another replica with the same identifier has written one of this number.
        isForked = try tables.hasOtherSegment(than: name)
        if isForked {
            forks.insert(SyncTables.SegmentKey(peer: name.peer, sequence: name.sequence))
        }
        for record in segment.records { try merge(record, of: segment) }
        try tables.note(segment, name, size: size)
    }

    /// Merges a part of a snapshot. What the snapshot as a whole has is known when all of its parts are merged.
    func merge(snapshot segment: SyncSegment) throws {
        for record in segment.records { try merge(record, of: segment) }
        tables.settings.clock.observe(segment.time)
        tables.settings.known.formUnion(segment.seen)
        guard let header = segment.snapshot else { return }
        for peer in header.peers { try tables.note(peer) }
        try forget(whatIsMissingIn: segment, header)
    }

    /// Deletes objects that are in the range of a snapshot's part, and that it lacks because its author has forgotten them.
    private func forget(
        whatIsMissingIn segment: SyncSegment, _ header: SyncSnapshotHeader
    ) throws {
        if segment.forgotten.ranges.isEmpty { return }
        let present = Set(segment.records.map(\.id))
        for id in try tables.identifiers(after: header.after, through: header.through)
        where !present.contains(id) && id.isRandom {
            guard var object = try tables.object(id), object.record.existenceCount <= 2,
                let existence = object.record[.existence],
                segment.forgotten.contains(existence.version)
            else { continue }
            if object.record.isAlive {
                conflictCount += try tables.noteLoss(of: object.record, at: date) {
                    !segment.seen.contains($0.version)
                }
                object.record.set(.existence, .integer(2), existence.version)
                try tables.put(object)
                touched.insert(id)
            }
            forgotten.append(id)
        }
    }

    /// Whether this replica has forgotten the object of a record; then it stays deleted, whatever others have changed meanwhile.
    private func isForgotten(_ record: SyncRecord) throws -> Bool {
        let forgotten = tables.settings.forgotten
        guard !forgotten.ranges.isEmpty, record.id.isRandom, record.existenceCount <= 2,
            try tables.object(record.id) == nil
        else { return false }
        guard let existence = record[.existence] else {
            // A file that is read again.
            return record.entries.values.allSatisfy { forgotten.contains($0.version) }
        }
        guard forgotten.contains(existence.version) else { return false }
        if record.isAlive {
            conflictCount += try tables.noteLoss(of: record, at: date) {
                !tables.settings.seen.contains($0.version)
            }
        }
        return true
    }

    private func merge(_ record: SyncRecord, of segment: SyncSegment) throws {
        if try isForgotten(record) { return }
        let old = try tables.object(record.id)
        var object = old ?? .init(record: SyncRecord(id: record.id, entity: record.entity))
        var isChanged = old == nil
        var decided: [(key: SyncKey, value: SyncValue)] = []
        for (key, entry) in record.orderedEntries {
            tables.settings.clock.observe(entry.version.time)
            let own = object.record[key]
            if let own, own != entry, own.value != entry.value,
                try isConcurrent(own, entry, in: segment)
            {
                switch try policies.decide(key, old?.record ?? record, record, of: segment) {
                case .conflict: try noteConflict(of: key, own, entry, record)
                case .keep: break
                case .change(let values): decided += values
                }
            }
            if object.record.merge(key, entry) {
                isChanged = true
                // A value that was made with knowledge of those that were in conflict settles it.
                if let own, try !isConcurrent(own, entry, in: segment) {
                    try tables.removeConflicts(of: record.id, key, before: entry.version)
                }
            }
        }
        if !decided.isEmpty {
            policies.apply(decided, to: &object.record)
            isChanged = true
        }
        if let old, isChanged { try noteLossByDeletion(old.record, object.record, segment) }
        if record.entity < object.record.entity {
            // A file lies: the object gets a row of the other entity.
            if let row = object.objectID { tables.abandonedRows.append((record.id, row)) }
            object.objectID = nil
            object.record.entity = record.entity
            isChanged = true
        }
        guard isChanged else { return }
        try tables.put(object)
        touched.insert(record.id)
    }

    private var isForked = false
    /// The numbers of which there are two files.
    private var forks: Set<SyncTables.SegmentKey> = []

    /// Whether neither of two values was made with knowledge of the other.
    private func isConcurrent(
        _ own: SyncEntry, _ entry: SyncEntry, in segment: SyncSegment
    ) throws -> Bool {
        if isForked, entry.version.peer == segment.peer, entry.version.sequence == segment.sequence
        {
            return !segment.seen.contains(own.version) || own.version.peer == segment.peer
        }
        if own.version.peer == entry.version.peer { return false }
        // What has been merged before is in the record already, or has lost to what is.
        if tables.settings.seen.contains(entry.version) { return false }
        return try !segment.seen.contains(own.version)
            && !tables.seen(by: own.version).contains(entry.version)
    }

    private func noteConflict(
        of key: SyncKey, _ own: SyncEntry, _ entry: SyncEntry, _ record: SyncRecord
    ) throws {
        // Where an object goes in an order, and who deleted it twice, is nothing to choose between; nor is what others count.
        switch key {
        case .existence, .position, .counter, .base: return
        case .property, .member: break
        }
        let lost = SyncRecord.isGreater(entry, than: own, for: key) ? own : entry
        try tables.addConflict(of: record, key, lost, at: date)
        conflictCount += 1
    }

    /// Records the values of an object that one peer changed while another one deleted it.
    private func noteLossByDeletion(
        _ old: SyncRecord, _ new: SyncRecord, _ segment: SyncSegment
    ) throws {
        guard !new.isAlive, let deletion = new[.existence] else { return }
        let isOurs = old[.existence] == deletion
        for (key, entry) in new.orderedEntries where entry != deletion {
            switch key {
            case .property, .counter: break
            case .existence, .member, .position, .base: continue
            }
            if entry.version.peer == deletion.version.peer { continue }
            let isUnknown: Bool
            if isOurs {
                // The change comes with this segment.
                guard old[key] != entry else { continue }
                isUnknown =
                    try !tables.seen(by: deletion.version).contains(entry.version)
                    && !segment.seen.contains(deletion.version)
            } else {
                isUnknown =
                    !segment.seen.contains(entry.version)
                    && !tables.settings.seen.contains(deletion.version)
            }
            if isUnknown {
                try tables.addConflict(of: new, key, entry, at: date)
                conflictCount += 1
            }
        }
    }
}

// MARK: - Conflicts

extension SyncTables {
    func addConflict(
        of record: SyncRecord, _ key: SyncKey, _ lost: SyncEntry, at date: Date
    ) throws {
        let block = SyncRecord(id: record.id, entity: record.entity, entries: [key: lost])
        try connection.run(
            "INSERT OR IGNORE INTO QUIRE_SYNC_CONFLICT (Z_ID, Z_KEY, Z_LOST, Z_TIME) VALUES (?, ?, ?, ?)",
            record.id.bytes, Self.bytes(of: key), Data(SyncRecordBlock.encode([block])),
            date.timeIntervalSinceReferenceDate)
    }

    /// Removes the conflicts of a value that a later one settles. A file that is read again may bring the lost value itself.
    func removeConflicts(
        of id: SyncIdentifier, _ key: SyncKey, before version: SyncVersion
    ) throws {
        let settled = try conflicts(
            "WHERE Z_ID = ? AND Z_KEY = ?", [.binary(id.bytes), .binary(Self.bytes(of: key))])
        for conflict in settled where conflict.lost.version < version {
            try removeConflict(conflict.number)
        }
    }

    /// Removes the conflicts of values that have been changed here since.
    func removeConflicts(settledBy records: [SyncRecord]) throws {
        guard try connection.integer("SELECT 1 FROM QUIRE_SYNC_CONFLICT LIMIT 1") != nil
        else { return }
        for record in records {
            for (key, entry) in record.entries where key != .existence {
                try removeConflicts(of: record.id, key, before: entry.version)
            }
        }
    }

    func removeConflict(_ number: Int64) throws {
        try connection.run("DELETE FROM QUIRE_SYNC_CONFLICT WHERE Z_NUMBER = ?", number)
    }

    /// The conflicts, in the order in which they were found.
    func conflicts() throws -> [StoredConflict] { try conflicts("", []) }

    typealias StoredConflict = (
        number: Int64, key: SyncKey, lost: SyncEntry, id: SyncIdentifier, entity: String
    )

    private func conflicts(
        _ condition: String, _ values: [AttributeValue]
    ) throws -> [StoredConflict] {
        try connection.rows(
            "SELECT Z_NUMBER, Z_LOST FROM QUIRE_SYNC_CONFLICT \(condition) ORDER BY Z_NUMBER",
            values
        ) { row in
            var reader = SyncByteReader(Array(row.data(1))[...], file: store.storePath)
            guard let record = try SyncRecordBlock.decode(&reader).first,
                let (key, lost) = record.entries.first
            else { throw reader.damage("a conflict has no value") }
            return (row.integer(0), key, lost, record.id, record.entity)
        }
    }

    static func bytes(of key: SyncKey) -> Data {
        let id = SyncIdentifier(high: 0, low: 0)
        let version = SyncVersion(time: 0, peer: id, sequence: 0)
        let record = SyncRecord(
            id: id, entity: "", entries: [key: SyncEntry(value: .integer(0), version: version)])
        return Data(SyncRecordBlock.encode([record]))
    }
}
