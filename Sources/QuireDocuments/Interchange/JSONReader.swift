package import Foundation
import Quire

/// Reads a JSON text (RFC 8259) strictly: one value, no name twice in an object, valid UTF-8, no more than 128
/// levels.
///
/// Foundation's readers turn numbers into `Double` where it suits them and forget where a value stood; imports
/// need both, so this one keeps digits and places.
package struct JSONReader {
    private let bytes: [UInt8]
    private let file: String
    private var position = 0
    private var line = 1
    private var lineStart = 0
    private static let greatestDepth = 128

    /// Reads a text.
    ///
    /// - Parameter file: The name to give the text in errors.
    /// - Throws: `QuireError` with code `invalidFormat`, which says line and column.
    package static func read(_ data: Data, file: String) throws -> JSONNode {
        var reader = JSONReader(bytes: Array(data), file: file)
        if reader.bytes.starts(with: [0xEF, 0xBB, 0xBF]) { reader.skipByteOrderMark() }
        reader.skipSpace()
        let node = try reader.value(depth: 0)
        reader.skipSpace()
        if reader.position < reader.bytes.count {
            throw reader.error("there is more after the end of the value")
        }
        return node
    }

    private init(bytes: [UInt8], file: String) {
        self.bytes = bytes
        self.file = file
    }

    private mutating func skipByteOrderMark() {
        position = 3
        lineStart = 3
    }

    private var current: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipSpace() {
        while let byte = current {
            switch byte {
            case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"): position += 1
            case UInt8(ascii: "\n"):
                position += 1
                line += 1
                lineStart = position
            default: return
            }
        }
    }

    private func error(_ sentence: String, at place: Int? = nil) -> QuireError {
        let place = place ?? position
        let column = Self.characters(in: bytes[min(lineStart, place)..<min(place, bytes.count)]) + 1
        return QuireError(
            .invalidFormat,
            "\(file), line \(line), column \(column): this is not JSON, because \(sentence).",
            subject: .init(file: file, position: line))
    }

    private static func characters(in bytes: ArraySlice<UInt8>) -> Int {
        bytes.count { $0 & 0xC0 != 0x80 }
    }

    // MARK: - Values

    private mutating func value(depth: Int) throws -> JSONNode {
        guard depth < Self.greatestDepth else {
            throw error("it is nested more than \(Self.greatestDepth) levels deep")
        }
        let column = Self.characters(in: bytes[lineStart..<position]) + 1
        let line = self.line
        func node(_ content: JSONNode.Content) -> JSONNode {
            JSONNode(content, line: line, column: column)
        }
        switch current {
        case UInt8(ascii: "{"): return node(try object(depth: depth))
        case UInt8(ascii: "["): return node(try array(depth: depth))
        case UInt8(ascii: "\""): return node(.string(try string()))
        case UInt8(ascii: "t"): return node(try word("true", .boolean(true)))
        case UInt8(ascii: "f"): return node(try word("false", .boolean(false)))
        case UInt8(ascii: "n"): return node(try word("null", .null))
        case UInt8(ascii: "-"): return node(.number(try number()))
        case let byte? where Self.isDigit(byte): return node(.number(try number()))
        case nil: throw error("it ends where a value must be")
        default: throw error("no value begins like this")
        }
    }

    private mutating func word(
        _ word: String, _ content: JSONNode.Content
    ) throws -> JSONNode.Content {
        guard bytes[position...].starts(with: word.utf8) else {
            throw error("no value begins like this")
        }
        position += word.utf8.count
        return content
    }

    private mutating func object(depth: Int) throws -> JSONNode.Content {
        position += 1
        var members: [JSONNode.Member] = []
        var names: Set<String> = []
        skipSpace()
        if current == UInt8(ascii: "}") {
            position += 1
            return .object([])
        }
        while true {
            guard current == UInt8(ascii: "\"") else {
                throw error("a name in quotation marks must be here")
            }
            let start = position
            let name = try string()
            if !names.insert(name).inserted {
                throw error("the name “\(name)” is twice in this object", at: start)
            }
            skipSpace()
            guard current == UInt8(ascii: ":") else { throw error("a colon must be here") }
            position += 1
            skipSpace()
            members.append(.init(name: name, value: try value(depth: depth + 1)))
            skipSpace()
            if current == UInt8(ascii: "}") {
                position += 1
                return .object(members)
            }
            guard current == UInt8(ascii: ",") else {
                throw error("a comma or a closing brace must be here")
            }
            position += 1
            skipSpace()
        }
    }

    private mutating func array(depth: Int) throws -> JSONNode.Content {
        position += 1
        var elements: [JSONNode] = []
        skipSpace()
        if current == UInt8(ascii: "]") {
            position += 1
            return .array([])
        }
        while true {
            elements.append(try value(depth: depth + 1))
            skipSpace()
            if current == UInt8(ascii: "]") {
                position += 1
                return .array(elements)
            }
            guard current == UInt8(ascii: ",") else {
                throw error("a comma or a closing bracket must be here")
            }
            position += 1
            skipSpace()
        }
    }

    // MARK: - Numbers and texts

    private mutating func number() throws -> String {
        let start = position
        if current == UInt8(ascii: "-") { position += 1 }
        if current == UInt8(ascii: "0") {
            position += 1
        } else {
            try digits()
        }
        if current == UInt8(ascii: ".") {
            position += 1
            try digits()
        }
        if current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
            position += 1
            if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { position += 1 }
            try digits()
        }
        return String(decoding: bytes[start..<position], as: UTF8.self)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    private mutating func digits() throws {
        let start = position
        while let byte = current, Self.isDigit(byte) { position += 1 }
        if position == start { throw error("a digit must be here") }
    }

    private mutating func string() throws -> String {
        position += 1
        var text: [UInt8] = []
        let start = position
        while let byte = current {
            switch byte {
            case UInt8(ascii: "\""):
                position += 1
                guard let string = String(validating: text, as: UTF8.self) else {
                    throw error("this text is not valid UTF-8", at: start)
                }
                return string
            case UInt8(ascii: "\\"):
                position += 1
                try escape(into: &text)
            case 0..<0x20: throw error("a control character must be written as an escape")
            default:
                text.append(byte)
                position += 1
            }
        }
        throw error("a text has no closing quotation mark", at: start - 1)
    }

    private mutating func escape(into text: inout [UInt8]) throws {
        guard let byte = current else { throw error("it ends within an escape") }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "u"): text.append(contentsOf: String(try scalar()).utf8)
        default: throw error("there is no such escape", at: position - 2)
        }
    }

    private mutating func scalar() throws -> Unicode.Scalar {
        let start = position - 2
        let unit = try codeUnit()
        var value = unit
        if (0xD800..<0xDC00).contains(unit) {
            guard current == UInt8(ascii: "\\"), position + 1 < bytes.count,
                bytes[position + 1] == UInt8(ascii: "u")
            else { throw error("half of a surrogate pair stands alone", at: start) }
            position += 2
            let low = try codeUnit()
            guard (0xDC00..<0xE000).contains(low) else {
                throw error("half of a surrogate pair stands alone", at: start)
            }
            value = 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
        }
        guard let scalar = Unicode.Scalar(value) else {
            throw error("half of a surrogate pair stands alone", at: start)
        }
        return scalar
    }

    private mutating func codeUnit() throws -> UInt32 {
        guard position + 4 <= bytes.count,
            let unit = UInt32(
                String(decoding: bytes[position..<position + 4], as: UTF8.self), radix: 16),
            bytes[position] != UInt8(ascii: "+"), bytes[position] != UInt8(ascii: "-")
        else { throw error("four hexadecimal digits must follow \\u") }
        position += 4
        return unit
    }
}
