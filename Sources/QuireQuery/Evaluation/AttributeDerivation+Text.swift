import Foundation
package import QuireModel

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

    /// The sum of values in the form of a slot; missing values count as 0.
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
            return .integer(
                values.reduce(0) {
                    guard case .integer(let number) = $1 else { return $0 }
                    let (sum, overflow) = $0.addingReportingOverflow(number)
                    return overflow ? (number < 0 ? .min : .max) : sum
                })
        }
    }
}
