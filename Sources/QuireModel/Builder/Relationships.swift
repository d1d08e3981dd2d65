public import QuireSystem

/// A to-one relationship in an ``Entity``.
///
/// ```swift
/// ToOne("author", "Author", inverse: "books").required()
/// ```
public struct ToOne: RelationshipPart {
    /// The description that is built.
    public var description: RelationshipDescription

    /// Makes a relationship to at most one object of an entity.
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
    /// The description that is built.
    public var description: RelationshipDescription

    /// Makes a relationship to any number of objects of an entity.
    public init(_ name: String, _ destination: String, inverse: String? = nil) {
        description = RelationshipDescription(
            name: name, destination: destination, inverse: inverse)
        description.isToMany = true
    }

    /// Keeps the objects in an order.
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

/// What ``ToOne`` and ``ToMany`` have in common.
public protocol RelationshipPart: Sendable {
    /// The description that is built.
    var description: RelationshipDescription { get set }
}

extension RelationshipPart {
    /// Demands an object when the relationship's owner is saved.
    public func required() -> Self { optional(false) }

    /// Says whether the relationship may be empty when its owner is saved.
    public func optional(_ optional: Bool = true) -> Self {
        modified(self) { $0.description.isOptional = optional }
    }

    /// Sets what a deletion does to the related objects.
    public func deleteRule(_ rule: DeleteRule) -> Self {
        modified(self) { $0.description.deleteRule = rule }
    }

    /// Keeps the relationship in memory only.
    public func transient(_ transient: Bool = true) -> Self {
        modified(self) { $0.description.isTransient = transient }
    }

    /// Says what it was called in an earlier version of the model.
    public func renamed(from identifier: String) -> Self {
        modified(self) { $0.description.renamingIdentifier = identifier }
    }

    /// Makes the version hash differ where nothing else does.
    public func versionHashModifier(_ text: String) -> Self {
        modified(self) { $0.description.versionHashModifier = text }
    }

    /// Adds keys and values of your own.
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

    /// Says whether sync services transfer it (of old models).
    public func syncable(_ syncable: Bool = true) -> Self {
        modified(self) { $0.description.isSyncable = syncable }
    }
}
