public import Foundation
internal import QuireModel

// Foundation's macro writes calls of these for `localizedStandardContains` and `caseInsensitiveCompare`, but Foundation
// has them on Apple's systems only. Both mean here what our queries mean by them, whatever the language of the system.

extension PredicateExpressions {
    /// `a.localizedStandardContains(b)` in a predicate: whether a text contains another one, whatever the case and the
    /// diacritics of both; `CONTAINS[cd]`.
    public struct StringLocalizedStandardContains<
        Root: PredicateExpression, Other: PredicateExpression
    >: PredicateExpression where Root.Output: StringProtocol, Other.Output: StringProtocol {
        /// A truth value.
        public typealias Output = Bool
        static var options: QueryComparison.Options { [.caseInsensitive, .diacriticInsensitive] }

        /// The text to search.
        public let root: Root
        /// The text to find.
        public let other: Other

        /// Makes a node of two others.
        public init(root: Root, other: Other) {
            self.root = root
            self.other = other
        }

        /// Whether the text contains the other one.
        public func evaluate(_ bindings: PredicateBindings) throws -> Bool {
            try PredicateEvaluator(subject: nil).holds(
                .comparison(
                    QueryComparison(
                        .constant(.string(String(try root.evaluate(bindings)))), .contains,
                        .constant(.string(String(try other.evaluate(bindings)))),
                        options: Self.options)))
        }
    }

    // swift-format-ignore: AlwaysUseLowerCamelCase
    /// `a.localizedStandardContains(b)` in a predicate.
    @_disfavoredOverload
    public static func build_localizedStandardContains<Root, Other>(
        _ root: Root, _ other: Other
    ) -> StringLocalizedStandardContains<Root, Other> {
        StringLocalizedStandardContains(root: root, other: other)
    }

    /// `a.caseInsensitiveCompare(b)` in a predicate: how two texts compare, whatever their case, as `[c]` compares.
    ///
    /// Compare it with a constant: `let same = ComparisonResult.orderedSame`.
    public struct StringCaseInsensitiveCompare<
        Root: PredicateExpression, Other: PredicateExpression
    >: PredicateExpression where Root.Output: StringProtocol, Other.Output: StringProtocol {
        /// An order.
        public typealias Output = ComparisonResult

        /// The text on the left.
        public let root: Root
        /// The text on the right.
        public let other: Other

        /// Makes a node of two others.
        public init(root: Root, other: Other) {
            self.root = root
            self.other = other
        }

        /// How the texts compare.
        public func evaluate(_ bindings: PredicateBindings) throws -> ComparisonResult {
            let order = ValueOrder.compareBytes(
                TextFolding.fold(String(try root.evaluate(bindings)), .caseInsensitive),
                TextFolding.fold(String(try other.evaluate(bindings)), .caseInsensitive))
            return order < 0 ? .orderedAscending : order == 0 ? .orderedSame : .orderedDescending
        }
    }

    // swift-format-ignore: AlwaysUseLowerCamelCase
    /// `a.caseInsensitiveCompare(b)` in a predicate.
    @_disfavoredOverload
    public static func build_caseInsensitiveCompare<Root, Other>(
        _ root: Root, _ other: Other
    ) -> StringCaseInsensitiveCompare<Root, Other> {
        StringCaseInsensitiveCompare(root: root, other: other)
    }
}

// What the standard predicate type demands of its nodes.

extension PredicateExpressions.StringLocalizedStandardContains: Sendable
where Root: Sendable, Other: Sendable {}
extension PredicateExpressions.StringLocalizedStandardContains: Codable
where Root: Codable, Other: Codable {}
extension PredicateExpressions.StringLocalizedStandardContains: StandardPredicateExpression
where Root: StandardPredicateExpression, Other: StandardPredicateExpression {}
extension PredicateExpressions.StringCaseInsensitiveCompare: Sendable
where Root: Sendable, Other: Sendable {}
extension PredicateExpressions.StringCaseInsensitiveCompare: Codable
where Root: Codable, Other: Codable {}
extension PredicateExpressions.StringCaseInsensitiveCompare: StandardPredicateExpression
where Root: StandardPredicateExpression, Other: StandardPredicateExpression {}
