import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Documents to whose coordinator a subclass has added a store.
@Suite @MainActor struct OtherStoresTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func url(_ name: String) -> URL { folder.url.appendingPathComponent(name) }

    private func document(_ name: String) -> CatalogDocument {
        let document = CatalogDocument(fileURL: url(name))
        document.persistentStoreOptions.configuration = "Document"
        document.autosavePolicy = .never
        return document
    }

    private func items(at name: String) async throws -> [String] {
        let document = document(name)
        try await document.open()
        defer { Task { try await document.close() } }
        return try document.managedObjectContext.names(of: "Item")
    }

    @Test(arguments: ["sqlite", "xml", "binary"])
    func eachObjectIsSavedToTheStoreOfItsConfiguration(_ type: String) async throws {
        let document = document("Catalog.\(type)")
        try await document.create()
        let context = document.managedObjectContext
        try context.insert("Item", "lamp")
        try context.insert("Setting", "wide")
        try await document.save()
        #expect(document.persistentStoreCoordinator.persistentStores.count == 2)
        try context.insert("Setting", "dark")
        try context.insert("Item", "desk")
        try await document.save(as: url("Copy.\(type)"))
        #expect(!document.hasUnsavedChanges && document.managedObjectContext === context)
        try context.insert("Setting", "large")
        try context.insert("Item", "chair")
        // A copy has the objects of the document's own store, whatever is unsaved.
        try await document.writeCopy(to: url("Other.\(type)"))
        try await document.close()
        #expect(try await items(at: "Catalog.\(type)") == ["lamp"])
        #expect(try await items(at: "Copy.\(type)") == ["chair", "desk", "lamp"])
        #expect(try await items(at: "Other.\(type)") == ["chair", "desk", "lamp"])
        #expect(try CatalogDocument.settings(beside: url("Copy")) == ["dark", "large", "wide"])
    }

    @Test func inAnotherFormatTheOtherStoreIsAddedToTheNewCoordinator() async throws {
        let document = document("Catalog.sqlite")
        try await document.create()
        try document.managedObjectContext.insert("Item", "lamp")
        try document.managedObjectContext.insert("Setting", "wide")
        try await document.save()
        try document.managedObjectContext.insert("Item", "desk")
        try await document.save(as: url("Catalog.xml"))
        try document.managedObjectContext.insert("Setting", "dark")
        #expect(try document.managedObjectContext.names(of: "Item") == ["desk", "lamp"])
        try await document.close()
        #expect(try CatalogDocument.settings(beside: url("Catalog")) == ["dark", "wide"])
    }

    @Test(arguments: ["sqlite", "xml"])
    func ifItCannotBeAddedTheDocumentIsNotOpened(_ type: String) async throws {
        try FileManager.default.createDirectory(
            at: url("Settings.sqlite"), withIntermediateDirectories: false)
        let document = document("Catalog.\(type)")
        #expect(await failure { try await document.create() } != nil)
        #expect(!document.isOpen)
        // Nothing is left of it.
        #expect(try FileSystem.names(in: folder.url.path) == ["Settings.sqlite"])
        try FileManager.default.removeItem(at: url("Settings.sqlite"))
        try await document.create()
        try await document.close()
    }

    /// The changes of stores that a coordinator announces while a closure runs.
    private func changes(
        of coordinator: PersistentStoreCoordinator, _ body: () async throws -> Void
    ) async throws -> [String] {
        let found = LockedArray<String>()
        let names = [
            PersistentStoreCoordinator.storesWillChangeNotification: "will",
            PersistentStoreCoordinator.storesDidChangeNotification: "did",
        ]
        let observers = names.map { name, text in
            NotificationCenter.default.addObserver(forName: name, object: coordinator, queue: nil) {
                let key = PersistentStoreCoordinator.StoresChangeKey.changed.rawValue
                let stores = $0.userInfo?[key] as? [any PersistentStore] ?? []
                found.append("\(text) \(stores.count)")
            }
        }
        try await body()
        for observer in observers { NotificationCenter.default.removeObserver(observer) }
        return found.values
    }

    @Test func aDocumentAnnouncesThatItsStoreIsReplaced() async throws {
        let document = ManagedDocument(fileURL: url("Notes.quire"))
        try await document.create(model: catalogModel)
        let coordinator = document.persistentStoreCoordinator
        try document.managedObjectContext.insert("Item", "lamp")
        let requests: [@MainActor () async throws -> Void] = [
            { try await document.save(as: url("Other.quire")) },
            { try await document.move(to: url("Moved.quire")) },
            { try await document.revert(to: url("Notes.quire")) },
        ]
        for request in requests {
            #expect(try await changes(of: coordinator, request) == ["will 1", "did 2"])
        }
        let same = try await changes(of: coordinator) { try await document.save() }
        #expect(same.isEmpty)
        try await document.close()
        let file = PersistentDocument(fileURL: url("Notes.sqlite"))
        try await file.create(model: catalogModel)
        let saved = try await changes(of: file.persistentStoreCoordinator) {
            try await file.save(as: url("Other.sqlite"))
        }
        #expect(saved == ["will 1", "did 2"])
        try await file.close()
    }

    @Test func aPackageSavedElsewhereHasItsOwnObjectsOnly() async throws {
        let document = CatalogPackage(fileURL: url("Catalog.quire"))
        document.persistentStoreOptions.configuration = "Document"
        document.autosavePolicy = .never
        try await document.create()
        let context = document.managedObjectContext
        try context.insert("Item", "lamp")
        try context.insert("Setting", "wide")
        try await document.writeCopy(to: url("Copy.quire"))
        try await document.save(as: url("Other.quire"))
        #expect(!document.hasUnsavedChanges)
        #expect(try context.names(of: "Setting") == ["wide"])
        try await document.close()
        for name in ["Copy.quire", "Other.quire"] {
            let copy = CatalogPackage(fileURL: url(name))
            copy.persistentStoreOptions.configuration = "Document"
            try await copy.open(readOnly: true)
            #expect(try copy.managedObjectContext.names(of: "Item") == ["lamp"])
            #expect(try await copy.check().isEmpty)
            try await copy.close()
        }
        #expect(try CatalogDocument.settings(beside: url("Catalog")) == ["wide"])
    }
}

private let catalogModel = ManagedObjectModel {
    Entity("Item") { Attribute("name", .string).required() }
    Entity("Setting") { Attribute("name", .string).required() }
    ModelConfiguration("Document", entities: ["Item"])
    ModelConfiguration("Machine", entities: ["Setting"])
}

/// Adds the store of the machine's settings, which is beside the document.
@Sendable
private func addSettings(_ coordinator: PersistentStoreCoordinator, _ storeURL: URL) throws {
    var folder = storeURL.deletingLastPathComponent()
    if folder.lastPathComponent == "StoreContent" {
        folder = folder.deletingLastPathComponent().deletingLastPathComponent()
    }
    var description = PersistentStoreDescription(
        url: folder.appendingPathComponent("Settings.sqlite"))
    description.configuration = "Machine"
    try coordinator.addPersistentStore(description)
}

private final class CatalogDocument: PersistentDocument {
    override var managedObjectModel: ManagedObjectModel? { catalogModel }

    override nonisolated func configurePersistentStoreCoordinator(
        _ coordinator: PersistentStoreCoordinator, for storeURL: URL, ofType fileType: String,
        modelConfiguration configuration: String?, storeOptions: SQLiteStoreOptions
    ) throws {
        #expect(storeURL.pathExtension == fileType && configuration == "Document")
        try addSettings(coordinator, storeURL)
    }

    static func settings(beside url: URL) throws -> [String] {
        var description = PersistentStoreDescription(
            url: url.deletingLastPathComponent().appendingPathComponent("Settings.sqlite"))
        description.configuration = "Machine"
        let container = try PersistentContainer(
            managedObjectModel: catalogModel, persistentStoreDescriptions: [description])
        defer { try? container.close() }
        return try container.viewContext.names(of: "Setting")
    }
}

private final class CatalogPackage: ManagedDocument {
    override var managedObjectModel: ManagedObjectModel? { catalogModel }

    override nonisolated func configurePersistentStoreCoordinator(
        _ coordinator: PersistentStoreCoordinator, for storeURL: URL, ofType fileType: String,
        modelConfiguration configuration: String?, storeOptions: SQLiteStoreOptions
    ) throws { try addSettings(coordinator, storeURL) }
}

extension ManagedObjectContext {
    fileprivate func insert(_ entity: String, _ name: String) throws {
        try insertObject(entityName: entity)["name"] = name
    }

    fileprivate func names(of entity: String) throws -> [String] {
        try fetch(FetchRequest(entity)).compactMap { $0["name", as: String.self] }.sorted()
    }
}
