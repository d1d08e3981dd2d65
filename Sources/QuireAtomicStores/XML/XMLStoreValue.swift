import Foundation
internal import QuireModel

/// Values in XML stores.
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
/// The last three, and Float distinct from Double, have not been seen in real stores; their forms are Quire's. Elements of
/// composite attributes are attributes with dotted names, external binary values are inline, and ordered relationships list
/// their objects in order.
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

    /// The type for a type name, without a model.
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
        // Rows of such a store have inline values.
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

// MARK: - Texts

/// The text of an XML store under construction.
///
/// In values of objects Core Data writes the characters `<`, `>` and `&` not as XML does but as `\u` and the hexadecimal
/// digits of a UTF-16 unit with its bytes swapped (`<` is `\u3c00`), and a backslash twice. This does the same, also for
/// characters that XML cannot represent, or would change: control characters, carriage returns, U+FFFE and U+FFFF.
package struct XMLStoreText {
    private(set) var bytes: [UInt8] = []

    mutating func write(_ text: String) { bytes.append(contentsOf: text.utf8) }

    mutating func write(_ more: some Collection<UInt8>) { bytes.append(contentsOf: more) }

    /// Begins a line that stands so many steps in.
    mutating func indent(_ depth: Int) {
        bytes.append(contentsOf: repeatElement(0x20, count: depth * 4))
    }

    /// Writes a text of the property list. Characters that XML cannot represent become U+FFFD.
    mutating func writeEscapingXML(_ text: String) {
        for character in text.unicodeScalars {
            switch character {
            case "<": write("&lt;")
            case ">": write("&gt;")
            case "&": write("&amp;")
            case "\r": write("&#13;")
            default:
                bytes.append(
                    contentsOf: UTF8.encode(
                        ModelNames.isWritable(character) ? character : "\u{FFFD}")
                        ?? UTF8.encodedReplacementCharacter)
            }
        }
    }

    /// Writes a value of an object.
    mutating func writeEscaped(_ text: String) {
        var text = text
        text.withUTF8 { utf8 in
            guard utf8.contains(where: Self.mayNeedEscape) else {
                bytes.append(contentsOf: utf8)
                return
            }
            for character in String(decoding: utf8, as: UTF8.self).unicodeScalars {
                switch character {
                case "\\": bytes.append(contentsOf: [0x5C, 0x5C])
                case "<", ">", "&", "\r": writeUnit(UInt16(character.value))
                default:
                    if ModelNames.isWritable(character) {
                        bytes.append(
                            contentsOf: UTF8.encode(character) ?? UTF8.encodedReplacementCharacter)
                    } else {
                        writeUnit(UInt16(character.value))  // None of them is beyond U+FFFF.
                    }
                }
            }
        }
    }

    private static func mayNeedEscape(_ byte: UInt8) -> Bool {
        // U+FFFE and U+FFFF begin with 0xEF.
        byte < 0x20 && byte != 0x09 && byte != 0x0A || byte == 0x5C || byte == 0x3C || byte == 0x3E
            || byte == 0x26 || byte == 0xEF
    }

    private static let digits = Array("0123456789abcdef".utf8)

    private mutating func writeUnit(_ unit: UInt16) {
        bytes.append(contentsOf: [0x5C, 0x75])
        for byte in [UInt8(unit & 0xFF), UInt8(unit >> 8)] {
            bytes.append(Self.digits[Int(byte >> 4)])
            bytes.append(Self.digits[Int(byte & 0xF)])
        }
    }

    /// The unescaped text. A backslash that begins no escape is literal.
    package static func unescaped(_ text: String) -> String {
        guard text.utf8.contains(0x5C) else { return text }
        var units: [UInt16] = []
        let source = Array(text.utf16)
        units.reserveCapacity(source.count)
        var index = 0
        while index < source.count {
            let unit = source[index]
            if unit == 0x5C, index + 1 < source.count {
                if source[index + 1] == 0x5C {
                    units.append(0x5C)
                    index += 2
                    continue
                }
                if source[index + 1] == 0x75, index + 5 < source.count,
                    let value = swapped(source[(index + 2)...(index + 5)])
                {
                    units.append(value)
                    index += 6
                    continue
                }
            }
            units.append(unit)
            index += 1
        }
        return String(decoding: units, as: UTF16.self)
    }

    private static func swapped(_ digits: ArraySlice<UInt16>) -> UInt16? {
        var value: UInt16 = 0
        for digit in digits {
            let number: UInt16
            switch digit {
            case 0x30...0x39: number = digit - 0x30
            case 0x41...0x46: number = digit - 0x41 + 10
            case 0x61...0x66: number = digit - 0x61 + 10
            default: return nil
            }
            value = value << 4 | number
        }
        return value.byteSwapped
    }
}
