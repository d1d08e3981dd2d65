internal import QuireModel
internal import QuireSystem

/// Reads a predicate's words by recursive descent; ``QueryPredicate/init(format:_:)`` documents the language.
///
/// ```
/// predicate  = conjunction { OR conjunction }
/// conjunction = negation { AND negation }
/// negation   = NOT negation | primary
/// primary    = "(" predicate ")" | TRUEPREDICATE | FALSEPREDICATE | comparison
/// comparison = [ ANY | SOME | ALL | NONE ] expression operator [ "[" options "]" ] expression
/// ```
struct PredicateParser {
    let format: String
    /// What the text is: “predicate” or “expression”.
    let noun: String
    let arguments: [QueryExpression]
    private let tokens: [PredicateToken]
    /// For every opening parenthesis the position of the word behind its closing one.
    private let ends: [Int: Int]
    private var position = 0
    private var depth = 0
    /// The height of the tree that was read last.
    var height = 0

    /// A bound on the nesting of the text and on the height of the tree, which differ where operators follow each other:
    /// `a + b + c` is as high as it has operators. It keeps the recursion of every walker well within a thread's stack.
    static let greatestDepth = 200

    init(_ format: String, noun: String = "predicate", arguments: [QueryExpression]) throws {
        self.format = format
        self.noun = noun
        self.arguments = arguments
        tokens = try PredicateLexer.tokens(of: format, noun: noun)
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
            "The \(noun) “\(format)” has \(counted(placeholders.count, "placeholder")), but is given "
                + "\(counted(arguments.count, "argument")).",
            subject: .init(
                position: placeholders.dropFirst(arguments.count).first?.column))
    }

    /// The text as a predicate.
    mutating func parse() throws -> QueryPredicate {
        let predicate = try disjunction()
        guard current.kind == .end else { throw failure("expected AND, OR or the end") }
        return predicate
    }

    /// The text as an expression.
    mutating func parseExpression() throws -> QueryExpression {
        let expression = try expression()
        guard current.kind == .end else { throw failure("expected an operator or the end") }
        return expression
    }

    // MARK: - Logic

    /// A predicate within another.
    mutating func predicate() throws -> QueryPredicate { try nested { try $0.disjunction() } }

    private mutating func disjunction() throws -> QueryPredicate {
        let parts = try parts(joinedBy: .or) { try $0.conjunction() }
        return parts.count == 1 ? parts[0] : .or(parts)
    }

    private mutating func conjunction() throws -> QueryPredicate {
        let parts = try parts(joinedBy: .and) { try $0.negation() }
        return parts.count == 1 ? parts[0] : .and(parts)
    }

    private mutating func parts(
        joinedBy word: PredicateToken.Kind, _ part: (inout Self) throws -> QueryPredicate
    ) throws -> [QueryPredicate] {
        var parts = [try part(&self)]
        var greatestHeight = height
        while take(word) {
            parts.append(try part(&self))
            greatestHeight = max(greatestHeight, height)
        }
        height = greatestHeight
        if parts.count > 1 { try raise() }
        return parts
    }

    private mutating func negation() throws -> QueryPredicate {
        guard take(.not) else { return try primary() }
        let inner = try nested { try $0.negation() }
        try raise()
        return .not(inner)
    }

    private mutating func primary() throws -> QueryPredicate {
        if current.kind == .openParenthesis, !parenthesisHoldsValue {
            advance()
            let inner = try predicate()
            try expect(.closeParenthesis, "AND, OR or )")
            return inner
        }
        height = 1
        if take(.keyword(.truepredicate)) { return .constant(true) }
        if take(.keyword(.falsepredicate)) { return .constant(false) }
        if let predicate = predicateArgument() { return predicate }
        return try comparison()
    }

    /// Whether what stands in the parentheses that open here is compared or computed with.
    private var parenthesisHoldsValue: Bool {
        guard let end = ends[position] else { return false }
        switch tokens[end].kind {
        case .comparison, .infix, .path, .openBracket: return true
        default: return infix(at: end) != nil
        }
    }

    /// A whole predicate that is given for `%@`.
    private mutating func predicateArgument() -> QueryPredicate? {
        guard case .placeholder(.value, let index) = current.kind,
            case .conditional(let predicate, .constant(true), .constant(false)) = arguments[index]
        else { return nil }
        switch peek().kind {
        case .and, .or, .closeParenthesis, .comma, .end:
            advance()
            return predicate
        default: return nil
        }
    }

    // MARK: - Words

    var current: PredicateToken { tokens[position] }

    /// The word that many places ahead; behind the last one, that.
    func peek(_ distance: Int = 1) -> PredicateToken {
        tokens[min(position + distance, tokens.count - 1)]
    }

    /// The function of the operator that stands here, if one does.
    func infix(at place: Int? = nil) -> QueryFunction? {
        let token = tokens[place ?? position]
        switch token.kind {
        case .infix(let function): return function
        case .keyPath:
            if token.isWord("union") { return .union }
            if token.isWord("intersect") { return .intersection }
            return token.isWord("minus") ? .difference : nil
        default: return nil
        }
    }

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
    mutating func nested<Result>(_ body: (inout Self) throws -> Result) throws -> Result {
        guard depth < Self.greatestDepth else { throw tooDeep }
        depth += 1
        defer { depth -= 1 }
        return try body(&self)
    }

    /// Puts a level upon the tree that was read last, and upon another part of that height.
    mutating func raise(above other: Int = 0) throws {
        height = max(height, other) + 1
        guard height <= Self.greatestDepth else { throw tooDeep }
    }

    private var tooDeep: QuireError {
        failure(
            "expected no more than \(Self.greatestDepth) levels of nesting at column "
                + "\(current.column)", column: current.column)
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
        .malformedFormat(format, noun, problem, column: column)
    }
}
