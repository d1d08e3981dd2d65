import Foundation
import Quire

/// JSON for a `script` element of a page: whatever texts it has, it contains no `<`, `>` or `&`, so nothing in it ends the
/// element or is markup.
struct PageJSON {
    /// The JSON so far, in UTF-8.
    private(set) var bytes: [UInt8] = []
    /// A value's JSON, before it is escaped for HTML.
    private var plain: [UInt8] = []

    /// The greatest integer up to which JavaScript's numbers are exact.
    private static let maximumExactInteger: UInt64 = 1 << 53

    /// Removes what has been written, and keeps the memory for more.
    mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

    /// Appends punctuation, or a number.
    mutating func append(raw text: String) { bytes += text.utf8 }

    /// Appends a text in quotation marks.
    mutating func append(_ text: String) { append(.string(text)) }

    /// Appends an attribute's value other than bytes. An integer that JavaScript has no number for is a text.
    mutating func append(_ value: AttributeValue, as type: AttributeType) {
        switch value {
        case .integer(let integer) where integer.magnitude > Self.maximumExactInteger:
            append(String(integer))
        case .objectID(let identifier): append(identifier.shortDescription)
        default: append(JSONValue(value, as: type))
        }
    }

    private mutating func append(_ value: JSONValue) {
        plain.removeAll(keepingCapacity: true)
        value.write(to: &plain)
        let json = plain
        json.withUnsafeBufferPointer { appendEscaped($0) }
    }

    /// Appends JSON, in which the characters that mean something in HTML can only be in texts.
    mutating func append(json: Data) {
        json.withUnsafeBytes { raw in
            raw.withMemoryRebound(to: UInt8.self) { appendEscaped($0) }
        }
    }

    /// Appends JSON with `\u` escapes for `<`, `>`, `&`, and the line separators that JavaScript once did not allow in texts.
    private mutating func appendEscaped(_ json: UnsafeBufferPointer<UInt8>) {
        var start = json.startIndex
        func isSeparator(_ index: Int) -> Bool {
            json[index] == 0xE2 && index + 2 < json.endIndex && json[index + 1] == 0x80
                && json[index + 2] & 0xFE == 0xA8
        }
        var index = json.startIndex
        while index < json.endIndex {
            let (length, escape): (Int, String)
            switch json[index] {
            case UInt8(ascii: "<"): (length, escape) = (1, "\\u003c")
            case UInt8(ascii: ">"): (length, escape) = (1, "\\u003e")
            case UInt8(ascii: "&"): (length, escape) = (1, "\\u0026")
            case 0xE2 where isSeparator(index):
                (length, escape) = (3, json[index + 2] == 0xA8 ? "\\u2028" : "\\u2029")
            default:
                index += 1
                continue
            }
            bytes += json[start..<index]
            bytes += escape.utf8
            index += length
            start = index
        }
        bytes += json[start...]
    }
}
