internal import QuireSystem

/// Tokenizes a predicate's format string.
///
/// It works on Unicode scalars, because a quotation mark and a combining character after it would be one `Character`.
struct PredicateLexer {
    let format: String
    /// The kind of text: “predicate” or “expression”.
    let noun: String
    private let characters: [Unicode.Scalar]
    private var position = 0
    private var argumentCount = 0

    init(_ format: String, noun: String) {
        self.format = format
        self.noun = noun
        characters = Array(format.unicodeScalars)
    }

    /// All tokens, ending with ``PredicateToken/Kind/end``.
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

    /// Any number of keys, each after a dot.
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

    /// The rest of a function name with colons.
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
            throw failure("expected a value, not %% outside quotation marks", at: start)
        default:
            throw failure("expected a placeholder such as %@, %K, %d or %f", at: start)
        }
        position += 1
        argumentCount += 1
        return .placeholder(placeholder, argument: argumentCount - 1)
    }

    // MARK: - Characters

    /// The character at an offset ahead, if there is one.
    func peek(_ distance: Int = 0) -> Unicode.Scalar? {
        position + distance < characters.count ? characters[position + distance] : nil
    }

    /// Advances by characters.
    mutating func advance(by count: Int = 1) { position += count }

    /// The current position.
    var place: Int { position }

    /// The text from a position to the current one.
    func text(from start: Int) -> String {
        var text = String.UnicodeScalarView()
        text.append(contentsOf: characters[start..<position])
        return String(text)
    }

    private mutating func take(_ kind: PredicateToken.Kind) -> PredicateToken.Kind {
        position += 1
        return kind
    }

    /// An error at a position, from 0.
    func failure(_ expectation: String, at place: Int, found: String? = nil) -> QuireError {
        let character = place < characters.count ? String(characters[place]) : nil
        let found = (found ?? character).map { "but found “\($0)”" } ?? "where it ends"
        return .malformedFormat(
            format, noun, "\(expectation) at column \(place + 1), \(found)",
            column: place + 1)
    }
}

extension QuireError {
    static func malformedFormat(
        _ format: String, _ noun: String, _ problem: String, column: Int
    ) -> QuireError {
        QuireError(
            .invalidQuery,
            "The \(noun) “\(format)” cannot be read: \(problem)\(".?".contains(problem.last ?? " ") ? "" : ".")",
            subject: .init(position: column, value: format))
    }
}

// MARK: - Literals

extension PredicateLexer {
    // MARK: - Texts

    /// A quoted text. `\n`, `\r`, `\t`, `\b`, `\f`, `\0`, `\uXXXX` and a backslash before a backslash or a quotation mark
    /// are escapes. Any other backslash is literal, so that regular expressions can be written unchanged.
    mutating func quoted(by mark: Unicode.Scalar) throws -> String {
        advance()
        var text = String.UnicodeScalarView()
        while let character = peek() {
            advance()
            if character == mark { return String(text) }
            if character == "\\" {
                try appendEscape(to: &text)
            } else {
                text.append(character)
            }
        }
        throw failure("expected a closing \(mark)", at: place)
    }

    private mutating func appendEscape(to text: inout String.UnicodeScalarView) throws {
        guard let character = peek() else { return }
        advance()
        switch character {
        case "\\", "\"", "'": text.append(character)
        case "n": text.append("\n")
        case "r": text.append("\r")
        case "t": text.append("\t")
        case "b": text.append("\u{8}")
        case "f": text.append("\u{C}")
        case "0": text.append("\0")
        case "u": try appendUnicodeEscape(to: &text)
        default:
            text.append("\\")
            text.append(character)
        }
    }

    /// `XXXX`, or two of them that form a surrogate pair, as in JSON.
    private mutating func appendUnicodeEscape(to text: inout String.UnicodeScalarView) throws {
        let start = place - 2
        var units = [try hexadecimalUnit(of: start)]
        if UTF16.isLeadSurrogate(units[0]), peek() == "\\", peek(1) == "u" {
            advance(by: 2)
            units.append(try hexadecimalUnit(of: start))
        }
        guard let decoded = String(validating: units, as: UTF16.self) else {
            throw failure("expected a Unicode character in the escape", at: start)
        }
        text.append(contentsOf: decoded.unicodeScalars)
    }

    private mutating func hexadecimalUnit(of start: Int) throws -> UInt16 {
        let digits = (0..<4).compactMap { peek($0) }.map(String.init).joined()
        guard digits.utf8.count == 4, digits.allSatisfy(\.isHexDigit),
            let unit = UInt16(digits, radix: 16)
        else { throw failure("expected four hexadecimal digits in the escape", at: start) }
        advance(by: 4)
        return unit
    }

    // MARK: - Numbers

    /// Whether a digit follows the current dot.
    var beginsNumber: Bool { peek(1)?.isASCIIDigit == true }

    /// A date without quotation marks, such as `2020-01-31`, which would be the difference of three numbers.
    private var beginningDate: String? {
        var text = ""
        for (index, expected) in "0000-00-00".enumerated() {
            guard let character = peek(index),
                expected == "-" ? character == "-" : ("0"..."9").contains(character)
            else { return nil }
            text.unicodeScalars.append(character)
        }
        if let next = peek(text.count), ("0"..."9").contains(next) { return nil }
        return text
    }

    /// An integer, `0x1F`, `0o17`, `0b11`, or a number with a fraction or an exponent, without a sign.
    mutating func number() throws -> PredicateToken.Kind {
        let start = place
        if let date = beginningDate {
            throw failure(
                "expected quotation marks around a date", at: start, found: date)
        }
        if let radix = radixPrefix() {
            advance(by: 2)
            let digits = place
            while let character = peek(), PredicateToken.isKeyPart(character) { advance() }
            guard let value = UInt64(text(from: digits), radix: radix) else {
                throw failure("expected an integer of at most 64 bits", at: start)
            }
            return .integer(value)
        }
        _ = skipDigits()
        var isInteger = true
        if peek() == ".", beginsNumber {
            isInteger = false
            advance()
            _ = skipDigits()
        }
        if peek() == "e" || peek() == "E" {
            isInteger = false
            advance()
            if peek() == "-" || peek() == "+" { advance() }
            guard skipDigits() else {
                throw failure("expected the digits of an exponent", at: place)
            }
        }
        if let character = peek(), PredicateToken.isKeyPart(character) || character == "." {
            throw failure("expected the end of the number", at: place)
        }
        let text = text(from: start)
        if !isInteger {
            guard let value = Double(text), value.isFinite else {
                throw failure("expected a number of at most 64 bits", at: start)
            }
            return .double(value)
        }
        guard let value = UInt64(text) else {
            throw failure("expected an integer of at most 64 bits", at: start)
        }
        return .integer(value)
    }

    private func radixPrefix() -> Int? {
        guard peek() == "0" else { return nil }
        switch peek(1) {
        case "x", "X": return 16
        case "o", "O": return 8
        case "b", "B": return 2
        default: return nil
        }
    }

    private mutating func skipDigits() -> Bool {
        let start = place
        while peek()?.isASCIIDigit == true { advance() }
        return place > start
    }
}

extension Unicode.Scalar {
    /// Whether it is an ASCII digit.
    fileprivate var isASCIIDigit: Bool { ("0" as Unicode.Scalar)...("9" as Unicode.Scalar) ~= self }
}
