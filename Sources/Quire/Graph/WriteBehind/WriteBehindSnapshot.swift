internal import Foundation
internal import OrderedCollections
internal import QuireStore

/// The snapshot that a parent's children read while their changes are buffered: these, overlaid on the rows of the coordinator.
/// Usable from any thread, without waiting for another.
///
/// The changes are captured first, and rows are read later. Changes saved in between are in both, and are equal.
final class WriteBehindSnapshot: Sendable {
    let changes: PendingChangeSet
    let generation: Int
    /// Whether a save of some of the changes runs, so that the store may have them at any moment.
    let isBeingSaved: Bool
    let coordinator: PersistentStoreCoordinator
    let matches: PredicateMatchCache

    init(
        changes: PendingChangeSet, matches: PredicateMatchCache, generation: Int,
        isBeingSaved: Bool,
        coordinator: PersistentStoreCoordinator
    ) {
        self.changes = changes
        self.matches = matches
        self.generation = generation
        self.isBeingSaved = isBeingSaved
        self.coordinator = coordinator
    }

    /// The changes as a layer over the coordinator, or the coordinator itself if there are none.
    var reader: any ObjectReader {
        changes.changes.isEmpty ? coordinator : SnapshotObjects(view: self)
    }

    /// The rows that changed objects with values would have.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if a row would be larger than rows can be.
    func rowSet(ofChangesAt positions: some Collection<Int>) throws -> RowSet {
        var builder = RowSetBuilder(
            layout: coordinator.layout, store: coordinator.storeIdentity,
            externalData: UnsavedExternalData(), expectedRows: positions.count)
        builder.reserveCapacity(positions.count)
        for position in positions {
            let entity = changes.changes[position].change.entity
            // With the parent's save the object will be of another version.
            builder.beginRow(
                changes.changes[position].change.objectID.bits, entity: entity, version: 0)
            for slot in entity.slots where slot.isStored {
                let value = try changes.value(ofChangeAt: position, slot: slot.index)
                try builder.setWithoutLoading(value, at: slot)
            }
            builder.endRow()
        }
        return builder.finish()
    }
}

// MARK: - Objects

/// The objects of a snapshot, for predicates evaluated in memory.
final class SnapshotObjects: PendingChangeLayer {
    /// An object, with its change or its row. It is small enough for an existential's inline buffer.
    struct Object: QuerySubject {
        let layer: SnapshotObjects
        /// The position of its change; -1 if it has not changed.
        let position: Int
        /// The row, if it has not changed.
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

    let view: WriteBehindSnapshot
    /// The objects that predicates refer to, with the values of the snapshot.
    private lazy var objects = StoredObjects(
        layout: layout, derivesValues: !layout.derivations.isEmpty,
        row: { [view] in try SnapshotObjects(view: view).row(for: $0, maximumAge: -1) },
        related: { [view] in Array(try SnapshotObjects(view: view).relatedRows(of: $0, through: $1))
        })

    init(view: WriteBehindSnapshot) { self.view = view }

    var layout: ResolvedModel { view.coordinator.layout }
    var storeIdentity: StoreIdentity { view.coordinator.storeIdentity }
    var source: any ObjectSource { view.coordinator }

    var hasChangedObjects: Bool { !view.changes.changes.isEmpty }
    var isBeingSaved: Bool { view.isBeingSaved }

    func changedObjects() -> some Collection<Object> {
        let changes = view.changes.changes
        return changes.indices.lazy.filter { changes[$0].kind != .none }
            .map { Object(layer: self, position: $0, found: nil) }
    }

    func entry(_ bits: UInt64) -> PendingChangeEntry<Object> {
        guard let position = view.changes.position(of: bits) else { return .none }
        if view.changes.changes[position].kind == .deleted { return .deleted }
        return view.changes.changes[position].hasValues
            ? .changed(Object(layer: self, position: position, found: nil)) : .none
    }

    func members(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship,
        saved: () throws -> RowSet
    ) rethrows -> [ManagedObjectID]? {
        guard let pending = view.changes[objectID.bits] else { return nil }
        let toMany = pending.change.toManyChanges.first {
            pending.entity.relationships[$0.relationshipIndex].toManyIndex
                == relationship.toManyIndex
        }
        guard let toMany else { return pending.kind == .inserted ? [] : nil }
        var members: [ManagedObjectID] = []
        if pending.kind != .inserted {
            let rows = try saved()
            let removed = Set(toMany.removed)
            members = rows.indices.map(rows.objectID).filter { !removed.contains($0) }
        }
        let present = Set(members)
        members += toMany.added.filter { !present.contains($0) }
        guard let order = toMany.order else { return members }
        let contents = OrderedSet(members)
        return OrderedSet(order.filter(contents.contains)).union(contents).elements
    }

    func hasChanges(_ bits: UInt64) -> Bool { view.changes.contains(bits) }

    func isPersisted(_ object: Object) -> Bool {
        object.position < 0 || view.changes.changes[object.position].kind != .inserted
    }

    func isThere(_ object: Object) throws -> Bool {
        if object.position >= 0 {
            if view.changes.changes[object.position].hasValues { return true }
            if view.changes.changes[object.position].kind == .deleted { return false }
        }
        // An object only added to a relationship here may have been deleted by another context.
        return try object.stored() != nil
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

    /// Predicates about an object's own values only are evaluated once for each state of the changes.
    func candidates(
        in overlay: PendingChangeOverlay<SnapshotObjects>, matching query: ResolvedQuery
    ) throws -> [Object] {
        let positions: [Int]
        if let known = view.matches[query] {
            positions = known
        } else {
            let areKnown = view.changes.changes.indices.allSatisfy {
                view.changes.changes[$0].kind != .updated || view.changes.changes[$0].hasValues
                    || !isOfEntity($0, query)
            }
            guard areKnown, !query.isRandom, query.entitiesBeyond.isEmpty else {
                return try overlay.testedCandidates(matching: query)
            }
            positions = try self.positions(in: overlay, matching: query)
            view.matches[query] = positions
        }
        return positions.map { Object(layer: self, position: $0, found: nil) }
    }

    /// The positions of the matching changed objects, with values or deleted.
    private func positions(
        in overlay: PendingChangeOverlay<SnapshotObjects>, matching query: ResolvedQuery
    ) throws -> [Int] {
        guard query.request.affectedStores == nil, !query.asksForDerivedValues,
            let condition = SlotCondition(query.predicate, of: query.entity)
        else { return try overlay.testedCandidates(matching: query).map(\.position) }
        return try view.changes.changes.indices.filter { position in
            guard view.changes.changes[position].hasValues, isOfEntity(position, query) else {
                return false
            }
            return try condition.holds {
                try view.changes.value(ofChangeAt: position, slot: $0)
            }
        }
    }

    private func isOfEntity(_ position: Int, _ query: ResolvedQuery) -> Bool {
        let entity = view.changes.changes[position].change.entity
        return entity === query.entity
            || query.request.includesSubentities
                && query.entity.subtree.contains(entity.number)
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

extension SnapshotObjects.Object {
    var objectID: ManagedObjectID {
        found?.objectID ?? layer.view.changes.changes[position].change.objectID
    }
    var resolvedEntity: ResolvedEntity { layer.layout.entity(number: objectID.entityNumber) }
    var queryLayout: ResolvedModel { layer.layout }

    func queryValue(forKey key: String) throws -> QueryValue {
        // Most conditions are about values.
        if position >= 0, case .attribute(let slot) = resolvedEntity.properties[key],
            !resolvedEntity.slots[slot].isDerived, layer.view.changes.changes[position].hasValues
        {
            return .value(try layer.view.changes.value(ofChangeAt: position, slot: slot))
        }
        guard let stored = try stored() else { return .value(.null) }
        return try stored.queryValue(forKey: key)
    }

    fileprivate func stored() throws -> StoredObject? { try layer.stored(self) }
}

// MARK: - Matches

/// Cached predicate matches for one state of the changes, by query.
final class PredicateMatchCache: Sendable {
    fileprivate struct Question: Hashable {
        let entity: Int
        let includesSubentities: Bool
        let predicate: QueryPredicate
        /// The bytes of its texts, where the other properties do not identify it.
        let texts: [UInt8]
        let stores: [String]?
    }

    private let answers = Lock<[Question: [Int]]>([:])
    /// The maximum number of cached queries.
    private static var maximumCount: Int { 64 }

    /// The cached positions of the matching changes, if there is an entry.
    subscript(query: ResolvedQuery) -> [Int]? {
        get {
            let question = Question(query)
            return answers.withLock { $0[question] }
        }
        set {
            let question = Question(query)
            answers.withLock { answers in
                if answers.count >= Self.maximumCount { answers = [:] }
                answers[question] = newValue
            }
        }
    }
}

extension PredicateMatchCache.Question {
    init(_ query: ResolvedQuery) {
        entity = query.entity.number
        includesSubentities = query.request.includesSubentities
        predicate = query.predicate
        var texts: [UInt8] = []
        predicate.appendTexts(to: &texts)
        self.texts = texts
        stores = query.request.affectedStores
    }
}
