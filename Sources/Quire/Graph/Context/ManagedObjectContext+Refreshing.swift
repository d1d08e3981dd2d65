internal import OrderedCollections
internal import QuireStore

extension ManagedObjectContext {
    /// Refreshes an object from the store or the parent.
    ///
    /// With `mergeChanges` it keeps its unsaved changes, property by property, and its transient values; a later save is based
    /// on the values read. Otherwise it loses them and becomes a fault: inverses in related objects are updated, and an undo
    /// manager can undo that; an unsaved deletion is reverted. A new object is not refreshed.
    ///
    /// If the row no longer exists the object is as described for ``shouldDeleteInaccessibleFaults``. An object whose deletion
    /// is saved, or that a rollback or reset has removed from the context, is not changed.
    ///
    /// Call it on the context's queue.
    ///
    /// - Complexity: One query.
    public func refresh(_ object: ManagedObject, mergeChanges: Bool) {
        if object.hasLeftContext { return }
        precondition(
            object.context === self,
            "\(object) belongs to another context and cannot be refreshed here.")
        processPendingChanges()
        guard object.state.contains(.persisted) || object.isInaccessible else { return }
        undoRequiresInverseRepair = undoManager != nil
        var event = EventChanges()
        if mergeChanges {
            if !refresh([object], readsObserved: true).isEmpty { event.refreshed = [object] }
            object.realize()
        } else {
            discardChanges(of: object)
            processPendingChanges()
            if !refresh([object]).isEmpty { event.invalidated = [object] }
        }
        let merged = ObjectIDChanges(refreshed: [object.objectID])
        notifyObservers(ContextChange(event: event, merged: merged))
        if !event.isEmpty { announce(event) }
    }

    /// Refreshes all objects from the store or the parent, unsaved changes kept: objects without changes become faults.
    ///
    /// - Complexity: O(*n*) in the registered objects; one query for those with changes.
    public func refreshAllObjects() {
        processPendingChanges()
        advanceQueryGeneration()
        staleRows.noteAll()
        writeBehindBuffer.withState { $0.savedVersions.forgetAll() }
        source.forgetRows(of: nil)
        undoRequiresInverseRepair = undoManager != nil
        var event = EventChanges()
        event.refreshed = refresh(Array(registeredObjects))
        notifyObservers(ContextChange(event: event, concernsAll: true))
        if !event.isEmpty { announce(event) }
    }

    /// Turns objects without changes into faults, and rebases the others onto the source's rows. Returns the objects of which
    /// values had been read. With `readsObserved`, observed objects are read instead of becoming faults, so that only
    /// properties that differ are announced.
    func refresh(_ objects: [ManagedObject], readsObserved: Bool = false) -> [ManagedObject] {
        var refreshed: [ManagedObject] = []
        var changed: [ManagedObject] = []
        for object in objects {
            if object.isInaccessible && !object.isUnsaved {
                // It may be there again.
                object.turnIntoFault()
                object.state.formUnion([.live, .persisted])
                refreshed.append(object)
            }
            guard object.state.contains(.persisted) else { continue }
            fetchedPropertyValues[object.objectID.bits] = nil
            if object.isFault && object.edits == nil { continue }
            refreshed.append(object)
            let isRead = readsObserved && object.state.contains(.observed) && !object.isFault
            if isRead || object.isUnsaved {
                changed.append(object)
            } else {
                object.turnIntoStaleFault()
            }
        }
        rebase(changed)
        return refreshed
    }

    /// Refreshes registered objects from rows that were just fetched, unsaved changes kept.
    ///
    /// - Returns: Whether any of them had unsaved changes, so that the request may match other objects now.
    func refreshRefetched(_ rows: RowSet) -> Bool {
        let objects = rows.indices.compactMap { position -> ManagedObject? in
            guard let object = identityMap.find(rows.identifierBits(at: position)),
                object.chunk != nil,
                object.isUnsaved || object.version != rows[position].version
            else { return nil }
            return object
        }
        let haveChanges = objects.contains(where: \.isUnsaved)
        refreshRefetched(objects)
        return haveChanges
    }

    /// Refreshes registered objects whose identifiers were just fetched.
    func refreshRefetched(_ identifiers: ContiguousArray<UInt64>) {
        refreshRefetched(identifiers.compactMap { identityMap.find($0) })
    }

    private func refreshRefetched(_ objects: [ManagedObject]) {
        if objects.isEmpty { return }
        processPendingChanges()
        undoRequiresInverseRepair = undoManager != nil
        var event = EventChanges()
        event.refreshed = refresh(objects, readsObserved: true)
        if !event.isEmpty { didEndEvent(event) }
    }

    private func rebase(_ objects: [ManagedObject]) {
        var rebased: [ManagedObject] = []
        for (_, group) in Dictionary(grouping: objects, by: \.resolvedEntity.rootNumber) {
            do {
                let rows = try source.rows(for: group.map(\.objectID))
                var positions: [UInt64: Int] = [:]
                for position in rows.indices {
                    positions[rows.identifierBits(at: position)] = position
                }
                for object in group {
                    guard let position = positions[object.objectID.bits] else {
                        // A missing row is detected when the object is read, saved or deleted.
                        if !object.isUnsaved { object.turnIntoStaleFault() }
                        continue
                    }
                    object.rebase(onto: rows[position])
                    rebased.append(object)
                }
            } catch {
                for object in group where !object.isUnsaved { object.turnIntoStaleFault() }
                reportFault(error)
            }
        }
        if rebased.isEmpty { return }
        // Before contents are read again, which drops edits that equal the stored contents.
        for object in rebased { keepUnsavedReferences(of: object) }
        for object in rebased {
            object.rebaseContents()
            object.didChange(by: .refresh)
        }
        undoManager?.disableUndoRegistration()
        for object in rebased { leaveSavedReferences(of: object) }
        processPendingChanges()
        undoManager?.enableUndoRegistration()
    }

    /// Records an object's unsaved references as edits of the inverse to-many relationships, unless its new row agrees. A
    /// removed and reinserted member had no edit while the stored reference was the same.
    private func keepUnsavedReferences(of object: ManagedObject) {
        guard object.state.contains(.live), let edits = object.edits else { return }
        for relationship in object.resolvedEntity.relationships {
            guard let slot = relationship.slot, edits.changed.contains(slot),
                let inverse = layout.inverse(of: relationship), inverse.isToMany,
                let id = object.reference(at: slot), id != object.savedReference(at: slot)
            else { continue }
            let other = self.object(with: id)
            if other.state.contains(.live) { keepMember(object.objectID, in: other, inverse) }
        }
    }

    /// Removes an object from the inverses of its new row's references that its unsaved changes or its deletion contradict.
    func leaveSavedReferences(of object: ManagedObject) {
        let isLive = object.state.contains(.live)
        for relationship in object.resolvedEntity.relationships {
            guard let inverse = layout.inverse(of: relationship) else { continue }
            // Deny and no-action rules leave the inverses alone here, too.
            let rule = relationship.description.deleteRule
            if !isLive && (rule == .deny || rule == .noAction) { continue }
            if let slot = relationship.slot {
                guard let saved = object.savedReference(at: slot) else { continue }
                if isLive {
                    guard object.edits?.changed.contains(slot) == true,
                        object.reference(at: slot) != saved
                    else { continue }
                }
                let other = self.object(with: saved)
                if other.state.contains(.live) { detach(object, from: other, inverse) }
            } else if !isLive {
                do {
                    let rows = try source.relatedRows(of: object.objectID, through: relationship)
                    for position in rows.indices {
                        let other = self.object(with: rows.objectID(at: position))
                        if other.state.contains(.live) { detach(object, from: other, inverse) }
                    }
                } catch {
                    reportFault(error)
                }
            }
        }
    }

    // MARK: Discarding

    /// Discards the unsaved changes of one object, and their effects on related objects. A deleted object is linked again to
    /// its former destinations that still exist.
    private func discardChanges(of object: ManagedObject) {
        guard object.isUnsaved else { return }
        let wasDeleted = !object.state.contains(.live)
        if wasDeleted {
            // A child's deletion may not include the values.
            if object.chunk == nil && object.edits?.own.isEmpty != false {
                object.state.remove(.realized)
            }
            setLive(true, object)
            object.realize()
            if object.isInaccessible { return }
        }
        for relationship in object.resolvedEntity.relationships {
            if let slot = relationship.slot {
                discardReference(of: object, relationship, slot, wasDeleted: wasDeleted)
            } else if let toMany = relationship.toManyIndex {
                discardMembers(of: object, relationship, toMany, wasDeleted: wasDeleted)
            }
        }
        for slot in object.resolvedEntity.slots where slot.relationshipIndex == nil {
            guard let edits = object.edits, edits.changed.contains(slot.index) else { continue }
            object.write(object.savedValue(at: slot.index), at: slot.index)
            edits.changed.remove(slot.index)
        }
        if !object.isUnsaved {
            object.edits?.commit()
            object.state.remove(.tracked)
            tracked.removeAll { $0 === object }
            if !object.resolvedEntity.transientSlots.isEmpty { object.edits = nil }
        }
    }
}

extension ManagedObjectContext {
    private func discardReference(
        of object: ManagedObject, _ relationship: ResolvedEntity.Relationship, _ slot: Int,
        wasDeleted: Bool
    ) {
        guard wasDeleted || object.edits?.changed.contains(slot) == true else { return }
        var saved = object.savedReference(at: slot)
        if let inverse = layout.inverse(of: relationship) {
            let target = saved.map { self.object(with: $0) }
            if target?.state.contains(.live) == false { saved = nil }
            if let present = object.reference(at: slot), present != saved {
                unlink(object, from: self.object(with: present), inverse)
            }
            if let target, saved != nil { relink(object, to: target, inverse, relationship) }
        }
        if object.reference(at: slot) != saved {
            object.write(saved.map { .objectID($0) } ?? .null, at: slot)
        }
        object.forgetChangeIfCommitted(at: slot)
    }

    private func discardMembers(
        of object: ManagedObject, _ relationship: ResolvedEntity.Relationship, _ toMany: Int,
        wasDeleted: Bool
    ) {
        if object.edits?.toMany.isEmpty == false { object.edits?.toMany[toMany].dropShared() }
        let inverse = layout.inverse(of: relationship)
        let state = object.toManyState(toMany)
        for id in state.added {
            if let inverse { unlink(object, from: self.object(with: id), inverse) }
            removeMember(id, from: object, relationship)
        }
        for id in state.removed {
            let other = self.object(with: id)
            if let inverse {
                guard other.state.contains(.live) else { continue }
                relink(object, to: other, inverse, relationship)
            }
            insertMember(id, into: object, relationship)
        }
        if wasDeleted, let inverse {
            for id in object.members(of: relationship) {
                let other = self.object(with: id)
                if other.state.contains(.live) {
                    relink(object, to: other, inverse, relationship)
                } else {
                    removeMember(id, from: object, relationship)
                }
            }
        }
        guard let order = object.toManyState(toMany).committedOrder else { return }
        let present = object.members(of: relationship)
        reorder(
            object, relationship, OrderedSet(order.filter(present.contains)).union(present))
        if !object.toManyState(toMany).hasChanges { object.edits?.toMany[toMany].commit() }
    }

    /// Removes an object from another's relationship, if it is a member.
    private func unlink(
        _ object: ManagedObject, from other: ManagedObject, _ inverse: ResolvedEntity.Relationship
    ) {
        guard other.state.contains(.live), leads(other, to: object, inverse, wasSaved: false) else {
            return
        }
        detach(object, from: other, inverse)
        if let slot = inverse.slot { other.forgetChangeIfCommitted(at: slot) }
    }

    /// Restores an object's saved membership in another's relationship. `leading` is the object's relationship to the other.
    private func relink(
        _ object: ManagedObject, to other: ManagedObject, _ inverse: ResolvedEntity.Relationship,
        _ leading: ResolvedEntity.Relationship
    ) {
        if !leads(other, to: object, inverse, wasSaved: true) {
            attach(object, to: other, inverse, leading: leading)
            restorePlace(of: object, in: other, inverse)
        }
        if let slot = inverse.slot { other.forgetChangeIfCommitted(at: slot) }
    }

    /// Whether an object refers to another one. Contents that are a fault are not read: `wasSaved` is the saved state.
    private func leads(
        _ object: ManagedObject, to other: ManagedObject,
        _ relationship: ResolvedEntity.Relationship,
        wasSaved: Bool
    ) -> Bool {
        guard let toMany = relationship.toManyIndex else {
            return relationship.slot.flatMap { object.reference(at: $0) } == other.objectID
        }
        let state = object.toManyState(toMany)
        if let members = state.members { return members.contains(other.objectID) }
        return state.added.contains(other.objectID)
            || (wasSaved && !state.removed.contains(other.objectID))
    }

    /// Restores the saved position of an object in an ordered relationship.
    private func restorePlace(
        of object: ManagedObject, in other: ManagedObject,
        _ relationship: ResolvedEntity.Relationship
    ) {
        guard relationship.isOrdered, let toMany = relationship.toManyIndex,
            let saved = other.toManyState(toMany).committedOrder,
            let place = saved.firstIndex(of: object.objectID)
        else { return }
        var order = other.members(of: relationship)
        order.remove(object.objectID)
        let previous = saved[..<place].last(where: order.contains)
        let index = previous.flatMap { order.firstIndex(of: $0) }.map { $0 + 1 } ?? 0
        order.insert(object.objectID, at: index)
        reorder(other, relationship, order)
    }
}

extension ManagedObject {
    /// Turns the object into a fault that keeps transient values. Requires that it has no changes.
    final func turnIntoStaleFault() {
        guard let edits, !transientSlots(of: edits.own).isEmpty else { return turnIntoFault() }
        turnIntoFault()
        // Not the same edits: a rebase still has them, as the saved values.
        let kept = ObjectEdits(slotCount: edits.values.count)
        kept.values = edits.values
        kept.own = transientSlots(of: edits.own)
        self.edits = kept
    }

    /// Rebases the object's unsaved changes onto a newer row; ``rebaseContents()`` does so for to-many relationships.
    final func rebase(onto row: ObjectSnapshot) {
        guard row.entity === resolvedEntity else { return }
        context?.staleRows.note(objectID.bits)
        forgetUnchangedSlots()
        announceRefresh(to: row)
        chunk = row.chunk
        rowOffset = UInt32(truncatingIfNeeded: row.offset)
        version = row.version
        state.insert(.realized)
        state.subtract([.inaccessible, .savedHere])
        guard let edits else { return }
        edits.dropComputedValues()
        edits.child = 0
        let committed = edits.committed ?? (edits.values, edits.own)
        let transient = transientSlots(of: committed.own)
        edits.committed = edits.changed.isEmpty ? nil : (committed.values, transient)
        edits.own = edits.changed
        edits.own.formUnion(transient)
    }

    /// Turns the contents of all to-many relationships into faults, except for unsaved orders.
    final func rebaseContents() {
        guard let edits, !edits.toMany.isEmpty else { return }
        for (toMany, index) in resolvedEntity.toManyRelationships.enumerated() {
            rebaseContents(of: resolvedEntity.relationships[index], toMany)
        }
    }

    /// Turns the contents of a to-many relationship into a fault; an unsaved order is rebased onto the stored contents.
    final func rebaseContents(of relationship: ResolvedEntity.Relationship, _ toMany: Int) {
        guard let edits, edits.toMany[toMany].members != nil else { return }
        announceRefresh(toMany: toMany) { rereadContents(of: relationship, toMany, edits) }
    }

    private final func rereadContents(
        of relationship: ResolvedEntity.Relationship, _ toMany: Int, _ edits: ObjectEdits
    ) {
        // Undo restores a deleted object's contents, also if its row no longer exists.
        guard edits.toMany[toMany].isArranged || !state.contains(.live) else {
            edits.toMany[toMany].forgetContents()
            return
        }
        guard let context else { return }
        do {
            let rows = try context.relatedRows(of: self, through: relationship)
            let saved = OrderedSet(rows.indices.map { rows.objectID(at: $0) })
            let shared = sharedDifferences(with: saved, relationship, edits.toMany[toMany])
            edits.toMany[toMany].rebase(
                onto: saved, isOrdered: relationship.isOrdered, shared: shared)
        } catch {
            context.reportFault(error)
        }
    }

    final func savedReference(at slot: Int) -> ManagedObjectID? {
        if case .objectID(let id) = savedValue(at: slot) { return id }
        return nil
    }

    /// Clears the changed flags of stored slots that have their saved values.
    final func forgetUnchangedSlots() {
        guard let edits, !edits.changed.isEmpty, state.contains(.persisted) else { return }
        var changed = persistentChanges(edits)
        changed.formUnion(transientSlots(of: edits.changed))
        edits.changed = changed
    }

    private final func transientSlots(of mask: SlotMask) -> SlotMask {
        mask.subtracting(mask.subtracting(resolvedEntity.transientSlots))
    }
}
