import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// Tables, indexes and triggers of stores that another program made: they stay as they are, or nothing is written.
@Suite @MainActor struct ForeignSchemaTests {
    private static func model(_ indexes: [Index]) -> ManagedObjectModel {
        var model = ManagedObjectModel {
            Entity("Place") {
                Attribute("name", .string)
                Attribute("kind", .integer16)
                Attribute("latitude", .double)
                Attribute("longitude", .double)
                Attribute("visits", .integer32)
                Attribute("isVisited", .boolean)
                ToMany("stops", "Stop", inverse: "place")
                Attribute("stopCount", .integer64).derived("stops.@count")
            }
            Entity("Stop") {
                Attribute("note", .string)
                ToOne("place", "Place", inverse: "stops")
            }
        }
        model.entities[0].indexes = indexes.map(\.description)
        return model
    }

    /// Core Data's R-tree of a transient attribute whose model is of Apple's own kind, with its triggers.
    nonisolated private static let rtree = [
        "CREATE VIRTUAL TABLE Z_RT_Place_boundedByRect USING RTREE (Z_PK INTEGER PRIMARY KEY, ZLATITUDE_MIN FLOAT, "
            + "ZLATITUDE_MAX FLOAT, ZLONGITUDE_MIN FLOAT, ZLONGITUDE_MAX FLOAT)",
        "CREATE TRIGGER Z_RT_Place_boundedByRect_INSERT AFTER INSERT ON ZPLACE FOR EACH ROW BEGIN INSERT OR REPLACE INTO "
            + "Z_RT_Place_boundedByRect (Z_PK, ZLATITUDE_MIN, ZLATITUDE_MAX, ZLONGITUDE_MIN, ZLONGITUDE_MAX) VALUES "
            + "(NEW.Z_PK, NEW.ZLATITUDE ,NEW.ZLATITUDE, NEW.ZLONGITUDE, NEW.ZLONGITUDE) ; END",
        "CREATE TRIGGER Z_RT_Place_boundedByRect_UPDATE AFTER UPDATE OF ZLATITUDE, ZLONGITUDE ON ZPLACE FOR EACH ROW BEGIN "
            + "UPDATE Z_RT_Place_boundedByRect SET ZLATITUDE_MIN = NEW.ZLATITUDE, ZLATITUDE_MAX = NEW.ZLATITUDE, "
            + "ZLONGITUDE_MIN = NEW.ZLONGITUDE, ZLONGITUDE_MAX = NEW.ZLONGITUDE WHERE Z_PK = NEW.Z_PK ; END",
        "CREATE TRIGGER Z_RT_Place_boundedByRect_DELETE AFTER DELETE ON ZPLACE FOR EACH ROW BEGIN DELETE FROM "
            + "Z_RT_Place_boundedByRect WHERE Z_PK = OLD.Z_PK ; END",
    ]

    /// A count that one of Apple's programs keeps in an attribute which its model does not call derived.
    nonisolated private static let counter =
        "CREATE TRIGGER COUNT_STOPS AFTER INSERT ON ZSTOP FOR EACH ROW WHEN (NEW.ZPLACE NOT NULL) BEGIN "
        + "UPDATE ZPLACE SET ZVISITS = IFNULL(ZVISITS, 0) + 1 WHERE Z_PK = NEW.ZPLACE; "
        + "SELECT NSCoreDataTriggerUpdateAffectedObjectValue('ZPLACE', Z_ENT, Z_PK, 'ZVISITS', ZVISITS) FROM ZPLACE "
        + "WHERE Z_PK = NEW.ZPLACE; END"

    nonisolated private static func execute(_ statements: [String], _ path: String) throws {
        let connection = try SQLiteConnection(path: path, mode: .writing)
        defer { connection.close() }
        try SQLiteFunctions.register(on: connection)
        connection.trustSchema()
        for sql in statements { try connection.execute(sql) }
    }

    /// A store with a place that has a stop, closed again, as another program leaves it.
    private func makeStore(
        _ indexes: [Index] = [], in folder: TemporaryFolder, _ statements: [String],
        isForeign: Bool = true
    ) throws -> String {
        let path = folder.path("places.sqlite")
        let store = try SQLiteStore.create(at: path, model: Self.model(indexes))
        try addPlace("first", to: store)
        try store.close()
        try Self.execute(
            (isForeign ? ["DROP TABLE \(SQLiteTables.model)"] : []) + statements, path)
        return path
    }

    private func addPlace(_ name: String, to store: SQLiteStore) throws {
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let place = try context.insertObject(entityName: "Place")
        place["name"] = name
        place["latitude"] = 47
        place["longitude"] = 8
        try context.insertObject(entityName: "Stop")["place"] = place
        try context.save()
    }

    /// All but the statistics that SQLite keeps of a store made here.
    private func schema(_ path: String) throws -> [[String]] {
        try SQLiteTestStore.query(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name <> 'sqlite_stat1' ORDER BY 1, 2",
            path: path)
    }

    // MARK: - What stays

    /// As Photos notes which of its objects are visible.
    @Test func triggerMaySetATruthValue() throws {
        let folder = try TemporaryFolder()
        let path = try makeStore(
            in: folder,
            [
                "CREATE TRIGGER NOTE_VISIT AFTER INSERT ON ZSTOP FOR EACH ROW WHEN (NEW.ZPLACE NOT NULL) BEGIN "
                    + "UPDATE ZPLACE SET ZISVISITED = (NEW.ZPLACE NOT NULL) WHERE Z_PK = NEW.ZPLACE; "
                    + "SELECT NSCoreDataTriggerUpdateAffectedObjectValue('ZPLACE', Z_ENT, Z_PK, 'ZISVISITED', ZISVISITED) "
                    + "FROM ZPLACE WHERE Z_PK = NEW.ZPLACE; END"
            ])
        let store = try SQLiteStore.open(at: path)
        defer { try? store.close() }
        try addPlace("second", to: store)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        var request = FetchRequest("Place")
        request.predicate = try QueryPredicate(format: "isVisited == YES")
        #expect(try context.fetch(request).map { $0["name", as: String.self] } == ["second"])
    }

    @Test func whatAnotherProgramMadeStaysAndWorks() throws {
        let folder = try TemporaryFolder()
        let indexes = [Index("byKind", on: "kind"), Index("gone", on: "name")]
        let path = try makeStore(
            indexes, in: folder,
            Self.rtree + [
                Self.counter, "DROP INDEX Z_Place_byKind",
                "CREATE INDEX Z_Place_byKind ON ZPLACE (ZKIND COLLATE BINARY ASC) WHERE abs(ZKIND) <> 4",
            ])
        let before = try schema(path)
        // With its own model, and with one that has other indexes.
        for model in [nil, Self.model([Index("byKind", on: .descending("kind"))])] {
            let store = try SQLiteStore.open(at: path, model: model)
            try addPlace("another", to: store)
            let context = ManagedObjectContext.mainQueue(
                coordinator: PersistentStoreCoordinator(store: store))
            let places = try context.fetch(FetchRequest("Place"))
            places[0]["latitude"] = 50
            places[0]["kind"] = 2
            if places.count > 2 { context.delete(places[1]) }
            try context.save()
            #expect(try store.integrityProblems() == [])
            #expect(try StoreCheck.run(store).isWhole)
            try store.close()
            #expect(try schema(path) == before)
        }
        // The first place was there before the R-tree.
        #expect(
            try SQLiteTestStore.query(
                "SELECT Z_PK, ZLATITUDE_MIN FROM Z_RT_Place_boundedByRect", path: path)
                == [["3", "47.0"]])
        #expect(
            try SQLiteTestStore.query(
                "SELECT ZVISITS, ZSTOPCOUNT FROM ZPLACE WHERE Z_PK = 3", path: path) == [
                    ["1", "1"]
                ]
        )
    }

    @Test func whatIsMissingIsAdded() throws {
        let folder = try TemporaryFolder()
        let path = try makeStore(in: folder, Self.rtree)
        let before = try schema(path)
        let model = Self.model([
            Index("byName", on: "name"), Index("byText", on: "name").fullText(),
        ])
        let store = try SQLiteStore.open(at: path, model: model)
        try addPlace("another", to: store)
        try store.close()
        let after = try schema(path)
        #expect(before.allSatisfy(after.contains))
        #expect(after.contains { $0[1] == "Z_Place_byName" })
        #expect(after.contains { $0[1] == "QUIRE_FT_Place_byText_INSERT" })
        // What only this framework makes goes when it is not called for any more.
        try SQLiteStore.open(at: path, model: Self.model([])).close()
        #expect(try !schema(path).contains { $0[1].hasPrefix("QUIRE_FT_") })
        #expect(try schema(path).contains { $0[1] == "Z_Place_byName" })
    }

    /// Its rows may be others than the model's.
    @Test func anRTreeThatIsNotAsTheModelWantsItIsNotSearched() throws {
        let folder = try TemporaryFolder()
        let path = try makeStore(in: folder, Self.rtree)
        for isUsed in [true, false] {
            let model = Self.model([
                isUsed
                    ? Index("boundedByRect", on: "latitude", "longitude").rtree()
                    : Index("boundedByRect", on: "latitude").rtree()
            ])
            let before = try schema(path)
            let store = try SQLiteStore.open(at: path, model: model)
            defer { try? store.close() }
            #expect(
                store.schema.rtreeIndexes(of: store.layout.entities[0]).isEmpty == !isUsed)
            var request = FetchSpecification("Place")
            request.predicate = try QueryPredicate(
                format: "latitude BETWEEN {40, 50} AND longitude BETWEEN {0, 10}")
            #expect(try store.rows(matching: request).count == (isUsed ? 0 : 1))
            #expect(try schema(path) == before)
        }
    }

    // MARK: - What is refused

    /// A trigger, or a table, and what the refusal must say of it.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let text: String
        let statements: [String]
        var table = "ZPLACE"

        init(_ name: String, _ text: String, _ statements: String...) {
            testDescription = name
            self.text = text
            self.statements = statements
        }

        func on(_ table: String) -> Case {
            var result = self
            result.table = table
            return result
        }
    }

    nonisolated private static let note =
        "SELECT NSCoreDataDATriggerUpdatedAffectedObjectValue('ZPLACE', Z_ENT, Z_PK, 'x', ZNAME) FROM ZPLACE;"

    nonisolated static let hostile = [
        Case(
            "deletes", "deletes rows of ZSTOP",
            "CREATE TRIGGER Z_DA_ZPLACE_Place_stopCount_X AFTER INSERT ON ZPLACE BEGIN DELETE FROM ZSTOP; END"
        ),
        Case(
            "deletes when set", "“x” on the table ZPLACE deletes rows of ZPLACE",
            "CREATE TRIGGER x AFTER UPDATE OF ZKIND ON ZPLACE BEGIN DELETE FROM ZPLACE; END"),
        Case(
            "inserts", "inserts rows into ZSTOP",
            "CREATE TRIGGER x AFTER INSERT ON ZPLACE BEGIN INSERT INTO ZSTOP (Z_ENT) VALUES (2); END"
        ),
        Case(
            "endless", "“Z_RT_Place_a_INSERT” on the table ZPLACE has a recursive query",
            "CREATE TRIGGER Z_RT_Place_a_INSERT AFTER INSERT ON ZPLACE BEGIN SELECT count(*) FROM ZSTOP WHERE Z_PK IN "
                + "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n); END"
        ),
        Case(
            "endless below", "“x” on the table ZPLACE has a recursive query",
            "CREATE TRIGGER x AFTER INSERT ON ZPLACE BEGIN SELECT (SELECT count(*) FROM "
                + "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n) LIMIT 1); END"
        ),
        Case(
            "endless view", "“x” on the table ZPLACE has a recursive query",
            "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
            "CREATE TRIGGER x AFTER INSERT ON ZPLACE BEGIN SELECT count(*) FROM v; END"),
        Case(
            "ignored before", "runs before a row is changed",
            "CREATE TRIGGER x BEFORE INSERT ON ZPLACE BEGIN SELECT RAISE(IGNORE); END"),
        Case(
            "named after", "runs before a row is changed",
            "CREATE TRIGGER \"AFTER\" INSERT ON ZPLACE BEGIN SELECT 1; END"),
        Case(
            "ignored", "prevent a row from being saved",
            "CREATE TRIGGER x AFTER INSERT ON ZPLACE BEGIN SELECT /* */ Raise ( IGNORE ); END"),
        Case(
            "value", "sets the column ZNAME of ZPLACE",
            "CREATE TRIGGER x AFTER INSERT ON ZPLACE BEGIN UPDATE ZPLACE SET ZNAME = 'x'; \(note) END"
        ),
        Case(
            "reference", "sets the column ZPLACE of ZSTOP",
            "CREATE TRIGGER x AFTER INSERT ON ZPLACE BEGIN UPDATE ZSTOP SET ZPLACE = 0; \(note) END"
        ),
        Case(
            "two columns", "sets the column ZKIND of ZPLACE",
            "CREATE TRIGGER x AFTER INSERT ON ZPLACE BEGIN UPDATE ZPLACE SET ZKIND = 1, ZSTOPCOUNT = 1; \(note) END"
        ),
        Case(
            "untold", "sets the column ZSTOPCOUNT of ZPLACE",
            "CREATE TRIGGER x AFTER INSERT ON ZPLACE BEGIN UPDATE ZPLACE SET ZSTOPCOUNT = 1; END"),
        Case(
            "replaces", "discards rows",
            "CREATE TRIGGER x AFTER INSERT ON ZPLACE BEGIN UPDATE OR REPLACE ZPLACE SET ZSTOPCOUNT = 1; \(note) END"
        ),
        Case(
            "another's R-tree", "deletes rows of Z_RT_Place_boundedByRect",
            "CREATE TRIGGER Z_RT_Place_bounded_INSERT AFTER INSERT ON ZPLACE BEGIN DELETE FROM Z_RT_Place_boundedByRect; END"
        ),
        Case(
            "books", "sets the column Z_MAX of Z_PRIMARYKEY",
            "CREATE TRIGGER x AFTER UPDATE ON Z_PRIMARYKEY BEGIN UPDATE Z_PRIMARYKEY SET Z_MAX = 0; \(note) END"
        ).on("Z_PRIMARYKEY"),
        Case(
            "unknown function", "calls the function NSCoreDataUnknown",
            "CREATE TRIGGER x AFTER INSERT ON ZPLACE BEGIN SELECT NSCoreDataUnknown(NEW.Z_PK); END"),
        Case(
            "large blob", "calls the function zeroblob",
            "CREATE TRIGGER x AFTER INSERT ON ZPLACE BEGIN SELECT zeroblob(2000000000); END"),
        Case(
            "unrelated table", "“x” on the table mine deletes rows of ZSTOP",
            "CREATE TABLE mine (a)",
            "CREATE TRIGGER x AFTER INSERT ON mine BEGIN DELETE FROM ZSTOP; END"
        ).on("mine"),
        Case(
            "table that replaces", "its table mine discards rows",
            "CREATE TABLE mine (a UNIQUE ON CONFLICT REPLACE)"
        ).on("mine"),
    ]

    @Test(arguments: hostile) func nothingIsWrittenWhereTriggersChangeObjects(hostile: Case) throws
    {
        let folder = try TemporaryFolder()
        let path = try makeStore(in: folder, Self.rtree + hostile.statements)
        let before = try schema(path)
        let rows = try SQLiteTestStore.query("SELECT * FROM ZPLACE, ZSTOP", path: path)
        // Opening it would add an index.
        let model = Self.model([Index("byName", on: "name")])
        let store = try SQLiteStore.open(at: path, model: model)
        defer { try? store.close() }
        #expect(try store.count(matching: FetchSpecification("Place")) == 1)
        func expectRefusal(_ body: () throws -> Void) {
            let error = #expect(throws: QuireError.self) { try body() }
            #expect(error?.code == .unsupported, "\(String(describing: error))")
            #expect(
                error?.message.contains(hostile.text) == true,
                "\(String(describing: error?.message))")
            #expect(error?.message.contains(hostile.table) == true)
            #expect(error?.subject.file == path)
        }
        expectRefusal { try addPlace("another", to: store) }
        expectRefusal { try store.setMetadata(.string("x"), forKey: "x") }
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        try context.fetch(FetchRequest("Place"))[0]["kind"] = 3
        expectRefusal { try context.save() }
        let report = try StoreCheck.run(store)
        #expect(report.problems.count == 1)
        #expect(
            report.problems.contains {
                $0.kind == .schema && $0.table == hostile.table && $0.message.contains(hostile.text)
            }, "\(report.problems)")
        try store.close()
        expectRefusal { _ = try StoreRepair.repair(path) }
        #expect(try schema(path) == before)
        #expect(try SQLiteTestStore.query("SELECT * FROM ZPLACE, ZSTOP", path: path) == rows)
    }

    /// It goes before anything is written.
    @Test func aTriggerThatTheModelDoesNotCallForIsNoReasonWhereItIsDropped() throws {
        let folder = try TemporaryFolder()
        let path = try makeStore(
            in: folder,
            [
                "CREATE TRIGGER Z_DA_ZPLACE_Place_name_INSERT AFTER INSERT ON ZPLACE BEGIN SELECT NSUnknown(1) FROM "
                    + "(WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n); END"
            ], isForeign: false)
        let store = try SQLiteStore.open(at: path)
        defer { try? store.close() }
        try addPlace("another", to: store)
        #expect(try StoreCheck.run(store).isWhole)
    }

    /// A file says by itself who made it.
    @Test func triggersOfStoresMadeHereAreCheckedToo() throws {
        let folder = try TemporaryFolder()
        let path = try makeStore(
            in: folder,
            ["CREATE TRIGGER x AFTER INSERT ON ZPLACE BEGIN DELETE FROM ZSTOP; END"],
            isForeign: false)
        let store = try SQLiteStore.open(at: path)
        defer { try? store.close() }
        let error = #expect(throws: QuireError.self) { try addPlace("another", to: store) }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("“x” on the table ZPLACE deletes rows of ZSTOP") == true)
        // And those that are added while it is open.
        try Self.execute(["DROP TRIGGER x"], path)
        try addPlace("another", to: store)
        try Self.execute(
            ["CREATE TRIGGER y AFTER INSERT ON ZPLACE BEGIN DELETE FROM ZSTOP; END"], path)
        let later = #expect(throws: QuireError.self) { try addPlace("third", to: store) }
        #expect(later?.message.contains("“y”") == true)
        #expect(try store.count(matching: FetchSpecification("Stop")) == 2)
    }
}
