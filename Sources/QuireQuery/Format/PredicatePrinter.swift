import Foundation
internal import QuireModel

/// Prints predicates in the predicate format language.
enum PredicatePrinter {
    // MARK: - Predicates

    static func text(of predicate: QueryPredicate) -> String {
        switch predicate {
        case .constant(let value): value ? "TRUEPREDICATE" : "FALSEPREDICATE"
        case .comparison(let comparison): text(of: comparison)
        case .and(let parts): text(of: parts, joinedBy: " AND ", ifEmpty: "TRUEPREDICATE")
        case .or(let parts): text(of: parts, joinedBy: " OR ", ifEmpty: "FALSEPREDICATE")
        case .not(let inner): "NOT " + bracketed(inner)
        }
    }

    private static func text(
        of parts: [QueryPredicate], joinedBy word: String, ifEmpty: String
    ) -> String {
        if parts.count == 1 { return text(of: parts[0]) }
        return parts.isEmpty ? ifEmpty : parts.map(bracketed).joined(separator: word)
    }

    /// A predicate nested in another.
    private static func bracketed(_ predicate: QueryPredicate) -> String {
        switch predicate {
        case .and(let parts) where parts.count > 1, .or(let parts) where parts.count > 1:
            return "(\(text(of: predicate)))"
        case .and(let parts) where parts.count == 1, .or(let parts) where parts.count == 1:
            return bracketed(parts[0])
        default: return text(of: predicate)
        }
    }

    private static func text(of comparison: QueryComparison) -> String {
        let modifier =
            switch comparison.modifier {
            case .direct: ""
            case .any: "ANY "
            case .all: "ALL "
            }
        return modifier + text(of: comparison.left) + " " + word(for: comparison.operator)
            + text(of: comparison.options) + " " + right(of: comparison)
    }

    /// The right operand. A key `text` after `MATCHES` would be parsed as a part of the operator.
    private static func right(of comparison: QueryComparison) -> String {
        let text = text(of: comparison.right)
        guard comparison.operator == .matches, text.lowercased().hasPrefix("text") else {
            return text
        }
        let next = text.unicodeScalars.dropFirst(4).first
        return next.map { $0 == "." || PredicateToken.isKeyPart($0) } == true ? text : "#" + text
    }

    /// The spelling of an operator.
    static func word(for comparisonOperator: QueryComparison.Operator) -> String {
        switch comparisonOperator {
        case .equal: "=="
        case .notEqual: "!="
        case .less: "<"
        case .lessOrEqual: "<="
        case .greater: ">"
        case .greaterOrEqual: ">="
        case .beginsWith: "BEGINSWITH"
        case .endsWith: "ENDSWITH"
        case .contains: "CONTAINS"
        case .like: "LIKE"
        case .matches: "MATCHES"
        case .in: "IN"
        case .between: "BETWEEN"
        case .matchesText: "MATCHES TEXT"
        }
    }

    private static func text(of options: QueryComparison.Options) -> String {
        if options.isEmpty { return "" }
        return "[" + (options.contains(.caseInsensitive) ? "c" : "")
            + (options.contains(.diacriticInsensitive) ? "d" : "")
            + (options.contains(.normalized) ? "n" : "")
            + (options.contains(.localized) ? "l" : "") + "]"
    }

    // MARK: - Constants

    static func text(of value: AttributeValue) -> String {
        switch value {
        case .null: "nil"
        case .integer(let integer): String(integer)
        case .double(let number) where number.isFinite: String(number)
        case .double(let number): cast(String(number), to: .number)
        case .boolean(let truth): truth ? "YES" : "NO"
        case .string(let text): quoted(text)
        case .decimal(let number): cast(number.description, to: .decimal)
        case .date(let date):
            "CAST(\(text(of: .double(date.timeIntervalSinceReferenceDate))), \"\(QueryCast.date.rawValue)\")"
        case .binary(let bytes): cast(bytes.base64EncodedString(), to: .binary)
        case .external(let data):
            // Prints a text that fails to parse, rather than bytes that differ from the value.
            cast(
                (try? data.data())?.base64EncodedString() ?? "unreadable: \(data)", to: .binary)
        case .uuid(let uuid): cast(uuid.uuidString, to: .uuid)
        case .uri(let uri): cast(uri.absoluteString, to: .uri)
        case .objectID(let id): cast(id.uriRepresentation, to: .objectID)
        case .composite(let elements):
            "{"
                + elements.sorted { $0.key < $1.key }.map { text(of: $0.value) }
                .joined(separator: ", ") + "}"
        }
    }

    private static func cast(_ text: String, to type: QueryCast) -> String {
        "CAST(\(quoted(text)), \"\(type.rawValue)\")"
    }

    static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\"": result += "\\\""
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case _ where scalar.value < 0x20: appendEscape(of: scalar, to: &result)
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }

    private static func appendEscape(of scalar: Unicode.Scalar, to text: inout String) {
        for unit in String(scalar).utf16 {
            let digits = String(unit, radix: 16, uppercase: true)
            text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        }
    }
}

extension QueryPredicate: CustomStringConvertible {
    /// The predicate in the predicate format language; parsing it with ``init(format:_:)`` yields an equal one.
    ///
    /// The result is equivalent but not equal for a compound of fewer than two parts, for the cast of a constant, which is
    /// parsed as a constant, and for the identifier of an object, which is parsed as a URI. A composite constant cannot be
    /// parsed.
    public var format: String { PredicatePrinter.text(of: self) }

    /// The predicate in the predicate format language.
    public var description: String { format }
}

extension QueryExpression: CustomStringConvertible {
    /// The expression in the predicate format language; parsing it with ``init(format:_:)`` yields an equal one, with the
    /// exceptions of ``QueryPredicate/format``.
    public var description: String { PredicatePrinter.text(of: self) }
}

// MARK: - Expressions

extension PredicatePrinter {
    /// Binding strengths of printed expressions.
    private enum Binding {
        /// The strength of operands.
        static let value = QueryFunction.powerBinding + 1
    }

    // MARK: - Expressions

    static func text(of expression: QueryExpression) -> String {
        switch expression {
        case .constant(let value): text(of: value)
        case .keyPath(let keys): keys.isEmpty ? "SELF" : path(keys)
        case .evaluatedObject: "SELF"
        case .variable(let name): "$" + name
        case .collection(let elements): "{" + list(elements) + "}"
        case .function(let function, let arguments): text(of: function, arguments)
        case .cast(let inner, let type): "CAST(\(text(of: inner)), \(quoted(type.rawValue)))"
        case .subquery(let collection, let variable, let condition):
            "SUBQUERY(\(text(of: collection)), $\(variable), \(text(of: condition)))"
        case .conditional(let condition, let first, let second):
            "TERNARY(\(text(of: condition)), \(text(of: first)), \(text(of: second)))"
        case .path(let inner, let keys):
            keys.isEmpty ? text(of: inner) : beforeDot(inner) + "." + path(keys)
        }
    }

    private static func list(_ expressions: [QueryExpression]) -> String {
        expressions.map { text(of: $0) }.joined(separator: ", ")
    }

    private static func path(_ keys: some Sequence<String>) -> String {
        keys.map(escaped).joined(separator: ".")
    }

    private static func escaped(_ key: String) -> String {
        PredicateToken.Keyword(rawValue: key.lowercased()) == nil ? key : "#" + key
    }

    // MARK: - Operations

    private static func text(
        of function: QueryFunction, _ arguments: [QueryExpression]
    ) -> String {
        guard arguments.count == function.argumentCount else { return call(function, arguments) }
        if let (word, binding) = function.infix {
            let isPower = function == .power
            // The left operand of ** is not an operation; the right one may have a sign.
            let left = isPower ? Binding.value : binding
            let right = isPower ? QueryFunction.prefixBinding : binding + 1
            return operand(arguments[0], bindingAtLeast: left) + " \(word) "
                + operand(arguments[1], bindingAtLeast: right)
        }
        switch function {
        case .onesComplement:
            return "~" + operand(arguments[0], bindingAtLeast: QueryFunction.prefixBinding)
        case .element: return beforeBracket(arguments[0]) + "[\(index(arguments[1]))]"
        case .first: return beforeBracket(arguments[0]) + "[FIRST]"
        case .last: return beforeBracket(arguments[0]) + "[LAST]"
        case .lastPathComponent:
            return "FUNCTION(\(text(of: arguments[0])), \(quoted(function.rawValue)))"
        default:
            guard let word = pathOperator(function, arguments) else {
                return call(function, arguments)
            }
            return keyPath(to: arguments[0], with: word)
        }
    }

    private static func call(_ function: QueryFunction, _ arguments: [QueryExpression]) -> String {
        "\(function.callName)(\(list(arguments)))"
    }

    private static func operand(
        _ expression: QueryExpression, bindingAtLeast bound: Int
    ) -> String {
        binding(of: expression) < bound ? "(\(text(of: expression)))" : text(of: expression)
    }

    private static func binding(of expression: QueryExpression) -> Int {
        guard case .function(let function, let arguments) = expression,
            arguments.count == function.argumentCount
        else { return Binding.value }
        if function == .onesComplement { return QueryFunction.prefixBinding }
        return function.infix?.binding ?? Binding.value
    }

    // MARK: - Paths and indexes

    /// An index. A key that would be parsed as a word is escaped.
    private static func index(_ expression: QueryExpression) -> String {
        let text = text(of: expression)
        return ["first", "last", "size"].contains(text.lowercased()) ? "#" + text : text
    }

    private static func beforeBracket(_ expression: QueryExpression) -> String {
        if case .constant(let value) = expression, value.isNumber {
            return "(\(text(of: expression)))"
        }
        return operand(expression, bindingAtLeast: Binding.value)
    }

    /// Parenthesized if keys after a dot would become a part of it.
    private static func beforeDot(_ expression: QueryExpression) -> String {
        let merges =
            switch expression {
            case .keyPath, .evaluatedObject, .variable, .path, .constant(.null),
                .constant(.boolean):
                true
            case .function(let function, let arguments):
                pathOperator(function, arguments) != nil
            default: false
            }
        return merges ? "(\(text(of: expression)))" : beforeBracket(expression)
    }

    // MARK: - Operators in key paths

    /// The operator form of a function in a key path; `nil` if it is printed as a call, because its argument is not a key
    /// path.
    private static func pathOperator(
        _ function: QueryFunction, _ arguments: [QueryExpression]
    ) -> KeyPathOperator? {
        guard arguments.count == 1, let pathOperator = KeyPathOperator(function) else { return nil }
        let isPath =
            switch arguments[0] {
            case .keyPath(let keys): keys.count > (pathOperator == .count ? 0 : 1)
            case .variable(let name): pathOperator == .count || name.contains(".")
            case .path(_, let keys): !keys.isEmpty
            case .evaluatedObject, .subquery, .function(.element, _), .function(.first, _),
                .function(.last, _):
                pathOperator == .count
            default: false
            }
        return isPath ? pathOperator : nil
    }

    /// `@count` follows a key path, the other operators precede its last key.
    private static func keyPath(
        to values: QueryExpression, with pathOperator: KeyPathOperator
    ) -> String {
        let word = "@" + pathOperator.rawValue
        if pathOperator == .count { return text(of: values) + "." + word }
        let whole =
            switch values {
            case .keyPath(let keys): keys.map(escaped)
            case .variable(let name): ("$" + name).split(separator: ".").map(String.init)
            case .path(let inner, let keys): [beforeDot(inner)] + keys.map(escaped)
            default: [text(of: values)]
            }
        return (whole.dropLast() + [word] + whole.suffix(1)).joined(separator: ".")
    }
}

extension AttributeValue {
    /// Whether it is printed as a number.
    fileprivate var isNumber: Bool {
        switch self {
        case .integer: true
        case .double(let number): number.isFinite
        default: false
        }
    }
}
