import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// Requests that full-text indexes and R-trees serve find what memory finds.
@MainActor @Suite struct IndexedQueryTests {
    private static let model = ManagedObjectModel {
        Entity("Place") {
            Attribute("name", .string)
            Attribute("latitude", .double)
            Attribute("longitude", .double)
            Attribute("height", .integer32)
            ToMany("reviews", "Review", inverse: "place")
            Index("byName", on: "name").fullText()
            Index("byLocation", on: "latitude", "longitude").rtree()
        }
        Entity("Town", inherits: "Place") { Attribute("mayor", .string) }
        Entity("Review") {
            Attribute("text", .string)
            Attribute("title", .string)
            ToOne("place", "Place", inverse: "reviews")
            Index("byText", on: "text").fullText()
        }
    }

    private static let words = [
        "Café", "CAFE", "tea", "house", "o'clock", "Ω", "", "§", "teahouse",
    ]

    private static func text(_ random: inout SeededRandom) -> AttributeValue {
        if random.next() % 6 == 0 { return .null }
        let picked = (0..<3).map { _ in words.randomElement(using: &random) ?? "" }
        return .string(picked.joined(separator: " "))
    }

    private static func coordinate(_ random: inout SeededRandom) -> AttributeValue {
        switch random.next() % 8 {
        case 0: .null
        case 1: .double(0.1)
        default: .double(Double.random(in: -3...3, using: &random))
        }
    }

    private func makeStack(_ random: inout SeededRandom) throws -> TestStack {
        let stack = try TestStack(Self.model)
        let context = stack.mainContext()
        for number in 0..<60 {
            let place = try context.insertObject(entityName: number % 3 == 0 ? "Town" : "Place")
            place["name"] = Self.text(&random)
            place["latitude"] = Self.coordinate(&random)
            place["longitude"] = Self.coordinate(&random)
            place["height"] = Int64(number)
            for _ in 0..<(number % 4) {
                let review = try context.insertObject(entityName: "Review")
                review["text"] = Self.text(&random)
                review["title"] = Self.text(&random)
                review["place"] = place
            }
        }
        try context.save()
        return stack
    }

    private func found(_ format: String, _ entity: String, in stack: TestStack) throws -> [Int64] {
        let request = FetchSpecification(entity, predicate: try QueryPredicate(format: format))
        return try stack.coordinator.store.rows(matching: request).map(\.objectID.primaryKey)
    }

    private func expected(
        _ format: String, _ entity: String, in stack: TestStack
    ) throws -> [Int64] {
        let predicate = try QueryPredicate(format: format)
        return try stack.mainContext().fetch(FetchRequest(entity))
            .filter { try predicate.isSatisfied(by: $0) }.map(\.objectID.primaryKey)
    }

    @Test(arguments: [
        "name MATCHES TEXT 'cafe'", "NOT name MATCHES TEXT 'cafe -tea'",
        "name MATCHES TEXT 'tea* OR ω' AND height > 10", "ANY reviews.text MATCHES TEXT 'cafe'",
        "ALL reviews.text MATCHES TEXT 'tea*'", "NONE reviews.text MATCHES TEXT '\"tea house\"'",
        "ANY reviews.title MATCHES TEXT 'cafe'", "name MATCHES TEXT '§'", "name MATCHES TEXT nil",
        "SUBQUERY(reviews, $r, $r.text MATCHES TEXT 'cafe').@count > 0",
        "'café' MATCHES TEXT name", "name MATCHES TEXT \"it's\"",
    ])
    func fullTextFindsWhatMemoryFinds(_ format: String) throws {
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        let stack = try makeStack(&random)
        for entity in ["Place", "Town"] {
            #expect(
                try found(format, entity, in: stack) == expected(format, entity, in: stack),
                "seed \(seed), \(entity)")
        }
    }

    @Test func toOnePathsUseTheFullTextIndexToo() throws {
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        let stack = try makeStack(&random)
        let format = "place.name MATCHES TEXT 'cafe'"
        #expect(try found(format, "Review", in: stack) == expected(format, "Review", in: stack))
    }

    @Test func aSearchThatCannotBeReadIsAnError() throws {
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        let stack = try makeStack(&random)
        for format in ["name MATCHES TEXT 'a OR'", "ANY reviews.title MATCHES TEXT '\"a'"] {
            let error = #expect(throws: QuireError.self) {
                try found(format, "Place", in: stack)
            }
            #expect(error?.code == .invalidQuery)
        }
    }

    @Test func boxesFindWhatMemoryFinds() throws {
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        let stack = try makeStack(&random)
        for number in 0..<60 {
            func bounds() -> (Double, Double) {
                if number % 5 == 0 { return (0.1, 0.1) }
                let bounds = (0..<2).map { _ in Double.random(in: -3...3, using: &random) }.sorted()
                return (bounds[0], bounds[1])
            }
            let (south, north) = bounds()
            let (west, east) = bounds()
            let format =
                number % 2 == 0
                ? "latitude BETWEEN {\(south), \(north)} AND longitude BETWEEN {\(west), \(east)}"
                : "latitude >= \(south) AND latitude < \(north) AND (longitude > \(west) AND \(east) >= longitude)"
            for entity in ["Place", "Town"] {
                #expect(
                    try found(format, entity, in: stack) == expected(format, entity, in: stack),
                    "seed \(seed), \(format)")
            }
        }
    }

    @Test(arguments: [
        ("name MATCHES TEXT 'cafe'", true),
        ("ANY reviews.text MATCHES TEXT 'cafe'", true),
        ("latitude BETWEEN {0, 1} AND longitude BETWEEN {0, 1}", true),
        ("latitude BETWEEN {0, 1}", false), ("NOT latitude BETWEEN {0, 1}", false),
        ("latitude BETWEEN {0, 1} OR longitude BETWEEN {0, 1}", false),
        ("ANY reviews.title MATCHES TEXT 'cafe'", false),
    ])
    func indexesOfTheirOwnAreUsedWhereTheySayIt(_ format: String, _ isUsed: Bool) throws {
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        let stack = try makeStack(&random)
        let store = try #require(stack.coordinator.store as? SQLiteStore)
        let request = FetchSpecification("Place", predicate: try QueryPredicate(format: format))
        let statement = try FetchStatement(
            ResolvedQuery(request, in: store.layout, store: store.identity),
            selecting: .columns("t0.*"), schema: store.schema, store: store.identity)
        let steps = try store.read { connection in
            try connection.withStatement("EXPLAIN QUERY PLAN \(statement.sql)") { plan in
                try plan.bind(statement.bindings)
                var steps: [String] = []
                while try plan.step() { steps.append(plan.text(3)) }
                return steps
            }
        }
        #expect(steps.contains { $0.contains("VIRTUAL TABLE INDEX") } == isUsed, "\(steps)")
    }
}
