internal import Foundation

/// The origin of a value: the time of its change by the peer's clock, and the number of the peer's segment that has it.
struct SyncVersion: Hashable, Comparable, Sendable {
    let time: UInt64
    let peer: SyncIdentifier
    let sequence: Int64

    static func < (left: SyncVersion, right: SyncVersion) -> Bool {
        (left.time, left.peer, left.sequence) < (right.time, right.peer, right.sequence)
    }
}

/// A part of an object that is merged by itself.
enum SyncKey: Hashable, Comparable, Sendable {
    /// The number of times that the object has been inserted and deleted: odd while it exists.
    case existence
    /// An attribute, an element of a composite attribute, or a to-one relationship.
    case property(String)
    /// Whether an object is in a to-many relationship whose members do not refer to the owner.
    case member(String, SyncIdentifier)
    /// The place of an object in an ordered relationship.
    case position(String, SyncIdentifier)
    /// What a peer has added to a number that peers count together; see ``SyncCounter``.
    case counter(String, SyncIdentifier)
    /// The value that the value of an attribute was made from, if the entries' versions are the same.
    case base(String)

    var propertyName: String? {
        switch self {
        case .existence: nil
        case .property(let name), .member(let name, _), .position(let name, _),
            .counter(let name, _), .base(let name):
            name
        }
    }
}

struct SyncEntry: Hashable, Sendable {
    var value: SyncValue
    var version: SyncVersion
}

/// The state of one object that all peers agree about once they have the same files: a lattice.
///
/// Merging is the least upper bound, entry by entry: commutative, associative and idempotent. So the order in which files arrive
/// does not matter, nor whether they arrive twice. What a row of a store has is computed from records alone; see
/// ``SyncMaterialization``.
struct SyncRecord: Hashable, Sendable {
    let id: SyncIdentifier
    var entity: String
    private(set) var entries: [SyncKey: SyncEntry] = [:]
    /// The entries in the order of their keys, for work whose order shows: conflicts are numbered as they are noted.
    var orderedEntries: [(key: SyncKey, value: SyncEntry)] { entries.sorted { $0.key < $1.key } }

    subscript(key: SyncKey) -> SyncEntry? { entries[key] }

    /// The number of insertions and deletions.
    var existenceCount: Int64 {
        if case .integer(let count)? = entries[.existence]?.value { count } else { 0 }
    }

    /// The greatest number of insertions and deletions. It is even, so such an object is deleted, and stays so: a file that lies
    /// cannot make a replica write a number that others do not read.
    static let maximumExistenceCount: Int64 = 1 << 60

    /// Whether the object can exist again.
    var canComeBack: Bool { existenceCount < Self.maximumExistenceCount }

    /// Whether the object exists.
    var isAlive: Bool { existenceCount & 1 == 1 }

    /// Sets an entry to a value that is later than what it was.
    mutating func set(_ key: SyncKey, _ value: SyncValue, _ version: SyncVersion) {
        entries[key] = SyncEntry(value: value, version: version)
    }

    /// Merges an entry.
    ///
    /// - Returns: Whether the record has it now, and had another one, or none.
    @discardableResult
    mutating func merge(_ key: SyncKey, _ entry: SyncEntry) -> Bool {
        guard let own = entries[key] else {
            entries[key] = entry
            return true
        }
        guard Self.isGreater(entry, than: own, for: key) else { return false }
        entries[key] = entry
        return true
    }

    mutating func merge(_ other: SyncRecord) {
        // One identifier has one entity, unless a file lies; then all agree on the same lie.
        entity = min(entity, other.entity)
        for (key, entry) in other.entries { merge(key, entry) }
    }

    /// Whether an entry wins over another one.
    ///
    /// Versions are unique while every peer is one replica. Two replicas may be one peer until that is detected, so values
    /// decide last.
    static func isGreater(_ entry: SyncEntry, than own: SyncEntry, for key: SyncKey) -> Bool {
        if key == .existence, case .integer(let count) = entry.value,
            case .integer(let ownCount) = own.value, count != ownCount
        {
            return count > ownCount
        }
        if entry.version != own.version { return entry.version > own.version }
        // Not by comparing the values: texts with different bytes may be equal.
        return own.value.encoded.lexicographicallyPrecedes(entry.value.encoded)
    }
}

extension SyncRecord {
    /// The objects that the record refers to.
    var references: Set<SyncIdentifier> {
        var found: Set<SyncIdentifier> = []
        for (key, entry) in entries {
            switch (key, entry.value) {
            case (.property, .reference(let id)): found.insert(id)
            case (.member(_, let id), .boolean(true)): found.insert(id)
            case (.position(_, let id), _): found.insert(id)
            default: break
            }
        }
        return found
    }
}

extension SyncRecord {
    /// Whether the record says only that its object is deleted, or has only changes of an object whose insertion is not known, and the
    /// object cannot come back by a second insertion: such a record goes once all peers know of the deletion.
    var isForgettable: Bool {
        id.isRandom && (existenceCount == 0 || existenceCount == 2)
    }

    /// About the number of bytes that it takes in memory.
    var size: Int { entries.values.reduce(64) { $0 + 160 + $1.value.size } }

    /// The files that the record's values are in.
    var blobs: [SyncBlob] {
        entries.values.compactMap { if case .blob(let blob) = $0.value { blob } else { nil } }
    }
}
