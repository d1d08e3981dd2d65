import Foundation

/// The types that `CAST(literal, "type")` makes constants of, by Core Data's class names.
enum PredicateCast: String, CaseIterable {
    case date = "NSDate"
    case uuid = "NSUUID"
    case uri = "NSURL"
    case binary = "NSData"
    case decimal = "NSDecimalNumber"
    case number = "NSNumber"
    case objectID = "NSManagedObjectID"

    /// What the literal must be.
    var expectation: String {
        switch self {
        case .date: "an ISO 8601 date or seconds since 2001"
        case .uuid: "a UUID"
        case .uri: "a URI"
        case .binary: "base64 text"
        case .decimal: "a decimal number"
        case .number: "a number"
        case .objectID: "the URI of an object"
        }
    }

    /// The constant that a literal stands for, or `nil` if it stands for none.
    ///
    /// The URI of an object stays a URI, because only a store knows its objects; ``ResolvedQuery`` replaces it.
    func value(of literal: AttributeValue) -> AttributeValue? {
        switch (self, literal) {
        case (.date, .integer(let seconds)):
            return .date(Date(timeIntervalSinceReferenceDate: Double(seconds)))
        case (.date, .double(let seconds)):
            return .date(Date(timeIntervalSinceReferenceDate: seconds))
        case (.date, .string(let text)): return DateText.date(of: text).map { .date($0) }
        case (.uuid, .string(let text)): return UUID(uuidString: text).map { .uuid($0) }
        case (.uri, .string(let text)), (.objectID, .string(let text)):
            return URL(string: text).map { .uri($0) }
        case (.binary, .string(let text)): return Data(base64Encoded: text).map { .binary($0) }
        case (.decimal, .string(let text)):
            return Decimal(string: text, locale: Locale(identifier: "en_US_POSIX")).map {
                .decimal($0)
            }
        case (.decimal, .integer(let integer)): return .decimal(Decimal(integer))
        case (.number, .string(let text)): return Double(text).map { .double($0) }
        case (.number, .integer), (.number, .double), (.number, .boolean): return literal
        default: return nil
        }
    }
}
