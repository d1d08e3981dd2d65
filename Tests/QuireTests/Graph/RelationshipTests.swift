import Quire
import QuireTestSupport
import Testing

@MainActor @Suite struct RelationshipTests {
    let stack: TestStack
    let context: ManagedObjectContext

    init() throws {
        stack = try TestStack()
        context = stack.mainContext()
    }

    private func new(_ entity: String) throws -> ManagedObject {
        try context.insertObject(entityName: entity)
    }

    @Test func settingToOneFillsToManyInverse() throws {
        let (book, author) = (try new("Book"), try new("Author"))
        book["author"] = author
        #expect(author.objects("books") == [book])
        book["author"] = nil
        #expect(author.objects("books").isEmpty)
    }

    @Test func movingToAnotherOwnerLeavesTheFirst() throws {
        let (book, first, second) = (try new("Book"), try new("Author"), try new("Author"))
        first.add(book, to: "books")
        second.add(book, to: "books")
        #expect(first.objects("books").isEmpty)
        #expect(second.objects("books") == [book])
        #expect(book.object("author") === second)
    }

    @Test func oneToOneStealsThePartner() throws {
        let (one, two, cover) = (try new("Book"), try new("Book"), try new("Cover"))
        one["cover"] = cover
        two["cover"] = cover
        #expect(one.object("cover") == nil)
        #expect(cover.object("book") === two)
    }

    @Test func reflexiveToOneIsSymmetric() throws {
        let (anna, ben, cleo) = (try new("Person"), try new("Person"), try new("Person"))
        anna["spouse"] = ben
        #expect(ben.object("spouse") === anna)
        ben["spouse"] = cleo
        #expect(anna.object("spouse") == nil)
        #expect(cleo.object("spouse") === ben)
    }

    @Test func manyToManyFillsBothSides() throws {
        let (book, tag) = (try new("Book"), try new("Tag"))
        book.add(tag, to: "tags")
        book.add(tag, to: "tags")
        #expect(tag.objects("books") == [book])
        tag.remove(book, from: "books")
        #expect(book.objects("tags").isEmpty)
    }

    @Test func selfManyToManyKeepsDirections() throws {
        let (first, second) = (try new("Book"), try new("Book"))
        first.add(second, to: "sequels")
        #expect(second.objects("prequels") == [first])
        #expect(second.objects("sequels").isEmpty)
    }

    @Test func setObjectsReplacesAll() throws {
        let author = try new("Author")
        let books = [try new("Book"), try new("Book"), try new("Book")]
        author["books"] = [books[0], books[1]]
        author["books"] = [books[1], books[2]]
        #expect(books[0].object("author") == nil)
        #expect(Set(author.objects("books")) == [books[1], books[2]])
    }

    @Test(arguments: ["one-to-many", "many-to-many"])
    func orderSurvivesSaving(kind: String) throws {
        let (owner, member, key) =
            kind == "one-to-many" ? ("Shelf", "Book", "books") : ("Playlist", "Song", "songs")
        let shelf = try new(owner)
        let books = try (0..<5).map { index in
            let book = try new(member)
            book["title"] = "\(index)"
            return book
        }
        for book in books { shelf.add(book, to: key) }
        try context.save()
        func storedTitles() throws -> [String] {
            let other = stack.mainContext()
            return other.object(with: shelf.objectID).objects(key).map {
                $0["title", as: String.self] ?? ""
            }
        }
        #expect(try storedTitles() == ["0", "1", "2", "3", "4"])
        shelf.insert(books[4], into: key, at: 0)
        shelf.insert(books[1], into: key, at: 3)
        try context.save()
        #expect(try storedTitles() == ["4", "0", "2", "1", "3"])
        shelf.remove(books[2], from: key)
        try context.save()
        #expect(try storedTitles() == ["4", "0", "1", "3"])
        for round in 0..<30 {
            shelf.insert(books[round % 2 == 0 ? 3 : 1], into: key, at: 1)
            try context.save()
        }
        #expect(try storedTitles() == ["4", "1", "3", "0"])
    }

    @Test func addingDoesNotReadTheOtherSide() throws {
        let author = try new("Author")
        author["name"] = "A"
        author.add(try titled("one"), to: "books")
        try context.save()
        let id = author.objectID
        let other = stack.mainContext()
        let book = try other.insertObject(entityName: "Book")
        book["title"] = "two"
        book["author"] = other.object(with: id)
        #expect(other.object(with: id).isFault)
        try other.save()
        #expect(other.object(with: id).objects("books").count == 2)
    }

    @Test func relationshipWithoutInverseIsKept() throws {
        let shelf = try new("Shelf")
        let tag = try new("Tag")
        shelf.add(tag, to: "favourites")
        try context.save()
        let other = stack.mainContext()
        #expect(other.object(with: shelf.objectID).objectIDs("favourites") == [tag.objectID])
        other.object(with: shelf.objectID)
            .remove(other.object(with: tag.objectID), from: "favourites")
        try other.save()
        let third = stack.mainContext()
        #expect(third.object(with: shelf.objectID).objectIDs("favourites").isEmpty)
    }

    @Test func objectsOfOtherEntitiesAreRefused() throws {
        let (book, tag) = (try new("Book"), try new("Tag"))
        let author = try #require(book.resolvedEntity.relationship(named: "author"))
        #expect(throws: QuireError.self) { try book.setObject(tag, through: author) }
        let stranger = try stack.mainContext().insertObject(entityName: "Author")
        #expect(throws: QuireError.self) { try book.setObject(stranger, through: author) }
        #expect(book.object("author") == nil)
    }

    @Test func polymorphicReferencesKeepTheirEntity() throws {
        let (boss, worker) = (try new("Manager"), try new("Employee"))
        worker["manager"] = boss
        worker["spouse"] = boss
        try context.save()
        let other = stack.mainContext()
        let read = other.object(with: worker.objectID)
        #expect(read.object("spouse")?.resolvedEntity.name == "Manager")
        #expect(read.object("manager")?.objects("reports") == [read])
    }

    private func titled(_ title: String) throws -> ManagedObject {
        let book = try new("Book")
        book["title"] = title
        return book
    }
}
