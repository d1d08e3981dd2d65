import Foundation
import Quire
import QuireTestSupport
import Testing

@MainActor @Suite struct TypedObjectTests {
    static let model = try? ManagedObjectModel(classes: [Book.self, Translator.self])

    private func stack() throws -> TestStack { try TestStack(try #require(Self.model)) }

    // MARK: Observation

    @Test func accessorsAreFollowed() throws {
        let stack = try stack()
        let context = stack.mainContext()
        defer { withExtendedLifetime((stack, context)) {} }
        context.isObservable = true
        let book = Book(context: context)
        let author = Author(context: context)
        let seen: [Watch] = [
            Watch { _ = book.label }, Watch { _ = book.genre }, Watch { _ = book.price },
            Watch { _ = book.isSelected }, Watch { _ = book.author }, Watch { _ = author.books },
        ]
        let unseen: [Watch] = [
            Watch { _ = book.isbn }, Watch { _ = book.chapters }, Watch { _ = author.name },
        ]
        book.year = 1815
        book.genre = .letters
        book.price = Price(cents: 1)
        book.isSelected = true
        book.author = author
        #expect(seen.filter { !$0.sawChange }.isEmpty)
        #expect(unseen.filter { !$0.sawNothing }.isEmpty)
        let chapters = Watch { _ = book.chapters }
        Chapter(context: context).book = book
        #expect(chapters.sawChange)
    }

    // MARK: Attributes

    @Test func everyTypeIsReadAsItWasWritten() throws {
        let stack = try TestStack(ManagedObjectModel(classes: [Everything.self]))
        let context = stack.mainContext()
        let object = Everything(context: context)
        let uuid = UUID()
        let url = try #require(URL(string: "https://example.org/a?b#c"))
        let date = Date(timeIntervalSinceReferenceDate: 123_456.75)
        func fill(_ object: Everything) {
            object.int16 = -3
            object.int32 = .max
            object.int64 = .min
            object.int = 1 << 40
            object.double = 0.1
            object.float = 0.1
            object.decimal = 12.345
            object.string = "é🎈"
            object.boolean = true
            object.date = date
            object.data = Data([1, 2, 3])
            object.uuid = uuid
            object.url = url
        }
        func check(_ object: Everything) {
            #expect(object.int16 == -3)
            #expect(object.int32 == .max)
            #expect(object.int64 == .min)
            #expect(object.int == 1 << 40)
            #expect(object.double == 0.1)
            #expect(object.float == 0.1)
            #expect(object.decimal == 12.345)
            #expect(object.string == "é🎈")
            #expect(object.boolean)
            #expect(object.date == date)
            #expect(object.data == Data([1, 2, 3]))
            #expect(object.uuid == uuid)
            #expect(object.url == url)
        }
        fill(object)
        check(object)
        try context.save()
        let other = stack.mainContext()
        defer { withExtendedLifetime(other) {} }
        let stored = try #require(other.fetch(Everything.fetchRequest()).first)
        check(stored)
        #expect(stored.optionalString == nil)
    }

    @Test func optionalAttributesComeAndGo() throws {
        let stack = try TestStack(ManagedObjectModel(classes: [Everything.self]))
        let context = stack.mainContext()
        defer { withExtendedLifetime(context) {} }
        let object = Everything(context: context)
        func set(
            _ int: Int?, _ double: Double?, _ string: String?, _ boolean: Bool?, _ date: Date?,
            _ data: Data?, _ uuid: UUID?, _ url: URL?
        ) {
            object.optionalInt16 = int.map(Int16.init)
            object.optionalInt32 = int.map(Int32.init)
            object.optionalInt64 = int.map(Int64.init)
            object.optionalInt = int
            object.optionalDouble = double
            object.optionalFloat = double.map(Float.init)
            object.optionalDecimal = double.map { Decimal($0) }
            object.optionalString = string
            object.optionalBoolean = boolean
            object.optionalDate = date
            object.optionalData = data
            object.optionalUUID = uuid
            object.optionalURL = url
            #expect(object.optionalInt16 == int.map(Int16.init))
            #expect(object.optionalInt32 == int.map(Int32.init))
            #expect(object.optionalInt64 == int.map(Int64.init))
            #expect(object.optionalInt == int)
            #expect(object.optionalDouble == double)
            #expect(object.optionalFloat == double.map(Float.init))
            #expect(object.optionalDecimal == double.map { Decimal($0) })
            #expect(object.optionalString == string)
            #expect(object.optionalBoolean == boolean)
            #expect(object.optionalDate == date)
            #expect(object.optionalData == data)
            #expect(object.optionalUUID == uuid)
            #expect(object.optionalURL == url)
        }
        set(
            7, 1.5, "x", false, .distantPast, Data([1]), UUID(),
            URL(filePath: "/shelf"))
        set(nil, nil, nil, nil, nil, nil, nil, nil)
    }

    @Test func missingValueIsNeutral() throws {
        let stack = try TestStack(ManagedObjectModel(classes: [Everything.self]))
        let context = stack.mainContext()
        defer { withExtendedLifetime(context) {} }
        let object = Everything(context: context)
        #expect(object.int16 == 0 && object.int32 == 0 && object.int64 == 0 && object.int == 0)
        #expect(object.double == 0 && object.float == 0 && object.decimal == 0)
        #expect(object.string == "" && !object.boolean && object.data == Data())
        #expect(object.date == Date(timeIntervalSinceReferenceDate: 0))
        #expect(object.uuid.uuidString == "00000000-0000-0000-0000-000000000000")
        #expect(object.url.absoluteString == "about:blank")
    }

    @Test func missingValueIsTheDefaultIfThereIsOne() throws {
        let stack = try stack()
        let context = stack.mainContext()
        defer { withExtendedLifetime((stack, context)) {} }
        let book = Book(context: context)
        #expect(book.year == 1800)
        book["year"] = nil
        #expect(book.year == 1800)
        book["genre"] = nil
        #expect(book.genre == .novel)
    }

    @Test func rawValueThatIsNoCaseIsTheDefaultOrMissing() throws {
        let stack = try stack()
        let context = stack.mainContext()
        defer { withExtendedLifetime((stack, context)) {} }
        let book = Book(context: context)
        book.genre = .history
        #expect(book["genre", as: AttributeValue.self] == "history")
        book["genre"] = "sculpture"
        #expect(book.genre == .novel)
        book.rating = .good
        #expect(book["rating", as: AttributeValue.self] == 3)
        book["rating"] = 9
        #expect(book.rating == nil)
        book.rating = nil
        #expect(book["rating", as: AttributeValue.self] == .null)
    }

    @Test func typesOfOnesOwnAreAttributes() throws {
        let stack = try stack()
        let context = stack.mainContext()
        defer { withExtendedLifetime((stack, context)) {} }
        let book = Book(context: context)
        book.price = Price(cents: 995)
        #expect(book["price", as: AttributeValue.self] == 995)
        #expect(book.price == Price(cents: 995))
    }

    @Test func transientAttributeMayBeReadBeforeItIsSet() throws {
        let stack = try stack()
        let context = stack.mainContext()
        let author = Author(context: context)
        author.name = "Jane Austen"
        author.note = "mine"
        try context.save()
        #expect(author.note == "mine")
        let other = stack.mainContext()
        defer { withExtendedLifetime(other) {} }
        let stored = try #require(other.fetch(Author.fetchRequest()).first)
        #expect(stored.note == "")
        #expect(
            stored.resolvedEntity.slot(named: "note").map { stored.string(at: $0) } == .some(nil))
        stored.note = "yours"
        #expect(stored.note == "yours")
    }

    @Test func externalDataIsRead() throws {
        let stack = try stack()
        let context = stack.mainContext()
        let book = Book(context: context)
        book.title = "Emma"
        book.scan = Data(repeating: 7, count: 1 << 20)
        try context.save()
        let other = stack.mainContext()
        defer { withExtendedLifetime(other) {} }
        let stored = try #require(other.fetch(Book.fetchRequest()).first)
        #expect(stored.scan == Data(repeating: 7, count: 1 << 20))
    }

    // MARK: Relationships

    @Test func relationshipsKeepTheirInverses() throws {
        let stack = try stack()
        let context = stack.mainContext()
        defer { withExtendedLifetime((stack, context)) {} }
        let book = Book(context: context)
        let author = Author(context: context)
        let (first, second) = (Tag(context: context), Tag(context: context))
        let (one, two) = (Chapter(context: context), Chapter(context: context))
        book.author = author
        #expect(author.books == [book])
        book.tags = [first, second]
        #expect(first.books == [book] && second.books == [book])
        book.tags.remove(first)
        #expect(first.books.isEmpty && book.tags == [second])
        book.chapters = [two, one]
        #expect(book.chapters == [two, one] && one.book === book)
        book.chapters.swapAt(0, 1)
        #expect(book.chapters == [one, two])
        author.books = []
        #expect(book.author == nil)
        author.spouse = author
        #expect(author.spouse === author)
    }

    @Test func toManyRelationshipsChangeByKeyPath() throws {
        let stack = try stack()
        let context = stack.mainContext()
        defer { withExtendedLifetime((stack, context)) {} }
        let book = Book(context: context)
        let tag = Tag(context: context)
        book.add(tag, to: \.tags)
        #expect(tag.books == [book])
        book.remove(tag, from: \.tags)
        #expect(tag.books.isEmpty)
        let chapters = (0..<3).map { _ in Chapter(context: context) }
        for chapter in chapters { book.add(chapter, to: \.chapters) }
        book.insert(chapters[2], into: \.chapters, at: 0)
        book.remove(chapters[0], from: \.chapters)
        #expect(book.chapters == [chapters[2], chapters[1]])
    }

    @Test func relationshipsAreReadFromTheStore() throws {
        let stack = try stack()
        let context = stack.mainContext()
        let book = Book(context: context)
        book.title = "Emma"
        book.author = Author(context: context)
        book.author?.name = "Jane Austen"
        for heading in ["One", "Two", "Three"] {
            let chapter = Chapter(context: context)
            chapter.heading = heading
            book.chapters.append(chapter)
        }
        try context.save()
        let other = stack.mainContext()
        defer { withExtendedLifetime(other) {} }
        let stored = try #require(other.fetch(Book.fetchRequest()).first)
        #expect(stored.author?.name == "Jane Austen")
        #expect(stored.author?.books == [stored])
        #expect(stored.chapters.map(\.heading) == ["One", "Two", "Three"])
    }

    // MARK: Objects and requests

    @Test func fetchFindsObjectsOfSubclasses() throws {
        let stack = try stack()
        let context = stack.mainContext()
        Author(context: context).name = "Jane Austen"
        let translator = Translator(context: context)
        translator.name = "Ada"
        translator.language = "en"
        translator.born = 1900
        try context.save()
        let fresh = stack.mainContext()
        var request = Person.fetchRequest()
        request.sortOrderings = [SortOrdering(\Person.name)]
        let people: FetchedObjects<Person> = try fresh.fetch(request)
        #expect(people.map(\.name) == ["Ada", "Jane Austen"])
        #expect((people[0] as? Translator)?.language == "en")
        #expect(people[0].born == 1900)
        #expect(type(of: people[1]) == Author.self)
        #expect(try fresh.count(for: Author.fetchRequest()) == 2)
        request.fetchLimit = 1
        #expect(try fresh.fetch(request).count == 1)
        #expect(try fresh.fetch(request).objectIDs == [people[0].objectID])
    }

    @Test func typedAndUntypedUseAreOfTheSameObjects() throws {
        let stack = try stack()
        let context = stack.mainContext()
        let book = try #require(context.insertObject(entityName: "Book") as? Book)
        book["title"] = "Emma"
        #expect(book.title == "Emma")
        book.year = 1815
        #expect(book["year", as: Int64.self] == 1815)
        try context.save()
        let typed = try #require(context.fetch(Book.fetchRequest()).first)
        let untyped = try #require(context.fetch(FetchRequest("Book")).first)
        #expect(typed === untyped && typed === book)
        book.readings = 3
        #expect(typed.readings == 3)
    }

    @Test func requiredAttributesAreValidated() throws {
        let stack = try stack()
        let context = stack.mainContext()
        defer { withExtendedLifetime((stack, context)) {} }
        let book = Book(context: context)
        #expect(throws: QuireError.self) { try context.save() }
        book.title = String(repeating: "x", count: 201)
        #expect(throws: QuireError.self) { try context.save() }
        book.title = "Emma"
        book.year = 3001
        #expect(throws: QuireError.self) { try context.save() }
        book.year = 1815
        try context.save()
    }

    @Test func subclassWithoutADeclarationInheritsOne() throws {
        final class Novel: Chapter2 {}
        let model = try ManagedObjectModel(classes: [Novel.self])
        #expect(model.entities.map(\.name) == ["Chapter2"])
        let stack = try TestStack(model)
        let context = stack.mainContext()
        defer { withExtendedLifetime((stack, context)) {} }
        let novel = Novel(context: context)
        novel.heading = "One"
        #expect(novel["heading", as: AttributeValue.self] == "One")
        #expect(try context.fetch(Novel.fetchRequest()).map(\.heading) == ["One"])
    }

    @Test func requestForAClassThatIsNotBoundThrows() throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        defer { withExtendedLifetime((stack, context)) {} }
        let error = #expect(throws: QuireError.self) { try context.fetch(Book.fetchRequest()) }
        #expect(error?.code == .unknownEntity)
        #expect(error?.message.contains("whose class is Book") == true)
    }
}
