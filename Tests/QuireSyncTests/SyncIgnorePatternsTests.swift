import Foundation
import Quire
import QuireDocuments
import QuireSQLite
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

/// The files that must not travel where documents and stores themselves are in a folder that is carried.
@MainActor @Suite struct SyncIgnorePatternsTests {
    private let folder: TemporaryFolder
    private let patterns: SyncIgnorePatterns

    init() throws {
        folder = try TemporaryFolder()
        patterns = try SyncIgnorePatterns()
    }

    /// The first pattern that matches a path, as Syncthing looks for it: the last parts of the path, or of that of a folder above.
    private func match(_ path: String) -> SyncIgnorePatterns.Pattern? {
        let parts = path.split(separator: "/")
        return patterns.patterns.first { pattern in
            parts.indices.contains { first in
                parts[first...].indices.contains { last in
                    let part = parts[first...last].joined(separator: "/")
                    return fnmatch(pattern.glob, part, FNM_PATHNAME) == 0
                }
            }
        }
    }

    private func files() throws -> Set<String> {
        Set(
            try FileSystem.contentsOfTree(folder.path)
                .filter { $0.information.kind != .folder }.map(\.path))
    }

    // MARK: - Documents and stores

    private static let model = ManagedObjectModel {
        Entity("Note") {
            Attribute("title", .string).required()
            Attribute("picture", .binary).externalStorage()
        }
    }

    @Test func whatIsThereOnlyWhileADocumentIsOpenMatchesAndWhatIsSavedDoesNot() async throws {
        var document = ManagedDocument(path: folder.path("Deep/Notes.quire"))
        try FileSystem.makeFolder(folder.path("Deep"))
        document.autosavePolicy = .never
        try await document.create(model: Self.model)
        func addNote(_ title: String?) throws {
            let note = try document.managedObjectContext.insertObject(entityName: "Note")
            note["title"] = title
            note["picture"] = Data(repeating: 3, count: 300_000)
        }
        try addNote("first")
        for name in ["pages/1", ".lock", "persistentStore-wal", "DraftFiles/1"] {
            try document.additionalContent.write(Data([1]), at: name)
        }
        try await document.save()
        try await document.keepVersion(named: "first")
        try await document.close()
        let saved = try files()

        document = ManagedDocument(path: document.path)
        document.autosavePolicy = .never
        try await document.open()
        try addNote("second")
        try await document.save()
        try await document.keepVersion(named: "second")
        // A draft, with a file that is too large to be in the store.
        try addNote(nil)
        let large = try TemporaryFolder()
        try OpenFile.open(large.path("large"), for: .creating).setSize(65 << 20)
        try await document.additionalContent.write(
            contentsOf: large.path("large"), at: "large")
        let error = await #expect(throws: QuireError.self) { try await document.save() }
        #expect(error?.code == .validation)
        let open = try files()
        try await document.close(discardingChanges: true)
        // It has the large file, under a temporary name, until it is gone.
        document = ManagedDocument(path: document.path)
        let closed = try files()

        #expect(saved.union(closed).filter { match($0) != nil } == [])
        let transient = open.subtracting(closed)
        #expect(transient.filter { match($0) == nil } == [])
        let parts = transient.map { $0.replacing("Deep/Notes.quire/", with: "") }
        #expect(
            Set(parts).isSuperset(of: [
                ".lock", "StoreContent/persistentStore-wal", "StoreContent/persistentStore-shm",
            ]))
        #expect(parts.contains { $0.hasPrefix("DraftFiles/") })
        #expect(closed.contains { $0.hasPrefix("Deep/Notes.quire/Versions/Blocks/") })
    }

    @Test func whatLiesBesideAnOpenStoreMatches() throws {
        let names = SyncIgnorePatterns.storeExtensions.map { "Notes." + $0 }
        for name in names {
            let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
            try coordinator.addPersistentStore(
                PersistentStoreDescription(path: folder.path(name)))
            let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            let note = try context.insertObject(entityName: "Note")
            note["title"] = name
            note["picture"] = Data(repeating: 3, count: 300_000)
            try context.save()
            let open = try files()
            try coordinator.close()
            let closed = try files()
            #expect(closed.filter { match($0) != nil } == [])
            #expect(open.subtracting(closed) == [name + "-wal", name + "-shm"])
            #expect(open.subtracting(closed).filter { match($0) == nil } == [])
        }
    }

    @Test func temporaryFilesMatchAndMayBeDeletedWithTheirFolder() throws {
        for purpose in ["new", "building", "removed", "replacement", "restored", "spool"] {
            let path = FileSystem.temporarySibling(of: "a/Notes.quire", for: purpose)
            #expect(match(path + "/b")?.isDeletedWithFolder == true, "\(path)")
        }
        let leftover = "Library/log/.tmp-" + UUID().uuidString.lowercased()
        #expect(match(leftover)?.isDeletedWithFolder == true)
    }

    /// A deletion on another machine must not take with it files that are nowhere else.
    @Test func whatHoldsSavedChangesIsNotDeletedWithItsFolder() throws {
        for path in [
            FileSystem.temporarySibling(of: "Notes.quire", for: "aside"),
            "Notes.quire/StoreContent/persistentStore-wal",
            "Notes.quire/StoreContent/persistentStore-journal",
            "Notes.quire/DraftFiles/" + UUID().uuidString, "a/Notes.sqlite-wal",
            "a/Notes.sqlite-journal",
        ] {
            #expect(match(path)?.isDeletedWithFolder == false, "\(path)")
        }
        for path in ["Notes.quire/.lock", "a/Notes.sqlite-shm"] {
            #expect(match(path)?.isDeletedWithFolder == true, "\(path)")
        }
    }

    @Test func filesOfUsersDoNotMatch() {
        for path in [
            "travel-journal/May.txt", "berlin-wal", ".lock", ".tmp-file", "DraftFiles/letter.txt",
            "Notes.quire-backup/a", "Notes.before-migration-20260102-030405.sqlite",
            "StoreContent/persistentStore", "log/a-0000000001-b.seg", "Notes.quire/Thumbnail.png",
            "Notes.quire/Protection.keybag",
        ] {
            #expect(match(path) == nil, "\(path)")
        }
    }

    @Test func extensionsAreAddedAndAreNoPatterns() throws {
        let other = try SyncIgnorePatterns(
            documentExtensions: ["recipes", "recipes"], storeExtensions: ["storedata"])
        #expect(other.patterns.count { $0.glob == "*.recipes/.lock" } == 1)
        #expect(other.patterns.contains { $0.glob == "*.storedata-wal" })
        for name in ["", ".sqlite", "a/b", "*", "a\nb", "!a", "{a}"] {
            let error = #expect(throws: QuireError.self) {
                try SyncIgnorePatterns(storeExtensions: [name])
            }
            #expect(error?.code == .invalidValue)
        }
    }

    // MARK: - Syncthing's file

    private var file: String { folder.path(SyncIgnorePatterns.syncthingFileName) }
    private var lines: [String] { patterns.patterns.map(\.syncthingLine) }
    private var block: String {
        (["// BEGIN QUIRE: files of open documents and stores"] + lines + ["// END QUIRE"])
            .joined(separator: "\n") + "\n"
    }

    private func text() throws -> String {
        String(decoding: try FileSystem.contents(of: file), as: UTF8.self)
    }

    /// Writes a file, adds the patterns, and reads it again.
    private func added(to text: String) throws -> String {
        try AtomicFileReplace.replace(file, with: Data(text.utf8))
        try patterns.writeSyncthingIgnoreFile(in: folder.path)
        let result = try self.text()
        #expect(try patterns.writeSyncthingIgnoreFile(in: folder.path) == [])
        #expect(try self.text() == result)
        return result
    }

    @Test func theFileIsMadeOnceAndNothingElse() throws {
        #expect(try patterns.writeSyncthingIgnoreFile(in: folder.path + "/") == lines)
        #expect(try text() == block)
        #expect(lines.contains("(?d)*.quire/.lock"))
        #expect(lines.contains("StoreContent/persistentStore-wal"))
        let before = try FileSystem.informationWithoutFollowing(at: file)
        #expect(try patterns.writeSyncthingIgnoreFile(in: folder.path) == [])
        #expect(
            try FileSystem.informationWithoutFollowing(at: file)?.isSameFile(
                as: #require(before)) == true)
        #expect(try FileSystem.names(in: folder.path) == [".stignore"])
    }

    @Test func whatAUserHasStaysBehindThePatterns() throws {
        #expect(try added(to: "!/Notes\n*\n") == block + "!/Notes\n*\n")
        // Without an end of line, and with bytes that are no text.
        try AtomicFileReplace.replace(file, with: Data([0x2A, 0xFF, 0x0A, 0x61]))
        try patterns.writeSyncthingIgnoreFile(in: folder.path)
        #expect(
            try FileSystem.contents(of: file) == Data(block.utf8) + [0x2A, 0xFF, 0x0A, 0x61])
    }

    /// Syncthing reads it only before all patterns.
    @Test func anEscapeCharacterStaysFirst() throws {
        #expect(
            try added(to: "// mine\n\n#escape=|\n*.o\n") == "// mine\n\n#escape=|\n" + block
                + "*.o\n"
        )
    }

    @Test func markedLinesStayWhereTheyAreAndMissingOnesAreAddedInOrder() throws {
        var old = lines
        old.remove(at: 3)
        old.remove(at: 0)
        let marked = ["// BEGIN QUIRE", "// note"] + old + ["*.mine", "// END QUIRE"]
        let text = (["!a"] + marked + ["b"]).joined(separator: "\n")
        try AtomicFileReplace.replace(file, with: Data(text.utf8))
        #expect(try patterns.writeSyncthingIgnoreFile(in: folder.path) == [lines[0], lines[3]])
        let new =
            ["!a", "// BEGIN QUIRE", "// note"] + lines + ["*.mine", "// END QUIRE", "b"]
        #expect(try self.text() == new.joined(separator: "\n"))
    }

    @Test func linesKeepTheirEnds() throws {
        let windows = block.replacing("\n", with: "\r\n")
        #expect(try added(to: "*.o\r\n*.a\r\n") == windows + "*.o\r\n*.a\r\n")
        #expect(try added(to: windows + "*.o\r\n") == windows + "*.o\r\n")
    }

    @Test(arguments: [
        "// BEGIN QUIRE\n*.o\n", "*.o\n// END QUIRE\n", "// END QUIRE\n// BEGIN QUIRE\n",
    ])
    func marksThatAreNoPairAreAnError(_ text: String) throws {
        let error = #expect(throws: QuireError.self) { try added(to: text) }
        #expect(error?.code == .invalidFormat)
        #expect(error?.subject.file == file)
        #expect(try self.text() == text)
    }

    @Test func aLinkIsNotFollowed() throws {
        let other = try TemporaryFolder()
        try FileSystem.writeNewFile(Data("mine".utf8), at: other.path("file"))
        for target in [other.path("file"), other.path("missing"), other.path] {
            try FileSystem.makeSymbolicLink(file, to: target)
            let error = #expect(throws: QuireError.self) {
                try patterns.writeSyncthingIgnoreFile(in: folder.path)
            }
            #expect(error?.code == .invalidFormat)
            try FileSystem.removeFile(file)
        }
        #expect(try FileSystem.names(in: other.path) == ["file"])
        #expect(try FileSystem.contents(of: other.path("file")) == Data("mine".utf8))
    }

    @Test func aFolderThatIsNotTheOneCarriedIsAnError() throws {
        func failure(_ path: String) -> QuireError? {
            #expect(throws: QuireError.self) { try patterns.writeSyncthingIgnoreFile(in: path) }
        }
        #expect(failure(folder.path("missing"))?.code == .notFound)
        try FileSystem.writeNewFile(Data(), at: folder.path("file"))
        #expect(failure(folder.path("file")) != nil)
        try FileSystem.makeFolder(folder.path(".stfolder"))
        try FileSystem.makeFolder(folder.path("a/b"), withIntermediates: true)
        let error = failure(folder.path("a/b"))
        #expect(error?.code == .invalidValue)
        #expect(error?.message.contains(folder.path) == true)
        // One that is carried by itself.
        try FileSystem.makeFolder(folder.path("a/b/.stfolder"))
        #expect(try patterns.writeSyncthingIgnoreFile(in: folder.path("a/b")) == lines)
        #expect(try patterns.writeSyncthingIgnoreFile(in: folder.path) == lines)
    }

    @Test func aFileThatIsTooLargeIsLeftAlone() throws {
        try OpenFile.open(file, for: .creating).setSize(1 << 30)
        let error = #expect(throws: QuireError.self) {
            try patterns.writeSyncthingIgnoreFile(in: folder.path)
        }
        #expect(error?.code == .invalidFormat)
        #expect(try FileSystem.informationWithoutFollowing(at: file)?.size == 1 << 30)
    }

    @Test func theArticleHasAllPatterns() throws {
        let article = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../Sources/QuireSync/QuireSync.docc/Syncthing.md")
        let text = try String(contentsOf: article, encoding: .utf8)
        for pattern in patterns.patterns where !pattern.glob.hasPrefix("*.") {
            #expect(text.contains("`\(pattern.glob)`"), "\(pattern.glob)")
        }
        for glob in ["*.quire/.lock", "*.sqlite-wal", "*.sqlite-journal", "*.sqlite-shm"] {
            #expect(patterns.patterns.contains { $0.glob == glob })
            #expect(text.contains("`\(glob)`"), "\(glob)")
        }
    }
}
