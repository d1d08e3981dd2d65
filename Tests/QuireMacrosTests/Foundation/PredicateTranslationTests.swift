import Foundation
import Quire
import QuireTestSupport
import Testing

/// Foundation's predicates as trees of ours.
@Suite struct PredicateTranslationTests {
    private func expect<Object: ManagedObject>(
        _ predicate: Predicate<Object>, _ format: String, _ arguments: any QueryArgument...,
        at location: SourceLocation = #_sourceLocation
    ) throws {
        #expect(
            try QueryPredicate(predicate)
                == QueryPredicate(format: format, arguments: arguments),
            sourceLocation: location)
    }

    private func expectTree<Object: ManagedObject>(
        _ predicate: Predicate<Object>, _ tree: QueryPredicate,
        at location: SourceLocation = #_sourceLocation
    ) throws {
        #expect(try QueryPredicate(predicate) == tree, sourceLocation: location)
    }

    private func comparison(
        _ left: QueryExpression, _ comparisonOperator: QueryComparison.Operator,
        _ right: QueryExpression
    ) -> QueryPredicate {
        .comparison(QueryComparison(left, comparisonOperator, right))
    }

    // MARK: Comparisons

    @Test func comparisonsKeepTheirOperators() throws {
        let year: Int16 = 1800
        try expect(#Predicate<Book> { $0.year == year }, "year == 1800")
        try expect(#Predicate<Book> { $0.year != year }, "year != 1800")
        try expect(#Predicate<Book> { $0.year < 1800 }, "year < 1800")
        try expect(#Predicate<Book> { $0.year <= 1800 }, "year <= 1800")
        try expect(#Predicate<Book> { $0.year > 1800 }, "year > 1800")
        try expect(#Predicate<Book> { 1800 >= $0.year }, "year <= 1800")
        try expect(#Predicate<Book> { $0.year > -5 }, "year > -5")
    }

    @Test func logicIsFlat() throws {
        try expect(
            #Predicate<Book> { $0.year < 3 && $0.title == "x" && $0.isbn == nil },
            "year < 3 AND title == 'x' AND isbn == nil")
        try expect(
            #Predicate<Book> { $0.year < 3 || $0.year > 5 || !($0.title == "x") },
            "year < 3 OR year > 5 OR title != 'x'")
        try expect(#Predicate<Book> { !($0.year < 3) }, "NOT year < 3")
        try expectTree(Predicate<Book>.true, .constant(true))
    }

    @Test func capturedValuesOfEveryTypeAreConstants() throws {
        let (double, float, decimal, boolean) = (1.5, Float(0.25), Decimal(7) / 2, true)
        let (data, uuid, date) = (Data([1, 2]), UUID(), Date(timeIntervalSinceReferenceDate: 3))
        let url = try #require(URL(string: "https://example.org"))
        let none: String? = nil
        let great: Int64 = 1 << 40
        try expect(#Predicate<Everything> { $0.double > double }, "double > 1.5")
        try expect(#Predicate<Everything> { $0.float > float }, "float > 0.25")
        try expect(#Predicate<Everything> { $0.decimal > decimal }, "decimal > %@", decimal)
        try expect(#Predicate<Everything> { $0.boolean == boolean }, "boolean == YES")
        try expect(#Predicate<Everything> { $0.date < date }, "date < %@", date)
        try expect(#Predicate<Everything> { $0.data == data }, "data == %@", data)
        try expect(#Predicate<Everything> { $0.uuid == uuid }, "uuid == %@", uuid)
        try expect(#Predicate<Everything> { $0.url == url }, "url == %@", url)
        try expect(#Predicate<Everything> { $0.optionalString == none }, "optionalString == nil")
        try expect(#Predicate<Everything> { $0.int64 == great }, "int64 == 1099511627776")
    }

    @Test func enumerationsAndOwnTypesAreConstantsAsTheyAreKept() throws {
        let genre = Genre.letters
        let rating: Rating? = .good
        let price = Price(cents: 250)
        let genres = [Genre.novel, .history]
        try expect(#Predicate<Book> { $0.genre == genre }, "genre == 'letters'")
        try expect(#Predicate<Book> { $0.rating == rating }, "rating == 3")
        try expect(#Predicate<Book> { $0.price == price }, "price == 250")
        try expect(#Predicate<Book> { genres.contains($0.genre) }, "genre IN {'novel', 'history'}")
    }

    @Test func partsOfCapturedValuesAreConstants() throws {
        let range = 3..<5
        let words = ["a", "bc"]
        try expect(#Predicate<Everything> { $0.int == range.upperBound }, "int == 5")
        try expect(#Predicate<Everything> { $0.int > words.count * 2 + 1 }, "int > 5")
        try expect(#Predicate<Everything> { $0.string == words[1] }, "string == 'bc'")
        try expectTree(#Predicate<Book> { _ in words.isEmpty }, .constant(false))
    }

    // MARK: Truth values

    @Test func truthValuesAreComparedWithTrue() throws {
        try expect(#Predicate<Everything> { $0.boolean }, "boolean == YES")
        try expect(#Predicate<Everything> { !$0.boolean }, "boolean != YES")
        try expect(#Predicate<Everything> { $0.optionalBoolean == true }, "optionalBoolean == YES")
        try expect(#Predicate<Everything> { $0.optionalBoolean ?? false }, "optionalBoolean == YES")
        try expect(
            #Predicate<Everything> { $0.optionalBoolean ?? true },
            "optionalBoolean == YES OR optionalBoolean == nil")
        try expectTree(
            #Predicate<Everything> { ($0.int > 3) == $0.boolean },
            .comparison(
                QueryComparison(
                    .conditional(
                        comparison(.key("int"), .greater, .constant(3)), .constant(true),
                        .constant(false)), .equal, .key("boolean"))))
    }

    // MARK: Optional values

    @Test func optionalChainsAreKeyPaths() throws {
        try expect(#Predicate<Book> { $0.author?.name == "x" }, "author.name == 'x'")
        try expect(#Predicate<Book> { $0.author?.name != "x" }, "author.name != 'x'")
        try expect(#Predicate<Book> { $0.author?.spouse?.name == nil }, "author.spouse.name == nil")
        try expect(#Predicate<Book> { $0.author!.born! > 3 }, "author.yearOfBirth > 3")
        try expect(#Predicate<Book> { $0.author == nil }, "author == nil")
        try expect(
            #Predicate<Book> { $0.author.flatMap { $0.born } == 3 }, "author.yearOfBirth == 3")
    }

    @Test func valuesAreDemandedOnlyWhereTheyMustBe() throws {
        try expect(
            #Predicate<Book> { $0.author?.name.contains("x") == true }, "author.name CONTAINS 'x'")
        try expect(
            #Predicate<Book> { $0.author?.name.contains("x") == false },
            "author != nil AND NOT author.name CONTAINS 'x'")
        try expect(
            #Predicate<Book> { $0.author?.name.contains("x") != true },
            "NOT author.name CONTAINS 'x'")
        try expect(#Predicate<Book> { $0.author?.name.contains("x") == nil }, "author == nil")
        try expect(
            #Predicate<Book> { $0.author?.name.contains("x") ?? true },
            "author.name CONTAINS 'x' OR author == nil")
        try expect(
            #Predicate<Book> { if let a = $0.author { a.name != "x" } else { false } },
            "author != nil AND author.name != 'x'")
        try expect(
            #Predicate<Everything> { $0.optionalInt.flatMap { $0 > 3 } ?? false },
            "optionalInt > 3")
    }

    @Test func replacementsOfMissingValuesAreComparedOnTheirOwn() throws {
        try expect(#Predicate<Everything> { ($0.optionalInt ?? 0) > 3 }, "optionalInt > 3")
        try expect(
            #Predicate<Everything> { ($0.optionalInt ?? 9) > 3 },
            "optionalInt > 3 OR optionalInt == nil")
        try expect(
            #Predicate<Everything> { ($0.optionalInt ?? $0.int) > 3 },
            "optionalInt > 3 OR (optionalInt == nil AND int > 3)")
        try expectTree(
            #Predicate<Everything> { ($0.optionalInt ?? 0) > $0.int },
            comparison(
                .conditional(
                    comparison(.key("optionalInt"), .notEqual, .constant(nil)),
                    .key("optionalInt"), .constant(0)), .greater, .key("int")))
    }

    @Test func choicesAreMadeByConditions() throws {
        try expect(
            #Predicate<Book> { $0.year > 1800 ? $0.title == "x" : $0.isbn == nil },
            "(year > 1800 AND title == 'x') OR (NOT year > 1800 AND isbn == nil)")
        try expect(
            #Predicate<Book> { ($0.year > 1800 ? $0.title : "none") == "x" },
            "year > 1800 AND title == 'x'")
        try expectTree(
            #Predicate<Everything> { ($0.boolean ? $0.double : 0) == $0.double },
            comparison(
                .conditional(
                    comparison(.key("boolean"), .equal, .constant(true)), .key("double"),
                    .constant(0.0)), .equal, .key("double")))
    }

    // MARK: Objects

    @Test @MainActor func objectsAreAskedForByTheirIdentifiers() throws {
        let stack = try TestStack(try #require(TypedObjectTests.model))
        let context = stack.mainContext()
        let author = Author(context: context)
        let id = author.objectID
        let ids = [id]
        try expect(#Predicate<Book> { $0.author?.objectID == id }, "author == %@", id)
        try expect(#Predicate<Author> { $0.objectID == id }, "SELF == %@", id)
        try expect(#Predicate<Author> { ids.contains($0.objectID) }, "SELF IN %@", ids)
        try expect(
            #Predicate<Book> { $0.tags.contains { $0.objectID == id } }, "ANY tags == %@", id)
    }

    // MARK: Texts

    @Test func textsAreSearched() throws {
        let same = ComparisonResult.orderedSame
        let ascending = ComparisonResult.orderedAscending
        try expect(#Predicate<Book> { $0.title.contains("x") }, "title CONTAINS 'x'")
        try expect(#Predicate<Book> { "xyz".contains($0.title) }, "'xyz' CONTAINS title")
        try expect(#Predicate<Book> { $0.title.starts(with: "x") }, "title BEGINSWITH 'x'")
        try expect(
            #Predicate<Book> { $0.title.localizedStandardContains("x") }, "title CONTAINS[cd] 'x'")
        try expect(
            #Predicate<Book> { $0.title.caseInsensitiveCompare("x") == same }, "title ==[c] 'x'")
        try expect(
            #Predicate<Book> { $0.title.caseInsensitiveCompare("x") != ascending },
            "NOT title <[c] 'x'")
        try expect(#Predicate<Book> { $0.title.isEmpty }, "title == ''")
        try expect(
            #Predicate<Book> { $0.title.contains(/[ae]+/) }, "title MATCHES %@",
            "(?s:.*)(?:[ae]+)(?s:.*)")
        try expectTree(
            #Predicate<Book> { $0.title.utf16.count > 3 },
            comparison(.function(.length, [.key("title")]), .greater, .constant(3)))
    }

    // MARK: Ranges

    @Test func rangesAreBounds() throws {
        let years: ClosedRange<Int16> = 3...5
        let open: Range<Int16> = 3..<5
        let from: PartialRangeFrom<Int16> = 3...
        try expect(#Predicate<Book> { years.contains($0.year) }, "year BETWEEN {3, 5}")
        try expect(#Predicate<Book> { (3...5).contains($0.year) }, "year BETWEEN {3, 5}")
        try expect(#Predicate<Book> { open.contains($0.year) }, "year >= 3 AND year < 5")
        try expect(#Predicate<Book> { from.contains($0.year) }, "year >= 3")
        try expect(
            #Predicate<Everything> { ($0.int32...9).contains($0.int32) },
            "int32 BETWEEN {int32, 9}")
    }

    // MARK: Arithmetic

    @Test func arithmeticIsFunctions() throws {
        func function(_ function: QueryFunction, _ right: Int64) -> QueryExpression {
            .function(function, [.key("int"), .constant(.integer(right))])
        }
        try expectTree(
            #Predicate<Everything> { $0.int + 2 > 3 },
            comparison(function(.add, 2), .greater, .constant(3)))
        try expectTree(
            #Predicate<Everything> { $0.int - 2 > 3 },
            comparison(function(.subtract, 2), .greater, .constant(3)))
        try expectTree(
            #Predicate<Everything> { $0.int / 2 > 3 },
            comparison(function(.divide, 2), .greater, .constant(3)))
        try expectTree(
            #Predicate<Everything> { $0.int % 2 == 1 },
            comparison(function(.modulus, 2), .equal, .constant(1)))
        try expectTree(
            #Predicate<Everything> { -$0.int == 1 },
            comparison(
                .function(.subtract, [.constant(0), .key("int")]), .equal, .constant(1)))
        try expectTree(
            #Predicate<Everything> { $0.double / 2 == 1 },
            comparison(
                .function(.divide, [.key("double"), .constant(2.0)]), .equal, .constant(1.0)))
        try expectTree(
            #Predicate<Everything> { $0.date.timeIntervalSinceReferenceDate > 5 },
            comparison(.cast(.key("date"), .number), .greater, .constant(5.0)))
    }

    // MARK: To-many relationships

    private func count(_ collection: QueryExpression) -> QueryExpression {
        .function(.count, [collection])
    }

    @Test func oneComparisonOfElementsIsQuantified() throws {
        try expect(#Predicate<Author> { $0.books.contains { $0.year < 3 } }, "ANY books.year < 3")
        try expect(#Predicate<Author> { $0.books.allSatisfy { 3 > $0.year } }, "ALL books.year < 3")
        try expect(
            #Predicate<Author> { $0.books.contains { $0.tags.contains { $0.name == "x" } } },
            "ANY books.tags.name == 'x'")
        try expect(
            #Predicate<Book> { $0.author?.books.contains { $0.year < 3 } ?? false },
            "ANY author.books.year < 3")
        try expect(
            #Predicate<Book> { $0.author?.books.allSatisfy { $0.year < 3 } == true },
            "author != nil AND ALL author.books.year < 3")
    }

    @Test func conditionsOnElementsAreSubqueries() throws {
        let item = QueryExpression.variable("item.year")
        let both = QueryPredicate.and([
            comparison(item, .greater, .constant(3)),
            comparison(.variable("item.title"), .equal, .key("name")),
        ])
        let found = QueryExpression.subquery(.key("books"), variable: "item", both)
        try expectTree(
            #Predicate<Author> { a in a.books.contains { $0.year > 3 && $0.title == a.name } },
            comparison(count(found), .greater, .constant(0)))
        try expectTree(
            #Predicate<Author> { a in
                a.books.filter { $0.year > 3 }.contains { $0.title == a.name }
            }, comparison(count(found), .greater, .constant(0)))
        try expectTree(
            #Predicate<Author> { a in
                a.books.filter { $0.year > 3 && $0.title == a.name }.count > 2
            }, comparison(count(found), .greater, .constant(2)))
        try expectTree(
            #Predicate<Author> { a in a.books.allSatisfy { $0.title != a.name } },
            comparison(
                count(
                    .subquery(
                        .key("books"), variable: "item",
                        comparison(.variable("item.title"), .equal, .key("name")))), .equal,
                .constant(0)))
    }

    @Test func innerConditionsKnowTheVariablesOfOuterOnes() throws {
        try expectTree(
            #Predicate<Author> { a in
                a.books.contains { book in book.tags.contains { $0.name == book.title } }
            },
            comparison(
                count(
                    .subquery(
                        .key("books"), variable: "item",
                        comparison(
                            count(
                                .subquery(
                                    .variable("item.tags"), variable: "item2",
                                    comparison(
                                        .variable("item2.name"), .equal,
                                        .variable("item.title")))), .greater, .constant(0)))),
                .greater, .constant(0)))
    }

    @Test func collectionsAreCounted() throws {
        let books = count(.key("books"))
        try expectTree(
            #Predicate<Author> { $0.books.count > 2 }, comparison(books, .greater, .constant(2)))
        try expectTree(
            #Predicate<Author> { $0.books.isEmpty }, comparison(books, .equal, .constant(0)))
        try expectTree(
            #Predicate<Book> { ($0.author?.books.count ?? 0) == 0 },
            .or([
                .and([
                    comparison(.key("author"), .notEqual, .constant(nil)),
                    comparison(count(.key("author.books")), .equal, .constant(0)),
                ]), comparison(.key("author"), .equal, .constant(nil)),
            ]))
    }

    @Test func conditionsOnCapturedListsAreWrittenOut() throws {
        let words = ["a", "b"]
        try expect(
            #Predicate<Book> { book in words.contains { book.title.starts(with: $0) } },
            "title BEGINSWITH 'a' OR title BEGINSWITH 'b'")
        try expect(
            #Predicate<Book> { book in words.allSatisfy { book.title.contains($0) } },
            "title CONTAINS 'a' AND title CONTAINS 'b'")
        try expect(#Predicate<Book> { words.contains($0.title) }, "title IN {'a', 'b'}")
    }

    @Test func exampleOfTheDocumentationIsTranslated() throws {
        let era: Range<Int16> = 1790..<1820
        let predicate = #Predicate<Book> {
            era.contains($0.year) && $0.author?.name.localizedStandardContains("austen") == true
        }
        try expect(
            predicate, "year >= 1790 AND year < 1820 AND author.name CONTAINS[cd] 'austen'")
    }

    // MARK: What has no translation

    private func expectUnsupported<Object: ManagedObject>(
        _ predicate: Predicate<Object>, _ quotation: String,
        at location: SourceLocation = #_sourceLocation
    ) {
        #expect(sourceLocation: location) {
            try QueryPredicate(predicate)
        } throws: { error in
            guard let error = error as? QuireError else { return false }
            return error.code == .unsupported && error.message.contains(quotation)
        }
    }

    @Test func whatHasNoTranslationIsQuoted() {
        let numbers = ["a": 1]
        expectUnsupported(#Predicate<Book> { $0.label == "x" }, "Book.<computed")
        expectUnsupported(#Predicate<Book> { $0.readings > 1 }, "\\Book.readings")
        expectUnsupported(#Predicate<Book> { $0.title.count > 3 }, "utf16.count")
        expectUnsupported(#Predicate<Person> { $0 is Author }, "TypeCheck")
        expectUnsupported(#Predicate<Person> { ($0 as? Author)?.note == "x" }, "ConditionalCast")
        expectUnsupported(#Predicate<Author> { $0.books == $0.books }, "Equal")
        expectUnsupported(#Predicate<Book> { numbers[$0.title] == 1 }, "DictionaryKeySubscript")
    }

    @Test func castsToSuperclassesAreNone() throws {
        try expect(#Predicate<Author> { ($0 as Person).name == "x" }, "name == 'x'")
    }
}
