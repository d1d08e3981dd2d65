extension Dictionary {
    /// Makes a dictionary smaller that has much more room than it needs, as ``IdentifierTable`` does by itself. Call it after
    /// elements were removed; it costs as much as they did.
    @inlinable package mutating func giveBackMemory() {
        guard count * 8 < capacity && capacity > 64 else { return }
        // A copy, or what filters keep, would have the same capacity.
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
