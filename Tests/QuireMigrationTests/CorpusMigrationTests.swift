import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Stores of Core Data's, migrated to the newest version of their models.
@Suite struct CorpusMigrationTests {
    struct Chain: CustomTestStringConvertible, Sendable {
        let store: URL
        let versions: String

        var testDescription: String { store.lastPathComponent }

        static let all: [Chain] = {
            guard let folder = Corpus.folder else { return [] }
            let places = [
                (
                    "stores/duckduckgo+BrowserServicesKit/Tests/BookmarksTests",
                    "models/duckduckgo+BrowserServicesKit/Sources/Bookmarks/BookmarksModel.xcdatamodeld"
                ),
                (
                    "stores/duckduckgo+BrowserServicesKit/Tests/DDGSyncTests",
                    "models/duckduckgo+BrowserServicesKit/Sources/DDGSync/SyncMetadata.xcdatamodeld"
                ),
                (
                    "stores/objcio+core-data/Migrations",
                    "models/objcio+core-data/Migrations/Migrations/Moody.xcdatamodeld"
                ),
                (
                    "stores/alemar11+CoreDataPlus/Tests/Resources/SampleModel/",
                    "models/alemar11+CoreDataPlus/Tests/Resources/SampleModel/SampleModel.xcdatamodeld"
                ),
                (
                    "stores/alemar11+CoreDataPlus/Tests/Resources/SampleModel3/",
                    "models/alemar11+CoreDataPlus/Tests/Resources/SampleModel3/SampleModel3.xcdatamodeld"
                ),
                (
                    "stores/artsy+energy",
                    "models/artsy+energy/Resources/CoreData/ArtsyPartner.xcdatamodeld"
                ),
            ]
            return places.flatMap { stores, versions in
                Corpus.files { path in
                    path.hasPrefix(stores)
                        && (path.hasSuffix(".sqlite") || path.hasSuffix(".moody"))
                }.map { Chain(store: $0, versions: folder.appendingPathComponent(versions).path) }
            }
        }()

        func copy(to folder: TemporaryFolder) throws -> String {
            let target = folder.path("store.sqlite")
            for suffix in ["", "-wal"]
            where FileManager.default.fileExists(atPath: store.path + suffix) {
                try FileManager.default.copyItem(
                    atPath: store.path + suffix, toPath: target + suffix)
            }
            return target
        }
    }

    @Test(.corpus) func everyPlaceHasStores() {
        #expect(Chain.all.count >= 20)
        #expect(Set(Chain.all.map(\.versions)).count == 6)
    }

    @Test(.corpus, arguments: Chain.all) func storesOfCoreDataMigrateToTheNewestModel(chain: Chain)
        throws
    {
        let folder = try TemporaryFolder()
        let path = try chain.copy(to: folder)
        let versions = try ModelVersions(contentsOf: chain.versions)
        let name = try #require(try versions.version(ofStoreAt: path), "no version fits")
        let old = try versions.model(named: name)
        let models = try versions.models()
        let steps: [MigrationPath.Step]
        do {
            steps = try MigrationPath(
                from: old, to: versions.currentName, among: models
            ).steps
        } catch let error as QuireError where error.code == .incompatibleModel {
            // Their apps have mappings made by hand for these.
            print("\(chain.testDescription): \(error.message)")
            #expect(chain.versions.contains("Moody") || chain.versions.contains("/SampleModel/"))
            return
        }
        let copy = folder.path("copy.sqlite")
        for step in steps {
            // By copy, to compare with.
            let store = try SQLiteStore.open(at: path, model: step.source)
            let before = try Self.counts(of: store)
            let byCopy = try SQLiteStore.create(at: copy, model: step.destination)
            try MigrationManager(mappingModel: step.mapping).migrateStore(from: store, to: byCopy)
            let expected = try StoreDump.lines(of: byCopy)
            try byCopy.close()
            for suffix in ["", "-wal", "-shm"] {
                try? FileManager.default.removeItem(atPath: copy + suffix)
            }
            let uuid = store.identity.uuid
            let application = try store.metadata()
            try store.close()

            try SQLiteStore.migrate(
                at: path, from: step.source, to: step.destination,
                manager: MigrationManager(mappingModel: step.mapping))
            let migrated = try SQLiteStore.open(at: path, model: step.destination)
            #expect(try StoreDump.lines(of: migrated) == expected)
            #expect(migrated.identity.uuid == uuid)
            #expect(try migrated.metadata().frameworkVersion == application.frameworkVersion)
            #expect(try migrated.integrityProblems().isEmpty)
            let after = try Self.counts(of: migrated)
            for mapping in step.mapping.entityMappings {
                guard let new = mapping.destinationEntityName,
                    let source = mapping.sourceEntityName
                else { continue }
                #expect(after[new] == before[source], "\(source) to \(new)")
            }
            try migrated.close()
        }
        let opened = try SQLiteStore.open(
            at: path, model: versions.currentModel(), migrating: StoreMigrationOptions())
        #expect(opened.layout.entities.count == (try versions.currentModel().entities.count))
        try opened.close()
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["store.sqlite"])
        print(
            "\(chain.testDescription): \(name) to \(versions.currentName) in \(steps.count) steps")
    }

    private static func counts(of store: SQLiteStore) throws -> [String: Int] {
        var counts: [String: Int] = [:]
        for entity in store.layout.entities {
            var request = FetchRequest(entity.name)
            request.includesSubentities = false
            counts[entity.name] = try store.count(matching: request.specification)
        }
        return counts
    }
}
