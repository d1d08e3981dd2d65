public import QuireSystem

/// An entity in a ``ModelBuilder``, made of ``Attribute``, ``ToOne``, ``ToMany``, ``FetchedProperty``, ``Index``,
/// ``CompoundIndex`` and ``Unique``.
public struct Entity: Sendable {
    /// The resulting description.
    public var description: EntityDescription

    /// Creates an entity from the parts listed in a closure.
    ///
    /// - Parameters:
    ///   - name: The entity's name.
    ///   - superentity: The name of the entity whose properties it inherits.
    ///   - content: Its own properties, indexes and constraints.
    public init(
        _ name: String, inherits superentity: String? = nil,
        @EntityBuilder _ content: () -> [EntityBuilder.Part] = { [] }
    ) {
        description = EntityDescription(name: name)
        description.superentityName = superentity
        for part in content() {
            switch part.content {
            case .property(let property): description.properties.append(property)
            case .index(let index): description.indexes.append(index)
            case .compoundIndex(let names): description.compoundIndexes.append(names)
            case .unique(let names): description.uniquenessConstraints.append(names)
            }
        }
    }

    /// Makes the entity abstract: only its sub-entities have objects.
    public func abstract(_ abstract: Bool = true) -> Entity {
        modified(self) { $0.description.isAbstract = abstract }
    }

    /// Names the class of its objects, for generated code.
    public func className(_ name: String) -> Entity {
        modified(self) { $0.description.managedObjectClassName = name }
    }

    /// Sets the renaming identifier: the name in an earlier version of the model.
    public func renamed(from identifier: String) -> Entity {
        modified(self) { $0.description.renamingIdentifier = identifier }
    }

    /// Sets the version hash modifier, which distinguishes otherwise equal version hashes.
    public func versionHashModifier(_ text: String) -> Entity {
        modified(self) { $0.description.versionHashModifier = text }
    }

    /// Adds entries to the user info.
    public func userInfo(_ entries: [String: PropertyListValue]) -> Entity {
        modified(self) { $0.description.userInfo.merge(entries) { $1 } }
    }

    /// Sets Xcode's code generation: `class`, `category` or `none`.
    public func codeGeneration(_ type: String) -> Entity {
        modified(self) { $0.description.codeGenerationType = type }
    }

    /// Sets the expression that names an object in Spotlight on Apple's systems.
    public func spotlightName(_ expression: String) -> Entity {
        modified(self) { $0.description.coreSpotlightDisplayNameExpression = expression }
    }

    /// Sets whether sync services transfer it (of old models).
    public func syncable(_ syncable: Bool = true) -> Entity {
        modified(self) { $0.description.isSyncable = syncable }
    }
}

/// Collects the parts of an ``Entity``.
@resultBuilder
public enum EntityBuilder: PartBuilder {
    /// A part of an entity.
    public struct Part: Sendable {
        enum Content: Sendable {
            case property(PropertyDescription)
            case index(FetchIndexDescription)
            case compoundIndex([String])
            case unique([String])
        }
        var content: Content
    }

    /// An attribute.
    public static func buildExpression(_ attribute: Attribute) -> [Part] {
        [Part(content: .property(.attribute(attribute.description)))]
    }

    /// A to-one relationship.
    public static func buildExpression(_ relationship: ToOne) -> [Part] {
        [Part(content: .property(.relationship(relationship.description)))]
    }

    /// A to-many relationship.
    public static func buildExpression(_ relationship: ToMany) -> [Part] {
        [Part(content: .property(.relationship(relationship.description)))]
    }

    /// A fetched property.
    public static func buildExpression(_ fetched: FetchedProperty) -> [Part] {
        [Part(content: .property(.fetched(fetched.description)))]
    }

    /// A property described elsewhere.
    public static func buildExpression(_ property: PropertyDescription) -> [Part] {
        [Part(content: .property(property))]
    }

    /// An index.
    public static func buildExpression(_ index: Index) -> [Part] {
        [Part(content: .index(index.description))]
    }

    /// A compound index of old models.
    public static func buildExpression(_ index: CompoundIndex) -> [Part] {
        [Part(content: .compoundIndex(index.propertyNames))]
    }

    /// A uniqueness constraint.
    public static func buildExpression(_ constraint: Unique) -> [Part] {
        [Part(content: .unique(constraint.propertyNames))]
    }
}

// MARK: - Indexes

/// An index in an ``Entity``.
///
/// ```swift
/// Index("byAuthorAndYear", on: "author", .descending("year"))
/// ```
public struct Index: Sendable {
    /// The resulting description.
    public var description: FetchIndexDescription

    /// Creates an index of properties, most significant first.
    public init(_ name: String, on elements: FetchIndexDescription.Element...) {
        description = FetchIndexDescription(name: name, elements: elements)
    }

    /// Makes a partial index, of objects that satisfy a predicate.
    public func `where`(_ predicate: String) -> Index {
        modified(self) { $0.description.partialIndexPredicate = predicate }
    }

    /// Makes an R-tree, which indexes ranges in several dimensions. For up to five numeric or date attributes.
    public func rtree() -> Index { of(.rtree) }

    /// Makes a full-text index for `MATCHES TEXT`; see ``TextSearch``. For attributes of type string.
    ///
    /// This is an extension to Core Data. A model file keeps it in the entity's user info, after all other indexes.
    ///
    /// ```swift
    /// Index("byText", on: "title", "summary").fullText()
    /// ```
    public func fullText() -> Index { of(.fullText) }

    private func of(_ kind: FetchIndexDescription.Kind) -> Index {
        modified(self) {
            for position in $0.description.elements.indices {
                $0.description.elements[position].kind = kind
            }
        }
    }
}

extension FetchIndexDescription.Element: ExpressibleByStringLiteral {
    /// A property in ascending order.
    public init(stringLiteral propertyName: String) { self.init(propertyName: propertyName) }

    /// A property in ascending order.
    public static func ascending(_ propertyName: String) -> Self {
        Self(propertyName: propertyName)
    }

    /// A property in descending order.
    public static func descending(_ propertyName: String) -> Self {
        Self(propertyName: propertyName, isAscending: false)
    }

    /// An expression in ascending order; `entity` is the object's entity.
    ///
    /// - Parameters:
    ///   - text: The expression.
    ///   - type: The type the expression has in a model file.
    public static func expression(_ text: String, type: String? = nil) -> Self {
        modified(Self(expression: text)) { $0.expressionType = type }
    }
}

/// A compound index in an ``Entity`` (of old models; new ones list an ``Index``).
public struct CompoundIndex: Sendable {
    /// The names of the properties, most significant first.
    public var propertyNames: [String]

    /// Creates an index of properties.
    public init(_ propertyNames: String...) { self.propertyNames = propertyNames }
}

/// A uniqueness constraint in an ``Entity``: the combination of the properties' values is unique.
///
/// ```swift
/// Unique("firstName", "lastName")
/// ```
public struct Unique: Sendable {
    /// The names of the properties.
    public var propertyNames: [String]

    /// Creates a constraint of properties.
    public init(_ propertyNames: String...) { self.propertyNames = propertyNames }
}

// MARK: - The builder of parts

/// The shared base of the model and entity result builders: collects parts from sequences, conditions and loops.
public protocol PartBuilder {
    /// The collected type.
    associatedtype Part
}

extension PartBuilder {
    /// Parts returned by a function.
    public static func buildExpression(_ parts: [Part]) -> [Part] { parts }

    /// A sequence of parts.
    public static func buildBlock(_ parts: [Part]...) -> [Part] { parts.flatMap { $0 } }

    /// The parts of an `if` without `else`.
    public static func buildOptional(_ parts: [Part]?) -> [Part] { parts ?? [] }

    /// The parts of an `if`.
    public static func buildEither(first parts: [Part]) -> [Part] { parts }

    /// The parts of an `else`.
    public static func buildEither(second parts: [Part]) -> [Part] { parts }

    /// The parts of a loop.
    public static func buildArray(_ parts: [[Part]]) -> [Part] { parts.flatMap { $0 } }
}
