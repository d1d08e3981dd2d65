/// A page of a b-tree, of which nothing is believed that its bytes do not bear out.
struct TreePage {
    /// The type of a b-tree page, by its first byte.
    enum Kind: UInt8 {
        case indexInterior = 2
        case tableInterior = 5
        case indexLeaf = 10
        case tableLeaf = 13

        var isInterior: Bool { self == .indexInterior || self == .tableInterior }
    }

    /// A leaf cell: the local payload, and the first overflow page.
    struct Cell {
        let rowID: Int64
        /// The number of bytes of the complete record.
        let size: Int
        /// The bytes in the page.
        let local: ArraySlice<UInt8>
        /// The first overflow page, if any.
        let overflow: Int?
    }

    let kind: Kind
    let cellCount: Int
    private let bytes: [UInt8]
    private let usableSize: Int
    /// The offset of the b-tree page header.
    private let start: Int

    /// Parses a page.
    ///
    /// - Returns: `nil` if it is not a valid b-tree page.
    init?(_ bytes: [UInt8], number: Int, usableSize: Int) {
        start = number == 1 ? DatabasePages.headerSize : 0
        guard bytes.count >= usableSize, usableSize >= start + 12,
            let kind = Kind(rawValue: bytes[start])
        else { return nil }
        let count = bytes.bigEndian16(at: start + 3)
        let pointers = start + (kind.isInterior ? 12 : 8)
        guard pointers + 2 * count <= usableSize else { return nil }
        self.kind = kind
        self.bytes = bytes
        self.usableSize = usableSize
        cellCount = count
    }

    /// Whether the first eight bytes of a page are those of a b-tree's page.
    static func looksLikeHeader(_ bytes: [UInt8], pageSize: Int) -> Bool {
        guard bytes.count >= 8, let kind = Kind(rawValue: bytes[0]) else { return false }
        let content = bytes.bigEndian16(at: 5) == 0 ? 65536 : bytes.bigEndian16(at: 5)
        let pointers = (kind.isInterior ? 12 : 8) + 2 * bytes.bigEndian16(at: 3)
        return bytes.bigEndian16(at: 1) < pageSize && content <= pageSize && pointers <= content
            && bytes[7] <= 60
    }

    private func pointer(_ index: Int) -> Int? {
        let first = start + (kind.isInterior ? 12 : 8)
        let offset = bytes.bigEndian16(at: first + 2 * index)
        return offset >= first + 2 * cellCount && offset + 4 <= usableSize ? offset : nil
    }

    /// The pages below an interior page, in their order.
    var children: [Int] {
        guard kind.isInterior else { return [] }
        var children: [Int] = []
        children.reserveCapacity(cellCount + 1)
        for index in 0..<cellCount {
            if let offset = pointer(index) { children.append(Int(bytes.bigEndian32(at: offset))) }
        }
        children.append(Int(bytes.bigEndian32(at: start + 8)))
        return children
    }

    /// A row of a table leaf; `nil` if it is not valid.
    func cell(_ index: Int, maximumSize: Int) -> Cell? {
        guard kind == .tableLeaf, var offset = pointer(index),
            let length = bytes.varint(at: offset, end: usableSize)
        else { return nil }
        offset += length.size
        guard let key = bytes.varint(at: offset, end: usableSize),
            let size = Int(exactly: length.value), size > 0, size <= maximumSize
        else { return nil }
        offset += key.size
        let local = Self.localSize(of: size, usableSize: usableSize)
        guard offset + local <= usableSize else { return nil }
        var overflow: Int?
        if local < size {
            guard offset + local + 4 <= usableSize else { return nil }
            overflow = Int(bytes.bigEndian32(at: offset + local))
        }
        return Cell(
            rowID: Int64(bitPattern: key.value), size: size, local: bytes[offset..<offset + local],
            overflow: overflow)
    }

    /// The number of bytes of a record stored locally in the page.
    static func localSize(of size: Int, usableSize: Int) -> Int {
        let most = usableSize - 35
        if size <= most { return size }
        let least = (usableSize - 12) * 32 / 255 - 23
        let rest = least + (size - least) % (usableSize - 4)
        return rest <= most ? rest : least
    }
}

extension [UInt8] {
    /// SQLite's varint of one to nine bytes; `nil` if it does not end before `end`.
    func varint(at offset: Int, end: Int) -> (value: UInt64, size: Int)? {
        withUnsafeBufferPointer { $0.varint(at: offset, end: end) }
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// SQLite's varint of one to nine bytes; `nil` if it does not end before `end`.
    func varint(at offset: Int, end: Int) -> (value: UInt64, size: Int)? {
        let end = Swift.min(end, count)
        guard offset >= 0 else { return nil }
        var value: UInt64 = 0
        for index in 0..<9 {
            guard offset + index < end else { return nil }
            let byte = self[offset + index]
            if index == 8 { return (value << 8 | UInt64(byte), 9) }
            value = value << 7 | UInt64(byte & 0x7F)
            if byte & 0x80 == 0 { return (value, index + 1) }
        }
        return nil
    }
}
