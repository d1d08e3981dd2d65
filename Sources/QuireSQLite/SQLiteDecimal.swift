package import Foundation
internal import QuireModel
internal import QuireSystem

/// Decimal numbers as Core Data's stores keep them: as an integer, or as the nearest floating-point number.
///
/// A floating-point number stands for its shortest decimal text, so 0.1 comes back as 0.1. Numbers of up to 15 digits
/// come back as they are, others as the nearest that a floating-point number says.
package enum SQLiteDecimal {
    /// What is written for a decimal number.
    package enum Stored: Equatable {
        case integer(Int64)
        case double(Double)
        /// What is not a number.
        case text(String)
    }

    /// How Core Data keeps what is not a number.
    private static let notANumber = "NaN"

    /// The stored form.
    package static func stored(_ value: Decimal) -> Stored {
        if value.isNaN { return .text(notANumber) }
        let text = value.description
        if let integer = Int64(text) { return .integer(integer) }
        // The text of a decimal number is one of a floating-point number.
        return .double(Double(text) ?? 0)
    }

    /// Checks that a number comes back as it is.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue`, naming the property, if it has more digits than the stored form.
    static func checkIsExact(
        _ value: Decimal, for slot: EntityLayout.Slot, of entity: EntityLayout,
        _ objectID: ManagedObjectID? = nil
    ) throws {
        guard case .double(let number) = stored(value), decimal(number) != value else { return }
        let object = objectID.map { " of \($0.shortDescription)" } ?? ""
        throw QuireError(
            .invalidValue,
            "“\(entity.name).\(slot.name)”\(object) cannot be kept exactly: a SQLite store keeps 15 digits of a "
                + "decimal number with a fraction, and \(value) has more; round it.",
            subject: .init(
                entity: entity.name, property: slot.name, object: objectID?.uriRepresentation,
                value: value.description))
    }

    /// The number that a floating-point number stands for; `nil` if it is infinite or too large or small.
    static func decimal(_ value: Double) -> Decimal? {
        guard value.isFinite else { return nil }
        // Most have few digits. With at most 15 the scaled number is exact, and dividing it rounds correctly.
        var scale = 1.0
        for exponent in 0...6 {
            let scaled = (value * scale).rounded()
            if abs(scaled) >= 1e15 { break }
            if scaled / scale == value {
                return Decimal(
                    sign: scaled < 0 ? .minus : .plus, exponent: -exponent,
                    significand: Decimal(Int64(abs(scaled))))
            }
            scale *= 10
        }
        return decimal(value.description)
    }

    /// The number that a text is; `nil` if it is none.
    static func decimal(_ text: String) -> Decimal? {
        if text == notANumber { return .nan }
        guard let decimal = Decimal(string: text, locale: nil), !decimal.isNaN,
            Double(text) != nil
        else { return nil }
        return decimal
    }
}
