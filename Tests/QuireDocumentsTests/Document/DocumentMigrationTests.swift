import Foundation
import Quire
import QuireSQLite
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

    // MARK: Drafts

    /// A draft of every kind of change, of names that a model renames, exchanges, and renames again in a second step.
    @Test(arguments: [1, 2])
    func draftIsMigratedWithRenamedEntitiesAndProperties(_ steps: Int) async throws {
        let models = (
            ManagedObjectModel {
                Entity("Folder") {
                    Attribute("name", .string).length(atMost: 8)
                    ToMany("notes", "Note", inverse: "folder")
                }
                Entity("Note") {
                    Attribute("text", .string).length(atMost: 8)
                    Attribute("front", .string)
                    Attribute("back", .string)
                    ToOne("folder", "Folder", inverse: "notes")
                }
            },
            ManagedObjectModel {
                Entity("Shelf") {
                    Attribute("name", .string).length(atMost: 8)
                    ToMany("pages", "Page", inverse: "shelf").renamed(from: "notes")
                }.renamed(from: "Folder")
                Entity("Page") {
                    Attribute("title", .string).length(atMost: 8).renamed(from: "text")
                    Attribute("front", .string).renamed(from: "back")
                    Attribute("back", .string).renamed(from: "front")
                    ToOne("shelf", "Shelf", inverse: "pages").renamed(from: "folder")
                }.renamed(from: "Note")
            },
            ManagedObjectModel {
                Entity("Shelf") {
                    Attribute("name", .string).length(atMost: 8)
                    ToMany("pages", "Sheet", inverse: "shelf")
                }
                Entity("Sheet") {
                    Attribute("heading", .string).length(atMost: 8).renamed(from: "title")
                    Attribute("front", .string)
                    Attribute("back", .string)
                    ToOne("shelf", "Shelf", inverse: "pages")
                }.renamed(from: "Page")
            }
        )
        let folder = try TemporaryFolder()
        let path = folder.path("notes.quire")
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(model: models.0)
        let context = document.managedObjectContext
        let (shelf, changed, deleted) = try (
            context.insertObject(entityName: "Folder"), context.insertObject(entityName: "Note"),
            context.insertObject(entityName: "Note")
        )
        shelf["name"] = "shelf"
        changed["text"] = "short"
        deleted["text"] = "deleted"
        try await document.save()
        changed["text"] = "much too long"
        changed["front"] = "F"
        changed["back"] = "B"
        changed["folder"] = shelf
        let new = try context.insertObject(entityName: "Note")
        new["text"] = "new"
        new["folder"] = shelf
        context.delete(deleted)
        #expect(await failure { try await document.save() }?.code == .validation)
        let copy = folder.path("copy.quire")
        try FileSystem.copyTree(path, to: copy)
        try FileSystem.removeFile(DocumentPackageLayout(path: copy).lock)
        try await document.close(discardingChanges: true)

        for model in steps == 1 ? [models.1] : [models.1, models.2] {
            let package = try DocumentPackage.open(
                at: copy, model: model, migrating: StoreMigrationOptions())
            #expect(try package.hasDraft())
            try package.close()
        }
        let again = ManagedDocument(path: copy)
        again.autosavePolicy = .never
        try await again.open()
        guard case .restored(_, let omissions) = again.draftStatus else {
            Issue.record("The draft was lost by migrating.")
            return
        }
        #expect(omissions.isEmpty)
        let (entity, title) = steps == 1 ? ("Page", "title") : ("Sheet", "heading")
        let pages = try again.managedObjectContext.fetch(FetchRequest<ManagedObject>(entity))
        #expect(Set(pages.map { $0[title, as: String.self] }) == ["much too long", "new"])
        #expect(
            pages.allSatisfy {
                ($0["shelf", as: ManagedObject.self])?["name", as: String.self] == "shelf"
            })
        let page = try #require(pages.first { $0[title, as: String.self] == "much too long" })
        #expect(page["front", as: String.self] == "B")
        #expect(page["back", as: String.self] == "F")
        page[title] = "shorter"
        try await again.close()
        try await again.open()
        #expect(
            try again.managedObjectContext.count(for: FetchRequest<ManagedObject>(entity)) == 2)
        try await again.close()
    }

    @Test func migrationOfABareStoreRefusesToLoseADraft() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("notes.quire")
        try await ManagedDocument.make(at: path)
        let package = try DocumentPackage.open(at: path)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: package.store))
        try context.fetch(FetchRequest("Note")).first?["title"] = nil
        let draft = DocumentDraft(objects: context.makeDraft())
        try package.writeDraft(draft)
        let store = package.layout.store
        try package.close()
        let renamed = ManagedObjectModel {
            Entity("Page") {
                Attribute("title", .string).required().length(atMost: 40)
                Attribute("code", .string)
                Attribute("picture", .binary).externalStorage()
                Unique("code")
            }.renamed(from: "Note")
        }
        #expect(failure { try SQLiteStore.migrate(at: store, to: renamed) }?.code == .unsupported)
        let same = try DocumentPackage.open(at: path)
        #expect(try same.draft()?.hasSameChanges(as: draft) == true)
        try same.close()
    }
}
