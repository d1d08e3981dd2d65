import Foundation
import Quire

extension ConformanceCheck {
    /// Requests.
    static let requests: [ConformanceCheck] = [
        ConformanceCheck("conditions find the objects that satisfy them") { scene in
            try fill(scene)
            for (format, titles) in conditions {
                let request = FetchSpecification(
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
        ConformanceCheck("orders put objects in order") { scene in
            try fill(scene)
            for (orderings, titles) in orders {
                let request = FetchSpecification("Book", sortOrderings: orderings)
                scene.expect(
                    try scene.read(request, "title").map(text), is: titles,
                    "The order by \(orderings)"
                )
            }
        },
        ConformanceCheck("without an order objects come by primary key") { scene in
            let ids = try scene.insert("Tag", (0..<20).map { ["name": .string("\(19 - $0)")] })
            scene.expect(
                Array(try scene.store.objectIDs(matching: FetchSpecification("Tag"))), is: ids,
                "The identifiers in no order")
            scene.expect(
                try scene.store.rows(matching: FetchSpecification("Tag")).map(\.objectID), is: ids,
                "The rows in no order")
        },
        ConformanceCheck("bounds bound") { scene in
            _ = try scene.insert("Tag", (0..<10).map { ["name": .string("\($0)")] })
            for (offset, limit, names) in [
                (0, 3, ["0", "1", "2"]), (8, 0, ["8", "9"]), (7, 2, ["7", "8"]), (9, 5, ["9"]),
                (10, 5, []), (20, 0, []),
            ] {
                for orderings in [[], [SortOrdering("name")]] {
                    var request = FetchSpecification("Tag", sortOrderings: orderings)
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
        ConformanceCheck("dictionaries hold what is asked for") { scene in
            try fill(scene)
            var request = FetchSpecification("Book", sortOrderings: [SortOrdering("title")])
            request.resultType = .dictionaries
            request.propertiesToFetch = ["title", "author.name"]
            let rows = try scene.store.dictionaries(matching: request)
            scene.expect(
                rows.map { "\(text($0["title"])) \(text($0["author.name"]))" },
                is: ["Emma Austen", "Middlemarch Eliot", "Persuasion Austen"], "The dictionaries")
            request = FetchSpecification("Book", sortOrderings: [SortOrdering("author.name")])
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
            request = FetchSpecification("Book")
            request.resultType = .dictionaries
            request.returnsDistinctResults = true
            request.propertiesToFetch = ["author.name"]
            scene.expect(
                try scene.store.dictionaries(matching: request).count, is: 2,
                "The number of distinct dictionaries")
        },
        ConformanceCheck("wrong requests are refused") { scene in
            scene.expectError(.unknownEntity, when: "the entity is none") {
                _ = try scene.store.rows(matching: FetchSpecification("Nothing"))
            }
            scene.expectError(.unknownKey, when: "a key is none") {
                _ = try scene.store.rows(
                    matching: FetchSpecification(
                        "Book", predicate: try QueryPredicate(format: "nothing == 1")))
            }
            scene.expectError(.unknownKey, when: "an order's key is none") {
                _ = try scene.store.objectIDs(
                    matching: FetchSpecification("Book", sortOrderings: [SortOrdering("nothing")]))
            }
        },
        ConformanceCheck("rows are found by identifiers") { scene in
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

// MARK: - Values

extension ConformanceCheck {
    /// Values of every type.
    static let values: [ConformanceCheck] = [
        ConformanceCheck("a new store is empty", needs: []) { scene in
            for entity in scene.store.layout.entities {
                scene.expect(try scene.count(entity.name), is: 0, "The count of \(entity.name)")
                scene.expect(
                    try scene.store.rows(matching: FetchSpecification(entity.name)).isEmpty,
                    "There are rows of \(entity.name).")
            }
        },
        ConformanceCheck("values of every type come back", model: ConformanceModel.everyType) {
            scene in
            var saved: [(ManagedObjectID, String, AttributeValue)] = []
            for (key, values) in extremeValues {
                let ids = try scene.insert("Everything", values.map { [key: $0] })
                for (id, value) in zip(ids, values) { saved.append((id, key, value)) }
            }
            func compare(_ when: String) throws {
                for (id, key, value) in saved {
                    let found = try scene.value(key, of: id)
                    scene.expect(
                        found == value,
                        "“\(key)” \(when) is \(shown(found)) and should be \(shown(value)).")
                }
            }
            try compare("after the save")
            if scene.reopens {
                try scene.reopen()
                try compare("after opening the store again")
            }
        },
        ConformanceCheck("what has no value has none", model: ConformanceModel.everyType) { scene in
            let id = try scene.insert("Everything", [[:]])[0]
            for key in extremeValues.keys {
                scene.expect(try scene.value(key, of: id), is: .null, "“\(key)” of a new object")
            }
            try scene.perform { context in
                let object = try context.existingObject(with: id)
                for (key, values) in extremeValues { object[key] = values[0] }
                try context.save()
                for key in extremeValues.keys { object[key] = nil }
                try context.save()
            }
            for key in extremeValues.keys {
                scene.expect(try scene.value(key, of: id), is: .null, "“\(key)” set to nothing")
            }
            if scene.reopens { try scene.reopen() }
            for key in extremeValues.keys {
                scene.expect(try scene.value(key, of: id), is: .null, "“\(key)” after all")
            }
        },
        ConformanceCheck(
            "decimal numbers keep all digits", needs: [.saving, .exactDecimals],
            model: ConformanceModel.everyType
        ) { scene in
            let texts = [
                "12345678901234567890123456789012345678",
                "-0.00000000000000000000000000000000000001",
                "9.99e100",
            ]
            let values = texts.compactMap { Decimal(string: $0) }.map { AttributeValue.decimal($0) }
            let ids = try scene.insert("Everything", values.map { ["decimal": $0] })
            if scene.reopens { try scene.reopen() }
            for (id, value) in zip(ids, values) {
                scene.expect(try scene.value("decimal", of: id), is: value, "A decimal number")
            }
        },
    ]

    private static func shown(_ value: AttributeValue?) -> String {
        if case .binary(let data)? = value { return "\(data.count) bytes" }
        return value.map { "“\($0)”" } ?? "not there"
    }

    private static let extremeValues: [String: [AttributeValue]] = [
        "int16": [1, -1, 0, .integer(Int64(Int16.min)), .integer(Int64(Int16.max))],
        "int32": [1, 0, .integer(Int64(Int32.min)), .integer(Int64(Int32.max))],
        "int64": [1, 0, .integer(.min), .integer(.max), .integer(1 << 53 + 1)],
        "double": [
            0.1, 1e308, -1e-308, .double(.greatestFiniteMagnitude), .double(.leastNonzeroMagnitude),
            .double(.infinity), .double(-.infinity), .double(1.0 / 3), 0.0, 12345.0,
        ],
        "float": [
            0.5, .double(Double(Float.greatestFiniteMagnitude)), .double(Double(Float(0.1))),
        ],
        "decimal": ["9.99", "-0.5", "0", "123456789012345", "1e20", "0.000001"].compactMap {
            Decimal(string: $0)
        }.map { .decimal($0) },
        "boolean": [true, false],
        "string": [
            "text", "", " ", "a\nb\r\nc\td", "<&>\"'\\ \\u3c00 ]]>", "Zoë 鸟 🐦 e\u{301} \u{202E}",
            "\u{0}\u{1}\u{1F}\u{7F}\u{FFFE}\u{FFFF}",
            .string(String(repeating: "long ", count: 5000)),
        ],
        "date": [0, 0.1, -1e9, 1e10, 638_789_123.456_789, 978_307_200].map {
            .date(Date(timeIntervalSinceReferenceDate: $0))
        },
        "binary": [
            .binary(Data([1])), .binary(Data()), .binary(Data(0...255)),
            .binary(Data(repeating: 0, count: 300_000)),
        ],
        "uuid": [
            .uuid(UUID(uuid: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255))),
            .uuid(UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))),
        ],
        "uri": ["https://example.com/a?b=c&d=%20#e", "mailto:a@b.c", "relative/path"].compactMap {
            URL(string: $0)
        }.map { .uri($0) },
        "transformable": [.binary(Data([0, 255, 1])), .binary(Data("plist".utf8))],
    ]
}
