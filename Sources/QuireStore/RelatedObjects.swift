public import QuireModel

/// What a to-many relationship of several objects leads to: for each of them, identifiers in the relationship's
/// order, or by primary key if it has none.
public struct RelatedObjects: Sendable {
    /// The objects that the relationship leads from. Those that it leads nowhere from need not be here.
    package private(set) var owners: ContiguousArray<UInt64> = []
    /// Where each owner's members begin, and the end.
    private(set) var starts: ContiguousArray<Int> = [0]
    /// The identifiers' bits.
    package private(set) var members: ContiguousArray<UInt64> = []
    /// Rows of members that were read on the way. Not all need be here.
    public var rows: [RowSet] = []

    /// Nothing.
    public init() {}

    /// Adds what the relationship of one more object leads to.
    public mutating func append(
        _ objectIDs: some Sequence<ManagedObjectID>, of owner: ManagedObjectID
    ) {
        for id in objectIDs { append(id.bits, of: owner.bits) }
    }

    /// Adds one more member; those of an owner come one after the other.
    @inline(__always)
    package mutating func append(_ member: UInt64, of owner: UInt64) {
        if owners.last != owner {
            owners.append(owner)
            starts.append(members.count)
        }
        members.append(member)
        starts[owners.count] = members.count
    }

    /// The members of the owner at a position.
    package func members(at position: Int) -> Slice<ContiguousArray<UInt64>> {
        Slice(base: members, bounds: starts[position]..<starts[position + 1])
    }

    /// Leaves out members.
    package mutating func removeMembers(where isGone: (UInt64) -> Bool) {
        guard members.contains(where: isGone) else { return }
        var kept = RelatedObjects()
        for position in owners.indices {
            for member in members(at: position) where !isGone(member) {
                kept.append(member, of: owners[position])
            }
        }
        kept.rows = rows
        self = kept
    }

    /// Adds what was found for further owners.
    package mutating func append(_ other: RelatedObjects) {
        for position in other.owners.indices {
            for member in other.members(at: position) {
                append(member, of: other.owners[position])
            }
        }
        rows += other.rows
    }
}
