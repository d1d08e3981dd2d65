import Foundation
public import QuireModel

/// A value in a predicate: a constant, a value of the tested object, or a computation.
public indirect enum QueryExpression: Sendable, Hashable {
    /// A constant.
    case constant(AttributeValue)
    /// The value at a key path of the tested object; `["author", "name"]` for `author.name`.
    case keyPath([String])
    /// The tested object: `SELF`.
    case evaluatedObject
    /// A variable of a template or of a subquery: `$NAME`, or a key path of one, `$NAME.key`.
    case variable(String)
    /// A collection: `{1, 2, 3}`, for `IN` and `BETWEEN`.
    case collection([QueryExpression])
    /// A function call: `price * 2`, `uppercase(name)`, `books.@sum.pages`.
    case function(QueryFunction, [QueryExpression])
    /// A value converted to another type: `CAST(published, "NSNumber")`.
    case cast(QueryExpression, QueryCast)
    /// The elements of a collection that satisfy a condition on a variable: `SUBQUERY(books, $book, $book.year < 1800)`.
    case subquery(QueryExpression, variable: String, QueryPredicate)
    /// One of two values, chosen by a condition: `TERNARY(year < 1800, "old", "new")`.
    case conditional(QueryPredicate, QueryExpression, QueryExpression)
    /// A key path of an expression's value: `SUBQUERY(…).title`, `authors[FIRST].name`.
    case path(QueryExpression, [String])

    /// The value at a dotted key path.
    public static func key(_ path: String) -> QueryExpression {
        .keyPath(path.split(separator: ".").map(String.init))
    }
}

extension QueryExpression {
    /// The expression with its direct subexpressions and predicates transformed.
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

// MARK: - Descriptions

/// A column of a request for dictionaries: a named expression.
///
/// A string literal is a key path column of that name.
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
    /// The column's expression.
    public var expression: QueryExpression
    /// The type of its values; `nil` for the expression's natural type: a date for the minimum of dates, a decimal number
    /// for the sum of decimal numbers. A value that cannot be converted is missing.
    public var resultType: AttributeType?

    /// A column with an expression.
    public init(_ name: String, _ expression: QueryExpression, resultType: AttributeType? = nil) {
        self.name = name
        self.expression = expression
        self.resultType = resultType
    }

    /// A column with an expression in the predicate format language.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` and the column in its subject.
    public init(
        _ name: String, format: String, _ arguments: (any QueryArgument)?...,
        resultType: AttributeType? = nil
    ) throws {
        self.init(
            name, try QueryExpression(format: format, arguments: arguments), resultType: resultType)
    }

    /// A key path column; `SELF` is the object itself.
    public init(_ keyPath: String) {
        self.init(keyPath, keyPath.uppercased() == "SELF" ? .evaluatedObject : .key(keyPath))
    }

    /// A key path column.
    public init(stringLiteral keyPath: String) { self.init(keyPath) }
}

// MARK: - Columns

extension QueryExpression {
    /// The expression with column names, `n` or `$n`, replaced by their expressions. Aggregates of a group's objects are
    /// left unchanged, because columns are computed after them.
    ///
    /// - Parameter hidden: Names that have another meaning unless prefixed by `$`.
    func replacingColumns(
        _ columns: [String: QueryExpression], hidden: Set<String> = []
    ) -> QueryExpression {
        if columns.isEmpty { return self }
        switch self {
        case .variable(let name): return columns[name] ?? self
        case .keyPath(let keys):
            let name = keys.joined(separator: ".")
            return hidden.contains(name) ? self : columns[name] ?? self
        case .function(let function, _) where function.isAggregate: return self
        case .subquery(let collection, let variable, let condition):
            var inner = columns
            inner[variable] = nil
            return .subquery(
                collection.replacingColumns(columns, hidden: hidden), variable: variable,
                condition.mappingExpressions { $0.replacingColumns(inner, hidden: hidden) })
        default:
            return mappingParts {
                $0.replacingColumns(columns, hidden: hidden)
            } _: { condition in
                condition.mappingExpressions { $0.replacingColumns(columns, hidden: hidden) }
            }
        }
    }

    /// The expression with some subexpressions replaced by constants.
    package func replacing(_ values: [QueryExpression: AttributeValue]) -> QueryExpression {
        if let value = values[self] { return .constant(value) }
        return mappingParts {
            $0.replacing(values)
        } _: { condition in
            condition.mappingExpressions { $0.replacing(values) }
        }
    }
}

extension QueryPredicate {
    /// Whether all subexpressions satisfy a condition.
    func allExpressions(_ satisfy: (QueryExpression) -> Bool) -> Bool {
        switch self {
        case .constant: true
        case .comparison(let comparison): satisfy(comparison.left) && satisfy(comparison.right)
        case .and(let parts), .or(let parts): parts.allSatisfy { $0.allExpressions(satisfy) }
        case .not(let inner): inner.allExpressions(satisfy)
        }
    }
}

// MARK: - Casts

/// The target types of `CAST(value, "type")`, by Core Data's class names.
///
/// A value that cannot be converted is missing. Dates are in ISO 8601, or seconds since 1 January 2001, independent of the
/// locale.
public enum QueryCast: String, Sendable, Hashable, CaseIterable {
    /// A date: of an ISO 8601 text or of seconds since 2001.
    case date = "NSDate"
    /// A UUID: of its text.
    case uuid = "NSUUID"
    /// A URI: of its text.
    case uri = "NSURL"
    /// Binary data: of a text in base64.
    case binary = "NSData"
    /// A decimal number: of a text or a number.
    case decimal = "NSDecimalNumber"
    /// A number: of a text, or the seconds since 2001 of a date.
    case number = "NSNumber"
    /// A text: of any value with a text form.
    case string = "NSString"
    /// An object: of its URI.
    case objectID = "NSManagedObjectID"
}

extension QueryCast {
    /// The expected form of the literal.
    var expectation: String {
        switch self {
        case .date: "an ISO 8601 date or seconds since 2001"
        case .uuid: "a UUID"
        case .uri: "a URI"
        case .binary: "base64 text"
        case .decimal: "a decimal number"
        case .number: "a number"
        case .string: "a text, a number, a date, a UUID or a URI"
        case .objectID: "the URI of an object"
        }
    }

    /// A literal converted to this type, or `nil` if it cannot be parsed.
    ///
    /// The URI of an object stays a URI, because only a store can resolve it; ``ResolvedQuery`` replaces it.
    package func value(of literal: AttributeValue) -> AttributeValue? {
        switch (self, literal) {
        case (.date, .integer(let seconds)):
            return .date(Date(timeIntervalSinceReferenceDate: Double(seconds)))
        case (.date, .double(let seconds)):
            return .date(Date(timeIntervalSinceReferenceDate: seconds))
        case (.date, .decimal(let number)):
            return number.storedNumber.flatMap { value(of: $0) }
        case (.date, .string(let text)): return DateText.date(of: text).map { .date($0) }
        case (.uuid, .string(let text)): return UUID(uuidString: text).map { .uuid($0) }
        case (.uri, .string(let text)), (.objectID, .string(let text)):
            return URL(string: text).map { .uri($0) }
        case (.binary, .string(let text)): return Data(base64Encoded: text).map { .binary($0) }
        case (.decimal, .string(let text)):
            return try? AttributeValue(parsing: text, as: .decimal)
        case (.decimal, .integer(let integer)): return .decimal(Decimal(integer))
        case (.decimal, .boolean(let truth)): return .decimal(truth ? 1 : 0)
        case (.number, .string(let text)):
            return Int64(text).map { .integer($0) } ?? Double(text).map { .double($0) }
        case (.number, .integer), (.number, .double), (.number, .boolean), (.number, .decimal),
            (.date, .date), (.uuid, .uuid), (.uri, .uri), (.binary, .binary), (.decimal, .decimal),
            (.string, .string), (.objectID, .objectID), (.decimal, .double):
            return literal
        case (.number, .date(let date)): return .double(date.timeIntervalSinceReferenceDate)
        case (.string, .integer(let integer)): return .string(String(integer))
        case (.string, .boolean(let truth)): return .string(truth ? "1" : "0")
        // Stores do not distinguish negative zero from zero.
        case (.string, .double(let number)): return .string(String(number == 0 ? 0 : number))
        case (.string, .decimal(let number)):
            return number.storedNumber.flatMap { value(of: $0) }
        case (.string, .date(let date)): return DateText.text(of: date).map { .string($0) }
        case (.string, .uuid(let uuid)): return .string(uuid.uuidString)
        case (.string, .uri(let uri)): return .string(uri.absoluteString)
        default: return nil
        }
    }
}
