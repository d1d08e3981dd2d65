import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Documents that are one file, in each format.
@Suite @MainActor struct PersistentDocumentTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func url(_ format: PeopleFormat, _ name: String = "People") -> URL {
        folder.url.appendingPathComponent("\(name).\(format.rawValue)")
    }

    private func document(_ format: PeopleFormat) -> PeopleDocument {
        let document = PeopleDocument(fileURL: url(format))
        document.autosavePolicy = .never
        return document
    }

    /// A document with Ada and Bob, who are a team, saved.
    private func make(_ format: PeopleFormat) async throws -> PeopleDocument {
        let document = document(format)
        try await document.create()
        let team = try document.managedObjectContext.insertObject(entityName: "Team")
        team["name"] = "red"
        try document.add("Ada", age: 36, photo: Data(repeating: 7, count: 200_000), team: team)
        try document.add("Bob", team: team)
        try await document.save()
        return document
    }

    private let saved = ["Ada, 36, 200000 bytes of 7, in red", "Bob, in red"]

    /// The names in the folder, except what belongs to stores.
    private func names() throws -> [String] {
        try FileSystem.names(in: folder.path)
            .filter { !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm") && !$0.contains("_SUPPORT") }
            .filter { !$0.hasSuffix("keybag") }
            .sorted()
    }

    // MARK: - Opening and saving

    @Test(arguments: PeopleFormat.allCases)
    func whatWasSavedIsThereWhenTheDocumentIsOpenedAgain(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        #expect(!document.hasUnsavedChanges)
        #expect(document.localizedName == "People")
        #expect(document.fileType == format.rawValue)
        try document.person("Bob")?["age"] = 40
        try document.add("Cleo")
        #expect(document.hasUnsavedChanges)
        try await document.close()
        #expect(!document.isOpen)
        #expect(try names() == ["People.\(format.rawValue)"])

        try await document.open()
        #expect(try document.people() == [saved[0], "Bob, 40, in red", "Cleo"])
        #expect(!document.hasUnsavedChanges)
        let gone = try #require(try document.person("Ada"))
        document.managedObjectContext.delete(gone)
        try await document.save()
        try await document.close()
        #expect(
            try await PeopleDocument.people(at: url(format).path) == ["Bob, 40, in red", "Cleo"])
        #expect(document.errors.isEmpty)
    }

    @Test(arguments: PeopleFormat.allCases)
    func closingWithoutSavingDropsChanges(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        try document.add("Cleo")
        try await document.close(discardingChanges: true)
        #expect(try await PeopleDocument.people(at: url(format).path) == saved)
        #expect(throws: QuireError.self) { try document.add("Dora") }
    }

    @Test(arguments: PeopleFormat.allCases)
    func savingWithoutChangesLeavesTheFileAlone(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        let before = try #require(try FileSystem.information(at: url(format).path))
        try await document.save()
        let after = try #require(try FileSystem.information(at: url(format).path))
        #expect(after.isSameFile(as: before) && after.hasSameContent(as: before))
        try await document.close()
    }

    @Test(arguments: PeopleFormat.allCases)
    func savingKeepsThePermissionsOfTheFile(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        try OpenFile.open(url(format).path, for: .examining).close()
        chmod(url(format).path, 0o640)
        try document.add("Cleo")
        try await document.save()
        try await document.save(as: url(format, "Copy"))
        try await document.close()
        for name in ["People", "Copy"] {
            let file = try #require(try FileSystem.information(at: url(format, name).path))
            #expect(file.permissions == 0o640, "\(name)")
        }
    }

    @Test(arguments: PeopleFormat.allCases)
    func aFileOpenedForReadingOnlyIsSavedElsewhere(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        try await document.close()
        try await document.open(readOnly: true)
        #expect(document.isReadOnly)
        try document.add("Cleo")
        let error = await failure { try await document.save() }
        #expect(error?.code == .readOnly)
        #expect(document.hasUnsavedChanges)
        try await document.save(as: url(format, "Copy"))
        #expect(!document.isReadOnly)
        try document.add("Dora")
        try await document.close()
        #expect(try await PeopleDocument.people(at: url(format).path) == saved)
        #expect(
            try await PeopleDocument.people(at: url(format, "Copy").path)
                == saved + ["Cleo", "Dora"])
    }

    @Test func theDocumentSavesItselfAsItsPolicySays() async throws {
        let document = try await make(.people)
        document.autosavePolicy = AutosavePolicy(delay: .zero)
        try document.add("Cleo")
        let deadline = ContinuousClock.now + .seconds(60)
        while document.hasUnsavedChanges && .now < deadline { await Task.yield() }
        #expect(!document.hasUnsavedChanges)
        #expect(try await PeopleDocument.people(at: url(.people).path) == saved + ["Cleo"])
        try await document.close()
    }

    @Test func requestsOfADocumentThatIsNotOpenThrow() async throws {
        let document = document(.xml)
        #expect(await failure { try await document.save() }?.code == .invalidState)
        #expect(await failure { try await document.revert() }?.code == .invalidState)
        #expect(await failure { try await document.open() }?.code == .notFound)
        try await document.close()
        try await document.create()
        #expect(await failure { try await document.open() }?.code == .invalidState)
        try await document.close()
        #expect(await failure { try await document.create() }?.code == .alreadyExists)
        #expect(document.errors.count == 5)
    }

    @Test(arguments: PeopleFormat.allCases)
    func aDocumentOfAnotherProgramsTypeSaysWhatToOverride(_ format: PeopleFormat) async throws {
        let document = PersistentDocument(fileURL: url(.people, "Other"))
        try Data("[]".utf8).write(to: url(.people, "Other"))
        #expect(await failure { try await document.open() }?.code == .invalidModel)
        let made = try await make(format)
        let error = await failure {
            try await document.open(model: made.managedObjectModel)
        }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("readObjects") == true)
        try await made.close()
        // A store carries its model.
        if format == .people { return }
        let plain = PersistentDocument(fileURL: url(format))
        try await plain.open()
        #expect(try plain.managedObjectContext.count(for: FetchRequest("Person")) == 2)
        try await plain.close()
    }

    @Test(arguments: PeopleFormat.allCases)
    func savingTheContextLeavesTheDocumentUnsaved(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        try document.add("Cleo")
        try document.managedObjectContext.save()
        let background = QueueConfinedContext(parent: document.managedObjectContext)
        try await background.perform { context in
            try context.insertObject(entityName: "Person")["name"] = "Dora"
            try context.save()
        }
        #expect(document.hasUnsavedChanges)
        #expect(try document.people() == saved + ["Cleo", "Dora"])
        try await document.writeCopy(to: url(format, "Copy"))
        #expect(try await PeopleDocument.people(at: url(format).path) == saved)
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        for name in ["People", "Copy"] {
            #expect(
                try await PeopleDocument.people(at: url(format, name).path)
                    == saved + ["Cleo", "Dora"])
        }
        try document.add("Eve")
        try document.managedObjectContext.save()
        try await document.revert()
        #expect(!document.hasUnsavedChanges)
        #expect(try document.people() == saved + ["Cleo", "Dora"])
        try await document.close()
    }

    @Test(arguments: PeopleFormat.allCases)
    func savesThatAreRequestedAtOnceAreDoneInOrder(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        try document.add("Cleo")
        let first = Task { try await document.save() }
        let copy = Task { try await document.writeCopy(to: url(format, "Copy")) }
        let elsewhere = Task { try await document.save(as: url(format, "Elsewhere")) }
        let closed = Task { try await document.close() }
        try await first.value
        try await copy.value
        try await elsewhere.value
        try await closed.value
        #expect(!document.isOpen)
        #expect(
            try names() == ["Copy", "Elsewhere", "People"].map { "\($0).\(format.rawValue)" })
        for name in ["People", "Copy", "Elsewhere"] {
            #expect(
                try await PeopleDocument.people(at: url(format, name).path) == saved + ["Cleo"])
        }
    }

    @Test(arguments: PeopleFormat.allCases)
    func aDocumentOfAnEarlierModelIsMigratedIfItMayBe(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        try await document.close()
        var later = try #require(document.managedObjectModel)
        let person = try #require(later.entities.firstIndex { $0.name == "Person" })
        later.entities[person].properties.append(
            .attribute(AttributeDescription(name: "email", type: .string)))
        if format != .people {
            #expect(
                await failure { try await document.open(model: later) }?.code
                    == .incompatibleModel)
        }
        document.migrationOptions = StoreMigrationOptions()
        try await document.open(model: later)
        try document.person("Ada")?["email"] = "ada@example.org"
        #expect(try document.people() == saved)
        try await document.close()
    }

    // MARK: - Undo and reverting

    @Test(arguments: PeopleFormat.allCases)
    func undoingBackToWhatWasSavedLeavesNothingUnsaved(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        let undo = try #require(document.undoManager)
        try document.add("Cleo")
        document.managedObjectContext.processPendingChanges()
        #expect(document.hasUnsavedChanges)
        undo.undo()
        #expect(!document.hasUnsavedChanges)
        #expect(try document.people() == saved)
        undo.redo()
        try await document.save()
        undo.undo()
        #expect(document.hasUnsavedChanges)
        try await document.close()
        #expect(try await PeopleDocument.people(at: url(format).path) == saved)
    }

    @Test(arguments: PeopleFormat.allCases)
    func revertingShowsWhatWasSaved(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        let context = document.managedObjectContext
        try document.person("Bob")?["age"] = 99
        try document.add("Cleo")
        try await document.revert()
        #expect(document.managedObjectContext === context)
        #expect(!document.hasUnsavedChanges)
        #expect(try document.people() == saved)
        try document.add("Dora")
        try await document.close()
        #expect(try await PeopleDocument.people(at: url(format).path) == saved + ["Dora"])
    }

    // MARK: - Elsewhere

    @Test(arguments: PeopleFormat.allCases, PeopleFormat.allCases)
    func savingAsAnotherFileGoesOnThere(
        _ format: PeopleFormat, _ other: PeopleFormat
    ) async throws {
        let document = try await make(format)
        let context = document.managedObjectContext
        let (undo, policy) = (document.undoManager, MergePolicy.overwrite)
        context.mergePolicy = policy
        let ada = try #require(try document.person("Ada"))
        let id = ada.objectID
        ada["age"] = 37
        try document.add("Cleo", photo: Data(repeating: 1, count: 300_000))
        try await document.save(as: url(other, "Copy"))
        let changed = ["Ada, 37, 200000 bytes of 7, in red", "Bob, in red"]
        let cleo = "Cleo, 300000 bytes of 1"
        #expect(document.fileURL == url(other, "Copy"))
        #expect(!document.hasUnsavedChanges)
        #expect(try document.people() == changed + [cleo])
        if format == other {
            #expect(document.managedObjectContext === context)
            #expect(ada.objectID == id && ada.managedObjectContext === context)
            document.undoManager?.undo()
            #expect(document.hasUnsavedChanges)
            document.undoManager?.redo()
        } else {
            #expect(document.managedObjectContext !== context)
            #expect(throws: QuireError.self) { try context.insertObject(entityName: "Team") }
            #expect(document.undoManager === undo && undo?.canUndo == false)
            #expect(document.managedObjectContext.mergePolicy === policy)
        }
        try document.add("Dora")
        try await document.save()
        try document.person("Bob")?["age"] = 1
        try await document.close()
        #expect(try await PeopleDocument.people(at: url(format).path) == saved)
        #expect(
            try await PeopleDocument.people(at: url(other, "Copy").path)
                == [changed[0], "Bob, 1, in red", cleo, "Dora"])
        #expect(
            try names() == ["Copy.\(other.rawValue)", "People.\(format.rawValue)"].sorted())
    }

    @Test(arguments: PeopleFormat.allCases, PeopleFormat.allCases)
    func aCopyHasTheUnsavedChangesAndTheyStayUnsaved(
        _ format: PeopleFormat, _ other: PeopleFormat
    ) async throws {
        let document = try await make(format)
        try document.add("Cleo")
        try await document.writeCopy(to: url(other, "Copy"))
        #expect(document.fileURL == url(format))
        #expect(document.hasUnsavedChanges)
        #expect(
            try await PeopleDocument.people(at: url(other, "Copy").path) == saved + ["Cleo"])
        #expect(try await PeopleDocument.people(at: url(format).path) == saved)
        try await document.close()
        #expect(try await PeopleDocument.people(at: url(format).path) == saved + ["Cleo"])
    }

    @Test(arguments: PeopleFormat.allCases)
    func aFileThatIsThereIsNotReplacedByACopy(_ format: PeopleFormat) async throws {
        let document = try await make(format)
        try document.add("Cleo")
        for other in PeopleFormat.allCases {
            let bytes = Data("mine".utf8)
            try bytes.write(to: url(other, "Copy"))
            #expect(
                await failure { try await document.save(as: url(other, "Copy")) }?.code
                    == .alreadyExists)
            #expect(
                await failure { try await document.writeCopy(to: url(other, "Copy")) }?.code
                    == .alreadyExists)
            #expect(try Data(contentsOf: url(other, "Copy")) == bytes)
        }
        #expect(
            await failure {
                try await document.save(
                    as: folder.url.appendingPathComponent("missing/a.\(format.rawValue)"))
            }?.code == .notFound)
        let address = try #require(URL(string: "https://example.org/a.xml"))
        #expect(await failure { try await document.save(as: address) }?.code == .invalidValue)
        #expect(document.fileURL == url(format))
        #expect(document.hasUnsavedChanges)
        try await document.close()
        #expect(try await PeopleDocument.people(at: url(format).path) == saved + ["Cleo"])
    }

    // MARK: Termination

    @Test func documentsAreSavedWhenTheProcessIsAskedToEnd() async throws {
        let path = folder.path("a.quire")
        let program = try TestProgram.path(named: "QuireCrashWriter")
        let outcome = try await ChildProcess.run(program, [path, "1", "terminate"])
        #expect(outcome.output == "edited\n")
        #expect(outcome.status == nil, "The signal ends it.")
        for format in ["sqlite", "xml"] {
            let document = PersistentDocument(
                fileURL: URL(fileURLWithPath: "\(path).\(format)"))
            try await document.open(readOnly: true)
            let topics = try document.managedObjectContext.fetch(FetchRequest("Topic"))
            #expect(topics.map { $0["number"] as? Int } == [9], "\(format)")
            try await document.close()
        }
        #expect(try FileSystem.names(in: folder.path).allSatisfy { !$0.hasSuffix("-wal") })
    }
}
