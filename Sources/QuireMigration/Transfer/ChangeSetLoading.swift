internal import OrderedCollections
internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Loads objects into a store without bulk loading: they are collected, and saved at once.
///
/// Memory grows with the number of objects. Their versions begin at 1.
final class ChangeSetLoading: BulkInserter {
    private let store: any PersistentStore
    private let layout: ResolvedModel
    private var objects: [ObjectChange] = []
    private var places: [ManagedObjectID: Int] = [:]
    private var records: [String: String?] = [:]
    /// The given members of an object's relationships, by the object's index and the relationship's index.
    private var members: [[Int]: OrderedSet<ManagedObjectID>] = [:]

    init(_ store: any PersistentStore) {
        self.store = store
        layout = store.layout
    }

    func insert(_ object: ObjectChange) throws {
        places[object.objectID] = objects.count
        objects.append(object)
        objects[objects.count - 1].version = 0
    }

    func relate(
        _ owner: ManagedObjectID, through relationship: ResolvedEntity.Relationship,
        to targets: [ManagedObjectID]
    ) throws {
        guard let place = places[owner] else { return }
        let targets = targets.filter { places[$0] != nil }
        if let slot = relationship.slot {
            objects[place].values[slot] = targets.first.map { .objectID($0) } ?? .null
        } else {
            members[[place, relationship.index]] = OrderedSet(targets)
        }
        guard let inverse = layout.inverse(of: relationship), let slot = inverse.slot else {
            return
        }
        for target in targets {
            guard let other = places[target] else { continue }
            if case .objectID(let found) = objects[other].values[slot], found != owner {
                throw QuireError(
                    .validation,
                    "“\(inverse.name)” of \(target.shortDescription) would refer to two objects, "
                        + "\(found.shortDescription) and \(owner.shortDescription), but allows only one; remove one of them, or "
                        + "use a migration policy.",
                    entity: target.entityName, property: inverse.name,
                    object: target.uriRepresentation)
            }
            objects[other].values[slot] = .objectID(owner)
        }
    }

    func setRecords(_ records: [String: String]) throws {
        for (key, value) in records { self.records[key] = value }
    }

    func reservePrimaryKeys(through greatest: Int64, root: ResolvedEntity) {}

    /// Saves the collected objects.
    ///
    /// - Parameter check: Called before saving.
    func finish(check: (ChangeSetLoading) throws -> Void = { _ in }) throws {
        dropMissing()
        for (place, object) in objects.enumerated() { collectInverses(of: object, at: place) }
        try check(self)
        for (key, targets) in members where !targets.isEmpty {
            let relationship = objects[key[0]].entity.relationships[key[1]]
            objects[key[0]].toManyChanges.append(
                ToManyChange(
                    relationshipIndex: key[1], added: targets.elements, removed: [],
                    order: relationship.isOrdered ? targets.elements : nil))
        }
        var changes = ChangeSet()
        changes.inserted = objects
        changes.records = records
        try store.save(changes.loadingExternalData(for: store))
    }

    /// Clears references to missing objects.
    private func dropMissing() {
        for place in objects.indices {
            for slot in objects[place].entity.slots where slot.storage == .reference {
                if case .objectID(let id) = objects[place].values[slot.index], places[id] == nil {
                    objects[place].values[slot.index] = .null
                }
            }
        }
    }

    /// Adds an object to the to-many inverses of its references.
    private func collectInverses(of object: ObjectChange, at place: Int) {
        for relationship in object.entity.relationships {
            guard let inverse = layout.inverse(of: relationship), inverse.isToMany else { continue }
            let targets: [ManagedObjectID]
            if let slot = relationship.slot {
                guard case .objectID(let id) = object.values[slot] else { continue }
                targets = [id]
            } else {
                targets = members[[place, relationship.index]]?.elements ?? []
            }
            for target in targets {
                guard let other = places[target] else { continue }
                members[[other, inverse.index], default: []].append(object.objectID)
            }
        }
    }
}

extension ChangeSetLoading: ContentCounter {
    func count(
        of entity: ResolvedEntity, slots: [Int], relationships: [CountedRelationship]
    ) throws -> ContentCount {
        var result = ContentCount(
            values: slots.map { _ in 0 }, references: relationships.map { _ in 0 })
        for (place, object) in objects.enumerated() where object.entity.number == entity.number {
            result.objects += 1
            for (index, slot) in slots.enumerated() {
                if object.values[slot].isValue { result.values[index] += 1 }
            }
            for (index, counted) in relationships.enumerated() {
                let relationship = counted.relationship
                if let slot = relationship.slot {
                    if !object.values[slot].isNull { result.references[index] += 1 }
                } else {
                    result.references[index] += members[[place, relationship.index]]?.count ?? 0
                }
            }
        }
        return result
    }
}
