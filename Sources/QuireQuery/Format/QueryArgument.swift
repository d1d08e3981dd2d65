public import Foundation
public import QuireModel

/// What can stand for a placeholder in a predicate's format string: values, keys, lists of values.
///
/// ```swift
/// try QueryPredicate(format: "%K IN %@ AND published > %@", "author.name", names, date)
/// ```
///
/// An expression is an argument, too, so a predicate can be put together from parts that are not texts.
public protocol QueryArgument: Sendable {
    /// The argument as part of a predicate.
    var queryExpression: QueryExpression { get }
}

extension QueryExpression: QueryArgument {
    /// The expression itself.
    public var queryExpression: QueryExpression { self }
}

extension QueryPredicate: QueryArgument {
    /// The predicate as part of another, as in `"%@ AND year < 1800"`; elsewhere, whether it is true.
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

extension EntityLayout: QueryArgument {
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
    /// The truth value as a constant.
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
