import Foundation
import Quire

/// Turns names of a model into names of Swift declarations.
enum SwiftNames {
    /// A name as it stands in code: in backticks where it is a keyword.
    static func code(_ name: String) -> String { keywords.contains(name) ? "`\(name)`" : name }

    /// A name of the same look that Swift accepts: other characters become underscores.
    static func identifier(_ name: String) -> String {
        var scalars = String.UnicodeScalarView()
        for scalar in name.unicodeScalars {
            let fits = scalar == "_" || scalar.properties.isXIDContinue
            if scalars.isEmpty, fits, scalar != "_", !scalar.properties.isXIDStart {
                scalars.append("_")
            }
            scalars.append(fits ? scalar : "_")
        }
        let text = String(scalars)
        return text.allSatisfy { $0 == "_" } ? text + "unnamed" : text
    }

    /// A name that is not among others: itself, or with the smallest number from 2 that makes it so.
    static func unique(_ name: String, isTaken: (String) -> Bool) -> String {
        if !isTaken(name) { return name }
        var number = 2
        while isTaken(name + String(number)) { number += 1 }
        return name + String(number)
    }

    /// A text with its first letter in upper case.
    static func upperFirst(_ text: String) -> String {
        text.prefix(1).uppercased() + text.dropFirst()
    }

    /// A text with its first letter in lower case.
    static func lowerFirst(_ text: String) -> String {
        text.prefix(1).lowercased() + text.dropFirst()
    }

    // MARK: - Reserved names

    /// Words that are no names without backticks.
    static let keywords: Set<String> = [
        "Any", "Protocol", "Self", "Type", "as", "associatedtype", "await", "break", "case",
        "catch", "class", "continue", "default", "defer", "deinit", "do", "else", "enum",
        "extension", "fallthrough", "false", "fileprivate", "for", "func", "guard", "if", "import",
        "in", "init", "inout", "internal", "is", "let", "nil", "operator", "precedencegroup",
        "private", "protocol", "public", "repeat", "rethrows", "return", "self", "static",
        "struct", "subscript", "super", "switch", "throw", "throws", "true", "try", "typealias",
        "var", "where", "while",
    ]

    /// Properties that every managed object has; a subclass cannot have others of these names. Its methods are
    /// no obstacle.
    static let propertiesOfManagedObject: Set<String> = [
        "debugDescription", "description", "entity", "faultingState", "hasChanges",
        "hasPersistentChangedValues", "hashValue",
        "isDeleted", "isFault", "isInaccessible", "isInserted", "isUpdated",
        "managedObjectContext", "objectID", "queryExpression", "queryLayout",
    ]

    /// Names that the macros of QuireMacros give to what they add beside a property.
    static let membersOfMacros: Set<String> = ["propertyCount"]

    /// Words that mean something else after a dot, even in backticks.
    static let wordsAfterADot: Set<String> = ["Protocol", "Self", "Type", "init", "self"]

    /// Types that generated code names. A class or property of such a name would hide them.
    static let typesInGeneratedCode: Set<String> = [
        "Any", "Array", "Attribute", "AttributeValue", "Bool", "Composite",
        "CompositeRepresentable", "Data", "Date", "Decimal", "DeleteRule", "Double", "Entity",
        "EntityClass", "EntityDeclaration", "FetchedProperty", "Float",
        "Foundation", "Int", "Int16", "Int32", "Int64", "ManagedObject", "ManagedObjectID",
        "ManagedObjectModel", "Optional", "PropertyOrdinals", "Protocol", "Quire", "QuireMacros",
        "Relationship", "Self", "Set", "SortOrdering", "String", "Swift", "Type", "URL", "UUID",
    ]
}

/// Values as Swift code.
enum SwiftLiteral {
    /// A text in quotation marks.
    static func text(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\"": result += "\\\""
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case "\0": result += "\\0"
            case _ where isInvisible(scalar):
                result += "\\u{" + String(scalar.value, radix: 16, uppercase: true) + "}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }

    /// Whether a character would not be seen in code, or would change how the code looks: controls, separators
    /// of lines, marks that turn the direction of writing.
    static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate,
            .unassigned:
            true
        default: false
        }
    }

    /// A text for a comment: on one line.
    static func comment(_ text: String) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { result.append(isInvisible(scalar) ? " " : scalar) }
        return String(result)
    }
}

// MARK: - Attributes

/// The code for an attribute.
struct AttributeCode {
    /// The Swift type of its values.
    let type: String
    /// The code of the value that stands for none, as in QuireMacros; `nil` if there is no such value.
    let missing: String?
    /// Whether a value that is missing is a value of the type as well.
    var includesMissing: Bool { type == "AttributeValue" || type == "[String: AttributeValue]" }
    /// Whether the type is Foundation's.
    let needsFoundation: Bool

    private init(_ type: String, missing: String?, foundation: Bool = false) {
        self.type = type
        self.missing = missing
        needsFoundation = foundation
    }

    init(_ type: AttributeType) {
        switch type {
        case .integer16: self.init("Int16", missing: "0")
        case .integer32: self.init("Int32", missing: "0")
        case .integer64: self.init("Int64", missing: "0")
        case .decimal: self.init("Decimal", missing: "0", foundation: true)
        case .double: self.init("Double", missing: "0")
        case .float: self.init("Float", missing: "0")
        case .string: self.init("String", missing: "\"\"")
        case .boolean: self.init("Bool", missing: "false")
        case .date:
            self.init(
                "Date", missing: "Date(timeIntervalSinceReferenceDate: 0)",
                foundation: true)
        case .binary, .transformable:
            self.init("Data", missing: "Data()", foundation: true)
        case .uuid:
            self.init(
                "UUID",
                missing: "UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))",
                foundation: true)
        case .uri:
            self.init("URL", missing: "URL(string: \"about:blank\")!", foundation: true)
        case .objectID: self.init("ManagedObjectID", missing: nil)
        case .composite: self.init("[String: AttributeValue]", missing: "[:]")
        case .undefined: self.init("AttributeValue", missing: nil)
        }
    }

    // MARK: - Values

    /// A value as Swift code of the type; `nil` if it is missing, or cannot be written as code.
    static func literal(_ value: AttributeValue, _ type: AttributeType) -> String? {
        guard fits(value, type) else { return nil }
        return switch value {
        case .integer(let integer): String(integer)
        case .double(let number): type == .float ? literal(Float(number)) : literal(number)
        case .boolean(let truth): truth ? "true" : "false"
        case .string(let text): SwiftLiteral.text(text)
        case .decimal(let decimal): literal(decimal)
        case .date(let date):
            "Date(timeIntervalSinceReferenceDate: \(literal(date.timeIntervalSinceReferenceDate)))"
        case .uuid(let uuid): literal(uuid)
        // These parse, because they are texts of what has been parsed.
        case .uri(let uri): "URL(string: \(SwiftLiteral.text(uri.absoluteString)))!"
        case .binary(let data):
            "Data(base64Encoded: \(SwiftLiteral.text(data.base64EncodedString())))!"
        case .null, .objectID, .composite, .external: nil
        }
    }

    /// Whether a value is of a type. A model that was not checked may contradict that.
    private static func fits(_ value: AttributeValue, _ type: AttributeType) -> Bool {
        switch (value, type) {
        case (.integer(let integer), .integer16): Int16(exactly: integer) != nil
        case (.integer(let integer), .integer32): Int32(exactly: integer) != nil
        case (.integer, .integer64), (.double, .double), (.double, .float), (.decimal, .decimal),
            (.boolean, .boolean), (.string, .string), (.date, .date), (.uuid, .uuid), (.uri, .uri),
            (.binary, .binary), (.binary, .transformable):
            true
        default: false
        }
    }

    private static func literal<Number: BinaryFloatingPoint & CustomStringConvertible>(
        _ number: Number
    ) -> String {
        if number.isNaN { return "\(Number.self).nan" }
        if number.isInfinite {
            return number < 0 ? "-\(Number.self).infinity" : "\(Number.self).infinity"
        }
        let text = number.description
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }

    private static func literal(_ decimal: Decimal) -> String {
        if let integer = Int64(decimal.description) { return String(integer) }
        let sign = decimal.isSignMinus ? ".minus" : ".plus"
        let significand = decimal.significand.description
        guard Int64(significand) != nil else {
            return "Decimal(string: \(SwiftLiteral.text(decimal.description)))!"
        }
        return "Decimal(sign: \(sign), exponent: \(decimal.exponent), significand: \(significand))"
    }

    private static func literal(_ uuid: UUID) -> String {
        let bytes = withUnsafeBytes(of: uuid.uuid) { bytes in
            bytes.map { "0x" + ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true) }
        }
        return "UUID(uuid: (\(bytes.joined(separator: ", "))))"
    }

    // MARK: - Access by key

    /// The code that reads an attribute by its key, to follow `get`.
    ///
    /// - Parameter missing: The code of what the property gives if there is no value; `nil` if it is optional.
    func get(_ key: String, missing: String?) -> String {
        let value = "self[\(key), as: AttributeValue.self]"
        switch type {
        case "ManagedObjectID": return "if case .objectID(let id) = \(value) { id } else { nil }"
        case "[String: AttributeValue]":
            return "if case .composite(let elements) = \(value) { elements } else { [:] }"
        case "AttributeValue": return value
        default:
            let code = "self[\(key), as: \(type).self]"
            return missing.map { "\(code) ?? \($0)" } ?? code
        }
    }
}
