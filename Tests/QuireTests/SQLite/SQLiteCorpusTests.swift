import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

@Suite(.corpus) struct SQLiteCorpusTests {
    @Test func theIndexNamesStoresThatAreThere() {
        #expect(SQLiteCorpusStore.all.count >= 25)
        for store in SQLiteCorpusStore.all {
            #expect(FileManager.default.fileExists(atPath: store.url.path))
            #expect(FileManager.default.fileExists(atPath: store.modelURL.path))
        }
    }

    @Test(arguments: SQLiteCorpusStore.all)
    func everyRowOfAppleStoresReads(corpus: SQLiteCorpusStore) throws {
        let folder = try TemporaryFolder()
        let path = try corpus.copy(to: folder)
        let model = try ManagedObjectModel(contentsOf: corpus.modelURL.path)
        var options = SQLiteStoreOptions()
        for isReadOnly in [true, false] {
            options.isReadOnly = isReadOnly
            let store = try SQLiteStore.open(at: path, model: model, options: options)
            for entity in store.layout.entities {
                var request = FetchRequest(entity.name)
                request.includesSubentities = false
                let place = store.schema.entity(entity)
                let expected = try store.read {
                    try $0.integer(
                        "SELECT count(*) FROM \(SQLName.quoted(place.tableName)) WHERE Z_ENT = ?",
                        Int64(place.storeNumber))
                }
                let rows = try store.rows(matching: request.specification)
                #expect(rows.count == Int(expected ?? -1))
                #expect(try store.count(matching: request.specification) == rows.count)
                for row in rows {
                    #expect(row.entity === entity)
                    for slot in entity.slots { _ = try row.value(at: slot.index) }
                }
                for row in rows.prefix(50) {
                    for relationship in entity.relationships where relationship.isToMany {
                        try checkInverse(of: relationship, row, store)
                    }
                }
            }
            try store.close()
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["copy.sqlite"])
    }

    /// The objects that a relationship leads to lead back.
    private func checkInverse(
        of relationship: ResolvedEntity.Relationship, _ row: ObjectSnapshot, _ store: SQLiteStore
    ) throws {
        let related = try store.relatedRows(of: row.objectID, through: relationship)
        guard let inverse = store.layout.inverse(of: relationship) else { return }
        for other in related {
            if let slot = inverse.slot {
                #expect(try other.value(at: slot) == .objectID(row.objectID))
            } else {
                let back = try store.relatedRows(of: other.objectID, through: inverse)
                #expect(back.contains { $0.objectID == row.objectID })
            }
        }
    }

    @Test(arguments: SQLiteCorpusStore.all)
    func appleStoresAreSavedInTheirOwnLayout(corpus: SQLiteCorpusStore) throws {
        let folder = try TemporaryFolder()
        let path = try corpus.copy(to: folder)
        let model = try ManagedObjectModel(contentsOf: corpus.modelURL.path)
        let before = try Books(path: path)
        let store = try SQLiteStore.open(at: path, model: model)
        var editor = SQLiteCorpusEditor(store: store)
        try editor.insertRows()
        try editor.changeRows()
        try editor.deleteRows()
        try store.close()

        let after = try Books(path: path)
        #expect(after.metadata == before.metadata)
        #expect(after.modelCache == before.modelCache)
        // Nothing of the schema was taken away, and nothing added but fetch indexes that the model has and the store lacked.
        let wanted = Set(SQLSchemaStatements(schema: store.schema).fetchIndexes.map(\.name))
        let added = after.schema.filter { !before.schema.contains($0) }
        #expect(added.allSatisfy { $0[0] == "index" && wanted.contains($0[1]) })
        #expect(before.schema.allSatisfy(after.schema.contains))
        #expect(after.integrity == [["ok"]])
        for (entity, greatest) in after.maximumKeys {
            #expect(greatest == editor.maximumKeys[entity] ?? before.maximumKeys[entity])
        }
        try editor.checkRows(path: path)
    }

    /// What saving must leave alone, and what it keeps.
    private struct Books {
        let metadata: [[String]]
        let modelCache: [[String]]
        let schema: [[String]]
        let integrity: [[String]]
        let maximumKeys: [String: String]

        init(path: String) throws {
            func query(_ sql: String) throws -> [[String]] {
                try SQLiteTestStore.query(sql, path: path)
            }
            metadata = try query("SELECT Z_VERSION, Z_UUID, hex(Z_PLIST) FROM Z_METADATA")
            schema = try query("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2")
            modelCache =
                schema.contains { $0[1] == "Z_MODELCACHE" }
                ? try query("SELECT hex(Z_CONTENT) FROM Z_MODELCACHE") : []
            integrity = try query("PRAGMA integrity_check")
            maximumKeys = Dictionary(
                uniqueKeysWithValues: try query("SELECT Z_NAME, Z_MAX FROM Z_PRIMARYKEY")
                    .map { ($0[0], $0[1]) })
        }
    }
}
