/// What the macro `@Attribute` can say of an attribute in one word.
public struct AttributeOptions: OptionSet, Sendable {
    /// The bits.
    public let rawValue: Int
    /// Makes a set of its bits.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// No two objects may have the same value.
    public static let unique = Self(rawValue: 1)
    /// The value lives in memory only.
    public static let transient = Self(rawValue: 2)
    /// Large values are kept in files of their own beside the store.
    public static let externalStorage = Self(rawValue: 4)
    /// The store indexes the value.
    public static let indexed = Self(rawValue: 8)
    /// CloudKit may encrypt the value.
    public static let allowsCloudEncryption = Self(rawValue: 16)
    /// Persistent history keeps the value when the object is deleted.
    public static let preservesValueInHistoryOnDeletion = Self(rawValue: 32)
}

/// What the macro `@Relationship` can say of a relationship in one word.
public struct RelationshipOptions: OptionSet, Sendable {
    /// The bits.
    public let rawValue: Int
    /// Makes a set of its bits.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// There must be an object when the relationship's owner is saved.
    public static let required = Self(rawValue: 1)
    /// The relationship lives in memory only.
    public static let transient = Self(rawValue: 2)
    /// The store indexes it, if it leads to one object.
    public static let indexed = Self(rawValue: 4)
}
