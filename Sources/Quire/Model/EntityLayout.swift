/// An entity with all it inherits resolved, and a number for everything: what the graph and the stores work
/// with.
///
/// An entity's properties begin with its superentity's, at the same positions. So a slot or relationship
/// number found in an entity holds in all its sub-entities.
public final class EntityLayout: Sendable {
    /// A place for one value: an attribute, an element of a composite attribute, or a to-one relationship.
    public struct Slot: Sendable {
        /// The form in which rows keep a value.
        public enum Storage: UInt8, Sendable {
            case integer, double, boolean, decimal, string, date, binary, uuid, uri, reference
            /// In memory only, of any type.
            case transient
        }

        /// The slot's position in ``EntityLayout/slots``.
        public let index: Int
        /// The property's name; for an element of a composite, the names joined with dots.
        public let name: String
        /// The form of the value.
        public let storage: Storage
        /// The attribute, or the composite's element; `nil` for a to-one relationship.
        public let attribute: AttributeDescription?
        /// The position in ``EntityLayout/relationships`` of a to-one relationship.
        public let relationshipIndex: Int?
        /// The number of the entity that declares the property.
        public let ownerNumber: Int
        /// Whether stores keep the value.
        public let isStored: Bool
        /// Whether the binary value may be kept in a file of its own.
        public let isExternalCapable: Bool
    }

    /// A relationship with its other end resolved.
    public struct Relationship: Sendable {
        /// The position in ``EntityLayout/relationships``.
        public let index: Int
        /// The relationship's name.
        public var name: String { description.name }
        /// The model's description.
        public let description: RelationshipDescription
        /// The number of the entity that declares it.
        public let ownerNumber: Int
        /// The number of the entity it leads to.
        public let destinationNumber: Int
        /// The position of the inverse in the destination's relationships.
        public let inverseIndex: Int?
        /// The slot of a to-one relationship.
        public let slot: Int?
        /// The position among the to-many relationships.
        public let toManyIndex: Int?
        /// Whether it leads to any number of objects.
        public var isToMany: Bool { toManyIndex != nil }
        /// Whether its objects have an order.
        public var isOrdered: Bool { description.isToMany && description.isOrdered }
    }

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
    let storages: ContiguousArray<Slot.Storage>
    /// The values of a new object.
    let defaultValues: ContiguousArray<AttributeValue>
    /// The relationships, inherited ones first.
    public let relationships: [Relationship]
    /// The positions in ``relationships`` of the to-many relationships.
    public let toManyRelationships: [Int]
    /// Uniqueness constraints, inherited ones first, with the number of the entity that declares each.
    public let uniquenessConstraints: [(ownerNumber: Int, properties: [String])]
    /// All properties by name; composite elements by their dotted names too.
    public let properties: [String: Property]
    /// The names of all properties (composite elements not apart), sorted.
    public let propertyNames: [String]

    init(
        number: Int, description: EntityDescription, superentity: EntityLayout?, subtreeEnd: Int,
        slots: [Slot], relationships: [Relationship], properties: [String: Property],
        propertyNames: [String]
    ) {
        self.number = number
        self.description = description
        self.superentityNumber = superentity?.number
        self.rootNumber = superentity?.rootNumber ?? number
        self.subtree = number...subtreeEnd
        self.slots = slots
        self.storages = ContiguousArray(slots.map(\.storage))
        self.defaultValues = ContiguousArray(slots.map { $0.attribute?.defaultValue ?? .null })
        self.relationships = relationships
        self.toManyRelationships = relationships.filter(\.isToMany).map(\.index)
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
