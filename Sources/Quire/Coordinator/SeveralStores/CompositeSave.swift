internal import QuireStore

/// A save to several stores.
///
/// Each store gets its objects' changes in one transaction. The first store delays its commit until the second has committed,
/// and so on: every error that can occur before a commit occurs before the first one, and then nothing is saved anywhere. Only
/// a commit itself can fail or be interrupted after another store's: no file system changes two files atomically.
struct CompositeSave {
    /// Writes the changes of a store's objects elsewhere than to the store.
    typealias Writer = (ChangeSet) throws -> [ManagedObjectID]

    private let changes: ChangeSet
    private let combination: CompositeStore
    private let replaced: (store: any PersistentStore, write: Writer)?

    /// - Parameter replaced: A store whose part of the changes is written by a closure, after all other parts have been prepared and
    ///   before the first is committed.
    init(
        _ changes: ChangeSet, in combination: CompositeStore,
        replacing replaced: (store: any PersistentStore, write: Writer)? = nil
    ) {
        self.changes = changes
        self.combination = combination
        self.replaced = replaced
    }

    /// - Returns: The objects not in the change set whose derived values the stores have set.
    func run() throws -> [ManagedObjectID] {
        try checkReferences()
        var parts = try parts()
        for index in parts.indices where !isReplaced(parts[index]) {
            parts[index].changes = try parts[index].changes.loadingExternalData(
                for: parts[index].member.store)
        }
        // Stores without prepared saves come last, and a replaced one at the very end: their failure then rolls back the others.
        parts.sort { left, right in
            if isReplaced(left) != isReplaced(right) { return isReplaced(right) }
            let first = left.member.store.capabilities.contains(.preparedSaves)
            let second = right.member.store.capabilities.contains(.preparedSaves)
            return first != second ? first : left.member.number < right.member.number
        }
        var derived: [ManagedObjectID] = []
        try save(parts[...], &derived)
        return derived
    }

    private typealias Part = (member: CompositeStore.Member, changes: ChangeSet)

    private func save(_ parts: ArraySlice<Part>, _ derived: inout [ManagedObjectID]) throws {
        guard let part = parts.first else { return }
        if let replaced, isReplaced(part) {
            derived += try replaced.write(part.changes)
            return
        }
        if parts.count == 1 {
            derived += try part.member.store.save(part.changes)
            return
        }
        let own = try part.member.store.save(part.changes) {
            try save(parts.dropFirst(), &derived)
        }
        derived += own
    }

    private func isReplaced(_ part: Part) -> Bool { part.member.store === replaced?.store }

    /// The changes by store. Metadata records go to the first store.
    private func parts() throws -> [Part] {
        var parts: [Part] = []
        func part(of id: ManagedObjectID) throws -> Int {
            if let index = parts.firstIndex(where: { $0.member.store.identity.owns(id) }) {
                return index
            }
            parts.append((try combination.member(of: id), ChangeSet()))
            return parts.count - 1
        }
        if !changes.records.isEmpty, let first = combination.members.first {
            parts.append((first, ChangeSet()))
            parts[0].changes.records = changes.records
        }
        if !parts.contains(where: isReplaced) {
            parts += combination.members.filter { $0.store === replaced?.store }
                .map { ($0, ChangeSet()) }
        }
        for change in changes.inserted {
            parts[try part(of: change.objectID)].changes.inserted.append(change)
        }
        for change in changes.updated {
            parts[try part(of: change.objectID)].changes.updated.append(change)
        }
        for deletion in changes.deleted {
            parts[try part(of: deletion.objectID)].changes.deleted.append(deletion)
        }
        for index in parts.indices { parts[index].changes.origin = changes.origin }
        return parts
    }

    // MARK: - References

    /// Checks that references stay within one store.
    private func checkReferences() throws {
        var failures: [QuireError] = []
        for change in changes.inserted + changes.updated {
            let number = ManagedObjectID.storeNumber(of: change.objectID.bits)
            func check(_ target: ManagedObjectID, _ relationship: ResolvedEntity.Relationship) {
                if ManagedObjectID.storeNumber(of: target.bits) == number { return }
                failures.append(failure(change, relationship, target))
            }
            for slot in change.entity.slots where change.changedSlots.contains(slot.index) {
                guard let index = slot.relationshipIndex, slot.isStored,
                    case .objectID(let target) = change.values[slot.index]
                else { continue }
                check(target, change.entity.relationships[index])
            }
            for toMany in change.toManyChanges {
                for target in toMany.added {
                    check(target, change.entity.relationships[toMany.relationshipIndex])
                }
            }
        }
        if !failures.isEmpty { throw QuireError.combining(failures) }
    }

    private func failure(
        _ change: ObjectChange, _ relationship: ResolvedEntity.Relationship,
        _ target: ManagedObjectID
    ) -> QuireError {
        QuireError(
            .validation,
            "“\(relationship.name)” of \(change.objectID.shortDescription) refers to \(target.shortDescription), which "
                + "is in another store: related objects must be in the same store. Assign the new one to the other's "
                + "store, or make the relationship a fetched property.",
            entity: change.entity.name, property: relationship.name,
            object: change.objectID.uriRepresentation, relatedObjects: [target.uriRepresentation])
    }
}

extension PersistentStoreCoordinator {
    /// Saves changes, those of one store's objects by a closure, which writes them to another place.
    func save(
        _ changes: ChangeSet, replacing store: any PersistentStore,
        _ write: (ChangeSet) throws -> [ManagedObjectID]
    ) throws -> [ManagedObjectID] {
        guard let combination = self.store as? CompositeStore else { return try write(changes) }
        return try withoutActuallyEscaping(write) {
            try CompositeSave(changes, in: combination, replacing: (store, $0)).run()
        }
    }
}

extension ChangeSet {
    /// The changes of one store's objects.
    func restricted(to store: StoreIdentity) -> ChangeSet {
        var changes = self
        changes.inserted.removeAll { !store.owns($0.objectID) }
        changes.updated.removeAll { !store.owns($0.objectID) }
        changes.deleted.removeAll { !store.owns($0.objectID) }
        return changes
    }
}
