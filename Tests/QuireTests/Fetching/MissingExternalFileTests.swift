import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Requests about objects of which one has a value in a file that is missing: only who asks for the value learns of it.
@MainActor @Suite struct MissingExternalFileTests {
    private static let bytes = Data(repeating: 7, count: 5_000)

    /// Where the objects are.
    enum Place: CaseIterable {
        case sqlite, xml, binary, inMemory
        /// Two SQLite stores, whose results are put together in memory.
        case several

        var type: StoreType {
            switch self {
            case .sqlite, .several: .sqlite
            case .xml: .xml
            case .binary: .binary
            case .inMemory: .inMemory
            }
        }

        /// Whether values are kept in files.
        var keepsFiles: Bool { type == .sqlite }
    }

    private static let model = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Cover", FixtureModels.attribute("name", .string),
            FixtureModels.attribute("rank", .integer16),
            FixtureModels.attribute("image", .binary) { $0.allowsExternalBinaryDataStorage = true },
            FixtureModels.toMany("tags", "Tag", "cover")),
        FixtureModels.entity(
            "Tag", FixtureModels.attribute("name", .string),
            FixtureModels.toOne("cover", "Cover", "tags")),
    ])

    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// Three covers: with a file that is missing, with one that is there, and without an image.
    private func covers(_ place: Place) throws -> ManagedObjectContext {
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        for name in place == .several ? ["a", "b"] : ["a"] {
            var description = PersistentStoreDescription(
                path: place == .inMemory ? nil : folder.path(name), type: place.type)
            description.sqliteOptions.externalDataThreshold = 1_000
            try coordinator.addPersistentStore(description)
        }
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        for (rank, image) in [Data(repeating: 1, count: 5_000), Self.bytes, nil].enumerated() {
            let cover = try context.insertObject(entityName: "Cover")
            let tag = try context.insertObject(entityName: "Tag")
            if let other = coordinator.persistentStores.last, rank == 1, place == .several {
                try context.assign(cover, to: other)
                try context.assign(tag, to: other)
            }
            cover["name"] = "cover \(rank)"
            cover["rank"] = Int64(rank)
            cover["image"] = image
            tag["name"] = "tag \(rank)"
            tag["cover"] = cover
        }
        try context.save()
        context.reset()
        if place.keepsFiles {
            let found = try context.fetch(
                FetchRequest("Cover", sortOrderings: [SortOrdering("rank")]))
            let file = try #require(try found[0].externalData(forKey: "image")?.path)
            try FileManager.default.removeItem(atPath: file)
            context.reset()
        }
        return context
    }

    /// A condition that SQL cannot say, or one that it can.
    nonisolated static let conditions = [
        "image != nil", "image != nil AND tags[FIRST].name BEGINSWITH 'tag'",
    ]

    @Test(arguments: Place.allCases, conditions)
    func objectsAreFound(place: Place, format: String) throws {
        let context = try covers(place)
        var request = FetchRequest("Cover", predicate: try QueryPredicate(format: format))
        request.sortOrderings = [SortOrdering("rank")]
        for hasChanges in [false, true] {
            if hasChanges {
                let found = try #require(try context.fetch(FetchRequest("Cover")).first)
                found["name"] = "changed"
                try context.insertObject(entityName: "Cover")["rank"] = 9
            }
            #expect(
                try context.fetch(request).map { $0["rank", as: AttributeValue.self] } == [0, 1])
            #expect(try context.count(for: request) == 2)
            #expect(try context.fetchObjectIDs(request).count == 2)
        }
    }

    @Test(arguments: Place.allCases, conditions)
    func dictionariesAndAggregatesAreComputed(place: Place, format: String) throws {
        let context = try covers(place)
        var request = FetchRequest("Cover", predicate: try QueryPredicate(format: format))
        request.sortOrderings = [SortOrdering("rank")]
        for (column, isInMemory) in [("uppercase(name)", false), ("tags[FIRST].name", true)] {
            request.propertiesToFetch = [
                "rank", try ExpressionDescription("x", format: column),
            ]
            let expected: [AttributeValue?] =
                isInMemory ? ["tag 0", "tag 1"] : ["COVER 0", "COVER 1"]
            #expect(try context.fetchDictionaries(request).map { $0["x"] } == expected)
        }
        request.sortOrderings = []
        request.propertiesToFetch = [
            try ExpressionDescription("n", format: "count(SELF)"),
            try ExpressionDescription("sum", format: "sum(rank)"),
            try ExpressionDescription("most", format: "max(name)"),
        ]
        let row = try #require(try context.fetchDictionaries(request).first)
        #expect(row["n"] == 2)
        #expect(row["sum"] == 1)
        #expect(row["most"] == "cover 1")
    }

    /// The dictionaries come; the value stands for its file, and reading it is the error.
    @Test(arguments: Place.allCases, ["uppercase(name)", "tags[FIRST].name"])
    func theValueItselfIsAnErrorWhenItIsRead(place: Place, column: String) throws {
        let context = try covers(place)
        var request = FetchRequest("Cover", sortOrderings: [SortOrdering("rank")])
        request.propertiesToFetch = [
            "rank", "image", try ExpressionDescription("x", format: column),
        ]
        for isDistinct in [false, true] {
            request.returnsDistinctResults = isDistinct
            let rows = try context.fetchDictionaries(request)
            #expect(rows.map { $0["rank"] } == [0, 1, 2])
            #expect(rows.dropFirst().map { $0["image"] } == [.binary(Self.bytes), .null])
            let first = try #require(rows.first?["image"])
            guard place.keepsFiles else {
                #expect(try first.data()?.count == 5_000)
                continue
            }
            let error = #expect(throws: QuireError.self) { try first.data() }
            #expect(error?.code == .invalidFormat)
        }
        request.returnsDistinctResults = false
        request.sortOrderings = []
        request.propertiesToFetch = [
            "image", try ExpressionDescription("n", format: "count(SELF)"),
        ]
        request.propertiesToGroupBy = ["image"]
        #expect(try context.fetchDictionaries(request).map { $0["n"] } == [1, 1, 1])
    }
}
