package import Foundation

/// Reads property lists in Apple's binary form, `bplist00`.
///
/// Foundation's reader hides the unique identifiers of keyed archives. This one accepts untrusted bytes: any malformation is
/// an error. Each container is read once, so that the work is bounded by the size of the data. Depth is bounded too, and so
/// is the expanded size, with every value counted as often as it is referenced: a few hundred bytes of arrays that share one
/// another could expand beyond available memory.
package struct BinaryPropertyListReader {
    /// The maximum nesting depth of containers.
    static let maximumDepth = 64

    private enum State {
        case unread
        case reading
        case read(ArchiveValue, Size)
    }

    /// The size of a value with all that is in it, shared or not.
    private struct Size {
        var values = 0
        /// Of texts and data.
        var bytes = 0
    }

    private let bytes: Data
    private let name: String
    private let offsetSize: Int
    private let referenceSize: Int
    private let tableOffset: Int
    private let topObject: Int
    private var states: [State]
    /// The size of the values read so far.
    private var size = Size()
    /// Without containers that are shared, each value but the first is referred to by at least a byte. Texts and data are
    /// shared more often: the keys of dictionaries.
    private let maximumSize: Size

    /// Prepares to read.
    ///
    /// - Parameters:
    ///   - data: The property list.
    ///   - name: The name of the list in errors.
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    package init(_ data: Data, name: String) throws {
        // Indices from 0, whatever slice was given.
        let bytes = data.startIndex == 0 ? data : Data(data)
        self.bytes = bytes
        self.name = name
        let trailer = bytes.count - 32
        guard trailer >= 9, bytes.starts(with: Data("bplist0".utf8)) else {
            throw Self.damaged(name, "it is not a binary property list")
        }
        let contradiction = Self.damaged(name, "its trailer does not match its size")
        func number(_ position: Int) throws -> Int {
            var value: UInt64 = 0
            for index in 0..<8 { value = value << 8 | UInt64(bytes[trailer + position + index]) }
            guard value <= UInt64(trailer) else { throw contradiction }
            return Int(value)
        }
        let count = try number(8)
        offsetSize = Int(bytes[trailer + 6])
        referenceSize = Int(bytes[trailer + 7])
        topObject = try number(16)
        tableOffset = try number(24)
        guard 1...8 ~= offsetSize, 1...8 ~= referenceSize, topObject < count, tableOffset >= 8,
            count <= (trailer - tableOffset) / offsetSize
        else { throw contradiction }
        states = [State](repeating: .unread, count: count)
        maximumSize = Size(values: bytes.count + 100_000, bytes: 64 << 20 + 16 * bytes.count)
    }

    /// Reads the whole list.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    package mutating func value() throws -> ArchiveValue { try object(topObject, depth: 0) }

    package static func damaged(_ name: String, _ reason: String) -> QuireError {
        QuireError(
            .invalidFormat, "“\(name)” is damaged or has a different format: \(reason).", file: name
        )
    }

    private func damaged(_ reason: String) -> QuireError { Self.damaged(name, reason) }

    // MARK: - Objects

    private mutating func object(_ number: Int, depth: Int) throws -> ArchiveValue {
        guard number < states.count else {
            throw damaged("it refers to a value that does not exist")
        }
        switch states[number] {
        case .read(let value, let size):
            try count(size)
            return value
        case .reading: throw damaged("a value contains itself")
        case .unread: break
        }
        guard depth < Self.maximumDepth else { throw damaged("its values are nested too deeply") }
        states[number] = .reading
        let offset = try unsigned(at: tableOffset + number * offsetSize, size: offsetSize)
        let before = size
        let value = try object(at: offset, depth: depth)
        var own = Size(values: 1)
        switch value {
        case .string(let text): own.bytes = text.utf8.count
        case .data(let data): own.bytes = data.count
        default: break
        }
        try count(own)
        states[number] = .read(
            value,
            Size(values: size.values - before.values, bytes: size.bytes - before.bytes))
        return value
    }

    private mutating func count(_ added: Size) throws {
        size.values += added.values
        size.bytes += added.bytes
        if size.values > maximumSize.values || size.bytes > maximumSize.bytes {
            throw damaged("it would be far too large with its shared values expanded")
        }
    }

    private mutating func object(at offset: Int, depth: Int) throws -> ArchiveValue {
        guard offset >= 8, offset < tableOffset else {
            throw damaged("a value is outside the file")
        }
        let marker = bytes[offset]
        let low = Int(marker & 0x0F)
        switch marker >> 4 {
        case 0x0:
            switch marker {
            case 0x00: return .null
            case 0x08: return .boolean(false)
            case 0x09: return .boolean(true)
            default: throw damaged("it contains a value of an unknown kind")
            }
        case 0x1: return try integer(at: offset + 1, size: 1 << low)
        case 0x2:
            switch low {
            case 2:
                return .real(
                    Double(
                        Float(
                            bitPattern: UInt32(
                                truncatingIfNeeded: try bits(at: offset + 1, size: 4)))))
            case 3: return .real(Double(bitPattern: try bits(at: offset + 1, size: 8)))
            default: throw damaged("it contains a number of an unknown kind")
            }
        case 0x3:
            guard low == 3 else { throw damaged("it contains a date of an unknown kind") }
            return .date(Double(bitPattern: try bits(at: offset + 1, size: 8)))
        case 0x4:
            let (start, count) = try extent(at: offset, low: low, width: 1)
            return .data(Data(bytes[start..<start + count]))
        case 0x5, 0x7:
            let (start, count) = try extent(at: offset, low: low, width: 1)
            return .string(String(decoding: bytes[start..<start + count], as: UTF8.self))
        case 0x6:
            let (start, count) = try extent(at: offset, low: low, width: 2)
            var units: [UInt16] = []
            units.reserveCapacity(count)
            for index in 0..<count {
                let place = start + index * 2
                units.append(UInt16(bytes[place]) << 8 | UInt16(bytes[place + 1]))
            }
            return .string(String(decoding: units, as: UTF16.self))
        case 0x8:
            guard low < 8 else { throw damaged("it contains a reference that is too long") }
            return .reference(try unsigned(at: offset + 1, size: low + 1))
        case 0xA, 0xB, 0xC:
            let (start, count) = try extent(at: offset, low: low, width: referenceSize)
            return .array(try objects(start, count, depth: depth))
        case 0xD:
            let (start, count) = try extent(at: offset, low: low, width: 2 * referenceSize)
            return .dictionary(try entries(start, count, depth: depth))
        default: throw damaged("it contains a value of an unknown kind")
        }
    }

    private mutating func objects(_ start: Int, _ count: Int, depth: Int) throws -> [ArchiveValue] {
        var result: [ArchiveValue] = []
        result.reserveCapacity(count)
        for index in 0..<count {
            let number = try unsigned(at: start + index * referenceSize, size: referenceSize)
            result.append(try object(number, depth: depth + 1))
        }
        return result
    }

    private mutating func entries(
        _ start: Int, _ count: Int, depth: Int
    ) throws -> [ArchiveValue.Entry] {
        var result: [ArchiveValue.Entry] = []
        result.reserveCapacity(count)
        for index in 0..<count {
            let key = try unsigned(at: start + index * referenceSize, size: referenceSize)
            let value = try unsigned(
                at: start + (count + index) * referenceSize, size: referenceSize)
            guard case .string(let text) = try object(key, depth: depth + 1) else {
                throw damaged("a key is not a string")
            }
            result.append(.init(text, try object(value, depth: depth + 1)))
        }
        return result
    }

    // MARK: - Numbers

    /// The start offset of a value's elements, and their count.
    private func extent(
        at offset: Int, low: Int, width: Int
    ) throws -> (start: Int, count: Int) {
        var start = offset + 1
        var count = low
        if low == 0xF {
            guard start < tableOffset, bytes[start] >> 4 == 0x1, bytes[start] & 0x0F <= 3 else {
                throw damaged("a value has no length")
            }
            let size = 1 << Int(bytes[start] & 0x0F)
            count = try unsigned(at: start + 1, size: size)
            start += 1 + size
        }
        guard start <= tableOffset, count <= (tableOffset - start) / width else {
            throw damaged("a value is longer than the file")
        }
        return (start, count)
    }

    private func integer(at offset: Int, size: Int) throws -> ArchiveValue {
        switch size {
        case 1, 2, 4: return .integer(Int64(try bits(at: offset, size: size)))
        case 8: return .integer(Int64(bitPattern: try bits(at: offset, size: 8)))
        case 16:
            let high = try bits(at: offset, size: 8)
            let low = try bits(at: offset + 8, size: 8)
            if high == 0, low <= UInt64(Int64.max) { return .integer(Int64(low)) }
            if high == .max, low > UInt64(Int64.max) { return .integer(Int64(bitPattern: low)) }
            // More than 64 signed bits can hold.
            return .real(Double(Int64(bitPattern: high)) * 0x1p64 + Double(low))
        default: throw damaged("it contains a number of an unknown kind")
        }
    }

    private func bits(at offset: Int, size: Int) throws -> UInt64 {
        guard offset >= 0, offset <= bytes.count - size else {
            throw damaged("a value is outside the file")
        }
        var value: UInt64 = 0
        for index in 0..<size { value = value << 8 | UInt64(bytes[offset + index]) }
        return value
    }

    private func unsigned(at offset: Int, size: Int) throws -> Int {
        guard let number = Int(exactly: try bits(at: offset, size: size)) else {
            throw damaged("it contains a number that is too large")
        }
        return number
    }
}

// MARK: - Writing

/// Writes property lists in Apple's binary form. Equal scalars are written once.
package struct BinaryPropertyListWriter {
    private enum Node {
        case scalar(ArchiveValue)
        case array([Int])
        case dictionary(keys: [Int], values: [Int])
    }

    private var nodes: [Node] = []
    private var scalars: [ArchiveValue: Int] = [:]
    private var texts: [ExactText: Int] = [:]

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
        case .string(let text):
            if let number = texts[ExactText(text)] { return number }
            nodes.append(.scalar(value))
            texts[ExactText(text)] = nodes.count - 1
            return nodes.count - 1
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

/// A text that is equal to another if their bytes are; Swift's strings are equal if they are canonically equivalent.
package struct ExactText: Hashable, Sendable {
    /// The text.
    package var text: String

    package init(_ text: String) { self.text = text }

    package static func == (left: ExactText, right: ExactText) -> Bool {
        left.text.utf8.elementsEqual(right.text.utf8)
    }
    // Equal texts have equal strings, so that the string's hash serves.
}
