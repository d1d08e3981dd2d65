import Crypto
import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

@Suite(.inClear) struct ArchiveTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    static let fileNames = ["a.zip", "a.tar.zst"]
    static let allFileNames =
        ArchiveFormat.allCases.map { "a.\($0.rawValue)" } + ["a.tgz", "a.ZIP"]

    /// Data of which about a third can be left out.
    static func data(_ count: Int) -> Data {
        let block = Data(
            (0..<65_536).map { index in
                // Longer than the window of the compressor, so that it does not become smaller by its repetition.
                index % 3 == 0 ? 0 : UInt8(truncatingIfNeeded: (index &* 2_654_435_761) >> 13)
            })
        var data = Data(capacity: count)
        while data.count < count { data += block.prefix(count - data.count) }
        return data
    }

    private static let large = data(1_500_000)

    /// A folder with what is hard for archives: empty, large and deep things, names that are not ASCII.
    private func makeTree() throws -> String {
        let tree = folder.path("tree")
        try FileSystem.makeFolder(
            FileSystem.path(tree, "StoreContent/é 日本/🙂"), withIntermediates: true)
        try FileSystem.makeFolder(FileSystem.path(tree, "empty"))
        let long = String(repeating: "long name ", count: 20)
        for (name, data) in [
            ("DocumentMetadata.plist", Data("<plist/>".utf8)), ("StoreContent/large", Self.large),
            ("StoreContent/é 日本/🙂/e\u{301}", Data([0])), ("a-b", Data()), ("a", Data([1, 2])),
            (long + "/" + long, Data("deep".utf8)),
        ] {
            let path = FileSystem.path(tree, name)
            try FileSystem.makeFolder(FileSystem.folder(of: path), withIntermediates: true)
            try FileSystem.writeNewFile(data, at: path)
        }
        return tree
    }

    private func content(of tree: String) throws -> [String: Data] {
        var content: [String: Data] = [:]
        for (path, information) in try FileSystem.contentsOfTree(tree) {
            content[path] =
                information.kind == .folder
                ? Data("folder".utf8) : try FileSystem.contents(of: FileSystem.path(tree, path))
        }
        return content
    }

    @Test(arguments: allFileNames)
    func extractedTreeIsEqual(name: String) throws {
        let tree = try makeTree()
        let archive = folder.path(name)
        let exporting = Progress(totalUnitCount: 0)
        try ArchiveExport(folder: tree, destination: archive, progress: exporting).run()
        #expect(exporting.totalUnitCount > 1_500_000)
        #expect(exporting.completedUnitCount == exporting.totalUnitCount)
        let extracting = Progress(totalUnitCount: 0)
        try ArchiveExtraction(
            archive: archive, destination: folder.path("copy"), progress: extracting
        ).run()
        #expect(extracting.completedUnitCount == extracting.totalUnitCount)
        #expect(try content(of: folder.path("copy")) == content(of: tree))
        #expect(try FileSystem.names(in: folder.path).sorted() == [name, "copy", "tree"].sorted())
        // Accents come back composed.
        let names = try FileSystem.names(in: folder.path("copy/StoreContent/é 日本/🙂"))
        #expect(names.map { Array($0.utf8) } == [Array("\u{e9}".utf8)])
        let manifest = try ArchiveExtraction.manifest(of: archive)
        #expect(try manifest.entries.count == content(of: tree).count)
    }

    @Test(arguments: allFileNames)
    func twoExportsAreEqualByteByByte(name: String) throws {
        let tree = try makeTree()
        try ArchiveExport(
            folder: tree, destination: folder.path("1" + name),
            options: ArchiveOptions(threads: 3)
        ).run()
        try FileSystem.copyTree(tree, to: folder.path("copy"))
        // Dates and permissions must not matter.
        try OpenFile.open(folder.path("copy/a"), for: .updating).setPermissions(0o600)
        try ArchiveExport(
            folder: folder.path("copy"), destination: folder.path("2" + name),
            options: ArchiveOptions(threads: 1)
        ).run()
        #expect(
            try FileSystem.contents(of: folder.path("1" + name))
                == FileSystem.contents(of: folder.path("2" + name)))
    }

    /// Zip headers hold a local time; any time zone but UTC would show.
    @Test func zipHeadersHoldNoLocalTime() throws {
        let archive = folder.path("a.zip")
        try ArchiveExport(folder: makeTree(), destination: archive).run()
        let bytes = [UInt8](try FileSystem.contents(of: archive))
        var (local, central) = (0, 0)
        for start in 0..<bytes.count - 16 where bytes[start] == 0x50 && bytes[start + 1] == 0x4B {
            switch (bytes[start + 2], bytes[start + 3]) {
            case (3, 4):
                #expect(Array(bytes[start + 10..<start + 14]) == [0, 0, 0x21, 0])
                local += 1
            case (1, 2):
                #expect(Array(bytes[start + 12..<start + 16]) == [0, 0, 0x21, 0])
                central += 1
            default: continue
            }
        }
        // And the manifest; the index of the large file has a local header only.
        #expect(central == (try ArchiveExtraction.manifest(of: archive).entries.count + 1))
        #expect(local == central + 1)
    }

    @Test(arguments: fileNames)
    func existingArchiveIsReplacedOnlyWhenAsked(name: String) throws {
        let tree = try makeTree()
        let archive = folder.path(name)
        try FileSystem.writeNewFile(Data("mine".utf8), at: archive)
        let refused = failure { try ArchiveExport(folder: tree, destination: archive).run() }
        #expect(refused?.code == .alreadyExists)
        #expect(try FileSystem.contents(of: archive) == Data("mine".utf8))
        try ArchiveExport(folder: tree, destination: archive, replacesExisting: true).run()
        #expect(try ArchiveExtraction.manifest(of: archive).entries.isEmpty == false)
    }

    @Test(arguments: fileNames)
    func cancellingLeavesNothing(name: String) throws {
        let tree = try makeTree()
        let cancelled = Progress(totalUnitCount: 0)
        cancelled.cancel()
        let exported = failure {
            try ArchiveExport(
                folder: tree, destination: folder.path(name), progress: cancelled
            ).run()
        }
        #expect(exported?.code == .cancelled)
        try ArchiveExport(folder: tree, destination: folder.path(name)).run()
        let extracted = failure {
            try ArchiveExtraction(
                archive: folder.path(name), destination: folder.path("copy"), progress: cancelled
            ).run()
        }
        #expect(extracted?.code == .cancelled)
        #expect(try FileSystem.names(in: folder.path).sorted() == [name, "tree"].sorted())
    }

    @Test func unknownExtensionIsRefusedBeforeAnythingIsMade() throws {
        let tree = try makeTree()
        let error = failure {
            try ArchiveExport(folder: tree, destination: folder.path("a.rar")).run()
        }
        #expect(error?.code == .unsupported)
        #expect(try FileSystem.names(in: folder.path) == ["tree"])
    }

    @Test(arguments: fileNames)
    func truncatedArchiveIsRefusedAndLeavesNothing(name: String) throws {
        let tree = try makeTree()
        try ArchiveExport(folder: tree, destination: folder.path(name)).run()
        let whole = try FileSystem.contents(of: folder.path(name))
        for count in stride(from: 0, to: whole.count, by: max(whole.count / 23, 1)) {
            let part = folder.path("part-\(name)")
            try whole.prefix(count).write(to: URL(fileURLWithPath: part))
            let error = failure {
                try ArchiveExtraction(archive: part, destination: folder.path("copy")).run()
            }
            #expect(error?.code == .invalidFormat, "truncated to \(count) of \(whole.count)")
        }
        #expect(!FileSystem.exists(folder.path("copy")))
        #expect(try FileSystem.temporarySiblings(of: folder.path("copy")).isEmpty)
    }

    @Test(arguments: fileNames)
    func flippedBytesNeverGiveAnotherTree(name: String) throws {
        let tree = try makeTree()
        let expected = try content(of: tree)
        try ArchiveExport(folder: tree, destination: folder.path(name)).run()
        let whole = try FileSystem.contents(of: folder.path(name))
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        for round in 0..<40 {
            var damaged = whole
            let position = Int.random(in: 0..<whole.count, using: &random)
            damaged[position] ^= UInt8.random(in: 1...255, using: &random)
            let path = folder.path("damaged-\(name)")
            try damaged.write(to: URL(fileURLWithPath: path))
            let copy = folder.path("copy\(round)")
            let error = failure { try ArchiveExtraction(archive: path, destination: copy).run() }
            // A date or a flag of no consequence may have been hit.
            if error == nil {
                #expect(try content(of: copy) == expected, "seed \(seed), round \(round)")
            } else {
                #expect(!FileSystem.exists(copy), "seed \(seed), round \(round)")
            }
        }
    }

    @Test func badNamesAreNotExported() throws {
        let tree = folder.path("tree")
        try FileSystem.makeFolder(tree)
        try FileSystem.writeNewFile(Data(), at: tree + "/Case.txt")
        try FileSystem.writeNewFile(Data(), at: tree + "/case.txt")
        let error = try #require(
            failure { try ArchiveExport(folder: tree, destination: folder.path("a.zip")).run() })
        #expect(error.code == .unsupported)
        #expect(error.message.contains("only in case"))
        #expect(!FileSystem.exists(folder.path("a.zip")))
    }
}

@Suite struct HostileArchiveTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    typealias Entry = HandmadeArchive.Entry

    static let hostile: [(String, [Entry])] = [
        ("has the component “..”", [.init(path: "../evil")]),
        ("has the component “..”", [.init(path: "a/../../evil")]),
        ("is absolute", [.init(path: "/tmp/quire-evil")]),
        ("a symbolic link", [.init(path: "link", kind: .symbolicLink, target: "/etc")]),
        (
            "a symbolic link",
            [
                .init(path: "link", kind: .symbolicLink, target: "/tmp"),
                .init(path: "link/evil"),
            ]
        ),
        ("“a” twice", [.init(path: "a", data: Data([1])), .init(path: "a", data: Data([2]))]),
        ("only in case", [.init(path: "Case"), .init(path: "case")]),
        ("twice", [.init(path: "é"), .init(path: "e\u{301}")]),
        ("only in case", [.init(path: "Straße/a"), .init(path: "STRASSE/b")]),
        ("is below the file", [.init(path: "a"), .init(path: "a/b")]),
        ("control character", [.init(path: "a\u{1}b")]),
        ("which cannot be used", [.init(path: "..\\evil")]),
        ("empty component", [.init(path: "a//b")]),
        ("folders deep", [.init(path: Array(repeating: "d", count: 40).joined(separator: "/"))]),
    ]

    @Test(arguments: hostile.indices)
    func hostileTarIsRefused(index: Int) throws {
        let (reason, entries) = Self.hostile[index]
        try expectRefusal(HandmadeArchive(entries).withManifest().tar, "a.tar", because: reason)
    }

    @Test(arguments: hostile.indices)
    func hostileZipIsRefused(index: Int) throws {
        let (reason, entries) = Self.hostile[index]
        try expectRefusal(HandmadeArchive(entries).withManifest().zip(), "a.zip", because: reason)
    }

    @Test(arguments: [HandmadeArchive.Kind.hardLink, .device, .pipe])
    func onlyFilesAndFoldersAreExtracted(kind: HandmadeArchive.Kind) throws {
        let archive = try HandmadeArchive([
            .init(path: "a", data: Data([1])), .init(path: "b", kind: kind, target: "a"),
        ]).withManifest()
        try expectRefusal(archive.tar, "a.tar", because: "which is a")
    }

    @Test func handmadeArchivesAreAcceptedWhenHonest() throws {
        let honest = try HandmadeArchive([
            .init(path: "folder", kind: .folder), .init(path: "folder/a", data: Data([1])),
        ]).withManifest()
        for (name, data) in [("a.tar", honest.tar), ("a.zip", honest.zip())] {
            try data.write(to: URL(fileURLWithPath: folder.path(name)))
            let copy = folder.path("copy of " + name)
            try ArchiveExtraction(archive: folder.path(name), destination: copy).run()
            #expect(try FileSystem.contents(of: copy + "/folder/a") == Data([1]))
        }
    }

    @Test func contentMustMatchTheManifest() throws {
        let honest = try HandmadeArchive([
            .init(path: "a", data: Data([1])), .init(path: "b", data: Data([2])),
        ]).withManifest()
        var changed = honest
        changed.entries[0].data = Data([9])
        try expectRefusal(changed.tar, "1.tar", because: "“a” does not match the manifest")
        var missing = honest
        missing.entries.remove(at: 1)
        try expectRefusal(missing.zip(), "2.zip", because: "“b” is missing")
        var extra = honest
        extra.entries.insert(.init(path: "c"), at: 0)
        try expectRefusal(extra.zip(), "3.zip", because: "does not list “c”")
        var late = honest
        late.entries.append(.init(path: "late"))
        try expectRefusal(late.tar, "4.tar", because: "does not list “late”")
        var without = honest
        without.entries.removeLast()
        try expectRefusal(without.tar, "5.tar", because: "contains neither")
        try expectRefusal(
            honest.zip(breakingChecksum: true), "6.zip", because: "CRC")
        try expectRefusal(
            Data("Not an archive at all.".utf8), "7.zip", because: "is not an archive")
        try expectRefusal(Data(), "8.tar.zst", because: "")
    }

    @Test func limitsStopBombs() throws {
        let path = folder.path("tree")
        try FileSystem.makeFolder(path)
        try FileSystem.writeNewFile(Data(count: 4 << 20), at: path + "/zeros")
        try FileSystem.writeNewFile(Data(), at: path + "/b")
        let archive = folder.path("a.tar.zst")
        try ArchiveExport(folder: path, destination: archive).run()
        func expect(_ reason: String, _ change: (inout ArchiveLimits) -> Void) throws {
            var limits = ArchiveLimits()
            change(&limits)
            let error = try #require(
                failure {
                    try ArchiveExtraction(
                        archive: archive, destination: folder.path("copy"), limits: limits
                    ).run()
                })
            #expect(error.code == .invalidFormat)
            #expect(error.message.contains(reason))
            #expect(try FileSystem.names(in: folder.path).sorted() == ["a.tar.zst", "tree"])
        }
        try expect("limit of 1 entries") { $0.entries = 1 }
        try expect("bytes of content") { $0.bytes = 1 << 20 }
        try expect("“zeros”, which exceeds the limit of") { $0.bytesPerEntry = 1 << 20 }
        try ArchiveExtraction(archive: archive, destination: folder.path("copy")).run()
    }

    /// A file without which an archive without a manifest has no document.
    private static let zeros = DocumentPackageLayout.storePath

    /// Writes an archive of a file of zeros.
    ///
    /// - Parameter listed: The size that its manifest lists; `nil` for an archive without a manifest.
    private func writeZeros(to path: String, listed: Int64?) throws {
        let zeros = Data(count: 4 << 20)
        let file = try OpenFile.open(path, for: .creating)
        defer { file.close() }
        try withUTF8Locale {
            let archive = try ArchiveOptions().writer(of: file, at: path)
            func add(_ name: String, _ data: Data) throws {
                try archive.addFile(name, size: Int64(data.count)) { write in
                    try data.withUnsafeBytes { try write($0) }
                }
            }
            try add(Self.zeros, zeros)
            if let listed {
                let entry = ArchiveManifest.Entry(
                    path: Self.zeros, size: listed, sha256: SHA256.hash(data: zeros).hexadecimal)
                try add(ArchiveManifest.path, ArchiveManifest(entries: [entry]).encoded())
            }
            try archive.finish()
        }
    }

    @Test(arguments: ["a.zip", "a.tar.zst"])
    func ratioLimitsWhatTheManifestDoesNotList(name: String) throws {
        var limits = ArchiveLimits()
        limits.bytesBeforeRatio = 1 << 20
        limits.ratio = 100
        for listed in [nil, 0, 2 << 20] as [Int64?] {
            try writeZeros(to: folder.path(name), listed: listed)
            let error = failure {
                try ArchiveExtraction(
                    archive: folder.path(name), destination: folder.path("copy"), limits: limits
                ).run()
            }
            #expect(error?.code == .invalidFormat)
            #expect(error?.message.contains("100 times its size") == true)
            #expect(try FileSystem.names(in: folder.path) == [name])
            try FileSystem.removeFile(folder.path(name))
        }
        try writeZeros(to: folder.path(name), listed: 4 << 20)
        try ArchiveExtraction(
            archive: folder.path(name), destination: folder.path("copy"), limits: limits
        ).run()
        #expect(
            try FileSystem.contents(of: folder.path("copy/\(Self.zeros)")) == Data(count: 4 << 20))
    }

    @Test(arguments: ["a.zip", "a.tar.zst"])
    func exportOfWhatCompressesAThousandfoldIsExtracted(name: String) throws {
        let path = folder.path("tree")
        try FileSystem.makeFolder(path)
        let file = try OpenFile.open(path + "/silence", for: .creating)
        try file.setSize(300 << 20)
        file.close()
        try ArchiveExport(folder: path, destination: folder.path(name)).run()
        try ArchiveExtraction(archive: folder.path(name), destination: folder.path("copy")).run()
        #expect(try FileSystem.information(at: folder.path("copy/silence"))?.size == 300 << 20)
    }

    @Test func exportIsRefusedThatCouldNotBeExtracted() throws {
        let path = folder.path("tree")
        try FileSystem.makeFolder(path)
        try FileSystem.writeNewFile(Data("a".utf8), at: path + "/a")
        let error = failure {
            try ArchiveExport(
                folder: path, destination: folder.path("a.zip"),
                objection: { path, _ in path == "a" ? "is refused" : nil }
            ).run()
        }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("“a”, which cannot be used: it is refused") == true)
        #expect(try FileSystem.names(in: folder.path) == ["tree"])
    }

    private func expectRefusal(_ data: Data, _ name: String, because reason: String) throws {
        try data.write(to: URL(fileURLWithPath: folder.path(name)))
        let before = try FileSystem.names(in: folder.path)
        let error = try #require(
            failure {
                try ArchiveExtraction(
                    archive: folder.path(name), destination: folder.path("inner")
                ).run()
            })
        #expect(error.code == .invalidFormat)
        #expect(reason.isEmpty || error.message.contains(reason), "\(error.message)")
        #expect(try FileSystem.names(in: folder.path) == before)
        #expect(!FileSystem.exists(FileSystem.folder(of: folder.path) + "/evil"))
    }
}
