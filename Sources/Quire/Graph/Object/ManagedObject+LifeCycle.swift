/// What put other values under an object than it had, when ``ManagedObject/awake(fromSnapshotEvents:)`` is
/// called.
public struct SnapshotEvents: OptionSet, Sendable, Hashable {
    /// Core Data's bits.
    public let rawValue: UInt

    /// Makes a set of its bits.
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// The object's insertion was undone.
    public static let undoInsertion = SnapshotEvents(rawValue: 1 << 1)
    /// The object's deletion was undone, or its insertion done again.
    public static let undoDeletion = SnapshotEvents(rawValue: 1 << 2)
    /// A change of its values or relationships was undone or done again.
    public static let undoUpdate = SnapshotEvents(rawValue: 1 << 3)
    /// The context was rolled back.
    public static let rollback = SnapshotEvents(rawValue: 1 << 4)
    /// The object was refreshed, or changed by a merge or a child's save.
    public static let refresh = SnapshotEvents(rawValue: 1 << 5)
    /// A merge policy decided between its values and the store's.
    public static let mergePolicy = SnapshotEvents(rawValue: 1 << 6)
}

/// Calling the methods of the life cycle. Only objects of subclasses are asked; the bit is tested by the
/// caller, next to others of the same word.
extension ManagedObject {
    /// Tells an object that its values have arrived.
    @inline(never)
    final func didArrive() {
        context?.withoutTrackingChanges(of: self) { awakeFromFetch() }
    }

    /// Tells an object that its values were replaced.
    final func didChange(by events: SnapshotEvents) {
        guard state.contains(.hasHooks), let context else { return }
        context.withoutTrackingChanges(of: self) { awake(fromSnapshotEvents: events) }
    }
}

extension ManagedObjectContext {
    /// Runs a method of the life cycle that may set values without changing anything: what it sets in the
    /// object, or in others that have no changes, counts as what they always had.
    func withoutTrackingChanges(of object: ManagedObject, _ method: () -> Void) {
        let changed = object.edits?.changed ?? SlotMask()
        let hasCommitted = object.edits?.committed != nil
        let marks = object.state.intersection([.tracked, .inEvent])
        object.state.formUnion([.tracked, .inEvent])
        beginAwakening()
        method()
        let awakened = endAwakening()
        object.state.subtract([.tracked, .inEvent])
        object.state.formUnion(marks)
        if let edits = object.edits {
            edits.changed = changed
            if !hasCommitted { edits.committed = nil }
        }
        for other in awakened {
            other.state.remove(.tracked)
            other.edits?.commit()
        }
    }

    /// Makes the changes of `willSave()` part of the save: calls it until nothing changes any more.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if that has no end.
    func callWillSave() throws {
        guard layout.hasSubclasses else { return }
        var pending = tracked.filter { $0.state.contains(.hasHooks) && $0.isUnsaved }
        if pending.isEmpty { return }
        var round = 0
        var hasChanged = false
        while let first = pending.first {
            round += 1
            guard round <= Self.willSaveLimit else {
                throw QuireError(
                    .invalidState,
                    "willSave() of \(first.objectID.shortDescription) changes objects each of the "
                        + "\(Self.willSaveLimit) times it was called; it must set only what differs.",
                    subject: .init(
                        entity: first.entity.name, object: first.objectID.uriRepresentation))
            }
            for object in pending where object.isUnsaved { object.willSave() }
            pending = endSavingRound(&hasChanged)
                .filter { $0.state.contains(.hasHooks) && $0.isUnsaved }
        }
        undoManager?.closeEventGroup()
        if hasChanged { changeHandler?() }
    }

    private static var willSaveLimit: Int { 1000 }

    /// The objects to which `didSave()` is due after the save.
    func objectsToTellOfSave() -> [ManagedObject] {
        guard layout.hasSubclasses else { return [] }
        return tracked.filter { $0.state.contains(.hasHooks) && $0.isUnsaved }
    }

    /// Calls `prepareForDeletion()` of an object and of all that its deletion would take along, while every
    /// relationship still leads where it did.
    func prepareForDeletion(of object: ManagedObject) {
        let isOutermost = preparedForDeletion.isEmpty
        defer { if isOutermost { preparedForDeletion.removeAll() } }
        var pending = [object]
        while let next = pending.popLast() {
            guard next.state.contains(.live),
                preparedForDeletion.insert(ObjectIdentifier(next)).inserted
            else { continue }
            if next.state.contains(.hasHooks) {
                willChange(next)
                next.prepareForDeletion()
                guard next.state.contains(.live) else { continue }
            }
            for relationship in next.entity.relationships
            where relationship.description.deleteRule == .cascade {
                pending += relatedIDs(of: next, relationship).map { self.object(with: $0) }
            }
        }
    }
}
