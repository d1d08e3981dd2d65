/// The primary keys that a store gives out. Kept in memory; a save that uses some makes them durable.
struct SQLPrimaryKeys {
    private struct Range {
        /// The greatest key that the store has recorded, as far as this process knows.
        var recorded: Int64
        /// The greatest key that has been given out.
        var last: Int64
    }

    private var ranges: [Int: Range] = [:]

    /// Whether the greatest key of a hierarchy has been read from the store.
    func isKnown(root: Int) -> Bool { ranges[root] != nil }

    /// Gives out keys.
    ///
    /// - Parameters:
    ///   - root: The number of the root entity, which shares its keys with all below it.
    ///   - count: How many.
    ///   - greatest: The greatest key in the store; ignored once it is known.
    mutating func reserve(root: Int, count: Int, greatest: Int64) throws -> ClosedRange<Int64>? {
        var range = ranges[root] ?? Range(recorded: greatest, last: greatest)
        guard count > 0 else { return nil }
        let (last, overflow) = range.last.addingReportingOverflow(Int64(count))
        guard !overflow, last <= ManagedObjectID.greatestPrimaryKey else {
            throw QuireError(
                .storeUnavailable,
                "The store has used up its primary keys; no more objects can be added.")
        }
        let first = range.last + 1
        range.last = last
        ranges[root] = range
        return first...last
    }

    /// Whether keys that are about to be used may have been used by another process: if the store has recorded more
    /// than this process knew of. From then on only greater keys are given out.
    mutating func wereTaken(root: Int, recorded: Int64, least: Int64) -> Bool {
        guard var range = ranges[root] else { return least <= recorded }
        guard recorded != range.recorded else { return false }
        let known = range.recorded
        range.recorded = recorded
        range.last = max(range.last, recorded)
        ranges[root] = range
        return recorded > known && least <= recorded
    }

    /// Notes what a save has recorded.
    mutating func didRecord(_ greatest: Int64, root: Int) {
        guard var range = ranges[root] else {
            ranges[root] = Range(recorded: greatest, last: greatest)
            return
        }
        range.recorded = greatest
        range.last = max(range.last, greatest)
        ranges[root] = range
    }
}
