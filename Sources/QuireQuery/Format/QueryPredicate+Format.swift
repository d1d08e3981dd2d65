internal import QuireModel

extension QueryPredicate {
    /// Reads a predicate written in Core Data's predicate format language.
    ///
    /// ```swift
    /// try QueryPredicate(format: "author.name BEGINSWITH[cd] %@ AND year BETWEEN {%d, %d}", "aus", 1800, 1820)
    /// try QueryPredicate(format: "ANY tags.name IN %@ OR %K == nil", ["new", "read"], "owner")
    /// try QueryPredicate(format: "SUBQUERY(books, $b, $b.year < 1800 AND $b.pages > 300).@count > 2")
    /// try QueryPredicate(format: "price * (1 + tax / 100) > %f AND length(title) < 20", 9.99)
    /// ```
    ///
    /// Words are read without regard to case, but for the operators in key paths and the methods in `FUNCTION`.
    ///
    /// **Conditions**
    /// - Comparisons: `== = != <> < <= =< > >= => BEGINSWITH ENDSWITH CONTAINS LIKE MATCHES IN BETWEEN`, with any of
    ///   `[c]`, `[d]`, `[n]`, `[l]` behind, such as `[cd]`; ``QueryComparison/Options`` says what they mean.
    ///   `MATCHES TEXT` is an extension of Quire's.
    /// - `ANY` or `SOME`, `ALL`, `NONE` before a comparison whose left side leads to several values.
    /// - Logic: `AND &&`, `OR ||`, `NOT !`, parentheses, `TRUEPREDICATE`, `FALSEPREDICATE`. `NOT` stands before the whole
    ///   comparison: `NOT year IN {1800, 1801}`.
    ///
    /// **Values**
    /// - Key paths (`author.name`; `#in` where a key is a reserved word), `SELF`, `SELF.name`, `$VARIABLES` and key paths
    ///   behind them (`$book.author.name`).
    /// - Texts in `"…"` or `'…'`, numbers (`12`, `-0.5`, `1e3`, `0x1F`, `0o17`, `0b101`), `YES NO TRUE FALSE NULL NIL`,
    ///   and several values as `{1, 2, 3}`.
    /// - Of other types: `CAST("2001-01-01T00:00:00Z", "NSDate")` (or seconds since then), likewise ``QueryCast``'s other
    ///   types, of any value.
    /// - `**`, which binds tightest and groups from the right; `- ~` before a value; `* /`; `+ -`; `<< >>`; `&`; `^`;
    ///   `|`; `UNION INTERSECT MINUS`. A sign before the digits of a number belongs to them unless a value
    ///   stands before it: `-2 ** 2` is 4, and `a -1` a subtraction.
    /// - Operators in key paths: `books.@count`, `books.@sum.pages` and `@avg`, `@min`, `@max`, `@distinctUnionOfObjects`,
    ///   `@unionOfObjects`; also behind other values, and with the keys before the operator (`books.pages.@sum`).
    /// - `SUBQUERY(books, $b, $b.year < 1800)`, with `.@count`, `.@max.pages` or `.title` behind.
    /// - `a[0]`, `a[FIRST]`, `a[LAST]`, `a[SIZE]`.
    /// - `TERNARY(year < 1800, "old", "new")`.
    /// - Functions: `abs ceiling floor trunc sqrt ln log exp`, `modulus(a, b)`, `random()`, `random(n)`, `bitwiseAnd(a, b)
    ///   bitwiseOr bitwiseXor leftshift rightshift onesComplement`, `uppercase lowercase canonical length`, `now()`,
    ///   `sum count min max average median mode stddev distinct`, `noindex`; all by Core Data's names too:
    ///   `raise:toPower:(2, 3)`, `castObject:toType:(x, "NSDate")`. ``QueryFunction`` says what they compute.
    /// - `FUNCTION("raise:toPower:", 2, 3)`, and `FUNCTION(value, "method", arguments…)` with those methods of
    ///   Foundation's classes that have a counterpart: `uppercaseString lowercaseString length lastPathComponent
    ///   dateByAddingTimeInterval: timeIntervalSinceDate: timeIntervalSinceReferenceDate doubleValue stringValue
    ///   absoluteString UUIDString count firstObject lastObject objectAtIndex: valueForKey: valueForKeyPath:`.
    /// - Placeholders outside texts: `%@` for a value, an expression or a predicate, `%K` for a key path, `%d %i %u %ld %lld`
    ///   for an integer, `%f` for a number.
    ///
    /// Texts may be of any length, but nest and compute no deeper than 200 levels, so that none overflows the stack.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` and the column in its subject if the text cannot be
    ///   read or the arguments do not fit.
    public init(format: String, _ arguments: (any QueryArgument)?...) throws {
        try self.init(format: format, arguments: arguments)
    }

    /// Reads a predicate whose arguments are in an array; see ``init(format:_:)``.
    public init(format: String, arguments: [(any QueryArgument)?]) throws {
        var parser = try PredicateParser(
            format, arguments: arguments.map { $0?.queryExpression ?? .constant(.null) })
        self = try parser.parse()
    }
}

extension QueryExpression {
    /// Reads an expression written in Core Data's predicate format language.
    ///
    /// ```swift
    /// try QueryExpression(format: "books.@avg.pages * %d", 2)
    /// ```
    ///
    /// ``QueryPredicate/init(format:_:)`` documents the language.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` and the column in its subject if the text cannot be
    ///   read or the arguments do not fit.
    public init(format: String, _ arguments: (any QueryArgument)?...) throws {
        try self.init(format: format, arguments: arguments)
    }

    /// Reads an expression whose arguments are in an array; see ``init(format:_:)``.
    public init(format: String, arguments: [(any QueryArgument)?]) throws {
        var parser = try PredicateParser(
            format, noun: "expression",
            arguments: arguments.map { $0?.queryExpression ?? .constant(.null) })
        self = try parser.parseExpression()
    }
}
