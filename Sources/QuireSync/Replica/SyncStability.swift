internal import Foundation
internal import Quire
internal import QuireSQLite

/// Forgetting deleted objects.
///
/// The record of a deleted object keeps it from coming back with a late file. It may go when no file can come any more that was
/// made without knowledge of the deletion. Each segment says what its peer had merged, so:
///
/// 1. *Common* is what all active peers had merged when they wrote their last segments that are known here.
/// 2. A *candidate* is what is common at one time, and the last segments of all peers at that time. All of these were written with
///    knowledge of it.
/// 3. When these segments are common too, all peers have merged all that was written without that knowledge. Thirty days after its
///    choice, deletions within the candidate are forgotten.
/// 4. The next segment says so, and others that have merged the candidate forget them, too.
///
/// A peer that has been silent for ninety days, or has been retired, is not waited for. It cannot bring objects back when it
/// returns: a part of a snapshot says which segments are forgotten, and an object that it lacks although its insertion is among
/// them was deleted (``SyncMerge``). For two replicas that have forgotten different objects this makes no difference, because rows
/// follow from objects that exist.
///
/// An object that can be inserted again on two machines with one identity is never forgotten; see ``SyncRecord/isForgettable``.
enum SyncStability {
    /// The seconds between the choice of a candidate and forgetting.
    static let delay: Double = 30 * 86_400
    /// The seconds after which a peer from which no segment comes is not waited for.
    static let silence: Double = 90 * 86_400
    /// The seconds between segments that only say what has been merged.
    static let acknowledgementInterval: Double = 86_400
}

extension SyncReplica {
    /// Forgets deleted objects that all peers know to be deleted, and acknowledges what has been merged if others wait for it.
    func forgetDeletedObjects(at date: Date) throws {
        guard try reading(false, { try $0.hasForgettable() || $0.hasForgotten() }) else { return }
        try transact { tables in
            try tables.forget(at: date)
            try tables.acknowledge(at: date)
        }
    }

    /// Writes a segment that retires a peer: the others do not wait for it any more.
    ///
    /// - Throws: `QuireError` with code `notFound` if no file of such a peer is known.
    func retire(_ peer: SyncIdentifier, at date: Date) throws {
        try transact { tables in
            guard peer != tables.settings.peer else {
                throw QuireError(
                    .invalidValue,
                    "A replica cannot retire itself; leave the shared document instead.",
                    file: store.storePath, value: peer.description)
            }
            guard try tables.peer(peer) != nil else {
                throw QuireError(
                    .notFound, "The shared document has no replica \(peer).",
                    file: store.storePath, value: peer.description)
            }
            _ = tables.settings.clock.next(at: date)
            try tables.addToOutbox([], retired: [peer])
        }
    }

    /// A last segment, which retires this peer; `nil` if segments have not been sent, for which others would wait.
    func lastSegment(at date: Date) throws -> (SyncSegmentName, Data)? {
        guard
            let name = try transact({ tables -> SyncSegmentName? in
                guard try tables.outbox().isEmpty else { return nil }
                _ = tables.settings.clock.next(at: date)
                return try tables.addToOutbox([], retired: [tables.settings.peer])
            })
        else { return nil }
        return try nextOutgoing(after: name.sequence - 1)
    }
}

extension SyncTables {
    // MARK: - Peers

    func peers() throws -> [SyncPeer] {
        try connection.rows("SELECT Z_PEER, Z_CONTENT FROM QUIRE_SYNC_PEER ORDER BY Z_PEER") {
            try peer($0.data(1))
        }
    }

    /// The peers that a snapshot names: those that have written most, if there are more than others would read.
    func peersForSnapshot() throws -> [SyncPeer] {
        let peers = try peers()
        if peers.count <= SyncPeer.maximumCount { return peers }
        return Array(peers.sorted { $0.sequence > $1.sequence }.prefix(SyncPeer.maximumCount))
    }

    func peer(_ id: SyncIdentifier) throws -> SyncPeer? {
        try connection.row("SELECT Z_CONTENT FROM QUIRE_SYNC_PEER WHERE Z_PEER = ?", id.bytes) {
            try peer($0.data(0))
        }
    }

    private func peer(_ bytes: Data) throws -> SyncPeer {
        var reader = SyncByteReader(Array(bytes)[...], file: store.storePath)
        return try SyncPeer(from: &reader)
    }

    /// Records what a segment or a snapshot says of a peer.
    func note(_ peer: SyncPeer) throws {
        let old = try self.peer(peer.id)
        var new = old ?? peer
        new.merge(peer)
        if new == old { return }
        var writer = SyncByteWriter()
        new.encode(to: &writer)
        try connection.run(
            "INSERT OR REPLACE INTO QUIRE_SYNC_PEER VALUES (?, ?, NULL)", peer.id.bytes,
            Data(writer.bytes))
    }

    func noteRetired(_ ids: some Sequence<SyncIdentifier>) throws {
        for id in ids {
            try note(
                SyncPeer(
                    id: id, sequence: 0, time: 0, seen: SyncVector(),
                    forgotten: SyncVector(), isRetired: true))
        }
    }

    func remove(peer id: SyncIdentifier) throws {
        try connection.run("DELETE FROM QUIRE_SYNC_PEER WHERE Z_PEER = ?", id.bytes)
    }

    func peerStatuses() throws -> [SyncPeerStatus] {
        let peers = try peers()
        let seen = settings.seen
        let missing = peers.reduce(settings.known) { union, peer in
            var union = union
            union.formUnion(peer.seen)
            return union
        }.subtracting(seen)
        return peers.map { peer in
            let unseen = seen.subtracting(peer.seen)
            return SyncPeerStatus(
                id: peer.id, lastDate: SyncClock.date(of: peer.time),
                mergedCount: seen.count(of: peer.id), missingCount: missing.count(of: peer.id),
                unseenCount: unseen.count,
                isRetired: peer.isRetired)
        }
    }

    // MARK: - Forgetting

    /// Whether there are records that only say that an object is deleted.
    func hasForgettable() throws -> Bool {
        try connection.integer("SELECT 1 FROM QUIRE_SYNC_DELETED LIMIT 1") != nil
    }

    /// Whether deletions have been forgotten of which no segment of this peer says so.
    fileprivate func hasForgotten() throws -> Bool {
        try !(peer(settings.peer)?.forgotten ?? SyncVector()).contains(settings.forgotten)
    }

    /// Takes the next of the steps of ``SyncStability``.
    fileprivate func forget(at date: Date) throws {
        // Whatever a merged change rests upon has been merged, too.
        guard settings.scan == nil, settings.seen.contains(settings.known) else { return }
        let active = try activePeers(at: date)
        // What others wait for is what this peer has written, not what it knows.
        guard active.contains(where: { $0.id == settings.peer }) else { return }
        try forgetWhatOthersHave(at: date)
        var common = active.reduce(settings.seen) { $0.intersection($1.seen) }
        // Their numbers are given again if this replica becomes another peer.
        for segment in try outbox() { common.remove(segment.peer, segment.sequence) }
        if var candidate = settings.candidate {
            // The clock was ahead.
            if candidate.date > date { candidate.date = date }
            settings.candidate = candidate
            guard date.timeIntervalSince(candidate.date) >= SyncStability.delay,
                common.contains(candidate.acknowledged)
            else { return }
            settings.candidate = nil
            try forgetRecords(of: candidate.seen, at: date)
        }
        if settings.forgotten.contains(common) { return }
        var last = SyncVector()
        for peer in active { last.formUnion(SyncVector(peer.id, through: peer.sequence)) }
        settings.candidate = .init(seen: common, acknowledged: last, date: date)
    }

    /// The peers that are waited for: not retired, and something new has come from them lately, by the clock of this machine.
    private func activePeers(at date: Date) throws -> [SyncPeer] {
        let now = date.timeIntervalSinceReferenceDate
        // New, or from a time when the clock was ahead.
        try connection.run(
            "UPDATE QUIRE_SYNC_PEER SET Z_DATE = ?1 WHERE Z_DATE IS NULL OR Z_DATE > ?1", now)
        let silent = Set(
            try connection.rows(
                "SELECT Z_PEER FROM QUIRE_SYNC_PEER WHERE Z_DATE <= ?", now - SyncStability.silence
            ) { SyncIdentifier(bytes: $0.data(0)) })
        return try peers().filter {
            $0.id == settings.peer || !$0.isRetired && !silent.contains($0.id)
        }
    }

    /// Forgets what other peers have forgotten: one of them has found that all know it.
    private func forgetWhatOthersHave(at date: Date) throws {
        var new = SyncVector()
        for peer in try peers() where settings.seen.contains(peer.forgotten) {
            new.formUnion(peer.forgotten)
        }
        if !settings.forgotten.contains(new) { try forgetRecords(of: new, at: date) }
    }

    /// Forgets deletions in some segments.
    private func forgetRecords(of segments: SyncVector, at date: Date) throws {
        settings.forgotten.formUnion(segments)
        let ids = try connection.rows("SELECT Z_ID FROM QUIRE_SYNC_DELETED") {
            SyncIdentifier(bytes: $0.data(0))
        }
        let listed = Set(try conflicts().map(\.id))
        for id in ids {
            guard let object = try object(id), object.objectID == nil else { continue }
            let record = object.record
            guard
                record.entries.values.allSatisfy({ settings.forgotten.contains($0.version) })
            else { continue }
            if record.existenceCount == 0 {
                // Changes of an object that was forgotten before they came.
                try noteLoss(of: record, at: date) { _ in true }
            } else if listed.contains(id) {
                // Choosing one of its values brings it back.
                continue
            }
            try forget(id)
        }
        try removeForgottenSegments()
    }

    /// Lists values of an object that is deleted as conflicts.
    ///
    /// - Returns: Their number.
    @discardableResult
    func noteLoss(
        of record: SyncRecord, at date: Date, where isLost: (SyncEntry) -> Bool
    ) throws -> Int {
        var count = 0
        for (key, entry) in record.orderedEntries where isLost(entry) {
            switch key {
            case .property, .counter: break
            case .existence, .member, .position, .base: continue
            }
            try addConflict(of: record, key, entry, at: date)
            count += 1
        }
        return count
    }

    /// Removes the rows that say who had merged what when writing a segment: it makes no difference for those that all have.
    private func removeForgottenSegments() throws {
        for (peer, set) in settings.forgotten.ranges where peer != settings.peer {
            for range in set.ranges {
                try connection.run(
                    "DELETE FROM QUIRE_SYNC_SEGMENT WHERE Z_PEER = ? AND Z_NUMBER >= ? AND Z_NUMBER < ?",
                    peer.bytes, range.lowerBound, range.upperBound)
            }
        }
    }

    /// Writes a segment without records, if others wait to hear what this peer has merged and forgotten.
    fileprivate func acknowledge(at date: Date) throws {
        var others = settings.seen
        others.remove(settings.peer)
        let own = try peer(settings.peer)
        let isKnown = own?.seen.contains(others) ?? false
        if try !hasForgotten() && (isKnown || !hasForgettable()) { return }
        if let last = settings.acknowledged, last <= date,
            date.timeIntervalSince(last) < SyncStability.acknowledgementInterval
        {
            return
        }
        settings.acknowledged = date
        _ = settings.clock.next(at: date)
        try addToOutbox([])
    }
}
