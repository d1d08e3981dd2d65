import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireMigration

/// What a migration would take out of a store, it takes out only if it may.
@Suite struct RemovalTests {
    static let model = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Author", FixtureModels.attribute("name", .string),
            FixtureModels.toMany("books", "Book", "author")),
        FixtureModels.entity(
            "Book", FixtureModels.attribute("title", .string),
            FixtureModels.attribute("year", .integer16) { $0.renamingIdentifier = "y" },
            FixtureModels.attribute("rating", .integer16) { $0.defaultValue = 3 },
            FixtureModels.attribute("price", .decimal) { $0.defaultValue = .decimal(1.5) },
            FixtureModels.attribute("number", .integer64),
            FixtureModels.attribute("picture", .binary) {
                $0.allowsExternalBinaryDataStorage = true
            },
            FixtureModels.toOne("author", "Author", "books"),
            FixtureModels.toMany("tags", "Tag", "books"), FixtureModels.toMany("marks", "Mark", nil)
        ),
        FixtureModels.entity("Mark", FixtureModels.attribute("name", .string)),
        FixtureModels.entity("Special", parent: "Book", FixtureModels.attribute("extra", .string)),
        FixtureModels.entity(
            "Tag", FixtureModels.attribute("name", .string),
            FixtureModels.toMany("books", "Book", "tags")),
    ])

    /// The model after a change of one of its entities.
    static func model(
        _ name: String, _ change: (inout EntityDescription) -> Void
    ) -> ManagedObjectModel {
        var model = model
        for index in model.entities.indices where model.entities[index].name == name {
            change(&model.entities[index])
        }
        return model
    }

    private static func model(without properties: String...) -> ManagedObjectModel {
        var model = model
        for index in model.entities.indices {
            let name = model.entities[index].name
            model.entities[index].properties.removeAll {
                properties.contains("\(name).\($0.name)")
            }
        }
        return model
    }

    private static func model(
        withoutEntity name: String, _ properties: String...
    ) -> ManagedObjectModel {
        var model = model
        model.entities.removeAll { $0.name == name }
        for index in model.entities.indices {
            model.entities[index].properties.removeAll { properties.contains($0.name) }
        }
        return model
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let model: ManagedObjectModel
        let removals: [String]
    }

    static let cases = [
        Case(
            testDescription: "an entity", model: model(withoutEntity: "Author", "author"),
            removals: ["2 objects of “Author”"]),
        Case(
            testDescription: "a sub-entity", model: model(withoutEntity: "Special"),
            removals: ["1 object of “Special”"]),
        Case(
            testDescription: "an attribute, of sub-entities too",
            model: model(without: "Book.year"),
            removals: ["2 values of “Book.year”"]),
        Case(
            testDescription: "an attribute with a default value",
            model: model(without: "Book.rating", "Book.price"),
            removals: ["1 value of “Book.rating”", "1 value of “Book.price”"]),
        Case(
            testDescription: "an attribute in files", model: model(without: "Book.picture"),
            removals: ["1 value of “Book.picture”"]),
        Case(
            testDescription: "an attribute that no object has a value of",
            model: model(without: "Mark.name"), removals: []),
        Case(
            testDescription: "to-many relationships",
            model: model(without: "Book.tags", "Tag.books"),
            removals: ["3 values of “Book.tags”"]),
        Case(
            testDescription: "to-one and to-many",
            model: model(without: "Book.author", "Author.books"),
            removals: ["2 values of “Book.author”"]),
        Case(
            testDescription: "one side of a relationship",
            model: {
                var changed = model(without: "Author.books")
                changed.entities[1].properties = model.entities[1].properties.map {
                    $0.name == "author" ? FixtureModels.toOne("author", "Author", nil) : $0
                }
                return changed
            }(), removals: []),
        Case(
            testDescription: "a relationship without inverse", model: model(without: "Book.marks"),
            removals: ["2 values of “Book.marks”"]),
        Case(
            testDescription: "a number that is rounded",
            model: model("Book") {
                $0.properties = $0.properties.map {
                    $0.name == "number" ? FixtureModels.attribute("number", .double) : $0
                }
            }, removals: ["1 value of “Book.number”"]),
        Case(
            testDescription: "another name",
            model: model("Book") {
                $0.properties = $0.properties.map {
                    $0.name != "year"
                        ? $0
                        : FixtureModels.attribute("published", .integer32) {
                            $0.renamingIdentifier = "year"
                        }
                }
            }, removals: []),
        Case(
            testDescription: "an entity that leaves a hierarchy",
            model: model("Special") { $0.superentityName = nil },
            removals: [
                "1 value of “Book.title”", "1 value of “Book.year”", "1 value of “Book.number”",
                "1 value of “Book.picture”", "1 value of “Book.tags”",
            ]),
        Case(
            testDescription: "another model altogether", model: FixtureModels.everyType,
            removals: [
                "2 objects of “Author”", "2 objects of “Book”", "2 objects of “Mark”",
                "1 object of “Special”", "2 objects of “Tag”",
            ]),
    ]

    /// How a store is migrated.
    enum Way: CaseIterable, Sendable {
        case inPlace, rowByRow, copying, xml, binary

        var type: StoreType {
            switch self {
            case .inPlace, .rowByRow, .copying: .sqlite
            case .xml: .xml
            case .binary: .binary
            }
        }
    }

    @MainActor static func fill(_ path: String, _ type: StoreType) throws {
        let container = try PersistentContainer(
            managedObjectModel: model,
            persistentStoreDescriptions: [PersistentStoreDescription(path: path, type: type)])
        let context = container.viewContext
        func insert(
            _ entity: String, _ values: [String: AttributeValue]
        ) throws -> ManagedObject {
            let object = try context.insertObject(entityName: entity)
            for (key, value) in values { object[key] = value }
            return object
        }
        let books = [
            try insert("Book", ["title": "a", "year": 1815, "rating": 5, "number": 1]),
            try insert("Book", ["title": "b", "price": 2]),
            try insert(
                "Special",
                [
                    "title": "c", "year": 1816, "number": .integer(1 << 53 + 1), "extra": "x",
                    "picture": .binary(Data(repeating: 3, count: 150_000)),
                ]),
        ]
        books[1]["price"] = 2.25
        for number in 0..<2 {
            books[number]["author"] = try insert("Author", ["name": .string("\(number)")])
            books[number].add(try insert("Mark", [:]), to: "marks")
            let tag = try insert("Tag", ["name": .string("\(number)")])
            for book in books[number...].prefix(number == 0 ? 1 : 2) { book.add(tag, to: "tags") }
        }
        try context.save()
        try container.close()
    }

    /// Migrates a store.
    @MainActor private static func migrate(
        _ path: String, to model: ManagedObjectModel, _ way: Way, allowsRemoval: Bool
    ) throws {
        let manager = MigrationManager()
        manager.allowsRemoval = allowsRemoval
        switch way {
        case .inPlace, .rowByRow:
            var migration = SQLiteMigration(
                path: path, sourceModel: nil, model: model, manager: manager,
                options: SQLiteStoreOptions())
            migration.method = way == .inPlace ? .automatic : .rowByRow
            try migration.run()
        case .copying:
            let source = try SQLiteStore.open(at: path)
            defer { try? source.close() }
            try? FileManager.default.removeItem(atPath: path + ".copy")
            let copy = try SQLiteStore.create(at: path + ".copy", model: model)
            defer { try? copy.close() }
            try manager.migrateStore(from: source, to: copy)
        case .xml, .binary:
            var description = PersistentStoreDescription(path: path, type: way.type)
            var options = StoreMigrationOptions()
            options.allowsRemoval = allowsRemoval
            description.migration = options
            try PersistentContainer(
                managedObjectModel: model, persistentStoreDescriptions: [description]
            ).close()
        }
    }

    @Test(arguments: cases, Way.allCases) @MainActor
    func dataThatTheNewModelHasNoPlaceForIsRemovedIfItMayBe(case example: Case, way: Way) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("store")
        try Self.fill(path, way.type)
        if !example.removals.isEmpty {
            let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
            let error = #expect(throws: QuireError.self) {
                try Self.migrate(path, to: example.model, way, allowsRemoval: false)
            }
            #expect(error?.code == .removalDenied)
            #expect(error?.subject.file == path)
            #expect(error?.failures.count == example.removals.count)
            let message = error?.message ?? ""
            for removal in example.removals {
                #expect(message.contains(removal), "\(removal): \(message)")
            }
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == bytes)
        }
        try Self.migrate(
            path, to: example.model, way, allowsRemoval: !example.removals.isEmpty)
    }

    // MARK: - Steps

    /// Models between which nothing straight can be inferred: a number that becomes a text.
    private static let text = model("Book") {
        $0.properties[1] = FixtureModels.attribute("year", .string)
    }

    @Test(arguments: [
        // The way leads through a model without the attribute.
        model(without: "Book.year"),
        // It is renamed first, and goes then.
        model("Book") {
            $0.properties[1] = FixtureModels.attribute("published", .integer16) {
                $0.renamingIdentifier = "y"
            }
        },
    ])
    @MainActor func aWayThroughVersionsIsRefusedBeforeItsFirstStep(
        version: ManagedObjectModel
    ) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("store")
        try Self.fill(path, .sqlite)
        var options = StoreMigrationOptions()
        options.versions = ["1": Self.model, "2": version, "3": Self.text]
        let steps = try SQLiteStore.steps(at: path, to: Self.text, options)
        #expect(steps.map(\.name) == ["2", "3"])
        let removals = [MigrationRemoval(entityName: "Book", propertyName: "year", count: 2)]
        #expect(try SQLiteStore.removals(at: path, by: steps) == removals)
        let error = #expect(throws: QuireError.self) {
            _ = try SQLiteStore.open(at: path, model: Self.text, migrating: options)
        }
        #expect(error?.code == .removalDenied)
        #expect(try SQLiteStore.isStore(at: path, compatibleWith: Self.model))
        options.allowsRemoval = true
        try SQLiteStore.open(at: path, model: Self.text, migrating: options).close()
    }

    @Test @MainActor func aMappingMadeByHandIsTakenAtItsWord() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("store")
        try Self.fill(path, .sqlite)
        let model = Self.model(without: "Book.year")
        var options = StoreMigrationOptions()
        options.mappings = [
            CustomMapping(
                from: Self.model, to: model, mapping: try .inferred(from: Self.model, to: model))
        ]
        let steps = try SQLiteStore.steps(at: path, to: model, options)
        #expect(try SQLiteStore.removals(at: path, by: steps).isEmpty)
        try SQLiteStore.open(at: path, model: model, migrating: options).close()
    }

    // MARK: - Stores of Core Data's

    @Test(arguments: [false, true]) @MainActor
    func columnsThatNoVersionKnowsAreData(carriesModel: Bool) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("store")
        try Self.fill(path, .sqlite)
        // A store of Core Data's does not say by what model it was made.
        let connection = try SQLiteConnection(path: path, mode: .writing)
        try connection.execute("DROP TABLE \(SQLiteTables.model)")
        // The model that it carries tells more than one that merely resembles it.
        if !carriesModel { try connection.execute("DELETE FROM \(SQLiteTables.modelCache)") }
        connection.close()
        let model = Self.model(without: "Book.year")
        var options = StoreMigrationOptions()
        options.versions = ["only": model]
        let error = #expect(throws: QuireError.self) {
            _ = try SQLiteStore.open(at: path, model: model, migrating: options)
        }
        #expect(error?.code == .removalDenied)
        let name = carriesModel ? "year" : "ZYEAR"
        #expect(error?.failures.map(\.subject.property) == [name])
        #expect(error?.message.contains("2 values of “Book.\(name)”") == true)
        options.allowsRemoval = true
        try SQLiteStore.open(at: path, model: model, migrating: options).close()
    }

    @Test @MainActor func triggersAndIndexesThatNeitherModelCallsForAreNamed() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("store")
        try Self.fill(path, .sqlite)
        let connection = try SQLiteConnection(path: path, mode: .writing)
        for sql in [
            "DROP TABLE \(SQLiteTables.model)",
            "CREATE VIRTUAL TABLE Z_RT_Book_bounds USING RTREE (Z_PK INTEGER PRIMARY KEY, ZYEAR_MIN FLOAT, ZYEAR_MAX FLOAT)",
            "CREATE TRIGGER Z_RT_Book_bounds_DELETE AFTER DELETE ON ZBOOK BEGIN DELETE FROM Z_RT_Book_bounds WHERE Z_PK = OLD.Z_PK; END",
            "CREATE TRIGGER mine AFTER DELETE ON ZMARK BEGIN DELETE FROM ZBOOK; END",
        ] { try connection.execute(sql) }
        connection.close()
        let model = Self.model("Mark") {
            $0.properties.append(FixtureModels.attribute("more", .string))
        }
        var options = StoreMigrationOptions()
        let steps = try SQLiteStore.steps(at: path, to: model, options)
        #expect(
            try SQLiteStore.removals(at: path, by: steps).map(\.description).sorted() == [
                "the table Z_RT_Book_bounds", "the trigger mine",
            ])
        let error = #expect(throws: QuireError.self) {
            _ = try SQLiteStore.open(at: path, model: model, migrating: options)
        }
        #expect(error?.code == .removalDenied)
        #expect(error?.message.contains("the trigger mine") == true)
        #expect(Set(error?.failures.map(\.subject.entity) ?? []) == ["Book", "Mark"])
        // Nor by copy.
        let old = try SQLiteStore.open(at: path, model: Self.model)
        let copy = try SQLiteStore.create(at: folder.path("copy"), model: model)
        let refusal = #expect(throws: QuireError.self) {
            try MigrationManager().migrateStore(from: old, to: copy)
        }
        #expect(refusal?.message.contains("the table Z_RT_Book_bounds") == true)
        try old.close()
        try copy.close()

        options.allowsRemoval = true
        try SQLiteStore.open(at: path, model: model, migrating: options).close()
        let after = try SQLiteConnection(path: path, mode: .reading)
        defer { after.close() }
        #expect(
            try after.integer(
                "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'Z_RT%' OR name = 'mine'") == 0)
        #expect(try after.integer("SELECT count(*) FROM ZBOOK") ?? 0 > 0)
    }

    // MARK: - Copies

    @Test(arguments: [StoreType.sqlite, .xml]) @MainActor
    func aCopyOfWhatTheStoreWasIsKept(type: StoreType) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Books.db")
        try Self.fill(path, type)
        func open(_ path: String) throws -> [String] {
            let store = try StoreFile(at: path).open(model: Self.model)
            defer { try? store.close() }
            return try StoreDump.lines(of: store)
        }
        let before = try open(path)
        var description = PersistentStoreDescription(path: path, type: type)
        var options = StoreMigrationOptions()
        options.copyPath = StoreMigrationOptions.copyPath(beside: path)
        let copy = try #require(options.copyPath)
        #expect(
            copy.wholeMatch(of: /.*\/Books\.before-migration-[0-9]{8}-[0-9]{6}\.db/) != nil)
        description.migration = options
        func migrate() throws {
            try PersistentContainer(
                managedObjectModel: Self.model(without: "Book.year"),
                persistentStoreDescriptions: [description]
            ).close()
        }
        // What is refused leaves none.
        #expect(throws: QuireError.self) { try migrate() }
        #expect(!FileManager.default.fileExists(atPath: copy))
        options.allowsRemoval = true
        description.migration = options
        try migrate()
        #expect(try open(copy) == before)
        if type == .sqlite {
            let store = try SQLiteStore.open(at: copy)
            #expect(try StoreCheck.run(store).problems.isEmpty)
            #expect(try store.externalFiles().count == 1)
            try store.close()
        }
        // The copy is not overwritten.
        #expect(StoreMigrationOptions.copyPath(beside: path) != copy)
        description.path = copy
        #expect(throws: QuireError.self) { try migrate() }
        #expect(try open(copy) == before)
    }

    @Test(arguments: SQLiteMigration.Checkpoint.allCases.filter { $0 != .committed })
    @MainActor func aMigrationThatFailsLeavesNoCopy(point: SQLiteMigration.Checkpoint) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Books.db")
        try Self.fill(path, .sqlite)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        struct Failed: Error {}
        var migration = SQLiteMigration(
            path: path, sourceModel: nil,
            model: Self.model("Tag") {
                $0.properties.append(FixtureModels.attribute("more", .string))
            },
            manager: MigrationManager(), options: SQLiteStoreOptions())
        migration.copyPath = folder.path("copy.db")
        migration.checkpoint = { if $0 == point { throw Failed() } }
        #expect(throws: Failed.self) { try migration.run() }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == names)
    }

    @Test @MainActor func aStoreWithoutLogKeepsACopyToo() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Books.db")
        try Self.fill(path, .sqlite)
        var options = SQLiteStoreOptions()
        options.journal = .rollback
        var migration = StoreMigrationOptions()
        migration.copyPath = folder.path("copy.db")
        let model = Self.model("Tag") {
            $0.properties.append(FixtureModels.attribute("more", .string))
        }
        try SQLiteStore.open(at: path, model: model, options: options, migrating: migration).close()
        let copy = try SQLiteStore.open(at: folder.path("copy.db"), model: Self.model)
        #expect(try copy.count(matching: FetchSpecification("Book")) == 3)
        try copy.close()
    }
}
