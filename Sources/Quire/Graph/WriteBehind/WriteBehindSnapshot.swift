internal import Foundation
internal import OrderedCollections

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

    // MARK: Requests

    func rows(matching request: FetchRequest) throws -> RowSet {
        if changes.changes.isEmpty { return try coordinator.rows(matching: request) }
        if request.includesPendingChanges { return try overlay(for: request).rows() }
        return try replacingRows(in: coordinator.rows(matching: request))
    }

    func count(matching request: FetchRequest) throws -> Int {
        if changes.changes.isEmpty { return try coordinator.count(matching: request) }
        if request.includesPendingChanges {
            var request = request
            if isBeingSaved {
                // Correcting a count would need a second read of the store, which may have changed.
                request.sortOrderings = []
                return try overlay(for: request).identifiers().count
            }
            request.resultType = .count
            return try overlay(for: request).count()
        }
        if !changes.hasDeletions { return try coordinator.count(matching: request) }
        return try objectIDs(matching: request).count
    }

    func objectIDs(matching request: FetchRequest) throws -> ObjectIDList {
        if changes.changes.isEmpty { return try coordinator.objectIDs(matching: request) }
        if request.includesPendingChanges {
            return ObjectIDList(
                bits: try overlay(for: request).identifiers(), store: coordinator.storeIdentity)
        }
        let found = try coordinator.objectIDs(matching: request)
        return ObjectIDList(bits: found.bits.filter { !isDeleted($0) }, store: found.store)
    }

    private func overlay(for request: FetchRequest) throws -> PendingChangeOverlay<SnapshotObjects>
    {
        let layer = SnapshotObjects(view: self)
        return try PendingChangeOverlay(of: layer.changedObjects(), in: layer, request: request)
    }

    // MARK: Rows

    func row(for objectID: ManagedObjectID, maximumAge: Double) throws -> ObjectSnapshot? {
        if let position = changes.position(of: objectID.bits) {
            if changes.changes[position].kind == .deleted { return nil }
            if changes.changes[position].hasValues {
                return try rowSet(ofChangesAt: [position]).first
            }
        }
        return try coordinator.row(for: objectID, maximumAge: maximumAge)
    }

    func rows(for objectIDs: [ManagedObjectID], maximumAge: Double) throws -> RowSet {
        var own: [Int] = []
        var others: [ManagedObjectID] = []
        for id in objectIDs {
            guard let position = changes.position(of: id.bits) else {
                others.append(id)
                continue
            }
            if changes.changes[position].kind == .deleted { continue }
            if changes.changes[position].hasValues {
                own.append(position)
            } else {
                others.append(id)
            }
        }
        if own.isEmpty { return try coordinator.rows(for: others, maximumAge: maximumAge) }
        let packed = try rowSet(ofChangesAt: own)
        if others.isEmpty { return packed }
        return try coordinator.rows(for: others, maximumAge: maximumAge).appending(packed)
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

    private func isDeleted(_ bits: UInt64) -> Bool { changes[bits]?.kind == .deleted }

    /// Replaces fetched rows by those with unsaved values, and removes deleted ones.
    private func replacingRows(in found: RowSet) throws -> RowSet {
        var own: [Int] = []
        var picks: [RowSet.Pick] = []
        picks.reserveCapacity(found.count)
        for position in found.indices {
            guard let change = changes.position(of: found.identifierBits(at: position)) else {
                picks.append(.own(position))
                continue
            }
            if changes.changes[change].kind == .deleted { continue }
            if changes.changes[change].hasValues {
                picks.append(.other(own.count))
                own.append(change)
            } else {
                picks.append(.own(position))
            }
        }
        if own.isEmpty && picks.count == found.count { return found }
        return try found.arranged(picks, with: rowSet(ofChangesAt: own))
    }

    // MARK: Relationships

    /// The rows of the objects in a relationship, in its order.
    func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet {
        let change = changes[objectID.bits]
        if changes.changes.isEmpty {
            return try coordinator.relatedRows(of: objectID, through: relationship)
        }
        switch change?.kind {
        case .deleted: return try rowSet(ofChangesAt: [])
        case .inserted:
            return try rows(of: members([], change, relationship), among: rowSet(ofChangesAt: []))
        default: break
        }
        let saved = try coordinator.relatedRows(of: objectID, through: relationship)
        let ids = saved.indices.map { saved.objectID(at: $0) }
        return try rows(of: members(ids, change, relationship), among: saved)
    }

    /// The contents of a relationship.
    private func members(
        _ saved: [ManagedObjectID], _ change: PendingChange?,
        _ relationship: ResolvedEntity.Relationship
    ) -> [ManagedObjectID] {
        var members = saved
        let toMany = change?.change.toManyChanges.first { toMany in
            change?.entity.relationships[toMany.relationshipIndex].toManyIndex
                == relationship.toManyIndex
        }
        if let toMany {
            let removed = Set(toMany.removed)
            members.removeAll(where: removed.contains)
            let present = Set(members)
            members += toMany.added.filter { !present.contains($0) }
            if let order = toMany.order {
                let present = OrderedSet(members)
                members = OrderedSet(order.filter(present.contains)).union(present).elements
            }
        }
        members.removeAll { isDeleted($0.bits) }
        return members
    }

    private func rows(of members: [ManagedObjectID], among saved: RowSet) throws -> RowSet {
        var positions: [UInt64: RowSet.Pick] = [:]
        for position in saved.indices {
            let bits = saved.identifierBits(at: position)
            if changes[bits]?.hasValues != true { positions[bits] = .own(position) }
        }
        let others = try rows(
            for: members.filter { positions[$0.bits] == nil }, maximumAge: -1)
        if others.isEmpty, members.elementsEqual(saved.indices.map(saved.objectID)) { return saved }
        for position in others.indices {
            positions[others.identifierBits(at: position)] = .other(position)
        }
        return saved.arranged(members.compactMap { positions[$0.bits] }, with: others)
    }

    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects {
        if changes.changes.isEmpty || relationship.toManyIndex == nil {
            return try coordinator.relatedObjects(of: objectIDs, through: relationship)
        }
        var changed: [ManagedObjectID] = []
        var others: [ManagedObjectID] = []
        for id in objectIDs {
            guard let change = changes[id.bits] else {
                others.append(id)
                continue
            }
            switch change.kind {
            case .deleted: break
            case .inserted: changed.append(id)
            default:
                if change.change.toManyChanges.isEmpty {
                    others.append(id)
                } else {
                    changed.append(id)
                }
            }
        }
        var related = try coordinator.relatedObjects(of: others, through: relationship)
        // Objects changed by the children differ from their rows.
        related.rows = related.rows.map { rows in
            rows.filtered { changes[$0].map { $0.kind != .deleted && !$0.hasValues } ?? true }
        }
        for id in changed {
            let rows = try relatedRows(of: id, through: relationship)
            related.append(rows.indices.map { rows.objectID(at: $0) }, of: id)
        }
        related.removeMembers(where: isDeleted)
        return related
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
    private let objects: StoredObjects

    init(view: WriteBehindSnapshot) {
        self.view = view
        objects = StoredObjects(
            layout: view.coordinator.layout,
            derivesValues: !view.coordinator.layout.derivations.isEmpty,
            row: { try view.row(for: $0, maximumAge: -1) },
            related: { Array(try view.relatedRows(of: $0, through: $1)) })
    }

    var layout: ResolvedModel { view.coordinator.layout }
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
        // An object only added to a relationship here may have been deleted by another context.
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

    /// Predicates about an object's own values only are evaluated once for each state of the changes.
    func candidates(
        in overlay: PendingChangeOverlay<SnapshotObjects>, matching query: ResolvedQuery
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

    /// The positions of the matching changed objects, with values or deleted.
    private func positions(
        in overlay: PendingChangeOverlay<SnapshotObjects>, matching query: ResolvedQuery
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

extension SnapshotObjects.Object {
    var objectID: ManagedObjectID {
        found?.objectID ?? layer.view.changes.changes[position].change.objectID
    }
    var entity: ResolvedEntity { layer.layout.entity(number: objectID.entityNumber) }
    var queryLayout: ResolvedModel { layer.layout }

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
