import Foundation
import Quire
import QuireDocuments
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

/// Stores and documents whose options say that they are synchronized: they are, in the background, through a folder.
@MainActor @Suite struct SyncOptionsTests {
    private func coordinator(
        at path: String, folder: String
    ) throws -> PersistentStoreCoordinator {
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: SyncTests.model)
        try addStore(at: path, folder: folder, to: coordinator)
        return coordinator
    }

    private func addStore(
        at path: String, folder: String, to coordinator: PersistentStoreCoordinator
    ) throws {
        var description = PersistentStoreDescription(path: path)
        description.syncOptions = SyncOptions(contentName: "Library", folder: folder)
        try coordinator.addPersistentStore(description)
    }

    /// Waits until a context has authors with these names.
    private func wait(
        for names: [String], in context: ManagedObjectContext, _ changes: AsyncStream<Void>
    ) async throws {
        for await _ in changes {
            let found = try context.fetch(FetchRequest("Author"))
                .compactMap { $0["name", as: String.self] }
            if found.sorted() == names { return }
        }
    }

    /// An element now and whenever something was imported into a coordinator.
    private func imports(_ coordinator: PersistentStoreCoordinator) -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream<Void>.makeStream(
            bufferingPolicy: .bufferingNewest(1))
        continuation.yield()
        let observer = NotificationCenter.default.addObserver(
            forName: PersistentStoreCoordinator.didImportChangesNotification,
            object: coordinator, queue: nil
        ) { _ in continuation.yield() }
        nonisolated(unsafe) let token = observer
        continuation.onTermination = { _ in NotificationCenter.default.removeObserver(token) }
        return stream
    }

    /// As programs have it whose settings stay on the machine.
    @Test(.timeLimit(.minutes(10))) func oneOfTwoStoresIsSynchronized() async throws {
        let folder = try TemporaryFolder()
        let shared = folder.path("shared")
        try FileSystem.makeFolder(shared)
        let model = ManagedObjectModel {
            Entity("Author") { Attribute("name", .string) }
            Entity("Setting") { Attribute("value", .string) }
            ModelConfiguration("Shared", entities: ["Author"])
            ModelConfiguration("Local", entities: ["Setting"])
        }
        let coordinators = try ["1", "2"].map { machine in
            let coordinator = try PersistentStoreCoordinator(managedObjectModel: model)
            for configuration in ["Shared", "Local"] {
                var description = PersistentStoreDescription(
                    path: folder.path("\(machine)-\(configuration).sqlite"))
                description.configuration = configuration
                if configuration == "Shared" {
                    description.syncOptions = SyncOptions(contentName: "Library", folder: shared)
                }
                try coordinator.addPersistentStore(description)
            }
            return coordinator
        }
        let contexts = coordinators.map { ManagedObjectContext.mainQueue(coordinator: $0) }
        for (number, context) in contexts.enumerated() {
            context.automaticallyMergesChangesFromParent = true
            try context.insertObject(entityName: "Author")["name"] = "Author \(number)"
            try context.insertObject(entityName: "Setting")["value"] = "Setting \(number)"
            try context.save()
        }
        for (coordinator, context) in zip(coordinators, contexts) {
            try await wait(for: ["Author 0", "Author 1"], in: context, imports(coordinator))
            #expect(try context.count(for: FetchRequest("Setting")) == 1)
        }
        for coordinator in coordinators { try coordinator.close() }
    }

    @Test(.timeLimit(.minutes(10))) func twoStoresAreTheSameByThemselves() async throws {
        let folder = try TemporaryFolder()
        let shared = folder.path("shared")
        try FileSystem.makeFolder(shared)
        let first = try coordinator(at: folder.path("1.sqlite"), folder: shared)
        let second = try coordinator(at: folder.path("2.sqlite"), folder: shared)
        let contexts = [first, second].map {
            ManagedObjectContext.mainQueue(coordinator: $0)
        }
        for context in contexts { context.automaticallyMergesChangesFromParent = true }
        let changes = [first, second].map(imports)
        for (number, context) in contexts.enumerated() {
            try context.insertObject(entityName: "Author")["name"] = "Author \(number)"
            try context.save()
        }
        for (context, changes) in zip(contexts, changes) {
            try await wait(for: ["Author 0", "Author 1"], in: context, changes)
        }
        #expect(first.syncContainer != nil)
        try first.close()
        #expect(first.syncContainer == nil)
        try second.close()
    }

    @Test(.timeLimit(.minutes(10))) func aStoreIsUsedWhileTheFolderIsMissing() async throws {
        let folder = try TemporaryFolder()
        let shared = folder.path("shared")
        let first = try coordinator(at: folder.path("1.sqlite"), folder: shared)
        let context = ManagedObjectContext.mainQueue(coordinator: first)
        try context.insertObject(entityName: "Author")["name"] = "offline"
        try context.save()
        #expect(first.syncContainer == nil)
        try FileSystem.makeFolder(shared)
        // Another save, because the folder's coming is looked for every 30 seconds only.
        try context.insertObject(entityName: "Author")["name"] = "online"
        try context.save()
        let second = try coordinator(at: folder.path("2.sqlite"), folder: shared)
        let other = ManagedObjectContext.mainQueue(coordinator: second)
        try await wait(for: ["offline", "online"], in: other, imports(second))
        try first.close()
        try second.close()
    }

    @Test(.timeLimit(.minutes(10))) func documentsAreSynchronizedWhileTheyAreOpen() async throws {
        let folder = try TemporaryFolder()
        let shared = folder.path("shared")
        try FileSystem.makeFolder(shared)
        var documents: [ManagedDocument] = []
        for number in 1...2 {
            let document = ManagedDocument(path: folder.path("\(number).quire"))
            document.persistentStoreOptions.syncOptions = SyncOptions(
                contentName: "Library", folder: shared)
            try await document.create(model: SyncTests.model)
            documents.append(document)
        }
        let changes = documents.map { imports($0.persistentStoreCoordinator) }
        for (number, document) in documents.enumerated() {
            try document.managedObjectContext.insertObject(entityName: "Author")["name"] =
                "Author \(number)"
            try await document.save()
        }
        for (document, changes) in zip(documents, changes) {
            try await wait(
                for: ["Author 0", "Author 1"], in: document.managedObjectContext, changes)
            #expect(!document.hasUnsavedChanges)
        }
        for document in documents {
            #expect(try await document.check() == [])
            try await document.close()
        }
    }

    // MARK: - Availability

    /// The availability of a coordinator's synchronization, whenever it changes: the code of the error, or “available”.
    private func availabilities(_ coordinator: PersistentStoreCoordinator) -> AsyncStream<String> {
        let (stream, continuation) = AsyncStream<String>.makeStream()
        let observer = NotificationCenter.default.addObserver(
            forName: PersistentStoreCoordinator.syncAvailabilityDidChangeNotification,
            object: coordinator, queue: nil
        ) { notification in
            switch notification.syncAvailability {
            case .available: continuation.yield("available")
            case .unavailable(let error): continuation.yield(error.code.rawValue)
            case nil: continuation.yield("nothing")
            }
        }
        nonisolated(unsafe) let token = observer
        continuation.onTermination = { _ in NotificationCenter.default.removeObserver(token) }
        return stream
    }

    private func wait(for expected: String, in stream: AsyncStream<String>) async {
        for await found in stream where found == expected { return }
    }

    @Test(.timeLimit(.minutes(10))) func theProgramHearsWhetherTheFolderIsThere() async throws {
        let folder = try TemporaryFolder()
        let shared = folder.path("shared")
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: SyncTests.model)
        // Before the first round, which begins as soon as the store is added.
        let said = availabilities(coordinator)
        try addStore(at: folder.path("1.sqlite"), folder: shared, to: coordinator)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        func save() throws {
            try context.insertObject(entityName: "Author")["name"] = "Author"
            try context.save()
        }
        try save()
        await wait(for: "storeUnavailable", in: said)
        try FileSystem.makeFolder(shared)
        try save()
        await wait(for: "available", in: said)
        try FileSystem.rename(shared, to: folder.path("away"))
        try save()
        await wait(for: "storeUnavailable", in: said)
        try FileSystem.rename(folder.path("away"), to: shared)
        try save()
        await wait(for: "available", in: said)
        // Removed on purpose, by another program.
        let transport = try FolderTransport(
            folder: FileSystem.path(shared, "Library.quiresync"))
        try await SyncContainer.removeSyncedContent(in: transport)
        try save()
        await wait(for: "syncedContentRemoved", in: said)
        // Rounds would only fail with other errors.
        let sessions = coordinator.services.withLock { services in
            services.values.compactMap { $0 as? SyncSession }
        }
        #expect(sessions.map(\.isStopped) == [true])
        #expect(try context.count(for: FetchRequest("Author")) == 5)
        try coordinator.close()
    }

    @Test(.timeLimit(.minutes(10))) func onlyTheDocumentThatIsNamedIsJoined() async throws {
        let folder = try TemporaryFolder()
        let shared = folder.path("shared")
        try FileSystem.makeFolder(shared)
        let first = try PersistentStoreCoordinator(managedObjectModel: SyncTests.model)
        let said = availabilities(first)
        try addStore(at: folder.path("1.sqlite"), folder: shared, to: first)
        let context = ManagedObjectContext.mainQueue(coordinator: first)
        try context.insertObject(entityName: "Author")["name"] = "Author"
        try context.save()
        await wait(for: "available", in: said)
        let container = try #require(try await first.syncContainer?.status()?.container)

        for (identifier, expected) in [
            (SyncIdentifier(), "syncedContentReplaced"), (container, "available"),
        ] {
            let other = try PersistentStoreCoordinator(managedObjectModel: SyncTests.model)
            let said = availabilities(other)
            var description = PersistentStoreDescription(path: folder.path("2.sqlite"))
            description.syncOptions = SyncOptions(
                contentName: "Library", folder: shared, containerIdentifier: identifier)
            try other.addPersistentStore(description)
            await wait(for: expected, in: said)
            try other.close()
        }
        try first.close()
    }

    @Test(.timeLimit(.minutes(10))) func aStoreIsMadeAnewWhenItIsOpened() async throws {
        let folder = try TemporaryFolder()
        let shared = folder.path("shared")
        try FileSystem.makeFolder(shared)
        var peers: [SyncIdentifier] = []
        for isRebuilt in [false, true] {
            let coordinator = try PersistentStoreCoordinator(managedObjectModel: SyncTests.model)
            let said = availabilities(coordinator)
            var description = PersistentStoreDescription(path: folder.path("1.sqlite"))
            var options = SyncOptions(contentName: "Library", folder: shared)
            options.rebuildsFromSyncedContent = isRebuilt
            description.syncOptions = options
            try coordinator.addPersistentStore(description)
            let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            try context.insertObject(entityName: "Author")["name"] = "Author"
            try context.save()
            await wait(for: "available", in: said)
            peers.append(try #require(try await coordinator.syncContainer?.status()?.peer))
            try coordinator.close()
        }
        #expect(Set(peers).count == 2)
        let plain = try PersistentStoreCoordinator(managedObjectModel: SyncTests.model)
        try plain.addPersistentStore(PersistentStoreDescription(path: folder.path("1.sqlite")))
        let context = ManagedObjectContext.mainQueue(coordinator: plain)
        #expect(try context.count(for: FetchRequest("Author")) == 2)
        try plain.close()
    }
}
