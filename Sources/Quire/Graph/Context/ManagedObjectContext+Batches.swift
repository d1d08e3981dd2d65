/// Reading many objects with few queries.
extension ManagedObjectContext {
    /// Reads the values of those of the objects that are faults: with one query for each entity hierarchy, or a
    /// few if there are thousands.
    ///
    /// An object whose row is gone stays a fault, which finds that out when it is used.
    ///
    /// ```swift
    /// let authors = books.compactMap { $0.object("author") }      // faults
    /// try context.realizeFaults(of: authors)
    /// ```
    ///
    /// Call it on the context's queue. Objects of other contexts, and those that are no faults, are passed over.
    ///
    /// - Complexity: O(*n*).
    /// - Throws: ``QuireError`` with code `storeUnavailable` or `invalidFormat`.
    public func realizeFaults(of objects: some Sequence<ManagedObject>) throws {
        checkQueue()
        var wanted: [ManagedObjectID] = []
        for object in objects where object.isFault && object.context === self {
            if object.state.isSuperset(of: [.live, .persisted]) { wanted.append(object.objectID) }
        }
        if wanted.isEmpty { return }
        adoptRows(try source.rows(for: wanted, maximumAge: stalenessInterval))
    }

    /// Has registered faults take over rows.
    func adoptRows(_ rows: RowSet) {
        if identityMap.count == 0 { return }
        for position in rows.indices {
            if let object = identityMap.find(rows.identifierBits(at: position)), object.isFault,
                object.state.contains(.live)
            {
                object.adopt(rows[position])
            }
        }
    }

    /// The rows of objects, read from the source; registered faults among them take theirs over.
    func readRows(of identifiers: some Collection<UInt64>) throws -> RowSet {
        let rows = try source.rows(
            for: identifiers.map { objectID(bits: $0) }, maximumAge: stalenessInterval)
        adoptRows(rows)
        return rows
    }

    /// The object of an identifier's bits; see ``object(with:)``.
    func object(bits: UInt64) -> ManagedObject {
        identityMap.find(bits) ?? object(with: objectID(bits: bits))
    }

    /// Has an object that becomes a fault read anew when it fires: not from what fetch results hold, what was kept of
    /// it, or what its fetched properties have found.
    func forgetRows(of object: ManagedObject) {
        outdatedRows.note(object.objectID.bits)
        forgetSavedVersion(of: object.objectID.bits)
        fetchedPropertyValues[object.objectID.bits] = nil
        source.forgetRows(of: [object.objectID])
    }

    // MARK: Neighbours

    /// How many faults are read together.
    private static let greatestNeighbourCount = 128

    /// Reads a fault together with those that come after it in the relationship whose objects were asked for last.
    ///
    /// - Returns: Whether it was read.
    func realizeWithNeighbours(_ object: ManagedObject) throws -> Bool {
        guard let start = neighbours.firstIndex(of: object.objectID) else { return false }
        var wanted = [object.objectID]
        for id in neighbours[(start + 1)...].prefix(Self.greatestNeighbourCount - 1) {
            if let found = identityMap.find(id.bits), found.isFault,
                found.state.isSuperset(of: [.live, .persisted])
            {
                wanted.append(id)
            }
        }
        if wanted.count == 1 { return false }
        adoptRows(try source.rows(for: wanted, maximumAge: stalenessInterval))
        return !object.isFault
    }

    // MARK: As a source for children

    /// The identifiers of the objects that a request finds, with this context's changes laid over them. Those of
    /// new objects are temporary.
    func objectIDs(matching request: FetchRequest) throws -> ObjectIDList {
        guard overlayIsNeeded(for: request) else {
            return try source.objectIDs(matching: request)
        }
        let overlay = try overlay(for: request)
        return ObjectIDList(bits: try overlay.identifiers(), store: storeIdentity)
    }

    /// What a relationship of several objects leads to, as this context sees it.
    func relatedObjects(
        of objectIDs: [ManagedObjectID], through relationship: EntityLayout.Relationship
    ) throws -> RelatedObjects {
        guard let toMany = relationship.toManyIndex, !tracked.isEmpty else {
            return try source.relatedObjects(of: objectIDs, through: relationship)
        }
        var changed: [ManagedObject] = []
        var others: [ManagedObjectID] = []
        for id in objectIDs {
            guard let object = identityMap.find(id.bits) else {
                others.append(id)
                continue
            }
            if isGone(object) { continue }
            if object.toManyState(toMany).hasChanges || !object.state.contains(.persisted) {
                changed.append(object)
            } else {
                others.append(id)
            }
        }
        var related = try source.relatedObjects(of: others, through: relationship)
        // Rows that this context has changed are not for children.
        related.rows = related.rows.map { rows in
            rows.filtered {
                guard let object = identityMap.find($0) else { return true }
                return !isGone(object) && !hasOwnValues(object)
            }
        }
        for object in changed {
            related.append(object.members(of: relationship), of: object.objectID)
        }
        related.removeMembers { identityMap.find($0).map(isGone) == true }
        return related
    }
}
