internal import Synchronization

/// The entities of which a context may have unsaved objects that derived values depend on. Children read it on their own
/// queues.
///
/// It may contain too many: undoing changes one by one does not remove entities.
final class DirtyDerivationSources: Sendable {
    private let numbers = Lock<Set<Int>>([])
    private let isEmptyFlag = Atomic(true)
    /// The parent context's entities, if there is a parent.
    private let parent: DirtyDerivationSources?
    /// The entities that derived attributes depend on.
    private let sources: Set<Int>

    init(of sources: Set<Int>, parent: DirtyDerivationSources?) {
        self.sources = sources
        self.parent = parent
    }

    /// Records a change of an object of an entity.
    func note(_ entityNumber: Int) {
        guard sources.contains(entityNumber) else { return }
        numbers.withLock { _ = $0.insert(entityNumber) }
        isEmptyFlag.store(false, ordering: .releasing)
    }

    /// Removes all entities, when there are no unsaved changes.
    func clear() {
        numbers.withLock { $0 = [] }
        isEmptyFlag.store(true, ordering: .releasing)
    }

    /// Whether an object of an entity, or of a sub-entity, may be unsaved here.
    func containsOwn(_ entity: ResolvedEntity) -> Bool {
        if isEmptyFlag.load(ordering: .acquiring) { return false }
        return numbers.withLock { $0.contains(where: entity.subtree.contains) }
    }

    /// Whether one may be unsaved in a parent.
    func containsAbove(_ entity: ResolvedEntity) -> Bool {
        guard let parent else { return false }
        return parent.containsOwn(entity) || parent.containsAbove(entity)
    }
}

/// Collects the objects whose derived values must be read again after a save of the context or its parent has written them or
/// their dependencies.
final class StaleDerivedValues: SaveObserver {
    private let identifiers = Lock(Identifiers.only([]))
    private let isEmptyFlag = Atomic(true)
    /// The numbers of the entities with derived attributes.
    private let entities: Set<Int>

    /// The objects whose values must be read again.
    enum Identifiers {
        case only(Set<UInt64>)
        /// All objects of the entities: too many were saved to list them.
        case all

        func contains(_ bits: UInt64) -> Bool {
            if case .only(let some) = self { some.contains(bits) } else { true }
        }
    }

    /// The maximum number of listed objects.
    static let maximumCount = 1 << 14

    init(entities: Set<Int>) { self.entities = entities }

    var isEmpty: Bool { isEmptyFlag.load(ordering: .acquiring) }

    private func add(_ objectIDs: [ManagedObjectID]) {
        let isEmpty = identifiers.withLock { identifiers in
            guard case .only(var some) = identifiers else { return false }
            // So that the set is not copied.
            identifiers = .all
            for id in objectIDs where entities.contains(id.entityNumber) { some.insert(id.bits) }
            if some.count <= Self.maximumCount { identifiers = .only(some) }
            return some.isEmpty
        }
        if !isEmpty { isEmptyFlag.store(false, ordering: .releasing) }
    }

    func contains(_ objectID: ManagedObjectID) -> Bool {
        !isEmpty && entities.contains(objectID.entityNumber)
            && identifiers.withLock { $0.contains(objectID.bits) }
    }

    /// Returns the collected identifiers and clears them.
    func take() -> Identifiers {
        isEmptyFlag.store(true, ordering: .releasing)
        return identifiers.withLock { identifiers in
            defer { identifiers = .only([]) }
            return identifiers
        }
    }

    /// The context or its parent has saved.
    func sourceDidSave(
        _ changes: ObjectIDChanges?, isByRows: Bool = false, areKnown: Bool = false
    ) {
        guard let changes else {
            identifiers.withLock { $0 = .all }
            return isEmptyFlag.store(false, ordering: .releasing)
        }
        add(changes.inserted)
        add(changes.updated)
        add(changes.refreshed)
    }
}

/// A context's state for derived attributes.
///
/// The store derives values when it saves. Before that, reading a derived attribute takes the context's unsaved changes into
/// account: if these may affect the value, it is recomputed on each read from the objects as the context sees them; else the
/// stored value is returned. Neither makes the object dirty. After a save, the values of all affected objects are read again at
/// the next access to one of them.
struct DerivedValueTracker {
    let derivations: ModelDerivations
    /// Dirty entities here and in the parents.
    let unsaved: DirtyDerivationSources
    /// Objects whose values must be read again.
    let stale: StaleDerivedValues

    /// - Returns: `nil` if nothing in the model is derived.
    init?(layout: ResolvedModel, parent: QueueConfinedContext?) {
        if layout.derivations.isEmpty { return nil }
        derivations = layout.derivations
        stale = StaleDerivedValues(
            entities: Set(layout.entities.filter(\.hasDerivedSlots).map(\.number)))
        unsaved = DirtyDerivationSources(
            of: derivations.sources, parent: parent?.dirtyDerivationSources)
        parent?.saveObservers.add(stale)
    }
}

extension ManagedObjectContext {
    /// Records the objects whose derived values are stale after a save of this context. Returns the registered ones that were
    /// not saved.
    func noteDerivedValues(writtenFor saved: ObjectIDChanges) -> [ManagedObject] {
        guard let derived else { return [] }
        derived.stale.sourceDidSave(saved)
        var objects: [ManagedObject] = []
        for id in saved.refreshed {
            staleRows.note(id.bits)
            if let object = identityMap.find(id.bits), !object.isFault { objects.append(object) }
        }
        if observation != nil { readStaleDerivedValues() }
        return objects
    }

    /// Notifies observers of derived attributes that the user event may have changed their values. Whether it has is not
    /// computed: observers read them anyway.
    func announceDerivedValues(after changes: EventChanges) {
        guard let observation, derived != nil else { return }
        let changed = changes.inserted + changes.updated + changes.deleted
        let numbers = Set(changed.map(\.resolvedEntity.number))
        let objects = Set(changed)
        for object in observation.objects where object.state.contains(.derives) {
            for derivation in layout.derivations[object.resolvedEntity] {
                let destination = derivation.relationshipIndex.map {
                    layout.destination(of: object.resolvedEntity.relationships[$0])
                }
                if objects.contains(object)
                    || destination.map({ numbers.contains(where: $0.subtree.contains) }) == true
                {
                    observation.announce(object, .slot(derivation.slot))
                }
            }
        }
    }

    /// Reads the derived values of all objects again that a save has made out of date.
    func readStaleDerivedValues() {
        guard let stale = derived?.stale, !stale.isEmpty else { return }
        var objects: [ManagedObject] = []
        switch stale.take() {
        case .only(let some):
            for bits in some {
                staleRows.note(bits)
                if let object = identityMap.find(bits) { objects.append(object) }
            }
        case .all:
            staleRows.noteAll()
            identityMap.forEach { objects.append($0) }
        }
        objects = objects.filter { object in
            object.resolvedEntity.hasDerivedSlots
                && object.state.isSuperset(of: [.persisted, .realized])
                && !object.state.contains(.inaccessible)
        }
        if objects.isEmpty { return }
        do {
            let rows = try source.rows(for: objects.map(\.objectID))
            for row in rows {
                if let object = identityMap.find(row.objectID.bits) {
                    try object.takeDerivedValues(from: row)
                }
            }
        } catch {
            reportFault(error)
        }
    }
}
