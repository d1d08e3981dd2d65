internal import QuireModel
internal import QuireSystem

extension PredicateParser {
    // MARK: - Operators

    /// ```
    /// expression = unary { infix operator unary }, which group by how tightly they bind
    /// unary      = "-" unary | "~" unary | power
    /// power      = operand [ "**" unary ]
    /// operand    = value { "." key | "[" index "]" }
    /// ```
    mutating func expression(bindingOver bound: Int = 0) throws -> QueryExpression {
        var left = try unary()
        while let function = infix(), let binding = function.infix?.binding, binding > bound,
            function != .power
        {
            advance()
            let leftHeight = height
            let right = try expression(bindingOver: binding)
            try raise(above: leftHeight)
            left = .function(function, [left, right])
        }
        return left
    }

    private mutating func unary() throws -> QueryExpression {
        if current.kind == .infix(.subtract), !peek().isNumber {
            advance()
            let operand = try nested { try $0.unary() }
            try raise()
            return .function(.subtract, [.constant(.integer(0)), operand])
        }
        if take(.onesComplement) {
            let operand = try nested { try $0.unary() }
            try raise()
            return .function(.onesComplement, [operand])
        }
        return try power()
    }

    private mutating func power() throws -> QueryExpression {
        let base = try operand()
        guard take(.infix(.power)) else { return base }
        let baseHeight = height
        let exponent = try nested { try $0.unary() }
        try raise(above: baseHeight)
        return .function(.power, [base, exponent])
    }

    private mutating func operand() throws -> QueryExpression {
        var isPlaceholder = if case .placeholder = current.kind { true } else { false }
        var expression = try value()
        while true {
            switch current.kind {
            case .path(let keys):
                expression = try path(keys, behind: expression, extending: isPlaceholder)
                advance()
            case .openBracket: expression = try element(of: expression)
            default: return expression
            }
            isPlaceholder = false
        }
    }

    private mutating func element(of collection: QueryExpression) throws -> QueryExpression {
        advance()
        if peek().kind == .closeBracket, let function = wordIndex {
            advance()
            advance()
            try raise()
            return .function(function, [collection])
        }
        let collectionHeight = height
        let index = try nested { try $0.expression() }
        try expect(.closeBracket, "an operator or ]")
        try raise(above: collectionHeight)
        return .function(.element, [collection, index])
    }

    private var wordIndex: QueryFunction? {
        if current.isWord("first") { return .first }
        if current.isWord("last") { return .last }
        return current.isWord("size") ? .count : nil
    }

    // MARK: - Values

    /// ```
    /// value = key path | SELF | $VARIABLE | text | number | YES | NO | NULL | placeholder
    ///       | "{" [ expression { "," expression } ] "}" | "(" expression ")" | call
    /// ```
    private mutating func value() throws -> QueryExpression {
        let token = current
        height = 1
        switch token.kind {
        case .keyPath(let keys):
            if peek().kind == .openParenthesis { return try call(token.text) }
            let expression = try path(keys, behind: nil)
            advance()
            return expression
        case .variable(let name, let keys):
            let expression = try path(keys, behind: .variable(name), extending: true)
            advance()
            return expression
        case .selector(let name): return try call(name)
        case .string(let text): return taking(.constant(.string(text)))
        case .infix(.add) where peek().isNumber, .infix(.subtract) where peek().isNumber:
            advance()
            return taking(.constant(try number(isNegative: token.kind == .infix(.subtract))))
        case .integer, .double: return taking(.constant(try number(isNegative: false)))
        case .placeholder(let placeholder, let argument):
            return taking(try self.argument(argument, for: placeholder, token))
        case .keyword(.self): return taking(.evaluatedObject)
        case .keyword(.yes), .keyword(.true): return taking(.constant(.boolean(true)))
        case .keyword(.no), .keyword(.false): return taking(.constant(.boolean(false)))
        case .keyword(.null), .keyword(.nil): return taking(.constant(.null))
        case .keyword(.cast): return try cast()
        case .keyword(.function): return try functionCall()
        case .keyword(.subquery): return try subquery()
        case .openBrace: return try collection()
        case .openParenthesis:
            advance()
            let inner = try nested { try $0.expression() }
            if current.kind == .comma {
                throw failure("expected )", hint: "write lists in braces: {1, 2}")
            }
            try expect(.closeParenthesis, ")")
            return inner
        default:
            throw failure("expected a key path or a value")
        }
    }

    private mutating func taking(_ expression: QueryExpression) -> QueryExpression {
        advance()
        return expression
    }

    private func number(isNegative: Bool) throws -> AttributeValue {
        switch current.kind {
        case .double(let number): return .double(isNegative ? -number : number)
        case .integer(let magnitude):
            if isNegative, magnitude == Int64.min.magnitude { return .integer(.min) }
            if let integer = Int64(exactly: magnitude) {
                return .integer(isNegative ? -integer : integer)
            }
        default: break
        }
        throw failure("expected an integer of at most 64 bits")
    }

    private mutating func collection() throws -> QueryExpression {
        advance()
        var elements: [QueryExpression] = []
        if take(.closeBrace) { return .collection(elements) }
        var maximumHeight = 0
        repeat {
            elements.append(try nested { try $0.expression() })
            maximumHeight = max(maximumHeight, height)
        } while take(.comma)
        try expect(.closeBrace, ", or }")
        height = maximumHeight
        try raise()
        return .collection(elements)
    }
}

// MARK: - Functions

extension PredicateParser {
    /// An expression in a call's parentheses, and its position.
    private struct Argument {
        let expression: QueryExpression
        let token: PredicateToken
    }

    // MARK: - Calls by name

    /// A function call, or `TERNARY(predicate, value, value)`; the parser is at its name.
    mutating func call(_ name: String) throws -> QueryExpression {
        let token = current
        advance()
        if name.lowercased() == "ternary" { return try conditional() }
        return try function(name, token, try callArguments(behind: name))
    }

    private mutating func callArguments(behind name: String) throws -> [Argument] {
        try expect(.openParenthesis, "( after \(name)")
        height = 0
        if take(.closeParenthesis) { return [] }
        var arguments: [Argument] = []
        var maximumHeight = 0
        repeat {
            arguments.append(try argument())
            maximumHeight = max(maximumHeight, height)
        } while take(.comma)
        try expect(.closeParenthesis, "an operator, a comma or )")
        height = maximumHeight
        return arguments
    }

    private mutating func argument() throws -> Argument {
        let token = current
        return Argument(expression: try nested { try $0.expression() }, token: token)
    }

    private mutating func function(
        _ name: String, _ token: PredicateToken, _ arguments: [Argument]
    ) throws -> QueryExpression {
        try raise()
        if name.lowercased() == "castobject:totype:" {
            try check(arguments, count: 2, of: name, token)
            return try cast(arguments[0], to: arguments[1])
        }
        guard var function = QueryFunction.named(name) else {
            throw unknown("a function", name, token, among: QueryFunction.names)
        }
        if function == .random, arguments.count == 1 { function = .randomBelow }
        try check(arguments, count: function.argumentCount, of: name, token)
        return .function(function, arguments.map(\.expression))
    }

    private func check(
        _ arguments: [Argument], count: Int, of name: String, _ token: PredicateToken
    ) throws {
        guard arguments.count != count else { return }
        throw failure(
            "expected \(count == 1 ? "1 argument" : "\(count) arguments") of \(name) at column "
                + "\(token.column), but found \(arguments.count)", column: token.column)
    }

    private func unknown(
        _ what: String, _ name: String, _ token: PredicateToken, among names: [String]
    ) -> QuireError {
        let meant = Self.functionsOfSQL[name.lowercased()].map { "did you mean “\($0)”?" }
        let advice = meant ?? CloseNames.advice(for: name, among: names, "the choices are")
        return failure(
            "expected \(what) at column \(token.column), but found “\(name)”; \(advice)",
            column: token.column)
    }

    /// Functions by the names that they have in SQL.
    private static let functionsOfSQL = [
        "avg": "average", "ceil": "ceiling", "len": "length", "char_length": "length",
        "lcase": "lowercase", "ucase": "uppercase", "power": "raise:toPower:",
        "pow": "raise:toPower:",
        "mod": "modulus:by:", "total": "sum", "truncate": "trunc",
    ]

    // MARK: - FUNCTION

    /// `FUNCTION("name", arguments…)` or `FUNCTION(value, "selector", arguments…)`.
    mutating func functionCall() throws -> QueryExpression {
        let token = current
        advance()
        let arguments = try callArguments(behind: "FUNCTION")
        let second = arguments.dropFirst().first
        if case .constant(.string(let name))? = second?.expression,
            let selector = FunctionSelector.named[name]
        {
            return try send(selector, name, arguments)
        }
        guard let first = arguments.first else {
            throw failure(
                "expected the name of a function at column \(token.column + token.text.count + 1), "
                    + "but found none", column: token.column + token.text.count + 1)
        }
        if case .constant(.string(let name)) = first.expression {
            let isFunction =
                QueryFunction.named(name) != nil || name.lowercased() == "castobject:totype:"
            if isFunction || second == nil {
                return try function(name, first.token, Array(arguments.dropFirst()))
            }
        }
        guard let second, case .constant(.string(let name)) = second.expression else {
            let place = second?.token ?? first.token
            throw failure(
                "expected the name of a function or method in quotation marks at column "
                    + "\(place.column), but found “\(place.text)”", column: place.column)
        }
        throw unknown(
            "a method", name, second.token, among: Array(FunctionSelector.named.keys))
    }

    private mutating func send(
        _ selector: FunctionSelector, _ name: String, _ arguments: [Argument]
    ) throws -> QueryExpression {
        let receiver = arguments[0].expression
        let rest = Array(arguments.dropFirst(2))
        try check(rest, count: selector.argumentCount, of: name, arguments[1].token)
        try raise()
        switch selector {
        case .function(let function):
            return .function(function, [receiver] + rest.map(\.expression))
        case .cast(let type): return try cast(receiver, to: type, arguments[0].token)
        case .keyPath:
            if case .constant(.string(let text)) = rest[0].expression,
                let path = try path(text, behind: receiver)
            {
                return path
            }
            let place = rest[0].token
            throw failure(
                "expected a key path in quotation marks at column \(place.column), but found "
                    + "“\(place.text)”", column: place.column)
        }
    }

    // MARK: - Casts

    /// `CAST(value, "type")`.
    mutating func cast() throws -> QueryExpression {
        advance()
        try expect(.openParenthesis, "( after CAST")
        let value = try argument()
        let valueHeight = height
        try expect(.comma, "a comma and the name of a type")
        let type = try argument()
        try expect(.closeParenthesis, ")")
        try raise(above: valueHeight)
        return try cast(value, to: type)
    }

    private mutating func cast(_ value: Argument, to type: Argument) throws -> QueryExpression {
        guard case .constant(.string(let name)) = type.expression else {
            throw failure(
                "expected the name of a type in quotation marks at column \(type.token.column), "
                    + "but found “\(type.token.text)”", column: type.token.column)
        }
        guard let caster = QueryCast(rawValue: name) else {
            let names = QueryCast.allCases.map(\.rawValue).joined(separator: ", ")
            throw failure(
                "expected one of the types \(names) at column \(type.token.column), but found “\(name)”",
                column: type.token.column)
        }
        return try cast(value.expression, to: caster, value.token)
    }

    /// Evaluates a cast of a literal to a type without literals.
    private mutating func cast(
        _ expression: QueryExpression, to type: QueryCast, _ token: PredicateToken
    ) throws -> QueryExpression {
        guard case .constant(let literal) = expression else { return .cast(expression, type) }
        if literal == .null { return expression }
        guard let value = type.value(of: literal) else {
            throw failure(
                "expected \(type.expectation) at column \(token.column), but found “\(token.text)”",
                column: token.column)
        }
        return .constant(value)
    }

    // MARK: - Predicates within

    /// `(predicate, value, value)` after `TERNARY`.
    private mutating func conditional() throws -> QueryExpression {
        try expect(.openParenthesis, "( after TERNARY")
        let condition = try predicate()
        var maximumHeight = height
        var values: [QueryExpression] = []
        for _ in 0..<2 {
            try expect(.comma, values.isEmpty ? "AND, OR or a comma" : "an operator or a comma")
            values.append(try nested { try $0.expression() })
            maximumHeight = max(maximumHeight, height)
        }
        try expect(.closeParenthesis, "an operator or )")
        height = maximumHeight
        try raise()
        return .conditional(condition, values[0], values[1])
    }

    /// `SUBQUERY(collection, $variable, predicate)`.
    mutating func subquery() throws -> QueryExpression {
        advance()
        try expect(.openParenthesis, "( after SUBQUERY")
        let collection = try nested { try $0.expression() }
        let collectionHeight = height
        try expect(.comma, "an operator or a comma")
        guard case .variable(let name, let keys) = current.kind, keys.isEmpty else {
            throw failure("expected a variable such as $x")
        }
        advance()
        try expect(.comma, "a comma")
        let condition = try predicate()
        try expect(.closeParenthesis, "AND, OR or )")
        try raise(above: collectionHeight)
        return .subquery(collection, variable: name, condition)
    }
}
