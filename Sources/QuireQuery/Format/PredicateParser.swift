import Foundation
internal import QuireModel
internal import QuireSystem

/// A recursive-descent parser for predicates; ``QueryPredicate/init(format:_:)`` documents the language.
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
    /// The kind of text: “predicate” or “expression”.
    let noun: String
    let arguments: [QueryExpression]
    private let tokens: [PredicateToken]
    /// For every opening parenthesis the position of the token after its closing one.
    private let ends: [Int: Int]
    private var position = 0
    private var depth = 0
    /// The height of the last parsed tree.
    var height = 0

    /// A limit on the nesting of the text and on the height of the tree, which differ for operator chains: the height of
    /// `a + b + c` is its number of operators. It keeps the recursion of all walkers well within a thread's stack.
    static let maximumDepth = 200

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

    /// Parses the text as a predicate.
    mutating func parse() throws -> QueryPredicate {
        let predicate = try disjunction()
        guard current.kind == .end else {
            throw failure("expected AND, OR or the end", hint: unquotedText)
        }
        return predicate
    }

    /// Parses the text as an expression.
    mutating func parseExpression() throws -> QueryExpression {
        let expression = try expression()
        guard current.kind == .end else { throw failure("expected an operator or the end") }
        return expression
    }

    // MARK: - Logic

    /// A nested predicate.
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
        var maximumHeight = height
        while take(word) {
            parts.append(try part(&self))
            maximumHeight = max(maximumHeight, height)
        }
        height = maximumHeight
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

    /// Whether the parenthesis that opens here contains an operand, not a condition.
    private var parenthesisHoldsValue: Bool {
        guard let end = ends[position] else { return false }
        switch tokens[end].kind {
        case .comparison, .infix, .path, .openBracket: return true
        default: return infix(at: end) != nil
        }
    }

    /// A whole predicate given for `%@`.
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

    /// The token at an offset ahead, at most the last one.
    func peek(_ distance: Int = 1) -> PredicateToken {
        tokens[min(position + distance, tokens.count - 1)]
    }

    /// The function of an infix operator at a position, if there is one.
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

    /// Parses one nesting level deeper.
    mutating func nested<Result>(_ body: (inout Self) throws -> Result) throws -> Result {
        guard depth < Self.maximumDepth else { throw tooDeep }
        depth += 1
        defer { depth -= 1 }
        return try body(&self)
    }

    /// Adds a level above the last parsed tree and another part of the given height.
    mutating func raise(above other: Int = 0) throws {
        height = max(height, other) + 1
        guard height <= Self.maximumDepth else { throw tooDeep }
    }

    private var tooDeep: QuireError {
        failure(
            "expected no more than \(Self.maximumDepth) levels of nesting at column "
                + "\(current.column)", column: current.column)
    }

    // MARK: - Errors

    /// An error at the current token.
    ///
    /// - Parameter hint: What to write instead.
    func failure(_ expectation: String, hint: String? = nil) -> QuireError {
        let found = current.kind == .end ? "where it ends" : "but found “\(current.text)”"
        let place = "at column \(current.column), \(found)"
        return failure(
            "\(expectation) \(place)\(hint.map { "; \($0)" } ?? "")", column: current.column)
    }

    /// The hint for `title = Jane Austen`, if the parser is at the second word of the text.
    private var unquotedText: String? {
        func isWord(_ place: Int) -> Bool {
            if case .keyPath = tokens[place].kind { true } else { tokens[place].isNumber }
        }
        var start = position
        while start > 0, isWord(start - 1) { start -= 1 }
        guard start > 0, start < position, case .comparison = tokens[start - 1].kind else {
            return nil
        }
        var end = position
        while isWord(end) { end += 1 }
        let text = tokens[start..<end].map(\.text).joined(separator: " ")
        return "put text in quotation marks: \"\(text)\""
    }

    func failure(_ problem: String, column: Int) -> QuireError {
        .malformedFormat(format, noun, problem, column: column)
    }
}

// MARK: - Comparisons

extension PredicateParser {
    mutating func comparison() throws -> QueryPredicate {
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
        let left = try expression()
        let leftHeight = height
        let comparisonOperator = try comparisonOperator()
        let options = try options()
        let first = current
        let right = try expression()
        if comparisonOperator == .between {
            if case .collection(let bounds) = right, bounds.count != 2 {
                throw failure(
                    "expected the two bounds of BETWEEN at column \(first.column), but found \(bounds.count)",
                    column: first.column)
            }
            if case .constant = right, current.kind == .and {
                throw failure(
                    "expected a comma",
                    hint: "write the bounds in braces: BETWEEN {\(first.text), \(peek().text)}")
            }
        }
        try raise(above: leftHeight)
        let comparison = QueryPredicate.comparison(
            QueryComparison(left, comparisonOperator, right, modifier: modifier, options: options))
        if isNegated { try raise() }
        return isNegated ? .not(comparison) : comparison
    }

    private mutating func comparisonOperator() throws -> QueryComparison.Operator {
        if current.kind == .not, case .comparison = peek().kind {
            throw failure(
                "expected a comparison operator",
                hint:
                    "put NOT before the comparison: NOT \(tokens[max(position - 1, 0)].text) \(peek().text) …"
            )
        }
        guard case .comparison(let comparisonOperator) = current.kind else {
            throw failure(
                "expected a comparison operator such as == or BEGINSWITH", hint: operatorHint)
        }
        advance()
        guard comparisonOperator == .matches, textIsOperator else { return comparisonOperator }
        advance()
        return .matchesText
    }

    /// The hint for a word that is an operator in SQL, or resembles one of this language.
    private var operatorHint: String? {
        switch current.kind {
        case .end, .and, .or, .closeParenthesis:
            guard position > 0, case .keyPath = tokens[position - 1].kind else { return nil }
            return "to test whether it is true, write \(tokens[position - 1].text) == YES"
        case .keyPath: break
        default: return nil
        }
        if current.isWord("is") {
            let isNegated = peek().kind == .not
            let value = peek(isNegated ? 2 : 1)
            let isNull = [.keyword(.null), .keyword(.nil)].contains(value.kind)
            return "write \(isNegated ? "!=" : "==") \(isNull ? "nil" : value.text)"
        }
        let meant = [
            "ilike": "LIKE[c]", "startswith": "BEGINSWITH", "regexp": "MATCHES",
            "rlike": "MATCHES", "glob": "LIKE", "eq": "==", "has": "CONTAINS",
        ]
        let operators = ["BEGINSWITH", "ENDSWITH", "CONTAINS", "LIKE", "MATCHES", "IN", "BETWEEN"]
        return
            (meant[current.text.lowercased()]
            ?? CloseNames.of(current.text, among: operators).first).map { "write \($0)" }
    }

    /// Whether a `TEXT` after `MATCHES` is part of the operator, not a key: then a value follows it.
    private var textIsOperator: Bool {
        guard current.isWord("text") else { return false }
        guard peek().kind == .openBracket else { return peek().beginsValue }
        guard case .keyPath(let letters) = peek(2).kind, peek(3).kind == .closeBracket else {
            return false
        }
        return Self.options(letters) != nil && peek(4).beginsValue
    }

    // MARK: - Options

    private mutating func options() throws -> QueryComparison.Options {
        guard take(.openBracket) else { return [] }
        guard case .keyPath(let letters) = current.kind, let options = Self.options(letters) else {
            throw failure("expected c, d, n or l between [ and ]")
        }
        advance()
        try expect(.closeBracket, "]")
        return options
    }

    private static func options(_ letters: [String]) -> QueryComparison.Options? {
        guard letters.count == 1 else { return nil }
        var options: QueryComparison.Options = []
        for letter in letters[0].lowercased() {
            switch letter {
            case "c": options.insert(.caseInsensitive)
            case "d": options.insert(.diacriticInsensitive)
            case "n": options.insert(.normalized)
            case "l": options.insert(.localized)
            default: return nil
            }
        }
        return options
    }
}

// MARK: - Key paths

extension PredicateParser {
    // MARK: - Key paths

    /// The key path after an expression, or of the tested object. An operator among the keys applies to the key path formed
    /// by the keys on both sides of it, up to the next operator.
    ///
    /// - Parameter extending: Whether keys after a key path extend it.
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
                    "expected nothing after @count in the key path at column \(current.column), "
                        + "but found “\(key)”", column: current.column)
            }
            if !pathOperator.givesMany, let next = rest.first {
                throw failure(
                    "expected only keys after \(first) in the key path at column "
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

    /// The key path given as text after an expression; `nil` if the text is not a key path.
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
