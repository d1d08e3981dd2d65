/// The objects that a fetch found, in its order. They come to be when they are touched, and are the context's
/// only while somebody holds them.
///
/// It is a snapshot: what is saved, inserted or deleted later does not change which objects are in it. Used
/// on the context's queue.
public struct FetchedObjects: RandomAccessCollection {
    let rows: RowSet
    let context: ManagedObjectContext

    /// The first position: 0.
    public var startIndex: Int { 0 }
    /// The number of objects.
    public var endIndex: Int { rows.count }

    /// The object at a position.
    ///
    /// - Complexity: O(1); no access to the store.
    public subscript(position: Int) -> ManagedObject { context.object(for: rows, at: position) }

    /// The identifiers of the objects, without making them.
    public var objectIDs: [ManagedObjectID] {
        rows.indices.map { context.objectID(bits: rows.identifierBits(at: $0)) }
    }
}

@available(*, unavailable, message: "Fetched objects are used on their context's queue.")
extension FetchedObjects: Sendable {}
