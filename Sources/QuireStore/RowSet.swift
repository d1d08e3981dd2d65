public import QuireModel
internal import QuireSystem

/// Rows that a store has found, packed, in the order asked for. Immutable and cheap to pass on.
public final class RowSet: RandomAccessCollection, Sendable {
    package struct Location: Sendable {
        package var chunk: UInt32
        package var offset: UInt32
    }

    package let chunks: [RowChunk]
    package let locations: ContiguousArray<Location>
    /// The model that the rows belong to.
    public let layout: ModelLayout
    /// The store that the rows belong to.
    public let store: StoreIdentity

    package init(
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
    package func identifierBits(at position: Int) -> UInt64 {
        let location = locations[position]
        return PackedRow(chunk: chunks[Int(location.chunk)], offset: Int(location.offset))
            .identifierBits
    }

    /// The identifier of the object at a position.
    package func objectID(at position: Int) -> ManagedObjectID {
        ManagedObjectID(bits: identifierBits(at: position), store: store)
    }

    /// The version of the row at a position.
    package func version(at position: Int) -> UInt32 {
        let location = locations[position]
        return PackedRow(chunk: chunks[Int(location.chunk)], offset: Int(location.offset)).version
    }

    /// The identifier bits in the slot of a to-one relationship of the row at a position.
    package func reference(_ slot: Int, at position: Int) -> UInt64? {
        let location = locations[position]
        let row = PackedRow(chunk: chunks[Int(location.chunk)], offset: Int(location.offset))
        guard row.hasValue(slot) else { return nil }
        let entity = layout.entities[Int(row.identifierBits >> 48 & 0x7FFF) - 1]
        return UInt64(bitPattern: row.integer(slot, slotCount: entity.storages.count))
    }

    /// The rows whose identifier bits satisfy a condition.
    package func filtered(_ isIncluded: (UInt64) -> Bool) -> RowSet {
        picking(indices.filter { isIncluded(identifierBits(at: $0)) })
    }

    /// The rows at positions, in their order.
    package func picking(_ positions: [Int]) -> RowSet {
        if positions.elementsEqual(indices) { return self }
        return RowSet(
            chunks: chunks, locations: ContiguousArray(positions.map { locations[$0] }),
            layout: layout, store: store)
    }

    /// How much memory the rows hold on to.
    package var byteCount: Int { chunks.reduce(0) { $0 + $1.capacity } }

    /// Rows of several sets.
    package convenience init(_ rows: [ObjectSnapshot], layout: ModelLayout, store: StoreIdentity) {
        var chunks: [RowChunk] = []
        var locations: ContiguousArray<Location> = []
        locations.reserveCapacity(rows.count)
        for row in rows {
            // Rows of one set come one after the other.
            if chunks.last !== row.chunk { chunks.append(row.chunk) }
            locations.append(
                Location(
                    chunk: UInt32(truncatingIfNeeded: chunks.count - 1),
                    offset: UInt32(truncatingIfNeeded: row.offset)))
        }
        self.init(chunks: chunks, locations: locations, layout: layout, store: store)
    }

    /// These rows and those of another set.
    package func appending(_ other: RowSet) -> RowSet {
        let shift = UInt32(chunks.count)
        var locations = locations
        locations.reserveCapacity(locations.count + other.locations.count)
        for location in other.locations {
            locations.append(Location(chunk: location.chunk + shift, offset: location.offset))
        }
        return RowSet(
            chunks: chunks + other.chunks, locations: locations, layout: layout, store: store)
    }

    /// Has a row that will be read soon brought nearer; nothing if there is none.
    @inline(__always)
    package func prefetch(_ position: Int) {
        guard position < locations.count else { return }
        let location = locations[position]
        let row = UnsafeRawPointer(chunks[Int(location.chunk)].bytes + Int(location.offset))
        // The head of a row and its first cells.
        prefetchMemory(at: row)
        prefetchMemory(at: row + 64)
    }
}
