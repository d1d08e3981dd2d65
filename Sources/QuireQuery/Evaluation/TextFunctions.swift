internal import QuireSystem

/// What SQL and memory ask about texts in common. Patterns are compiled once and kept.
///
/// A store registers three SQL functions that call these: `QUIRE_FOLD(text, options)`,
/// `QUIRE_LIKE(pattern, text, options)` and `QUIRE_MATCHES(pattern, text, options)`, all deterministic, where
/// options is the raw value of ``QueryComparison/Options`` and a result is NULL if the text or pattern is.
package enum TextFunctions {
    /// The name of the SQL function that folds a text.
    package static let foldName = "QUIRE_FOLD"
    /// The name of the SQL function behind `LIKE`.
    package static let likeName = "QUIRE_LIKE"
    /// The name of the SQL function behind `MATCHES`.
    package static let matchesName = "QUIRE_MATCHES"
    /// The name of the SQL function behind `MATCHES TEXT` where no index serves it.
    package static let matchesTextName = "QUIRE_MATCHES_TEXT"

    /// The text without differences that the options ignore.
    package static func fold(_ text: String, options: Int64) -> String {
        TextFolding.fold(text, comparisonOptions(options))
    }

    /// Whether the text has the pattern's form.
    package static func like(pattern: String, text: String, options: Int64) -> Bool {
        like(pattern, text, comparisonOptions(options))
    }

    /// Whether the text matches the regular expression.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if it is none or takes too long.
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
    /// - Throws: ``QuireError`` with code `invalidQuery` if it is no regular expression.
    static func check(_ pattern: String, _ options: QueryComparison.Options) throws {
        _ = try expression(pattern, options)
    }

    /// Whether the words of a text satisfy a full-text query: `MATCHES TEXT`.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if the query cannot be read.
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

    private static let patterns = BoundedCache<PatternKey, TextPattern>(greatestCount: 256)
    private static let expressions = BoundedCache<PatternKey, TextExpression>(greatestCount: 256)
    private static let searches = BoundedCache<PatternKey, TextSearch>(greatestCount: 256)
}

private struct PatternKey: Hashable {
    let pattern: String
    let options: QueryComparison.Options

    /// By bytes, as equal texts may be of different bytes.
    static func == (left: PatternKey, right: PatternKey) -> Bool {
        left.options == right.options && left.pattern.utf8.elementsEqual(right.pattern.utf8)
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(pattern.utf8.count)
        hasher.combine(pattern)
        hasher.combine(options)
    }
}
