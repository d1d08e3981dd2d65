/// Reads a predicate's words by recursive descent; ``QueryPredicate/init(format:_:)`` documents the language.
///
/// ```
/// predicate  = conjunction { OR conjunction }
/// conjunction = negation { AND negation }
/// negation   = NOT negation | primary
/// primary    = "(" predicate ")" | TRUEPREDICATE | FALSEPREDICATE | comparison
/// comparison = [ ANY | SOME | ALL | NONE ] value operator [ "[" options "]" ] value
/// ```
struct PredicateParser {
    let format: String
    let arguments: [QueryExpression]
    private let tokens: [PredicateToken]
    /// For every opening parenthesis the position of the word behind its closing one.
    private let ends: [Int: Int]
    private var position = 0
    private var depth = 0

    /// A bound on nesting that keeps the recursion of every walker well within a thread's stack.
    static let greatestDepth = 200

    init(_ format: String, arguments: [QueryExpression]) throws {
        self.format = format
        self.arguments = arguments
        tokens = try PredicateLexer.tokens(of: format)
        var open: [Int] = []
        var ends: [Int: Int] = [:]
        for (index, token) in tokens.enumerated() {
            if token.kind == .openParenthesis { open.append(index) }
            if token.kind == .closeParenthesis, let start = open.popLast() {
                ends[start] = index + 1
            }
        }
        self.ends = ends
        try checkArgumentCount()
    }

    private func checkArgumentCount() throws {
        let placeholders = tokens.filter { token in
            if case .placeholder = token.kind { true } else { false }
        }
        guard placeholders.count != arguments.count else { return }
        func counted(_ count: Int, _ noun: String) -> String {
            count == 1 ? "1 \(noun)" : "\(count) \(noun)s"
        }
        throw QuireError(
            .invalidQuery,
            "The predicate “\(format)” has \(counted(placeholders.count, "placeholder")), but is given "
                + "\(counted(arguments.count, "argument")).",
            subject: .init(
                position: placeholders.dropFirst(arguments.count).first?.column))
    }

    mutating func parse() throws -> QueryPredicate {
        let predicate = try predicate()
        guard current.kind == .end else { throw failure("expected AND, OR or the end") }
        return predicate
    }

    // MARK: - Logic

    private mutating func predicate() throws -> QueryPredicate {
        try nested { parser in
            var parts = [try parser.conjunction()]
            while parser.take(.or) { parts.append(try parser.conjunction()) }
            return parts.count == 1 ? parts[0] : .or(parts)
        }
    }

    private mutating func conjunction() throws -> QueryPredicate {
        var parts = [try negation()]
        while take(.and) { parts.append(try negation()) }
        return parts.count == 1 ? parts[0] : .and(parts)
    }

    private mutating func negation() throws -> QueryPredicate {
        if take(.not) { return try nested { .not(try $0.negation()) } }
        return try primary()
    }

    private mutating func primary() throws -> QueryPredicate {
        if current.kind == .openParenthesis, !parenthesisHoldsValue {
            advance()
            let inner = try predicate()
            try expect(.closeParenthesis, "AND, OR or )")
            return inner
        }
        if take(.keyword(.truepredicate)) { return .constant(true) }
        if take(.keyword(.falsepredicate)) { return .constant(false) }
        return try comparison()
    }

    /// Whether what stands in the parentheses that open here is compared with something.
    private var parenthesisHoldsValue: Bool {
        guard let end = ends[position], case .comparison = tokens[end].kind else { return false }
        return true
    }

    // MARK: - Comparisons

    private mutating func comparison() throws -> QueryPredicate {
        var modifier = QueryComparison.Modifier.direct
        var isNegated = false
        if take(.keyword(.any)) || take(.keyword(.some)) {
            modifier = .any
        } else if take(.keyword(.all)) {
            modifier = .all
        } else if take(.keyword(.none)) {
            modifier = .any
            isNegated = true
        }
        let left = try value()
        guard case .comparison(let comparisonOperator) = current.kind else {
            throw failure("expected a comparison operator such as == or BEGINSWITH")
        }
        advance()
        let options = try options()
        let column = current.column
        let right = try value()
        if comparisonOperator == .between, case .collection(let bounds) = right, bounds.count != 2 {
            throw failure(
                "expected the two bounds of BETWEEN at column \(column), but found \(bounds.count)",
                column: column)
        }
        let comparison = QueryPredicate.comparison(
            QueryComparison(left, comparisonOperator, right, modifier: modifier, options: options))
        return isNegated ? .not(comparison) : comparison
    }

    private mutating func options() throws -> QueryComparison.Options {
        guard take(.openBracket) else { return [] }
        var options: QueryComparison.Options = []
        guard case .keyPath(let names) = current.kind, names.count == 1 else {
            throw failure("expected c, d or cd between [ and ]")
        }
        for letter in names[0].lowercased() {
            switch letter {
            case "c": options.insert(.caseInsensitive)
            case "d": options.insert(.diacriticInsensitive)
            case "n", "l":
                throw QuireError(
                    .unsupported,
                    "The predicate “\(format)” uses the option [\(letter)] at column "
                        + "\(current.column), which is not supported.",
                    subject: .init(position: current.column))
            default: throw failure("expected c, d or cd between [ and ]")
            }
        }
        advance()
        try expect(.closeBracket, "]")
        return options
    }

    // MARK: - Words

    var current: PredicateToken { tokens[position] }

    mutating func advance() { if position < tokens.count - 1 { position += 1 } }

    mutating func take(_ kind: PredicateToken.Kind) -> Bool {
        guard current.kind == kind else { return false }
        advance()
        return true
    }

    mutating func expect(_ kind: PredicateToken.Kind, _ expectation: String) throws {
        guard take(kind) else { throw failure("expected \(expectation)") }
    }

    /// Goes one level deeper.
    mutating func nested<Result>(
        _ body: (inout PredicateParser) throws -> Result
    ) throws -> Result {
        guard depth < Self.greatestDepth else {
            throw failure(
                "expected no more than \(Self.greatestDepth) levels of nesting at column "
                    + "\(current.column)", column: current.column)
        }
        depth += 1
        defer { depth -= 1 }
        return try body(&self)
    }

    // MARK: - Errors

    /// An error at the current word.
    func failure(_ expectation: String) -> QuireError {
        let found = current.kind == .end ? "its end" : "“\(current.text)”"
        return failure(
            "\(expectation) at column \(current.column), but found \(found)", column: current.column
        )
    }

    func failure(_ problem: String, column: Int) -> QuireError {
        .malformedPredicate(format, problem, column: column)
    }
}
