public import Foundation
package import QuireSystem

/// An entity with inheritance resolved and all parts numbered, as used by the graph and the stores.
///
/// An entity's properties begin with its superentity's, at the same positions, so a slot or relationship number of an entity
/// is valid in all its sub-entities.
public final class ResolvedEntity: Sendable {
    /// The resolution of a property name.
    public enum Property: Sendable {
        /// An attribute, or an element of a composite.
        case attribute(slot: Int)
        /// A relationship of either kind.
        case relationship(index: Int)
        /// A composite attribute: the slots of its leaves.
        case composite(slots: Range<Int>)
        /// A fetched property; indirect, so that the other cases are trivial to copy.
        indirect case fetched(FetchedPropertyDescription)
    }

    /// The entity's number, from 1: its position in a pre-order walk of all entities, siblings sorted by name ignoring case,
    /// as Core Data numbers them (`Z_ENT`).
    public let number: Int
    /// The model's description, with inherited properties.
    public let description: EntityDescription
    /// The entity's name.
    public var name: String { description.name }
    /// Whether only sub-entities have objects.
    public var isAbstract: Bool { description.isAbstract }
    /// The number of the superentity.
    public let superentityNumber: Int?
    /// The number of the root entity, whose table contains the objects.
    public let rootNumber: Int
    /// The numbers of this entity and of all its sub-entities.
    public let subtree: ClosedRange<Int>
    /// Whether the entity has sub-entities.
    public var hasSubentities: Bool { subtree.count > 1 }
    /// The slots for single values, inherited ones first.
    public let slots: [Slot]
    /// The storage forms of ``slots``, contiguous for speed.
    @usableFromInline package let storages: ContiguousArray<Slot.Storage>
    /// The slots that can hold object identifiers.
    package let identifierSlots: [Int]
    /// The slots that are not stored.
    package let transientSlots: SlotMask
    /// The slots of derived attributes.
    package let derivedSlots: SlotMask
    /// Whether there are derived slots.
    package let hasDerivedSlots: Bool
    /// The slots with validation rules; see ``Slot/hasRules``.
    package let ruledSlots: [Slot]
    /// The initial values of a new object.
    package let defaultValues: ContiguousArray<AttributeValue>
    /// The slots with a non-null default value.
    package let defaultSlots: [Int]
    /// The relationships, inherited ones first.
    public let relationships: [Relationship]
    /// The positions in ``relationships`` of the to-many relationships.
    public let toManyRelationships: [Int]
    /// The to-many relationships with a minimum or maximum count.
    package let countedRelationships: [Relationship]
    /// Whether an object with values of the right types can violate a rule of the model.
    package let hasRules: Bool
    /// Uniqueness constraints, inherited ones first, with the number of the entity that declares each.
    public let uniquenessConstraints: [(ownerNumber: Int, properties: [String])]
    /// All properties by name; composite elements by their dotted names too.
    public let properties: [String: Property]
    /// The names of all properties, without composite elements, sorted.
    public let propertyNames: [String]

    /// The bound class of the entity, or of its nearest superentity with one.
    public let objectClass: (any EntityClass.Type)?
    /// The positions of the class's properties, by ordinal; see ``ClassBinding``.
    package let classTable: ContiguousArray<Int>

    package init(
        number: Int, description: EntityDescription, superentity: ResolvedEntity?, subtreeEnd: Int,
        slots: [Slot], relationships: [Relationship], properties: [String: Property],
        propertyNames: [String]
    ) {
        self.number = number
        var description = description
        if let inherited = superentity?.description {
            description.inheritedProperties = inherited.inheritedProperties + inherited.properties
        }
        self.description = description
        let objectClass = description.objectClass ?? superentity?.objectClass
        self.objectClass = objectClass
        self.classTable = ClassBinding.table(
            of: objectClass, properties: properties, relationships: relationships)
        self.superentityNumber = superentity?.number
        self.rootNumber = superentity?.rootNumber ?? number
        self.subtree = number...subtreeEnd
        self.slots = slots
        self.storages = ContiguousArray(slots.map(\.storage))
        self.identifierSlots =
            slots.filter { $0.storage == .reference || $0.storage == .transient }.map(\.index)
        var transientSlots = SlotMask()
        for slot in slots where !slot.isStored { transientSlots.insert(slot.index) }
        self.transientSlots = transientSlots
        var derivedSlots = SlotMask()
        for slot in slots where slot.isDerived { derivedSlots.insert(slot.index) }
        self.derivedSlots = derivedSlots
        hasDerivedSlots = !derivedSlots.isEmpty
        self.ruledSlots = slots.filter { slot in
            slot.hasRules
                || slot.relationshipIndex.map { !relationships[$0].description.isOptional } ?? false
        }
        let defaultValues = ContiguousArray(slots.map { $0.attribute?.defaultValue ?? .null })
        self.defaultValues = defaultValues
        self.defaultSlots = defaultValues.indices.filter { !defaultValues[$0].isNull }
        self.relationships = relationships
        self.toManyRelationships = relationships.filter(\.isToMany).map(\.index)
        self.countedRelationships = relationships.filter(\.hasCountRules)
        self.hasRules = !ruledSlots.isEmpty || !countedRelationships.isEmpty
        self.uniquenessConstraints =
            (superentity?.uniquenessConstraints ?? [])
            + description.uniquenessConstraints.map { (number, $0) }
        self.properties = properties
        self.propertyNames = propertyNames
    }

    /// The relationship of a name.
    public func relationship(named name: String) -> Relationship? {
        // Comparing a few short names takes less time than a hash.
        if relationships.count <= 8 { return relationships.first { $0.name == name } }
        if case .relationship(let index)? = properties[name] { return relationships[index] }
        return nil
    }
}

// MARK: - Slots

extension ResolvedEntity {
    /// A single value of an object: an attribute, an element of a composite attribute, or a to-one relationship.
    ///
    /// A class, because copying a structure of so many parts would cost many retains.
    public final class Slot: Sendable {
        /// The storage form of a value in rows.
        public enum Storage: UInt8, Sendable {
            case integer, double, boolean, decimal, string, date, binary, uuid, uri, reference
            /// In memory only, of any type.
            case transient
        }

        /// The slot's position in ``ResolvedEntity/slots``.
        public let index: Int
        /// The property's name; for an element of a composite, the names joined with dots.
        public let name: String
        /// The form of the value.
        public let storage: Storage
        /// The attribute, or the composite's element; `nil` for a to-one relationship.
        public let attribute: AttributeDescription?
        /// The position in ``ResolvedEntity/relationships`` of a to-one relationship.
        public let relationshipIndex: Int?
        /// The number of the entity that declares the property.
        public let ownerNumber: Int
        /// Whether the value is stored.
        public let isStored: Bool
        /// Whether the binary value may be kept in a separate file.
        public let isExternalCapable: Bool
        /// Whether the value is derived and cannot be set.
        public let isDerived: Bool
        /// The attribute's type; `nil` if it cannot be set.
        @usableFromInline let type: AttributeType?
        /// Whether null or a value of the attribute's type can violate a rule of the attribute.
        package let hasRules: Bool

        init(
            index: Int, name: String, storage: Storage, attribute: AttributeDescription?,
            relationshipIndex: Int?, ownerNumber: Int, isStored: Bool, isExternalCapable: Bool
        ) {
            self.index = index
            self.name = name
            self.storage = storage
            self.attribute = attribute
            self.relationshipIndex = relationshipIndex
            self.ownerNumber = ownerNumber
            self.isStored = isStored
            self.isExternalCapable = isExternalCapable
            isDerived = attribute?.derivationExpression != nil
            type = isDerived ? nil : attribute?.type
            hasRules =
                attribute.map {
                    !$0.isOptional || !$0.minimum.isNull || !$0.maximum.isNull
                        || $0.regularExpression != nil || !$0.validationPredicates.isEmpty
                } ?? false
        }

        /// The value in the attribute's storage form; ``AttributeDescription/coerce(_:entity:)`` is called only if it is not
        /// already in that form.
        ///
        /// - Throws: ``QuireError`` with code `invalidValue` if the value does not fit the type, or the slot is derived or a
        ///   relationship.
        @inlinable @inline(__always)
        package func coerce(_ value: AttributeValue, in entity: ResolvedEntity) throws
            -> AttributeValue
        {
            switch (type, value) {
            case (.string, .string), (.integer64, .integer), (.boolean, .boolean), (.uuid, .uuid):
                return value
            case (.double, .double(let number)) where !number.isNaN: return value
            case (.date, .date(let date))
            where abs(date.timeIntervalSinceReferenceDate) < DateText.maximumInterval:
                return value
            default: return try coerceOther(value, in: entity)
            }
        }

        @usableFromInline @inline(never)
        func coerceOther(
            _ value: AttributeValue, in entity: ResolvedEntity
        ) throws -> AttributeValue {
            if let expression = attribute?.derivationExpression {
                throw QuireError(
                    .invalidValue,
                    "“\(name)” of \(entity.name) is derived from “\(expression)” and cannot be set; change its source instead.",
                    entity: entity.name, property: name)
            }
            if let attribute { return try attribute.coerce(value, entity: entity.name) }
            throw QuireError(
                .invalidValue,
                "“\(name)” of \(entity.name) is a relationship; set an object.",
                entity: entity.name, property: name)
        }
    }
}

extension ResolvedEntity {
    /// The property of a key.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, which suggests similar properties or lists all.
    package func requireProperty(_ key: String) throws -> Property {
        if let property = properties[key] { return property }
        throw unknownKey(key)
    }

    /// The error about a key that the entity does not have.
    package func unknownKey(_ key: String) -> QuireError {
        // Elements of composite attributes are suggested, but not listed.
        let names = Array(properties.keys)
        let isClose = !CloseNames.of(key, among: names).isEmpty
        let advice = CloseNames.advice(
            for: key, among: isClose ? names : propertyNames, "its properties are")
        return QuireError(
            .unknownKey, "\(name) has no property “\(key)”; \(advice)", entity: name,
            property: key)
    }

    /// The slot of an attribute, of a composite's element (`location.latitude`), or of a to-one relationship.
    public func slot(named name: String) -> Int? {
        switch properties[name] {
        case .attribute(let slot): slot
        case .relationship(let index): relationships[index].slot
        default: nil
        }
    }
}

extension ResolvedEntity.Slot {
    /// Whether the value is the time of the last save.
    package var isDerivedFromTime: Bool {
        guard let expression = attribute?.derivationExpression else { return false }
        return (try? AttributeDerivation(expression))?.form == .now
    }

    /// Whether the `syncPolicy` of the attribute in the model is `counter`.
    package var isCounter: Bool {
        attribute?.userInfo[AttributeDescription.syncPolicyKey] == .string("counter")
    }
}

// MARK: - Relationships

extension ResolvedEntity {
    /// A relationship with its inverse resolved.
    public final class Relationship: Sendable {
        /// The position in ``ResolvedEntity/relationships``.
        public let index: Int
        /// The relationship's name.
        public var name: String { description.name }
        /// The model's description.
        public let description: RelationshipDescription
        /// The number of the entity that declares it.
        public let ownerNumber: Int
        /// The number of the destination entity.
        public let destinationNumber: Int
        /// The position of the inverse in the destination's relationships.
        public let inverseIndex: Int?
        /// The slot of a to-one relationship.
        public let slot: Int?
        /// The position among the to-many relationships.
        public let toManyIndex: Int?
        /// Whether it is to-many.
        public let isToMany: Bool
        /// Whether its objects have an order.
        public let isOrdered: Bool
        /// Whether it is to-many with a minimum or maximum count.
        package let hasCountRules: Bool

        init(
            index: Int, description: RelationshipDescription, ownerNumber: Int,
            destinationNumber: Int, inverseIndex: Int?, slot: Int?, toManyIndex: Int?
        ) {
            self.index = index
            self.description = description
            self.ownerNumber = ownerNumber
            self.destinationNumber = destinationNumber
            self.inverseIndex = inverseIndex
            self.slot = slot
            self.toManyIndex = toManyIndex
            isToMany = description.isToMany
            isOrdered = description.isToMany && description.isOrdered
            hasCountRules =
                description.isToMany
                && (description.minimumCount > 0 || description.maximumCount > 0)
        }
    }
}

// MARK: - Derived attributes

extension ResolvedEntity {
    /// A derived attribute with its source resolved.
    package struct Derivation: Sendable {
        /// The source of the values.
        package enum Form: Sendable {
            /// The number of objects in a relationship, by its position.
            case count(relationship: Int)
            /// The sum of a slot over the objects in a relationship.
            case sum(relationship: Int, slot: Int)
            /// The value of a slot of the object, or of a to-one relationship's destination.
            case copy(through: Int?, slot: Int)
            /// A function of the text in a slot.
            case text(AttributeDerivation.TextFunction, through: Int?, slot: Int)
            /// The time of the save.
            case now
        }

        /// The slot of the derived attribute.
        package let slot: Int
        package let form: Form

        /// The position of the relationship to the source objects.
        package var relationshipIndex: Int? {
            switch form {
            case .count(let index), .sum(let index, _): index
            case .copy(let index, _), .text(_, let index, _): index
            case .now: nil
            }
        }

        /// Whether changes to members of a relationship matter, and not only its membership. Deleting an object does not
        /// always remove it from the relationship.
        package func looksAtMembers(
            in layout: ResolvedModel, _ relationship: ResolvedEntity.Relationship
        ) -> Bool {
            guard case .count = form else { return true }
            guard let inverse = layout.inverse(of: relationship) else { return true }
            return inverse.description.deleteRule == .noAction
        }

        /// Resolves the expression. Validation has ensured that everything exists.
        init?(_ slot: ResolvedEntity.Slot, of entity: ResolvedEntity, in entities: [ResolvedEntity])
        {
            guard let expression = slot.attribute?.derivationExpression,
                let derivation = try? AttributeDerivation(expression),
                let form = Self.form(derivation.form, of: entity, in: entities)
            else { return nil }
            self.slot = slot.index
            self.form = form
        }

        private static func form(
            _ form: AttributeDerivation.Form, of entity: ResolvedEntity,
            in entities: [ResolvedEntity]
        ) -> Form? {
            switch form {
            case .now: return .now
            case .count(let name):
                return entity.relationship(named: name).map { .count(relationship: $0.index) }
            case .sum(let name, let key):
                guard let relationship = entity.relationship(named: name),
                    let slot = entities[relationship.destinationNumber - 1].slot(named: key)
                else { return nil }
                return .sum(relationship: relationship.index, slot: slot)
            case .copy(let keys):
                return source(keys, of: entity, in: entities)
                    .map { .copy(through: $0.through, slot: $0.slot) }
            case .text(let function, let keys):
                return source(keys, of: entity, in: entities)
                    .map { .text(function, through: $0.through, slot: $0.slot) }
            }
        }

        private static func source(
            _ keys: [String], of entity: ResolvedEntity, in entities: [ResolvedEntity]
        ) -> (through: Int?, slot: Int)? {
            guard let relationship = entity.relationship(named: keys[0]) else {
                return entity.slot(named: keys.joined(separator: ".")).map { (nil, $0) }
            }
            let rest = keys.dropFirst().joined(separator: ".")
            return entities[relationship.destinationNumber - 1].slot(named: rest)
                .map { (relationship.index, $0) }
        }
    }
}

/// The derived attributes of a model, by entity number.
package struct ModelDerivations: Sendable {
    /// The derivations of each entity, inherited ones included, by the entity's number less one.
    private let byEntity: [[ResolvedEntity.Derivation]]
    /// The numbers of the source entities of derived attributes.
    package let sources: Set<Int>

    /// Whether there are no derived attributes.
    package var isEmpty: Bool { byEntity.isEmpty }

    init(_ entities: [ResolvedEntity]) {
        guard entities.contains(where: { !$0.derivedSlots.isEmpty }) else {
            byEntity = []
            sources = []
            return
        }
        byEntity = entities.map { entity in
            entity.slots.compactMap { ResolvedEntity.Derivation($0, of: entity, in: entities) }
        }
        var sources: Set<Int> = []
        for (entity, derivations) in zip(entities, byEntity) {
            for derivation in derivations {
                sources.formUnion(entity.subtree)
                if let index = derivation.relationshipIndex {
                    let destination = entity.relationships[index].destinationNumber
                    sources.formUnion(entities[destination - 1].subtree)
                }
            }
        }
        self.sources = sources
    }

    /// The derivations of an entity.
    package subscript(_ entity: ResolvedEntity) -> [ResolvedEntity.Derivation] {
        byEntity.isEmpty ? [] : byEntity[entity.number - 1]
    }

    /// The derivation of an entity's slot.
    package func derivation(of slot: Int, in entity: ResolvedEntity) -> ResolvedEntity.Derivation? {
        self[entity].first { $0.slot == slot }
    }
}

extension AttributeDescription {
    /// The key of the user info whose value names the attribute's policy of synchronization.
    package static var syncPolicyKey: String { "syncPolicy" }
}
