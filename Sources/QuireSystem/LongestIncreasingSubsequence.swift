/// Finds the elements of a new order that need not be moved.
@usableFromInline
package enum LongestIncreasingSubsequence {
    /// The indexes of a longest strictly increasing subsequence of the values that are not `nil`, ascending.
    ///
    /// - Complexity: O(*n* log *n*).
    @inlinable
    package static func indexes<Value: Comparable>(of values: [Value?]) -> [Int] {
        // The last elements of the best runs of each length, and the predecessor of each element.
        var ends: [Int] = []
        var previous = [Int](repeating: -1, count: values.count)
        for (index, value) in values.enumerated() {
            guard let value else { continue }
            let low = ends.partitioningIndex { values[$0].map { $0 >= value } ?? true }
            if low > 0 { previous[index] = ends[low - 1] }
            if low == ends.count { ends.append(index) } else { ends[low] = index }
        }
        var indexes: [Int] = []
        var index = ends.last ?? -1
        while index >= 0 {
            indexes.append(index)
            index = previous[index]
        }
        return indexes.reversed()
    }
}
