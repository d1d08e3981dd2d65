import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// A million objects migrate in the time, or a small multiple of it, that SQLite needs to write the table anew, and with
/// little memory. Only with `QUIRE_TORTURE=1`.
@Suite(.needs(RandomMigrationTests.isTorture, or: "QUIRE_TORTURE is not set"))
struct LargeMigrationTests {
    private static let count = 1_000_000

    @Test func aMillionObjectsMigrateInPlace() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("large.sqlite")
        var model = ManagedObjectModel(entities: [
            FixtureModels.entity(
                "Note", FixtureModels.attribute("title", .string),
                FixtureModels.attribute("body", .string),
                FixtureModels.attribute("rating", .integer16),
                FixtureModels.attribute("created", .date),
                FixtureModels.toOne("folder", "Folder", "notes")),
            FixtureModels.entity(
                "Folder", FixtureModels.attribute("name", .string),
                FixtureModels.toMany("notes", "Note", "folder")),
        ])
        let store = try SQLiteStore.create(at: path, model: model)
        try store.executeOnWriter(
            """
            BEGIN;
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.count / 100))
            INSERT INTO ZFOLDER (Z_PK, Z_ENT, Z_OPT, ZNAME) SELECT i, 1, 1, 'folder ' || i FROM n;
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.count))
            INSERT INTO ZNOTE (Z_PK, Z_ENT, Z_OPT, ZTITLE, ZBODY, ZRATING, ZCREATED, ZFOLDER)
            SELECT i, 2, 1, 'note ' || i, hex(randomblob(100)), i % 5, i * 1.5, i / 100 + 1 FROM n;
            UPDATE Z_PRIMARYKEY SET Z_MAX = \(Self.count);
            COMMIT
            """)
        try store.close()
        let rewriting = try Self.time {
            let store = try SQLiteStore.open(at: path, model: model)
            try store.executeOnWriter(
                "CREATE TABLE ZZ AS SELECT * FROM ZNOTE; CREATE INDEX ZZI ON ZZ (ZFOLDER); DROP TABLE ZZ"
            )
            try store.close()
        }
        func migrate(_ what: String, _ edit: (inout EntityDescription) -> Void) throws -> Double {
            let old = model
            edit(&model.entities[0])
            let memory = Self.memory()
            let seconds = try Self.time { try SQLiteStore.migrate(at: path, from: old, to: model) }
            print(
                "\(what): \(seconds) s, \(seconds / rewriting) times SQLite's \(rewriting) s; memory +\((Self.memory() - memory) >> 10) MB"
            )
            return seconds
        }
        let adding = try migrate("adding an attribute") {
            $0.properties.append(FixtureModels.attribute("subtitle", .string))
        }
        #expect(adding < rewriting)
        _ = try migrate("adding a required attribute with a default") {
            $0.properties.append(
                FixtureModels.attribute("language", .string, optional: false) {
                    $0.defaultValue = "en"
                })
        }
        let rebuilding = try migrate("changing a type, removing an attribute") {
            $0.properties[2] = FixtureModels.attribute("rating", .double)
            $0.properties.removeAll { $0.name == "language" }
        }
        #expect(rebuilding < rewriting * 5)
        let rows = try migrate("one to many objects, row by row") {
            $0.properties.append(
                FixtureModels.toMany("friends", "Note", "friendOf"))
            $0.properties.append(FixtureModels.toMany("friendOf", "Note", "friends"))
            $0.properties.removeAll { $0.name == "folder" }
            $0.properties.append(FixtureModels.toMany("folder", "Folder", "notes"))
        }
        #expect(rows < 600)
        let migrated = try SQLiteStore.open(at: path)
        #expect(try migrated.count(matching: FetchSpecification("Note")) == Self.count)
        #expect(try migrated.integrityProblems().isEmpty)
        try migrated.close()
    }

    private static func time(_ body: () throws -> Void) rethrows -> Double {
        let clock = ContinuousClock()
        return try clock.measure(body) / .seconds(1)
    }

    /// The most memory that the process has had, in KiB.
    private static func memory() -> Int {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM") } ?? ""
        return Int(line.filter(\.isNumber)) ?? 0
    }
}
