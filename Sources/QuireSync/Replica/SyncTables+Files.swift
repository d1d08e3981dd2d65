internal import Foundation
internal import Quire
internal import QuireSQLite

/// The files that a replica knows: segments and snapshots that are merged or written, segments that are to be sent, blobs.
extension SyncTables {
    // MARK: - Missing files

    /// Records that an object's row lacks a value because its file has not arrived, or that it has arrived.
    func setMissing(_ blob: SyncBlob, of id: SyncIdentifier, _ isMissing: Bool) throws {
        try connection.run(
            isMissing
                ? "INSERT OR IGNORE INTO QUIRE_SYNC_MISSING VALUES (?, ?)"
                : "DELETE FROM QUIRE_SYNC_MISSING WHERE Z_DIGEST = ? AND Z_ID = ?", blob.digest,
            id.bytes)
    }

    func isMissing(_ blob: SyncBlob, of id: SyncIdentifier) throws -> Bool {
        try connection.integer(
            "SELECT 1 FROM QUIRE_SYNC_MISSING WHERE Z_DIGEST = ? AND Z_ID = ?", blob.digest,
            id.bytes) != nil
    }

    /// The objects that wait for files, by the files' digests.
    func missing() throws -> [Data: [SyncIdentifier]] {
        var found: [Data: [SyncIdentifier]] = [:]
        try connection.forEachRow("SELECT Z_DIGEST, Z_ID FROM QUIRE_SYNC_MISSING") {
            found[$0.data(0), default: []].append(SyncIdentifier(bytes: $0.data(1)))
        }
        return found
    }

    // MARK: - Segments

    /// Whether a segment, or a file of a snapshot, has been merged or written.
    func has(_ name: SyncSegmentName) throws -> Bool { try size(of: name) != nil }

    /// Whether a segment of the same peer and number has been merged that is another file.
    func hasOtherSegment(than name: SyncSegmentName) throws -> Bool {
        try connection.integer(
            "SELECT 1 FROM QUIRE_SYNC_SEGMENT WHERE Z_PEER = ? AND Z_NUMBER = ? AND Z_DIGEST != ?",
            name.peer.bytes, name.sequence, name.digest) != nil
    }

    /// Records a segment as merged.
    ///
    /// - Parameter size: The number of bytes of its file.
    func note(_ segment: SyncSegment, _ name: SyncSegmentName, size: Int) throws {
        var seen = SyncByteWriter()
        segment.seen.encode(to: &seen)
        try connection.run(
            "INSERT OR REPLACE INTO QUIRE_SYNC_SEGMENT VALUES (?, ?, ?, ?, ?)", name.peer.bytes,
            name.sequence, name.digest, Data(seen.bytes), Int64(size))
        settings.seen.insert(name.peer, name.sequence)
        settings.known.formUnion(segment.seen)
        settings.clock.observe(segment.time)
        var merged = segment.seen
        merged.insert(name.peer, name.sequence)
        try note(
            SyncPeer(
                id: name.peer, sequence: name.sequence, time: segment.time, seen: merged,
                forgotten: segment.forgotten))
        try noteRetired(segment.retired)
    }

    func noteSnapshotFile(_ name: SyncSegmentName, size: Int) throws {
        try connection.run(
            "INSERT OR IGNORE INTO QUIRE_SYNC_SNAPSHOT VALUES (?, ?)", name.fileName, Int64(size))
    }

    /// The size of a segment or a file of a snapshot in bytes; `nil` if it has been neither merged nor written.
    func size(of name: SyncSegmentName) throws -> Int64? {
        if name.part == nil {
            return try connection.row(
                "SELECT Z_SIZE FROM QUIRE_SYNC_SEGMENT WHERE Z_PEER = ? AND Z_NUMBER = ? AND Z_DIGEST = ?",
                name.peer.bytes, name.sequence, name.digest
            ) { $0.integer(0) }
        }
        return try connection.row(
            "SELECT Z_SIZE FROM QUIRE_SYNC_SNAPSHOT WHERE Z_NAME = ?", name.fileName
        ) { $0.integer(0) }
    }

    /// The blobs in the folder that no object has, and since when.
    func unusedBlobs() throws -> [Data: Date] {
        var found: [Data: Date] = [:]
        try connection.forEachRow("SELECT Z_DIGEST, Z_DATE FROM QUIRE_SYNC_BLOB") {
            found[$0.data(0)] = Date(timeIntervalSinceReferenceDate: $0.double(1))
        }
        return found
    }

    /// - Parameter date: `nil` if an object has the blob, or it is not in the folder.
    func setUnused(_ digest: Data, since date: Date?) throws {
        guard let date else {
            return try connection.run("DELETE FROM QUIRE_SYNC_BLOB WHERE Z_DIGEST = ?", digest)
        }
        try connection.run(
            "INSERT OR REPLACE INTO QUIRE_SYNC_BLOB VALUES (?, ?)", digest,
            date.timeIntervalSinceReferenceDate)
    }

    /// The segments that the author of a version had merged; empty if its segment is not known.
    func seen(by version: SyncVersion) throws -> SyncVector {
        let key = SegmentKey(peer: version.peer, sequence: version.sequence)
        if let known = vectors[key] { return known }
        let seen = try connection.row(
            "SELECT Z_SEEN FROM QUIRE_SYNC_SEGMENT WHERE Z_PEER = ? AND Z_NUMBER = ?",
            version.peer.bytes, version.sequence
        ) {
            var reader = SyncByteReader(Array($0.data(0))[...], file: store.storePath)
            return try SyncVector(from: &reader)
        }
        let vector = seen ?? SyncVector()
        vectors[key] = vector
        return vector
    }

    /// Makes records a segment that will be handed to the transport.
    @discardableResult
    func addToOutbox(
        _ records: [SyncRecord], retired: Set<SyncIdentifier> = []
    ) throws -> SyncSegmentName {
        let sequence = nextSequence
        let segment = SyncSegment(
            container: settings.container, peer: settings.peer, sequence: sequence,
            time: settings.clock.last, model: model.digest, seen: settings.seen,
            forgotten: settings.forgotten, retired: retired, records: records)
        let bytes = segment.encoded()
        try connection.run("INSERT INTO QUIRE_SYNC_OUTBOX VALUES (?, ?)", sequence, Data(bytes))
        let name = SyncSegmentName(peer: settings.peer, sequence: sequence, encoded: bytes)
        try note(segment, name, size: bytes.count)
        settings.sequence = sequence
        return name
    }

    /// The segments that have not been handed over, by number.
    func outbox() throws -> [SyncSegment] {
        let contents = try connection.rows(
            "SELECT Z_NUMBER, Z_CONTENT FROM QUIRE_SYNC_OUTBOX ORDER BY Z_NUMBER"
        ) { ($0.integer(0), Array($0.data(1))) }
        return try contents.map { number, bytes in
            try SyncSegment(
                bytes, name: SyncSegmentName(peer: settings.peer, sequence: number, encoded: bytes))
        }
    }

    /// The number of segments that have not been handed over.
    func outboxCount() throws -> Int {
        Int(try connection.integer("SELECT count(*) FROM QUIRE_SYNC_OUTBOX") ?? 0)
    }

    /// Whether segments after another one have not been handed over: all of them if that is another peer's.
    func hasUnsentSegments(after last: SegmentKey) throws -> Bool {
        let number = last.peer == settings.peer ? last.sequence : 0
        return try connection.integer(
            "SELECT 1 FROM QUIRE_SYNC_OUTBOX WHERE Z_NUMBER > ? LIMIT 1", number) != nil
    }

    /// Makes this replica another peer: another one has its identifier, because the store was copied, or an older copy has been
    /// restored.
    ///
    /// Changes that have not been handed over become changes of the new peer; those that have stay the old one's.
    ///
    /// - Parameter other: The peer, with the number of its last segment; `nil` for a new one.
    func becomeAnotherPeer(_ other: (peer: SyncIdentifier, sequence: Int64)? = nil) throws {
        let unsent = try outbox()
        try connection.execute("DELETE FROM QUIRE_SYNC_OUTBOX")
        for segment in unsent {
            settings.seen.remove(segment.peer, segment.sequence)
            settings.known.remove(segment.peer, segment.sequence)
            try connection.run(
                "DELETE FROM QUIRE_SYNC_SEGMENT WHERE Z_PEER = ? AND Z_NUMBER = ?",
                segment.peer.bytes, segment.sequence)
        }
        if let old = try peer(settings.peer), !unsent.isEmpty {
            // Others know it as it was when it sent its last one, and so does the replica that has this identifier now.
            try remove(peer: old.id)
            try note(
                SyncPeer(
                    id: old.id, sequence: old.sequence - Int64(unsent.count), time: old.time,
                    seen: SyncVector(), forgotten: SyncVector(), isRetired: old.isRetired))
        }
        settings.peer = other?.peer ?? SyncIdentifier()
        settings.sequence = other?.sequence ?? 0
        settings.acknowledged = nil
        for segment in unsent {
            var records: [SyncRecord] = []
            for record in segment.records {
                guard var object = try object(record.id) else { continue }
                var renamed = SyncRecord(id: record.id, entity: record.entity)
                for (key, entry) in record.entries {
                    guard entry.version.peer == segment.peer else {
                        renamed.set(key, entry.value, entry.version)
                        continue
                    }
                    let version = SyncVersion(
                        time: entry.version.time, peer: settings.peer, sequence: nextSequence)
                    renamed.set(key, entry.value, version)
                    if object.record[key] == entry { object.record.set(key, entry.value, version) }
                }
                try put(object)
                records.append(renamed)
            }
            try addToOutbox(records, retired: segment.retired)
        }
    }

    /// Makes this replica another peer if others know segments of it that it has not written, or it was retired.
    ///
    /// - Returns: Whether it has.
    func becomeAnotherPeerIfNeeded(seenBy other: SyncVector) throws -> Bool {
        if try isAnotherReplica(seenBy: other) {
            try becomeAnotherPeerOfTwo()
        } else if try peer(settings.peer)?.isRetired ?? false {
            try becomeAnotherPeer()
        } else {
            return false
        }
        return true
    }

    /// Whether another replica has written files with this one's identifier: others know segments that this one has not handed over.
    func isAnotherReplica(seenBy other: SyncVector) throws -> Bool {
        guard let last = other.ranges[settings.peer]?.ranges.last?.upperBound else { return false }
        return last > settings.sequence - Int64(try outboxCount()) + 1
    }

    /// Makes this replica another peer because another replica has written files with its identifier.
    ///
    /// A peer that has merged one of two segments with the same number may skip the other one. So every value that this replica has
    /// written, and that has not been overwritten, is sent again.
    func becomeAnotherPeerOfTwo() throws {
        let former = settings.peer
        try becomeAnotherPeer()
        try sendAgain { $0.peer == former }
    }

    /// Sends values again as they are. Where they are known that changes nothing.
    func sendAgain(where isIncluded: (SyncVersion) -> Bool) throws {
        var records: [SyncRecord] = []
        var size = 0
        for id in try identifiers(after: nil, through: nil) {
            guard let object = try object(id)?.record else { continue }
            let entries = object.entries.filter { isIncluded($0.value.version) }
            if entries.isEmpty { continue }
            let record = SyncRecord(id: id, entity: object.entity, entries: entries)
            records.append(record)
            size += record.size
            let limit = SyncReplica.snapshotPartSize
            if records.count >= limit.records || size >= limit.bytes {
                try addToOutbox(records)
                (records, size) = ([], 0)
            }
        }
        if !records.isEmpty { try addToOutbox(records) }
    }

    /// The number of the segment that changes made in this transaction will be in.
    var nextSequence: Int64 { settings.sequence + 1 }

    /// A version for a change that is made now.
    func nextVersion(at date: Date) -> SyncVersion {
        SyncVersion(
            time: settings.clock.next(at: date), peer: settings.peer, sequence: nextSequence)
    }
}
