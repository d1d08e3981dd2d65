import Dispatch
import Foundation

/// The right side of `MATCHES`: a regular expression (ICU) that the text as a whole must match. SQL calls it as
/// `QUIRE_MATCHES(pattern, text, options)`.
///
/// Patterns such as `(a+)+b` can take time that grows exponentially with the text. A match that takes longer
/// than ``timeLimit`` ends in an error, so that no pattern stops a program; many texts that each take a little
/// less are not guarded against.
final class TextExpression: Sendable {
    private let expression: NSRegularExpression
    private let options: QueryComparison.Options
    private let pattern: String

    /// The longest time in seconds that one match may take.
    static let timeLimit = 1.0
    /// How often the engine may report progress. After about 3,400 to 4,200 reports it gives up by itself and
    /// says that there is no match, which may be wrong.
    private static let greatestReportCount = 2_500

    /// Reads a regular expression.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if it is none.
    init(_ pattern: String, _ options: QueryComparison.Options) throws {
        self.pattern = pattern
        self.options = options
        let source = TextFolding.fold(pattern, options.intersection(.diacriticInsensitive))
        let flags: NSRegularExpression.Options =
            options.contains(.caseInsensitive) ? .caseInsensitive : []
        do {
            // Alone first, lest "a)(b" become valid within the parentheses. Nothing alone is no pattern to ICU.
            if !source.isEmpty { _ = try NSRegularExpression(pattern: source, options: flags) }
            // The second form is for a pattern that ends with a comment.
            expression =
                try (try? NSRegularExpression(pattern: #"\A(?:\#(source))\z"#, options: flags))
                ?? NSRegularExpression(pattern: "\\A(?:\(source)\n)\\z", options: flags)
        } catch {
            throw QuireError(
                .invalidQuery, "“\(pattern)” behind MATCHES is no valid regular expression.",
                underlying: error)
        }
    }

    /// Whether the text as a whole matches.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if finding out takes longer than ``timeLimit``.
    func matches(_ text: String) throws -> Bool {
        let text = TextFolding.fold(text, options.intersection(.diacriticInsensitive))
        var isMatch = false
        var isLate = false
        var reports = 0
        let start = DispatchTime.now().uptimeNanoseconds
        expression.enumerateMatches(
            in: text, options: [.anchored, .reportProgress, .reportCompletion],
            range: NSRange(location: 0, length: text.utf16.count)
        ) { result, flags, stop in
            reports += 1
            if result != nil {
                isMatch = true
                stop.pointee = true
            } else if flags.contains(.internalError) {
                isLate = true
            } else if reports > Self.greatestReportCount
                || DispatchTime.now().uptimeNanoseconds - start > UInt64(Self.timeLimit * 1e9)
            {
                isLate = true
                stop.pointee = true
            }
        }
        guard isMatch || !isLate else {
            throw QuireError(
                .invalidQuery,
                "“\(pattern)” behind MATCHES takes too long on a text of \(text.count) characters; "
                    + "write it without repetitions within repetitions.")
        }
        return isMatch
    }
}
