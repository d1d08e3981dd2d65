import Foundation
import Quire

/// The store of these situations: lists with tasks and a picture in a file of its own, sealed with the keys of a person.
@MainActor struct ProtectedStore {
    nonisolated static let model = ManagedObjectModel {
        Entity("List") {
            Attribute("name", .string)
            Attribute("picture", .binary).externalStorage()
            ToMany("tasks", "Task", inverse: "list").deleteRule(.cascade)
        }
        Entity("Task") {
            Attribute("title", .string)
            ToOne("list", "List", inverse: "tasks")
        }
    }

    let folder: URL
    let keyFile: String
    let domain: ProtectionDomain

    /// The keys of a person, unlocked.
    init(in folder: URL, named name: String = "me") throws {
        self.folder = folder
        keyFile = folder.appendingPathComponent("\(name).key").path
        try ProtectionDomain.makeKeyFile(at: keyFile)
        domain = try ProtectionDomain.setUp(
            at: folder.appendingPathComponent("\(name).keybag").path, keyFile: keyFile)
    }

    func lock() async { await domain.lock(after: .zero) }
    func unlock() async throws { try await domain.unlock(keyFile: keyFile) }

    func container(
        _ store: SituationStore, named name: String = "Situation",
        _ protection: FileProtection = .complete, model: ManagedObjectModel = ProtectedStore.model
    ) async throws -> PersistentContainer {
        try await store.container(model, in: folder, named: name) {
            $0.fileProtection = protection
            $0.protectionDomain = domain
            $0.shouldMigrateStoreAutomatically = true
        }
    }

    /// Whether a text is in a file in clear.
    func isReadable(_ text: String) -> Bool {
        let names = FileManager.default.enumerator(atPath: folder.path)?.allObjects ?? []
        return names.compactMap { $0 as? String }.contains { name in
            let data = try? Data(contentsOf: folder.appendingPathComponent(name))
            return data?.range(of: Data(text.utf8)) != nil
        }
    }
}

extension ManagedObjectContext {
    @discardableResult
    func addList(_ name: String, tasks: [String] = [], picture: Data? = nil) throws -> ManagedObject
    {
        let list = try insertObject(entityName: "List")
        list["name"] = name
        list["picture"] = picture
        for title in tasks {
            let task = try insertObject(entityName: "Task")
            task["title"] = title
            task["list"] = list
        }
        return list
    }

    func titles() throws -> [String] {
        try fetch(FetchRequest<ManagedObject>("Task")).compactMap { $0["title", as: String.self] }
            .sorted()
    }

    func names() throws -> [String] {
        try fetch(FetchRequest<ManagedObject>("List")).compactMap { $0["name", as: String.self] }
            .sorted()
    }

    func list(_ name: String) throws -> ManagedObject? {
        try fetch(FetchRequest<ManagedObject>("List")).first {
            $0["name", as: String.self] == name
        }
    }
}
