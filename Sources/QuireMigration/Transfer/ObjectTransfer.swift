import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSQLite
internal import QuireStore
internal import QuireSystem

/// Transfers objects from a store to a loader, by a plan: first the objects with their values and references, then their
/// remaining relationships. One batch of rows is in memory at a time.
struct ObjectTransfer {
    let plan: TransferPlan
    let source: any PersistentStore
    /// The store identity of the new objects.
    let identity: StoreIdentity
    let loading: any BulkInserter
    /// Called with the number of objects completed; throws to abort.
    let step: (Int) throws -> Void
    private let session: MigrationSession

    init(
        _ plan: TransferPlan, from source: any PersistentStore, identity: StoreIdentity,
        into loading: any BulkInserter, policies: [String: () -> EntityMigrationPolicy] = [:],
        step: @escaping (Int) throws -> Void
    ) throws {
        self.plan = plan
        self.source = source
        self.identity = identity
        self.loading = loading
        self.step = step
        session = try MigrationSession(plan, from: source, identity: identity, policies: policies)
    }

    /// Moves everything.
    func run() throws {
        // Policies' objects are created first, so that others can refer to them.
        for transfer in plan.transfers { try makeObjects(transfer) }
        for mapping in plan.policyMappings {
            try session.policy(of: mapping)?.begin(mapping, session: session)
            try session.policy(of: mapping)?.endInstanceCreation(mapping, session: session)
        }
        for transfer in plan.transfers where session.policy(of: transfer.mapping) == nil {
            try moveObjects(transfer)
        }
        try connectMadeObjects()
        for transfer in plan.transfers
        where !transfer.edges.isEmpty && session.policy(of: transfer.mapping) == nil {
            try moveRelationships(transfer)
        }
        try relateMadeObjects()
        for (root, key) in session.maximumKeys {
            try loading.reservePrimaryKeys(
                through: key, root: plan.destination.entity(number: root))
        }
    }

    // MARK: - Policies

    private func makeObjects(_ transfer: EntityTransfer) throws {
        guard let policy = session.policy(of: transfer.mapping) else { return }
        try policy.begin(transfer.mapping, session: session)
        if !transfer.source.isAbstract {
            try forEachBatch(of: objects(of: transfer)) { ids in
                for row in try source.rows(for: ids) {
                    try policy.createDestinationObjects(
                        for: MigrationSource(snapshot: row, store: source),
                        mapping: transfer.mapping, session: session)
                }
            }
        }
        try policy.endInstanceCreation(transfer.mapping, session: session)
    }

    private func connectMadeObjects() throws {
        // Policies may create further objects, and set their relationships themselves.
        for object in session.made {
            guard let mapping = object.mapping else { continue }
            try session.policy(of: mapping)?.createRelationships(
                for: object, mapping: mapping, session: session)
        }
        let mappings = plan.transfers.map(\.mapping) + plan.policyMappings
        for mapping in mappings {
            try session.policy(of: mapping)?.endRelationshipCreation(mapping, session: session)
        }
        for mapping in mappings {
            try session.policy(of: mapping)?.performCustomValidation(mapping, session: session)
        }
        for mapping in mappings {
            try session.policy(of: mapping)?.end(mapping, session: session)
        }
        for object in session.made {
            try loading.insert(
                ObjectChange(
                    objectID: object.objectID, entity: object.entity, version: object.version,
                    values: object.values,
                    changedSlots: SlotMask(first: object.entity.slots.count)))
        }
    }

    private func relateMadeObjects() throws {
        for object in session.made {
            for relationship in object.entity.relationships
            where object.isConnected(relationship.index) && !relationship.description.isTransient {
                var members = object.members[relationship.index] ?? []
                if let slot = relationship.slot {
                    // If the other side stores nothing of it, the object's own row is sufficient.
                    guard let inverse = plan.destination.inverse(of: relationship),
                        !inverse.isToMany, case .objectID(let id) = object.values[slot]
                    else { continue }
                    members = [id]
                }
                if members.isEmpty { continue }
                try loading.relate(object.objectID, through: relationship, to: members)
            }
        }
    }

    // MARK: - Objects

    private func moveObjects(_ transfer: EntityTransfer) throws {
        if transfer.source.isAbstract { return }
        let found = try objects(of: transfer)
        if transfer.destination.isAbstract, !found.isEmpty {
            throw transfer.abstractError(count: found.count)
        }
        var values = ContiguousArray<AttributeValue>(
            repeating: .null, count: transfer.destination.slots.count)
        try forEachBatch(of: found) { ids in
            for row in try source.rows(for: ids) {
                try loading.insert(object(of: row, transfer, &values))
            }
        }
    }

    /// The identifiers of the old objects of a transfer.
    private func objects(of transfer: EntityTransfer) throws -> ObjectIDList {
        guard source.keeps(transfer.source) else { return ObjectIDList([], store: source.identity) }
        var request = FetchSpecification(only: transfer.source.name)
        request.predicate = try transfer.mapping.sourcePredicateFormat.map {
            try QueryPredicate(format: $0)
        }
        return try source.objectIDs(matching: request)
    }

    private func forEachBatch(
        of ids: ObjectIDList, _ body: ([ManagedObjectID]) throws -> Void
    ) throws {
        try ids.forEachBatch {
            try body($0)
            try step($0.count)
        }
    }

    /// The new object of a row.
    private func object(
        of row: ObjectSnapshot, _ transfer: EntityTransfer,
        _ values: inout ContiguousArray<AttributeValue>
    ) throws -> ObjectChange {
        for (slot, value) in transfer.values.enumerated() {
            switch value {
            case .nothing: values[slot] = .null
            case .constant(let constant): values[slot] = constant
            case .copy(let from, let conversion, let fallback):
                let old =
                    try transfer.destination.slots[slot].isExternalCapable
                    ? row.valueWithoutLoading(at: from) : row.value(at: from)
                if case .external = old {
                    values[slot] = old
                } else {
                    values[slot] = old.isNull ? fallback : conversion.apply(to: old)
                }
            case .reference(let from, let isRequired):
                values[slot] = try reference(row, from, slot, transfer)
                if isRequired && values[slot].isNull {
                    throw transfer.missingError(
                        slot, object: row.objectID.shortDescription,
                        uri: row.objectID.uriRepresentation)
                }
            case .expression(let expression):
                let computed = try session.value(
                    of: expression, for: MigrationSource(snapshot: row, store: source),
                    mapping: transfer.mapping)
                values[slot] = try transfer.destination.slots[slot].coerce(
                    computed, in: transfer.destination)
            }
        }
        return ObjectChange(
            objectID: newID(of: row.objectID, transfer), entity: transfer.destination,
            version: max(row.version, 1), values: values,
            changedSlots: SlotMask(first: values.count))
    }

    private func reference(
        _ row: ObjectSnapshot, _ from: Int, _ slot: Int, _ transfer: EntityTransfer
    ) throws -> AttributeValue {
        guard case .objectID(let id) = try row.value(at: from),
            let index = transfer.destination.slots[slot].relationshipIndex,
            let new = try newID(of: id, through: transfer.destination.relationships[index])
        else { return .null }
        return .objectID(new)
    }

    // MARK: - Identifiers

    /// The new identifier of an old object, by a transfer.
    private func newID(of id: ManagedObjectID, _ transfer: EntityTransfer) -> ManagedObjectID {
        ManagedObjectID(
            entityNumber: transfer.destination.number,
            primaryKey: id.primaryKey + plan.keyOffsets[transfer.keyGroup], store: identity)
    }

    /// The new object for an old one, as a relationship's destination; `nil` if it is not migrated.
    private func newID(
        of id: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> ManagedObjectID? {
        let destination = plan.destination.destination(of: relationship)
        if let transfer = plan.transfer(ofEntity: id.entityNumber, within: destination) {
            if session.policy(of: transfer.mapping) != nil {
                return session.object(of: id, transfer)
            }
            return newID(of: id, transfer)
        }
        guard let other = plan.transfers(ofEntity: id.entityNumber).first else { return nil }
        let owner = plan.destination.entity(number: relationship.ownerNumber).name
        throw QuireError(
            .validation,
            "“\(owner).\(relationship.name)” refers to “\(destination.name)” in the new model, but its object \(id.shortDescription) "
                + "becomes “\(other.destination.name)”; remove it from the relationship first, or map it.",
            entity: owner, property: relationship.name, object: id.uriRepresentation)
    }

    // MARK: - Relationships

    private func moveRelationships(_ transfer: EntityTransfer) throws {
        if transfer.source.isAbstract { return }
        try forEachBatch(of: objects(of: transfer)) { ids in
            for edge in transfer.edges {
                if edge.source.isToMany {
                    let related = try source.relatedObjects(of: ids, through: edge.source)
                    for position in related.owners.indices {
                        let members = related.members(at: position).map {
                            ManagedObjectID(bits: $0, store: source.identity)
                        }
                        try relate(
                            ManagedObjectID(
                                bits: related.owners[position], store: source.identity),
                            members, edge, transfer)
                    }
                } else if let slot = edge.source.slot {
                    for row in try source.rows(for: ids) {
                        guard case .objectID(let member) = try row.value(at: slot) else {
                            continue
                        }
                        try relate(row.objectID, [member], edge, transfer)
                    }
                }
            }
        }
    }

    private func relate(
        _ owner: ManagedObjectID, _ members: [ManagedObjectID], _ edge: EntityTransfer.Edge,
        _ transfer: EntityTransfer
    ) throws {
        let new = try members.compactMap { try newID(of: $0, through: edge.relationship) }
        if new.isEmpty { return }
        if new.count > 1 && !edge.relationship.isToMany {
            throw QuireError(
                .validation,
                "“\(edge.source.name)” of \(owner.shortDescription) refers to \(new.count) objects, but "
                    + "“\(transfer.destination.name).\(edge.relationship.name)” allows only one. Remove the other objects "
                    + "first, or use a migration policy.",
                entity: transfer.source.name, property: edge.source.name,
                object: owner.uriRepresentation)
        }
        try loading.relate(newID(of: owner, transfer), through: edge.relationship, to: new)
    }
}

extension PersistentStore {
    /// Whether the store keeps objects of an entity: not if it belongs to another store of the same model.
    func keeps(_ entity: ResolvedEntity) -> Bool {
        guard let store = self as? SQLiteStore else { return true }
        return store.schema.entity(entity).storeNumber > 0
    }
}

extension EntityTransfer {
    /// The error of objects that would be of an abstract entity.
    func abstractError(count: Int) -> QuireError {
        QuireError(
            .validation,
            "“\(destination.name)” is abstract in the new model, but \(count) objects of “\(source.name)” "
                + "would become objects of it; map them to a sub-entity.",
            entity: destination.name)
    }

    /// The error of an object that has nothing in a required relationship.
    func missingError(_ slot: Int, object: String, uri: String?) -> QuireError {
        let name = destination.slots[slot].name
        return QuireError(
            .validation,
            "“\(destination.name).\(name)” is required, but \(object) has no object for it; set one first, or make "
                + "it optional.",
            entity: destination.name, property: name, object: uri, rule: .required)
    }
}
