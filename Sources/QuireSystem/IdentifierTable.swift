/// A hash table from 64-bit identifiers, which are never 0, to numbers: open addressing, no allocation per entry.
///
/// Inlinable, except for rare paths, because it is called per row.
@usableFromInline package struct IdentifierTable: ~Copyable {
    @usableFromInline struct Entry {
        @usableFromInline var key: UInt64
        @usableFromInline var value: UInt64

        @inlinable init(key: UInt64, value: UInt64) {
            self.key = key
            self.value = value
        }
    }

    @usableFromInline var entries: UnsafeMutablePointer<Entry>
    @usableFromInline var mask: Int
    @usableFromInline package internal(set) var count = 0

    @inlinable package var isEmpty: Bool { count == 0 }

    /// Makes an empty table with room for some entries.
    @inlinable package init(minimumCapacity: Int = 0) {
        var capacity = Self.minimumCapacity
        while capacity * 3 < minimumCapacity * 4 { capacity *= 2 }
        mask = capacity - 1
        entries = Self.makeEntries(capacity)
    }

    @inlinable static var minimumCapacity: Int { 16 }

    /// The number of slots, which exceeds the number of entries.
    @inlinable package var capacity: Int { mask + 1 }

    @inlinable deinit { entries.deallocate() }

    @inlinable static func makeEntries(_ capacity: Int) -> UnsafeMutablePointer<Entry> {
        let entries = UnsafeMutablePointer<Entry>.allocate(capacity: capacity)
        entries.initialize(repeating: Entry(key: 0, value: 0), count: capacity)
        return entries
    }

    @inline(__always)
    @inlinable func home(of key: UInt64) -> Int {
        // Keys are consecutive numbers below an entity number: multiply to spread, take the high bits.
        Int(truncatingIfNeeded: (key &* 0x9E37_79B9_7F4A_7C15) >> 20) & mask
    }

    /// The slot of a key, or the free slot for its insertion.
    @inline(__always)
    @inlinable func place(of key: UInt64) -> Int {
        var index = home(of: key)
        while entries[index].key != key && entries[index].key != 0 { index = (index + 1) & mask }
        return index
    }

    /// The number of a key.
    @inline(__always)
    @inlinable package subscript(key: UInt64) -> UInt64? {
        let entry = entries[place(of: key)]
        return entry.key == 0 ? nil : entry.value
    }

    /// Sets the number for a key.
    ///
    /// - Returns: The previous number.
    @discardableResult
    @inlinable package mutating func set(_ value: UInt64, for key: UInt64) -> UInt64? {
        var place = place(of: key)
        if entries[place].key != 0 {
            defer { entries[place].value = value }
            return entries[place].value
        }
        if (count + 1) * 4 > capacity * 3 {
            resize(to: capacity * 2)
            place = self.place(of: key)
        }
        entries[place] = Entry(key: key, value: value)
        count += 1
        return nil
    }

    /// Removes a key. Returns its number, if there was one.
    @discardableResult
    @inlinable package mutating func remove(_ key: UInt64) -> UInt64? {
        var gap = place(of: key)
        if entries[gap].key == 0 { return nil }
        let value = entries[gap].value
        count -= 1
        // The gap is closed, so that no marker of it is left.
        var index = (gap + 1) & mask
        while entries[index].key != 0 {
            let home = home(of: entries[index].key)
            if (index &- home) & mask >= (index &- gap) & mask {
                entries[gap] = entries[index]
                gap = index
            }
            index = (index + 1) & mask
        }
        entries[gap].key = 0
        if count * 8 < capacity && capacity > Self.minimumCapacity { resize(to: capacity / 2) }
        return value
    }

    /// Calls a closure with each key and its number, in no order. The closure must not change the table.
    @inlinable package borrowing func forEach(_ body: (_ key: UInt64, _ value: UInt64) -> Void) {
        for index in 0...mask where entries[index].key != 0 {
            body(entries[index].key, entries[index].value)
        }
    }

    /// Maps all numbers in place.
    @inlinable package mutating func updateAll(_ replacement: (UInt64) -> UInt64) {
        for index in 0...mask where entries[index].key != 0 {
            entries[index].value = replacement(entries[index].value)
        }
    }

    /// Removes the entries whose numbers satisfy a condition.
    package mutating func removeAll(where isRemoved: (_ value: UInt64) -> Bool) {
        var kept = IdentifierTable(minimumCapacity: count / 2)
        forEach { key, value in if !isRemoved(value) { kept.set(value, for: key) } }
        self = kept
    }

    /// Removes all entries, and frees their memory.
    package mutating func removeAll() {
        if count == 0 { return }
        entries.deallocate()
        mask = Self.minimumCapacity - 1
        entries = Self.makeEntries(Self.minimumCapacity)
        count = 0
    }

    @usableFromInline mutating func resize(to newCapacity: Int) {
        let old = entries
        let oldCapacity = capacity
        entries = Self.makeEntries(newCapacity)
        mask = newCapacity - 1
        for index in 0..<oldCapacity where old[index].key != 0 {
            entries[place(of: old[index].key)] = old[index]
        }
        old.deallocate()
    }
}
