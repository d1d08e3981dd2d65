import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Small archives of far too much: each is refused with the limits that everybody has, after seconds, and leaves nothing.
@Suite(.serialized, .inClear) struct ArchiveBombTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// The most memory that this process has had, in bytes.
    private var peakMemory: Int {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return usage.ru_maxrss * 1024
    }

    private func expectRefusal(
        of archive: [UInt8], because reason: String, location: SourceLocation = #_sourceLocation
    ) throws {
        try FileSystem.writeNewFile(Data(archive), at: folder.path("a.zip"))
        let peak = peakMemory
        let error = failure {
            try DocumentPackage.extract(folder.path("a.zip"), to: folder.path("Copy.quire"))
        }
        #expect(error?.code == .invalidFormat, sourceLocation: location)
        #expect(
            error?.message.contains(reason) == true, "\(error?.message ?? "")",
            sourceLocation: location)
        // Other tests of the process need some meanwhile.
        #expect(peakMemory - peak < 1 << 30, sourceLocation: location)
        #expect(try FileSystem.names(in: folder.path) == ["a.zip"], sourceLocation: location)
    }

    @Test func tenGigabytesOfZerosAreRefused() throws {
        let (blockSize, count) = (32 << 20, 320)
        // It refers to nothing before it, and ends at a byte: it can be repeated.
        let block = [UInt8](repeating: 0, count: blockSize).withUnsafeBytes {
            ChunkCompressor(level: 9).compress($0, isLast: false)
        }
        var content: [UInt8] = []
        for _ in 0..<count { content += block }
        // A last block without content.
        content += [3, 0]
        let size = UInt64(blockSize * count)
        #expect(size == 10 << 30 && content.count < 12 << 20)

        let name = Array(DocumentPackageLayout.storePath.utf8)
        let sizes = bytes(1 as UInt16, 16 as UInt16, size, UInt64(content.count))
        let common =
            bytes(45 as UInt16, 0 as UInt16, 8 as UInt16, 0 as UInt16, 0x21 as UInt16)
            + bytes(0 as UInt32, UInt32.max, UInt32.max, UInt16(name.count), UInt16(sizes.count))
        var archive = bytes(0x0403_4B50 as UInt32) + common + name + sizes + content
        let directory =
            bytes(0x0201_4B50 as UInt32, 0x032D as UInt16) + common
            + bytes(0 as UInt16, 0 as UInt16, 0 as UInt16, 0o100644 << 16 as UInt32, 0 as UInt32)
            + name + sizes
        let start = archive.count
        archive += directory + end(count: 1, size: directory.count, start: start)
        try expectRefusal(of: archive, because: "more than 1000 times its size")
    }

    @Test func aMillionEntriesAreRefused() throws {
        let count = 1_000_000
        let common =
            bytes(20 as UInt16, 0 as UInt16, 0 as UInt16, 0 as UInt16, 0x21 as UInt16)
            + bytes(0 as UInt32, 0 as UInt32, 0 as UInt32, 1 as UInt16, 0 as UInt16)
        let name = [UInt8(ascii: "a")]
        let local = bytes(0x0403_4B50 as UInt32) + common + name
        let central =
            bytes(0x0201_4B50 as UInt32, 0x0314 as UInt16) + common
            + bytes(0 as UInt16, 0 as UInt16, 0 as UInt16, 0o100644 << 16 as UInt32, 0 as UInt32)
            + name
        var archive = repeated(local, count)
        var directory = repeated(central, count)
        // Each has a header of its own.
        directory.withUnsafeMutableBytes { directory in
            for index in 0..<count {
                directory.storeBytes(
                    of: UInt32(index * local.count).littleEndian,
                    toByteOffset: index * central.count + central.count - name.count - 4,
                    as: UInt32.self)
            }
        }
        let start = archive.count
        archive += directory
        archive += end(count: .max, size: directory.count, start: start)
        try expectRefusal(of: archive, because: "the limit of 100000 entries")
    }

    private func repeated(_ bytes: [UInt8], _ count: Int) -> [UInt8] {
        var result = bytes
        result.reserveCapacity(bytes.count * count)
        while result.count < bytes.count * count {
            result += result.prefix(bytes.count * count - result.count)
        }
        return result
    }

    /// The end of the directory.
    private func end(count: UInt16, size: Int, start: Int) -> [UInt8] {
        bytes(0x0605_4B50 as UInt32, 0 as UInt16, 0 as UInt16, count, count)
            + bytes(UInt32(size), UInt32(start), 0 as UInt16)
    }

    private func bytes<each Number: FixedWidthInteger>(_ numbers: repeat each Number) -> [UInt8] {
        var result: [UInt8] = []
        for number in repeat each numbers {
            withUnsafeBytes(of: number.littleEndian) { result.append(contentsOf: $0) }
        }
        return result
    }
}
