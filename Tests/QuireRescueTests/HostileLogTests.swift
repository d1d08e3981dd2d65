import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireRescue

/// A write-ahead log with right checksums, which says what is not so.
@Suite struct HostileLogTests {
    let folder: TemporaryFolder
    static let pageSize = 512

    init() throws { folder = try TemporaryFolder() }

    private func bytes(_ numbers: UInt32...) -> [UInt8] {
        numbers.flatMap { number in withUnsafeBytes(of: number.bigEndian) { Array($0) } }
    }

    /// SQLite's sum over pairs of 32-bit words, here those of a log with big-endian sums.
    private func add(_ bytes: [UInt8], to sums: inout (UInt32, UInt32)) {
        for offset in stride(from: 0, to: bytes.count, by: 8) {
            sums.0 &+= bytes.bigEndian32(at: offset) &+ sums.1
            sums.1 &+= bytes.bigEndian32(at: offset + 4) &+ sums.0
        }
    }

    /// A log of one transaction of one frame.
    private func log(page: UInt32, count: UInt32) -> Data {
        var sums: (UInt32, UInt32) = (0, 0)
        let start = bytes(0x377F_0683, 3_007_000, UInt32(Self.pageSize), 0, 1, 2)
        add(start, to: &sums)
        var log = start + bytes(sums.0, sums.1)
        let content = [UInt8](repeating: 0, count: Self.pageSize)
        add(bytes(page, count), to: &sums)
        add(content, to: &sums)
        log += bytes(page, count, 1, 2, sums.0, sums.1) + content
        return Data(log)
    }

    @Test(
        arguments: [
            (1, .max), (.max, .max), (4_000_000_000, .max), (1, 1 << 31), (.max, 1),
        ] as [(UInt32, UInt32)])
    func aFrameDoesNotMakeBillionsOfPages(_ page: UInt32, _ count: UInt32) throws {
        let path = folder.path("a.sqlite")
        try FileSystem.writeNewFile(Data(count: Self.pageSize * 3), at: path)
        try FileSystem.writeNewFile(log(page: page, count: count), at: path + "-wal")
        let pages = try DatabasePages(path: path)
        #expect(pages.pageSize == Self.pageSize)
        #expect(pages.pageCount <= 16)
        #expect(page > 16 || pages.log.offset(ofPage: Int(page)) != nil)
        var map = DatabaseMap(pages)
        #expect(map.leaves(ofTreeAt: 1) == [])
        #expect(throws: QuireError.self) {
            _ = try StoreRecovery.recover(path, to: folder.path("b.sqlite"))
        }
    }

    /// Its transactions would be lost in silence.
    @Test func aLogThatCannotBeOpenedIsAnError() async {
        await #expect(processExitsWith: .success) {
            let folder = try TemporaryFolder()
            let path = folder.path("a.sqlite")
            try FileSystem.writeNewFile(Data(count: 1024), at: path)
            try FileSystem.writeNewFile(Data(count: 1024), at: path + "-wal")
            // The database gets a descriptor, the log none.
            let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
            var former = rlimit()
            getrlimit(resource, &former)
            let free = dup(2)
            close(free)
            var limit = former
            limit.rlim_cur = rlim_t(free + 1)
            setrlimit(resource, &limit)
            let error = #expect(throws: QuireError.self) { _ = try DatabasePages(path: path) }
            setrlimit(resource, &former)
            #expect(error?.subject.file == path + "-wal")
        }
    }

    @Test func pagesThatOnlyTheLogHasAreFound() throws {
        let path = folder.path("a.sqlite")
        try FileSystem.writeNewFile(Data(count: Self.pageSize), at: path)
        try FileSystem.writeNewFile(log(page: 2, count: 2), at: path + "-wal")
        let pages = try DatabasePages(path: path)
        #expect(pages.pageCount == 2)
        #expect(pages.page(2) == [UInt8](repeating: 0, count: Self.pageSize))
    }
}
