import Foundation
import Quire
import QuireSync

/// A store that is synchronized through the folder `shared` beside it.
@MainActor
struct CrashReplica {
    /// Something that a replica does, by its name on the command line.
    enum Step: String {
        case create, join, synchronize, repair, rebuild
    }

    static let model = ManagedObjectModel {
        Entity("Author") {
            Attribute("name", .string)
            ToMany("books", "Book", inverse: "author").deleteRule(.cascade)
        }
        Entity("Book") {
            Attribute("title", .string)
            Attribute("pages", .integer32)
            Attribute("cover", .binary).externalStorage()
            ToOne("author", "Author", inverse: "books")
        }
    }

    let context: ManagedObjectContext
    let sync: SyncContainer

    /// - Parameter name: The name of the store in the folder, without its extension.
    init(_ name: String, in folder: String) throws {
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        var description = PersistentStoreDescription(path: "\(folder)/\(name).sqlite")
        description.tracksHistory = true
        try coordinator.addPersistentStore(description)
        context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        context.automaticallyMergesChangesFromParent = true
        sync = try SyncContainer(
            coordinator: coordinator,
            transport: FolderTransport(folder: folder + "/shared", creates: true),
            allowsUnencryptedFolder: true)
    }

    func close() throws { try context.persistentStoreCoordinator.close() }

    func perform(_ step: Step) async throws {
        switch step {
        case .create: try await sync.create(named: "Library")
        case .join:
            try await sync.join()
            try await sync.synchronize()
        case .synchronize: try await sync.synchronize()
        case .repair: try await sync.repair()
        case .rebuild: try await sync.rebuildFromSyncedContent()
        }
    }

    /// Opens the store `a`, runs a step, and prints `closed`, or `failed` and why.
    static func run(_ name: String, in folder: String) async {
        do {
            guard let step = Step(rawValue: name) else {
                return CrashWriter.report("wrong: there is no step \(name)")
            }
            let replica = try CrashReplica("a", in: folder)
            try await replica.perform(step)
            try replica.close()
            CrashWriter.report("closed")
        } catch {
            CrashWriter.report("failed \(name) \(error)")
        }
    }

    // MARK: - Content

    /// Saves a book and its author.
    func insert(_ title: String, cover size: Int? = nil) throws {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        book["cover"] = size.map { Data(repeating: UInt8(truncatingIfNeeded: $0), count: $0) }
        book["author"] = try context.insertObject(entityName: "Author")
        book.object("author")?["name"] = "author of \(title)"
        try context.save()
    }

    func book(_ title: String) throws -> ManagedObject? {
        try context.fetch(FetchRequest("Book")).first { $0["title", as: String.self] == title }
    }

    /// All objects as text.
    func content() throws -> [String] {
        context.refreshAllObjects()
        let books = try context.fetch(FetchRequest("Book")).map { book in
            let cover = book["cover", as: Data.self]
            let author = book.object("author")?["name", as: String.self]
            return
                "book \(book["title", as: String.self] ?? "") \(book["pages", as: Int32.self] ?? 0) "
                + "\(cover?.count ?? 0)×\(Set(cover ?? Data()).sorted()) \(author ?? "")"
        }
        let authors = try context.fetch(FetchRequest("Author")).map {
            "author \($0["name", as: String.self] ?? "")"
        }
        return (books + authors).sorted()
    }
}
