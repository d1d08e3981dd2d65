/// An entity with all it inherits resolved, and a number for everything: what the graph and the stores work
/// with.
///
/// An entity's properties begin with its superentity's, at the same positions. So a slot or relationship
/// number found in an entity holds in all its sub-entities.
public final class EntityLayout: Sendable {
    /// Where a name leads.
    public enum Property: Sendable {
        /// An attribute, or an element of a composite.
        case attribute(slot: Int)
        /// A relationship of either kind.
        case relationship(index: Int)
        /// A composite attribute as a whole: the slots of its leaves.
        case composite(slots: Range<Int>)
        /// A fetched property.
        case fetched(FetchedPropertyDescription)
    }

    /// The entity's number, from 1: its place in a walk of all entities, parents before children and siblings
    /// by name without regard to case, which is how Core Data numbers them (`Z_ENT`).
    public let number: Int
    /// The model's description, with the entity's own properties.
    public let description: EntityDescription
    /// The entity's name.
    public var name: String { description.name }
    /// Whether only sub-entities have objects.
    public var isAbstract: Bool { description.isAbstract }
    /// The number of the superentity.
    public let superentityNumber: Int?
    /// The number of the topmost superentity, whose table holds the objects.
    public let rootNumber: Int
    /// The numbers of this entity and of all its sub-entities.
    public let subtree: ClosedRange<Int>
    /// Whether there are sub-entities.
    public var hasSubentities: Bool { subtree.count > 1 }
    /// The places for single values, inherited ones first.
    public let slots: [Slot]
    /// The storage forms of ``slots``, close together for speed.
    package let storages: ContiguousArray<Slot.Storage>
    /// The slots that can hold identifiers of objects.
    package let identifierSlots: [Int]
    /// The slots that stores do not keep.
    package let transientSlots: SlotMask
    /// The slots whose values are derived from others.
    package let derivedSlots: SlotMask
    /// Whether there are any.
    package let hasDerivedSlots: Bool
    /// The slots whose values can break a rule of the model; see ``Slot/hasRules``.
    package let ruledSlots: [Slot]
    /// The values of a new object.
    package let defaultValues: ContiguousArray<AttributeValue>
    /// The slots that have a value in ``defaultValues``.
    package let defaultSlots: [Int]
    /// The relationships, inherited ones first.
    public let relationships: [Relationship]
    /// The positions in ``relationships`` of the to-many relationships.
    public let toManyRelationships: [Int]
    /// The to-many relationships that can have too few or too many objects.
    package let countedRelationships: [Relationship]
    /// Whether an object whose values are of the right types can break a rule of the model.
    package let hasRules: Bool
    /// Uniqueness constraints, inherited ones first, with the number of the entity that declares each.
    public let uniquenessConstraints: [(ownerNumber: Int, properties: [String])]
    /// All properties by name; composite elements by their dotted names too.
    public let properties: [String: Property]
    /// The names of all properties (composite elements not apart), sorted.
    public let propertyNames: [String]

    /// The class of the entity's objects: the one its description gives, else that of the nearest superentity
    /// that has one.
    public let objectClass: (any EntityClass.Type)?
    /// Where the properties of the class are, by their ordinals; see ``ClassBinding``.
    package let classTable: ContiguousArray<Int>

    package init(
        number: Int, description: EntityDescription, superentity: EntityLayout?, subtreeEnd: Int,
        slots: [Slot], relationships: [Relationship], properties: [String: Property],
        propertyNames: [String]
    ) {
        self.number = number
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
        if case .relationship(let index)? = properties[name] { return relationships[index] }
        return nil
    }
}
