import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct KnownHashTests {
    private func plist(_ path: String) throws -> [String: Any] {
        let connection = try SQLiteConnection(path: path, mode: .reading)
        defer { connection.close() }
        let data = try connection.withStatement("SELECT Z_PLIST FROM Z_METADATA") {
            _ = try $0.step()
            return $0.data(0)
        }
        return try #require(
            try PropertyListSerialization.propertyList(from: data, format: nil) as? [String: Any])
    }

    @Test(.corpus) func newStoresHaveTheHashesThatCameWithTheModel() throws {
        let stores = try CorpusModels.stores()
        try #require(!stores.isEmpty)
        var digests = 0
        for entry in stores {
            let folder = try TemporaryFolder()
            let path = try CorpusModels.copy(of: entry.path, in: folder)
            let store = try SQLiteStore.open(at: path)
            let model = store.layout.model
            try store.close()
            let known = try #require(model.knownVersionHashes)
            #expect(known.count == model.entities.count)
            let copy = folder.path("copy.sqlite")
            try SQLiteStore.create(at: copy, model: model).close()
            let (theirs, ours) = (try plist(path), try plist(copy))
            for key in [
                "NSStoreModelVersionHashes", "NSStoreModelVersionHashesDigest",
                "NSStoreModelVersionChecksumKey",
            ] {
                guard let value = theirs[key] as? NSObject else { continue }
                #expect(ours[key] as? NSObject == value, "\(entry): \(key)")
                digests += 1
            }
            // And again out of the copy, which carries Quire's own form of the model too.
            let reopened = try SQLiteStore.open(at: copy)
            #expect(reopened.layout.model.knownVersionHashes == known)
            try reopened.close()
        }
        #expect(digests > stores.count)
    }

    @Test(.corpus) func compiledFoldersBringHashes() throws {
        let folders = Corpus.files { $0.hasSuffix(".momd") }
        try #require(!folders.isEmpty)
        for folder in folders {
            let versions = try ModelVersions(contentsOf: folder.path)
            for name in versions.names {
                let model = try versions.model(named: name)
                #expect(model.knownVersionHashes == versions.knownVersionHashes(named: name))
                #expect(model.knownVersionHashes?.count == model.entities.count)
                let file = folder.appendingPathComponent(name + ".mom").path
                #expect(
                    try ManagedObjectModel(contentsOf: file).knownVersionHashes
                        == model.knownVersionHashes)
            }
        }
    }

    @Test func hashesAreForgottenWhenTheModelChanges() throws {
        var model = FixtureModels.library
        let hashes = model.entityVersionHashes().mapValues { Data($0.reversed()) }
        model.knownVersionHashes = hashes
        #expect(model == FixtureModels.library)
        #expect(model.versionHashesForNewStores == hashes)
        model.entities[0].userInfo["note"] = "x"
        #expect(model.knownVersionHashes == hashes)
        model.entities[0].properties.append(.attribute(.init(name: "added", type: .string)))
        #expect(model.knownVersionHashes == nil)
        #expect(model.versionHashesForNewStores == model.entityVersionHashes())
        var wrong = FixtureModels.library
        wrong.knownVersionHashes = ["Other": Data(count: 32)]
        #expect(wrong.knownVersionHashes == nil)
    }
}
