import Foundation
import Quire
import QuireTestSupport
import Testing

/// Foundation evaluates a predicate itself; our tree in memory and in SQL must find the same objects.
@MainActor @Suite struct PredicateAgreementTests {
    private let stack: TestStack
    private let context: ManagedObjectContext
    private let books: [Book]
    private let authors: [Author]
    private let everything: [Everything]

    init() throws {
        let model = try ManagedObjectModel(
            classes: [Book.self, Translator.self, Everything.self])
        stack = try TestStack(model)
        context = stack.mainContext()
        // Always the same, so that every predicate finds some objects, but not all.
        var random = SeededRandom(seed: 1)
        authors = Self.makeAuthors(in: context)
        books = Self.makeBooks(by: authors, in: context, &random)
        everything = Self.makeEverything(in: context)
        try context.save()
    }

    private static let words = ["Emma", "émile", "Über uns", "", "100%", "emma 2", "EMMA"]

    private static func makeAuthors(in context: ManagedObjectContext) -> [Author] {
        var authors: [Author] = []
        for number in 0..<6 {
            let author = number == 0 ? Translator(context: context) : Author(context: context)
            (author as? Translator)?.language = "de"
            author.name = words[number % words.count]
            author.born = number % 3 == 0 ? nil : 1700 + number
            if number == 1 || number == 3 { author.spouse = authors[number - 1] }
            authors.append(author)
        }
        return authors
    }

    private static func makeBooks(
        by authors: [Author], in context: ManagedObjectContext, _ random: inout SeededRandom
    ) -> [Book] {
        let tags = ["old", "new", "émile"].map { name in
            let tag = Tag(context: context)
            tag.name = name
            return tag
        }
        return (0..<40).map { number in
            let book = Book(context: context)
            book.title =
                words.randomElement(using: &random).flatMap { $0.isEmpty ? nil : $0 } ?? "Emma"
            // Unique with the title.
            book.year = Int16(1700 + number * 7 % 40)
            book.isbn = number % 4 == 0 ? nil : "isbn \(number)"
            book.genre = [.novel, .letters, .history].randomElement(using: &random) ?? .novel
            book.rating = [nil, .poor, .good].randomElement(using: &random) ?? nil
            book.price = number % 5 == 0 ? nil : Price(cents: Int64(number * 10))
            // The last author has no books.
            if number % 6 != 0 { book.author = authors[number % 5] }
            book.tags = Set(tags.filter { _ in Bool.random(using: &random) })
            for part in 0..<(number % 3) {
                let chapter = Chapter(context: context)
                chapter.heading = "\(book.title) \(part)"
                chapter.book = book
            }
            return book
        }
    }

    private static func makeEverything(in context: ManagedObjectContext) -> [Everything] {
        (0..<24).map { number in
            let object = Everything(context: context)
            object.int = number - 12
            object.int16 = Int16(number % 5)
            object.int32 = Int32(number * number)
            object.int64 = Int64(number) << 33
            object.double = Double(number) / 4 - 2
            object.float = Float(number) / 3
            object.decimal = Decimal(number) / 8
            object.string = words[number % words.count]
            object.boolean = number % 3 == 0
            object.date = Date(timeIntervalSinceReferenceDate: Double(number) * 1000.5)
            object.data = Data(repeating: UInt8(number), count: number % 3)
            object.uuid = UUID()
            object.url = URL(string: "https://example.org/\(number)") ?? URL(filePath: "/")
            guard number % 2 == 0 else { return object }
            object.optionalInt = number / 2
            object.optionalDouble = Double(number)
            object.optionalString = words[number % words.count]
            object.optionalBoolean = number % 4 == 0
            object.optionalDate = object.date
            object.optionalDecimal = object.decimal
            return object
        }
    }

    // MARK: Agreement

    /// Compares what three ways find, saved and with unsaved changes; some objects, but not all, unless told.
    private func expect<Object: ManagedObject>(
        _ objects: [Object], _ predicate: Predicate<Object>, findsSome: Bool = true,
        at location: SourceLocation = #_sourceLocation
    ) throws {
        let query = try QueryPredicate(predicate)
        let comment: Comment = "\(query)"
        let expected = try objects.filter { try predicate.evaluate($0) }.map(\.objectID)
        let inMemory = try objects.filter { try query.evaluate(with: $0) }.map(\.objectID)
        #expect(inMemory == expected, comment, sourceLocation: location)
        let found = try context.fetch(Object.self, where: predicate).objectIDs
        #expect(Set(found) == Set(expected), comment, sourceLocation: location)
        #expect(found.count == expected.count, comment, sourceLocation: location)
        if findsSome {
            #expect(!expected.isEmpty, comment, sourceLocation: location)
            #expect(expected.count < objects.count, comment, sourceLocation: location)
        }
    }

    @Test func comparisonsAgree() throws {
        let year: Int16 = 1720
        let date = Date(timeIntervalSinceReferenceDate: 5002.5)
        let decimal = Decimal(9) / 8
        let uuid = everything[3].uuid
        let url = everything[4].url
        let data = Data([4])
        try expect(books, #Predicate { $0.year < year })
        try expect(books, #Predicate { $0.year >= year && $0.title == "Emma" })
        try expect(books, #Predicate { !($0.year >= year) || $0.title != "Emma" })
        try expect(everything, #Predicate { $0.date <= date })
        try expect(everything, #Predicate { $0.decimal > decimal })
        try expect(everything, #Predicate { $0.uuid == uuid })
        try expect(everything, #Predicate { $0.url != url })
        try expect(everything, #Predicate { $0.data == data })
        try expect(everything, #Predicate { $0.float > 1.5 })
        try expect(everything, #Predicate { $0.boolean })
        try expect(everything, #Predicate { !$0.boolean })
        try expect(everything, #Predicate { $0.string < "Z" })
    }

    @Test func missingValuesAgree() throws {
        let some: Int? = 3
        let none: Int? = nil
        let rating: Rating? = .good
        let price = Price(cents: 70)
        try expect(books, #Predicate { $0.isbn == nil })
        try expect(books, #Predicate { $0.isbn != nil })
        try expect(books, #Predicate { $0.rating == rating })
        try expect(books, #Predicate { $0.rating != rating })
        try expect(books, #Predicate { $0.price == price })
        try expect(everything, #Predicate { $0.optionalInt == some })
        try expect(everything, #Predicate { $0.optionalInt != some })
        try expect(everything, #Predicate { $0.optionalInt == none })
        try expect(everything, #Predicate { $0.optionalInt.flatMap { $0 > 3 } ?? false })
        try expect(everything, #Predicate { $0.optionalInt.flatMap { $0 > 3 } ?? true })
        try expect(everything, #Predicate { $0.optionalInt.flatMap { $0 > 3 } != true })
        try expect(everything, #Predicate { $0.optionalInt.flatMap { $0 > 3 } == false })
        try expect(everything, #Predicate { $0.optionalInt.flatMap { !($0 > 3) } ?? false })
        try expect(everything, #Predicate { ($0.optionalInt ?? 0) > 3 })
        try expect(everything, #Predicate { ($0.optionalInt ?? 9) > 3 })
        try expect(everything, #Predicate { ($0.optionalInt ?? $0.int) > 3 })
        try expect(everything, #Predicate { ($0.optionalInt ?? 0) > $0.int })
        try expect(everything, #Predicate { $0.optionalBoolean ?? false })
        try expect(everything, #Predicate { $0.optionalBoolean ?? true })
        try expect(everything, #Predicate { $0.optionalBoolean == false })
        try expect(everything, #Predicate { $0.optionalBoolean != true })
        try expect(everything, #Predicate { !($0.optionalBoolean ?? false) })
        try expect(everything, #Predicate { $0.optionalString?.isEmpty == true })
        try expect(everything, #Predicate { $0.optionalInt.flatMap { $0 + 1 } == 4 })
    }

    @Test func chainsAgree() throws {
        try expect(books, #Predicate { $0.author?.name == "Emma" })
        try expect(books, #Predicate { $0.author?.name != "Emma" })
        try expect(books, #Predicate { $0.author == nil })
        try expect(books, #Predicate { $0.author?.born == nil })
        try expect(books, #Predicate { $0.author?.spouse?.name == nil })
        try expect(books, #Predicate { $0.author?.spouse != nil })
        try expect(books, #Predicate { ($0.author?.born ?? 0) > 1701 })
        try expect(books, #Predicate { $0.author?.name.contains("m") == true })
        try expect(books, #Predicate { $0.author?.name.contains("m") != true })
        try expect(books, #Predicate { $0.author?.name.contains("m") == false })
        try expect(books, #Predicate { $0.author?.name.contains("m") == nil })
        try expect(books, #Predicate { if let a = $0.author { a.name != "Emma" } else { false } })
        try expect(books, #Predicate { if let a = $0.author { a.name != "Emma" } else { true } })
        let id = authors[1].objectID
        let ids = Set(authors[1...3].map(\.objectID))
        try expect(books, #Predicate { $0.author?.objectID == id })
        try expect(books, #Predicate { $0.author?.objectID != id })
        try expect(authors, #Predicate { $0.objectID == id })
        try expect(authors, #Predicate { ids.contains($0.objectID) })
        try expect(
            books, #Predicate { $0.author.flatMap { ids.contains($0.objectID) } ?? false })
        try expect(authors, #Predicate { $0.spouse == nil })
    }

    @Test func textsAgree() throws {
        let same = ComparisonResult.orderedSame
        let ascending = ComparisonResult.orderedAscending
        let words = ["Emma", "100%"]
        try expect(books, #Predicate { $0.title.contains("mm") })
        try expect(books, #Predicate { $0.title.contains("") }, findsSome: false)
        try expect(books, #Predicate { $0.title.starts(with: "E") })
        try expect(books, #Predicate { $0.title.starts(with: "") }, findsSome: false)
        try expect(everything, #Predicate { $0.string.isEmpty })
        try expect(books, #Predicate { $0.title.localizedStandardContains("EM") })
        try expect(books, #Predicate { $0.title.caseInsensitiveCompare("emma") == same })
        try expect(books, #Predicate { $0.title.caseInsensitiveCompare("emma") == ascending })
        try expect(books, #Predicate { "Emma and 100%".contains($0.title) })
        try expect(books, #Predicate { $0.title.utf16.count > 4 })
        try expect(books, #Predicate { $0.title.contains(/m+a$/) })
        try expect(books, #Predicate { words.contains($0.title) })
        try expect(books, #Predicate { book in words.contains { book.title.starts(with: $0) } })
        try expect(
            everything, #Predicate { $0.optionalString?.caseInsensitiveCompare("emma") != same })
    }

    @Test func rangesAndArithmeticAgree() throws {
        let years: Range<Int16> = 1705..<1720
        let from: PartialRangeFrom<Int16> = 1720...
        try expect(books, #Predicate { years.contains($0.year) })
        try expect(books, #Predicate { from.contains($0.year) })
        try expect(books, #Predicate { (1705...1720).contains($0.year) })
        try expect(
            everything, #Predicate { ($0.optionalInt.flatMap { (2...5).contains($0) }) == true })
        try expect(everything, #Predicate { $0.int + 3 > 5 })
        try expect(everything, #Predicate { $0.int * 2 - 1 > 5 })
        try expect(everything, #Predicate { $0.int / 3 == -1 })
        try expect(everything, #Predicate { $0.int % 3 == -2 })
        try expect(everything, #Predicate { -$0.int > 3 })
        try expect(everything, #Predicate { $0.double / 2 < -0.25 })
        try expect(everything, #Predicate { $0.double > -1.5 })
        try expect(everything, #Predicate { $0.date.timeIntervalSinceReferenceDate > 5000 })
        try expect(everything, #Predicate { ($0.boolean ? $0.double : 0) == $0.double })
        try expect(everything, #Predicate { $0.boolean ? $0.int > 3 : $0.int < 0 })
        try expect(everything, #Predicate { ($0.int > 3) == $0.boolean })
    }

    @Test func toManyRelationshipsAgree() throws {
        try expect(authors, #Predicate { $0.books.contains { $0.year < 1702 } })
        try expect(authors, #Predicate { $0.books.allSatisfy { $0.year < 1735 } })
        try expect(authors, #Predicate { $0.books.isEmpty })
        try expect(authors, #Predicate { !$0.books.isEmpty })
        try expect(authors, #Predicate { $0.books.count > 6 })
        try expect(authors, #Predicate { $0.books.contains { $0.isbn == nil } })
        try expect(authors, #Predicate { $0.books.allSatisfy { $0.isbn != "isbn 1" } })
        try expect(authors, #Predicate { $0.books.filter { $0.year > 1720 }.count > 3 })
        try expect(authors, #Predicate { $0.books.filter { $0.year > 1737 }.isEmpty })
        try expect(books, #Predicate { $0.tags.contains { $0.name == "old" } })
        try expect(books, #Predicate { $0.tags.allSatisfy { $0.name == "old" } })
        try expect(books, #Predicate { $0.tags.count == 2 })
        try expect(books, #Predicate { $0.chapters.isEmpty })
        try expect(books, #Predicate { $0.author?.books.isEmpty == false })
        try expect(books, #Predicate { ($0.author?.books.count ?? 0) == 0 })
        try expect(books, #Predicate { $0.author?.books.allSatisfy { $0.year < 1739 } == true })
        try expect(books, #Predicate { $0.author?.books.contains { $0.year < 1702 } ?? true })
        try expect(
            authors, #Predicate { $0.books.contains { $0.tags.contains { $0.name == "new" } } })
        try expect(
            authors, #Predicate { $0.books.allSatisfy { $0.tags.allSatisfy { $0.name < "o" } } })
    }

    @Test func conditionsOnElementsAgree() throws {
        let tag = try #require(books.flatMap(\.tags).first)
        let id = tag.objectID
        try expect(books, #Predicate { $0.tags.contains { $0.objectID == id } })
        try expect(
            authors, #Predicate { $0.books.contains { $0.year > 1730 && $0.title == "Emma" } })
        try expect(authors, #Predicate { a in a.books.contains { $0.title == a.name } })
        try expect(authors, #Predicate { a in a.books.allSatisfy { $0.title != a.name } })
        try expect(
            books, #Predicate { b in b.tags.contains { $0.name == b.title } })
        try expect(
            authors,
            #Predicate { a in a.books.contains { b in b.tags.contains { $0.name == b.title } } })
        try expect(
            books, #Predicate { b in b.chapters.contains { $0.heading != b.title } })
        try expect(
            authors, #Predicate { a in a.books.filter { $0.tags.count > 1 }.count > 3 })
        try expect(
            books, #Predicate { b in b.author?.books.contains { $0.year > b.year } ?? false })
    }

    @Test func orderedElementsAgree() throws {
        try expect(books, #Predicate { $0.chapters.first?.heading == "Emma 0" })
        try expect(books, #Predicate { $0.chapters.last?.heading == "émile 1" })
    }

    @Test func unsavedChangesAgree() throws {
        books[0].title = "Emma"
        books[0].author = nil
        books[1].author = authors[5]
        context.delete(books[2])
        let book = Book(context: context)
        book.title = "Emma"
        book.author = authors[4]
        let books = books.filter { !$0.isDeleted } + [book]
        try expect(books, #Predicate { $0.title == "Emma" })
        try expect(books, #Predicate { $0.author == nil })
        try expect(books, #Predicate { $0.author?.books.contains { $0.title == "Emma" } ?? false })
        try expect(authors, #Predicate { $0.books.isEmpty }, findsSome: false)
        try expect(authors, #Predicate { $0.books.filter { $0.title == "Emma" }.count > 1 })
    }

    // MARK: Order

    private func expect<Object: ManagedObject>(
        _ objects: [Object], sortedBy descriptors: [SortDescriptor<Object>],
        at location: SourceLocation = #_sourceLocation
    ) throws {
        let expected = objects.sorted(using: descriptors)
        let found = try context.fetch(Object.self, sortBy: descriptors)
        #expect(found.map(\.objectID) == expected.map(\.objectID), sourceLocation: location)
    }

    @Test func sortDescriptorsAgree() throws {
        try expect(books, sortedBy: [SortDescriptor(\.year), SortDescriptor(\.title)])
        try expect(books, sortedBy: [SortDescriptor(\.isbn, order: .reverse)])
        try expect(
            books,
            sortedBy: [SortDescriptor(\.author?.name), SortDescriptor(\.title, order: .reverse)])
        try expect(books, sortedBy: [SortDescriptor(\.title, comparator: .lexical)])
        try expect(everything, sortedBy: [SortDescriptor(\.optionalDate), SortDescriptor(\.int)])
        try expect(everything, sortedBy: [SortDescriptor(\.optionalDouble, order: .reverse)])
    }

    @Test func requestsTakeAllTheRest() throws {
        var request = try FetchRequest<Book>(
            predicate: #Predicate { $0.year < 1710 }, sortBy: [SortDescriptor(\.year)])
        request.fetchLimit = 2
        #expect(try context.fetch(request).map(\.year) == [1700, 1701])
        #expect(try context.count(for: request) == 2)
    }

    @Test func otherComparatorsAreErrors() throws {
        let backwards = SortDescriptor(
            \Book.title, comparator: String.StandardComparator.lexical, order: .reverse)
        #expect(try SortOrdering(backwards) == SortOrdering("title", ascending: false))
        #expect {
            try SortOrdering(SortDescriptor(\Book.label))
        } throws: { error in
            (error as? QuireError)?.code == .unsupported
                && "\(error)".contains("that is not in the model")
        }
    }
}
