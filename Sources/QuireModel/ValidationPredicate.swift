import Dispatch
import Foundation
internal import QuireSystem

/// A condition on an attribute's value, beyond its range and form.
///
/// ```swift
/// year.validationPredicates = [
///     ValidationPredicate("modulus(SELF, 2) == 0 OR SELF > 1900", message: "must be even before 1900")
/// ]
/// ```
public struct ValidationPredicate: Sendable, Hashable {
    /// The condition in the predicate format language. `SELF` is the value, and `length` or `SELF.length` the length of a
    /// text in UTF-16 code units; other keys are properties of the object.
    public var format: String
    /// The error message for a value that does not satisfy it; it follows the attribute's name.
    public var message: String?

    /// Creates a condition.
    public init(_ format: String, message: String? = nil) {
        self.format = format
        self.message = message
    }
}

/// Model files can keep such conditions only in an attribute's user info.
extension [ValidationPredicate] {
    private static var predicateKey: String { "quire.validationPredicate" }
    private static var messageKey: String { "quire.validationMessage" }

    private static func key(_ base: String, _ index: Int) -> String {
        index == 0 ? base : "\(base).\(index + 1)"
    }

    /// The equivalent entries in a model file.
    package var userInfoEntries: [String: String] {
        var entries: [String: String] = [:]
        for (index, predicate) in enumerated() {
            entries[Self.key(Self.predicateKey, index)] = predicate.format
            if let message = predicate.message {
                entries[Self.key(Self.messageKey, index)] = message
            }
        }
        return entries
    }

    /// Moves the conditions out of the user info entries of a model file.
    package init(takingFrom userInfo: inout [String: String]) {
        self.init()
        while let format = userInfo.removeValue(forKey: Self.key(Self.predicateKey, count)) {
            let message = userInfo.removeValue(forKey: Self.key(Self.messageKey, count))
            append(ValidationPredicate(format, message: message))
        }
    }
}

// MARK: - Regular expressions

/// A regular expression in ICU's syntax, as used by Core Data, that matches whole texts.
///
/// Patterns such as `(a+)+b` can take exponential time. A match that exceeds ``timeLimit`` throws, so that no pattern hangs
/// a program; there is no limit on the total time of many matches.
package struct WholeTextExpression: Sendable {
    /// A match exceeded ``WholeTextExpression/timeLimit``.
    package struct TimeLimitExceeded: Error {}

    /// The maximum time of a match in seconds.
    static let timeLimit = 1.0
    /// The limit of progress callbacks. After about 3,400 to 4,200 the engine aborts by itself and reports no match, which
    /// may be wrong.
    private static let maximumReportCount = 2_500

    private let expression: NSRegularExpression

    /// - Throws: The error of `NSRegularExpression` if the pattern is malformed.
    package init(_ pattern: String, ignoresCase: Bool = false) throws {
        let options: NSRegularExpression.Options = ignoresCase ? .caseInsensitive : []
        // Compiled unwrapped first: “a)(b” is malformed, but valid in parentheses. ICU rejects an empty pattern only
        // unwrapped.
        if !pattern.isEmpty { _ = try NSRegularExpression(pattern: pattern, options: options) }
        // The second form is for a pattern that ends with a comment.
        expression =
            try (try? NSRegularExpression(pattern: "\\A(?:\(pattern))\\z", options: options))
            ?? NSRegularExpression(pattern: "\\A(?:\(pattern)\n)\\z", options: options)
    }

    /// Whether a text as a whole matches.
    package func matches(_ text: String) throws(TimeLimitExceeded) -> Bool {
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
            } else if reports > Self.maximumReportCount
                || DispatchTime.now().uptimeNanoseconds - start > UInt64(Self.timeLimit * 1e9)
            {
                isLate = true
                stop.pointee = true
            }
        }
        guard isMatch || !isLate else { throw TimeLimitExceeded() }
        return isMatch
    }
}

/// The compiled regular expressions of attributes: compiling one takes much longer than matching.
enum RegularExpressionCache {
    /// Keyed by bytes: patterns equal to Swift may match differently.
    private static let expressions = BoundedCache<[UInt8], WholeTextExpression>(
        maximumCount: 1_000)

    /// - Throws: ``QuireError`` with code `invalidModel` if the expression is malformed, as an empty one is.
    static func expression(for pattern: String) throws -> WholeTextExpression {
        try expressions.value(for: Array(pattern.utf8)) {
            do {
                // Throws ICU's own error.
                if pattern.isEmpty { _ = try NSRegularExpression(pattern: pattern) }
                return try WholeTextExpression(pattern)
            } catch {
                throw QuireError(
                    .invalidModel, "The regular expression “\(pattern)” is malformed.",
                    underlying: error)
            }
        }
    }
}
