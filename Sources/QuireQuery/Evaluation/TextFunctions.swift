import Foundation
internal import QuireModel
internal import QuireSystem

/// Text functions shared by SQL and memory. Compiled patterns are cached.
///
/// A store registers three SQL functions that call these: `QUIRE_FOLD(text, options)`, `QUIRE_LIKE(pattern, text, options)`
/// and `QUIRE_MATCHES(pattern, text, options)`, all deterministic; options is the raw value of ``QueryComparison/Options``,
/// and the result is NULL if the text or pattern is.
package enum TextFunctions {
    /// The name of the SQL function that folds a text.
    package static let foldName = "QUIRE_FOLD"
    /// The name of the SQL function for `LIKE`.
    package static let likeName = "QUIRE_LIKE"
    /// The name of the SQL function for `MATCHES`.
    package static let matchesName = "QUIRE_MATCHES"
    /// The name of the SQL function for `MATCHES TEXT` without an index.
    package static let matchesTextName = "QUIRE_MATCHES_TEXT"

    /// The text with the differences ignored by the options removed.
    package static func fold(_ text: String, options: Int64) -> String {
        TextFolding.fold(text, comparisonOptions(options))
    }

    /// Whether the text matches the pattern.
    package static func like(pattern: String, text: String, options: Int64) -> Bool {
        like(pattern, text, comparisonOptions(options))
    }

    /// Whether the text matches the regular expression.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if the pattern is malformed or takes too long.
    package static func matches(pattern: String, text: String, options: Int64) throws -> Bool {
        try matches(pattern, text, comparisonOptions(options))
    }

    static func like(
        _ pattern: String, _ text: String, _ options: QueryComparison.Options
    ) -> Bool {
        patterns.value(for: PatternKey(pattern: pattern, options: options)) {
            TextPattern(pattern, options)
        }.matches(text)
    }

    static func matches(
        _ pattern: String, _ text: String, _ options: QueryComparison.Options
    ) throws -> Bool {
        try expression(pattern, options).matches(text)
    }

    /// Checks a pattern of `MATCHES`.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if it is not a valid regular expression.
    static func check(_ pattern: String, _ options: QueryComparison.Options) throws {
        _ = try expression(pattern, options)
    }

    /// Whether the words of a text satisfy a full-text query: `MATCHES TEXT`.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if the query cannot be parsed.
    package static func matchesText(query: String, text: String) throws -> Bool {
        try search(query).matches(text)
    }

    /// A full-text query.
    package static func search(_ query: String) throws -> TextSearch {
        try searches.value(for: PatternKey(pattern: query, options: [])) { try TextSearch(query) }
    }

    private static func expression(
        _ pattern: String, _ options: QueryComparison.Options
    ) throws -> TextExpression {
        try expressions.value(for: PatternKey(pattern: pattern, options: options)) {
            try TextExpression(pattern, options)
        }
    }

    private static func comparisonOptions(_ bits: Int64) -> QueryComparison.Options {
        QueryComparison.Options(rawValue: UInt8(truncatingIfNeeded: bits))
    }

    private static let patterns = BoundedCache<PatternKey, TextPattern>(maximumCount: 256)
    private static let expressions = BoundedCache<PatternKey, TextExpression>(maximumCount: 256)
    private static let searches = BoundedCache<PatternKey, TextSearch>(maximumCount: 256)
}

private struct PatternKey: Hashable {
    let pattern: String
    let options: QueryComparison.Options

    /// Compares bytes, as equal strings may differ in their bytes.
    static func == (left: PatternKey, right: PatternKey) -> Bool {
        left.options == right.options && left.pattern.utf8.elementsEqual(right.pattern.utf8)
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(pattern.utf8.count)
        hasher.combine(pattern)
        hasher.combine(options)
    }
}

// MARK: - Expressions

/// The right side of `MATCHES`: a regular expression (ICU) that must match the whole text. SQL calls it as
/// `QUIRE_MATCHES(pattern, text, options)`.
struct TextExpression: Sendable {
    private let expression: WholeTextExpression
    private let options: QueryComparison.Options
    private let pattern: String

    /// Compiles a regular expression.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if it is malformed.
    init(_ pattern: String, _ options: QueryComparison.Options) throws {
        self.pattern = pattern
        self.options = options
        do {
            expression = try WholeTextExpression(
                TextFolding.fold(pattern, options.intersection(.diacriticInsensitive)),
                ignoresCase: options.contains(.caseInsensitive))
        } catch {
            throw QuireError(
                .invalidQuery, "“\(pattern)” after MATCHES is not a valid regular expression.",
                underlying: error)
        }
    }

    /// Whether the text as a whole matches.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if it exceeds ``WholeTextExpression/timeLimit``.
    func matches(_ text: String) throws -> Bool {
        do {
            return try expression.matches(
                TextFolding.fold(text, options.intersection(.diacriticInsensitive)))
        } catch {
            throw QuireError(
                .invalidQuery,
                "“\(pattern)” after MATCHES takes too long on a text of \(text.count) characters; "
                    + "write it without nested repetitions.")
        }
    }
}

// MARK: - Folding

/// Case and diacritics folding. SQL calls it as `QUIRE_FOLD(text, options)`, so that stores and memory agree.
///
/// - Case: every character by Unicode's simple case folding, so that ß and SS stay distinct.
/// - Diacritics: canonical decomposition without the combining marks, then composed again. Marks that form a different
///   letter in Indic and Japanese scripts are kept.
/// - `[l]`: canonically equivalent texts become the same by composition. `[n]` folds nothing.
package enum TextFolding {
    /// Folds a text.
    package static func fold(_ text: String, _ options: QueryComparison.Options) -> String {
        if options.isEmpty || options.contains(.normalized) { return text }
        var text = text
        var isASCII = true
        var hasUppercase = false
        text.withUTF8 { bytes in
            for byte in bytes {
                if byte >= 0x80 { isASCII = false }
                if byte &- 0x41 < 26 { hasUppercase = true }
            }
        }
        if isASCII {
            guard hasUppercase, options.contains(.caseInsensitive) else { return text }
            return foldASCII(text)
        }
        return foldUnicode(text, options)
    }

    private static func foldASCII(_ text: String) -> String {
        var text = text
        let count = text.utf8.count
        return text.withUTF8 { source in
            String(unsafeUninitializedCapacity: count) { target in
                for (index, byte) in source.enumerated() {
                    target.initializeElement(at: index, to: byte &- 0x41 < 26 ? byte | 0x20 : byte)
                }
                return count
            }
        }
    }

    // MARK: - Unicode

    /// Folds Latin texts by table, other texts by the general rule.
    private static func foldUnicode(_ text: String, _ options: QueryComparison.Options) -> String {
        let table = latin[Int(options.rawValue & 3)]
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            guard scalar.value < latinEnd else { return foldSlowly(text, options) }
            result.append(table[Int(scalar.value)])
        }
        return String(result)
    }

    /// The first non-Latin character: from here on, characters combine.
    private static let latinEnd: UInt32 = 0x300

    /// Folding table of the characters below ``latinEnd``, by options. They do not combine, so a text of them is folded
    /// character by character.
    private static let latin: [[Unicode.Scalar]] = (UInt8(0)..<4).map { bits in
        let options = QueryComparison.Options(rawValue: bits)
        return (0..<latinEnd).compactMap(Unicode.Scalar.init).map { scalar in
            let folded = foldSlowly(String(scalar), options).unicodeScalars
            return folded.count == 1 ? folded.first ?? scalar : scalar
        }
    }

    private static func foldSlowly(_ text: String, _ options: QueryComparison.Options) -> String {
        var result = String.UnicodeScalarView()
        let ignoresCase = options.contains(.caseInsensitive)
        let ignoresDiacritics = options.contains(.diacriticInsensitive)
        let source = ignoresDiacritics ? text.decomposedStringWithCanonicalMapping : text
        for scalar in source.unicodeScalars {
            if ignoresDiacritics, isDiacritic(scalar) { continue }
            result.append(ignoresCase ? foldCase(scalar) : scalar)
        }
        return ignoresDiacritics || options.contains(.localized)
            ? String(result).precomposedStringWithCanonicalMapping : String(result)
    }

    private static func isDiacritic(_ scalar: Unicode.Scalar) -> Bool {
        guard scalar.properties.generalCategory == .nonspacingMark else { return false }
        switch scalar.properties.canonicalCombiningClass.rawValue {
        // Not reordered: Han readings, nukta, kana voicing, virama are part of the letter.
        case 0, 6, 7, 8, 9: return false
        default: return true
        }
    }

    /// Simple case folding: the lowercase of an uppercase letter, where both are single characters. So the final sigma is a
    /// sigma. The dotless i is unchanged, although its uppercase is I.
    private static func foldCase(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        if scalar == "ı" { return scalar }
        let upper = single(scalar.properties.uppercaseMapping) ?? scalar
        return single(upper.properties.lowercaseMapping) ?? scalar
    }

    private static func single(_ text: String) -> Unicode.Scalar? {
        let scalars = text.unicodeScalars
        guard let first = scalars.first, scalars.count == 1 else { return nil }
        return first
    }
}
