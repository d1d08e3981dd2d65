import Foundation

/// Identifies an object of a store, or one that has not been saved yet.
///
/// An identifier is a value: keep it, compare it, send it to another context and ask that for the object. A
/// new object's identifier ``isTemporary``; saving gives it a permanent one, which never changes and is never
/// given to another object of the store. ``uriRepresentation`` has Core Data's form,
/// `x-coredata://STORE-UUID/Entity/p12`.
public struct ManagedObjectID: Sendable {
    /// Bit 63: temporary. Bits 48–62: the entity's number. Bits 40–47: the number of the store among those of its
    /// coordinator. Bits 0–39: the primary key.
    @usableFromInline package let bits: UInt64
    /// Where the object lives.
    @usableFromInline package let store: StoreIdentity

    @inlinable package init(bits: UInt64, store: StoreIdentity) {
        self.bits = bits
        self.store = store
    }

    /// The largest primary key an identifier holds.
    package static let greatestPrimaryKey: Int64 = (1 << 40) - 1
    /// The largest number of a store.
    static let greatestStoreNumber = (1 << 8) - 1
    package static let storeNumberShift: UInt64 = 40
    package static let storeNumberMask: UInt64 = 0xFF << storeNumberShift
    /// The largest entity number an identifier holds.
    package static let greatestEntityNumber = (1 << 15) - 1

    /// Makes the identifier of a stored object.
    ///
    /// - Precondition: The number and the key are within the bounds above and not negative. Stores check what
    ///   they read before they call this.
    package init(entityNumber: Int, primaryKey: Int64, store: StoreIdentity) {
        precondition(
            entityNumber >= 0 && entityNumber <= Self.greatestEntityNumber
                && primaryKey >= 0 && primaryKey <= Self.greatestPrimaryKey,
            "ManagedObjectID: entity number \(entityNumber) or primary key \(primaryKey) out of range."
        )
        self.bits = UInt64(entityNumber) << 48 | store.numberBits | UInt64(primaryKey)
        self.store = store
    }

    /// Makes the identifier of a new object. `serial` is unique within the process.
    package init(temporaryOf entityNumber: Int, serial: UInt64, model: StoreIdentity) {
        self.bits = 1 << 63 | UInt64(entityNumber) << 48 | serial
        self.store = model
    }

    /// Whether the object has not been saved yet.
    @inlinable public var isTemporary: Bool { bits >> 63 == 1 }

    /// The number of the object's entity in the model, from 1.
    @inlinable package var entityNumber: Int { Int(bits >> 48 & 0x7FFF) }

    /// The object's primary key in its table.
    @inlinable package var primaryKey: Int64 { Int64(bits & 0xFF_FFFF_FFFF) }

    /// The number of the store that bits say they are of.
    @inline(__always)
    package static func storeNumber(of bits: UInt64) -> Int {
        Int((bits & storeNumberMask) >> storeNumberShift)
    }

    /// The name of the object's entity.
    public var entityName: String { store.entityName(of: entityNumber) }

    /// The UUID of the store that holds the object; `nil` for a temporary identifier.
    public var storeUUID: String? { isTemporary ? nil : store.uuid(of: bits) }

    /// `Entity/p12`, which names the object within its store, or `Entity/t12` for a temporary identifier.
    public var shortDescription: String { "\(entityName)/\(isTemporary ? "t" : "p")\(primaryKey)" }

    /// Core Data's form: `x-coredata://STORE-UUID/Entity/p12`, or `x-coredata:///Entity/t12` for a temporary
    /// identifier.
    public var uriRepresentation: String {
        "x-coredata://\(storeUUID ?? "")/\(shortDescription)"
    }
}

extension ManagedObjectID: Hashable, CustomStringConvertible {
    /// Whether both identify the same object. Identifiers read from the same store opened twice are equal.
    /// Temporary ones are unique in the process.
    @inlinable public static func == (left: ManagedObjectID, right: ManagedObjectID) -> Bool {
        if left.store === right.store || left.isTemporary { return left.bits == right.bits }
        return left.isSameElsewhere(right)
    }

    /// Compares with an identifier that another store's identity, or another coordinator, has made.
    @usableFromInline
    func isSameElsewhere(_ other: ManagedObjectID) -> Bool {
        (bits ^ other.bits) & ~Self.storeNumberMask == 0
            && store.uuid(of: bits) == other.store.uuid(of: other.bits)
    }

    /// Feeds the identifier into a hasher.
    @inlinable public func hash(into hasher: inout Hasher) {
        // The same store may have another number in another coordinator.
        hasher.combine(bits & ~0xFF00_0000_0000)
    }

    /// The URI.
    public var description: String { uriRepresentation }
}
