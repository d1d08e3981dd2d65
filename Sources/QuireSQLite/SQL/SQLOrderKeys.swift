internal import QuireSystem

/// Order keys of objects, as in Core Data: 2048 for the first, 1024 more for each that follows, and intermediate values
/// for insertions.
package enum SQLOrderKeys {
    package static let first: Int64 = 2048
    package static let step: Int64 = 1024

    /// The keys for appended objects.
    static func appending(_ count: Int, after last: Int64?) -> [Int64] {
        let start = last.map { $0 &+ step } ?? first
        return (0..<Int64(count)).map { start &+ $0 &* step }
    }

    /// Keys for a new order of elements, with as few changed keys as possible.
    ///
    /// - Parameter keys: The elements' present keys, in their new order; `nil` for new elements.
    /// - Returns: The new keys; unchanged elements keep theirs.
    static func keys(for keys: [Int64?]) -> [Int64] {
        var result = [Int64](repeating: 0, count: keys.count)
        let kept = LongestIncreasingSubsequence.indexes(
            of: keys.map { key in key.flatMap { $0 > 0 ? $0 : nil } })
        var previousIndex = -1
        var previousKey: Int64?
        for index in kept + [keys.count] {
            let count = index - previousIndex - 1
            let next = index < keys.count ? keys[index] : nil
            if count > 0 {
                guard let between = fill(count, after: previousKey, before: next) else {
                    return appending(keys.count, after: nil)
                }
                for (offset, key) in between.enumerated() {
                    result[previousIndex + 1 + offset] = key
                }
            }
            if let next { result[index] = next }
            previousIndex = index
            previousKey = next
        }
        return result
    }

    /// Keys for elements between two keys; `nil` if there is no room.
    private static func fill(_ count: Int, after low: Int64?, before high: Int64?) -> [Int64]? {
        guard let high else {
            // Renumber long before integer overflow.
            if let low, low > Int64.max / 2 { return nil }
            return appending(count, after: low)
        }
        let low = low ?? 0
        let room = high - low
        guard room > Int64(count) else { return nil }
        let parts = Int64(count) + 1
        return (1...Int64(count)).map { low + room / parts * $0 + room % parts * $0 / parts }
    }
}
