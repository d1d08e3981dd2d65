import Foundation
public import QuireModel
internal import QuireSystem

/// Packs rows; see ``RowChunk`` for the format.
///
/// For each row call ``beginRow(_:entity:version:)``, set the slots that have values, and call ``endRow()``. A slot is set at
/// most once; slots that are not set, or whose setting failed, are null.
@usableFromInline
package struct RowSetBuilder: ~Copyable {
    let layout: ResolvedModel
    let store: StoreIdentity
    let externalData: (any ExternalDataReading)?
    @usableFromInline var chunks: [RowChunk] = []
    @usableFromInline var locations: ContiguousArray<RowSet.Location> = []
    /// The chunk being filled and how far it is.
    private var chunk: RowChunk?
    @usableFromInline var base: UnsafeMutableRawPointer
    @usableFromInline var capacity = 0
    @usableFromInline var end = 0
    /// The size of the next chunk, unless the row needs more.
    private var nextCapacity: Int
    /// Room for a row of an entity with a few texts.
    private static let usualRowSize = 512
    /// The greatest size of a row.
    private let maximumSize: Int
    /// The current row: its start in the chunk and in memory, and how far behind that its cells begin.
    @usableFromInline var rowStart = 0
    @usableFromInline var row: UnsafeMutableRawPointer
    @usableFromInline var cells = 0

    /// Begins a set. If few rows are expected, the memory for them is cut to fit, so that keeping a row does not
    /// keep a standard block.
    package init(
        layout: ResolvedModel, store: StoreIdentity, externalData: (any ExternalDataReading)? = nil,
        expectedRows: Int = .max, maximumSize: Int = RowChunk.maximumSize
    ) {
        self.maximumSize = maximumSize
        nextCapacity =
            expectedRows < RowChunk.standardCapacity / Self.usualRowSize
            ? max(expectedRows, 1) * Self.usualRowSize : RowChunk.standardCapacity
        self.layout = layout
        self.store = store
        self.externalData = externalData
        // Never used, because the capacity is 0; and 16 is no null pointer.
        base = UnsafeMutableRawPointer(bitPattern: 16).unsafelyUnwrapped
        row = base
    }

    /// The number of finished rows.
    var count: Int { locations.count }

    package mutating func reserveCapacity(_ rows: Int) { locations.reserveCapacity(rows) }

    @inlinable
    package mutating func beginRow(_ bits: UInt64, entity: ResolvedEntity, version: UInt32) {
        let slotCount = entity.storages.count
        let presence = PackedRow.presenceSize(slotCount: slotCount)
        let fixed = PackedRow.headerSize + presence + slotCount * 8
        rowStart = end
        if end + fixed > capacity { grow(toHold: fixed, rowSize: 0) }
        row = base + rowStart
        row.storeBytes(of: bits, as: UInt64.self)
        row.storeBytes(of: version, toByteOffset: 8, as: UInt32.self)
        (row + PackedRow.headerSize).initializeMemory(as: UInt8.self, repeating: 0, count: presence)
        cells = PackedRow.headerSize + presence
        end = rowStart + fixed
    }

    @inlinable @inline(__always)
    func markPresent(_ slot: Int) {
        let word = row + (PackedRow.headerSize &+ (slot &>> 6) &* 8)
        let bit: UInt64 = 1 &<< UInt64(truncatingIfNeeded: slot)
        word.storeBytes(of: word.load(as: UInt64.self) | bit, as: UInt64.self)
    }

    @inlinable @inline(__always)
    package mutating func setInteger(_ value: Int64, at slot: Int) {
        markPresent(slot)
        (row + (cells &+ slot &* 8)).storeBytes(of: value, as: Int64.self)
    }

    @inlinable @inline(__always)
    package mutating func setDouble(_ value: Double, at slot: Int) {
        markPresent(slot)
        (row + (cells &+ slot &* 8)).storeBytes(of: value, as: Double.self)
    }

    /// Sets a reference by its identifier bits.
    @inlinable @inline(__always)
    package mutating func setReference(_ bits: UInt64, at slot: Int) {
        setInteger(Int64(bitPattern: bits), at: slot)
    }

    @inlinable @inline(__always)
    package mutating func setBytes(_ value: UnsafeRawBufferPointer, at slot: Int) throws {
        try setBytes(count: value.count, at: slot) { destination in
            if let source = value.baseAddress {
                destination.copyMemory(from: source, byteCount: value.count)
            }
        }
    }

    /// Sets bytes that `fill` writes into the given buffer.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if the row would exceed the maximum row size.
    @inlinable @inline(__always)
    mutating func setBytes(
        count: Int, at slot: Int, fill: (UnsafeMutableRawPointer) -> Void
    ) throws {
        // No chunk exceeds the maximum row size, so fitting the chunk needs no other check.
        if end + count > capacity { try makeRoom(for: count) }
        markPresent(slot)
        let cell = row + (cells &+ slot &* 8)
        cell.storeBytes(of: UInt32(truncatingIfNeeded: end - rowStart), as: UInt32.self)
        cell.storeBytes(of: UInt32(truncatingIfNeeded: count), toByteOffset: 4, as: UInt32.self)
        fill(base + end)
        end += count
    }

    @inlinable
    package mutating func endRow() {
        end = (end + 7) & ~7
        row.storeBytes(
            of: UInt32(truncatingIfNeeded: end - rowStart), toByteOffset: 12, as: UInt32.self)
        locations.append(
            RowSet.Location(
                chunk: UInt32(truncatingIfNeeded: chunks.count - 1),
                offset: UInt32(truncatingIfNeeded: rowStart)))
    }

    /// Appends a finished row of the same model.
    ///
    /// - Parameters:
    ///   - storeBits: The store bits of identifiers in the copy, besides entity and primary key.
    ///   - version: The version of the copy, if it differs.
    package mutating func copyRow(
        _ source: PackedRow, of entity: ResolvedEntity, storeBits: UInt64, version: UInt32? = nil
    ) {
        let size = source.size
        rowStart = end
        if end + size > capacity { grow(toHold: size, rowSize: 0) }
        row = base + rowStart
        row.copyMemory(from: source.start, byteCount: size)
        end = rowStart + size
        let mask = ~ManagedObjectID.storeNumberMask
        row.storeBytes(of: source.identifierBits & mask | storeBits, as: UInt64.self)
        if let version { row.storeBytes(of: version, toByteOffset: 8, as: UInt32.self) }
        let slotCount = entity.storages.count
        cells = PackedRow.headerSize + PackedRow.presenceSize(slotCount: slotCount)
        for slot in entity.identifierSlots
        where entity.storages[slot] == .reference && source.hasValue(slot) {
            let bits = UInt64(bitPattern: source.integer(slot, slotCount: slotCount))
            setReference(bits & mask | storeBits, at: slot)
        }
        locations.append(
            RowSet.Location(
                chunk: UInt32(truncatingIfNeeded: chunks.count - 1),
                offset: UInt32(truncatingIfNeeded: rowStart)))
    }

    /// Sets a slot to a value of any type. The value must be of the slot's storage form.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if it is not, or `unsupported` if the row would be too large.
    package mutating func set(_ value: AttributeValue, at slot: ResolvedEntity.Slot) throws {
        let index = slot.index
        switch (slot.storage, value) {
        case (_, .null), (.transient, _): break
        case (.integer, .integer(let integer)): setInteger(integer, at: index)
        case (.double, .double(let double)): setDouble(double, at: index)
        case (.boolean, .boolean(let boolean)): setInteger(boolean ? 1 : 0, at: index)
        case (.date, .date(let date)): setDouble(date.timeIntervalSinceReferenceDate, at: index)
        case (.reference, .objectID(let id)): setReference(id.bits, at: index)
        case (.decimal, .decimal(var decimal)):
            try withUnsafeBytes(of: &decimal) { try setBytes($0, at: index) }
        case (.uuid, .uuid(let uuid)):
            try withUnsafeBytes(of: uuid.uuid) { try setBytes($0, at: index) }
        case (.string, .string(var string)):
            try string.withUTF8 { try setBytes(UnsafeRawBufferPointer($0), at: index) }
        case (.uri, .uri(let url)):
            var string = url.absoluteString
            try string.withUTF8 { try setBytes(UnsafeRawBufferPointer($0), at: index) }
        case (.binary, .binary(let data)):
            let tag = slot.isExternalCapable ? 1 : 0
            try setBytes(count: data.count + tag, at: index) { destination in
                if tag == 1 { destination.storeBytes(of: ExternalDataTag.inline, as: UInt8.self) }
                data.copyBytes(
                    to: UnsafeMutableRawBufferPointer(
                        start: destination + tag, count: data.count))
            }
        case (.binary, .external(let data)):
            guard slot.isExternalCapable, let held = externalData as? UnsavedExternalData else {
                return try set(value.loaded(), at: slot)
            }
            try held.hold(data).withUnsafeBytes { try setBytes($0, at: index) }
        default:
            throw QuireError(
                .invalidValue, "“\(slot.name)” cannot contain \(value).",
                subject: .init(property: slot.name))
        }
    }

    /// The rows. The builder must not be used afterwards.
    package consuming func finish() -> RowSet {
        RowSet(chunks: chunks, locations: locations, layout: layout, store: store)
    }

    /// Moves the unfinished row to a chunk with room for more bytes.
    @usableFromInline @inline(never)
    mutating func makeRoom(for count: Int) throws {
        let size = end - rowStart
        guard count <= maximumSize - size else {
            throw QuireError(
                .unsupported,
                "The values of an object exceed \(maximumSize) bytes in total, the limit for one object in memory; "
                    + "allow external storage of large values (allowsExternalBinaryDataStorage), or divide them "
                    + "among several objects.")
        }
        grow(toHold: size + count, rowSize: size)
    }

    /// Moves the unfinished row to a new chunk with room for `needed` bytes from its start.
    @usableFromInline
    mutating func grow(toHold needed: Int, rowSize: Int) {
        // A row that outgrows a standard chunk doubles, so that appending many blobs to one row stays linear.
        let wanted =
            needed + 8 > nextCapacity
            ? min(needed, maximumSize - needed) + needed + 8 : nextCapacity
        nextCapacity = min(nextCapacity * 2, RowChunk.standardCapacity)
        let next = RowChunk(capacity: wanted, externalData: externalData)
        if rowSize > 0 { next.bytes.copyMemory(from: base + rowStart, byteCount: rowSize) }
        if rowSize > 0 && rowStart == 0 {
            chunks[chunks.count - 1] = next  // The old chunk held nothing else.
        } else {
            chunks.append(next)
        }
        chunk = next
        base = next.bytes
        capacity = next.capacity - 8  // Room for the padding of endRow().
        rowStart = 0
        row = base
        end = rowSize
    }
}
