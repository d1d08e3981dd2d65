internal import Foundation
internal import Quire

/// Writes integers of variable length, texts and bytes.
struct SyncByteWriter {
    private(set) var bytes: [UInt8] = []

    mutating func byte(_ byte: UInt8) { bytes.append(byte) }

    mutating func raw(_ data: some Sequence<UInt8>) { bytes.append(contentsOf: data) }

    /// Seven bits per byte, the least significant first.
    mutating func unsigned(_ number: UInt64) {
        var rest = number
        while rest > 127 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 128)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    mutating func signed(_ number: Int64) {
        unsigned(UInt64(bitPattern: number << 1 ^ number >> 63))
    }

    /// Eight bytes, the most significant first.
    mutating func word(_ number: UInt64) {
        bytes.append(bigEndian: number)
    }

    mutating func text(_ text: String) {
        unsigned(UInt64(text.utf8.count))
        raw(text.utf8)
    }

    mutating func identifier(_ id: SyncIdentifier) {
        word(id.high)
        word(id.low)
    }

    mutating func identifiers(_ ids: [SyncIdentifier]) {
        unsigned(UInt64(ids.count))
        for id in ids { identifier(id) }
    }
}

/// Reads what ``SyncByteWriter`` has written, from bytes that anyone may have changed.
///
/// Every method throws `QuireError` with code `invalidFormat` if the bytes end, or have no valid value.
struct SyncByteReader {
    private let bytes: ArraySlice<UInt8>
    private var position: Int
    /// The name of the file, for errors.
    let file: String
    /// The number of ranges and entries that may still be read: they take more memory than bytes in a file. There is no limit for the
    /// store's own tables.
    private var allowance: Int

    /// - Parameter allowance: The number of ranges and entries that may be read.
    init(_ bytes: ArraySlice<UInt8>, file: String, allowance: Int = .max) {
        self.bytes = bytes
        position = bytes.startIndex
        self.file = file
        self.allowance = allowance
    }

    /// Counts ranges or entries that follow.
    mutating func use(_ count: Int) throws {
        guard count <= allowance else { throw damage("it contains too many parts") }
        allowance -= count
    }

    var remaining: Int { bytes.endIndex - position }

    /// The next byte, without reading it.
    var next: UInt8? { remaining > 0 ? bytes[position] : nil }

    func damage(_ what: String) -> QuireError {
        QuireError(.invalidFormat, "“\(file)” is damaged: \(what).", file: file)
    }

    mutating func byte() throws -> UInt8 {
        guard position < bytes.endIndex else { throw damage("it ends unexpectedly") }
        defer { position += 1 }
        return bytes[position]
    }

    mutating func raw(count: Int) throws -> ArraySlice<UInt8> {
        guard count >= 0, count <= remaining else { throw damage("it ends unexpectedly") }
        defer { position += count }
        return bytes[position..<(position + count)]
    }

    mutating func unsigned() throws -> UInt64 {
        var number: UInt64 = 0
        var shift: UInt64 = 0
        while true {
            let next = try byte()
            let part = UInt64(next & 127)
            guard shift < 63 || part <= 1 else { throw damage("a number has too many bits") }
            number |= part << shift
            if next < 128 { return number }
            shift += 7
            guard shift <= 63 else { throw damage("a number has too many bits") }
        }
    }

    mutating func signed() throws -> Int64 {
        let number = try unsigned()
        return Int64(bitPattern: number >> 1) ^ -Int64(bitPattern: number & 1)
    }

    /// A number of things that follow: never more than there are bytes for, so that memory may be reserved.
    ///
    /// - Parameter size: The least number of bytes that each takes.
    mutating func count(size: Int = 1) throws -> Int {
        let number = try unsigned()
        guard number <= UInt64(remaining / size) else { throw damage("it ends unexpectedly") }
        return Int(number)
    }

    mutating func word() throws -> UInt64 {
        try raw(count: 8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    mutating func text() throws -> String { try text(raw(count: count())) }

    func text(_ bytes: ArraySlice<UInt8>) throws -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw damage("a string is not UTF-8")
        }
        return text
    }

    mutating func identifier() throws -> SyncIdentifier {
        SyncIdentifier(high: try word(), low: try word())
    }

    mutating func identifiers() throws -> [SyncIdentifier] {
        try (0..<(try count(size: 16))).map { _ in try identifier() }
    }
}
