/// Makes objects that share values which must be unique one, or has some give way. These are changes like any
/// others: they keep relationships in step, and can be undone.
extension ManagedObjectContext {
    func resolve(_ violation: ConstraintViolation, _ resolution: ConstraintResolution) {
        var stored: ManagedObject?
        if let id = violation.current?.objectID {
            let object = object(with: id)
            if !object.isUnsaved { object.turnIntoStaleFault() }
            object.realize()
            if object.state.contains(.live), !object.isInaccessible { stored = object }
        }
        let objects = violation.objectIDs.map { object(with: $0) }.filter {
            $0.state.contains(.live)
        }
        let slots = Set(
            layout.entity(named: violation.entityName)?.slots(ofConstraint: violation.properties)
                ?? [])
        guard var survivor = stored ?? objects.first(where: \.isModified) ?? objects.first else {
            return
        }
        for object in objects where object !== survivor && object.state.contains(.live) {
            let isNew = object.isNew
            switch resolution {
            case .discardConflictingObjects where isNew: delete(object)
            case .mergePreferringDatabase where isNew:
                merge(object, into: survivor, slots, .missing)
            case .discardConflictingObjects, .mergePreferringDatabase: takeBack(slots, of: object)
            case .mergePreferringObjects where isNew || stored == nil:
                merge(object, into: survivor, slots, .set)
            case .overwrite where isNew || stored == nil:
                merge(object, into: survivor, slots, .all)
            case .mergePreferringObjects, .overwrite:
                // The stored one goes, and others are merged into the one that takes its place.
                merge(survivor, into: object, slots, resolution == .overwrite ? .none : .missing)
                survivor = object
                stored = nil
            }
        }
    }

    /// Which values of an object that is merged into another go over to that.
    private enum Transfer {
        case none
        /// Those that the other has not.
        case missing
        /// Those that are not what a new object has.
        case set
        case all

        func includes(
            _ value: AttributeValue, default: AttributeValue, over present: AttributeValue
        )
            -> Bool
        {
            switch self {
            case .none: false
            case .missing: present.isNull && !value.isNull
            case .set: value != `default`
            case .all: true
            }
        }
    }

    /// Gives an object its saved values again.
    private func takeBack(_ slots: Set<Int>, of object: ManagedObject) {
        for slot in slots.sorted() {
            let value = object.savedValue(at: slot)
            guard !value.isSame(as: object.heldValue(at: slot)) else { continue }
            if let index = object.entity.slots[slot].relationshipIndex {
                let target = value.objectID.map { self.object(with: $0) }
                setToOne(of: object, object.entity.relationships[index], slot: slot, to: target)
            } else {
                object.write(value, at: slot)
                object.forgetChangeIfCommitted(at: slot)
            }
        }
    }

    /// Moves values and relationships of an object to another, and deletes it.
    private func merge(
        _ loser: ManagedObject, into winner: ManagedObject, _ constraint: Set<Int>,
        _ transfer: Transfer
    ) {
        willChange(loser)
        willChange(winner)
        for slot in loser.entity.slots where slot.relationshipIndex == nil {
            guard let target = winner.entity.slot(named: slot.name) else { continue }
            let value = loser.heldValue(at: slot.index)
            let present = winner.heldValue(at: target)
            let `default` = loser.entity.defaultValues[slot.index]
            if !value.isSame(as: present), !constraint.contains(slot.index),
                transfer.includes(value, default: `default`, over: present)
            {
                winner.write(value, at: target)
            }
        }
        for relationship in loser.entity.relationships {
            guard let target = winner.entity.relationship(named: relationship.name),
                target.isToMany == relationship.isToMany
            else { continue }
            if relationship.isToMany {
                moveMembers(of: loser, relationship, to: winner, target)
            } else {
                moveLink(of: loser, relationship, to: winner, target, transfer)
            }
        }
        moveReferences(from: loser, to: winner)
        setLive(false, loser)
    }

    private func moveLink(
        of loser: ManagedObject, _ relationship: EntityLayout.Relationship,
        to winner: ManagedObject, _ target: EntityLayout.Relationship, _ transfer: Transfer
    ) {
        guard let from = relationship.slot, let to = target.slot else { return }
        let value = withoutNoting { loser.value(at: from) }
        let present = withoutNoting { winner.value(at: to) }
        setToOne(of: loser, relationship, slot: from, to: nil)
        guard value != present, value.objectID != winner.objectID,
            transfer.includes(value, default: .null, over: present)
        else { return }
        setToOne(of: winner, target, slot: to, to: value.objectID.map { object(with: $0) })
    }

    private func moveMembers(
        of loser: ManagedObject, _ relationship: EntityLayout.Relationship,
        to winner: ManagedObject, _ target: EntityLayout.Relationship
    ) {
        for id in loser.members(of: relationship) {
            let other = object(with: id)
            removeFromMany(of: loser, relationship, other)
            if other !== winner, other !== loser { addToMany(of: winner, target, other) }
        }
    }

    /// What leads to an object without a way back leads to another instead.
    private func moveReferences(from loser: ManagedObject, to winner: ManagedObject) {
        let id = loser.objectID
        for object in Array(tracked)
        where object !== loser && object.state.contains(.live) && object.edits != nil {
            for relationship in object.entity.relationships
            where layout.inverse(of: relationship) == nil {
                if let slot = relationship.slot {
                    if object.reference(at: slot) == id {
                        setToOne(of: object, relationship, slot: slot, to: winner)
                    }
                } else if let index = relationship.toManyIndex,
                    object.toManyState(index).added.contains(id)
                {
                    removeFromMany(of: object, relationship, loser)
                    addToMany(of: object, relationship, winner)
                }
            }
        }
    }
}

extension AttributeValue {
    fileprivate var objectID: ManagedObjectID? {
        if case .objectID(let id) = self { return id }
        return nil
    }
}
