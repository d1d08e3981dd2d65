internal import QuireModel
internal import QuireQuery
internal import QuireStore

/// What a save is worked out against: the rows as they are.
protocol SavedRows {
    var layout: ModelLayout { get }
    var identity: StoreIdentity { get }

    /// The row with the primary key of an identifier in its hierarchy.
    func savedRow(_ bits: UInt64) throws -> ObjectSnapshot?
    /// What a to-many relationship of an object leads to, in its order or by primary key.
    func savedMembers(
        of bits: UInt64, _ relationship: EntityLayout.Relationship
    ) throws -> ContiguousArray<UInt64>
    /// The objects that lead to one by a relationship that has no inverse.
    func savedReferrers(
        to bits: UInt64, _ relationship: EntityLayout.Relationship
    ) throws -> [UInt64]
    /// The objects that have values which must be unique.
    func savedHolders(of key: UniqueKey) throws -> [UInt64]
}

/// Values that must be unique among the objects of an entity.
struct UniqueKey: Hashable, Sendable {
    /// The number of the entity that declares the constraint.
    let owner: Int
    /// The properties.
    let properties: [String]
    /// Their values as stores keep them, so that those are equal that a store cannot tell apart.
    let values: [AttributeValue]

    /// The key of an object for a constraint; `nil` if a value is missing, which is unlike any other.
    init?(owner: Int, properties: [String], values: [AttributeValue]) {
        guard !values.isEmpty, !values.contains(where: { $0.stored.isNull }) else { return nil }
        self.owner = owner
        self.properties = properties
        self.values = values.map { value in
            // Of objects the key would do within one hierarchy only.
            if case .objectID = value { value } else { value.stored }
        }
    }
}

extension ModelLayout {
    /// What identifies an object in maps: a relationship may know it as one of a superentity.
    @inline(__always)
    func rowKey(_ bits: UInt64) -> UInt64 {
        let number = Int(bits >> 48 & 0x7FFF)
        return UInt64(entities[number - 1].rootNumber) << 48 | bits.primaryKeyBits
    }

    /// Whether identifier bits are those of a stored object of an entity of the model.
    func isStored(_ bits: UInt64) -> Bool {
        let number = Int(bits >> 48 & 0x7FFF)
        return bits >> 63 == 0 && number >= 1 && number <= entities.count
    }
}

extension UInt64 {
    /// The primary key of identifier bits.
    @inline(__always)
    var primaryKeyBits: UInt64 { self & 0xFF_FFFF_FFFF }
}

extension StoreIdentity {
    /// The bits of an identifier of the store as its own identifiers have them, however another coordinator counts
    /// stores.
    @inline(__always)
    func bits(of id: ManagedObjectID) -> UInt64 {
        id.bits & ~ManagedObjectID.storeNumberMask | numberBits
    }
}
