import Foundation
import Quire

extension StoreCheck {
    /// Requests.
    static let requests = [
        StoreCheck("conditions find the objects that satisfy them") { scene in
            try fill(scene)
            for (format, titles) in conditions {
                let request = FetchRequest(
                    "Book", predicate: try QueryPredicate(format: format),
                    sortOrderings: [SortOrdering("title")])
                do {
                    let found = try scene.read(request, "title").map(text)
                    scene.expect(found, is: titles, "What “\(format)” finds")
                    scene.expect(
                        try scene.store.count(matching: request), is: titles.count,
                        "The count for “\(format)”")
                } catch { scene.fail("“\(format)” fails: \(error)") }
            }
        },
        StoreCheck("orders put objects in order") { scene in
            try fill(scene)
            for (orderings, titles) in orders {
                let request = FetchRequest("Book", sortOrderings: orderings)
                scene.expect(
                    try scene.read(request, "title").map(text), is: titles,
                    "The order by \(orderings)"
                )
            }
        },
        StoreCheck("without an order objects come by primary key") { scene in
            let ids = try scene.insert("Tag", (0..<20).map { ["name": .string("\(19 - $0)")] })
            scene.expect(
                Array(try scene.store.objectIDs(matching: FetchRequest("Tag"))), is: ids,
                "The identifiers in no order")
            scene.expect(
                try scene.store.rows(matching: FetchRequest("Tag")).map(\.objectID), is: ids,
                "The rows in no order")
        },
        StoreCheck("bounds bound") { scene in
            _ = try scene.insert("Tag", (0..<10).map { ["name": .string("\($0)")] })
            for (offset, limit, names) in [
                (0, 3, ["0", "1", "2"]), (8, 0, ["8", "9"]), (7, 2, ["7", "8"]), (9, 5, ["9"]),
                (10, 5, []), (20, 0, []),
            ] {
                for orderings in [[], [SortOrdering("name")]] {
                    var request = FetchRequest("Tag", sortOrderings: orderings)
                    request.fetchOffset = offset
                    request.fetchLimit = limit
                    let what = "offset \(offset) and limit \(limit)"
                    scene.expect(
                        try scene.read(request, "name").map(text), is: names, "What \(what) gives")
                    scene.expect(
                        try scene.store.count(matching: request), is: names.count,
                        "The count of \(what)")
                    scene.expect(
                        try scene.store.objectIDs(matching: request).count, is: names.count,
                        "The number of identifiers of \(what)")
                }
            }
        },
        StoreCheck("dictionaries hold what is asked for") { scene in
            try fill(scene)
            var request = FetchRequest("Book", sortOrderings: [SortOrdering("title")])
            request.resultType = .dictionaries
            request.propertiesToFetch = ["title", "author.name"]
            let rows = try scene.store.dictionaries(matching: request)
            scene.expect(
                rows.map { "\(text($0["title"])) \(text($0["author.name"]))" },
                is: ["Emma Austen", "Middlemarch Eliot", "Persuasion Austen"], "The dictionaries")
            request = FetchRequest("Book", sortOrderings: [SortOrdering("author.name")])
            request.resultType = .dictionaries
            request.propertiesToGroupBy = ["author.name"]
            request.propertiesToFetch = [
                "author.name", try ExpressionDescription("n", format: "count(title)"),
                try ExpressionDescription("last", format: "max(year)"),
            ]
            let groups = try scene.store.dictionaries(matching: request)
            scene.expect(
                groups.map { Array($0.values) },
                is: [["Austen", 2, 1817], ["Eliot", 1, 1871]], "The groups")
            request = FetchRequest("Book")
            request.resultType = .dictionaries
            request.returnsDistinctResults = true
            request.propertiesToFetch = ["author.name"]
            scene.expect(
                try scene.store.dictionaries(matching: request).count, is: 2,
                "The number of distinct dictionaries")
        },
        StoreCheck("wrong requests are refused") { scene in
            scene.expectError(.unknownEntity, when: "the entity is none") {
                _ = try scene.store.rows(matching: FetchRequest("Nothing"))
            }
            scene.expectError(.unknownKey, when: "a key is none") {
                _ = try scene.store.rows(
                    matching: FetchRequest(
                        "Book", predicate: try QueryPredicate(format: "nothing == 1")))
            }
            scene.expectError(.unknownKey, when: "an order's key is none") {
                _ = try scene.store.objectIDs(
                    matching: FetchRequest("Book", sortOrderings: [SortOrdering("nothing")]))
            }
        },
        StoreCheck("rows are found by identifiers") { scene in
            let ids = try scene.insert("Tag", (0..<300).map { ["name": .string("\($0)")] })
            let others = try scene.insert("Author", [["name": "a"]])
            let missing = try scene.store.reserveObjectIDs(
                for: scene.entity("Tag"), count: 1, durably: false)
            let wanted = ids.reversed() + others + missing + [ids[0]]
            let found = try scene.store.rows(for: wanted)
            scene.expect(
                Set(found.map(\.objectID)), is: Set(ids + others), "The rows for identifiers")
            scene.expect(found.count, is: 301, "The number of rows for identifiers")
            scene.expect(
                try scene.store.row(for: missing[0]) == nil, "There is a row of no object.")
        },
    ]

    private static func text(_ value: AttributeValue) -> String {
        if case .string(let text) = value { text } else { "\(value)" }
    }

    private static let conditions: [(String, [String])] = [
        ("TRUEPREDICATE", ["Emma", "Middlemarch", "Persuasion"]), ("FALSEPREDICATE", []),
        ("year > 1815", ["Middlemarch", "Persuasion"]),
        ("year BETWEEN {1815, 1817}", ["Emma", "Persuasion"]),
        ("year IN {1815, 1871, 3}", ["Emma", "Middlemarch"]),
        ("title == 'Emma'", ["Emma"]), ("title ==[c] 'EMMA'", ["Emma"]),
        ("title CONTAINS 'm'", ["Emma", "Middlemarch"].filter { $0.contains("m") }),
        ("title BEGINSWITH[cd] 'm'", ["Middlemarch"]),
        ("title LIKE '*a*'", ["Emma", "Middlemarch", "Persuasion"]),
        ("title MATCHES '[EP].*'", ["Emma", "Persuasion"]), ("price == nil", ["Middlemarch"]),
        ("price != nil", ["Emma", "Persuasion"]), ("isOut == YES", ["Emma"]),
        ("author.name == 'Austen'", ["Emma", "Persuasion"]),
        ("cover == nil", ["Middlemarch", "Persuasion"]),
        ("ANY tags.name == 'classic'", ["Emma"]),
        ("tags.@count == 1", ["Middlemarch", "Persuasion"]),
        ("SUBQUERY(tags, $t, $t.name BEGINSWITH 'c').@count > 0", ["Emma"]),
        ("NOT (year < 1816 OR author.born > 1800)", ["Persuasion"]),
        ("price * 2 > 15", ["Emma"]),
    ]

    private static let orders: [([SortOrdering], [String])] = [
        ([SortOrdering("title")], ["Emma", "Middlemarch", "Persuasion"]),
        ([SortOrdering("year", ascending: false)], ["Middlemarch", "Persuasion", "Emma"]),
        ([SortOrdering("price")], ["Middlemarch", "Persuasion", "Emma"]),
        (
            [SortOrdering("author.name", ascending: false), SortOrdering("title")],
            ["Middlemarch", "Emma", "Persuasion"]
        ),
        (
            [SortOrdering("author.name"), SortOrdering("year", ascending: false)],
            ["Persuasion", "Emma", "Middlemarch"]
        ),
    ]
}
