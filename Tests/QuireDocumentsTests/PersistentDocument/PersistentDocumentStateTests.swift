import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// The state of documents of one file, background contexts, and archives.
@Suite @MainActor struct PersistentDocumentStateTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func url(_ name: String) -> URL { folder.url.appendingPathComponent(name) }

    private func make(_ format: PeopleFormat) async throws -> PeopleDocument {
        let document = PeopleDocument(fileURL: url("People.\(format.rawValue)"))
        document.autosavePolicy = .never
        try await document.create()
        return document
    }

    // MARK: State

    @Test(arguments: PeopleFormat.allCases)
    func everyChangeOfTheStateIsReported(_ format: PeopleFormat) async throws {
        let document = PeopleDocument(fileURL: url("People.\(format.rawValue)"))
        document.autosavePolicy = .never
        #expect(document.documentState == .closed)
        var states: [DocumentState] = []
        document.stateChangeHandler = { change in
            #expect(change.previous == states.last ?? .closed)
            states.append(change.current)
        }
        var posted: [DocumentState] = []
        let observer = NotificationCenter.default.addObserver(
            forName: PersistentDocument.stateChangedNotification, object: document, queue: nil
        ) { notification in
            let change = DocumentStateChange(notification)
            MainActor.assumeIsolated { if let change { posted.append(change.current) } }
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        try await document.create()
        try document.add("Ada")
        try await document.save()
        try document.add("Bob")
        try await document.revert()
        try document.add("Cleo")
        try await document.close()
        let closing: DocumentState = .editingDisabled
        #expect(
            states == [
                [.closed, .progressAvailable], .normal, .progressAvailable, .normal,
                .editingDisabled, .normal, closing, [closing, .progressAvailable], closing, .closed,
            ])
        #expect(posted == states)
    }

    @Test(arguments: [PeopleFormat.xml, .binary, .people])
    func aFileOthersHaveChangedPutsItInConflict(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        var changes = document.stateChanges.makeAsyncIterator()
        try Data("other".utf8).write(to: #require(document.fileURL))
        try document.add("Ada")
        #expect(await failure { try await document.save() }?.code == .storeReplaced)
        #expect(document.documentState == [.savingError, .inConflict])
        #expect(await changes.next()?.current == .progressAvailable)
        let change = await changes.next()
        #expect(change?.current == [.savingError, .inConflict])
        #expect(change?.error?.code == .storeReplaced)
        // Saved elsewhere it is in conflict no more.
        try await document.save(as: url("Mine.\(format.rawValue)"))
        #expect(document.documentState == .normal)
        try await document.close()
        #expect(document.documentState == .closed)
    }

    @Test func anUntitledDocumentIsOpen() throws {
        let document = try PeopleDocument()
        #expect(document.documentState == .normal)
    }

    // MARK: Background contexts

    @Test(arguments: PeopleFormat.allCases)
    func whatABackgroundContextSavesIsSavedWithTheDocument(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        try await document.performBackgroundTask { context in
            try context.insertObject(entityName: "Person")["name"] = "Ada"
            try context.save()
            // Not saved, and dropped.
            try context.insertObject(entityName: "Person")["name"] = "Nobody"
        }
        #expect(document.hasUnsavedChanges)
        #expect(try document.people() == ["Ada"])
        let background = try document.newBackgroundContext()
        try await background.perform { context in
            try context.insertObject(entityName: "Person")["name"] = "Bob"
            try context.save()
        }
        try await document.close()
        let error = await failure {
            try await background.perform { context in
                try context.insertObject(entityName: "Person")["name"] = "Late"
                try context.save()
            }
        }
        // Its new object needs an identifier of the store, which is closed.
        #expect(error?.code == .storeUnavailable)
        #expect(failure { _ = try document.newBackgroundContext() }?.code == .invalidState)
        let path = try #require(document.fileURL).path
        #expect(try await PeopleDocument.people(at: path) == ["Ada", "Bob"])
    }

    /// Saves that come at any moment of a closing are in the file, or have failed.
    @Test(arguments: PeopleFormat.allCases)
    func savesDuringAClosingAreNotLost(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        let background = try document.newBackgroundContext()
        let saved = LockedArray<String>()
        let saving = Task.detached {
            for number in 0..<200 {
                do {
                    try await background.perform { context in
                        try context.insertObject(entityName: "Person")["name"] = "P\(number)"
                        try context.save()
                    }
                } catch { return }
                saved.append("P\(number)")
            }
        }
        while saved.values.count < 3 { await Task.yield() }
        try await document.close()
        await saving.value
        let path = try #require(document.fileURL).path
        #expect(try await PeopleDocument.people(at: path) == saved.values.sorted())
    }

    // MARK: Archives

    @Test(arguments: PeopleFormat.allCases, ["zip", "tar.zst"])
    func anArchiveHoldsTheFileWithItsExternalData(
        _ format: PeopleFormat, _ ending: String
    ) async throws {
        let document = try await make(format)
        try document.add("Ada", photo: Data(repeating: 7, count: 300_000))
        try await document.save()
        try document.add("Bob")
        let archive = url("People.\(ending)")
        try await document.export(to: archive)
        #expect(document.hasUnsavedChanges)
        #expect(await failure { try await document.export(to: archive) }?.code == .alreadyExists)
        try document.add("Cleo")
        try await document.export(to: archive, replacing: true)
        try await document.close(discardingChanges: true)
        let extracted = url("extracted")
        try FileManager.default.createDirectory(at: extracted, withIntermediateDirectories: true)
        let program = ending == "zip" ? "unzip" : "tar"
        let arguments =
            ending == "zip"
            ? ["-q", archive.path, "-d", extracted.path]
            : ["-xf", archive.path, "-C", extracted.path]
        try run(program, arguments)
        let file = extracted.appendingPathComponent("People.\(format.rawValue)")
        #expect(
            try await PeopleDocument.people(at: file.path) == [
                "Ada, 300000 bytes of 7", "Bob", "Cleo",
            ])
    }

    @Test func anArchiveOfAProtectedDocumentIsSealed() async throws {
        try Data(repeating: 7, count: 32).write(to: url("key"))
        chmod(url("key").path, 0o600)
        let domain = try ProtectionDomain.setUp(
            at: url("me.keybag").path, keyFile: url("key").path)
        let document = PeopleDocument(fileURL: url("People.sqlite"))
        (document.fileProtection, document.protectionDomain) = (.complete, domain)
        try await document.create()
        try document.add("Canary in the mine")
        try await document.export(to: url("People.zip"))
        try await document.close()
        try run("unzip", ["-q", url("People.zip").path, "-d", url("extracted").path])
        for (name, information) in try FileSystem.contentsOfTree(url("extracted").path)
        where information.kind == .regular {
            let file = url("extracted").appendingPathComponent(name)
            #expect(try Data(contentsOf: file).range(of: Data("Canary".utf8)) == nil)
        }
        #expect(
            try await PeopleDocument.people(at: url("extracted/People.sqlite").path)
                == ["Canary in the mine"])
    }

    @Test func archivesThatCannotBeMadeLeaveNothing() async throws {
        let document = try await make(.sqlite)
        try document.add("Ada")
        try await document.save()
        let names = try FileSystem.names(in: folder.url.path)
        #expect(
            await failure { try await document.export(to: url("People.rar")) }?.code
                == .unsupported)
        try document.add(String(repeating: "x", count: 50))
        #expect(
            await failure { try await document.export(to: url("People.zip")) }?.code == .validation)
        #expect(try FileSystem.names(in: folder.url.path) == names)
        try await document.close(discardingChanges: true)
        let untitled = try PeopleDocument()
        #expect(
            await failure { try await untitled.export(to: url("People.zip")) }?.code
                == .invalidState)
    }

    private func run(_ program: String, _ arguments: [String]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [program] + arguments
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
    }
}
