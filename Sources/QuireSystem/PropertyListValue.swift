public import Foundation

/// A property list value, as in store metadata.
///
/// ```swift
/// try store.setMetadata(["name": "Library", "shelves": 12], forKey: "com.example.state")
/// ```
public indirect enum PropertyListValue: Sendable, Hashable {
    /// A string.
    case string(String)
    /// An integer.
    case integer(Int64)
    /// A floating-point number.
    case real(Double)
    /// A Boolean.
    case boolean(Bool)
    /// Bytes.
    case data(Data)
    /// A point in time.
    case date(Date)
    /// An array of values.
    case array([PropertyListValue])
    /// Values by key.
    case dictionary([String: PropertyListValue])
}

extension PropertyListValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral,
    ExpressibleByDictionaryLiteral
{
    /// Creates a string.
    public init(stringLiteral value: String) { self = .string(value) }
    /// Creates an integer.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// Creates a floating-point number.
    public init(floatLiteral value: Double) { self = .real(value) }
    /// Creates a Boolean.
    public init(booleanLiteral value: Bool) { self = .boolean(value) }
    /// Creates an array.
    public init(arrayLiteral elements: PropertyListValue...) { self = .array(elements) }
    /// Creates a dictionary; the last of several values for a key is kept.
    public init(dictionaryLiteral elements: (String, PropertyListValue)...) {
        self = .dictionary(Dictionary(elements, uniquingKeysWith: { $1 }))
    }
}

extension PropertyListValue {
    /// The string; `nil` for other kinds.
    public var string: String? { if case .string(let text) = self { text } else { nil } }
    /// The integer; `nil` for other kinds.
    public var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    /// The bytes; `nil` for other kinds.
    public var data: Data? { if case .data(let data) = self { data } else { nil } }
    /// The array; `nil` for other kinds.
    public var array: [PropertyListValue]? {
        if case .array(let values) = self { values } else { nil }
    }
    /// The dictionary; `nil` for other kinds.
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

// MARK: - Reading

// The only reader of untrusted property lists. Foundation expands its input: a binary list whose values contain themselves,
// or share one another, grows without end, and a deeply nested text overflows the stack. So binary lists are read by
// `BinaryPropertyListReader`, and texts are checked before Foundation gets them.

extension PropertyListValue {
    /// The maximum nesting depth; metadata has a depth of three.
    package static let maximumDepth = 64
    /// The greatest size of a list that is a text.
    private static let maximumTextSize = 64 << 20

    /// Reads a property list in any of its forms.
    ///
    /// - Parameters:
    ///   - data: The property list.
    ///   - name: The name of the list in errors.
    /// - Complexity: O(*n*) in the size of the data.
    /// - Throws: ``QuireError`` with code `invalidFormat`, also if values contain themselves, are nested too deeply, or are
    ///   shared so often that the list is far larger than the data.
    package init(propertyList data: Data, name: String) throws {
        if data.starts(with: Data("bplist".utf8)) {
            var reader = try BinaryPropertyListReader(data, name: name)
            guard let value = Self(try reader.value()) else {
                throw BinaryPropertyListReader.damaged(
                    name, "it contains a value that property lists do not support")
            }
            self = value
            return
        }
        if let problem = Self.problem(withText: data) {
            throw BinaryPropertyListReader.damaged(name, problem)
        }
        guard let value = try? PropertyListSerialization.propertyList(from: data, format: nil),
            let converted = Self(value, depth: 0)
        else { throw BinaryPropertyListReader.damaged(name, "it is not a property list") }
        self = converted
    }

    // MARK: - Texts

    /// The reason not to pass a text to Foundation; `nil` if it is short and not nested too deeply.
    private static func problem(withText data: Data) -> String? {
        if data.count > maximumTextSize { return "it is far too large" }
        return data.withUnsafeBytes { bytes in
            // UTF-16 would defeat the checks below.
            if bytes.contains(0) { return "it is not a UTF-8 property list" }
            let start = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
            let first = bytes.dropFirst(start).first { !isSpace($0) }
            let isXML = first == UInt8(ascii: "<")
            let isNestedTooDeeply =
                isXML ? xmlIsNestedTooDeeply(bytes) : oldStyleIsNestedTooDeeply(bytes)
            return isNestedTooDeeply ? "its values are nested too deeply" : nil
        }
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || 0x09...0x0D ~= byte
    }

    /// Whether a list in the form of OpenStep might be. Brackets in texts count too.
    private static func oldStyleIsNestedTooDeeply(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var count = 0
        for byte in bytes where byte == UInt8(ascii: "{") || byte == UInt8(ascii: "(") {
            count += 1
        }
        return count > 16 * maximumDepth
    }

    /// Whether the elements of an XML text are nested more deeply than those of a property list. Comments, instructions and
    /// character data end where they end for Foundation's parser; anything it does not understand ends the check, as it ends
    /// parsing. A document type with declarations, and an encoding in which tags look different, count as too deep.
    private static func xmlIsNestedTooDeeply(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var (position, depth) = (0, 0)
        /// The position after the next occurrence of a text; `nil` if there is none.
        func end(of text: String, from start: Int) -> Int? {
            let text = Array(text.utf8)
            var index = start
            while index + text.count <= bytes.count {
                guard let found = bytes[index...].firstIndex(of: text[0]) else { return nil }
                if bytes[found...].starts(with: text) { return found + text.count }
                index = found + 1
            }
            return nil
        }
        while let mark = bytes[position...].firstIndex(of: UInt8(ascii: "<")) {
            let rest = bytes[mark...].dropFirst()
            let next: Int?
            if rest.starts(with: "!--".utf8) {
                next = end(of: "-->", from: mark + 4)
            } else if rest.starts(with: "![CDATA[".utf8) {
                next = end(of: "]]>", from: mark + 9)
            } else if rest.starts(with: "?".utf8) {
                next = end(of: "?>", from: mark + 2)
                if let next, !isASCIICompatible(bytes[mark..<next]) { return true }
            } else {
                next = end(of: ">", from: mark + 1)
                guard let next else { return false }
                let tag = bytes[mark..<next].dropFirst().dropLast()
                if tag.starts(with: "!".utf8) {
                    if tag.contains(UInt8(ascii: "[")) || tag.contains(UInt8(ascii: "<")) {
                        return true
                    }
                } else if tag.starts(with: "/".utf8) {
                    depth -= 1
                } else if tag.last != UInt8(ascii: "/") {
                    depth += 1
                    // With `plist` and the innermost text.
                    if depth > maximumDepth + 2 { return true }
                }
            }
            guard let next else { return false }
            position = next
        }
        return false
    }

    /// Whether the encoding that an XML declaration names, if any, has ASCII's characters.
    private static func isASCIICompatible(_ declaration: Slice<UnsafeRawBufferPointer>) -> Bool {
        let parts = String(decoding: declaration, as: UTF8.self).lowercased()
            .components(separatedBy: "encoding")
        guard parts.count > 1 else { return true }
        let name = parts[1].drop { " \t\r\n='\"".contains($0) }.prefix {
            !"'\"".contains($0)
        }
        return parts.count == 2
            && (name == "utf-8" || name == "us-ascii" || name == "ascii"
                || name.hasPrefix("iso-8859-"))
    }

    // MARK: - Foundation's values

    private init?(_ value: Any, depth: Int) {
        if depth > Self.maximumDepth { return nil }
        switch value {
        case let text as String: self = .string(text)
        case let data as Data: self = .data(data)
        case let date as Date: self = .date(date)
        case let values as [Any]:
            var array: [PropertyListValue] = []
            for value in values {
                guard let converted = Self(value, depth: depth + 1) else { return nil }
                array.append(converted)
            }
            self = .array(array)
        case let values as [String: Any]:
            var dictionary: [String: PropertyListValue] = [:]
            for (key, value) in values {
                guard let converted = Self(value, depth: depth + 1) else { return nil }
                dictionary[key] = converted
            }
            self = .dictionary(dictionary)
        case let number as NSNumber: self.init(number)
        case let truth as Bool: self = .boolean(truth)
        case let number as Int: self = .integer(Int64(number))
        case let number as Double: self = .real(number)
        default: return nil
        }
    }

    private init?(_ number: NSNumber) {
        switch UInt8(bitPattern: number.objCType.pointee) {
        case UInt8(ascii: "f"), UInt8(ascii: "d"): self = .real(number.doubleValue)
        case UInt8(ascii: "c"), UInt8(ascii: "B"): self = .boolean(number.boolValue)
        default: self = .integer(number.int64Value)
        }
    }
}
