public import QuireModel

/// Identifiers of objects of one store, in an order: eight bytes each.
public struct ObjectIDList: RandomAccessCollection, Sendable {
    /// The identifiers' bits.
    package let bits: ContiguousArray<UInt64>
    /// The store that the objects belong to.
    public let store: StoreIdentity

    package init(bits: ContiguousArray<UInt64>, store: StoreIdentity) {
        self.bits = bits
        self.store = store
    }

    /// Makes a list of identifiers of a store.
    public init(_ objectIDs: some Sequence<ManagedObjectID>, store: StoreIdentity) {
        bits = ContiguousArray(objectIDs.map(\.bits))
        self.store = store
    }

    /// The first position: 0.
    public var startIndex: Int { 0 }
    /// The number of identifiers.
    public var endIndex: Int { bits.count }

    /// The identifier at a position.
    public subscript(position: Int) -> ManagedObjectID {
        ManagedObjectID(bits: bits[position], store: store)
    }
}

extension ObjectIDList {
    /// The number of rows in a fetch batch when all rows are read.
    static let batchSize = 1000

    /// Calls a closure with batches of identifiers, in order.
    package func forEachBatch(_ body: ([ManagedObjectID]) throws -> Void) rethrows {
        var start = 0
        while start < count {
            let end = Swift.min(start + Self.batchSize, count)
            try body(Array(self[start..<end]))
            start = end
        }
    }
}
