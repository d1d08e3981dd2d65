import Foundation
package import QuireModel
internal import QuireQuery

/// A fragment of SQL with its bound values, in order.
///
/// Fragments are composed by interpolation, so values stay with their parameters, and external text cannot become SQL: plain
/// strings cannot be interpolated.
///
/// ```swift
/// let test: SQLFragment = "\(column) BETWEEN \(bind: lower) AND \(bind: upper)"
/// ```
package struct SQLFragment: Sendable, Hashable, ExpressibleByStringInterpolation {
    /// The SQL text.
    package var sql: String
    /// The bound values: integers, floating-point numbers, texts, blobs or null.
    package var bindings: [AttributeValue]

    init(sql: String, bindings: [AttributeValue] = []) {
        self.sql = sql
        self.bindings = bindings
    }

    /// Appends another fragment.
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

        // Most fragments fit into a String's inline storage.
        package init(literalCapacity: Int, interpolationCount: Int) {}

        package mutating func appendLiteral(_ text: String) { fragment.sql += text }

        package mutating func appendInterpolation(_ other: SQLFragment) {
            fragment.append(other)
        }

        package mutating func appendInterpolation(_ number: Int) { fragment.sql += String(number) }

        /// Appends a quoted table or column name.
        package mutating func appendInterpolation(name: String) {
            fragment.sql += SQLName.quoted(name)
        }

        /// Appends a parameter with its value.
        package mutating func appendInterpolation(bind value: AttributeValue) {
            fragment.sql += "?"
            fragment.bindings.append(value.stored)
        }
    }
}

extension Collection<SQLFragment> {
    /// The fragments joined by a separator.
    package func joined(by separator: SQLFragment) -> SQLFragment {
        var result = SQLFragment(sql: "")
        for (index, part) in enumerated() {
            if index > 0 { result.append(separator) }
            result.append(part)
        }
        return result
    }
}
