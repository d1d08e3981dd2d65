public import Foundation
public import QuireModel
public import QuireSystem

/// Fetched rows, packed, in the order of the request. Immutable and cheap to copy.
public final class RowSet: RandomAccessCollection, Sendable {
    @usableFromInline
    package struct Location: Sendable {
        @usableFromInline package var chunk: UInt32
        @usableFromInline package var offset: UInt32

        @inlinable package init(chunk: UInt32, offset: UInt32) {
            self.chunk = chunk
            self.offset = offset
        }
    }

    @usableFromInline package let chunks: [RowChunk]
    @usableFromInline package let locations: ContiguousArray<Location>
    /// The model of the rows.
    public let layout: ResolvedModel
    /// The store of the rows.
    public let store: StoreIdentity

    package init(
        chunks: [RowChunk], locations: ContiguousArray<Location>, layout: ResolvedModel,
        store: StoreIdentity
    ) {
        self.chunks = chunks
        self.locations = locations
        self.layout = layout
        self.store = store
    }

    /// The first position: 0.
    @inlinable public var startIndex: Int { 0 }
    /// The number of rows.
    @inlinable public var endIndex: Int { locations.count }

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
    @inlinable package func identifierBits(at position: Int) -> UInt64 {
        let location = locations[position]
        return PackedRow(chunk: chunks[Int(location.chunk)], offset: Int(location.offset))
            .identifierBits
    }

    /// The identifier of the object at a position.
    @inlinable package func objectID(at position: Int) -> ManagedObjectID {
        ManagedObjectID(bits: identifierBits(at: position), store: store)
    }

    /// The version of the row at a position.
    @inlinable package func version(at position: Int) -> UInt32 {
        let location = locations[position]
        return PackedRow(chunk: chunks[Int(location.chunk)], offset: Int(location.offset)).version
    }

    /// The identifier bits in the slot of a to-one relationship of the row at a position.
    @inlinable package func reference(_ slot: Int, at position: Int) -> UInt64? {
        let location = locations[position]
        let row = PackedRow(chunk: chunks[Int(location.chunk)], offset: Int(location.offset))
        guard row.hasValue(slot) else { return nil }
        let entity = layout.entities[ManagedObjectID.entityNumber(of: row.identifierBits) - 1]
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

    /// The memory that the rows retain, in bytes.
    package var byteCount: Int { chunks.reduce(0) { $0 + $1.capacity } }

    /// Rows of several sets.
    package convenience init(_ rows: [ObjectSnapshot], layout: ResolvedModel, store: StoreIdentity)
    {
        var chunks: [RowChunk] = []
        var locations: ContiguousArray<Location> = []
        locations.reserveCapacity(rows.count)
        for row in rows {
            // Rows of one set are contiguous.
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

    /// Prefetches the row at a position into the CPU cache; nothing if there is none.
    @inlinable @inline(__always)
    package func prefetch(_ position: Int) {
        guard position < locations.count else { return }
        let location = locations[position]
        let row = UnsafeRawPointer(chunks[Int(location.chunk)].bytes + Int(location.offset))
        // The head of a row and its first cells.
        prefetchMemory(at: row)
        prefetchMemory(at: row + 64)
    }
}

// MARK: - Chunks

/// A block of memory that holds packed rows. Written by one ``RowSetBuilder``, then never changed.
///
/// A row is aligned to 8 bytes:
///
///     0   UInt64   identifier bits, as in ManagedObjectID
///     8   UInt32   version (Z_OPT)
///     12  UInt32   size of the row in bytes
///     16  UInt64 × ⌈slots / 64⌉   bit set: the slot has a value
///     …   8 bytes × slots         cells
///     …   bytes of strings and blobs
///
/// A cell holds an Int64, a Double, a Bool (as Int64), the identifier bits of a reference, or, for strings,
/// blobs, UUIDs, URIs and decimals, the offset from the row's start and the length in bytes as two UInt32.
///
/// It is `@unchecked Sendable` because the builder that writes it is not shared, and publishes it only when
/// it has finished.
@usableFromInline
package final class RowChunk: @unchecked Sendable {
    @usableFromInline let bytes: UnsafeMutableRawPointer
    @usableFromInline let capacity: Int
    /// The reader of external data of the rows.
    package let externalData: (any ExternalDataReading)?

    /// The size of shared chunks. A larger row gets a chunk alone.
    static let standardCapacity = 256 * 1024
    /// The maximum size of a row, and of a chunk: sizes and offsets have 32 bits.
    static let maximumSize = Int(UInt32.max) & ~7
    /// The maximum number of pooled standard chunks (64 MiB). Page faults on fresh memory cost more than filling it.
    private static let poolLimit = 256
    private static let pool = Lock<[UInt]>([])

    init(capacity: Int, externalData: (any ExternalDataReading)?) {
        self.externalData = externalData
        self.capacity = capacity
        if capacity == Self.standardCapacity {
            if let address = Self.pool.withLock({ $0.popLast() }),
                let pointer = UnsafeMutableRawPointer(bitPattern: address)
            {
                bytes = pointer
                return
            }
        }
        bytes = .allocate(byteCount: self.capacity, alignment: 16)
    }

    deinit {
        if capacity == Self.standardCapacity {
            let address = UInt(bitPattern: bytes)
            let kept = Self.pool.withLock { pool in
                if pool.count >= Self.poolLimit { return false }
                pool.append(address)
                return true
            }
            if kept { return }
        }
        bytes.deallocate()
    }
}

/// Reads external data: binary values that a store keeps in files.
public protocol ExternalDataReading: Sendable {
    /// The bytes of the value of a name.
    func data(named name: String) throws -> Data

    /// The value of a name, without reading it.
    func externalData(named name: String) throws -> ExternalData
}

extension ExternalDataReading {
    /// The value of a name, read into memory.
    public func externalData(named name: String) throws -> ExternalData {
        ExternalData(try data(named: name))
    }
}

extension ExternalDataFolder: ExternalDataReading {}

// MARK: - Lists of identifiers

/// An ordered list of identifiers of one store: eight bytes each.
public struct ObjectIDList: RandomAccessCollection, Sendable {
    /// The identifiers' bits.
    @usableFromInline package let bits: ContiguousArray<UInt64>
    /// The store of the objects.
    public let store: StoreIdentity

    package init(bits: ContiguousArray<UInt64>, store: StoreIdentity) {
        self.bits = bits
        self.store = store
    }

    /// Creates a list of identifiers of a store.
    public init(_ objectIDs: some Sequence<ManagedObjectID>, store: StoreIdentity) {
        bits = ContiguousArray(objectIDs.map(\.bits))
        self.store = store
    }

    /// The first position: 0.
    @inlinable public var startIndex: Int { 0 }
    /// The number of identifiers.
    @inlinable public var endIndex: Int { bits.count }

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

// MARK: - Related objects

/// The members of a to-many relationship for several owners: for each owner, identifiers in the relationship's order, or by
/// primary key if it is unordered.
public struct RelatedObjects: Sendable {
    /// The owners. Those without members may be omitted.
    package private(set) var owners: ContiguousArray<UInt64> = []
    /// The start offset of each owner's members, and the end.
    private(set) var starts: ContiguousArray<Int> = [0]
    /// The identifiers' bits.
    package private(set) var members: ContiguousArray<UInt64> = []
    /// Rows of members that were read on the way. Not all need be here.
    public var rows: [RowSet] = []

    /// Creates an empty value.
    public init() {}

    /// Appends one more owner with its members.
    public mutating func append(
        _ objectIDs: some Sequence<ManagedObjectID>, of owner: ManagedObjectID
    ) {
        for id in objectIDs { append(id.bits, of: owner.bits) }
    }

    /// Appends one more member; members of an owner are contiguous.
    @inline(__always)
    package mutating func append(_ member: UInt64, of owner: UInt64) {
        if owners.last != owner {
            owners.append(owner)
            starts.append(members.count)
        }
        members.append(member)
        starts[owners.count] = members.count
    }

    /// The members of the owner at a position.
    package func members(at position: Int) -> Slice<ContiguousArray<UInt64>> {
        Slice(base: members, bounds: starts[position]..<starts[position + 1])
    }

    /// Leaves out members.
    package mutating func removeMembers(where isGone: (UInt64) -> Bool) {
        guard members.contains(where: isGone) else { return }
        var kept = RelatedObjects()
        for position in owners.indices {
            for member in members(at: position) where !isGone(member) {
                kept.append(member, of: owners[position])
            }
        }
        kept.rows = rows
        self = kept
    }

    /// Appends the owners of another value.
    package mutating func append(_ other: RelatedObjects) {
        for position in other.owners.indices {
            for member in other.members(at: position) {
                append(member, of: other.owners[position])
            }
        }
        rows += other.rows
    }
}
