/// A set of slot numbers. Up to 64 slots need no allocation.
public struct SlotMask: Sendable, Hashable {
    @usableFromInline var low: UInt64
    @usableFromInline var high: [UInt64]

    /// The empty set.
    @inlinable public init() {
        low = 0
        high = []
    }

    /// The set of the first `count` slots.
    @inlinable public init(first count: Int) {
        high = []
        low = count >= 64 ? .max : (1 << UInt64(count)) - 1
        var rest = count - 64
        while rest > 0 {
            high.append(rest >= 64 ? .max : (1 << UInt64(rest)) - 1)
            rest -= 64
        }
    }

    /// Whether the set is empty.
    @inlinable public var isEmpty: Bool { low == 0 && high.allSatisfy { $0 == 0 } }

    /// Whether a slot is in the set.
    @inlinable @inline(__always) public func contains(_ slot: Int) -> Bool {
        slot < 64
            ? low &>> UInt64(truncatingIfNeeded: slot) & 1 == 1 : containsHigh(slot)
    }

    @inlinable @inline(never) func containsHigh(_ slot: Int) -> Bool {
        let word = slot / 64 - 1
        return word < high.count && high[word] >> UInt64(slot % 64) & 1 == 1
    }

    /// Inserts a slot.
    @inlinable @inline(__always) public mutating func insert(_ slot: Int) {
        if slot < 64 { low |= 1 &<< UInt64(truncatingIfNeeded: slot) } else { insertHigh(slot) }
    }

    @inlinable @inline(never) mutating func insertHigh(_ slot: Int) {
        let word = slot / 64 - 1
        while high.count <= word { high.append(0) }
        high[word] |= 1 << UInt64(slot % 64)
    }

    /// Removes a slot.
    @inlinable public mutating func remove(_ slot: Int) {
        if slot < 64 {
            low &= ~(1 << UInt64(slot))
        } else if slot / 64 - 1 < high.count {
            high[slot / 64 - 1] &= ~(1 << UInt64(slot % 64))
        }
    }

    /// The difference of two sets.
    @inlinable public func subtracting(_ other: SlotMask) -> SlotMask {
        var result = self
        result.low &= ~other.low
        for word in result.high.indices where word < other.high.count {
            result.high[word] &= ~other.high[word]
        }
        return result
    }

    /// Forms the union with another set.
    @inlinable public mutating func formUnion(_ other: SlotMask) {
        low |= other.low
        for word in other.high.indices {
            if word < high.count {
                high[word] |= other.high[word]
            } else {
                high.append(other.high[word])
            }
        }
    }
}
