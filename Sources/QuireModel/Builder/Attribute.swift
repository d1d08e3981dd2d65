public import QuireSystem

/// An attribute in an ``Entity`` or a ``Composite``. It is optional unless it is ``required()``.
///
/// ```swift
/// Attribute("pages", .integer32).required().default(0).minimum(0)
/// ```
public struct Attribute: Sendable {
    /// The resulting description.
    public var description: AttributeDescription

    /// Creates an attribute of a type.
    public init(_ name: String, _ type: AttributeType) {
        description = AttributeDescription(name: name, type: type)
    }

    /// Creates an attribute that contains the elements of a ``Composite``.
    public init(_ name: String, composite: String) {
        description = AttributeDescription(name: name, type: .composite)
        description.compositeName = composite
    }

    /// Makes the value required when an object is saved.
    public func required() -> Attribute { optional(false) }

    /// Sets whether the value may be null when an object is saved.
    public func optional(_ optional: Bool = true) -> Attribute {
        modified(self) { $0.description.isOptional = optional }
    }

    /// Keeps the value in memory only.
    public func transient(_ transient: Bool = true) -> Attribute {
        modified(self) { $0.description.isTransient = transient }
    }

    /// Sets the initial value of a new object. An integer is converted to any numeric type.
    public func `default`(_ value: AttributeValue) -> Attribute {
        // A value that does not fit is kept, for the model's validation to report.
        modified(self) { $0.description.defaultValue = (try? description.coerce(value)) ?? value }
    }

    /// Sets the minimum number or earliest date.
    public func minimum(_ value: AttributeValue) -> Attribute {
        modified(self) { $0.description.minimum = bound(value) }
    }

    /// Sets the maximum number or latest date.
    public func maximum(_ value: AttributeValue) -> Attribute {
        modified(self) { $0.description.maximum = bound(value) }
    }

    /// Bounds the length of a text, in UTF-16 code units.
    public func length(atLeast least: Int? = nil, atMost most: Int? = nil) -> Attribute {
        modified(self) {
            $0.description.minimum = least.map { .integer(Int64($0)) } ?? .null
            $0.description.maximum = most.map { .integer(Int64($0)) } ?? .null
        }
    }

    /// Requires a text as a whole to match a regular expression (ICU).
    public func matching(_ regularExpression: String) -> Attribute {
        modified(self) { $0.description.regularExpression = regularExpression }
    }

    /// Keeps large binary values in separate files beside the store.
    public func externalStorage(_ external: Bool = true) -> Attribute {
        modified(self) { $0.description.allowsExternalBinaryDataStorage = external }
    }

    /// Lets CloudKit encrypt the value.
    public func cloudEncryption(_ encryption: Bool = true) -> Attribute {
        modified(self) { $0.description.allowsCloudEncryption = encryption }
    }

    /// Keeps the value in persistent history when the object is deleted.
    public func preservedInHistoryOnDeletion(_ preserved: Bool = true) -> Attribute {
        modified(self) { $0.description.preservesValueInHistoryOnDeletion = preserved }
    }

    /// Makes the attribute derived: the store computes it by an expression like `books.@count`.
    public func derived(_ expression: String) -> Attribute {
        modified(self) { $0.description.derivationExpression = expression }
    }

    /// Names the transformer of a transformable attribute, and the class of its values.
    public func transformer(_ name: String, className: String? = nil) -> Attribute {
        modified(self) {
            $0.description.valueTransformerName = name
            $0.description.customClassName = className ?? $0.description.customClassName
        }
    }

    /// Names the class of a transformable attribute's values, for generated code.
    public func className(_ name: String) -> Attribute {
        modified(self) { $0.description.customClassName = name }
    }

    /// Shows a number as a scalar in generated code.
    public func scalar(_ scalar: Bool = true) -> Attribute {
        modified(self) { $0.description.usesScalarValueType = scalar }
    }

    /// Sets the renaming identifier: the name in an earlier version of the model.
    public func renamed(from identifier: String) -> Attribute {
        modified(self) { $0.description.renamingIdentifier = identifier }
    }

    /// Sets the version hash modifier, which distinguishes otherwise equal version hashes.
    public func versionHashModifier(_ text: String) -> Attribute {
        modified(self) { $0.description.versionHashModifier = text }
    }

    /// Adds entries to the user info.
    public func userInfo(_ entries: [String: PropertyListValue]) -> Attribute {
        modified(self) { $0.description.userInfo.merge(entries) { $1 } }
    }

    /// Lets Spotlight index the value on Apple's systems.
    public func indexedBySpotlight(_ indexed: Bool = true) -> Attribute {
        modified(self) { $0.description.isIndexedBySpotlight = indexed }
    }

    /// Lets the store index the value (of old models; new ones list an ``Index``).
    public func indexed(_ indexed: Bool = true) -> Attribute {
        modified(self) { $0.description.isIndexed = indexed }
    }

    /// Sets whether sync services transfer the value (of old models).
    public func syncable(_ syncable: Bool = true) -> Attribute {
        modified(self) { $0.description.isSyncable = syncable }
    }

    /// Stores the value in an external record file (of old models).
    public func storedInTruthFile(_ stored: Bool = true) -> Attribute {
        modified(self) { $0.description.isStoredInTruthFile = stored }
    }

    /// A bound in the attribute's storage form; for a text, its length.
    private func bound(_ value: AttributeValue) -> AttributeValue {
        description.type == .string ? value : (try? description.coerce(value)) ?? value
    }
}

// MARK: - Relationships

/// A to-one relationship in an ``Entity``.
///
/// ```swift
/// ToOne("author", "Author", inverse: "books").required()
/// ```
public struct ToOne: RelationshipPart {
    /// The resulting description.
    public var description: RelationshipDescription

    /// Creates a relationship to at most one object of an entity.
    public init(_ name: String, _ destination: String, inverse: String? = nil) {
        description = RelationshipDescription(
            name: name, destination: destination, inverse: inverse)
    }
}

/// A to-many relationship in an ``Entity``.
///
/// ```swift
/// ToMany("books", "Book", inverse: "author").ordered().deleteRule(.cascade)
/// ```
public struct ToMany: RelationshipPart {
    /// The resulting description.
    public var description: RelationshipDescription

    /// Creates a relationship to any number of objects of an entity.
    public init(_ name: String, _ destination: String, inverse: String? = nil) {
        description = RelationshipDescription(
            name: name, destination: destination, inverse: inverse)
        description.isToMany = true
    }

    /// Makes the relationship ordered.
    public func ordered(_ ordered: Bool = true) -> ToMany {
        modified(self) { $0.description.isOrdered = ordered }
    }

    /// Bounds the number of objects when an object is saved.
    public func count(atLeast least: Int = 0, atMost most: Int? = nil) -> ToMany {
        modified(self) {
            $0.description.minimumCount = least
            $0.description.maximumCount = most ?? 0
        }
    }
}

/// The modifiers shared by ``ToOne`` and ``ToMany``.
public protocol RelationshipPart: Sendable {
    /// The resulting description.
    var description: RelationshipDescription { get set }
}

extension RelationshipPart {
    /// Makes the relationship required when its owner is saved. A to-many relationship also needs a minimum,
    /// ``ToMany/count(atLeast:atMost:)``: without one it may be empty, as in Core Data.
    public func required() -> Self { optional(false) }

    /// Sets whether the relationship may be empty when its owner is saved.
    public func optional(_ optional: Bool = true) -> Self {
        modified(self) { $0.description.isOptional = optional }
    }

    /// Sets the delete rule.
    public func deleteRule(_ rule: DeleteRule) -> Self {
        modified(self) { $0.description.deleteRule = rule }
    }

    /// Keeps the relationship in memory only.
    public func transient(_ transient: Bool = true) -> Self {
        modified(self) { $0.description.isTransient = transient }
    }

    /// Sets the renaming identifier: the name in an earlier version of the model.
    public func renamed(from identifier: String) -> Self {
        modified(self) { $0.description.renamingIdentifier = identifier }
    }

    /// Sets the version hash modifier, which distinguishes otherwise equal version hashes.
    public func versionHashModifier(_ text: String) -> Self {
        modified(self) { $0.description.versionHashModifier = text }
    }

    /// Adds entries to the user info.
    public func userInfo(_ entries: [String: PropertyListValue]) -> Self {
        modified(self) { $0.description.userInfo.merge(entries) { $1 } }
    }

    /// Lets Spotlight index it on Apple's systems.
    public func indexedBySpotlight(_ indexed: Bool = true) -> Self {
        modified(self) { $0.description.isIndexedBySpotlight = indexed }
    }

    /// Lets the store index it (of old models).
    public func indexed(_ indexed: Bool = true) -> Self {
        modified(self) { $0.description.isIndexed = indexed }
    }

    /// Sets whether sync services transfer it (of old models).
    public func syncable(_ syncable: Bool = true) -> Self {
        modified(self) { $0.description.isSyncable = syncable }
    }
}
