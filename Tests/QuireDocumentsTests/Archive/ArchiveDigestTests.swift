import Crypto
import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

@Suite struct ArchiveDigestTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private static let mebibyte = 1 << 20

    /// The digests of each MiB, computed independently.
    private static func expected(_ data: Data) -> [String]? {
        if data.count <= mebibyte { return nil }
        return stride(from: 0, to: data.count, by: mebibyte).map {
            SHA256.hash(data: data[$0..<min($0 + mebibyte, data.count)]).hexadecimal
        }
    }

    @Test(arguments: [
        0, 1, mebibyte - 1, mebibyte, mebibyte + 1, 2 * mebibyte, 3 * mebibyte + 7,
    ])
    func digestsDoNotDependOnThePieces(count: Int) {
        let data = ArchiveTests.data(count)
        for pieceSize in [99_991, 262_144, Self.mebibyte, 4 * Self.mebibyte] {
            let digests = ArchiveFileDigests(hasParts: true)
            let whole = ArchiveFileDigests(hasParts: false)
            data.withUnsafeBytes { bytes in
                for start in stride(from: 0, to: count, by: pieceSize) {
                    let piece = UnsafeRawBufferPointer(
                        rebasing: bytes[start..<min(start + pieceSize, count)])
                    digests.update(piece)
                    whole.update(piece)
                }
            }
            let (sha256, perMiB) = digests.finalize()
            #expect(sha256 == SHA256.hash(data: data).hexadecimal)
            #expect(perMiB == Self.expected(data))
            let withoutParts = whole.finalize()
            #expect(withoutParts.sha256 == sha256)
            #expect(withoutParts.perMiB == nil)
        }
    }

    @Test(arguments: ["a.zip", "a.quirez", "a.tar.zst"])
    func manifestListsDigestPerMiBOfLargeFiles(name: String) throws {
        let tree = folder.path("tree")
        try FileSystem.makeFolder(tree)
        let contents = [
            "large": ArchiveTests.data(2 * Self.mebibyte + 5),
            "small": ArchiveTests.data(Self.mebibyte), "empty": Data(),
        ]
        for (name, data) in contents {
            try FileSystem.writeNewFile(data, at: FileSystem.path(tree, name))
        }
        let manifest = try ArchiveExport(folder: tree, destination: folder.path(name)).run()
        #expect(try ArchiveExtraction.manifest(of: folder.path(name)) == manifest)
        for entry in manifest.entries {
            #expect(entry.sha256PerMiB == Self.expected(try #require(contents[entry.path])))
        }
        let json = String(decoding: try manifest.encoded(), as: UTF8.self)
        #expect(json.split(separator: "sha256PerMiB").count == 2)
        try ArchiveExtraction(archive: folder.path(name), destination: folder.path("copy")).run()
        #expect(try FileSystem.contents(of: folder.path("copy/large")) == contents["large"])
    }

    /// Extracts an archive of a large file and a folder whose manifest has changed.
    private func extract(
        _ name: String, _ change: (inout [ArchiveManifest.Entry]) -> Void
    ) throws {
        let data = ArchiveTests.data(2 * Self.mebibyte + 5)
        var entries: [ArchiveManifest.Entry] = [
            .init(path: "folder/", size: 0, sha256: ""),
            .init(
                path: "large", size: Int64(data.count), sha256: SHA256.hash(data: data).hexadecimal,
                sha256PerMiB: Self.expected(data)),
        ]
        change(&entries)
        let archive = HandmadeArchive([
            .init(path: "folder", kind: .folder), .init(path: "large", data: data),
            .init(
                path: ArchiveManifest.path, data: try ArchiveManifest(entries: entries).encoded()),
        ])
        try archive.tar.write(to: URL(fileURLWithPath: folder.path(name)))
        defer { try? FileSystem.removeFile(folder.path(name)) }
        try ArchiveExtraction(archive: folder.path(name), destination: folder.path("copy")).run()
    }

    @Test func manifestOfEarlierVersionsIsExtracted() throws {
        try extract("a.tar") { $0[1].sha256PerMiB = nil }
        #expect(FileSystem.exists(folder.path("copy/large")))
    }

    @Test func digestsPerMiBMustMatch() throws {
        for index in 0..<3 {
            let error = failure {
                try extract("a.tar") {
                    $0[1].sha256PerMiB?[index] = SHA256.hash(data: Data()).hexadecimal
                }
            }
            #expect(error?.code == .invalidFormat)
            #expect(error?.message.contains("“large” does not match the manifest") == true)
        }
        #expect(try FileSystem.names(in: folder.path).isEmpty)
    }

    static let malformed: [@Sendable (inout [ArchiveManifest.Entry]) -> Void] = [
        { $0[1].sha256PerMiB = [] },
        { $0[1].sha256PerMiB?.removeLast() },
        { $0[1].sha256PerMiB?.append(SHA256.hash(data: Data()).hexadecimal) },
        { $0[1].sha256PerMiB?[0].removeLast() },
        { $0[1].sha256PerMiB?[0] = "" },
        { $0[1].sha256PerMiB?[0] = String(repeating: "A", count: 64) },
        { $0[1].sha256PerMiB?[0] = String(repeating: "é", count: 32) },
        { $0[1].size = 1 << 20 },
        { $0[1].size = 0 },
        { $0[1].size = .max },
        { $0[1].size = .min },
        { $0[0].sha256PerMiB = [] },
    ]

    @Test(arguments: malformed.indices)
    func malformedDigestsPerMiBAreRefused(index: Int) throws {
        let error = failure { try extract("a.tar", Self.malformed[index]) }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.contains("the digests per MiB of “") == true)
        #expect(try FileSystem.names(in: folder.path).isEmpty)
    }
}
