import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireSystem

/// Containers with a name, and the loading of their stores.
@MainActor
@Suite struct LoadingStoresTests {
    private enum Default {
        @TaskLocal static var directory = "/nowhere"
    }

    /// A container with its default stores in a test's folder.
    private final class LibraryContainer: PersistentContainer {
        override class func defaultDirectoryURL() -> URL {
            URL(fileURLWithPath: Default.directory)
        }
    }

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func description(_ name: String) -> PersistentStoreDescription {
        PersistentStoreDescription(url: folder.url.appendingPathComponent(name))
    }

    /// A container of several stores that are not loaded.
    private func container(_ names: String...) throws -> PersistentContainer {
        let container = try PersistentContainer(
            name: "Library", managedObjectModel: FixtureModels.library)
        container.persistentStoreDescriptions = names.map(description)
        return container
    }

    private func files(of container: PersistentContainer) -> [String] {
        container.persistentStoreCoordinator.persistentStores.map {
            $0.path.map { URL(fileURLWithPath: $0).lastPathComponent } ?? "memory"
        }
    }

    /// The files of loaded stores and the errors of others, in the order of the calls.
    private func load(_ container: PersistentContainer) -> [String] {
        var calls: [String] = []
        container.loadPersistentStores { description, error in
            calls.append(error?.code.rawValue ?? description.url?.lastPathComponent ?? "memory")
        }
        return calls
    }

    // MARK: - Names

    @Test func aContainerFindsItsModelAmongTheResourcesOfABundle() throws {
        try FixtureModels.library.write(to: folder.path("Library.xcdatamodel"))
        let bundle = try #require(Bundle(path: folder.path))
        let container = try PersistentContainer(name: "Library", bundle: bundle)
        #expect(container.name == "Library")
        #expect(container.managedObjectModel.entity(named: "Book") != nil)
        let error = #expect(throws: QuireError.self) {
            try PersistentContainer(name: "Museum", bundle: bundle)
        }
        #expect(error?.code == .notFound)
        #expect(error?.message.contains(folder.path) == true)
        #expect(throws: QuireError.self) { try PersistentContainer(name: "Museum") }
    }

    @Test func theDefaultStoreIsInAFolderThatLoadingMakes() throws {
        let directory = folder.path("data/program")
        try Default.$directory.withValue(directory) {
            let container = try LibraryContainer(
                name: "Library", managedObjectModel: FixtureModels.library)
            #expect(container.persistentStoreDescriptions.map(\.type) == [.sqlite])
            #expect(
                container.persistentStoreDescriptions.map(\.path) == [directory + "/Library.sqlite"]
            )
            #expect(!FileManager.default.fileExists(atPath: directory))
            #expect(load(container) == ["Library.sqlite"])
            _ = try container.viewContext.insertObject(entityName: "Song")
            try container.viewContext.save()
            try container.close()
        }
        #expect(FileManager.default.fileExists(atPath: directory + "/Library.sqlite"))
    }

    @Test func theDefaultStoreIsMigrated() throws {
        var older = FixtureModels.library
        older.entities.removeAll { $0.name == "Song" || $0.name == "Playlist" }
        try Default.$directory.withValue(folder.path) {
            for model in [older, FixtureModels.library] {
                let container = try LibraryContainer(name: "Library", managedObjectModel: model)
                #expect(load(container) == ["Library.sqlite"])
                try container.close()
            }
        }
    }

    @Test func theDefaultFolderIsTheProgramsAmongTheUsersData() {
        #expect(
            PersistentContainer.defaultDirectoryURL().path
                == FileSystem.userFolder(for: .data) + "/" + ProcessInfo.processInfo.processName)
        #expect(
            FileSystem.userFolder(
                for: .data, environment: ["XDG_DATA_HOME": "/data", "HOME": "/me"])
                == "/data")
        // The specification has relative paths ignored.
        for environment in [["HOME": "/me"], ["XDG_DATA_HOME": "data", "HOME": "/me"]] {
            #expect(
                FileSystem.userFolder(for: .data, environment: environment) == "/me/.local/share")
        }
    }

    @Test func otherContainersAreNamedAfterTheirStore() throws {
        let store = try SQLiteStore.create(
            at: folder.path("a.b.sqlite"), model: FixtureModels.library)
        let container = PersistentContainer(store: store)
        #expect(container.name == "a.b")
        #expect(load(container) == [])
        try container.close()
        let memory = PersistentContainer(store: try InMemoryStore(model: FixtureModels.library))
        #expect(memory.name.isEmpty)
    }

    // MARK: - Loading

    @Test func aStoreThatCannotBeOpenedLeavesOthersOpenAndIsTriedAgain() throws {
        try Data("no store".utf8).write(to: folder.url.appendingPathComponent("b.sqlite"))
        let container = try container("a.sqlite", "b.sqlite", "c.sqlite")
        #expect(load(container) == ["a.sqlite", "invalidFormat", "c.sqlite"])
        #expect(files(of: container) == ["a.sqlite", "c.sqlite"])
        _ = try container.viewContext.insertObject(entityName: "Song")
        try container.viewContext.save()
        #expect(load(container) == ["invalidFormat"])
        try FileManager.default.removeItem(atPath: folder.path("b.sqlite"))
        #expect(load(container) == ["b.sqlite"])
        #expect(load(container) == [])
        #expect(try container.viewContext.count(for: FetchRequest("Song")) == 1)
        try container.close()
    }

    @Test func aStoreThatWasRemovedAndOneThatWasAddedAreLoaded() throws {
        let container = try container("a.sqlite")
        container.persistentStoreDescriptions.append(PersistentStoreDescription(type: .inMemory))
        #expect(load(container) == ["a.sqlite", "memory"])
        let coordinator = container.persistentStoreCoordinator
        try coordinator.remove(try #require(coordinator.persistentStores.first))
        container.persistentStoreDescriptions.append(PersistentStoreDescription(type: .inMemory))
        #expect(load(container) == ["a.sqlite", "memory"])
        #expect(files(of: container) == ["memory", "a.sqlite", "memory"])
        try container.close()
    }

    @Test func aHandlerMayLoadAgain() throws {
        let container = try container("a.sqlite", "b.sqlite")
        var calls: [String] = []
        container.loadPersistentStores { description, error in
            #expect(error == nil)
            calls.append(description.url?.lastPathComponent ?? "")
            calls += self.load(container)
        }
        #expect(calls == ["a.sqlite", "b.sqlite"])
        try container.close()
    }

    @Test func storesOfAContainerMadeWithThemAreLoaded() throws {
        let container = try PersistentContainer(
            managedObjectModel: FixtureModels.library,
            persistentStoreDescriptions: [description("a.sqlite")])
        #expect(container.name == "a")
        #expect(load(container) == [])
        try container.close()
    }

    @Test func asynchronousStoresAreOpenedAfterTheCallAndReportedOnTheMainQueue() async throws {
        try Data("no store".utf8).write(to: folder.url.appendingPathComponent("b.sqlite"))
        let container = try container("a.sqlite", "b.sqlite", "c.sqlite", "d.sqlite")
        for index in 0..<3 {
            container.persistentStoreDescriptions[index].shouldAddStoreAsynchronously = true
        }
        let (calls, continuation) = AsyncStream.makeStream(of: String.self)
        container.loadPersistentStores { description, error in
            MainActor.preconditionIsolated()
            continuation.yield(error?.code.rawValue ?? description.url?.lastPathComponent ?? "")
        }
        #expect(files(of: container) == ["d.sqlite"])
        // Those that are being opened are not opened again.
        #expect(load(container) == [])
        var received: [String] = []
        for await call in calls {
            received.append(call)
            if received.count == 4 { break }
        }
        #expect(received == ["d.sqlite", "a.sqlite", "invalidFormat", "c.sqlite"])
        #expect(files(of: container) == ["d.sqlite", "a.sqlite", "c.sqlite"])
        try container.close()
    }

    @Test func loadingAsynchronouslyThrowsAllErrorsAndKeepsTheOrderOfStores() async throws {
        for name in ["b.sqlite", "d.sqlite"] {
            try Data("no store".utf8).write(to: folder.url.appendingPathComponent(name))
        }
        let container = try container("a.sqlite", "b.sqlite", "c.sqlite", "d.sqlite")
        let error = await #expect(throws: QuireError.self) {
            try await container.loadPersistentStores()
        }
        #expect(error?.code == .invalidFormat)
        #expect(
            error?.failures.map(\.subject.file)
                == [folder.path("b.sqlite"), folder.path("d.sqlite")])
        #expect(files(of: container) == ["a.sqlite", "c.sqlite"])
        try FileManager.default.removeItem(atPath: folder.path("b.sqlite"))
        let rest = await #expect(throws: QuireError.self) {
            try await container.loadPersistentStores()
        }
        #expect(rest?.subject.file == folder.path("d.sqlite"))
        #expect(files(of: container) == ["a.sqlite", "c.sqlite", "b.sqlite"])
        try container.close()
    }

    @Test func twoLoadingsAtOnceOpenEachStoreOnce() async throws {
        let container = try container("a.sqlite", "b.sqlite")
        async let first: Void = container.loadPersistentStores()
        async let second: Void = container.loadPersistentStores()
        _ = try await (first, second)
        #expect(files(of: container) == ["a.sqlite", "b.sqlite"])
        try container.close()
    }

    @Test func twoDescriptionsOfOneStoreAreAnError() async throws {
        let container = try container("a.sqlite", "a.sqlite")
        #expect(load(container) == ["a.sqlite", "alreadyExists"])
        try container.close()
    }

    @Test func aURLThatIsNoFilesIsNamedByTheError() throws {
        let container = try container()
        container.persistentStoreDescriptions = [
            PersistentStoreDescription(url: try #require(URL(string: "https://example.org/a")))
        ]
        var message = ""
        container.loadPersistentStores { message = $1?.message ?? "" }
        #expect(message.contains("https://example.org"))
    }
}
