package import Foundation
package import Quire

/// A strict JSON parser (RFC 8259): one value, unique names in each object, valid UTF-8, at most 128 levels.
///
/// Foundation's parsers may convert numbers to `Double`, and do not record the position of a value. Imports need the exact
/// digits and the position, so this parser keeps both. It reads each byte once.
package struct JSONReader {
    private var bytes: ByteReader
    private let file: String
    /// The position of the next byte.
    private var place = Place(line: 1, column: 1)
    private static let maximumDepth = 128
    private static let maximumStringSize = 1 << 30

    private struct Place {
        /// From 1.
        var line: Int
        /// From 1, in Unicode scalars.
        var column: Int
    }

    /// Reads a text.
    ///
    /// - Parameter file: The name of the text in errors.
    /// - Throws: `QuireError` with code `invalidFormat`, with line and column.
    package static func read(_ data: Data, file: String) throws -> JSONNode {
        var reader = try JSONReader(ByteReader(data), file: file)
        let node = try reader.value(depth: 0)
        try reader.finish()
        return node
    }

    /// Reads an array, and calls a closure with each element. One element at a time is in memory.
    ///
    /// - Parameter file: The name of the text in errors.
    /// - Throws: As ``read(_:file:)``, also if the text is not an array; rethrows errors of the closure.
    package static func forEachElement(
        of bytes: ByteReader, file: String, _ body: (JSONNode) throws -> Void
    ) throws {
        var reader = try JSONReader(bytes, file: file)
        let start = reader.place
        if try reader.bytes.peek() == UInt8(ascii: "[") {
            try reader.forEachElement(depth: 0, body)
            return try reader.finish()
        }
        // A syntax error takes precedence.
        _ = try reader.value(depth: 0)
        try reader.finish()
        throw QuireError(
            .invalidFormat, "\(file), line \(start.line): expected an array of objects.",
            file: file, position: start.line)
    }

    /// Reads values that follow each other, as one a line, and calls a closure with each. One value at a time is in memory.
    ///
    /// - Parameter file: The name of the text in errors.
    /// - Throws: As ``read(_:file:)``; rethrows errors of the closure.
    package static func forEachValue(
        of bytes: ByteReader, file: String, _ body: (JSONNode) throws -> Void
    ) throws {
        var reader = try JSONReader(bytes, file: file)
        while try reader.bytes.peek() != nil {
            try body(reader.value(depth: 0))
            try reader.skipSpace()
        }
    }

    private init(_ bytes: ByteReader, file: String) throws {
        self.bytes = bytes
        self.file = file
        try self.bytes.skipByteOrderMark()
        try skipSpace()
    }

    private mutating func finish() throws {
        try skipSpace()
        if try bytes.peek() != nil { throw error("expected the end after the value") }
    }

    /// Consumes a byte that was peeked at.
    private mutating func take(_ byte: UInt8) {
        bytes.skip()
        if byte == UInt8(ascii: "\n") {
            place.line += 1
            place.column = 1
        } else if byte & 0xC0 != 0x80 {
            place.column += 1
        }
    }

    /// Consumes the next byte if it is `byte`.
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
            "\(file), line \(place.line), column \(place.column): this is not valid JSON: \(sentence).",
            file: file, position: place.line)
    }

    // MARK: - Values

    private mutating func value(depth: Int) throws -> JSONNode {
        guard depth < Self.maximumDepth else {
            throw error("values are nested more than \(Self.maximumDepth) levels deep")
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
        case nil: throw error("unexpected end, expected a value")
        default: throw error("expected a value")
        }
        return JSONNode(content, line: place.line, column: place.column)
    }

    private mutating func word(
        _ word: String, _ content: JSONNode.Content
    ) throws -> JSONNode.Content {
        let start = place
        for byte in word.utf8 {
            guard try bytes.peek() == byte else {
                throw error("expected a value", at: start)
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
                throw error("expected a name in quotation marks")
            }
            let name = try string()
            if !names.insert(name).inserted {
                throw error("the name “\(name)” appears twice in this object", at: start)
            }
            try skipSpace()
            guard try takes(":") else { throw error("expected a colon") }
            try skipSpace()
            members.append(.init(name: name, value: try value(depth: depth + 1)))
            try skipSpace()
            if try takes("}") { return .object(members) }
            guard try takes(",") else {
                throw error("expected a comma or a closing brace")
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
                throw error("expected a comma or a closing bracket")
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
            guard try accept("0123456789") else { throw error("expected a digit") }
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
                    throw error("this string is not valid UTF-8", at: start)
                }
                return string
            case UInt8(ascii: "\\"): try escape(into: &text)
            case 0..<0x20: throw error("a control character must be escaped")
            default:
                if text.count == Self.maximumStringSize {
                    throw error("this string is longer than 1 GiB", at: mark)
                }
                text.append(byte)
                take(byte)
            }
        }
        throw error("this string has no closing quotation mark", at: mark)
    }

    private mutating func escape(into text: inout [UInt8]) throws {
        let start = place
        take(UInt8(ascii: "\\"))
        guard let byte = try bytes.peek() else { throw error("unexpected end in an escape") }
        take(byte)
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "u"): text.append(contentsOf: String(try scalar(from: start)).utf8)
        default: throw error("unknown escape", at: start)
        }
    }

    /// The scalar of an escape, which reads both halves of a surrogate pair.
    private mutating func scalar(from start: Place) throws -> Unicode.Scalar {
        var value = try codeUnit()
        if (0xD800..<0xDC00).contains(value) {
            guard try takes("\\"), try takes("u") else {
                throw error("unpaired surrogate", at: start)
            }
            let low = try codeUnit()
            guard (0xDC00..<0xE000).contains(low) else {
                throw error("unpaired surrogate", at: start)
            }
            value = 0x10000 + (value - 0xD800) << 10 + (low - 0xDC00)
        }
        guard let scalar = Unicode.Scalar(value) else {
            throw error("unpaired surrogate", at: start)
        }
        return scalar
    }

    private mutating func codeUnit() throws -> UInt32 {
        let start = place
        var unit: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = try bytes.peek(),
                let digit = Character(Unicode.Scalar(byte)).hexDigitValue, byte < 0x80
            else { throw error("expected four hexadecimal digits after \\u", at: start) }
            take(byte)
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }
}

// MARK: - Nodes

/// A value of a JSON text, with its position for errors.
///
/// Numbers keep their digits. The type of the attribute decides how they are parsed, so that a decimal or a 64-bit integer
/// loses no precision.
package struct JSONNode: Sendable {
    /// The value of a node.
    package indirect enum Content: Sendable {
        case null
        case boolean(Bool)
        case number(String)
        case string(String)
        case array([JSONNode])
        /// The members in the order of the text; their names are unique.
        case object([Member])
    }

    /// A name and its value.
    package struct Member: Sendable {
        package var name: String
        package var value: JSONNode
    }

    package var content: Content
    /// The line of its first character, from 1.
    package var line: Int
    /// The column of its first character, from 1, counted in Unicode scalars.
    package var column: Int

    package init(_ content: Content, line: Int, column: Int) {
        self.content = content
        self.line = line
        self.column = column
    }

    /// The kind for an error message: "an array".
    package var kind: String {
        switch content {
        case .null: "null"
        case .boolean: "a Boolean"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }

    /// The value of a member, if the node is an object that has it.
    package subscript(name: String) -> JSONNode? {
        guard case .object(let members) = content else { return nil }
        return members.first { $0.name == name }?.value
    }
}

// MARK: - Bytes

/// Bytes read sequentially, a block at a time, so that a file of any size can be read in little memory.
package struct ByteReader {
    private var block: [UInt8]
    private var position = 0
    private let nextBlock: () throws -> [UInt8]

    /// Reads bytes in memory.
    package init(_ data: Data) {
        block = Array(data)
        nextBlock = { [] }
    }

    /// Reads blocks that a closure returns, until one is empty.
    package init(blocks nextBlock: @escaping () throws -> [UInt8]) {
        block = []
        self.nextBlock = nextBlock
    }

    /// The next byte, without consuming it; `nil` at the end.
    package mutating func peek() throws -> UInt8? {
        if position < block.count { return block[position] }
        block = try nextBlock()
        position = 0
        return block.first
    }

    /// Consumes the byte that ``peek()`` returned.
    package mutating func skip() { position += 1 }

    /// Consumes a byte order mark, if there is one.
    package mutating func skipByteOrderMark() throws {
        while block.count - position < 3 {
            let more = try nextBlock()
            if more.isEmpty { break }
            block = block[position...] + more
            position = 0
        }
        if block[position...].starts(with: [0xEF, 0xBB, 0xBF]) { position += 3 }
    }
}

// MARK: - Attribute values

extension AttributeValue {
    /// Converts a JSON value to a value of an attribute: numbers for numeric attributes, `true` and `false` for Booleans, and
    /// strings in the format that `quire` prints for all others; `null` clears the attribute. A whole number is an integer
    /// even if it is written as 1.0 or 1e3.
    ///
    /// - Throws: `QuireError` with code `invalidValue`.
    package init(_ node: JSONNode, as attribute: AttributeDescription) throws {
        switch (node.content, attribute.type) {
        case (.null, _): self = .null
        case (.string(let text), _): self = try AttributeValue(parsing: text, as: attribute.type)
        case (.boolean(let value), .boolean): self = .boolean(value)
        case (.number(let digits), .integer16), (.number(let digits), .integer32),
            (.number(let digits), .integer64), (.number(let digits), .decimal),
            (.number(let digits), .double), (.number(let digits), .float),
            (.number(let digits), .boolean):
            self = try AttributeValue(parsingNumber: digits, as: attribute.type)
        default:
            throw QuireError(
                .invalidValue,
                "This is \(node.kind), which is not a valid value of “\(attribute.name)”.",
                subject: .init(property: attribute.name))
        }
    }
}
