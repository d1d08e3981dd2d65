import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireRescue
@testable import QuireSQLite

/// What a check finds, and what a repair makes of it.
@Suite struct StoreCheckTests {
    private func check(_ path: String, model: ManagedObjectModel? = nil) throws -> StoreCheckReport
    {
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        options.infersModel = true
        let store = try SQLiteStore.open(at: path, model: model, options: options)
        defer { try? store.close() }
        return try StoreCheck.run(store)
    }

    @Test @MainActor func soundStoreIsWhole() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path)
        let report = try check(path)
        #expect(report.isWhole, "\(report.problems.prefix(3))")
        #expect(report.notes.isEmpty, "\(report.notes.prefix(3))")
        #expect(report.objects == 400 + 20 + 10 + 1 + 10 + 3 + 5 + 1)
        #expect(report.externalFiles == 5)
    }

    @Test(.corpus, arguments: Damage.corpus)
    func corpusStoresAreWhole(file: Damage.CorpusFile) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.copy(file.url, to: path)
        for model in [
            try file.modelURL.map { try ManagedObjectModel(contentsOf: $0.path) }, nil,
        ] {
            let report = try check(path, model: model)
            #expect(report.isWhole, "\(report.problems.prefix(3).map(\.message))")
        }
    }

    /// A kind of damage, the problem it makes, and whether a repair ends it.
    struct Case: Sendable, CustomTestStringConvertible {
        let sql: String
        let kind: StoreProblem.Kind
        var isRepairable = true
        var testDescription: String { sql }
    }

    static let cases = [
        Case(sql: "UPDATE ZBOOK SET ZAUTHOR = 999 WHERE Z_PK < 4", kind: .reference),
        Case(
            sql: "UPDATE ZBOOK SET ZTITLE = x'00' WHERE Z_PK = 4", kind: .value, isRepairable: false
        ),
        Case(sql: "UPDATE ZBOOK SET ZYEAR = 'old' WHERE Z_PK = 4", kind: .value),
        Case(
            sql: "UPDATE ZBOOK SET ZTITLE = NULL WHERE Z_PK = 4", kind: .validation,
            isRepairable: false),
        Case(
            sql:
                "UPDATE ZPERSON SET ZSPOUSE = NULL WHERE Z_ENT = (SELECT Z_ENT FROM Z_PRIMARYKEY WHERE Z_NAME = 'Employee')",
            kind: .inverse),
        Case(sql: "UPDATE ZCOVER SET ZBOOK = NULL WHERE Z_PK = 1", kind: .inverse),
        Case(sql: "UPDATE ZCOVER SET ZBOOK = 2 WHERE Z_PK = 1", kind: .inverse),
        Case(sql: "UPDATE ZBOOK SET Z_FOK_SHELF = NULL WHERE Z_PK < 20", kind: .order),
        Case(sql: "UPDATE ZBOOK SET Z_FOK_SHELF = 2048 WHERE ZSHELF IS NOT NULL", kind: .order),
        Case(sql: "UPDATE Z_PRIMARYKEY SET Z_MAX = 3 WHERE Z_NAME = 'Book'", kind: .primaryKey),
        Case(sql: "UPDATE ZBOOK SET Z_ENT = 77 WHERE Z_PK = 5", kind: .entity),
        Case(
            sql: "INSERT INTO ZPERSON (Z_PK, Z_ENT, Z_OPT) VALUES (50, 77, 1)", kind: .entity,
            isRepairable: false),
        Case(sql: "UPDATE ZBOOK SET Z_OPT = NULL WHERE Z_PK = 5", kind: .version),
        Case(sql: "UPDATE ZBOOK SET Z_OPT = -3 WHERE Z_PK = 5", kind: .version),
        Case(sql: "UPDATE ZCOVER SET ZIMAGE = x'0099' WHERE Z_PK = 2", kind: .value),
        Case(
            sql:
                "UPDATE ZCOVER SET ZIMAGE = x'02' || CAST('AAAAAAAA-AAAA-AAAA-AAAA-AAAAAAAAAAAA' AS BLOB) || x'00' WHERE Z_PK = 2",
            kind: .value),
        Case(
            sql:
                "UPDATE ZCOVER SET ZIMAGE = CAST(x'02' || CAST('AAAAAAAA-AAAA-AAAA-AAAA-AAAAAAAAAAAA' AS BLOB) || x'00' AS BLOB) WHERE Z_PK = 2",
            kind: .externalData),
        Case(sql: "INSERT INTO Z_SONGS SELECT 77, 1, 5 ", kind: .reference),
        Case(sql: "DELETE FROM ZTAG WHERE Z_PK = 3", kind: .reference),
        Case(
            sql: "UPDATE Z_METADATA SET Z_UUID = 'nonsense'", kind: .metadata, isRepairable: false),
        Case(sql: "UPDATE ZTAG SET ZNAME = 'same'", kind: .uniqueness, isRepairable: false),
    ]

    @Test(arguments: cases) @MainActor
    func damageIsFoundAndMended(damage: Case) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 90)
        let join = try Damage.query(
            path,
            "SELECT name FROM sqlite_schema WHERE name LIKE 'Z\\_%SONGS' ESCAPE '\\' AND type = 'table'"
        )
        if damage.kind == .uniqueness { try Damage.query(path, "DROP INDEX Z_Tag_UNIQUE_name") }
        try Damage.query(path, damage.sql.replacing("Z_SONGS", with: join[0][0]))
        try Damage.settle(path)
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        let found = try check(path)
        #expect(found.problems.contains { $0.kind == damage.kind }, "\(found.problems)")
        #expect(
            found.problems.contains { $0.kind == damage.kind && $0.isRepairable }
                == damage.isRepairable, "\(found.problems)")

        var options = StoreRepair.Options()
        options.isDryRun = true
        let plan = try StoreRepair.repair(path, options: options)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
        options.isDryRun = false
        let report = try StoreRepair.repair(path, options: options)
        #expect(report.actions == plan.actions)
        let after = try check(path)
        #expect(
            after.problems.contains { $0.kind == damage.kind } == !damage.isRepairable,
            "\(after.problems) \(report.actions)")
        if damage.isRepairable {
            #expect(after.isWhole, "\(after.problems)")
            #expect(!report.actions.isEmpty)
            let backup = try #require(report.backup)
            #expect(try Data(contentsOf: URL(fileURLWithPath: backup)) == before)
            let store = try SQLiteStore.open(at: path)
            try store.close()
        }
        #expect(try FileSystem.names(in: folder.path).allSatisfy { !$0.contains("quire-repair") })
    }

    @Test @MainActor func repairOfASoundStoreDoesNothing() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 90)
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        let report = try StoreRepair.repair(path)
        #expect(report.actions.isEmpty)
        #expect(report.backup == nil)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
    }

    /// A store of which most is a hole, as one that was truncated to a greater size: copies have the hole too.
    @Test(.timeLimit(.minutes(1))) @MainActor
    func repairOfASparseStoreNeedsTheRoomAndTimeOfWhatIsInIt() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 90)
        try Damage.query(path, "UPDATE Z_PRIMARYKEY SET Z_MAX = 0")
        try Damage.settle(path)
        let size: Int64 = 64 << 30
        let file = try OpenFile.open(path, for: .updating)
        try file.setSize(size)
        try #require(file.information().size == size)
        file.close()
        let report = try StoreRepair.repair(path)
        #expect(!report.actions.isEmpty)
        #expect(report.after.isWhole)
        for path in [path, try #require(report.backup)] {
            var status = stat()
            #expect(stat(path, &status) == 0)
            #expect(status.st_blocks * 512 < 16 << 20)
        }
        #expect(try FileSystem.information(at: try #require(report.backup))?.size == size)
        #expect(try check(path).isWhole)
    }

    @Test @MainActor func orphanedFilesAreMovedAside() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 90)
        let external = ExternalDataFolder(storePath: path)
        let name = UUID().uuidString
        try Data("x".utf8).write(to: URL(fileURLWithPath: external.path(ofFileNamed: name)))
        #expect(try check(path).notes.contains { $0.kind == .externalData })
        let report = try StoreRepair.repair(path)
        let place = try #require(report.lostAndFound)
        #expect(try FileSystem.names(in: place) == [name])
        #expect(try check(path).notes.isEmpty)
    }

    @Test @MainActor func brokenIndexIsMadeAnew() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 90)
        // An index that does not know of a row.
        let sql = try Damage.query(
            path, "SELECT sql FROM sqlite_schema WHERE name = 'ZBOOK_ZAUTHOR_INDEX'")[0][0]
        let shell = Process()
        shell.executableURL = URL(fileURLWithPath: "/usr/bin/sqlite3")
        shell.arguments = [
            path,
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = sql || ' WHERE Z_PK > 5' WHERE name = 'ZBOOK_ZAUTHOR_INDEX'",
            "PRAGMA writable_schema = RESET; REINDEX ZBOOK_ZAUTHOR_INDEX; PRAGMA writable_schema = ON; "
                + "UPDATE sqlite_schema SET sql = '\(sql)' WHERE name = 'ZBOOK_ZAUTHOR_INDEX'",
        ]
        try shell.run()
        shell.waitUntilExit()
        let found = try check(path)
        #expect(
            found.problems.contains { $0.kind == .integrity && $0.isRepairable },
            "\(found.problems)")
        let report = try StoreRepair.repair(path)
        #expect(report.after.isWhole, "\(report.after.problems)")
        #expect(try check(path).isWhole)
    }

    /// In a table whose leaves are in the wrong order, going on behind the last key never ends.
    @Test @MainActor func leavesInTheWrongOrderAreChecked() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 400)
        let leaves = try Damage.placedRows(path).filter {
            $0.table == "ZBOOK" && $0.pages.count == 1
        }
        .compactMap(\.pages.first)
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        let size = Damage.pageSize(bytes)
        let (first, last) = (try #require(leaves.first), try #require(leaves.last))
        for offset in 0..<size {
            bytes.swapAt((first - 1) * size + offset, (last - 1) * size + offset)
        }
        try bytes.write(to: URL(fileURLWithPath: path))
        #expect(try check(path).problems.contains { $0.kind == .integrity })
    }

    @Test @MainActor func damagedFileIsNotRepairedButLeftAlone() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.makeLibrary(at: path, books: 90)
        let rows = try Damage.placedRows(path).filter { $0.table == "ZBOOK" }
        var random = SeededRandom(seed: 5)
        try Damage.overwrite(path, pages: try #require(rows.first).pages, with: &random)
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        let error = #expect(throws: QuireError.self) { try StoreRepair.repair(path) }
        #expect(error?.code == .invalidFormat)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
        #expect(try FileSystem.names(in: folder.path).allSatisfy { !$0.contains("quire-") })
    }

    @Test func wrongSumsInMetadataAreCorrected() throws {
        let stack = try TestStack()
        try stack.coordinator.close()
        let connection = try SQLiteConnection(path: stack.path, mode: .writing)
        let metadata = try SQLiteMetadataReader(connection: connection, path: stack.path).metadata()
        var plist = try #require(
            try PropertyListSerialization.propertyList(from: try metadata.propertyList, format: nil)
                as? [String: Any])
        plist[StoreHashes.digestKey] = "wrong"
        plist["Mine"] = 5
        let data = try PropertyListSerialization.data(
            fromPropertyList: plist, format: .binary, options: 0)
        try connection.withStatement("UPDATE Z_METADATA SET Z_PLIST = ?") {
            try $0.bind(data, at: 1)
            try $0.run()
        }
        connection.close()
        #expect(try check(stack.path).problems.map(\.kind) == [.metadata])
        let report = try StoreRepair.repair(stack.path)
        #expect(report.after.isWhole)
        let store = try SQLiteStore.open(at: stack.path)
        #expect(try store.metadata()["Mine"] != nil)
        try store.close()
    }

    /// Replicas and other readers of the history see what a repair has changed.
    @Test func repairIsInTheHistory() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        var options = SQLiteStoreOptions()
        options.tracksHistory = true
        let store = try SQLiteStore.create(at: path, model: FixtureModels.library, options: options)
        let coordinator = PersistentStoreCoordinator(store: store)
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            let tag = try context.insertObject(entityName: "Tag")
            tag["name"] = "new"
            for number in 1...3 {
                let book = try context.insertObject(entityName: "Book")
                book["title"] = "\(number)"
                book["tags"] = [tag]
            }
            try context.save()
        }
        try coordinator.close()
        try Damage.query(path, "UPDATE ZBOOK SET ZAUTHOR = 999 WHERE ZTITLE = '2'")
        try Damage.query(path, "DELETE FROM ZBOOK WHERE ZTITLE = '3'")
        #expect(try StoreRepair.repair(path).after.isWhole)
        let mended = PersistentStoreCoordinator(
            store: try SQLiteStore.open(at: path, options: options))
        try QueueConfinedContext(coordinator: mended).performAndWait { context in
            let transactions = try context.execute(.fetchHistory(after: nil)).transactions
            #expect(transactions.count == 2)
            let changes = try #require(transactions.last).changes
            #expect(changes.map(\.kind) == [.update, .update])
            #expect(changes.map(\.objectID.entityName).sorted() == ["Book", "Tag"])
        }
        try mended.close()
        // Nothing more is to be mended, so nothing more is recorded.
        #expect(try StoreRepair.repair(path).actions.isEmpty)
    }

    @Test func unreadableModelIsWrittenAnew() throws {
        let stack = try TestStack()
        try stack.coordinator.close()
        try Damage.query(stack.path, "UPDATE QUIRE_MODEL SET Z_CONTENT = 'nonsense'")
        try Damage.query(stack.path, "UPDATE Z_MODELCACHE SET Z_CONTENT = x'00'")
        let found = try check(stack.path, model: FixtureModels.library)
        #expect(found.problems.map(\.kind) == [.model, .model])
        let report = try StoreRepair.repair(stack.path, model: FixtureModels.library)
        #expect(report.after.isWhole)
        let store = try SQLiteStore.open(at: stack.path)
        try store.close()
    }

    @Test @MainActor func derivedAttributesAreComputedAnew() throws {
        let model = ManagedObjectModel(entities: [
            FixtureModels.entity(
                "Author", FixtureModels.attribute("name", .string),
                FixtureModels.attribute("count", .integer64) {
                    $0.derivationExpression = "books.@count"
                },
                FixtureModels.attribute("total", .integer64) {
                    $0.derivationExpression = "books.pages.@sum"
                },
                FixtureModels.toMany("books", "Book", "author")),
            FixtureModels.entity(
                "Book", FixtureModels.attribute("pages", .integer64),
                FixtureModels.attribute("authorName", .string) {
                    $0.derivationExpression = "author.name"
                },
                FixtureModels.toOne("author", "Author", "books")),
        ])
        let stack = try TestStack(model)
        let context = stack.mainContext()
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Jane"
        for pages in [100, 250] {
            let book = try context.insertObject(entityName: "Book")
            book["pages"] = Int64(pages)
            book["author"] = author
        }
        try context.save()
        try stack.coordinator.close()
        #expect(try check(stack.path).isWhole)
        try Damage.query(stack.path, "UPDATE ZAUTHOR SET ZCOUNT = 9, ZTOTAL = 1")
        try Damage.query(stack.path, "UPDATE ZBOOK SET ZAUTHORNAME = 'Joan' WHERE Z_PK = 1")
        let found = try check(stack.path)
        #expect(found.problems.map(\.kind) == [.derived, .derived, .derived])
        let report = try StoreRepair.repair(stack.path)
        #expect(report.after.isWhole, "\(report.after.problems)")
        #expect(
            try Damage.query(stack.path, "SELECT ZCOUNT, ZTOTAL FROM ZAUTHOR") == [["2", "350"]])
    }
}
