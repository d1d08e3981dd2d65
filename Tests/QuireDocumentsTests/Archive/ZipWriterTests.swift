import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// The bytes of zip files. That other programs read them is in the command's transcripts.
@Suite struct ZipWriterTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func archive(
        _ files: [(path: String, data: Data)], level: Int = 6, threads: Int = 2
    ) throws -> Data {
        let path = folder.path("a.zip")
        let file = try OpenFile.open(path, for: .creating)
        defer { try? FileSystem.removeFile(path) }
        let writer = ZipWriter(file: file, level: level, threads: threads)
        for (path, data) in files {
            if path.hasSuffix("/") {
                writer.addFolder(String(path.dropLast()))
                continue
            }
            try writer.addFile(path, size: Int64(data.count)) { write in
                // In pieces that are no multiple of anything.
                var rest = data[...]
                while !rest.isEmpty {
                    try rest.prefix(300_007).withUnsafeBytes { try write($0) }
                    rest = rest.dropFirst(300_007)
                }
            }
        }
        try writer.finish()
        file.close()
        return try FileSystem.contents(of: path)
    }

    private func number(_ data: Data, _ offset: Int, _ count: Int) -> Int {
        (0..<count).reduce(0) { $0 | Int(data[offset + $1]) << (8 * $1) }
    }

    @Test func bytesDoNotDependOnThreads() throws {
        let files = [
            ("f/", Data()), ("f/large", ArchiveTests.data(9_000_000)), ("f/empty", Data()),
            ("f/small", Data([1])), ("f/middle", ArchiveTests.data(700_000)),
            ("z", ArchiveTests.data(8 << 20)),
        ]
        #expect(try archive(files, threads: 1) == archive(files, threads: 3))
    }

    @Test func mediaTypeIsAtAFixedPlace() throws {
        let bytes = try archive([
            (ArchiveManifest.mediaTypePath, Data(ArchiveFormat.mediaType.utf8)),
            ("b", ArchiveTests.data(5000)),
        ])
        #expect(bytes[0..<4] == Data([0x50, 0x4B, 3, 4]))
        #expect(bytes[30..<38] == Data("mimetype".utf8))
        #expect(bytes[38..<61] == Data("application/x-quire+zip".utf8))
        #expect(number(bytes, 8, 2) == 0 && number(bytes, 28, 2) == 0)
        // No data descriptors, and sizes before the data.
        #expect(number(bytes, 6, 2) == 0x0800 && number(bytes, 18, 4) == 23)
    }

    /// The profile's index: each chunk can be decompressed by itself.
    @Test(arguments: [1_048_577, 1_310_720, 3_000_000])
    func everyChunkOfALargeFileIsIndexed(size: Int) throws {
        let content = ArchiveTests.data(size)
        let bytes = try archive([("d/store", content)])
        let compressed = number(bytes, 18, 4)
        let start = 30 + 7
        let index = start + compressed
        let name = "d/.store.sozip.idx"
        #expect(bytes[(index + 30)..<(index + 30 + name.utf8.count)] == Data(name.utf8))
        let header = index + 30 + name.utf8.count
        #expect(
            [0, 4, 8, 12].map { number(bytes, header + $0, 4) } == [1, 0, 262_144, 8])
        #expect(number(bytes, header + 16, 8) == size)
        #expect(number(bytes, header + 24, 8) == compressed)
        let count = (size - 1) / 262_144
        var offsets = [0] + (0..<count).map { number(bytes, header + 32 + 8 * $0, 8) }
        offsets.append(compressed)
        for (chunk, (from, to)) in zip(offsets, offsets.dropFirst()).enumerated() {
            var piece = bytes[(start + from)..<(start + to)]
            // An empty last block ends it.
            if chunk < count { piece += [1, 0, 0, 0xFF, 0xFF] }
            let expected = content.dropFirst(chunk * 262_144).prefix(262_144)
            #expect(RawDeflate.decompressed(Data(piece)) == Data(expected))
        }
        // Only the file is listed.
        #expect(number(bytes, bytes.count - 12, 2) == 1)
    }

    @Test func whatDoesNotBecomeSmallerIsStored() throws {
        var random = SeededRandom(seed: 1)
        let noise = Data((0..<2_000_000).map { _ in UInt8.random(in: 0...255, using: &random) })
        let bytes = try archive([("noise", noise)])
        #expect(number(bytes, 8, 2) == 0 && number(bytes, 18, 4) == noise.count)
        #expect(bytes.count < noise.count + 200)
        let stored = try archive([("text", ArchiveTests.data(3_000_000))], level: 0)
        #expect(number(stored, 8, 2) == 0 && stored.count < 3_000_200)
        #expect(try archive([("text", ArchiveTests.data(3_000_000))]).count < 2_400_000)
    }

    @Test func levelAndFormatAreChecked() throws {
        for (options, code) in [
            (ArchiveOptions(level: 10), QuireError.Code.invalidValue),
            (ArchiveOptions(format: .tar, level: 1), .invalidValue),
            (ArchiveOptions(threads: 0), .invalidValue),
        ] {
            let error = failure { _ = try options.format(at: "a.zip") }
            #expect(error?.code == code)
        }
        #expect(failure { _ = try ArchiveOptions().format(at: "a.rar") }?.code == .unsupported)
        #expect(try ArchiveOptions(format: .quirez).format(at: "a.rar") == .quirez)
        #expect(try ArchiveOptions().format(at: "a.b.TXZ") == .tarXZ)
    }
}
