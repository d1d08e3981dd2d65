import Foundation
import Quire
import QuireSync
import Testing

/// The code of the article “Sharing a document”, and of the landing page of QuireSync.
@MainActor @Suite struct SharingADocumentTests {
    private static let model = ManagedObjectModel {
        // snippet: sharing-a-document-4
        Entity("Category") {
            Attribute("code", .string)
        }.userInfo(["syncIdentity": .string("code")])
        // end
        Entity("Book") { Attribute("title", .string) }
    }

    private static let nextModel = ManagedObjectModel {
        Entity("Category") { Attribute("code", .string) }
        // snippet: sharing-a-document-6
        Entity("Volume") {
            Attribute("heading", .string).renamed(from: "title")
        }.renamed(from: "Book")
        // end
    }

    private func container(
        at url: URL, _ model: ManagedObjectModel = model
    ) throws -> PersistentContainer {
        var description = PersistentStoreDescription(path: url.path)
        description.tracksHistory = true
        description.migration = StoreMigrationOptions()
        return try PersistentContainer(
            managedObjectModel: model, persistentStoreDescriptions: [description])
    }

    @Test func aStoreIsSynchronizedInTheBackground() async throws {
        try await withProgramFolder { folder in
            let path = folder.appendingPathComponent("Library.sqlite").path
            let (shared, model) = (folder.path, Self.model)
            // snippet: quire-sync-1
            var description = PersistentStoreDescription(path: path)
            description.syncOptions = SyncOptions(contentName: "Library", folder: shared)
            let container = try PersistentContainer(
                managedObjectModel: model, persistentStoreDescriptions: [description])
            // end
            try container.viewContext.insertObject(entityName: "Book")["title"] = "Emma"
            try container.viewContext.save()
            try container.close()
        }
    }

    @Test func twoPeopleChangeOneTitle() async throws {
        try await withProgramFolder { folder in
            let shared = folder.appendingPathComponent("shared").path
            let container = try container(at: folder.appendingPathComponent("1.sqlite"))
            let context = container.viewContext
            context.automaticallyMergesChangesFromParent = true
            let book = try context.insertObject(entityName: "Book")
            book["title"] = "Emma"
            try context.insertObject(entityName: "Category")["code"] = "novel"
            try context.save()
            // snippet: sharing-a-document-1
            let transport = try FolderTransport(folder: shared, creates: true)
            let sync = try SyncContainer(
                coordinator: container.persistentStoreCoordinator, transport: transport)
            try await sync.create(named: "Library")
            let result = try await sync.synchronize()
            // end
            #expect(result.sentCount == 1)

            let other = try self.container(at: folder.appendingPathComponent("2.sqlite"))
            try other.viewContext.insertObject(entityName: "Category")["code"] = "novel"
            try other.viewContext.save()
            let otherSync = try SyncContainer(
                coordinator: other.persistentStoreCoordinator,
                transport: FolderTransport(folder: shared))
            try await otherSync.join()
            try await otherSync.synchronize()
            #expect(try other.viewContext.count(for: FetchRequest("Category")) == 1)
            let otherBook = try #require(try other.viewContext.fetch(FetchRequest("Book")).first)
            otherBook["title"] = "Emma, 1815"
            try other.viewContext.save()
            book["title"] = "Emma. A novel"
            try context.save()
            try await sync.synchronize()
            try await otherSync.synchronize()
            try await sync.synchronize()
            #expect(try await sync.conflicts().map(\.lost) == [.string("Emma, 1815")])
            // snippet: sharing-a-document-2
            for conflict in try await sync.conflicts() {
                print(
                    "\(conflict.entityName).\(conflict.propertyName): \(conflict.lost) was lost, \(conflict.kept) is kept"
                )
                try await sync.choose(conflict)
            }
            // end
            try await sync.synchronize()
            try await otherSync.synchronize()
            #expect(try await otherSync.conflicts().isEmpty)
            other.viewContext.refreshAllObjects()
            #expect(otherBook["title"] as? String == "Emma, 1815")
            // snippet: sharing-a-document-3
            try await sync.setExcludedFiles(["cache", "previews/*.png"])
            // end
            #expect(try await sync.excludedFiles() == ["cache", "previews/*.png"])
            // snippet: sharing-a-document-7
            let status = try await sync.status()
            for peer in status?.peers ?? [] where peer.missingCount > 0 {
                print("\(peer.missingCount) files of \(peer.id) have not arrived.")
            }
            // end
            #expect(status?.peers.count == 2)
            try container.close()

            let next = try self.container(
                at: folder.appendingPathComponent("1.sqlite"), Self.nextModel)
            let nextSync = try SyncContainer(
                coordinator: next.persistentStoreCoordinator, transport: transport)
            try await nextSync.synchronize()
            let volumes = try next.viewContext.fetch(FetchRequest("Volume"))
            #expect(volumes.map { $0["heading"] as? String } == ["Emma, 1815"])
            try next.close()
            try other.close()
        }
    }

    @Test func aPasswordEncryptsTheFolder() async throws {
        try await withProgramFolder { folder in
            let shared = folder.appendingPathComponent("shared").path
            let container = try container(at: folder.appendingPathComponent("1.sqlite"))
            try container.viewContext.insertObject(entityName: "Book")["title"] = "Emma"
            try container.viewContext.save()
            let transport = try FolderTransport(folder: shared, creates: true)
            let sync = try SyncContainer(
                coordinator: container.persistentStoreCoordinator, transport: transport)
            // snippet: sharing-a-document-5
            try await sync.create(named: "Library", password: "correct horse battery staple")
            // end
            try await sync.synchronize()
            #expect(try await sync.status()?.isEncrypted == true)
            #expect(try await SyncContainer.isEncrypted(in: transport))
            let other = try self.container(at: folder.appendingPathComponent("2.sqlite"))
            let otherSync = try SyncContainer(
                coordinator: other.persistentStoreCoordinator, transport: transport)
            await #expect(throws: QuireError.self) { try await otherSync.join() }
            try await otherSync.join(password: "correct horse battery staple")
            try await otherSync.synchronize()
            #expect(try other.viewContext.count(for: FetchRequest("Book")) == 1)
            try container.close()
            try other.close()
        }
    }
}
