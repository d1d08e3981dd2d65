package import QuireModel
package import QuireQuery

extension BatchResult {
    /// The result with objects that contexts have to read again, if it tells objects.
    package func refreshing(_ objectIDs: [ManagedObjectID]) -> BatchResult {
        if changes.isEmpty { return self }
        let told = Set(changes.inserted + changes.updated + changes.deleted)
        var changes = changes
        changes.refreshed = objectIDs.filter { !told.contains($0) }
        return BatchResult(count: count, changes: changes)
    }
}
