import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// What a context with unsaved changes finds is what is found once they are saved.
@MainActor @Suite struct PendingChangesInRequestsTests {
    @Test(arguments: ContextArrangement.allCases)
    func membersThatCameWithoutTheirOwnerCount(_ arrangement: ContextArrangement) throws {
        let stack = try TestStack()
        try stack.fill(books: 4, authors: 2)
        let context = stack.context(arrangement)
        let request = FetchRequest(
            "Author", predicate: try QueryPredicate(format: "books.@count > 2"))
        #expect(try context.count(for: request) == 0)
        let author = try #require(try context.fetch(FetchRequest("Author")).first)
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "x"
        book["author"] = author
        #expect(try context.fetch(request).map(\.objectID) == [author.objectID])
        context.delete(book)
        #expect(try context.count(for: request) == 0)
    }

    /// An object that cannot be read has not gone.
    @Test func anObjectWithNewMembersIsCountedOrTheErrorReported() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        let store = try SQLiteStore.create(at: path, model: FixtureModels.library)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Austen"
        author["born"] = 1775
        try context.save()
        let id = author.objectID.uriRepresentation
        try store.close()
        let connection = try SQLiteConnection(path: path, mode: .writing)
        try connection.execute("UPDATE ZAUTHOR SET ZNAME = x'00'")
        connection.close()

        let coordinator = PersistentStoreCoordinator(
            store: try SQLiteStore.open(at: path, model: FixtureModels.library))
        defer { try? coordinator.close() }
        let parent = QueueConfinedContext(coordinator: coordinator)
        parent.performAndWait { $0.isWriteBehindParent = true }
        let child = ManagedObjectContext.mainQueue(parent: parent)
        let book = try child.insertObject(entityName: "Book")
        book["title"] = "Emma"
        let damaged = child.object(with: try coordinator.objectID(for: id))
        book["author"] = damaged
        let request = FetchRequest("Author", predicate: try QueryPredicate(format: "born == 1775"))
        try child.save()
        let other = ManagedObjectContext.mainQueue(parent: parent)
        let error = #expect(throws: QuireError.self) { try other.count(for: request) }
        #expect(error?.code == .invalidFormat)
    }

    @Test(arguments: 0..<2)
    func randomRequestsFindTheSameBeforeAndAfterSaving(_ round: Int) throws {
        let seed = SeededRandom.baseSeed &+ UInt64(round)
        var random = SeededRandom(seed: seed)
        let world = try QueryWorld(&random)
        let coordinator = PersistentStoreCoordinator(store: world.store)
        defer { try? coordinator.close() }
        var queries = RandomQueries(random: random, world: world)
        for edit in 0..<10 {
            let context =
                edit % 2 == 0
                ? ManagedObjectContext.mainQueue(coordinator: coordinator)
                : .mainQueue(parent: QueueConfinedContext(coordinator: coordinator))
            var edits = RandomEdits(random: random, context: context)
            try edits.run()
            random = edits.random
            let requests = (0..<25).map { _ in queries.request() }
            var found: [[ManagedObject]] = []
            var identifiers: [[ManagedObjectID]] = []
            for request in requests {
                found.append(Array(try context.fetch(FetchRequest<ManagedObject>(request))))
                identifiers.append(try context.fetchObjectIDs(FetchRequest<ManagedObject>(request)))
            }
            for (index, request) in requests.enumerated() {
                let place: Comment =
                    "seed \(seed), edit \(edit): \(Self.describe(FetchRequest<ManagedObject>(request)))"
                try #require(identifiers[index] == found[index].map(\.objectID), place)
                try #require(
                    try context.count(for: FetchRequest<ManagedObject>(request))
                        == found[index].count, place)
            }
            try context.save()
            try context.parent?.performAndWait { try $0.save() }
            for (index, request) in requests.enumerated() {
                let place: Comment =
                    "seed \(seed), edit \(edit): \(Self.describe(FetchRequest<ManagedObject>(request)))"
                let saved = try world.store.objectIDs(matching: request)
                try #require(found[index].map(\.objectID) == saved.map(\.self), place)
            }
        }
    }

    private static func describe(_ request: FetchRequest<ManagedObject>) -> String {
        "\(request.entityName) WHERE \(request.predicate?.format ?? "-") BY "
            + request.sortOrderings.map { "\($0.keyPath) \($0.ascending)" }.joined(separator: ", ")
            + " LIMIT \(request.fetchLimit) OFFSET \(request.fetchOffset)"
    }
}

/// Changes objects of the world at random, without saving.
@MainActor private struct RandomEdits {
    var random: SeededRandom
    let context: ManagedObjectContext
    private var hasNewWork = false

    init(random: SeededRandom, context: ManagedObjectContext) {
        self.random = random
        self.context = context
    }

    mutating func run() throws {
        for _ in 0..<12 { try edit() }
    }

    private mutating func edit() throws {
        let names = ["Work", "Novel", "Author", "Publisher", "Tag", "Note"]
        let name = names[Int.random(in: 0..<names.count, using: &random)]
        switch Int.random(in: 0..<6, using: &random) {
        case 0:
            // New objects of several entities stand in another order once they have primary keys.
            if hasNewWork && ["Work", "Novel"].contains(name) { return }
            hasNewWork = hasNewWork || ["Work", "Novel"].contains(name)
            let object = try context.insertObject(entityName: name)
            for slot in object.resolvedEntity.slots { try set(object, slot) }
        case 1:
            // Who refers to these without an inverse is not told of their deletion.
            if ["Note", "Author"].contains(name) { return }
            if let object = try any(name) { context.delete(object) }
        case 2, 3:
            if let object = try any(name),
                let slot = object.resolvedEntity.slots.randomElement(using: &random)
            {
                try set(object, slot)
            }
        default: try relate(name)
        }
    }

    private mutating func set(_ object: ManagedObject, _ slot: ResolvedEntity.Slot) throws {
        guard let attribute = slot.attribute, slot.isStored, attribute.type != .composite else {
            return
        }
        let value = QueryWorld.pool(attribute, at: slot.name).randomElement(using: &random) ?? .null
        // “Not a number” is no value that can be set.
        try object.setValue(ValueOrder.isMissing(value) ? .null : value, forKey: slot.name)
    }

    private mutating func relate(_ name: String) throws {
        guard let object = try any(name),
            let relationship = object.resolvedEntity.relationships.randomElement(using: &random),
            // Without an inverse, who had a member before is told only by the save.
            !relationship.isToMany || relationship.description.inverseName != nil
        else { return }
        let other = try any(context.layout.destination(of: relationship).name)
        if !relationship.isToMany {
            try object.setObject(Bool.random(using: &random) ? other : nil, through: relationship)
        } else if let other {
            if object.objects(through: relationship).contains(other) {
                object.remove(other, from: relationship.name)
            } else {
                object.add(other, to: relationship.name)
            }
        }
    }

    private mutating func any(_ name: String) throws -> ManagedObject? {
        let objects = try context.fetch(FetchRequest(name))
        return objects.isEmpty ? nil : objects[Int.random(in: 0..<objects.count, using: &random)]
    }
}
