import Foundation
internal import QuireModel

/// The text of an XML store in the making.
///
/// In the values of objects Core Data writes the characters `<`, `>` and `&` not as XML does but as `\u` and the hexadecimal
/// digits of a UTF-16 unit with its bytes swapped (`<` is `\u3c00`), and a backslash twice. So do we, and write the
/// characters that XML cannot hold, or would change, the same way: control characters, carriage returns, U+FFFE and U+FFFF.
package struct XMLStoreText {
    private(set) var bytes: [UInt8] = []

    mutating func write(_ text: String) { bytes.append(contentsOf: text.utf8) }

    mutating func write(_ more: some Collection<UInt8>) { bytes.append(contentsOf: more) }

    /// Begins a line that stands so many steps in.
    mutating func indent(_ depth: Int) {
        bytes.append(contentsOf: repeatElement(0x20, count: depth * 4))
    }

    /// Writes a text of the property list. What XML cannot hold becomes U+FFFD.
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

    /// The text that an escaped one stands for. A backslash that begins no escape stands for itself.
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
