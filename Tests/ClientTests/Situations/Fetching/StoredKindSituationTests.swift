import Foundation
import Quire
import Testing

/// Entities in hierarchies, large values, several stores and undone changes: what is found where.
@MainActor @Suite struct StoredKindSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Item") {
            Attribute("name", .string)
            Attribute("size", .integer32)
            ToOne("folder", "Folder", inverse: "items")
        }.abstract()
        Entity("File", inherits: "Item") {
            Attribute("kind", .string)
            Attribute("content", .binary).externalStorage()
        }
        Entity("Image", inherits: "File") { Attribute("width", .integer32) }
        Entity("Folder", inherits: "Item") {
            Attribute("total", .integer64).derived("items.@sum.size")
            Attribute("count", .integer64).derived("items.@count")
            ToMany("items", "Item", inverse: "folder")
        }
    }

    private static func fill(_ context: ManagedObjectContext) throws {
        func insert(_ entity: String, _ name: String, _ size: Int?, in folder: ManagedObject?)
            throws -> ManagedObject
        {
            let item = try context.insertObject(entityName: entity)
            item["name"] = name
            item["size"] = size
            item["folder"] = folder
            return item
        }
        let top = try insert("Folder", "top", nil, in: nil)
        let inner = try insert("Folder", "inner", 5, in: top)
        _ = try insert("Folder", "empty", 0, in: top)
        try insert("File", "a.txt", 10, in: top)["kind"] = "text"
        try insert("File", "b.txt", nil, in: inner)["content"] = Data(repeating: 1, count: 200_000)
        let image = try insert("Image", "c.png", 30, in: inner)
        image["width"] = 640
        image["content"] = Data([1, 2, 3])
        let other = try insert("Image", "d.png", 40, in: nil)
        other["width"] = 32
        other["content"] = Data(repeating: 2, count: 150_000)
    }

    /// One list of everything in an abstract entity's hierarchy, with conditions on the kind, a sub-entity's relationship
    /// and derived totals: JohnEstropia/CoreStore#83, project-imas/encrypted-core-data#210 (sibling entities).
    @Test(arguments: SituationCase.all)
    func aHierarchyIsOneList(_ situation: SituationCase) async throws {
        try await situation.run(Self.model, fill: Self.fill) { context in
            for (entity, format, names) in [
                ("Item", nil, ["a.txt", "b.txt", "c.png", "d.png", "empty", "inner", "top"]),
                ("File", nil, ["a.txt", "b.txt", "c.png", "d.png"]),
                ("Image", nil, ["c.png", "d.png"]),
                ("Item", "entity.name == 'File'", ["a.txt", "b.txt"]),
                (
                    "Item", "entity.name IN {'Image', 'Folder'}",
                    ["c.png", "d.png", "empty", "inner", "top"]
                ),
                (
                    "Item", "folder.name == 'inner' OR folder.folder.name == 'top'",
                    ["b.txt", "c.png"]
                ),
                ("Item", "folder == nil", ["d.png", "top"]), ("Item", "folder.total > 30", []),
                ("Item", "folder.total == 30", ["b.txt", "c.png"]),
                ("Folder", "total == 15", ["top"]),
                ("Folder", "total == 0 OR total == nil", ["empty"]),
                ("Folder", "count == 0", ["empty"]),
                ("Folder", "ANY items.entity.name == 'Folder'", ["top"]),
                ("Folder", "SUBQUERY(items, $i, $i.size > 5).@count == 1", ["inner", "top"]),
                ("Folder", "items.@sum.size == 15 AND count == 3", ["top"]),
                ("File", "content == nil", ["a.txt"]),
                ("File", "content != nil AND kind == nil", ["b.txt", "c.png", "d.png"]),
                ("Image", "folder.items.@count == 2", ["c.png"]),
                ("Item", "size == nil", ["b.txt", "top"]),
                ("Item", "folder.count == 3 AND size < 10", ["empty", "inner"]),
            ] as [(String, String?, [String])] {
                #expect(
                    try context.texts("name", of: entity, where: format) == names,
                    "\(entity) \(format ?? "")")
            }
            let byTotal = try context.texts("name", of: "Folder") {
                $0.sortOrderings = [SortOrdering("total", ascending: false), SortOrdering("name")]
            }
            #expect(byTotal == ["inner", "top", "empty"])
            let own = try context.texts("name", of: "File") { $0.includesSubentities = false }
            #expect(own == ["a.txt", "b.txt"])
            let abstract = try context.texts("name", of: "Item") { $0.includesSubentities = false }
            #expect(abstract.isEmpty)
            let paged = try context.texts("name", of: "Item", where: "folder != nil") {
                $0.sortOrderings = [
                    SortOrdering("entity.name"), SortOrdering("size", ascending: false),
                ]
                $0.fetchOffset = 1
                $0.fetchLimit = 3
            }
            #expect(paged == ["b.txt", "inner", "empty"])
        }
    }

    /// After undo, redo and rollback a list must be that of the values shown: a deleted object returns with its relationships, an
    /// inserted one is gone. magicalpanda/MagicalRecord#1326 asks whether fetches see pending changes at all.
    @Test(arguments: SituationStore.allCases, [true, false])
    func listsFollowUndoAndRollback(_ store: SituationStore, saved: Bool) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try Self.fill(context)
            if saved { try context.save() }
            context.processPendingChanges()
            context.undoManager = UndoManager()
            @MainActor func lists() throws -> [[String]] {
                [
                    try context.texts("name", of: "Item"),
                    try context.texts("name", of: "Item", where: "folder.name == 'inner'"),
                    try context.texts("name", of: "Folder", where: "ANY items.size > 20"),
                    try context.texts("name", of: "Folder") {
                        $0.sortOrderings = [SortOrdering("total"), SortOrdering("name")]
                    },
                    try context.texts("name", of: "File") {
                        $0.sortOrderings = [SortOrdering("folder.name"), SortOrdering("size")]
                        $0.fetchBatchSize = 2
                    },
                ]
            }
            let before = try lists()
            func named(_ name: String) throws -> ManagedObject {
                try #require(
                    try context.fetch(
                        FetchRequest(
                            "Item", predicate: try QueryPredicate(format: "name == %@", name))
                    ).first)
            }
            context.delete(try named("c.png"))
            try named("b.txt")["size"] = 25
            try named("d.png")["folder"] = try named("empty")
            context.processPendingChanges()
            let after = try lists()
            #expect(after[0] == ["a.txt", "b.txt", "d.png", "empty", "inner", "top"])
            #expect(after[1] == ["b.txt"])
            #expect(after[2] == ["empty", "inner"])
            #expect(after[3] == ["top", "inner", "empty"])
            #expect(after[4] == ["d.png", "b.txt", "a.txt"])
            context.undo()
            #expect(try lists() == before)
            context.redo()
            #expect(try lists() == after)
            context.undo()
            #expect(try lists() == before)
            try context.save()
            #expect(try lists() == before)
            context.redo()
            #expect(try lists() == after)
            context.rollback()
            #expect(try lists() == before)
        }
    }

    /// A list out of several stores, with a limit and unsaved objects in each: Apple's Core Data Programming Guide has one
    /// coordinator with several stores; sorted as one list, and paged.
    @Test(arguments: SituationStore.allCases)
    func severalStoresAreOneSortedList(_ store: SituationStore) async throws {
        try await withProgramFolder { folder in
            let container = try PersistentContainer(name: "Several", managedObjectModel: Self.model)
            container.persistentStoreDescriptions = ["one", "two"].map { name in
                var description = PersistentStoreDescription(
                    url: folder.appendingPathComponent(name))
                description.type = StoreType(rawValue: store.rawValue)
                return description
            }
            try await container.loadPersistentStores()
            let context = container.viewContext
            let stores = container.persistentStoreCoordinator.persistentStores
            #expect(stores.count == 2)
            for number in 0..<10 {
                let file = try context.insertObject(entityName: number % 3 == 0 ? "Image" : "File")
                file["name"] = "f\(number)"
                file["size"] = number % 4
                try context.assign(file, to: stores[number % 2])
            }
            for state in ["unsaved", "saved", "changed"] {
                if state == "saved" {
                    try context.save()
                    context.reset()
                }
                if state == "changed" {
                    let all: [ManagedObject] = try context.fetch(
                        FetchRequest("File", sortOrderings: [SortOrdering("name")]))
                    for file in all { file["kind"] = "x" }
                }
                #expect(
                    try context.texts("name", of: "File") == (0..<10).map { "f\($0)" }, "\(state)")
                for offset in 0..<4 {
                    let page = try context.texts("name", of: "File", where: "size < 3") {
                        $0.sortOrderings = [
                            SortOrdering("size", ascending: false), SortOrdering("name"),
                        ]
                        $0.fetchOffset = offset
                        $0.fetchLimit = 3
                        $0.fetchBatchSize = offset % 2 == 0 ? 2 : 0
                    }
                    #expect(
                        page
                            == Array(
                                ["f2", "f6", "f1", "f5", "f9", "f0", "f4", "f8"][
                                    offset..<(offset + 3)]), "\(state)")
                }
                #expect(
                    try context.texts("name", of: "Image") == ["f0", "f3", "f6", "f9"], "\(state)")
                let found: [ManagedObject] = try context.fetch(
                    FetchRequest("File", sortOrderings: [SortOrdering("name")]))
                #expect(
                    try context.texts("name", of: "File", where: "SELF IN %@", Array(found[2..<5]))
                        == ["f2", "f3", "f4"])
            }
            try container.close()
        }
    }
}
