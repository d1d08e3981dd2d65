public import QuireModel

/// Says how objects of one model become objects of another: which entity becomes which, and where the values of the new
/// objects come from.
///
/// Most of the time nobody writes one: ``inferred(from:to:)`` finds it from the two models.
///
/// ```swift
/// var mapping = try MappingModel.inferred(from: old, to: new)
/// mapping["Book"]?.attributeMappings.set(.constant("unknown"), for: "publisher")
/// ```
public struct MappingModel: Sendable, Hashable {
    /// The mappings, in the order in which they are carried out.
    public var entityMappings: [EntityMapping]

    /// Makes a mapping model of entity mappings.
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

    /// The mapping that changes nothing: every entity of a model becomes itself.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel`.
    public static func identity(of model: ManagedObjectModel) throws -> MappingModel {
        try inferred(from: model, to: model)
    }
}

/// What a mapping does with the objects of an entity, with Core Data's codes as raw values.
public enum EntityMappingType: Int, Sendable, Hashable, CaseIterable {
    /// Not said.
    case undefined = 0
    /// A policy makes the new objects.
    case custom = 1
    /// The entity is new and has no objects yet.
    case add = 2
    /// The entity is gone, and its objects with it.
    case remove = 3
    /// The objects stay as they are.
    case copy = 4
    /// The objects get values by the property mappings.
    case transform = 5
}

/// Says how objects of an entity become objects of an entity of another model.
public struct EntityMapping: Sendable, Hashable {
    /// The mapping's name, unique in its mapping model.
    public var name: String
    /// What is done.
    public var mappingType: EntityMappingType
    /// The entity of the old model; `nil` if objects come from nowhere. Objects of its sub-entities have mappings of
    /// their own.
    public var sourceEntityName: String?
    /// The entity of the new model; `nil` if the objects go.
    public var destinationEntityName: String?
    /// A condition, in the predicate format language, that objects must satisfy to be taken over.
    public var sourcePredicateFormat: String?
    /// Where the values of attributes come from. Attributes that are not named get their default values.
    public var attributeMappings: [PropertyMapping] = []
    /// Where the objects of relationships come from. Relationships that are not named are what their inverses make
    /// them, or empty.
    public var relationshipMappings: [PropertyMapping] = []
    /// The name under which an ``EntityMigrationPolicy`` is registered that carries the mapping out.
    public var entityMigrationPolicyName: String?
    /// Free keys and values, for policies.
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

/// Says where a property of a new object comes from.
public struct PropertyMapping: Sendable, Hashable {
    /// The property of the new model; for an element of a composite attribute, the names joined with dots.
    public var name: String
    /// Where the value comes from; `nil` for nowhere.
    public var valueExpression: MappingExpression?
    /// Free keys and values, for policies.
    public var userInfo: [String: String] = [:]

    /// Describes a mapping.
    public init(name: String, valueExpression: MappingExpression?) {
        self.name = name
        self.valueExpression = valueExpression
    }
}

/// Where the value of a new object's property comes from.
public indirect enum MappingExpression: Sendable, Hashable {
    /// Always the same.
    case constant(AttributeValue)
    /// The old object: `$source`.
    case source
    /// What a key path of the old object leads to: `$source.author.name`.
    case sourceValue(String)
    /// The new objects that come of those which a relationship of the old object leads to: `FUNCTION($manager,
    /// "destinationInstancesForSourceRelationshipNamed:sourceInstances:", "books", $source.books)`.
    case relatedObjects(String)
    /// The same, if they come of a certain mapping: `FUNCTION($manager,
    /// "destinationInstancesForEntityMappingNamed:sourceInstances:", "BookToBook", $source.books)`.
    case mappedObjects(mapping: String, MappingExpression)
    /// What a function of the mapping's policy gives: `FUNCTION($entityPolicy, "fullNameOf:", $source)`.
    case policyFunction(String, [MappingExpression])
    /// A value under a key of the mapping's user info: `$entityMapping.userInfo.key`.
    case userInfo(String)
    /// The time at which the value is computed: `now()`.
    case now
}

extension MappingExpression {
    /// The relationship of the old object whose objects' new ones are meant, if that is all that it says.
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

    /// Says where a property comes from.
    public mutating func set(_ expression: MappingExpression?, for name: String) {
        if let index = firstIndex(where: { $0.name == name }) {
            self[index].valueExpression = expression
        } else {
            append(PropertyMapping(name: name, valueExpression: expression))
        }
    }
}
