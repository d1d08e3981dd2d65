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

extension BidirectionalCollection<MemberStep> {
    /// Whether the last step has changed the order of a relationship already: then what it was before that counts.
    func endsWithReordering(of toMany: Int) -> Bool {
        if case .reordered(toMany, _)? = last { return true }
        return false
    }

    /// Whether something was taken out of a relationship whose contents were a fault, so that its place is not known.
    func includesRemovalFromFault(of toMany: Int) -> Bool {
        contains {
            if case .removed(toMany, _, index: nil) = $0 { return true }
            return false
        }
    }

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
