import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// A store like one that was opened before is opened without reading its model again, and one that differs in anything is
/// read: their layouts are one object, or are not.
@Suite struct SQLiteSchemaCacheTests {
    let folder: TemporaryFolder
    /// With a memory of this test's own, so that no other one's stores push out what is to be found.
    let options: SQLiteStoreOptions

    init() throws {
        folder = try TemporaryFolder()
        var options = SQLiteStoreOptions()
        options.schemaCache = SQLiteSchemaCache()
        self.options = options
    }

    private func make(_ name: String, _ model: ManagedObjectModel = Self.model) throws -> String {
        let path = folder.path(name)
        let store = try SQLiteStore.create(at: path, model: model)
        let context = QueueConfinedContext(
            coordinator: PersistentStoreCoordinator(store: store))
        try context.performAndWait {
            try $0.insertObject(entityName: "Place")["name"] = name
            try $0.save()
        }
        try store.close()
        return path
    }

    private static let model: ManagedObjectModel = {
        var model = ManagedObjectModel {
            Entity("Place") {
                Attribute("name", .string)
                Attribute("visits", .integer32)
            }
        }
        model.entities[0].indexes = [
            FetchIndexDescription(name: "byName", elements: [.init(propertyName: "name")])
        ]
        return model
    }()

    private func key(
        _ path: String, _ options: SQLiteStoreOptions = .init()
    ) throws -> SQLiteSchemaCache.Key {
        let connection = try SQLiteConnection(path: path, mode: .immutable)
        defer { connection.close() }
        return try #require(try SQLiteSchemaCache.Key(of: connection, options: options))
    }

    @Test func twoStoresOfAModelAreAlike() throws {
        let paths = try ["a", "b"].map { try make($0) }
        #expect(try key(paths[0]) == key(paths[1]))
        let stores = try paths.map { try SQLiteStore.open(at: $0, options: options) }
        #expect(stores[0].layout === stores[1].layout)
        #expect(stores[0].identity.uuid != stores[1].identity.uuid)
        for (store, name) in zip(stores, ["a", "b"]) {
            var request = FetchSpecification("Place")
            request.predicate = try QueryPredicate(format: "name == '\(name)'")
            #expect(try store.count(matching: request) == 1)
            try store.close()
        }
    }

    @Test func aStoreWithOtherHashesIsReadAgain() throws {
        let path = try make("a")
        let store = try SQLiteStore.open(at: path, options: options)
        let hashes = try #require(try store.metadata().entityVersionHashes["Place"])
        try store.close()
        let connection = try SQLiteConnection(path: path, mode: .writing)
        var list = try SQLiteMetadataReader(connection: connection, path: path).row().propertyList
        let place = try #require(list.range(of: hashes))
        list[place.lowerBound] ^= 1
        try connection.withStatement("UPDATE Z_METADATA SET Z_PLIST = ?") {
            try $0.bind(list, at: 1)
            try $0.run()
        }
        connection.close()
        let again = try SQLiteStore.open(at: path, options: options)
        #expect(again.layout !== store.layout)
        #expect(again.layout.model.knownVersionHashes?["Place"] == list[place])
        try again.close()
    }

    private static let indexes = "SELECT name FROM sqlite_schema WHERE name = 'Z_Place_byName'"

    /// What others may do to a store after it was opened here.
    enum Change: String, CaseIterable {
        case dropIndex, addColumn, changeModel, renumberEntity, renameTable

        var sql: String {
            switch self {
            case .dropIndex: "DROP INDEX Z_Place_byName"
            case .addColumn: "ALTER TABLE ZPLACE ADD COLUMN ZMORE"
            case .changeModel:
                "UPDATE QUIRE_MODEL SET Z_CONTENT = replace(Z_CONTENT, 'visits', 'stays')"
            case .renumberEntity:
                "UPDATE Z_PRIMARYKEY SET Z_ENT = 2; UPDATE ZPLACE SET Z_ENT = 2"
            case .renameTable: "ALTER TABLE ZPLACE RENAME TO ZSPOT"
            }
        }
    }

    @Test(arguments: Change.allCases, [false, true])
    func aStoreThatWasChangedIsReadAgain(_ change: Change, isReadBefore: Bool) throws {
        let path = try make("a")
        var options = options
        options.isReadOnly = isReadBefore
        try SQLiteStore.open(at: path, options: options).close()
        let before = try key(path)
        let connection = try SQLiteConnection(path: path, mode: .writing)
        try connection.execute(change.sql)
        connection.close()
        #expect(try key(path) != before)
        options.isReadOnly = false
        let result = Result { try SQLiteStore.open(at: path, options: options) }
        switch change {
        case .dropIndex:
            try result.get().close()
            #expect(try SQLiteTestStore.query(Self.indexes, path: path) == [["Z_Place_byName"]])
        case .addColumn: try result.get().close()
        case .renumberEntity:
            let store = try result.get()
            #expect(try store.count(matching: FetchSpecification("Place")) == 1)
            try store.close()
        case .changeModel, .renameTable:
            #expect(throws: QuireError.self) { try result.get() }
        }
    }

    @Test func optionsThatChangeWhatIsFoundTellStoresApart() throws {
        var model = Self.model
        model.configurations = [.init(name: "Local", entityNames: ["Place"])]
        let path = try make("a", model)
        var options = SQLiteStoreOptions()
        options.configuration = "Local"
        #expect(try key(path) != key(path, options))
        options.configuration = nil
        #expect(try key(path) == key(path, options))
    }

    @Test func whatIsNoStoreHasNothingToBeRememberedBy() throws {
        let path = folder.path("other")
        let connection = try SQLiteConnection(path: path, mode: .creating)
        defer { connection.close() }
        let options = SQLiteStoreOptions()
        #expect(try SQLiteSchemaCache.Key(of: connection, options: options) == nil)
        try connection.execute(
            """
            CREATE TABLE Z_METADATA (Z_VERSION, Z_UUID, Z_PLIST);
            CREATE TABLE Z_PRIMARYKEY (Z_ENT, Z_NAME, Z_SUPER, Z_MAX);
            CREATE TABLE Z_MODELCACHE (Z_CONTENT);
            INSERT INTO Z_MODELCACHE VALUES (zeroblob(2000000));
            """)
        #expect(try SQLiteSchemaCache.Key(of: connection, options: options) == nil)
    }

    @Test func aStoreThatWasReadIsWrittenLikeItAndTheOtherWayRound() throws {
        let paths = try ["a", "b", "c"].map { try make($0) }
        var layouts: [ResolvedModel] = []
        for (path, isReadOnly) in zip(paths, [true, false, true]) {
            var options = options
            options.isReadOnly = isReadOnly
            let store = try SQLiteStore.open(at: path, options: options)
            layouts.append(store.layout)
            try store.close()
        }
        #expect(layouts.allSatisfy { $0 === layouts[0] })
    }

    /// However many models there are, few are remembered: those that were used last.
    @Test func fewAreRemembered() throws {
        let paths = try (0...SQLiteSchemaCache.maximumCount).map { number in
            var model = Self.model
            model.entities[0].properties.append(
                .attribute(AttributeDescription(name: "extra\(number)", type: .string)))
            return try make("\(number)", model)
        }
        func layout(_ path: String) throws -> ResolvedModel {
            let store = try SQLiteStore.open(at: path, options: options)
            try store.close()
            return store.layout
        }
        let layouts = try paths.dropLast().map(layout)
        #expect(try layout(paths[0]) === layouts[0])
        // One too many, and it is the second that has not been used for the longest time.
        _ = try layout(try #require(paths.last))
        #expect(try layout(paths[0]) === layouts[0])
        #expect(try layout(paths[2]) === layouts[2])
        #expect(try layout(paths[1]) !== layouts[1])
    }
}
