import Dispatch
import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Saves that fail, files that others change, and files that are no documents.
@Suite @MainActor struct PersistentDocumentFailureTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func url(_ format: PeopleFormat, _ name: String = "People") -> URL {
        folder.url.appendingPathComponent("\(name).\(format.rawValue)")
    }

    /// A document with Ada and Bob, saved.
    private func make(_ url: URL) async throws -> PeopleDocument {
        let document = PeopleDocument(fileURL: url)
        document.autosavePolicy = .never
        try await document.create()
        try document.add("Ada")
        try document.add("Bob")
        try await document.save()
        return document
    }

    private struct Refusal: Error {}

    // MARK: - Writing

    @Test(.smallDisk, arguments: PeopleFormat.allCases)
    func fullDiskFailsTheSaveAndFreeingSpaceSavesIt(_ format: PeopleFormat) async throws {
        let disk = try #require(SmallDisk(megabytes: 8))
        defer { disk.unmount() }
        let path = disk.path("People.\(format.rawValue)")
        let document = try await make(URL(fileURLWithPath: path))
        let filler = disk.path("filler")
        try disk.fill(filler, leaving: 0)
        try document.add("Cleo", photo: Data(repeating: 1, count: 500_000))
        let error = await failure { try await document.save() }
        #expect(error?.code == .outOfSpace)
        #expect(document.lastSaveError?.code == .outOfSpace)
        #expect(document.errors.count == 1)
        #expect(document.hasUnsavedChanges)
        #expect(try document.people() == ["Ada", "Bob", "Cleo, 500000 bytes of 1"])
        #expect(await failure { try await document.close() }?.code == .outOfSpace)
        #expect(document.isOpen)
        try FileSystem.removeFile(filler)
        #expect(try await PeopleDocument.people(at: path) == ["Ada", "Bob"])
        try await document.close()
        #expect(
            try await PeopleDocument.people(at: path)
                == ["Ada", "Bob", "Cleo, 500000 bytes of 1"])
    }

    @Test func aWriterThatFailsLeavesTheFileAndTheChanges() async throws {
        let document = try await make(url(.people))
        let before = try Data(contentsOf: url(.people))
        try document.add("Cleo")
        document.beforeWriting.withLock { closure in
            closure = { _, url in
                try Data("half".utf8).write(to: url)
                throw Refusal()
            }
        }
        let error = await failure { try await document.save() }
        #expect(error?.message.contains(url(.people).path) == true)
        #expect(error?.underlying is Refusal)
        #expect(try Data(contentsOf: url(.people)) == before)
        #expect(document.hasUnsavedChanges)
        #expect(await failure { try await document.save(as: url(.people, "Copy")) } != nil)
        #expect(await failure { try await document.writeCopy(to: url(.people, "Copy")) } != nil)
        #expect(document.fileURL == url(.people))
        document.beforeWriting.withLock { $0 = nil }
        document.forgetsToWrite.withLock { $0 = true }
        #expect(await failure { try await document.save() }?.code == .inputOutput)
        document.forgetsToWrite.withLock { $0 = false }
        #expect(try FileSystem.names(in: folder.path) == ["People.people"])
        document.undoManager?.undo()
        #expect(!document.hasUnsavedChanges)
        document.undoManager?.redo()
        try await document.close()
        #expect(try await PeopleDocument.people(at: url(.people).path) == ["Ada", "Bob", "Cleo"])
    }

    /// Opens a document, and ends the process while it is being written.
    fileprivate static func dieWriting(to path: String) async throws {
        let document = PeopleDocument(fileURL: URL(fileURLWithPath: path))
        try await document.open()
        try document.add("Cleo")
        document.beforeWriting.withLock { closure in
            closure = { _, url in
                try Data("half".utf8).write(to: url)
                kill(getpid(), SIGKILL)
            }
        }
        try await document.save()
    }

    @Test func aProcessKilledWhileItWritesLeavesTheFileAndTheNextSaveTidiesUp() async throws {
        let document = try await make(url(.people))
        try await document.close()
        let path = url(.people).path
        let before = try Data(contentsOf: url(.people))
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
            try await PersistentDocumentFailureTests.dieWriting(to: path)
        }
        #expect(try FileSystem.names(in: folder.path).count == 2)
        #expect(try Data(contentsOf: url(.people)) == before)
        try await document.open()
        try document.add("Dora")
        try await document.close()
        #expect(try FileSystem.names(in: folder.path) == ["People.people"])
        #expect(try await PeopleDocument.people(at: path) == ["Ada", "Bob", "Dora"])
    }

    @Test func creatingWithAWriterThatFailsLeavesNoFile() async throws {
        let document = PeopleDocument(fileURL: url(.people))
        document.beforeWriting.withLock { $0 = { _, _ in throw Refusal() } }
        #expect(await failure { try await document.create() } != nil)
        #expect(!document.isOpen)
        #expect(try FileSystem.names(in: folder.path).isEmpty)
    }

    @Test func theWriterSeesWhatIsSavedWhateverIsChangedMeanwhile() async throws {
        let document = try await make(url(.people))
        try document.add("Cleo")
        let (started, start) = AsyncStream<Void>.makeStream()
        let mayGoOn = DispatchSemaphore(value: 0)
        let refusals = LockedArray<QuireError.Code?>()
        document.beforeWriting.withLock { closure in
            closure = { context, _ in
                start.finish()
                mayGoOn.wait()
                context.insertObject(named: "Team", refusedAs: refusals)
            }
        }
        let save = Task { try await document.save() }
        for await _ in started {}
        try document.person("Ada")?["age"] = 1
        try document.add("Dora")
        document.managedObjectContext.processPendingChanges()
        // The main queue reads meanwhile.
        #expect(try document.people() == ["Ada, 1", "Bob", "Cleo", "Dora"])
        mayGoOn.signal()
        try await save.value
        document.beforeWriting.withLock { $0 = nil }
        #expect(refusals.takeAll() == [.readOnly])
        #expect(document.hasUnsavedChanges)
        #expect(try await PeopleDocument.people(at: url(.people).path) == ["Ada", "Bob", "Cleo"])
        try await document.close()
        #expect(
            try await PeopleDocument.people(at: url(.people).path)
                == ["Ada, 1", "Bob", "Cleo", "Dora"])
    }

    @Test func convertingADocumentThatIsChangedMeanwhileFailsAndKeepsIt() async throws {
        let document = try await make(url(.xml))
        try document.add("Cleo")
        let (started, start) = AsyncStream<Void>.makeStream()
        let mayGoOn = DispatchSemaphore(value: 0)
        document.beforeWriting.withLock { closure in
            closure = { _, _ in
                start.finish()
                mayGoOn.wait()
            }
        }
        let save = Task { try await document.save(as: url(.people)) }
        for await _ in started {}
        try document.add("Dora")
        mayGoOn.signal()
        #expect(await failure { try await save.value }?.code == .invalidState)
        #expect(document.fileURL == url(.xml))
        #expect(try !FileSystem.hasEntry(at: url(.people).path))
        document.beforeWriting.withLock { $0 = nil }
        try await document.save(as: url(.people))
        try await document.close()
        #expect(
            try await PeopleDocument.people(at: url(.people).path)
                == ["Ada", "Bob", "Cleo", "Dora"])
        #expect(try await PeopleDocument.people(at: url(.xml).path) == ["Ada", "Bob"])
    }

    @Test(arguments: PeopleFormat.allCases)
    func invalidObjectsAreNotSaved(_ format: PeopleFormat) async throws {
        let document = try await make(url(format))
        let person = try document.add(String(repeating: "x", count: 41))
        #expect(await failure { try await document.save() }?.code == .validation)
        #expect(await failure { try await document.close() }?.code == .validation)
        #expect(document.hasUnsavedChanges)
        person["name"] = "Cleo"
        try await document.close()
        #expect(try await PeopleDocument.people(at: url(format).path) == ["Ada", "Bob", "Cleo"])
    }

    // MARK: - Others

    enum Replacement: CaseIterable {
        case renameOver, rewrite, remove
    }

    @Test(arguments: PeopleFormat.allCases, Replacement.allCases)
    func aFileThatOthersHaveReplacedIsNotSavedOver(
        _ format: PeopleFormat, _ replacement: Replacement
    ) async throws {
        // SQLite's files are rewritten by no one but SQLite.
        if format == .sqlite && replacement == .rewrite { return }
        let document = try await make(url(format))
        try await document.writeCopy(to: url(format, "Other"))
        let other = PeopleDocument(fileURL: url(format, "Other"))
        try await other.open()
        try other.add("Theirs")
        try await other.close()
        let bytes = try Data(contentsOf: url(format, "Other"))
        switch replacement {
        case .renameOver: try FileSystem.rename(url(format, "Other").path, to: url(format).path)
        case .rewrite: try bytes.write(to: url(format))
        case .remove: try FileSystem.removeFile(url(format).path)
        }
        try document.add("Mine")
        for _ in 0..<2 {
            let error = await failure { try await document.save() }
            #expect(error?.code == .storeReplaced)
            #expect(error?.message.contains(url(format).path) == true)
        }
        #expect(document.hasUnsavedChanges)
        try await document.save(as: url(format, "Rescue"))
        #expect(
            try await PeopleDocument.people(at: url(format, "Rescue").path)
                == ["Ada", "Bob", "Mine"])
        try await document.close()
        if replacement == .remove {
            #expect(try !FileSystem.hasEntry(at: url(format).path))
        } else {
            #expect(try Data(contentsOf: url(format)) == bytes)
            #expect(
                try await PeopleDocument.people(at: url(format).path) == ["Ada", "Bob", "Theirs"])
        }
    }

    @Test(arguments: PeopleFormat.allCases)
    func revertingShowsWhatOthersHaveSaved(_ format: PeopleFormat) async throws {
        let document = try await make(url(format))
        let other = PeopleDocument(fileURL: url(format))
        other.autosavePolicy = .never
        try await other.open()
        try other.add("Theirs")
        try await other.save()
        try document.add("Mine")
        try await document.revert()
        #expect(try document.people() == ["Ada", "Bob", "Theirs"])
        #expect(!document.hasUnsavedChanges)
        try document.add("Mine")
        try await document.save()
        if format.isWhole {
            try other.add("Late")
            #expect(await failure { try await other.save() }?.code == .storeReplaced)
            try await other.close(discardingChanges: true)
        } else {
            try await other.close()
        }
        try await document.close()
        #expect(
            try await PeopleDocument.people(at: url(format).path)
                == ["Ada", "Bob", "Mine", "Theirs"])
    }

    @Test func revertingAFileThatCannotBeReadKeepsTheDocument() async throws {
        let document = try await make(url(.xml))
        try document.add("Mine")
        try Data("garbage".utf8).write(to: url(.xml))
        #expect(await failure { try await document.revert() }?.code == .invalidFormat)
        #expect(document.hasUnsavedChanges)
        #expect(try document.people() == ["Ada", "Bob", "Mine"])
        try await document.save(as: url(.xml, "Rescue"))
        try await document.close()
    }

    @Test func objectsThatOthersHaveChangedInASQLiteFileAreInConflict() async throws {
        let document = try await make(url(.sqlite))
        let other = PeopleDocument(fileURL: url(.sqlite))
        try await other.open()
        try other.person("Ada")?["age"] = 1
        try document.person("Ada")?["age"] = 2
        try document.person("Bob")?["age"] = 2
        try await other.close()
        let error = await failure { try await document.save() }
        #expect(error?.code == .mergeConflict)
        #expect(error?.mergeConflicts.count == 1)
        #expect(document.hasUnsavedChanges)
        document.managedObjectContext.mergePolicy = .mergeByPropertyObjectTrump
        try await document.save()
        try await document.close()
        #expect(try await PeopleDocument.people(at: url(.sqlite).path) == ["Ada, 2", "Bob, 2"])
    }

    // MARK: - No documents

    @Test(arguments: PeopleFormat.allCases)
    func whatIsNoDocumentIsRefusedWithASentence(_ format: PeopleFormat) async throws {
        var seed: UInt64 = 88
        let noise = Data(
            (0..<10_000).map { _ in
                seed = seed &* 6_364_136_223_846_793_005 &+ 1
                return UInt8(seed >> 56)
            })
        let long = String(repeating: "x", count: 41)
        for bytes in [
            noise, Data("garbage".utf8), Data("[{\"name\": \"\(long)\"}]".utf8),
            Data("[{\"name\": 3}]".utf8), Data("<database>".utf8),
            Data("SQLite format 3\0".utf8) + noise, Data("CoreData".utf8) + noise,
        ] {
            try bytes.write(to: url(format))
            let document = PeopleDocument(fileURL: url(format))
            let error = await failure { try await document.open() }
            #expect(error?.code == .invalidFormat, "\(error?.message ?? "opened")")
            #expect(error?.message.contains(url(format).path) == true)
            #expect(!document.isOpen)
            #expect(document.errors.count == 1)
            #expect(try Data(contentsOf: url(format)) == bytes)
        }
    }

    @Test(arguments: PeopleFormat.allCases)
    func aDamagedFileIsRefusedOrOpensAndNeverTraps(_ format: PeopleFormat) async throws {
        let document = try await make(url(format))
        try await document.close()
        let bytes = try Data(contentsOf: url(format))
        for length in stride(from: 0, to: bytes.count, by: max(bytes.count / 16, 1)) {
            let damaged = folder.url.appendingPathComponent("\(length).\(format.rawValue)")
            try bytes.prefix(length).write(to: damaged)
            let document = PeopleDocument(fileURL: damaged)
            let error = await failure {
                try await document.open()
                _ = try document.people()
            }
            #expect(error?.message.contains(damaged.path) != false)
            try await document.close(discardingChanges: true)
        }
    }

    @Test(arguments: PeopleFormat.allCases)
    func aFolderIsNoDocument(_ format: PeopleFormat) async throws {
        try FileSystem.makeFolder(url(format).path)
        let document = PeopleDocument(fileURL: url(format))
        let error = await failure { try await document.open() }
        #expect(error?.message.contains(url(format).path) == true)
        #expect(await failure { try await document.create() }?.code == .alreadyExists)
        #expect(!document.isOpen)
    }
}

extension ManagedObjectContext {
    /// Inserts an object and saves, and keeps the code of the error.
    fileprivate func insertObject(
        named name: String, refusedAs codes: LockedArray<QuireError.Code?>
    ) {
        do {
            try insertObject(entityName: name)["name"] = "x"
            try save()
            codes.append(nil)
        } catch {
            codes.append((error as? QuireError)?.code)
        }
    }
}
