import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite(.corpus) struct CompiledModelTests {
    @Test func compiledVersionsSayWhatTheirSourcesSay() throws {
        let versions = try CorpusModels.compiledVersions()
        try #require(!versions.isEmpty)
        for (path, source) in versions {
            let (model, remarks) = try ManagedObjectModel.reading(contentsOf: path)
            var written = try ManagedObjectModel(contentsOf: source)
            if path.hasSuffix("Contacts.mom") {
                // Compiled before its source was changed last.
                #expect(model.fetchRequestTemplates.count == 1)
                written.fetchRequestTemplates = model.fetchRequestTemplates
            }
            #expect(remarks == [], "\(path)")
            #expect(model.asCompiled.differences(from: written.asCompiled) == [], "\(path)")
            #expect(model.entityVersionHashes() == written.entityVersionHashes())
            try model.validate()
        }
    }

    /// Stores that are older than any version of their source in the corpus, and how many differences there are.
    private static let changedSources = [
        "Moody.moody": 1, "XCServerCoreData_2.0.0_empty.sqlite": 2,
    ]

    @Test func storesCarryWhatTheirModelsSay() throws {
        let stores = try CorpusModels.stores()
        try #require(!stores.isEmpty)
        for entry in stores {
            let folder = try TemporaryFolder()
            let store = try SQLiteStore.open(at: CorpusModels.copy(of: entry.path, in: folder))
            var model = store.layout.model
            defer { try? store.close() }
            try model.validate()
            guard let source = entry.source else { continue }
            // The index names the source that has the store's tables, which several versions may have.
            let versions = try ModelVersions(
                contentsOf: URL(fileURLWithPath: source).deletingLastPathComponent().path)
            let best = try versions.names.map { name in
                let written = try versions.model(named: name)
                for (index, entity) in model.entities.enumerated() {
                    // The classes of the program that made the store.
                    model.entities[index].managedObjectClassName =
                        written.entity(named: entity.name)?.managedObjectClassName
                }
                let isSame = model.entityVersionHashes() == written.entityVersionHashes()
                return model.asCompiled.differences(from: written.asCompiled)
                    + (isSame ? [] : ["hashes of \(name)"])
            }.min { $0.count < $1.count }
            let known = Self.changedSources[URL(fileURLWithPath: entry.path).lastPathComponent]
            #expect(best?.count == known ?? 0, "\(entry): \(best ?? [])")
        }
    }
}
