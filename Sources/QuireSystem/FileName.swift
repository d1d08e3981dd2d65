import Foundation

/// A file name, or a path of several, as the file system has it: bytes, compared as such.
///
/// Swift's strings are equal if they are canonically equivalent, but two names whose accents are composed differently are two
/// files. So names are compared, and are keys of sets and dictionaries, as this type.
///
/// Names as texts
/// ==============
///
/// A name need not be UTF-8. In ``text``, a byte that is part of no UTF-8 sequence is a character of a private-use area, U+10FE80
/// to U+10FEFF, of which the last two digits are the byte: an *escape*. All of ``FileSystem`` returns and takes such texts, so
/// that every name that it lists can be opened. The system gets the bytes by ``withCString(_:_:)``.
package struct FileName: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// The name as text: equal bytes are equal texts, byte for byte.
    package let text: String

    /// A name by its text, in which any bytes may be escapes.
    package init(_ text: String) {
        self.text = Self.hasEscapes(text) ? Self.text(of: Self.bytes(of: text)) : text
    }

    /// A name by its bytes.
    package init(bytes: some Collection<UInt8>) { text = Self.text(of: Array(bytes)) }

    /// The name as a text that is equal to another one, as strings are compared, only if the names are: for files whose format
    /// has strings as keys. Names that are not composed are ``escaped``.
    package var key: String {
        text.utf8.elementsEqual(text.precomposedStringWithCanonicalMapping.utf8) ? text : escaped
    }

    /// The name as a text in which all bytes that are not ASCII are escapes.
    package var escaped: String {
        var escaped = String.UnicodeScalarView()
        for byte in Self.bytes(of: text) {
            escaped.append(byte < 0x80 ? Unicode.Scalar(byte) : Self.escape(byte))
        }
        return String(escaped)
    }

    /// The name in composed form, as programs write it.
    package var composed: FileName { FileName(text.precomposedStringWithCanonicalMapping) }

    /// The number of bytes.
    package var byteCount: Int {
        text.utf8.count - 3 * text.unicodeScalars.count(where: { Self.byte(of: $0) != nil })
    }

    /// A name that consists of a stem and an ending: of the stem as many characters as a file system's limit leaves.
    package static func fitting(
        _ stem: some StringProtocol, _ ending: String, limit: Int = 255
    ) -> String {
        var stem = String(stem)
        while !stem.isEmpty, FileName(stem + ending).byteCount > limit { stem.removeLast() }
        return stem + ending
    }

    package var description: String { text }

    package static func == (left: FileName, right: FileName) -> Bool {
        left.text.utf8.elementsEqual(right.text.utf8)
    }

    package static func < (left: FileName, right: FileName) -> Bool {
        left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        for byte in text.utf8 { hasher.combine(byte) }
    }

    // MARK: Escapes

    private static let firstEscape: UInt32 = 0x10_FE80
    private static let escapes = firstEscape...0x10_FEFF

    /// Whether a text has escapes.
    package static func hasEscapes(_ text: String) -> Bool {
        text.utf8.contains(0xF4) && text.unicodeScalars.contains { byte(of: $0) != nil }
    }

    /// Calls a closure with the bytes of a name or path, as system calls take it.
    static func withCString<Result>(
        _ text: String, _ body: (UnsafePointer<CChar>) throws -> Result
    ) rethrows -> Result {
        if !hasEscapes(text) { return try text.withCString(body) }
        let bytes = (bytes(of: text) + [0]).map { CChar(bitPattern: $0) }
        return try bytes.withUnsafeBufferPointer { buffer in
            // It has an element at least, so that it has an address.
            try body(buffer.baseAddress!)
        }
    }

    private static func escape(_ byte: UInt8) -> Unicode.Scalar {
        // All values of the range are scalars.
        Unicode.Scalar(firstEscape - 0x80 + UInt32(byte))!
    }

    private static func byte(of scalar: Unicode.Scalar) -> UInt8? {
        escapes.contains(scalar.value) ? UInt8(truncatingIfNeeded: scalar.value) : nil
    }

    private static func bytes(of text: String) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            if let byte = byte(of: scalar) {
                bytes.append(byte)
            } else {
                bytes += UTF8.encode(scalar)!
            }
        }
        return bytes
    }

    private static func text(of bytes: [UInt8]) -> String {
        if let text = String(validating: bytes, as: UTF8.self), !hasEscapes(text) { return text }
        var text = String.UnicodeScalarView()
        var rest = bytes[...]
        while let first = rest.first {
            let count =
                switch first {
                case ..<0x80: 1
                case ..<0xE0: 2
                case ..<0xF0: 3
                default: 4
                }
            let scalar = String(validating: rest.prefix(count), as: UTF8.self)?.unicodeScalars.first
            if let scalar, byte(of: scalar) == nil {
                text.append(scalar)
                rest = rest.dropFirst(count)
            } else {
                text.append(escape(first))
                rest = rest.dropFirst()
            }
        }
        return String(text)
    }
}

extension FileName {
    /// Whether a path is below a folder, as a program spells it.
    package static func isPath(_ path: String, inFolder folder: String) -> Bool {
        let folder = FileSystem.components(of: FileName(folder).text)
        let components = FileSystem.components(of: FileName(path).text)
        // Canonically equivalent ones are the same.
        return components.count > folder.count
            && components.prefix(folder.count).elementsEqual(folder)
    }
}

extension FileSystem {
    /// The components of a path, empty ones included. A slash separates them whatever follows it; a Swift character may be a
    /// slash together with an accent that a component begins with.
    package static func components(of path: String) -> [String] {
        path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
            .map { String(Substring($0)) }
    }
}
