internal import Observation

/// What Swift's Observation knows of a context and its objects: a registrar for each object that somebody
/// follows, kept here so that the others need no room for one. Used on the context's queue.
///
/// An object has an entry exactly while it has the state ``ManagedObject/State/observed``.
final class ContextObservation {
    private final class Entry {
        let registrar = ObservationRegistrar()
        /// The properties that were ever followed, by ``ObservedProperty/number``.
        var properties = SlotMask()
    }

    private var entries: [ObjectIdentifier: Entry] = [:]
    private var keyPaths: ContiguousArray<KeyPath<ManagedObject, Void>> = []
    private let contextRegistrar = ObservationRegistrar()
    private let probe = TrackingProbe()
    /// Whether what is read is read for a fetch: which objects that finds cannot be followed, so nor can what it looks at.
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

    /// Notes that a property is read, if anybody records that.
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

    /// Notes that the context's changed objects are asked for, if anybody records that.
    func accessChanges(of context: ManagedObjectContext) {
        guard !isSuspended, probe.isTracking() else { return }
        contextRegistrar.access(context, keyPath: \ManagedObjectContext[observedChanges: 0])
    }

    // MARK: Changes

    /// Whether anybody ever followed a property of an object.
    func isObserved(_ object: ManagedObject, _ property: ObservedProperty) -> Bool {
        entries[ObjectIdentifier(object)]?.properties.contains(property.number) ?? false
    }

    /// Tells those who follow a property that it is about to change.
    func announce(_ object: ManagedObject, _ property: ObservedProperty) {
        guard let entry = entries[ObjectIdentifier(object)],
            entry.properties.contains(property.number)
        else { return }
        announce(object, property, entry)
    }

    /// Tells those who follow any property of an object that it is about to change.
    func announceAll(_ object: ManagedObject) {
        guard let entry = entries[ObjectIdentifier(object)] else { return }
        announce(object, .state)
        for slot in object.entity.slots.indices { announce(object, .slot(slot), in: entry) }
        for index in object.entity.toManyRelationships.indices {
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

    /// Tells those who follow the context's changed objects that a user event or a save is over.
    func contextDidChange(_ context: ManagedObjectContext) {
        probe.release()
        let keyPath = \ManagedObjectContext[observedChanges: 0]
        contextRegistrar.willSet(context, keyPath: keyPath)
        contextRegistrar.didSet(context, keyPath: keyPath)
    }

    /// Forgets an object that is being freed or leaves the context.
    func forget(_ object: ManagedObject) {
        // Freed after it is out of the table, because that may free objects, whose end comes back here.
        let entry = entries.removeValue(forKey: ObjectIdentifier(object))
        entries.giveBackMemory()
        withExtendedLifetime(entry) {}
    }

    /// The number of objects that have a registrar, for tests.
    var observedObjectCount: Int { entries.count }
    /// How many there is room for, for tests.
    var capacity: Int { entries.capacity }
}
