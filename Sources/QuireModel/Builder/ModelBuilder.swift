public import QuireSystem

/// Builds a model from the parts listed in a closure: ``Entity``, ``Composite``, ``ModelConfiguration``, ``FetchTemplate``.
@resultBuilder
public enum ModelBuilder: PartBuilder {
    /// A part of a model.
    public struct Part: Sendable {
        fileprivate enum Content: Sendable {
            case entity(EntityDescription)
            case composite(CompositeDescription)
            case configuration(ManagedObjectModel.Configuration)
            case template(FetchRequestTemplate)
        }
        fileprivate var content: Content
    }

    /// An entity.
    public static func buildExpression(_ entity: Entity) -> [Part] {
        [Part(content: .entity(entity.description))]
    }

    /// An entity described elsewhere.
    public static func buildExpression(_ entity: EntityDescription) -> [Part] {
        [Part(content: .entity(entity))]
    }

    /// A composite.
    public static func buildExpression(_ composite: Composite) -> [Part] {
        [Part(content: .composite(composite.description))]
    }

    /// A configuration.
    public static func buildExpression(_ configuration: ModelConfiguration) -> [Part] {
        [Part(content: .configuration(configuration.description))]
    }

    /// A fetch request template.
    public static func buildExpression(_ template: FetchTemplate) -> [Part] {
        [Part(content: .template(template.request))]
    }
}

extension ManagedObjectModel {
    /// Creates a model from the parts listed in a closure.
    ///
    /// ```swift
    /// let model = ManagedObjectModel {
    ///     Entity("Book") {
    ///         Attribute("title", .string).required()
    ///         Attribute("year", .integer16)
    ///         Attribute("isbn", .string).length(atMost: 13)
    ///         ToOne("author", "Author", inverse: "books")
    ///         Index("byTitle", on: "title")
    ///         Unique("isbn")
    ///     }
    ///     Entity("Author") {
    ///         Attribute("name", .string).required()
    ///         ToMany("books", "Book", inverse: "author").ordered().deleteRule(.cascade)
    ///     }
    /// }
    /// ```
    ///
    /// The model is not validated here; ``validate()`` does that, and every store and ``layout()`` call it.
    public init(
        versionIdentifiers: [String] = [], @ModelBuilder _ content: () -> [ModelBuilder.Part]
    ) {
        self.init()
        self.versionIdentifiers = versionIdentifiers
        for part in content() {
            switch part.content {
            case .entity(let entity): entities.append(entity)
            case .composite(let composite): composites.append(composite)
            case .configuration(let configuration): configurations.append(configuration)
            case .template(let template): fetchRequestTemplates.append(template)
            }
        }
    }
}

/// A composite in a ``ModelBuilder``: a group of named values in one attribute.
///
/// ```swift
/// Composite("Point") {
///     Attribute("x", .double).required()
///     Attribute("y", .double).required()
/// }
/// ```
public struct Composite: Sendable {
    /// The resulting description.
    public var description: CompositeDescription

    /// Creates a composite from the attributes listed in a closure.
    public init(_ name: String, @CompositeBuilder _ elements: () -> [AttributeDescription]) {
        description = CompositeDescription(name: name, elements: elements())
    }
}

/// Collects the elements of a ``Composite``.
@resultBuilder
public enum CompositeBuilder {
    /// An element.
    public static func buildExpression(_ attribute: Attribute) -> AttributeDescription {
        attribute.description
    }

    /// A sequence of elements.
    public static func buildBlock(_ attributes: AttributeDescription...) -> [AttributeDescription] {
        attributes
    }
}

/// A configuration in a ``ModelBuilder``: a named subset of the entities, for a store with only these.
public struct ModelConfiguration: Sendable {
    /// The resulting description.
    public var description: ManagedObjectModel.Configuration

    /// Names a subset of the entities.
    public init(_ name: String, entities: [String]) {
        description = ManagedObjectModel.Configuration(name: name, entityNames: entities)
    }

    /// Lets CloudKit mirror its stores on Apple's systems.
    public func usedWithCloudKit(_ used: Bool = true) -> ModelConfiguration {
        modified(self) { $0.description.usedWithCloudKit = used }
    }
}

/// A changed copy: what every modifier of the builders returns.
package func modified<Value>(_ value: Value, _ change: (inout Value) -> Void) -> Value {
    var copy = value
    change(&copy)
    return copy
}

// MARK: - Request templates

/// A named fetch request in a ``ModelBuilder``. Its predicate may contain `$VARIABLES`.
///
/// ```swift
/// FetchTemplate("booksBy", of: "Book", where: "author.name == $NAME").limit(100)
/// ```
public struct FetchTemplate: FetchRequestPart {
    /// The resulting request.
    public var request: FetchRequestTemplate

    /// Creates a request for the objects of an entity that satisfy a predicate.
    public init(_ name: String, of entity: String, where predicate: String? = nil) {
        request = FetchRequestTemplate(name: name, entityName: entity)
        request.predicateFormat = predicate
    }
}

/// A fetched property in an ``Entity``. Its predicate may contain `$FETCH_SOURCE`, the owning object.
///
/// ```swift
/// FetchedProperty("contemporaries", of: "Author", where: "born == $FETCH_SOURCE.born")
/// ```
public struct FetchedProperty: FetchRequestPart {
    /// The resulting description.
    public var description: FetchedPropertyDescription

    /// The resulting request.
    public var request: FetchRequestTemplate {
        get { description.fetchRequest }
        set { description.fetchRequest = newValue }
    }

    /// Creates a property whose value is the objects of an entity that satisfy a predicate.
    public init(_ name: String, of entity: String, where predicate: String? = nil) {
        // Xcode gives the requests of all fetched properties this name.
        var request = FetchRequestTemplate(
            name: "fetchedPropertyFetchRequest", entityName: entity)
        request.predicateFormat = predicate
        description = FetchedPropertyDescription(name: name, fetchRequest: request)
    }

    /// Sets whether it may be empty.
    public func optional(_ optional: Bool = true) -> FetchedProperty {
        modified(self) { $0.description.isOptional = optional }
    }

    /// Adds entries to the user info.
    public func userInfo(_ entries: [String: PropertyListValue]) -> FetchedProperty {
        modified(self) { $0.description.userInfo.merge(entries) { $1 } }
    }

    /// Sets whether sync services transfer it (of old models).
    public func syncable(_ syncable: Bool = true) -> FetchedProperty {
        modified(self) { $0.description.isSyncable = syncable }
    }
}

/// The modifiers shared by ``FetchTemplate`` and ``FetchedProperty``.
public protocol FetchRequestPart: Sendable {
    /// The resulting request.
    var request: FetchRequestTemplate { get set }
}

extension FetchRequestPart {
    /// Sets the fetch limit; 0 for none.
    public func limit(_ limit: Int) -> Self { modified(self) { $0.request.fetchLimit = limit } }

    /// Sets the number of objects to skip.
    public func offset(_ offset: Int) -> Self { modified(self) { $0.request.fetchOffset = offset } }

    /// Adds key paths of relationships to prefetch, such as `author` or `tags.books`.
    public func prefetching(_ keyPaths: String...) -> Self {
        modified(self) { $0.request.relationshipKeyPathsForPrefetching += keyPaths }
    }

    /// Sets the fetch batch size; 0 for no batching.
    public func batchSize(_ size: Int) -> Self {
        modified(self) { $0.request.fetchBatchSize = size }
    }

    /// Sets whether objects of sub-entities are fetched too.
    public func includesSubentities(_ included: Bool) -> Self {
        modified(self) { $0.request.includesSubentities = included }
    }

    /// Sets whether values are read along with the objects.
    public func includesPropertyValues(_ included: Bool) -> Self {
        modified(self) { $0.request.includesPropertyValues = included }
    }

    /// Sets whether unsaved changes are taken into account.
    public func includesPendingChanges(_ included: Bool) -> Self {
        modified(self) { $0.request.includesPendingChanges = included }
    }

    /// Sets whether fetched objects are returned as faults.
    public func returnsObjectsAsFaults(_ faults: Bool) -> Self {
        modified(self) { $0.request.returnsObjectsAsFaults = faults }
    }

    /// Removes duplicate results.
    public func returnsDistinctResults(_ distinct: Bool = true) -> Self {
        modified(self) { $0.request.returnsDistinctResults = distinct }
    }

    /// Names the type of the results in the model file.
    public func resultType(_ name: String) -> Self {
        modified(self) { $0.request.resultType = name }
    }
}
