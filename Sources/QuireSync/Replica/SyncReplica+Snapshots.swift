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
    static let snapshotPartSize = (records: 2_000, bytes: 8 << 20)

    /// The description of a snapshot of the present state.
    struct Snapshot: Sendable {
        let container: SyncIdentifier
        let peer: SyncIdentifier
        /// A random number: files of two snapshots are never taken for those of one, not even of copied stores.
        let number: Int64
        let time: UInt64
        let seen: SyncVector
        let forgotten: SyncVector
        let peers: [SyncPeer]
        /// The greatest identifier in each file but the last one.
        let ends: [SyncIdentifier]

        var partCount: Int { ends.count + 1 }
    }

    /// Begins a snapshot; `nil` if the store is not synchronized.
    func beginSnapshot() throws -> Snapshot? {
        try reading(nil) { tables in
            Snapshot(
                container: tables.settings.container, peer: tables.settings.peer,
                number: .random(in: 1..<1 << 60), time: tables.settings.clock.last,
                seen: tables.settings.seen, forgotten: tables.settings.forgotten,
                peers: try tables.peersForSnapshot(), ends: try snapshotEnds(tables))
        }
    }

    private func snapshotEnds(_ tables: SyncTables) throws -> [SyncIdentifier] {
        var (ends, last, count, bytes): ([SyncIdentifier], Data?, Int, Int) = ([], nil, 0, 0)
        try tables.connection.forEachRow(
            "SELECT Z_ID, length(Z_RECORD) FROM QUIRE_SYNC_OBJECT ORDER BY Z_ID"
        ) { row in
            let size = Int(row.integer(1))
            let isFull =
                count == Self.snapshotPartSize.records
                || bytes + size > Self.snapshotPartSize.bytes
            if let last, isFull {
                ends.append(SyncIdentifier(bytes: last))
                (count, bytes) = (0, 0)
            }
            last = row.data(0)
            count += 1
            bytes += size
        }
        return ends
    }

    /// A part of a snapshot. The last one has what has been inserted meanwhile, too.
    struct SnapshotFile: Sendable {
        let name: SyncSegmentName
        let bytes: Data
        /// The files of external data that its objects have.
        let blobs: [SyncBlob: SyncIdentifier]
    }

    /// - Returns: `nil` if deleted objects have been forgotten since the snapshot was begun, others would not read the file because it
    ///   is too large, or the store is not a replica any more.
    func snapshotFile(_ index: Int, of snapshot: Snapshot) throws -> SnapshotFile? {
        let header = SyncSnapshotHeader(
            after: index > 0 ? snapshot.ends[index - 1] : nil,
            through: index < snapshot.ends.count ? snapshot.ends[index] : nil,
            peers: snapshot.peers)
        let records: [SyncRecord]? = try reading(nil) { tables in
            guard tables.settings.forgotten == snapshot.forgotten else { return nil }
            return try tables.identifiers(after: header.after, through: header.through)
                .compactMap { try tables.object($0)?.record }
        }
        guard let records else { return nil }
        var blobs: [SyncBlob: SyncIdentifier] = [:]
        for record in records { for blob in record.blobs { blobs[blob] = record.id } }
        let part = SyncSnapshotPart(index: index, count: snapshot.partCount)
        let bytes = SyncSegment(
            container: snapshot.container, peer: snapshot.peer, sequence: snapshot.number,
            time: snapshot.time, model: modelDigest, seen: snapshot.seen,
            forgotten: snapshot.forgotten, records: records, part: part, snapshot: header
        ).encoded()
        let name = SyncSegmentName(
            peer: snapshot.peer, sequence: snapshot.number, part: part, encoded: bytes)
        // What others would not read must not take the place of segments.
        guard bytes.count <= SyncSegment.maximumSize else { return nil }
        do {
            _ = try SyncSegment(bytes, name: name)
        } catch let error as QuireError where error.code == .invalidFormat {
            return nil
        }
        return SnapshotFile(name: name, bytes: Data(bytes), blobs: blobs)
    }

    /// Whether this replica has merged all that a snapshot has.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` if own files would become too large by what it claims.
    func hasAll(of snapshot: SyncSegment, file: SyncFileName) throws -> Bool {
        guard let settings = try settings() else { return false }
        // A segment that it covers may be another replica's with this one's identifier.
        if try reading(false, { try $0.isAnotherReplica(seenBy: snapshot.seen) }) { return false }
        if settings.seen.contains(snapshot.seen) { return true }
        var (seen, forgotten) = (settings.seen, settings.forgotten)
        seen.formUnion(snapshot.seen)
        forgotten.formUnion(snapshot.forgotten)
        guard max(seen.rangeCount, forgotten.rangeCount) <= SyncVector.maximumRangeCount else {
            throw QuireError(
                .invalidFormat, "“\(file)” is damaged: it contains too many ranges of segments.",
                file: file.path)
        }
        return false
    }

    /// Records files of a snapshot as known: written by this replica, or without anything new.
    func noteSnapshotFiles(_ sizes: [SyncSegmentName: Int]) throws {
        try transact { tables in
            for (name, size) in sizes { try tables.noteSnapshotFile(name, size: size) }
        }
    }

    /// Captures local changes and merges a file of a snapshot, in one transaction.
    ///
    /// - Parameter isLast: Whether all other files of the snapshot have been merged.
    func merge(
        snapshot file: ReceivedSegment, isLast: Bool, blobs: [Data: Data], at date: Date,
        blobsSent sent: SyncTables.SegmentKey
    ) throws -> Merged {
        try mergingAfterCapture(
            blobs: blobs, at: date, seen: [file.segment.seen], blobsSent: sent
        ) { tables, merge in
            try merge.merge(snapshot: file.segment)
            try tables.noteSnapshotFile(file.name, size: file.size)
            guard isLast else { return 1 }
            tables.settings.seen.formUnion(file.segment.seen)
            // Objects that its author has forgotten are forgotten here too.
            tables.settings.forgotten.formUnion(file.segment.forgotten)
            return 1
        }
    }

    // MARK: - Sizes and blobs

    /// The sizes of files that have been merged or written, in bytes.
    func sizes(of names: [SyncSegmentName]) throws -> [SyncSegmentName: Int64] {
        try reading([:]) { tables in
            var sizes: [SyncSegmentName: Int64] = [:]
            for name in names { sizes[name] = try tables.size(of: name) }
            return sizes
        }
    }

    /// Whether no attribute of the model has values that are in files of their own, and no such file is known.
    func cannotHaveBlobs() throws -> Bool {
        if mayHaveBlobs { return false }
        return try digestsOfConflicts().isEmpty && reading(true) { try $0.unusedBlobs().isEmpty }
    }

    /// The digests of the blobs that have lost against other values, and may still be chosen.
    func digestsOfConflicts() throws -> Set<Data> {
        try reading([]) { tables in
            Set(
                try tables.conflicts().compactMap {
                    if case .blob(let blob) = $0.lost.value { blob.digest } else { nil }
                })
        }
    }

    /// Records the blobs in the folder that no object has.
    ///
    /// - Returns: Those that none has had for some seconds.
    func unusedBlobs(_ digests: Set<Data>, at date: Date, since delay: Double) throws -> [Data] {
        try transact { tables in
            let known = try tables.unusedBlobs()
            for digest in known.keys where !digests.contains(digest) {
                try tables.setUnused(digest, since: nil)
            }
            var removable: [Data] = []
            for digest in digests {
                // Not in the future: the clock was ahead.
                if let since = known[digest], since <= date {
                    if date.timeIntervalSince(since) >= delay { removable.append(digest) }
                } else {
                    try tables.setUnused(digest, since: date)
                }
            }
            return removable
        }
    }
}
