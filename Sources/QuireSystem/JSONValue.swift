/// A JSON value to be written, always in the same bytes: names sorted, no optional escapes but of what a
/// terminal would obey, numbers with the fewest digits that read back as the same number.
///
/// `JSONSerialization` passes numbers through `NSNumber` and sorts names by locale on some systems; what the command prints and
/// what is exported is a contract, so it is written here.
package indirect enum JSONValue: Sendable, Equatable {
    case null
    case boolean(Bool)
    case integer(Int64)
    /// A number; infinities and NaN, which JSON cannot say, become texts.
    case double(Double)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    /// A text, or null.
    package init(_ string: String?) { self = string.map { .string($0) } ?? .null }

    /// The value as text.
    ///
    /// - Parameter levels: How many levels of arrays and objects are spread over lines, one element each; what
    ///   is deeper stays on one line.
    package func text(levels: Int = 0) -> String {
        var bytes: [UInt8] = []
        write(to: &bytes, levels: levels)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Writes the value as ``text(levels:)`` has it, in UTF-8.
    package func write(to bytes: inout [UInt8], levels: Int = 0, indentation: Int = 0) {
        switch self {
        case .null: bytes += "null".utf8
        case .boolean(let value): bytes += (value ? "true" : "false").utf8
        case .integer(let value): bytes += String(value).utf8
        case .double(let value): Self.write(value, to: &bytes)
        case .string(let value): Self.write(value, to: &bytes)
        case .array(let elements):
            Self.write(
                elements, open: "[", close: "]", to: &bytes, levels: levels,
                indentation: indentation
            ) { element, bytes in
                element.write(to: &bytes, levels: levels - 1, indentation: indentation + 2)
            }
        case .object(let members):
            // Swift orders texts by their canonical form; equal canonical forms are the same key.
            Self.write(
                members.sorted { $0.key < $1.key }, open: "{", close: "}", to: &bytes,
                levels: levels, indentation: indentation
            ) { member, bytes in
                Self.write(member.key, to: &bytes)
                bytes += ": ".utf8
                member.value.write(to: &bytes, levels: levels - 1, indentation: indentation + 2)
            }
        }
    }

    private static func write<Element>(
        _ elements: [Element], open: Unicode.Scalar, close: Unicode.Scalar,
        to bytes: inout [UInt8], levels: Int, indentation: Int,
        element write: (Element, inout [UInt8]) -> Void
    ) {
        bytes.append(UInt8(ascii: open))
        let spread = levels > 0 && !elements.isEmpty
        let lineEnd = "\n" + String(repeating: " ", count: indentation)
        for (offset, element) in elements.enumerated() {
            if spread {
                bytes += ((offset == 0 ? "" : ",") + lineEnd + "  ").utf8
            } else if offset > 0 {
                bytes += ", ".utf8
            }
            write(element, &bytes)
        }
        if spread { bytes += lineEnd.utf8 }
        bytes.append(UInt8(ascii: close))
    }

    private static func write(_ value: Double, to bytes: inout [UInt8]) {
        switch value {
        case .infinity: bytes += "\"Infinity\"".utf8
        case -.infinity: bytes += "\"-Infinity\"".utf8
        case _ where value.isNaN: bytes += "\"NaN\"".utf8
        default: bytes += value.description.utf8
        }
    }

    /// Writes a text in quotation marks. Only what must be escaped is, and ``TerminalText``.
    private static func write(_ value: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        var value = value
        value.withUTF8 { text in
            var plain = text.startIndex
            for index in text.indices {
                // Most bytes are neither escaped nor part of a character that is.
                let byte = text[index]
                if byte >= 0x20, byte < 0x7F, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\")
                {
                    continue
                }
                if let (scalar, length) = obeyedCharacter(text, endingAt: index) {
                    bytes += text[plain...index].dropLast(length)
                    bytes += TerminalText.escape(scalar).utf8
                    plain = index + 1
                    continue
                }
                guard let escape = escape(for: text[index]) else { continue }
                bytes += text[plain..<index]
                bytes += escape.utf8
                plain = index + 1
            }
            bytes += text[plain...]
        }
        bytes.append(UInt8(ascii: "\""))
    }

    /// The character of several bytes that ends at an index, with their number, if a terminal would obey it.
    private static func obeyedCharacter(
        _ text: UnsafeBufferPointer<UInt8>, endingAt index: Int
    ) -> (Unicode.Scalar, length: Int)? {
        guard text[index] & 0xC0 == 0x80, index > 0 else { return nil }
        let value: UInt32
        let length: Int
        switch text[index - 1] {
        case 0xC2, 0xD8:
            (value, length) = (UInt32(text[index - 1] & 0x1F) << 6 | UInt32(text[index] & 0x3F), 2)
        case 0x80, 0x81:
            guard index > 1, text[index - 2] == 0xE2 else { return nil }
            value = 0x2000 | UInt32(text[index - 1] & 0x3F) << 6 | UInt32(text[index] & 0x3F)
            length = 3
        default: return nil
        }
        guard let scalar = Unicode.Scalar(value), TerminalText.isObeyed(scalar) else { return nil }
        return (scalar, length)
    }

    private static func escape(for byte: UInt8) -> String? {
        switch byte {
        case UInt8(ascii: "\""): return "\\\""
        case UInt8(ascii: "\\"): return "\\\\"
        case UInt8(ascii: "\n"): return "\\n"
        case UInt8(ascii: "\r"): return "\\r"
        case UInt8(ascii: "\t"): return "\\t"
        case 0x08: return "\\b"
        case 0x0C: return "\\f"
        case 0..<0x20, 0x7F:
            let digits = String(byte, radix: 16)
            return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        default: return nil
        }
    }
}
