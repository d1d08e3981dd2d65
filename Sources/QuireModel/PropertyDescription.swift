public import QuireSystem

/// A property of an entity, as its model lists them.
public enum PropertyDescription: Sendable, Hashable {
    /// A value.
    case attribute(AttributeDescription)
    /// One or more objects.
    case relationship(RelationshipDescription)
    /// The objects that a fetch request finds.
    case fetched(FetchedPropertyDescription)

    /// The property's name.
    public var name: String {
        switch self {
        case .attribute(let attribute): attribute.name
        case .relationship(let relationship): relationship.name
        case .fetched(let fetched): fetched.name
        }
    }
}

/// Describes a property whose value is what a fetch request finds.
public struct FetchedPropertyDescription: Sendable, Hashable {
    /// The property's name, unique among the entity's properties and those it inherits.
    public var name: String
    /// Whether it may be empty.
    public var isOptional = true
    /// The request. It may use the variable `$FETCH_SOURCE` for the object that owns the property.
    public var fetchRequest: FetchRequestTemplate
    /// Whether sync services transfer it (of old models).
    public var isSyncable = true
    /// Free keys and values of the model's author.
    public var userInfo: [String: PropertyListValue] = [:]

    /// Describes a fetched property.
    public init(name: String, fetchRequest: FetchRequestTemplate) {
        self.name = name
        self.fetchRequest = fetchRequest
    }
}

/// A fetch request that a model carries under a name. Its predicate may hold `$VARIABLES`.
public struct FetchRequestTemplate: Sendable, Hashable {
    /// The template's name.
    public var name: String
    /// The entity whose objects it finds.
    public var entityName: String
    /// The predicate in the predicate format language; `nil` finds every object.
    public var predicateFormat: String?
    /// The greatest number of objects to find; 0 for no bound.
    public var fetchLimit = 0
    /// The number of objects to read at a time; 0 for all at once.
    public var fetchBatchSize = 0
    /// Whether objects of sub-entities are found too.
    public var includesSubentities = true
    /// Whether values are read along with the objects.
    public var includesPropertyValues = true
    /// Whether unsaved changes are taken into account.
    public var includesPendingChanges = true
    /// Whether the objects found are faults.
    public var returnsObjectsAsFaults = true
    /// Whether equal results are found once only.
    public var returnsDistinctResults = false
    /// The name of the result type in the model file, if it names one.
    public var resultType: String?

    /// Describes a template that finds every object of an entity.
    public init(name: String, entityName: String) {
        self.name = name
        self.entityName = entityName
    }
}

/// Describes an index that speeds up fetches.
public struct FetchIndexDescription: Sendable, Hashable {
    /// How the elements are indexed, with Core Data's codes as raw values.
    public enum Kind: Int, Sendable, Hashable {
        /// A sorted index.
        case binary = 0
        /// An index of ranges in several dimensions.
        case rtree = 1
        /// An index of the words of texts: an extension, which Core Data does not know.
        case fullText = 1001
    }

    /// A property, or an expression, that is part of an index.
    public struct Element: Sendable, Hashable {
        /// The name of the property, if it is one; `self` stands for the object itself.
        public var propertyName: String?
        /// The expression, if it is none; `entity` stands for the object's entity.
        public var expression: String?
        /// The type the expression has in the model file.
        public var expressionType: String?
        /// How it is indexed.
        public var kind: Kind = .binary
        /// Whether small values come first.
        public var isAscending = true

        /// Describes a property's place in an index.
        public init(propertyName: String, isAscending: Bool = true) {
            self.propertyName = propertyName
            self.isAscending = isAscending
        }

        /// Describes an expression's place in an index.
        public init(expression: String, isAscending: Bool = true) {
            self.expression = expression
            self.isAscending = isAscending
        }
    }

    /// What the object itself is called in indexes.
    package static let objectItself = "self"

    /// The index's name, unique within its entity.
    public var name: String
    /// What is indexed, most significant first.
    public var elements: [Element]
    /// A predicate: only objects that satisfy it are indexed.
    public var partialIndexPredicate: String?

    /// Describes an index.
    public init(name: String, elements: [Element]) {
        self.name = name
        self.elements = elements
    }
}
