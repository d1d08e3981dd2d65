/// Finds what need not be moved.
enum LongestRun {
    /// Something that has a place before a change and another after it, among things that keep their order.
    struct Element {
        /// How many things that keep their order come before it, before the change and after it.
        var oldRank: Int
        var newRank: Int
        /// Its place before the change.
        var oldPosition: Int
    }

    /// As many elements as can keep their order too, which are given in their new order: those whose rank stays the
    /// same, less those that have passed others of these.
    ///
    /// - Complexity: O(*n* log *n*).
    static func positions(in elements: [Element]) -> [Bool] {
        var kept = [Bool](repeating: false, count: elements.count)
        // The last elements of the best runs of each length, and which element comes before each.
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
