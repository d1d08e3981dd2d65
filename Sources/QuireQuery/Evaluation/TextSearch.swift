import Foundation
internal import QuireSystem

/// A full-text search query: `MATCHES TEXT` of the predicate language.
///
/// | query | finds texts with |
/// |---|---|
/// | `pride prejudice` | all of the words, anywhere |
/// | `"pride and prejudice"` | the words in sequence |
/// | `preju*`, `"pride and pre"*` | a word with this prefix, as the last one |
/// | `austen OR eliot` | either; `OR` in upper case separates whole lists of words |
/// | `austen -emma`, `austen NOT emma` | the first without the second |
///
/// Case is ignored, and so are diacritics of Latin letters; all characters but letters and digits separate words. These are
/// the rules of SQLite's FTS5, applied alike in memory and by the full-text indexes of stores.
///
/// ```swift
/// try TextSearch("caf* -tea").matches("Le Café")      // true
/// ```
public struct TextSearch: Sendable, Hashable {
    /// Words in sequence.
    fileprivate struct Phrase: Sendable, Hashable {
        var words: [[UInt8]]
        /// Whether the last word is a prefix.
        var isPrefix: Bool
    }

    /// Required phrases, and excluded phrases.
    fileprivate struct Group: Sendable, Hashable {
        var wanted: [Phrase] = []
        var unwanted: [Phrase] = []
        /// Whether a required term was dropped because it has no letters.
        var isVague = false
    }

    /// Alternatives.
    private var groups: [Group] = []

    /// Parses a query. One without any letter or digit matches nothing.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery`, with position and reason, if it cannot be parsed.
    public init(_ query: String) throws {
        var lexer = Lexer(query)
        var group = Group()
        var isNegated = false
        var isComplete = false
        while let token = try lexer.next() {
            switch token {
            case .or:
                if isNegated || !isComplete { throw lexer.expected("a word before “OR”") }
                try append(group, lexer)
                group = Group()
                isComplete = false
            case .and: if isNegated { throw lexer.expected("a word after “NOT”") }
            case .not:
                if isNegated { throw lexer.expected("a word after “NOT”") }
                isNegated = true
            case .phrase(let text, let isPrefix):
                let phrase = Phrase(words: TextTokenizer.words(of: text), isPrefix: isPrefix)
                if phrase.words.isEmpty {
                    if !isNegated { group.isVague = true }
                } else if isNegated {
                    group.unwanted.append(phrase)
                } else {
                    group.wanted.append(phrase)
                }
                isNegated = false
                isComplete = true
            }
        }
        if isNegated { throw lexer.expected("a word after “NOT”") }
        if !isComplete && !groups.isEmpty { throw lexer.expected("a word after “OR”") }
        try append(group, lexer)
    }

    private mutating func append(_ group: Group, _ lexer: Lexer) throws {
        if !group.wanted.isEmpty {
            groups.append(group)
        } else if !group.unwanted.isEmpty && !group.isVague {
            throw lexer.expected("a word to find, not only words to exclude")
        }
    }

    /// Whether a text matches.
    ///
    /// - Complexity: O(*n*) in the text, for each phrase.
    public func matches(_ text: String) -> Bool { matches([text]) }

    /// Whether texts, taken together, match. The words of a phrase must be in one of them.
    public func matches(_ texts: [String]) -> Bool {
        if groups.isEmpty { return false }
        let words = texts.map(TextTokenizer.words)
        return groups.contains { group in
            group.wanted.allSatisfy { $0.isIn(words) }
                && !group.unwanted.contains { $0.isIn(words) }
        }
    }

    /// The query in FTS5's syntax, to be bound as the right side of `MATCH`; `nil` if nothing can match.
    ///
    /// - Parameter columns: The index columns to search; `nil` for all.
    package func matchExpression(in columns: [String]? = nil) -> String? {
        if groups.isEmpty { return nil }
        let expression = groups.map { group in
            let wanted = group.wanted.map(\.expression).joined(separator: " AND ")
            if group.unwanted.isEmpty { return "(\(wanted))" }
            let unwanted = group.unwanted.map(\.expression).joined(separator: " OR ")
            return "((\(wanted)) NOT (\(unwanted)))"
        }.joined(separator: " OR ")
        guard let columns else { return expression }
        let names = columns.map { name in
            "\""
                + name.split(separator: "\"", omittingEmptySubsequences: false)
                .joined(separator: "\"\"") + "\""
        }
        return "{\(names.joined(separator: " "))} : (\(expression))"
    }
}

extension TextSearch.Phrase {
    /// Whether any text contains the phrase.
    fileprivate func isIn(_ texts: [[[UInt8]]]) -> Bool {
        texts.contains { text in
            guard text.count >= words.count else { return false }
            return (0...(text.count - words.count)).contains { start in
                words.indices.allSatisfy { index in
                    let found = text[start + index]
                    return isPrefix && index == words.count - 1
                        ? found.starts(with: words[index]) : found == words[index]
                }
            }
        }
    }

    /// The phrase in FTS5's syntax. Words contain nothing that needs escaping.
    fileprivate var expression: String {
        let text = words.map { String(decoding: $0, as: UTF8.self) }.joined(separator: " ")
        return "\"\(text)\"" + (isPrefix ? " *" : "")
    }
}

/// Splits a query into words, phrases and operators.
private struct Lexer {
    enum Token {
        case phrase(String, isPrefix: Bool)
        case or, and, not
    }

    private let characters: [Unicode.Scalar]
    private var position = 0

    init(_ query: String) { characters = Array(query.unicodeScalars) }

    mutating func next() throws -> Token? {
        while position < characters.count, characters[position].properties.isWhitespace {
            position += 1
        }
        guard position < characters.count else { return nil }
        if characters[position] == "-", position + 1 < characters.count,
            !characters[position + 1].properties.isWhitespace
        {
            position += 1
            return .not
        }
        if characters[position] == "\"" { return try phrase() }
        let start = position
        while position < characters.count, characters[position] != "\"",
            !characters[position].properties.isWhitespace
        {
            position += 1
        }
        let word = text(start..<position)
        switch word {
        case "OR": return .or
        case "AND": return .and
        case "NOT": return .not
        default: break
        }
        let isPrefix = word.hasSuffix("*") && word.utf8.count > 1
        return .phrase(word, isPrefix: isPrefix)
    }

    private mutating func phrase() throws -> Token {
        let start = position + 1
        guard let end = characters[start...].firstIndex(of: "\"") else {
            throw expected("a quotation mark that ends the phrase")
        }
        position = end + 1
        let isPrefix = position < characters.count && characters[position] == "*"
        if isPrefix { position += 1 }
        return .phrase(text(start..<end), isPrefix: isPrefix)
    }

    private func text(_ range: Range<Int>) -> String {
        var view = String.UnicodeScalarView()
        view.append(contentsOf: characters[range])
        return String(view)
    }

    /// The error for an unexpected token.
    func expected(_ what: String) -> QuireError {
        QuireError(
            .invalidQuery,
            "The full-text search cannot be read: expected \(what) at column \(position + 1).")
    }
}

// MARK: - Tokens

/// Tokenizes texts like SQLite's FTS5 with `unicode61 remove_diacritics 2`, so that full-text searches agree in memory and
/// in stores.
///
/// Words are runs of letters, digits and private-use characters as of Unicode 6.1; later characters count as letters. Case
/// is folded character by character, and ASCII letters lose their diacritics.
enum TextTokenizer {
    /// The folded words of a text in order, in UTF-8 for comparison by bytes.
    static func words(of text: String) -> [[UInt8]] {
        var words: [[UInt8]] = []
        var word: [UInt8] = []
        func end() {
            if word.isEmpty { return }
            words.append(word)
            word.removeAll(keepingCapacity: true)
        }
        for scalar in text.unicodeScalars {
            if scalar.isASCII {
                let byte = UInt8(truncatingIfNeeded: scalar.value)
                switch byte {
                case 0x30...0x39, 0x61...0x7A: word.append(byte)
                case 0x41...0x5A: word.append(byte | 0x20)
                default: end()
                }
            } else if isLetter(scalar) {
                word.append(
                    contentsOf: UTF8.encode(fold(scalar)) ?? UTF8.encodedReplacementCharacter)
            } else if word.isEmpty || !isDiacritic(scalar) {
                end()
            }
        }
        end()
        return words
    }

    // MARK: - Characters

    /// Whether the character is part of a word.
    private static func isLetter(_ scalar: Unicode.Scalar) -> Bool {
        guard isKnown(scalar) else { return true }
        switch scalar.value {
        // Marks that have become letters since, and vice versa.
        case 0x19B0...0x19C0, 0x19C8, 0x19C9, 0x1CF2, 0x1CF3: return false
        case 0x1885, 0x1886: return true
        default: break
        }
        switch scalar.properties.generalCategory {
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter,
            .decimalNumber, .letterNumber, .otherNumber, .privateUse:
            return true
        // U+FFFE and U+FFFF are noncharacters; other unassigned ones count as letters.
        case .unassigned: return scalar.value < 0xFFFE || scalar.value > 0xFFFF
        default: return false
        }
    }

    /// Whether the character is assigned in Unicode 6.1.
    private static func isKnown(_ scalar: Unicode.Scalar) -> Bool {
        guard let age = scalar.properties.age else { return false }
        return age.major < 6 || (age.major == 6 && age.minor <= 1)
    }

    /// Whether the character neither is part of a word nor ends one: diacritics of Latin letters.
    private static func isDiacritic(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x300...0x304, 0x306...0x30C, 0x30F, 0x311, 0x31B, 0x323...0x328, 0x32D, 0x32E, 0x330,
            0x331:
            true
        default: false
        }
    }

    /// The lowercase letter without diacritics.
    private static func fold(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        guard isKnown(scalar) else { return scalar }
        switch scalar.value {
        case 0x130: return "i"
        case 0x131: return scalar
        // A letter with two marks.
        case 0x1E0, 0x1E1: return "ǡ"
        default: break
        }
        let upper = single(scalar.properties.uppercaseMapping) ?? scalar
        let lower = single(upper.properties.lowercaseMapping) ?? scalar
        guard isKnown(lower) else { return scalar }
        let parts = String(lower).decomposedStringWithCanonicalMapping.unicodeScalars
        if let first = parts.first, parts.count > 1, first.isASCII, first.properties.isAlphabetic {
            return first
        }
        return lower
    }

    private static func single(_ text: String) -> Unicode.Scalar? {
        let scalars = text.unicodeScalars
        guard let first = scalars.first, scalars.count == 1 else { return nil }
        return first
    }
}
