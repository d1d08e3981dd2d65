import Foundation

/// Identifies an object of a store, or one that has not been saved yet.
///
/// An identifier is a value: keep it, compare it, send it to another context and ask that for the object. A
/// new object's identifier ``isTemporary``; saving gives it a permanent one, which never changes and is never
/// given to another object of the store. ``uriRepresentation`` has Core Data's form,
/// `x-coredata://STORE-UUID/Entity/p12`.
public struct ManagedObjectID: Sendable {
    /// Bit 63: temporary. Bits 48–62: the entity's number. Bits 0–47: the primary key.
    @usableFromInline let bits: UInt64
    /// Where the object lives.
    @usableFromInline let store: StoreIdentity

    @inlinable init(bits: UInt64, store: StoreIdentity) {
        self.bits = bits
        self.store = store
    }

    /// The largest primary key an identifier holds.
    static let greatestPrimaryKey: Int64 = (1 << 48) - 1
    /// The largest entity number an identifier holds.
    static let greatestEntityNumber = (1 << 15) - 1

    /// Makes the identifier of a stored object.
    ///
    /// - Precondition: The number and the key are within the bounds above and not negative. Stores check what
    ///   they read before they call this.
    init(entityNumber: Int, primaryKey: Int64, store: StoreIdentity) {
        precondition(
            entityNumber >= 0 && entityNumber <= Self.greatestEntityNumber
                && primaryKey >= 0 && primaryKey <= Self.greatestPrimaryKey,
            "ManagedObjectID: entity number \(entityNumber) or primary key \(primaryKey) out of range."
        )
        self.bits = UInt64(entityNumber) << 48 | UInt64(primaryKey)
        self.store = store
    }

    /// Makes the identifier of a new object. `serial` is unique within the process.
    init(temporaryOf entityNumber: Int, serial: UInt64, model: StoreIdentity) {
        self.bits = 1 << 63 | UInt64(entityNumber) << 48 | serial
        self.store = model
    }

    /// Whether the object has not been saved yet.
    @inlinable public var isTemporary: Bool { bits >> 63 == 1 }

    /// The number of the object's entity in the model, from 1.
    @inlinable var entityNumber: Int { Int(bits >> 48 & 0x7FFF) }

    /// The object's primary key in its table.
    @inlinable var primaryKey: Int64 { Int64(bits & 0xFFFF_FFFF_FFFF) }

    /// The name of the object's entity.
    public var entityName: String { store.entityName(of: entityNumber) }

    /// The UUID of the store that holds the object; `nil` for a temporary identifier.
    public var storeUUID: String? { isTemporary ? nil : store.uuid }

    /// `Entity/p12`, which names the object within its store, or `Entity/t12` for a temporary identifier.
    public var shortDescription: String { "\(entityName)/\(isTemporary ? "t" : "p")\(primaryKey)" }

    /// Core Data's form: `x-coredata://STORE-UUID/Entity/p12`, or `x-coredata:///Entity/t12` for a temporary
    /// identifier.
    public var uriRepresentation: String {
        "x-coredata://\(isTemporary ? "" : store.uuid)/\(shortDescription)"
    }
}

extension ManagedObjectID: Hashable, CustomStringConvertible {
    /// Whether both identify the same object. Identifiers read from the same store opened twice are equal.
    /// Temporary ones are unique in the process.
    @inlinable public static func == (left: ManagedObjectID, right: ManagedObjectID) -> Bool {
        left.bits == right.bits
            && (left.store === right.store || left.isTemporary
                || left.store.uuid == right.store.uuid)
    }

    /// Feeds the identifier into a hasher.
    @inlinable public func hash(into hasher: inout Hasher) { hasher.combine(bits) }

    /// The URI.
    public var description: String { uriRepresentation }
}

/// What the identifiers of a store's objects share: the store's UUID and the names of its entities.
public final class StoreIdentity: Sendable {
    /// The store's UUID in upper case.
    public let uuid: String
    /// The names of the model's entities by their numbers less one.
    let entityNames: [String]

    init(uuid: String, entityNames: [String]) {
        self.uuid = uuid
        self.entityNames = entityNames
    }

    func entityName(of number: Int) -> String {
        number >= 1 && number <= entityNames.count ? entityNames[number - 1] : "?"
    }
}
