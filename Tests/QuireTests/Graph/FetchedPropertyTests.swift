import QuireTestSupport
import Testing

@testable import Quire

@MainActor @Suite struct FetchedPropertyTests {
    private static func property(
        _ name: String, _ entity: String, _ predicate: String?,
        _ adjust: (inout FetchedPropertyDescription) -> Void = { _ in }
    ) -> PropertyDescription {
        var request = FetchRequestTemplate(name: name, entityName: entity)
        request.predicateFormat = predicate
        var property = FetchedPropertyDescription(name: name, fetchRequest: request)
        adjust(&property)
        return .fetched(property)
    }

    private static let model = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Author", FixtureModels.attribute("name", .string),
            FixtureModels.attribute("born", .integer16),
            FixtureModels.toMany("books", "Book", "author"),
            property(
                "contemporaries", "Author", "born == $FETCH_SOURCE.born AND SELF != $FETCH_SOURCE"),
            property("own", "Book", "author == $FETCH_SOURCE"),
            property("all", "Book", nil) { $0.fetchRequest.fetchLimit = 2 },
            property("named", "Author", "name == $FETCHED_PROPERTY.userInfo.wanted") {
                $0.userInfo = ["wanted": "Jane"]
            },
            property("likeMine", "Book", "title IN $FETCH_SOURCE.books.title"),
            property("newest", "Book", "author == $FETCH_SOURCE") {
                $0.fetchRequest.sortOrderings = [
                    SortOrdering("title", ascending: false), SortOrdering("author.name"),
                ]
                $0.fetchRequest.fetchOffset = 1
                $0.fetchRequest.fetchBatchSize = 1
            },
            property("withAuthors", "Book", nil) {
                $0.fetchRequest.relationshipKeyPathsForPrefetching = ["author"]
            },
            property("faults", "Book", nil) { $0.fetchRequest.includesPropertyValues = false },
            property("dictionaries", "Author", nil) { $0.fetchRequest.resultType = "2" },
            property("wrong", "Book", "title == $OTHER")),
        FixtureModels.entity(
            "Book", FixtureModels.attribute("title", .string),
            FixtureModels.toOne("author", "Author", "books"),
            property("siblings", "Book", "author == $FETCH_SOURCE.author"),
            property("sameAge", "Author", "born == $FETCH_SOURCE.author.born")),
    ])

    let stack: TestStack
    let context: ManagedObjectContext
    let jane: ManagedObject
    let mary: ManagedObject

    init() throws {
        stack = try TestStack(Self.model)
        context = stack.mainContext()
        jane = try context.insertObject(entityName: "Author")
        jane["name"] = "Jane"
        jane["born"] = 1775
        mary = try context.insertObject(entityName: "Author")
        mary["name"] = "Mary"
        mary["born"] = 1775
        for (title, author) in [("Emma", jane), ("Persuasion", jane), ("Emma", mary)] {
            let book = try context.insertObject(entityName: "Book")
            book["title"] = title
            book["author"] = author
        }
    }

    @Test(arguments: [true, false])
    func theSourceIsTheObject(isSaved: Bool) throws {
        if isSaved { try context.save() }
        #expect(try jane.fetchedObjects("contemporaries") == [mary])
        #expect(
            try jane.fetchedObjects("own").map { $0["title", as: String.self] } == [
                "Emma", "Persuasion",
            ])
        #expect(try jane.fetchedObjects("all").count == 2)
        #expect(try mary.fetchedObjects("named") == [jane])
        #expect(try jane.fetchedObjects("likeMine").count == 3)
        let book = try #require(try mary.fetchedObjects("own").first)
        #expect(try book.fetchedObjects("siblings") == [book])
        #expect(try book.fetchedObjects("sameAge") == [jane, mary])
    }

    @Test(arguments: [true, false])
    func orderOffsetAndBatchSizeAreTheRequests(isSaved: Bool) throws {
        if isSaved { try context.save() }
        #expect(
            try jane.fetchedObjects("newest").map { $0["title", as: String.self] } == ["Emma"])
        let newest = try jane.value(forKey: "newest") as? [ManagedObject]
        #expect(newest?.count == 1)
        #expect(try jane.fetchedObjects("dictionaries").count == 2)
    }

    @Test func prefetchedObjectsNeedNoQueryOfTheirOwn() throws {
        try context.save()
        let fresh = stack.mainContext()
        let author = try fresh.existingObject(with: jane.objectID)
        let books = try author.fetchedObjects("withAuthors")
        let names = stack.statements {
            books.map { ($0["author"] as? ManagedObject)?["name", as: String.self] }
        }
        #expect(names.count == 0)
        #expect(names.result == ["Jane", "Jane", "Mary"])
        let other = stack.mainContext()
        let faults = try other.existingObject(with: jane.objectID).fetchedObjects("faults")
        #expect(faults.count == 3)
        #expect(!faults.contains { !$0.isFault })
    }

    @Test func whatWasFoundIsKeptUntilTheObjectIsAFault() throws {
        let found = try jane.fetchedObjects("own")
        try context.save()
        #expect(try jane.fetchedObjects("own") == found)
        let book = try context.insertObject(entityName: "Book")
        book["author"] = jane
        #expect(try stack.statements { try jane.fetchedObjects("own") }.count == 0)
        #expect(try jane.fetchedObjects("own").count == 2)
        try context.save()
        jane.turnIntoFault()
        #expect(try jane.fetchedObjects("own").count == 3)
        context.reset()
        #expect(context.fetchedPropertyValues.isEmpty)
    }

    @Test func keptResultsDoNotKeepObjects() throws {
        try context.save()
        let fresh = stack.mainContext()
        var author: ManagedObject? = try fresh.existingObject(with: jane.objectID)
        _ = try author?.fetchedObjects("own")
        #expect(fresh.identityMap.count == 1)
        author = nil
        #expect(fresh.identityMap.count == 0)
        #expect(fresh.fetchedPropertyValues.isEmpty)
    }

    @Test func otherKeysAndVariablesAreErrors() throws {
        let unknown = #expect(throws: QuireError.self) { try jane.fetchedObjects("name") }
        #expect(unknown?.code == .unknownKey)
        let wrong = #expect(throws: QuireError.self) { try jane.fetchedObjects("wrong") }
        #expect(wrong?.code == .invalidQuery)
        #expect(wrong?.message.contains("$OTHER") == true)
        let value = #expect(throws: QuireError.self) { try jane.attributeValue(forKey: "own") }
        #expect(value?.message.contains("fetchedObjects(“own”)") == true)
        let predicate = #expect(throws: QuireError.self) {
            try context.fetch(
                FetchRequest("Author", predicate: QueryPredicate(format: "ANY own.title == 'Emma'"))
            )
        }
        #expect(predicate?.message.contains("is a fetched property") == true)
    }

    @Test(arguments: [false, true])
    func refreshKeepingChangesEvaluatesFetchedPropertiesAnew(all: Bool) throws {
        try context.save()
        let count = try jane.fetchedObjects("own").count
        let book = try context.insertObject(entityName: "Book")
        book["author"] = jane
        jane["name"] = "changed"
        #expect(try jane.fetchedObjects("own").count == count)
        if all { context.refreshAllObjects() } else { context.refresh(jane, mergeChanges: true) }
        #expect(try jane.fetchedObjects("own").count == count + 1)
        #expect(jane["name"] as? String == "changed")
    }
}
