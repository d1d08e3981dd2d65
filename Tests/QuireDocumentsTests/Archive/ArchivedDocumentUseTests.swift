import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// What programs do with a document that is open in an archive: read it on many threads, copy it, and try to change it.
@Suite(.inClear) @MainActor struct ArchivedDocumentUseTests {
    private let folder: TemporaryFolder
    private let document: String
    private let archive: String

    /// Several MiB, which become shorter by compression.
    private nonisolated static let text = Data((0..<500_000).map { "\($0 &* 7919) " }.joined().utf8)

    init() async throws {
        folder = try TemporaryFolder()
        self.document = folder.path("Notes.quire")
        archive = folder.path("a.zip")
        let document = ManagedDocument(path: self.document)
        try await document.create(model: notesModel)
        for number in 0..<2000 { try document.addNote("note \(number)") }
        try document.addNote("text", picture: Self.text)
        try document.additionalContent.write(Self.text, at: "é/text")
        try await document.save()
        _ = try await document.keepVersion(named: "first")
        try document.addNote("second")
        try await document.close()
        let package = try DocumentPackage.open(at: self.document, readOnly: true)
        defer { try? package.close() }
        try package.export(to: archive, options: ArchiveOptions(includesVersions: true))
    }

    /// Opens the archive, and requires at the end that it has not changed and that nothing was left beside it.
    private func reading(
        _ name: String = "a.zip", _ body: (ManagedDocument) async throws -> Void
    ) async throws {
        let archive = folder.path(name)
        let before = try FileSystem.contents(of: archive)
        let document = ManagedDocument(path: archive)
        try await document.open(readOnly: true)
        do { try await body(document) } catch {
            try? await document.close(discardingChanges: true)
            throw error
        }
        if document.isOpen { try await document.close(discardingChanges: true) }
        #expect(try FileSystem.contents(of: archive) == before)
        #expect(ArchiveMount.mount(containing: archive) == nil)
        #expect(
            try FileSystem.names(in: folder.path).filter(FileSystem.isTemporaryName).isEmpty)
    }

    private func note(_ title: String, in context: ManagedObjectContext) throws -> ManagedObject {
        try #require(
            try context.fetch(FetchRequest("Note")).first { $0["title", as: String.self] == title })
    }

    // MARK: Concurrency

    @Test func threadsReadConcurrently() throws {
        let failures = LockedArray<String>()
        DispatchQueue.concurrentPerform(iterations: 12) { number in
            do {
                // Each opens the archive, which others close meanwhile.
                let package = try DocumentPackage.open(at: archive, readOnly: true)
                let coordinator = PersistentStoreCoordinator(store: package.store)
                let context = QueueConfinedContext(coordinator: coordinator)
                try context.performAndWait { context in
                    let notes = try context.fetch(FetchRequest("Note"))
                    if notes.count != 2002 { failures.append("\(notes.count) notes") }
                    for note in notes.reversed() where note["title", as: String.self] == nil {
                        failures.append("no title")
                    }
                    let note = notes.first { $0["title", as: String.self] == "text" }
                    let value = try note?.externalData(forKey: "picture")
                    var rest = Self.text[...]
                    while !rest.isEmpty {
                        let count = min(300_000 + number * 1000, rest.count)
                        let part = try value?.read(count, at: rest.startIndex)
                        if part != rest.prefix(count) { failures.append("other bytes") }
                        rest = rest.dropFirst(count)
                    }
                }
                if try package.additionalContent(at: "é/text") != Self.text {
                    failures.append("other content")
                }
                if number % 3 == 0, try package.versions().count != 1 {
                    failures.append("no version")
                }
                try package.close()
            } catch {
                failures.append("\(error)")
            }
        }
        #expect(failures.values == [])
        #expect(ArchiveMount.mount(containing: archive) == nil)
    }

    @Test func closingEndsOtherReadersWithErrors() throws {
        for _ in 0..<4 {
            let package = try DocumentPackage.open(at: archive, readOnly: true)
            let coordinator = PersistentStoreCoordinator(store: package.store)
            let (counts, codes) = (LockedArray<Int>(), LockedArray<QuireError.Code>())
            let (readers, hasRead) = (DispatchGroup(), DispatchSemaphore(value: 0))
            for _ in 0..<3 {
                // Threads of their own: tasks that never suspend would keep the others from running.
                DispatchQueue.global().async(group: readers) {
                    let context = QueueConfinedContext(coordinator: coordinator)
                    do {
                        while true {
                            try context.performAndWait { context in
                                context.reset()
                                counts.append(try context.fetch(FetchRequest("Note")).count)
                            }
                            hasRead.signal()
                        }
                    } catch {
                        codes.append((error as? QuireError)?.code ?? .inputOutput)
                    }
                }
            }
            hasRead.wait()
            try package.close()
            readers.wait()
            #expect(codes.values == [.storeUnavailable, .storeUnavailable, .storeUnavailable])
            #expect(counts.values.allSatisfy { $0 == 2002 })
        }
    }

    @Test func valuesStayReadableAfterClosing() async throws {
        var value: ExternalData?
        try await reading { document in
            value = try note("text", in: document.managedObjectContext)
                .externalData(forKey: "picture")
        }
        let kept = try #require(value)
        #expect(kept.url == nil || !FileSystem.exists(kept.url?.path ?? ""))
        #expect(try kept.data() == Self.text)
        // Also when the archive is gone.
        try FileSystem.removeFile(archive)
        var chunks = Data()
        for try await chunk in kept.chunks(ofSize: 1_000_000) { chunks += chunk }
        #expect(chunks == Self.text)
        try kept.copy(to: folder.path("copy"))
        #expect(try FileSystem.contents(of: folder.path("copy")) == Self.text)
        // And where another document gets it.
        let other = ManagedDocument(path: folder.path("Other.quire"))
        try await other.create(model: notesModel)
        let taken = try other.addNote("taken")
        try taken.setExternalData(kept, forKey: "picture")
        try await other.close()
        try await other.open(readOnly: true)
        #expect(
            try self.note("taken", in: other.managedObjectContext)
                .externalData(forKey: "picture")?.data() == Self.text)
        try await other.close()
    }

    // MARK: Copying

    @Test(arguments: ["a.zip", "a.tar"])
    func copiesOfAnArchivedDocumentAreWholeDocuments(name: String) async throws {
        if name != "a.zip" {
            let package = try DocumentPackage.open(at: archive, readOnly: true)
            try package.export(
                to: folder.path(name), options: ArchiveOptions(includesVersions: true))
            try package.close()
        }
        var copies: [String] = []
        try await reading(name) { document in
            try await document.writeCopy(to: URL(fileURLWithPath: folder.path("Copy.quire")))
            let duplicate = try await document.duplicate()
            let package = document.package
            try package.writeCopy(to: folder.path("Third.quire"))
            let fourth = try package.duplicate()
            try await document.export(to: URL(fileURLWithPath: folder.path("b.zip")))
            copies = [
                folder.path("Copy.quire"), duplicate.path, folder.path("Third.quire"), fourth,
                folder.path("b.zip"),
            ]
        }
        for path in copies {
            let isArchive = path.hasSuffix("b.zip")
            #expect(FileSystem.folder(of: path) == folder.path, "\(path)")
            #expect(isArchive || path.hasSuffix(".quire"), "\(path)")
            let copy = try DocumentPackage.open(at: path, readOnly: isArchive)
            #expect(try copy.check().map(\.message) == [], "\(path)")
            #expect(try copy.additionalContent(at: "é/text") == Self.text, "\(path)")
            // As of any other document.
            #expect(try copy.versions().isEmpty, "\(path)")
            let context = ManagedObjectContext.mainQueue(
                coordinator: PersistentStoreCoordinator(store: copy.store))
            let value = try note("text", in: context).externalData(forKey: "picture")
            #expect(try value?.data() == Self.text, "\(path)")
            try copy.close()
        }
    }

    @Test func aCopyHasUnsavedChanges() async throws {
        try await reading { document in
            try document.addNote("new")
            let path = folder.path("Copy.quire")
            try await document.writeCopy(to: URL(fileURLWithPath: path))
            #expect(try await ManagedDocument.titles(at: path).contains("new"))
        }
    }

    @Test func savingElsewhereContinuesThere() async throws {
        try await reading { document in
            try document.addNote("new")
            let path = folder.path("Saved.quire")
            try await document.save(as: URL(fileURLWithPath: path))
            #expect(document.path == path)
            try document.addNote("newer")
            try await document.save()
            try await document.close()
            let titles = try await ManagedDocument.titles(at: path)
            #expect(titles.contains("new") && titles.contains("newer"))
            #expect(ArchiveMount.mount(containing: archive) == nil)
        }
    }

    @Test func versionsAreCheckedOut() async throws {
        try await reading { document in
            let version = try #require(try await document.versions().first)
            #expect(version.name == "first" && version.problem == nil)
            let checkout = try await document.checkOut(version.id)
            #expect(try await ManagedDocument.titles(at: checkout.path).count == 2001)
            checkout.close()
            #expect(
                await failure { try await document.restore(version.id) }?.code == .readOnly)
            #expect(
                await failure { try await document.deleteVersion(version.id) }?.code == .readOnly)
            #expect(await failure { _ = try await document.keepVersion() }?.code == .readOnly)
        }
    }

    // MARK: Changes

    @Test func changesAreUndoneAndReverted() async throws {
        try await reading { document in
            let context = document.managedObjectContext
            context.undoManager = context.undoManager ?? UndoManager()
            let second = try note("second", in: context)
            second["title"] = "changed"
            context.processPendingChanges()
            context.undo()
            #expect(second["title", as: String.self] == "second")
            second["title"] = "changed"
            #expect(await failure { try await document.save() }?.code == .readOnly)
            #expect(await failure { try await document.autosave() }?.code == .readOnly)
            try await document.revert()
            #expect(!document.hasUnsavedChanges)
            #expect(try document.titles().contains("second"))
            #expect(try document.additionalContent.data(at: "new") == nil)
            #expect(try document.additionalContent.data(at: "é/text") == Self.text)
            #expect(
                await failure {
                    try await document.move(to: URL(fileURLWithPath: folder.path("c.zip")))
                }?.code == .readOnly)
            #expect(try await document.check() == [])
        }
    }

    @Test func operationsThatWriteRefuseArchives() async throws {
        let before = try FileSystem.contents(of: archive)
        let package = try DocumentPackage.open(at: archive, readOnly: true)
        defer { try? package.close() }
        for (name, operation) in [
            ("content", { try package.changeAdditionalContent(adding: [:], removing: ["é/text"]) }),
            ("version", { _ = try package.keepVersion() }),
            ("replace", { _ = try package.replaceContent(with: package) }),
            (
                "protect",
                { try DocumentPackage.setFileProtection(.complete, ofDocumentAt: archive) }
            ),
            ("keys", { try DocumentPackage.rotateKeys(ofDocumentAt: archive) }),
            ("erase", { try DocumentPackage.erase(documentAt: archive) }),
            ("repair", { _ = try DocumentPackage.repair(at: archive) }),
        ] as [(String, () throws -> Void)] {
            let error = failure { try operation() }
            #expect(error != nil, "\(name)")
            #expect(
                error?.message.contains("Bad file descriptor") == false,
                "\(name): \(error?.message ?? "")")
        }
        #expect(try FileSystem.contents(of: archive) == before)
    }

    /// In a list of a folder an open archive is the file that it is.
    @Test func librariesDoNotListOpenArchives() async throws {
        try await reading { _ in
            let names = try FileSystem.names(in: folder.path)
            #expect(names == ["Notes.quire", "a.zip"])
            let kinds = try FileSystem.contentsOfTree(folder.path).filter { $0.0 == "a.zip" }
            #expect(kinds.map(\.1.kind) == [.regular])
        }
    }

    // MARK: Archives that change

    @Test func overwrittenArchivesAreNotMixed() async throws {
        let package = try DocumentPackage.open(at: archive, readOnly: true)
        let other = folder.path("other.zip")
        try await ManagedDocument.make(at: folder.path("Other.quire"))
        let source = try DocumentPackage.open(at: folder.path("Other.quire"), readOnly: true)
        try source.export(to: other)
        try source.close()
        // The same file, with other bytes.
        let file = try #require(FileHandle(forWritingAtPath: archive))
        try file.truncate(atOffset: 0)
        try file.write(contentsOf: FileSystem.contents(of: other))
        try file.close()
        let error = failure { _ = try DocumentPackage.open(at: archive, readOnly: true) }
        #expect(error?.code == .locked, "\(error?.message ?? "")")
        try package.close()
        let reopened = try DocumentPackage.open(at: archive, readOnly: true)
        try reopened.close()
    }

    @Test(arguments: [FileProtection.none, .complete])
    func archivesReplacedWhileOpeningOpenCompletely(_ protection: FileProtection) async throws {
        let fixture = try await ProtectedDocumentFixture(protection)
        let (archive, new) = (fixture.folder.path("a.zip"), fixture.folder.path("new.zip"))
        let source = try DocumentPackage.open(at: fixture.path, readOnly: true)
        try source.export(to: new, protection: .keep)
        try source.close()
        try FileManager.default.copyItem(atPath: new, toPath: archive)
        let failures = LockedArray<String>()
        replacing(archive, by: new, failures) {
            for _ in 0..<100 {
                do {
                    let package = try DocumentPackage.open(at: archive, readOnly: true)
                    if try package.additionalContent(at: "folder/attachment") == nil {
                        failures.append("no content")
                    }
                    try package.close()
                } catch { failures.append("\(error)") }
            }
        }
        #expect(failures.values == [])
    }

    /// Runs a body while another thread puts a new copy of a file at a path again and again.
    private nonisolated func replacing(
        _ path: String, by file: String, _ failures: LockedArray<String>, _ body: () -> Void
    ) {
        let (ended, hasReplaced) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let thread = Thread {
            while !Thread.current.isCancelled {
                do {
                    try FileManager.default.copyItem(atPath: file, toPath: "\(path).part")
                    try FileSystem.rename("\(path).part", to: path)
                } catch { failures.append("\(error)") }
                hasReplaced.signal()
            }
            ended.signal()
        }
        thread.start()
        hasReplaced.wait()
        body()
        thread.cancel()
        ended.wait()
    }

    @Test func archivesCutOffWhileOpenAreErrors() throws {
        let package = try DocumentPackage.open(at: archive, readOnly: true)
        defer { try? package.close() }
        let size = try FileSystem.contents(of: archive).count
        #expect(truncate(archive, size / 4) == 0)
        let error = failure { _ = try package.additionalContent(at: "é/text") }
        #expect(error?.code == .invalidFormat, "\(error?.message ?? "")")
    }
}
