internal import QuireModel
internal import QuireSystem

/// The primary keys that a store gives out. Kept in memory; a save that uses some makes them durable, unless they were
/// recorded before.
struct SQLPrimaryKeys {
    private struct Range {
        /// The greatest key in the store when it was first asked for.
        let first: Int64
        /// The greatest key that the store has recorded, as far as this process knows.
        var recorded: Int64
        /// What a transaction of this process is about to record: a reader may see it before ``recorded`` says so.
        var pending: Int64?
        /// The greatest key that has been given out.
        var last: Int64
        /// The greatest key that was recorded for later use here: those between `last` and it are nobody else's.
        var ownThrough: Int64 = 0
        /// How many keys have been recorded for later use.
        var ownCount: Int64 = 0
        /// Keys that were given out here before another process was found to have recorded them.
        var taken: [ClosedRange<Int64>] = []

        init(_ greatest: Int64) { (first, recorded, last) = (greatest, greatest, greatest) }
    }

    private var ranges: [Int: Range] = [:]

    /// The most keys that are recorded for later use without being asked for.
    private static let maximumSurplus: Int64 = 1000

    /// Whether the greatest key of a hierarchy has been read from the store.
    func isKnown(root: Int) -> Bool { ranges[root] != nil }

    /// Takes over the greatest key in the store; ignored once it is known.
    mutating func learn(_ greatest: Int64, root: Int) {
        if ranges[root] == nil { ranges[root] = Range(greatest) }
    }

    // MARK: Giving out

    /// Gives out keys of a hierarchy that is known.
    ///
    /// - Parameters:
    ///   - root: The number of the root entity, which shares its keys with all below it.
    ///   - count: How many; at least one.
    mutating func reserve(root: Int, count: Int) throws -> ClosedRange<Int64> {
        var range = ranges[root] ?? Range(0)
        let last = try Self.key(range.last, plus: Int64(count))
        let first = range.last + 1
        range.last = last
        ranges[root] = range
        return first...last
    }

    /// Gives out keys that have been recorded already, if there are as many.
    mutating func reserveRecorded(root: Int, count: Int) -> ClosedRange<Int64>? {
        guard let range = ranges[root], range.ownThrough - range.last >= count else { return nil }
        ranges[root]?.last += Int64(count)
        return range.last + 1...range.last + Int64(count)
    }

    /// What to record before keys are given out that no other process may give out: as many more as have been
    /// recorded so before, for the next time.
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
                "The store has used up its primary keys; no more objects can be added.")
        }
        return sum
    }

    // MARK: Others

    /// Takes notice of what the store has recorded. Keys beyond what this process knew of are another's; those among
    /// them that have been given out here are not to be used.
    mutating func note(_ recorded: Int64, root: Int) {
        guard var range = ranges[root], recorded != range.recorded else { return }
        // Some stores' books are behind their tables.
        let recorded = max(recorded, range.first)
        let ours = range.recorded + 1
        if recorded >= ours && range.last >= ours {
            range.taken.append(ours...min(range.last, recorded))
        }
        range.recorded = recorded
        range.last = max(range.last, recorded)
        ranges[root] = range
    }

    /// Takes notice of what the store had recorded when somebody looked, perhaps before the last save here.
    mutating func noteLater(_ recorded: Int64, root: Int) {
        guard let range = ranges[root], recorded > range.recorded, recorded != range.pending else {
            return
        }
        note(recorded, root: root)
    }

    /// The keys given out here that another process has used, or may have.
    func taken(root: Int) -> [ClosedRange<Int64>] { ranges[root]?.taken ?? [] }

    /// Notes what a save is about to record.
    mutating func willRecord(_ greatest: Int64, root: Int) { ranges[root]?.pending = greatest }

    /// Notes what a save has recorded.
    mutating func didRecord(_ greatest: Int64, root: Int) {
        var range = ranges[root] ?? Range(greatest)
        range.recorded = greatest
        range.last = max(range.last, greatest)
        ranges[root] = range
    }

    /// Notes what was recorded for keys that have just been given out, and for some that are given out later.
    mutating func didRecordAhead(_ greatest: Int64, from keys: ClosedRange<Int64>, root: Int) {
        guard var range = ranges[root] else { return }
        range.ownCount += greatest - keys.lowerBound + 1
        range.recorded = greatest
        range.ownThrough = greatest
        ranges[root] = range
    }
}

// MARK: - The register

/// The primary keys that a store gives out, shared with the store that takes its place when its file is moved or copied:
/// what one has given out the other does not give out again.
final class SQLitePrimaryKeyAllocator: Sendable {
    private let keys = Lock(SQLPrimaryKeys())

    func withLock<Result>(
        _ body: (inout SQLPrimaryKeys) throws -> sending Result
    ) rethrows -> sending Result {
        try keys.withLock { try body(&$0) }
    }
}
