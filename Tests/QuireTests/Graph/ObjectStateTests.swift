import Quire
import QuireTestSupport
import Testing

/// What an object says about itself, at every station of its life.
@MainActor @Suite(.serialized) struct ObjectStateTests {
    let stack: TestStack

    init() throws { stack = try TestStack() }

    /// The flags that are set, in the order they are asked for.
    private func flags(_ object: ManagedObject) -> [String] {
        [
            ("inserted", object.isInserted), ("updated", object.isUpdated),
            ("deleted", object.isDeleted), ("fault", object.isFault),
            ("changes", object.hasChanges), ("values", object.hasPersistentChangedValues),
        ].filter(\.1).map(\.0)
    }

    @Test(arguments: ContextArrangement.allCases)
    func stationsOfALife(arrangement: ContextArrangement) throws {
        let context = stack.context(arrangement)
        context.undoManager = UndoManager()
        let book = try context.insertObject(entityName: "Book")
        #expect(flags(book) == ["inserted", "changes"])
        #expect(book.objectID.isTemporaryID)
        #expect(context.insertedObjects == [book] && context.updatedObjects.isEmpty)
        book["title"] = "one"
        #expect(flags(book) == ["inserted", "changes", "values"])
        try stack.save(context)
        #expect(flags(book).isEmpty)
        #expect(!book.objectID.isTemporaryID && !context.hasChanges)

        book["title"] = "two"
        #expect(flags(book) == ["updated", "changes", "values"])
        #expect(context.updatedObjects == [book] && context.insertedObjects.isEmpty)
        book["title"] = "one"
        #expect(flags(book) == ["updated", "changes"])
        context.undo()
        #expect(flags(book).isEmpty)

        context.delete(book)
        #expect(flags(book) == ["deleted", "changes"])
        #expect(context.deletedObjects == [book])
        context.undo()
        #expect(flags(book).isEmpty)
        context.redo()
        try stack.save(context)
        #expect(flags(book).isEmpty)
        #expect(book["title", as: String.self] == "one")
        context.undo()
        #expect(flags(book).starts(with: ["inserted", "changes"]))
        try stack.save(context)
        context.refresh(book, mergeChanges: false)
        #expect(flags(book) == ["fault"])
        #expect(book["title", as: String.self] == "one")
        #expect(flags(book).isEmpty)

        book["year"] = 1
        context.rollback()
        #expect(flags(book).isEmpty)
        let new = try context.insertObject(entityName: "Book")
        context.rollback()
        #expect(flags(new).isEmpty && new.managedObjectContext == nil)
    }

    @Test func relationshipsCountAsChanges() throws {
        let context = stack.mainContext()
        let (author, book) = (
            try context.insertObject(entityName: "Author"),
            try context.insertObject(entityName: "Book")
        )
        author["name"] = "A"
        book["title"] = "B"
        try context.save()
        author.add(book, to: "books")
        #expect(flags(author) == ["updated", "changes", "values"])
        #expect(flags(book) == ["updated", "changes", "values"])
        author.remove(book, from: "books")
        #expect(flags(author).isEmpty)
        #expect(!book.hasPersistentChangedValues)
        let other = stack.mainContext()
        let read = other.object(with: book.objectID)
        #expect(flags(read) == ["fault"])
        read["author"] = other.object(with: author.objectID)
        #expect(read.changedValues() == ["author": .value(.objectID(author.objectID))])
        #expect(try read.committedValues(forKeys: ["author"]) == ["author": .value(.null)])
    }

    @Test func changedValuesOfAnUpdateAreNoDefaults() throws {
        let context = stack.mainContext()
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "B"
        book["year"] = 1
        try context.save()
        book["year"] = nil
        #expect(book.changedValues() == ["year": .value(.null)])
        #expect(book.changedValuesForCurrentEvent() == ["year": .value(1)])
        #expect(try book.committedValues(forKeys: ["year"]) == ["year": .value(1)])
        context.delete(book)
        #expect(try book.committedValues(forKeys: ["title"]) == ["title": .value("B")])
        #expect(book["title", as: String.self] == "B")
    }

    // MARK: Classes

    @MainActor static var calls: [String] = []

    class Animal: ManagedObject {
        func note(_ call: String) {
            let call = "\(resolvedEntity.name).\(call)"
            MainActor.assumeIsolated { ObjectStateTests.calls.append(call) }
        }
        override func awakeFromInsert() { self["sound"] = "none" }
        override func awakeFromFetch() { note("fetch") }
        override func awake(fromSnapshotEvents events: SnapshotEvents) {
            if events.contains(.refresh) { note("refresh") }
            if events.contains(.mergePolicy) { note("mergePolicy") }
        }
        override func willTurnIntoFault() {
            note("will turn, \(self["sound", as: String.self] ?? "-")")
        }
        override func didTurnIntoFault() { note("did turn, \(isFault)") }
    }

    final class Dog: Animal {
        override func awakeFromInsert() {
            super.awakeFromInsert()
            self["sound"] = "woof"
        }
    }

    private static let model: ManagedObjectModel = {
        var model = ManagedObjectModel(entities: [
            FixtureModels.entity(
                "Animal", FixtureModels.attribute("sound", .string),
                FixtureModels.attribute("age", .integer16)),
            FixtureModels.entity("Dog", parent: "Animal"),
            FixtureModels.entity("Stone", FixtureModels.attribute("sound", .string)),
        ])
        model.entities[0].objectClass = Animal.self
        model.entities[1].objectClass = Dog.self
        return model
    }()

    private func calls() -> [String] {
        defer { Self.calls = [] }
        return Self.calls
    }

    @Test func eachEntityHasItsClass() throws {
        let stack = try TestStack(Self.model)
        let context = stack.mainContext()
        _ = try context.insertObject(entityName: "Dog")
        _ = Animal(context: context)
        _ = try context.insertObject(entityName: "Stone")
        try context.save()
        let other = stack.mainContext()
        let animals = try other.fetch(FetchRequest("Animal"))
        #expect(
            Set(animals.map { "\(type(of: $0)) \($0["sound", as: AttributeValue.self])" }).count
                == 2)
        #expect(animals.filter { $0 is Dog }.map { $0["sound", as: String.self] } == ["woof"])
        let fault = stack.mainContext().object(
            with: try #require(animals.first { $0 is Dog }).objectID)
        #expect(fault is Dog)
        let stones = try other.fetch(FetchRequest("Stone"))
        #expect(stones.allSatisfy { type(of: $0) == ManagedObject.self })
        #expect(stones.map { $0["sound", as: String.self] } == [nil])
    }

    @Test func turningIntoAFaultIsToldBeforeAndAfter() throws {
        let stack = try TestStack(Self.model)
        let context = stack.mainContext()
        let dog = Dog(context: context)
        try context.save()
        _ = calls()
        context.refresh(dog, mergeChanges: false)
        #expect(calls() == ["Dog.will turn, woof", "Dog.did turn, true"])
        context.refresh(dog, mergeChanges: false)
        #expect(calls().isEmpty)
        #expect(dog["sound", as: String.self] == "woof")
        #expect(calls() == ["Dog.fetch"])
        dog["age"] = 1
        context.refresh(dog, mergeChanges: true)
        #expect(calls() == ["Dog.refresh"])
        #expect(dog["age", as: Int64.self] == 1)
    }

    @Test func aMergePolicyIsASnapshotEvent() throws {
        let stack = try TestStack(Self.model)
        let (context, other) = (stack.mainContext(), stack.mainContext())
        context.mergePolicy = .mergeByPropertyObjectTrump
        let dog = Dog(context: context)
        try context.save()
        let twin = other.object(with: dog.objectID)
        twin["sound"] = "wuff"
        dog["age"] = 2
        try other.save()
        _ = calls()
        try context.save()
        #expect(calls() == ["Dog.mergePolicy"])
        #expect(dog["sound", as: String.self] == "wuff" && dog["age", as: Int64.self] == 2)
    }

    @Test func whatAChildSavesIsARefreshInItsParent() throws {
        let stack = try TestStack(Self.model)
        let parent = stack.mainContext()
        let dog = Dog(context: parent)
        try parent.save()
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let twin = child.object(with: dog.objectID)
        twin["sound"] = "wuff"
        _ = calls()
        try child.save()
        #expect(calls() == ["Dog.refresh"])
        #expect(dog["sound", as: String.self] == "wuff")
    }
}
