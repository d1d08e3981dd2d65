package import Foundation
import Quire

/// Reads a JSON text (RFC 8259) strictly: one value, no name twice in an object, valid UTF-8, no more than 128
/// levels.
///
/// Foundation's readers turn numbers into `Double` where it suits them and forget where a value stood; imports
/// need both, so this one keeps digits and places. It passes over each byte once.
package struct JSONReader {
    private var bytes: ByteReader
    private let file: String
    /// Where the next byte is.
    private var place = Place(line: 1, column: 1)
    private static let greatestDepth = 128

    private struct Place {
        /// From 1.
        var line: Int
        /// From 1, in characters as UTF-8 counts them.
        var column: Int
    }

    /// Reads a text.
    ///
    /// - Parameter file: The name to give the text in errors.
    /// - Throws: `QuireError` with code `invalidFormat`, which says line and column.
    package static func read(_ data: Data, file: String) throws -> JSONNode {
        var reader = try JSONReader(ByteReader(data), file: file)
        let node = try reader.value(depth: 0)
        try reader.finish()
        return node
    }

    /// Reads a text that is an array, and calls a closure with each element, of which one at a time is in memory.
    ///
    /// - Parameter file: The name to give the text in errors.
    /// - Throws: As ``read(_:file:)``, also if the text is not an array; or what the closure throws.
    package static func forEachElement(
        of bytes: ByteReader, file: String, _ body: (JSONNode) throws -> Void
    ) throws {
        var reader = try JSONReader(bytes, file: file)
        let start = reader.place
        if try reader.bytes.peek() == UInt8(ascii: "[") {
            try reader.forEachElement(depth: 0, body)
            return try reader.finish()
        }
        // What is not JSON at all is the first thing to say.
        _ = try reader.value(depth: 0)
        try reader.finish()
        throw QuireError(
            .invalidFormat, "\(file), line \(start.line): an array of objects must be here.",
            subject: .init(file: file, position: start.line))
    }

    private init(_ bytes: ByteReader, file: String) throws {
        self.bytes = bytes
        self.file = file
        try self.bytes.skipByteOrderMark()
        try skipSpace()
    }

    private mutating func finish() throws {
        try skipSpace()
        if try bytes.peek() != nil { throw error("there is more after the end of the value") }
    }

    /// Takes a byte that was peeked at.
    private mutating func take(_ byte: UInt8) {
        bytes.skip()
        if byte == UInt8(ascii: "\n") {
            place.line += 1
            place.column = 1
        } else if byte & 0xC0 != 0x80 {
            place.column += 1
        }
    }

    /// Takes the next byte if it is a certain one.
    private mutating func takes(_ byte: Unicode.Scalar) throws -> Bool {
        guard try bytes.peek() == UInt8(ascii: byte) else { return false }
        take(UInt8(ascii: byte))
        return true
    }

    private mutating func skipSpace() throws {
        while let byte = try bytes.peek() {
            switch byte {
            case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"):
                take(byte)
            default: return
            }
        }
    }

    private func error(_ sentence: String, at place: Place? = nil) -> QuireError {
        let place = place ?? self.place
        return QuireError(
            .invalidFormat,
            "\(file), line \(place.line), column \(place.column): this is not JSON, because \(sentence).",
            subject: .init(file: file, position: place.line))
    }

    // MARK: - Values

    private mutating func value(depth: Int) throws -> JSONNode {
        guard depth < Self.greatestDepth else {
            throw error("it is nested more than \(Self.greatestDepth) levels deep")
        }
        let place = self.place
        let content: JSONNode.Content
        switch try bytes.peek() {
        case UInt8(ascii: "{"): content = try object(depth: depth)
        case UInt8(ascii: "["):
            var elements: [JSONNode] = []
            try forEachElement(depth: depth) { elements.append($0) }
            content = .array(elements)
        case UInt8(ascii: "\""): content = .string(try string())
        case UInt8(ascii: "t"): content = try word("true", .boolean(true))
        case UInt8(ascii: "f"): content = try word("false", .boolean(false))
        case UInt8(ascii: "n"): content = try word("null", .null)
        case UInt8(ascii: "-"): content = .number(try number())
        case let byte? where Self.isDigit(byte): content = .number(try number())
        case nil: throw error("it ends where a value must be")
        default: throw error("no value begins like this")
        }
        return JSONNode(content, line: place.line, column: place.column)
    }

    private mutating func word(
        _ word: String, _ content: JSONNode.Content
    ) throws -> JSONNode.Content {
        let start = place
        for byte in word.utf8 {
            guard try bytes.peek() == byte else {
                throw error("no value begins like this", at: start)
            }
            take(byte)
        }
        return content
    }

    private mutating func object(depth: Int) throws -> JSONNode.Content {
        take(UInt8(ascii: "{"))
        var members: [JSONNode.Member] = []
        var names: Set<String> = []
        try skipSpace()
        if try takes("}") { return .object([]) }
        while true {
            let start = place
            guard try bytes.peek() == UInt8(ascii: "\"") else {
                throw error("a name in quotation marks must be here")
            }
            let name = try string()
            if !names.insert(name).inserted {
                throw error("the name “\(name)” is twice in this object", at: start)
            }
            try skipSpace()
            guard try takes(":") else { throw error("a colon must be here") }
            try skipSpace()
            members.append(.init(name: name, value: try value(depth: depth + 1)))
            try skipSpace()
            if try takes("}") { return .object(members) }
            guard try takes(",") else {
                throw error("a comma or a closing brace must be here")
            }
            try skipSpace()
        }
    }

    private mutating func forEachElement(
        depth: Int, _ body: (JSONNode) throws -> Void
    ) throws {
        take(UInt8(ascii: "["))
        try skipSpace()
        if try takes("]") { return }
        while true {
            try body(value(depth: depth + 1))
            try skipSpace()
            if try takes("]") { return }
            guard try takes(",") else {
                throw error("a comma or a closing bracket must be here")
            }
            try skipSpace()
        }
    }

    // MARK: - Numbers and texts

    private mutating func number() throws -> String {
        var text: [UInt8] = []
        func accept(_ wanted: String) throws -> Bool {
            guard let byte = try bytes.peek(), wanted.utf8.contains(byte) else { return false }
            take(byte)
            text.append(byte)
            return true
        }
        func digits() throws {
            guard try accept("0123456789") else { throw error("a digit must be here") }
            while try accept("0123456789") {}
        }
        _ = try accept("-")
        if try !accept("0") { try digits() }
        if try accept(".") { try digits() }
        if try accept("eE") {
            _ = try accept("+-")
            try digits()
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    private mutating func string() throws -> String {
        let mark = place
        take(UInt8(ascii: "\""))
        let start = place
        var text: [UInt8] = []
        while let byte = try bytes.peek() {
            switch byte {
            case UInt8(ascii: "\""):
                take(byte)
                guard let string = String(validating: text, as: UTF8.self) else {
                    throw error("this text is not valid UTF-8", at: start)
                }
                return string
            case UInt8(ascii: "\\"): try escape(into: &text)
            case 0..<0x20: throw error("a control character must be written as an escape")
            default:
                text.append(byte)
                take(byte)
            }
        }
        throw error("a text has no closing quotation mark", at: mark)
    }

    private mutating func escape(into text: inout [UInt8]) throws {
        let start = place
        take(UInt8(ascii: "\\"))
        guard let byte = try bytes.peek() else { throw error("it ends within an escape") }
        take(byte)
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "u"): text.append(contentsOf: String(try scalar(from: start)).utf8)
        default: throw error("there is no such escape", at: start)
        }
    }

    /// What the digits of an escape stand for, and the other half of a surrogate pair.
    private mutating func scalar(from start: Place) throws -> Unicode.Scalar {
        var value = try codeUnit()
        if (0xD800..<0xDC00).contains(value) {
            guard try takes("\\"), try takes("u") else {
                throw error("half of a surrogate pair stands alone", at: start)
            }
            let low = try codeUnit()
            guard (0xDC00..<0xE000).contains(low) else {
                throw error("half of a surrogate pair stands alone", at: start)
            }
            value = 0x10000 + (value - 0xD800) << 10 + (low - 0xDC00)
        }
        guard let scalar = Unicode.Scalar(value) else {
            throw error("half of a surrogate pair stands alone", at: start)
        }
        return scalar
    }

    private mutating func codeUnit() throws -> UInt32 {
        let start = place
        var unit: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = try bytes.peek(),
                let digit = Character(Unicode.Scalar(byte)).hexDigitValue, byte < 0x80
            else { throw error("four hexadecimal digits must follow \\u", at: start) }
            take(byte)
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }
}
