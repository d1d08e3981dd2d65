public import QuireSystem

/// Describes a kind of object: its properties, superentity and constraints.
///
/// ``properties`` are declared by the entity, ``inheritedProperties`` by its superentities, for entities returned by a model
/// or an object.
public struct EntityDescription: Sendable, Hashable {
    /// The entity's name, unique in its model.
    public var name: String
    /// The class of its objects, for generated code.
    public var managedObjectClassName: String?
    /// The class of its objects in this program, if they are not plain `ManagedObject`s. A runtime binding, ignored when
    /// models are compared.
    public var objectClass: (any EntityClass.Type)? {
        get { boundClass }
        set { boundClass = newValue }
    }
    @Uncompared private var boundClass: (any EntityClass.Type)? = nil
    /// The names of indexes and derived attributes whose definitions were dropped when a model file was read; an empty name
    /// denotes indexes of unknown names. Stores keep the existing ones. Ignored when models are compared, like remarks.
    @Uncompared package var leftOutNames: Set<String> = []
    /// The properties of its superentities, the topmost first.
    ///
    /// ``ManagedObjectModel/entity(named:)``, ``ManagedObjectModel/entitiesByName`` and an object's entity have them; a
    /// description that you make has none. Ignored when models are compared.
    public internal(set) var inheritedProperties: [PropertyDescription] {
        get { inherited }
        set { inherited = newValue }
    }
    @Uncompared private var inherited: [PropertyDescription] = []
    /// Whether only its sub-entities have objects.
    public var isAbstract = false
    /// The name of the entity whose properties it inherits.
    public var superentityName: String?
    /// Its own properties, in the order of the model.
    public var properties: [PropertyDescription] = []
    /// Uniqueness constraints: sets of properties whose combined values are unique.
    public var uniquenessConstraints: [[String]] = []
    /// Its indexes.
    public var indexes: [FetchIndexDescription] = []
    /// Compound indexes of old models.
    public var compoundIndexes: [[String]] = []
    /// The name the entity had in an earlier version of the model.
    public var renamingIdentifier: String?
    /// The version hash modifier, which distinguishes otherwise equal version hashes.
    public var versionHashModifier: String?
    /// The user info: arbitrary keys and values.
    public var userInfo: [String: PropertyListValue] = [:]
    /// Whether sync services transfer it (of old models).
    public var isSyncable = true
    /// Xcode's code generation: `class`, `category` or `none`.
    public var codeGenerationType: String?
    /// The expression that names an object in Spotlight on Apple's systems.
    public var coreSpotlightDisplayNameExpression: String?

    /// Describes an entity without properties; add them afterwards.
    public init(name: String) {
        self.name = name
    }

    /// Its own attributes, in the order of the model.
    public var attributes: [AttributeDescription] {
        properties.compactMap { if case .attribute(let attribute) = $0 { attribute } else { nil } }
    }

    /// Its own relationships, in the order of the model.
    public var relationships: [RelationshipDescription] {
        properties.compactMap {
            if case .relationship(let relationship) = $0 { relationship } else { nil }
        }
    }

    /// All properties by their names, with inherited ones.
    public var propertiesByName: [String: PropertyDescription] {
        Dictionary((inheritedProperties + properties).map { ($0.name, $0) }) { $1 }
    }

    /// The attributes by their names, with inherited ones.
    public var attributesByName: [String: AttributeDescription] {
        propertiesByName.compactMapValues {
            if case .attribute(let attribute) = $0 { attribute } else { nil }
        }
    }

    /// The relationships by their names, with inherited ones.
    public var relationshipsByName: [String: RelationshipDescription] {
        propertiesByName.compactMapValues {
            if case .relationship(let relationship) = $0 { relationship } else { nil }
        }
    }

    /// Its own property of a name.
    public func property(named name: String) -> PropertyDescription? {
        properties.first { $0.name == name }
    }
}

// MARK: - Dropped names

/// Model files can keep the names of dropped definitions only in an entity's user info: `quire.leftOut`, a list. This way
/// readers of the file, or of a store's cached model, get them too.
extension EntityDescription {
    private static var leftOutKey: String { "quire.leftOut" }

    /// The user info as stored in a model file.
    package var userInfoInFile: [String: PropertyListValue] {
        if leftOutNames.isEmpty { return userInfo }
        var entries = userInfo
        entries[Self.leftOutKey] = .array(leftOutNames.sorted().map { .string($0) })
        return entries
    }

    /// Moves the names of dropped definitions out of the user info of a model file.
    package mutating func takeLeftOutNames() {
        guard case .array(let names)? = userInfo.removeValue(forKey: Self.leftOutKey) else {
            return
        }
        for case .string(let name) in names { leftOutNames.insert(name) }
    }
}
