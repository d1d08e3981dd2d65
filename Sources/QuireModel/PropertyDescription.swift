public import QuireSystem

/// A property of an entity, as its model lists them.
public enum PropertyDescription: Sendable, Hashable {
    /// A value.
    case attribute(AttributeDescription)
    /// One or more objects.
    case relationship(RelationshipDescription)
    /// The results of a fetch request.
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
    /// The request. It may use the variable `$FETCH_SOURCE`, the owning object.
    public var fetchRequest: FetchRequestTemplate
    /// Whether sync services transfer it (of old models).
    public var isSyncable = true
    /// The user info: arbitrary keys and values.
    public var userInfo: [String: PropertyListValue] = [:]

    /// Describes a fetched property.
    public init(name: String, fetchRequest: FetchRequestTemplate) {
        self.name = name
        self.fetchRequest = fetchRequest
    }
}

/// A named fetch request of a model. Its predicate may contain `$VARIABLES`.
public struct FetchRequestTemplate: Sendable, Hashable {
    /// The template's name.
    public var name: String
    /// The entity of the fetched objects.
    public var entityName: String
    /// The predicate in the predicate format language; `nil` matches every object.
    public var predicateFormat: String?
    /// The order, most significant first; public as `sortOrderings`, whose expressions a higher layer parses.
    package var sortKeys: [SortKey] = []
    /// The fetch limit; 0 for none.
    public var fetchLimit = 0
    /// The number of objects to skip.
    public var fetchOffset = 0
    /// The fetch batch size; 0 for no batching.
    public var fetchBatchSize = 0
    /// Key paths of relationships to prefetch, such as `author` or `tags.books`.
    public var relationshipKeyPathsForPrefetching: [String] = []
    /// Whether objects of sub-entities are found too.
    public var includesSubentities = true
    /// Whether values are read along with the objects.
    public var includesPropertyValues = true
    /// Whether unsaved changes are taken into account.
    public var includesPendingChanges = true
    /// Whether fetched objects are returned as faults.
    public var returnsObjectsAsFaults = true
    /// Whether duplicate results are removed.
    public var returnsDistinctResults = false
    /// The name of the result type in the model file, if any.
    public var resultType: String?

    /// Describes a template that fetches every object of an entity.
    public init(name: String, entityName: String) {
        self.name = name
        self.entityName = entityName
    }

    /// A sort order as a model keeps it.
    package struct SortKey: Sendable, Hashable {
        /// The sort expression as written.
        package var expression: String
        package var isAscending: Bool
        /// The text comparison options, as the letters of the predicate format language: `cd`.
        package var options: String

        package init(_ expression: String, isAscending: Bool, options: String = "") {
            self.expression = expression
            self.isAscending = isAscending
            self.options = options
        }
    }
}

/// Describes an index that speeds up fetches.
public struct FetchIndexDescription: Sendable, Hashable {
    /// The index type of the elements, with Core Data's codes as raw values.
    public enum Kind: Int, Sendable, Hashable {
        /// A sorted index.
        case binary = 0
        /// An R-tree.
        case rtree = 1
        /// A full-text index, an extension to Core Data.
        case fullText = 1001
    }

    /// A property or expression in an index.
    public struct Element: Sendable, Hashable {
        /// The name of the property; `nil` for an expression; `self` is the object itself.
        public var propertyName: String?
        /// The expression; `nil` for a property; `entity` is the object's entity.
        public var expression: String?
        /// The expression's type in the model file.
        public var expressionType: String?
        /// The index type.
        public var kind: Kind = .binary
        /// Whether the order is ascending.
        public var isAscending = true

        /// Describes a property in an index.
        public init(propertyName: String, isAscending: Bool = true) {
            self.propertyName = propertyName
            self.isAscending = isAscending
        }

        /// Describes an expression in an index.
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
    /// The predicate of a partial index: only objects that satisfy it are indexed.
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
    /// Saving fails while the relationship has an object.
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
    /// The inverse's entity as named in the model file, usually the destination.
    public var inverseEntityName: String?
    /// Whether it is to-many. Changing it sets ``maximumCount`` to 0 or 1.
    public var isToMany = false {
        didSet { if isToMany != oldValue { maximumCount = isToMany ? 0 : 1 } }
    }
    /// Whether a to-many relationship keeps its objects in an order.
    public var isOrdered = false
    /// Whether it may be empty when the object is saved, even if ``minimumCount`` is not 0.
    ///
    /// A to-one relationship that is not optional requires an object. A to-many relationship requires
    /// ``minimumCount`` objects: with the default of 0 it may be empty, as in Core Data.
    public var isOptional = true
    /// Whether it is kept in memory only.
    public var isTransient = false
    /// The minimum number of objects; 0 for no bound.
    public var minimumCount = 0
    /// The maximum number of objects; 0 for no bound, 1 for a to-one relationship.
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
    /// The version hash modifier, which distinguishes otherwise equal version hashes.
    public var versionHashModifier: String?
    /// The user info: arbitrary keys and values.
    public var userInfo: [String: PropertyListValue] = [:]

    /// Describes a to-one relationship with default settings.
    public init(name: String, destination: String, inverse: String? = nil) {
        self.name = name
        self.destinationEntityName = destination
        self.inverseName = inverse
        self.inverseEntityName = inverse == nil ? nil : destination
    }
}

// MARK: - Full-text indexes

/// Model files can keep full-text indexes only in an entity's user info: `quire.fullText.NAME`, with the names of the
/// attributes, separated by commas.
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

    /// Moves the full-text indexes out of the user info entries of a model file.
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

/// Xcode's fetch requests have no order, offset or prefetching. Model files keep them in user info: a fetched property's own,
/// or that of the entity a template fetches, where the template's name follows:
/// `quire.fetchRequest.sort.1.NAME` = `descending[cd] title`.
extension FetchRequestTemplate {
    private static var keyPrefix: String { "quire.fetchRequest." }

    private static func suffix(_ name: String?) -> String { name.map { "." + $0 } ?? "" }

    /// The equivalent entries in a model file.
    ///
    /// - Parameter name: The template's name; `nil` for a fetched property.
    package func userInfoEntries(named name: String?) -> [String: String] {
        let suffix = Self.suffix(name)
        var entries: [String: String] = [:]
        for (position, key) in sortKeys.enumerated() {
            entries[Self.keyPrefix + "sort.\(position + 1)" + suffix] = key.text
        }
        if fetchOffset != 0 { entries[Self.keyPrefix + "offset" + suffix] = String(fetchOffset) }
        if !relationshipKeyPathsForPrefetching.isEmpty {
            entries[Self.keyPrefix + "prefetching" + suffix] =
                relationshipKeyPathsForPrefetching.joined(separator: ",")
        }
        return entries
    }

    /// Moves the request's settings out of the user info of a model file.
    ///
    /// - Returns: The keys of entries that are not understood, which stay.
    package mutating func takeSettings(
        from userInfo: inout [String: PropertyListValue], named name: String?
    ) -> [String] {
        func text(_ key: String) -> String? {
            if case .string(let text)? = userInfo[key] { text } else { nil }
        }
        let suffix = Self.suffix(name)
        var misunderstood: [String] = []
        var position = 1
        while true {
            let key = Self.keyPrefix + "sort.\(position)" + suffix
            guard let text = text(key) else { break }
            if let sortKey = SortKey(text: text) {
                sortKeys.append(sortKey)
                userInfo[key] = nil
            } else {
                misunderstood.append(key)
            }
            position += 1
        }
        let offsetKey = Self.keyPrefix + "offset" + suffix
        if let text = text(offsetKey) {
            if let offset = Int(text), offset >= 0 {
                fetchOffset = offset
                userInfo[offsetKey] = nil
            } else {
                misunderstood.append(offsetKey)
            }
        }
        let prefetchingKey = Self.keyPrefix + "prefetching" + suffix
        if let text = text(prefetchingKey) {
            userInfo[prefetchingKey] = nil
            relationshipKeyPathsForPrefetching = text.split(separator: ",").map(String.init)
        }
        return misunderstood
    }
}

extension FetchRequestTemplate.SortKey {
    fileprivate var text: String {
        (isAscending ? "ascending" : "descending") + (options.isEmpty ? "" : "[\(options)]") + " "
            + expression
    }

    fileprivate init?(text: String) {
        guard let space = text.firstIndex(of: " ") else { return nil }
        let head = text[..<space].split(separator: "[", maxSplits: 1)
        let expression = String(text[text.index(after: space)...])
        guard let direction = head.first, ["ascending", "descending"].contains(direction),
            !expression.isEmpty
        else { return nil }
        var options = ""
        if head.count == 2 {
            guard head[1].last == "]" else { return nil }
            options = String(head[1].dropLast())
            guard options.allSatisfy({ "cdnl".contains($0) }) else { return nil }
        }
        self.init(expression, isAscending: direction == "ascending", options: options)
    }
}

extension FetchIndexDescription {
    /// Whether it is a full-text index.
    package var isFullText: Bool { elements.first?.kind == .fullText }
}
