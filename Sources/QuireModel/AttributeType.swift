/// The type of an attribute, with Core Data's codes as raw values.
public enum AttributeType: Int, Sendable, Hashable, CaseIterable {
    /// No type yet: only for transient attributes.
    case undefined = 0
    /// A signed integer of 16 bits.
    case integer16 = 100
    /// A signed integer of 32 bits.
    case integer32 = 200
    /// A signed integer of 64 bits.
    case integer64 = 300
    /// A decimal number. SQLite stores keep 15 digits of fractional ones, as in Core Data, other stores all 38; see
    /// ``SQLiteStoreOptions/refusesInexactDecimals``.
    case decimal = 400
    /// A floating-point number of 64 bits.
    case double = 500
    /// A floating-point number of 32 bits.
    case float = 600
    /// A text.
    case string = 700
    /// True or false.
    case boolean = 800
    /// A point in time.
    case date = 900
    /// Bytes.
    case binary = 1000
    /// A universally unique identifier.
    case uuid = 1100
    /// A uniform resource identifier.
    case uri = 1200
    /// Bytes encoded and decoded by a value transformer.
    case transformable = 1800
    /// The identifier of an object. Not stored.
    case objectID = 2000
    /// Several named values; see ``CompositeDescription``.
    case composite = 2100
}

extension AttributeType {
    /// Whether the values are integers, decimals or floating-point numbers.
    package var isNumber: Bool {
        switch self {
        case .integer16, .integer32, .integer64, .decimal, .double, .float: true
        default: false
        }
    }

    /// The type's name in error messages.
    package var title: String {
        switch self {
        case .undefined: "undefined"
        case .integer16: "16-bit integer"
        case .integer32: "32-bit integer"
        case .integer64: "64-bit integer"
        case .decimal: "decimal number"
        case .double: "floating-point number"
        case .float: "32-bit floating-point number"
        case .string: "text"
        case .boolean: "Boolean value"
        case .date: "date"
        case .binary: "binary value"
        case .uuid: "UUID"
        case .uri: "URI"
        case .transformable: "transformable value"
        case .objectID: "object identifier"
        case .composite: "composite"
        }
    }
}
