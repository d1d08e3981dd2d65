import Foundation

/// Moves objects from a store to where they are loaded, by a plan: first the objects with their values and references,
/// then what is left of their relationships. A batch of rows is in memory at a time.
struct ObjectTransfer {
    let plan: TransferPlan
    let source: any PersistentStore
    /// What the identifiers of the new objects belong to.
    let identity: StoreIdentity
    let loading: any StoreLoading
    /// Called with the number of objects that are done; throws to give up.
    let step: (Int) throws -> Void
    private let digests: [String: Data]

    /// How many rows are read at a time.
    static let batchSize = 1000

    init(
        _ plan: TransferPlan, from source: any PersistentStore, identity: StoreIdentity,
        into loading: any StoreLoading, step: @escaping (Int) throws -> Void
    ) throws {
        self.plan = plan
        self.source = source
        self.identity = identity
        self.loading = loading
        self.step = step
        digests = try (source as? SQLiteStore)?.externalDigests() ?? [:]
    }

    /// Moves everything.
    func run() throws {
        for (root, key) in plan.greatestKeys {
            try loading.reservePrimaryKeys(
                through: key, root: plan.destination.entity(number: root))
        }
        for transfer in plan.transfers { try moveObjects(transfer) }
        for transfer in plan.transfers where !transfer.edges.isEmpty {
            try moveRelationships(transfer)
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
        var request = FetchRequest(transfer.source.name)
        request.includesSubentities = false
        request.predicate = try transfer.mapping.sourcePredicateFormat.map {
            try QueryPredicate(format: $0)
        }
        return try source.objectIDs(matching: request)
    }

    private func forEachBatch(
        of ids: ObjectIDList, _ body: ([ManagedObjectID]) throws -> Void
    ) throws {
        var start = 0
        while start < ids.count {
            let end = min(start + Self.batchSize, ids.count)
            try body(Array(ids[start..<end]))
            try step(end - start)
            start = end
        }
    }

    /// The new object of a row.
    private func object(
        of row: ObjectSnapshot, _ transfer: EntityTransfer,
        _ values: inout ContiguousArray<AttributeValue>
    ) throws -> LoadedObject {
        var files: [Int: ExternalFile] = [:]
        for (slot, value) in transfer.values.enumerated() {
            switch value {
            case .nothing: values[slot] = .null
            case .constant(let constant): values[slot] = constant
            case .copy(let from, let conversion, let fallback):
                if transfer.destination.slots[slot].isExternalCapable,
                    let path = row.externalFile(at: from)
                {
                    values[slot] = .null
                    files[slot] = ExternalFile(path: path, sha256: digests[path])
                    continue
                }
                let old = try row.value(at: from)
                values[slot] = old.isNull ? fallback : conversion.apply(to: old)
            case .reference(let from, let isRequired):
                values[slot] = try reference(row, from, slot, transfer)
                if isRequired && values[slot].isNull {
                    throw transfer.missingError(
                        slot, object: row.objectID.shortDescription,
                        uri: row.objectID.uriRepresentation)
                }
            case .expression(let expression):
                throw QuireError(
                    .unsupported,
                    "The mapping “\(transfer.mapping.name)” has an expression for "
                        + "“\(transfer.destination.slots[slot].name)” that only a policy can compute: \(expression).",
                    subject: .init(
                        entity: transfer.destination.name,
                        property: transfer.destination.slots[slot].name))
            }
        }
        return LoadedObject(
            objectID: newID(of: row.objectID, transfer), entity: transfer.destination,
            version: max(row.version, 1), values: values, files: files)
    }

    private func reference(
        _ row: ObjectSnapshot, _ from: Int, _ slot: Int, _ transfer: EntityTransfer
    ) throws -> AttributeValue {
        guard case .objectID(let id) = try row.value(at: from),
            let index = transfer.destination.slots[slot].relationshipIndex,
            let new = newID(of: id, through: transfer.destination.relationships[index])
        else { return .null }
        return .objectID(new)
    }

    // MARK: - Identifiers

    /// The new object of an old one, by a transfer.
    private func newID(of id: ManagedObjectID, _ transfer: EntityTransfer) -> ManagedObjectID {
        ManagedObjectID(
            entityNumber: transfer.destination.number,
            primaryKey: id.primaryKey + plan.keyOffsets[transfer.keyGroup], store: identity)
    }

    /// The new object that a relationship may lead to for an old one; `nil` if it is not taken over.
    private func newID(
        of id: ManagedObjectID, through relationship: EntityLayout.Relationship
    ) -> ManagedObjectID? {
        plan.transfer(
            ofEntity: id.entityNumber, within: plan.destination.destination(of: relationship)
        ).map { newID(of: id, $0) }
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
        let new = members.compactMap { newID(of: $0, through: edge.relationship) }
        if new.isEmpty { return }
        if new.count > 1 && !edge.relationship.isToMany {
            throw QuireError(
                .validation,
                "“\(edge.source.name)” of \(owner.shortDescription) leads to \(new.count) objects, and "
                    + "“\(transfer.destination.name).\(edge.relationship.name)” takes one; remove the others before, or "
                    + "map it by a policy.",
                subject: .init(
                    entity: transfer.source.name, property: edge.source.name,
                    object: owner.uriRepresentation))
        }
        try loading.relate(newID(of: owner, transfer), through: edge.relationship, to: new)
    }
}

extension EntityTransfer {
    /// The error of objects that would be of an abstract entity.
    func abstractError(count: Int) -> QuireError {
        QuireError(
            .validation,
            "“\(destination.name)” is abstract in the new model, and there are \(count) objects of “\(source.name)” that "
                + "would be some; map them to a sub-entity.",
            subject: .init(entity: destination.name))
    }

    /// The error of an object that has nothing in a required relationship.
    func missingError(_ slot: Int, object: String, uri: String?) -> QuireError {
        let name = destination.slots[slot].name
        return QuireError(
            .validation,
            "“\(destination.name).\(name)” is required, and \(object) has no object for it; give it one before, or make "
                + "it optional.",
            subject: .init(
                entity: destination.name, property: name, object: uri, rule: .required))
    }
}
