import Foundation
internal import QuireModel

/// Values as XML stores write them.
///
/// | attribute | `type` | text |
/// |---|---|---|
/// | String | `string` | escaped, see ``XMLStoreText`` |
/// | Boolean | `bool` | `0`, `1` |
/// | Integer 16, 32, 64 | `int16`, `int32`, `int64` | decimal digits |
/// | Double, Float | `float` | the shortest digits that read back the same |
/// | Date | `date` | seconds since 2001 with 20 decimals, or more digits where these would not read back the same |
/// | Binary, Transformable | `binary` | base64 in one line |
/// | Decimal | `decimal` | all digits |
/// | UUID | `UUID` | capitals |
/// | URI | `URI` | escaped as a text |
///
/// No real store has been seen with the last three, nor with Float apart from Double; their forms are ours. Elements of
/// composite attributes are attributes whose names are joined with dots, binary values that could be kept in files are
/// in the store, and ordered relationships list their objects in their order.
enum XMLStoreValue {
    /// The word for a type.
    static func typeName(_ type: AttributeType) -> String {
        switch type {
        case .integer16: "int16"
        case .integer32: "int32"
        case .integer64: "int64"
        case .boolean: "bool"
        case .double, .float: "float"
        case .decimal: "decimal"
        case .date: "date"
        case .binary, .transformable: "binary"
        case .uuid: "UUID"
        case .uri: "URI"
        case .string, .undefined, .objectID, .composite: "string"
        }
    }

    /// The type that a word stands for, where there is no model.
    static func type(named name: String) -> AttributeType? {
        switch name.lowercased() {
        case "int16": .integer16
        case "int32": .integer32
        case "int64": .integer64
        case "bool": .boolean
        case "float", "double": .double
        case "decimal": .decimal
        case "date": .date
        case "binary": .binary
        case "uuid": .uuid
        case "uri": .uri
        case "string": .string
        default: nil
        }
    }

    static func write(
        _ value: AttributeValue, of type: AttributeType, to text: inout XMLStoreText
    ) {
        switch value {
        // Rows of such a store have their bytes with them.
        case .null, .composite, .objectID, .external: break
        case .string(let string): text.writeEscaped(string)
        case .integer(let number): text.write(String(number))
        case .boolean(let truth): text.write(truth ? "1" : "0")
        case .date(let date): text.write(number(date.timeIntervalSinceReferenceDate))
        case .binary(let data): text.write(data.base64EncodedString())
        case .uri(let uri): text.writeEscaped(uri.absoluteString)
        case .double, .decimal, .uuid: text.write(value.text(as: type) ?? "")
        }
    }

    /// A time, with 20 decimals if these tell it.
    private static func number(_ seconds: Double) -> String {
        guard seconds.isFinite, abs(seconds) < 1e15 else { return seconds.description }
        let text = String(format: "%.20f", seconds)
        return Double(text) == seconds ? text : seconds.description
    }

    /// Reads a value of an attribute's type.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue`.
    static func read(_ text: String, as type: AttributeType) throws -> AttributeValue {
        switch type {
        case .string: return .string(XMLStoreText.unescaped(text))
        case .uri:
            return try AttributeValue(parsing: XMLStoreText.unescaped(text), as: .uri)
        case .date:
            guard let seconds = Double(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
                return try AttributeValue(parsing: text, as: .date)
            }
            return seconds.isNaN
                ? .null : .date(Date(timeIntervalSinceReferenceDate: seconds))
        case .float:
            if let number = Float(text.trimmingCharacters(in: .whitespacesAndNewlines)) {
                return number.isNaN ? .null : .double(Double(number))
            }
            return try AttributeValue(parsing: text, as: type)
        case .double:
            if let number = Double(text.trimmingCharacters(in: .whitespacesAndNewlines)) {
                return number.isNaN ? .null : .double(number)
            }
            return try AttributeValue(parsing: text, as: type)
        default: return try AttributeValue(parsing: text, as: type)
        }
    }
}
