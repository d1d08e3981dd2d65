package import Foundation

/// Writes property lists in Apple's binary form. Equal scalars are written once.
package struct BinaryPropertyListWriter {
    private enum Node {
        case scalar(ArchiveValue)
        case array([Int])
        case dictionary(keys: [Int], values: [Int])
    }

    private var nodes: [Node] = []
    private var scalars: [ArchiveValue: Int] = [:]

    /// The bytes of a property list.
    package static func data(of value: ArchiveValue) -> Data {
        var writer = BinaryPropertyListWriter()
        let top = writer.add(value)
        return writer.data(top: top)
    }

    private mutating func add(_ value: ArchiveValue) -> Int {
        switch value {
        case .array(let elements):
            let number = reserve()
            nodes[number] = .array(elements.map { add($0) })
            return number
        case .dictionary(let entries):
            let number = reserve()
            let keys = entries.map { add(.string($0.key)) }
            nodes[number] = .dictionary(keys: keys, values: entries.map { add($0.value) })
            return number
        default:
            if let number = scalars[value] { return number }
            nodes.append(.scalar(value))
            scalars[value] = nodes.count - 1
            return nodes.count - 1
        }
    }

    private mutating func reserve() -> Int {
        nodes.append(.array([]))
        return nodes.count - 1
    }

    // MARK: - Bytes

    private func data(top: Int) -> Data {
        let referenceSize = Self.size(of: UInt64(nodes.count))
        var bytes: [UInt8] = Array("bplist00".utf8)
        var offsets: [Int] = []
        offsets.reserveCapacity(nodes.count)
        for node in nodes {
            offsets.append(bytes.count)
            switch node {
            case .scalar(let value): Self.append(value, to: &bytes)
            case .array(let elements):
                Self.append(marker: 0xA0, count: elements.count, to: &bytes)
                for element in elements {
                    Self.append(UInt64(element), size: referenceSize, to: &bytes)
                }
            case .dictionary(let keys, let values):
                Self.append(marker: 0xD0, count: keys.count, to: &bytes)
                for element in keys + values {
                    Self.append(UInt64(element), size: referenceSize, to: &bytes)
                }
            }
        }
        let tableOffset = bytes.count
        let offsetSize = Self.size(of: UInt64(tableOffset))
        for offset in offsets { Self.append(UInt64(offset), size: offsetSize, to: &bytes) }
        bytes += [0, 0, 0, 0, 0, 0, UInt8(offsetSize), UInt8(referenceSize)]
        for number in [nodes.count, top, tableOffset] {
            Self.append(UInt64(number), size: 8, to: &bytes)
        }
        return Data(bytes)
    }

    private static func append(_ value: ArchiveValue, to bytes: inout [UInt8]) {
        switch value {
        case .boolean(let truth): bytes.append(truth ? 0x09 : 0x08)
        case .integer(let number):
            let size = number < 0 ? 8 : Self.size(of: UInt64(number))
            bytes.append(0x10 | UInt8(size.trailingZeroBitCount))
            append(UInt64(bitPattern: number), size: size, to: &bytes)
        case .real(let number):
            bytes.append(0x23)
            append(number.bitPattern, size: 8, to: &bytes)
        case .date(let seconds):
            bytes.append(0x33)
            append(seconds.bitPattern, size: 8, to: &bytes)
        case .data(let data):
            append(marker: 0x40, count: data.count, to: &bytes)
            bytes += data
        case .string(let text):
            if text.utf8.allSatisfy({ $0 < 0x80 }) {
                append(marker: 0x50, count: text.utf8.count, to: &bytes)
                bytes += text.utf8
            } else {
                append(marker: 0x60, count: text.utf16.count, to: &bytes)
                for unit in text.utf16 { append(UInt64(unit), size: 2, to: &bytes) }
            }
        case .reference(let number):
            let size = Self.size(of: UInt64(number))
            bytes.append(0x80 | UInt8(size - 1))
            append(UInt64(number), size: size, to: &bytes)
        case .array, .dictionary: preconditionFailure("Containers are written as nodes.")
        }
    }

    private static func append(marker: UInt8, count: Int, to bytes: inout [UInt8]) {
        if count < 15 {
            bytes.append(marker | UInt8(count))
        } else {
            bytes.append(marker | 0x0F)
            append(.integer(Int64(count)), to: &bytes)
        }
    }

    private static func append(_ number: UInt64, size: Int, to bytes: inout [UInt8]) {
        for index in (0..<size).reversed() {
            bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(index * 8)))
        }
    }

    /// The bytes that a number needs: 1, 2, 4 or 8.
    private static func size(of number: UInt64) -> Int {
        number <= 0xFF ? 1 : number <= 0xFFFF ? 2 : number <= 0xFFFF_FFFF ? 4 : 8
    }
}
