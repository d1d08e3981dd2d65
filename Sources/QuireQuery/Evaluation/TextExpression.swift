internal import QuireModel
internal import QuireSystem

/// The right side of `MATCHES`: a regular expression (ICU) that the text as a whole must match. SQL calls it as
/// `QUIRE_MATCHES(pattern, text, options)`.
struct TextExpression: Sendable {
    private let expression: WholeTextExpression
    private let options: QueryComparison.Options
    private let pattern: String

    /// Reads a regular expression.
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
                .invalidQuery, "“\(pattern)” behind MATCHES is no valid regular expression.",
                underlying: error)
        }
    }

    /// Whether the text as a whole matches.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if that takes longer than ``WholeTextExpression/timeLimit``.
    func matches(_ text: String) throws -> Bool {
        do {
            return try expression.matches(
                TextFolding.fold(text, options.intersection(.diacriticInsensitive)))
        } catch {
            throw QuireError(
                .invalidQuery,
                "“\(pattern)” behind MATCHES takes too long on a text of \(text.count) characters; "
                    + "write it without repetitions within repetitions.")
        }
    }
}
