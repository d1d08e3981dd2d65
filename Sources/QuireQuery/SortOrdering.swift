/// Says how to order objects: by the value at a key path, or by what an expression gives.
public struct SortOrdering: Sendable, Hashable {
    /// What is compared, as it is written: a key path with dots, which may lead through to-one relationships, or any
    /// expression of the predicate format language that gives one value, such as `books.@count` or `length(title)`.
    /// `SELF` is the object itself, which is ordered by primary key. In a request for dictionaries it may be the name
    /// of a column.
    public var keyPath: String { didSet { parsed = Self.parse(keyPath) } }
    /// Whether small values come first. Missing values come before all others when ascending.
    public var ascending: Bool
    /// How texts are compared.
    public var options: QueryComparison.Options
    /// What ``keyPath`` says; `nil` if it cannot be read.
    private var parsed: QueryExpression?

    /// Orders by a key path, or by an expression of the predicate format language.
    public init(
        _ keyPath: String, ascending: Bool = true, options: QueryComparison.Options = []
    ) {
        self.keyPath = keyPath
        self.ascending = ascending
        self.options = options
        parsed = Self.parse(keyPath)
    }

    /// Orders by what an expression gives.
    public init(
        _ expression: QueryExpression, ascending: Bool = true,
        options: QueryComparison.Options = []
    ) {
        keyPath = expression.description
        self.ascending = ascending
        self.options = options
        parsed = expression
    }

    /// What is compared.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` and the column in its subject if ``keyPath`` cannot be read.
    public var expression: QueryExpression {
        get throws { try parsed ?? QueryExpression(format: keyPath) }
    }

    private static func parse(_ text: String) -> QueryExpression? {
        // What looks like a key path is one, even if a key is a word of the language.
        if text.utf8.allSatisfy(isOfKeyPath) {
            return text.uppercased() == "SELF" ? .evaluatedObject : .key(text)
        }
        return try? QueryExpression(format: text)
    }

    private static func isOfKeyPath(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "."), 0x80...:
            true
        default: false
        }
    }
}
