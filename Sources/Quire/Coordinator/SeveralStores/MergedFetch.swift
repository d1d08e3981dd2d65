internal import Foundation

/// What several stores find for a request, in one order.
///
/// Every store gives its first rows up to the end of what is asked for. Rows that are equal in the order, and all if
/// there is none, come store by store, within a store as the store has them.
struct MergedFetch {
    private let request: FetchRequest
    private let members: [StoreCombination.Member]
    private let combination: StoreCombination

    init(
        _ request: FetchRequest, of members: [StoreCombination.Member],
        in combination: StoreCombination
    ) {
        self.request = request
        self.members = members
        self.combination = combination
    }

    func rows() throws -> RowSet {
        let offset = max(request.fetchOffset, 0)
        var part = request
        part.fetchOffset = 0
        if request.fetchLimit > 0 { part.fetchLimit = offset + request.fetchLimit }
        // Checked once more, for the form in which orders compare.
        let orderings = try ResolvedQuery(
            request, in: combination.layout, store: combination.identity
        ).request.sortOrderings
        var all = RowSet([], layout: combination.layout, store: combination.identity)
        var keys: [[AttributeValue]] = []
        for member in members {
            let rows = try member.store.rows(matching: part)
            if !orderings.isEmpty {
                let objects = StoredObjects(store: member.store)
                for row in rows {
                    let object = StoredObject(snapshot: row, objects: objects)
                    keys.append(try orderings.map { try $0.resolvedSortValue(of: object) })
                }
            }
            all = all.appending(rows)
        }
        var positions = Array(all.indices)
        if !orderings.isEmpty {
            positions.sort { left, right in
                for (index, ordering) in orderings.enumerated() {
                    let order = ordering.compare(keys[left][index], keys[right][index])
                    if order != 0 { return order < 0 }
                }
                return left < right
            }
        }
        let rest = positions.dropFirst(offset)
        return all.picking(
            Array(request.fetchLimit > 0 ? rest.prefix(request.fetchLimit) : rest))
    }
}
