internal import OrderedCollections
internal import QuireStore

/// Rebases the changes of a context onto its source's present state, less those that a merge policy rejected.
///
/// All changes are recorded, every object is reset to the source's state, and the changes are applied again by the operations
/// that maintain inverses. So the graph is consistent afterwards, whatever the concurrent saves. A link belongs to its to-one
/// side alone if there is one, otherwise to both sides; it is applied again unless an object it belongs to has lost it.
///
/// The undo stack is cleared, because it refers to the previous graph.
struct Rebase {
    let context: ManagedObjectContext
    private let conflicts: [ManagedObjectID: MergeConflict]
    private var intents: [LocalChange] = []
    private var remembered: [ManagedObjectID: [AttributeValue]] = [:]
    /// Deleted objects to be restored.
    private var restored: Set<ManagedObjectID> = []

    /// The recorded changes of one object.
    private struct LocalChange {
        enum Kind { case insertion, update, deletion }

        let object: ManagedObject
        let kind: Kind
        var values: [(slot: Int, value: AttributeValue)] = []
        var links: [Link] = []
        var toMany: [ToManyIntent] = []
        /// The object's row and values without the changes, in case the row is deleted during the rebase.
        var saved: (chunk: RowChunk?, offset: UInt32, version: UInt32, edits: ObjectEdits?)?
    }

    private struct Link {
        let relationship: ResolvedEntity.Relationship
        let slot: Int
        let old: ManagedObjectID?
        let new: ManagedObjectID?
    }

    private struct ToManyIntent {
        let relationship: ResolvedEntity.Relationship
        let added: [ManagedObjectID]
        let removed: [ManagedObjectID]
        let order: [ManagedObjectID]?
    }

    init(context: ManagedObjectContext, conflicts: [MergeConflict]) {
        self.context = context
        self.conflicts = Dictionary(
            conflicts.map { ($0.objectID, $0) }, uniquingKeysWith: { first, _ in first })
        for conflict in conflicts { remember(conflict) }
        for object in context.tracked where object.isUnsaved {
            intents.append(intent(of: object))
        }
    }

    /// Runs the rebase, and returns the changes of objects.
    mutating func run() -> EventChanges {
        goBack()
        findRestored()
        let missing = conflicts.values.filter { $0.current == nil }
            .sorted { $0.objectID.bits < $1.objectID.bits }
        for conflict in missing { resolveMissingDestinations(conflict) }
        for conflict in missing { linkAgain(conflict) }
        for index in intents.indices where intents[index].kind == .insertion {
            context.track(intents[index].object, wasLive: true)
        }
        for intent in intents where intent.kind == .update { readAgain(intent) }
        for intent in intents { setValues(intent) }
        for intent in intents where intent.kind != .deletion {
            for link in intent.links { setLink(link, of: intent.object) }
        }
        for intent in intents where intent.kind != .deletion {
            for toMany in intent.toMany { setMembers(toMany, of: intent.object) }
        }
        for intent in intents where intent.kind != .deletion {
            for toMany in intent.toMany { setOrder(toMany, of: intent.object) }
        }
        delete()
        return changes()
    }

    // MARK: - Noting down

    /// Keeps the values of an object to be inserted again.
    private mutating func remember(_ conflict: MergeConflict) {
        guard conflict.current == nil, conflict.resolution.outcome == .keep else { return }
        let object = context.object(bits: conflict.objectID.bits)
        guard object.state.isSuperset(of: [.realized, .live]), !object.isInaccessible else {
            return
        }
        remembered[conflict.objectID] = object.resolvedEntity.slots.map {
            object.valueWithoutLoading(at: $0.index)
        }
    }

    private func intent(of object: ManagedObject) -> LocalChange {
        if object.isGone { return LocalChange(object: object, kind: .deletion) }
        var intent = LocalChange(object: object, kind: object.isNew ? .insertion : .update)
        guard let edits = object.edits else { return intent }
        object.forgetUnchangedSlots()
        for slot in object.resolvedEntity.slots {
            if slot.storage == .reference, let index = slot.relationshipIndex {
                guard edits.changed.contains(slot.index) || object.isNew else { continue }
                var old: ManagedObjectID?
                if case .objectID(let id) = object.savedValue(at: slot.index) { old = id }
                let new = object.reference(at: slot.index)
                if new == nil && object.isNew { continue }
                intent.links.append(
                    Link(
                        relationship: object.resolvedEntity.relationships[index], slot: slot.index,
                        old: old, new: new))
            } else if intent.kind == .update, edits.changed.contains(slot.index) {
                intent.values.append((slot.index, edits.values[slot.index]))
            }
        }
        for (index, state) in edits.toMany.enumerated() where state.hasChanges {
            let relationship = object.resolvedEntity.relationships[
                object.resolvedEntity.toManyRelationships[index]]
            let isArranged = relationship.isOrdered && state.members != nil
            intent.toMany.append(
                ToManyIntent(
                    relationship: relationship, added: state.added.elements,
                    removed: state.removed.elements,
                    order: isArranged && (state.needsOrder || object.isNew)
                        ? state.members?.elements : nil))
        }
        return intent
    }

    // MARK: - Going back

    private mutating func goBack() {
        var registered: [ManagedObject] = []
        context.identityMap.forEach { registered.append($0) }
        for index in intents.indices where intents[index].kind == .update {
            let object = intents[index].object
            object.edits?.rollBack()
            intents[index].saved = (
                object.chunk, object.rowOffset, object.version, object.edits
            )
        }
        for object in context.tracked { object.state.remove(.tracked) }
        context.tracked.removeAll()
        for object in registered {
            if object.state.contains(.persisted) {
                object.state.insert(.live)
                if let conflict = conflicts[object.objectID], conflict.current == nil {
                    object.edits?.rollBack()  // Keeps its last values.
                } else {
                    object.turnIntoStaleFault()
                }
            } else if object.state.contains(.live) {
                unlink(object)
            }
        }
    }

    /// Finds the deleted objects to be restored, and those deleted by their cascades.
    private mutating func findRestored() {
        let deleted = intents.filter { $0.kind == .deletion }.map(\.object)
        let ids = Set(deleted.map(\.objectID))
        var pending = deleted.filter { object in
            guard let conflict = conflicts[object.objectID] else { return false }
            return conflict.current != nil && conflict.resolution.outcome != .delete
        }
        while let object = pending.popLast() {
            guard restored.insert(object.objectID).inserted else { continue }
            for relationship in object.resolvedEntity.relationships
            where relationship.description.deleteRule == .cascade {
                for id in context.relatedIDs(of: object, relationship)
                where ids.contains(id) && conflicts[id]?.resolution.outcome != .delete {
                    pending.append(context.object(bits: id.bits))
                }
            }
        }
    }

    /// Empties the relationships of a new object.
    private func unlink(_ object: ManagedObject) {
        let edits = object.editsForRelationships()
        for slot in object.resolvedEntity.identifierSlots
        where object.resolvedEntity.storages[slot] == .reference {
            object.announceChange(at: slot, to: .null)
            edits.values[slot] = .null
        }
        for index in edits.toMany.indices {
            if edits.toMany[index].members?.isEmpty != true { object.announceChange(toMany: index) }
            edits.toMany[index] = ToManyState(members: [])
        }
    }

    /// Deletes an object whose row no longer exists, or makes it a new one with its old identifier.
    private func resolveMissingDestinations(_ conflict: MergeConflict) {
        let object = context.object(bits: conflict.objectID.bits)
        object.announceLifeChange()
        guard let values = remembered[conflict.objectID] else { return context.discard(object) }
        object.turnIntoFault()
        object.version = 0
        object.state.remove(.persisted)
        object.state.formUnion([.live, .realized])
        let edits = ObjectEdits(slotCount: object.resolvedEntity.slots.count)
        edits.values = ContiguousArray(values)
        edits.own = SlotMask(first: values.count)
        edits.changed = edits.own
        object.edits = edits
        unlink(object)
        context.track(object, wasLive: true)
    }

    /// Restores the to-one relationships of a reinserted object.
    private func linkAgain(_ conflict: MergeConflict) {
        guard let values = remembered[conflict.objectID] else { return }
        let object = context.object(bits: conflict.objectID.bits)
        for (slot, value) in values.enumerated() {
            guard case .objectID(let id) = value,
                object.resolvedEntity.storages[slot] == .reference,
                let index = object.resolvedEntity.slots[slot].relationshipIndex, isThere(id)
            else { continue }
            context.setToOne(
                of: object, object.resolvedEntity.relationships[index], slot: slot,
                to: context.object(bits: id.bits))
        }
        for slot in object.resolvedEntity.slots {
            if let value = conflict.resolution.values[slot.name] {
                object.write(value, at: slot.index)
            }
        }
    }

    // MARK: - Making changes again

    private func readAgain(_ intent: LocalChange) {
        let object = intent.object
        guard object.state.isSuperset(of: [.live, .persisted]) else { return }
        object.realize()
        if object.isInaccessible, let saved = intent.saved {
            // Deleted concurrently. The next attempt detects that.
            object.state.remove(.inaccessible)
            object.state.formUnion([.live, .persisted])
            (object.chunk, object.rowOffset) = (saved.chunk, saved.offset)
            (object.version, object.edits) = (saved.version, saved.edits)
        }
    }

    /// Whether an object can be referred to.
    private func isThere(_ id: ManagedObjectID) -> Bool {
        let object = context.object(bits: id.bits)
        guard object.state.contains(.live) else { return false }
        if let conflict = conflicts[id], conflict.current == nil { return remembered[id] != nil }
        guard object.state.contains(.persisted) else { return true }
        object.realize()
        return !object.isInaccessible
    }

    private func keeps(_ slot: Int, of id: ManagedObjectID) -> Bool {
        guard let conflict = conflicts[id] else { return true }
        let entity = context.layout.entity(number: id.entityNumber)
        // Transient values never conflict.
        if !entity.slots[slot].isStored { return true }
        return conflict.resolution.keeps(entity.slots[slot])
            || conflict.resolution.outcome == .keep && conflict.current == nil
    }

    private func setValues(_ intent: LocalChange) {
        let object = intent.object
        guard object.state.contains(.live), intent.kind == .update else { return }
        for (slot, value) in intent.values where keeps(slot, of: object.objectID) {
            if !object.valueWithoutLoading(at: slot).isSame(as: value) {
                object.write(value, at: slot)
            }
        }
        guard let conflict = conflicts[object.objectID], conflict.resolution.outcome == .keep else {
            return
        }
        if let cached = intent.saved, conflict.current != nil {
            writeUnchanged(conflict, object, intent, cached.chunk, cached.offset, cached.edits)
        }
        for slot in object.resolvedEntity.slots {
            guard let value = conflict.resolution.values[slot.name],
                !object.valueWithoutLoading(at: slot.index).isSame(as: value)
            else { continue }
            object.write(value, at: slot.index)
        }
    }

    /// Writes values that were not changed here but are saved anyway.
    private func writeUnchanged(
        _ conflict: MergeConflict, _ object: ManagedObject, _ intent: LocalChange,
        _ chunk: RowChunk?,
        _ offset: UInt32, _ edits: ObjectEdits?
    ) {
        let changed = Set(intent.values.map(\.slot) + intent.links.map(\.slot))
        for slot in object.resolvedEntity.slots
        where conflict.resolution.keeps(slot) && slot.isStored && !changed.contains(slot.index) {
            var value = AttributeValue.null
            if let edits, edits.own.contains(slot.index) {
                value = edits.values[slot.index]
            } else if let chunk {
                value =
                    (try? PackedRow(chunk: chunk, offset: Int(offset))
                        .valueWithoutLoading(
                            of: slot, in: object.resolvedEntity, store: object.rowIdentity))
                    ?? .null
            }
            if value.isSame(as: object.valueWithoutLoading(at: slot.index)) { continue }
            if let index = slot.relationshipIndex {
                var target: ManagedObject?
                if case .objectID(let id) = value, isThere(id) {
                    target = context.object(bits: id.bits)
                }
                context.setToOne(
                    of: object, object.resolvedEntity.relationships[index], slot: slot.index,
                    to: target)
            } else {
                object.write(value, at: slot.index)
            }
        }
    }

    private func setLink(_ link: Link, of object: ManagedObject) {
        guard object.state.contains(.live), keeps(link.slot, of: object.objectID) else { return }
        if let inverse = context.layout.inverse(of: link.relationship)?.slot {
            for id in [link.old, link.new] {
                if let id, let conflict = conflicts[id], conflict.current != nil,
                    conflict.change == .update, !keeps(inverse, of: id)
                {
                    return
                }
            }
        }
        // A link removed only by the other object's deletion is restored with that object.
        if link.new == nil, let old = link.old, restored.contains(old) { return }
        var target: ManagedObject?
        if let id = link.new, isThere(id) { target = context.object(bits: id.bits) }
        context.setToOne(of: object, link.relationship, slot: link.slot, to: target)
    }

    private func setMembers(_ intent: ToManyIntent, of object: ManagedObject) {
        let inverse = context.layout.inverse(of: intent.relationship)
        guard object.state.contains(.live), inverse?.slot == nil, keepsPairs(object.objectID) else {
            return
        }
        for id in intent.removed where keepsPairs(id) || inverse == nil {
            if restored.contains(id) { continue }
            let other = context.object(bits: id.bits)
            if object.members(of: intent.relationship).contains(id) {
                context.removeFromMany(of: object, intent.relationship, other)
            }
        }
        for id in intent.added where (keepsPairs(id) || inverse == nil) && isThere(id) {
            context.addToMany(of: object, intent.relationship, context.object(bits: id.bits))
        }
    }

    private func keepsPairs(_ id: ManagedObjectID) -> Bool {
        guard let conflict = conflicts[id], conflict.change == .update else { return true }
        return conflict.resolution.outcome != .discard
    }

    private func setOrder(_ intent: ToManyIntent, of object: ManagedObject) {
        guard object.state.contains(.live), let order = intent.order else { return }
        if let conflict = conflicts[object.objectID], conflict.current != nil,
            conflict.resolution.outcome != .keep
                || !conflict.resolution.properties.contains(intent.relationship.name)
        {
            return
        }
        let members = object.members(of: intent.relationship)
        context.reorder(object, intent.relationship, members.arranged(like: order))
    }

    // MARK: - Deleting

    private mutating func delete() {
        let wanted = intents.filter { $0.kind == .deletion }.map(\.object)
        let ids = Set(wanted.map(\.objectID))
        for object in wanted where !restored.contains(object.objectID) { delete(object) }
        for conflict in conflicts.values.sorted(by: { $0.objectID.bits < $1.objectID.bits })
        where conflict.resolution.outcome == .delete && !ids.contains(conflict.objectID) {
            delete(context.object(bits: conflict.objectID.bits))
        }
    }

    private func delete(_ object: ManagedObject) {
        guard object.state.contains(.live) else { return }
        object.realize()
        if object.isInaccessible {
            // Others have deleted it too.
            context.discard(object)
        } else {
            context.deleteByRules(object)
        }
    }

    // MARK: - Notifications

    private func changes() -> EventChanges {
        var changes = EventChanges()
        var seen: Set<ManagedObjectID> = []
        let deleted = Set(intents.filter { $0.kind == .deletion }.map(\.object.objectID))
        let ids = intents.map(\.object.objectID) + conflicts.keys.sorted { $0.bits < $1.bits }
        let objects = ids.map { context.object(bits: $0.bits) } + Array(context.tracked)
        for object in objects where seen.insert(object.objectID).inserted {
            switch (!deleted.contains(object.objectID), object.state.contains(.live)) {
            case (true, true): changes.refreshed.append(object)
            case (true, false): changes.deleted.append(object)
            case (false, true): changes.inserted.append(object)
            case (false, false): break
            }
        }
        return changes
    }
}

extension ManagedObjectContext {
    /// Rebases the context's changes onto the source's present state; see ``Rebase``.
    func rebase(_ conflicts: [MergeConflict]) {
        undoManager?.disableUndoRegistration()
        var rebase = Rebase(context: self, conflicts: conflicts)
        let changes = rebase.run()
        dropReferencesToDeletedUnsaved()
        awakeObjects(conflicts)
        undoManager?.enableUndoRegistration()
        undoManager?.removeAllActions()
        _ = takeEventChanges()
        didEndEvent(changes)
        changeHandler?()
    }

    // MARK: - Attributes only

    /// Whether only attribute values are in conflict: then no other objects are affected.
    func canMergeInPlace(_ conflict: MergeConflict) -> Bool {
        let object = object(with: conflict.objectID)
        guard conflict.change == .update, conflict.resolution.outcome != .delete,
            let row = conflict.current,
            row.entity === object.resolvedEntity,
            object.state.isSuperset(of: [.live, .persisted, .realized]),
            !object.isInaccessible, let edits = object.edits
        else { return false }
        if edits.toMany.contains(where: { $0.needsOrder }) { return false }
        if conflict.resolution.outcome == .discard && edits.toMany.contains(where: \.hasChanges) {
            return false
        }
        return object.resolvedEntity.slots.allSatisfy { slot in
            slot.storage != .reference || !slot.isStored
                || (try? row.value(at: slot.index)) == object.savedValue(at: slot.index)
                    && (!edits.changed.contains(slot.index)
                        || conflict.resolution.keeps(slot))
        }
    }

    /// Adopts the store's row and keeps changes as resolved.
    func mergeInPlace(_ conflict: MergeConflict) {
        let object = object(with: conflict.objectID)
        guard let row = conflict.current, let edits = object.edits else { return }
        object.announceMerge(conflict, onto: row)
        let (before, own, changed) = (edits.values, edits.own, edits.changed)
        let kept = object.resolvedEntity.slots.map { slot -> AttributeValue? in
            if let value = conflict.resolution.values[slot.name] { return value }
            guard slot.isStored, conflict.resolution.keeps(slot) else { return .none }
            return object.valueWithoutLoading(at: slot.index)
        }
        for slot in object.resolvedEntity.slots where slot.isStored {
            edits.own.remove(slot.index)
            edits.changed.remove(slot.index)
        }
        edits.committed = nil
        edits.child = 0
        object.state.remove(.savedHere)
        object.chunk = row.chunk
        object.rowOffset = UInt32(truncatingIfNeeded: row.offset)
        object.version = row.version
        for (slot, value) in kept.enumerated() {
            if let value, !value.isSame(as: object.valueWithoutLoading(at: slot)) {
                edits.write(value, at: slot, remembersCommitted: true)
            }
        }
        // Transient values never conflict.
        for slot in object.resolvedEntity.slots where !slot.isStored && own.contains(slot.index) {
            edits.values[slot.index] = before[slot.index]
            if changed.contains(slot.index) && conflict.resolution.outcome == .discard {
                edits.changed.remove(slot.index)
            }
        }
    }
}

extension OrderedSet<ManagedObjectID> {
    /// The same objects, ordered like `order`; each other object follows the one that precedes it here.
    func arranged(like order: some Sequence<ManagedObjectID>) -> OrderedSet<
        ManagedObjectID
    > {
        let wanted = OrderedSet(order).intersection(self)
        var followers: [ManagedObjectID?: [ManagedObjectID]] = [:]
        var previous: ManagedObjectID?
        for id in self {
            if wanted.contains(id) {
                previous = id
            } else {
                followers[previous, default: []].append(id)
            }
        }
        var result = OrderedSet(followers[nil] ?? [])
        for id in wanted {
            result.append(id)
            for follower in followers[id] ?? [] { result.append(follower) }
        }
        return result
    }
}
