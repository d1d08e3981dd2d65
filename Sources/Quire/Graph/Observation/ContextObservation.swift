public import Observation
internal import OrderedCollections
internal import QuireStore

/// Swift Observation's state for a context and its objects: one registrar for each observed object, kept here so that
/// unobserved ones need no room for it. Used on the context's queue.
///
/// An object has an entry exactly while it has the state ``ManagedObject/State/observed``.
final class ContextObservation {
    private final class Entry {
        let registrar = ObservationRegistrar()
        /// The properties ever observed, by ``ObservedProperty/number``.
        var properties = SlotMask()
    }

    private var entries: [ObjectIdentifier: Entry] = [:]
    private var keyPaths: ContiguousArray<KeyPath<ManagedObject, Void>> = []
    private let contextRegistrar = ObservationRegistrar()
    private let probe = TrackingProbe()
    /// Whether reads belong to a fetch: the results of a fetch cannot be observed, so neither are the values it reads.
    var isSuspended = false

    /// The key path of a property, the same for every object.
    private func keyPath(of property: ObservedProperty) -> KeyPath<ManagedObject, Void> {
        while keyPaths.count <= property.number {
            let number = keyPaths.count
            keyPaths.append(\ManagedObject[observed: number])
        }
        return keyPaths[property.number]
    }

    // MARK: Accesses

    /// Registers an access to a property, if accesses are being recorded.
    func access(_ object: ManagedObject, _ property: ObservedProperty) {
        guard !isSuspended, probe.isTracking() else { return }
        let key = ObjectIdentifier(object)
        let entry: Entry
        if let existing = entries[key] {
            entry = existing
        } else {
            entry = Entry()
            entries[key] = entry
            object.state.insert(.observed)
        }
        entry.properties.insert(property.number)
        entry.registrar.access(object, keyPath: keyPath(of: property))
    }

    /// Registers an access to the context's changed objects, if accesses are being recorded.
    func accessChanges(of context: ManagedObjectContext) {
        guard !isSuspended, probe.isTracking() else { return }
        contextRegistrar.access(context, keyPath: \ManagedObjectContext[observedChanges: 0])
    }

    // MARK: Changes

    /// The objects of which any property was ever observed.
    var objects: [ManagedObject] {
        entries.keys.compactMap { key in
            UnsafeRawPointer(bitPattern: UInt(bitPattern: key)).flatMap {
                Unmanaged<ManagedObject>.fromOpaque($0).takeUnlessEnding()
            }
        }
    }

    /// Whether a property of an object was ever observed.
    func isObserved(_ object: ManagedObject, _ property: ObservedProperty) -> Bool {
        entries[ObjectIdentifier(object)]?.properties.contains(property.number) ?? false
    }

    /// Notifies observers of a property before it changes.
    func announce(_ object: ManagedObject, _ property: ObservedProperty) {
        guard let entry = entries[ObjectIdentifier(object)],
            entry.properties.contains(property.number)
        else { return }
        announce(object, property, entry)
    }

    /// Notifies observers of any property of an object before it changes.
    func announceAll(_ object: ManagedObject) {
        guard let entry = entries[ObjectIdentifier(object)] else { return }
        announce(object, .state)
        for slot in object.resolvedEntity.slots.indices { announce(object, .slot(slot), in: entry) }
        for index in object.resolvedEntity.toManyRelationships.indices {
            announce(object, .toMany(index), in: entry)
        }
    }

    private func announce(
        _ object: ManagedObject, _ property: ObservedProperty, in entry: Entry
    ) {
        if entry.properties.contains(property.number) { announce(object, property, entry) }
    }

    private func announce(
        _ object: ManagedObject, _ property: ObservedProperty, _ entry: Entry
    ) {
        let keyPath = keyPath(of: property)
        entry.registrar.willSet(object, keyPath: keyPath)
        entry.registrar.didSet(object, keyPath: keyPath)
    }

    /// Notifies observers of the context's changed objects after a user event or a save.
    func contextDidChange(_ context: ManagedObjectContext) {
        probe.release()
        let keyPath = \ManagedObjectContext[observedChanges: 0]
        contextRegistrar.willSet(context, keyPath: keyPath)
        contextRegistrar.didSet(context, keyPath: keyPath)
    }

    /// Removes an object that is being deallocated or leaves the context.
    func forget(_ object: ObjectIdentifier) {
        // Released after its removal from the table, because that may deallocate objects, which call this method again.
        let entry = entries.removeValue(forKey: object)
        entries.giveBackMemory()
        withExtendedLifetime(entry) {}
    }

    /// The capacity of the table, for tests.
    var capacity: Int { entries.capacity }
}

// MARK: - Objects

/// Swift's Observation: `withObservationTracking` and `Observations` follow the properties that their closure
/// reads; see ``ManagedObjectContext/isObservable``.
extension ManagedObject: Observable {
    /// The subscript that represents a property in key paths; see ``ObservedProperty``.
    subscript(observed number: Int) -> Void { () }

    /// Called before a public operation reads a property: checks the queue, if queues are checked, registers the access, if
    /// objects are observable, and updates a derived property.
    @inline(__always)
    final func noteAccess(_ property: @autoclosure () -> ObservedProperty) {
        if state.intersection([.unguarded, .observable, .derives]) != .unguarded {
            recordAccess(property())
        }
    }

    @inline(never)
    private final func recordAccess(_ property: ObservedProperty) {
        willRead()
        if state.contains(.observable) { context?.observation?.access(self, property) }
        if state.contains(.derives), let slot = property.slot,
            resolvedEntity.derivedSlots.contains(slot)
        {
            updateDerivedValue(at: slot)
        }
    }

    /// Notifies observers of a slot before it changes, to `value` if that is known. Called for every kind of change.
    @inline(__always)
    final func announceChange(at slot: Int, to value: AttributeValue?) {
        if state.contains(.observed) { announceObservedChange(at: slot, to: value) }
    }

    @inline(never)
    private final func announceObservedChange(at slot: Int, to value: AttributeValue?) {
        guard let observation = context?.observation else { return }
        if !isUnsaved { observation.announce(self, .state) }
        if observation.isObserved(self, .slot(slot)), valueWithoutLoading(at: slot) != value {
            observation.announce(self, .slot(slot))
        }
    }

    /// Notifies observers of a to-many relationship before it changes.
    @inline(__always)
    final func announceChange(toMany index: Int) {
        if state.contains(.observed) { announceObservedChange(toMany: index) }
    }

    @inline(never)
    private final func announceObservedChange(toMany index: Int) {
        guard let observation = context?.observation else { return }
        if !isUnsaved { observation.announce(self, .state) }
        observation.announce(self, .toMany(index))
    }

    /// Notifies observers of an object's inserted, updated or deleted state, before or after it changes.
    final func announceStateChange() {
        if state.contains(.observed) { context?.observation?.announce(self, .state) }
    }

    /// Notifies observers of any property that the object is inserted or deleted.
    final func announceLifeChange() {
        if state.contains(.observed) { context?.observation?.announceAll(self) }
    }

    /// Notifies observers of changed properties that these return to their saved values.
    final func announceRollback() {
        guard state.contains(.observed), let observation = context?.observation else { return }
        guard state.contains(.persisted) && state.contains(.live) else {
            return observation.announceAll(self)
        }
        observation.announce(self, .state)
        guard let edits else { return }
        for slot in edits.values.indices where edits.changed.contains(slot) {
            observation.announce(self, .slot(slot))
        }
        for (index, toMany) in edits.toMany.enumerated() where toMany.hasChanges {
            observation.announce(self, .toMany(index))
        }
    }

    /// Notifies observers of the properties that change when the object adopts another row under its unsaved changes. `nil` if
    /// the row is unknown, because the object becomes a fault.
    final func announceRefresh(to row: ObjectSnapshot?) {
        guard state.contains(.observed), let observation = context?.observation else { return }
        guard let row else { return observation.announceAll(self) }
        // Observers of the values were notified when it became a fault.
        guard state.contains(.realized) else { return }
        for slot in resolvedEntity.slots
        where slot.isStored && edits?.changed.contains(slot.index) != true {
            guard observation.isObserved(self, .slot(slot.index)) else { continue }
            if (try? row.valueWithoutLoading(at: slot.index)) != valueWithoutLoading(at: slot.index)
            {
                observation.announce(self, .slot(slot.index))
            }
        }
    }

    /// Notifies observers of the attributes that a merge resolution changes.
    final func announceMerge(_ conflict: MergeConflict, onto row: ObjectSnapshot) {
        guard state.contains(.observed) else { return }
        announceStateChange()
        for slot in resolvedEntity.slots where slot.isStored {
            if let value = conflict.resolution.values[slot.name] {
                announceChange(at: slot.index, to: value)
            } else if !conflict.resolution.keeps(slot) {
                announceChange(at: slot.index, to: try? row.valueWithoutLoading(at: slot.index))
            }
        }
    }

    /// Runs a closure that may change the contents of a to-many relationship, and notifies its observers if it has.
    final func announceRefresh(toMany index: Int, _ body: () -> Void) {
        guard state.contains(.observed), let observation = context?.observation,
            observation.isObserved(self, .toMany(index)), let old = toManyState(index).members
        else { return body() }
        body()
        let relationship = resolvedEntity.relationships[resolvedEntity.toManyRelationships[index]]
        let new = members(of: relationship)
        // In a relationship without order, only which objects there are counts.
        let isSame =
            relationship.isOrdered ? new == old : new.count == old.count && new.isSubset(of: old)
        if !isSame { observation.announce(self, .toMany(index)) }
    }
}

// MARK: - Properties

/// An observable property of an object, numbered so that a set of them is a ``SlotMask``.
struct ObservedProperty: Hashable {
    let number: Int

    private init(number: Int) { self.number = number }

    /// Whether the object is inserted, updated or deleted.
    static let state = ObservedProperty(number: 0)

    /// An attribute or a to-one relationship, by its slot.
    static func slot(_ slot: Int) -> ObservedProperty { .init(number: 1 + slot * 2) }

    /// A to-many relationship, by its position among them.
    static func toMany(_ index: Int) -> ObservedProperty { .init(number: 2 + index * 2) }

    /// The slot, if it is one.
    var slot: Int? { number & 1 == 1 ? number / 2 : nil }

    init(_ relationship: ResolvedEntity.Relationship) {
        if let slot = relationship.slot {
            self = .slot(slot)
        } else {
            self = .toMany(relationship.toManyIndex ?? 0)
        }
    }
}

// MARK: - Probes

/// Detects whether `withObservationTracking` is recording accesses on this thread.
///
/// The standard library has no API for it, but a registrar only uses a key path while accesses are recorded: it then inserts it
/// into a set, which computes its hash. So the probe has its registrar record an access by a key path that detects being
/// hashed. That costs 33 ns, where a registrar for each object read would cost 90 ns and its memory.
///
/// The probe's registrar would retain the recorded closure until it is called. Therefore the registrar is replaced as soon as
/// recording has ended.
final class TrackingProbe {
    private final class Subject: Observable {
        subscript(observed witness: Witness) -> Void { () }
    }

    /// A key path component that detects being hashed.
    private final class Witness: Hashable {
        var wasHashed = false

        static func == (left: Witness, right: Witness) -> Bool { left === right }

        func hash(into hasher: inout Hasher) {
            wasHashed = true
            hasher.combine(ObjectIdentifier(self))
        }
    }

    private let subject = Subject()
    private let witness = Witness()
    private let keyPath: KeyPath<Subject, Void>
    private var registrar = ObservationRegistrar()
    private var wasRecorded = false

    init() {
        keyPath = \Subject[observed: witness]
        witness.wasHashed = false
    }

    /// Whether accesses are being recorded.
    func isTracking() -> Bool {
        registrar.access(subject, keyPath: keyPath)
        if witness.wasHashed {
            witness.wasHashed = false
            wasRecorded = true
            return true
        }
        release()
        return false
    }

    /// Releases the recorded closure.
    func release() {
        guard wasRecorded else { return }
        wasRecorded = false
        // Freed last, because that may free objects, whose end may come back here.
        let old = registrar
        registrar = ObservationRegistrar()
        withExtendedLifetime(old) {}
    }
}
