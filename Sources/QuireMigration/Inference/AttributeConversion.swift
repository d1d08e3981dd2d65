import Foundation
internal import QuireModel

/// How the value of an attribute becomes that of an attribute of another type.
///
/// Only where nothing is lost: a wider integer, a double for a float, a floating-point or decimal number for an
/// integer, 0 and 1 for a truth value. (A 64-bit integer beyond 2⁵³ is rounded as a double.)
enum AttributeConversion: Sendable, Hashable {
    case same, integerToDouble, integerToDecimal, booleanToInteger

    /// The conversion between types; `nil` if there is none.
    init?(from source: AttributeType, to destination: AttributeType) {
        switch (source, destination) {
        case (_, _) where source == destination: self = .same
        case (.integer16, .integer32), (.integer16, .integer64), (.integer32, .integer64),
            (.float, .double):
            self = .same
        case (.integer16, .float), (.integer16, .double), (.integer32, .double),
            (.integer64, .double):
            self = .integerToDouble
        case (.integer16, .decimal), (.integer32, .decimal), (.integer64, .decimal):
            self = .integerToDecimal
        case (.boolean, .integer16), (.boolean, .integer32), (.boolean, .integer64):
            self = .booleanToInteger
        default: return nil
        }
    }

    func apply(to value: AttributeValue) -> AttributeValue {
        switch (self, value) {
        case (.integerToDouble, .integer(let integer)): .double(Double(integer))
        case (.integerToDecimal, .integer(let integer)): .decimal(Decimal(integer))
        case (.booleanToInteger, .boolean(let truth)): .integer(truth ? 1 : 0)
        default: value
        }
    }
}
