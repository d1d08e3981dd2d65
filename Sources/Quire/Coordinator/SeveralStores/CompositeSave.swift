internal import QuireStore

/// A save to several stores.
///
/// Each store gets its objects' changes in one transaction. The first store delays its commit until the second has committed,
/// and so on: every error that can occur before a commit occurs before the first one, and then nothing is saved anywhere. Only
/// a commit itself can fail or be interrupted after another store's: no file system changes two files atomically.
struct CompositeSave {
    private let changes: ChangeSet
    private let combination: CompositeStore

    init(_ changes: ChangeSet, in combination: CompositeStore) {
        self.changes = changes
        self.combination = combination
    }

    /// - Returns: The objects not in the change set whose derived values the stores have set.
    func run() throws -> [ManagedObjectID] {
        try checkReferences()
        var parts = try parts()
        for index in parts.indices {
            parts[index].changes = try parts[index].changes.loadingExternalData(
                for: parts[index].member.store)
        }
        if parts.count == 1 { return try parts[0].member.store.save(parts[0].changes) }
        // Stores without prepared saves come last: their failure then rolls back the others.
        parts.sort { left, right in
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
        let own = try part.member.store.save(part.changes) {
            try save(parts.dropFirst(), &derived)
        }
        derived += own
    }

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
                + "is in another store: objects that refer to each other are in one. Assign the new one to the other's "
                + "store, or make the relationship a fetched property.",
            subject: .init(
                entity: change.entity.name, property: relationship.name,
                object: change.objectID.uriRepresentation,
                relatedObjects: [target.uriRepresentation]))
    }
}
