internal import OrderedCollections

/// A step that takes back one primitive change of one object. Every primitive change logs its contrary, so
/// taking back a log, last step first, writes the log that does it again.
enum ChangeOperation {
    /// Set a slot to what it was.
    case value(ManagedObject, slot: Int, value: AttributeValue)
    /// Put an object back into a to-many relationship, at its position if that is known.
    case insertMember(ManagedObject, toMany: Int, id: ManagedObjectID, index: Int?)
    /// Take an object out of a to-many relationship.
    case removeMember(ManagedObject, toMany: Int, id: ManagedObjectID)
    /// Set the order of a to-many relationship to what it was.
    case order(ManagedObject, toMany: Int, OrderedSet<ManagedObjectID>)
    /// Bring an object to life or take it away.
    case life(ManagedObject, isLive: Bool)
}

/// The primitive changes. They log for undo and track the object, and do nothing about inverses: what calls
/// them does.
extension ManagedObjectContext {
    func insertMember(
        _ id: ManagedObjectID, into object: ManagedObject,
        _ relationship: EntityLayout.Relationship,
        at index: Int? = nil
    ) {
        guard let toMany = relationship.toManyIndex else { return }
        // A position means something only among loaded contents.
        if index != nil { _ = object.members(of: relationship) }
        let edits = object.editsForRelationships()
        object.announceChange(toMany: toMany)
        let position = index.map { min($0, edits.toMany[toMany].members?.count ?? $0) }
        guard edits.toMany[toMany].insert(id, at: position, ordered: relationship.isOrdered) else {
            return
        }
        if logsChanges { log(.removeMember(object, toMany: toMany, id: id)) }
        track(object)
    }

    func removeMember(
        _ id: ManagedObjectID, from object: ManagedObject, _ relationship: EntityLayout.Relationship
    ) {
        guard let toMany = relationship.toManyIndex else { return }
        let edits = object.editsForRelationships()
        object.announceChange(toMany: toMany)
        guard let (index, _) = edits.toMany[toMany].remove(id, ordered: relationship.isOrdered)
        else {
            return
        }
        if logsChanges {
            log(.insertMember(object, toMany: toMany, id: id, index: index))
        }
        track(object)
    }

    func reorder(
        _ object: ManagedObject, _ relationship: EntityLayout.Relationship,
        _ order: OrderedSet<ManagedObjectID>
    ) {
        guard let toMany = relationship.toManyIndex else { return }
        let present = object.members(of: relationship)
        guard present != order, present.count == order.count else { return }
        object.realize()  // The order is part of the row's version.
        object.announceChange(toMany: toMany)
        object.editsForRelationships().toMany[toMany].reorder(order)
        if logsChanges { log(.order(object, toMany: toMany, present)) }
        track(object)
    }

    func setLive(_ isLive: Bool, _ object: ManagedObject) {
        guard object.state.contains(.live) != isLive else { return }
        object.announceLifeChange()
        if isLive {
            object.state.insert(.live)
            if !object.state.contains(.persisted) { reinsert(object) }
        } else {
            object.state.remove(.live)
        }
        if logsChanges { log(.life(object, isLive: !isLive)) }
        track(object, wasLive: !isLive)
    }

    /// Makes an object whose deletion was saved, and now is undone, count as new with all it has.
    private func reinsert(_ object: ManagedObject) {
        guard let edits = object.edits else { return }
        for index in edits.toMany.indices {
            let members = edits.toMany[index].members ?? []
            edits.toMany[index] = ToManyState(members: members, added: members)
        }
    }

    /// Takes back a log.
    func restore(_ operations: [ChangeOperation]) {
        for operation in operations.reversed() { restore(operation) }
        processPendingChanges()
    }

    private func restore(_ operation: ChangeOperation) {
        switch operation {
        case .value(let object, let slot, let value):
            if case .objectID(let id) = value {
                object.write(.objectID(permanentID(for: id)), at: slot)
            } else {
                object.write(value, at: slot)
            }
            object.forgetChangeIfCommitted(at: slot)
        case .insertMember(let object, let toMany, let id, let index):
            insertMember(
                permanentID(for: id), into: object, relationship(object, toMany), at: index)
        case .removeMember(let object, let toMany, let id):
            removeMember(permanentID(for: id), from: object, relationship(object, toMany))
        case .order(let object, let toMany, let order):
            let order = OrderedSet(order.map(permanentID(for:)))
            reorder(object, relationship(object, toMany), order)
        case .life(let object, let isLive):
            setLive(isLive, object)
        }
    }

    private func relationship(
        _ object: ManagedObject, _ toMany: Int
    ) -> EntityLayout.Relationship {
        object.entity.relationships[object.entity.toManyRelationships[toMany]]
    }

    /// What an identifier in a log has become by saves since.
    private func permanentID(for id: ManagedObjectID) -> ManagedObjectID {
        id.isTemporary ? permanentIDs[id.bits] ?? id : id
    }
}

extension ManagedObject {
    /// Takes a slot off the changed ones if an undo brought back the saved value.
    final func forgetChangeIfCommitted(at slot: Int) {
        guard let edits, let committed = edits.committed, edits.changed.contains(slot) else {
            return
        }
        let saved: AttributeValue?
        if committed.own.contains(slot) {
            saved = committed.values[slot]
        } else if let chunk {
            saved = try? PackedRow(chunk: chunk, offset: Int(rowOffset))
                .value(of: entity.slots[slot], in: entity, store: rowIdentity)
        } else {
            saved = .null
        }
        if saved == edits.values[slot] { edits.changed.remove(slot) }
    }
}
