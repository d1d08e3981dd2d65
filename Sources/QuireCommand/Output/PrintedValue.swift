import Foundation
import Quire
import QuireDocuments

/// The value of a column of an object.
enum PrintedValue {
    /// An attribute's value, with its type.
    case attribute(AttributeValue, AttributeType)
    /// A composite attribute's elements.
    case composite([String: PrintedValue])
    /// The destination of a to-one relationship.
    case object(ManagedObjectID?)
    /// The destinations of a to-many relationship.
    case objects([ManagedObjectID])
    /// The values at the end of a path through a to-many relationship.
    case list([PrintedValue])
    /// A value whose file cannot be read, with the reason as a sentence.
    case unreadable(String)

    /// A value that tells its type itself.
    init(_ value: AttributeValue) {
        switch value {
        case .null, .composite: self = .attribute(value, .undefined)
        case .integer: self = .attribute(value, .integer64)
        case .double: self = .attribute(value, .double)
        case .boolean: self = .attribute(value, .boolean)
        case .decimal: self = .attribute(value, .decimal)
        case .string: self = .attribute(value, .string)
        case .date: self = .attribute(value, .date)
        case .binary, .external: self = .attribute(value, .binary)
        case .uuid: self = .attribute(value, .uuid)
        case .uri: self = .attribute(value, .uri)
        case .objectID(let id): self = .object(id)
        }
    }

    /// The value as the JSON contract has it: dates in ISO 8601, bytes in base64, decimals, UUIDs, URIs and
    /// identifiers as texts.
    var json: JSONValue {
        switch self {
        case .attribute(let value, let type): JSONValue(value, as: type)
        case .composite(let elements): .object(elements.mapValues(\.json))
        case .object(let id): JSONValue(id?.uriRepresentation)
        case .objects(let ids): .array(ids.map { .string($0.uriRepresentation) })
        case .list(let values): .array(values.map(\.json))
        case .unreadable(let reason): .object(["unreadable": .string(reason)])
        }
    }

    /// The value as tables have it: identifiers short, bytes counted, nothing for no value.
    var text: String {
        switch self {
        case .attribute(.binary(let data), _): "<\(data.count) bytes>"
        case .attribute(.external(let data), _): "<\(data.size) bytes>"
        case .attribute(let value, let type):
            switch JSONValue(value, as: type) {
            case .null: ""
            case .string(let string): string
            case let other: other.text()
            }
        case .composite(let elements):
            elements.sorted { $0.key < $1.key }.map { ($0.key, $0.value.text) }
                .filter { !$0.1.isEmpty }.map { "\($0.0)=\($0.1)" }.joined(separator: " ")
        case .object(let id): id?.shortDescription ?? ""
        case .objects(let ids): ids.map(\.shortDescription).joined(separator: ", ")
        case .list(let values): values.map(\.text).joined(separator: ", ")
        case .unreadable: "<unreadable>"
        }
    }
}

// MARK: - Dates

/// Points in time as the command prints them.
enum PrintedDate {
    /// To the second, in UTC: `2026-11-22T03:10:00Z`.
    static func text(_ date: Date) -> String {
        Date(timeIntervalSince1970: date.timeIntervalSince1970.rounded(.down))
            .formatted(.iso8601)
    }

    /// The text, or null.
    static func json(_ date: Date?) -> JSONValue { JSONValue(date.map(text)) }
}
