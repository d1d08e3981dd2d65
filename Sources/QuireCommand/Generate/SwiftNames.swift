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
