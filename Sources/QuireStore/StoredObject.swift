package import QuireModel
package import QuireQuery
internal import QuireSystem

/// A stored row as predicate subject, for residual predicates that SQL cannot express.
///
/// Related objects are read one by one, each once per ``StoredObjects``.
package struct StoredObject: QuerySubject {
    package let snapshot: ObjectSnapshot
    package let objects: StoredObjects

    package init(snapshot: ObjectSnapshot, objects: StoredObjects) {
        self.snapshot = snapshot
        self.objects = objects
    }

    package var objectID: ManagedObjectID { snapshot.objectID }
    package var resolvedEntity: ResolvedEntity { snapshot.entity }
    package var queryLayout: ResolvedModel { objects.layout }

    package func queryValue(forKey key: String) throws -> QueryValue {
        switch resolvedEntity.properties[key] {
        // For external data only whether there is a value matters.
        case .attribute(let slot):
            if objects.derivesValues, let value = try derivedValue(at: slot) {
                return .value(value)
            }
            return .value(try snapshot.valueWithoutLoading(at: slot))
        case .composite: return .value(try composite(key))
        case .relationship(let index):
            let relationship = resolvedEntity.relationships[index]
            guard let slot = relationship.slot else {
                return .objects(try objects.related(to: self, through: relationship))
            }
            guard case .objectID(let id) = try snapshot.value(at: slot) else {
                return .value(.null)
            }
            // A reference without an object is not missing, in SQL and to a context.
            return try objects.object(for: id).map { .object($0) } ?? .value(.objectID(id))
        case .fetched, nil:
            throw QuireError(
                .unknownKey,
                "\(resolvedEntity.name) has no property “\(key)” that a query can use.",
                entity: resolvedEntity.name, property: key)
        }
    }

    /// The value of a derived attribute, computed from the objects; `nil` if it is not derived, or is the time of a save.
    private func derivedValue(at slot: Int) throws -> AttributeValue? {
        guard resolvedEntity.slots[slot].isDerived,
            let derivation = objects.layout.derivations.derivation(of: slot, in: resolvedEntity)
        else { return nil }
        func related(_ index: Int) throws -> [StoredObject] {
            let relationship = resolvedEntity.relationships[index]
            guard let slot = relationship.slot else {
                return try objects.related(to: self, through: relationship)
            }
            guard case .objectID(let id) = try snapshot.value(at: slot) else { return [] }
            return try objects.object(for: id).map { [$0] } ?? []
        }
        return try derivation.value(
            as: resolvedEntity.storages[slot], count: { try related($0).count },
            values: { index, slot in
                try related(index).map { try $0.snapshot.valueWithoutLoading(at: slot) }
            },
            source: { slot, index in
                guard let index else { return try snapshot.valueWithoutLoading(at: slot) }
                return try related(index).first?.snapshot.valueWithoutLoading(at: slot) ?? .null
            })
    }

    /// The elements of a composite attribute that have values, by name.
    private func composite(_ name: String) throws -> AttributeValue {
        var elements: [String: AttributeValue] = [:]
        for slot in resolvedEntity.slots where slot.name.hasPrefix(name + ".") {
            let value = try snapshot.valueWithoutLoading(at: slot.index)
            let path = slot.name.dropFirst(name.count + 1).split(separator: ".").map(String.init)
            AttributeValue.set(value, at: path[...], of: &elements)
        }
        return .composite(elements)
    }
}

extension AttributeValue {
    fileprivate static func set(
        _ value: AttributeValue, at path: ArraySlice<String>,
        of elements: inout [String: AttributeValue]
    ) {
        guard let key = path.first else { return }
        if path.count == 1 {
            elements[key] = value
            return
        }
        var inner: [String: AttributeValue] = [:]
        if case .composite(let known)? = elements[key] { inner = known }
        set(value, at: path.dropFirst(), of: &inner)
        elements[key] = .composite(inner)
    }
}

/// A cache of the objects read for one request.
package final class StoredObjects {
    package typealias ReadRow = (ManagedObjectID) throws -> ObjectSnapshot?
    package typealias ReadRelated = (ManagedObjectID, ResolvedEntity.Relationship) throws ->
        [ObjectSnapshot]

    let layout: ResolvedModel
    /// Whether derived attributes are computed from the objects, because rows may hold stale derived values.
    let derivesValues: Bool
    private let readRow: ReadRow
    private let readRelated: ReadRelated
    /// A cache of rows; `nil` if reading costs no more than a lookup.
    private var rows: [ManagedObjectID: ObjectSnapshot?]?

    /// Reads from a store.
    package init(store: any PersistentStore) {
        layout = store.layout
        derivesValues = false
        readRow = { try store.row(for: $0) }
        readRelated = { Array(try store.relatedRows(of: $0, through: $1)) }
        rows = [:]
    }

    /// Reads from memory.
    package init(
        layout: ResolvedModel, derivesValues: Bool = false, row: @escaping ReadRow,
        related: @escaping ReadRelated
    ) {
        self.layout = layout
        self.derivesValues = derivesValues
        readRow = row
        readRelated = related
    }

    package func object(for id: ManagedObjectID) throws -> StoredObject? {
        let row = try rows?[id] ?? readRow(id)
        rows?[id] = row
        return row.map { StoredObject(snapshot: $0, objects: self) }
    }

    func related(
        to object: StoredObject, through relationship: ResolvedEntity.Relationship
    ) throws -> [StoredObject] {
        try readRelated(object.objectID, relationship).map {
            StoredObject(snapshot: $0, objects: self)
        }
    }

    /// The rows that satisfy a predicate, sorted by the request if required, within its limit and offset.
    package func filter(
        _ found: RowSet, _ predicate: QueryPredicate?, _ request: FetchSpecification, sorts: Bool
    ) throws -> RowSet {
        var skipped = max(request.fetchOffset, 0)
        var picked: [Int] = []
        for position in try order(of: found, sorts ? request.sortOrderings : []) {
            if request.fetchLimit > 0, picked.count == request.fetchLimit { break }
            if let predicate {
                let object = StoredObject(snapshot: found[position], objects: self)
                guard try PredicateEvaluator(subject: object).holds(predicate) else { continue }
            }
            if skipped > 0 { skipped -= 1 } else { picked.append(position) }
        }
        return found.picking(picked)
    }

    /// The positions of rows in an order; rows that are equal in it stay as they are.
    private func order(of found: RowSet, _ orderings: [SortOrdering]) throws -> [Int] {
        if orderings.isEmpty { return Array(found.indices) }
        let keyed = try found.indices.map { position in
            let object = StoredObject(snapshot: found[position], objects: self)
            return (position, try orderings.map { try $0.resolvedSortValue(of: object) })
        }
        return keyed.sorted { left, right in
            for (index, ordering) in orderings.enumerated() {
                let order = ordering.compare(left.1[index], right.1[index])
                if order != 0 { return order < 0 }
            }
            return left.0 < right.0
        }.map(\.0)
    }
}

// MARK: - Requests in memory

/// Evaluates a fetch request in memory, on the rows of its entity in primary key order. Equivalent to `FetchStatement`.
package struct InMemoryFetch {
    package let query: ResolvedQuery
    package let objects: StoredObjects

    package init(query: ResolvedQuery, objects: StoredObjects) {
        self.query = query
        self.objects = objects
    }

    private var request: FetchSpecification { query.request }
    private var limit: Int { request.fetchLimit > 0 ? request.fetchLimit : .max }
    private var offset: Int { max(request.fetchOffset, 0) }

    /// Calls its closure with the rows of an entity by primary key, until it returns `false`.
    package typealias Scan = (_ body: (ObjectSnapshot) throws -> Bool) throws -> Void

    /// The rows found, in the request's order, within its limit and offset.
    package func rows(_ scan: Scan) throws -> [ObjectSnapshot] {
        if !request.sortOrderings.isEmpty { return try sorted(scan) }
        var skipped = offset
        var found: [ObjectSnapshot] = []
        try forEachMatch(scan) { object in
            if skipped > 0 {
                skipped -= 1
            } else {
                found.append(object.snapshot)
            }
            return found.count < limit
        }
        return found
    }

    /// The number of matching rows, within the request's limit and offset.
    package func count(_ scan: Scan) throws -> Int {
        var count = 0
        try forEachMatch(scan) { _ in
            count += 1
            return count < limit || count - limit < offset
        }
        return max(0, min(count - offset, limit))
    }

    private func forEachMatch(
        _ scan: Scan, _ body: (StoredObject) throws -> Bool
    ) throws {
        let predicate = request.predicate
        let monitor = request.monitor
        if case .constant(false)? = predicate { return }
        var count = 0
        try monitor?.check()
        try withoutActuallyEscaping(body) { body in
            try scan { row in
                let object = StoredObject(snapshot: row, objects: objects)
                count += 1
                if let monitor {
                    monitor.didRead(rows: count)
                    if count % FetchMonitor.interval == 0 { try monitor.check() }
                }
                guard try predicate.map(PredicateEvaluator(subject: object).holds) ?? true else {
                    return true
                }
                return try body(object)
            }
        }
    }

    private func sorted(_ scan: Scan) throws -> [ObjectSnapshot] {
        let orderings = request.sortOrderings
        var keyed: [(row: ObjectSnapshot, keys: [AttributeValue])] = []
        try forEachMatch(scan) { object in
            keyed.append(
                (object.snapshot, try orderings.map { try $0.resolvedSortValue(of: object) }))
            return true
        }
        // Ties are broken by position, so that equal rows stay in primary key order.
        let order = keyed.indices.sorted { left, right in
            for (index, ordering) in orderings.enumerated() {
                let order = ordering.compare(keyed[left].keys[index], keyed[right].keys[index])
                if order != 0 { return order < 0 }
            }
            return left < right
        }
        return order.dropFirst(offset).prefix(limit).map { keyed[$0].row }
    }
}
