/// Decides which objects are among the results of a request, by what they are sorted, and in which section they are.
struct ResultQuery {
    let context: ManagedObjectContext
    let request: FetchRequest
    let resolved: ResolvedQuery
    /// What the section names come from.
    private let section: (ordering: SortOrdering, type: AttributeType)?
    /// The key paths through relationships of condition, order and sections.
    let paths: [QueryKeyPath]
    /// The ways to the other objects that decide.
    let ways: [Way]
    /// Whether values decide that the store derives when it saves.
    let dependsOnDerivedValues: Bool

    /// The relationships that lead to objects which decide about the one they lead from.
    struct Way {
        var steps: [QueryKeyPath.Step]
        /// The number of steps that lead to objects whose values or relationships decide. Of what the last one may lead to
        /// beyond, it counts only which objects that are.
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
        _ request: FetchRequest, sectionNameKeyPath: String?, context: ManagedObjectContext
    ) throws {
        self.context = context
        self.request = request
        guard !request.sortOrderings.isEmpty else {
            throw QuireError(
                .invalidQuery,
                "The request for \(request.entityName) has no sort ordering, and the results of a controller need one.",
                subject: .init(entity: request.entityName))
        }
        guard request.resultType == .objects else {
            throw QuireError(
                .invalidQuery,
                "The results of a controller are objects, but the request for \(request.entityName) asks for something else.",
                subject: .init(entity: request.entityName))
        }
        guard request.includesPendingChanges else {
            throw QuireError(
                .invalidQuery,
                "A controller follows unsaved changes, but includesPendingChanges of the request for "
                    + "\(request.entityName) is false.",
                subject: .init(entity: request.entityName))
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

    /// The way of a key path, and the one from there to what the attribute at its end is derived from.
    private static func ways(_ path: QueryKeyPath, in layout: ModelLayout) -> [Way] {
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
        _ text: String, from entity: EntityLayout, in layout: ModelLayout
    ) throws -> QueryKeyPath {
        let path = try QueryKeyPath(
            text.split(separator: ".").map(String.init), from: entity, in: layout)
        guard path.slot != nil, !path.isToMany else {
            throw QuireError(
                .invalidQuery,
                "“\(text)” of \(entity.name) names no sections: it must lead to an attribute, through "
                    + "to-one relationships only.",
                subject: .init(entity: entity.name, property: text))
        }
        return path
    }

    // MARK: Objects

    /// Whether the request is about an object's entity.
    func isAbout(_ bits: UInt64) -> Bool {
        let number = Int(bits >> 48 & 0x7FFF)
        return request.includesSubentities
            ? resolved.entity.subtree.contains(number) : resolved.entity.number == number
    }

    /// Whether an object of an entity may decide about results other than itself.
    func looksAt(_ bits: UInt64) -> Bool {
        let number = Int(bits >> 48 & 0x7FFF)
        return ways.contains { way in
            way.steps.prefix(way.decidingCount).contains { $0.destination.subtree.contains(number) }
        }
    }

    /// What an object is as a result; `nil` if it is none.
    ///
    /// - Throws: What evaluating the condition throws.
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

    /// How many objects are read at once.
    private static let batchSize = 512

    /// Tests objects by their identifiers, reading those that are faults with few queries.
    ///
    /// - Parameter body: Gets each identifier, in the order given, and what its object is as a result.
    /// - Throws: What reading or testing throws.
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

    /// The object of an identifier; `nil` for one that was never saved and has left.
    private func object(_ bits: UInt64) -> ManagedObject? {
        if let object = context.identityMap.find(bits) { return object }
        return bits >> 63 == 1 ? nil : context.object(bits: bits)
    }

    /// Runs a closure while the values of objects, and what the query asks beyond them, are at hand.
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
        let found = try context.fetch(request)
        items.reserveCapacity(found.count)
        for object in found {
            // It does, but its row may have gone since, or another context have changed it.
            if let item = try item(object) { items.append(item) }
        }
        return items
    }
}
