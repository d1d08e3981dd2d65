import Foundation
package import QuireModel
internal import QuireQuery

/// A piece of SQL with the values bound to its question marks, in their order.
///
/// Pieces are put together by interpolation, so values stay with their question marks, and a text from outside
/// cannot become SQL: there is no interpolation of a plain String.
///
/// ```swift
/// let test: SQLFragment = "\(column) BETWEEN \(bind: lower) AND \(bind: upper)"
/// ```
package struct SQLFragment: Sendable, Hashable, ExpressibleByStringInterpolation {
    /// The text.
    package var sql: String
    /// Integers, floating-point numbers, texts, bytes or null: what a statement can bind.
    package var bindings: [AttributeValue]

    init(sql: String, bindings: [AttributeValue] = []) {
        self.sql = sql
        self.bindings = bindings
    }

    /// Puts another piece behind this one.
    package mutating func append(_ other: SQLFragment) {
        sql += other.sql
        if bindings.isEmpty {
            bindings = other.bindings
        } else if !other.bindings.isEmpty {
            bindings += other.bindings
        }
    }

    package init(stringLiteral text: String) { self.init(sql: text) }

    package init(stringInterpolation: StringInterpolation) { self = stringInterpolation.fragment }

    package struct StringInterpolation: StringInterpolationProtocol {
        var fragment = SQLFragment(sql: "")

        // Most pieces are so short that a String holds them without memory of its own.
        package init(literalCapacity: Int, interpolationCount: Int) {}

        package mutating func appendLiteral(_ text: String) { fragment.sql += text }

        package mutating func appendInterpolation(_ other: SQLFragment) {
            fragment.append(other)
        }

        package mutating func appendInterpolation(_ number: Int) { fragment.sql += String(number) }

        /// The name of a table or column.
        package mutating func appendInterpolation(name: String) {
            fragment.sql += SQLName.quoted(name)
        }

        /// A value, as a question mark.
        package mutating func appendInterpolation(bind value: AttributeValue) {
            fragment.sql += "?"
            fragment.bindings.append(value.stored)
        }
    }
}

extension Collection<SQLFragment> {
    /// The pieces with another between each two.
    package func joined(by separator: SQLFragment) -> SQLFragment {
        var result = SQLFragment(sql: "")
        for (index, part) in enumerated() {
            if index > 0 { result.append(separator) }
            result.append(part)
        }
        return result
    }
}
