import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct RecoveryTests {
    private static let isTorture = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"

    @Test(arguments: FileProtection.allCases) @MainActor
    func undamagedStoreComesBackWhole(protection: FileProtection) throws {
        let folder = try TemporaryFolder()
        let (path, new) = (folder.path("a.sqlite"), folder.path("b.sqlite"))
        try Damage.makeLibrary(at: path, protection: protection)
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        let report = try StoreRecovery.recover(path, to: new)
        #expect(report.losses == [])
        #expect(report.problems.isEmpty)
        #expect(report.modelOrigin == .carried)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
        #expect(try Dump(path) == Dump(new))
        #expect(try SQLiteStore.fileProtection(at: new) == protection)
        let metadata = "SELECT Z_UUID FROM Z_METADATA"
        #expect(try Damage.query(path, metadata) == Damage.query(new, metadata))
        let greatest = "SELECT Z_NAME, Z_MAX FROM Z_PRIMARYKEY ORDER BY 1"
        #expect(try Damage.query(path, greatest) == Damage.query(new, greatest))
    }

    @Test @MainActor func lostMetadataAreReported() throws {
        let folder = try TemporaryFolder()
        let (path, new) = (folder.path("a.sqlite"), folder.path("b.sqlite"))
        try Damage.makeLibrary(at: path)
        try Damage.query(path, "UPDATE Z_METADATA SET Z_PLIST = x'00'")
        let report = try StoreRecovery.recover(path, to: new)
        #expect(!report.isComplete)
        #expect(report.losses.contains { $0.contains("metadata") })
    }

    @Test(arguments: 0..<6, [FileProtection.none, .complete]) @MainActor
    func everyRowOnIntactPagesComesBack(round: Int, protection: FileProtection) throws {
        let folder = try TemporaryFolder()
        let (path, new) = (folder.path("a.sqlite"), folder.path("b.sqlite"))
        try Damage.makeLibrary(at: path, protection: protection)
        let original = folder.path("original.sqlite")
        try Damage.makeLibrary(at: original, protection: protection)
        let rows = try Damage.placedRows(path)
        let count = try Damage.pageCount(path)
        var random = SeededRandom(seed: SeededRandom.baseSeed &* 100 &+ UInt64(round))
        // In every other round the first page, and with it the list of tables, is among them.
        var damaged = Set((0..<count / 10).map { _ in Int.random(in: 2...count, using: &random) })
        if round % 2 == 1 { damaged.insert(1) }
        try Damage.overwrite(path, pages: damaged, with: &random)
        let report = try StoreRecovery.recover(path, to: new, model: FixtureModels.library)
        // A lost value may have been required.
        #expect(
            report.problems.allSatisfy { $0.kind == .validation },
            "seed \(SeededRandom.baseSeed), round \(round): \(report.problems)")
        try expectIntactRows(rows, without: damaged, of: original, in: new)
    }

    @Test(arguments: [FileProtection.none, .complete]) @MainActor
    func lostSchemaIsTakenFromTheCarriedModel(protection: FileProtection) throws {
        let folder = try TemporaryFolder()
        let (path, new) = (folder.path("a.sqlite"), folder.path("b.sqlite"))
        try Damage.makeLibrary(at: path, books: 60, protection: protection)
        let schemaPages = try Damage.query(
            path, "SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'"
        ).compactMap { Int($0[0]) }
        let expected = try Damage.query(path, "SELECT Z_PK, ZTITLE FROM ZBOOK ORDER BY 1")
        var random = SeededRandom(seed: 3)
        try Damage.overwrite(path, pages: schemaPages, with: &random)
        let report = try StoreRecovery.recover(path, to: new)
        #expect(report.modelOrigin == .carried)
        #expect(report.lacksSchema)
        #expect(try Damage.query(new, "SELECT Z_PK, ZTITLE FROM ZBOOK ORDER BY 1") == expected)
    }

    @Test @MainActor func withoutSchemaAndModelNamesComeFromTheBooks() throws {
        let folder = try TemporaryFolder()
        let (path, new) = (folder.path("a.sqlite"), folder.path("b.sqlite"))
        try Damage.makeLibrary(at: path, books: 60)
        try Damage.dropModels(path)
        try Damage.settle(path)
        let schemaPages = try Damage.query(
            path, "SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'"
        ).compactMap { Int($0[0]) }
        var random = SeededRandom(seed: 4)
        try Damage.overwrite(path, pages: schemaPages, with: &random)
        let report = try StoreRecovery.recover(path, to: new)
        #expect(report.modelOrigin == .inferred)
        #expect(report.objects["Book"] == 60)
        #expect(report.objects["Author"] == 20)
    }

    @Test(arguments: [FileProtection.none, .complete]) @MainActor
    func rowsInTheLogAreTheNewest(protection: FileProtection) throws {
        let folder = try TemporaryFolder()
        let (path, new) = (folder.path("a.sqlite"), folder.path("b.sqlite"))
        try Damage.makeLibrary(at: path, books: 30, protection: protection)
        // A connection that is still open leaves its log. The pages that spill are written twice, the second time without
        // the headers of their frames.
        let connection = try Damage.connect(path)
        try connection.execute(
            "PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN; UPDATE ZBOOK SET ZYEAR = 1; "
                + "UPDATE ZBOOK SET ZYEAR = 2; UPDATE ZAUTHOR SET ZNAME = 'Early'; COMMIT; "
                + "UPDATE ZAUTHOR SET ZNAME = 'Changed', Z_OPT = 2 WHERE Z_PK <= 5")
        let copy = folder.path("copy.sqlite")
        for suffix in ["", "-wal"] + (protection == .none ? [] : [".keybag"]) {
            try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
        }
        connection.close()
        #expect(try StoreRecovery.recover(copy, to: new).lostTransactions == 0)
        #expect(
            try Damage.query(new, "SELECT count(*) FROM ZAUTHOR WHERE ZNAME = 'Changed'") == [["5"]]
        )
        #expect(try Damage.query(new, "SELECT count(*) FROM ZBOOK WHERE ZYEAR = 2") == [["30"]])

        // Behind the first frame that is damaged nothing counts, and what is whole before it does.
        var log = try Data(contentsOf: URL(fileURLWithPath: copy + "-wal"))
        log[log.count - 100] ^= 1
        try log.write(to: URL(fileURLWithPath: copy + "-wal"))
        let second = folder.path("c.sqlite")
        let report = try StoreRecovery.recover(copy, to: second)
        #expect(report.droppedLogFrames > 0)
        #expect(report.lostTransactions == 1)
        #expect(!report.isComplete)
        #expect(
            try Damage.query(second, "SELECT count(*) FROM ZAUTHOR WHERE ZNAME = 'Changed'") == [
                ["0"]
            ])
        #expect(
            try Damage.query(second, "SELECT count(*) FROM ZAUTHOR WHERE ZNAME = 'Early'") == [
                ["20"]
            ])
    }

    @Test(arguments: [FileProtection.none, .complete]) @MainActor
    func deletedObjectsStayDeleted(protection: FileProtection) throws {
        let folder = try TemporaryFolder()
        let (path, new) = (folder.path("a.sqlite"), folder.path("b.sqlite"))
        try Damage.makeLibrary(at: path, books: 300, protection: protection)
        // What is freed keeps its bytes only if SQLite is told so.
        let connection = try Damage.connect(path)
        try connection.execute(
            "PRAGMA secure_delete = OFF; DELETE FROM ZBOOK WHERE Z_PK > 50; PRAGMA wal_checkpoint(TRUNCATE)"
        )
        connection.close()
        let report = try StoreRecovery.recover(path, to: new)
        #expect(report.objects["Book"] == 50)
        var options = StoreRecovery.Options()
        options.includesDeletedObjects = true
        let more = try StoreRecovery.recover(path, to: folder.path("c.sqlite"), options: options)
        #expect(more.objects["Book", default: 0] > 50)
        #expect(more.problems.isEmpty)
    }

    @Test(arguments: [FileProtection.none, .complete]) @MainActor
    func missingFilesAreReported(protection: FileProtection) throws {
        let folder = try TemporaryFolder()
        let (path, new) = (folder.path("a.sqlite"), folder.path("b.sqlite"))
        try Damage.makeLibrary(at: path, books: 200, protection: protection)
        let external = ExternalDataFolder(storePath: path)
        let names = try FileSystem.names(in: external.folder)
        try FileSystem.removeFile(external.path(ofFileNamed: try #require(names.first)))
        let report = try StoreRecovery.recover(path, to: new)
        #expect(report.missingFiles == 1)
        #expect(report.problems.isEmpty)
        let kept = ExternalDataFolder(storePath: new)
        #expect(try FileSystem.names(in: kept.folder) == Array(names.dropFirst()))
    }

    @Test func whatIsNoStoreIsRefused() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        for content in [Data(), Data("hello".utf8), Data(repeating: 13, count: 100_000)] {
            try content.write(to: URL(fileURLWithPath: path))
            #expect(throws: QuireError.self) {
                try StoreRecovery.recover(path, to: folder.path("b.sqlite"))
            }
            #expect(!FileSystem.exists(folder.path("b.sqlite")))
        }
        #expect(throws: QuireError.self) {
            try StoreRecovery.recover(folder.path("none"), to: folder.path("b.sqlite"))
        }
        #expect(try FileSystem.names(in: folder.path) == ["a.sqlite"])
    }

    @Test(.corpus, arguments: Damage.corpus)
    func truncatedCorpusStoresGiveAllRowsOfTheirPages(file: Damage.CorpusFile) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        try Damage.copy(file.url, to: path)
        try Damage.settle(path)
        let rows = try Damage.placedRows(path)
        let count = try Damage.pageCount(path)
        let model = try file.modelURL.map { try ManagedObjectModel(contentsOf: $0.path) }
        let original = folder.path("original.sqlite")
        try FileManager.default.copyItem(atPath: path, toPath: original)
        // Anywhere, or somewhere.
        var random = SeededRandom(seed: SeededRandom.baseSeed &+ UInt64(count))
        let places =
            Self.isTorture ? Array(1...count) : [Int.random(in: 1...count, using: &random)]
        for last in places {
            try? FileManager.default.removeItem(atPath: path)
            try FileManager.default.copyItem(atPath: original, toPath: path)
            try Damage.truncate(path, afterPage: last)
            let new = folder.path("b\(last).sqlite")
            do {
                _ = try StoreRecovery.recover(path, to: new, model: model)
            } catch let error as QuireError where error.code == .invalidFormat {
                // There is nothing left that would tell what anything is.
                #expect(last < count / 2 + 1)
                continue
            }
            try expectIntactRows(
                rows, without: Set(last + 1...max(count, last + 1)), of: original, in: new)
        }
    }

    // MARK: - Comparing

    /// Expects every object on pages other than some to be there, with its values.
    private func expectIntactRows(
        _ rows: [Damage.PlacedRow], without damaged: Set<Int>, of original: String, in new: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let tables = Set(try Damage.query(new, "SELECT name FROM sqlite_schema").map { $0[0] })
        var missing: [String] = []
        for (table, placed) in Dictionary(grouping: rows, by: \.table)
        where tables.contains(table) && !table.hasPrefix("Z_") {
            let sql = "SELECT Z_PK, ZCOLUMNS FROM \(table)"
            let columns = try Damage.query(
                new,
                "SELECT name FROM pragma_table_info('\(table)') WHERE name NOT LIKE 'Z\\_%' ESCAPE '\\' "
                    + "AND type NOT IN ('INTEGER') AND name GLOB 'Z[A-Z]*' ORDER BY 1"
            ).map { $0[0] }
            let there = try Damage.query(
                original, "SELECT name FROM pragma_table_info('\(table)')"
            ).map { $0[0] }
            let list = columns.filter(there.contains).map { "quote(\($0))" }
            let select = sql.replacing("ZCOLUMNS", with: (["1"] + list).joined(separator: ", "))
            // In some stores of the corpus there are rows of other entities, which are nobody's.
            let entities = """
                WITH RECURSIVE tree (n) AS (SELECT Z_ENT FROM Z_PRIMARYKEY WHERE 'Z' || upper(Z_NAME) = '\(table)' \
                UNION SELECT p.Z_ENT FROM Z_PRIMARYKEY p JOIN tree ON p.Z_SUPER = n) SELECT n FROM tree
                """
            let isOwn = " WHERE Z_ENT IN (\(entities))"
            let old = Dictionary(
                try Damage.query(original, select + isOwn).map { ($0[0], $0) },
                uniquingKeysWith: { $1 })
            let found = Dictionary(
                try Damage.query(new, select).map { ($0[0], $0) }, uniquingKeysWith: { $1 })
            for row in placed
            where row.pages.isDisjoint(with: damaged) && old[String(row.key)] != nil {
                if found[String(row.key)] != old[String(row.key)] {
                    missing.append("\(table)/\(row.key)")
                }
            }
        }
        #expect(missing.isEmpty, "\(missing.prefix(5))", sourceLocation: sourceLocation)
    }
}

/// All values and relationships of a store, to compare.
struct Dump: Equatable {
    var lines: [String] = []

    init(_ path: String, model: ManagedObjectModel? = nil) throws {
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let store = try SQLiteStore.open(at: path, model: model, options: options)
        defer { try? store.close() }
        for entity in store.layout.entities {
            var request = FetchRequest(entity.name)
            request.includesSubentities = false
            for row in try store.rows(matching: request.specification) {
                var line = row.objectID.shortDescription
                for slot in entity.slots where slot.isStored {
                    line += " \(slot.name)=\(try row.value(at: slot.index))"
                }
                for index in entity.toManyRelationships {
                    let related = try store.relatedRows(
                        of: row.objectID, through: entity.relationships[index])
                    line +=
                        " \(entity.relationships[index].name)="
                        + related.map(\.objectID.shortDescription).joined(separator: ",")
                }
                lines.append(line)
            }
        }
        lines.sort()
    }
}
