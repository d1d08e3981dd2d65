import Foundation
import Quire

/// JSON for a `script` element of a page: whatever texts it has, it contains no `<`, `>` or `&`, so nothing in it ends the
/// element or is markup.
struct PageJSON {
    /// The JSON so far, in UTF-8.
    private(set) var bytes: [UInt8] = []

    /// The greatest integer up to which JavaScript's numbers are exact.
    private static let maximumExactInteger: Int64 = 1 << 53

    /// Removes what has been written, and keeps the memory for more.
    mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

    /// Appends punctuation, or a number.
    mutating func append(raw text: String) { bytes += text.utf8 }

    /// Appends a text in quotation marks.
    mutating func append(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { appendEscaped($0) { $0 < 0x20 || "\"\\<>&".utf8.contains($0) } }
        bytes.append(UInt8(ascii: "\""))
    }

    /// Appends JSON, in which the characters that mean something in HTML can only be in texts.
    mutating func append(json: Data) {
        json.withUnsafeBytes { raw in
            raw.withMemoryRebound(to: UInt8.self) {
                appendEscaped($0) { "<>&".utf8.contains($0) }
            }
        }
    }

    /// Appends UTF-8 with `\u` escapes for some bytes, and for the line separators that JavaScript once did not allow in texts.
    private mutating func appendEscaped(
        _ text: UnsafeBufferPointer<UInt8>, where isEscaped: (UInt8) -> Bool
    ) {
        var plain = text.startIndex
        func isSeparator(_ index: Int) -> Bool {
            text[index] == 0xE2 && index + 2 < text.endIndex && text[index + 1] == 0x80
                && text[index + 2] & 0xFE == 0xA8
        }
        var index = text.startIndex
        while index < text.endIndex {
            let (length, escape): (Int, UInt16)
            if isSeparator(index) {
                (length, escape) = (3, 0x2000 | UInt16(text[index + 2] & 0x3F))
            } else if isEscaped(text[index]) {
                (length, escape) = (1, UInt16(text[index]))
            } else {
                index += 1
                continue
            }
            bytes += text[plain..<index]
            let digits = String(escape, radix: 16)
            bytes += "\\u\(String(repeating: "0", count: 4 - digits.count))\(digits)".utf8
            index += length
            plain = index
        }
        bytes += text[plain...]
    }

    /// Appends a value other than bytes. What JavaScript has no number for is a text.
    mutating func append(_ value: AttributeValue, as type: AttributeType) {
        switch value {
        case .null, .binary, .external, .composite: append(raw: "null")
        case .integer(let integer):
            if integer.magnitude <= UInt64(Self.maximumExactInteger) {
                append(raw: String(integer))
            } else {
                append(String(integer))
            }
        case .double(let number):
            if number.isFinite {
                append(raw: AttributeValue.shortest(number, as: type).description)
            } else {
                append(number.isNaN ? "NaN" : number < 0 ? "-Infinity" : "Infinity")
            }
        case .boolean(let truth): append(raw: truth ? "true" : "false")
        case .decimal(let decimal): append(AttributeValue.text(ofCompacted: decimal))
        case .date(let date): append(AttributeValue.text(ofDate: date))
        case .string(let text): append(text)
        case .uuid(let uuid): append(uuid.uuidString)
        case .uri(let uri): append(uri.absoluteString)
        case .objectID(let identifier): append(identifier.shortDescription)
        }
    }
}
