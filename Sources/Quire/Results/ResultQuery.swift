/// Determines the results of a request, their sort values, and their sections.
struct ResultQuery {
    let context: ManagedObjectContext
    let request: FetchSpecification
    private(set) var resolved: ResolvedQuery
    /// The source of the section names.
    private let section: (ordering: SortOrdering, type: AttributeType)?
    /// The key paths through relationships of predicate, order and sections.
    let paths: [QueryKeyPath]
    /// The paths to other objects that affect the results.
    let ways: [Way]
    /// Whether the results depend on derived values.
    let dependsOnDerivedValues: Bool

    /// A path of relationships from a result to objects that affect it.
    struct Way {
        var steps: [QueryKeyPath.Step]
        /// The number of steps to objects whose values or relationships affect the result. Of the destinations of the last step
        /// only the existence matters.
        var decidingCount: Int
    }

    var orderings: [SortOrdering] { resolved.request.sortOrderings }
    var hasSections: Bool { section != nil }
    /// Whether results are left out that are results but for their number.
    var isWindow: Bool { request.fetchLimit > 0 || request.fetchOffset > 0 }

    /// Checks a request.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery` or `unsupported`.
    init(
        _ request: FetchSpecification, sectionNameKeyPath: String?, context: ManagedObjectContext
    ) throws {
        self.context = context
        self.request = request
        guard !request.sortOrderings.isEmpty else {
            throw QuireError(
                .invalidQuery,
                "The request for \(request.entityName) has no sort ordering, which a controller requires.",
                entity: request.entityName)
        }
        guard request.resultType == .objects else {
            throw QuireError(
                .invalidQuery,
                "A controller requires objects, but the request for \(request.entityName) has another result type.",
                entity: request.entityName)
        }
        guard request.includesPendingChanges else {
            throw QuireError(
                .invalidQuery,
                "A controller observes unsaved changes, but includesPendingChanges of the request for "
                    + "\(request.entityName) is false.",
                entity: request.entityName)
        }
        resolved = try ResolvedQuery(request, in: context.layout, store: context.storeIdentity)
        var paths = resolved.keyPaths
        if let text = sectionNameKeyPath {
            let path = try Self.sectionPath(text, from: resolved.entity, in: context.layout)
            paths.append(path)
            section = (SortOrdering(text), path.slot?.attribute?.type ?? .string)
        } else {
            section = nil
        }
        self.paths = paths.filter { !$0.steps.isEmpty }
        ways = paths.flatMap { Self.ways($0, in: context.layout) }
        dependsOnDerivedValues = paths.contains { $0.slot?.isDerived ?? false }
    }

    /// Replaces temporary identifiers in the request by those that their objects have now.
    mutating func updateTemporaryIDs() throws {
        guard resolved.namesTemporaryIDs else { return }
        resolved = try ResolvedQuery(request, in: context.layout, store: context.storeIdentity)
    }

    /// The dependency paths of a key path: its own, and the one to the sources of a derived attribute at its end.
    private static func ways(_ path: QueryKeyPath, in layout: ResolvedModel) -> [Way] {
        guard case .slot(let slot) = path.end else {
            return [Way(steps: path.steps, decidingCount: max(path.steps.count - 1, 0))]
        }
        var ways = [Way(steps: path.steps, decidingCount: path.steps.count)]
        let entity = path.destination
        if entity.slots[slot].isDerived,
            let index = layout.derivations.derivation(of: slot, in: entity)?.relationshipIndex
        {
            let relationship = entity.relationships[index]
            let steps =
                path.steps + [
                    QueryKeyPath.Step(
                        source: entity, index: index,
                        destination: layout.destination(of: relationship),
                        isToMany: relationship.isToMany)
                ]
            let looksAtMembers = path.derivationSource(in: layout) != nil
            ways.append(
                Way(steps: steps, decidingCount: looksAtMembers ? steps.count : path.steps.count))
        }
        return ways
    }

    private static func sectionPath(
        _ text: String, from entity: ResolvedEntity, in layout: ResolvedModel
    ) throws -> QueryKeyPath {
        let path = try QueryKeyPath(
            text.split(separator: ".").map(String.init), from: entity, in: layout)
        guard path.slot != nil, !path.isToMany else {
            throw QuireError(
                .invalidQuery,
                "“\(text)” of \(entity.name) is not a section key path: it must refer to an attribute, through "
                    + "to-one relationships only.",
                entity: entity.name, property: text)
        }
        return path
    }

    // MARK: Objects

    /// Whether the request is about an object's entity.
    func isAbout(_ bits: UInt64) -> Bool {
        let number = ManagedObjectID.entityNumber(of: bits)
        return request.includesSubentities
            ? resolved.entity.subtree.contains(number) : resolved.entity.number == number
    }

    /// Whether an object of an entity may affect results other than itself.
    func dependsOn(_ bits: UInt64) -> Bool {
        let number = ManagedObjectID.entityNumber(of: bits)
        return ways.contains { way in
            way.steps.prefix(way.decidingCount).contains { $0.destination.subtree.contains(number) }
        }
    }

    /// The result item of an object; `nil` if it is not a result.
    ///
    /// - Throws: Errors of evaluating the predicate.
    func item(_ object: ManagedObject) throws -> ResultList.Item? {
        guard object.context === context, object.state.contains(.live) else { return nil }
        object.realize()
        if object.isInaccessible { return nil }
        return try context.withoutNoting {
            guard try resolved.matches(object) else { return nil }
            var item = ResultList.Item(bits: object.objectID.bits, values: [])
            item.values.reserveCapacity(orderings.count)
            for ordering in orderings {
                item.values.append(try ordering.resolvedSortValue(of: object))
            }
            if let section {
                let value = try section.ordering.resolvedSortValue(of: object)
                item.sectionName = value.text(as: section.type) ?? ""
            }
            return item
        }
    }

    // MARK: Reading

    /// The number of objects read at once.
    private static let batchSize = 512

    /// Tests objects by their identifiers, fulfilling faults with few queries.
    ///
    /// - Parameter body: Called with each identifier, in the order given, and the object's result item.
    /// - Throws: Errors of reading or testing.
    func test(
        _ identifiers: [UInt64], _ body: (UInt64, ResultList.Item?) throws -> Void
    ) throws {
        var start = 0
        while start < identifiers.count {
            let end = min(start + Self.batchSize, identifiers.count)
            try withRead(identifiers[start..<end]) {
                for bits in identifiers[start..<end] {
                    try body(bits, object(bits).flatMap { try item($0) })
                }
            }
            start = end
        }
    }

    /// The object of an identifier; `nil` for a new one that has left the context.
    private func object(_ bits: UInt64) -> ManagedObject? {
        if let object = context.identityMap.find(bits) { return object }
        return bits >> 63 == 1 ? nil : context.object(bits: bits)
    }

    /// Runs a closure while the values of objects, and those of the query's dependencies, are in memory.
    private func withRead(_ identifiers: ArraySlice<UInt64>, _ body: () throws -> Void) throws {
        let faults = identifiers.filter {
            $0 >> 63 == 0 && context.identityMap.find($0)?.isFault ?? true
        }
        if faults.isEmpty { return try body() }
        let rows = try context.readRows(of: faults)
        let objects = rows.indices.map { context.object(for: rows, at: $0) }
        let prefetched =
            paths.isEmpty || rows.isEmpty
            ? nil : try PrefetchedObjects(paths, of: rows, context: context)
        try withExtendedLifetime((objects, prefetched)) { try body() }
    }

    /// All results, in order.
    ///
    /// - Complexity: O(*n*): one query, and one or two for each relationship that the order or the sections need.
    /// - Throws: What fetching throws.
    func fetch() throws -> ContiguousArray<ResultList.Item> {
        var request = request
        request.fetchBatchSize = 0
        request.includesPropertyValues = true
        request.relationshipKeyPathsForPrefetching = paths.filter { !$0.isToMany }.map { path in
            path.steps.map(\.relationship.name).joined(separator: ".")
        }
        var items: ContiguousArray<ResultList.Item> = []
        let found = try context.fetch(FetchRequest<ManagedObject>(request))
        items.reserveCapacity(found.count)
        for object in found {
            // It matches, but its row may have been deleted since, or changed by another context.
            if let item = try item(object) { items.append(item) }
        }
        return items
    }
}

// MARK: - Results concerned by changes

/// The objects that may have become results, ceased to be, or moved, after a change.
struct AffectedResults {
    /// To be tested, each once.
    private(set) var tested: [UInt64] = []
    /// Known to be no results any more, if they were.
    private(set) var removed: [UInt64] = []
    /// The objects that have changed themselves.
    private(set) var updated: Set<UInt64> = []
    /// Whether any object may be affected, also unlisted ones.
    private(set) var isUnbounded = false
    private var seen: Set<UInt64> = []

    init(_ changes: ContextChange, _ query: ResultQuery, _ list: ResultList) {
        if changes.isSave {
            addSaved(changes.event, query)
            if query.dependsOnDerivedValues { addChanged(changes, query, list) }
        } else {
            addDeleted(changes, query)
            addChanged(changes, query, list)
        }
    }

    /// Whether nothing is concerned.
    var isEmpty: Bool { tested.isEmpty && removed.isEmpty && !isUnbounded }

    private mutating func addSaved(_ event: EventChanges, _ query: ResultQuery) {
        // These objects are missing only now, while references to them remain.
        if event.deleted.contains(where: { query.dependsOnDeletion($0.objectID.bits) }) {
            isUnbounded = true
        }
        // Among equal sort values new objects come last, saved ones do not.
        if query.isWindow, event.inserted.contains(where: { query.isAbout($0.objectID.bits) }) {
            isUnbounded = true
        }
    }

    private mutating func addDeleted(_ changes: ContextChange, _ query: ResultQuery) {
        let identifiers =
            changes.event.deleted.map(\.objectID.bits) + changes.merged.deleted.map(\.bits)
        for bits in identifiers {
            if query.dependsOnDeletion(bits) || (changes.isByRows && query.dependsOnRows(bits)) {
                isUnbounded = true
            }
            if query.isAbout(bits), seen.insert(bits).inserted { removed.append(bits) }
        }
    }

    private mutating func addChanged(
        _ changes: ContextChange, _ query: ResultQuery, _ list: ResultList
    ) {
        let (event, merged) = (changes.event, changes.merged)
        var identifiers = (event.updated + event.refreshed + event.invalidated).map(\.objectID.bits)
        for ids in [merged.updated, merged.refreshed, merged.invalidated] {
            for id in ids where query.context.isKnownStore(id) { identifiers.append(id.bits) }
        }
        for bits in identifiers { addChanged(bits, changes, query) }
        // A row of another context that the list has already was read after its insertion, before the merge.
        let known = Set(merged.inserted.lazy.map(\.bits).filter { list.handles[$0] != nil })
        identifiers = event.inserted.map(\.objectID.bits)
        for id in merged.inserted where query.context.isKnownStore(id) {
            identifiers.append(id.bits)
        }
        for bits in identifiers {
            addChanged(bits, changes, query, isResult: known.contains(bits))
        }
    }

    /// Adds a changed object, unless it is a result that has not changed itself, and the results that it decides about.
    private mutating func addChanged(
        _ bits: UInt64, _ changes: ContextChange, _ query: ResultQuery, isResult: Bool = false
    ) {
        if changes.isByRows && query.dependsOnRows(bits) { isUnbounded = true }
        if query.isAbout(bits) && !isResult {
            updated.insert(bits)
            if seen.insert(bits).inserted { tested.append(bits) }
        }
        if query.dependsOn(bits) { addResults(decidedBy: bits, query) }
    }

    private mutating func addResults(decidedBy bits: UInt64, _ query: ResultQuery) {
        if isUnbounded { return }
        // An object that left the context unsaved: the objects that referred to it have changed with that.
        if bits >> 63 == 1 && query.context.identityMap.find(bits) == nil { return }
        guard let found = query.objects(leadingTo: query.context.object(bits: bits)) else {
            isUnbounded = true
            return
        }
        for bits in found where query.isAbout(bits) && seen.insert(bits).inserted {
            tested.append(bits)
        }
    }
}

// MARK: - Relationships

/// The results affected by an object that is not one itself, found by the inverse path.
extension ResultQuery {
    /// The possible results from which key paths reach a changed object, by the inverses of the relationships on the path.
    /// Former referrers have changed themselves.
    ///
    /// - Complexity: O(*n*) in the objects on the path.
    /// - Returns: `nil` if a relationship has no maintained inverse, so that any result may be affected.
    func objects(leadingTo object: ManagedObject) -> [UInt64]? {
        var found: [UInt64] = []
        for way in ways {
            for position in 0..<way.decidingCount
            where way.steps[position].destination.subtree.contains(object.resolvedEntity.number) {
                guard let start = objects(leadingTo: object, way.steps[...position]) else {
                    return nil
                }
                found += start
            }
        }
        return found
    }

    private func objects(
        leadingTo object: ManagedObject, _ steps: ArraySlice<QueryKeyPath.Step>
    ) -> [UInt64]? {
        var reached: Set<UInt64> = [object.objectID.bits]
        for step in steps.reversed() {
            guard let inverse = keptInverse(of: step) else { return nil }
            var next: Set<UInt64> = []
            for bits in reached {
                for id in context.relatedIDs(of: context.object(bits: bits), inverse) {
                    next.insert(id.bits)
                }
            }
            reached = next
        }
        return Array(reached)
    }

    /// The inverse relationship, if delete propagation clears the references to a deleted object.
    private func keptInverse(of step: QueryKeyPath.Step) -> ResolvedEntity.Relationship? {
        guard let inverse = context.layout.inverse(of: step.relationship),
            inverse.description.deleteRule != .noAction
        else { return nil }
        return inverse
    }

    /// Whether objects of an entity are on a path: the objects that refer to them may have no changes of their own.
    func dependsOnRows(_ bits: UInt64) -> Bool {
        let number = ManagedObjectID.entityNumber(of: bits)
        return ways.contains { $0.steps.contains { $0.destination.subtree.contains(number) } }
    }

    /// Whether deleting an object can change results that only refer to it.
    func dependsOnDeletion(_ bits: UInt64) -> Bool {
        let number = ManagedObjectID.entityNumber(of: bits)
        return ways.contains { way in
            way.steps.contains { step in
                step.destination.subtree.contains(number) && keptInverse(of: step) == nil
            }
        }
    }
}
