import Foundation
import Testing

@testable import Quire
@testable import QuireSQLite

@Suite struct SQLSchemaTests {
    private func statements() throws -> SQLSchemaStatements {
        SQLSchemaStatements(schema: SQLSchema(fresh: try SQLiteTestModel.model.layout()))
    }

    @Test func tablesAreDeclaredAsCoreDataDeclaresThem() throws {
        #expect(
            try statements().tables == [
                "CREATE TABLE ZDESK ( Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZPERSON INTEGER, ZNAME VARCHAR )",
                "CREATE TABLE ZEVERYTHING ( Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, "
                    + "ZBOOLEAN INTEGER, ZINT16 INTEGER, ZINT32 INTEGER, ZINT64 INTEGER, ZDATE TIMESTAMP, "
                    + "ZDOUBLE FLOAT, ZFLOAT FLOAT, ZLAT FLOAT, ZLON FLOAT, ZDECIMAL DECIMAL, ZSTRING VARCHAR, "
                    + "ZURI VARCHAR, ZUUID BLOB, ZTRANSFORMABLE BLOB, ZBINARY BLOB, ZPICTURE BLOB )",
                "CREATE TABLE ZLETTER ( Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZSEAL INTEGER, "
                    + "ZSENDER INTEGER, Z4_SENDER INTEGER, Z_FOK_SENDER INTEGER, ZTEXT VARCHAR )",
                "CREATE TABLE ZPARTY ( Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZNOTE INTEGER, "
                    + "ZDESK INTEGER, ZSPOUSE INTEGER, ZNAME VARCHAR, ZEMAIL VARCHAR, ZNOTE1 VARCHAR )",
                "CREATE TABLE ZROOM ( Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, Z5ROOMS INTEGER, "
                    + "Z_FOK_5ROOMS INTEGER, ZNAME VARCHAR )",
                "CREATE TABLE ZTAG ( Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZNAME VARCHAR )",
            ])
    }

    @Test func joinTablesAreNamedAfterTheEntityWithTheLowerNumber() throws {
        #expect(
            try statements().joinTables == [
                "CREATE TABLE Z_4FRIENDS ( Z_4FRIENDS INTEGER, REFLEXIVE INTEGER, PRIMARY KEY (Z_4FRIENDS, REFLEXIVE) )",
                "CREATE TABLE Z_4TAGS ( Z_4PARTIES INTEGER, Z_8TAGS INTEGER, Z_FOK_4PARTIES INTEGER, "
                    + "PRIMARY KEY (Z_4PARTIES, Z_8TAGS) )",
                "CREATE TABLE Z_8RELATED ( Z_8RELATEDBY INTEGER, Z_8RELATED INTEGER, Z_FOK_8RELATED INTEGER, "
                    + "Z_FOK_8RELATEDBY INTEGER, PRIMARY KEY (Z_8RELATEDBY, Z_8RELATED) )",
            ])
    }

    @Test func indexesCoverReferencesEntitiesAndConstraints() throws {
        #expect(
            try statements().indexes == [
                "CREATE INDEX ZDESK_ZPERSON_INDEX ON ZDESK (ZPERSON)",
                "CREATE INDEX ZLETTER_ZSENDER_INDEX ON ZLETTER (ZSENDER)",
                "CREATE INDEX ZLETTER_ZSEAL_INDEX ON ZLETTER (ZSEAL)",
                "CREATE INDEX ZPARTY_Z_ENT_INDEX ON ZPARTY (Z_ENT)",
                "CREATE INDEX ZPARTY_ZSPOUSE_INDEX ON ZPARTY (ZSPOUSE)",
                "CREATE INDEX ZPARTY_ZDESK_INDEX ON ZPARTY (ZDESK)",
                "CREATE INDEX ZROOM_Z5ROOMS_INDEX ON ZROOM (Z5ROOMS)",
                "CREATE INDEX Z_4FRIENDS_REFLEXIVE_INDEX ON Z_4FRIENDS (REFLEXIVE, Z_4FRIENDS)",
                "CREATE INDEX Z_4TAGS_Z_8TAGS_INDEX ON Z_4TAGS (Z_8TAGS, Z_4PARTIES)",
                "CREATE INDEX Z_8RELATED_Z_8RELATED_INDEX ON Z_8RELATED (Z_8RELATED, Z_8RELATEDBY)",
                "CREATE UNIQUE INDEX Z_Person_UNIQUE_email ON ZPARTY (ZEMAIL COLLATE BINARY ASC)",
            ])
    }

    @Test func fetchIndexesNameEntityAndKeepDirections() throws {
        var place = SQLiteTestModel.entity(
            "Place",
            [
                SQLiteTestModel.attribute("name", .string),
                SQLiteTestModel.attribute("rank", .integer16),
                SQLiteTestModel.attribute("old", .string) { $0.isIndexed = true },
                SQLiteTestModel.toOne("owner", "Place", nil),
            ])
        place.indexes = [
            FetchIndexDescription(
                name: "byRank",
                elements: [
                    .init(propertyName: "rank", isAscending: false), .init(propertyName: "name"),
                ]),
            FetchIndexDescription(name: "byOwner", elements: [.init(propertyName: "owner")]),
            FetchIndexDescription(
                name: "byKind",
                elements: [.init(expression: "entity"), .init(propertyName: "owner")]),
            FetchIndexDescription(
                name: "byMystery", elements: [.init(expression: "uppercase(name)")]),
        ]
        for (name, predicate) in [
            ("byPart", "rank != nil AND name == \"it's\""), ("byWhole", "name BEGINSWITH \"a\""),
        ] {
            var index = FetchIndexDescription(name: name, elements: [.init(propertyName: "rank")])
            index.partialIndexPredicate = predicate
            place.indexes.append(index)
        }
        place.compoundIndexes = [["name", "rank"]]
        let schema = SQLSchema(fresh: try ManagedObjectModel(entities: [place]).layout())
        #expect(
            SQLSchemaStatements(schema: schema).indexes == [
                "CREATE INDEX ZPLACE_ZOWNER_INDEX ON ZPLACE (ZOWNER)",
                "CREATE INDEX Z_Place_old ON ZPLACE (ZOLD COLLATE BINARY ASC)",
                "CREATE INDEX Z_Place_byRank ON ZPLACE (ZRANK COLLATE BINARY DESC, ZNAME COLLATE BINARY ASC)",
                "CREATE INDEX Z_Place_byKind ON ZPLACE (Z_ENT COLLATE BINARY ASC, ZOWNER COLLATE BINARY ASC)",
                "CREATE INDEX Z_Place_byPart ON ZPLACE (ZRANK COLLATE BINARY ASC) WHERE ZRANK IS NOT NULL AND ZNAME = 'it''s'",
                "CREATE INDEX Z_Place_byWhole ON ZPLACE (ZRANK COLLATE BINARY ASC)",
                "CREATE INDEX ZPLACE_ZNAME_ZRANK ON ZPLACE (ZNAME, ZRANK)",
            ])
    }

    // MARK: - Stores as they are

    private func catalog(_ schema: SQLSchema) -> SQLCatalog {
        let tables =
            schema.tables.map { SQLCatalog.Table(name: $0.name, columns: $0.columns) }
            + schema.joinTables.map { table in
                SQLCatalog.Table(
                    name: table.name,
                    columns: [
                        table.firstColumn, table.secondColumn, table.secondOrderColumn,
                        table.firstOrderColumn,
                    ].compactMap { $0 }.map { SQLColumn(name: $0, type: "INTEGER") })
            }
        return SQLCatalog(
            entities: schema.layout.entities.map {
                SQLCatalog.Entity(
                    number: $0.number, name: $0.name, superentityNumber: $0.superentityNumber ?? 0)
            }, tables: tables)
    }

    @Test func freshStoreReadBackIsTheSame() throws {
        let fresh = SQLSchema(fresh: try SQLiteTestModel.model.layout())
        let read = try SQLSchema(fresh.layout, catalog: catalog(fresh))
        #expect(read.joinTables == fresh.joinTables)
        for (left, right) in zip(read.entities, fresh.entities) {
            #expect(left.columns == right.columns)
            #expect(left.storeNumber == right.storeNumber)
        }
    }

    @Test func otherNumbersDigitsAndSidesAreFound() throws {
        let author = SQLiteTestModel.entity(
            "Author", [SQLiteTestModel.toMany("books", "Book", "authors", ordered: true)])
        let book = SQLiteTestModel.entity(
            "Book",
            [
                SQLiteTestModel.attribute("title", .string),
                SQLiteTestModel.toMany("authors", "Author", "books"),
                SQLiteTestModel.toOne("owner", "Thing", nil),
            ])
        let layout = try ManagedObjectModel(entities: [
            author, book, SQLiteTestModel.entity("Thing", []),
            SQLiteTestModel.entity("Toy", parent: "Thing", []),
        ]).layout()
        let columns = { (names: [String]) in names.map { SQLColumn(name: $0, type: "INTEGER") } }
        let fixed = ["Z_PK", "Z_ENT", "Z_OPT"]
        let store = SQLCatalog(
            entities: [
                .init(number: 4, name: "Author", superentityNumber: 0),
                .init(number: 7, name: "Book", superentityNumber: 0),
                .init(number: 8, name: "Thing", superentityNumber: 0),
                .init(number: 9, name: "Toy", superentityNumber: 8),
                .init(number: 16001, name: "CHANGE", superentityNumber: 0),
            ],
            tables: [
                .init(name: "ZAUTHOR", columns: columns(fixed)),
                .init(name: "ZBook", columns: columns(fixed + ["ZTITLE2", "ZOWNER", "Z3_OWNER"])),
                .init(name: "ZTHING", columns: columns(fixed)),
                // Named after the side with the higher number.
                .init(
                    name: "Z_7AUTHORS",
                    columns: columns(["Z_7BOOKS1", "Z_4AUTHORS", "Z_FOK_7BOOKS1"])),
            ])
        let schema = try SQLSchema(layout, catalog: store)
        #expect(schema.entities.map(\.storeNumber) == [4, 7, 8, 9])
        #expect(schema.modelNumber(ofStoreNumber: 9) == 4)
        #expect(schema.modelNumber(ofStoreNumber: 1) == nil)
        let columnsOfBook = schema.entities[1].columns.compactMap { $0 }
        #expect(columnsOfBook.map(\.name) == ["ZTITLE2", "ZOWNER"])
        #expect(columnsOfBook[1].entityColumn == "Z3_OWNER")
        #expect(schema.entities[1].tableName == "ZBook")
        guard case .join(let join)? = schema.entities[0].toMany[0] else {
            Issue.record("Author.books is no join")
            return
        }
        #expect(join.tableName == "Z_7AUTHORS")
        #expect(join.sourceColumn == "Z_4AUTHORS")
        #expect(join.targetColumn == "Z_7BOOKS1")
        #expect(join.orderColumn == "Z_FOK_7BOOKS1")
    }

    @Test func everythingThatIsMissingIsNamed() throws {
        let fresh = SQLSchema(fresh: try SQLiteTestModel.model.layout())
        let whole = catalog(fresh)
        let lacking = SQLCatalog(
            entities: whole.entities,
            tables: whole.tables.values.filter { $0.name != "ZROOM" && $0.name != "ZTAG" })
        let error = #expect(throws: QuireError.self) {
            try SQLSchema(fresh.layout, catalog: lacking)
        }
        #expect(error?.code == .incompatibleModel)
        #expect(error?.message.contains("ZROOM") == true)
        #expect(error?.message.contains("ZTAG") == true)
    }

    @Test func toManyRelationshipsWithoutAPlaceAreEmpty() throws {
        let fresh = SQLSchema(fresh: try SQLiteTestModel.model.layout())
        let whole = catalog(fresh)
        let schema = try SQLSchema(
            fresh.layout,
            catalog: SQLCatalog(
                entities: whole.entities,
                tables: whole.tables.values.filter { $0.name != "Z_4TAGS" }))
        let missing = schema.missing.map {
            let entity = schema.layout.entity(number: $0.entityNumber)
            return "\(entity.name).\(entity.relationships[$0.index].name)"
        }
        #expect(missing.sorted() == ["Tag.parties", "party.tags"])
        let person = try #require(schema.layout.entity(named: "Person"))
        let tags = try #require(person.relationship(named: "tags"))
        guard case .nowhere("ZTAG") = schema.toMany(tags, of: person) else {
            Issue.record("party.tags has a place")
            return
        }
    }

    @Test func brokenConstraintsNameEntityAndProperties() throws {
        let schema = SQLSchema(fresh: try SQLiteTestModel.model.layout())
        let found = schema.uniqueProperties(
            inMessage: "UNIQUE constraint failed: ZPARTY.ZNAME, ZPARTY.ZEMAIL")
        #expect(found?.entity == "Person")
        #expect(found?.properties == ["name", "email"])
        #expect(schema.uniqueProperties(inMessage: "index 'x'") == nil)
    }

    @Test func namesThatAreNoIdentifiersAreQuoted() {
        #expect(SQLName.quoted("ZBOOK") == "ZBOOK")
        #expect(SQLName.quoted("ZBÜCHER") == "\"ZBÜCHER\"")
        #expect(SQLName.quoted("A\"; DROP") == "\"A\"\"; DROP\"")
        #expect(SQLName.quoted("") == "\"\"")
        #expect(SQLName.literal("it's") == "'it''s'")
    }
}
