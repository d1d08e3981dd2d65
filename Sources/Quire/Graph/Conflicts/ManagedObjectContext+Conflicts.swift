internal import OrderedCollections

/// Saves with conflicts: the store's conflicts are passed to the merge policy, and its resolutions applied to the objects,
/// before the next attempt. The authoritative check is always the one in the store's transaction.
extension ManagedObjectContext {
    /// The maximum number of attempts of a save. More are needed only while other contexts keep saving the same objects, or
    /// where every resolution causes a new conflict.
    private static let maximumTryCount = 20

    /// Saves the changes to the source, retrying while the merge policy resolves its conflicts. `inserted` are the new objects,
    /// afterwards the remaining ones. Returns the objects whose derived values have changed.
    func saveResolvingConflicts(
        _ inserted: inout [ManagedObject], evenIfUnchanged: Bool,
        by write: (ChangeSet) throws -> [ManagedObjectID]
    ) throws -> [ManagedObjectID] {
        var tries = 1
        var given = GivenIDs(lastLog: undoIdentifiers.lastLog)
        do {
            try givePermanentIDs(to: inserted, &given)
            while true {
                do {
                    let changes = collectChanges(insertedCount: inserted.count)
                    return changes.isEmpty && !evenIfUnchanged ? [] : try write(changes)
                } catch let error as QuireError where tries < Self.maximumTryCount {
                    tries += 1
                    switch error.underlying {
                    case is PrimaryKeyCollision:
                        takeBack(given)
                        given = GivenIDs(lastLog: undoIdentifiers.lastLog)
                    case let found as SaveConflicts:
                        // Nobody else gets these identifiers any more.
                        given = GivenIDs(lastLog: undoIdentifiers.lastLog)
                        try resolve(found)
                    default: throw error
                    }
                }
                inserted = newObjects
                guard isUnsaved else { return evenIfUnchanged ? try write(ChangeSet()) : [] }
                try validatePendingChanges()
                try givePermanentIDs(to: inserted, &given)
            }
        } catch {
            takeBack(given)
            throw (error as? QuireError).map(describe) ?? error
        }
    }

    /// The error that a save throws, with the conflicts as values.
    private func describe(_ error: QuireError) -> QuireError {
        guard let found = error.underlying as? SaveConflicts else { return error }
        return self.error(for: found.objects.map(conflict), found.constraints.map(conflict))
    }

    private func error(
        for merges: [MergeConflict], _ constraints: [ConstraintConflict]
    ) -> QuireError {
        var failures = merges.map(\.error)
        for constraint in constraints { failures += constraint.found.errors(file: nil) }
        var error = QuireError.combining(failures)
        error.underlying = ConflictDetails(
            mergeConflicts: merges, constraintConflicts: constraints)
        return error
    }

    /// Asks the policy about every conflict, then applies its resolutions.
    private func resolve(_ found: SaveConflicts) throws {
        let merges = found.objects.map(conflict)
        let constraints = found.constraints.map(conflict)
        var decisions: [ResolvedConflict] = []
        var resolutions: [(ConstraintViolation, ConstraintResolution)] = []
        do {
            for merge in merges {
                let resolution = try mergePolicy.resolve(mergeConflict: merge)
                decisions.append(try decision(about: merge, resolution))
            }
            for constraint in constraints {
                let resolution = try mergePolicy.resolve(constraintConflict: constraint)
                resolutions.append((constraint.found, resolution))
            }
        } catch let failure as QuireError
            where failure.code == .mergeConflict || failure.code == .constraintConflict
        {
            throw error(for: merges, constraints)
        }
        if !decisions.isEmpty {
            if decisions.allSatisfy(canMergeInPlace) {
                decisions.forEach(mergeInPlace)
                awakeObjects(decisions)
                didEndEvent(EventChanges(refreshed: decisions.map { object(with: $0.objectID) }))
                changeHandler?()
            } else {
                rebase(decisions)
            }
        }
        // The constraint violations may have been resolved with the objects; the next attempt detects the rest.
        if !decisions.isEmpty { return }
        for (violation, resolution) in resolutions { resolve(violation, resolution) }
        processPendingChanges()
    }

    /// Notifies the objects in conflict that their values may have changed.
    func awakeObjects(_ decisions: [ResolvedConflict]) {
        guard layout.hasSubclasses else { return }
        for decision in decisions {
            guard let object = identityMap.find(decision.objectID.bits),
                object.state.isSuperset(of: [.live, .realized])
            else { continue }
            object.didChange(by: .mergePolicy)
        }
    }

    // MARK: - Describing

    private func conflict(_ found: ObjectConflict) -> MergeConflict {
        let object = object(with: found.objectID)
        let isKnown = object.state.contains(.realized) && !object.isInaccessible
        let relationships = reordered(object)
        let cached = isKnown ? cachedSnapshot(of: object, relationships) : nil
        let persisted = found.current.map { snapshot(of: $0, relationships) }
        var changed: Set<String> = []
        if let edits = object.edits, object.state.contains(.live) {
            for slot in object.entity.slots where edits.changed.contains(slot.index) {
                changed.insert(slot.name)
            }
            for (index, state) in edits.toMany.enumerated() where state.hasChanges {
                changed.insert(
                    object.entity.relationships[object.entity.toManyRelationships[index]].name)
            }
        }
        return MergeConflict(
            objectID: found.objectID, oldVersionNumber: isKnown ? object.version : 0,
            newVersionNumber: found.current?.version ?? 0,
            objectSnapshot: object.state.contains(.live) && isKnown
                ? presentSnapshot(of: object, relationships) : nil,
            cachedSnapshot: cached, persistedSnapshot: persisted, changedProperties: changed,
            propertiesChangedInStore: differences(cached, persisted), found: found)
    }

    private func conflict(_ found: ConstraintViolation) -> ConstraintConflict {
        ConstraintConflict(
            entityName: found.entityName, constraint: found.properties,
            constraintValues: found.values, databaseObjectID: found.current?.objectID,
            databaseSnapshot: found.current.map { snapshot(of: $0, []) },
            conflictingObjectIDs: found.objectIDs,
            conflictingSnapshots: found.objectIDs.map {
                presentSnapshot(of: object(with: $0), [])
            }, found: found)
    }

    private func differences(_ left: ConflictSnapshot?, _ right: ConflictSnapshot?) -> Set<String> {
        guard let left, let right else { return [] }
        let values = right.values.filter { left.values[$0.key] != $0.value }.keys
        let orders = right.orderedObjectIDs.filter { left.orderedObjectIDs[$0.key] != $0.value }
            .keys
        return Set(values).union(orders)
    }

    /// The ordered relationships whose order was changed here.
    private func reordered(_ object: ManagedObject) -> [ResolvedEntity.Relationship] {
        guard let edits = object.edits else { return [] }
        return edits.toMany.indices.filter { edits.toMany[$0].needsOrder }.map {
            object.entity.relationships[object.entity.toManyRelationships[$0]]
        }
    }

    private func presentSnapshot(
        of object: ManagedObject, _ relationships: [ResolvedEntity.Relationship]
    ) -> ConflictSnapshot {
        ConflictSnapshot(
            values: values(of: object.entity) { object.valueWithoutLoading(at: $0) },
            orderedObjectIDs: orders(relationships) { object.members(of: $0).elements })
    }

    private func cachedSnapshot(
        of object: ManagedObject, _ relationships: [ResolvedEntity.Relationship]
    ) -> ConflictSnapshot {
        ConflictSnapshot(
            values: values(of: object.entity) { object.savedValue(at: $0) },
            orderedObjectIDs: orders(relationships) {
                $0.toManyIndex.flatMap { object.toManyState($0).committedOrder?.elements } ?? []
            })
    }

    private func snapshot(
        of row: ObjectSnapshot, _ relationships: [ResolvedEntity.Relationship]
    ) -> ConflictSnapshot {
        ConflictSnapshot(
            values: values(of: row.entity) { (try? row.valueWithoutLoading(at: $0)) ?? .null },
            orderedObjectIDs: orders(relationships) { relationship in
                let rows = try? source.relatedRows(of: row.objectID, through: relationship)
                return rows.map { rows in rows.indices.map { rows.objectID(at: $0) } } ?? []
            })
    }

    private func values(
        of entity: ResolvedEntity, _ value: (Int) -> AttributeValue
    ) -> [String: AttributeValue] {
        var result: [String: AttributeValue] = [:]
        for slot in entity.slots where slot.isStored { result[slot.name] = value(slot.index) }
        return result
    }

    private func orders(
        _ relationships: [ResolvedEntity.Relationship],
        _ members: (ResolvedEntity.Relationship) -> [ManagedObjectID]
    ) -> [String: [ManagedObjectID]] {
        Dictionary(uniqueKeysWithValues: relationships.map { ($0.name, members($0)) })
    }

    // MARK: - Identifiers

    /// The permanent identifiers that a save has given, for the case that it fails: another process may use them then.
    private struct GivenIDs {
        var objects: [(object: ManagedObject, temporary: ManagedObjectID)] = []
        /// The last undo log that cannot contain any of them.
        let lastLog: UInt64
    }

    private func givePermanentIDs(to inserted: [ManagedObject], _ given: inout GivenIDs) throws {
        // If a parent saves later, or there are children, identifiers become permanent before the save has succeeded.
        let isDurable = parent != nil || isParent
        let known = given.objects.count
        if !isDurable {
            for object in inserted where object.objectID.isTemporary {
                given.objects.append((object, object.objectID))
            }
        }
        do {
            try assignPermanentIDs(to: inserted, durably: isDurable)
        } catch {
            given.objects.removeSubrange(known...)
            throw error
        }
    }

    private func takeBack(_ given: GivenIDs) {
        var temporary: [UInt64: ManagedObjectID] = [:]
        for (object, id) in given.objects where object.context === self {
            temporary[object.objectID.bits] = id
            identityMap.remove(object.objectID.bits, object)
            identityMap.insert(object, for: id.bits)
            object.objectID = id
        }
        if temporary.isEmpty { return }
        hasTemporaryIDs = true
        notifyObservers(ofReplacedIDs: temporary.map { ($0.key, $0.value.bits) })
        for object in tracked {
            object.edits?.replaceEveryID(in: object.entity.identifierSlots) {
                temporary[$0.bits] ?? $0
            }
        }
        undoIdentifiers.remove(temporary.values)
        persistentStoreCoordinator.replacedIdentifiers.remove(temporary.values.map(\.bits))
        // Resolving conflicts may have been logged.
        if undoIdentifiers.lastLog != given.lastLog { undoManager?.removeAllActions() }
    }
}

// MARK: - Constraints

/// Merges objects that violate a uniqueness constraint, or deletes or resets some. These are ordinary changes: they maintain
/// inverses, and can be undone.
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
                // The stored object is deleted, and the others are merged into its replacement.
                merge(survivor, into: object, slots, resolution == .overwrite ? .none : .missing)
                survivor = object
                stored = nil
            }
        }
    }

    /// The values of a merged object that the surviving one adopts.
    private enum Transfer {
        case none
        /// Values that the survivor lacks.
        case missing
        /// Values that differ from a new object's.
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

    /// Restores an object's saved values.
    private func takeBack(_ slots: Set<Int>, of object: ManagedObject) {
        for slot in slots.sorted() {
            let value = object.savedValue(at: slot)
            guard !value.isSame(as: object.valueWithoutLoading(at: slot)) else { continue }
            if let index = object.entity.slots[slot].relationshipIndex {
                let target = value.objectID.map { self.object(with: $0) }
                setToOne(of: object, object.entity.relationships[index], slot: slot, to: target)
            } else {
                object.write(value, at: slot)
                object.forgetChangeIfCommitted(at: slot)
            }
        }
    }

    /// Moves an object's values and relationships to another, and deletes it.
    private func merge(
        _ loser: ManagedObject, into winner: ManagedObject, _ constraint: Set<Int>,
        _ transfer: Transfer
    ) {
        willChange(loser)
        willChange(winner)
        for slot in loser.entity.slots where slot.relationshipIndex == nil {
            guard let target = winner.entity.slot(named: slot.name) else { continue }
            let value = loser.valueWithoutLoading(at: slot.index)
            let present = winner.valueWithoutLoading(at: target)
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
        of loser: ManagedObject, _ relationship: ResolvedEntity.Relationship,
        to winner: ManagedObject, _ target: ResolvedEntity.Relationship, _ transfer: Transfer
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
        of loser: ManagedObject, _ relationship: ResolvedEntity.Relationship,
        to winner: ManagedObject, _ target: ResolvedEntity.Relationship
    ) {
        for id in loser.members(of: relationship) {
            let other = object(with: id)
            removeFromMany(of: loser, relationship, other)
            if other !== winner, other !== loser { addToMany(of: winner, target, other) }
        }
    }

    /// Redirects one-way references from the deleted object to the survivor.
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
