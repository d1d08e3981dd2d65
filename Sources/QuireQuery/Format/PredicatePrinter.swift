import Foundation
internal import QuireModel

/// Writes predicates in the predicate format language.
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

    /// A predicate as part of another.
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

    /// The right side. A key `text` behind `MATCHES` would be read as a part of the operator.
    private static func right(of comparison: QueryComparison) -> String {
        let text = text(of: comparison.right)
        guard comparison.operator == .matches, text.lowercased().hasPrefix("text") else {
            return text
        }
        let next = text.unicodeScalars.dropFirst(4).first
        return next.map { $0 == "." || PredicateToken.isKeyPart($0) } == true ? text : "#" + text
    }

    /// How an operator is written.
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
            // A text that is refused when it is read, instead of bytes that are not the value.
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
    /// The predicate in the predicate format language; reading it with ``init(format:_:)`` gives an equal one.
    ///
    /// Not equal but of the same meaning is what is read back for a compound of fewer than two parts, for the
    /// cast of a constant, which is read as a constant, and for the identifier of an object, which is read as a URI.
    /// A composite constant cannot be read back.
    public var format: String { PredicatePrinter.text(of: self) }

    /// The predicate in the predicate format language.
    public var description: String { format }
}

extension QueryExpression: CustomStringConvertible {
    /// The expression in the predicate format language; reading it with ``init(format:_:)`` gives an equal one, with
    /// the exceptions of ``QueryPredicate/format``.
    public var description: String { PredicatePrinter.text(of: self) }
}
