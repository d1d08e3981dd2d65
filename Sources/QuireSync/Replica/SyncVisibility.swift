internal import Foundation
internal import Quire
internal import QuireModel

/// The objects that have rows: a pure function of all records, so that replicas with the same records have the same rows.
///
/// An object has a row if it exists, the model has its entity, no older object has its unique values, and the objects that its
/// required relationships refer to have rows. References to an object that has lost its unique values to another go to that one.
final class SyncVisibility {
    private let tables: SyncTables
    private let model: SyncModel
    private var known: [SyncIdentifier: Bool] = [:]
    private var survivors: [SyncIdentifier: SyncIdentifier] = [:]

    init(_ tables: SyncTables, _ model: SyncModel) {
        self.tables = tables
        self.model = model
    }

    /// Whether an object has a row: itself and all that it requires, directly or through others, exist.
    ///
    /// So objects that require each other have rows if nothing else is missing.
    func isVisible(_ id: SyncIdentifier) throws -> Bool {
        if let result = known[id] { return result }
        var required: Set<SyncIdentifier> = [id]
        var pending = [id]
        while let next = pending.popLast() {
            if known[next] == true { continue }
            guard known[next] == nil, let targets = try requirements(of: next) else {
                known[next] = false
                known[id] = false
                return false
            }
            for target in targets where required.insert(target).inserted { pending.append(target) }
        }
        // What these require is among them.
        for member in required { known[member] = true }
        return true
    }

    /// The objects that an object's required relationships refer to; `nil` if it has no row by itself.
    private func requirements(of id: SyncIdentifier) throws -> [SyncIdentifier]? {
        guard let object = try tables.object(id), object.record.isAlive,
            let entity = model.entity(named: object.record.entity), try survivor(of: id) == id
        else { return nil }
        if missingAttribute(of: object.record, entity) != nil { return nil }
        var targets: [SyncIdentifier] = []
        for slot in entity.requiredSlots {
            guard case .reference(let id)? = object.record[.property(entity.name(of: slot))]?.value,
                let index = slot.relationshipIndex
            else { return nil }
            let target = try survivor(of: id)
            // A file lies, if it is of another entity: the relationship has no row to refer to.
            guard let name = try tables.object(target)?.record.entity,
                let found = model.resolvedEntity(named: name),
                model.layout.destination(of: entity.entity.relationships[index]).subtree
                    .contains(found.number)
            else { return nil }
            targets.append(target)
        }
        return targets
    }

    /// An attribute without a value of which an object is not valid, and that has none that the model allows.
    private func missingAttribute(
        of record: SyncRecord, _ entity: SyncModel.Entity
    ) -> ResolvedEntity.Slot? {
        entity.requiredAttributes.first { slot in
            let name = entity.name(of: slot)
            if let counter = SyncCounter(slot, named: name, of: record), counter.isCounted {
                return false
            }
            switch record[.property(name)]?.value {
            case .blob?: return false
            case let value?:
                do {
                    return try slot.coerce(value.attributeValue ?? .null, in: entity.entity).isNull
                } catch {
                    return true
                }
            case nil: return true
            }
        }
    }

    /// What keeps an object from having a row.
    enum Obstacle {
        /// A property has no value that the model allows.
        case value(property: String)
        /// Another object has the values of unique properties.
        case uniqueValue(properties: [String], of: SyncIdentifier)
        /// An object that it requires has no row; `nil` if none is known.
        case object(property: String, SyncIdentifier?)
    }

    /// What keeps an object that exists from having a row; `nil` if it has one, or its entity is not in the model.
    func obstacle(of id: SyncIdentifier) throws -> Obstacle? {
        guard let record = try tables.object(id)?.record, record.isAlive,
            let entity = model.entity(named: record.entity), try !isVisible(id)
        else { return nil }
        let survivor = try survivor(of: id)
        if survivor != id {
            let owned = try tables.object(survivor)?.record
            return .uniqueValue(
                properties: SyncUniqueness.sharedProperties(of: record, owned, in: model),
                of: survivor)
        }
        if let slot = missingAttribute(of: record, entity) { return .value(property: slot.name) }
        for slot in entity.requiredSlots {
            guard case .reference(let target)? = record[.property(entity.name(of: slot))]?.value
            else { return .object(property: slot.name, nil) }
            let row = try self.survivor(of: target)
            if try !isVisible(row) { return .object(property: slot.name, row) }
        }
        return .object(property: entity.requiredSlots.first?.name ?? "", nil)
    }

    /// The object that stands for an object: itself, or the one that has its unique values.
    func survivor(of id: SyncIdentifier) throws -> SyncIdentifier {
        if let known = survivors[id] { return known }
        let group = try self.group(of: id)
        if group.count < 2 {
            survivors[id] = id
            return id
        }
        var owners: [Data: SyncIdentifier] = [:]
        for member in group.sorted(by: { ($0.age, $0.id) < ($1.age, $1.id) }) {
            if let owner = member.values.compactMap({ owners[$0] }).min() {
                survivors[member.id] = owner
            } else {
                survivors[member.id] = member.id
                for value in member.values { owners[value] = member.id }
            }
        }
        return survivors[id] ?? id
    }

    /// The objects that an object stands for, because it has their unique values.
    func duplicates(of id: SyncIdentifier) throws -> [SyncIdentifier] {
        try group(of: id).map(\.id).filter { try $0 != id && survivor(of: $0) == id }
    }

    /// The objects that share unique values with an object, or with one of these; itself among them.
    func competitors(of id: SyncIdentifier) throws -> [SyncIdentifier] {
        try group(of: id).map(\.id)
    }

    /// An existing object with unique values.
    private struct Member {
        let id: SyncIdentifier
        /// The version with which it came into being: the older object survives.
        let age: SyncVersion
        let values: Set<Data>
    }

    /// The objects that share unique values with an object, or with one of these; itself among them.
    private func group(of id: SyncIdentifier) throws -> [Member] {
        var group: [Member] = []
        var found: Set<SyncIdentifier> = [id]
        var pending = [id]
        while let next = pending.popLast() {
            guard let record = try tables.object(next)?.record,
                let age = record[.existence]?.version
            else { continue }
            let values = SyncUniqueness.values(of: record, in: model)
            group.append(Member(id: next, age: age, values: values))
            for value in values {
                for other in try tables.objects(withUniqueValue: value)
                where found.insert(other).inserted {
                    pending.append(other)
                }
            }
        }
        return group
    }

    /// The row that a reference goes to; `nil` if there is none.
    func row(of reference: SyncIdentifier) throws -> SyncIdentifier? {
        let survivor = try survivor(of: reference)
        return try isVisible(survivor) ? survivor : nil
    }
}
