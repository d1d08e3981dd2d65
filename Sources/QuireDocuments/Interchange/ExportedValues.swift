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

extension JSONValue {
    /// The value of an attribute: dates in ISO 8601, bytes in base64, decimals, UUIDs, URIs and identifiers as texts.
    package init(_ value: AttributeValue, as type: AttributeType) {
        switch value {
        case .null: self = .null
        case .integer(let integer): self = .integer(integer)
        case .double(let double): self = .double(AttributeValue.shortest(double, as: type))
        case .boolean(let boolean): self = .boolean(boolean)
        case .decimal(let decimal): self = .string(AttributeValue.text(ofCompacted: decimal))
        case .string(let string): self = .string(string)
        case .date(let date): self = .string(AttributeValue.text(ofDate: date))
        case .binary, .external, .uuid, .uri: self.init(value.text(as: type))
        case .objectID(let id): self = .string(id.uriRepresentation)
        case .composite(let elements):
            self = .object(elements.mapValues { JSONValue($0, as: type) })
        }
    }

    /// The member of an object that a property is written as.
    ///
    /// A property that is itself called `id` or `entity` is written as `property.id`, `property.entity`, so that `id` always is the
    /// object's identifier. (No property has a dot in its name.)
    package static func key(ofProperty name: String) -> String {
        name == "id" || name == "entity" ? "property.\(name)" : name
    }
}
