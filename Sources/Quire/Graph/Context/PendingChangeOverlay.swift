internal import Foundation
internal import QuireStore

/// Overlays pending changes on a source's results for a request.
///
/// Rows of changed objects are removed from the source's results; changed objects are tested in memory, and matching ones are
/// merged in sort order. If the predicate or the order depends on other objects through relationships and any of those has
/// changed, every candidate is tested in memory instead.
struct PendingChangeOverlay<Layer: PendingChangeLayer> {
    typealias Object = Layer.Object

    let layer: Layer
    let request: FetchSpecification
    let entity: ResolvedEntity
    let changed: Layer.ChangedList

    init(of layer: Layer, for request: FetchSpecification) throws {
        self.layer = layer
        self.request = request
        entity = try layer.layout.requireEntity(named: request.entityName)
        changed = layer.changedObjects()
    }

    func isOfEntity(_ object: Object) -> Bool {
        request.includesSubentities
            ? entity.subtree.contains(object.resolvedEntity.number)
            : object.resolvedEntity === entity
    }

    /// Evaluates the predicate on each changed object.
    func testedCandidates(matching query: ResolvedQuery) throws -> [Object] {
        try changed.filter {
            try isOfEntity($0) && layer.isThere($0) && layer.matches($0, query)
        }
    }

    /// The request for the source, and the processing of its results.
    struct Plan {
        let resolved: ResolvedQuery
        /// The request for the source.
        let source: FetchSpecification
        /// Whether the source's results need no overlay.
        let isComplete: Bool

        /// Whether every object of the entity is tested in memory, because the predicate refers to other changed objects.
        func testsAll(_ request: FetchSpecification) -> Bool {
            source.predicate == nil && request.predicate != nil
        }
    }

    func plan() throws -> Plan {
        var resolved = try ResolvedQuery(
            request, in: layer.layout, store: layer.storeIdentity)
        var wide = request
        if request.resultType == .count && !request.sortOrderings.isEmpty {
            // The sort order does not affect a count.
            wide.sortOrderings = []
            resolved = try ResolvedQuery(wide, in: layer.layout, store: layer.storeIdentity)
        }
        wide.fetchLimit = 0
        wide.fetchOffset = 0
        let looksFurther = looksAtOtherChangedObjects(resolved)
        if !looksFurther && !changed.contains(where: isOfEntity) {
            return Plan(resolved: resolved, source: request, isComplete: true)
        }
        if looksFurther {
            wide.predicate = nil
            wide.sortOrderings = []
        } else if request.fetchLimit > 0 && request.resultType != .count {
            // Even if all changed objects are in the source's results, enough others are left.
            wide.fetchLimit = request.fetchLimit + request.fetchOffset + changed.count
        }
        return Plan(resolved: resolved, source: wide, isComplete: false)
    }

    // MARK: Counting

    /// The number of objects that the request, whose result is a number, finds.
    func count() throws -> Int {
        let plan = try plan()
        return try plan.testsAll(request)
            ? rows(plan, found: layer.source.rows(matching: plan.source)).count
            : count(plan, stored: layer.source.count(matching: plan.source))
    }

    /// Corrects the source's count for the changed objects.
    ///
    /// - Complexity: O(*n*) in the changed objects, and a query for those among them that were saved before.
    private func count(_ plan: Plan, stored: Int) throws -> Int {
        if plan.isComplete { return stored }
        let saved = changed.lazy.filter { isOfEntity($0) && layer.isPersisted($0) }
            .prefix(Self.maximumNamedCount + 1)
        var count = try stored - storedCount(of: Array(saved), plan)
        count += try layer.candidates(in: self, matching: plan.resolved).count
        count = max(count - max(request.fetchOffset, 0), 0)
        return request.fetchLimit > 0 ? min(count, request.fetchLimit) : count
    }

    /// The number of changed objects that are in the source's results; of the given ones, unless they are too many.
    private func storedCount(of objects: [Object], _ plan: Plan) throws -> Int {
        if objects.isEmpty { return 0 }
        if objects.count <= Self.maximumNamedCount {
            let isOneOfThese = QueryPredicate.comparison(
                QueryComparison(
                    .evaluatedObject, .in,
                    .collection(objects.map { .constant(.objectID($0.objectID)) })))
            var narrow = plan.source
            narrow.predicate = request.predicate.map { .and([isOneOfThese, $0]) } ?? isOneOfThese
            return try layer.source.count(matching: narrow)
        }
        let found = try layer.source.objectIDs(matching: plan.source)
        return found.bits.reduce(0) { layer.hasChanges($1) ? $0 + 1 : $0 }
    }

    /// The maximum number of identifiers in a predicate; stores that evaluate in memory compare each with every object.
    private static var maximumNamedCount: Int { 64 }

    // MARK: Rows

    func rows() throws -> RowSet {
        let plan = try plan()
        return try rows(plan, found: layer.source.rows(matching: plan.source))
    }

    /// Overlays the changes on the source's rows.
    func rows(_ plan: Plan, found: RowSet) throws -> RowSet {
        if plan.isComplete { return found }
        let (resolved, wide) = (plan.resolved, plan.source)
        let testsAll = plan.testsAll(request)
        var kept: [Candidate] = []
        for position in found.indices where !layer.hasChanges(found.identifierBits(at: position)) {
            if testsAll {
                let object = layer.object(for: found, at: position)
                guard try layer.matches(object, resolved) else { continue }
            }
            kept.append(.row(position))
        }
        let added = try layer.candidates(in: self, matching: resolved)
        let sortsAll = wide.sortOrderings.isEmpty && !request.sortOrderings.isEmpty
        return try assemble(found, kept, added, resolved, sortsAll: sortsAll)
    }

    private enum Candidate {
        case row(Int)
        case object(Object)
    }

    func looksAtOtherChangedObjects(_ resolved: ResolvedQuery) -> Bool {
        let entities = resolved.entitiesBeyond
        guard !entities.isEmpty else { return false }
        return changed.contains { object in
            entities.contains { $0.subtree.contains(object.resolvedEntity.number) }
        }
    }

    private func assemble(
        _ found: RowSet, _ kept: [Candidate], _ added: [Object], _ resolved: ResolvedQuery,
        sortsAll: Bool
    ) throws -> RowSet {
        func object(_ candidate: Candidate) -> Object {
            switch candidate {
            case .row(let position): layer.object(for: found, at: position)
            case .object(let object): object
            }
        }
        func precedes(_ left: Candidate, _ right: Candidate) throws -> Bool {
            try self.precedes(object(left), object(right), resolved)
        }
        var result = added.map { Candidate.object($0) }
        if sortsAll || !added.isEmpty {
            result =
                try sortsAll
                ? (kept + result).sorted(by: precedes)
                : merge(kept, result.sorted(by: precedes), precedes)
        } else {
            result = kept
        }
        let start = min(request.fetchOffset, result.count)
        let end =
            request.fetchLimit > 0 ? min(start + request.fetchLimit, result.count) : result.count
        return try rowSet(found, result[start..<end])
    }

    /// Leaves the temporary mark and the primary key: rows of different entities are ordered by key alone.
    static var orderMask: UInt64 { 1 << 63 | 0xFFFF_FFFF_FFFF }

    func precedes(_ left: Object, _ right: Object, _ resolved: ResolvedQuery) throws -> Bool {
        for ordering in resolved.request.sortOrderings {
            switch try layer.compare(left, right, by: ordering) {
            case .orderedAscending: return true
            case .orderedDescending: return false
            case .orderedSame: continue
            }
        }
        // New objects last, as their primary keys will have them.
        return left.objectID.bits & Self.orderMask < right.objectID.bits & Self.orderMask
    }

    private func merge(
        _ left: [Candidate], _ right: [Candidate], _ precedes: (Candidate, Candidate) throws -> Bool
    ) rethrows -> [Candidate] {
        var result: [Candidate] = []
        result.reserveCapacity(left.count + right.count)
        var (i, j) = (0, 0)
        while i < left.count && j < right.count {
            if try precedes(right[j], left[i]) {
                result.append(right[j])
                j += 1
            } else {
                result.append(left[i])
                i += 1
            }
        }
        return result + left[i...] + right[j...]
    }

    /// Combines the source's rows and rows of changed objects in one set.
    private func rowSet(_ found: RowSet, _ candidates: ArraySlice<Candidate>) throws -> RowSet {
        let objects = candidates.compactMap {
            if case .object(let object) = $0 { object } else { nil }
        }
        let packed = try layer.rowSet(of: objects)
        var next = 0
        let picks = candidates.map { candidate -> RowSet.Pick in
            switch candidate {
            case .row(let position): return .own(position)
            case .object:
                next += 1
                return .other(next - 1)
            }
        }
        return found.arranged(picks, with: packed)
    }
}

// MARK: - Identifiers

/// The overlay for batched fetches, which return identifiers: the source's objects are read only where a changed one is
/// inserted among them.
extension PendingChangeOverlay {
    func identifiers() throws -> ContiguousArray<UInt64> {
        let resolved = try ResolvedQuery(request, in: layer.layout, store: layer.storeIdentity)
        if looksAtOtherChangedObjects(resolved) {
            let rows = try rows()
            return ContiguousArray(rows.indices.map(rows.identifierBits))
        }
        if !changed.contains(where: isOfEntity) {
            return try layer.source.objectIDs(matching: request).bits
        }
        var wide = request
        wide.fetchOffset = 0
        // Even if all changed objects are in the source's results, enough others are left.
        wide.fetchLimit =
            request.fetchLimit > 0
            ? request.fetchLimit + request.fetchOffset + changed.count : 0
        var kept: ContiguousArray<UInt64> = []
        for bits in try layer.source.objectIDs(matching: wide).bits where !layer.hasChanges(bits) {
            kept.append(bits)
        }
        let added = try layer.candidates(in: self, matching: resolved)
            .sorted { try precedes($0, $1, resolved) }
        return slice(try merge(kept, added, resolved))
    }

    private func slice(_ all: ContiguousArray<UInt64>) -> ContiguousArray<UInt64> {
        let start = min(max(request.fetchOffset, 0), all.count)
        let end = request.fetchLimit > 0 ? min(start + request.fetchLimit, all.count) : all.count
        return start == 0 && end == all.count ? all : ContiguousArray(all[start..<end])
    }

    /// Merges sorted objects into sorted identifiers.
    private func merge(
        _ kept: ContiguousArray<UInt64>, _ added: [Object], _ resolved: ResolvedQuery
    ) throws -> ContiguousArray<UInt64> {
        if added.isEmpty { return kept }
        var result: ContiguousArray<UInt64> = []
        result.reserveCapacity(kept.count + added.count)
        var start = 0
        for object in added {
            let end = try kept[start...].partitioningIndex { try precedes(object, $0, resolved) }
            result += kept[start..<end]
            result.append(object.objectID.bits)
            start = end
        }
        return result + kept[start...]
    }

    private func precedes(
        _ object: Object, _ bits: UInt64, _ resolved: ResolvedQuery
    ) throws -> Bool {
        if resolved.request.sortOrderings.isEmpty {
            return object.objectID.bits & Self.orderMask < bits & Self.orderMask
        }
        return try precedes(object, layer.object(bits: bits), resolved)
    }
}
