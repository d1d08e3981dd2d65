internal import QuireModel
package import QuireQuery

/// Answers a request in memory from the rows of its entity, which come by primary key. Means the same as
/// `FetchStatement`.
package struct RowQuery {
    package let query: ResolvedQuery
    package let objects: StoredObjects

    package init(query: ResolvedQuery, objects: StoredObjects) {
        self.query = query
        self.objects = objects
    }

    private var request: FetchRequest { query.request }
    private var limit: Int { request.fetchLimit > 0 ? request.fetchLimit : .max }
    private var offset: Int { max(request.fetchOffset, 0) }

    /// Calls its closure with the rows of an entity by primary key, until that returns `false`.
    package typealias Scan = (_ body: (ObjectSnapshot) throws -> Bool) throws -> Void

    /// The rows found, in the request's order, within its limit and offset.
    package func rows(_ scan: Scan) throws -> [ObjectSnapshot] {
        if !request.sortOrderings.isEmpty { return try sorted(scan) }
        var skipped = offset
        var found: [ObjectSnapshot] = []
        try forEachMatch(scan) { object in
            if skipped > 0 {
                skipped -= 1
            } else {
                found.append(object.snapshot)
            }
            return found.count < limit
        }
        return found
    }

    /// How many rows are found, within the request's limit and offset.
    package func count(_ scan: Scan) throws -> Int {
        var count = 0
        try forEachMatch(scan) { _ in
            count += 1
            return count < limit || count - limit < offset
        }
        return max(0, min(count - offset, limit))
    }

    private func forEachMatch(
        _ scan: Scan, _ body: (StoredObject) throws -> Bool
    ) throws {
        let predicate = request.predicate
        let monitor = request.watch.monitor
        if case .constant(false)? = predicate { return }
        var count = 0
        try monitor?.check()
        try withoutActuallyEscaping(body) { body in
            try scan { row in
                let object = StoredObject(snapshot: row, objects: objects)
                count += 1
                if let monitor {
                    monitor.didRead(rows: count)
                    if count % FetchMonitor.interval == 0 { try monitor.check() }
                }
                guard try predicate.map(PredicateEvaluator(subject: object).holds) ?? true else {
                    return true
                }
                return try body(object)
            }
        }
    }

    private func sorted(_ scan: Scan) throws -> [ObjectSnapshot] {
        let orderings = request.sortOrderings
        var keyed: [(row: ObjectSnapshot, keys: [AttributeValue])] = []
        try forEachMatch(scan) { object in
            keyed.append(
                (object.snapshot, try orderings.map { try $0.resolvedSortValue(of: object) }))
            return true
        }
        // The position settles what is equal, so that such rows stay by primary key.
        let order = keyed.indices.sorted { left, right in
            for (index, ordering) in orderings.enumerated() {
                let order = ordering.compare(keyed[left].keys[index], keyed[right].keys[index])
                if order != 0 { return order < 0 }
            }
            return left < right
        }
        return order.dropFirst(offset).prefix(limit).map { keyed[$0].row }
    }
}
