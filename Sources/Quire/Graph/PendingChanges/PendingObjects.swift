internal import Foundation

/// The objects of a view, for what is tested in memory.
final class PendingObjects: PendingChangeLayer {
    /// An object, with what has changed or the row that was found. It is small enough for an existential to hold it.
    struct Object: QuerySubject {
        let layer: PendingObjects
        /// The position of its change; -1 if it has not changed.
        let position: Int
        /// What was found, if it has not changed.
        let found: FoundObject?
    }

    /// An object that has not changed.
    final class FoundObject {
        let objectID: ManagedObjectID
        let row: ObjectSnapshot?

        init(_ objectID: ManagedObjectID, _ row: ObjectSnapshot?) {
            self.objectID = objectID
            self.row = row
        }
    }

    let view: PendingChangeView
    private let objects: StoredObjects

    init(view: PendingChangeView) {
        self.view = view
        objects = StoredObjects(
            layout: view.coordinator.layout,
            derivesValues: !view.coordinator.layout.derivations.isEmpty,
            row: { try view.row(for: $0, maximumAge: -1) },
            related: { Array(try view.relatedRows(of: $0, through: $1)) })
    }

    var layout: ModelLayout { view.coordinator.layout }
    var storeIdentity: StoreIdentity { view.coordinator.storeIdentity }
    var source: any ObjectSource { view.coordinator }

    /// The changed objects.
    func changedObjects() -> [Object] {
        let changes = view.changes.changes
        return changes.indices.lazy.filter { changes[$0].kind != .none }
            .map { Object(layer: self, position: $0, found: nil) }
    }

    func hasChanges(_ bits: UInt64) -> Bool { view.changes.contains(bits) }

    func isPersisted(_ object: Object) -> Bool {
        object.position < 0 || view.changes.changes[object.position].kind != .inserted
    }

    func isThere(_ object: Object) -> Bool {
        if object.position >= 0 {
            if view.changes.changes[object.position].hasValues { return true }
            if view.changes.changes[object.position].kind == .deleted { return false }
        }
        // Somebody else may have deleted what merely came into a relationship here.
        return (try? object.stored()) != nil
    }

    func object(for rows: RowSet, at position: Int) -> Object {
        let row = rows[position]
        return Object(layer: self, position: -1, found: FoundObject(row.objectID, row))
    }

    func object(bits: UInt64) throws -> Object {
        let id = ManagedObjectID(bits: bits, store: storeIdentity)
        return Object(layer: self, position: -1, found: FoundObject(id, nil))
    }

    func matches(_ object: Object, _ query: ResolvedQuery) throws -> Bool {
        try query.matches(object)
    }

    /// Which objects satisfy a condition about nothing but their own values is found out once for each state of the changes.
    func candidates(
        in overlay: PendingChangeOverlay<PendingObjects>, matching query: ResolvedQuery
    ) throws -> [Object] {
        let positions: [Int]
        if let known = view.matches[query] {
            positions = known
        } else {
            let areKnown = overlay.changed.allSatisfy {
                !overlay.isOfEntity($0) || view.changes.changes[$0.position].hasValues
                    || view.changes.changes[$0.position].kind == .deleted
            }
            guard areKnown, !query.isRandom, query.entitiesBeyond.isEmpty else {
                return try overlay.testedCandidates(matching: query)
            }
            positions = try self.positions(in: overlay, matching: query)
            view.matches[query] = positions
        }
        return positions.map { Object(layer: self, position: $0, found: nil) }
    }

    /// The positions of the changed objects, with values or deleted, that a request is to find.
    private func positions(
        in overlay: PendingChangeOverlay<PendingObjects>, matching query: ResolvedQuery
    ) throws -> [Int] {
        guard query.request.affectedStores == nil, !query.asksForDerivedValues,
            let condition = SlotCondition(query.predicate, of: query.entity)
        else { return try overlay.testedCandidates(matching: query).map(\.position) }
        return try overlay.changed.lazy.map(\.position).filter { position in
            let entity = view.changes.changes[position].change.entity
            guard view.changes.changes[position].hasValues,
                entity === query.entity
                    || query.request.includesSubentities
                        && query.entity.subtree.contains(entity.number)
            else { return false }
            return try condition.holds {
                try view.changes.value(ofChangeAt: position, slot: $0)
            }
        }
    }

    func compare(
        _ left: Object, _ right: Object, by ordering: SortOrdering
    ) throws -> ComparisonResult {
        try ordering.resolvedCompare(left, right)
    }

    func rowSet(of objects: [Object]) throws -> RowSet {
        let changes = view.changes.changes
        if objects.allSatisfy({ $0.position >= 0 && changes[$0.position].hasValues }) {
            return try view.rowSet(ofChangesAt: objects.lazy.map(\.position))
        }
        let rows = try objects.compactMap { try $0.stored()?.snapshot }
        return RowSet(rows, layout: layout, store: storeIdentity)
    }

    fileprivate func stored(_ object: Object) throws -> StoredObject? {
        if let row = object.found?.row { return StoredObject(snapshot: row, objects: objects) }
        return try objects.object(for: object.objectID)
    }
}

extension PendingObjects.Object {
    var objectID: ManagedObjectID {
        found?.objectID ?? layer.view.changes.changes[position].change.objectID
    }
    var entity: EntityLayout { layer.layout.entity(number: objectID.entityNumber) }
    var queryLayout: ModelLayout { layer.layout }

    func queryValue(forKey key: String) throws -> QueryValue {
        // Most conditions are about values.
        if position >= 0, case .attribute(let slot) = entity.properties[key],
            !entity.slots[slot].isDerived, layer.view.changes.changes[position].hasValues
        {
            return .value(try layer.view.changes.value(ofChangeAt: position, slot: slot))
        }
        guard let stored = try stored() else { return .value(.null) }
        return try stored.queryValue(forKey: key)
    }

    fileprivate func stored() throws -> StoredObject? { try layer.stored(self) }
}
