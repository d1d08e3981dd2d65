extension RandomAccessCollection where Index == Int {
    /// The first position whose element belongs behind a partition; the end if none does. Elements before it do not belong there.
    ///
    /// - Complexity: O(log *n*).
    @inlinable
    package func partitioningIndex(
        where belongsBehind: (Element) throws -> Bool
    ) rethrows -> Int {
        var (low, high) = (startIndex, endIndex)
        while low < high {
            let middle = (low + high) / 2
            if try belongsBehind(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
