internal import Foundation
internal import Quire
internal import QuireSQLite
internal import QuireStore

/// Snapshots: all records of a replica as files, in place of the segments that it has merged.
///
/// A snapshot has the deleted objects too: without them an object that one peer has deleted would come back from another's segment.
/// Its vector is read before its records, so these have what it says at least, also if others are merged while it is written.
extension SyncReplica {
    /// The maximum number of records, and of bytes of records, in one file, but for a record that is larger by itself.
    static let snapshotPartSize = (records: 5_000, bytes: 16 << 20)

    /// The description of a snapshot of the present state.
    struct Snapshot: Sendable {
        let container: SyncIdentifier
        let peer: SyncIdentifier
        /// A random number: files of two snapshots are never taken for those of one, not even of copied stores.
        let number: Int64
        let time: UInt64
        let seen: SyncVector
        /// The greatest identifier in each file but the last one.
        let ends: [Data]

        var partCount: Int { ends.count + 1 }
    }

    /// Begins a snapshot; `nil` if the store is not synchronized.
    func beginSnapshot() throws -> Snapshot? {
        try reading(nil) { tables in
            Snapshot(
                container: tables.settings.container, peer: tables.settings.peer,
                number: .random(in: 1..<1 << 60), time: tables.settings.clock.last,
                seen: tables.settings.seen, ends: try snapshotEnds(tables))
        }
    }

    private func snapshotEnds(_ tables: SyncTables) throws -> [Data] {
        try tables.connection.withStatement(
            "SELECT Z_ID, length(Z_RECORD) FROM QUIRE_SYNC_OBJECT ORDER BY Z_ID"
        ) { row in
            var (ends, last, count, bytes): ([Data], Data?, Int, Int) = ([], nil, 0, 0)
            while try row.step() {
                let size = Int(row.integer(1))
                let isFull =
                    count == Self.snapshotPartSize.records
                    || bytes + size > Self.snapshotPartSize.bytes
                if let last, isFull {
                    ends.append(last)
                    (count, bytes) = (0, 0)
                }
                last = row.data(0)
                count += 1
                bytes += size
            }
            return ends
        }
    }

    /// A file of a snapshot. The last one has what has been inserted meanwhile, too.
    func snapshotFile(_ index: Int, of snapshot: Snapshot) throws -> (SyncSegmentName, Data) {
        let start = index > 0 ? snapshot.ends[index - 1] : Data()
        // Identifiers have 16 bytes, so this is greater than all.
        let end =
            index < snapshot.ends.count ? snapshot.ends[index] : Data(repeating: 255, count: 17)
        let records = try store.read { connection in
            try connection.withStatement(
                "SELECT Z_RECORD FROM QUIRE_SYNC_OBJECT WHERE Z_ID > ? AND Z_ID <= ? ORDER BY Z_ID"
            ) { row in
                try row.bind(start, at: 1)
                try row.bind(end, at: 2)
                var records: [SyncRecord] = []
                while try row.step() {
                    var reader = SyncByteReader(Array(row.data(0))[...], file: store.storePath)
                    records += try SyncRecordBlock.decode(&reader)
                }
                return records
            }
        }
        let part = SyncSnapshotPart(index: index, count: snapshot.partCount)
        let bytes = SyncSegment(
            container: snapshot.container, peer: snapshot.peer, sequence: snapshot.number,
            time: snapshot.time, model: modelDigest, seen: snapshot.seen, records: records,
            part: part
        ).encoded()
        let name = SyncSegmentName(
            peer: snapshot.peer, sequence: snapshot.number, part: part, encoded: bytes)
        return (name, Data(bytes))
    }

    /// Records files of a snapshot as known: written by this replica, or without anything new.
    func noteSnapshotFiles(_ names: [SyncSegmentName]) throws {
        try transact { tables in for name in names { try tables.noteSnapshotFile(name) } }
    }

    /// The files of snapshots that have not been merged, of some.
    func unknownSnapshotFiles(_ names: [SyncSegmentName]) throws -> [SyncSegmentName] {
        try reading([]) { tables in try names.filter { try !tables.hasSnapshotFile($0) } }
    }

    /// Captures local changes and merges a file of a snapshot, in one transaction.
    ///
    /// - Parameter isLast: Whether all other files of the snapshot have been merged.
    func merge(
        snapshot file: SyncSegment, _ name: SyncSegmentName, isLast: Bool, blobs: [Data: Data],
        at date: Date
    ) throws -> Merged {
        try mergingAfterCapture(blobs: blobs, at: date) { tables, merge in
            try merge.merge(snapshot: file)
            try tables.noteSnapshotFile(name)
            if isLast { tables.settings.seen.formUnion(file.seen) }
            return 1
        }
    }
}
