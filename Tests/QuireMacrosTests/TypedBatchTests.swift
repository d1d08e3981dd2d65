import Foundation
import Quire
import QuireTestSupport
import Testing

/// Batch requests by class and key path.
@MainActor @Suite struct TypedBatchTests {
    private let stack: TestStack
    private let context: ManagedObjectContext
    private let austen: Author

    init() throws {
        stack = try TestStack(try #require(TypedObjectTests.model))
        context = stack.mainContext()
        austen = Author(context: context)
        austen.name = "Austen"
        try context.save()
    }

    private func insert(_ books: (title: String, year: Int16)...) throws {
        let request = try BatchInsertRequest(Book.self, objects: books) { row, book in
            try row.set(\.title, to: book.title)
            try row.set(\.year, to: book.year)
        }
        #expect(try context.execute(request).count == books.count)
    }

    private var books: [Book] {
        get throws { Array(try context.fetch(Book.self, sortBy: [SortDescriptor(\.title)])) }
    }

    // MARK: Insertions

    @Test func rowsHaveValuesOfEveryKind() throws {
        let request = try BatchInsertRequest(Book.self, objects: ["Emma", "Persuasion"]) {
            try $0.set(\.title, to: $1)
            try $0.set(\.isbn, to: $1 == "Emma" ? "1" : nil)
            try $0.set(\.genre, to: .letters)
            try $0.set(\.rating, to: .good)
            try $0.set(\.price, to: Price(cents: 7))
            try $0.set(\.author, to: austen)
        }
        #expect(try context.execute(request).count == 2)
        let books = try books
        #expect(books.map(\.title) == ["Emma", "Persuasion"])
        #expect(books.map(\.isbn) == ["1", nil])
        #expect(books.allSatisfy { $0.genre == .letters && $0.rating == .good })
        #expect(books.allSatisfy { $0.price == Price(cents: 7) && $0.author === austen })
        // What was not set has its default value.
        #expect(books.allSatisfy { $0.year == 1800 })
    }

    @Test func aHandlerMakesRowsOneByOne() throws {
        var titles = ["Emma", "Persuasion"].makeIterator()
        let id = austen.objectID
        let request = try BatchInsertRequest(Book.self) { row in
            guard let title = titles.next() else { return true }
            try row.set(\.title, to: title)
            try row.set(\.author, to: id)
            return false
        }
        #expect(try context.execute(request).count == 2)
        #expect(try books.map(\.title) == ["Emma", "Persuasion"])
        #expect(try books.allSatisfy { $0.author === austen })
    }

    @Test func aKeyThatTheClassRenamesIsTheModels() throws {
        let request = try BatchInsertRequest(Author.self, objects: [1775]) {
            try $0.set(\.name, to: "Jane")
            try $0.set(\.born, to: $1)
        }
        try context.execute(request)
        #expect(try context.count(for: Author.self, where: #Predicate { $0.born == 1775 }) == 1)
    }

    // MARK: Updates

    @Test func valuesAndExpressionsAreSetWhereThePredicateHolds() throws {
        try insert(("Candide", 1759), ("Emma", 1815))
        var request = try BatchUpdateRequest(Book.self, where: #Predicate { $0.year < 1800 })
        try request.set(\Book.genre, to: .history)
        try request.set(\Book.rating, to: .poor)
        try request.set(\Book.isbn, to: nil)
        try request.set(\Book.year, to: QueryExpression(format: "year + 100"))
        #expect(try context.execute(request).count == 1)
        #expect(try books.map(\.year) == [1859, 1815])
        #expect(try books.map(\.genre) == [.history, .novel])
        #expect(try books.map(\.rating) == [.poor, nil])
        var all = try BatchUpdateRequest(Book.self)
        try all.set(\Book.year, to: 1900)
        #expect(all.propertiesToUpdate as? [String: Int] == ["year": 1900])
        #expect(try context.execute(all).count == 2)
    }

    // MARK: Deletions

    @Test func whatAPredicateFindsIsDeleted() throws {
        try insert(("Candide", 1759), ("Emma", 1815), ("Zadig", 1747))
        let request = try BatchDeleteRequest(Book.self, where: #Predicate { $0.year < 1800 })
        #expect(try context.execute(request).count == 2)
        #expect(try books.map(\.title) == ["Emma"])
        #expect(try context.execute(BatchDeleteRequest(Book.self)).count == 1)
    }

    // MARK: Errors

    private func expect(_ code: QuireError.Code, _ body: () throws -> Void) {
        let error = #expect(throws: QuireError.self) { try body() }
        #expect(error?.code == code)
    }

    @Test func whatIsNoPropertyOfTheModelCannotBeSet() throws {
        var update = try BatchUpdateRequest(Book.self)
        expect(.unknownKey) { try update.set(\Book.readings, to: 1) }
        expect(.unknownKey) { try update.set(\Book.label, to: "x") }
        expect(.unknownKey) {
            try update.set(\Book.title.count, to: QueryExpression(format: "year"))
        }
        expect(.unknownKey) {
            _ = try BatchInsertRequest(Book.self, objects: [1]) { try $0.set(\.readings, to: $1) }
        }
        #expect(update.propertiesToUpdate.isEmpty)
    }

    @Test func aToManyRelationshipCannotBeSet() throws {
        expect(.invalidValue) {
            _ = try BatchInsertRequest(Author.self, objects: [1]) { row, _ in
                try row.set(\.books, to: [])
            }
        }
    }

    @Test func anErrorOfAHandlerInsertsNothing() throws {
        var count = 0
        let request = try BatchInsertRequest(Book.self) { row in
            count += 1
            try row.set(\.title, to: "\(count)")
            if count == 3 { try row.set(\.readings, to: 1) }
            return false
        }
        expect(.unknownKey) { try context.execute(request) }
        #expect(try books.isEmpty)
    }

    @Test func anAttributeOfAnotherEntityIsAnErrorOfTheRequest() throws {
        var update = try BatchUpdateRequest(Book.self)
        try update.set(\Author.note, to: "x")
        expect(.unknownKey) { try context.execute(update) }
    }

    @Test func aClassThatDeclaresNoEntityIsAnError() {
        expect(.unknownEntity) { _ = try BatchUpdateRequest(ManagedObject.self) }
        expect(.unknownEntity) { _ = try BatchDeleteRequest(ManagedObject.self) }
        expect(.unknownEntity) {
            _ = try BatchInsertRequest(ManagedObject.self) { _ in true }
        }
    }
}
