package import Foundation
package import Quire

// The forms of values that every text format has in common; the others are those of ``AttributeValue/text(as:)``.

extension AttributeValue {
    /// A number with the digits of its own precision: 0.1 of 32 bits is not 0.10000000149011612.
    package static func shortest(_ value: Double, as type: AttributeType) -> Double {
        let single = Float(value)
        guard type == .float, value.isFinite, Double(single) == value else { return value }
        return Double(single.description) ?? value
    }

    /// A decimal's digits: the same for equal decimals, however they are represented.
    package static func text(ofCompacted decimal: Decimal) -> String {
        if decimal.isNaN { return "NaN" }
        var decimal = decimal
        NSDecimalCompact(&decimal)
        return decimal.description
    }

    /// A date in ISO 8601, or its distance from 2001 if it is too far away for a calendar.
    package static func text(ofDate date: Date) -> String {
        AttributeValue.date(date).text(as: .date)
            ?? "\(date.timeIntervalSinceReferenceDate) s after 2001-01-01T00:00:00Z"
    }
}
