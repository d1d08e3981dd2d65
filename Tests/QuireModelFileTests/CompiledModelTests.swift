import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct CompiledModelTests {
    /// Where two models differ, each with what the second says.
    private func differences(_ left: ManagedObjectModel, _ right: ManagedObjectModel) -> [String] {
        var result: [String] = []
        if left.entities.map(\.name) != right.entities.map(\.name) {
            result.append("entities: \(right.entities.map(\.name))")
        }
        for entity in left.entities {
            guard var other = right.entity(named: entity.name) else { continue }
            if entity.properties.map(\.name) != other.properties.map(\.name) {
                result.append("\(entity.name): \(other.properties.map(\.name))")
            }
            for property in entity.properties {
                guard let twin = other.property(named: property.name) else { continue }
                if twin != property { result.append("\(entity.name): \(twin)") }
            }
            var bare = entity
            (bare.properties, other.properties) = ([], [])
            if bare != other { result.append("\(other)") }
        }
        var (bare, other) = (left, right)
        (bare.entities, other.entities) = ([], [])
        if bare != other { result.append("\(other)") }
        return result
    }

    @Test func compiledVersionsSayWhatTheirSourcesSay() throws {
        let versions = try CorpusModels.compiledVersions()
        if versions.isEmpty {
            return Corpus.reportSkipped("compiledVersionsSayWhatTheirSourcesSay")
        }
        for (path, source) in versions {
            let (model, remarks) = try ManagedObjectModel.reading(contentsOf: path)
            var written = try ManagedObjectModel(contentsOf: source)
            if path.hasSuffix("Contacts.mom") {
                // Compiled before its source was changed last.
                #expect(model.fetchRequestTemplates.count == 1)
                written.fetchRequestTemplates = model.fetchRequestTemplates
            }
            #expect(remarks == [], "\(path)")
            #expect(differences(model.asCompiled, written.asCompiled) == [], "\(path)")
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
        if stores.isEmpty { return Corpus.reportSkipped("storesCarryWhatTheirModelsSay") }
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
                return differences(model.asCompiled, written.asCompiled)
                    + (isSame ? [] : ["hashes of \(name)"])
            }.min { $0.count < $1.count }
            let known = Self.changedSources[URL(fileURLWithPath: entry.path).lastPathComponent]
            #expect(best?.count == known ?? 0, "\(entry): \(best ?? [])")
        }
    }
}
