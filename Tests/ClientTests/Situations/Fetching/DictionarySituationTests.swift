import Foundation
import Quire
import Testing

/// Sums, groups and distinct values: requests for dictionaries.
@MainActor @Suite struct DictionarySituationTests {
    private static let model = ManagedObjectModel {
        Entity("Drink") {
            Attribute("kind", .string)
            Attribute("number", .integer32)
            Attribute("price", .decimal)
            Attribute("strength", .double)
            Attribute("at", .date)
            Attribute("iced", .boolean)
            ToOne("bar", "Bar", inverse: "drinks")
        }
        Entity("Cocktail", inherits: "Drink") { Attribute("recipe", .string) }
        Entity("Bar") {
            Attribute("name", .string)
            ToMany("drinks", "Drink", inverse: "bar")
        }
    }

    private static func fill(_ context: ManagedObjectContext) throws {
        var bars: [String: ManagedObject] = [:]
        for name in ["Joe's", "Ritz"] {
            bars[name] = try context.insertObject(entityName: "Bar")
            bars[name]?["name"] = name
        }
        for (kind, number, price, strength, day, bar) in [
            ("tea", 3, "2.10", 0, 1, "Joe's"), ("tea", 4, "2.20", nil, 2, "Ritz"),
            ("tea", nil, nil, nil, 3, nil),
            ("rum", 1, "9.99", 40, 1, "Ritz"), ("Rum", 2, "0.01", 38.5, nil, "Ritz"),
            (nil, 10, "0.1", 0.5, 2, nil),
        ] as [(String?, Int?, String?, Double?, Double?, String?)] {
            let drink = try context.insertObject(
                entityName: kind?.lowercased() == "rum" ? "Cocktail" : "Drink")
            drink["kind"] = kind
            drink["number"] = number
            drink["price"] = price.flatMap { Decimal(string: $0) }
            drink["strength"] = strength
            drink["at"] = day.map { Date(timeIntervalSinceReferenceDate: $0 * 86_400) }
            drink["bar"] = bar.flatMap { bars[$0] }
        }
        try context.save()
    }

    private static func column(_ name: String, _ format: String) throws -> ExpressionDescription {
        try ExpressionDescription(name, format: format)
    }

    private func rows(
        _ context: ManagedObjectContext, _ columns: [ExpressionDescription],
        by groups: [ExpressionDescription] = [],
        _ change: (inout FetchRequest<ManagedObject>) throws -> Void = { _ in }
    ) throws -> [[AttributeValue]] {
        var request = FetchRequest("Drink")
        request.resultType = .dictionaries
        request.propertiesToFetch = columns
        request.propertiesToGroupBy = groups
        try change(&request)
        return try context.fetchDictionaries(request).map { row in columns.map { row[$0.name] } }
    }

    /// “SELECT col, COUNT(*), SUM(x) … GROUP BY col HAVING …”: page “Group by, Count and Sum in CoreData”, cocoanetics.com, and
    /// “Core Data and Aggregate Fetches In Swift”, cimgf.com. Missing values are one group and do not count in averages
    /// (realm/realm-core#1351); groups are sorted by their sums; a limit counts groups.
    @Test(arguments: SituationStore.allCases)
    func groupsHaveCountsSumsAndConditions(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try Self.fill(context)
            let columns: [ExpressionDescription] = [
                "kind", try Self.column("n", "count(SELF)"),
                try Self.column("numbers", "count(number)"),
                try Self.column("sum", "sum(number)"), try Self.column("mean", "average(number)"),
                try Self.column("worth", "sum(price)"), try Self.column("last", "max(at)"),
            ]
            let all = try rows(context, columns, by: ["kind"]) {
                $0.sortOrderings = [SortOrdering("kind")]
            }
            func day(_ number: Double) -> AttributeValue {
                .date(Date(timeIntervalSinceReferenceDate: number * 86_400))
            }
            func price(_ text: String) throws -> AttributeValue {
                .decimal(try #require(Decimal(string: text)))
            }
            #expect(
                all == [
                    [nil, 1, 1, 10, 10.0, try price("0.1"), day(2)],
                    ["Rum", 1, 1, 2, 2.0, try price("0.01"), nil],
                    ["rum", 1, 1, 1, 1.0, try price("9.99"), day(1)],
                    ["tea", 3, 2, 7, 3.5, try price("4.3"), day(3)],
                ])
            let kinds = Array(columns[0...1])
            for (having, orders, limit, offset, expected) in [
                ("n > 1", [], 0, 0, ["tea"]),
                ("sum(number) < 8", [SortOrdering("kind")], 0, 0, ["Rum", "rum", "tea"]),
                (
                    nil, [SortOrdering("n", ascending: false), SortOrdering("kind")], 2, 0,
                    ["tea", nil]
                ),
                (
                    nil, [SortOrdering("n", ascending: false), SortOrdering("kind")], 2, 1,
                    [nil, "Rum"]
                ),
                (
                    "kind != 'tea'", [SortOrdering("kind", ascending: false)], 0, 0,
                    ["rum", "Rum", nil]
                ),
                ("kind == nil", [], 0, 0, [nil]), ("max(at) == nil", [], 0, 0, ["Rum"]),
                (nil, [SortOrdering("sum(price)", ascending: false)], 3, 0, ["rum", "tea", nil]),
                ("count(bar) == 0", [], 0, 0, [nil]),
            ] as [(String?, [SortOrdering], Int, Int, [String?])] {
                let found = try rows(context, kinds, by: ["kind"]) {
                    $0.havingPredicate = try having.map { try QueryPredicate(format: $0) }
                    $0.sortOrderings = orders
                    $0.fetchLimit = limit
                    $0.fetchOffset = offset
                }
                #expect(
                    found.map { $0[0] } == expected.map { $0.map { .string($0) } ?? .null },
                    "\(having ?? "") \(orders)")
            }
            let byBar = try rows(
                context, ["bar.name", try Self.column("n", "count(SELF)")], by: ["bar.name"]
            ) {
                $0.sortOrderings = [SortOrdering("bar.name")]
            }
            #expect(byBar == [[nil, 2], ["Joe's", 1], ["Ritz", 3]])
            let folded = try rows(
                context,
                [try Self.column("k", "lowercase(kind)"), try Self.column("n", "count(SELF)")],
                by: ["k"]
            ) { $0.sortOrderings = [SortOrdering("k")] }
            #expect(folded == [[nil, 1], ["rum", 2], ["tea", 3]])
        }
    }

    /// A sum over no rows crashed in memory and was an empty array: lionheart/openradar-mirror#3703; magicalpanda/
    /// MagicalRecord#373 (nil); realm/realm-core#4678 (sum of nothing is zero). One row with a count of 0, without groups none.
    @Test(arguments: SituationStore.allCases)
    func sumsOfNothingAreZeroAndMaximaMissing(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let columns = [
                try Self.column("n", "count(SELF)"), try Self.column("sum", "sum(number)"),
                try Self.column("worth", "sum(price)"), try Self.column("mean", "average(number)"),
                try Self.column("most", "max(at)"), try Self.column("least", "min(kind)"),
            ]
            for filled in [false, true] {
                if filled { try Self.fill(context) }
                let none = try rows(context, columns) {
                    $0.predicate = try QueryPredicate(format: "kind == 'milk'")
                }
                #expect(none == [[0, 0, .decimal(0), nil, nil, nil]])
                let groups = try rows(context, ["kind"] + columns, by: ["kind"]) {
                    $0.predicate = try QueryPredicate(format: "kind == 'milk'")
                }
                #expect(groups.isEmpty)
            }
            // All values of a group may be missing.
            let missing = try rows(context, columns) {
                $0.predicate = try QueryPredicate(format: "kind == 'tea' AND bar == nil")
            }
            #expect(
                missing == [
                    [
                        1, 0, .decimal(0), nil,
                        .date(Date(timeIntervalSinceReferenceDate: 3 * 86_400)), "tea",
                    ]
                ])
            let plain = try rows(context, ["kind", "number"]) {
                $0.predicate = try QueryPredicate(format: "kind == 'milk'")
            }
            #expect(plain.isEmpty)
        }
    }

    /// Distinct values, sorted, one page of them: realm/realm-java#3411 (which of equals), avniproject/avni-client#1977 (order
    /// and limit of distinct rows), realm/realm-swift#1103. Missing is one value.
    @Test(arguments: SituationStore.allCases)
    func distinctRowsAreSortedAndLimited(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try Self.fill(context)
            @MainActor func distinct(
                _ columns: [ExpressionDescription],
                _ change: (inout FetchRequest<ManagedObject>) throws -> Void = { _ in }
            ) throws -> [[AttributeValue]] {
                try rows(context, columns) {
                    $0.returnsDistinctResults = true
                    try change(&$0)
                }
            }
            let kinds = try distinct(["kind"]) {
                $0.sortOrderings = [SortOrdering("kind", ascending: false)]
            }
            #expect(kinds == [["tea"], ["rum"], ["Rum"], [nil]])
            let page = try distinct(["kind"]) {
                $0.sortOrderings = [SortOrdering("kind")]
                $0.fetchOffset = 1
                $0.fetchLimit = 2
            }
            #expect(page == [["Rum"], ["rum"]])
            let bars = try distinct(["bar.name", "iced"]) {
                $0.sortOrderings = [SortOrdering("bar.name")]
            }
            #expect(bars == [[nil, nil], ["Joe's", nil], ["Ritz", nil]])
            let some = try distinct(["kind"]) {
                $0.predicate = try QueryPredicate(format: "bar.name == 'Ritz' OR bar == nil")
                $0.sortOrderings = [SortOrdering("kind")]
            }
            #expect(some == [[nil], ["Rum"], ["rum"], ["tea"]])
            let names = try rows(
                context, [try Self.column("n", "count(distinct(lowercase(kind)))")])
            #expect(names == [[2]])
        }
    }

    /// Columns of sub-entities, and counts of an entity with and without them: JohnEstropia/CoreStore#83 (“Query Attributes from
    /// Subentities”). A request for the super-entity has no columns of a sub-entity.
    @Test(arguments: SituationStore.allCases)
    func subentitiesAreIncludedUnlessTheyAreNot(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try Self.fill(context)
            let new = try context.insertObject(entityName: "Cocktail")
            new["kind"] = "gin"
            new["recipe"] = "tonic"
            let count = [try Self.column("n", "count(SELF)")]
            #expect(try rows(context, count) == [[6]])
            #expect(try rows(context, count) { $0.includesSubentities = false } == [[4]])
            #expect(try rows(context, count) { $0.entityName = "Cocktail" } == [[2]])
            #expect(try context.count(for: FetchRequest("Drink")) == 7)
            #expect(try context.count(for: FetchRequest("Cocktail")) == 3)
            #expect(
                try context.texts("kind", of: "Drink") { $0.includesSubentities = false }
                    == ["nil", "tea", "tea", "tea"])
            #expect(try context.texts("kind", of: "Cocktail") == ["Rum", "gin", "rum"])
            #expect(
                try context.texts("recipe", of: "Cocktail", where: "recipe BEGINSWITH 't'") == [
                    "tonic"
                ])
            #expect(
                try context.texts("kind", of: "Drink", where: "entity.name == 'Cocktail'")
                    == ["Rum", "gin", "rum"])
            #expect(try context.texts("kind", of: "Drink", where: "SELF == %@", new) == ["gin"])
            #expect(throws: QuireError.self) { try rows(context, ["recipe"]) }
            #expect(throws: QuireError.self) {
                try context.texts("kind", of: "Drink", where: "recipe == 'tonic'")
            }
            // What a relationship to the super-entity leads to may be of either.
            let bars = try context.texts("name", of: "Bar", where: "ANY drinks.kind ==[c] 'rum'")
            #expect(bars == ["Ritz"])
        }
    }
}
