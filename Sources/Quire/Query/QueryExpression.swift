/// A value in a predicate: a constant, something of the object tested, or what is computed of these.
public indirect enum QueryExpression: Sendable, Hashable {
    /// A constant.
    case constant(AttributeValue)
    /// The value at a key path of the object tested; `["author", "name"]` for `author.name`.
    case keyPath([String])
    /// The object tested: `SELF`.
    case evaluatedObject
    /// A variable of a template: `$NAME`, or a key path of one, `$NAME.key`.
    case variable(String)
    /// Several values: `{1, 2, 3}`, for `IN` and `BETWEEN`.
    case collection([QueryExpression])

    /// The value at a key path written with dots.
    public static func key(_ path: String) -> QueryExpression {
        .keyPath(path.split(separator: ".").map(String.init))
    }
}
