internal import Crypto
internal import Foundation
internal import Quire
internal import QuireModel

/// The synchronized part of a model: entities and properties whose `isSyncable` is true and that are stored, but for derived values.
///
/// A relationship has one side that is merged; the other follows from it.
///
/// | relationship | merged side |
/// |---|---|
/// | one-to-many | the to-one side |
/// | one-to-one | the side whose name is less |
/// | many-to-many | the side whose name is less: a member is an entry of its own |
/// | to-many without inverse | the only side |
final class SyncModel: Sendable {
    struct Entity: Sendable {
        let entity: ResolvedEntity
        /// The attributes, and the to-one relationships that are merged.
        let slots: [ResolvedEntity.Slot]
        /// The to-one relationships that follow from the other side's.
        let mirroredSlots: [ResolvedEntity.Slot]
        /// The to-one relationships without which an object is not valid.
        let requiredSlots: [ResolvedEntity.Slot]
        /// The to-many relationships whose members are entries.
        let memberships: [ResolvedEntity.Relationship]
        /// The ordered relationships: their objects' places are entries.
        let orders: [ResolvedEntity.Relationship]
        /// The names of attributes that identify an object on all machines; empty if a random number does.
        let identity: [String]
        /// The policies of attributes that are not merged by the last writer.
        let policies: [String: SyncPolicy]
        let resolvers: [String: SyncResolver]
    }

    let layout: ResolvedModel
    private let entities: [Entity?]
    /// A digest of the model's version hashes.
    let digest: String

    /// The key of an entity's user info with the names of the attributes that identify its objects, separated by commas.
    static let identityKey = "syncIdentity"

    init(_ layout: ResolvedModel, _ policies: SyncPolicies = SyncPolicies()) {
        self.layout = layout
        entities = layout.entities.map { entity in
            guard !entity.isAbstract, entity.description.isSyncable else { return nil }
            return Self.entity(entity, policies, in: layout)
        }
        var hash = SHA256()
        for (name, version) in layout.model.entityVersionHashes().sorted(by: { $0.key < $1.key }) {
            hash.update(data: Data(name.utf8) + version)
        }
        digest = SyncSegmentName.digestText(hash.finalize())
    }

    /// The names of all properties, each with its entity's.
    var propertyNames: Set<String> {
        var names: Set<String> = []
        for entity in entities.compactMap(\.self) {
            let relationships = entity.memberships + entity.orders
            for name in entity.slots.map(\.name) + relationships.map(\.name) {
                names.insert(Self.name(of: name, entity.entity))
            }
        }
        return names
    }

    /// Whether an attribute's values are bytes, which may be in a file of their own.
    var hasBinaryAttributes: Bool {
        entities.compactMap(\.self).contains { entity in
            entity.slots.contains {
                $0.attribute?.type == .binary || $0.attribute?.type == .transformable
            }
        }
    }

    static func name(of property: String, _ entity: ResolvedEntity) -> String {
        "\(entity.name).\(property)"
    }

    subscript(entity: ResolvedEntity) -> Entity? { entities[entity.number - 1] }

    func entity(named name: String) -> Entity? {
        layout.entity(named: name).flatMap { self[$0] }
    }

    /// The names of the attributes that identify an entity's objects on all machines.
    static func identity(of entity: ResolvedEntity) -> [String] {
        guard case .string(let names)? = entity.description.userInfo[identityKey] else { return [] }
        return names.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
    }

    private static func entity(
        _ entity: ResolvedEntity, _ policies: SyncPolicies, in layout: ResolvedModel
    ) -> Entity {
        var (slots, mirrored): ([ResolvedEntity.Slot], [ResolvedEntity.Slot]) = ([], [])
        for slot in entity.slots where slot.isStored && !slot.isDerived {
            guard let index = slot.relationshipIndex else {
                if slot.attribute?.isSyncable ?? true { slots.append(slot) }
                continue
            }
            let relationship = entity.relationships[index]
            guard isSynchronized(relationship, in: layout) else { continue }
            if let inverse = layout.inverse(of: relationship), !inverse.isToMany,
                !isLess(relationship, inverse, in: layout)
            {
                mirrored.append(slot)
            } else {
                slots.append(slot)
            }
        }
        let toMany = entity.relationships.filter {
            $0.isToMany && isSynchronized($0, in: layout)
        }
        return Entity(
            entity: entity, slots: slots, mirroredSlots: mirrored,
            requiredSlots: slots.filter {
                $0.relationshipIndex.map { !entity.relationships[$0].description.isOptional }
                    ?? false
            },
            memberships: toMany.filter {
                guard let inverse = layout.inverse(of: $0) else { return true }
                return inverse.isToMany && isLess($0, inverse, in: layout)
            },
            orders: toMany.filter(\.isOrdered), identity: identity(of: entity),
            policies: policies[entity], resolvers: policies.resolvers(of: entity))
    }

    private static func isSynchronized(
        _ relationship: ResolvedEntity.Relationship, in layout: ResolvedModel
    ) -> Bool {
        relationship.description.isSyncable && !relationship.description.isTransient
            && layout.destination(of: relationship).description.isSyncable
            && layout.inverse(of: relationship)?.description.isSyncable ?? true
    }

    /// Whether a relationship is the merged side of a pair; the only side of one that is its own inverse.
    private static func isLess(
        _ relationship: ResolvedEntity.Relationship, _ inverse: ResolvedEntity.Relationship,
        in layout: ResolvedModel
    ) -> Bool {
        func name(_ relationship: ResolvedEntity.Relationship) -> [String] {
            [layout.entity(number: relationship.ownerNumber).name, relationship.name]
        }
        return !name(inverse).lexicographicallyPrecedes(name(relationship))
    }
}

// MARK: - Identity

extension SyncModel.Entity {
    /// The identifier that a new object has on all machines; `nil` if a random one does.
    func identifier(
        of entries: [SyncKey: SyncEntry], in container: SyncIdentifier, layout: ResolvedModel
    ) -> SyncIdentifier? {
        if identity.isEmpty { return nil }
        var name = SyncByteWriter()
        for key in identity {
            guard let value = entries[.property(key)]?.value, value != .null else { return nil }
            value.encode(to: &name)
        }
        return SyncIdentifier(
            ofObjectNamed: name.bytes, entity: layout.entity(number: entity.rootNumber).name,
            in: container)
    }
}

/// Uniqueness constraints among records.
enum SyncUniqueness {
    /// The unique values of a record: one for each constraint all of whose properties have a value; none if it is deleted.
    ///
    /// A text is compared by its bytes, as in an index of SQLite. A reference is compared as it is, without resolving duplicates.
    static func values(of record: SyncRecord, in layout: ResolvedModel) -> Set<Data> {
        guard record.isAlive, let entity = layout.entity(named: record.entity),
            !entity.uniquenessConstraints.isEmpty
        else { return [] }
        var found: Set<Data> = []
        for (number, constraint) in entity.uniquenessConstraints.enumerated() {
            var writer = SyncByteWriter()
            writer.text(layout.entity(number: constraint.ownerNumber).name)
            writer.unsigned(UInt64(number))
            let isWhole = constraint.properties.allSatisfy { name in
                guard let value = record[.property(name)]?.value, value != .null else {
                    return false
                }
                value.encode(to: &writer)
                return true
            }
            if isWhole { found.insert(Data(SHA256.hash(data: writer.bytes).prefix(16))) }
        }
        return found
    }
}
