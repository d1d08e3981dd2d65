import Foundation

/// A piece of SQL with the values bound to its question marks, in their order.
///
/// Pieces are put together by interpolation, so values stay with their question marks, and a text from outside
/// cannot become SQL: there is no interpolation of a plain String.
///
/// ```swift
/// let test: SQLFragment = "\(column) BETWEEN \(bind: lower) AND \(bind: upper)"
/// ```
struct SQLFragment: Sendable, Hashable, ExpressibleByStringInterpolation {
    /// The text.
    var sql: String
    /// Integers, floating-point numbers, texts, bytes or null: what a statement can bind.
    var bindings: [AttributeValue]

    init(sql: String, bindings: [AttributeValue] = []) {
        self.sql = sql
        self.bindings = bindings
    }

    /// Puts another piece behind this one.
    mutating func append(_ other: SQLFragment) {
        sql += other.sql
        if bindings.isEmpty {
            bindings = other.bindings
        } else if !other.bindings.isEmpty {
            bindings += other.bindings
        }
    }

    init(stringLiteral text: String) { self.init(sql: text) }

    init(stringInterpolation: StringInterpolation) { self = stringInterpolation.fragment }

    struct StringInterpolation: StringInterpolationProtocol {
        var fragment = SQLFragment(sql: "")

        // Most pieces are so short that a String holds them without memory of its own.
        init(literalCapacity: Int, interpolationCount: Int) {}

        mutating func appendLiteral(_ text: String) { fragment.sql += text }

        mutating func appendInterpolation(_ other: SQLFragment) {
            fragment.append(other)
        }

        mutating func appendInterpolation(_ number: Int) { fragment.sql += String(number) }

        /// The name of a table or column.
        mutating func appendInterpolation(name: String) { fragment.sql += SQLName.quoted(name) }

        /// A value, as a question mark.
        mutating func appendInterpolation(bind value: AttributeValue) {
            fragment.sql += "?"
            fragment.bindings.append(value.stored)
        }
    }
}

extension Collection<SQLFragment> {
    /// The pieces with another between each two.
    func joined(by separator: SQLFragment) -> SQLFragment {
        var result = SQLFragment(sql: "")
        for (index, part) in enumerated() {
            if index > 0 { result.append(separator) }
            result.append(part)
        }
        return result
    }
}
