public import QuireModel
public import QuireQuery
public import QuireStore
internal import QuireSystem

/// Fetch requests, evaluated on what a subclass reads.
extension IncrementalStore {
    /// The rows that match a request, in its order, within its limit and offset.
    public func rows(matching request: FetchSpecification) throws -> RowSet {
        try requireOpen()
        let query = try ResolvedQuery(request, in: layout, store: identity)
        if capabilities.contains(.predicates) { return try inOrder(execute(query.request)) }
        let found = try InMemoryFetch(query: query, objects: StoredObjects(store: self)).rows {
            try scan(query, $0)
        }
        return RowSet(found, layout: layout, store: identity)
    }

    /// The number of rows that match a request.
    public func count(matching request: FetchSpecification) throws -> Int {
        try requireOpen()
        let query = try ResolvedQuery(request, in: layout, store: identity)
        if capabilities.contains(.predicates) { return try execute(query.request).count }
        return try InMemoryFetch(query: query, objects: StoredObjects(store: self)).count {
            try scan(query, $0)
        }
    }

    /// Calls a closure with all rows of a query's entity by primary key, until it returns `false`.
    private func scan(_ query: ResolvedQuery, _ body: (ObjectSnapshot) throws -> Bool) throws {
        var all = FetchSpecification(query.entity.name)
        all.includesSubentities = query.request.includesSubentities
        let ids = try execute(all).sorted { $0.bits.primaryKeyBits < $1.bits.primaryKeyBits }
        for id in ids {
            guard let row = try row(for: id) else { continue }
            if try !body(row) { return }
        }
    }

    /// The row of an object; `nil` if it does not exist.
    public func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot? {
        try rows(for: [objectID]).first
    }

    /// The rows of objects. Missing rows are omitted.
    public func rows(for objectIDs: [ManagedObjectID]) throws -> RowSet {
        var seen: Set<UInt64> = []
        return try inOrder(
            objectIDs.filter { owns($0) && seen.insert(layout.rowKey($0.bits)).inserted })
    }

    /// The rows of a relationship's destination objects, in its order or by primary key.
    public func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet {
        try requireOpen()
        guard owns(objectID), !relationship.description.isTransient else {
            return try inOrder([])
        }
        guard let slot = relationship.slot else {
            guard try row(for: objectID) != nil else { return try inOrder([]) }
            return try rows(
                for: members(of: objectID, relationship).map {
                    ManagedObjectID(bits: $0, store: identity)
                })
        }
        guard let row = try row(for: objectID), slot < row.entity.slots.count,
            case .objectID(let target) = try row.value(at: slot)
        else { return try inOrder([]) }
        return try rows(for: [target])
    }

    /// The members of a to-many relationship: in its order, or by primary key.
    func members(
        of id: ManagedObjectID, _ relationship: ResolvedEntity.Relationship
    ) throws -> ContiguousArray<UInt64> {
        let found = try newValue(forRelationship: relationship, forObjectWith: id)
        let bits = ContiguousArray(found.map(identity.bits))
        return relationship.isOrdered
            ? bits : ContiguousArray(bits.sorted { $0.primaryKeyBits < $1.primaryKeyBits })
    }

    func owns(_ objectID: ManagedObjectID) -> Bool {
        layout.isStored(objectID.bits) && identity.owns(objectID)
    }

    /// The rows of objects in their order.
    private func inOrder(_ ids: [ManagedObjectID]) throws -> RowSet {
        try requireOpen()
        var builder = RowSetBuilder(layout: layout, store: identity, expectedRows: ids.count)
        for id in ids {
            guard let node = try newValues(forObjectWith: id) else { continue }
            let entity = layout.entity(number: node.objectID.entityNumber)
            guard layout.entity(number: id.entityNumber).subtree.contains(entity.number) else {
                continue
            }
            builder.beginRow(
                identity.bits(of: node.objectID), entity: entity, version: node.version)
            for slot in entity.slots where slot.isStored {
                guard let value = node.values[slot.name] else { continue }
                do { try builder.set(adopted(value), at: slot) } catch {
                    throw QuireError(
                        .invalidFormat,
                        "“\(slot.name)” of \(id.shortDescription) in “\(path ?? type.rawValue)” does not have its declared type: \(value).",
                        entity: entity.name, property: slot.name, object: id.uriRepresentation,
                        file: path,
                        underlying: error)
                }
            }
            builder.endRow()
        }
        return builder.finish()
    }

    private func adopted(_ value: AttributeValue) -> AttributeValue {
        guard case .objectID(let id) = value else { return value }
        return .objectID(ManagedObjectID(bits: identity.bits(of: id), store: identity))
    }
}

/// An incremental store's objects as a save sees them.
struct IncrementalRows: RowStorage {
    let store: IncrementalStore

    var layout: ResolvedModel { store.layout }
    var identity: StoreIdentity { store.identity }

    func savedRow(_ bits: UInt64) throws -> ObjectSnapshot? {
        let root = layout.entity(number: ManagedObjectID.entityNumber(of: bits)).rootNumber
        // The identifier may be of a superentity, or of an entity that the object is no more of.
        let own = try store.row(for: ManagedObjectID(bits: bits, store: identity))
        if own != nil || ManagedObjectID.entityNumber(of: bits) == root { return own }
        return try store.row(
            for: ManagedObjectID(
                bits: bits & ~(0x7FFF << 48) | UInt64(root) << 48, store: identity))
    }

    func savedMembers(
        of bits: UInt64, _ relationship: ResolvedEntity.Relationship
    ) throws -> ContiguousArray<UInt64> {
        guard let row = try savedRow(bits) else { return [] }
        return try store.members(of: row.objectID, relationship)
    }

    func savedReferrers(
        to bits: UInt64, _ relationship: ResolvedEntity.Relationship
    ) throws -> [UInt64] {
        let owner = layout.entity(number: relationship.ownerNumber)
        let key = layout.rowKey(bits)
        return try store.rows(matching: FetchSpecification(owner.name)).filter { row in
            guard let slot = relationship.slot else {
                return try savedMembers(of: row.objectID.bits, relationship).contains {
                    layout.rowKey($0) == key
                }
            }
            guard case .objectID(let target) = try row.value(at: slot) else { return false }
            return layout.rowKey(target.bits) == key
        }.map(\.objectID.bits)
    }

    func savedHolders(of key: UniqueKey) throws -> [UInt64] {
        let owner = layout.entity(number: key.owner)
        let slots = owner.slots(ofConstraint: key.properties)
        return try store.rows(matching: FetchSpecification(owner.name)).filter { row in
            UniqueKey(
                owner: key.owner, properties: key.properties,
                values: try slots.map { try row.value(at: $0) }) == key
        }.map(\.objectID.bits)
    }
}

/// An incremental store's objects as a batch request sees them.
struct IncrementalBatchStorage: BatchStorage {
    let rows: IncrementalRows

    private var store: IncrementalStore { rows.store }
    var layout: ResolvedModel { store.layout }
    var identity: StoreIdentity { store.identity }
    var path: String? { store.path }

    func rows(matching request: FetchSpecification) throws -> [ObjectSnapshot] {
        Array(try store.rows(matching: request))
    }

    func savedRow(_ bits: UInt64) throws -> ObjectSnapshot? { try rows.savedRow(bits) }

    func related(
        _ bits: UInt64, through relationship: ResolvedEntity.Relationship
    ) throws -> [ObjectSnapshot] {
        let id = ManagedObjectID(bits: bits, store: identity)
        return Array(try store.relatedRows(of: id, through: relationship))
    }

    func savedHolders(of key: UniqueKey) throws -> [UInt64] { try rows.savedHolders(of: key) }

    func storedObjects() -> StoredObjects { StoredObjects(store: store) }

    func nextPrimaryKey(of entity: ResolvedEntity) throws -> Int64 {
        guard let key = try store.obtainPermanentIDs(for: entity, count: 1).first else {
            throw QuireError(
                .storeUnavailable,
                "A store of type \(store.type.rawValue) did not provide a primary key for a new “\(entity.name)”.",
                entity: entity.name, file: path)
        }
        return key
    }

    func apply(
        _ changes: ChangeSet, checkingCounts counted: [CountedRelationship]
    ) throws -> [ManagedObjectID] {
        changes.isEmpty ? [] : try store.write(changes, checkingCounts: counted)
    }
}

extension IncrementalStoreSave {
    /// The result of a save plan.
    init(_ save: InMemorySavePlan<IncrementalRows>, identity: StoreIdentity) throws {
        let layout = save.layout
        var toMany: [UInt64: [String: [ManagedObjectID]]] = [:]
        for (list, members) in save.lists where save.deleted[list.owner] == nil {
            let entity = layout.entity(number: Int(list.owner >> 48))
            guard
                let bits = save.written[list.owner]?.bits ?? save.known[list.owner]??.objectID.bits
            else { continue }
            let own = layout.entity(number: ManagedObjectID.entityNumber(of: bits))
            let relationship = (own.relationships.count > list.relationship ? own : entity)
                .relationships[list.relationship]
            toMany[list.owner, default: [:]][relationship.name] = members.map {
                ManagedObjectID(bits: $0, store: identity)
            }
        }
        func add(_ key: UInt64, _ node: IncrementalStoreNode, isNew: Bool) {
            let object = Object(
                node: node, toMany: toMany[key] ?? [:],
                entity: layout.entity(number: node.objectID.entityNumber))
            if isNew { inserted.append(object) } else { updated.append(object) }
        }
        for key in save.order {
            guard let row = save.written[key] else { continue }
            var values: [String: AttributeValue] = [:]
            for slot in row.entity.slots where slot.isStored && !row.values[slot.index].isNull {
                values[slot.name] = row.values[slot.index]
            }
            add(
                key,
                IncrementalStoreNode(
                    objectID: ManagedObjectID(bits: row.bits, store: identity),
                    version: row.version, values: values), isNew: row.isNew)
        }
        for key in toMany.keys.sorted() where save.written[key] == nil {
            guard let row = save.known[key] ?? nil else { continue }
            var values: [String: AttributeValue] = [:]
            for slot in row.entity.slots where slot.isStored {
                let value = try row.value(at: slot.index)
                if !value.isNull { values[slot.name] = value }
            }
            add(
                key,
                IncrementalStoreNode(
                    objectID: row.objectID, version: row.version, values: values), isNew: false)
        }
        deleted = save.deleted.values.map(\.objectID).sorted { $0.bits < $1.bits }
    }
}
