internal import QuireSystem

/// A token of a predicate's format string, with its position.
struct PredicateToken {
    /// The kind of token.
    enum Kind: Equatable {
        case keyword(Keyword)
        /// A key path; for `SELF.…` the keys after it. Operators include their `@`.
        case keyPath([String])
        /// The keys after a value: `.key.key`.
        case path([String])
        /// `$name.key.key`
        case variable(String, [String])
        /// The name of a function with its colons: `modulus:by:`.
        case selector(String)
        case string(String)
        /// An unsigned integer.
        case integer(UInt64)
        /// An unsigned number.
        case double(Double)
        /// The placeholder for the argument with an index.
        case placeholder(Placeholder, argument: Int)
        case comparison(QueryComparison.Operator)
        /// The function of an infix operator: `+`.
        case infix(QueryFunction)
        /// `~`
        case onesComplement
        case and, or, not
        case openParenthesis, closeParenthesis
        case openBrace, closeBrace
        case openBracket, closeBracket
        case comma
        case end
    }

    /// A reserved word, case-insensitive; a key of the same name is written `#key`. Other words, such as `UNION` and
    /// `FIRST`, are not reserved, because they occur where no key can.
    enum Keyword: String, CaseIterable {
        case and, or, not
        case any, some, all, none
        case `in`, between, beginswith, endswith, contains, like, matches
        case yes, no, `true`, `false`, null, `nil`
        case `self`
        case truepredicate, falsepredicate
        case cast, function, subquery
    }

    /// The conversions of `%…`, by their argument.
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
    /// The column of its first character, from 1.
    let column: Int
    /// The text as written.
    let text: String
}

extension PredicateToken {
    /// The token kind of a keyword.
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

    /// Whether it is the given non-reserved word, in lower case.
    func isWord(_ word: String) -> Bool {
        guard case .keyPath = kind else { return false }
        return text.lowercased() == word
    }

    /// Whether it is an unsigned number.
    var isNumber: Bool {
        switch kind {
        case .integer, .double: true
        default: false
        }
    }

    /// Whether it can begin a value.
    var beginsValue: Bool {
        switch kind {
        case .keyPath, .variable, .selector, .string, .integer, .double, .placeholder, .keyword,
            .openParenthesis, .openBrace, .infix(.subtract), .onesComplement:
            true
        default: false
        }
    }

    /// Whether a key can be written in a format string, escaped by `#` if necessary.
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

// MARK: - Operators of key paths

/// An operator in a key path: `books.@sum.pages`.
enum KeyPathOperator: String, CaseIterable {
    case count
    case sum
    case average = "avg"
    case minimum = "min"
    case maximum = "max"
    case distinctUnionOfObjects
    case unionOfObjects
    // Paths through several to-many relationships are flat: of collections means the same.
    case distinctUnionOfSets
    case distinctUnionOfArrays
    case unionOfSets
    case unionOfArrays

    /// The function applied to the values at the key path; `nil` for the identity.
    var function: QueryFunction? {
        switch self {
        case .count: .count
        case .sum: .sum
        case .average: .average
        case .minimum: .minimum
        case .maximum: .maximum
        case .distinctUnionOfObjects, .distinctUnionOfSets, .distinctUnionOfArrays: .distinct
        case .unionOfObjects, .unionOfSets, .unionOfArrays: nil
        }
    }

    /// Whether it is multi-valued, so that another operator can follow.
    var givesMany: Bool { function == .distinct || function == nil }

    /// The operator of a key, if it is one.
    init?(key: String) {
        guard key.hasPrefix("@") else { return nil }
        self.init(rawValue: String(key.dropFirst()))
    }

    /// The operator for a function.
    init?(_ function: QueryFunction) {
        guard let found = Self.allCases.first(where: { $0.function == function }) else {
            return nil
        }
        self = found
    }

    /// The expected names, for an error message: similar ones only, if there are any.
    static func expectation(of name: String) -> String {
        let close = CloseNames.of(name, among: allCases.map(\.rawValue))
        let names = close.isEmpty ? allCases.map(\.rawValue) : close
        return "expected " + (names.count > 1 ? "one of " : "")
            + names.map { "@\($0)" }.joined(separator: ", ")
    }
}
