import Foundation
import QuireSystem
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireAtomicStores
@testable import QuireMigration
@testable import QuireModelFiles
@testable import QuireRescue

/// What a check makes of stores that Core Data has made: what programs there may do is no damage.
@Suite @MainActor struct CoreDataStoreCheckTests {
    /// Makes a store as Core Data leaves it: without this framework's form of the model.
    private func makeCoreDataStore(_ path: String) throws {
        try Damage.makeLibrary(at: path, books: 90)
        try Damage.query(path, "DROP TABLE QUIRE_MODEL")
        try Damage.settle(path)
    }

    /// Core Data lets a program leave one-to-one relationships one-sided, by assigning primitive values or in batches.
    @Test func oneSidedReferencesInStoresOfCoreDataAreNotes() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try makeCoreDataStore(path)
        #expect(try StoreSchemaCheckTests.check(path).isWhole)
        for sql in [
            "UPDATE ZCOVER SET ZBOOK = NULL WHERE Z_PK = 1",
            "UPDATE ZCOVER SET ZBOOK = 2 WHERE Z_PK = 2",
        ] { try Damage.query(path, sql) }
        try Damage.settle(path)
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        let report = try StoreSchemaCheckTests.check(path)
        #expect(report.isWhole, "\(report.problems)")
        #expect(report.notes.contains { $0.kind == .inverse })
        // What a check does not hold against a store is not changed either.
        let repair = try StoreRepair.repair(path)
        #expect(repair.actions.isEmpty, "\(repair.actions)")
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
        // Damage stays damage.
        try Damage.query(path, "UPDATE ZBOOK SET ZAUTHOR = 999 WHERE Z_PK = 3")
        #expect(try StoreSchemaCheckTests.check(path).problems.map(\.kind) == [.reference])
    }

    /// Whatever model it is opened with.
    @Test(.corpus, arguments: Damage.corpus)
    func theSchemaOfCoreDataStoresStaysWhenTheyAreSaved(corpus: Damage.CorpusFile) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.copy(corpus.url, to: path)
        let schema = { try Damage.query(path, "SELECT type, name, sql FROM sqlite_schema") }
        let before = try schema()
        let store: SQLiteStore
        do {
            store = try SQLiteStore.open(
                at: path,
                model: corpus.modelURL.map { try ManagedObjectModel(contentsOf: $0.path) })
        } catch let error as QuireError where error.code == .incompatibleModel {
            #expect(corpus.modelURL == nil)  // It carries no model.
            return
        }
        defer { try? store.close() }
        for entity in store.layout.entities where !entity.isAbstract && store.keeps(entity) {
            let id = try store.reserveObjectIDs(for: entity, count: 1, durably: false)[0]
            var changes = ChangeSet()
            changes.inserted = [
                ObjectChange(
                    objectID: id, entity: entity, version: 0,
                    values: ContiguousArray(repeating: .null, count: entity.slots.count),
                    changedSlots: SlotMask(first: entity.slots.count))
            ]
            try store.save(changes)
        }
        try store.close()
        let after = try schema()
        #expect(before.allSatisfy(after.contains))
        #expect(after.count == before.count || corpus.modelURL != nil)
    }

    /// As ``FixtureModels/library``, but the sides of the one-to-one relationship know nothing of each other: what a program
    /// of Core Data's can leave.
    private static var oneSidedModel: ManagedObjectModel {
        var model = FixtureModels.library
        for (entity, name) in [("Book", "cover"), ("Cover", "book")] {
            guard let position = model.entities.firstIndex(where: { $0.name == entity }) else {
                continue
            }
            model.entities[position].properties = model.entities[position].properties.map {
                guard case .relationship(var relationship) = $0, relationship.name == name else {
                    return $0
                }
                relationship.inverseName = nil
                return .relationship(relationship)
            }
        }
        return model
    }

    /// Makes a file with two books and three covers: a pair, a cover that leads to a book of the pair, and a book that leads
    /// to a cover.
    private func makeFile(
        _ type: AtomicStore.Type, at path: String, carriesModel: Bool
    ) throws {
        let layout = try Self.oneSidedModel.layout()
        var contents = try type.opening(layout, file: nil, options: AtomicStoreOptions()).contents
        contents.carriesModel = carriesModel
        let store = type.init(
            AtomicStoreOpening(
                contents: contents, file: AtomicStoreFile(path: path, protection: nil),
                options: AtomicStoreOptions()))
        try store.writeFirst()
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let books = try ["a", "b"].map { title in
            let book = try context.insertObject(entityName: "Book")
            book["title"] = title
            return book
        }
        let covers = try (0..<3).map { _ in try context.insertObject(entityName: "Cover") }
        covers[0]["book"] = books[0]
        covers[1]["book"] = books[0]
        books[0]["cover"] = covers[1]
        books[1]["cover"] = covers[2]
        try context.save()
        try store.close()
    }

    private nonisolated static let fileTypes: [AtomicStore.Type] = [
        XMLStore.self, BinaryStore.self,
    ]

    /// XML and binary stores of Core Data have no model in them; what is saved to them keeps that.
    @Test(arguments: [0, 1])
    func oneSidedReferencesInFilesOfCoreDataAreNotes(_ type: Int) throws {
        let type = Self.fileTypes[type]
        let folder = try TemporaryFolder()
        let path = folder.path("a.store")
        try makeFile(type, at: path, carriesModel: false)
        for _ in 0..<2 {
            let store = try type.open(at: path, model: FixtureModels.library)
            #expect(!store.carriesModel)
            let report = try StoreCheck.run(on: store)
            #expect(report.isWhole, "\(report.problems)")
            // A side that says nothing is what the other says, when the file is read.
            #expect(report.notes.map(\.kind) == [.inverse], "\(report.notes)")
            #expect(report.notes.first?.message.contains("“cover” does not refer back") == true)
            let context = ManagedObjectContext.mainQueue(
                coordinator: PersistentStoreCoordinator(store: store))
            try context.insertObject(entityName: "Author")["name"] = "Jane"
            try context.save()
            try store.close()
        }
        // Without the model there are no inverses to compare.
        let inferred =
            type == XMLStore.self
            ? try XMLStore.inferredModel(at: path) : try BinaryStore.inferredModel(at: path)
        let store = try type.open(at: path, model: inferred)
        defer { try? store.close() }
        #expect(try StoreCheck.run(on: store).isWhole)
    }

    @Test func lostTablesOfStoresOfCoreDataAreProblems() throws {
        for damage in StoreSchemaCheckTests.cases.prefix(3) {
            let folder = try TemporaryFolder()
            let path = folder.path("a.sqlite")
            try makeCoreDataStore(path)
            _ = try StoreSchemaCheckTests.damage(path, damage)
            let report = try StoreSchemaCheckTests.check(path)
            #expect(report.problems.contains { $0.message.contains(damage.text) })
        }
    }

    /// A model that is archived soundly, but in a way that is not understood, is the reader's lack; an archive in pieces
    /// is damage.
    @Test func aModelThatIsNotUnderstoodIsANoteAndADamagedOneAProblem() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try makeCoreDataStore(path)
        let strange = try PropertyListSerialization.data(
            fromPropertyList: [
                "$version": 100_000, "$archiver": "NSKeyedArchiver",
                "$top": ["root": ["CF$UID": 1]], "$objects": ["$null", "no model"],
            ] as [String: Any], format: .binary, options: 0)
        let stored = try #require(RawDeflate.compressed(strange))
        try Damage.query(
            path,
            "UPDATE Z_MODELCACHE SET Z_CONTENT = x'\(stored.map { String(format: "%02x", $0) }.joined())'"
        )
        for model in [nil, FixtureModels.library] {
            let report = try StoreSchemaCheckTests.check(path, model: model)
            #expect(report.isWhole, "\(report.problems)")
            #expect(report.notes.contains { $0.kind == .model }, "\(report.notes)")
        }
        try Damage.query(path, "UPDATE Z_MODELCACHE SET Z_CONTENT = x'FFFFFFFF'")
        for model in [nil, FixtureModels.library] {
            #expect(
                try StoreSchemaCheckTests.check(path, model: model).problems.map(\.kind) == [.model]
            )
        }
    }
}
