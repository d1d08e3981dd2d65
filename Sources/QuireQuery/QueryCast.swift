import Foundation
package import QuireModel

/// The types that `CAST(value, "type")` makes of a value, by Core Data's class names.
///
/// A value that cannot be read as the type is missing. Dates are written in ISO 8601, or as seconds since the first of
/// January 2001, whatever the language of the system.
public enum QueryCast: String, Sendable, Hashable, CaseIterable {
    /// A date: of an ISO 8601 text or of seconds since 2001.
    case date = "NSDate"
    /// A UUID: of its text.
    case uuid = "NSUUID"
    /// A URI: of its text.
    case uri = "NSURL"
    /// Binary data: of a text in base64.
    case binary = "NSData"
    /// A decimal number: of a text or a number.
    case decimal = "NSDecimalNumber"
    /// A number: of a text, or the seconds since 2001 of a date.
    case number = "NSNumber"
    /// A text: of any value that has a form as text.
    case string = "NSString"
    /// An object: of its URI.
    case objectID = "NSManagedObjectID"
}

extension QueryCast {
    /// What the literal must be.
    var expectation: String {
        switch self {
        case .date: "an ISO 8601 date or seconds since 2001"
        case .uuid: "a UUID"
        case .uri: "a URI"
        case .binary: "base64 text"
        case .decimal: "a decimal number"
        case .number: "a number"
        case .string: "a text, a number, a date, a UUID or a URI"
        case .objectID: "the URI of an object"
        }
    }

    /// What a value is as this type, or `nil` if it cannot be read so.
    ///
    /// The URI of an object stays a URI, because only a store knows its objects; ``ResolvedQuery`` replaces it.
    package func value(of literal: AttributeValue) -> AttributeValue? {
        switch (self, literal) {
        case (.date, .integer(let seconds)):
            return .date(Date(timeIntervalSinceReferenceDate: Double(seconds)))
        case (.date, .double(let seconds)):
            return .date(Date(timeIntervalSinceReferenceDate: seconds))
        case (.date, .decimal(let number)):
            return number.storedNumber.flatMap { value(of: $0) }
        case (.date, .string(let text)): return DateText.date(of: text).map { .date($0) }
        case (.uuid, .string(let text)): return UUID(uuidString: text).map { .uuid($0) }
        case (.uri, .string(let text)), (.objectID, .string(let text)):
            return URL(string: text).map { .uri($0) }
        case (.binary, .string(let text)): return Data(base64Encoded: text).map { .binary($0) }
        case (.decimal, .string(let text)):
            return try? AttributeValue(parsing: text, as: .decimal)
        case (.decimal, .integer(let integer)): return .decimal(Decimal(integer))
        case (.number, .string(let text)):
            return Int64(text).map { .integer($0) } ?? Double(text).map { .double($0) }
        case (.number, .integer), (.number, .double), (.number, .boolean), (.number, .decimal),
            (.date, .date), (.uuid, .uuid), (.uri, .uri), (.binary, .binary), (.decimal, .decimal),
            (.string, .string), (.objectID, .objectID), (.decimal, .double), (.decimal, .boolean):
            return literal
        case (.number, .date(let date)): return .double(date.timeIntervalSinceReferenceDate)
        case (.string, .integer(let integer)): return .string(String(integer))
        case (.string, .boolean(let truth)): return .string(truth ? "1" : "0")
        // Stores do not tell a negative zero from zero.
        case (.string, .double(let number)): return .string(String(number == 0 ? 0 : number))
        case (.string, .decimal(let number)):
            return number.storedNumber.flatMap { value(of: $0) }
        case (.string, .date(let date)): return DateText.text(of: date).map { .string($0) }
        case (.string, .uuid(let uuid)): return .string(uuid.uuidString)
        case (.string, .uri(let uri)): return .string(uri.absoluteString)
        default: return nil
        }
    }
}
