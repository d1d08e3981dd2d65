internal import Foundation
internal import Quire
internal import QuireSQLite
internal import QuireStore

/// Snapshots: all records of a replica as files, in place of the segments that it has merged.
///
/// A snapshot has the deleted objects too: without them an object that one peer has deleted would come back from another's segment.
/// Its vector is read before its records, so these have what it says at least, also if others are merged while it is written.
extension SyncReplica {
    /// The number of records in one file.
    static let snapshotPartSize = 5_000

    /// What a snapshot of the present state is to be.
    struct Snapshot: Sendable {
        let container: SyncIdentifier
        let peer: SyncIdentifier
        /// A random number: files of two snapshots are never taken for those of one, not even of copied stores.
        let number: Int64
        let time: UInt64
        let seen: SyncVector
        let partCount: Int
    }

    /// Begins a snapshot; `nil` if the store is not synchronized.
    func beginSnapshot() throws -> Snapshot? {
        try reading(nil) { tables in
            let count = try tables.connection.integer("SELECT count(*) FROM QUIRE_SYNC_OBJECT") ?? 0
            return Snapshot(
                container: tables.settings.container, peer: tables.settings.peer,
                number: .random(in: 1..<1 << 60), time: tables.settings.clock.last,
                seen: tables.settings.seen,
                partCount: max(1, (Int(count) + Self.snapshotPartSize - 1) / Self.snapshotPartSize))
        }
    }

    /// A file of a snapshot.
    ///
    /// - Parameter last: The greatest identifier in the files before; the new one afterwards.
    func snapshotFile(
        _ index: Int, of snapshot: Snapshot, after last: inout Data
    ) throws -> (SyncSegmentName, Data) {
        // The last part has what has been inserted meanwhile, too.
        let limit = index + 1 < snapshot.partCount ? Self.snapshotPartSize : Int(Int32.max)
        let start = last
        let (records, end) = try store.read { connection in
            try connection.withStatement(
                "SELECT Z_RECORD, Z_ID FROM QUIRE_SYNC_OBJECT WHERE Z_ID > ? ORDER BY Z_ID LIMIT \(limit)"
            ) { row in
                try row.bind(start, at: 1)
                var (records, end): ([SyncRecord], Data) = ([], start)
                while try row.step() {
                    var reader = SyncByteReader(Array(row.data(0))[...], file: store.storePath)
                    records += try SyncRecordBlock.decode(&reader)
                    end = row.data(1)
                }
                return (records, end)
            }
        }
        last = end
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

    /// Which of the files of snapshots have not been merged.
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
