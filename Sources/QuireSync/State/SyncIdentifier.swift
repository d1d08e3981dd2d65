internal import Crypto
internal import Foundation
internal import Quire

/// An identifier that is the same on all machines: of an object, a peer or a shared document.
public struct SyncIdentifier: Hashable, Comparable, Sendable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// A new identifier, as a UUID of version 7: those that are made later are greater, within a millisecond.
    init(at date: Date = Date()) {
        let milliseconds = UInt64(max(date.timeIntervalSince1970, 0) * 1000) & 0xFFFF_FFFF_FFFF
        high = milliseconds << 16 | 0x7000 | UInt64.random(in: 0...0xFFF)
        low = 0x8000_0000_0000_0000 | UInt64.random(in: 0...0x3FFF_FFFF_FFFF_FFFF)
    }

    /// A new identifier of an object, greater than those of objects that were captured before it: so replicas give rows to the objects
    /// of a new document in the order of the original.
    ///
    /// - Parameters:
    ///   - time: The clock's time of the segment that the object comes with.
    ///   - index: The number of the object among the new ones of the segment.
    init(at time: UInt64, index: UInt64) {
        // Segments of the same millisecond follow each other.
        let number = (time & 0xFFFF) &* 2048 &+ index
        let milliseconds = ((time >> 16) &+ number >> 12) & 0xFFFF_FFFF_FFFF
        high = milliseconds << 16 | 0x7000 | number & 0xFFF
        low = 0x8000_0000_0000_0000 | UInt64.random(in: 0...0x3FFF_FFFF_FFFF_FFFF)
    }

    /// A new identifier of an object that was inserted in a store: the same in all copies of the store that were made since. So an object
    /// that had not been sent when a store was copied, or a backup made, is not sent as two.
    ///
    /// - Parameters:
    ///   - key: The object's primary key; later objects have greater identifiers.
    ///   - entity: The name of the root of the entity's hierarchy.
    ///   - date: The date of the transaction. Copies insert other objects with the key at other times.
    init(
        ofRow key: Int64, entity: String, insertedAt date: Date, store: String,
        in container: SyncIdentifier
    ) {
        var hash = SHA256()
        hash.update(data: container.bytes)
        hash.update(data: Data(store.utf8) + [0] + Data(entity.utf8) + [0])
        let time = date.timeIntervalSinceReferenceDate.bitPattern
        for number in [time, UInt64(bitPattern: key)] {
            withUnsafeBytes(of: number.bigEndian) { hash.update(bufferPointer: $0) }
        }
        let milliseconds = UInt64(min(max(date.timeIntervalSince1970, 0), 1e11) * 1000)
        let number = UInt64(bitPattern: key)
        high = ((milliseconds &+ number >> 12) & 0xFFFF_FFFF_FFFF) << 16 | 0x7000 | number & 0xFFF
        low =
            SyncIdentifier(bytes: Array(hash.finalize())[..<16]).low & ~(3 << 62) | 1 << 63
    }

    /// The identifier of an object that is known by a value of its own, so that two machines that insert it have one object: a UUID
    /// of version 8.
    init(ofObjectNamed name: [UInt8], entity: String, in container: SyncIdentifier) {
        var hash = SHA256()
        hash.update(data: container.bytes)
        hash.update(data: Data(entity.utf8) + [0])
        hash.update(data: name)
        let digest = SyncIdentifier(bytes: Array(hash.finalize())[..<16])
        high = digest.high & ~0xF000 | 0x8000
        low = digest.low & ~(3 << 62) | 1 << 63
    }

    /// Whether it is a random one, or that of a row, which no other machine makes again, but for copies of the store.
    var isRandom: Bool { high & 0xF000 == 0x7000 }

    /// - Precondition: There are 16 bytes.
    init(bytes: some Collection<UInt8>) {
        var (high, low) = (UInt64(0), UInt64(0))
        for (index, byte) in bytes.enumerated() {
            if index < 8 { high = high << 8 | UInt64(byte) } else { low = low << 8 | UInt64(byte) }
        }
        self.init(high: high, low: low)
    }

    /// Creates an identifier from 32 hexadecimal digits in lower case, with or without the hyphens of a UUID; `nil` if the text
    /// is not valid.
    public init?(_ text: some StringProtocol) {
        let digits = text.utf8.filter { $0 != UInt8(ascii: "-") }
        guard digits.count == 32 else { return nil }
        var words: [UInt64] = [0, 0]
        for (index, digit) in digits.enumerated() {
            let value: UInt8
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = digit - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = digit - UInt8(ascii: "a") + 10
            default: return nil
            }
            words[index / 16] = words[index / 16] << 4 | UInt64(value)
        }
        self.init(high: words[0], low: words[1])
    }

    /// The 16 bytes.
    var bytes: Data {
        var data = Data(capacity: 16)
        for word in [high, low] { data.append(bigEndian: word) }
        return data
    }

    /// 32 hexadecimal digits in lower case.
    public var description: String { bytes.hexadecimal }

    /// Compares the bytes.
    public static func < (left: SyncIdentifier, right: SyncIdentifier) -> Bool {
        (left.high, left.low) < (right.high, right.low)
    }
}

extension Sequence<UInt8> {
    /// Two hexadecimal digits in lower case for each byte.
    var hexadecimal: String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        for byte in self {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }
}

/// A hybrid logical clock: milliseconds since 1970, and a counter of 16 bits below them.
///
/// It never goes back, and its next time is greater than all that it has seen: so a change that was made with knowledge of
/// another one is later, whatever the machines' clocks say.
struct SyncClock: Sendable, Equatable {
    /// The greatest time that a file may contain: of some year that no clock will show. What is above it is damage.
    static let maximum = UInt64(1) << 61
    /// The greatest time that is observed, half of that: whatever a file says, the clock can go on. A value of a file that lies, with
    /// a greater time, wins over all that are set.
    private static let maximumObserved = UInt64(1) << 60

    /// The last time given out or seen.
    private(set) var last: UInt64

    init(last: UInt64 = 0) { self.last = last }

    /// The next time.
    mutating func next(at date: Date) -> UInt64 {
        let seconds = min(max(date.timeIntervalSince1970, 0), 1e10)
        last = min(max(last &+ 1, UInt64(seconds * 1000) << 16), Self.maximum)
        return last
    }

    mutating func observe(_ time: UInt64) {
        last = max(last, min(time, Self.maximumObserved))
    }

    /// The point in time that a time of the clock means.
    static func date(of time: UInt64) -> Date {
        Date(timeIntervalSince1970: Double(time >> 16) / 1000)
    }
}
