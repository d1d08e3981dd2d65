extension Dictionary {
    /// Shrinks a dictionary whose capacity is much greater than its count, as ``IdentifierTable`` does automatically. Call it
    /// after removing elements; it costs as much as the removal.
    @inlinable package mutating func giveBackMemory() {
        guard count * 8 < capacity && capacity > 64 else { return }
        // A copy, or the result of filter, would have the same capacity.
        var smaller = Dictionary(minimumCapacity: count)
        for (key, value) in self { smaller[key] = value }
        self = smaller
    }
}

extension Set {
    /// Makes a set smaller that has much more room than it needs; see the method of dictionaries.
    @inlinable package mutating func giveBackMemory() {
        guard count * 8 < capacity && capacity > 64 else { return }
        var smaller = Set(minimumCapacity: count)
        for member in self { smaller.insert(member) }
        self = smaller
    }
}
