public import Foundation
public import Testing

/// Property lists in Apple's binary form, made byte by byte, to hold what no honest program writes.
public enum BinaryPropertyLists {
    /// A list that expands to more than there is memory or stack for.
    public struct Hostile: Sendable, CustomTestStringConvertible {
        /// The kind of attack.
        public let testDescription: String
        /// A part of what an error says.
        public let reason: String
        /// The list.
        public let data: Data
        /// The list as the value of a key.
        public let inDictionary: Data

        init(_ name: String, _ reason: String, _ objects: (_ first: Int) -> [[UInt8]]) {
            testDescription = name
            self.reason = reason
            data = make(objects(0))
            inDictionary = make([[0xD1] + reference(1) + reference(2), [0x51, 0x61]] + objects(2))
        }
    }

    /// Lists that are hostile in different ways.
    public static let hostile: [Hostile] = [
        .init("an array that contains itself", "contains itself") { [[0xA1] + reference($0)] },
        .init("a dictionary that contains itself", "contains itself") {
            [[0xD1] + reference($0 + 1) + reference($0), [0x51, 0x61]]
        },
        .init("arrays that contain each other", "contains itself") {
            [[0xA1] + reference($0 + 1), [0xA1] + reference($0)]
        },
        .init("2^30 texts by sharing", "shared values expanded") { first in
            (first..<first + 30).map { [0xA2] + reference($0 + 1) + reference($0 + 1) }
                + [[0x51, 0x61]]
        },
        .init("100,000 arrays within one another", "nested too deeply") { first in
            (first..<first + 100_000).map { [0xA1] + reference($0 + 1) } + [[0x51, 0x61]]
        },
    ]

    /// A list of objects, of which the first is the whole.
    public static func make(_ objects: [[UInt8]], referenceSize: UInt8 = 4) -> Data {
        var bytes = Data("bplist00".utf8)
        var offsets: [Int] = []
        for object in objects {
            offsets.append(bytes.count)
            bytes += object
        }
        let table = bytes.count
        for offset in offsets { bytes += number(offset, 4) }
        bytes += [0, 0, 0, 0, 0, 0, 4, referenceSize]
        for value in [objects.count, 0, table] { bytes += number(value, 8) }
        return bytes
    }

    /// A reference to an object by its index.
    public static func reference(_ index: Int) -> [UInt8] { number(index, 4) }

    private static func number(_ value: Int, _ size: Int) -> [UInt8] {
        (0..<size).map { UInt8(truncatingIfNeeded: value >> (8 * (size - 1 - $0))) }
    }
}
