/// Cuts a predicate's format string into words.
///
/// It works on Unicode scalars, because a combining character behind a quotation mark would be one
/// `Character` with it.
struct PredicateLexer {
    let format: String
    private let characters: [Unicode.Scalar]
    private var position = 0
    private var argumentCount = 0

    init(_ format: String) {
        self.format = format
        characters = Array(format.unicodeScalars)
    }

    /// All words, ending with ``PredicateToken/Kind/end``.
    static func tokens(of format: String) throws -> [PredicateToken] {
        var lexer = PredicateLexer(format)
        var tokens: [PredicateToken] = []
        repeat { tokens.append(try lexer.next()) } while tokens.last?.kind != .end
        return tokens
    }

    private mutating func next() throws -> PredicateToken {
        while let character = peek(), character.properties.isWhitespace { position += 1 }
        let start = position
        let kind = try kindOfNext()
        return PredicateToken(
            kind: kind, column: start + 1, text: text(from: start))
    }

    private mutating func kindOfNext() throws -> PredicateToken.Kind {
        guard let character = peek() else { return .end }
        switch character {
        case "(": return take(.openParenthesis)
        case ")": return take(.closeParenthesis)
        case "{": return take(.openBrace)
        case "}": return take(.closeBrace)
        case "[": return take(.openBracket)
        case "]": return take(.closeBracket)
        case ",": return take(.comma)
        case "=", "!", "<", ">", "&", "|": return try sign()
        case "\"", "'": return .string(try quoted(by: character))
        case "%": return try placeholder()
        case "$": return try variable()
        case "#": return try keyPath()
        case "0"..."9", "-", "+", ".": return try number()
        default:
            if PredicateToken.isKeyStart(character) { return try keyPath() }
            throw failure("expected a key, a value or an operator", at: position)
        }
    }

    // MARK: - Signs

    private static let signs: [(text: String, kind: PredicateToken.Kind)] = [
        ("==", .comparison(.equal)), ("=<", .comparison(.lessOrEqual)),
        ("=>", .comparison(.greaterOrEqual)), ("!=", .comparison(.notEqual)),
        ("<>", .comparison(.notEqual)), ("<=", .comparison(.lessOrEqual)),
        (">=", .comparison(.greaterOrEqual)), ("&&", .and), ("||", .or),
        ("=", .comparison(.equal)), ("<", .comparison(.less)), (">", .comparison(.greater)),
        ("!", .not),
    ]

    private mutating func sign() throws -> PredicateToken.Kind {
        for sign in Self.signs where characters[position...].starts(with: sign.text.unicodeScalars)
        {
            position += sign.text.unicodeScalars.count
            return sign.kind
        }
        throw failure("expected && or ||", at: position)
    }

    // MARK: - Keys and variables

    private mutating func keyPath() throws -> PredicateToken.Kind {
        var keys: [String] = []
        var firstIsEscaped = false
        repeat {
            if !keys.isEmpty { position += 1 }
            if peek() == "@" {
                throw QuireError(
                    .unsupported,
                    "The predicate “\(format)” uses a collection operator such as @count at column "
                        + "\(position + 1), which is not supported.",
                    subject: .init(position: position + 1))
            }
            let isEscaped = peek() == "#"
            if isEscaped { position += 1 }
            if keys.isEmpty { firstIsEscaped = isEscaped }
            keys.append(try key())
        } while peek() == "."
        if !firstIsEscaped, let keyword = PredicateToken.Keyword(rawValue: keys[0].lowercased()) {
            if keys.count == 1 { return PredicateToken.kind(of: keyword) }
            if keyword == .self { keys.removeFirst() }
        }
        return .keyPath(keys)
    }

    private mutating func variable() throws -> PredicateToken.Kind {
        position += 1
        var name = try key()
        while peek() == "." {
            position += 1
            name += "." + (try key())
        }
        return .variable(name)
    }

    private mutating func key() throws -> String {
        let start = position
        guard let first = peek(), PredicateToken.isKeyStart(first) else {
            throw failure("expected a name", at: position)
        }
        while let character = peek(), PredicateToken.isKeyPart(character) { position += 1 }
        return text(from: start)
    }

    // MARK: - Placeholders

    private mutating func placeholder() throws -> PredicateToken.Kind {
        let start = position
        position += 1
        while let character = peek(), "hlqLzjt".unicodeScalars.contains(character) { position += 1 }
        let hasLength = position > start + 1
        let placeholder: PredicateToken.Placeholder
        switch peek() {
        case "@" where !hasLength: placeholder = .value
        case "K" where !hasLength: placeholder = .keyPath
        case "d", "D", "i", "u", "U", "x", "X": placeholder = .integer
        case "f", "F", "e", "E", "g", "G", "a", "A": placeholder = .double
        case "%" where !hasLength:
            throw failure("expected a value; %% stands for no value outside a text", at: start)
        default:
            throw failure("expected a placeholder such as %@, %K, %d or %f", at: start)
        }
        position += 1
        argumentCount += 1
        return .placeholder(placeholder, argument: argumentCount - 1)
    }

    // MARK: - Characters

    /// The character that many places ahead, if there is one.
    func peek(_ distance: Int = 0) -> Unicode.Scalar? {
        position + distance < characters.count ? characters[position + distance] : nil
    }

    /// Steps over characters.
    mutating func advance(by count: Int = 1) { position += count }

    /// Where the lexer is.
    var place: Int { position }

    /// The text from a place to here.
    func text(from start: Int) -> String {
        var text = String.UnicodeScalarView()
        text.append(contentsOf: characters[start..<position])
        return String(text)
    }

    private mutating func take(_ kind: PredicateToken.Kind) -> PredicateToken.Kind {
        position += 1
        return kind
    }

    /// An error at a place, which counts from 0.
    func failure(_ expectation: String, at place: Int) -> QuireError {
        let found = place < characters.count ? "“\(characters[place])”" : "its end"
        return .malformedPredicate(
            format, "\(expectation) at column \(place + 1), but found \(found)", column: place + 1)
    }
}

extension QuireError {
    static func malformedPredicate(_ format: String, _ problem: String, column: Int) -> QuireError {
        QuireError(
            .invalidQuery, "The predicate “\(format)” cannot be read: \(problem).",
            subject: .init(position: column))
    }
}
