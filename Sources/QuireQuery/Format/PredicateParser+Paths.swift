import Foundation
internal import QuireModel
internal import QuireSystem

extension PredicateParser {
    // MARK: - Key paths

    /// What stands at keys behind an expression, or of the object tested. Operators among the keys compute of what the keys
    /// on both sides of them lead to, up to the next operator.
    ///
    /// - Parameter extending: Whether keys behind a key path make a longer one.
    mutating func path(
        _ keys: [String], behind base: QueryExpression?, extending: Bool = false
    ) throws -> QueryExpression {
        var expression = base
        var extending = extending
        var rest = keys[...]
        repeat {
            let before = rest.prefix { KeyPathOperator(key: $0) == nil }
            rest = rest.dropFirst(before.count)
            guard let first = rest.first, let pathOperator = KeyPathOperator(key: first) else {
                return try lengthened(expression, by: Array(before), extending)
            }
            let after = rest.dropFirst().prefix { KeyPathOperator(key: $0) == nil }
            rest = rest.dropFirst(after.count + 1)
            if pathOperator == .count, let key = after.first {
                throw failure(
                    "expected nothing behind @count in the key path at column \(current.column), "
                        + "but found “\(key)”", column: current.column)
            }
            if !pathOperator.givesMany, let next = rest.first {
                throw failure(
                    "expected only keys behind \(first) in the key path at column "
                        + "\(current.column), but found “\(next)”", column: current.column)
            }
            let values = try lengthened(expression, by: Array(before + after), extending)
            if let function = pathOperator.function {
                try raise()
                expression = .function(function, [values])
                extending = false
            } else {
                expression = values
            }
        } while !rest.isEmpty
        return expression ?? .evaluatedObject
    }

    private mutating func lengthened(
        _ expression: QueryExpression?, by keys: [String], _ extending: Bool
    ) throws -> QueryExpression {
        guard let expression else { return keys.isEmpty ? .evaluatedObject : .keyPath(keys) }
        guard !keys.isEmpty else { return expression }
        switch expression {
        case .keyPath(let first) where extending: return .keyPath(first + keys)
        case .evaluatedObject where extending: return .keyPath(keys)
        case .variable(let name) where extending:
            return .variable(([name] + keys).joined(separator: "."))
        default:
            try raise()
            return .path(expression, keys)
        }
    }

    /// The keys of a text, if it is a key path.
    private func keys(_ text: String) -> [String]? {
        let keys = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        let isKeyPath = keys.allSatisfy { key in
            PredicateToken.isKey(key) || KeyPathOperator(key: key) != nil
        }
        return isKeyPath ? keys : nil
    }

    /// What stands at a key path that is a text behind an expression; `nil` if the text is no key path.
    mutating func path(_ text: String, behind base: QueryExpression) throws -> QueryExpression? {
        try keys(text).map { try path($0, behind: base, extending: true) }
    }

    // MARK: - Placeholders

    /// The argument for a placeholder.
    mutating func argument(
        _ index: Int, for placeholder: PredicateToken.Placeholder, _ token: PredicateToken
    ) throws -> QueryExpression {
        let argument = arguments[index]
        func mismatch(_ needed: String) -> QuireError {
            failure(
                "\(token.text) at column \(token.column) needs \(needed), but argument \(index + 1) "
                    + "is \(PredicatePrinter.text(of: argument))", column: token.column)
        }
        switch placeholder {
        case .value:
            return argument
        case .keyPath:
            return try keyPath(argument) ?? { throw mismatch("a key path") }()
        case .integer:
            switch argument {
            case .constant(.integer), .constant(.boolean): return argument
            case .constant(.decimal): return argument
            default: throw mismatch("an integer")
            }
        case .double:
            switch argument {
            case .constant(.double), .constant(.decimal): return argument
            case .constant(.integer(let integer)): return .constant(.double(Double(integer)))
            default: throw mismatch("a number")
            }
        }
    }

    private mutating func keyPath(_ argument: QueryExpression) throws -> QueryExpression? {
        switch argument {
        case .keyPath, .evaluatedObject: return argument
        case .constant(.string(let text)):
            guard var keys = keys(text) else { return nil }
            if keys.first?.lowercased() == "self" { keys.removeFirst() }
            return try path(keys, behind: nil)
        default: return nil
        }
    }
}
