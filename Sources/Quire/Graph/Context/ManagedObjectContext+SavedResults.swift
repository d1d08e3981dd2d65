/// What a context shows a child of the results of a request without pending changes: the request is matched against
/// what is saved, but its objects are as they are here, and those that are deleted here are not there.
extension ManagedObjectContext {
    func rowsForChild(matching request: FetchRequest) throws -> RowSet {
        let found = try rows(matching: request)
        guard hidesSavedState(of: request) else { return found }
        var own: [ManagedObject] = []
        var picks: [RowSet.Pick] = []
        picks.reserveCapacity(found.count)
        for position in found.indices {
            guard let object = identityMap.find(found.identifierBits(at: position)) else {
                picks.append(.own(position))
                continue
            }
            if isGone(object) { continue }
            if hasOwnValues(object) {
                picks.append(.other(own.count))
                own.append(object)
            } else {
                picks.append(.own(position))
            }
        }
        if own.isEmpty && picks.count == found.count { return found }
        return found.arranged(picks, with: try rowSet(of: own))
    }

    func objectIDsForChild(matching request: FetchRequest) throws -> ObjectIDList {
        let found = try objectIDs(matching: request)
        guard hidesSavedState(of: request) else { return found }
        return ObjectIDList(
            bits: found.bits.filter { identityMap.find($0).map(isGone) != true },
            store: found.store)
    }

    func countForChild(matching request: FetchRequest) throws -> Int {
        guard hidesSavedState(of: request), tracked.contains(where: isGone) else {
            return try count(for: request)
        }
        return try objectIDsForChild(matching: request).bits.count
    }

    /// Whether a request is matched against what is saved while something else is to be seen here.
    private func hidesSavedState(of request: FetchRequest) -> Bool {
        !request.includesPendingChanges && tracked.contains(where: \.isUnsaved)
    }
}
