internal import OrderedCollections

/// For accessors and methods of the life cycle that subclasses write themselves, and what is known of faults.
extension ManagedObject {
    /// The value of an attribute, or the identifier that a to-one relationship leads to.
    ///
    /// - Throws: As ``value(forKey:)``, which it is the same as: there is no accessor in between.
    public final func primitiveValue(forKey key: String) throws -> AttributeValue {
        try value(forKey: key)
    }

    /// Sets an attribute so that it is saved, but neither undone nor told to anyone: what undo and observers know is
    /// that nothing happened, and ``willSave()`` is not called again for it.
    ///
    /// Within ``awakeFromInsert()`` the value is thus one that the object began with. In an accessor of your own,
    /// call ``willChangeValue(forKey:)`` before it, and the change is as any other.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey` if the key names no attribute, or `invalidValue` if the
    ///   value is of the wrong type. A relationship is refused, because its other side would not know.
    public final func setPrimitiveValue(_ value: AttributeValue, forKey key: String) throws {
        guard case .attribute(let index) = try property(key) else {
            throw QuireError(
                .unknownKey,
                "“\(key)” of \(entity.name) is no single attribute and has no primitive value to set.",
                subject: .init(entity: entity.name, property: key))
        }
        let value = try entity.slots[index].coerce(value, in: entity)
        if state.contains(.discarded) { throw goneError(key) }
        let context = requireContext()
        context.willChange(self)
        editsForWriting()
            .write(value, at: index, remembersCommitted: state.contains(.persisted))
        context.trackSilently(self)
    }

    /// Call before an accessor reads a primitive value: reads the object if it is a fault. With `nil`, just that.
    public final func willAccessValue(forKey key: String?) {
        context?.checkQueue()
        realize()
    }

    /// Call after an accessor has read a primitive value. Does nothing; it is here for code that pairs the two.
    public final func didAccessValue(forKey key: String?) {}

    /// Call before an accessor sets a primitive value: what it was can be undone, and observers are told.
    ///
    /// Stops the program with a sentence if the key names no property.
    public final func willChangeValue(forKey key: String) {
        if state.contains(.discarded) { return }
        let context = requireContext()
        context.willChange(self)
        let property: EntityLayout.Property
        do { property = try self.property(key) } catch { preconditionFailure("\(error)") }
        switch property {
        case .attribute(let slot): willChange(slot, in: context)
        case .composite(let slots): for slot in slots { willChange(slot, in: context) }
        case .relationship, .fetched: break
        }
    }

    /// Call after an accessor has set a primitive value. Does nothing; it is here for code that pairs the two.
    public final func didChangeValue(forKey key: String) {}

    private final func willChange(_ slot: Int, in context: ManagedObjectContext) {
        if context.logsChanges {
            context.log(.value(self, slot: slot, value: heldValue(at: slot)))
        }
        announceChange(at: slot, to: nil)
        let edits = editsForWriting()
        if !state.contains(.inEvent) { edits.beginEvent() }
        context.track(self)
    }

    // MARK: Faults

    /// 0 if the object's values are there, else another number.
    public final var faultingState: UInt { isFault ? 1 : 0 }

    /// Whether what a relationship leads to has not been read: for a to-many one, which objects it leads to; for
    /// a to-one, the object it leads to. Reads nothing.
    ///
    /// Stops the program with a sentence if the key names no relationship.
    public final func hasFault(forRelationshipNamed key: String) -> Bool {
        let relationship = anyRelationship(key)
        if let index = relationship.toManyIndex {
            return state.contains(.persisted) && toManyState(index).members == nil
        }
        if isFault && edits == nil { return true }
        guard let slot = relationship.slot, let id = objectID(at: slot) else { return false }
        return context?.registeredObject(for: id)?.isFault ?? true
    }

    /// The identifiers of what a relationship leads to, without making objects: at most one if it is to-one, else
    /// as ``objectIDs(_:)`` has them.
    ///
    /// Stops the program with a sentence if the key names no relationship.
    public final func objectIDs(forRelationshipNamed key: String) -> [ManagedObjectID] {
        let relationship = anyRelationship(key)
        guard let slot = relationship.slot else { return notedMembers(of: relationship).elements }
        return objectID(at: slot).map { [$0] } ?? []
    }

    private final func anyRelationship(_ key: String) -> EntityLayout.Relationship {
        guard let relationship = entity.relationship(named: key) else {
            preconditionFailure("\(entity.name) has no relationship “\(key)”.")
        }
        return relationship
    }
}
