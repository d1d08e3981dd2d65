internal import OrderedCollections
internal import QuireStore

/// Saves with conflicts: the store's conflicts are passed to the merge policy, and its resolutions applied to the objects,
/// before the next attempt. The authoritative check is always the one in the store's transaction.
extension ManagedObjectContext {
    /// The maximum number of attempts of a save. More are needed only while other contexts keep saving the same objects, or
    /// if every resolution causes a new conflict.
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
                } catch let error as QuireError {
                    tries += 1
                    switch error.underlying {
                    case is PrimaryKeyCollision where tries <= Self.maximumTryCount:
                        takeBack(given)
                        given = GivenIDs(lastLog: undoIdentifiers.lastLog)
                    case var found as SaveConflicts:
                        try describe(&found)
                        guard tries <= Self.maximumTryCount else { throw found.error(file: nil) }
                        // No other object gets these identifiers any more. Observers must know them before the resolution
                        // deletes any of their objects.
                        given = GivenIDs(lastLog: undoIdentifiers.lastLog)
                        notifyObservers(ContextChange(isSave: true))
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
            throw error
        }
    }

    /// Asks the policy about every conflict, then applies its resolutions.
    private func resolve(_ found: SaveConflicts) throws {
        var (merges, constraints) = (found.objects, found.constraints)
        do {
            for index in merges.indices {
                let resolution = try forbiddingSaves {
                    try mergePolicy.resolve(mergeConflict: merges[index])
                }
                merges[index].resolution = try checked(resolution, of: merges[index].objectID)
            }
            for index in constraints.indices {
                let resolution = try forbiddingSaves {
                    try mergePolicy.resolve(constraintConflict: constraints[index])
                }
                if resolution == .error { throw constraints[index].error }
                constraints[index].resolution = resolution
            }
        } catch let failure as QuireError
            where failure.code == .mergeConflict || failure.code == .constraintConflict
        {
            throw found.error(file: nil)
        }
        if merges.isEmpty {
            // All are checked before any object changes.
            var orders = MergedOrders()
            for conflict in constraints { try check(conflict, of: found, noting: &orders) }
            constraints.forEach(resolve)
            arrange(like: orders)
            processPendingChanges()
        } else if merges.allSatisfy(canMergeInPlace) {
            // The constraint violations may be resolved with the objects; the next attempt detects the rest.
            merges.forEach(mergeInPlace)
            awakeObjects(merges)
            didEndEvent(EventChanges(refreshed: merges.map { object(with: $0.objectID) }))
            changeHandler?()
        } else {
            rebase(merges)
        }
    }

    /// Checks the names and coerces the values of a policy's resolution. Composite attributes are replaced by their elements.
    private func checked(
        _ resolution: MergeResolution, of id: ManagedObjectID
    ) throws -> MergeResolution {
        let entity = layout.entity(number: id.entityNumber)
        var result = resolution
        func unknown(_ name: String) -> QuireError {
            QuireError(
                .unknownKey,
                "The merge policy sets “\(name)” of \(entity.name), which does not exist or cannot be set.",
                entity: entity.name, property: name)
        }
        for name in resolution.properties where entity.slot(named: name) == nil {
            if case .composite(let elements)? = entity.properties[name] {
                result.properties.formUnion(elements.map { entity.slots[$0].name })
            } else if entity.relationship(named: name) == nil {
                throw unknown(name)
            }
        }
        for (name, value) in resolution.values {
            guard let slot = entity.slot(named: name), entity.slots[slot].attribute != nil else {
                throw unknown(name)
            }
            result.values[name] = try entity.slots[slot].coerce(value, in: entity)
        }
        return result
    }

    /// Notifies the objects in conflict that their values may have changed.
    func awakeObjects(_ conflicts: [MergeConflict]) {
        guard layout.hasSubclasses else { return }
        for conflict in conflicts {
            guard let object = identityMap.find(conflict.objectID.bits),
                object.state.isSuperset(of: [.live, .realized])
            else { continue }
            object.didChange(by: .mergePolicy)
        }
    }

    // MARK: - Describing

    /// Adds the context's values and changes to the conflicts that a store has found.
    private func describe(_ found: inout SaveConflicts) throws {
        for index in found.objects.indices { try describe(&found.objects[index]) }
        for index in found.constraints.indices {
            found.constraints[index].conflictingSnapshots =
                found.constraints[index].conflictingObjectIDs.map { id in
                    let object = object(with: id)
                    return ConflictSnapshot(of: object.resolvedEntity, object.valueWithoutLoading)
                }
        }
    }

    private func describe(_ conflict: inout MergeConflict) throws {
        let object = object(with: conflict.objectID)
        let isLive = object.state.contains(.live)
        if object.state.contains(.realized) && !object.isInaccessible {
            conflict.oldVersionNumber = object.version
            conflict.cachedSnapshot = ConflictSnapshot(of: object.resolvedEntity, object.savedValue)
            if isLive {
                conflict.objectSnapshot = ConflictSnapshot(
                    of: object.resolvedEntity, object.valueWithoutLoading)
            }
        }
        if isLive, let edits = object.edits {
            let changes = object.persistentChanges(edits)
            for slot in object.resolvedEntity.slots where changes.contains(slot.index) {
                conflict.changedProperties.insert(slot.name)
            }
        }
        for (index, state) in (object.edits?.toMany ?? []).enumerated() {
            let relationship = object.resolvedEntity.relationships[
                object.resolvedEntity.toManyRelationships[index]]
            if isLive && state.hasChanges { conflict.changedProperties.insert(relationship.name) }
            guard state.needsOrder else { continue }
            let name = relationship.name
            conflict.cachedSnapshot?.orderedObjectIDs[name] = state.committedOrder?.elements ?? []
            conflict.objectSnapshot?.orderedObjectIDs[name] =
                object.members(of: relationship).elements
            conflict.persistedSnapshot?.orderedObjectIDs[name] =
                try source.relatedRows(of: object.objectID, through: relationship).map(\.objectID)
        }
        if let old = conflict.cachedSnapshot, let new = conflict.persistedSnapshot {
            conflict.propertiesChangedInStore = new.properties(changedSince: old)
        }
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
            for object in inserted where object.objectID.isTemporaryID {
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
            identityMap.remove(object.objectID.bits, ObjectIdentifier(object))
            identityMap.insert(object, for: id.bits)
            object.objectID = id
        }
        if temporary.isEmpty { return }
        hasTemporaryIDs = true
        notifyObservers(ofReplacedIDs: temporary.map { ($0.key, $0.value.bits) })
        for object in tracked {
            object.edits?.replaceEveryID(in: object.resolvedEntity.identifierSlots) {
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
    private func resolve(_ conflict: ConstraintConflict) {
        let slots = Set(
            layout.entity(named: conflict.entityName)?.slots(ofConstraint: conflict.constraint)
                ?? [])
        forEachStep(of: conflict) { step in
            // Another step has changed that; the next attempt finds the conflict again.
            if step.isOfUnrelatedEntities { return }
            switch step {
            case .delete(let object, inFavourOf: _): delete(object)
            case .takeBack(let object): takeBack(slots, of: object)
            case .merge(let loser, let winner, let kind): merge(loser, into: winner, slots, kind)
            }
        }
    }

    /// Checks that no object would disappear in favour of one that cannot take its place.
    ///
    /// - Throws: ``QuireError`` with code `constraintConflict`, as a batch insert of the same row.
    private func check(
        _ conflict: ConstraintConflict, of found: SaveConflicts, noting orders: inout MergedOrders
    ) throws {
        try forEachStep(of: conflict) { step in
            note(step, in: &orders)
            guard step.isOfUnrelatedEntities, let (loser, winner) = step.objects else { return }
            let names = conflict.constraint.map { "“\($0)”" }.joined(separator: ", ")
            throw QuireError(
                .constraintConflict,
                "\(loser.objectID.shortDescription) has the same \(names) as "
                    + "\(winner.objectID.shortDescription), and a “\(winner.resolvedEntity.name)” cannot "
                    + "replace a “\(loser.resolvedEntity.name)”; change the value, or delete one of them.",
                entity: loser.resolvedEntity.name, property: conflict.constraint.first,
                object: loser.objectID.uriRepresentation,
                relatedObjects: [winner.objectID.uriRepresentation],
                underlying: found)
        }
    }

    /// What the resolution of a violation does to one of its objects.
    private enum ConstraintStep {
        case delete(ManagedObject, inFavourOf: ManagedObject)
        case takeBack(ManagedObject)
        case merge(ManagedObject, into: ManagedObject, MergePolicy.Kind)

        /// The object that is deleted, and the one that remains.
        var objects: (loser: ManagedObject, winner: ManagedObject)? {
            switch self {
            case .delete(let loser, inFavourOf: let winner), .merge(let loser, let winner, _):
                (loser, winner)
            case .takeBack: nil
            }
        }

        /// Whether the remaining object is not of the deleted one's entity: what refers to that could not refer to it, and no
        /// fetch would find it instead.
        var isOfUnrelatedEntities: Bool {
            objects.map {
                !$0.loser.resolvedEntity.subtree.contains($0.winner.resolvedEntity.number)
            } ?? false
        }
    }

    /// Calls a closure with each step of a violation's resolution, which it may take before the next is determined.
    private func forEachStep(
        of conflict: ConstraintConflict, _ body: (ConstraintStep) throws -> Void
    ) rethrows {
        var stored: ManagedObject?
        if let id = conflict.databaseObjectID {
            let object = object(with: id)
            if !object.isUnsaved { object.turnIntoStaleFault() }
            object.realize()
            if object.state.contains(.live), !object.isInaccessible { stored = object }
        }
        let objects = conflict.conflictingObjectIDs.map { object(with: $0) }.filter {
            $0.state.contains(.live)
        }
        guard var survivor = stored ?? objects.first(where: \.isModified) ?? objects.first else {
            return
        }
        for object in objects where object !== survivor && object.state.contains(.live) {
            let isNew = object.isNew
            switch conflict.resolution {
            case .rollback where isNew: try body(.delete(object, inFavourOf: survivor))
            case .mergeByPropertyStoreTrump where isNew:
                try body(.merge(object, into: survivor, .mergeByPropertyStoreTrump))
            case .error, .rollback, .mergeByPropertyStoreTrump: try body(.takeBack(object))
            case .mergeByPropertyObjectTrump where isNew || stored == nil,
                .overwrite where isNew || stored == nil:
                try body(.merge(object, into: survivor, conflict.resolution))
            case .mergeByPropertyObjectTrump:
                // The stored object is deleted, and the others are merged into its replacement.
                try body(.merge(survivor, into: object, .mergeByPropertyStoreTrump))
                (survivor, stored) = (object, nil)
            case .overwrite:
                try body(.merge(survivor, into: object, .rollback))
                (survivor, stored) = (object, nil)
            }
        }
    }

    /// Restores an object's saved values.
    private func takeBack(_ slots: Set<Int>, of object: ManagedObject) {
        for slot in slots.sorted() {
            let value = object.savedValue(at: slot)
            guard !value.isSame(as: object.valueWithoutLoading(at: slot)) else { continue }
            if let index = object.resolvedEntity.slots[slot].relationshipIndex {
                let target = value.objectID.map { self.object(with: $0) }
                setToOne(
                    of: object, object.resolvedEntity.relationships[index], slot: slot, to: target)
            } else {
                object.write(value, at: slot)
                object.forgetChangeIfCommitted(at: slot)
            }
        }
    }

    /// Moves an object's values and relationships to another, and deletes it. The kind chooses the values, as if the winner were
    /// the stored object.
    private func merge(
        _ loser: ManagedObject, into winner: ManagedObject, _ constraint: Set<Int>,
        _ kind: MergePolicy.Kind
    ) {
        willChange(loser)
        willChange(winner)
        for slot in loser.resolvedEntity.slots where slot.relationshipIndex == nil {
            guard let target = winner.resolvedEntity.slot(named: slot.name) else { continue }
            let value = loser.valueWithoutLoading(at: slot.index)
            let present = winner.valueWithoutLoading(at: target)
            let `default` = loser.resolvedEntity.defaultValues[slot.index]
            if !value.isSame(as: present), !constraint.contains(slot.index),
                kind.adopts(value, default: `default`, over: present)
            {
                winner.write(value, at: target)
            }
        }
        for relationship in loser.resolvedEntity.relationships {
            guard let target = winner.resolvedEntity.relationship(named: relationship.name),
                target.isToMany == relationship.isToMany
            else { continue }
            if relationship.isToMany {
                moveMembers(of: loser, relationship, to: winner, target)
            } else {
                moveLink(of: loser, relationship, to: winner, target, kind)
            }
        }
        moveReferences(from: loser, to: winner)
        setLive(false, loser)
    }

    private func moveLink(
        of loser: ManagedObject, _ relationship: ResolvedEntity.Relationship,
        to winner: ManagedObject, _ target: ResolvedEntity.Relationship, _ kind: MergePolicy.Kind
    ) {
        guard let from = relationship.slot, let to = target.slot else { return }
        let value = withoutNoting { loser.value(at: from) }
        let present = withoutNoting { winner.value(at: to) }
        setToOne(of: loser, relationship, slot: from, to: nil)
        guard value != present, value.objectID != winner.objectID,
            kind.adopts(value, default: .null, over: present)
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

    // MARK: Orders

    /// The orders of relationships of and to objects that are merged into others, whose changes win.
    private struct MergedOrders {
        struct Order: Hashable {
            let owner: ManagedObjectID
            let relationship: String
        }

        var survivors: [ManagedObjectID: ManagedObject] = [:]
        var wanted: OrderedDictionary<Order, OrderedSet<ManagedObjectID>> = [:]
        /// The orders of the survivors before.
        var present: [Order: OrderedSet<ManagedObjectID>] = [:]

        /// The object that remains of an object.
        func survivor(of id: ManagedObjectID) -> ManagedObject? {
            var found = survivors[id]
            for _ in survivors {
                guard let id = found?.objectID, let next = survivors[id] else { break }
                found = next
            }
            return found
        }
    }

    private func note(_ step: ConstraintStep, in orders: inout MergedOrders) {
        guard case .merge(let loser, let winner, let kind) = step,
            kind == .mergeByPropertyObjectTrump || kind == .overwrite
        else { return }
        orders.survivors[loser.objectID] = winner
        func note(_ owner: ManagedObject, _ relationship: ResolvedEntity.Relationship) {
            let order = MergedOrders.Order(owner: owner.objectID, relationship: relationship.name)
            if orders.wanted[order] == nil {
                orders.wanted[order] = owner.members(of: relationship)
            }
        }
        for relationship in loser.resolvedEntity.relationships {
            if relationship.isOrdered, !loser.members(of: relationship).isEmpty,
                let target = winner.resolvedEntity.relationship(named: relationship.name)
            {
                note(loser, relationship)
                orders.present[.init(owner: winner.objectID, relationship: target.name)] =
                    winner.members(of: target)
            }
            if let inverse = layout.inverse(of: relationship), inverse.isOrdered {
                for id in relatedIDs(of: loser, relationship) { note(object(with: id), inverse) }
            }
        }
    }

    /// Arranges relationships of the objects that remain like those of the merged ones.
    private func arrange(like orders: MergedOrders) {
        for (order, wanted) in orders.wanted {
            let owner = orders.survivor(of: order.owner) ?? object(with: order.owner)
            guard owner.state.contains(.live),
                let relationship = owner.resolvedEntity.relationship(named: order.relationship),
                relationship.isOrdered
            else { continue }
            var members = owner.members(of: relationship)
            let place = MergedOrders.Order(owner: owner.objectID, relationship: relationship.name)
            if let before = orders.present[place] {
                members = before.intersection(members).union(members)
            }
            let ids = wanted.map { orders.survivor(of: $0)?.objectID ?? $0 }
            reorder(owner, relationship, members.arranged(like: ids))
        }
    }

    /// Redirects one-way references from the deleted object to the survivor.
    private func moveReferences(from loser: ManagedObject, to winner: ManagedObject) {
        let id = loser.objectID
        for object in Array(tracked)
        where object !== loser && object.state.contains(.live) && object.edits != nil {
            for relationship in object.resolvedEntity.relationships
            where layout.inverse(of: relationship) == nil {
                if let slot = relationship.slot {
                    if object.reference(at: slot) == id {
                        setToOne(of: object, relationship, slot: slot, to: winner)
                    }
                } else if let index = relationship.toManyIndex,
                    object.toManyState(index).added.contains(id)
                {
                    let order = relationship.isOrdered ? object.members(of: relationship) : []
                    removeFromMany(of: object, relationship, loser)
                    addToMany(of: object, relationship, winner)
                    if relationship.isOrdered {
                        let members = object.members(of: relationship)
                        let ids = order.map { $0 == id ? winner.objectID : $0 }
                        reorder(object, relationship, members.arranged(like: ids))
                    }
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

extension MergePolicy.Kind {
    /// Whether a merged object's value replaces the one of the remaining object.
    fileprivate func adopts(
        _ value: AttributeValue, default: AttributeValue, over present: AttributeValue
    ) -> Bool {
        switch self {
        case .error, .rollback: false
        case .mergeByPropertyStoreTrump: present.isNull && !value.isNull
        case .mergeByPropertyObjectTrump: value != `default`
        case .overwrite: true
        }
    }
}
