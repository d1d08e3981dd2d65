import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

@Suite @MainActor struct DocumentPackageTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
    }

    /// A closed document with rows, external data and additional content.
    private func makeFull(content: [String: Data] = ["a": Data([1]), "deep/b": Data([2])])
        async throws
    {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        try document.addNote("small", picture: Data([1, 2, 3]))
        try document.addNote("large", picture: Data(repeating: 9, count: 200_000))
        for (name, data) in content { try document.additionalContent.write(data, at: name) }
        try await document.close()
    }

    // MARK: Locking and reading

    @Test func secondWriterIsToldWhoHasTheLock() async throws {
        try await ManagedDocument.make(at: path)
        let first = ManagedDocument(path: path)
        try await first.open()
        let error = await failure { try await ManagedDocument(path: path).open() }
        #expect(error?.code == .locked)
        #expect(error?.message.contains("process \(getpid())") == true)
        #expect(error?.message.contains(ProcessInfo.processInfo.hostName) == true)
        try await first.close()
        let second = ManagedDocument(path: path)
        try await second.open()
        try await second.close()
    }

    @Test func lockFileOfADeadProcessIsNoObstacle() async throws {
        try await ManagedDocument.make(at: path)
        try FileSystem.writeNewFile(
            Data("process 1 (ghost) on nowhere\n".utf8), at: DocumentPackageLayout(path: path).lock)
        let document = ManagedDocument(path: path)
        try await document.open()
        try await document.close()
        #expect(!FileSystem.exists(DocumentPackageLayout(path: path).lock))
    }

    @Test func readingLeavesNoTrace() async throws {
        try await makeFull()
        let before = try contents(ofFolder: folder.path)
        let document = ManagedDocument(path: path)
        try await document.open(readOnly: true)
        #expect(try document.titles() == ["large", "small"])
        #expect(try document.additionalContent.data(at: "deep/b") == Data([2]))
        #expect(document.isReadOnly)
        #expect(try contents(ofFolder: folder.path) == before)
        try await document.close()
        #expect(try contents(ofFolder: folder.path) == before)
    }

    @Test func readerCannotChangeAnything() async throws {
        try await makeFull()
        let before = try contents(ofFolder: folder.path)
        let document = ManagedDocument(path: path)
        try await document.open(readOnly: true)
        #expect(
            failure { try document.additionalContent.write(Data(), at: "x") }?.code == .readOnly)
        #expect(failure { try document.additionalContent.remove(at: "a") }?.code == .readOnly)
        _ = try? document.addNote("refused")
        let saving = await failure { try await document.save() }
        #expect(saving?.code == .readOnly)
        try await document.close(discardingChanges: true)
        #expect(try contents(ofFolder: folder.path) == before)
    }

    @Test func readerWorksBesideAWriter() async throws {
        try await makeFull()
        let writer = ManagedDocument(path: path)
        try await writer.open()
        let reader = ManagedDocument(path: path)
        try await reader.open(readOnly: true)
        try writer.additionalContent.write(Data([8]), at: "a")
        try writer.addNote("new")
        try await writer.save()
        try await reader.revert()
        #expect(try reader.titles() == ["large", "new", "small"])
        #expect(try reader.additionalContent.data(at: "a") == Data([8]))
        try await reader.close()
        try await writer.close()
    }

    // MARK: Additional content

    @Test func unchangedFilesOfAGenerationAreLinks() async throws {
        try await makeFull()
        let document = ManagedDocument(path: path)
        try await document.open()
        let layout = document.package.layout
        let before = try #require(
            try FileSystem.information(at: layout.additionalContent(generation: 1) + "/deep/b"))
        try document.additionalContent.write(Data([7]), at: "a")
        try await document.save()
        #expect(try FileSystem.names(in: layout.additionalContent) == ["2"])
        let after = try #require(
            try FileSystem.information(at: layout.additionalContent(generation: 2) + "/deep/b"))
        #expect(after.isSameFile(as: before))
        try document.addNote("rows only")
        try await document.save()
        #expect(try FileSystem.names(in: layout.additionalContent) == ["2"])
        try document.additionalContent.remove(at: "a")
        try document.additionalContent.remove(at: "deep/b")
        try await document.save()
        #expect(document.additionalContent.paths == [])
        #expect(try FileSystem.names(in: layout.additionalContent) == [])
        try document.additionalContent.write(Data([1]), at: "again")
        try await document.close()
        let package = try DocumentPackage.open(at: path, readOnly: true)
        #expect(try package.additionalContent(at: "again") == Data([1]))
        try package.close()
    }

    @Test(arguments: [
        ("", "empty"), ("/a", "absolute"), ("a/../b", ".."), ("A", "only in case"),
        ("a/x", "below the file"), ("deep", "is already the folder"), ("Deep/c", "only in case"),
        ("a\u{0}b", "control"),
    ])
    func unusablePathsAreRefused(name: String, reason: String) async throws {
        try await makeFull()
        let document = ManagedDocument(path: path)
        try await document.open()
        let error = failure { try document.additionalContent.write(Data(), at: name) }
        #expect(error?.code == .invalidValue)
        #expect(error?.message.contains(reason) == true, "\(error?.message ?? "")")
        #expect(!document.hasUnsavedChanges)
        #expect(failure { try document.additionalContent.remove(at: "missing") }?.code == .notFound)
        try await document.close()
    }

    @Test func replacedAndRemovedNamesMayBeUsedAgain() async throws {
        try await makeFull()
        let document = ManagedDocument(path: path)
        try await document.open()
        try document.additionalContent.remove(at: "deep/b")
        try document.additionalContent.write(Data([5]), at: "deep")
        try document.additionalContent.remove(at: "a")
        try document.additionalContent.write(Data([6]), at: "A")
        try await document.close()
        let package = try DocumentPackage.open(at: path, readOnly: true)
        #expect(try package.additionalContent().map(\.path) == ["A", "deep"])
        try package.close()
    }

    // MARK: Recovery

    @Test func rubbishOfInterruptedSavesGoesWhenOpenedForWriting() async throws {
        try await makeFull()
        let before = try contents(ofFolder: path)
        let layout = DocumentPackageLayout(path: path)
        // Its owner was killed.
        try FileSystem.writeNewFile(Data("Owner".utf8), at: layout.lock)
        try FileSystem.makeFolder(layout.additionalContent(generation: 2))
        try FileSystem.writeNewFile(Data(), at: layout.additionalContent(generation: 2) + "/x")
        try FileSystem.makeFolder(
            FileSystem.temporarySibling(
                of: layout.additionalContent(generation: 3), for: "new"))
        try FileSystem.writeNewFile(
            Data(), at: FileSystem.path(layout.externalData, UUID().uuidString))
        try FileSystem.writeNewFile(
            Data(), at: FileSystem.temporarySibling(of: layout.metadata, for: "new"))
        let reader = try DocumentPackage.open(at: path, readOnly: true)
        #expect(try reader.check() == [])
        #expect(try reader.leftovers().count == 4)
        try reader.close()
        let package = try DocumentPackage.open(at: path)
        #expect(try package.leftovers() == [])
        try package.close()
        #expect(try contents(ofFolder: path) == before)
    }

    /// As a file synchronizer delivers it, or a backup restores it: the files of the newer save, and the store of the older one.
    @Test(arguments: ["content", "external data", "only new external data", "both"])
    func filesOfANewerSaveStayWhileTheStoreIsTheOlderOne(_ what: String) async throws {
        try await makeFull()
        let layout = DocumentPackageLayout(path: path)
        let older = try FileSystem.contents(of: layout.store)
        let document = ManagedDocument(path: path)
        try await document.open()
        if what == "content" || what == "both" {
            try document.additionalContent.write(Data([3]), at: "c")
        }
        if what != "content" {
            let notes = try document.managedObjectContext.fetch(
                FetchRequest<ManagedObject>("Note"))
            for note in notes
            where what != "only new external data"
                && (note["picture"] as? Data)?.count == 200_000
            {
                note["picture"] = Data(repeating: 8, count: 200_000)
            }
            try document.addNote("more", picture: Data(repeating: 7, count: 200_000))
        }
        try await document.save()
        try await document.close()
        let newer = try FileSystem.contents(of: layout.store)
        let files = try contents(ofFolder: path)
        try FileSystem.removeFile(layout.store)
        try FileSystem.writeNewFile(older, at: layout.store)
        let package = try DocumentPackage.open(at: path)
        #expect(try package.leftovers() == [])
        let unknown = try package.check()
        #expect(
            unknown.contains { $0.severity == .error } == (what != "only new external data"))
        try package.close()
        // The newer store comes as well.
        try FileSystem.removeFile(layout.store)
        try FileSystem.writeNewFile(newer, at: layout.store)
        let whole = try DocumentPackage.open(at: path)
        #expect(try whole.check() == [])
        try whole.close()
        #expect(try Set(contents(ofFolder: path).keys) == Set(files.keys))
    }

    /// The document is open here while a file synchronizer delivers the files of a save elsewhere, before their store.
    @Test func filesThatArriveWhileItIsOpenStay() async throws {
        try await makeFull()
        let layout = DocumentPackageLayout(path: path)
        let document = ManagedDocument(path: path)
        try await document.open()
        let arrived = [
            layout.additionalContent(generation: 7),
            FileSystem.path(layout.externalData, UUID().uuidString),
        ]
        try FileSystem.makeFolder(arrived[0])
        try FileSystem.writeNewFile(Data([1]), at: arrived[1])
        try document.additionalContent.write(Data([3]), at: "c")
        try document.addNote("more", picture: Data(repeating: 7, count: 200_000))
        try await document.save()
        let first = try #require(try FileSystem.names(in: layout.additionalContent).max())
        try document.additionalContent.write(Data([4]), at: "c")
        try await document.save()
        try await document.close()
        #expect(arrived.allSatisfy { FileSystem.exists($0) })
        // What the document itself no longer needs is gone.
        let generations = try FileSystem.names(in: layout.additionalContent)
        #expect(generations.count == 2 && !generations.contains(first))
        // Nothing has come for a day: then they are leftovers.
        let package = try DocumentPackage.open(at: path)
        #expect(try package.check() == [] && package.leftovers() == [])
        let tomorrow = Date(timeIntervalSinceNow: 25 * 60 * 60)
        #expect(try Set(package.leftovers(at: tomorrow)) == Set(arrived))
        try package.close()
    }

    @Test func metadataAreMadeAgainAndOthersKeysKept() async throws {
        try await makeFull()
        let layout = DocumentPackageLayout(path: path)
        // Without what the document itself has added for a library.
        try FileSystem.removeFile(layout.metadata)
        try DocumentPackage.open(at: path).close()
        let written = try FileSystem.contents(of: layout.metadata)
        try FileSystem.removeFile(layout.metadata)
        try DocumentPackage.open(at: path).close()
        #expect(try FileSystem.contents(of: layout.metadata) == written)
        try AtomicFileReplace.replace(layout.metadata, with: Data("damaged".utf8))
        let package = try DocumentPackage.open(at: path, readOnly: true)
        #expect(try package.check().map(\.severity) == [.warning])
        try package.close()
        let foreign = try PropertyListSerialization.data(
            fromPropertyList: ["Theirs": 1], format: .binary, options: 0)
        try AtomicFileReplace.replace(layout.metadata, with: foreign)
        try DocumentPackage.open(at: path).close()
        let list = try PropertyListSerialization.propertyList(
            from: FileSystem.contents(of: layout.metadata), format: nil)
        #expect((list as? [String: Any])?["Theirs"] as? Int == 1)
        #expect((list as? [String: Any])?["QuireDocumentFormat"] as? Int == 1)
    }

    @Test func newerFormatIsRefused() async throws {
        try await makeFull()
        let list = try PropertyListSerialization.data(
            fromPropertyList: ["QuireDocumentFormat": 99], format: .xml, options: 0)
        try AtomicFileReplace.replace(DocumentPackageLayout(path: path).metadata, with: list)
        let error = failure { _ = try DocumentPackage.open(at: path) }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("99") == true)
    }

    @Test func interruptedExchangeIsFinished() async throws {
        try await makeFull()
        try FileSystem.rename(path, to: FileSystem.temporarySibling(of: path, for: "aside"))
        #expect(
            failure { _ = try DocumentPackage.open(at: path, readOnly: true) }?.code == .notFound)
        let package = try DocumentPackage.open(at: path)
        #expect(try package.additionalContent().count == 2)
        try package.close()
    }

    // MARK: Check

    @Test func checkNamesWhatIsDamaged() async throws {
        try await makeFull()
        let layout = DocumentPackageLayout(path: path)
        func problems() throws -> [DocumentProblem] {
            let package = try DocumentPackage.open(at: path, readOnly: true)
            defer { try? package.close() }
            return try package.check()
        }
        #expect(try problems() == [])
        let name = try #require(try FileSystem.names(in: layout.externalData).first)
        let external = FileSystem.path(layout.externalData, name)
        let data = try FileSystem.contents(of: external)
        try AtomicFileReplace.replace(external, with: Data(repeating: 8, count: data.count))
        #expect(try problems().map(\.path) == [layout.store])
        #expect(try problems().first?.message.contains(external) == true)
        #expect(try problems().first?.message.contains("was changed after it was saved") == true)
        try FileSystem.removeFile(external)
        #expect(try problems().first?.message.contains("missing") == true)
        try FileSystem.writeNewFile(data, at: external)
        #expect(try problems() == [])
        try FileSystem.writeNewFile(Data(), at: FileSystem.path(path, "stray"))
        #expect(try problems().map(\.severity) == [.warning])
        try FileSystem.removeTree(layout.additionalContent)
        #expect(try problems().first?.severity == .error)
        #expect(try problems().first?.message.contains("additional content") == true)
    }

    @Test(
        .inClear,
        arguments: [
            "UPDATE ZNOTE SET Z_OPT = NULL", "UPDATE Z_PRIMARYKEY SET Z_MAX = 0",
            "UPDATE ZNOTE SET ZTITLE = NULL", "DROP TABLE ZNOTE", "DELETE FROM Z_METADATA",
        ])
    func checkFindsWhatACheckOfTheStoreFinds(damage: String) async throws {
        try await makeFull()
        let connection = try SQLiteConnection(
            path: DocumentPackageLayout(path: path).store, mode: .writing)
        try connection.execute(damage)
        connection.close()
        let package: DocumentPackage
        do {
            package = try DocumentPackage.open(at: path, readOnly: true)
        } catch {
            // Whoever cannot open it knows that something is wrong.
            return
        }
        defer { try? package.close() }
        let report = try StoreCheck.run(package.store)
        #expect(!report.problems.isEmpty || !report.notes.isEmpty)
        let found = try package.check()
        #expect(
            found.filter { $0.severity == .error }.map(\.message)
                == report.problems.map(\.message))
        #expect(
            found.filter { $0.severity == .warning }.map(\.message)
                == report.notes.map(\.message))
    }

    // MARK: Copies and archives

    @Test func copyIsADocumentOfItsOwn() async throws {
        try await makeFull()
        let document = ManagedDocument(path: path)
        try await document.open()
        try document.addNote("unsaved until now")
        let copy = folder.path("Copy.quire")
        try await document.writeCopy(to: URL(fileURLWithPath: copy))
        #expect(try await ManagedDocument.titles(at: copy) == document.titles())
        let again = await failure { try await document.writeCopy(to: URL(fileURLWithPath: copy)) }
        #expect(again?.code == .alreadyExists)
        try document.addNote("more")
        try await document.writeCopy(to: URL(fileURLWithPath: copy), replacing: true)
        #expect(try await ManagedDocument.titles(at: copy).contains("more"))
        try FileSystem.makeFolder(folder.path("precious"))
        let precious = await failure {
            try await document.writeCopy(
                to: URL(fileURLWithPath: folder.path("precious")), replacing: true)
        }
        #expect(precious?.code == .alreadyExists)
        try await document.close()
        try FileSystem.removeTree(path)
        let package = try DocumentPackage.open(at: copy)
        #expect(try package.check() == [])
        #expect(try package.additionalContent(at: "deep/b") == Data([2]))
        try package.close()
        #expect(try FileSystem.names(in: folder.path).sorted() == ["Copy.quire", "precious"])
    }

    @Test(.inClear, arguments: ["a.zip", "a.tar.zst"])
    func exportedDocumentExtractsEqual(name: String) async throws {
        try await makeFull()
        let archive = folder.path(name)
        let document = ManagedDocument(path: path)
        try await document.open()
        let progress = Progress(totalUnitCount: 0)
        try await document.export(to: URL(fileURLWithPath: archive), progress: progress)
        #expect(progress.completedUnitCount == progress.totalUnitCount)
        try await document.export(to: URL(fileURLWithPath: folder.path("again-" + name)))
        #expect(
            try FileSystem.contents(of: archive)
                == FileSystem.contents(of: folder.path("again-" + name)))
        let second = await failure { try await document.export(to: URL(fileURLWithPath: archive)) }
        #expect(second?.code == .alreadyExists)
        try await document.close()

        // The name is part of the archive.
        let copy = folder.path("Extracted/" + FileSystem.name(of: path))
        try FileSystem.makeFolder(FileSystem.folder(of: copy))
        try DocumentPackage.extract(archive, to: copy)
        var (left, right) = (try contents(ofFolder: path), try contents(ofFolder: copy))
        // VACUUM makes another file of equal content.
        left["StoreContent/persistentStore"] = nil
        right["StoreContent/persistentStore"] = nil
        #expect(left == right)
        #expect(try await ManagedDocument.titles(at: copy) == ["large", "small"])
        #expect(
            failure { try DocumentPackage.extract(archive, to: copy) }?.code == .alreadyExists)
        // The copy of the copy is the same archive.
        let package = try DocumentPackage.open(at: copy, readOnly: true)
        try package.export(to: folder.path("copy-" + name))
        try package.close()
        #expect(
            try FileSystem.contents(of: archive)
                == FileSystem.contents(of: folder.path("copy-" + name)))
    }

    @Test func archiveOfSomethingElseIsRefused() async throws {
        let archives: [(String, [HandmadeArchive.Entry])] = [
            ("it has no store", [.init(path: "AdditionalContent", kind: .folder)]),
            ("is not part of a document", [.init(path: "evil.sh")]),
            (
                "is not part of a document's store",
                [
                    .init(path: "StoreContent/persistentStore"),
                    .init(path: "StoreContent/persistentStore-wal"),
                ]
            ),
            (
                "cannot be used",
                [.init(path: "StoreContent/persistentStore", data: Data("x".utf8))]
            ),
            ("is not a generation", [.init(path: "AdditionalContent/x/file")]),
        ]
        for (index, (reason, entries)) in archives.enumerated() {
            let archive = folder.path("\(index).zip")
            try HandmadeArchive(entries).withManifest().zip()
                .write(to: URL(fileURLWithPath: archive))
            let error = failure { try DocumentPackage.extract(archive, to: path) }
            #expect(error?.code == .invalidFormat)
            #expect(error?.message.contains(reason) == true, "\(error?.message ?? "")")
            #expect(!FileSystem.exists(path))
            #expect(try FileSystem.temporarySiblings(of: path).isEmpty)
        }
        let missing = failure { try DocumentPackage.extract(folder.path("missing.zip"), to: path) }
        #expect(missing?.code == .notFound)
    }

    // MARK: Where it is

    @Test func aPackageThatIsDeletedWhileItIsFollowedIsKnownToBeGone() throws {
        let package = try DocumentPackage.create(at: path, model: notesModel)
        let place = folder.path("Moved.quire")
        try FileSystem.renameWithoutReplacing(path, to: place)
        try FileSystem.removeTree(place)
        let moved = package.succeeding(
            at: DocumentPackageLayout(path: place), by: package.store)
        #expect(moved.location() == .removed)
        try FileSystem.makeFolder(place)
        #expect(moved.location() == .replaced)
        try moved.close()
    }
}
