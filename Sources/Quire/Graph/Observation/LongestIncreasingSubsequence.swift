/// Finds the elements that need not be moved.
enum LongestIncreasingSubsequence {
    /// An element with a position before a change and another after it, among elements of unchanged order.
    struct Element {
        /// The number of elements of unchanged order before it, before and after the change.
        var oldRank: Int
        var newRank: Int
        /// Its position before the change.
        var oldPosition: Int
    }

    /// A maximal set of further elements that keep their order, for elements given in their new order: those whose rank is
    /// unchanged, less those that were moved past others of these.
    ///
    /// - Complexity: O(*n* log *n*).
    static func positions(in elements: [Element]) -> [Bool] {
        var kept = [Bool](repeating: false, count: elements.count)
        // The last elements of the best runs of each length, and the predecessor of each element.
        var ends: [Int] = []
        var previous = [Int](repeating: -1, count: elements.count)
        for (index, element) in elements.enumerated() where element.oldRank == element.newRank {
            var (low, high) = (0, ends.count)
            while low < high {
                let middle = (low + high) / 2
                if elements[ends[middle]].oldPosition < element.oldPosition {
                    low = middle + 1
                } else {
                    high = middle
                }
            }
            if low > 0 { previous[index] = ends[low - 1] }
            if low == ends.count { ends.append(index) } else { ends[low] = index }
        }
        var index = ends.last ?? -1
        while index >= 0 {
            kept[index] = true
            index = previous[index]
        }
        return kept
    }
}
