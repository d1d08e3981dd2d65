/// A value of a row as a database file holds it.
enum DatabaseValue {
    case null
    case integer(Int64)
    case real(Double)
    case text([UInt8])
    case blob([UInt8])
    /// It was in a page that is gone.
    case lost

    var integer: Int64? {
        if case .integer(let value) = self { return value }
        return nil
    }

    var isNull: Bool {
        if case .null = self { return true }
        return false
    }

    /// The text, if it is one.
    var string: String? {
        if case .text(let bytes) = self { return String(decoding: bytes, as: UTF8.self) }
        return nil
    }
}

/// Takes records apart.
enum DatabaseRecord {
    /// How a file holds texts.
    enum TextEncoding: UInt32 {
        case utf8 = 1
        case utf16LittleEndian = 2
        case utf16BigEndian = 3
    }

    /// More columns than SQLite can be made to allow.
    private static let greatestColumnCount = 32_767

    /// The values of a record.
    ///
    /// - Parameters:
    ///   - bytes: The record, or its beginning if the rest is gone.
    ///   - size: The number of bytes of the whole record.
    /// - Returns: `nil` if the bytes are no record of that size.
    static func values(
        of bytes: [UInt8], size: Int, encoding: TextEncoding = .utf8
    ) -> [DatabaseValue]? {
        bytes.withUnsafeBufferPointer { bytes in
            guard let header = bytes.varint(at: 0, end: bytes.count),
                let headerSize = Int(exactly: header.value), headerSize <= size,
                headerSize <= bytes.count, headerSize >= header.size
            else { return nil }
            var types: [UInt64] = []
            var total = headerSize
            var offset = header.size
            while offset < headerSize {
                guard let type = bytes.varint(at: offset, end: headerSize),
                    let length = length(of: type.value), types.count < greatestColumnCount
                else { return nil }
                offset += type.size
                let (sum, overflow) = total.addingReportingOverflow(length)
                guard !overflow, sum <= size else { return nil }
                total = sum
                types.append(type.value)
            }
            // Whatever is not exactly as long as it says is no record.
            guard total == size else { return nil }
            var values: [DatabaseValue] = []
            values.reserveCapacity(types.count)
            offset = headerSize
            for type in types {
                let length = length(of: type) ?? 0
                values.append(
                    offset + length <= bytes.count
                        ? value(type, bytes[offset..<offset + length], encoding) : .lost)
                offset += length
            }
            return values
        }
    }

    /// The number of bytes of a value; `nil` for what stands for none.
    private static func length(of type: UInt64) -> Int? {
        switch type {
        case 0, 8, 9: 0
        case 1...4: Int(type)
        case 5: 6
        case 6, 7: 8
        case 10, 11: nil
        default: Int(exactly: (type - 12) / 2)
        }
    }

    private static func value(
        _ type: UInt64, _ bytes: Slice<UnsafeBufferPointer<UInt8>>, _ encoding: TextEncoding
    ) -> DatabaseValue {
        switch type {
        case 0: return .null
        case 8: return .integer(0)
        case 9: return .integer(1)
        case 1...6:
            var value = Int64(Int8(bitPattern: bytes.first ?? 0))
            for byte in bytes.dropFirst() { value = value << 8 | Int64(byte) }
            return .integer(value)
        case 7:
            var bits: UInt64 = 0
            for byte in bytes { bits = bits << 8 | UInt64(byte) }
            return .real(Double(bitPattern: bits))
        default:
            if type % 2 == 0 { return .blob(Array(bytes)) }
            if encoding == .utf8 { return .text(Array(bytes)) }
            let units = stride(from: bytes.startIndex, to: bytes.endIndex - 1, by: 2).map {
                let (one, two) = (UInt16(bytes[$0]), UInt16(bytes[$0 + 1]))
                return encoding == .utf16LittleEndian ? two << 8 | one : one << 8 | two
            }
            return .text(Array(String(decoding: units, as: UTF16.self).utf8))
        }
    }
}
