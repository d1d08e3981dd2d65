internal import Foundation
internal import QuireStore

/// Unsaved changes over a source: those of a context's objects, or buffered values (``WriteBehindSnapshot``).
///
/// The functions of ``ObjectReader`` are implemented here once for both: they show a child what a save of the layer would
/// make of its source.
protocol PendingChangeLayer: ObjectReader {
    /// A changed object, or one that a predicate refers to.
    associatedtype Object: QuerySubject
    /// The changed objects, made on demand if that is cheaper.
    associatedtype ChangedList: Collection<Object>

    var layout: ResolvedModel { get }
    var storeIdentity: StoreIdentity { get }
    /// The source under the changes.
    var source: any ObjectSource { get }

    /// Whether there are changed objects.
    var hasChangedObjects: Bool { get }
    /// Whether a save of the changes runs, so that the source may have them at any moment.
    var isBeingSaved: Bool { get }
    func changedObjects() -> ChangedList

    func entry(_ bits: UInt64) -> PendingChangeEntry<Object>
    /// The members of an object's to-many relationship, if they may differ from those in the source, which `saved` reads.
    /// Deleted objects may be among them.
    func members(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship,
        saved: () throws -> RowSet
    ) rethrows -> [ManagedObjectID]?

    /// Whether the object of an identifier has changed.
    func hasChanges(_ bits: UInt64) -> Bool
    /// Whether a changed object may be found by the source, too.
    func isPersisted(_ object: Object) -> Bool
    /// Whether an object is neither deleted nor known to be missing.
    func isThere(_ object: Object) throws -> Bool
    func object(for rows: RowSet, at position: Int) -> Object
    func object(bits: UInt64) throws -> Object
    func matches(_ object: Object, _ query: ResolvedQuery) throws -> Bool
    /// The changed objects that may match a request.
    func candidates(
        in overlay: PendingChangeOverlay<Self>, matching query: ResolvedQuery
    ) throws -> [Object]
    func compare(
        _ left: Object, _ right: Object, by ordering: SortOrdering
    ) throws -> ComparisonResult
    /// Rows of objects with the values they have in the layer.
    func rowSet(of objects: [Object]) throws -> RowSet
}

/// The state of an object in a layer.
enum PendingChangeEntry<Object> {
    /// Nothing: its row is the source's.
    case none
    /// A row read from the source, which may have a newer one.
    case read(ObjectSnapshot)
    /// Values beside its row.
    case changed(Object)
    /// It is deleted, or known not to exist.
    case deleted
}

// MARK: - Requests

extension PendingChangeLayer {
    /// Whether changes can matter to a request.
    func overlayIsNeeded(for request: FetchSpecification) -> Bool {
        request.includesPendingChanges && hasChangedObjects
    }

    /// The rows matching a request, with the changes overlaid if it includes them.
    func overlaidRows(matching request: FetchSpecification) throws -> RowSet {
        guard overlayIsNeeded(for: request) else { return try source.rows(matching: request) }
        return try PendingChangeOverlay(of: self, for: request).rows()
    }

    /// The identifiers of the objects matching a request, with the changes overlaid if it includes them. Those of new objects
    /// may be temporary.
    func overlaidIdentifiers(matching request: FetchSpecification) throws -> ContiguousArray<UInt64>
    {
        guard overlayIsNeeded(for: request) else {
            return try source.objectIDs(matching: request).bits
        }
        return try PendingChangeOverlay(of: self, for: request).identifiers()
    }

    /// The number of objects matching a request, with the changes overlaid if it includes them.
    func overlaidCount(matching request: FetchSpecification) throws -> Int {
        guard overlayIsNeeded(for: request) else { return try source.count(matching: request) }
        var request = request
        if isBeingSaved {
            // Correcting a count would need a second read of the store, which may have changed.
            request.sortOrderings = []
            return try PendingChangeOverlay(of: self, for: request).identifiers().count
        }
        request.resultType = .count
        return try PendingChangeOverlay(of: self, for: request).count()
    }

    /// Whether a request is matched against saved values that differ from the present ones. Its results show the present ones
    /// nevertheless, without deleted objects.
    private func hidesChanges(from request: FetchSpecification) -> Bool {
        !request.includesPendingChanges && hasChangedObjects
    }

    func rows(matching request: FetchSpecification) throws -> RowSet {
        let found = try overlaidRows(matching: request)
        guard hidesChanges(from: request) else { return found }
        var changed: [Object] = []
        var picks: [RowSet.Pick] = []
        picks.reserveCapacity(found.count)
        for position in found.indices {
            switch entry(found.identifierBits(at: position)) {
            case .none, .read: picks.append(.own(position))
            case .changed(let object):
                picks.append(.other(changed.count))
                changed.append(object)
            case .deleted: break
            }
        }
        if changed.isEmpty && picks.count == found.count { return found }
        return found.arranged(picks, with: try rowSet(of: changed))
    }

    func objectIDs(matching request: FetchSpecification) throws -> ObjectIDList {
        var found = try overlaidIdentifiers(matching: request)
        if hidesChanges(from: request) { found.removeAll(where: isDeleted) }
        return ObjectIDList(bits: found, store: storeIdentity)
    }

    func count(matching request: FetchSpecification) throws -> Int {
        guard hidesChanges(from: request),
            try changedObjects().contains(where: { try !isThere($0) })
        else { return try overlaidCount(matching: request) }
        return try objectIDs(matching: request).count
    }
}

// MARK: - Rows

extension PendingChangeLayer {
    private func isDeleted(_ bits: UInt64) -> Bool {
        if case .deleted = entry(bits) { true } else { false }
    }

    /// Whether the source's row of an object is shown.
    private func isAsInSource(_ bits: UInt64) -> Bool {
        switch entry(bits) {
        case .none, .read: true
        case .changed, .deleted: false
        }
    }

    func row(for objectID: ManagedObjectID, maximumAge: Double) throws -> ObjectSnapshot? {
        switch entry(objectID.bits) {
        case .none: try source.row(for: objectID, maximumAge: maximumAge)
        case .read(let row): row
        case .changed(let object): try rowSet(of: [object]).first
        case .deleted: nil
        }
    }

    func rows(for objectIDs: [ManagedObjectID], maximumAge: Double) throws -> RowSet {
        var read: [ObjectSnapshot] = []
        var changed: [Object] = []
        var others: [ManagedObjectID] = []
        for id in objectIDs {
            switch entry(id.bits) {
            // For a fault of a child a row that was read is as good as a cached one.
            case .read(let row) where maximumAge != 0: read.append(row)
            case .none, .read: others.append(id)
            case .changed(let object): changed.append(object)
            case .deleted: break
            }
        }
        var rows = try source.rows(for: others, maximumAge: maximumAge)
        if !read.isEmpty {
            rows = rows.appending(RowSet(read, layout: layout, store: storeIdentity))
        }
        return changed.isEmpty ? rows : rows.appending(try rowSet(of: changed))
    }
}

// MARK: - Relationships

extension PendingChangeLayer {
    /// - Complexity: O(*n*) in the objects of the relationship; rows are packed of those with changes only.
    func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet {
        let saved: RowSet
        switch entry(objectID.bits) {
        case .deleted: return try rowSet(of: [])
        case .changed(let object) where !isPersisted(object): saved = try rowSet(of: [])
        default: saved = try source.relatedRows(of: objectID, through: relationship)
        }
        let changed = members(of: objectID, through: relationship) { saved }
        if changed == nil && !hasChangedObjects { return saved }
        var members = changed ?? saved.indices.map(saved.objectID)
        members.removeAll { isDeleted($0.bits) }
        var picks: [UInt64: RowSet.Pick] = [:]
        for position in saved.indices {
            let bits = saved.identifierBits(at: position)
            if isAsInSource(bits) { picks[bits] = .own(position) }
        }
        let others = try rows(for: members.filter { picks[$0.bits] == nil }, maximumAge: -1)
        if others.isEmpty, members.elementsEqual(saved.indices.lazy.map(saved.objectID)) {
            return saved
        }
        for position in others.indices {
            picks[others.identifierBits(at: position)] = .other(position)
        }
        return saved.arranged(members.compactMap { picks[$0.bits] }, with: others)
    }

    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: ResolvedEntity.Relationship
    ) throws -> RelatedObjects {
        var changed: [(owner: ManagedObjectID, members: [ManagedObjectID])] = []
        var others: [ManagedObjectID] = []
        for id in objectIDs where !isDeleted(id.bits) {
            let members = try members(of: id, through: relationship) {
                try source.relatedRows(of: id, through: relationship)
            }
            if let members { changed.append((id, members)) } else { others.append(id) }
        }
        var related = try source.relatedObjects(of: others, through: relationship)
        related.rows = related.rows.map { $0.filtered(isAsInSource) }
        for (owner, members) in changed { related.append(members, of: owner) }
        related.removeMembers(where: isDeleted)
        return related
    }
}
