/// The objects that a fetch found, in its order. They come to be when they are touched, and are the context's
/// only while somebody holds them.
///
/// It is a snapshot: what is saved, inserted or deleted later does not change which objects are in it. With a
/// ``FetchRequest/fetchBatchSize`` it holds identifiers, and reads the rows around an object that is touched; an
/// object whose row is gone by then is inaccessible (see ``ManagedObject``). Used on the context's queue.
public struct FetchedObjects: RandomAccessCollection {
    /// The rows, if they were read at once.
    let rows: RowSet
    let context: ManagedObjectContext
    let results: FetchResults

    init(results: FetchResults) {
        rows = results.rows
        context = results.context
        self.results = results
    }

    /// The first position: 0.
    public var startIndex: Int { 0 }
    /// The number of objects.
    public var endIndex: Int { results.count }

    /// The object at a position.
    ///
    /// - Complexity: O(1); no access to the store, unless the objects are read in batches and this one's has not
    ///   been read or was dropped again.
    public subscript(position: Int) -> ManagedObject {
        if results.hasRows && context.outdatedRows.serial == results.serial {
            return context.object(for: rows, at: position)
        }
        return results.object(at: position)
    }

    /// The identifiers of the objects, without making them.
    public var objectIDs: [ManagedObjectID] { (0..<results.count).map(results.objectID) }
}

@available(*, unavailable, message: "Fetched objects are used on their context's queue.")
extension FetchedObjects: Sendable {}
