import Foundation
import Quire
import QuireTestSupport
import Testing

/// Values by key, in their own types.
@MainActor @Suite struct KeyValueCodingTests {
    let stack: TestStack
    let context: ManagedObjectContext

    init() throws {
        stack = try TestStack()
        context = stack.mainContext()
    }

    private enum Grade: String { case good, bad }

    private func insert(_ entity: String, _ values: [String: Any?] = [:]) throws -> ManagedObject {
        let object = try context.insertObject(entityName: entity)
        for (key, value) in values { try object.setValue(value, forKey: key) }
        return object
    }

    private func emma() throws -> (author: ManagedObject, book: ManagedObject) {
        let author = try insert("Author", ["name": "Jane Austen"])
        let book = try insert("Book", ["title": "Emma", "year": 1815, "author": author])
        return (author, book)
    }

    @Test func valuesAreSetAndReadInTheirOwnTypes() throws {
        let (author, book) = try emma()
        #expect(book["title"] as? String == "Emma")
        #expect(book["year"] as? Int == 1815)
        #expect(book["year", as: Int16.self] == 1815)
        #expect(book["author"] as? ManagedObject === author)
        #expect(book["author", as: ManagedObject.self] === author)
        #expect(author["books"] as? Set<ManagedObject> == [book])
        #expect(author["books", as: Set<ManagedObject>.self] == [book])
        #expect(book["isbn"] == nil)
        #expect(book["isbn", as: String.self] == nil)
        let isbn: String? = nil
        book["title"] = "Persuasion"
        book["isbn"] = isbn
        book["author"] = nil
        #expect(book["title", as: String.self] == "Persuasion")
        #expect(author.objects("books").isEmpty)
    }

    @Test func everyTypeOfAttributeHasItsOwn() throws {
        let stack = try TestStack(FixtureModels.everyType)
        let context = stack.mainContext()
        let object = try context.insertObject(entityName: "Everything")
        let (date, uuid) = (Date(timeIntervalSinceReferenceDate: 5), UUID())
        let uri = try #require(URL(string: "https://example.org/a"))
        object["int16"] = Int16(-3)
        object["int32"] = UInt8(200)
        object["int64"] = 1 << 40
        object["decimal"] = Decimal(string: "1.25")
        object["double"] = 3
        object["float"] = Float(0.5)
        object["string"] = Grade.good
        object["boolean"] = true
        object["date"] = date
        object["binary"] = Data([1, 2])
        object["uuid"] = uuid
        object["uri"] = uri
        #expect(object["int16"] as? Int == -3)
        #expect(object["int32"] as? Int == 200)
        #expect(object["int64"] as? Int == 1 << 40)
        #expect(object["int64", as: Int16.self] == nil)
        #expect(object["decimal"] as? Decimal == Decimal(string: "1.25"))
        #expect(object["double"] as? Double == 3)
        #expect(object["float"] as? Double == 0.5)
        #expect(object["float", as: Float.self] == 0.5)
        #expect(object["string", as: Grade.self] == .good)
        #expect(object["boolean"] as? Bool == true)
        #expect(object["date"] as? Date == date)
        #expect(object["binary"] as? Data == Data([1, 2]))
        #expect(object["uuid"] as? UUID == uuid)
        #expect(object["uri"] as? URL == uri)
        #expect(object["int16", as: AttributeValue.self] == .integer(-3))
        object["string", as: Grade.self] = .bad
        object["int16", as: Int16.self] = nil
        #expect(object["string"] as? String == "bad")
        #expect(object["int16"] == nil)
    }

    @Test func anOrderedRelationshipIsAnArrayAndKeepsItsOrder() throws {
        let shelf = try insert("Shelf")
        let books = try (1...3).map { try insert("Book", ["title": "\($0)"]) }
        shelf["books"] = [books[2], books[0], books[1]]
        #expect(shelf["books"] as? [ManagedObject] == [books[2], books[0], books[1]])
        #expect(shelf["books", as: [ManagedObject].self].count == 3)
        #expect(books[0]["shelf"] as? ManagedObject === shelf)
        let error = #expect(throws: QuireError.self) {
            try shelf.setValue(Set(books), forKey: "books")
        }
        #expect(error?.code == .invalidValue)
        #expect(shelf["books"] as? [ManagedObject] == [books[2], books[0], books[1]])
        shelf["books"] = nil
        #expect(shelf.objects("books").isEmpty)
    }

    @Test func aRelationshipTakesSetsArraysFetchedObjectsAndIdentifiers() throws {
        let (author, book) = try emma()
        let other = try insert("Book", ["title": "Persuasion"])
        author["books"] = Set([book, other])
        #expect(author.objects("books").count == 2)
        author["books"] = [other]
        #expect(book["author"] == nil)
        try context.save()
        author["books"] = try context.fetch(FetchRequest("Book"))
        #expect(author["books"] as? Set<ManagedObject> == [book, other])
        book["author"] = nil
        book["author"] = author.objectID
        #expect(book.object("author") === author)
    }

    @Test(arguments: [
        ("title", 5 as any Sendable), ("year", "1815"), ("year", 1 << 40),
        ("title", Date.distantPast...Date.now),
        ("author", "Jane"), ("tags", 3), ("tags", ["a"]),
    ])
    func whatAPropertyCannotHaveIsRefusedByName(_ key: String, _ value: any Sendable) throws {
        let book = try insert("Book", ["title": "Emma", "year": 1815])
        let error = #expect(throws: QuireError.self) { try book.setValue(value, forKey: key) }
        #expect(error?.code == .invalidValue)
        #expect(error?.subject.property == key)
        #expect(book["title"] as? String == "Emma")
        #expect(book["year"] as? Int == 1815)
    }

    @Test func anUnknownKeyIsAnErrorThatListsTheProperties() throws {
        let (_, book) = try emma()
        for body in [
            { _ = try book.value(forKey: "titel") }, { try book.setValue("x", forKey: "titel") },
            { _ = try book.value(forKeyPath: "author.nom") },
        ] as [() throws -> Void] {
            let error = #expect(throws: QuireError.self) { try body() }
            #expect(error?.code == .unknownKey)
        }
    }

    @Test func anOptionalWithinAnyIsTheValueOrNone() throws {
        let (_, book) = try emma()
        let (none, some): (String?, String?) = (nil, "Persuasion")
        try book.setValue(some as Any, forKey: "title")
        #expect(book["title"] as? String == "Persuasion")
        try book.setValue(none as Any, forKey: "title")
        #expect(book["title"] == nil)
    }

    // MARK: Key paths

    @Test func aKeyPathGoesThroughRelationships() throws {
        let (author, book) = try emma()
        let persuasion = try insert(
            "Book", ["title": "Persuasion", "year": 1817, "author": author])
        #expect(try book.value(forKeyPath: "title") as? String == "Emma")
        #expect(try book.value(forKeyPath: "author.name") as? String == "Jane Austen")
        #expect(try book.value(forKeyPath: "author") as? ManagedObject === author)
        #expect(try author.value(forKeyPath: "books") as? Set<ManagedObject> == [book, persuasion])
        let titles = try #require(try author.value(forKeyPath: "books.title") as? [String])
        #expect(titles.sorted() == ["Emma", "Persuasion"])
        let books = try #require(try book.value(forKeyPath: "author.books") as? [ManagedObject])
        #expect(Set(books) == [book, persuasion])
        let isbns = try #require(try author.value(forKeyPath: "books.isbn") as? [Any])
        #expect(isbns.isEmpty)
        let orphan = try insert("Book", ["title": "Beowulf"])
        #expect(try orphan.value(forKeyPath: "author.name") == nil)
    }

    @Test(arguments: [
        ("books.@count", 2 as any Sendable & Equatable), ("books.@sum.year", 3632),
        ("books.@min.year", 1815),
        ("books.@max.title", "Persuasion"), ("books.@avg.year", 1816.0),
    ])
    func collectionOperatorsMeanWhatTheyMeanInPredicates(
        _ keyPath: String, _ expected: any Sendable & Equatable
    ) throws {
        let (author, _) = try emma()
        _ = try insert("Book", ["title": "Persuasion", "year": 1817, "author": author])
        let value = try #require(try author.value(forKeyPath: keyPath))
        #expect("\(value)" == "\(expected)")
    }

    @Test func distinctValuesOfACollectionAreAnArray() throws {
        let (author, _) = try emma()
        _ = try insert("Book", ["title": "Emma", "year": 1816, "author": author])
        let titles = try author.value(forKeyPath: "books.@distinctUnionOfObjects.title")
        #expect(titles as? [String] == ["Emma"])
    }

    // MARK: Mutable to-many relationships

    @Test func aMutableSetChangesTheRelationshipAndItsInverse() throws {
        let (author, emma) = try emma()
        let persuasion = try insert("Book", ["title": "Persuasion"])
        let books = try author.mutableSetValue(forKey: "books")
        #expect(books.count == 1 && books.contains(emma) && !books.contains(persuasion))
        books.add(persuasion)
        books.add(persuasion)
        #expect(persuasion["author"] as? ManagedObject === author)
        #expect(books.allObjects == [emma, persuasion])
        for book in books { books.remove(book) }
        #expect(books.isEmpty)
        #expect(emma["author"] == nil && persuasion["author"] == nil)
        author.add(emma, to: "books")
        #expect(Array(books) == [emma])
        books.removeAllObjects()
        #expect(author.objects("books").isEmpty)
    }

    @Test func aMutableSetReadsContentsThatAreAFault() throws {
        let (author, emma) = try emma()
        try context.save()
        let other = stack.mainContext()
        let owner = try other.existingObject(with: author.objectID)
        let books = try owner.mutableSetValue(forKey: "books")
        #expect(books.count == 1)
        #expect(books.allObjects.map(\.objectID) == [emma.objectID])
        #expect(!books.contains(emma))
        #expect(books.contains(try other.existingObject(with: emma.objectID)))
    }

    @Test func aMutableOrderedSetChangesTheOrder() throws {
        let shelf = try insert("Shelf")
        let titled = try ["a", "b", "c", "d"].map { try insert("Book", ["title": $0]) }
        let books = try shelf.mutableOrderedSetValue(forKey: "books")
        func titles() -> String { books.map { $0["title"] as? String ?? "" }.joined() }
        books.add(titled[0])
        books.add(titled[1])
        books.insert(titled[2], at: 1)
        #expect(titles() == "acb" && titled[2]["shelf"] as? ManagedObject === shelf)
        books.moveObject(at: 0, to: 2)
        #expect(titles() == "cba" && books.firstIndex(of: titled[1]) == 1)
        books[1] = titled[3]
        #expect(titles() == "cda" && titled[1]["shelf"] == nil && books.last === titled[0])
        books.moveObjects(at: [1, 2], to: 0)
        #expect(titles() == "dac")
        books.removeObject(at: 0)
        books.remove(titled[2])
        books.remove(titled[1])
        #expect(titles() == "a" && books.contains(titled[0]) && !books.contains(titled[3]))
        #expect(shelf.objects("books") == [titled[0]])
        books.removeAllObjects()
        #expect(books.isEmpty && titled[0]["shelf"] == nil)
    }

    @Test func aMutableSetReportsAnObjectThatDoesNotExistAnyMore() throws {
        let (author, emma) = try emma()
        let other = try insert("Author", ["name": "Emily Brontë"])
        context.delete(emma)
        try other.mutableSetValue(forKey: "books").add(emma)
        #expect(context.lastFaultError?.code == .notFound)
        #expect(other.objects("books").isEmpty && author.objects("books").isEmpty)
    }

    @Test func mutableSetsOfOtherPropertiesAreErrors() throws {
        let (author, book) = try emma()
        let shelf = try insert("Shelf")
        func code(_ body: () throws -> Void) -> QuireError.Code? {
            #expect(throws: QuireError.self) { try body() }?.code
        }
        #expect(code { _ = try author.mutableSetValue(forKey: "boks") } == .unknownKey)
        #expect(code { _ = try author.mutableOrderedSetValue(forKey: "boks") } == .unknownKey)
        #expect(code { _ = try book.mutableSetValue(forKey: "title") } == .invalidValue)
        #expect(code { _ = try book.mutableSetValue(forKey: "author") } == .invalidValue)
        #expect(code { _ = try shelf.mutableSetValue(forKey: "books") } == .invalidValue)
        #expect(code { _ = try author.mutableOrderedSetValue(forKey: "books") } == .invalidValue)
    }
}
