import Foundation
package import Quire

// The forms of values in files for other programs.

extension AttributeValue {
    /// The text of a value as ``text(as:)`` has it, but one for each value other than null and composites, and the same text for
    /// equal values: decimals without trailing zeros or `NaN`, dates beyond the calendar in seconds.
    package func exportedText(as type: AttributeType) -> String? {
        switch self {
        case .decimal(var decimal):
            if decimal.isNaN { return "NaN" }
            NSDecimalCompact(&decimal)
            return AttributeValue.decimal(decimal).text(as: type)
        case .date(let date):
            return text(as: type)
                ?? "\(date.timeIntervalSinceReferenceDate) s after 2001-01-01T00:00:00Z"
        default: return text(as: type)
        }
    }
}

extension AttributeType {
    /// A number with the digits of the type's own precision: 0.1 of 32 bits is not 0.10000000149011612.
    package func exportedNumber(_ value: Double) -> Double {
        let single = Float(value)
        guard self == .float, value.isFinite, Double(single) == value,
            let shortest = Double(single.description)
        else { return value }
        return shortest
    }
}
