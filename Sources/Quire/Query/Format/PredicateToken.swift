/// A word of a predicate's format string, with its place.
struct PredicateToken {
    /// What the word is.
    enum Kind: Equatable {
        case keyword(Keyword)
        /// A key path; the keys behind `SELF.` if it began so.
        case keyPath([String])
        case variable(String)
        case string(String)
        case integer(Int64)
        case double(Double)
        /// A place for the argument of that index.
        case placeholder(Placeholder, argument: Int)
        case comparison(QueryComparison.Operator)
        case and, or, not
        case openParenthesis, closeParenthesis
        case openBrace, closeBrace
        case openBracket, closeBracket
        case comma
        case end
    }

    /// A reserved word. Case does not matter; a key of the same name is written `#key`.
    enum Keyword: String, CaseIterable {
        case and, or, not
        case any, some, all, none
        case `in`, between, beginswith, endswith, contains, like, matches
        case yes, no, `true`, `false`, null, `nil`
        case `self`
        case truepredicate, falsepredicate
        case cast, function, subquery
    }

    /// The conversions of `%…`, by what they ask of the argument.
    enum Placeholder: Equatable {
        /// `%@`
        case value
        /// `%K`
        case keyPath
        /// `%d %i %u %x`, with any length
        case integer
        /// `%f %e %g %a`, with any length
        case double
    }

    let kind: Kind
    /// The character it begins at, from 1.
    let column: Int
    /// As it is written.
    let text: String
}

extension PredicateToken {
    /// The words of another language element than a key path, with what they stand for.
    static func kind(of keyword: Keyword) -> Kind {
        switch keyword {
        case .and: .and
        case .or: .or
        case .not: .not
        case .in: .comparison(.in)
        case .between: .comparison(.between)
        case .beginswith: .comparison(.beginsWith)
        case .endswith: .comparison(.endsWith)
        case .contains: .comparison(.contains)
        case .like: .comparison(.like)
        case .matches: .comparison(.matches)
        default: .keyword(keyword)
        }
    }

    /// Whether a key can be written in a format string, if need be with `#` before it.
    static func isKey(_ text: String) -> Bool {
        guard let first = text.unicodeScalars.first, isKeyStart(first) else { return false }
        return text.unicodeScalars.allSatisfy(isKeyPart)
    }

    static func isKeyStart(_ character: Unicode.Scalar) -> Bool {
        character == "_" || character.properties.isXIDStart
    }

    static func isKeyPart(_ character: Unicode.Scalar) -> Bool {
        character.properties.isXIDContinue
    }
}
