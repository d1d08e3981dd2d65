internal import Foundation
internal import OrderedCollections

/// What a parent's children read while their changes wait to be saved: these, laid over the rows of the coordinator. Any thread
/// may use it, and none waits for another.
///
/// The changes were taken first, and rows are read then. Changes that are saved in between are seen in both, and are equal.
final class PendingChangeView: Sendable {
    let changes: PendingChangeSet
    let generation: Int
    /// Whether a save of some of the changes runs, so that the store may have them at any moment.
    let isBeingSaved: Bool
    let coordinator: PersistentStoreCoordinator
    /// The changed objects, from when a request first needs them all.
    private let objects = Lock<[ChangedObject]?>(nil)

    /// A changed object with the row of its values that are not saved, if it has any.
    struct ChangedObject: Sendable {
        let objectID: ManagedObjectID
        let entity: EntityLayout
        let kind: PendingChange.Kind
        let row: ObjectSnapshot?
    }

    init(
        changes: PendingChangeSet, generation: Int, isBeingSaved: Bool,
        coordinator: PersistentStoreCoordinator
    ) {
        self.changes = changes
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
                // Correcting a number takes a second look at the store, which may be another by then.
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

    private func overlay(for request: FetchRequest) throws -> PendingChangeOverlay<PendingObjects> {
        let layer = PendingObjects(view: self)
        return try PendingChangeOverlay(
            of: changedObjects().map(layer.object), in: layer, request: request)
    }

    /// The changed objects.
    ///
    /// - Complexity: O(*n*) when it is called first.
    func changedObjects() throws -> [ChangedObject] {
        try objects.withLock { objects in
            if let objects { return objects }
            var changed: [ChangedObject] = []
            changed.reserveCapacity(changes.changes.count)
            for change in changes.changes where change.kind != .none {
                changed.append(
                    ChangedObject(
                        objectID: change.change.objectID, entity: change.entity, kind: change.kind,
                        row: try row(of: change)))
            }
            objects = changed
            return changed
        }
    }

    // MARK: Rows

    func row(for objectID: ManagedObjectID, maximumAge: Double) throws -> ObjectSnapshot? {
        guard let change = changes[objectID.bits] else {
            return try coordinator.row(for: objectID, maximumAge: maximumAge)
        }
        if change.kind == .deleted { return nil }
        return try row(of: change)
            ?? coordinator.row(for: objectID, maximumAge: maximumAge)
    }

    func rows(for objectIDs: [ManagedObjectID], maximumAge: Double) throws -> RowSet {
        var own: [ObjectSnapshot] = []
        var others: [ManagedObjectID] = []
        for id in objectIDs {
            guard let change = changes[id.bits] else {
                others.append(id)
                continue
            }
            if change.kind == .deleted { continue }
            if let row = try row(of: change) { own.append(row) } else { others.append(id) }
        }
        if own.isEmpty { return try coordinator.rows(for: others, maximumAge: maximumAge) }
        let packed = rowSet(of: own)
        if others.isEmpty { return packed }
        return try coordinator.rows(for: others, maximumAge: maximumAge).appending(packed)
    }

    /// The row with the values that are not saved, if the object has any.
    func row(of change: PendingChange) throws -> ObjectSnapshot? {
        guard let (rows, position) = change.row else { return nil }
        return try rows.rows()[position]
    }

    private func rowSet(of rows: [ObjectSnapshot]) -> RowSet {
        RowSet(rows, layout: coordinator.layout, store: coordinator.storeIdentity)
    }

    private func isDeleted(_ bits: UInt64) -> Bool { changes[bits]?.kind == .deleted }

    /// Puts the rows with values that are not saved in the place of those found, without deleted ones.
    private func replacingRows(in found: RowSet) throws -> RowSet {
        var own: [ObjectSnapshot] = []
        var picks: [RowSet.Pick] = []
        picks.reserveCapacity(found.count)
        for position in found.indices {
            guard let change = changes[found.identifierBits(at: position)] else {
                picks.append(.own(position))
                continue
            }
            if change.kind == .deleted { continue }
            if let row = try row(of: change) {
                picks.append(.other(own.count))
                own.append(row)
            } else {
                picks.append(.own(position))
            }
        }
        if own.isEmpty && picks.count == found.count { return found }
        return found.arranged(picks, with: rowSet(of: own))
    }

    // MARK: Relationships

    /// The rows of the objects in a relationship, in its order.
    func relatedRows(
        of objectID: ManagedObjectID, through relationship: EntityLayout.Relationship
    ) throws -> RowSet {
        let change = changes[objectID.bits]
        if changes.changes.isEmpty {
            return try coordinator.relatedRows(of: objectID, through: relationship)
        }
        switch change?.kind {
        case .deleted: return rowSet(of: [])
        case .inserted:
            return try rows(of: members([], change, relationship), among: rowSet(of: []))
        default: break
        }
        let saved = try coordinator.relatedRows(of: objectID, through: relationship)
        let ids = saved.indices.map { saved.objectID(at: $0) }
        return try rows(of: members(ids, change, relationship), among: saved)
    }

    /// What a relationship leads to.
    private func members(
        _ saved: [ManagedObjectID], _ change: PendingChange?,
        _ relationship: EntityLayout.Relationship
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
        var positions: [UInt64: Int] = [:]
        for position in saved.indices { positions[saved.identifierBits(at: position)] = position }
        var own: [ObjectSnapshot] = []
        var picks: [RowSet.Pick] = []
        picks.reserveCapacity(members.count)
        for id in members {
            if let change = changes[id.bits], let row = try row(of: change) {
                picks.append(.other(own.count))
                own.append(row)
            } else if let position = positions[id.bits] {
                picks.append(.own(position))
            } else if let row = try coordinator.row(for: id, maximumAge: -1) {
                picks.append(.other(own.count))
                own.append(row)
            }
        }
        if own.isEmpty, members.elementsEqual(saved.indices.map(saved.objectID)) { return saved }
        return saved.arranged(picks, with: rowSet(of: own))
    }

    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: EntityLayout.Relationship
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
        // Those are not as the children see them.
        related.rows = related.rows.map { rows in
            rows.filtered { changes[$0].map { $0.kind != .deleted && $0.row == nil } ?? true }
        }
        for id in changed {
            let rows = try relatedRows(of: id, through: relationship)
            related.append(rows.indices.map { rows.objectID(at: $0) }, of: id)
        }
        related.removeMembers(where: isDeleted)
        return related
    }
}

/// The objects of a view, for what is tested in memory.
struct PendingObjects: PendingChangeLayer {
    /// An object, with what has changed or the row that was found.
    struct Object: QuerySubject {
        let objectID: ManagedObjectID
        let entity: EntityLayout
        /// `nil` if it has not changed.
        let kind: PendingChange.Kind?
        let layer: PendingObjects
        /// Its row, if it is at hand.
        let row: ObjectSnapshot?

        var queryLayout: ModelLayout { layer.layout }

        func queryValue(forKey key: String) throws -> QueryValue {
            // Most conditions are about values.
            if let row, case .attribute(let slot) = entity.properties[key] {
                return .value(try row.heldValue(at: slot))
            }
            guard let stored = try layer.stored(self) else { return .value(.null) }
            return try stored.queryValue(forKey: key)
        }
    }

    let view: PendingChangeView
    private let objects: StoredObjects

    init(view: PendingChangeView) {
        self.view = view
        objects = StoredObjects(
            layout: view.coordinator.layout,
            row: { try view.row(for: $0, maximumAge: -1) },
            related: { Array(try view.relatedRows(of: $0, through: $1)) })
    }

    var layout: ModelLayout { view.coordinator.layout }
    var storeIdentity: StoreIdentity { view.coordinator.storeIdentity }
    var source: any ObjectSource { view.coordinator }

    func object(_ changed: PendingChangeView.ChangedObject) -> Object {
        Object(
            objectID: changed.objectID, entity: changed.entity, kind: changed.kind, layer: self,
            row: changed.row)
    }

    private func stored(_ object: Object) throws -> StoredObject? {
        if let row = object.row { return StoredObject(snapshot: row, objects: objects) }
        return try objects.object(for: object.objectID)
    }

    func hasChanges(_ bits: UInt64) -> Bool { view.changes[bits] != nil }

    func isPersisted(_ object: Object) -> Bool { object.kind != .inserted }

    func isThere(_ object: Object) -> Bool {
        switch object.kind {
        case .deleted: false
        // Somebody else may have deleted what merely came into a relationship here.
        default: object.row != nil || (try? stored(object)) != nil
        }
    }

    func object(for rows: RowSet, at position: Int) -> Object {
        let row = rows[position]
        return Object(objectID: row.objectID, entity: row.entity, kind: nil, layer: self, row: row)
    }

    func object(bits: UInt64) throws -> Object {
        let id = ManagedObjectID(bits: bits, store: storeIdentity)
        return Object(
            objectID: id, entity: layout.entity(number: id.entityNumber), kind: nil, layer: self,
            row: nil)
    }

    func matches(_ object: Object, _ query: ResolvedQuery) throws -> Bool {
        try query.matches(object)
    }

    func compare(
        _ left: Object, _ right: Object, by ordering: SortOrdering
    ) throws -> ComparisonResult {
        try ordering.resolvedCompare(left, right)
    }

    func rowSet(of objects: [Object]) throws -> RowSet {
        let rows = try objects.compactMap { try stored($0)?.snapshot }
        return RowSet(rows, layout: layout, store: storeIdentity)
    }
}
