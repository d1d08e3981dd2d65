import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@MainActor @Suite struct BatchInsertTests {
    let stack: BatchStack

    init() throws { stack = try BatchStack() }

    private func books(
        _ rows: [[String: AttributeValue]], _ type: BatchResultType = .objectIDs
    ) throws -> BatchResult {
        var request = BatchInsertRequest(entityName: "Book", objects: rows)
        request.resultType = type
        return try stack.context.execute(request)
    }

    // MARK: What is inserted

    @Test func rowsBecomeObjectsOfVersionOne() throws {
        let result = try books([["title": "Emma", "year": 1815], ["title": "Persuasion"]])
        #expect(result.count == 2)
        #expect(result.changes.inserted.map(\.shortDescription) == ["Book/p1", "Book/p2"])
        #expect(
            try StoreInspection(stack.store).dump() == [
                "Book/p1 v1 title=string(\"Emma\") year=integer(1815)",
                "Book/p2 v1 title=string(\"Persuasion\")",
            ])
        try stack.checkWhole()
    }

    @Test(arguments: BatchResultType.allCases)
    func identifiersAreGivenWhenAskedFor(type: BatchResultType) throws {
        let result = try books([["title": "Emma"]], type)
        #expect(result.count == 1)
        #expect(result.changes.inserted.count == (type == .objectIDs ? 1 : 0))
        #expect(result.changes.updated.isEmpty && result.changes.deleted.isEmpty)
    }

    @Test func generatorEndsWithTrueWhoseRowIsNotInserted() throws {
        var number: Int64 = 0
        let request = BatchInsertRequest(entityName: "Song") { row in
            #expect(row.isEmpty)
            number += 1
            row["title"] = .string("s\(number)")
            return number > 2500
        }
        #expect(try stack.context.execute(request).count == 2500)
        #expect(try stack.count("Song") == 2500)
        try stack.checkWhole()
    }

    @Test func noRowsAreNoError() throws {
        #expect(try books([]).count == 0)
        #expect(
            try stack.context.execute(BatchInsertRequest(entityName: "Book") { _ in true }).count
                == 0)
        try stack.checkWhole()
    }

    @Test func everyTypeIsKeptAsSavesKeepIt() throws {
        let stack = try BatchStack(FixtureModels.everyType)
        let row: [String: AttributeValue] = [
            "int16": 7, "int32": -8, "int64": .integer(.max),
            "decimal": .decimal(try #require(Decimal(string: "12.50"))), "double": 1.5,
            "float": 0.1, "string": "text\0é", "boolean": true,
            "date": .date(Date(timeIntervalSinceReferenceDate: 12.25)),
            "binary": .binary(Data([0, 1])), "external": .binary(Data([2])), "uuid": .uuid(UUID()),
            "uri": .uri(try #require(URL(string: "https://example.org/a"))),
            "transformable": .binary(Data([3])),
        ]
        try stack.insert("Everything", row)
        try stack.context.save()
        try stack.context.execute(BatchInsertRequest(entityName: "Everything", objects: [row]))
        let lines = try StoreInspection(stack.store).dump()
        #expect(lines.count == 2)
        #expect(lines[0].replacing("p1 ", with: "p2 ") == lines[1])
    }

    @Test func valuesAreCoercedAsObjectsCoerceThem() throws {
        _ = try books([["title": "Emma", "price": 9.99], ["title": "Sanditon", "price": 5]])
        #expect(
            try stack.values("Book", "price") == [
                .decimal(try #require(Decimal(string: "9.99"))), .decimal(5),
            ])
    }

    @Test func missingValuesAreDefaults() throws {
        let stack = try BatchStack(
            ManagedObjectModel(entities: [
                FixtureModels.entity(
                    "Item",
                    FixtureModels.attribute("count", .integer32, optional: false) {
                        $0.defaultValue = 3
                    }, FixtureModels.attribute("note", .string) { $0.defaultValue = "none" })
            ]))
        try stack.context.execute(
            BatchInsertRequest(entityName: "Item", objects: [[:], ["count": 4, "note": .null]]))
        #expect(try stack.values("Item", "count") == [3, 4])
        #expect(try stack.values("Item", "note") == ["none", .null])
    }

    @Test func elementsOfCompositesAreSetOneByOneOrTogether() throws {
        let stack = try BatchStack(SQLiteTestModel.model)
        try stack.context.execute(
            BatchInsertRequest(
                entityName: "Everything",
                objects: [
                    ["place": .composite(["lat": 1.5, "lon": 2])], ["place.lon": 3.5],
                ]))
        #expect(try stack.values("Everything", "place.lat") == [1.5, .null])
        #expect(try stack.values("Everything", "place.lon") == [2.0, 3.5])
    }

    @Test func objectsOfSubentitiesShareTheKeysOfTheirHierarchy() throws {
        try stack.insert("Person", ["name": "Ann"])
        try stack.context.save()
        try stack.context.execute(
            BatchInsertRequest(entityName: "Manager", objects: [["name": "Bo", "salary": 5]]))
        #expect(try stack.values("Person", "name") == ["Ann", "Bo"])
        try stack.insert("Employee", ["name": "Cy"])
        try stack.context.save()
        #expect(try stack.values("Employee", "name") == ["Bo", "Cy"])
        try stack.checkWhole()
    }

    // MARK: Relationships

    @Test func relationshipsLeadToTheObjectsNamed() throws {
        let author = try stack.insert("Author", ["name": "Jane"])
        try stack.context.save()
        _ = try books([
            ["title": "Emma", "author": .objectID(author.objectID)],
            ["title": "Sanditon", "author": .null],
        ])
        let fresh = ManagedObjectContext.mainQueue(coordinator: stack.coordinator)
        let found = fresh.object(with: author.objectID)
        #expect(found.objects("books").map { $0["title", as: String.self] } == ["Emma"])
        try stack.checkWhole()
    }

    @Test func newObjectsComeLastInOrders() throws {
        let shelf = try stack.insert("Shelf", ["name": "A"])
        for title in ["z", "y"] {
            shelf.add(try stack.insert("Book", ["title": .string(title)]), to: "books")
        }
        let empty = try stack.insert("Shelf", ["name": "B"])
        try stack.context.save()
        let (a, b) = (
            AttributeValue.objectID(shelf.objectID), AttributeValue.objectID(empty.objectID)
        )
        _ = try books([
            ["title": "x", "shelf": a], ["title": "w", "shelf": b], ["title": "v", "shelf": a],
            ["title": "u", "shelf": b],
        ])
        let fresh = ManagedObjectContext.mainQueue(coordinator: stack.coordinator)
        #expect(
            fresh.object(with: shelf.objectID).objects("books").map { $0["title", as: String.self] }
                == [
                    "z", "y", "x", "v",
                ])
        #expect(
            fresh.object(with: empty.objectID).objects("books").map { $0["title", as: String.self] }
                == [
                    "w", "u",
                ])
        try stack.checkWhole()
    }

    @Test func boundsOfTheOtherSideHold() throws {
        let stack = try BatchStack(
            ManagedObjectModel(entities: [
                FixtureModels.entity(
                    "Team",
                    FixtureModels.toMany("members", "Member", "team") { $0.maximumCount = 2 }
                ), FixtureModels.entity("Member", FixtureModels.toOne("team", "Team", "members")),
            ]))
        let team = try stack.insert("Team")
        try stack.context.save()
        let row: [String: AttributeValue] = ["team": .objectID(team.objectID)]
        try stack.context.execute(BatchInsertRequest(entityName: "Member", objects: [row, row]))
        let error = try stack.failure {
            try stack.context.execute(BatchInsertRequest(entityName: "Member", objects: [row]))
        }
        #expect(error.code == .validation)
        #expect(error.subject.rule == .maximumCount)
        #expect(
            error.message
                == "“members” of Team/p1 would refer to 3 objects; at most 2 are allowed.")
    }

    @Test func referencesThatCannotBeSetAreRefused() throws {
        let book = try stack.insert("Book", ["title": "Emma"])
        let gone = try stack.insert("Author", ["name": "Nobody"])
        let new = try stack.insert("Author", ["name": "New"])
        try stack.context.save()
        stack.context.delete(gone)
        try stack.context.save()
        let rows: [(String, [String: AttributeValue], QuireError.Code)] = [
            ("Book", ["title": "a", "author": .objectID(gone.objectID)], .notFound),
            ("Book", ["title": "a", "author": .objectID(book.objectID)], .invalidValue),
            ("Book", ["title": "a", "author": "Jane"], .invalidValue),
            ("Book", ["title": "a", "tags": .null], .unsupported),
            ("Cover", ["book": .objectID(book.objectID)], .unsupported),
            ("Person", ["spouse": .objectID(new.objectID)], .unsupported),
        ]
        for (entity, row, code) in rows {
            let error = try stack.failure {
                try stack.context.execute(BatchInsertRequest(entityName: entity, objects: [row]))
            }
            #expect(error.code == code, "\(row)")
            #expect(error.subject.position == 1)
        }
        let other = try BatchStack()
        try other.insert("Author", ["name": "Other"])
        try other.context.save()
        let foreign = try #require(
            try other.store.objectIDs(matching: FetchSpecification("Author")).first)
        let error = try stack.failure {
            _ = try books([["title": "a", "author": .objectID(foreign)]])
        }
        #expect(error.code == .invalidValue)
    }

    // MARK: Rows that are refused

    @Test func wrongRowIsNamedAndNothingIsInserted() throws {
        let good: [String: AttributeValue] = ["title": "good"]
        let cases: [([String: AttributeValue], QuireError.Code, String?)] = [
            (["title": "bad", "titel": "x"], .unknownKey, "titel"),
            (["title": "bad", "year": "many"], .invalidValue, "year"),
            (["title": "bad", "year": 100_000], .invalidValue, "year"),
            (["year": 1815], .validation, "title"),
            (["title": .null], .validation, "title"),
        ]
        for (row, code, property) in cases {
            let error = try stack.failure { _ = try books([good, good, row, good]) }
            #expect(error.code == code)
            #expect(error.subject.position == 3)
            #expect(error.subject.entity == "Book")
            #expect(error.subject.property == property)
            #expect(error.message.hasPrefix("Row 3: "))
        }
        // The keys that were given out and not used are no harm.
        _ = try books([good])
        try stack.checkWhole()
    }

    @Test func transientDerivedAndUnknownPropertiesAreRefused() throws {
        var total = AttributeDescription(name: "total", type: .integer64)
        total.derivationExpression = "items.@count"
        let stack = try BatchStack(
            ManagedObjectModel(entities: [
                FixtureModels.entity(
                    "List", .attribute(total),
                    FixtureModels.attribute("memory", .string) { $0.isTransient = true },
                    FixtureModels.toMany("items", "Item", "list")),
                FixtureModels.entity("Item", FixtureModels.toOne("list", "List", "items")),
            ]))
        for row in [["total": 1], ["memory": "x"]] as [[String: AttributeValue]] {
            let error = try stack.failure {
                try stack.context.execute(BatchInsertRequest(entityName: "List", objects: [row]))
            }
            #expect(error.code == .unsupported)
        }
    }

    @Test func entityMustBeThereAndNotAbstract() throws {
        let stack = try BatchStack(SQLiteTestModel.model)
        var error = try stack.failure {
            try stack.context.execute(BatchInsertRequest(entityName: "Nobody", objects: [[:]]))
        }
        #expect(error.code == .unknownEntity)
        error = try stack.failure {
            try stack.context.execute(BatchInsertRequest(entityName: "party", objects: [[:]]))
        }
        #expect(error.code == .unsupported)
    }

    @Test func errorOfTheGeneratorEndsTheRequest() throws {
        struct Stop: Error {}
        var count = 0
        let request = BatchInsertRequest(entityName: "Song") { row in
            count += 1
            if count == 10 { throw Stop() }
            return false
        }
        #expect(throws: Stop.self) { try stack.context.execute(request) }
        #expect(try stack.count("Song") == 0)
        try stack.insert("Song")
        try stack.context.save()
        try stack.checkWhole()
    }

    @Test func generatorMayReadTheStore() throws {
        try stack.insert("Song", ["title": "one"])
        try stack.context.save()
        var count = 0
        try stack.context.execute(
            BatchInsertRequest(entityName: "Song") { _ in
                count += 1
                let found = try stack.context.count(for: FetchRequest("Song"))
                #expect(found == 1)
                return count > 3
            })
        #expect(try stack.count("Song") == 4)
    }

    @Test func generatorThatSavesStopsTheProgram() async {
        await #expect(processExitsWith: .failure) {
            try await MainActor.run {
                let stack = try BatchStack()
                try stack.context.execute(
                    BatchInsertRequest(entityName: "Song") { _ in
                        try stack.insert("Song")
                        try stack.context.save()
                        return true
                    })
            }
        }
    }

    // MARK: External data

    @Test func largeValuesGoToFiles() throws {
        let large = Data(repeating: 7, count: 200_000)
        try stack.context.execute(
            BatchInsertRequest(
                entityName: "Cover",
                objects: [["image": .binary(large)], ["image": .binary(Data([1]))], [:]]))
        #expect(
            try stack.values("Cover", "image") == [.binary(large), .binary(Data([1])), .null])
        #expect(try stack.store.externalFiles().count == 1)
        try stack.checkWhole()
    }

    @Test func filesOfARequestThatFailsAreRemoved() throws {
        let large = AttributeValue.binary(Data(repeating: 7, count: 200_000))
        let error = try stack.failure {
            try stack.context.execute(
                BatchInsertRequest(
                    entityName: "Cover", objects: [["image": large], ["image": large], ["x": 1]]))
        }
        #expect(error.code == .unknownKey)
        #expect(try stack.store.unreferencedExternalFiles().isEmpty)
    }

    // MARK: Identifiers

    @Test func identifiersReservedBeforeAreNotGivenOutAgain() throws {
        // The context has set identifiers aside in memory only, as the one writer of a document may.
        var options = SQLiteStoreOptions()
        options.isOnlyWriter = true
        let stack = try BatchStack(options: options)
        let early = try stack.insert("Song", ["title": "early"])
        try stack.context.obtainPermanentIDs(for: [early])
        try stack.context.execute(
            BatchInsertRequest(
                entityName: "Song", objects: [["title": "batch"], ["title": "batch"]]))
        let late = try stack.insert("Song", ["title": "late"])
        try stack.context.save()
        #expect(
            try stack.values("Song", "title") == ["early", "batch", "batch", "late"])
        #expect(early.objectID.primaryKey == 1)
        #expect(late.objectID.primaryKey == 4)
        try stack.checkWhole()
    }

    @Test func identifiersThatAnotherProcessUsedAreNotGivenOut() throws {
        try stack.insert("Song", ["title": "mine"])
        try stack.context.save()
        let other = try SQLiteStore.open(at: stack.path)
        _ = try other.insert(
            BatchInsertRequest(entityName: "Song", objects: [["title": "theirs"]]),
            onConflict: .error)
        try other.close()
        try stack.context.execute(
            BatchInsertRequest(entityName: "Song", objects: [["title": "mine again"]]))
        #expect(try stack.values("Song", "title") == ["mine", "theirs", "mine again"])
        try stack.checkWhole()
    }
}
