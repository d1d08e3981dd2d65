public import QuireModel

/// A column of a request for dictionaries: an expression under a name.
///
/// A text is the column of a key path, under that name.
///
/// ```swift
/// request.propertiesToFetch = [
///     "author.name", try ExpressionDescription("books", format: "count(title)"),
///     ExpressionDescription("first", .function(.minimum, [.key("year")])),
/// ]
/// ```
public struct ExpressionDescription: Sendable, Hashable, ExpressibleByStringLiteral {
    /// The name of the column.
    public var name: String
    /// What it holds.
    public var expression: QueryExpression
    /// The type of its values; `nil` for what they are by themselves: a date for the least of dates, a decimal number
    /// for the sum of decimal numbers. A value that the type cannot hold is missing.
    public var resultType: AttributeType?

    /// The column of what an expression gives.
    public init(_ name: String, _ expression: QueryExpression, resultType: AttributeType? = nil) {
        self.name = name
        self.expression = expression
        self.resultType = resultType
    }

    /// The column of what an expression gives that is written in the predicate format language.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` and the column in its subject.
    public init(
        _ name: String, format: String, _ arguments: (any QueryArgument)?...,
        resultType: AttributeType? = nil
    ) throws {
        self.init(
            name, try QueryExpression(format: format, arguments: arguments), resultType: resultType)
    }

    /// The column of a key path; of the object itself if it is `SELF`.
    public init(_ keyPath: String) {
        self.init(keyPath, keyPath.uppercased() == "SELF" ? .evaluatedObject : .key(keyPath))
    }

    /// The column of a key path.
    public init(stringLiteral keyPath: String) { self.init(keyPath) }
}
