import Stencil

/// Refuses tags that Stencil would trap on, or use up the stack or the memory for, before it parses them.
///
/// Stencil takes apart the text of a tag in several ways, which do not agree on what is within quotes. What is refused here is
/// refused there too.
enum TemplateTagCheck {
    /// How many operators, and how many parentheses and brackets, a tag may have: Stencil parses and evaluates them by
    /// recursion.
    static let greatestOperatorCount = 128

    private static let operators: Set<Substring> = [
        "in", "or", "and", "not", "==", "!=", ">", ">=", "<", "<=",
    ]

    /// Checks a tag or a variable.
    ///
    /// - Throws: `TemplateSyntaxError` with the reason and the token.
    static func check(_ token: Token) throws {
        guard token.kind == .block || token.kind == .variable else { return }
        do {
            try check(token.contents)
            try checkRanges(of: token)
            try checkLoopVariables(of: token)
        } catch let error as TemplateSyntaxError {
            throw TemplateSyntaxError(reason: error.reason, token: token)
        }
    }

    /// Checks the text of a tag, or an expression that a text says.
    ///
    /// - Throws: `TemplateSyntaxError` with the reason.
    static func check(_ text: String) throws {
        let count =
            text.utf8.count { "()[]".utf8.contains($0) }
            + text.split(separator: " ").count { operators.contains($0) }
        guard count <= greatestOperatorCount else {
            throw TemplateSyntaxError(
                "a tag has more than \(greatestOperatorCount) operators, parentheses and brackets")
        }
        try checkFilters(in: text)
        try checkLast(in: text)
        try checkBrackets(in: text)
    }

    /// The name of a filter that is not there Stencil takes out of an empty list.
    private static func checkFilters(in text: String) throws {
        var isExpected = false
        for character in text.utf8 {
            switch character {
            case UInt8(ascii: "|") where !isExpected: isExpected = true
            case UInt8(ascii: "|"), UInt8(ascii: "("), UInt8(ascii: ")"), UInt8(ascii: "."):
                if isExpected { throw TemplateSyntaxError("there is no filter behind a “|”") }
            case UInt8(ascii: " "), UInt8(ascii: ":"): break
            default: isExpected = false
            }
        }
        let words = text.split(separator: " ")
        let isNameless =
            words.first == "filter" && words.dropFirst().contains { $0.allSatisfy { $0 == ":" } }
        if isExpected || isNameless { throw TemplateSyntaxError("there is no filter behind a “|”") }
    }

    /// What may stand beside a name.
    private static let delimiters = Set<Character>(" |:,()\"'")

    /// What is last in an empty list, or text, Stencil looks for before its beginning.
    private static func checkLast(in text: String) throws {
        for range in text.ranges(of: ".last") {
            if let next = text[range.upperBound...].first,
                next.isLetter || next.isNumber || next == "_"
            {
                continue
            }
            let before = text[..<range.lowerBound]
            let start = before.lastIndex { delimiters.contains($0) }.map(before.index(after:))
            let path = before[(start ?? before.startIndex)...]
            // Of a loop it is whether its last element is there; a loop's label is a text.
            let isOfLoop = path.wholeMatch(of: #/forloop(\.\w+)?/#) != nil
            if isOfLoop && path != "forloop.label" { continue }
            throw TemplateSyntaxError(
                "“\(path).last” does not work for what is empty; write “\(path)|last”")
        }
    }

    /// A key in brackets may turn out to be `last`.
    private static func checkBrackets(in text: String) throws {
        for bracket in text.indices where text[bracket] == "[" {
            guard let previous = text[..<bracket].last, !delimiters.contains(previous) else {
                continue
            }
            let key = text[text.index(after: bracket)...].prefix { $0 != "]" }
            let isKnown = key.wholeMatch(of: #/\d+|"[^"\[]*"|'[^'\[]*'/#) != nil
            guard isKnown, key.dropFirst().dropLast() != "last" else {
                throw TemplateSyntaxError(
                    "“[\(key)]” must be a number, or a text other than \"last\"")
            }
        }
    }

    /// Stencil makes an array of all numbers in a range; loops are counted before they do that.
    private static func checkRanges(of token: Token) throws {
        guard token.contents.contains("...") else { return }
        var words = token.components
        if let place = places(in: words) { words.remove(at: place.values) }
        if words.contains(where: { $0.contains("...") }) {
            throw TemplateSyntaxError("a range, with “...”, can only be gone through by “for”")
        }
    }

    /// A variable of this name would hide whether a loop is at its last element.
    private static func checkLoopVariables(of token: Token) throws {
        let words = token.components
        guard let place = places(in: words) else { return }
        for name in words[place.variables].split(separator: ",")
        where name == "forloop" || name.wholeMatch(of: #/ *[\w$]+ */#) == nil {
            throw TemplateSyntaxError("a loop's variable cannot be called “\(name)”")
        }
    }

    /// Where a loop has its variables, and what it goes through; `nil` if it is no loop.
    private static func places(in words: [String]) -> (variables: Int, values: Int)? {
        guard let first = words.first, token(words, isLoopAfter: first) else { return nil }
        let start = first.hasSuffix(":") ? 1 : 0
        return words.count > start + 3 ? (start + 1, start + 3) : nil
    }

    private static func token(_ words: [String], isLoopAfter first: String) -> Bool {
        first == "for" || first.hasSuffix(":") && words.count > 1 && words[1] == "for"
    }
}
