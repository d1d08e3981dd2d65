import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

@MainActor @Suite struct BatchUpdateTests {
    let stack: BatchStack

    init() throws {
        stack = try BatchStack()
        let jane = try stack.insert("Author", ["name": "Jane", "born": 1775])
        for (title, year) in [("Emma", 1815), ("Persuasion", 1817), ("Sanditon", 1817)] {
            try stack.insert(
                "Book", ["title": .string(title), "year": .integer(Int64(year))],
                title == "Emma" ? [:] : ["author": jane])
        }
        try stack.context.save()
    }

    private func update(
        _ entity: String = "Book", where format: String? = nil,
        set values: [String: QueryExpression], _ type: BatchResultType = .count
    ) throws -> BatchResult {
        var request = BatchUpdateRequest(entityName: entity, propertiesToUpdate: values)
        request.predicate = try format.map { try QueryPredicate(format: $0) }
        request.resultType = type
        return try stack.context.execute(request)
    }

    // MARK: What is updated

    @Test func constantsAreSetWhereTheConditionHolds() throws {
        let result = try update(where: "year == 1817", set: ["isbn": .constant("x")], .objectIDs)
        #expect(result.count == 2)
        #expect(result.changes.updated.map(\.shortDescription).sorted() == ["Book/p2", "Book/p3"])
        #expect(
            try StoreInspection(stack.store).dump().filter { $0.hasPrefix("Book") } == [
                "Book/p1 v1 title=string(\"Emma\") year=integer(1815)",
                "Book/p2 v2 title=string(\"Persuasion\") year=integer(1817) isbn=string(\"x\") "
                    + "author=objectID(\(try authorURI()))",
                "Book/p3 v2 title=string(\"Sanditon\") year=integer(1817) isbn=string(\"x\") "
                    + "author=objectID(\(try authorURI()))",
            ])
        try stack.checkWhole()
    }

    private func authorURI() throws -> String {
        try #require(try stack.store.objectIDs(matching: FetchSpecification("Author")).first)
            .uriRepresentation
    }

    @Test(arguments: [BatchResultType.statusOnly, .count])
    func countIsKnownWithoutIdentifiers(type: BatchResultType) throws {
        let result = try update(set: ["isbn": .constant("x")], type)
        #expect(result == BatchResult(count: 3))
        #expect(try update(where: "year > 2000", set: ["isbn": .constant("x")], type).count == 0)
    }

    @Test func conditionMayLeadThroughRelationships() throws {
        #expect(try update(where: "author.name == 'Jane'", set: ["year": .constant(1)]).count == 2)
        #expect(
            try update("Author", where: "ANY books.year == 1", set: ["born": .constant(2)]).count
                == 1)
        #expect(try stack.values("Book", "year") == [1815, 1, 1])
        #expect(try stack.values("Author", "born") == [2])
    }

    @Test func valuesAreThoseFromBefore() throws {
        let result = try update(set: ["isbn": .key("title")])
        #expect(result.count == 3)
        #expect(try stack.values("Book", "isbn") == ["Emma", "Persuasion", "Sanditon"])
        _ = try update(set: ["isbn": .constant("new"), "title": .key("isbn")])
        #expect(try stack.values("Book", "title") == ["Emma", "Persuasion", "Sanditon"])
        #expect(try stack.values("Book", "isbn") == ["new", "new", "new"])
    }

    @Test func valuesMayComeFromRelatedObjectsThatAreUpdatedToo() throws {
        let stack = try BatchStack()
        var last: ManagedObject?
        // Each is the manager of the one before, whose key is smaller or greater.
        for (index, name) in ["a", "b", "c", "d"].enumerated() {
            let person = try stack.insert(
                "Manager", ["name": .string(name), "salary": .double(Double(index))])
            if let last {
                (index == 2 ? person : last)["manager"] = index == 2 ? last : person
            }
            last = person
        }
        try stack.context.save()
        let expected = try stack.context.fetch(FetchRequest("Manager")).map {
            $0.object("manager")?["salary", as: AttributeValue.self] ?? .null
        }
        let request = BatchUpdateRequest(
            entityName: "Manager", propertiesToUpdate: ["salary": .key("manager.salary")])
        try stack.context.execute(request)
        #expect(try stack.values("Manager", "salary") == expected)
        try stack.checkWhole()
    }

    @Test func nullClearsAndDefaultsStay() throws {
        _ = try update(set: ["year": .constant(.null)])
        #expect(try stack.values("Book", "year") == [.null, .null, .null])
    }

    @Test func subentitiesAreIncludedUnlessRefused() throws {
        try stack.insert("Person", ["name": "p"])
        try stack.insert("Manager", ["name": "m"])
        try stack.context.save()
        var request = BatchUpdateRequest(
            entityName: "Person", propertiesToUpdate: ["name": .constant("x")])
        request.includesSubentities = false
        #expect(try stack.context.execute(request).count == 1)
        #expect(try stack.values("Person", "name") == ["x", "m"])
        request.includesSubentities = true
        request.resultType = .objectIDs
        #expect(
            try stack.context.execute(request).changes.updated.map(\.shortDescription).sorted()
                == ["Manager/p2", "Person/p1"])
    }

    @Test func everyTypeIsKeptAsSavesKeepIt() throws {
        let stack = try BatchStack(FixtureModels.everyType)
        let values: [String: AttributeValue] = [
            "int16": 7, "int32": -8, "int64": .integer(.max),
            "decimal": .decimal(try #require(Decimal(string: "12.50"))), "double": 1.5,
            "float": 0.1, "string": "text\0é", "boolean": true,
            "date": .date(Date(timeIntervalSinceReferenceDate: 12.25)),
            "binary": .binary(Data([0, 1])), "external": .binary(Data([2])), "uuid": .uuid(UUID()),
            "uri": .uri(try #require(URL(string: "https://example.org/a"))),
            "transformable": .binary(Data([3])),
        ]
        try stack.insert("Everything", values)
        try stack.insert("Everything")
        try stack.context.save()
        let second = try QueryPredicate(format: "int16 == nil")
        try stack.context.execute(
            BatchUpdateRequest(
                entityName: "Everything", predicate: second,
                propertiesToUpdate: values.mapValues { .constant($0) }))
        let lines = try StoreInspection(stack.store).dump()
        #expect(lines[0].replacing("p1 v1", with: "p2 v2") == lines[1])
        // And copied from one attribute to another of its type.
        try stack.context.execute(
            BatchUpdateRequest(
                entityName: "Everything",
                propertiesToUpdate: Dictionary(
                    uniqueKeysWithValues: values.keys.filter { $0 != "external" }.map {
                        ($0, .key($0))
                    })))
        #expect(
            try StoreInspection(stack.store).dump()
                == lines.map { $0.replacing(" v2", with: " v3").replacing(" v1", with: " v2") })
    }

    @Test func elementsOfCompositesAreSet() throws {
        let stack = try BatchStack(SQLiteTestModel.model)
        try stack.insert("Everything", ["place": .composite(["lat": 1, "lon": 2])])
        try stack.context.save()
        try stack.context.execute(
            BatchUpdateRequest(
                entityName: "Everything",
                propertiesToUpdate: ["place.lat": .key("place.lon")]))
        #expect(try stack.values("Everything", "place.lat") == [2.0])
        try stack.context.execute(
            BatchUpdateRequest(
                entityName: "Everything",
                propertiesToUpdate: ["place": .constant(.composite(["lon": 5]))]))
        #expect(try stack.values("Everything", "place.lat") == [.null])
        #expect(try stack.values("Everything", "place.lon") == [5.0])
    }

    // MARK: External data

    @Test func filesOfReplacedValuesGoAfterTheRequest() throws {
        for _ in 0..<2 {
            try stack.insert("Cover", ["image": .binary(Data(repeating: 1, count: 150_000))])
        }
        try stack.context.save()
        let files = try stack.store.externalFiles().map(\.path)
        #expect(files.count == 2)
        _ = try update("Cover", set: ["image": .constant(.binary(Data([9])))])
        #expect(try stack.values("Cover", "image") == [.binary(Data([9])), .binary(Data([9]))])
        #expect(try stack.store.externalFiles().isEmpty)
        #expect(files.allSatisfy { FileManager.default.fileExists(atPath: $0) })
        try stack.store.close()
        #expect(!files.contains { FileManager.default.fileExists(atPath: $0) })
    }

    @Test func largeValuesCannotBeShared() throws {
        let error = try stack.failure {
            _ = try update(
                "Cover", set: ["image": .constant(.binary(Data(repeating: 1, count: 150_000)))])
        }
        #expect(error.code == .unsupported)
    }

    // MARK: What is refused

    @Test func propertiesThatCannotBeSetAreRefused() throws {
        let cases: [([String: QueryExpression], QuireError.Code)] = [
            ([:], .invalidQuery), (["titel": .constant("x")], .unknownKey),
            (["author": .constant(.null)], .unsupported),
            (["tags": .constant(.null)], .unsupported),
            (["year": .constant("many")], .invalidValue),
            (["year": .constant(100_000)], .invalidValue),
            (["title": .constant(.null)], .validation),
            (["title": .key("tags.name")], .unsupported),
            (["title": .key("author")], .unsupported),
            (["title": .key("nothing")], .unknownKey),
            (["title": .evaluatedObject], .unsupported),
            (["title": .collection([.constant("a")])], .unsupported),
        ]
        for (values, code) in cases {
            let error = try stack.failure { _ = try update(set: values) }
            #expect(error.code == code, "\(values)")
        }
        let error = try stack.failure { _ = try update("Nobody", set: ["x": .constant(1)]) }
        #expect(error.code == .unknownEntity)
    }

    @Test func computedValuesAreChecked() throws {
        // The author's name is missing where there is no author.
        let error = try stack.failure { _ = try update(set: ["title": .key("author.name")]) }
        #expect(error.code == .validation)
        #expect(error.message.hasSuffix(" The object is Book/p1."))
        #expect(
            try update(where: "author != nil", set: ["title": .key("author.name")]).count == 2)
        #expect(try stack.values("Book", "title") == ["Emma", "Jane", "Jane"])
    }

    @Test func kindsOfComputedValuesMustFit() throws {
        for values in [
            ["title": .key("year")], ["year": .key("title")],
            ["title": .function(.add, [.key("year"), .constant(1)])],
        ] as [[String: QueryExpression]] {
            let error = try stack.failure { _ = try update(set: values) }
            #expect(error.code == .invalidValue)
        }
    }

    @Test func valuesMayBeComputedByFunctions() throws {
        _ = try update(set: [
            "year": .function(
                .add, [.function(.multiply, [.key("year"), .constant(2)]), .constant(1)]),
            "isbn": .function(.uppercase, [.key("title")]),
            "price": .function(.divide, [.key("year"), .constant(2.0)]),
        ])
        #expect(try stack.values("Book", "year") == [3631, 3635, 3635])
        #expect(try stack.values("Book", "isbn") == ["EMMA", "PERSUASION", "SANDITON"])
        #expect(
            try stack.values("Book", "price") == [
                .decimal(907.5), .decimal(908.5), .decimal(908.5),
            ])
        _ = try update("Author", set: ["born": .function(.count, [.key("books")])])
        #expect(try stack.values("Author", "born") == [2])
        let error = try stack.failure {
            _ = try update(set: ["year": .function(.multiply, [.key("year"), .constant(100)])])
        }
        #expect(error.code == .invalidValue)
    }

    @Test func conditionThatSQLCannotSayIsTestedBefore() throws {
        let first = "SUBQUERY(books, $b, $b.year > 0)[FIRST].title == 'Persuasion'"
        #expect(try update("Author", where: first, set: ["born": .constant(1)]).count == 1)
        #expect(try stack.values("Author", "born") == [1])
        let request = FetchRequest("Author", predicate: try QueryPredicate(format: first))
        #expect(try stack.store.objectsBeyondSQL(request.specification)?.count == 1)
        #expect(try stack.context.execute(BatchDeleteRequest(fetchRequest: request)).count == 3)
        try stack.checkWhole()
    }

    @Test func rangesHoldForComputedValues() throws {
        let stack = try BatchStack(
            ManagedObjectModel(entities: [
                FixtureModels.entity(
                    "Item", FixtureModels.attribute("large", .integer64),
                    FixtureModels.attribute("small", .integer16) { $0.maximum = 10 })
            ]))
        for large in [1, 11, 100_000] as [Int64] {
            try stack.insert("Item", ["large": .integer(large)])
        }
        try stack.context.save()
        for (format, code) in [
            ("large == 11", QuireError.Code.validation), ("large == 100000", .invalidValue),
        ] {
            let error = try stack.failure {
                try stack.context.execute(
                    BatchUpdateRequest(
                        entityName: "Item", predicate: try QueryPredicate(format: format),
                        propertiesToUpdate: ["small": .key("large")]))
            }
            #expect(error.code == code)
        }
    }

    @Test func brokenUniquenessChangesNothing() throws {
        try stack.insert("Tag", ["name": "a"])
        try stack.insert("Tag", ["name": "b"])
        try stack.context.save()
        stack.context.mergePolicy = .overwrite
        let error = try stack.failure { _ = try update("Tag", set: ["name": .constant("c")]) }
        #expect(error.code == .constraintConflict)
        #expect(error.subject.property == "name")
    }
}
