public import QuireModel

/// A value in a predicate: a constant, something of the object tested, or what is computed of these.
public indirect enum QueryExpression: Sendable, Hashable {
    /// A constant.
    case constant(AttributeValue)
    /// The value at a key path of the object tested; `["author", "name"]` for `author.name`.
    case keyPath([String])
    /// The object tested: `SELF`.
    case evaluatedObject
    /// A variable of a template or of a subquery: `$NAME`, or a key path of one, `$NAME.key`.
    case variable(String)
    /// Several values: `{1, 2, 3}`, for `IN` and `BETWEEN`.
    case collection([QueryExpression])
    /// What a function gives for its arguments: `price * 2`, `uppercase(name)`, `books.@sum.pages`.
    case function(QueryFunction, [QueryExpression])
    /// A value as another type: `CAST(published, "NSNumber")`.
    case cast(QueryExpression, QueryCast)
    /// The elements of a collection that satisfy a condition in which a variable stands for each:
    /// `SUBQUERY(books, $book, $book.year < 1800)`.
    case subquery(QueryExpression, variable: String, QueryPredicate)
    /// One of two values, as a condition says: `TERNARY(year < 1800, "old", "new")`.
    case conditional(QueryPredicate, QueryExpression, QueryExpression)
    /// What stands at a key path of what an expression gives: `SUBQUERY(…).title`, `authors[FIRST].name`.
    case path(QueryExpression, [String])

    /// The value at a key path written with dots.
    public static func key(_ path: String) -> QueryExpression {
        .keyPath(path.split(separator: ".").map(String.init))
    }
}

extension QueryExpression {
    /// The expression with others in the place of the expressions and predicates that it is made of.
    package func mappingParts(
        _ transform: (QueryExpression) throws -> QueryExpression,
        _ predicate: (QueryPredicate) throws -> QueryPredicate
    ) rethrows -> QueryExpression {
        switch self {
        case .constant, .keyPath, .evaluatedObject, .variable: self
        case .collection(let elements): .collection(try elements.map(transform))
        case .function(let function, let arguments):
            .function(function, try arguments.map(transform))
        case .cast(let inner, let type): .cast(try transform(inner), type)
        case .subquery(let collection, let variable, let condition):
            .subquery(try transform(collection), variable: variable, try predicate(condition))
        case .conditional(let condition, let first, let second):
            .conditional(try predicate(condition), try transform(first), try transform(second))
        case .path(let inner, let keys): .path(try transform(inner), keys)
        }
    }
}
