import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// A coordinator with stores of several configurations, and with several of the same entities.
@MainActor
@Suite struct SeveralStoresTests {
    /// Books and their authors in one configuration, settings in another, notes in both.
    static let model: ManagedObjectModel = {
        var model = ManagedObjectModel(entities: [
            FixtureModels.entity(
                "Author", FixtureModels.attribute("name", .string),
                FixtureModels.toMany("books", "Book", "author", .cascade)),
            FixtureModels.entity(
                "Book", FixtureModels.attribute("title", .string),
                FixtureModels.attribute("year", .integer64),
                FixtureModels.toOne("author", "Author", "books")),
            FixtureModels.entity(
                "Note", FixtureModels.attribute("text", .string),
                FixtureModels.attribute("rank", .integer64)),
            FixtureModels.entity("Remark", parent: "Note", FixtureModels.attribute("of", .string)),
            FixtureModels.entity(
                "Setting", FixtureModels.attribute("key", .string),
                {
                    var request = FetchRequestTemplate(name: "books", entityName: "Book")
                    request.predicateFormat = "title == $FETCH_SOURCE.key"
                    return .fetched(
                        FetchedPropertyDescription(name: "books", fetchRequest: request))
                }()),
        ])
        model.configurations = [
            .init(name: "Library", entityNames: ["Author", "Book", "Note"]),
            .init(name: "User", entityNames: ["Setting", "Note"]),
            .init(name: "Half", entityNames: ["Book"]),
        ]
        return model
    }()

    let folder: TemporaryFolder
    let coordinator: PersistentStoreCoordinator

    init() throws {
        folder = try TemporaryFolder()
        coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
    }

    private func description(_ name: String, _ configuration: String?)
        -> PersistentStoreDescription
    {
        var description = PersistentStoreDescription(path: folder.path("\(name).sqlite"))
        description.configuration = configuration
        return description
    }

    @discardableResult
    private func add(_ name: String, _ configuration: String?) throws -> any PersistentStore {
        try coordinator.addPersistentStore(description(name, configuration))
    }

    private func context() -> ManagedObjectContext { .mainQueue(coordinator: coordinator) }

    private func insert(
        _ entity: String, _ values: [String: AttributeValue], _ context: ManagedObjectContext
    )
        throws -> ManagedObject
    {
        let object = try context.insertObject(entityName: entity)
        for (key, value) in values { object[key] = value }
        return object
    }

    private func tables(_ name: String) throws -> [String] {
        let store = try SQLiteStore.open(
            at: folder.path("\(name).sqlite"), model: Self.model,
            options: {
                var options = SQLiteStoreOptions(); options.configuration = name;
                options.isReadOnly = true; return options
            }())
        defer { try? store.close() }
        return try store.metadata().entityVersionHashes.keys.sorted()
    }

    // MARK: - Configurations

    @Test func newObjectsGoToTheFirstStoreThatKeepsTheirEntity() throws {
        let library = try add("Library", "Library")
        let user = try add("User", "User")
        let context = context()
        let book = try insert("Book", ["title": "Emma"], context)
        let note = try insert("Note", ["text": "buy"], context)
        let setting = try insert("Setting", ["key": "font"], context)
        try context.save()
        #expect(book.objectID.storeUUID == library.identity.uuid)
        #expect(note.objectID.storeUUID == library.identity.uuid)
        #expect(setting.objectID.storeUUID == user.identity.uuid)
        #expect(try user.count(matching: FetchSpecification("Setting")) == 1)
    }

    @Test func aStoreHasTheTablesOfItsConfigurationOnly() throws {
        try add("Library", "Library")
        try add("User", "User")
        try coordinator.close()
        #expect(try tables("Library") == ["Author", "Book", "Note", "Remark"])
        #expect(try tables("User") == ["Note", "Remark", "Setting"])
    }

    @Test func newObjectsGoWhereTheyAreAssigned() throws {
        try add("Library", "Library")
        let user = try add("User", "User")
        let context = context()
        let note = try insert("Note", ["text": "mine"], context)
        try context.assign(note, to: user)
        try context.save()
        #expect(note.objectID.storeUUID == user.identity.uuid)
        let again = try self.context().fetch(FetchRequest("Note"))
        #expect(again.map(\.objectID) == [note.objectID])
        #expect(again.first?["text", as: AttributeValue.self] == "mine")
    }

    @Test func assignmentsEndWithResetAndRollback() throws {
        try add("Library", "Library")
        let user = try add("User", "User")
        let context = context()
        for end in [context.reset, context.rollback] {
            let note = try insert("Note", ["text": "mine"], context)
            try context.assign(note, to: user)
            end()
            #expect(context.assignedStores.isEmpty)
        }
    }

    @Test func assigningIsRefusedWhereItMakesNoSense() throws {
        let library = try add("Library", "Library")
        let user = try add("User", "User")
        let context = context()
        let book = try insert("Book", [:], context)
        #expect(throws: QuireError.self) { try context.assign(book, to: user) }
        try context.save()
        let error = #expect(throws: QuireError.self) { try context.assign(book, to: library) }
        #expect(error?.code == .invalidState)
    }

    @Test func aRelationshipOutOfAConfigurationIsRefusedWithASentence() throws {
        let error = #expect(throws: QuireError.self) { try add("Half", "Half") }
        #expect(error?.code == .invalidModel)
        #expect(
            error?.message.contains("which is not in the configuration “Half”") == true)
        #expect(!FileManager.default.fileExists(atPath: folder.path("Half.sqlite")))
    }

    @Test func anUnknownConfigurationIsRefused() throws {
        let error = #expect(throws: QuireError.self) { try add("x", "Nothing") }
        #expect(error?.message.contains("“Library”, “User”, “Half”") == true)
    }

    @Test func withoutAStoreNothingIsFoundAndNothingCanBeSaved() throws {
        let context = context()
        #expect(try context.fetch(FetchRequest("Book")).isEmpty)
        _ = try insert("Book", [:], context)
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(error?.code == .storeUnavailable)
        #expect(context.hasChanges)
    }

    // MARK: - Several stores of the same entities

    /// Notes 0, 1, 2 … alternately in two stores.
    private func fill(_ count: Int = 20) throws -> (ManagedObjectContext, [any PersistentStore]) {
        let stores = [try add("a", "User"), try add("b", "Library"), try add("c", "Library")]
        let context = context()
        for rank in 0..<count {
            let note = try insert(
                rank % 5 == 0 ? "Remark" : "Note",
                ["rank": .integer(Int64(rank * 9 % count)), "text": .string("n\(rank % 7)")],
                context)
            try context.assign(note, to: stores[rank % 3])
        }
        try context.save()
        return (self.context(), stores)
    }

    @Test func fetchesMergeStoresInTheOrderAskedFor() throws {
        let (context, _) = try fill()
        var request = FetchRequest("Note")
        request.sortOrderings = [SortOrdering("rank")]
        #expect(
            try context.fetch(request).map { $0["rank", as: AttributeValue.self] }
                == (0..<20).map { .integer($0) })
        request.fetchOffset = 5
        request.fetchLimit = 4
        #expect(
            try context.fetch(request).map { $0["rank", as: AttributeValue.self] }
                == (5..<9).map { .integer($0) })
        #expect(try context.fetchObjectIDs(request).count == 4)
        #expect(try context.count(for: request) == 4)
        request.sortOrderings = [SortOrdering("text", ascending: false), SortOrdering("rank")]
        request.fetchOffset = 0
        request.fetchLimit = 0
        request.predicate = try QueryPredicate(format: "rank > 3")
        var expected: [String] = []
        for text in (0..<7).reversed().map({ "n\($0)" }) {
            let ranks = (0..<20).filter { "n\($0 % 7)" == text }.map { $0 * 9 % 20 }
            expected += ranks.filter { $0 > 3 }.sorted().map {
                "\(AttributeValue.string(text)) \(AttributeValue.integer(Int64($0)))"
            }
        }
        let found = try context.fetch(request).map {
            "\($0["text", as: AttributeValue.self]) \($0["rank", as: AttributeValue.self])"
        }
        #expect(found == expected)
    }

    @Test func countsAndGroupsAreOfAllStores() throws {
        let (context, _) = try fill()
        #expect(try context.count(for: FetchRequest("Note")) == 20)
        #expect(try context.count(for: FetchRequest("Remark")) == 4)
        var request = FetchRequest("Note")
        request.propertiesToGroupBy = ["text"]
        request.propertiesToFetch = ["text", try ExpressionDescription("n", format: "count(rank)")]
        request.sortOrderings = [SortOrdering("text")]
        let groups = try context.fetchDictionaries(request)
        #expect(groups.map { $0["n"] } == [3, 3, 3, 3, 3, 3, 2].map { .integer($0) })
    }

    @Test func affectedStoresNarrowAFetch() throws {
        let (context, stores) = try fill()
        var request = FetchRequest("Note")
        request.affectedStores = [stores[1].identity.uuid]
        #expect(try context.count(for: request) == 7)
        let new = try insert("Note", ["text": "new"], context)
        #expect(try context.fetch(request).count == 7)
        try context.assign(new, to: stores[1])
        #expect(try context.fetch(request).count == 8)
        #expect(try context.explain(request).sql.contains("ZNOTE"))
        request.affectedStores = nil
        #expect(throws: QuireError.self) { try context.explain(request) }
    }

    @Test func equalPrimaryKeysOfSeveralStoresAreDifferentObjects() throws {
        let stores = [try add("a", "User"), try add("b", "Library")]
        let context = context()
        for (store, text) in zip(stores, ["one", "two"]) {
            let note = try insert("Note", ["text": .string(text)], context)
            try context.assign(note, to: store)
        }
        try context.save()
        let other = self.context()
        let notes = try other.fetch(FetchRequest("Note"))
        #expect(notes.map(\.objectID.shortDescription) == ["Note/p1", "Note/p1"])
        #expect(notes[0].objectID != notes[1].objectID)
        #expect(notes.map { $0["text", as: AttributeValue.self] } == ["one", "two"])
        notes[1]["text"] = "three"
        try other.save()
        other.reset()
        #expect(
            try other.fetch(FetchRequest("Note")).map { $0["text", as: AttributeValue.self] } == [
                "one", "three",
            ])
        for note in notes {
            let id = try coordinator.objectID(for: note.objectID.uriRepresentation)
            #expect(id == note.objectID)
            #expect(try other.existingObject(with: id).objectID == note.objectID)
        }
    }

    @Test func identifiersOfAnotherCoordinatorAreUnderstood() throws {
        let (context, _) = try fill()
        let ids = Set(try context.fetch(FetchRequest("Note")).map(\.objectID))
        let values = try context.fetch(FetchRequest("Note")).map { $0["rank", as: Int64.self] }
        try coordinator.close()
        // The stores in another order have other numbers.
        let second = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        for (name, configuration) in [("c", "Library"), ("a", "User"), ("b", "Library")] {
            try second.addPersistentStore(description(name, configuration))
        }
        let other = ManagedObjectContext.mainQueue(coordinator: second)
        #expect(Set(try other.fetch(FetchRequest("Note")).map(\.objectID)) == ids)
        let again = try ids.map { try other.existingObject(with: $0)["rank", as: Int64.self] }
        #expect(Set(again) == Set(values))
        try second.close()
    }

    // MARK: - Saving

    @Test func aReferenceToAnotherStoreIsRefusedAndNothingIsSaved() throws {
        let first = try add("a", "Library")
        let second = try add("b", "Library")
        let context = context()
        let author = try insert("Author", ["name": "Jane"], context)
        let book = try insert("Book", ["title": "Emma"], context)
        try context.assign(author, to: second)
        book["author"] = author
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(error?.message.contains("is in another store") == true)
        for store in [first, second] {
            #expect(try store.count(matching: FetchSpecification("Author")) == 0)
            #expect(try store.count(matching: FetchSpecification("Book")) == 0)
        }
        try context.assign(book, to: second)
        try context.save()
        #expect(book.objectID.storeUUID == second.identity.uuid)
        let other = self.context()
        let stored = try #require(try other.fetch(FetchRequest("Book")).first)
        #expect(stored.object("author")?["name", as: AttributeValue.self] == "Jane")
    }

    @Test func whatFailsInOneStoreIsSavedInNone() throws {
        let first = try add("a", "User")
        let second = try add("b", "Library")
        let context = context()
        let notes = try [first, second].map { store in
            let note = try insert("Note", ["text": "old"], context)
            try context.assign(note, to: store)
            return note
        }
        try context.save()
        // Somebody else changes the one in the second store, which is then in conflict.
        let other = self.context()
        try other.existingObject(with: notes[1].objectID)["text"] = "theirs"
        try other.save()
        for note in notes { note["text"] = "mine" }
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(error?.code == .mergeConflict)
        let texts = try self.context().fetch(FetchRequest("Note")).map {
            $0["text", as: String.self]
        }
        #expect(texts == ["old", "theirs"])
        context.mergePolicy = .mergeByPropertyObjectTrump
        try context.save()
        #expect(
            try self.context().fetch(FetchRequest("Note")).map {
                $0["text", as: AttributeValue.self]
            } == ["mine", "mine"])
    }

    @Test func readOnlyStoresAreReadAndTakeNothing() throws {
        let (_, _) = try fill(6)
        try coordinator.close()
        let second = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        var first = description("b", "Library")
        first.isReadOnly = true
        let fixed = try second.addPersistentStore(first)
        let open = try second.addPersistentStore(description("c", "Library"))
        let context = ManagedObjectContext.mainQueue(coordinator: second)
        #expect(try context.count(for: FetchRequest("Note")) == 4)
        let note = try insert("Note", [:], context)
        try context.save()
        #expect(note.objectID.storeUUID == open.identity.uuid)
        let error = #expect(throws: QuireError.self) {
            try context.assign(try insert("Note", [:], context), to: fixed)
        }
        #expect(error?.code == .readOnly)
        context.rollback()
        var request = FetchRequest("Note")
        request.affectedStores = [fixed.identity.uuid]
        let old = try #require(try context.fetch(request).first)
        old["text"] = "changed"
        #expect(throws: QuireError.self) { try context.save() }
        try second.close()
    }

    @Test func batchRequestsReachAllStores() throws {
        let (context, _) = try fill()
        var update = BatchUpdateRequest(entityName: "Note")
        update.predicate = try QueryPredicate(format: "rank < 10")
        update.propertiesToUpdate = ["text": "low"]
        #expect(try context.execute(update).count == 10)
        #expect(
            try context.count(
                for: FetchRequest("Note", predicate: QueryPredicate(format: "text == 'low'")))
                == 10)
        var least = FetchRequest("Note")
        least.sortOrderings = [SortOrdering("rank")]
        least.fetchLimit = 4
        #expect(try context.execute(BatchDeleteRequest(fetchRequest: least)).count == 4)
        context.reset()
        #expect(try context.count(for: FetchRequest("Note")) == 16)
    }

    @Test func fetchedPropertiesLeadToOtherStores() throws {
        try add("Library", "Library")
        let user = try add("User", "User")
        let context = context()
        let book = try insert("Book", ["title": "Emma"], context)
        let setting = try insert("Setting", ["key": "Emma"], context)
        try context.save()
        #expect(setting.objectID.storeUUID == user.identity.uuid)
        #expect(try setting.fetchedObjects("books") == [book])
        #expect(book.objectID.storeUUID != setting.objectID.storeUUID)
    }

    @Test(arguments: [StoreType.xml, .binary, .inMemory])
    func storesOfSeveralTypesWorkTogether(_ type: StoreType) throws {
        let first = try add("a", "Library")
        var description = description("b", "User")
        description.type = type
        let second = try coordinator.addPersistentStore(description)
        let context = context()
        for (rank, store) in [(2, first), (1, second), (4, first), (3, second)] {
            let note = try insert("Note", ["rank": .integer(Int64(rank))], context)
            try context.assign(note, to: store)
        }
        _ = try insert("Setting", ["key": "font"], context)
        try context.save()
        #expect(try second.count(matching: FetchSpecification("Setting")) == 1)
        var request = FetchRequest("Note")
        request.sortOrderings = [SortOrdering("rank")]
        let other = self.context()
        let notes = try other.fetch(request)
        #expect(
            notes.map { $0["rank", as: AttributeValue.self] } == [
                .integer(1), .integer(2), .integer(3), .integer(4),
            ])
        // A conflict in either store keeps both as they are.
        for clash in [0, 1] {
            for note in try context.fetch(request) { context.refresh(note, mergeChanges: false) }
            let mine = try context.fetch(request).map { $0 }
            for note in mine { note["text"] = "mine" }
            other.refreshAllObjects()
            try other.existingObject(with: notes[clash].objectID)["text"] = "theirs \(clash)"
            try other.save()
            #expect(throws: QuireError.self) { try context.save() }
            context.rollback()
            var mineRequest = FetchRequest("Note")
            mineRequest.predicate = try QueryPredicate(format: "text == 'mine'")
            #expect(try self.context().count(for: mineRequest) == 0)
        }
    }

    // MARK: - Stores come and go

    @Test func aRemovedStoreIsClosedAndItsObjectsCannotBeRead() throws {
        let (context, stores) = try fill()
        let id = try #require(
            try context.fetch(FetchRequest("Note")).first {
                $0.objectID.storeUUID == stores[1].identity.uuid
            }?.objectID)
        try coordinator.remove(stores[1])
        #expect(coordinator.persistentStores.count == 2)
        context.reset()
        #expect(try context.count(for: FetchRequest("Note")) == 13)
        let error = #expect(throws: QuireError.self) { try context.existingObject(with: id) }
        #expect(error?.code == .storeUnavailable)
        try coordinator.addPersistentStore(description("b", "Library"))
        #expect(try context.existingObject(with: id).objectID == id)
    }

    @Test func theSameStoreCannotBeAddedTwice() throws {
        try add("a", "User")
        let error = #expect(throws: QuireError.self) { try add("a", "User") }
        #expect(error?.code == .alreadyExists)
        let copy = folder.path("copy.sqlite")
        try coordinator.close()
        try FileManager.default.copyItem(atPath: folder.path("a.sqlite"), toPath: copy)
        let second = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        try second.addPersistentStore(description("a", "User"))
        var other = description("copy", "User")
        other.path = copy
        let twin = #expect(throws: QuireError.self) { try second.addPersistentStore(other) }
        #expect(twin?.message.contains("One of them is a copy") == true)
        try second.close()
    }

    @Test func childrenAndBackgroundContextsSeeAllStores() async throws {
        let (_, stores) = try fill(6)
        let background = QueueConfinedContext(coordinator: coordinator)
        let child = ManagedObjectContext.mainQueue(parent: background)
        #expect(try child.fetch(FetchRequest("Note")).count == 6)
        let note = try insert("Note", ["text": "child"], child)
        try child.assign(note, to: stores[2])
        try child.save()
        try background.performAndWait { try $0.save() }
        #expect(note.objectID.storeUUID == stores[2].identity.uuid)
        #expect(try stores[2].count(matching: FetchSpecification("Note")) == 3)
    }
}
