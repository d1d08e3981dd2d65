/// The versions of the objects that a context has saved since it has children. Children may hold rows read before, and the
/// objects themselves are not retained.
///
/// An entry is kept for as long as a child, or one of its children, may hold an older row: from time to time the children are
/// queried for the rows they hold (``RetainedRowsQuery``). Only the fact that the source has the object as it was saved here
/// can be dropped earlier.
struct SavedVersions: ~Copyable {
    /// The entry of one object.
    struct Entry {
        /// The saved version: 0 if only the root context knows it, the maximum if the object was deleted.
        fileprivate(set) var version: UInt32
        /// The number of the child that has seen all saved values; 0 for none.
        fileprivate var child: UInt32

        fileprivate init(_ bits: UInt64) {
            version = UInt32(truncatingIfNeeded: bits)
            child = UInt32(truncatingIfNeeded: bits >> 32)
        }

        fileprivate init(version: UInt32, child: UInt32) {
            self.version = version
            self.child = child
        }

        fileprivate var bits: UInt64 { UInt64(child) << 32 | UInt64(version) }

        /// The version that the store must have, unless another context has saved since; `nil` if unknown.
        var known: UInt32? {
            child == .max || version == 0 || version == .max ? nil : version
        }

        /// Whether the object was deleted.
        var isDeleted: Bool { version == .max }

        /// Whether a child has seen all saved values.
        func isSeen(by child: UInt32) -> Bool {
            child != 0 && self.child == child && version != .max
        }
    }

    private var table = IdentifierTable()
    /// The number of entries at which the children are queried.
    private var limit = SavedVersions.minimumLimit
    private static let minimumLimit = 256
    /// The query sent to the children, if not all have answered.
    private var question: RetainedRowsQuery?
    /// The objects saved since the query was sent.
    private var savedSince = IdentifierTable()

    /// The number of objects known, for tests.
    var count: Int { table.count }
    /// The capacity of the table, for tests.
    var capacity: Int { table.capacity }

    subscript(bits: UInt64) -> Entry? { table[bits].map { Entry($0) } }

    /// Records a save. A deleted and reinserted object restarts its versions, so they cannot be compared with older rows.
    mutating func set(_ version: UInt32, seenBy child: UInt32, for bits: UInt64) {
        let isBack = self[bits]?.version == .max
        set(Entry(version: isBack ? .max : version, child: child), for: bits)
    }

    private mutating func set(_ entry: Entry, for bits: UInt64) {
        table.set(entry.bits, for: bits)
        if question != nil { savedSince.set(0, for: bits) }
    }

    /// Records a deletion.
    mutating func setDeleted(_ bits: UInt64) {
        set(Entry(version: .max, child: 0), for: bits)
    }

    /// Marks the source's version of an object as unknown.
    mutating func forget(_ bits: UInt64) {
        guard let entry = self[bits] else { return }
        table.set(Entry(version: entry.version, child: .max).bits, for: bits)
    }

    /// Marks the source's versions of all objects as unknown.
    mutating func forgetAll() {
        table.updateAll { Entry(version: Entry($0).version, child: .max).bits }
    }

    /// Removes everything, because there are no children.
    mutating func removeAll() {
        table.removeAll()
        savedSince.removeAll()
        question = nil
        limit = Self.minimumLimit
    }

    /// Removes the objects of which no child holds a row, if all children have answered. Returns the next query to send to
    /// them, if there are enough entries to justify one.
    mutating func ask() -> RetainedRowsQuery? {
        if let question {
            guard question.isComplete else { return nil }
            removeUnneeded(question.take())
            self.question = nil
        }
        guard table.count > limit else { return nil }
        question = RetainedRowsQuery()
        return question
    }

    private mutating func removeUnneeded(_ held: [ContiguousArray<UInt64>]) {
        var needed = IdentifierTable()
        var heldCount = 0
        for identifiers in held {
            heldCount += identifiers.count
            for bits in identifiers {
                if let entry = table[bits] { needed.set(entry, for: bits) }
            }
        }
        savedSince.forEach { bits, _ in
            if let entry = table[bits] { needed.set(entry, for: bits) }
        }
        savedSince.removeAll()
        // Each object has cost its part of the answers by the next time.
        limit = needed.count + max(Self.minimumLimit, heldCount / 4)
        table = needed
    }
}

extension KnownRowVersion {
    /// Whether the row is older than the saved version, or not known to be as new.
    func isOutdated(_ saved: SavedVersions.Entry?, for child: UInt32) -> Bool {
        guard let saved else { return version == 0 }
        return version > 0 ? saved.version > version : !saved.isSeen(by: child)
    }
}
