public import QuireSystem

/// What happens to related objects when an object is deleted, with Core Data's codes as raw values.
public enum DeleteRule: Int, Sendable, Hashable, CaseIterable {
    /// Nothing: the other side keeps a reference to an object that is gone.
    case noAction = 0
    /// The other side's reference is removed.
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
    /// The name of the entity that the relationship leads to.
    public var destinationEntityName: String
    /// The name of the destination's relationship that leads back. A to-many relationship without one is kept, as in
    /// Core Data's stores, with the objects it leads to: of several owners to which one object is added, the last to be
    /// saved has it when it is read again.
    public var inverseName: String?
    /// The entity that the model file names as the inverse's, usually the destination.
    public var inverseEntityName: String?
    /// Whether it may lead to any number of objects. Changing it sets ``maximumCount`` to 0 or 1.
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
    /// What a deletion does to the related objects.
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
