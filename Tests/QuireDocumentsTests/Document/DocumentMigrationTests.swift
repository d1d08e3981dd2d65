import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Documents that are opened with another model than they were made with.
@MainActor @Suite struct DocumentMigrationTests {
    /// As `notesModel`, with one attribute more.
    private let newer = ManagedObjectModel {
        Entity("Note") {
            Attribute("title", .string).required().length(atMost: 40)
            Attribute("code", .string)
            Attribute("picture", .binary).externalStorage()
            Attribute("rating", .integer16).default(3)
            Unique("code")
        }
    }

    @Test func withoutOptionsTheDocumentIsNotOpened() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("notes.quire")
        try await ManagedDocument.make(at: path)
        let document = ManagedDocument(path: path)
        #expect(
            await failure { try await document.open(model: newer) }?.code == .incompatibleModel)
        #expect(!document.isOpen)
        try await document.open(model: notesModel)
        try await document.close()
    }

    @Test func withOptionsItIsMigratedWithAllItHas() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("notes.quire")
        let picture = Data(repeating: 5, count: 200_000)
        let old = ManagedDocument(path: path)
        try await old.create(model: notesModel)
        try old.addNote("first", picture: picture)
        try old.additionalContent.write(Data("page".utf8), at: "pages/1")
        try await old.close()

        let document = ManagedDocument(path: path)
        document.migrationOptions = StoreMigrationOptions()
        try await document.open(model: newer)
        let note = try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note")).first)
        #expect(note["title", as: String.self] == "first")
        #expect(note["rating", as: Int64.self] == 3)
        #expect(note["picture", as: AttributeValue.self] == .binary(picture))
        #expect(try document.additionalContent.data(at: "pages/1") == Data("page".utf8))
        note["rating"] = 5
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["first"])
        #expect(
            await failure { try await ManagedDocument(path: path).open(model: notesModel) }?.code
                == .incompatibleModel)
    }

    /// As `notesModel`, without codes.
    private let smaller = ManagedObjectModel {
        Entity("Note") {
            Attribute("title", .string).required().length(atMost: 40)
            Attribute("picture", .binary).externalStorage()
        }
    }

    private func makeWithCode(at path: String) async throws {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        try document.addNote("first", code: "A", picture: Data(repeating: 5, count: 200_000))
        try document.additionalContent.write(Data("page".utf8), at: "pages/1")
        try await document.close()
    }

    @Test func dataIsNotRemovedUnlessItMayBe() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("notes.quire")
        try await makeWithCode(at: path)
        let before = try contents(ofFolder: path)
        let document = ManagedDocument(path: path)
        document.migrationOptions = StoreMigrationOptions()
        let error = await failure { try await document.open(model: smaller) }
        #expect(error?.code == .removalDenied)
        #expect(error?.message.contains("1 value of “Note.code”") == true)
        #expect(try contents(ofFolder: path) == before)
        document.migrationOptions?.allowsRemoval = true
        try await document.open(model: smaller)
        #expect(try document.titles() == ["first"])
        try await document.close()
    }

    @Test func whatItWasIsKeptAsAVersionUnlessThatIsNotWanted() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("notes.quire")
        try await makeWithCode(at: path)
        let before = try PackageContents(at: path)
        let document = ManagedDocument(path: path)
        var options = StoreMigrationOptions()
        options.allowsRemoval = true
        document.migrationOptions = options
        try await document.open(model: smaller)
        try await document.close()
        let versions = try DocumentPackage.versions(at: path)
        #expect(versions.map(\.reason) == [.beforeMigrating])
        let checkout = try DocumentPackage.checkOut(try #require(versions.first).id, at: path)
        #expect(try PackageContents(at: checkout.path) == before)
        checkout.close()

        // There is nothing to migrate any more.
        try await document.open(model: smaller)
        try await document.close()
        #expect(try DocumentPackage.versions(at: path).count == 1)
        options.keepsVersion = false
        document.migrationOptions = options
        try await document.open(model: newer)
        try await document.close()
        #expect(try DocumentPackage.versions(at: path).count == 1)
    }

    @Test func restoringAVersionOfAnOlderModelRemovesNothingUnlessItMay() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("notes.quire")
        try await makeWithCode(at: path)
        var options = StoreMigrationOptions()
        options.allowsRemoval = true
        let package = try DocumentPackage.open(at: path, model: smaller, migrating: options)
        let version = try #require(try package.versions().first)
        let before = try PackageContents(package)
        #expect(
            failure {
                _ = try package.replaceContent(
                    withVersion: version.id, migrating: StoreMigrationOptions())
            }?.code == .removalDenied)
        #expect(try PackageContents(package) == before)
        options.copyPath = folder.path("copy")
        let restored = try package.replaceContent(withVersion: version.id, migrating: options)
        #expect(!FileManager.default.fileExists(atPath: folder.path("copy")))
        try package.close()
        try restored.close()
    }

    @Test func aDraftComesAlong() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("notes.quire")
        try await ManagedDocument.make(at: path)
        let package = try DocumentPackage.open(at: path)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: package.store))
        try context.fetch(FetchRequest("Note")).first?["title"] = nil
        try package.writeDraft(DocumentDraft(objects: context.makeDraft()))
        try package.close()

        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        document.migrationOptions = StoreMigrationOptions()
        try await document.open(model: newer)
        guard case .restored(_, let omissions) = document.draftStatus else {
            Issue.record("The draft was lost by migrating.")
            return
        }
        #expect(omissions.isEmpty)
        #expect(await failure { try await document.save() }?.code == .validation)
        try document.managedObjectContext.fetch(FetchRequest("Note")).first?["title"] = "mended"
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path) == ["mended"])
    }
}
