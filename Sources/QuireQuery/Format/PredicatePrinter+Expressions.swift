internal import QuireModel

extension PredicatePrinter {
    /// How tightly what is written binds.
    private enum Binding {
        /// What is no operation.
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
            // What stands on the left of ** is no operation, and on its right may stand a sign.
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

    // MARK: - What stands before and within an index or a path

    /// An index. A key that would be read as a word is marked as one.
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

    /// In parentheses where keys behind a dot would become a part of it.
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

    /// The operator by which a function is written in a key path; `nil` if it is called, because what it is of is no key
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

    /// `@count` stands behind a key path, the other operators before its last key.
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
