public import Foundation

/// A value of a property list, as the metadata of stores have them.
///
/// ```swift
/// try store.setMetadata(["name": "Library", "shelves": 12], forKey: "com.example.state")
/// ```
public indirect enum PropertyListValue: Sendable, Hashable {
    /// A text.
    case string(String)
    /// An integer.
    case integer(Int64)
    /// A floating-point number.
    case real(Double)
    /// True or false.
    case boolean(Bool)
    /// Bytes.
    case data(Data)
    /// A point in time.
    case date(Date)
    /// Values in an order.
    case array([PropertyListValue])
    /// Values by key.
    case dictionary([String: PropertyListValue])
}

extension PropertyListValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral,
    ExpressibleByDictionaryLiteral
{
    /// A text.
    public init(stringLiteral value: String) { self = .string(value) }
    /// An integer.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// A floating-point number.
    public init(floatLiteral value: Double) { self = .real(value) }
    /// True or false.
    public init(booleanLiteral value: Bool) { self = .boolean(value) }
    /// Values in an order.
    public init(arrayLiteral elements: PropertyListValue...) { self = .array(elements) }
    /// Values by key; of equal keys the last counts.
    public init(dictionaryLiteral elements: (String, PropertyListValue)...) {
        self = .dictionary(Dictionary(elements, uniquingKeysWith: { $1 }))
    }
}

extension PropertyListValue {
    /// The text, if it is one.
    public var string: String? { if case .string(let text) = self { text } else { nil } }
    /// The integer, if it is one.
    public var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    /// The bytes, if it is bytes.
    public var data: Data? { if case .data(let data) = self { data } else { nil } }
    /// The values in an order, if it is such.
    public var array: [PropertyListValue]? {
        if case .array(let values) = self { values } else { nil }
    }
    /// The values by key, if it is such.
    public var dictionary: [String: PropertyListValue]? {
        if case .dictionary(let values) = self { values } else { nil }
    }
}

// MARK: - Foundation's property lists

extension PropertyListValue {
    /// The value as Foundation's property lists have it.
    package var object: Any {
        switch self {
        case .string(let text): text
        case .integer(let number): Int(number)
        case .real(let number): number
        case .boolean(let truth): truth
        case .data(let data): data
        case .date(let date): date
        case .array(let values): values.map(\.object)
        case .dictionary(let values): values.mapValues(\.object)
        }
    }

    /// The value as a binary property list.
    package var propertyList: Data {
        get throws {
            try PropertyListSerialization.data(
                fromPropertyList: object, format: .binary, options: 0)
        }
    }
}

extension [String: PropertyListValue] {
    /// All texts in it, keys included.
    package var texts: [String] { keys + values.flatMap(\.texts) }
}

extension PropertyListValue {
    fileprivate var texts: [String] {
        switch self {
        case .string(let text): [text]
        case .array(let values): values.flatMap(\.texts)
        case .dictionary(let values): values.texts
        case .integer, .real, .boolean, .data, .date: []
        }
    }
}
