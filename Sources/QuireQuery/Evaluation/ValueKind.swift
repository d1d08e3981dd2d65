import Foundation
package import QuireModel

/// The kinds of values that compare with each other.
package enum ValueKind: Sendable, Hashable {
    case number, text, date, bytes, uuid, object
    /// A transient value of any type.
    case any

    /// The kind of an attribute's or a to-one relationship's values.
    init(of slot: Int, in entity: EntityLayout) {
        guard let type = entity.slots[slot].attribute?.type else {
            self = .object
            return
        }
        switch type {
        case .integer16, .integer32, .integer64, .double, .float, .decimal, .boolean:
            self = .number
        case .string, .uri: self = .text
        case .date: self = .date
        case .binary, .transformable: self = .bytes
        case .uuid: self = .uuid
        case .objectID: self = .object
        case .undefined, .composite: self = .any
        }
    }

    /// The kind of a constant; `nil` if it is missing.
    package init?(of constant: AttributeValue) {
        if ValueOrder.isMissing(constant) { return nil }
        switch constant {
        case .null: return nil
        case .integer, .double, .decimal, .boolean: self = .number
        case .string, .uri: self = .text
        case .date: self = .date
        case .binary, .external: self = .bytes
        case .uuid: self = .uuid
        case .objectID: self = .object
        case .composite: self = .any
        }
    }

    /// Whether values of both kinds compare.
    func isComparable(with other: ValueKind) -> Bool {
        self == other || self == .any || other == .any
    }

    /// As in “holds …”.
    var noun: String {
        switch self {
        case .number: "a number"
        case .text: "text"
        case .date: "a date"
        case .bytes: "binary data"
        case .uuid: "a UUID"
        case .object: "an object"
        case .any: "values of any type"
        }
    }
}
