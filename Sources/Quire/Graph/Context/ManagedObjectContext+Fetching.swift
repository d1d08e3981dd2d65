public import Foundation
internal import QuireStore

extension ManagedObjectContext {
    /// Fetches objects, including unsaved changes of this context and its parents.
    ///
    /// - Complexity: One query and a copy of the rows found. If the context has changes that can matter to the
    ///   request, O(*n*) in these too.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery` or `storeUnavailable`.
    public func fetch<Object>(_ request: FetchRequest<Object>) throws -> FetchedObjects<Object> {
        checkQueue()
        let request = try request.specification(in: layout)
        let keyPaths = try prefetchPaths(of: request)
        if readsIdentifiers(request, keyPaths) {
            let identifiers = try overlaidIdentifiers(matching: request)
            if request.shouldRefreshRefetchedObjects { refreshRefetched(identifiers) }
            return fetched(identifiers, request, keyPaths)
        }
        var rows = try overlaidRows(matching: request)
        if request.shouldRefreshRefetchedObjects, refreshRefetched(rows) {
            rows = try overlaidRows(matching: request)
        }
        return try fetched(rows, request, keyPaths)
    }

    /// Fetches objects as an array, where the call requires one: `let books: [Book] = try context.fetch(request)`.
    ///
    /// An array has all objects at once; ``FetchedObjects`` creates each on access.
    ///
    /// - Complexity: As a fetch of ``FetchedObjects``, and O(*n*) in the objects found.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery` or `storeUnavailable`.
    @_disfavoredOverload
    public func fetch<Object>(_ request: FetchRequest<Object>) throws -> [Object] {
        let objects: FetchedObjects<Object> = try fetch(request)
        return Array(objects)
    }

    /// Fetches the objects of a class, including unsaved changes of this context and its parents.
    ///
    /// ```swift
    /// let all = try context.fetch(Book.self)
    /// let early = try context.fetch(Book.self, where: #Predicate { $0.year < 1800 }, sortBy: [SortDescriptor(\.title)])
    /// ```
    ///
    /// A ``FetchRequest`` has all other options of a fetch: limits, batches, prefetching.
    ///
    /// - Throws: As ``fetch(_:)->FetchedObjects<Object>``, and ``QuireError`` with code `unsupported` if a query cannot express
    ///   the predicate or order; see ``QueryPredicate/init(_:)`` and ``SortOrdering/init(_:)``.
    public func fetch<Object: ManagedObject>(
        _ objectClass: Object.Type, where predicate: Predicate<Object>? = nil,
        sortBy descriptors: [SortDescriptor<Object>] = []
    ) throws -> FetchedObjects<Object> {
        try fetch(
            FetchRequest(
                predicate: try predicate.map { try QueryPredicate($0) }, sortBy: descriptors))
    }

    /// Fetches the objects of a class as an array, where the call requires one.
    ///
    /// - Complexity: As a fetch of ``FetchedObjects``, and O(*n*) in the objects found.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery`, `storeUnavailable` or `unsupported`.
    @_disfavoredOverload
    public func fetch<Object: ManagedObject>(
        _ objectClass: Object.Type, where predicate: Predicate<Object>? = nil,
        sortBy descriptors: [SortDescriptor<Object>] = []
    ) throws -> [Object] {
        let objects: FetchedObjects<Object> = try fetch(
            objectClass, where: predicate, sortBy: descriptors)
        return Array(objects)
    }

    /// Whether a fetch reads only identifiers at first.
    func readsIdentifiers(_ request: FetchSpecification, _ keyPaths: [QueryKeyPath]) -> Bool {
        request.fetchBatchSize > 0 || (!request.includesPropertyValues && keyPaths.isEmpty)
    }

    /// The objects of rows that were found for a request.
    func fetched<Object>(
        _ rows: RowSet, _ request: FetchSpecification, _ keyPaths: [QueryKeyPath]
    ) throws -> FetchedObjects<Object> {
        FetchedObjects(
            results: try FetchResults(
                rows: rows, keyPaths: keyPaths,
                newObjects: newObjects(rows.indices.lazy.map(rows.identifierBits), request),
                context: self))
    }

    /// The objects of identifiers that were found for a request.
    func fetched<Object>(
        _ identifiers: ContiguousArray<UInt64>, _ request: FetchSpecification,
        _ keyPaths: [QueryKeyPath]
    ) -> FetchedObjects<Object> {
        FetchedObjects(
            results: FetchResults(
                identifiers: identifiers, batchSize: max(request.fetchBatchSize, 0),
                keyPaths: keyPaths, newObjects: newObjects(identifiers, request), context: self))
    }

    /// The new objects that a request has found.
    private func newObjects(
        _ identifiers: some Sequence<UInt64>, _ request: FetchSpecification
    ) -> [UInt64: ManagedObject] {
        var result: [UInt64: ManagedObject] = [:]
        guard overlayIsNeeded(for: request) else { return result }
        // Children and obtainPermanentIDs(for:) give new objects permanent ones.
        let canBePermanent = tracked.contains { $0.isNew && !$0.objectID.isTemporaryID }
        for bits in identifiers where bits >> 63 == 1 || canBePermanent {
            if let object = identityMap.find(bits), object.isNew { result[bits] = object }
        }
        return result
    }

    func prefetchPaths(of request: FetchSpecification) throws -> [QueryKeyPath] {
        if request.relationshipKeyPathsForPrefetching.isEmpty { return [] }
        let entity = try layout.requireEntity(named: request.entityName)
        return try request.relationshipKeyPathsForPrefetching.map { text in
            let keys = text.split(separator: ".").map(String.init)
            let path = try QueryKeyPath(keys, from: entity, in: layout)
            guard case .object = path.end, !path.steps.isEmpty,
                !path.steps.contains(where: { $0.relationship.description.isTransient })
            else {
                throw QuireError(
                    .invalidQuery,
                    "“\(text)” of \(entity.name) cannot be prefetched: the key path must contain only "
                        + "stored relationships.",
                    entity: entity.name, property: text)
            }
            return path
        }
    }

    /// The number of objects matching a request, including unsaved changes.
    ///
    /// - Complexity: The source counts. If the context has changes that can matter to the request, O(*n*) in these too;
    ///   if its condition looks at other objects that have changed, every object of the entity is tested.
    /// - Throws: As ``fetch(_:)->FetchedObjects<Object>``.
    public func count<Object>(for request: FetchRequest<Object>) throws -> Int {
        checkQueue()
        return try overlaidCount(matching: request.specification(in: layout))
    }

    /// The number of objects of a class that satisfy a Foundation predicate, including unsaved changes.
    ///
    /// - Throws: As ``fetch(_:where:sortBy:)->FetchedObjects<Object>``.
    public func count<Object: ManagedObject>(
        for objectClass: Object.Type, where predicate: Predicate<Object>? = nil
    ) throws -> Int {
        try count(
            for: FetchRequest<Object>(predicate: try predicate.map { try QueryPredicate($0) }))
    }

    /// The object of an identifier, without checking that it exists: a fault, unless the context already has
    /// it.
    ///
    /// - Precondition: The identifier is of one of the context's stores.
    public func object(with objectID: ManagedObjectID) -> ManagedObject {
        checkQueue()
        let objectID = storeIdentity.adopting(objectID) ?? objectID
        if let object = identityMap.find(objectID.bits) {
            return object.state.contains(.discarded) ? replaceDiscarded(object) : object
        }
        if objectID.isTemporaryID, let permanent = permanentID(for: objectID) {
            return object(with: permanent)
        }
        precondition(
            objectID.entityNumber >= 1 && objectID.entityNumber <= layout.entities.count
                && (objectID.isTemporaryID || objectID.store === storeIdentity),
            "\(objectID) is not an object of this context's stores.")
        if objectID.isTemporaryID { return unknownObject(objectID) }
        let object = makeObject(objectID, layout.entity(number: objectID.entityNumber))
        if !prefetches.isEmpty, let row = prefetchedRow(objectID.bits) { object.adopt(row) }
        return object
    }

    /// The object of a temporary identifier that no object here has: one that was deleted before it was saved, or another
    /// context's. No store has its row, so that it counts as deleted, unless a parent over a read-only store knows it.
    private func unknownObject(_ objectID: ManagedObjectID) -> ManagedObject {
        let object = instance(
            objectID, layout.entity(number: objectID.entityNumber), state: [])
        register(object, for: objectID.bits)
        if parent != nil { object.realize() }
        return object
    }

    /// The object of an identifier, read if it is not registered.
    ///
    /// An identifier with a superentity of the object's entity is equivalent to its own. An object whose deletion is unsaved is
    /// returned: its ``ManagedObject/isDeleted`` is true.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the object does not exist, or `storeUnavailable`.
    public func existingObject(with objectID: ManagedObjectID) throws -> ManagedObject {
        checkQueue()
        let objectID = storeIdentity.adopting(objectID) ?? objectID
        if objectID.isTemporaryID, let permanent = permanentID(for: objectID) {
            return try existingObject(with: permanent)
        }
        if let object = identityMap.find(objectID.bits) {
            if object.state.contains(.persisted) && !object.state.contains(.live) { return object }
            if object.state.isSuperset(of: [.realized, .live]) {
                if object.isInaccessible { throw notFound(objectID) }
                return object
            }
        }
        guard objectID.isTemporaryID || objectID.store === storeIdentity,
            let snapshot = try source.row(for: objectID)
        else { throw notFound(objectID) }
        let object = object(for: snapshot)
        guard object.state.contains(.live) else { throw notFound(objectID) }
        return object
    }

    /// The registered object of an identifier, without a read.
    public func registeredObject(for objectID: ManagedObjectID) -> ManagedObject? {
        checkQueue()
        let objectID = storeIdentity.adopting(objectID) ?? objectID
        guard let object = identityMap.find(objectID.bits) else {
            guard objectID.isTemporaryID, let permanent = permanentID(for: objectID) else {
                return nil
            }
            return registeredObject(for: permanent)
        }
        return object.state.contains(.discarded) ? nil : object
    }

    package func notFound(_ objectID: ManagedObjectID) -> QuireError {
        QuireError(
            .notFound, "The object \(objectID.shortDescription) does not exist.",
            entity: objectID.entityName, object: objectID.uriRepresentation)
    }

    // MARK: Objects for rows

    /// Instantiates the entity's class.
    @inline(__always)
    func instance(
        _ id: ManagedObjectID, _ entity: ResolvedEntity, state: ManagedObject.State
    ) -> ManagedObject {
        guard let objectClass = entity.objectClass else {
            return ManagedObject(
                ObjectInitializer(
                    objectID: id, entity: entity, context: self, state: state))
        }
        return subclassInstance(objectClass, id, entity, state: state)
    }

    @inline(never)
    private func subclassInstance(
        _ objectClass: any EntityClass.Type, _ id: ManagedObjectID, _ entity: ResolvedEntity,
        state: ManagedObject.State
    ) -> ManagedObject {
        guard let objectClass = objectClass as? ManagedObject.Type else {
            preconditionFailure(
                "The class of \(entity.name), \(objectClass), is not a subclass of ManagedObject.")
        }
        return objectClass.init(
            ObjectInitializer(
                objectID: id, entity: entity, context: self,
                state: state.union(.hasHooks)))
    }

    private func makeObject(_ id: ManagedObjectID, _ entity: ResolvedEntity) -> ManagedObject {
        let object = instance(id, entity, state: [.live, .persisted])
        register(object, for: id.bits)
        return object
    }

    /// The object of a row; a fault takes the row over.
    func object(for snapshot: ObjectSnapshot) -> ManagedObject {
        let id = snapshot.objectID
        let object = identityMap.find(id.bits) ?? makeObject(id, snapshot.entity)
        reviveIfDeleted(object)
        object.adopt(snapshot)
        return object
    }

    /// Turns an object whose deletion was saved into a fault, because its row was found: another context has undone the
    /// deletion. One that was deleted before it was saved, as its being tracked shows, stays deleted.
    func reviveIfDeleted(_ object: ManagedObject) {
        guard object.state.isDisjoint(with: [.live, .persisted, .tracked]) else { return }
        object.turnIntoFault()
        object.state.formUnion([.live, .persisted])
    }

    /// The object of a row in a set; a fault takes the row over.
    @inline(__always)
    func object(for rows: RowSet, at position: Int) -> ManagedObject {
        checkQueue()
        // Prefetch into the CPU cache: objects are mostly accessed in order.
        rows.prefetch(position + 8)
        let location = rows.locations[position]
        let chunk = rows.chunks[Int(location.chunk)]
        let row = PackedRow(chunk: chunk, offset: Int(location.offset))
        let bits = row.identifierBits
        let object: ManagedObject
        if let found = identityMap.find(bits) {
            if found.state.isSuperset(of: [.realized, .live]) { return found }
            reviveIfDeleted(found)
            if found.state.contains(.realized) { return found }
            object = found
        } else {
            let id = objectID(bits: bits)
            object = makeObject(id, layout.entity(number: id.entityNumber))
        }
        object.chunk = chunk
        object.rowOffset = location.offset
        object.version = row.version
        object.state.insert(.realized)
        object.state.remove(.inaccessible)
        if object.state.contains(.hasHooks) { object.didArrive() }
        return object
    }

    func objectID(bits: UInt64) -> ManagedObjectID {
        ManagedObjectID(
            bits: bits, store: bits >> 63 == 1 ? temporaryIdentity : storeIdentity)
    }

    /// The row for a fault: prefetched, read with its batch, or read singly.
    func rowForFault(of object: ManagedObject) throws -> ObjectSnapshot? {
        if !prefetches.isEmpty, let row = prefetchedRow(object.objectID.bits) { return row }
        if try !prefetchWindow.isEmpty && realizeWithNeighbours(object) { return object.snapshot }
        return try source.row(for: object.objectID, maximumAge: stalenessInterval)
    }

    /// The rows of the objects in an object's to-many relationship, read from the source.
    func relatedRows(
        of object: ManagedObject, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet {
        let rows = try source.relatedRows(of: object.objectID, through: relationship)
        // Faults registered here adopt the rows, so that they need not be read one by one.
        for position in rows.indices {
            if let found = identityMap.find(rows.identifierBits(at: position)) {
                found.adopt(rows[position])
            }
        }
        return rows
    }
}

// MARK: - Other results

extension ManagedObjectContext {
    /// Fetches identifiers, including unsaved changes of this context and its parents.
    ///
    /// - Throws: As ``fetch(_:)->FetchedObjects<Object>``.
    public func fetchObjectIDs<Object>(
        _ request: FetchRequest<Object>
    ) throws -> [ManagedObjectID] {
        checkQueue()
        return try overlaidIdentifiers(matching: request.specification(in: layout)).map {
            objectID(bits: $0)
        }
    }

    /// Values of the matching objects, or of groups of them, by column names.
    ///
    /// As in Core Data the values are the saved ones: unsaved changes of this context and its parents are ignored, regardless of
    /// ``FetchSpecification/includesPendingChanges``. Values keep their types: the minimum of dates is a date, an object is its
    /// identifier.
    ///
    /// ```swift
    /// var request = FetchRequest("Book")
    /// request.propertiesToGroupBy = ["author.name"]
    /// request.propertiesToFetch = ["author.name", try ExpressionDescription("n", format: "count(title)")]
    /// request.havingPredicate = try QueryPredicate(format: "n > 3")
    /// request.sortOrderings = [SortOrdering("n", ascending: false)]
    /// ```
    ///
    /// Dictionaries that the sort order does not distinguish are ordered by primary key, groups by their grouping values,
    /// distinct ones by their values.
    ///
    /// - Complexity: One statement, or two if the predicate cannot be expressed in SQL. Columns that SQL cannot express are
    ///   computed in memory, from all rows.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery` or `storeUnavailable`.
    public func fetchDictionaries<Object>(
        _ request: FetchRequest<Object>
    ) throws -> FetchedDictionaries {
        checkQueue()
        return try storeToRead.dictionaries(
            matching: request.specification(in: layout))
    }

    /// Streams the dictionaries of ``fetchDictionaries(_:)`` as they are read.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey` or `invalidQuery`.
    package func streamDictionaries<Object>(
        _ request: FetchRequest<Object>
    ) throws -> DictionaryStream {
        checkQueue()
        return try DictionaryStream(
            request.specification(in: layout), of: storeToRead)
    }

    /// The store's execution plan for a request: the statement, its bound values and SQLite's query plan. Unsaved changes,
    /// which contexts overlay on the results, are not part of it.
    ///
    /// - Throws: As ``fetch(_:)->FetchedObjects<Object>``, and with code `unsupported` if the store has no plans.
    public func explain<Object>(_ request: FetchRequest<Object>) throws -> FetchExplanation {
        checkQueue()
        return try storeToRead.explain(request.specification(in: layout))
    }
}
