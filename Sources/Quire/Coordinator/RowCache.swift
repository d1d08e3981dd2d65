internal import QuireStore

/// A cache of rows that were read singly or in batches, by identifier, with the time of the read: a fault that fires again, or
/// in another context, need not read from the store.
///
/// A row may be older than the store's if another process or another coordinator has saved since. Within one coordinator it
/// never is: a save evicts the rows it writes, and rows read before the end of the save are refused when they arrive after it.
///
/// Row sets are cached and evicted as a whole, because they share memory: the oldest are evicted when the size exceeds the
/// limit. The places of their rows are forgotten later, many together, so that an eviction does not read the rows. Usable from
/// any thread.
final class RowCache: Sendable {
    /// The start of a read. Rows are accepted only if there was no save since.
    struct Ticket {
        fileprivate let generation: UInt64
    }

    fileprivate struct Batch {
        let rows: RowSet
        let time: ContinuousClock.Instant
    }

    fileprivate struct State: ~Copyable {
        /// The serial number of a row's batch in the high half, its position there in the low one. The batch may be evicted.
        var places = IdentifierTable()
        /// The most places that may be of evicted batches.
        var evictedCount = 0
        /// The numbers of the entities of all rows, and perhaps others.
        var entities: Set<Int> = []
        /// The batches from `firstSerial` on; `nil` for evicted ones.
        var batches: [Batch?] = []
        var firstLive = 0
        var firstSerial: UInt64 = 0
        var size = 0
        var generation: UInt64 = 0
    }

    private let state = Lock(State())
    /// The size limit in bytes.
    private let maximumSize: Int

    init(maximumSize: Int) { self.maximumSize = maximumSize }

    /// Begins a read.
    func ticket() -> Ticket { Ticket(generation: state.withLock { $0.generation }) }

    /// The number of rows that are kept, for tests.
    var count: Int {
        state.withLock { state in
            state.forgetEvicted()
            return state.places.count
        }
    }

    /// The memory used by rows, for tests.
    var byteCount: Int { state.withLock { $0.size } }

    /// The row of an object, if there is one that is not older than `age` seconds. No bound if that is negative.
    func row(_ bits: UInt64, maximumAge age: Double) -> ObjectSnapshot? {
        if age == 0 { return nil }
        return state.withLock { state in
            guard let (batch, position) = state.find(bits), Self.isFresh(batch.time, age) else {
                return nil
            }
            return batch.rows[position]
        }
    }

    /// The cached rows of objects, and the identifiers of the misses.
    func rows(
        _ objectIDs: [ManagedObjectID], maximumAge age: Double
    ) -> (found: [ObjectSnapshot], missing: [ManagedObjectID]) {
        if age == 0 { return ([], objectIDs) }
        return state.withLock { state in
            if state.places.isEmpty { return ([], objectIDs) }
            var found: [ObjectSnapshot] = []
            var missing: [ManagedObjectID] = []
            for id in objectIDs {
                if let (batch, position) = state.find(id.bits), Self.isFresh(batch.time, age) {
                    found.append(batch.rows[position])
                } else {
                    missing.append(id)
                }
            }
            return (found, missing)
        }
    }

    private static func isFresh(_ time: ContinuousClock.Instant, _ age: Double) -> Bool {
        age < 0 || ContinuousClock.now - time <= .seconds(age)
    }

    /// Caches rows, replacing older ones.
    func insert(_ rows: RowSet, _ ticket: Ticket) {
        let size = rows.byteCount
        if rows.isEmpty || size > maximumSize / 2 { return }
        state.withLock { state in
            guard state.generation == ticket.generation else { return }
            let serial = state.firstSerial &+ UInt64(state.batches.count)
            if serial >= 1 << 32 {
                state.removeAll()
                return
            }
            state.batches.append(Batch(rows: rows, time: .now))
            state.size += size
            var entity = 0
            for position in rows.indices {
                let bits = rows.identifierBits(at: position)
                state.places.set(serial << 32 | UInt64(position), for: bits)
                let number = ManagedObjectID.entityNumber(of: bits)
                if number != entity { state.entities.insert(number) }
                entity = number
            }
            while state.size > maximumSize { state.removeOldest() }
        }
    }

    /// Evicts rows that a fetch of an entity's objects has shown to be stale.
    func compare(with rows: RowSet, of entity: ResolvedEntity) {
        state.withLock { state in
            guard state.entities.contains(where: entity.subtree.contains) else { return }
            for position in rows.indices {
                let bits = rows.identifierBits(at: position)
                if let known = state.version(bits), known != rows.version(at: position) {
                    state.places.remove(bits)
                }
            }
        }
    }

    /// Evicts rows, and refuses those being read now.
    func remove(_ changes: ChangeSet) {
        state.withLock { state in
            state.generation += 1
            if state.places.isEmpty { return }
            for change in changes.updated { state.places.remove(change.objectID.bits) }
            for deletion in changes.deleted { state.places.remove(deletion.objectID.bits) }
            // A reinserted object keeps its identifier.
            for change in changes.inserted { state.places.remove(change.objectID.bits) }
        }
    }

    /// Evicts rows.
    func remove(_ identifiers: some Sequence<UInt64>) {
        state.withLock { state in
            state.generation += 1
            if state.places.isEmpty { return }
            for bits in identifiers { state.places.remove(bits) }
        }
    }

    /// Evicts all rows, and refuses those being read now.
    func removeAll() {
        state.withLock { state in
            state.generation += 1
            state.removeAll()
        }
    }
}

extension RowCache.State {
    /// The serial number of the oldest batch that is kept.
    private var oldestSerial: UInt64 { firstSerial + UInt64(firstLive) }

    private func place(_ bits: UInt64) -> (index: Int, position: Int)? {
        guard let place = places[bits], place >> 32 >= oldestSerial else { return nil }
        return (Int(place >> 32 - firstSerial), Int(place & 0xFFFF_FFFF))
    }

    fileprivate func find(_ bits: UInt64) -> (batch: RowCache.Batch, position: Int)? {
        guard let (index, position) = place(bits), let batch = batches[index] else { return nil }
        return (batch, position)
    }

    fileprivate func version(_ bits: UInt64) -> UInt32? {
        guard let (index, position) = place(bits) else { return nil }
        return batches[index]?.rows.version(at: position)
    }

    fileprivate mutating func removeOldest() {
        guard firstLive < batches.count else { return }
        if let batch = batches[firstLive] {
            evictedCount += batch.rows.count
            size -= batch.rows.byteCount
            batches[firstLive] = nil
        }
        firstLive += 1
        if firstLive > 64 && firstLive * 2 > batches.count {
            batches.removeFirst(firstLive)
            firstSerial += UInt64(firstLive)
            firstLive = 0
        }
        if evictedCount > 1_024 && evictedCount * 2 > places.count { forgetEvicted() }
    }

    /// Forgets the places of rows of evicted batches.
    fileprivate mutating func forgetEvicted() {
        let oldest = oldestSerial
        places.removeAll { $0 >> 32 < oldest }
        evictedCount = 0
    }

    fileprivate mutating func removeAll() {
        places.removeAll()
        evictedCount = 0
        entities = []
        batches = []
        firstLive = 0
        firstSerial = 0
        size = 0
    }
}
