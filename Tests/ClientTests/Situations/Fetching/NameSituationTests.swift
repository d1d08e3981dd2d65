import Foundation
import Quire
import Testing

/// Keys that are words of SQL or of the predicate language, and predicates that are wrong.
@MainActor @Suite struct NameSituationTests {
    private static let words = [
        "group", "order", "select", "from", "where", "index", "value", "values", "rowid", "first",
        "last",
        "size", "in", "not", "any", "all", "some", "like", "between", "nil", "null", "true",
        "matches", "count",
        "sum", "min", "max", "key", "table", "default", "größe", "名前", "_private", "z_pk", "Z_ENT",
        "url", "n2",
        "limit", "distinct", "case", "end", "and", "or", "contains", "cast", "now", "length",
        "subquery",
    ]

    private static let model = ManagedObjectModel {
        Entity("Order") {
            for word in words { Attribute(word, .integer32) }
            Attribute("name", .string)
            ToOne("parent", "Order", inverse: "children")
            ToMany("children", "Order", inverse: "parent")
        }
    }

    private static func fill(_ context: ManagedObjectContext) throws {
        let parent = try context.insertObject(entityName: "Order")
        parent["name"] = "a"
        let child = try context.insertObject(entityName: "Order")
        child["name"] = "b"
        child["parent"] = parent
        for (index, word) in words.enumerated() {
            parent[word] = index
            child[word] = 100 - index
        }
    }

    /// Attributes named “group”, “order”, “index”, “first”: Apple, Predicate Programming Guide,
    /// “Predicate Format String Syntax” (reserved words, and # before them). With %K, in key paths, orders and as columns.
    @Test(arguments: SituationCase.all)
    func keysThatAreKeywordsAreKeys(_ situation: SituationCase) async throws {
        try await situation.run(Self.model, fill: Self.fill) { context in
            for (index, word) in Self.words.enumerated() {
                let names = try context.texts("name", of: "Order", where: "%K == %d", word, index)
                #expect(names == ["a"], "\(word)")
                let related = try context.texts(
                    "name", of: "Order", where: "%K == %d", "parent.\(word)", index)
                #expect(related == ["b"], "\(word)")
                let many = try context.texts(
                    "name", of: "Order", where: "ANY %K > %d", "children.\(word)", 99 - index)
                #expect(many == ["a"], "\(word)")
                let order = try context.texts("name", of: "Order") {
                    $0.sortOrderings = [SortOrdering(word, ascending: false)]
                }
                #expect(order == ["b", "a"], "\(word)")
            }
            #expect(
                try context.texts("name", of: "Order", where: "#group == 0 AND #order == 1") == [
                    "a"
                ])
            try context.save()
            guard context.parent == nil else { return }
            var request = FetchRequest("Order")
            request.propertiesToFetch = Self.words.map { ExpressionDescription($0) }
            request.sortOrderings = [SortOrdering("group")]
            let rows = try context.fetchDictionaries(request)
            #expect(
                Self.words.indices.allSatisfy { rows[0][Self.words[$0]] == .integer(Int64($0)) })
            request.propertiesToFetch = [
                "group", try ExpressionDescription("n", format: "max(%K)", "order"),
            ]
            request.propertiesToGroupBy = ["group"]
            #expect(try context.fetchDictionaries(request).map { $0["n"] } == [1, 99])
        }
    }

    /// A pattern that is no regular expression crashed the program when it met a row: magicalpanda/MagicalRecord#684; unknown keys
    /// and entities, texts compared with numbers likewise. An error in every store, also without any object; and the next
    /// fetch works.
    @Test(arguments: SituationStore.allCases, [true, false])
    func wrongPredicatesAreErrorsInEveryStore(_ store: SituationStore, filled: Bool) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            for saved in [false, true] {
                if filled && !saved { try Self.fill(context) }
                if saved { try context.save() }
                for format in [
                    "name MATCHES '('", "name MATCHES '[a'", "NOT name MATCHES '*'", "nothing == 1",
                    "parent.nothing == 1", "ANY name == 'a'", "children.name == 'a'",
                    "name.nothing == 1",
                    "ANY children.nothing == 1",
                    "SUBQUERY(children, $c, $c.nothing == 1).@count == 1",
                    "size > 'many'", "parent == 5", "children == nil AND children.@nothing == 1",
                    "size == $VARIABLE",
                    "size BETWEEN {1}", "size BETWEEN {1, 2, 3}", "parent.@count == 1",
                    "name + 1 == 2",
                ] {
                    #expect(throws: QuireError.self, "\(format)") {
                        let request = FetchRequest(
                            "Order", predicate: try QueryPredicate(format: format))
                        _ = try context.count(for: request)
                    }
                    #expect(throws: QuireError.self, "\(format)") {
                        let request = FetchRequest(
                            "Order", predicate: try QueryPredicate(format: format))
                        _ = try context.fetch(request) as [ManagedObject]
                    }
                }
                for order in ["nothing", "children", "children.name", "parent.nothing"] {
                    #expect(throws: QuireError.self, "\(order)") {
                        _ =
                            try context.fetch(
                                FetchRequest("Order", sortOrderings: [SortOrdering(order)]))
                            as [ManagedObject]
                    }
                }
                #expect(throws: QuireError.self) {
                    _ = try context.count(for: FetchRequest("order"))
                }
                #expect(try context.count(for: FetchRequest("Order")) == (filled ? 2 : 0))
            }
        }
    }
}
