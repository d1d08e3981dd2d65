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

/// Describes a property whose value is the result of a fetch request.
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
    /// The index type of the elements, with Core Data's codes as raw values.
    public enum Kind: Int, Sendable, Hashable {
        /// A sorted index.
        case binary = 0
        /// An index of ranges in several dimensions.
        case rtree = 1
        /// A full-text index, an extension to Core Data.
        case fullText = 1001
    }

    /// A property, or an expression, that is part of an index.
    public struct Element: Sendable, Hashable {
        /// The name of the property; `nil` for an expression; `self` is the object itself.
        public var propertyName: String?
        /// The expression; `nil` for a property; `entity` is the object's entity.
        public var expression: String?
        /// The type the expression has in the model file.
        public var expressionType: String?
        /// The index type.
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

    /// The name of the object itself in indexes.
    package static let objectItself = "self"

    /// The index's name, unique within its entity.
    public var name: String
    /// The indexed elements, most significant first.
    public var elements: [Element]
    /// A predicate: only objects that satisfy it are indexed.
    public var partialIndexPredicate: String?

    /// Describes an index.
    public init(name: String, elements: [Element]) {
        self.name = name
        self.elements = elements
    }
}

// MARK: - Relationships

/// The effect of a deletion on related objects, with Core Data's codes as raw values.
public enum DeleteRule: Int, Sendable, Hashable, CaseIterable {
    /// No action: the inverse keeps a dangling reference to the deleted object.
    case noAction = 0
    /// The inverse reference is removed.
    case nullify = 1
    /// The related objects are deleted too.
    case cascade = 2
    /// The deletion fails when the context is saved as long as there is a related object.
    case deny = 3
}

/// Describes a relationship of an entity to another or to itself.
public struct RelationshipDescription: Sendable, Hashable {
    /// The relationship's name, unique among the entity's properties and those it inherits.
    public var name: String
    /// The name of the destination entity.
    public var destinationEntityName: String
    /// The name of the inverse relationship. A to-many relationship without one is stored, as in Core Data's stores, with
    /// its destination objects: of several owners with the same member, the last one saved has it when it is read again.
    public var inverseName: String?
    /// The entity that the model file names as the inverse's, usually the destination.
    public var inverseEntityName: String?
    /// Whether it is to-many. Changing it sets ``maximumCount`` to 0 or 1.
    public var isToMany = false {
        didSet { if isToMany != oldValue { maximumCount = isToMany ? 0 : 1 } }
    }
    /// Whether a to-many relationship keeps its objects in an order.
    public var isOrdered = false
    /// Whether it may be empty when the object is saved.
    public var isOptional = true
    /// Whether it lives in memory only.
    public var isTransient = false
    /// The smallest number of objects that is valid; 0 for no bound.
    public var minimumCount = 0
    /// The greatest number of objects that is valid; 0 for no bound, 1 for a to-one relationship.
    public var maximumCount = 1
    /// The effect of a deletion on the related objects.
    public var deleteRule: DeleteRule = .nullify
    /// Whether the store should index it (of old models).
    public var isIndexed = false
    /// Whether Spotlight indexes it on Apple's systems.
    public var isIndexedBySpotlight = false
    /// Whether sync services transfer it (of old models).
    public var isSyncable = true
    /// The name the relationship had in an earlier version of the model.
    public var renamingIdentifier: String?
    /// A text that makes the version hash differ where nothing else does.
    public var versionHashModifier: String?
    /// Free keys and values of the model's author.
    public var userInfo: [String: PropertyListValue] = [:]

    /// Describes a to-one relationship; set what differs from the defaults afterwards.
    public init(name: String, destination: String, inverse: String? = nil) {
        self.name = name
        self.destinationEntityName = destination
        self.inverseName = inverse
        self.inverseEntityName = inverse == nil ? nil : destination
    }
}

// MARK: - Full-text indexes

/// Model files have no place for full-text indexes but the free keys and values of an entity: `quire.fullText.NAME`, with
/// the names of the attributes, separated by commas.
extension [FetchIndexDescription] {
    private static var keyPrefix: String { "quire.fullText." }

    /// The equivalent entries in a model file.
    package var fullTextEntries: [String: String] {
        var entries: [String: String] = [:]
        for index in self where index.isFullText {
            entries[Self.keyPrefix + index.name] =
                index.elements.compactMap(\.propertyName).joined(separator: ",")
        }
        return entries
    }

    /// Takes the full-text indexes out of the entries of a model file.
    package init(takingFullTextFrom userInfo: inout [String: String]) {
        self.init()
        for key in userInfo.keys.sorted() where key.hasPrefix(Self.keyPrefix) {
            guard let names = userInfo.removeValue(forKey: key) else { continue }
            append(
                FetchIndexDescription(
                    name: String(key.dropFirst(Self.keyPrefix.count)),
                    elements: names.split(separator: ",", omittingEmptySubsequences: false).map {
                        var element = FetchIndexDescription.Element(propertyName: String($0))
                        element.kind = .fullText
                        return element
                    }))
        }
    }
}

extension FetchIndexDescription {
    /// Whether it is an index of words.
    package var isFullText: Bool { elements.first?.kind == .fullText }
}
