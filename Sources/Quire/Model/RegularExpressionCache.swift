import Foundation
import Synchronization

/// A regular expression in ICU's syntax, as Core Data takes it, that texts match as a whole.
struct WholeTextExpression: Sendable {
    private let expression: NSRegularExpression

    init(_ pattern: String) throws {
        // By itself first: “a)(b” is malformed, but would not be in parentheses.
        _ = try NSRegularExpression(pattern: pattern)
        expression = try NSRegularExpression(pattern: "\\A(?:\(pattern))\\z")
    }

    func matches(_ text: String) -> Bool {
        let whole = NSRange(location: 0, length: text.utf16.count)
        return expression.firstMatch(in: text, range: whole) != nil
    }
}

/// The compiled regular expressions of attributes: compiling one takes much longer than matching.
enum RegularExpressionCache {
    /// Models have few expressions; a program that makes up new ones for ever must not fill the memory.
    private static let greatestCount = 1_000
    private static let expressions = Mutex<[String: WholeTextExpression]>([:])

    /// - Throws: ``QuireError`` with code `invalidModel` if the expression is malformed.
    static func expression(for pattern: String) throws -> WholeTextExpression {
        if let known = expressions.withLock({ $0[pattern] }) { return known }
        let compiled: WholeTextExpression
        do { compiled = try WholeTextExpression(pattern) } catch {
            throw QuireError(
                .invalidModel, "The regular expression “\(pattern)” is malformed.",
                underlying: error)
        }
        expressions.withLock {
            if $0.count >= greatestCount { $0.removeAll() }
            $0[pattern] = compiled
        }
        return compiled
    }
}
