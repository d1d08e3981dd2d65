internal import QuireAtomicStores
internal import QuireModel
internal import QuireQuery
internal import QuireSQLite
public import QuireStore
internal import QuireSystem

extension StoreCheck {
    /// Checks a store of any type as it was last saved: a SQLite store as ``run(_:)`` does, another by what can be read of
    /// it.
    ///
    /// - Complexity: O(*n*) in the size of the store; identifiers of all objects are in memory.
    /// - Throws: ``QuireError`` with code `invalidFormat` or `storeUnavailable`.
    public static func run(on store: any PersistentStore) throws -> StoreCheckReport {
        if let store = store as? SQLiteStore { return try run(store) }
        return try StoreReadingCheck(store).run()
    }
}

/// Checks a store through its interface: what a context reads is what is checked.
private struct StoreReadingCheck {
    private let store: any PersistentStore
    private let layout: ModelLayout
    private var report = StoreCheckReport()
    /// Every object, by entity number.
    private var objects: [Int: Set<ManagedObjectID>] = [:]
    /// Pairs of a relationship, by the numbers of the entity that declares it and of its place there.
    private var pairs: [[Int]: Set<Pair>] = [:]

    private struct Pair: Hashable {
        var from: ManagedObjectID
        var to: ManagedObjectID
    }

    init(_ store: any PersistentStore) {
        self.store = store
        layout = store.layout
    }

    func run() throws -> StoreCheckReport {
        var check = self
        let entities = layout.entities.filter { !$0.isAbstract }
        for entity in entities { try check.list(entity) }
        for entity in entities { try check.read(entity) }
        check.compareInverses()
        return check.report
    }

    private func request(_ entity: EntityLayout) -> FetchRequest {
        var request = FetchRequest(entity.name)
        request.includesSubentities = false
        return request
    }

    private mutating func list(_ entity: EntityLayout) throws {
        let ids = Set(try store.objectIDs(matching: request(entity)))
        let count = try store.count(matching: request(entity))
        if ids.count != count {
            add(.count, "\(entity.name) has \(count) objects by count but \(ids.count) by list.")
        }
        objects[entity.number] = ids
        report.objects += ids.count
    }

    private mutating func read(_ entity: EntityLayout) throws {
        for row in try store.rows(matching: request(entity)) {
            for slot in entity.slots where slot.isStored {
                do {
                    let value = try row.value(at: slot.index)
                    if slot.attribute != nil && !value.isNull { report.values += 1 }
                    try slot.attribute?.validate(value, entity: entity.name)
                    if case .objectID(let target) = value, let index = slot.relationshipIndex {
                        follow(entity.relationships[index], from: row.objectID, to: target)
                    }
                } catch let error as QuireError where error.code == .validation {
                    add(.validation, error.message, row.objectID)
                } catch {
                    add(.value, "“\(slot.name)” cannot be read: \(error)", row.objectID)
                }
            }
            for index in entity.toManyRelationships
            where !entity.relationships[index].description.isTransient {
                let relationship = entity.relationships[index]
                let related = try store.relatedObjects(of: [row.objectID], through: relationship)
                for position in related.owners.indices {
                    for bits in related.members(at: position) {
                        follow(
                            relationship, from: row.objectID,
                            to: ManagedObjectID(bits: bits, store: store.identity))
                    }
                }
            }
        }
    }

    private mutating func follow(
        _ relationship: EntityLayout.Relationship, from object: ManagedObjectID,
        to target: ManagedObjectID
    ) {
        report.references += 1
        let destination = layout.destination(of: relationship)
        guard destination.subtree.contains(target.entityNumber) else {
            return add(
                .reference,
                "“\(relationship.name)” leads to \(target.shortDescription), which is no \(destination.name).",
                object)
        }
        guard objects[target.entityNumber]?.contains(target) == true else {
            return add(
                .reference,
                "“\(relationship.name)” leads to \(target.shortDescription), which is not there.",
                object)
        }
        guard relationship.inverseIndex != nil else { return }
        pairs[[relationship.ownerNumber, relationship.index], default: []]
            .insert(Pair(from: object, to: target))
    }

    private mutating func compareInverses() {
        for (key, forward) in pairs.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            let relationship = layout.entity(number: key[0]).relationships[key[1]]
            guard let inverse = layout.inverse(of: relationship) else { continue }
            let backward = pairs[[inverse.ownerNumber, inverse.index]] ?? []
            let missing = forward.filter { !backward.contains(Pair(from: $0.to, to: $0.from)) }
            // As in SQLite stores that others made.
            let isNote =
                !relationship.isToMany && !inverse.isToMany
                && (store as? AtomicStore)?.carriesModel == false
            for pair in missing.sorted(by: { $0.from.bits < $1.from.bits }) {
                add(
                    .inverse,
                    "“\(relationship.name)” leads to \(pair.to.shortDescription), whose “\(inverse.name)” does not "
                        + "lead back.", pair.from, isNote: isNote)
            }
        }
    }

    private mutating func add(
        _ kind: StoreProblem.Kind, _ sentence: String, _ object: ManagedObjectID? = nil,
        isNote: Bool = false
    ) {
        let problem = StoreProblem(
            kind: kind, object: object?.uriRepresentation, table: nil,
            message: object.map { "\($0.shortDescription): \(sentence)" } ?? sentence,
            isRepairable: false)
        if isNote { report.notes.append(problem) } else { report.problems.append(problem) }
    }
}
