public import Foundation
internal import QuireSystem

extension ExternalData {
    /// Whether both have the same bytes, which are read only if nothing else tells.
    func hasSameBytes(as other: ExternalData) -> Bool {
        if self == other { return true }
        if size != other.size { return false }
        if let mine = file, let theirs = other.file {
            if let record = mine.record, let otherRecord = theirs.record {
                return record == otherRecord
            }
            if let one = mine.information, let two = theirs.information, one.isSameFile(as: two) {
                return true
            }
        }
        return (try? readsSame(as: other)) ?? false
    }

    /// Whether the bytes are those of another value, by reading both.
    package func readsSame(as other: ExternalData) throws -> Bool {
        struct Different: Error {}
        var offset = 0
        do {
            try forEachBlock { block in
                let piece = try other.read(block.count, at: offset)
                let isSame = piece.withUnsafeBytes {
                    $0.count == block.count && $0.elementsEqualBytes(block)
                }
                if !isSame { throw Different() }
                offset += block.count
            }
        } catch is Different {
            return false
        }
        return offset == other.size
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func elementsEqualBytes(_ other: UnsafeRawBufferPointer) -> Bool {
        guard let mine = baseAddress, let theirs = other.baseAddress else { return count == 0 }
        return memcmp(mine, theirs, count) == 0
    }
}

extension AttributeValue {
    /// The bytes of a binary value, read from its file if they are in one; `nil` for other values.
    ///
    /// - Throws: As ``ExternalData/data()``.
    public func data() throws -> Data? {
        switch self {
        case .binary(let data): data
        case .external(let value): try value.data()
        default: nil
        }
    }

    /// As ``data()``, without asking the store about the bytes.
    package func contents() throws -> Data? {
        if case .external(let value) = self { return try value.contents() }
        return try data()
    }

    /// The value with its bytes in memory.
    package func loaded() throws -> AttributeValue {
        if case .external(let value) = self { return .binary(try value.data()) }
        return self
    }

    /// As ``loaded()``; if the bytes cannot be read, the value goes on standing for their file, and reading it says why.
    package var loadedIfReadable: AttributeValue { (try? loaded()) ?? self }

    /// The number of bytes of a binary value.
    package var binarySize: Int? {
        switch self {
        case .binary(let data): data.count
        case .external(let data): data.size
        default: nil
        }
    }

    /// Whether both are the same value, wherever its bytes are.
    package func isSame(as other: AttributeValue) -> Bool {
        switch (self, other) {
        case (.external(let mine), .external(let theirs)): mine.hasSameBytes(as: theirs)
        case (.external(let value), .binary(let data)), (.binary(let data), .external(let value)):
            value.hasSameBytes(as: ExternalData(data))
        default: self == other
        }
    }
}
