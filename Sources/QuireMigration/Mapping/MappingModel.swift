public import QuireModel

/// A mapping from the entities of one model to those of another, with the sources of property values.
///
/// Rarely written by hand: ``inferred(from:to:)`` derives it from the two models.
///
/// ```swift
/// var mapping = try MappingModel.inferred(from: old, to: new)
/// mapping["Book"]?.attributeMappings.set(.constant("unknown"), for: "publisher")
/// ```
public struct MappingModel: Sendable, Hashable {
    /// The mappings, in the order of execution.
    public var entityMappings: [EntityMapping]

    /// Creates a mapping model from entity mappings.
    public init(entityMappings: [EntityMapping] = []) { self.entityMappings = entityMappings }

    /// The first mapping to an entity of the new model.
    public subscript(destinationEntityName: String) -> EntityMapping? {
        get { entityMappings.first { $0.destinationEntityName == destinationEntityName } }
        set {
            let index = entityMappings.firstIndex {
                $0.destinationEntityName == destinationEntityName
            }
            switch (index, newValue) {
            case (let index?, let newValue?): entityMappings[index] = newValue
            case (let index?, nil): entityMappings.remove(at: index)
            case (nil, let newValue?): entityMappings.append(newValue)
            case (nil, nil): break
            }
        }
    }

    /// The identity mapping: every entity of a model maps to itself.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel`.
    public static func identity(of model: ManagedObjectModel) throws -> MappingModel {
        try inferred(from: model, to: model)
    }
}

/// The type of an entity mapping, with Core Data's codes as raw values.
public enum EntityMappingType: Int, Sendable, Hashable, CaseIterable {
    /// Unspecified.
    case undefined = 0
    /// A policy creates the new objects.
    case custom = 1
    /// The entity is new and has no objects yet.
    case add = 2
    /// The entity and its objects are removed.
    case remove = 3
    /// The objects are unchanged.
    case copy = 4
    /// The objects get values from the property mappings.
    case transform = 5
}

/// A mapping from an entity of the old model to one of the new model.
public struct EntityMapping: Sendable, Hashable {
    /// The mapping's name, unique in its mapping model.
    public var name: String
    /// The type of the mapping.
    public var mappingType: EntityMappingType
    /// The entity of the old model, if any. Its sub-entities have separate mappings.
    public var sourceEntityName: String?
    /// The entity of the new model; `nil` if the objects are removed.
    public var destinationEntityName: String?
    /// A predicate format that objects must satisfy to be migrated.
    public var sourcePredicateFormat: String?
    /// The sources of attributes. Attributes without one get their default values.
    public var attributeMappings: [PropertyMapping] = []
    /// The sources of relationships. Relationships without one are set by their inverses, or empty.
    public var relationshipMappings: [PropertyMapping] = []
    /// The registered name of the ``EntityMigrationPolicy`` that performs the mapping.
    public var entityMigrationPolicyName: String?
    /// Arbitrary keys and values, for policies.
    public var userInfo: [String: String] = [:]

    /// Describes a mapping.
    public init(
        name: String, type: EntityMappingType, from sourceEntityName: String?,
        to destinationEntityName: String?
    ) {
        self.name = name
        mappingType = type
        self.sourceEntityName = sourceEntityName
        self.destinationEntityName = destinationEntityName
    }
}

/// The mapping of a property of a new object.
public struct PropertyMapping: Sendable, Hashable {
    /// The property of the new model; for an element of a composite attribute, the names joined with dots.
    public var name: String
    /// The source expression; `nil` for none.
    public var valueExpression: MappingExpression?
    /// Arbitrary keys and values, for policies.
    public var userInfo: [String: String] = [:]

    /// Describes a mapping.
    public init(name: String, valueExpression: MappingExpression?) {
        self.name = name
        self.valueExpression = valueExpression
    }
}

/// The source of a new object's property value.
public indirect enum MappingExpression: Sendable, Hashable {
    /// A constant.
    case constant(AttributeValue)
    /// The old object: `$source`.
    case source
    /// The value at a key path of the old object: `$source.author.name`.
    case sourceValue(String)
    /// The new objects mapped from the members of the old object's relationship: `FUNCTION($manager,
    /// "destinationInstancesForSourceRelationshipNamed:sourceInstances:", "books", $source.books)`.
    case relatedObjects(String)
    /// The same, but only objects from one mapping: `FUNCTION($manager,
    /// "destinationInstancesForEntityMappingNamed:sourceInstances:", "BookToBook", $source.books)`.
    case mappedObjects(mapping: String, MappingExpression)
    /// The result of a function of the mapping's policy: `FUNCTION($entityPolicy, "fullNameOf:", $source)`.
    case policyFunction(String, [MappingExpression])
    /// A value under a key of the mapping's user info: `$entityMapping.userInfo.key`.
    case userInfo(String)
    /// The time at which the value is computed: `now()`.
    case now
}

extension MappingExpression {
    /// The name of the source relationship, if the expression maps its members and nothing else.
    var relationshipName: String? {
        switch self {
        case .relatedObjects(let name): name
        case .mappedObjects(_, .sourceValue(let name)),
            .mappedObjects(_, .relatedObjects(let name)):
            name
        default: nil
        }
    }
}

extension [PropertyMapping] {
    /// The mapping of a property.
    public subscript(_ name: String) -> PropertyMapping? { first { $0.name == name } }

    /// The mapping of a property.
    public mutating func set(_ expression: MappingExpression?, for name: String) {
        if let index = firstIndex(where: { $0.name == name }) {
            self[index].valueExpression = expression
        } else {
            append(PropertyMapping(name: name, valueExpression: expression))
        }
    }
}
