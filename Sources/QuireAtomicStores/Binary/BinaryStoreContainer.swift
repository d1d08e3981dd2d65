import Foundation
internal import QuireSystem

/// The container of a binary store: 64 bytes, then the archive of the objects, then that of the metadata. All numbers have
/// their most significant byte first.
///
///     0   "CoreData"
///     8   UInt32   1
///     12  UInt32   0x08040800
///     16  UInt64   where the metadata begins
///     24  UInt64   its length
///     32  UInt64   where the objects begin: 64
///     40  UInt64   their length
///     48  UInt64   the greatest primary key
///     56  UInt64   0
struct BinaryStoreContainer {
    var objects: Data
    var metadata: Data
    var greatestKey: Int64

    private static let magic = Data("CoreData".utf8)
    private static let headerSize = 64
    private static let version: UInt32 = 0x0804_0800

    init(objects: Data, metadata: Data, greatestKey: Int64) {
        self.objects = objects
        self.metadata = metadata
        self.greatestKey = greatestKey
    }

    /// Reads a container.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    init(_ data: Data, path: String) throws {
        func damaged(_ reason: String) -> QuireError {
            QuireError(
                .invalidFormat, "“\(path)” is no binary store that can be read: \(reason).",
                subject: .init(file: path))
        }
        let data = data.startIndex == 0 ? data : Data(data)
        guard data.count >= Self.headerSize, data.starts(with: Self.magic) else {
            throw damaged("it does not begin as one")
        }
        func number(_ offset: Int, _ size: Int = 8) -> UInt64 {
            data[offset..<offset + size].reduce(0) { $0 << 8 | UInt64($1) }
        }
        guard number(8, 4) == 1 else { throw damaged("it is of version \(number(8, 4))") }
        func part(_ offset: Int, _ name: String) throws -> Data {
            let start = number(offset)
            let count = number(offset + 8)
            guard start >= Self.headerSize, start <= data.count,
                count <= UInt64(data.count) - start
            else { throw damaged("its \(name) would be outside of the file") }
            return Data(data[Int(start)..<Int(start + count)])
        }
        metadata = try part(16, "metadata")
        objects = try part(32, "objects")
        greatestKey = Int64(exactly: number(48)) ?? 0
    }

    /// The bytes of the container.
    var data: Data {
        var bytes = [UInt8](Self.magic)
        func append(_ number: UInt64, _ size: Int) {
            for index in (0..<size).reversed() {
                bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(index * 8)))
            }
        }
        append(1, 4)
        append(UInt64(Self.version), 4)
        append(UInt64(Self.headerSize + objects.count), 8)
        append(UInt64(metadata.count), 8)
        append(UInt64(Self.headerSize), 8)
        append(UInt64(objects.count), 8)
        append(UInt64(greatestKey), 8)
        append(0, 8)
        return Data(bytes) + objects + metadata
    }
}
