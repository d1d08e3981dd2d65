import Foundation
internal import QuireModel
internal import QuireSystem

/// The elements and attributes of model files, as Xcode 4.3 and later write them.
///
/// What is not listed here is remarked on: it is lost when the model is written again. What is listed as ignored says
/// nothing about the model: the state of the editor, and which tools wrote the file or may read it.
enum ModelXMLVocabulary {
    struct Element {
        /// The attributes that are read, and written.
        var attributes: Set<String>
        /// The attributes that say nothing about the model.
        var ignoredAttributes: Set<String> = []
        /// The elements within that are read, and written.
        var children: Set<String> = []
        /// The elements within that say nothing about the model, with all that is in them.
        var ignoredChildren: Set<String> = []
    }

    static let elements: [String: Element] = [
        "model": Element(
            attributes: [
                "usedWithCloudKit", "usedWithSwiftData", "userDefinedModelVersionIdentifier",
            ],
            ignoredAttributes: [
                "documentVersion", "iOSVersion", "lastSavedToolsVersion", "macOSVersion",
                "minimumToolsVersion", "name", "sourceLanguage", "systemVersion", "tvOSVersion",
                "type", "visionOSVersion", "watchOSVersion",
            ],
            children: ["composite", "configuration", "entity", "fetchRequest"],
            // The positions of the boxes in the editor's diagram.
            ignoredChildren: ["elements"]),
        "entity": Element(
            attributes: [
                "codeGenerationType", "coreSpotlightDisplayNameExpression", "elementID",
                "isAbstract",
                "name", "parentEntity", "renamingIdentifier", "representedClassName", "syncable",
                "versionHashModifier",
            ],
            children: [
                "attribute", "compoundIndexes", "fetchIndex", "fetchedProperty", "relationship",
                "uniquenessConstraints", "userInfo",
            ]),
        "attribute": Element(
            attributes: [
                "allowsCloudEncryption", "allowsExternalBinaryDataStorage", "attributeType",
                "composite", "customClassName", "defaultDateTimeInterval", "defaultValueString",
                "derivationExpression", "derived", "elementID", "indexed", "maxDateTimeInterval",
                "maxValueString", "minDateTimeInterval", "minValueString", "name", "optional",
                "preserveAfterDeletion", "regularExpressionString", "renamingIdentifier",
                "spotlightIndexingEnabled", "storedInTruthFile", "syncable", "transient",
                "usesScalarValueType", "valueTransformerName", "versionHashModifier",
            ],
            children: ["userInfo"]),
        "relationship": Element(
            attributes: [
                "deletionRule", "destinationEntity", "elementID", "indexed", "inverseEntity",
                "inverseName", "maxCount", "minCount", "name", "optional", "ordered",
                "renamingIdentifier", "spotlightIndexingEnabled", "syncable", "toMany", "transient",
                "versionHashModifier",
            ],
            children: ["userInfo"]),
        "fetchedProperty": Element(
            attributes: ["name", "optional", "syncable"], children: ["fetchRequest", "userInfo"]),
        "fetchRequest": Element(
            attributes: [
                "entity", "fetchBatchSize", "fetchLimit", "includePropertyValues",
                "includeSubentities", "includesPendingChanges", "name", "predicateString",
                "resultType", "returnDistinctResults", "returnObjectsAsFaults",
            ]),
        "fetchIndex": Element(
            attributes: ["name", "partialIndexPredicate"], children: ["fetchIndexElement"]),
        "fetchIndexElement": Element(
            attributes: ["expression", "expressionType", "order", "property", "type"]),
        "compoundIndexes": Element(attributes: [], children: ["compoundIndex"]),
        "compoundIndex": Element(attributes: [], children: ["index"]),
        "index": Element(attributes: ["value"]),
        "uniquenessConstraints": Element(attributes: [], children: ["uniquenessConstraint"]),
        "uniquenessConstraint": Element(attributes: [], children: ["constraint"]),
        "constraint": Element(attributes: ["value"]),
        "composite": Element(attributes: ["name"], children: ["attribute"]),
        "configuration": Element(
            attributes: ["name", "usedWithCloudKit"], children: ["memberEntity"]),
        "memberEntity": Element(attributes: ["name"]),
        "userInfo": Element(attributes: [], children: ["entry"]),
        "entry": Element(attributes: ["key", "value"]),
    ]

    static let attributeTypes: [(name: String, type: AttributeType)] = [
        ("Undefined", .undefined), ("Integer 16", .integer16), ("Integer 32", .integer32),
        ("Integer 64", .integer64), ("Decimal", .decimal), ("Double", .double), ("Float", .float),
        ("String", .string), ("Boolean", .boolean), ("Date", .date), ("Binary", .binary),
        ("UUID", .uuid), ("URI", .uri), ("Transformable", .transformable),
        ("ObjectID", .objectID), ("Composite", .composite),
    ]

    static let deleteRules: [(name: String, rule: DeleteRule)] = [
        ("No Action", .noAction), ("Nullify", .nullify), ("Cascade", .cascade), ("Deny", .deny),
    ]
}

// MARK: - User info

/// Model files have texts only in their free keys and values. Another value is kept under `quire.userInfo.KEY`: as a binary
/// property list in base64.
extension [String: PropertyListValue] {
    private static var keyPrefix: String { "quire.userInfo." }

    /// The entries of a model file that say the same.
    var modelXMLEntries: [String: String] {
        var entries: [String: String] = [:]
        for (key, value) in self {
            if case .string(let text) = value, !key.hasPrefix(Self.keyPrefix) {
                entries[key] = text
            } else {
                entries[Self.keyPrefix + key] =
                    BinaryPropertyListWriter.data(of: value.archiveValue).base64EncodedString()
            }
        }
        return entries
    }

    /// What the entries of a model file say.
    init(modelXMLEntries entries: [String: String]) {
        self.init(minimumCapacity: entries.count)
        for (key, text) in entries {
            if key.hasPrefix(Self.keyPrefix), let value = Self.value(text) {
                self[String(key.dropFirst(Self.keyPrefix.count))] = value
            } else {
                self[key] = .string(text)
            }
        }
    }

    private static func value(_ text: String) -> PropertyListValue? {
        guard let data = Data(base64Encoded: text),
            var reader = try? BinaryPropertyListReader(data, name: ""),
            let value = try? reader.value()
        else { return nil }
        return PropertyListValue(value)
    }
}

// MARK: - Attribute types

extension AttributeType {
    /// The number that “YES” or “NO” stands for as a default value: a change of type in Xcode's editor leaves such texts
    /// behind, and its compiler takes them for 1 and 0.
    func number(fromTruth text: String) -> AttributeValue? {
        let number: Int64
        switch text.lowercased() {
        case "yes", "true": number = 1
        case "no", "false": number = 0
        default: return nil
        }
        return self.number(number)
    }

    /// The truth value that a number such as “0.0” stands for as a default value, which a change of type leaves behind as
    /// well; `nil` if the type is not boolean or the text is no number.
    func truth(fromNumber text: String) -> AttributeValue? {
        guard self == .boolean, let number = Double(text), number.isFinite else { return nil }
        return .boolean(number != 0)
    }

    /// A small number as a value of the type; `nil` if the type is not one of numbers.
    func number(_ number: Int64) -> AttributeValue? {
        switch self {
        case .integer16, .integer32, .integer64: .integer(number)
        case .double, .float: .double(Double(number))
        case .decimal: .decimal(Decimal(number))
        default: nil
        }
    }
}
