import Stencil

/// The tags and filters of Stencil that could write without end, within bounds.
///
/// Stencil has none: `for i in 1...1000000000` makes an array of all the numbers, and blocks of which each shows the one
/// before twice double with each. Its nodes are not public, so a tag is parsed here and handed to Stencil with another
/// tag for its content, which measures what that writes.
final class TemplateTags {
    /// The maximum number of loop iterations for one file of code.
    static let maximumLoopCount = 1_000_000
    /// The maximum number of bytes that loops, blocks and included files write for one file of code; nested ones count on
    /// each level.
    static let maximumSize = 1 << 28
    /// The maximum depth at which the filter `filter` applies itself.
    static let maximumFilterDepth = 16

    private let filters: Extension
    private var loopCount = 0
    private var size = 0
    private var filterDepth = 0

    /// - Parameter filters: What templates can use beside Stencil's own filters.
    init(filters: Extension) { self.filters = filters }

    /// Puts bounded filters into the place of Stencil's own, which come last in an environment.
    func boundFilters(of environment: Environment) {
        let filters = environment.extensions.last
        filters?.registerFilter("indent") { [unowned self] value, arguments in
            try indent(value, arguments)
        }
        filters?.registerFilter("filter") { [unowned self] value, arguments, context in
            try filter(value, arguments, context)
        }
    }

    /// The tags, which come before Stencil's, and the filters.
    var extensions: [Extension] {
        let tags = Extension()
        tags.registerTag("for") { [unowned self] in try loop($0, $1) }
        tags.registerTag("block") { [unowned self] in try block($0, $1) }
        tags.registerTag("include") { [unowned self] _, token in
            MeasuredNodes(try nodes(of: [token]), token, self)
        }
        return [tags, filters]
    }

    /// Begins to write another file of code.
    func begin() {
        loopCount = 0
        size = 0
    }

    // MARK: - Tags

    /// The node of one tag's tokens, in which some names are placeholders for parsed content.
    private func nodes(
        of tokens: [Token], _ contents: [String: any NodeType] = [:]
    ) throws -> [any NodeType] {
        let placeholders = Extension()
        for (name, content) in contents { placeholders.registerTag(name) { _, _ in content } }
        return try TokenParser(
            tokens: tokens, environment: Environment(extensions: [placeholders, filters])
        ).parse()
    }

    /// Parses what stands between a tag and its end.
    private func content(
        _ parser: TokenParser, _ token: Token, until ends: [String]
    ) throws -> MeasuredNodes {
        MeasuredNodes(try parser.parse(until(ends)), token, self)
    }

    private func block(_ parser: TokenParser, _ token: Token) throws -> any NodeType {
        let content = try content(parser, token, until: ["endblock"])
        _ = parser.nextToken()
        let tokens = ["content", "endblock"].map { Token.block(value: $0, at: token.sourceMap) }
        // As it is: `extends` looks for blocks.
        return try nodes(of: [token] + tokens, ["content": content])[0]
    }

    private func loop(_ parser: TokenParser, _ token: Token) throws -> any NodeType {
        var tokens = [token, Token.block(value: "content", at: token.sourceMap)]
        var contents = ["content": try content(parser, token, until: ["endfor", "empty"])]
        while let end = parser.nextToken() {
            tokens.append(end)
            guard end.contents == "empty" else { break }
            tokens.append(.block(value: "otherwise", at: token.sourceMap))
            contents["otherwise"] = try content(parser, token, until: ["endfor"])
        }
        let loop = try nodes(of: tokens, contents)
        // Perhaps with a label; that it is well formed is known by now.
        let words = token.components
        let isLabelled = words.first?.hasSuffix(":") == true
        let values = try parser.compileResolvable(words[isLabelled ? 4 : 3], containedIn: token)
        return BoundedLoop(loop, over: values, token, self)
    }

    /// A loop, which is not begun if it would go on for too long.
    private final class BoundedLoop: NodeType {
        let token: Token?
        private let loop: [any NodeType]
        private let values: any Resolvable
        private unowned let tags: TemplateTags

        init(
            _ loop: [any NodeType], over values: any Resolvable, _ token: Token,
            _ tags: TemplateTags
        ) {
            self.loop = loop
            self.values = values
            self.token = token
            self.tags = tags
        }

        func render(_ context: Context) throws -> String {
            try tags.willLoop(over: values, context)
            return try renderNodes(loop, context)
        }
    }

    /// The content of a tag, whose text counts.
    private final class MeasuredNodes: NodeType {
        let token: Token?
        private let nodes: [any NodeType]
        private unowned let tags: TemplateTags

        init(_ nodes: [any NodeType], _ token: Token, _ tags: TemplateTags) {
            self.nodes = nodes
            self.token = token
            self.tags = tags
        }

        func render(_ context: Context) throws -> String {
            let text = try renderNodes(nodes, context)
            try tags.willWrite(text.utf8.count)
            return text
        }
    }

    // MARK: - Bounds

    private func willWrite(_ count: Int) throws {
        size += count
        guard size <= Self.maximumSize else {
            throw TemplateSyntaxError(
                "more than \(Self.maximumSize >> 20) MB are written for one generated file")
        }
    }

    private func willLoop(over values: any Resolvable, _ context: Context) throws {
        loopCount += try Self.count(of: values, context)
        guard loopCount <= Self.maximumLoopCount else {
            throw TemplateSyntaxError(
                "loops run more than \(Self.maximumLoopCount) times for one generated file"
            )
        }
    }

    /// The number of iterations of a loop over values, or more than is allowed.
    private static func count(of values: any Resolvable, _ context: Context) throws -> Int {
        guard let range = values as? RangeVariable else {
            let values = try values.resolve(context)
            if let array = values as? [Any] { return array.count }
            // Of anything else there is only a loop over its members.
            return (values as? [String: Any])?.count ?? 1
        }
        // What is not a number, Stencil says itself.
        guard let start = number(try range.from.resolve(context)),
            let end = number(try range.to.resolve(context))
        else { return 0 }
        let isInBounds = [start, end].allSatisfy { abs($0) <= Double(Int32.max) }
        return isInBounds
            ? Int(min(abs(end - start), Double(maximumLoopCount))) + 1 : maximumLoopCount + 1
    }

    private static func number(_ value: Any?) -> Double? {
        switch value {
        case let integer as Int: Double(integer)
        case let single as Float: Double(single)
        case let double as Double: double
        default: nil
        }
    }

    // MARK: - Filters

    /// Does what Stencil's filter does, with a width that is not negative, of which Stencil would trap, and not too great.
    private func indent(_ value: Any?, _ arguments: [Any?]) throws -> Any? {
        if let width = arguments.first as? Int {
            let text = value as? String ?? ""
            let indentation = arguments.count > 1 ? arguments[1] as? String ?? " " : " "
            let lineCount = text.utf8.count { $0 == UInt8(ascii: "\n") } + 1
            let (perLine, isTooWide) =
                width.multipliedReportingOverflow(by: max(indentation.utf8.count, 1))
            let (added, isTooLong) = perLine.multipliedReportingOverflow(by: lineCount)
            guard width >= 0 else {
                throw TemplateSyntaxError("a text cannot be indented by \(width) characters")
            }
            try willWrite(isTooWide || isTooLong ? Self.maximumSize + 1 : added)
        }
        let names = ["width", "indentation", "first", "more"].prefix(arguments.count)
        var variables: [String: Any] = [:]
        for (name, argument) in zip(names, arguments) { variables[name] = argument }
        variables["text"] = value
        let expression = names.isEmpty ? "indent" : "indent:" + names.joined(separator: ",")
        let environment = Environment()
        return try environment.compileFilter("text|\(expression)").resolve(
            Context(dictionary: variables, environment: environment))
    }

    /// Applies a filter that is given as a text, as Stencil's filter does; the text may name this filter again.
    private func filter(_ value: Any?, _ arguments: [Any?], _ context: Context) throws -> Any? {
        guard let value else { return nil }
        guard arguments.count == 1 else {
            throw TemplateSyntaxError("'filter' filter takes one argument")
        }
        guard filterDepth < Self.maximumFilterDepth else {
            throw TemplateSyntaxError(
                "the filter 'filter' applies itself more than \(Self.maximumFilterDepth) levels deep"
            )
        }
        filterDepth += 1
        defer { filterDepth -= 1 }
        let name = arguments[0].map { "\($0)" } ?? ""
        try TemplateTagCheck.check("$0|\(name)")
        let expression = try context.environment.compileFilter("$0|\(name)")
        return try context.push(dictionary: ["$0": value]) { try expression.resolve(context) }
    }
}

// MARK: - Checking

/// Refuses tags that Stencil would trap on, or use up the stack or the memory for, before it parses them.
///
/// Stencil takes apart the text of a tag in several ways, which do not agree on what is within quotes. What is refused here is
/// refused there too.
enum TemplateTagCheck {
    /// The maximum numbers of operators, and of parentheses and brackets, in a tag: Stencil parses and evaluates them by
    /// recursion.
    static let maximumOperatorCount = 128

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
        guard count <= maximumOperatorCount else {
            throw TemplateSyntaxError(
                "a tag has more than \(maximumOperatorCount) operators, parentheses and brackets")
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
                if isExpected { throw TemplateSyntaxError("a filter is missing after “|”") }
            case UInt8(ascii: " "), UInt8(ascii: ":"): break
            default: isExpected = false
            }
        }
        let words = text.split(separator: " ")
        let isNameless =
            words.first == "filter" && words.dropFirst().contains { $0.allSatisfy { $0 == ":" } }
        if isExpected || isNameless { throw TemplateSyntaxError("a filter is missing after “|”") }
    }

    /// The characters that may adjoin a name.
    private static let delimiters = Set<Character>(" |:,()\"'")

    /// Stencil reads the last element of an empty list, or text, before its beginning.
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
                "“\(path).last” fails for an empty list or string; write “\(path)|last”")
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
                    "“[\(key)]” must be a number, or a string other than \"last\"")
            }
        }
    }

    /// Stencil makes an array of all numbers in a range; loops are counted before they do that.
    private static func checkRanges(of token: Token) throws {
        guard token.contents.contains("...") else { return }
        var words = token.components
        if let place = places(in: words) { words.remove(at: place.values) }
        if words.contains(where: { $0.contains("...") }) {
            throw TemplateSyntaxError("a range (“...”) is allowed only in “for”")
        }
    }

    /// A variable of this name would hide whether a loop is at its last element.
    private static func checkLoopVariables(of token: Token) throws {
        let words = token.components
        guard let place = places(in: words) else { return }
        for name in words[place.variables].split(separator: ",")
        where name == "forloop" || name.wholeMatch(of: #/ *[\w$]+ */#) == nil {
            throw TemplateSyntaxError("a loop variable cannot be named “\(name)”")
        }
    }

    /// The positions of a loop's variables and values; `nil` for other tags.
    private static func places(in words: [String]) -> (variables: Int, values: Int)? {
        guard let first = words.first, token(words, isLoopAfter: first) else { return nil }
        let start = first.hasSuffix(":") ? 1 : 0
        return words.count > start + 3 ? (start + 1, start + 3) : nil
    }

    private static func token(_ words: [String], isLoopAfter first: String) -> Bool {
        first == "for" || first.hasSuffix(":") && words.count > 1 && words[1] == "for"
    }
}
