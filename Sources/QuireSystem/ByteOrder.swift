extension RangeReplaceableCollection<UInt8> {
    /// Appends the bytes of a number, the most significant first.
    @inlinable package mutating func append(bigEndian number: some FixedWidthInteger) {
        withUnsafeBytes(of: number.bigEndian) { append(contentsOf: $0) }
    }

    /// Appends the bytes of a number, the least significant first.
    @inlinable package mutating func append(littleEndian number: some FixedWidthInteger) {
        withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
    }
}

/// The numbers and bytes of a record, one after the other. The record may have been altered by anyone.
package struct BinaryFields {
    private var rest: ArraySlice<UInt8>
    private let isBigEndian: Bool

    package init(_ record: [UInt8], isBigEndian: Bool = false) {
        rest = record[...]
        self.isBigEndian = isBigEndian
    }

    /// Whether all of the record was read.
    package var isAtEnd: Bool { rest.isEmpty }

    /// The next number; `nil` if the record ends before.
    package mutating func next<Number: FixedWidthInteger & BitwiseCopyable>(
        _ type: Number.Type
    ) -> Number? {
        bytes(MemoryLayout<Number>.size).map { bytes in
            let number = bytes.withUnsafeBytes { $0.loadUnaligned(as: Number.self) }
            return isBigEndian ? Number(bigEndian: number) : Number(littleEndian: number)
        }
    }

    /// The next bytes; `nil` if there are fewer.
    package mutating func bytes(_ count: Int) -> ArraySlice<UInt8>? {
        guard count >= 0, count <= rest.count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }
}
