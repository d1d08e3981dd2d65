internal import Crypto
internal import Foundation
internal import Quire
internal import QuireModel

/// The synchronized part of a model: entities and properties whose `isSyncable` is true and that are stored, but for derived values.
///
/// Records name entities and properties by the names that they have in all versions of the model, their renaming identifiers: so
/// replicas with different versions have the same objects.
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
        /// The names of the slots in records, by their indexes.
        fileprivate let slotNames: [String]
        /// The attributes, and the to-one relationships that are merged.
        let slots: [ResolvedEntity.Slot]
        /// The to-one relationships that follow from the other side's.
        let mirroredSlots: [ResolvedEntity.Slot]
        /// The attributes without a value of which an object is not valid.
        let requiredAttributes: [ResolvedEntity.Slot]
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
    /// All entities by their names in records.
    private let byName: [String: ResolvedEntity]
    /// A digest of the model's version hashes.
    let digest: String
    /// The names in records of all entities, and of all properties, each with its entity's, and those in this version of the model.
    /// Keys with a colon describe what else rows depend on: uniqueness constraints, required properties, types, orders.
    let names: [String: String]

    /// The key of an entity's user info with the names of the attributes that identify its objects, separated by commas.
    static let identityKey = "syncIdentity"

    init(_ layout: ResolvedModel, _ policies: SyncPolicies = SyncPolicies()) {
        self.layout = layout
        byName = Dictionary(layout.entities.map { ($0.renamingIdentifier, $0) }) { first, _ in first
        }
        entities = layout.entities.map { entity in
            guard !entity.isAbstract, entity.description.isSyncable else { return nil }
            return Self.entity(entity, policies, in: layout)
        }
        var hash = SHA256()
        for (name, version) in layout.model.entityVersionHashes().sorted(by: { $0.key < $1.key }) {
            hash.update(data: Data(name.utf8) + version)
        }
        digest = SyncSegmentName.digestText(hash.finalize())
        names = Self.names(of: entities.compactMap(\.self))
    }

    private static func names(of entities: [Entity]) -> [String: String] {
        var names: [String: String] = [:]
        for entity in entities {
            names[entity.name] = entity.entity.name
            for slot in entity.slots {
                let name = "\(entity.name).\(entity.name(of: slot))"
                names[name] = "\(entity.entity.name).\(slot.name)"
                if let attribute = slot.attribute {
                    names[name + ":rule"] = SyncValueRule(attribute).text
                } else if entity.requiredSlots.contains(where: { $0.index == slot.index }) {
                    names[name + ":rule"] = "required"
                }
            }
            for relationship in entity.memberships + entity.orders {
                names["\(entity.name).\(relationship.renamingIdentifier)"] =
                    "\(entity.entity.name).\(relationship.name)"
            }
            for relationship in entity.orders {
                names["\(entity.name).\(relationship.renamingIdentifier):order"] = "ordered"
            }
            for (number, constraint) in entity.entity.uniquenessConstraints.enumerated() {
                names["\(entity.name):\(number)"] = constraint.properties.joined(separator: ",")
            }
            if !entity.identity.isEmpty {
                names["\(entity.name):identity"] = entity.identity.joined(separator: ",")
            }
        }
        return names
    }

    /// Whether a slot is an end of a one-to-one relationship.
    func isOneToOne(_ slot: ResolvedEntity.Slot, of entity: Entity) -> Bool {
        guard let index = slot.relationshipIndex,
            let inverse = layout.inverse(of: entity.entity.relationships[index])
        else { return false }
        return !inverse.isToMany
    }

    /// Throws if two entities, or two properties of an entity, have one name in records.
    func requireDistinctNames() throws {
        func require(_ names: [(lasting: String, name: String)], _ entity: String?) throws {
            var found: [String: String] = [:]
            for (lasting, name) in names {
                guard let other = found.updateValue(name, forKey: lasting) else { continue }
                throw QuireError(
                    .invalidModel,
                    "“\(name)” and “\(other)”\(entity.map { " of \($0)" } ?? "") have the same name in shared documents, “\(lasting)”; give the new one its own renaming identifier.",
                    entity: entity ?? name, property: entity == nil ? nil : name)
            }
        }
        try require(layout.entities.map { ($0.renamingIdentifier, $0.name) }, nil)
        for entity in layout.entities {
            let names = layout.renamingIdentifiers(ofSlotsOf: entity)
            let toMany = entity.toManyRelationships.map { entity.relationships[$0] }
            try require(
                entity.slots.map { (names[$0.index], $0.name) }
                    + toMany.map { ($0.renamingIdentifier, $0.name) }, entity.name)
        }
    }

    /// Throws if an entity or property of an earlier version is there under another name in records: the document's objects, or
    /// their values, would be taken for removed, and those of the rows for new.
    ///
    /// - Parameter old: The ``names`` of the earlier version.
    func requireNames(of old: [String: String]) throws {
        let lasting = Dictionary(names.map { ($0.value, $0.key) }) { first, _ in first }
        for (key, name) in old.sorted(by: { $0.key < $1.key })
        where names[key] == nil && !key.contains(":") {
            guard let other = lasting[name] ?? (names[name] == nil ? nil : name) else { continue }
            let noun = key.contains(".") ? "property" : "entity"
            let present = names[other] ?? other
            throw QuireError(
                .invalidModel,
                "The \(noun) “\(name)” was renamed to “\(present)”, but the shared document calls it “\(key)”; give it the renaming identifier “\(key.split(separator: ".").last ?? "")” in this and all later versions of the model.",
                entity: present.split(separator: ".").first.map(String.init))
        }
    }

    /// Whether an attribute's values are bytes, which may be in a file of their own.
    var hasBinaryAttributes: Bool {
        entities.compactMap(\.self).contains { entity in
            entity.slots.contains {
                $0.attribute?.type == .binary || $0.attribute?.type == .transformable
            }
        }
    }

    subscript(entity: ResolvedEntity) -> Entity? { entities[entity.number - 1] }

    /// The synchronized entity with a name in records.
    func entity(named name: String) -> Entity? { byName[name].flatMap { self[$0] } }

    /// The entity with a name in records, synchronized or not.
    func resolvedEntity(named name: String) -> ResolvedEntity? { byName[name] }

    /// The name in records of the root of an entity's hierarchy.
    func rootName(of entity: ResolvedEntity) -> String {
        layout.entity(number: entity.rootNumber).renamingIdentifier
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
            entity: entity, slotNames: layout.renamingIdentifiers(ofSlotsOf: entity), slots: slots,
            mirroredSlots: mirrored,
            // An element of a composite may be missing with the composite.
            requiredAttributes: slots.filter { slot in
                guard let attribute = slot.attribute, !slot.name.contains(".") else { return false }
                return !attribute.isOptional && attribute.defaultValue.isNull
            },
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
            [
                layout.entity(number: relationship.ownerNumber).renamingIdentifier,
                relationship.renamingIdentifier,
            ]
        }
        return !name(inverse).lexicographicallyPrecedes(name(relationship))
    }
}

/// How a model represents an attribute's recorded values in rows: another model may have recorded one that it does not allow.
struct SyncValueRule {
    let type: AttributeType
    private let isOptional: Bool
    let defaultValue: AttributeValue

    init(_ attribute: AttributeDescription) {
        (type, isOptional) = (attribute.type, attribute.isOptional)
        defaultValue = attribute.defaultValue
    }

    /// The value in a row in the place of one in a record: null if it is of another type, and the default value if that is required.
    func shown(_ value: AttributeValue) -> AttributeValue {
        let shown = (try? AttributeDescription(name: "", type: type).coerce(value)) ?? .null
        return shown.isNull && !isOptional ? defaultValue : shown
    }

    // MARK: As a text

    /// - Parameter text: The ``text`` of a rule; `nil` if it is of none.
    init?(text: String) {
        let parts = text.split(separator: " ")
        guard parts.count == 3, let type = Int(parts[0]).flatMap(AttributeType.init(rawValue:)),
            let data = Data(base64Encoded: String(parts[2]))
        else { return nil }
        var reader = SyncByteReader(Array(data)[...], file: "")
        guard let value = try? SyncValue(from: &reader).attributeValue else { return nil }
        (self.type, isOptional, defaultValue) = (type, parts[1] == "optional", value)
    }

    var text: String {
        let value = (try? SyncValue(defaultValue)) ?? .null
        return [
            "\(type.rawValue)", isOptional ? "optional" : "required",
            Data(value.encoded).base64EncodedString(),
        ].joined(separator: " ")
    }
}

// MARK: - Identity

extension SyncModel.Entity {
    /// The entity's name in records.
    var name: String { entity.renamingIdentifier }

    /// The name in records of one of the entity's slots.
    func name(of slot: ResolvedEntity.Slot) -> String { slotNames[slot.index] }

    /// The name in records of an attribute or a to-one relationship; `nil` if the entity has none of a name.
    func name(ofProperty name: String) -> String? {
        entity.slots.first { $0.name == name }.map { self.name(of: $0) }
    }

    /// The slot with a name in records.
    func slot(named name: String) -> ResolvedEntity.Slot? {
        slots.first { self.name(of: $0) == name }
    }

    /// The name in this version of the model of a property with a name in records; `nil` if there is none.
    func propertyName(for name: String) -> String? {
        slot(named: name)?.name ?? memberships.first { $0.renamingIdentifier == name }?.name
    }

    /// The identifier that a new object has on all machines; `nil` if a random one does.
    func identifier(
        of entries: [SyncKey: SyncEntry], in container: SyncIdentifier, _ model: SyncModel
    ) -> SyncIdentifier? {
        if identity.isEmpty { return nil }
        var key = SyncByteWriter()
        for property in identity {
            guard let name = name(ofProperty: property),
                let value = entries[.property(name)]?.value, value != .null
            else { return nil }
            value.encode(to: &key)
        }
        return SyncIdentifier(
            ofObjectNamed: key.bytes, entity: model.rootName(of: entity), in: container)
    }
}

/// Uniqueness constraints among records.
enum SyncUniqueness {
    /// The unique values of a record: one for each constraint, and for the identity, all of whose properties have a value; none if it
    /// is deleted.
    ///
    /// A text is compared by its bytes, as in an index of SQLite. A reference is compared as it is, without resolving duplicates.
    static func values(of record: SyncRecord, in model: SyncModel) -> Set<Data> {
        guard record.isAlive, let entity = model.entity(named: record.entity),
            !entity.entity.uniquenessConstraints.isEmpty || !entity.identity.isEmpty
        else { return [] }
        var found: Set<Data> = []
        func add(_ properties: [String], _ scope: String, _ number: Int) {
            var writer = SyncByteWriter()
            writer.text(scope)
            writer.unsigned(UInt64(number))
            let isWhole = properties.allSatisfy { property in
                guard let name = entity.name(ofProperty: property),
                    let value = record[.property(name)]?.value, value != .null
                else { return false }
                value.encode(to: &writer)
                return true
            }
            if isWhole { found.insert(Data(SHA256.hash(data: writer.bytes).prefix(16))) }
        }
        for (number, constraint) in entity.entity.uniquenessConstraints.enumerated() {
            let owner = model.layout.entity(number: constraint.ownerNumber)
            add(constraint.properties, owner.renamingIdentifier, number)
        }
        // Objects that were inserted with one identity before either was known to the other machine have two identifiers.
        if !entity.identity.isEmpty {
            add(entity.identity, "identity:" + model.rootName(of: entity.entity), 0)
        }
        return found
    }

    /// The names of unique properties whose values two records share: of the first constraint, or of the identity.
    static func sharedProperties(
        of record: SyncRecord, _ other: SyncRecord?, in model: SyncModel
    ) -> [String] {
        guard let entity = model.entity(named: record.entity) else { return [] }
        let candidates = entity.entity.uniquenessConstraints.map(\.properties) + [entity.identity]
        return candidates.first { properties in
            !properties.isEmpty
                && properties.allSatisfy { property in
                    guard let name = entity.name(ofProperty: property),
                        let value = record[.property(name)]?.value, value != .null
                    else { return false }
                    return other?[.property(name)]?.value == value
                }
        } ?? []
    }
}
