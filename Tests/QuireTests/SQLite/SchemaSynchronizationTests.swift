import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

@MainActor @Suite struct SchemaSynchronizationTests {
    private static func model(_ indexes: [Index], unique: [[String]] = []) -> ManagedObjectModel {
        var model = ManagedObjectModel {
            Entity("Place") {
                Attribute("name", .string)
                Attribute("note", .string)
                Attribute("latitude", .double)
                Attribute("longitude", .double)
                Attribute("visits", .integer32)
                Attribute("nameCopy", .string).derived("name")
                ToMany("stops", "Stop", inverse: "place")
                Attribute("stopCount", .integer64).derived("stops.@count")
            }
            Entity("Town", inherits: "Place") { Attribute("people", .integer64) }
            Entity("Stop") { ToOne("place", "Place", inverse: "stops") }
        }
        model.entities[0].indexes = indexes.map(\.description)
        model.entities[0].uniquenessConstraints = unique
        return model
    }

    private func schema(_ store: SQLiteStore) throws -> [String: String] {
        try store.read { connection in
            try connection.withStatement(
                "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
            ) { statement in
                var found: [String: String] = [:]
                while try statement.step() { found[statement.text(0)] = statement.text(1) }
                return found
            }
        }
    }

    private func integer(_ store: SQLiteStore, _ sql: String) throws -> Int64? {
        try store.read { try $0.integer(sql) }
    }

    /// A store of a model, with places, closed again.
    private func store(_ model: ManagedObjectModel, in folder: TemporaryFolder) throws -> String {
        let path = folder.path("places.sqlite")
        let store = try SQLiteStore.create(at: path, model: model)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        for index in 0..<20 {
            let place = try context.insertObject(entityName: index % 3 == 0 ? "Town" : "Place")
            place["name"] = "place \(index)"
            place["latitude"] = index == 7 ? nil : Double(index)
            place["longitude"] = Double(-index)
        }
        try context.save()
        try store.close()
        return path
    }

    private static let many = [
        Index("byName", on: "name", .descending("visits"), .expression("entity")),
        Index("visited", on: "visits").where("visits > 0"),
        Index("byPlace", on: "latitude", "longitude").rtree(),
        Index("byText", on: "name", "note").fullText(),
    ]

    @Test func missingIndexesAreMadeAndOthersDropped() throws {
        let folder = try TemporaryFolder()
        let path = try store(Self.model([Index("old", on: "note")]), in: folder)
        var store = try SQLiteStore.open(
            at: path, model: Self.model(Self.many, unique: [["name"]]))
        try store.executeOnWriter("CREATE INDEX mine ON ZPLACE (ZNOTE)")
        try store.executeOnWriter("CREATE TABLE Z_RT_note (x)")
        var found = try schema(store)
        #expect(found["Z_Place_old"] == nil)
        #expect(
            found["Z_Place_byName"]
                == "CREATE INDEX Z_Place_byName ON ZPLACE (ZNAME COLLATE BINARY ASC, ZVISITS COLLATE BINARY DESC, Z_ENT COLLATE BINARY ASC)"
        )
        #expect(found["Z_Place_visited"]?.hasSuffix(" WHERE ZVISITS > 0") == true)
        #expect(found["Z_Place_UNIQUE_name"]?.hasPrefix("CREATE UNIQUE INDEX") == true)
        #expect(
            found["Z_RT_Place_byPlace"]
                == "CREATE VIRTUAL TABLE Z_RT_Place_byPlace USING RTREE (Z_PK INTEGER PRIMARY KEY, ZLATITUDE_MIN FLOAT, ZLATITUDE_MAX FLOAT, ZLONGITUDE_MIN FLOAT, ZLONGITUDE_MAX FLOAT)"
        )
        #expect(found["Z_RT_Place_byPlace_UPDATE"] != nil)
        // All but the one without latitude.
        #expect(try integer(store, "SELECT count(*) FROM Z_RT_Place_byPlace") == 19)
        #expect(
            try integer(
                store,
                "SELECT count(*) FROM QUIRE_FT_Place_byText WHERE QUIRE_FT_Place_byText MATCH 'place'"
            ) == 20)
        #expect(try store.integrityProblems() == [])
        try store.close()

        // The store carries the model with the new indexes.
        store = try SQLiteStore.open(at: path)
        #expect(try schema(store)["Z_Place_visited"] != nil)
        try store.close()

        store = try SQLiteStore.open(at: path, model: Self.model([]))
        found = try schema(store)
        #expect(found["mine"] != nil && found["Z_RT_note"] != nil)
        #expect(!found.keys.contains { $0.hasPrefix("Z_Place_") || $0.contains("_Place_by") })
        #expect(store.schema.rtreeIndexes(of: store.layout.entities[0]).isEmpty)
        try store.close()
    }

    @Test(
        arguments: [
            ("visits != 4", "ZVISITS <> 4"),
            ("visits <> 4 AND note != NULL", "ZVISITS <> 4 AND ZNOTE IS NOT NULL"),
            ("visits > 1 OR name == 'a'", "ZVISITS > 1 OR ZNAME = 'a'"),
            (
                "(visits > 1 OR name == 'a') AND note == NULL",
                "(ZVISITS > 1 OR ZNAME = 'a') AND ZNOTE IS NULL"
            ),
            (
                "visits > 1 OR (name == 'a' AND note == NULL)",
                "ZVISITS > 1 OR (ZNAME = 'a' AND ZNOTE IS NULL)"
            ),
            ("visits > 1 OR name CONTAINS 'a'", nil), ("NOT (visits > 1)", nil),
        ] as [(String, String?)])
    func partialIndexesHaveTheConditionOfTheirPredicate(format: String, condition: String?) throws {
        let folder = try TemporaryFolder()
        let model = Self.model([Index("some", on: "name").where(format)])
        let path = try store(model, in: folder)
        let store = try SQLiteStore.open(at: path, model: model)
        defer { try? store.close() }
        let sql = try #require(try schema(store)["Z_Place_some"])
        #expect(
            sql == "CREATE INDEX Z_Place_some ON ZPLACE (ZNAME COLLATE BINARY ASC)"
                + (condition.map { " WHERE \($0)" } ?? ""))
        #expect(try store.integrityProblems() == [])
    }

    @Test func nothingIsWrittenWhereNothingDiffers() throws {
        let folder = try TemporaryFolder()
        let model = Self.model(Self.many, unique: [["name"]])
        let path = try store(model, in: folder)
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        try SQLiteStore.open(at: path, model: model).close()
        try SQLiteStore.open(at: path).close()
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
    }

    @Test func readOnlyStoresAreLeftAlone() throws {
        let folder = try TemporaryFolder()
        let path = try store(Self.model([]), in: folder)
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let store = try SQLiteStore.open(at: path, model: Self.model(Self.many), options: options)
        defer { try? store.close() }
        #expect(try schema(store)["Z_Place_byName"] == nil)
        let place = try #require(store.layout.entity(named: "Place"))
        #expect(store.schema.rtreeIndexes(of: place).isEmpty)
        #expect(store.schema.fullTextIndex(of: place, covering: 0)?.column == nil)
    }

    @Test func changedDefinitionsAreMadeAnew() throws {
        let folder = try TemporaryFolder()
        let path = try store(
            Self.model([
                Index("a", on: "name"), Index("p", on: "latitude").rtree(),
                Index("t", on: "name").fullText(),
            ]), in: folder)
        let model = Self.model([
            Index("a", on: .descending("name")), Index("p", on: "latitude", "longitude").rtree(),
            Index("t", on: "note").fullText(),
        ])
        let store = try SQLiteStore.open(at: path, model: model)
        defer { try? store.close() }
        let found = try schema(store)
        #expect(found["Z_Place_a"]?.contains("DESC") == true)
        #expect(
            try integer(store, "SELECT count(*) FROM Z_RT_Place_p WHERE ZLONGITUDE_MIN < -5") == 13)
        #expect(found["QUIRE_FT_Place_t"]?.contains("ZNOTE") == true)
    }

    @Test func objectsThatAreNotUniqueKeepTheStoreFromBeingOpened() throws {
        let folder = try TemporaryFolder()
        let path = try store(Self.model([]), in: folder)
        // Missing values are not the same.
        try SQLiteStore.open(
            at: path, model: Self.model([Index("a", on: "name")], unique: [["note", "visits"]])
        ).close()
        let duplicates = #expect(throws: QuireError.self) {
            let store = try SQLiteStore.open(at: path, model: Self.model([]))
            try store.executeOnWriter("UPDATE ZPLACE SET ZNOTE = 'same'")
            try store.close()
            try SQLiteStore.open(
                at: path, model: Self.model([Index("b", on: "note")], unique: [["note"]])
            ).close()
        }
        #expect(duplicates?.code == .constraintConflict)
        let store = try SQLiteStore.open(at: path, model: Self.model([]))
        #expect(try schema(store)["Z_Place_b"] == nil)
        try store.close()
    }

    @Test func derivedValuesAreFilledInWhenTheirTriggersAreMissing() throws {
        let folder = try TemporaryFolder()
        let path = try store(Self.model([]), in: folder)
        var store = try SQLiteStore.open(at: path)
        for name in try schema(store).keys where name.hasPrefix("Z_DA_") {
            try store.executeOnWriter("DROP TRIGGER \(name)")
        }
        try store.executeOnWriter(
            "UPDATE ZPLACE SET ZNAME = 'new', ZNAMECOPY = NULL, ZSTOPCOUNT = 99")
        try store.executeOnWriter(
            "INSERT INTO ZSTOP (Z_PK, Z_ENT, Z_OPT, ZPLACE) VALUES (1, 3, 1, 4)")
        try store.close()
        store = try SQLiteStore.open(at: path)
        #expect(try integer(store, "SELECT count(*) FROM ZPLACE WHERE ZNAMECOPY = 'new'") == 20)
        #expect(try integer(store, "SELECT sum(ZSTOPCOUNT) FROM ZPLACE") == 1)
        #expect(try schema(store).keys.contains { $0.hasPrefix("Z_DA_ZSTOP_Place_stopCount_") })
        // A trigger of an attribute that is not derived any more goes.
        try store.executeOnWriter(
            "CREATE TRIGGER Z_DA_ZPLACE_Place_note_SOURCE_INSERT AFTER INSERT ON ZPLACE BEGIN SELECT 1; END"
        )
        try store.close()
        store = try SQLiteStore.open(at: path)
        #expect(try schema(store)["Z_DA_ZPLACE_Place_note_SOURCE_INSERT"] == nil)
        try store.close()
    }

    // MARK: - R-trees

    @Test func rtreeFollowsRandomEdits() throws {
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        let stack = try TestStack(Self.model(Self.many))
        let context = stack.mainContext()
        let store = try #require(stack.coordinator.store as? SQLiteStore)
        func coordinate() -> AttributeValue {
            random.next() % 5 == 0 ? .null : .double(Double(random.next() % 1000) / 7 - 50)
        }
        for _ in 0..<30 {
            for _ in 0..<5 {
                let places = try context.fetch(FetchRequest("Place"))
                switch random.next() % 3 {
                case 0:
                    if let place = places.randomElement(using: &random) { context.delete(place) }
                case 1: places.randomElement(using: &random)?["latitude"] = coordinate()
                default:
                    let place = try context.insertObject(
                        entityName: random.next() % 2 == 0 ? "Place" : "Town")
                    place["latitude"] = coordinate()
                    place["longitude"] = coordinate()
                }
            }
            try context.save()
            let differing = try integer(
                store,
                """
                SELECT count(*) FROM ZPLACE p LEFT JOIN Z_RT_Place_byPlace r ON r.Z_PK = p.Z_PK WHERE
                CASE WHEN p.ZLATITUDE IS NULL OR p.ZLONGITUDE IS NULL THEN r.Z_PK NOT NULL
                ELSE r.Z_PK IS NULL OR NOT (r.ZLATITUDE_MIN <= p.ZLATITUDE AND p.ZLATITUDE <= r.ZLATITUDE_MAX
                AND r.ZLONGITUDE_MIN <= p.ZLONGITUDE AND p.ZLONGITUDE <= r.ZLONGITUDE_MAX) END
                """)
            #expect(differing == 0, "seed \(seed)")
            #expect(
                try integer(
                    store,
                    "SELECT count(*) FROM Z_RT_Place_byPlace WHERE Z_PK NOT IN (SELECT Z_PK FROM ZPLACE)"
                ) == 0)
        }
        #expect(try store.integrityProblems() == [])
    }

    @Test func schemaTellsWhichRTreeCoversSlots() throws {
        let stack = try TestStack(Self.model(Self.many))
        let schema = try #require(stack.coordinator.store as? SQLiteStore).schema
        let town = try #require(schema.layout.entity(named: "Town"))
        let latitude = try #require(town.slot(named: "latitude"))
        let longitude = try #require(town.slot(named: "longitude"))
        let index = try #require(schema.rtreeIndex(of: town, covering: [longitude, latitude]))
        #expect(index.name == "Z_RT_Place_byPlace")
        #expect(index.slots == [latitude, longitude])
        #expect(index.rangeColumns(of: longitude)?.least == "ZLONGITUDE_MIN")
        #expect(index.rangeColumns(of: longitude)?.greatest == "ZLONGITUDE_MAX")
        let name = try #require(town.slot(named: "name"))
        #expect(schema.rtreeIndex(of: town, covering: [latitude, name]) == nil)
        #expect(schema.fullTextIndex(of: town, covering: name)?.column == "ZNAME")
        let stop = try #require(schema.layout.entity(named: "Stop"))
        #expect(schema.rtreeIndexes(of: stop).isEmpty)
    }

    @Test(arguments: [
        (Index("x", on: "name").rtree(), "can contain only numbers and dates"),
        (Index("x", on: "visits").fullText(), "can contain only text"),
        (Index("x", on: "stops").fullText(), "not a single attribute"),
        (Index("x", on: "missing").fullText(), "not a stored property"),
        (Index("x", on: .expression("entity")).rtree(), "has an expression"),
        (Index("x", on: "name").fullText().where("visits > 0"), "has a predicate"),
        (
            Index("x", on: "visits", "visits", "visits", "visits", "visits", "visits").rtree(),
            "more than five"
        ),
    ])
    func unfitIndexesAreRefused(index: Index, reason: String) {
        let error = #expect(throws: QuireError.self) { try Self.model([index]).validate() }
        #expect(error?.message.contains(reason) == true, "\(error?.message ?? "")")
    }

    @Test func fullTextIndexesSurviveModelFiles() throws {
        let model = Self.model(Self.many)
        let read = try ManagedObjectModel(modelXML: model.modelXML(), name: "test")
        #expect(read.entities == model.entities)
        #expect(read.entityVersionHashes() == Self.model([]).entityVersionHashes())
    }
}
