/// A value in a database record.
enum DatabaseValue {
    case null
    case integer(Int64)
    case real(Double)
    case text([UInt8])
    case blob([UInt8])
    /// Lost with a missing page.
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
    /// The text encoding of a database.
    enum TextEncoding: UInt32 {
        case utf8 = 1
        case utf16LittleEndian = 2
        case utf16BigEndian = 3
    }

    /// Greater than SQLite's maximum column count.
    private static let maximumColumnCount = 32_767

    /// The values of a record.
    ///
    /// - Parameters:
    ///   - bytes: The record, or a prefix if the rest is lost.
    ///   - size: The number of bytes of the complete record.
    /// - Returns: `nil` if the bytes are not a valid record of that size.
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
                    let length = length(of: type.value), types.count < maximumColumnCount
                else { return nil }
                offset += type.size
                let (sum, overflow) = total.addingReportingOverflow(length)
                guard !overflow, sum <= size else { return nil }
                total = sum
                types.append(type.value)
            }
            // The declared length must match exactly.
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

    /// The number of bytes of a serial type; `nil` if it is invalid.
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

// MARK: - Rows

/// Reads the rows of a leaf, with their overflow pages.
struct RowReader {
    /// A row that was found.
    struct Row {
        let rowID: Int64
        var values: [DatabaseValue]

        /// Whether no value was lost with a missing page.
        var isWhole: Bool {
            values.allSatisfy { value in
                if case .lost = value { return false }
                return true
            }
        }
    }

    let pages: DatabasePages
    let encoding: DatabaseRecord.TextEncoding
    /// The number of bytes that may still be read from overflow pages. In a damaged file many rows may refer to the same
    /// pages; the budget allows reading all pages several times.
    private var budget: Int

    init(_ pages: DatabasePages) {
        self.pages = pages
        let code =
            pages.hasMagic && pages.header.count >= 60
            ? pages.header.bigEndian32(at: 56) : 1
        encoding = DatabaseRecord.TextEncoding(rawValue: code) ?? .utf8
        budget = 64 << 20 &+ pages.byteCount.multipliedReportingOverflow(by: 4).partialValue
    }

    /// The rows of a leaf in the order of their keys.
    ///
    /// - Returns: The rows, and the number of invalid ones; `nil` if the page is not a table leaf.
    mutating func rows(ofLeaf number: Int) -> (rows: [Row], damaged: Int)? {
        guard let bytes = pages.page(number),
            let page = TreePage(bytes, number: number, usableSize: pages.usableSize),
            page.kind == .tableLeaf
        else { return nil }
        var rows: [Row] = []
        rows.reserveCapacity(page.cellCount)
        var damaged = 0
        for index in 0..<page.cellCount {
            guard let cell = page.cell(index, maximumSize: pages.byteCount),
                let values = DatabaseRecord.values(
                    of: record(of: cell), size: cell.size, encoding: encoding)
            else {
                damaged += 1
                continue
            }
            rows.append(Row(rowID: cell.rowID, values: values))
        }
        return (rows, damaged)
    }

    /// The available bytes of a record.
    private mutating func record(of cell: TreePage.Cell) -> [UInt8] {
        var bytes = Array(cell.local)
        guard var next = cell.overflow else { return bytes }
        // Every page brings some, so this ends even if the chain is a circle.
        while bytes.count < cell.size, budget > 0, let page = pages.page(next) {
            let count = min(cell.size - bytes.count, pages.usableSize - 4)
            bytes += page[4..<4 + count]
            budget -= count
            next = Int(page.bigEndian32(at: 0))
        }
        return bytes
    }
}
