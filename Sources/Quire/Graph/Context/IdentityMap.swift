internal import QuireSystem

/// A context's table of registered objects: one object per identifier.
///
/// An open-addressing table on the identifier's 64 bits. It does not retain: an object takes itself out when it ends, or is
/// taken out later if it ends on another queue. Until then it is passed over, and another object may be inserted for the key.
/// Used on the context's queue only.
struct IdentityMap: ~Copyable {
    private struct Entry {
        var key: UInt64
        var object: Unmanaged<ManagedObject>?
    }

    private var entries: UnsafeMutablePointer<Entry>
    private var mask: Int
    private(set) var count = 0

    init() {
        mask = Self.minimumCapacity - 1
        entries = Self.makeEntries(Self.minimumCapacity)
    }

    private static let minimumCapacity = 64

    /// The number of slots; some always stay free.
    var capacity: Int { mask + 1 }

    deinit { entries.deallocate() }

    private static func makeEntries(_ capacity: Int) -> UnsafeMutablePointer<Entry> {
        let entries = UnsafeMutablePointer<Entry>.allocate(capacity: capacity)
        entries.initialize(repeating: Entry(key: 0, object: nil), count: capacity)
        return entries
    }

    @inline(__always)
    private func home(of key: UInt64) -> Int {
        // Keys are consecutive numbers below an entity number: multiply to spread, take the high bits.
        Int(truncatingIfNeeded: (key &* 0x9E37_79B9_7F4A_7C15) >> 20) & mask
    }

    @inline(__always)
    func find(_ key: UInt64) -> ManagedObject? {
        var index = home(of: key)
        while let object = entries[index].object {
            if entries[index].key == key, let object = object.takeUnlessEnding() { return object }
            index = (index + 1) & mask
        }
        return nil
    }

    /// Whether there is no object.
    var isEmpty: Bool { count == 0 }

    /// Inserts an object. There must be none for the key, except ending ones.
    mutating func insert(_ object: ManagedObject, for key: UInt64) {
        if (count + 1) * 4 > capacity * 3 { resize(to: capacity * 2) }
        insert(Entry(key: key, object: .passUnretained(object)))
        count += 1
    }

    private func insert(_ entry: Entry) {
        var index = home(of: entry.key)
        while entries[index].object != nil { index = (index + 1) & mask }
        entries[index] = entry
    }

    /// Removes an object, if it is registered under the key.
    mutating func remove(_ key: UInt64, _ object: ObjectIdentifier) {
        var index = home(of: key)
        while let found = entries[index].object {
            if entries[index].key == key,
                UInt(bitPattern: found.toOpaque()) == UInt(bitPattern: object)
            {
                return remove(at: index)
            }
            index = (index + 1) & mask
        }
    }

    /// Removes all entries for the key, including those of ending objects.
    mutating func remove(_ key: UInt64) {
        var index = home(of: key)
        while entries[index].object != nil {
            if entries[index].key == key {
                remove(at: index)
                index = home(of: key)
            } else {
                index = (index + 1) & mask
            }
        }
    }

    /// Empties a slot, and closes the gap so that no tombstone is left.
    private mutating func remove(at place: Int) {
        var gap = place
        count -= 1
        var index = (gap + 1) & mask
        while entries[index].object != nil {
            let home = home(of: entries[index].key)
            // An entry may fill the gap if its home does not lie between the gap and the entry.
            if (index &- home) & mask >= (index &- gap) & mask {
                entries[gap] = entries[index]
                gap = index
            }
            index = (index + 1) & mask
        }
        entries[gap].object = nil
        if count * 8 < capacity && capacity > Self.minimumCapacity { resize(to: capacity / 2) }
    }

    @inline(never)
    private mutating func resize(to newCapacity: Int) {
        let old = entries
        let oldCapacity = capacity
        entries = Self.makeEntries(newCapacity)
        mask = newCapacity - 1
        for index in 0..<oldCapacity where old[index].object != nil { insert(old[index]) }
        old.deallocate()
    }

    /// Calls a closure with every object. The closure must not change the map.
    func forEach(_ body: (ManagedObject) -> Void) {
        // Retained until the end: the last reference to an object may be given up elsewhere meanwhile, and then the object takes
        // itself out of the map here.
        var objects: ContiguousArray<ManagedObject> = []
        objects.reserveCapacity(count)
        for index in 0...mask {
            if let object = entries[index].object?.takeUnlessEnding() { objects.append(object) }
        }
        objects.forEach(body)
    }

    /// Calls a closure with every object, also with those whose deinit has begun. The closure must not retain them.
    func forEachEvenIfEnding(_ body: (ManagedObject) -> Void) {
        for index in 0...mask { entries[index].object?._withUnsafeGuaranteedRef(body) }
    }
}
