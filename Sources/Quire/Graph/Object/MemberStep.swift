internal import OrderedCollections

/// A change of a to-many relationship within a user event.
enum MemberStep {
    case inserted(toMany: Int, ManagedObjectID)
    case removed(toMany: Int, ManagedObjectID, index: Int?)
    case reordered(toMany: Int, from: OrderedSet<ManagedObjectID>)

    /// The relationship's position among the to-many ones.
    var toMany: Int {
        switch self {
        case .inserted(let toMany, _), .removed(let toMany, _, _), .reordered(let toMany, _): toMany
        }
    }
}

extension Sequence<MemberStep> where Self: BidirectionalCollection {
    /// The contents of a relationship before the steps, from those after them.
    func contents(
        of toMany: Int, before contents: OrderedSet<ManagedObjectID>
    ) -> OrderedSet<ManagedObjectID> {
        var contents = contents
        for step in reversed() where step.toMany == toMany {
            switch step {
            case .inserted(_, let id): contents.remove(id)
            case .removed(_, let id, let index):
                contents.insert(id, at: Swift.min(index ?? contents.count, contents.count))
            case .reordered(_, let order): contents = order
            }
        }
        return contents
    }
}
