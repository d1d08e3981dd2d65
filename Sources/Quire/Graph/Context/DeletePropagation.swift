internal import OrderedCollections

/// Deletion and delete rules.
extension ManagedObjectContext {
    /// Deletes an object at the next save.
    ///
    /// Delete rules apply at once: destinations of cascade relationships are deleted too, other destinations lose their
    /// reference. A deny rule is checked by ``save()``, which fails as long as the relationship has destinations. Undo restores
    /// everything. If the destinations cannot be read, for example because protected data are locked, nothing is deleted, and
    /// ``lastFaultError`` explains.
    ///
    /// - Complexity: O(*n*) in the objects related to those deleted.
    public func delete(_ object: ManagedObject) {
        // It has left the context with a save or a rollback.
        if object.state.contains(.discarded) || object.context == nil { return }
        precondition(
            object.context === self,
            "\(object) belongs to another context and cannot be deleted here.")
        checkMayChangeGraph()
        guard let cascade = readCascade(of: object) else { return }
        withExtendedLifetime(cascade) {
            if layout.hasSubclasses { prepareForDeletion(of: object) }
            deleteByRules(object)
        }
    }

    /// Reads what the deletion of an object changes: its relationships, and those of its cascade.
    ///
    /// - Returns: The objects of the cascade, to be kept until they are deleted; `nil` if something could not be read, which has
    ///   been reported. A part of the cascade would be left then.
    private func readCascade(of object: ManagedObject) -> [ManagedObject]? {
        var cascade = [object]
        var seen: Set = [ObjectIdentifier(object)]
        var next = 0
        while next < cascade.count {
            let object = cascade[next]
            next += 1
            guard object.state.contains(.live) else { continue }
            willChange(object)
            for relationship in object.resolvedEntity.relationships {
                let rule = relationship.description.deleteRule
                guard rule == .cascade || rule == .nullify else { continue }
                let ids = relatedIDs(of: object, relationship)
                guard object.hasRead(relationship) else { return nil }
                if rule == .nullify { continue }
                for other in ids.map({ self.object(with: $0) })
                where seen.insert(ObjectIdentifier(other)).inserted {
                    cascade.append(other)
                }
            }
        }
        return cascade
    }

    /// Deletes an object and its cascade, whose `prepareForDeletion` has been called.
    func deleteByRules(_ object: ManagedObject) {
        var pending = [object]
        while let next = pending.popLast() {
            guard next.state.contains(.live) else { continue }
            willChange(next)
            let relationships = next.resolvedEntity.relationships.filter {
                $0.description.deleteRule == .cascade || $0.description.deleteRule == .nullify
            }
            // Destinations are read before the deletion, while the relationships can still be read.
            let related = relationships.map { relatedIDs(of: next, $0) }
            setLive(false, next)
            for (relationship, ids) in zip(relationships, related) {
                let inverse = layout.inverse(of: relationship)
                for id in ids {
                    let other = self.object(with: id)
                    if let inverse { detach(next, from: other, inverse) }
                    if relationship.description.deleteRule == .cascade { pending.append(other) }
                }
            }
        }
    }

    func relatedIDs(
        of object: ManagedObject, _ relationship: ResolvedEntity.Relationship
    ) -> [ManagedObjectID] {
        if let slot = relationship.slot { return object.reference(at: slot).map { [$0] } ?? [] }
        return object.members(of: relationship).elements
    }

    /// Removes objects that were inserted and deleted without a save from relationships without inverse, which delete
    /// propagation does not update: no row may have a foreign key to a row that never existed.
    func dropReferencesToDeletedUnsaved() {
        if deletedUnsaved.isEmpty { return }
        let gone = deletedUnsaved.filter { $0.state.isDisjoint(with: [.live, .persisted]) }
        deletedUnsaved = []
        dropUnsavedReferences(to: gone.map(\.objectID))
    }

    /// Removes deleted objects from relationships without inverse that unsaved changes have put them into.
    func dropUnsavedReferences(to ids: [ManagedObjectID]) {
        if layout.hasRelationshipsWithoutInverse {
            dropUnsavedReferences(to: ids) { $0.inverseIndex == nil }
        }
    }

    /// As ``dropUnsavedReferences(to:)``, of those relationships that the closure is true for.
    func dropUnsavedReferences(
        to ids: [ManagedObjectID], where isConcerned: (ResolvedEntity.Relationship) -> Bool
    ) {
        if ids.isEmpty { return }
        let gone = Set(ids)
        for object in tracked where object.state.contains(.live) {
            guard let edits = object.edits else { continue }
            for relationship in object.resolvedEntity.relationships where isConcerned(relationship)
            {
                if let slot = relationship.slot {
                    if edits.changed.contains(slot), case .objectID(let id) = edits.values[slot],
                        gone.contains(id)
                    {
                        object.write(.null, at: slot)
                    }
                } else if let index = relationship.toManyIndex, !edits.toMany.isEmpty {
                    for id in edits.toMany[index].added where gone.contains(id) {
                        removeMember(id, from: object, relationship)
                    }
                }
            }
        }
    }

    /// Deny-rule violations: one error for each deny relationship that still has destinations.
    func denials(of object: ManagedObject) -> [QuireError] {
        object.resolvedEntity.relationships.filter { $0.description.deleteRule == .deny }.compactMap
        {
            relationship in
            let inverse = layout.inverse(of: relationship)
            let blocking = relatedIDs(of: object, relationship)
                .filter { isHeld(object, by: $0, inverse) }
            guard !blocking.isEmpty else { return nil }
            return QuireError(
                deletionOf: object.objectID, deniedBy: relationship.name, blocking)
        }
    }

    /// Whether a destination of a deleted object still exists and refers back. A child pushes only its own side's changes.
    private func isHeld(
        _ object: ManagedObject, by id: ManagedObjectID, _ inverse: ResolvedEntity.Relationship?
    ) -> Bool {
        guard let other = identityMap.find(id.bits) else { return true }
        guard other.state.contains(.live), let inverse else { return other.state.contains(.live) }
        if let slot = inverse.slot { return other.reference(at: slot) == object.objectID }
        guard let toMany = inverse.toManyIndex else { return true }
        return !other.toManyState(toMany).removed.contains(object.objectID)
    }
}

extension ManagedObject {
    /// Whether the contents of a relationship are known, after an attempt to read them.
    fileprivate final func hasRead(_ relationship: ResolvedEntity.Relationship) -> Bool {
        guard state.contains(.persisted) else { return true }
        if let index = relationship.toManyIndex { return toManyState(index).members != nil }
        return state.contains(.realized)
    }
}
