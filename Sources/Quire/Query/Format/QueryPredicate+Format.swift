extension QueryPredicate {
    /// Reads a predicate written in Core Data's predicate format language.
    ///
    /// ```swift
    /// try QueryPredicate(format: "author.name BEGINSWITH[cd] %@ AND year BETWEEN {%d, %d}", "aus", 1800, 1820)
    /// try QueryPredicate(format: "ANY tags.name IN %@ OR %K == nil", ["new", "read"], "owner")
    /// ```
    ///
    /// - Comparisons: `== = != <> < <= =< > >= => BEGINSWITH ENDSWITH CONTAINS LIKE MATCHES IN BETWEEN`, those
    ///   of texts with `[c]`, `[d]` or `[cd]` behind; `ANY` or `SOME`, `ALL`, `NONE` before a key path that
    ///   leads through a to-many relationship.
    /// - Logic: `AND &&`, `OR ||`, `NOT !`, parentheses, `TRUEPREDICATE`, `FALSEPREDICATE`.
    /// - Values: key paths (`author.name`; `#in` where a key is a reserved word), `SELF`, `$VARIABLES`, texts in
    ///   `"…"` or `'…'`, numbers, `YES NO TRUE FALSE NULL NIL`, `{1, 2, 3}`, and
    ///   `CAST("2001-01-01T00:00:00Z", "NSDate")` (or seconds since then), likewise `NSUUID`, `NSURL`, `NSData`
    ///   (base64), `NSDecimalNumber`, `NSNumber` and `NSManagedObjectID`.
    /// - Placeholders outside texts: `%@` for a value, `%K` for a key path, `%d %i %u %ld %lld` for an integer,
    ///   `%f` for a number.
    ///
    /// Words are read without regard to case.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` and the column in its subject if the text cannot be
    ///   read or the arguments do not fit, or with `unsupported`.
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
