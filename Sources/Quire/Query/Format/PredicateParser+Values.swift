import Foundation

extension PredicateParser {
    /// ```
    /// value = key path | SELF | $VARIABLE | text | number | YES | NO | NULL | placeholder
    ///       | "{" [ value { "," value } ] "}" | "(" value ")" | CAST "(" literal "," text ")"
    /// ```
    mutating func value() throws -> QueryExpression {
        let token = current
        switch token.kind {
        case .keyPath(let keys): return taking(.keyPath(keys))
        case .variable(let name): return taking(.variable(name))
        case .string(let text): return taking(.constant(.string(text)))
        case .integer(let integer): return taking(.constant(.integer(integer)))
        case .double(let number): return taking(.constant(.double(number)))
        case .placeholder(let placeholder, let argument):
            return taking(try self.argument(argument, for: placeholder, token))
        case .keyword(.self): return taking(.evaluatedObject)
        case .keyword(.yes), .keyword(.true): return taking(.constant(.boolean(true)))
        case .keyword(.no), .keyword(.false): return taking(.constant(.boolean(false)))
        case .keyword(.null), .keyword(.nil): return taking(.constant(.null))
        case .keyword(.cast): return try cast()
        case .openBrace: return try collection()
        case .openParenthesis:
            advance()
            let inner = try nested { try $0.value() }
            try expect(.closeParenthesis, ")")
            return inner
        case .keyword(.function), .keyword(.subquery):
            throw QuireError(
                .unsupported,
                "The predicate “\(format)” uses \(token.text.uppercased()) at column "
                    + "\(token.column), which is not supported.",
                subject: .init(position: token.column))
        default:
            throw failure("expected a key path or a value")
        }
    }

    private mutating func taking(_ expression: QueryExpression) -> QueryExpression {
        advance()
        return expression
    }

    private mutating func collection() throws -> QueryExpression {
        try expect(.openBrace, "{")
        var elements: [QueryExpression] = []
        if !take(.closeBrace) {
            repeat { elements.append(try nested { try $0.value() }) } while take(.comma)
            try expect(.closeBrace, ", or }")
        }
        return .collection(elements)
    }

    // MARK: - Placeholders

    private func argument(
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

    private func keyPath(_ argument: QueryExpression) -> QueryExpression? {
        switch argument {
        case .keyPath, .evaluatedObject: return argument
        case .constant(.string(let text)):
            var keys = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
            if keys.first?.lowercased() == "self" { keys.removeFirst() }
            if keys.isEmpty { return .evaluatedObject }
            return keys.allSatisfy(PredicateToken.isKey) ? .keyPath(keys) : nil
        default: return nil
        }
    }

    // MARK: - Casts

    /// A constant of a type that has no literal, as `CAST("…", "NSDate")`.
    private mutating func cast() throws -> QueryExpression {
        advance()
        try expect(.openParenthesis, "( behind CAST")
        let token = current
        let literal = try value()
        try expect(.comma, "a comma and the name of a type")
        let type = current
        guard case .string(let typeName) = type.kind else {
            throw failure("expected the name of a type in quotation marks")
        }
        advance()
        try expect(.closeParenthesis, ")")
        guard case .constant(let constant) = literal else {
            throw failure(
                "expected a text or a number at column \(token.column), but found “\(token.text)”",
                column: token.column)
        }
        guard let caster = QueryCast(rawValue: typeName) else {
            let names = QueryCast.allCases.map(\.rawValue).joined(separator: ", ")
            throw failure(
                "expected one of the types \(names) at column \(type.column), but found “\(typeName)”",
                column: type.column)
        }
        guard let value = caster.value(of: constant) else {
            throw failure(
                "expected \(caster.expectation) at column \(token.column), but found “\(token.text)”",
                column: token.column)
        }
        return .constant(value)
    }
}
