internal import QuireStore

/// Converts a draft to changes for a context: resolves names in the model, and references to identifiers.
struct DraftApplication {
    private let context: ManagedObjectContext
    /// The omissions so far, each only once.
    private(set) var omissions: [ObjectDraft.Omission] = []
    private var reported: Set<ObjectDraft.Omission> = []
    /// The identifiers of the new objects; `nil` if the entity no longer exists.
    private var newIDs: [ManagedObjectID?] = []
    /// The saved objects that there are.
    private var present: Set<ManagedObjectID> = []
    private var layout: ResolvedModel { context.layout }

    init(_ context: ManagedObjectContext) { self.context = context }

    // MARK: Objects

    /// Reads the saved objects that the draft changes, deletes or refers to. Returns them, to be retained.
    mutating func readObjects(of draft: ObjectDraft) throws -> [ManagedObject] {
        var ids: Set<ManagedObjectID> = []
        var versions: [ManagedObjectID: UInt32] = [:]
        func add(_ reference: ObjectDraft.Reference, version: UInt32 = 0) {
            guard let id = savedID(reference) else { return }
            ids.insert(id)
            if version > 0 && versions[id] == nil { versions[id] = version }
        }
        for layer in draft.layers {
            for change in layer.inserted + layer.updated {
                add(change.object, version: change.version)
                for property in change.values {
                    if case .object(let reference) = property.value { add(reference) }
                }
                for members in change.members { members.added.forEach { add($0) } }
            }
            for deletion in layer.deleted { add(deletion.object, version: deletion.version) }
        }
        let objects = ids.map { context.object(with: $0) }
        try context.realizeFaults(of: objects)
        for object in objects
        where object.state.isSuperset(of: [.live, .realized]) && !object.isInaccessible {
            present.insert(object.objectID)
            if let version = versions[object.objectID] { context.setBack(object, to: version) }
        }
        return objects
    }

    /// The identifier of a saved object, if there can be such an object.
    private func savedID(_ reference: ObjectDraft.Reference) -> ManagedObjectID? {
        guard case .saved(let name, let key, let uuid) = reference,
            let entity = layout.entity(named: name)
        else { return nil }
        let store = context.storeIdentity
        var place = store.numberBits
        if let uuid {
            guard let number = store.stores.number(of: uuid) else { return nil }
            place = UInt64(number) << ManagedObjectID.storeNumberShift
        }
        return ManagedObjectID(
            bits: UInt64(entity.number) << 48 | place | UInt64(key), store: store)
    }

    /// The identifier of an existing object.
    private func id(of reference: ObjectDraft.Reference) -> ManagedObjectID? {
        if case .new(let number) = reference {
            return newIDs.indices.contains(number) ? newIDs[number] : nil
        }
        guard let id = savedID(reference), present.contains(id) else { return nil }
        return id
    }

    // MARK: Changes

    mutating func changes(of layer: ObjectDraft.Layer) -> ChangeSet {
        var changes = ChangeSet()
        // All new objects have identifiers before references to them are resolved.
        for change in layer.inserted { newIDs.append(newID(change)) }
        if !layer.inserted.isEmpty { context.hasTemporaryIDs = true }
        for change in layer.inserted {
            guard let id = id(of: change.object) else { continue }
            changes.inserted.append(self.change(change, id, isNew: true))
        }
        for change in layer.updated {
            guard let id = id(of: change.object) else {
                omitObject(change.object, change.entity, "its changes were")
                continue
            }
            changes.updated.append(self.change(change, id, isNew: false))
        }
        for deletion in layer.deleted {
            // A missing object need not be deleted.
            guard let id = id(of: deletion.object) else { continue }
            changes.deleted.append(ObjectDeletion(objectID: id, version: nil))
        }
        return changes
    }

    private mutating func newID(_ change: ObjectDraft.Change) -> ManagedObjectID? {
        guard let entity = layout.entity(named: change.entity), !entity.isAbstract else {
            omit(
                change.entity, nil,
                "The entity “\(change.entity)” no longer exists or is abstract; its new objects were omitted."
            )
            return nil
        }
        return context.newTemporaryID(of: entity)
    }

    private mutating func change(
        _ change: ObjectDraft.Change, _ id: ManagedObjectID, isNew: Bool
    ) -> ObjectChange {
        let entity = layout.entity(number: id.entityNumber)
        var values =
            isNew
            ? entity.defaultValues
            : ContiguousArray(repeating: .null, count: entity.storages.count)
        var changed = isNew ? SlotMask(first: values.count) : SlotMask()
        for property in change.values {
            guard let slot = entity.slot(named: property.name), entity.slots[slot].isStored else {
                omit(
                    change.entity, property.name,
                    "“\(change.entity)” no longer has a single value “\(property.name)”; its values were omitted."
                )
                continue
            }
            guard let value = value(property, of: change, entity.slots[slot], entity) else {
                continue
            }
            values[slot] = value
            changed.insert(slot)
        }
        return ObjectChange(
            objectID: id, entity: entity, version: 0, values: values, changedSlots: changed,
            toManyChanges: change.members.compactMap { members($0, of: change, entity) })
    }

    /// The value for a slot; `nil` if it cannot have it.
    private mutating func value(
        _ property: ObjectDraft.Property, of change: ObjectDraft.Change,
        _ slot: ResolvedEntity.Slot,
        _ entity: ResolvedEntity
    ) -> AttributeValue? {
        switch (property.value, slot.relationshipIndex) {
        case (.attribute(.null), _): return .null
        case (.attribute(let value), nil):
            do {
                // A migration makes integers of truth values.
                if case .boolean(let truth) = value, slot.storage == .integer {
                    return .integer(truth ? 1 : 0)
                }
                return try slot.coerce(value, in: entity)
            } catch {
                omit(
                    change.entity, property.name,
                    "“\(property.name)” of \(change.entity) can no longer have the values in the draft; they were omitted."
                )
                return nil
            }
        case (.object(let reference), let index?):
            let relationship = entity.relationships[index]
            return target(reference, relationship, entity).map(AttributeValue.objectID) ?? .null
        default:
            omit(
                change.entity, property.name,
                "“\(property.name)” of \(change.entity) is now of another kind; its values were omitted."
            )
            return nil
        }
    }

    private mutating func members(
        _ members: ObjectDraft.Members, of change: ObjectDraft.Change, _ entity: ResolvedEntity
    ) -> ToManyChange? {
        guard let relationship = entity.relationship(named: members.name), relationship.isToMany
        else {
            omit(
                change.entity, members.name,
                "“\(change.entity)” no longer has a to-many relationship “\(members.name)”; its changes were omitted."
            )
            return nil
        }
        return ToManyChange(
            relationshipIndex: relationship.index,
            added: members.added.compactMap { target($0, relationship, entity) },
            // A deleted object is in no relationship.
            removed: members.removed.compactMap(anyID),
            order: relationship.isOrdered ? members.order.map { $0.compactMap(anyID) } : nil)
    }

    /// The identifier of a relationship's destination.
    private mutating func target(
        _ reference: ObjectDraft.Reference, _ relationship: ResolvedEntity.Relationship,
        _ entity: ResolvedEntity
    ) -> ManagedObjectID? {
        guard let id = id(of: reference) else {
            omitObject(reference, entity.name, "references to it were")
            return nil
        }
        guard layout.destination(of: relationship).subtree.contains(id.entityNumber) else {
            omit(
                entity.name, relationship.name,
                "“\(relationship.name)” of \(entity.name) now has another destination entity; the old reference was omitted."
            )
            return nil
        }
        return id
    }

    /// The identifier of an object, existing or not.
    private func anyID(_ reference: ObjectDraft.Reference) -> ManagedObjectID? {
        id(of: reference) ?? savedID(reference)
    }

    // MARK: Omissions

    private mutating func omitObject(
        _ reference: ObjectDraft.Reference, _ entity: String, _ what: String
    ) {
        // A missing new object is reported with its entity.
        guard case .saved(let name, let key, _) = reference else { return }
        let object = "\(name)/p\(key)"
        omit(name, nil, object: object, "\(object) no longer exists; \(what) omitted.")
    }

    private mutating func omit(
        _ entity: String, _ property: String?, object: String? = nil, _ message: String
    ) {
        let omission = ObjectDraft.Omission(
            entity: entity, property: property, object: object, message: message)
        if reported.insert(omission).inserted { omissions.append(omission) }
    }
}

// MARK: - Drafts of a context

extension ManagedObjectContext {
    /// The unsaved changes as a draft. It is not validated, and nothing changes.
    ///
    /// For a context with a parent: the changes that a save would pass to it, without the parent's own unsaved ones.
    ///
    /// - Complexity: O(*n*) in changed objects.
    public func makeDraft() -> ObjectDraft { ObjectDraft([unsavedChanges()]) }

    /// The unsaved changes as values, from which a draft can be made on any queue.
    ///
    /// - Complexity: O(*n*) in changed objects; no value is copied.
    package func unsavedChanges() -> ChangeSet {
        processPendingChanges()
        return collectChanges(insertedCount: 0, includesBases: false)
    }

    /// Applies the changes of a draft, which are unsaved then.
    ///
    /// They are applied unchanged, valid or not: saving them has the effect of saving when the draft was made. They are added
    /// to the context's present changes, as one undo step; for objects of custom classes, ``ManagedObject/awakeFromFetch()`` is
    /// called.
    ///
    /// If an object has been saved elsewhere meanwhile, the draft's changes are applied all the same, and a save detects the
    /// conflict. Changes whose entity, property or object no longer exists are omitted.
    ///
    /// - Returns: The omissions.
    /// - Complexity: O(*n*) in the changes; the affected saved objects are read together.
    /// - Throws: Read errors of the store; then nothing has changed.
    @discardableResult
    public func apply(_ draft: ObjectDraft) throws -> [ObjectDraft.Omission] {
        processPendingChanges()
        checkMayChangeGraph()
        var application = DraftApplication(self)
        let held = try application.readObjects(of: draft)
        defer { withExtendedLifetime(held) {} }
        for layer in draft.layers { takeOver(application.changes(of: layer)) }
        processPendingChanges()
        return application.omissions
    }

    /// Sets the object's base version back so that the optimistic-lock check detects later saves.
    func setBack(_ object: ManagedObject, to version: UInt32) {
        guard version > 0, object.version != version, let chunk = object.chunk else { return }
        var builder = RowSetBuilder(
            layout: layout, store: storeIdentity, externalData: chunk.externalData, expectedRows: 1)
        builder.copyRow(
            PackedRow(chunk: chunk, offset: Int(object.rowOffset)), of: object.resolvedEntity,
            storeBits: object.objectID.bits & ManagedObjectID.storeNumberMask, version: version)
        guard let row = builder.finish().first else { return }
        object.chunk = row.chunk
        object.rowOffset = UInt32(truncatingIfNeeded: row.offset)
        object.version = version
    }
}

extension ObjectDraft {
    /// A change of a draft that could not be applied.
    public struct Omission: Sendable, Hashable {
        /// The entity named in the draft.
        public var entity: String
        /// The property, if any.
        public var property: String?
        /// The saved object, if any: `Entity/p12`.
        public var object: String?
        /// One sentence with the omission and its reason.
        public var message: String
    }
}
