public import Foundation
public import QuireModel

extension QueryPredicate {
    /// Parses a predicate in Core Data's predicate format language.
    ///
    /// ```swift
    /// try QueryPredicate(format: "author.name BEGINSWITH[cd] %@ AND year BETWEEN {%d, %d}", "aus", 1800, 1820)
    /// try QueryPredicate(format: "ANY tags.name IN %@ OR %K == nil", ["new", "read"], "owner")
    /// try QueryPredicate(format: "SUBQUERY(books, $b, $b.year < 1800 AND $b.pages > 300).@count > 2")
    /// try QueryPredicate(format: "price * (1 + tax / 100) > %f AND length(title) < 20", 9.99)
    /// ```
    ///
    /// Words are case-insensitive, except for operators in key paths and methods in `FUNCTION`.
    ///
    /// **Conditions**
    /// - Comparisons: `== = != <> < <= =< > >= => BEGINSWITH ENDSWITH CONTAINS LIKE MATCHES IN BETWEEN`, followed by any of
    ///   `[c]`, `[d]`, `[n]`, `[l]`, such as `[cd]`; see ``QueryComparison/Options``. `MATCHES TEXT` is a Quire
    ///   extension.
    /// - `ANY` or `SOME`, `ALL`, `NONE` before a comparison whose left side has several values.
    /// - Logic: `AND &&`, `OR ||`, `NOT !`, parentheses, `TRUEPREDICATE`, `FALSEPREDICATE`. `NOT` precedes the whole
    ///   comparison: `NOT year IN {1800, 1801}`.
    ///
    /// **Values**
    /// - Key paths (`author.name`; `#in` where a key is a reserved word), `SELF`, `SELF.name`, `$VARIABLES` and key paths of
    ///   them (`$book.author.name`).
    /// - Texts in `"…"` or `'…'`, numbers (`12`, `-0.5`, `1e3`, `0x1F`, `0o17`, `0b101`), `YES NO TRUE FALSE NULL NIL`,
    ///   and several values as `{1, 2, 3}`.
    /// - Other types: `CAST("2001-01-01T00:00:00Z", "NSDate")` (or seconds since then), likewise ``QueryCast``'s other
    ///   types, of any value.
    /// - `**`, which binds tightest and is right-associative; `- ~` before a value; `* /`; `+ -`; `<< >>`; `&`; `^`; `|`;
    ///   `UNION INTERSECT MINUS`. A sign before a number is part of it unless a value precedes it: `-2 ** 2` is 4, and
    ///   `a -1` a subtraction.
    /// - Key path operators: `books.@count`, `books.@sum.pages` and `@avg`, `@min`, `@max`, `@distinctUnionOfObjects`,
    ///   `@unionOfObjects` (`…OfSets` and `…OfArrays` mean the same); also after other values, and with the keys before the
    ///   operator (`books.pages.@sum`).
    /// - `SUBQUERY(books, $b, $b.year < 1800)`, optionally followed by `.@count`, `.@max.pages` or `.title`.
    /// - `a[0]`, `a[FIRST]`, `a[LAST]`, `a[SIZE]`.
    /// - `TERNARY(year < 1800, "old", "new")`.
    /// - Functions: `abs ceiling floor trunc sqrt ln log exp`, `modulus(a, b)`, `random()`, `random(n)`, `bitwiseAnd(a, b)
    ///   bitwiseOr bitwiseXor leftshift rightshift onesComplement`, `uppercase lowercase canonical length`, `now()`,
    ///   `sum count min max average median mode stddev distinct`, `noindex`; all by Core Data's names too:
    ///   `raise:toPower:(2, 3)`, `castObject:toType:(x, "NSDate")`. See ``QueryFunction``.
    /// - `FUNCTION("raise:toPower:", 2, 3)`, and `FUNCTION(value, "method", arguments…)` with those methods of
    ///   Foundation's classes that have a counterpart: `uppercaseString lowercaseString length lastPathComponent
    ///   dateByAddingTimeInterval: timeIntervalSinceDate: timeIntervalSinceReferenceDate doubleValue stringValue
    ///   absoluteString UUIDString count firstObject lastObject objectAtIndex: valueForKey: valueForKeyPath:`.
    /// - Placeholders outside texts: `%@` for a value, an expression or a predicate, `%K` for a key path, `%d %i %u %ld %lld`
    ///   for an integer, `%f` for a number.
    ///
    /// Texts may be of any length, but nesting is limited to 200 levels, so no text overflows the stack.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` and the column in its subject if the text cannot be parsed or the
    ///   arguments do not match.
    public init(format: String, _ arguments: (any QueryArgument)?...) throws {
        try self.init(format: format, arguments: arguments)
    }

    /// Parses a predicate; the short form of ``init(format:_:)``.
    public init(_ format: String, _ arguments: (any QueryArgument)?...) throws {
        try self.init(format: format, arguments: arguments)
    }

    /// Parses a predicate with its arguments in an array; see ``init(format:_:)``.
    public init(format: String, arguments: [(any QueryArgument)?]) throws {
        var parser = try PredicateParser(
            format, arguments: arguments.map { $0?.queryExpression ?? .constant(.null) })
        self = try parser.parse()
    }
}

extension QueryExpression {
    /// Parses an expression in Core Data's predicate format language.
    ///
    /// ```swift
    /// try QueryExpression(format: "books.@avg.pages * %d", 2)
    /// ```
    ///
    /// ``QueryPredicate/init(format:_:)`` documents the language.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` and the column in its subject if the text cannot be parsed or the
    ///   arguments do not match.
    public init(format: String, _ arguments: (any QueryArgument)?...) throws {
        try self.init(format: format, arguments: arguments)
    }

    /// Parses an expression with its arguments in an array; see ``init(format:_:)``.
    public init(format: String, arguments: [(any QueryArgument)?]) throws {
        var parser = try PredicateParser(
            format, noun: "expression",
            arguments: arguments.map { $0?.queryExpression ?? .constant(.null) })
        self = try parser.parseExpression()
    }
}

// MARK: - Arguments

/// An argument for a placeholder in a predicate's format string: values, keys, objects, lists of these.
///
/// ```swift
/// try QueryPredicate(format: "%K IN %@ AND published > %@", "author.name", names, date)
/// ```
///
/// An expression is an argument, too, so a predicate can be composed of parts that are not texts.
public protocol QueryArgument {
    /// The argument as part of a predicate.
    var queryExpression: QueryExpression { get }
}

extension QueryExpression: QueryArgument {
    /// The expression itself.
    public var queryExpression: QueryExpression { self }
}

extension QueryPredicate: QueryArgument {
    /// The predicate nested in another, as in `"%@ AND year < 1800"`; elsewhere, its truth value.
    public var queryExpression: QueryExpression {
        .conditional(self, .constant(true), .constant(false))
    }
}

extension AttributeValue: QueryArgument {
    /// The value as a constant.
    public var queryExpression: QueryExpression { .constant(self) }
}

extension Optional: QueryArgument where Wrapped: QueryArgument {
    /// The wrapped argument, or a missing value.
    public var queryExpression: QueryExpression { self?.queryExpression ?? .constant(.null) }
}

extension ResolvedEntity: QueryArgument {
    /// The entity's name, as in `entity == %@`.
    public var queryExpression: QueryExpression { .constant(.string(name)) }
}

// MARK: - Lists

extension Array: QueryArgument where Element: QueryArgument {
    /// The elements as a collection, for `IN` and `BETWEEN`.
    public var queryExpression: QueryExpression { .collection(map(\.queryExpression)) }
}

extension Set: QueryArgument where Element: QueryArgument {
    /// The elements as a collection, for `IN`.
    public var queryExpression: QueryExpression { .collection(map(\.queryExpression)) }
}

extension ClosedRange: QueryArgument where Bound: QueryArgument {
    /// The bounds as a collection, for `BETWEEN`.
    public var queryExpression: QueryExpression {
        .collection([lowerBound.queryExpression, upperBound.queryExpression])
    }
}

// MARK: - Texts and numbers

extension String: QueryArgument {
    /// The text as a constant.
    public var queryExpression: QueryExpression { .constant(.string(self)) }
}

extension Substring: QueryArgument {
    /// The text as a constant.
    public var queryExpression: QueryExpression { .constant(.string(String(self))) }
}

extension Bool: QueryArgument {
    /// The Boolean as a constant.
    public var queryExpression: QueryExpression { .constant(.boolean(self)) }
}

extension QueryArgument where Self: BinaryInteger {
    /// The integer as a constant; a decimal number if it has more than 63 bits.
    public var queryExpression: QueryExpression {
        if let integer = Int64(exactly: self) { return .constant(.integer(integer)) }
        return .constant(.decimal(UInt64(exactly: self).map { Decimal($0) } ?? .nan))
    }
}

extension Int: QueryArgument {}
extension Int8: QueryArgument {}
extension Int16: QueryArgument {}
extension Int32: QueryArgument {}
extension Int64: QueryArgument {}
extension UInt: QueryArgument {}
extension UInt8: QueryArgument {}
extension UInt16: QueryArgument {}
extension UInt32: QueryArgument {}
extension UInt64: QueryArgument {}

extension Double: QueryArgument {
    /// The number as a constant.
    public var queryExpression: QueryExpression { .constant(.double(self)) }
}

extension Float: QueryArgument {
    /// The number as a constant.
    public var queryExpression: QueryExpression { .constant(.double(Double(self))) }
}

extension Decimal: QueryArgument {
    /// The number as a constant.
    public var queryExpression: QueryExpression { .constant(.decimal(self)) }
}

// MARK: - Other values

extension Date: QueryArgument {
    /// The point in time as a constant.
    public var queryExpression: QueryExpression { .constant(.date(self)) }
}

extension Data: QueryArgument {
    /// The bytes as a constant.
    public var queryExpression: QueryExpression { .constant(.binary(self)) }
}

extension UUID: QueryArgument {
    /// The identifier as a constant.
    public var queryExpression: QueryExpression { .constant(.uuid(self)) }
}

extension URL: QueryArgument {
    /// The absolute address as a constant.
    public var queryExpression: QueryExpression { .constant(.uri(absoluteURL)) }
}

extension ManagedObjectID: QueryArgument {
    /// The object as a constant.
    public var queryExpression: QueryExpression { .constant(.objectID(self)) }
}
