/// Puts a model together from what a closure lists: ``Entity``, ``Composite``, ``ModelConfiguration``,
/// ``FetchTemplate``.
@resultBuilder
public enum ModelBuilder: PartBuilder {
    /// Something that is part of a model.
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

    /// An entity that was described elsewhere.
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
    /// Makes a model of what a closure lists.
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
    /// Nothing is checked here; ``validate()`` does, and every store and ``layout()`` call it.
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

/// A composite in a ``ModelBuilder``: named values that attributes hold together.
///
/// ```swift
/// Composite("Point") {
///     Attribute("x", .double).required()
///     Attribute("y", .double).required()
/// }
/// ```
public struct Composite: Sendable {
    /// The description that is built.
    public var description: CompositeDescription

    /// Makes a composite of the attributes that a closure lists.
    public init(_ name: String, @CompositeBuilder _ elements: () -> [AttributeDescription]) {
        description = CompositeDescription(name: name, elements: elements())
    }
}

/// Lists the elements of a ``Composite``.
@resultBuilder
public enum CompositeBuilder {
    /// An element.
    public static func buildExpression(_ attribute: Attribute) -> AttributeDescription {
        attribute.description
    }

    /// Elements in a row.
    public static func buildBlock(_ attributes: AttributeDescription...) -> [AttributeDescription] {
        attributes
    }
}

/// A configuration in a ``ModelBuilder``: a named subset of the entities, for a store that keeps only these.
public struct ModelConfiguration: Sendable {
    /// The description that is built.
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
func modified<Value>(_ value: Value, _ change: (inout Value) -> Void) -> Value {
    var copy = value
    change(&copy)
    return copy
}
