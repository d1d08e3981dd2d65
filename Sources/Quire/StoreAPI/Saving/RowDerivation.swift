import Foundation

/// Computes the derived values that a save changes: of the objects it writes, and of those that are related to objects
/// which it writes, deletes or brings into relationships.
struct RowDerivation<Rows: SavedRows> {
    private(set) var save: RowSave<Rows>
    private let time = Date()

    init(_ save: RowSave<Rows>) { self.save = save }

    private var layout: ModelLayout { save.layout }

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
                where destination.subtree.contains(Int(bits >> 48 & 0x7FFF)) {
                    for owner in try self.owners(of: bits, relationship) { add(owner) }
                }
            }
        }
        return result
    }

    /// The objects that lead to one by a relationship.
    private mutating func owners(
        of bits: UInt64, _ relationship: EntityLayout.Relationship
    ) throws -> [UInt64] {
        guard let inverse = layout.inverse(of: relationship) else {
            return try save.rows.savedReferrers(to: bits, relationship)
        }
        if let slot = inverse.slot {
            // What it was before is told by the list that it has gone from.
            if case .objectID(let id)? = try save.value(at: slot, of: bits) { return [id.bits] }
            return []
        }
        return Array(try save.members(of: bits, inverse))
    }

    // MARK: - Values

    private mutating func derive(_ derivation: EntityLayout.Derivation, _ bits: UInt64) throws {
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
            value = derived
        } else {
            // Set when the object itself is saved, not when a value of it is derived.
            guard let row, !save.derived.contains(where: { $0.bits == row.bits }) else { return }
            value = .date(time)
        }
        if try save.value(at: derivation.slot, of: bits) != value {
            try save.setDerived(value, at: derivation.slot, of: bits)
        }
    }

    private mutating func source(
        _ slot: Int, _ index: Int?, _ bits: UInt64, _ entity: EntityLayout
    ) throws -> AttributeValue {
        guard let index else { return try save.value(at: slot, of: bits) ?? .null }
        guard let reference = entity.relationships[index].slot,
            case .objectID(let id)? = try save.value(at: reference, of: bits)
        else { return .null }
        return try save.value(at: slot, of: id.bits) ?? .null
    }
}

extension EntityLayout.Derivation {
    /// The derived value of an object; `nil` for the time of the save.
    ///
    /// - Parameters:
    ///   - storage: The form of the derived slot.
    ///   - count: Counts the objects in a relationship, by its position.
    ///   - values: Gives what those have in a slot.
    ///   - source: Gives what is in a slot of the object, or of the one that a to-one relationship leads to.
    func value(
        as storage: EntityLayout.Slot.Storage, count: (Int) throws -> Int,
        values: (_ relationship: Int, _ slot: Int) throws -> [AttributeValue],
        source: (_ slot: Int, _ relationship: Int?) throws -> AttributeValue
    ) rethrows -> AttributeValue? {
        switch form {
        case .now: return nil
        case .count(let index): return .integer(Int64(try count(index)))
        case .sum(let index, let slot): return Self.sum(try values(index, slot), as: storage)
        case .copy(let index, let slot): return try source(slot, index)
        case .text(let function, let index, let slot):
            guard case .string(let text) = try source(slot, index) else { return .null }
            return .string(function.apply(to: text))
        }
    }

    /// The sum of values in the form of a slot; what has none counts as 0.
    static func sum(
        _ values: [AttributeValue], as storage: EntityLayout.Slot.Storage
    ) -> AttributeValue {
        switch storage {
        case .decimal:
            return .decimal(
                values.reduce(Decimal(0)) {
                    if case .decimal(let number) = $1 { $0 + number } else { $0 }
                })
        case .double:
            return .double(
                values.reduce(0) {
                    switch $1 {
                    case .double(let number): $0 + number
                    case .integer(let number): $0 + Double(number)
                    default: $0
                    }
                })
        default:
            return .integer(
                values.reduce(0) {
                    guard case .integer(let number) = $1 else { return $0 }
                    let (sum, overflow) = $0.addingReportingOverflow(number)
                    return overflow ? (number < 0 ? .min : .max) : sum
                })
        }
    }
}
