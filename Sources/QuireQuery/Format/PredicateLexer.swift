internal import QuireSystem

/// Cuts a predicate's format string into words.
///
/// It works on Unicode scalars, because a combining character behind a quotation mark would be one
/// `Character` with it.
struct PredicateLexer {
    let format: String
    /// What the text is: “predicate” or “expression”.
    let noun: String
    private let characters: [Unicode.Scalar]
    private var position = 0
    private var argumentCount = 0

    init(_ format: String, noun: String) {
        self.format = format
        self.noun = noun
        characters = Array(format.unicodeScalars)
    }

    /// All words, ending with ``PredicateToken/Kind/end``.
    static func tokens(of format: String, noun: String) throws -> [PredicateToken] {
        var lexer = PredicateLexer(format, noun: noun)
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
        case "=", "!", "<", ">", "&", "|", "+", "-", "*", "/", "^", "~": return try sign()
        case "\"", "'": return .string(try quoted(by: character))
        case "%": return try placeholder()
        case "$": return try variable()
        case "#", "@": return try keyPath()
        case "0"..."9": return try number()
        case ".": return try beginsNumber ? number() : .path(keys())
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
        ("<<", .infix(.leftShift)), (">>", .infix(.rightShift)), ("**", .infix(.power)),
        ("=", .comparison(.equal)), ("<", .comparison(.less)), (">", .comparison(.greater)),
        ("!", .not), ("+", .infix(.add)), ("-", .infix(.subtract)), ("*", .infix(.multiply)),
        ("/", .infix(.divide)), ("&", .infix(.bitwiseAnd)), ("|", .infix(.bitwiseOr)),
        ("^", .infix(.bitwiseXor)), ("~", .onesComplement),
    ]

    private mutating func sign() throws -> PredicateToken.Kind {
        for sign in Self.signs where characters[position...].starts(with: sign.text.unicodeScalars)
        {
            position += sign.text.unicodeScalars.count
            return sign.kind
        }
        throw failure("expected a key, a value or an operator", at: position)
    }

    // MARK: - Keys and variables

    private mutating func keyPath() throws -> PredicateToken.Kind {
        let isEscaped = peek() == "#"
        var keys = [try keyOrOperator()] + (try self.keys())
        if keys.count == 1, !isEscaped, peek() == ":" { return try selector(beginning: keys[0]) }
        if !isEscaped, let keyword = PredicateToken.Keyword(rawValue: keys[0].lowercased()) {
            if keys.count == 1 { return PredicateToken.kind(of: keyword) }
            if keyword == .self { keys.removeFirst() }
        }
        return .keyPath(keys)
    }

    private mutating func variable() throws -> PredicateToken.Kind {
        position += 1
        return .variable(try key(), try keys())
    }

    /// Any number of keys, each behind a dot.
    private mutating func keys() throws -> [String] {
        var keys: [String] = []
        while peek() == "." {
            position += 1
            keys.append(try keyOrOperator())
        }
        return keys
    }

    private mutating func keyOrOperator() throws -> String {
        if peek() == "@" {
            let start = position
            position += 1
            let name = try key()
            guard KeyPathOperator(rawValue: name) != nil else {
                throw failure(
                    KeyPathOperator.expectation(of: name), at: start, found: "@" + name)
            }
            return "@" + name
        }
        if peek() == "#" { position += 1 }
        return try key()
    }

    /// The rest of the name of a function that has colons.
    private mutating func selector(beginning name: String) throws -> PredicateToken.Kind {
        var name = name
        repeat {
            guard peek() == ":" else {
                throw failure("expected a colon to end the name of a function", at: position)
            }
            position += 1
            name += ":"
            guard let character = peek(), PredicateToken.isKeyStart(character) else { break }
            name += try key()
        } while true
        return .selector(name)
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
    func failure(_ expectation: String, at place: Int, found: String? = nil) -> QuireError {
        let character = place < characters.count ? String(characters[place]) : nil
        let found = (found ?? character).map { "“\($0)”" } ?? "its end"
        return .malformedFormat(
            format, noun, "\(expectation) at column \(place + 1), but found \(found)",
            column: place + 1)
    }
}

extension QuireError {
    static func malformedFormat(
        _ format: String, _ noun: String, _ problem: String, column: Int
    ) -> QuireError {
        QuireError(
            .invalidQuery, "The \(noun) “\(format)” cannot be read: \(problem).",
            subject: .init(position: column))
    }
}
