import Foundation
internal import QuireModel
internal import QuireSystem

/// The elements and attributes of model files, as Xcode 4.3 and later write them.
///
/// Anything not listed here gets a remark, because it is lost when the model is written again. Ignored ones do not affect
/// the model: editor state, and the tools that wrote the file or may read it.
enum ModelXMLVocabulary {
    struct Element {
        /// The supported attributes.
        var attributes: Set<String>
        /// The attributes that do not affect the model.
        var ignoredAttributes: Set<String> = []
        /// The supported child elements.
        var children: Set<String> = []
        /// The child elements that do not affect the model, with their content.
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

/// Model files support only texts in user info. Other values are stored under `quire.userInfo.KEY`, as a binary property
/// list in base64.
/// property list in base64.
extension [String: PropertyListValue] {
    private static var keyPrefix: String { "quire.userInfo." }

    /// The equivalent entries of a model file.
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

    /// Decodes the entries of a model file.
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
    /// The number for “YES” or “NO” as a default value: Xcode's editor leaves such texts after a change of type, and its
    /// compiler reads them as 1 and 0.
    func number(fromTruth text: String) -> AttributeValue? {
        let number: Int64
        switch text.lowercased() {
        case "yes", "true": number = 1
        case "no", "false": number = 0
        default: return nil
        }
        return self.number(number)
    }

    /// The boolean for a number such as “0.0” as a default value, also left after a change of type; `nil` if the type is not
    /// boolean or the text is not a number.
    func truth(fromNumber text: String) -> AttributeValue? {
        guard self == .boolean, let number = Double(text), number.isFinite else { return nil }
        return .boolean(number != 0)
    }

    /// A small number as a value of the type; `nil` if the type is not numeric.
    func number(_ number: Int64) -> AttributeValue? {
        switch self {
        case .integer16, .integer32, .integer64: .integer(number)
        case .double, .float: .double(Double(number))
        case .decimal: .decimal(Decimal(number))
        default: nil
        }
    }
}
