import Foundation
import Observation
import QuireTestSupport
import Testing

@testable import Quire

@MainActor @Suite struct DerivedAttributeTests {
    /// A context with two authors, three books and a tag, saved.
    private func library(
        _ arrangement: ContextArrangement
    ) throws -> (TestStack, ManagedObjectContext, [String: ManagedObject]) {
        let stack = try TestStack(DerivedWorld.model)
        let context = stack.context(arrangement)
        var objects: [String: ManagedObject] = [:]
        for name in ["Émile", "Jane"] {
            objects[name] = try context.insertObject(entityName: "Author")
            objects[name]?["name"] = name
        }
        for (index, title) in ["Emma", "Nana", "Persuasion"].enumerated() {
            let book = try context.insertObject(entityName: index == 1 ? "Novel" : "Book")
            book["title"] = title
            book["pages"] = Int64(100 * (index + 1))
            book["stars"] = Double(index) + 0.5
            book["price"] = Decimal(index) + Decimal(string: "0.1")!
            objects[title] = book
        }
        objects["tag"] = try context.insertObject(entityName: "Tag")
        objects["tag"]?["weight"] = 7
        objects["Emma"]?["author"] = objects["Jane"]
        objects["Persuasion"]?["author"] = objects["Jane"]
        objects["Nana"]?["author"] = objects["Émile"]
        objects["Emma"]?.add(try #require(objects["tag"]), to: "tags")
        return (stack, context, objects)
    }

    /// Checks all derived values before a save, after it, in another context, and after opening the store again.
    private func checkEverywhere(
        _ stack: TestStack, _ context: ManagedObjectContext,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        try DerivedWorld.check(context, "before", sourceLocation: sourceLocation)
        try stack.save(context)
        try DerivedWorld.check(context, "after", sourceLocation: sourceLocation)
        try DerivedWorld.check(stack.mainContext(), "elsewhere", sourceLocation: sourceLocation)
        let store = try SQLiteStore.open(at: stack.path)
        defer { try? store.close() }
        let fresh = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        try DerivedWorld.check(fresh, "again", sourceLocation: sourceLocation)
        #expect(try store.integrityProblems() == [])
    }

    @Test(arguments: ContextArrangement.allCases)
    func newObjectsHaveDerivedValues(arrangement: ContextArrangement) throws {
        let (stack, context, objects) = try library(arrangement)
        #expect(objects["Jane"]?["bookCount", as: Int64.self] == 2)
        #expect(objects["Jane"]?["income", as: Decimal.self] == Decimal(string: "2.2"))
        #expect(objects["Émile"]?["canonicalName", as: String.self] == "emile")
        #expect(objects["Nana"]?["authorName", as: String.self] == "Émile")
        try checkEverywhere(stack, context)
    }

    @Test(arguments: ContextArrangement.allCases)
    func changesOfAttributesArriveWhereTheyAreDerived(arrangement: ContextArrangement) throws {
        let (stack, context, objects) = try library(arrangement)
        try stack.save(context)
        objects["Jane"]?["name"] = "Ⓙane Åusten"
        objects["Emma"]?["pages"] = 1
        objects["Emma"]?["price"] = Decimal(string: "12.34")!
        objects["tag"]?["weight"] = nil
        #expect(objects["Jane"]?["pages", as: Int64.self] == 301)
        #expect(objects["Emma"]?["authorUpper", as: String.self] == "Ⓙane Åusten".uppercased())
        try checkEverywhere(stack, context)
    }

    @Test(arguments: ContextArrangement.allCases)
    func objectsMoveBetweenOwners(arrangement: ContextArrangement) throws {
        let (stack, context, objects) = try library(arrangement)
        try stack.save(context)
        objects["Emma"]?["author"] = objects["Émile"]
        #expect(objects["Jane"]?["bookCount", as: Int64.self] == 1)
        #expect(objects["Émile"]?["bookCount", as: Int64.self] == 2)
        try checkEverywhere(stack, context)
        objects["Emma"]?["author"] = nil
        try checkEverywhere(stack, context)
    }

    @Test(arguments: ContextArrangement.allCases)
    func deletionsCount(arrangement: ContextArrangement) throws {
        let (stack, context, objects) = try library(arrangement)
        try stack.save(context)
        context.delete(try #require(objects["Emma"]))
        #expect(objects["Jane"]?["bookCount", as: Int64.self] == 1)
        try checkEverywhere(stack, context)
        context.delete(try #require(objects["Jane"]))
        #expect(objects["Persuasion"]?["authorName", as: AttributeValue.self] == .null)
        try checkEverywhere(stack, context)
    }

    @Test(arguments: ContextArrangement.allCases)
    func pairsOfManyToManyRelationshipsCount(arrangement: ContextArrangement) throws {
        let (stack, context, objects) = try library(arrangement)
        try stack.save(context)
        let tag = try #require(objects["tag"])
        let nana = try #require(objects["Nana"])
        tag.add(nana, to: "books")
        let other = try context.insertObject(entityName: "Tag")
        other["weight"] = 3
        nana.add(other, to: "tags")
        #expect(nana["tagWeight", as: Int64.self] == 10)
        try checkEverywhere(stack, context)
        nana.remove(tag, from: "tags")
        try checkEverywhere(stack, context)
        context.delete(other)
        try checkEverywhere(stack, context)
    }

    @Test func relationshipsWithoutInverseCount() throws {
        let (stack, context, objects) = try library(.direct)
        try stack.save(context)
        let nana = try #require(objects["Nana"])
        let jane = try #require(objects["Jane"])
        nana.add(jane, to: "readers")
        try checkEverywhere(stack, context)
        #expect(nana["readerCount", as: Int64.self] == 1)
        context.delete(jane)
        try DerivedWorld.check(context)
        try context.save()
        #expect(nana["readerCount", as: Int64.self] == 0)
        // What was read of a relationship without inverse keeps what is deleted until it is read again.
        context.refreshAllObjects()
        try checkEverywhere(stack, context)
    }

    @Test func undoAndRollbackTakeDerivedValuesBack() throws {
        let (stack, context, objects) = try library(.direct)
        try stack.save(context)
        context.undoManager = UndoManager()
        objects["Emma"]?["pages"] = 1000
        context.processPendingChanges()
        #expect(objects["Jane"]?["pages", as: Int64.self] == 1300)
        context.undo()
        #expect(objects["Jane"]?["pages", as: Int64.self] == 400)
        context.redo()
        #expect(objects["Jane"]?["pages", as: Int64.self] == 1300)
        context.rollback()
        #expect(objects["Jane"]?["pages", as: Int64.self] == 400)
        try DerivedWorld.check(context)
    }

    @Test func nowIsTheTimeOfTheSave() throws {
        let (stack, context, objects) = try library(.direct)
        let jane = try #require(objects["Jane"])
        let emile = try #require(objects["Émile"])
        #expect(jane["saved", as: AttributeValue.self] == .null)
        let start = Date()
        try context.save()
        let first = try #require(jane["saved", as: Date.self])
        #expect(first >= start && first <= Date())
        #expect(emile["saved", as: Date.self] == first)
        jane["name"] = "J"
        #expect(jane["saved", as: Date.self] == first)
        objects["Nana"]?["title"] = "N"
        try context.save()
        #expect(try #require(jane["saved", as: Date.self]) > first)
        #expect(emile["saved", as: Date.self] == first)
        withExtendedLifetime(stack) {}
    }

    @Test func nowIsNotTouchedByDerivation() throws {
        let (stack, context, objects) = try library(.direct)
        try context.save()
        let jane = try #require(objects["Jane"])
        let saved = jane["saved", as: Date.self]
        let version = jane.version
        // The sum of her pages changes, she does not.
        objects["Emma"]?["pages"] = 5
        try context.save()
        #expect(jane["pages", as: Int64.self] == 305)
        #expect(jane["saved", as: Date.self] == saved)
        #expect(jane.version == version)
        jane["name"] = "J"
        try context.save()
        withExtendedLifetime(stack) {}
    }

    @Test func derivedAttributesCannotBeSet() throws {
        let stack = try TestStack(DerivedWorld.model)
        let author = try stack.mainContext().insertObject(entityName: "Author")
        let error = #expect(throws: QuireError.self) {
            try author.setValue(3, forKey: "bookCount")
        }
        #expect(error?.code == .invalidValue)
        #expect(error?.message.contains("derived from “books.@count”") == true)
        #expect(throws: QuireError.self) { try author.setPrimitiveValue(3, forKey: "bookCount") }
        #expect(author.changedValues()["bookCount"] == nil)
    }

    @Test(arguments: ContextArrangement.allCases)
    func fetchesFindUnsavedDerivedValues(arrangement: ContextArrangement) throws {
        let (stack, context, objects) = try library(arrangement)
        try stack.save(context)
        objects["Emma"]?["pages"] = 5000
        let request = try authors(where: "pages > 4000")
        #expect(try context.fetch(request).map { $0["name", as: String.self] } == ["Jane"])
        #expect(try context.count(for: request) == 1)
        objects["Emma"]?["author"] = nil
        #expect(
            try context.fetch(authors(where: "bookCount == 1")).count == 2)
        try stack.save(context)
        #expect(
            try context.fetch(authors(where: "bookCount == 1")).count == 2)
    }

    @Test func ownersAreToldOfInOtherContexts() throws {
        let (stack, context, objects) = try library(.direct)
        try context.save()
        let other = stack.mainContext()
        other.automaticallyMergesChangesFromParent = true
        let jane = try #require(
            other.fetch(authors(where: "name == 'Jane'")).first)
        #expect(jane["pages", as: Int64.self] == 400)
        let told = Box()
        let token = NotificationCenter.default.addObserver(
            forName: ManagedObjectContext.didSaveObjectIDsNotification, object: context, queue: nil
        ) { note in
            told.refreshed = note.objectIDChanges?.refreshed ?? []
        }
        defer { NotificationCenter.default.removeObserver(token) }
        objects["Emma"]?["pages"] = 1
        try context.save()
        #expect(told.refreshed == [jane.objectID])
        other.mergeChanges(from: ObjectIDChanges(refreshed: told.refreshed))
        #expect(jane["pages", as: Int64.self] == 301)
    }

    @Test func observersAreToldOfDerivedValues() throws {
        let (stack, context, objects) = try library(.direct)
        try context.save()
        context.isObservable = true
        let jane = try #require(objects["Jane"])
        let told = Box()
        withObservationTracking {
            _ = jane["pages", as: Int64.self]
        } onChange: {
            told.count += 1
        }
        objects["Emma"]?["pages"] = 1
        context.processPendingChanges()
        #expect(told.count == 1)
        #expect(jane["pages", as: Int64.self] == 301)
        withObservationTracking {
            _ = objects["Emma"]?["authorName", as: String.self]
        } onChange: {
            told.count += 1
        }
        jane["name"] = "J"
        try context.save()
        #expect(told.count == 2)
        withExtendedLifetime(stack) {}
    }

    @Test func parentShowsChildrenItsUnsavedDerivedValues() throws {
        let (stack, context, objects) = try library(.nested)
        try stack.save(context)
        objects["Emma"]?["pages"] = 1
        try context.save()
        // The parent has not saved yet.
        #expect(objects["Jane"]?["pages", as: Int64.self] == 301)
        let sibling = ManagedObjectContext.mainQueue(parent: try #require(context.parent))
        try DerivedWorld.check(sibling)
        try context.parent?.performAndWait { try $0.save() }
        #expect(objects["Jane"]?["pages", as: Int64.self] == 301)
        try DerivedWorld.check(sibling)
        withExtendedLifetime(stack) {}
    }

    private func authors(where format: String) throws -> FetchRequest<ManagedObject> {
        var request = FetchRequest("Author")
        request.predicate = try QueryPredicate(format: format)
        return request
    }

    private final class Box: @unchecked Sendable {
        // Used on the main actor only.
        var count = 0
        var refreshed: [ManagedObjectID] = []
    }
}
