internal import QuireModel

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
        var greatestHeight = 0
        repeat {
            elements.append(try nested { try $0.expression() })
            greatestHeight = max(greatestHeight, height)
        } while take(.comma)
        try expect(.closeBrace, ", or }")
        height = greatestHeight
        try raise()
        return .collection(elements)
    }
}
