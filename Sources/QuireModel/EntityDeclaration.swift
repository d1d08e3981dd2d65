/// A class's declaration of its entity: enough to generate the entity description, and to check a separately described
/// entity against the class.
///
/// A class numbers its properties by their place in ``allProperties``, superclasses first. Accessors have these ordinals as
/// compile-time constants; ``ResolvedEntity`` maps each to a slot or relationship once.
public struct EntityDeclaration: Sendable {
    /// The class that declares the entity.
    public let objectClass: any EntityClass.Type
    /// The class it inherits from.
    public let superclass: any EntityClass.Type
    /// The class's own properties, in the order of its source.
    public let properties: [Property]
    /// The entity's description without inheritance and properties, which ``ManagedObjectModel/init(classes:)`` adds.
    let description: EntityDescription
    /// Uniqueness constraints, with the property names of the class.
    let uniquenessConstraints: [[String]]
    /// Compound indexes, with the property names of the class.
    let indexes: [[String]]

    /// Declares an entity. For the macro `@Entity`.
    ///
    /// - Parameters:
    ///   - name: The entity's name.
    ///   - objectClass: The class that declares it.
    ///   - superclass: The class it inherits from.
    ///   - isAbstract: Whether only sub-entities have objects.
    ///   - renamingIdentifier: The name the entity had in an earlier version of the model.
    ///   - unique: Uniqueness constraints: sets of property names.
    ///   - indexes: Compound indexes: sets of property names.
    ///   - properties: The class's own properties.
    public init(
        _ name: String, of objectClass: any EntityClass.Type,
        inheriting superclass: any EntityClass.Type, isAbstract: Bool = false,
        renamingIdentifier: String? = nil, unique: [[String]] = [], indexes: [[String]] = [],
        properties: [Property]
    ) {
        self.objectClass = objectClass
        self.superclass = superclass
        self.properties = properties
        var description = EntityDescription(name: name)
        description.objectClass = objectClass
        description.managedObjectClassName = String(describing: objectClass)
        description.isAbstract = isAbstract
        description.renamingIdentifier = renamingIdentifier
        self.description = description
        uniquenessConstraints = unique
        self.indexes = indexes
    }

    /// The entity's name.
    public var name: String { description.name }

    /// The declaration of the superentity.
    public var superentity: EntityDeclaration? { superclass.entityDeclaration }

    /// The properties by their ordinals: inherited ones first.
    public var allProperties: [Property] { (superentity?.allProperties ?? []) + properties }
}

extension EntityDeclaration {
    /// A property as a class declares it.
    public struct Property: Sendable {
        package enum Form: Sendable {
            /// An attribute of one of these types, the first of which is used in a model made from the class.
            case attribute([AttributeType])
            case toOne(any EntityClass.Type)
            case toMany(any EntityClass.Type, isOrdered: Bool)
            case fetched(any EntityClass.Type)
        }

        /// The property's name in the class.
        public let name: String
        /// The property's name in the model.
        public let key: String
        package let form: Form
        /// For a model made from the class. A relationship's destination and inverse, and the entity of a fetched property's
        /// request, are not set yet.
        let description: PropertyDescription
        /// The inverse's name in the destination's class.
        let inverse: String?
        let isUnique: Bool
        let isIndexed: Bool
        /// The type of a composite attribute.
        package let composite: CompositeDeclaration?
        /// The default value of an attribute that is in no uniqueness constraint.
        let defaultUnlessUnique: AttributeValue

        /// Declares an attribute.
        package init(
            _ name: String, types: [AttributeType], description: AttributeDescription,
            composite: CompositeDeclaration?, defaultUnlessUnique: AttributeValue, isUnique: Bool,
            isIndexed: Bool
        ) {
            self.name = name
            key = description.name
            form = .attribute(types)
            self.description = .attribute(description)
            inverse = nil
            self.isUnique = isUnique
            self.isIndexed = isIndexed
            self.composite = composite
            self.defaultUnlessUnique = defaultUnlessUnique
        }

        /// Declares a relationship.
        init(
            _ name: String, to destination: any EntityClass.Type,
            description: RelationshipDescription, inverse: String?, isIndexed: Bool
        ) {
            self.name = name
            key = description.name
            form =
                description.isToMany
                ? .toMany(destination, isOrdered: description.isOrdered) : .toOne(destination)
            self.description = .relationship(description)
            self.inverse = inverse
            isUnique = false
            self.isIndexed = isIndexed
            composite = nil
            defaultUnlessUnique = .null
        }

        /// Declares a fetched property.
        package init(
            _ name: String, to destination: any EntityClass.Type, request: FetchRequestTemplate
        ) {
            self.name = name
            key = request.name
            form = .fetched(destination)
            description = .fetched(
                FetchedPropertyDescription(name: request.name, fetchRequest: request))
            inverse = nil
            isUnique = false
            isIndexed = false
            composite = nil
            defaultUnlessUnique = .null
        }

        /// The class of the objects of a relationship or a fetched property.
        package var destination: (any EntityClass.Type)? {
            switch form {
            case .attribute: nil
            case .toOne(let destination), .toMany(let destination, _), .fetched(let destination):
                destination
            }
        }
    }
}

/// A structure's declaration of a composite: the name, and the elements that composite attributes of typed classes have.
public struct CompositeDeclaration: Sendable {
    /// The composite's name.
    public let name: String
    /// The elements, in the order of the structure's source.
    public let elements: [EntityDeclaration.Property]

    /// Declares a composite. For the macro `@Composite`.
    public init(_ name: String, elements: [EntityDeclaration.Property]) {
        self.name = name
        self.elements = elements
    }

    /// The descriptions of the composite and of those within it.
    ///
    /// Elements are optional and have no default values, because the whole of an optional attribute may be missing; the
    /// structure's type sees to it that a value has all elements.
    var descriptions: [CompositeDescription] {
        let attributes = elements.compactMap { element -> AttributeDescription? in
            guard case .attribute(var attribute) = element.description else { return nil }
            attribute.isOptional = true
            attribute.defaultValue = .null
            return attribute
        }
        return [CompositeDescription(name: name, elements: attributes)]
            + elements.flatMap { $0.composite?.descriptions ?? [] }
    }
}

extension EntityDeclaration.Property {
    /// Declares a to-one relationship. For the macro `@Entity`; the parameters are those of `@Relationship`.
    public static func toOne(
        _ name: String, key: String? = nil, _ destination: any EntityClass.Type,
        inverse: String? = nil, deleteRule: DeleteRule = .nullify,
        renamingIdentifier: String? = nil, options: RelationshipOptions = []
    ) -> Self {
        var description = RelationshipDescription(name: key ?? name, destination: "")
        description.deleteRule = deleteRule
        description.isOptional = !options.contains(.required)
        description.isTransient = options.contains(.transient)
        description.renamingIdentifier = renamingIdentifier
        return Self(
            name, to: destination, description: description, inverse: inverse,
            isIndexed: options.contains(.indexed))
    }

    /// Declares a to-many relationship. For the macro `@Entity`; the parameters are those of `@Relationship`.
    public static func toMany(
        _ name: String, key: String? = nil, _ destination: any EntityClass.Type,
        isOrdered: Bool = false, inverse: String? = nil, deleteRule: DeleteRule = .nullify,
        minimumCount: Int = 0, maximumCount: Int = 0, renamingIdentifier: String? = nil,
        options: RelationshipOptions = []
    ) -> Self {
        var description = RelationshipDescription(name: key ?? name, destination: "")
        description.isToMany = true
        description.isOrdered = isOrdered
        description.deleteRule = deleteRule
        description.isOptional = !options.contains(.required)
        description.minimumCount = minimumCount
        description.maximumCount = maximumCount
        description.isTransient = options.contains(.transient)
        description.renamingIdentifier = renamingIdentifier
        return Self(
            name, to: destination, description: description, inverse: inverse, isIndexed: false)
    }
}

// MARK: - Options

/// The flags of the macro `@Attribute`.
public struct AttributeOptions: OptionSet, Sendable {
    /// The bits.
    public let rawValue: Int
    /// Creates a set from its bits.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// Values are unique.
    public static let unique = Self(rawValue: 1)
    /// The value is kept in memory only.
    public static let transient = Self(rawValue: 2)
    /// Large values are kept in separate files beside the store.
    public static let externalStorage = Self(rawValue: 4)
    /// The store indexes the value.
    public static let indexed = Self(rawValue: 8)
    /// CloudKit may encrypt the value.
    public static let allowsCloudEncryption = Self(rawValue: 16)
    /// Persistent history keeps the value when the object is deleted.
    public static let preservesValueInHistoryOnDeletion = Self(rawValue: 32)
    /// A value is required when the object is saved, also if the property's type is optional.
    public static let required = Self(rawValue: 64)
}

/// The flags of the macro `@Relationship`.
public struct RelationshipOptions: OptionSet, Sendable {
    /// The bits.
    public let rawValue: Int
    /// Creates a set from its bits.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// The relationship is required when its owner is saved.
    public static let required = Self(rawValue: 1)
    /// The relationship is kept in memory only.
    public static let transient = Self(rawValue: 2)
    /// The store indexes it, if it is to-one.
    public static let indexed = Self(rawValue: 4)
}

// MARK: - Classes

/// A class whose instances are the objects of an entity. ``ManagedObject`` is the only direct conformer; entities are bound
/// to its subclasses. Models refer to classes through this, because the graph is a higher layer.
public protocol EntityClass: AnyObject, SendableMetatype {
    /// The entity declaration of the class or its nearest declaring superclass; `nil` for a class that only reads values by
    /// key. The macro `@Entity` writes it.
    static var entityDeclaration: EntityDeclaration? { get }
    /// The class for entities without a class binding.
    static var plainClass: any EntityClass.Type { get }
}

extension EntityClass {
    /// Whether another class is this one or a subclass of it.
    static func isSuperclass(of other: any EntityClass.Type) -> Bool { other is Self.Type }
}
