internal import QuireModel
internal import QuireSystem

/// The allocator of a store's primary keys. Kept in memory; a save that uses keys makes them durable, unless they were
/// recorded before.
struct SQLPrimaryKeys {
    private struct Range {
        /// The greatest key in the store when first read.
        let first: Int64
        /// The greatest key recorded in the store, as far as this process knows.
        var recorded: Int64
        /// The key that a running transaction of this process will record: a reader may see it before ``recorded`` is updated.
        var pending: Int64?
        /// The greatest key reserved.
        var last: Int64
        /// The greatest key recorded ahead here: keys between `last` and it belong to this process.
        var ownThrough: Int64 = 0
        /// The number of keys recorded ahead.
        var ownCount: Int64 = 0
        /// Keys reserved here before another process was found to have recorded them.
        var taken: [ClosedRange<Int64>] = []

        init(_ greatest: Int64) { (first, recorded, last) = (greatest, greatest, greatest) }
    }

    private var ranges: [Int: Range] = [:]

    /// The maximum number of keys recorded ahead without being requested.
    private static let maximumSurplus: Int64 = 1000

    /// Whether the greatest key of a hierarchy has been read from the store.
    func isKnown(root: Int) -> Bool { ranges[root] != nil }

    /// Sets the greatest key in the store; ignored if it is known.
    mutating func learn(_ greatest: Int64, root: Int) {
        if ranges[root] == nil { ranges[root] = Range(greatest) }
    }

    // MARK: Reserving

    /// Reserves keys of a known hierarchy.
    ///
    /// - Parameters:
    ///   - root: The number of the root entity, whose hierarchy shares one sequence of keys.
    ///   - count: The number of keys; at least one.
    mutating func reserve(root: Int, count: Int) throws -> ClosedRange<Int64> {
        var range = ranges[root] ?? Range(0)
        let last = try Self.key(range.last, plus: Int64(count))
        let first = range.last + 1
        range.last = last
        ranges[root] = range
        return first...last
    }

    /// Reserves keys that have been recorded ahead, if there are enough.
    mutating func reserveRecorded(root: Int, count: Int) -> ClosedRange<Int64>? {
        guard let range = ranges[root], range.ownThrough - range.last >= count else { return nil }
        ranges[root]?.last += Int64(count)
        return range.last + 1...range.last + Int64(count)
    }

    /// The key to record before keys are reserved exclusively for this process: as many additional ones as have been recorded
    /// ahead before, for the next time.
    func maximumToRecord(root: Int, count: Int) throws -> Int64 {
        guard let range = ranges[root] else { return Int64(count) }
        let needed = try Self.key(range.last, plus: Int64(count))
        let surplus = min(range.ownCount, Self.maximumSurplus)
        return (try? Self.key(needed, plus: surplus)) ?? needed
    }

    private static func key(_ key: Int64, plus count: Int64) throws -> Int64 {
        let (sum, overflow) = key.addingReportingOverflow(count)
        guard !overflow, sum <= ManagedObjectID.maximumPrimaryKey else {
            throw QuireError(
                .storeUnavailable,
                "The store has used all its primary keys; no more objects can be added.")
        }
        return sum
    }

    // MARK: Other processes

    /// Notes the key recorded in the store. Keys beyond those known here belong to another process; those among them that have
    /// been reserved here must not be used.
    mutating func note(_ recorded: Int64, root: Int) {
        guard var range = ranges[root], recorded != range.recorded else { return }
        // `Z_MAX` may be lower than `max(Z_PK)`.
        let recorded = max(recorded, range.first)
        let ours = range.recorded + 1
        if recorded >= ours && range.last >= ours {
            range.taken.append(ours...min(range.last, recorded))
        }
        range.recorded = recorded
        range.last = max(range.last, recorded)
        ranges[root] = range
    }

    /// Notes a recorded key that may have been read before the last save here.
    mutating func noteLater(_ recorded: Int64, root: Int) {
        guard let range = ranges[root], recorded > range.recorded, recorded != range.pending else {
            return
        }
        note(recorded, root: root)
    }

    /// The keys reserved here that another process has used, or may have.
    func taken(root: Int) -> [ClosedRange<Int64>] { ranges[root]?.taken ?? [] }

    /// Notes the keys that a save is about to record.
    mutating func willRecord(_ greatest: Int64, root: Int) { ranges[root]?.pending = greatest }

    /// Notes the keys that a save has recorded.
    mutating func didRecord(_ greatest: Int64, root: Int) {
        var range = ranges[root] ?? Range(greatest)
        range.recorded = greatest
        range.last = max(range.last, greatest)
        ranges[root] = range
    }

    /// Notes keys recorded ahead, beyond those just reserved.
    mutating func didRecordAhead(_ greatest: Int64, from keys: ClosedRange<Int64>, root: Int) {
        guard var range = ranges[root] else { return }
        range.ownCount += greatest - keys.lowerBound + 1
        range.recorded = greatest
        range.ownThrough = greatest
        ranges[root] = range
    }
}
