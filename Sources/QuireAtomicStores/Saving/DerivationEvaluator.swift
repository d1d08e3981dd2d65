import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireStore

/// Computes the derived values that a save changes: of the objects it writes, and of those that are related to objects
/// which it writes, deletes or brings into relationships.
struct DerivationEvaluator<Rows: RowStorage> {
    private(set) var save: InMemorySavePlan<Rows>
    private let time = Date()

    init(_ save: InMemorySavePlan<Rows>) { self.save = save }

    private var layout: ResolvedModel { save.layout }

    mutating func run() throws {
        for bits in try concerned() {
            guard try save.exists(bits), let entity = try save.entity(of: bits) else { continue }
            for derivation in layout.derivations[entity] { try derive(derivation, bits) }
        }
        save.finishDerived()
    }

    // MARK: - Which objects

    private mutating func concerned() throws -> [UInt64] {
        var owners = Set<UInt64>()
        var result: [UInt64] = []
        func add(_ bits: UInt64) {
            if owners.insert(layout.rowKey(bits)).inserted { result.append(bits) }
        }
        let written = save.order.compactMap { save.written[$0]?.bits }
        for bits in written { add(bits) }
        for list in save.lists.keys.sorted(by: { $0.owner < $1.owner }) { add(list.owner) }
        let gone = save.deleted.values.map(\.objectID.bits)
        for entity in layout.entities {
            for derivation in layout.derivations[entity]
            where entity.slots[derivation.slot].ownerNumber == entity.number {
                guard let index = derivation.relationshipIndex else { continue }
                let relationship = entity.relationships[index]
                let destination = layout.destination(of: relationship)
                for bits in written + gone
                where destination.subtree.contains(ManagedObjectID.entityNumber(of: bits)) {
                    for owner in try self.owners(of: bits, relationship) { add(owner) }
                }
            }
        }
        return result
    }

    /// The objects that refer to an object by a relationship.
    private mutating func owners(
        of bits: UInt64, _ relationship: ResolvedEntity.Relationship
    ) throws -> [UInt64] {
        guard let inverse = layout.inverse(of: relationship) else {
            return try save.rows.savedReferrers(to: bits, relationship)
        }
        if let slot = inverse.slot {
            // A previous owner is found by the list the object was removed from.
            if case .objectID(let id)? = try save.value(at: slot, of: bits) { return [id.bits] }
            return []
        }
        return Array(try save.members(of: bits, inverse))
    }

    // MARK: - Values

    private mutating func derive(_ derivation: ResolvedEntity.Derivation, _ bits: UInt64) throws {
        let row = save.written[layout.rowKey(bits)]
        guard let entity = try save.entity(of: bits) else { return }
        let derived = try derivation.value(
            as: entity.storages[derivation.slot],
            count: { index in
                var count = 0
                for member in try save.members(of: bits, entity.relationships[index])
                where try save.exists(member) { count += 1 }
                return count
            },
            values: { index, slot in
                var values: [AttributeValue] = []
                for member in try save.members(of: bits, entity.relationships[index]) {
                    if let found = try save.value(at: slot, of: member) { values.append(found) }
                }
                return values
            },
            source: { try source($0, $1, bits, entity) })
        let value: AttributeValue
        if let derived {
            let slot = entity.slots[derivation.slot]
            guard slot.canHold(derived: derived) else {
                throw slot.derivedValueError(
                    derived, primaryKey: Int64(bits.primaryKeyBits), in: entity)
            }
            value = derived
        } else {
            // Set when the object itself is saved, not when one of its values is derived.
            guard let row, !save.derived.contains(where: { $0.bits == row.bits }) else { return }
            value = .date(time)
        }
        if try save.value(at: derivation.slot, of: bits) != value {
            try save.setDerived(value, at: derivation.slot, of: bits)
        }
    }

    private mutating func source(
        _ slot: Int, _ index: Int?, _ bits: UInt64, _ entity: ResolvedEntity
    ) throws -> AttributeValue {
        guard let index else { return try save.value(at: slot, of: bits) ?? .null }
        guard let reference = entity.relationships[index].slot,
            case .objectID(let id)? = try save.value(at: reference, of: bits)
        else { return .null }
        return try save.value(at: slot, of: id.bits) ?? .null
    }
}

// MARK: - Rows that a save reads and writes

/// The stored rows that a save plan is computed against.
protocol RowStorage {
    var layout: ResolvedModel { get }
    var identity: StoreIdentity { get }

    /// The row with the primary key of an identifier in its hierarchy.
    func savedRow(_ bits: UInt64) throws -> ObjectSnapshot?
    /// The members of an object's to-many relationship, in its order or by primary key.
    func savedMembers(
        of bits: UInt64, _ relationship: ResolvedEntity.Relationship
    ) throws -> ContiguousArray<UInt64>
    /// The objects that refer to an object by a relationship without inverse.
    func savedReferrers(
        to bits: UInt64, _ relationship: ResolvedEntity.Relationship
    ) throws -> [UInt64]
    /// The objects with the values of a unique key.
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
            // For identifiers the key is comparable within one hierarchy only.
            if case .objectID = value { value } else { value.stored }
        }
    }

    /// Texts are equal if their bytes are, as in a SQLite store; then their hashes are equal as well.
    static func == (left: UniqueKey, right: UniqueKey) -> Bool {
        left.owner == right.owner && left.properties == right.properties
            && left.values.count == right.values.count
            && zip(left.values, right.values).allSatisfy { $0.isSame(as: $1) }
    }
}

extension ResolvedModel {
    /// The key of an object in maps: a relationship may refer to it by a superentity's identifier.
    @inline(__always)
    func rowKey(_ bits: UInt64) -> UInt64 {
        let number = ManagedObjectID.entityNumber(of: bits)
        return UInt64(entities[number - 1].rootNumber) << 48 | bits.primaryKeyBits
    }

    /// Whether identifier bits are those of a stored object of an entity of the model.
    func isStored(_ bits: UInt64) -> Bool {
        let number = ManagedObjectID.entityNumber(of: bits)
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
