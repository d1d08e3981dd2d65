/// What a context knows of the objects that it has saved since it has children. These may show rows that were read before,
/// and the objects themselves are not kept.
///
/// Versions are never forgotten, because a child may hold a row for as long as it lives. What can be forgotten is that
/// the source has an object as it was saved from here.
struct SavedVersions: ~Copyable {
    /// What is known of one object.
    struct Entry {
        /// The version with which it was saved: 0 if only the context at the top knows it, the greatest if the object was
        /// deleted.
        fileprivate(set) var version: UInt32
        /// The number of the child that has seen all of what was saved; 0 for none.
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

        /// The version that the store must have, unless others have saved since; `nil` if that is not known.
        var known: UInt32? {
            child == .max || version == 0 || version == .max ? nil : version
        }

        /// Whether what was saved is that the object was deleted.
        var isDeleted: Bool { version == .max }

        /// Whether a child has seen all of what was saved.
        func isSeen(by child: UInt32) -> Bool {
            child != 0 && self.child == child && version != .max
        }
    }

    private var table = IdentifierTable()

    subscript(bits: UInt64) -> Entry? { table[bits].map { Entry($0) } }

    /// Notes that an object was saved. One that was deleted before, and has come back, counts its versions anew, so that
    /// they say nothing about older rows.
    mutating func set(_ version: UInt32, seenBy child: UInt32, for bits: UInt64) {
        let isBack = self[bits]?.version == .max
        table.set(Entry(version: isBack ? .max : version, child: child).bits, for: bits)
    }

    /// Notes that an object was deleted.
    mutating func setDeleted(_ bits: UInt64) {
        table.set(Entry(version: .max, child: 0).bits, for: bits)
    }

    /// Forgets that the source has an object as it was saved.
    mutating func forget(_ bits: UInt64) {
        guard let entry = self[bits] else { return }
        table.set(Entry(version: entry.version, child: .max).bits, for: bits)
    }

    /// Forgets that the source has any object as it was saved.
    mutating func forgetAll() {
        table.updateAll { Entry(version: Entry($0).version, child: .max).bits }
    }
}
