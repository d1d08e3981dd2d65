/// Rows that a store has found, packed, in the order asked for. Immutable and cheap to pass on.
public final class RowSet: RandomAccessCollection, Sendable {
    struct Location: Sendable {
        var chunk: UInt32
        var offset: UInt32
    }

    let chunks: [RowChunk]
    let locations: ContiguousArray<Location>
    /// The model that the rows belong to.
    public let layout: ModelLayout
    /// The store that the rows belong to.
    public let store: StoreIdentity

    init(
        chunks: [RowChunk], locations: ContiguousArray<Location>, layout: ModelLayout,
        store: StoreIdentity
    ) {
        self.chunks = chunks
        self.locations = locations
        self.layout = layout
        self.store = store
    }

    /// The first position: 0.
    public var startIndex: Int { 0 }
    /// The number of rows.
    public var endIndex: Int { locations.count }

    /// The row at a position.
    public subscript(position: Int) -> ObjectSnapshot {
        let location = locations[position]
        let chunk = chunks[Int(location.chunk)]
        let number = Int(
            PackedRow(chunk: chunk, offset: Int(location.offset)).identifierBits >> 48 & 0x7FFF)
        return ObjectSnapshot(
            chunk: chunk, offset: Int(location.offset), entity: layout.entities[number - 1],
            store: store)
    }

    /// The identifier bits of the row at a position.
    func identifierBits(at position: Int) -> UInt64 {
        let location = locations[position]
        return PackedRow(chunk: chunks[Int(location.chunk)], offset: Int(location.offset))
            .identifierBits
    }

    /// The identifier of the object at a position.
    func objectID(at position: Int) -> ManagedObjectID {
        ManagedObjectID(bits: identifierBits(at: position), store: store)
    }

    /// Has a row that will be read soon brought nearer; nothing if there is none.
    @inline(__always)
    func prefetch(_ position: Int) {
        guard position < locations.count else { return }
        let location = locations[position]
        let row = UnsafeRawPointer(chunks[Int(location.chunk)].bytes + Int(location.offset))
        // The head of a row and its first cells.
        prefetchMemory(at: row)
        prefetchMemory(at: row + 64)
    }
}
