import Foundation
internal import QuireModel
internal import QuireSystem

/// An option of a part of a model, such as `required` or `max 10`: how it is written, read and reset.
struct ModelTextOption<Part>: Sendable {
    let name: String
    /// Whether it stands alone, without a value.
    var isFlag = false
    /// The option as often as it is to be written; empty for the default.
    let write: @Sendable (Part) -> [String]
    /// Reads what follows the name.
    let read: @Sendable (inout Part, inout ModelTextParser) throws -> Void
    /// Sets the default.
    let reset: @Sendable (inout Part) -> Void

    typealias Key<Value> = WritableKeyPath<Part, Value> & Sendable

    /// A word that stands for a value.
    ///
    /// - Parameter isWritten: False for a word that only confirms the default.
    static func flag(
        _ name: String, _ key: any Key<Bool>, _ value: Bool = true, isWritten: Bool = true
    ) -> Self {
        Self(
            name: name, isFlag: true,
            write: { isWritten && $0[keyPath: key] == value ? [name] : [] },
            read: { part, _ in part[keyPath: key] = value },
            reset: { $0[keyPath: key] = !value })
    }

    /// A text.
    ///
    /// - Parameter quoted: How it is written.
    static func text(
        _ name: String, _ key: any Key<String?>,
        _ quoted: @escaping @Sendable (String) -> String = ModelTextLexer.quoted
    ) -> Self {
        Self(
            name: name,
            write: { part in part[keyPath: key].map { ["\(name) \(quoted($0))"] } ?? [] },
            read: { part, parser in part[keyPath: key] = try parser.text() },
            reset: { $0[keyPath: key] = nil })
    }

    /// A number of objects or elements.
    static func count(
        _ name: String, _ key: any Key<Int>, default absent: @escaping @Sendable (Part) -> Int
    ) -> Self {
        Self(
            name: name,
            write: { $0[keyPath: key] == absent($0) ? [] : ["\(name) \($0[keyPath: key])"] },
            read: { part, parser in part[keyPath: key] = try parser.count() },
            reset: { $0[keyPath: key] = absent($0) })
    }

    /// Entries of user info: `info key = value`.
    static func userInfo(_ key: any Key<[String: PropertyListValue]>) -> Self {
        Self(
            name: "info",
            write: { part in
                part[keyPath: key].sorted { $0.key < $1.key }.map {
                    "info \(ModelTextLexer.name($0.key)) = \(ModelTextWriter.text(of: $0.value))"
                }
            },
            read: { part, parser in
                let name = try parser.text()
                try parser.require("=", "after the key of user info")
                part[keyPath: key][name] = try parser.propertyListValue()
            },
            reset: { $0[keyPath: key] = [:] })
    }
}

// MARK: - Entities

extension ModelTextOption<EntityDescription> {
    static let all: [Self] = [
        .flag("abstract", \.isAbstract),
        .text("class", \.managedObjectClassName, ModelTextLexer.word),
        .text("was", \.renamingIdentifier, ModelTextLexer.name),
        .text("hashModifier", \.versionHashModifier),
        .text("codegen", \.codeGenerationType, ModelTextLexer.name),
        .text("spotlight", \.coreSpotlightDisplayNameExpression),
        .flag("notSyncable", \.isSyncable, false),
        .userInfo(\.userInfo),
    ]
}

// MARK: - Properties

extension ModelTextOption<AttributeDescription> {
    static let all: [Self] = [
        .flag("required", \.isOptional, false),
        .flag("optional", \.isOptional, true, isWritten: false),
        // Written as “= value” after the type.
        Self(
            name: "default", write: { _ in [] },
            read: { $0.defaultValue = try $1.value(of: $0.type) },
            reset: { $0.defaultValue = .null }),
        .bound("min", \.minimum),
        .bound("max", \.maximum),
        .text("matches", \.regularExpression),
        Self(
            name: "check",
            write: { attribute in
                attribute.validationPredicates.map {
                    let message = $0.message.map { " message \(ModelTextLexer.quoted($0))" }
                    return "check \(ModelTextLexer.quoted($0.format))\(message ?? "")"
                }
            },
            read: { attribute, parser in
                var predicate = ValidationPredicate(try parser.text())
                if try parser.takeWord("message") { predicate.message = try parser.text() }
                attribute.validationPredicates.append(predicate)
            },
            reset: { $0.validationPredicates = [] }),
        .text("derived", \.derivationExpression, ModelTextLexer.word),
        .flag("transient", \.isTransient),
        .flag("external", \.allowsExternalBinaryDataStorage),
        .text("transformer", \.valueTransformerName, ModelTextLexer.word),
        .text("class", \.customClassName, ModelTextLexer.word),
        .flag("scalar", \.usesScalarValueType),
        .text("was", \.renamingIdentifier, ModelTextLexer.name),
        .text("hashModifier", \.versionHashModifier),
        .flag("preservedInHistory", \.preservesValueInHistoryOnDeletion),
        .flag("cloudEncryption", \.allowsCloudEncryption),
        .flag("spotlight", \.isIndexedBySpotlight),
        .flag("indexed", \.isIndexed),
        .flag("truthFile", \.isStoredInTruthFile),
        .flag("notSyncable", \.isSyncable, false),
        // Left over from an earlier type; that of a composite attribute is part of the type.
        Self(
            name: "composite",
            write: {
                guard $0.type != .composite, let name = $0.compositeName else { return [] }
                return ["composite \(ModelTextLexer.name(name))"]
            },
            read: { $0.compositeName = try $1.text() },
            reset: { $0.compositeName = nil }),
        .userInfo(\.userInfo),
    ]

    /// The least or greatest value; of a text, the length.
    private static func bound(_ name: String, _ key: any Key<AttributeValue>) -> Self {
        Self(
            name: name,
            write: { attribute in
                ModelTextWriter.text(of: attribute[keyPath: key], as: attribute.type.boundType)
                    .map { ["\(name) \($0)"] } ?? []
            },
            read: { $0[keyPath: key] = try $1.value(of: $0.type.boundType) },
            reset: { $0[keyPath: key] = .null })
    }
}

extension AttributeType {
    fileprivate var boundType: AttributeType { self == .string ? .integer64 : self }
}

extension ModelTextOption<RelationshipDescription> {
    static let all: [Self] = [
        Self(
            name: "inverse",
            write: { relationship in
                if ModelTextWriter.targetHasInverse(relationship)
                    || relationship.inverseName == nil && relationship.inverseEntityName == nil
                {
                    return []
                }
                var text = "inverse \(ModelTextLexer.name(relationship.inverseName ?? ""))"
                if relationship.inverseEntityName != relationship.destinationEntityName {
                    text += " of \(ModelTextLexer.name(relationship.inverseEntityName ?? ""))"
                }
                return [text]
            },
            read: { relationship, parser in
                func unlessEmpty(_ text: String) -> String? { text.isEmpty ? nil : text }
                relationship.inverseName = unlessEmpty(try parser.text())
                relationship.inverseEntityName = relationship.destinationEntityName
                if try parser.takeWord("of") {
                    relationship.inverseEntityName = unlessEmpty(try parser.text())
                }
            },
            reset: { ($0.inverseName, $0.inverseEntityName) = (nil, nil) }),
        .flag("required", \.isOptional, false),
        .flag("optional", \.isOptional, true, isWritten: false),
        .flag("ordered", \.isOrdered),
        .count("min", \.minimumCount) { _ in 0 },
        .count("max", \.maximumCount) { $0.isToMany ? 0 : 1 },
        Self(
            name: "delete",
            write: { $0.deleteRule == .nullify ? [] : ["delete \($0.deleteRule.textName)"] },
            read: { relationship, parser in
                relationship.deleteRule = try parser.choice(
                    DeleteRule.allCases.map { ($0.textName, $0) }, "a delete rule")
            },
            reset: { $0.deleteRule = .nullify }),
        .flag("transient", \.isTransient),
        .text("was", \.renamingIdentifier, ModelTextLexer.name),
        .text("hashModifier", \.versionHashModifier),
        .flag("spotlight", \.isIndexedBySpotlight),
        .flag("indexed", \.isIndexed),
        .flag("notSyncable", \.isSyncable, false),
        .userInfo(\.userInfo),
    ]
}

// MARK: - Fetch requests

extension ModelTextOption<FetchRequestTemplate> {
    static let all: [Self] = [
        .text("where", \.predicateFormat),
        Self(
            name: "sort",
            write: { request in
                request.sortKeys.map {
                    var text = "sort \(ModelTextLexer.word($0.expression))"
                    if !$0.isAscending { text += " descending" }
                    if !$0.options.isEmpty {
                        text += " comparing \(ModelTextLexer.word($0.options))"
                    }
                    return text
                }
            },
            read: { request, parser in
                var key = FetchRequestTemplate.SortKey(try parser.text(), isAscending: true)
                if try parser.takeWord("descending") { key.isAscending = false }
                if try parser.takeWord("comparing") { key.options = try parser.text() }
                request.sortKeys.append(key)
            },
            reset: { $0.sortKeys = [] }),
        .count("limit", \.fetchLimit) { _ in 0 },
        .count("offset", \.fetchOffset) { _ in 0 },
        .count("batch", \.fetchBatchSize) { _ in 0 },
        Self(
            name: "prefetch",
            write: {
                $0.relationshipKeyPathsForPrefetching.map {
                    "prefetch \(ModelTextLexer.word($0))"
                }
            },
            read: { $0.relationshipKeyPathsForPrefetching.append(try $1.text()) },
            reset: { $0.relationshipKeyPathsForPrefetching = [] }),
        .flag("withoutSubentities", \.includesSubentities, false),
        .flag("withoutPropertyValues", \.includesPropertyValues, false),
        .flag("withoutPendingChanges", \.includesPendingChanges, false),
        .flag("withoutFaults", \.returnsObjectsAsFaults, false),
        .flag("distinct", \.returnsDistinctResults),
        .text("resultType", \.resultType, ModelTextLexer.word),
    ]
}

extension ModelTextOption<FetchedPropertyDescription> {
    static let all: [Self] =
        ModelTextOption<FetchRequestTemplate>.all.map { option in
            Self(
                name: option.name, isFlag: option.isFlag,
                write: { option.write($0.fetchRequest) },
                read: { try option.read(&$0.fetchRequest, &$1) },
                reset: { option.reset(&$0.fetchRequest) })
        } + [
            .flag("required", \.isOptional, false),
            .flag("optional", \.isOptional, true, isWritten: false),
            Self(
                name: "request",
                write: {
                    let name = $0.fetchRequest.name
                    return name == defaultRequestName
                        ? [] : ["request \(ModelTextLexer.name(name))"]
                },
                read: { $0.fetchRequest.name = try $1.text() },
                reset: { $0.fetchRequest.name = defaultRequestName }),
            .flag("notSyncable", \.isSyncable, false),
            .userInfo(\.userInfo),
        ]

    /// The name that Xcode gives the request of a fetched property.
    static let defaultRequestName = "fetchedPropertyFetchRequest"
}

// MARK: - Names

extension AttributeType {
    /// The type's name in the text form of a model.
    package var textName: String {
        switch self {
        case .undefined: "undefined"
        case .integer16: "integer16"
        case .integer32: "integer32"
        case .integer64: "integer64"
        case .decimal: "decimal"
        case .double: "double"
        case .float: "float"
        case .string: "string"
        case .boolean: "boolean"
        case .date: "date"
        case .binary: "binary"
        case .uuid: "uuid"
        case .uri: "uri"
        case .transformable: "transformable"
        case .objectID: "objectID"
        case .composite: "composite"
        }
    }

    /// Names of types that people know from Swift and SQL, in lower case.
    static let textAliases: [String: AttributeType] = [
        "int16": .integer16, "int32": .integer32, "int64": .integer64, "int": .integer64,
        "integer": .integer64, "real": .double, "text": .string, "bool": .boolean,
        "datetime": .date, "timestamp": .date, "data": .binary, "blob": .binary, "url": .uri,
    ]
}

extension DeleteRule {
    /// The rule's name in the text form of a model.
    package var textName: String {
        switch self {
        case .noAction: "noAction"
        case .nullify: "nullify"
        case .cascade: "cascade"
        case .deny: "deny"
        }
    }
}
