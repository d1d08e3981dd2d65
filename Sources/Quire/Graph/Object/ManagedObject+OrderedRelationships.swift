internal import OrderedCollections

/// Ordered to-many relationships by position. Inverses are maintained, and each call can be undone.
///
/// The methods with a key trap if the key names no ordered relationship, an object is not valid in it, or a position is out of
/// bounds; those with a relationship throw ``QuireError`` with code `invalidValue` instead, and nothing is changed then.
extension ManagedObject {
    /// Removes the object at a position from an ordered relationship.
    public final func removeObject(
        from key: String, at index: Int, file: StaticString = #fileID, line: UInt = #line
    ) {
        changeToMany(key, file, line) { try removeObject(through: $0, at: index) }
    }

    /// Replaces the object at a position of an ordered relationship by another. If that is a member already, it moves.
    public final func replaceObject(
        in key: String, at index: Int, with object: ManagedObject, file: StaticString = #fileID,
        line: UInt = #line
    ) {
        changeToMany(key, file, line) { try replaceObject(through: $0, at: index, with: object) }
    }

    /// Moves the object at a position of an ordered relationship; `target` is its position afterwards.
    public final func moveObject(
        in key: String, from index: Int, to target: Int, file: StaticString = #fileID,
        line: UInt = #line
    ) {
        changeToMany(key, file, line) { try moveObjects(through: $0, at: [index], to: target) }
    }

    /// Moves the objects at positions of an ordered relationship together, in the order given; `target` is the position
    /// of the first of them afterwards.
    public final func moveObjects(
        in key: String, at indices: [Int], to target: Int, file: StaticString = #fileID,
        line: UInt = #line
    ) {
        changeToMany(key, file, line) { try moveObjects(through: $0, at: indices, to: target) }
    }

    /// Exchanges two objects of an ordered relationship.
    public final func exchangeObjects(
        in key: String, at first: Int, and second: Int, file: StaticString = #fileID,
        line: UInt = #line
    ) {
        changeToMany(key, file, line) { relationship in
            var order = try orderForChange(of: relationship, at: [first, second])
            order.swapAt(first, second)
            arrange(relationship, order)
        }
    }

    /// Removes the object at a position from an ordered relationship.
    public final func removeObject(
        through relationship: ResolvedEntity.Relationship, at index: Int
    ) throws {
        let order = try orderForChange(of: relationship, at: [index])
        let object = try objectToRemove(order[index], from: relationship)
        let context = requireContext()
        context.removeFromMany(of: self, relationship, object)
        context.deliverRelationshipChanges()
    }

    /// Replaces the object at a position of an ordered relationship by another. If that is a member already, it moves.
    public final func replaceObject(
        through relationship: ResolvedEntity.Relationship, at index: Int, with object: ManagedObject
    ) throws {
        var order = try orderForChange(of: relationship, at: [index])
        try check(object, for: relationship)
        let old = order[index]
        if old == object.objectID { return }
        let removed = try objectToRemove(old, from: relationship)
        let context = requireContext()
        order.remove(object.objectID)
        let place = order.firstIndex(of: old) ?? order.count
        order.remove(old)
        order.insert(object.objectID, at: place)
        context.removeFromMany(of: self, relationship, removed)
        context.addToMany(of: self, relationship, object)
        arrange(relationship, order)
    }

    /// Moves the objects at positions of an ordered relationship together, in the order given; `target` is the position
    /// of the first of them afterwards.
    public final func moveObjects(
        through relationship: ResolvedEntity.Relationship, at indices: [Int], to target: Int
    ) throws {
        var order = try orderForChange(of: relationship, at: indices)
        let moved = OrderedSet(indices.map { order[$0] })
        order.subtract(moved)
        guard (0...order.count).contains(target) else {
            throw outOfBounds(target, relationship, count: order.count + moved.count)
        }
        let following = order[target...]
        arrange(relationship, OrderedSet(order[..<target]).union(moved).union(following))
    }

    private final func arrange(
        _ relationship: ResolvedEntity.Relationship, _ order: OrderedSet<ManagedObjectID>
    ) {
        let context = requireContext()
        context.reorder(self, relationship, order)
        context.deliverRelationshipChanges()
    }

    /// The contents of an ordered relationship that is about to be changed at positions.
    private final func orderForChange(
        of relationship: ResolvedEntity.Relationship, at indices: [Int]
    ) throws -> OrderedSet<ManagedObjectID> {
        guard relationship.isOrdered else {
            throw QuireError(
                .invalidValue, "“\(relationship.name)” of \(resolvedEntity.name) is not ordered.",
                entity: resolvedEntity.name, property: relationship.name)
        }
        try checkMayChange(relationship)
        try requireContext().requireChangeable(self)
        let order = members(of: relationship)
        for index in indices where !order.indices.contains(index) {
            throw outOfBounds(index, relationship, count: order.count)
        }
        return order
    }

    final func outOfBounds(
        _ index: Int, _ relationship: ResolvedEntity.Relationship, count: Int
    ) -> QuireError {
        QuireError(
            .invalidValue,
            "Position \(index) of “\(relationship.name)” of \(objectID.shortDescription) is out of bounds: it "
                + "has \(count) objects.",
            entity: resolvedEntity.name, property: relationship.name,
            object: objectID.uriRepresentation)
    }
}

// MARK: - Steps

/// A change of a to-many relationship within a user event.
enum RelationshipEdit {
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

extension BidirectionalCollection<RelationshipEdit> {
    /// Whether the last step was a reordering of the relationship: its previous order is the one to keep.
    func endsWithReordering(of toMany: Int) -> Bool {
        if case .reordered(toMany, _)? = last { return true }
        return false
    }

    /// Whether a member was removed while the contents were a fault, so that its position is unknown.
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
