internal import Foundation
internal import Quire
internal import QuireSQLite
internal import QuireStore

/// Making rows and records anew.
extension SyncReplica {
    /// Makes the next capture go through all rows, whatever the history says.
    func compareRows() throws {
        try transact { $0.settings.scan = .init(entity: "", key: 0) }
    }

    /// Writes the rows of all objects that have others than their records say.
    func writeAllRows(at date: Date) throws -> Merged {
        try mergingAfterCapture(blobs: [:], at: date) { tables, merge in
            merge.touch(Set(try tables.identifiers(after: nil, through: nil)))
            return 0
        }
    }

    /// Makes all records from files, and the rows from them.
    ///
    /// - Parameters:
    ///   - files: The segments and snapshots in the folder, these whole.
    ///   - discardsMissing: Whether what this replica has merged, and is in none of the files, is lost.
    /// - Throws: `QuireError` with code `invalidState` if changes have not been sent, or files are missing.
    func rebuild(
        from files: [ReceivedSegment], discardsMissing: Bool, at date: Date
    ) throws -> Merged {
        try transact { tables in
            guard try tables.outbox().isEmpty,
                try tables.settings.captured == store.lastHistoryTransactionNumber() ?? 0
            else {
                throw invalidState("has unsent changes; synchronize it first")
            }
            let rows = try tables.identifiers(after: nil, through: nil)
                .compactMap { try tables.object($0) }.filter { $0.objectID != nil }
            var known = tables.settings.known
            known.formUnion(tables.settings.seen)
            let conflicts = try tables.conflicts().map(\.number)
            try tables.removeState()
            let merge = SyncMerge(tables, date: date)
            try self.merge(files, tables, merge)
            known.formUnion(tables.settings.known)
            guard discardsMissing || tables.settings.seen.contains(known) else {
                throw invalidState(
                    "cannot be rebuilt: files that it has merged are missing from the folder. Try again when they have arrived, or repair the folder"
                )
            }
            let gone = try assign(rows, tables)
            try merge.finish()
            // What has been settled does not come up again.
            for conflict in try tables.conflicts() where !conflicts.contains(conflict.number) {
                try tables.removeConflict(conflict.number)
            }
            let ids = Set(try tables.identifiers(after: nil, through: nil))
            var merged = Merged(count: files.count)
            try writeRows(of: ids, tables, &merged)
            for id in gone { try tables.forget(id) }
            return merged
        }
    }

    private func merge(
        _ files: [ReceivedSegment], _ tables: SyncTables, _ merge: SyncMerge
    ) throws {
        let snapshots = files.filter { $0.name.part != nil }
        let byName = Dictionary(snapshots.map { ($0.name, $0) }) { first, _ in first }
        for names in SyncSegmentName.wholeSnapshots(Array(byName.keys)) {
            let group = names.compactMap { byName[$0] }
            for file in group {
                try merge.merge(snapshot: file.segment)
                try tables.noteSnapshotFile(file.name, size: file.size)
            }
            guard let segment = group.first?.segment else { continue }
            tables.settings.seen.formUnion(segment.seen)
            tables.settings.forgotten.formUnion(segment.forgotten)
        }
        for id in merge.forgotten { try tables.forget(id) }
        let segments = files.filter { $0.name.part == nil }
            .sorted { ($0.name.sequence, $0.name.peer) < ($1.name.sequence, $1.name.peer) }
        for file in segments { try merge.merge(file.segment, file.name, size: file.size) }
    }

    /// Gives the new records the rows that objects had before.
    ///
    /// - Returns: The objects that no file has, with records that say that they are deleted.
    private func assign(
        _ rows: [SyncTables.Object], _ tables: SyncTables
    ) throws -> [SyncIdentifier] {
        var gone: [SyncIdentifier] = []
        for row in rows {
            let id = row.record.id
            var object =
                try tables.object(id)
                ?? .init(record: SyncRecord(id: id, entity: row.record.entity))
            if object.record.entries.isEmpty { gone.append(id) }
            object.objectID = row.objectID
            try tables.put(object)
        }
        return gone
    }

    private func invalidState(_ sentence: String) -> QuireError {
        QuireError(.invalidState, "“\(store.storePath)” \(sentence).", file: store.storePath)
    }
}
