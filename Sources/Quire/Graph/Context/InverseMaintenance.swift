internal import OrderedCollections

/// Maintains inverses. Arguments have been checked.
extension ManagedObjectContext {
    func setToOne(
        of object: ManagedObject, _ relationship: ResolvedEntity.Relationship, slot: Int,
        to new: ManagedObject?
    ) {
        let oldID = object.reference(at: slot)
        guard oldID != new?.objectID else { return }
        if let inverse = layout.inverse(of: relationship) {
            if let oldID { detach(object, from: self.object(with: oldID), inverse) }
            if let new { attach(object, to: new, inverse, leading: relationship) }
        }
        object.write(new.map { .objectID($0.objectID) } ?? .null, at: slot)
    }

    func addToMany(
        of object: ManagedObject, _ relationship: ResolvedEntity.Relationship,
        _ other: ManagedObject
    ) {
        let inverse = layout.inverse(of: relationship)
        if let slot = inverse?.slot {
            // The to-one side shows whether it is a member already, so the contents need not be read.
            guard other.reference(at: slot) != object.objectID else { return }
        } else {
            guard !object.members(of: relationship).contains(other.objectID) else { return }
        }
        if let inverse {
            willChange(other)
            attach(object, to: other, inverse, leading: relationship)
        }
        insertMember(other.objectID, into: object, relationship)
    }

    func removeFromMany(
        of object: ManagedObject, _ relationship: ResolvedEntity.Relationship,
        _ other: ManagedObject
    ) {
        let inverse = layout.inverse(of: relationship)
        if let slot = inverse?.slot {
            guard other.reference(at: slot) == object.objectID else { return }
        } else {
            guard object.members(of: relationship).contains(other.objectID) else { return }
        }
        if let inverse { detach(object, from: other, inverse) }
        removeMember(other.objectID, from: object, relationship)
    }

    /// Moves members that are about to be removed, in this order, to the end of the contents: a removal from within them, and
    /// its undo, shifts all that follow.
    func moveToEnd(
        _ leaving: OrderedSet<ManagedObjectID>, of object: ManagedObject,
        _ relationship: ResolvedEntity.Relationship
    ) {
        if leaving.count < 2 { return }
        let members = object.members(of: relationship)
        reorder(object, relationship, members.subtracting(leaving).union(leaving.reversed()))
    }

    /// As ``moveToEnd(_:of:_:)``, of the objects that present the relationship's other members: adding them in this order
    /// removes them there.
    func prepareToMove(
        _ objects: [ManagedObject], to object: ManagedObject,
        _ relationship: ResolvedEntity.Relationship
    ) {
        guard let slot = layout.inverse(of: relationship)?.slot else { return }
        var leaving: OrderedDictionary<ManagedObjectID, OrderedSet<ManagedObjectID>> = [:]
        for other in objects {
            guard let previous = other.reference(at: slot), previous != object.objectID else {
                continue
            }
            leaving[previous, default: []].append(other.objectID)
        }
        for (id, leaving) in leaving {
            let previous = self.object(with: id)
            // The removals read ordered contents for undo; other contents that are a fault stay one.
            if relationship.isOrdered && logsChanges { _ = previous.members(of: relationship) }
            guard let toMany = relationship.toManyIndex,
                let members = previous.toManyState(toMany).members
            else { continue }
            moveToEnd(leaving.filter(members.contains), of: previous, relationship)
        }
    }

    /// Removes `object` from `other`'s relationship.
    func detach(
        _ object: ManagedObject, from other: ManagedObject,
        _ relationship: ResolvedEntity.Relationship
    ) {
        if let slot = relationship.slot {
            willChange(other)
            if other.reference(at: slot) == object.objectID { other.write(.null, at: slot) }
        } else {
            removeMember(object.objectID, from: other, relationship)
        }
    }

    /// Adds `object` to `other`'s relationship. A present destination of a to-one relationship is detached first. `leading` is
    /// the relationship from `object` to `other`.
    func attach(
        _ object: ManagedObject, to other: ManagedObject,
        _ relationship: ResolvedEntity.Relationship,
        leading: ResolvedEntity.Relationship
    ) {
        guard let slot = relationship.slot else {
            insertMember(object.objectID, into: other, relationship)
            return
        }
        willChange(other)
        if let previousID = other.reference(at: slot), previousID != object.objectID {
            detach(other, from: self.object(with: previousID), leading)
        }
        other.write(.objectID(object.objectID), at: slot)
    }
}
