import Foundation
package import QuireModel
package import QuireSystem

extension AttributeDerivation.TextFunction {
    /// The function's result. `canonical` folds as comparisons with `[cd]`, so that texts equal by these have equal
    /// canonical forms.
    package func apply(to text: String) -> String {
        switch self {
        case .canonical:
            TextFolding.fold(text, [.caseInsensitive, .diacriticInsensitive])
        case .uppercase: text.uppercased()
        case .lowercase: text.lowercased()
        }
    }
}

extension ResolvedEntity.Derivation {
    /// The derived value of an object; `nil` for the save time.
    ///
    /// - Parameters:
    ///   - storage: The form of the derived slot.
    ///   - count: Returns the number of objects in a relationship, by its position.
    ///   - values: Returns the values of a slot of those objects.
    ///   - source: Returns the value of a slot of the object, or of a to-one relationship's destination.
    package func value(
        as storage: ResolvedEntity.Slot.Storage, count: (Int) throws -> Int,
        values: (_ relationship: Int, _ slot: Int) throws -> [AttributeValue],
        source: (_ slot: Int, _ relationship: Int?) throws -> AttributeValue
    ) rethrows -> AttributeValue? {
        switch form {
        case .now: return nil
        case .count(let index): return .integer(Int64(try count(index)))
        case .sum(let index, let slot): return Self.sum(try values(index, slot), as: storage)
        case .copy(let index, let slot): return try source(slot, index)
        case .text(let function, let index, let slot):
            guard case .string(let text) = try source(slot, index) else { return .null }
            return .string(function.apply(to: text))
        }
    }

    /// The sum of values in the form of a slot; missing values count as 0. A sum of integers beyond 64 bits is a decimal number,
    /// which no integer attribute holds.
    static func sum(
        _ values: [AttributeValue], as storage: ResolvedEntity.Slot.Storage
    ) -> AttributeValue {
        switch storage {
        case .decimal:
            return .decimal(
                values.reduce(Decimal(0)) {
                    if case .decimal(let number) = $1 { $0 + number } else { $0 }
                })
        case .double:
            return .double(
                values.reduce(0) {
                    switch $1 {
                    case .double(let number): $0 + number
                    case .integer(let number): $0 + Double(number)
                    default: $0
                    }
                })
        default:
            return exactly(
                values.reduce(0) {
                    if case .integer(let number) = $1 { $0 + Int128(number) } else { $0 }
                })
        }
    }

    /// An integer, or the decimal number for one beyond 64 bits.
    package static func exactly(_ integer: Int128) -> AttributeValue {
        if let integer = Int64(exactly: integer) { return .integer(integer) }
        return .decimal(Decimal(string: integer.description, locale: nil) ?? .nan)
    }
}

extension ResolvedEntity.Slot {
    /// Whether the slot's type can hold a value that was derived for it.
    package func canHold(derived value: AttributeValue) -> Bool {
        if storage == .integer {
            guard case .integer = value else { return value.isNull }
        }
        return (try? attribute?.coerce(value)) != nil
    }

    /// The error if a slot's type cannot hold a value that was derived for the object with a primary key.
    package func derivedValueError(
        _ value: AttributeValue, primaryKey: Int64, in entity: ResolvedEntity
    ) -> QuireError {
        let object = "\(entity.name)/p\(primaryKey)"
        return QuireError(
            .invalidValue,
            "“\(entity.name).\(name)” of \(object) would be \(PredicatePrinter.text(of: value)), which a "
                + "\(attribute?.type.title ?? "value") cannot represent; change the values it is derived from.",
            entity: entity.name, property: name, object: object,
            value: PredicatePrinter.text(of: value))
    }
}
