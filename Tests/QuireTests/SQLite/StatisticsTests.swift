import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireSQLite

/// The statistics by which SQLite chooses among indexes.
@MainActor @Suite struct StatisticsTests {
    private static let model: ManagedObjectModel = {
        var place = SQLiteTestModel.entity(
            "Place",
            [
                SQLiteTestModel.attribute("country", .string),
                SQLiteTestModel.attribute("postcode", .string),
            ])
        place.indexes = [
            FetchIndexDescription(name: "byCountry", elements: [.init(propertyName: "country")]),
            FetchIndexDescription(name: "byPostcode", elements: [.init(propertyName: "postcode")]),
        ]
        return ManagedObjectModel(entities: [place])
    }()

    private static let request = FetchSpecification(
        "Place",
        predicate: .and([
            .comparison(QueryComparison(.key("country"), .equal, .constant(.string("country 1")))),
            .comparison(QueryComparison(.key("postcode"), .equal, .constant(.string("7")))),
        ]))

    private func tables(_ stack: TestStack) throws -> [String] {
        try SQLiteTestStore.query(
            "SELECT tbl FROM sqlite_stat1 GROUP BY tbl", path: stack.path
        ).map { $0[0] }
    }

    private func hasStatistics(_ stack: TestStack) throws -> Bool {
        try SQLiteTestStore.query(
            "SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_stat1'", path: stack.path
        ) == [["1"]]
    }

    private func makeStack() throws -> TestStack {
        let stack = try TestStack(Self.model)
        let context = stack.mainContext()
        for number in 0..<3_000 {
            let place = try context.insertObject(entityName: "Place")
            place["country"] = "country \(number % 2)"
            place["postcode"] = "\(number / 3)"
        }
        try context.save()
        return stack
    }

    @Test func closingASavedStoreCollectsWhatItsQueriesCanUse() throws {
        let stack = try makeStack()
        #expect(try stack.coordinator.store.count(matching: Self.request) == 2)
        try stack.coordinator.close()
        #expect(try tables(stack) == ["ZPLACE"])
        // An index with few rows for each key is chosen.
        let store = try SQLiteStore.open(at: stack.path)
        let plan = try store.explain(Self.request).plan.map(\.detail).joined()
        #expect(plan.localizedCaseInsensitiveContains("byPostcode"), "\(plan)")
        #expect(try store.integrityProblems() == [])
        try store.close()
    }

    @Test func aStoreThatWasOnlyReadStaysAsItIs() throws {
        let stack = try makeStack()
        try stack.coordinator.close()
        #expect(try !hasStatistics(stack))
        let before = try Data(contentsOf: URL(fileURLWithPath: stack.path))
        let store = try SQLiteStore.open(at: stack.path)
        #expect(try store.count(matching: Self.request) == 2)
        try store.close()
        #expect(try Data(contentsOf: URL(fileURLWithPath: stack.path)) == before)
    }

    /// Nothing else uses SQLite in this process.
    @Test func statisticsOfMemoryAreOff() throws {
        _ = try makeStack()
        #expect(SQLiteLibrary.isConfigured)
    }

    /// Closing does not wait, and loses nothing.
    @Test func whileAnotherProcessWritesThereAreNone() throws {
        let stack = try makeStack()
        #expect(try stack.coordinator.store.count(matching: Self.request) == 2)
        let other = try SQLiteConnection(path: stack.path, mode: .writing)
        try other.execute("BEGIN IMMEDIATE")
        try stack.coordinator.close()
        try other.execute("ROLLBACK")
        other.close()
        #expect(try !hasStatistics(stack))
        let store = try SQLiteStore.open(at: stack.path)
        #expect(try store.count(matching: FetchSpecification("Place")) == 3_000)
        try store.close()
    }
}
