import Foundation
import Quire
import QuireSQLite
import QuireTestSupport
import Testing

/// Notifications of stores that come and go.
@MainActor @Suite struct StoreNotificationTests {
    private static let model = ManagedObjectModel {
        Entity("Note") { Attribute("text", .string) }
    }

    /// Records notifications of a coordinator: a name, and the paths of the stores by key.
    private final class Recorder: Sendable {
        let lines = EventRecorder<String>()

        init(_ coordinator: PersistentStoreCoordinator) {
            for (name, text) in [
                (PersistentStoreCoordinator.storesWillChangeNotification, "will change"),
                (PersistentStoreCoordinator.storesDidChangeNotification, "did change"),
                (PersistentStoreCoordinator.willRemoveStoreNotification, "will remove"),
            ] {
                _ = NotificationCenter.default.addObserver(
                    forName: name, object: coordinator, queue: nil
                ) { [lines] notification in
                    let stores =
                        notification.userInfo as? [String: [any PersistentStore]] ?? [:]
                    for (key, stores) in stores {
                        let names = stores.map { $0.path.map(FileSystem.name) ?? "memory" }
                        lines.record("\(text), \(key): \(names.joined(separator: " "))")
                    }
                }
            }
        }
    }

    @Test func everyChangeIsAnnouncedBeforeAndAfterIt() throws {
        let folder = try TemporaryFolder()
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        let recorder = Recorder(coordinator)
        var store = try coordinator.addPersistentStore(
            PersistentStoreDescription(path: folder.path("a")))
        try (store as? SQLiteStore)?.writeCopy(to: folder.path("b"))
        store = try coordinator.setPath(folder.path("b"), for: store)
        try coordinator.remove(store)
        #expect(
            recorder.lines.events == [
                "will change, added: a", "did change, added: a",
                "will change, changed: a", "did change, changed: a b",
                "will change, removed: b", "will remove, removed: b", "did change, removed: b",
            ])
    }

    @Test func aChangeThatFailsIsNotFollowed() throws {
        let folder = try TemporaryFolder()
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        let store = try coordinator.addPersistentStore(
            PersistentStoreDescription(path: folder.path("a")))
        let other = try PersistentStoreCoordinator(managedObjectModel: Self.model)
            .addPersistentStore(PersistentStoreDescription(path: folder.path("b")))
        let recorder = Recorder(coordinator)
        #expect(throws: QuireError.self) {
            try coordinator.setPath(folder.path("b"), for: store)
        }
        #expect(throws: QuireError.self) { try coordinator.remove(other) }
        #expect(recorder.lines.events == ["will change, changed: a"])
    }

    @Test func contextsSaveAndResetBeforeTheirStoreGoes() throws {
        let folder = try TemporaryFolder()
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        let store = try coordinator.addPersistentStore(
            PersistentStoreDescription(path: folder.path("a")))
        let background = QueueConfinedContext(coordinator: coordinator)
        try background.performAndWait { context in
            context.retainsRegisteredObjects = true
            try context.insertObject(entityName: "Note")["text"] = "last"
        }
        let observer = NotificationCenter.default.addObserver(
            forName: PersistentStoreCoordinator.willRemoveStoreNotification, object: coordinator,
            queue: nil
        ) { _ in
            background.performAndWait { context in
                do { try context.save() } catch { Issue.record(error) }
                context.reset()
            }
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        try coordinator.remove(store)
        #expect(background.performAndWait { $0.registeredObjects.isEmpty })
        try coordinator.addPersistentStore(PersistentStoreDescription(path: folder.path("a")))
        let texts = try background.performAndWait { context in
            try context.fetch(FetchRequest("Note")).map { $0["text", as: String.self] }
        }
        #expect(texts == ["last"])
    }
}
