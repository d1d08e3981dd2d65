import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCrashWriter
@testable import QuireDocuments

/// Documents whose objects cannot be saved: their changes survive the process.
@MainActor @Suite struct DocumentDraftTests {
    /// A document with two notes, open for writing, that saves only when it is told to.
    private func makeDocument(_ folder: TemporaryFolder) async throws -> ManagedDocument {
        let document = ManagedDocument(path: folder.path("notes.quire"))
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        try document.addNote("first", code: "1")
        try document.addNote("second", code: "2")
        try document.additionalContent.write(Data("old".utf8), at: "pages/old")
        try await document.save()
        return document
    }

    private func note(_ title: String, in document: ManagedDocument) throws -> ManagedObject {
        try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note"))
                .first { $0["title", as: String.self] == title })
    }

    /// A document of the same package that is open beside one that is not closed, as if its process had died.
    ///
    /// Its lock is taken away, so that no process need be killed.
    private func reopen(
        _ document: ManagedDocument, readOnly: Bool = false
    ) async throws -> ManagedDocument {
        let copy = document.path + ".copy.quire"
        try FileSystem.copyTree(document.path, to: copy, by: .copying)
        try FileSystem.removeFile(DocumentPackageLayout(path: copy).lock)
        let other = ManagedDocument(path: copy)
        other.autosavePolicy = .never
        try await other.open(model: notesModel, readOnly: readOnly)
        return other
    }

    private func omissions(_ document: ManagedDocument) -> [String]? {
        if case .restored(_, let omissions) = document.draftStatus { return omissions }
        return nil
    }

    @Test func invalidObjectsComeBackWhenTheDocumentIsOpenedAgain() async throws {
        let folder = try TemporaryFolder()
        let document = try await makeDocument(folder)
        try note("first", in: document)["title"] = nil
        let picture = Data(repeating: 3, count: 250_000)
        try document.addNote("third", picture: picture)
        document.managedObjectContext.delete(try note("second", in: document))
        try document.additionalContent.write(Data("new".utf8), at: "pages/new")
        try document.additionalContent.remove(at: "pages/old")
        #expect(await failure { try await document.autosave() }?.code == .validation)
        #expect(try document.package.hasDraft())

        let reader = try await reopen(document, readOnly: true)
        #expect(try reader.titles() == ["first", "second"])
        guard case .ignored = reader.draftStatus else {
            Issue.record("A reader must say that there is a draft.")
            return
        }
        try await reader.close()
        let other = ManagedDocument(path: reader.path)
        other.autosavePolicy = .never
        try await other.open()
        #expect(omissions(other) == [])
        #expect(other.hasUnsavedChanges)
        #expect(try other.titles() == ["third"])
        #expect(other.additionalContent.paths == ["pages/new"])
        #expect(try other.additionalContent.data(at: "pages/new") == Data("new".utf8))
        #expect(await failure { try await other.save() }?.code == .validation)

        let mended = try #require(
            try other.managedObjectContext.fetch(FetchRequest("Note"))
                .first { $0["title", as: String.self] == nil })
        #expect(mended["code", as: String.self] == "1")
        mended["title"] = "mended"
        try await other.save()
        #expect(try !other.package.hasDraft())
        try await other.close()
        let last = ManagedDocument(path: other.path)
        try await last.open()
        guard case .none = last.draftStatus else {
            Issue.record("What was saved is no draft any more.")
            return
        }
        #expect(!last.hasUnsavedChanges)
        #expect(try last.titles() == ["mended", "third"])
        #expect(try note("third", in: last)["picture", as: AttributeValue.self] == .binary(picture))
        #expect(try await last.check().isEmpty)
        try await last.close()
        try await document.close(discardingChanges: true)
    }

    @Test func conflictsThatOnlyTheStoreFindsComeBackToo() async throws {
        let folder = try TemporaryFolder()
        let document = try await makeDocument(folder)
        // Valid by itself, so that it reaches the parent, which cannot save it.
        try document.addNote("twin", code: "1")
        #expect(await failure { try await document.save() }?.code == .constraintConflict)
        // Changed since.
        try note("twin", in: document)["title"] = "twin, edited"
        try document.addNote("later")
        #expect(await failure { try await document.save() }?.code == .constraintConflict)

        let other = try await reopen(document)
        #expect(omissions(other) == [])
        #expect(try other.titles() == ["first", "later", "second", "twin, edited"])
        #expect(await failure { try await other.save() }?.code == .constraintConflict)
        try note("twin, edited", in: other)["code"] = "3"
        try await other.close()
        #expect(
            try await ManagedDocument.titles(at: other.path)
                == ["first", "later", "second", "twin, edited"])
        try await document.close(discardingChanges: true)
    }

    @Test func undoTakesTheDraftBackAndClosingRemovesIt() async throws {
        let folder = try TemporaryFolder()
        let document = try await makeDocument(folder)
        try note("first", in: document)["title"] = nil
        #expect(await failure { try await document.save() }?.code == .validation)
        let other = try await reopen(document)
        #expect(other.undoManager?.undoMenuItemTitle == "Undo Restore Unsaved Changes")
        other.undoManager?.undo()
        #expect(!other.hasUnsavedChanges)
        #expect(try other.titles() == ["first", "second"])
        try await other.close()
        let package = try DocumentPackage.open(at: other.path, readOnly: true)
        #expect(try !package.hasDraft())
        try package.close()
        try await document.close(discardingChanges: true)
    }

    @Test func whoDiscardsChangesDiscardsTheDraft() async throws {
        let folder = try TemporaryFolder()
        let document = try await makeDocument(folder)
        try note("first", in: document)["title"] = nil
        #expect(await failure { try await document.save() }?.code == .validation)
        try await document.revert()
        #expect(try !document.package.hasDraft())
        #expect(!document.hasUnsavedChanges)
        try note("first", in: document)["title"] = nil
        #expect(await failure { try await document.close() }?.code == .validation)
        #expect(try document.package.hasDraft())
        try await document.close(discardingChanges: true)
        let package = try DocumentPackage.open(at: document.path)
        #expect(try !package.hasDraft())
        #expect(try package.check().isEmpty)
        try package.close()
    }

    @Test func anUnchangedDraftIsNotWrittenAgain() async throws {
        let folder = try TemporaryFolder()
        let document = try await makeDocument(folder)
        try note("first", in: document)["title"] = nil
        #expect(await failure { try await document.save() }?.code == .validation)
        let first = try #require(try document.package.draft())
        #expect(await failure { try await document.save() }?.code == .validation)
        #expect(try document.package.draft() == first)
        try note("second", in: document)["title"] = "second, edited"
        #expect(await failure { try await document.save() }?.code == .validation)
        #expect(try document.package.draft() != first)
        try await document.close(discardingChanges: true)
    }

    @Test func aDraftThatCannotBeReadStays() async throws {
        let folder = try TemporaryFolder()
        let document = try await makeDocument(folder)
        try await document.close()
        let package = try DocumentPackage.open(at: document.path)
        try package.store.writeDraft(Data("of another kind".utf8))
        try package.close()
        try await document.open()
        guard case .unreadable(let error) = document.draftStatus else {
            Issue.record("The draft is none.")
            return
        }
        #expect(error.code == .invalidFormat)
        #expect(error.subject.file == DocumentPackageLayout(path: document.path).store)
        #expect(!document.hasUnsavedChanges)
        try document.addNote("third")
        try await document.save()
        #expect(try document.package.hasDraft())
        try await document.close()
    }

    @Test func draftsOfManyPiecesComeBackWhole() throws {
        let folder = try TemporaryFolder()
        let package = try DocumentPackage.create(
            at: folder.path("notes.quire"), model: notesModel)
        var large = Data(repeating: 1, count: 5 << 20)
        for piece in 0..<5 { large[piece << 20 + 7] = UInt8(piece + 2) }
        let draft = DocumentDraft(
            objects: ObjectDraft(), content: ["large": large, "gone": nil, "empty": Data()])
        try package.writeDraft(draft)
        let found = try #require(try package.draft())
        #expect(found.hasSameChanges(as: draft))
        try package.writeDraft(DocumentDraft(objects: ObjectDraft()))
        #expect(try package.draft()?.isEmpty == true)
        try package.removeDraft()
        #expect(try package.draft() == nil)
        #expect(try package.store.records().isEmpty)
        try package.close()
        #expect(failure { try package.writeDraft(draft) }?.code == .storeUnavailable)
        let reader = try DocumentPackage.open(at: package.layout.path, readOnly: true)
        #expect(failure { try reader.writeDraft(draft) }?.code == .readOnly)
        try reader.close()
    }

    @Test func aRecoveredDocumentHasTheDraftAndACopyOfTheLastSaveHasNot() async throws {
        let folder = try TemporaryFolder()
        let document = try await makeDocument(folder)
        try note("first", in: document)["title"] = nil
        #expect(await failure { try await document.save() }?.code == .validation)
        let draft = try document.package.draft()
        let copy = folder.path("copy.quire")
        try document.package.writeCopy(to: copy)
        let bytes = try Data(
            contentsOf: URL(fileURLWithPath: DocumentPackageLayout(path: copy).store))
        #expect(bytes.range(of: Data("QDRAFT".utf8)) == nil)
        let raw = try await reopen(document, readOnly: true)
        try await raw.close()
        try await document.close(discardingChanges: true)
        let recovered = folder.path("recovered.quire")
        _ = try DocumentPackage.recover(raw.path, to: recovered)
        for (path, expected) in [(copy, nil), (recovered, draft)] {
            let package = try DocumentPackage.open(at: path, readOnly: true)
            #expect(try package.draft() == expected)
            #expect(try package.check().isEmpty)
            try package.close()
        }
    }

    @Test func savedElsewhereWhatTheDraftStandsForIsNoDraft() async throws {
        let folder = try TemporaryFolder()
        let document = try await makeDocument(folder)
        let path = document.path
        try document.addNote("twin", code: "1")
        #expect(await failure { try await document.save() }?.code == .constraintConflict)
        #expect(try document.package.hasDraft())
        try note("twin", in: document)["code"] = "3"
        try await document.save(as: URL(fileURLWithPath: folder.path("elsewhere.quire")))
        #expect(try !document.package.hasDraft())
        try await document.close()
        let old = try DocumentPackage.open(at: path, readOnly: true)
        #expect(try !old.hasDraft())
        try old.close()
        #expect(
            try await ManagedDocument.titles(at: folder.path("elsewhere.quire"))
                == ["first", "second", "twin"])
    }

    @Test func killedProcessesLeaveTheirDraft() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("killed.quire")
        let program = try TestProgram.path(named: "QuireCrashWriter")
        let outcome = try await ChildProcess.run(program, [path, "1", "draft"])
        #expect(outcome.output == "drafted\n")
        #expect(outcome.status == nil, "It kills itself.")
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.open()
        #expect(omissions(document) == [])
        let notes = try document.managedObjectContext.fetch(FetchRequest("Note"))
        #expect(notes.map { $0["title", as: String.self] } == [nil])
        #expect(notes.first?.object("topic")?["number", as: Int64.self] == 7)
        #expect(document.additionalContent.paths == ["file"])
        notes.first?["title"] = "mended"
        try await document.close()
        #expect(try DocumentPackage.open(at: path, readOnly: true).hasDraft() == false)
    }
}
