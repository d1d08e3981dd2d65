package import Foundation
public import QuireModel
internal import QuireSystem

/// The values of an object in a store or a parent context. Immutable; values are decoded on access, by slot.
public struct ObjectSnapshot: Sendable {
    @usableFromInline package let chunk: RowChunk
    /// The row's position in the chunk.
    @usableFromInline package let offset: Int
    /// The object's entity.
    public let entity: ResolvedEntity
    @usableFromInline let store: StoreIdentity

    @usableFromInline
    package init(chunk: RowChunk, offset: Int, entity: ResolvedEntity, store: StoreIdentity) {
        self.chunk = chunk
        self.offset = offset
        self.entity = entity
        self.store = store
    }

    /// The object's identifier.
    public var objectID: ManagedObjectID {
        ManagedObjectID(bits: PackedRow(chunk: chunk, offset: offset).identifierBits, store: store)
    }

    /// The number of times the object has been saved; the store's optimistic lock.
    public var version: UInt32 { PackedRow(chunk: chunk, offset: offset).version }

    /// The value of a slot.
    ///
    /// - Throws: Errors of the external data reader if the value's file cannot be read.
    public func value(at slot: Int) throws -> AttributeValue {
        try PackedRow(chunk: chunk, offset: offset).value(
            of: entity.slots[slot], in: entity, store: store)
    }

    /// The value of a slot; ``AttributeValue/external(_:)`` if it is in a file, which is not read.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if the row is damaged.
    public func valueWithoutLoading(at slot: Int) throws -> AttributeValue {
        try PackedRow(chunk: chunk, offset: offset).valueWithoutLoading(
            of: entity.slots[slot], in: entity, store: store)
    }
}

/// Decodes a row in place. Valid only while its chunk is alive, hence within a call.
@usableFromInline
package struct PackedRow {
    @usableFromInline let chunk: RowChunk
    @usableFromInline let start: UnsafeRawPointer

    @inlinable static var headerSize: Int { 16 }

    @inlinable package init(chunk: RowChunk, offset: Int) {
        self.chunk = chunk
        self.start = UnsafeRawPointer(chunk.bytes + offset)
    }

    @inlinable package var identifierBits: UInt64 { start.load(as: UInt64.self) }
    @inlinable package var version: UInt32 { start.load(fromByteOffset: 8, as: UInt32.self) }
    @inlinable package var size: Int { Int(start.load(fromByteOffset: 12, as: UInt32.self)) }

    @inlinable @inline(__always)
    static func presenceSize(slotCount: Int) -> Int { ((slotCount &+ 63) &>> 6) &* 8 }

    @inlinable @inline(__always)
    package func hasValue(_ slot: Int) -> Bool {
        start.load(fromByteOffset: Self.headerSize &+ (slot &>> 6) &* 8, as: UInt64.self)
            &>> UInt64(truncatingIfNeeded: slot) & 1 == 1
    }

    @inlinable @inline(__always)
    func cellOffset(_ slot: Int, slotCount: Int) -> Int {
        Self.headerSize &+ Self.presenceSize(slotCount: slotCount) &+ slot &* 8
    }

    @inlinable @inline(__always)
    package func integer(_ slot: Int, slotCount: Int) -> Int64 {
        start.load(fromByteOffset: cellOffset(slot, slotCount: slotCount), as: Int64.self)
    }

    @inlinable @inline(__always)
    package func double(_ slot: Int, slotCount: Int) -> Double {
        start.load(fromByteOffset: cellOffset(slot, slotCount: slotCount), as: Double.self)
    }

    @inlinable @inline(__always)
    package func bytes(_ slot: Int, slotCount: Int) -> UnsafeRawBufferPointer {
        let cell = cellOffset(slot, slotCount: slotCount)
        let offset = Int(start.load(fromByteOffset: cell, as: UInt32.self))
        let count = Int(start.load(fromByteOffset: cell + 4, as: UInt32.self))
        return UnsafeRawBufferPointer(start: start + offset, count: count)
    }

    @inlinable @inline(__always)
    package func string(_ slot: Int, slotCount: Int) -> String {
        String(decoding: bytes(slot, slotCount: slotCount), as: UTF8.self)
    }

    func value(
        of slot: ResolvedEntity.Slot, in entity: ResolvedEntity, store: StoreIdentity
    ) throws -> AttributeValue {
        let index = slot.index
        let slotCount = entity.slots.count
        guard hasValue(index) else { return .null }
        switch slot.storage {
        case .integer: return .integer(integer(index, slotCount: slotCount))
        case .double: return .double(double(index, slotCount: slotCount))
        case .boolean: return .boolean(integer(index, slotCount: slotCount) != 0)
        case .date:
            return .date(
                Date(timeIntervalSinceReferenceDate: double(index, slotCount: slotCount)))
        case .reference:
            let bits = UInt64(bitPattern: integer(index, slotCount: slotCount))
            return .objectID(ManagedObjectID(bits: bits, store: store))
        case .string: return .string(string(index, slotCount: slotCount))
        case .decimal:
            let raw = bytes(index, slotCount: slotCount)
            return .decimal(raw.loadUnaligned(as: Decimal.self))
        case .uuid:
            return .uuid(
                UUID(uuid: bytes(index, slotCount: slotCount).loadUnaligned(as: uuid_t.self)))
        case .uri:
            return URL(string: string(index, slotCount: slotCount)).map { .uri($0) } ?? .null
        case .binary:
            let raw = bytes(index, slotCount: slotCount)
            return .binary(slot.isExternalCapable ? try externalCapable(raw) : Data(raw))
        case .transient: return .null
        }
    }

    /// The value of a slot, without reading the file that it may be in.
    package func valueWithoutLoading(
        of slot: ResolvedEntity.Slot, in entity: ResolvedEntity, store: StoreIdentity
    ) throws -> AttributeValue {
        if slot.isExternalCapable, let value = try externalValue(slot.index, of: entity) {
            let id = ManagedObjectID(bits: identifierBits, store: store)
            let owner = QuireError.Subject(
                entity: entity.name, property: slot.name, object: id.uriRepresentation)
            return .external(ExternalData(value.content, owner: owner))
        }
        return try value(of: slot, in: entity, store: store)
    }

    /// The value of a slot that allows external storage, if it is external.
    func externalValue(_ slot: Int, of entity: ResolvedEntity) throws -> ExternalData? {
        guard hasValue(slot) else { return nil }
        let raw = bytes(slot, slotCount: entity.slots.count)
        guard raw.first == ExternalDataTag.external, let reader = chunk.externalData else {
            return nil
        }
        return try reader.externalData(
            named: String(decoding: raw.dropFirst().prefix { $0 != 0 }, as: UTF8.self))
    }

    /// The value of an attribute that allows external storage: a tag byte, then the bytes or a file's name.
    private func externalCapable(_ raw: UnsafeRawBufferPointer) throws -> Data {
        switch raw.first {
        case ExternalDataTag.inline: return Data(raw.dropFirst())
        case ExternalDataTag.external:
            let name = String(decoding: raw.dropFirst().prefix { $0 != 0 }, as: UTF8.self)
            guard let reader = chunk.externalData else {
                throw QuireError(
                    .storeUnavailable,
                    "The value is stored in the file “\(name)”, which cannot be read without its store."
                )
            }
            return try reader.data(named: name)
        default:
            throw QuireError(
                .invalidFormat,
                "A binary value that allows external storage begins with byte "
                    + "\(raw.first.map(String.init) ?? "none") instead of 1 or 2.")
        }
    }
}

/// The byte that precedes the value of a binary attribute which allows external storage, as Core Data has it.
package enum ExternalDataTag {
    package static let inline: UInt8 = 1
    package static let external: UInt8 = 2
    /// The maximum size of inline values.
    package static let maximumInlineSize = 100 * 1024

    /// Whether a stored value has the form of an inline or external value.
    package static func isWellFormed(_ bytes: UnsafeRawBufferPointer) -> Bool {
        switch bytes.first {
        case inline: true
        case external: fileName(in: bytes) != nil
        default: false
        }
    }

    /// The file name in a stored value; `nil` for an inline value.
    package static func fileName(in bytes: UnsafeRawBufferPointer) -> String? {
        guard bytes.first == external, bytes.count >= 37, bytes.count == 37 || bytes[37] == 0
        else { return nil }
        let name = bytes[1..<37]
        return ExternalDataFolder.isFileName(name) ? String(decoding: name, as: UTF8.self) : nil
    }

    /// The stored value that refers to a file.
    package static func reference(toFileNamed name: String) -> Data {
        Data([external] + Array(name.utf8) + [0])
    }
}
