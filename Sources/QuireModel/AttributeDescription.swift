import Foundation
public import QuireSystem

/// Describes an attribute of an entity.
public struct AttributeDescription: Sendable, Hashable {
    /// The attribute's name, unique among the entity's properties and those it inherits.
    public var name: String
    /// The type of its values.
    public var type: AttributeType
    /// Whether it may have no value when the object is saved.
    public var isOptional = true
    /// Whether it lives in memory only.
    public var isTransient = false
    /// The value a new object gets.
    public var defaultValue: AttributeValue = .null
    /// The smallest number or earliest date that is valid, or for a text the smallest length.
    public var minimum: AttributeValue = .null
    /// The largest number or latest date that is valid, or for a text the greatest length.
    public var maximum: AttributeValue = .null
    /// A regular expression that a text must match as a whole.
    public var regularExpression: String?
    /// Conditions that the value must satisfy besides.
    public var validationPredicates: [ValidationPredicate] = []
    /// The name of the transformer of a transformable attribute.
    public var valueTransformerName: String?
    /// The Swift or Objective-C class of a transformable attribute's values, for generated code.
    public var customClassName: String?
    /// Whether generated code shows a number as a scalar.
    public var usesScalarValueType = false
    /// Whether large values are kept in files of their own beside the store.
    public var allowsExternalBinaryDataStorage = false
    /// Whether CloudKit may encrypt the value.
    public var allowsCloudEncryption = false
    /// Whether persistent history keeps the value when the object is deleted.
    public var preservesValueInHistoryOnDeletion = false
    /// Whether Spotlight indexes the value on Apple's systems.
    public var isIndexedBySpotlight = false
    /// Whether the store should index the value (of old models; new ones use fetch indexes).
    public var isIndexed = false
    /// Whether sync services transfer the value (of old models).
    public var isSyncable = true
    /// Whether the value is stored in an external record file (of old models).
    public var isStoredInTruthFile = false
    /// For a derived attribute, the expression the store computes it by.
    public var derivationExpression: String?
    /// For a composite attribute, the name of its ``CompositeDescription`` in the model.
    public var compositeName: String?
    /// The name the attribute had in an earlier version of the model.
    public var renamingIdentifier: String?
    /// A text that makes the version hash differ where nothing else does.
    public var versionHashModifier: String?
    /// Free keys and values of the model's author.
    public var userInfo: [String: PropertyListValue] = [:]

    /// Describes an attribute; set what differs from the defaults afterwards.
    public init(name: String, type: AttributeType) {
        self.name = name
        self.type = type
    }
}

/// Names the elements of composite attributes.
public struct CompositeDescription: Sendable, Hashable {
    /// The composite's name, which attributes refer to.
    public var name: String
    /// Its elements. One may itself be composite.
    public var elements: [AttributeDescription]

    /// Describes a composite.
    public init(name: String, elements: [AttributeDescription]) {
        self.name = name
        self.elements = elements
    }
}
