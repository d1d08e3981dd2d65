import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Requests for dictionaries, through contexts.
@MainActor @Suite struct DictionaryFetchTests {
    private let stack: TestStack
    private let context: ManagedObjectContext

    init() throws {
        stack = try TestStack()
        try stack.fill(books: 20, authors: 3, tags: 4)
        context = stack.mainContext()
    }

    @Test(arguments: ContextArrangement.allCases)
    func groupsAreCountedAndSortedByTheirCount(_ arrangement: ContextArrangement) throws {
        let context = stack.context(arrangement)
        var request = FetchRequest("Book")
        request.propertiesToGroupBy = ["author.name"]
        request.propertiesToFetch = [
            "author.name", try ExpressionDescription("n", format: "count(title)"),
            ExpressionDescription("first", .function(.minimum, [.key("title")])),
        ]
        request.sortOrderings = [SortOrdering("n"), SortOrdering("author.name")]
        let (count, rows) = try stack.statements { try context.fetchDictionaries(request) }
        #expect(count == 1)
        #expect(rows.names == ["author.name", "n", "first"])
        #expect(rows.map { $0["author.name"] } == ["a2", "a0", "a1"])
        #expect(rows.map { $0["n"] } == [6, 7, 7])
        #expect(rows[1].dictionary == ["author.name": "a0", "n": 7, "first": "b0"])
    }

    @Test func valuesAreWhatTheyAreOf() throws {
        let stack = try TestStack(FixtureModels.everyType)
        let context = stack.mainContext()
        let date = Date(timeIntervalSinceReferenceDate: 700_000_000)
        let uuid = try #require(UUID(uuidString: "5B7E8A1C-9F0D-4C52-8E6B-3A1D2C4F6E70"))
        let link = try #require(URL(string: "https://example.org/"))
        let price = try #require(Decimal(string: "12.34"))
        let large = Data(repeating: 7, count: 200_000)
        let object = try context.insertObject(entityName: "Everything")
        object["date"] = date
        object["uuid"] = uuid
        object["uri"] = link
        object["decimal"] = price
        object["boolean"] = true
        object["double"] = 2
        object["int16"] = 3
        object["external"] = large
        object["transformable"] = Data([1, 2])
        try context.save()
        var request = FetchRequest("Everything")
        let row = try #require(try context.fetchDictionaries(request).first)
        #expect(row["date"] == .date(date))
        #expect(row["uuid"] == .uuid(uuid))
        #expect(row["uri"] == .uri(link))
        #expect(row["decimal"] == .decimal(price))
        #expect(row["boolean"] == true)
        #expect(row["double"] == .double(2))
        #expect(row["int16"] == 3)
        #expect(row["int64"] == .null)
        #expect(row["external"] == .binary(large))
        #expect(row["transformable"] == .binary(Data([1, 2])))
        #expect(!row.names.contains("note"))
        request.propertiesToFetch = [
            "SELF", ExpressionDescription("last", .function(.maximum, [.key("date")])),
            ExpressionDescription("sum", .function(.sum, [.key("decimal")])),
            ExpressionDescription("any", .function(.maximum, [.key("boolean")])),
            ExpressionDescription(
                "whole", .function(.maximum, [.key("double")]), resultType: .integer64),
        ]
        request.propertiesToGroupBy = ["SELF"]
        let grouped = try #require(try context.fetchDictionaries(request).first)
        #expect(grouped["SELF"] == .objectID(object.objectID))
        #expect(grouped["last"] == .date(date))
        #expect(grouped["sum"] == .decimal(price))
        #expect(grouped["any"] == true)
        #expect(grouped["whole"] == .integer(2))
    }

    @Test func unsavedChangesDoNotCount() throws {
        defer { withExtendedLifetime(stack) {} }
        try context.insertObject(entityName: "Book")["title"] = "new"
        var request = FetchRequest("Book")
        request.propertiesToFetch = [try ExpressionDescription("n", format: "count(SELF)")]
        #expect(try context.fetchDictionaries(request).map { $0["n"] } == [20])
    }

    @Test func toOneRelationshipsGiveIdentifiers() throws {
        defer { withExtendedLifetime(stack) {} }
        var request = FetchRequest("Book")
        request.predicate = try QueryPredicate(format: "title == 'b0'")
        request.propertiesToFetch = ["objectID", "author"]
        let row = try #require(try context.fetchDictionaries(request).first)
        let book = try #require(
            try context.fetch(FetchRequest("Book", predicate: request.predicate)).first)
        #expect(row["objectID"] == .objectID(book.objectID))
        #expect(row["author"] == book["author", as: AttributeValue.self])
    }

    @Test func whatSQLCannotSayIsFoundFirst() throws {
        defer { withExtendedLifetime(stack) {} }
        var request = FetchRequest("Book")
        request.predicate = try QueryPredicate(
            format: "tags[FIRST].name == 't0' AND year >= 0")
        request.propertiesToFetch = [try ExpressionDescription("n", format: "count(title)")]
        request.resultType = .dictionaries
        let explanation = try context.explain(request)
        #expect(explanation.inMemory != nil)
        let expected = try context.count(for: request)
        #expect(expected > 0)
        #expect(
            try context.fetchDictionaries(request).map { $0["n"] } == [.integer(Int64(expected))])
    }

    @Test func columnsThatSQLCannotSayAreComputedInMemory() throws {
        defer { withExtendedLifetime(stack) {} }
        var request = FetchRequest("Book", sortOrderings: [SortOrdering("title")])
        request.fetchLimit = 2
        request.resultType = .dictionaries
        request.propertiesToFetch = [
            "title", try ExpressionDescription("tag", format: "tags[FIRST].name"),
        ]
        #expect(try context.explain(request).computesInMemory)
        #expect(try context.fetchDictionaries(request).map { $0["tag"] } == ["t0", "t1"])
    }

    @Test func typedRequestsGiveDictionaries() throws {
        defer { withExtendedLifetime(stack) {} }
        var request = FetchRequest("Book")
        request.resultType = .dictionaries
        request.propertiesToFetch = ["title"]
        request.fetchLimit = 1
        #expect(try context.fetchDictionaries(request).count == 1)
    }

    @Test(
        arguments: [
            "title", "length(title)", "tags[FIRST].name", "author.name", "max(title)",
        ], [true, false])
    func streamsGiveTheSameRows(column: String, isOrdered: Bool) throws {
        try stack.fill(books: 2500, authors: 0, tags: 0)
        var request = FetchRequest("Book")
        request.propertiesToFetch = [try ExpressionDescription("x", format: column)]
        if isOrdered && !column.hasPrefix("max") {
            request.sortOrderings = [SortOrdering("title")]
        }
        for (offset, limit) in [(0, 0), (3, 5), (1500, 0), (990, 1020), (5000, 1)] {
            request.fetchOffset = offset
            request.fetchLimit = limit
            let whole = try context.fetchDictionaries(request)
            let stream = try context.streamDictionaries(request)
            #expect(stream.names == whole.names)
            var rows: [[AttributeValue]] = []
            try stream.forEach { rows.append(Array($0)) }
            #expect(rows == whole.map { Array($0.values) })
        }
    }

    /// As in memory: exact, and a floating-point number beyond 64 bits.
    @Test(arguments: [
        ([Int64.max, 1, -2], AttributeValue.integer(.max - 1)),
        ([.max, .max], .double(2 * 9_223_372_036_854_775_807.0)),
        ([.min, -1, .max, 1], .integer(-1)), ([.min, .min], .double(-18_446_744_073_709_551_616)),
        ([], .integer(0)),
    ])
    func sumsOfLargeIntegersAreExactWhileTheyFit(numbers: [Int64], sum: AttributeValue) throws {
        let stack = try TestStack(FixtureModels.everyType)
        let context = stack.mainContext()
        for number in numbers + [nil] {
            let object = try context.insertObject(entityName: "Everything")
            object["string"] = "group"
            if let number { object["int64"] = number }
        }
        try context.save()
        var request = FetchRequest("Everything")
        request.propertiesToGroupBy = ["string"]
        request.propertiesToFetch = [
            ExpressionDescription("sum", .function(.sum, [.key("int64")])),
            ExpressionDescription("count", .function(.count, [.evaluatedObject])),
        ]
        let row = try #require(try context.fetchDictionaries(request).first)
        #expect(row["sum"] == sum)
        #expect(row["count"] == .integer(Int64(numbers.count + 1)))
    }
}
