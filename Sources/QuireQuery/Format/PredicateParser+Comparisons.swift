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
        let column = current.column
        let right = try expression()
        if comparisonOperator == .between, case .collection(let bounds) = right, bounds.count != 2 {
            throw failure(
                "expected the two bounds of BETWEEN at column \(column), but found \(bounds.count)",
                column: column)
        }
        try raise(above: leftHeight)
        let comparison = QueryPredicate.comparison(
            QueryComparison(left, comparisonOperator, right, modifier: modifier, options: options))
        if isNegated { try raise() }
        return isNegated ? .not(comparison) : comparison
    }

    private mutating func comparisonOperator() throws -> QueryComparison.Operator {
        if current.kind == .not, case .comparison = peek().kind {
            throw failure("expected a comparison operator (NOT stands before the comparison)")
        }
        guard case .comparison(let comparisonOperator) = current.kind else {
            throw failure("expected a comparison operator such as == or BEGINSWITH")
        }
        advance()
        guard comparisonOperator == .matches, textIsOperator else { return comparisonOperator }
        advance()
        return .matchesText
    }

    /// Whether a `TEXT` behind `MATCHES` belongs to the operator, and is no key: then a value follows it.
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
