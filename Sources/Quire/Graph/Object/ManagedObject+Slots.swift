public import Foundation
internal import QuireStore

/// Access by slot: the position that ``ResolvedEntity/slot(named:)`` returns for a key. For code that reads many objects: no
/// lookup by name, no allocation except for the text or data returned.
extension ManagedObject {
    /// The value of a slot.
    ///
    /// - Throws: Errors of reading the store or the value's file.
    public final func readValue(at slot: Int) throws -> AttributeValue {
        let value = try readNotedValue(at: slot)
        if case .external(let data) = value { return .binary(try load(data, at: slot)) }
        return value
    }

    /// The value of a slot, without reading the file that it may be in.
    final func readNotedValue(at slot: Int) throws -> AttributeValue {
        noteAccess(.slot(slot))
        return try presentValue(at: slot)
    }

    /// ``readNotedValue(at:)`` without registering an access; for the graph's own reads.
    final func readHeldValue(at slot: Int) throws -> AttributeValue {
        if state.contains(.derives), resolvedEntity.derivedSlots.contains(slot) {
            context?.withoutNoting { updateDerivedValue(at: slot) }
        }
        return try presentValue(at: slot)
    }

    /// The edits, with the values that `awakeFromFetch()` sets: a fault is fired before.
    @inline(__always)
    private final var editsToRead: ObjectEdits? {
        if state.intersection([.hasHooks, .realized]) == .hasHooks { realize() }
        return edits
    }

    private final func presentValue(at slot: Int) throws -> AttributeValue {
        if let edits = editsToRead, edits.own.contains(slot) { return edits.values[slot] }
        if resolvedEntity.storages[slot] == .reference {
            return reference(at: slot).map { .objectID($0) } ?? .null
        }
        realize()
        guard let chunk else { return .null }
        return try PackedRow(chunk: chunk, offset: Int(rowOffset))
            .valueWithoutLoading(
                of: resolvedEntity.slots[slot], in: resolvedEntity, store: rowIdentity)
    }

    /// The value of a slot, without reading the file that it may be in, nor being noted for Observation; missing if it cannot
    /// be read, as in ``value(at:)``.
    final func valueWithoutLoading(at slot: Int) -> AttributeValue {
        do {
            return try readHeldValue(at: slot)
        } catch {
            context?.reportFault(error)
            return .null
        }
    }

    /// The value of a slot; missing if it cannot be read, which the context's
    /// ``ManagedObjectContext/lastFaultError`` then explains.
    public final func value(at slot: Int) -> AttributeValue {
        do {
            return try readValue(at: slot)
        } catch {
            context?.reportFault(error)
            return .null
        }
    }

    /// The row to decode a slot from, or `nil` if the slot has no value there. Traps if the slot has another storage form,
    /// because decoding would misinterpret bytes. A transient attribute has no value in any row.
    @inline(__always)
    private final func row(for slot: Int, _ storage: ResolvedEntity.Slot.Storage) -> PackedRow? {
        guard resolvedEntity.storages[slot] == storage else {
            precondition(
                resolvedEntity.storages[slot] == .transient,
                "The value in slot \(slot) of \(resolvedEntity.name) does not have the requested type."
            )
            return nil
        }
        realize()
        guard let chunk else { return nil }
        let row = PackedRow(chunk: chunk, offset: Int(rowOffset))
        return row.hasValue(slot) ? row : nil
    }

    /// The text in a slot.
    public final func string(at slot: Int) -> String? {
        noteAccess(.slot(slot))
        if let edits = editsToRead, edits.own.contains(slot) {
            if case .string(let string) = edits.values[slot] { return string }
            return nil
        }
        return row(for: slot, .string)?.string(slot, slotCount: resolvedEntity.storages.count)
    }

    /// The integer in a slot.
    public final func integer(at slot: Int) -> Int64? {
        noteAccess(.slot(slot))
        if let edits = editsToRead, edits.own.contains(slot) {
            if case .integer(let integer) = edits.values[slot] { return integer }
            return nil
        }
        return row(for: slot, .integer)?.integer(slot, slotCount: resolvedEntity.storages.count)
    }

    /// The floating-point number in a slot.
    public final func double(at slot: Int) -> Double? {
        noteAccess(.slot(slot))
        if let edits = editsToRead, edits.own.contains(slot) {
            if case .double(let double) = edits.values[slot] { return double }
            return nil
        }
        return row(for: slot, .double)?.double(slot, slotCount: resolvedEntity.storages.count)
    }

    /// The Boolean in a slot.
    public final func boolean(at slot: Int) -> Bool? {
        noteAccess(.slot(slot))
        if let edits = editsToRead, edits.own.contains(slot) {
            if case .boolean(let boolean) = edits.values[slot] { return boolean }
            return nil
        }
        return row(for: slot, .boolean).map {
            $0.integer(slot, slotCount: resolvedEntity.storages.count) != 0
        }
    }

    /// The date in a slot.
    public final func date(at slot: Int) -> Date? {
        noteAccess(.slot(slot))
        if let edits = editsToRead, edits.own.contains(slot) {
            if case .date(let date) = edits.values[slot] { return date }
            return nil
        }
        return row(for: slot, .date).map {
            Date(
                timeIntervalSinceReferenceDate: $0.double(
                    slot, slotCount: resolvedEntity.storages.count))
        }
    }

    /// The UUID in a slot.
    public final func uuid(at slot: Int) -> UUID? {
        noteAccess(.slot(slot))
        if let edits = editsToRead, edits.own.contains(slot) {
            if case .uuid(let uuid) = edits.values[slot] { return uuid }
            return nil
        }
        return row(for: slot, .uuid).map {
            UUID(
                uuid: $0.bytes(slot, slotCount: resolvedEntity.storages.count)
                    .loadUnaligned(as: uuid_t.self))
        }
    }

    /// The identifier of the destination of a to-one relationship's slot.
    public final func objectID(at slot: Int) -> ManagedObjectID? {
        noteAccess(.slot(slot))
        return reference(at: slot)
    }

    /// ``objectID(at:)`` without registering an access; for the graph's own reads.
    final func reference(at slot: Int) -> ManagedObjectID? {
        if let edits, edits.own.contains(slot) {
            if case .objectID(let id) = edits.values[slot] { return id }
            return nil
        }
        return row(for: slot, .reference).map {
            let bits = UInt64(
                bitPattern: $0.integer(slot, slotCount: resolvedEntity.storages.count))
            return context?.objectID(bits: bits)
                ?? ManagedObjectID(bits: bits, store: objectID.store)
        }
    }

    /// Sets the attribute in a slot.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the value is not of the attribute's type, or `notFound` if the
    ///   object's deletion is saved.
    public final func setValue(_ value: AttributeValue, at slot: Int) throws {
        let value = try resolvedEntity.slots[slot].coerce(value, in: resolvedEntity)
        if hasLeftContext { throw goneError(resolvedEntity.slots[slot].name) }
        let context = requireContext()
        try context.requireChangeable(self)
        write(value, at: slot, in: context)
    }

    /// As ``setValue(_:at:)``, for accessors that cannot throw: a number or date that the attribute cannot hold is bad data, which
    /// validation refuses, and NaN is a missing value.
    final func assign(_ value: AttributeValue, at slot: Int) throws {
        do {
            try setValue(value, at: slot)
        } catch let error as QuireError where error.code == .invalidValue {
            guard let kept = resolvedEntity.slots[slot].attribute?.valueUntilValidation(value)
            else { throw error }
            if kept.isNull { return try setValue(kept, at: slot) }
            if hasLeftContext { throw goneError(resolvedEntity.slots[slot].name) }
            let context = requireContext()
            context.mayHoldInvalidValues = true
            try context.requireChangeable(self)
            write(kept, at: slot, in: context)
        }
    }

    /// Changes a slot and logs it for undo, without regard to inverses.
    final func write(_ value: AttributeValue, at slot: Int) {
        write(value, at: slot, in: requireContext())
    }

    @inline(__always)
    private final func write(
        _ value: AttributeValue, at slot: Int, in context: ManagedObjectContext
    ) {
        announceChange(at: slot, to: value)
        if context.logsChanges {
            context.log(.value(self, slot: slot, value: valueWithoutLoading(at: slot)))
        }
        let edits = editsForWriting()
        if !state.contains(.inEvent) { edits.beginEvent() }
        edits.write(value, at: slot, remembersCommitted: state.contains(.persisted))
        context.track(self)
    }

    final func editsForWriting() -> ObjectEdits {
        if let edits { return edits }
        let new = ObjectEdits(slotCount: resolvedEntity.storages.count)
        edits = new
        return new
    }

    /// The context, for an operation that can do without one if the object has left it.
    final var contextUnlessDiscarded: ManagedObjectContext? {
        context == nil && hasLeftContext ? nil : requireContext()
    }

    /// The error of changing an object that was deleted, or has left its context.
    final func goneError(_ property: String) -> QuireError {
        let isDeleted = context != nil || state.contains(.discarded)
        return QuireError(
            .notFound,
            "\(objectID.shortDescription) was \(isDeleted ? "deleted" : "discarded by a rollback or reset"); "
                + "“\(property)” cannot be changed.",
            entity: resolvedEntity.name, property: property, object: objectID.uriRepresentation)
    }

    /// The context, for an operation that needs one.
    @inline(__always)
    final func requireContext() -> ManagedObjectContext {
        guard let context else {
            preconditionFailure(
                "\(self) no longer belongs to a context: the context was reset or released. Keep a reference to it."
            )
        }
        return context
    }
}
