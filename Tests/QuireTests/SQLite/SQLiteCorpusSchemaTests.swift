import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// What Core Data declared in the corpus is what we declare for a fresh store of the same model.
@Suite(.corpus) struct SQLiteCorpusSchemaTests {
    /// The index names a slightly older model for this one.
    private static let withOtherModel = "oss_stubbed_data.sqlite"

    private struct Declared {
        /// Column declarations by table, in order.
        var columns: [String: [String]] = [:]
        var indexes: Set<String> = []

        init(_ statements: [String]) {
            for sql in statements {
                let words = sql.split(separator: " ")
                if sql.hasPrefix("CREATE TABLE"), let open = sql.firstIndex(of: "("),
                    let close = sql.lastIndex(of: ")")
                {
                    let name = words[2].replacingOccurrences(of: "\"", with: "")
                    columns[name] = Self.parts(sql[sql.index(after: open)..<close])
                } else {
                    indexes.insert(sql)
                }
            }
        }

        /// The declarations of columns, without constraints of the table.
        private static func parts(_ body: Substring) -> [String] {
            var parts: [String] = []
            var depth = 0
            var part = ""
            for character in body {
                if character == "(" { depth += 1 }
                if character == ")" { depth -= 1 }
                if character == ",", depth == 0 {
                    parts.append(part)
                    part = ""
                } else {
                    part.append(character)
                }
            }
            return (parts + [part]).map { $0.trimmingCharacters(in: .whitespaces) }
                .filter { !$0.hasPrefix("CONSTRAINT") && !$0.hasPrefix("PRIMARY KEY") }
        }
    }

    private func declarations(
        _ corpus: SQLiteCorpusStore
    ) throws -> (ours: Declared, theirs: Declared, schema: SQLSchema) {
        let folder = try TemporaryFolder()
        let path = try corpus.copy(to: folder)
        let layout = try ManagedObjectModel(contentsOf: corpus.modelURL.path).layout()
        let schema = SQLSchema(fresh: layout)
        let theirs = try SQLiteTestStore.query(
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND type IN ('table', 'index')",
            path: path
        ).map { $0[0] }
        return (Declared(SQLSchemaStatements(schema: schema).all), Declared(theirs), schema)
    }

    @Test(arguments: SQLiteCorpusStore.all)
    func tablesHaveTheSameColumnsOfTheSameTypes(corpus: SQLiteCorpusStore) throws {
        if corpus.testDescription == Self.withOtherModel { return }
        let (ours, theirs, schema) = try declarations(corpus)
        for table in schema.tables {
            let expected = try #require(ours.columns[table.name])
            let real = try #require(theirs.columns[table.name], "\(table.name)")
            #expect(Set(expected) == Set(real), "\(table.name)")
        }
    }

    @Test func nearlyAllTablesHaveTheSameOrder() throws {
        var same = 0
        var different: [String] = []
        for corpus in SQLiteCorpusStore.all where corpus.testDescription != Self.withOtherModel {
            let (ours, theirs, schema) = try declarations(corpus)
            for table in schema.tables {
                if ours.columns[table.name] == theirs.columns[table.name] {
                    same += 1
                } else {
                    different.append("\(corpus.testDescription) \(table.name)")
                }
            }
        }
        // Those that differ were migrated in place, or have several columns for orders.
        #expect(Double(different.count) <= Double(same) * 0.05, "\(different)")
    }

    @Test(arguments: SQLiteCorpusStore.all)
    func joinTablesAreWhereTheyAre(corpus: SQLiteCorpusStore) throws {
        if corpus.testDescription == Self.withOtherModel { return }
        let (ours, theirs, schema) = try declarations(corpus)
        for join in schema.joinTables
        where join.namingSide.entityNumber != join.otherSide.entityNumber {
            // Between an entity and itself either side names the table.
            let expected = try #require(ours.columns[join.name])
            let real = try #require(theirs.columns[join.name], "\(join.name)")
            // Digits at the end differ between stores.
            func stripped(_ column: String) -> String {
                let name = column.replacingOccurrences(of: " INTEGER", with: "")
                return String(name.reversed().drop { $0.isNumber }.reversed())
            }
            #expect(Set(expected.map(stripped)) == Set(real.map(stripped)), "\(join.name)")
        }
    }

    /// Versions of Core Data from 2018 on declare indexes as we do, and for each index of a single attribute the same
    /// once more.
    @Test(arguments: SQLiteCorpusStore.all)
    func indexesAreThoseOfRecentStores(corpus: SQLiteCorpusStore) throws {
        let folder = try TemporaryFolder()
        let path = try corpus.copy(to: folder)
        let model = try ManagedObjectModel(contentsOf: corpus.modelURL.path)
        let store = try SQLiteStore.open(at: path, model: model)
        let version = try store.metadata().frameworkVersion ?? 0
        try store.close()
        // Before, uniqueness was declared within the table.
        if version < 866 { return }
        let (ours, theirs, schema) = try declarations(corpus)
        let within = schema.joinTables.filter {
            $0.namingSide.entityNumber == $0.otherSide.entityNumber
        }.map(\.name)
        let missing = ours.indexes.subtracting(theirs.indexes).filter { sql in
            !within.contains { sql.contains(" ON \($0) ") }
        }
        #expect(missing.isEmpty)
    }
}
