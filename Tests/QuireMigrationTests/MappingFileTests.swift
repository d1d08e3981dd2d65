import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireMigration

/// Mapping models of Xcode's.
@Suite struct MappingFileTests {
    static let files: [URL] = Corpus.files { $0.hasSuffix(".xcmappingmodel/xcmapping.xml") }

    /// The model of a mapping: the one beside it, in the same repository, that has its versions.
    private static func versions(for file: URL) throws -> ModelVersions {
        let repository = file.pathComponents.drop { $0 != "models" }.dropFirst().first ?? ""
        let name = try MappingModelFile(contentsOf: file.path).sourceName ?? ""
        let found = Corpus.files {
            $0.hasPrefix("models/\(repository)/") && $0.hasSuffix(".xcdatamodeld")
        }
        let all = try found.map { try ModelVersions(contentsOf: $0.path) }
        let near = all.filter {
            $0.path.hasPrefix(file.deletingLastPathComponent().deletingLastPathComponent().path)
        }
        return try #require((near + all).first { $0.names.contains(name) } ?? all.first)
    }

    @Test(.corpus) func thereAreMappingModels() { #expect(Self.files.count >= 9) }

    @Test(.corpus, arguments: files) func mappingModelsOfXcodeAreRead(file: URL) throws {
        let mapping = try CustomMapping(
            contentsOf: file.deletingLastPathComponent().path, among: Self.versions(for: file))
        #expect(!mapping.mapping.entityMappings.isEmpty)
        // It fits the models that it names.
        _ = try TransferPlan(
            mapping.mapping, from: mapping.source.layout(), to: mapping.destination.layout())
    }

    @Test(.corpus) func aStoreGoesThroughMappingModels() throws {
        let store = try #require(
            Corpus.files { $0.hasSuffix("MigrationsTests/Moody 2.moody") }.first)
        let folder = try TemporaryFolder()
        let path = folder.path("store.sqlite")
        try FileManager.default.copyItem(atPath: store.path, toPath: path)
        let files = Self.files.filter { $0.path.contains("Moody") }
        let versions = try Self.versions(for: try #require(files.first))
        var options = StoreMigrationOptions()
        options.versions = try versions.models()
        options.mappings = try files.map { try CustomMapping(contentsOf: $0.path, among: versions) }
        options.infersMappingModel = false
        let steps = try SQLiteStore.steps(
            at: path, to: versions.model(named: "Moody 6"), options)
        #expect(steps.map(\.name) == ["Moody 3", "Moody 4", "Moody 5", "Moody 6"])
        #expect(steps.allSatisfy { $0.isCustom })
        // Their app has policies for some, which do more.
        for mapping in steps.flatMap(\.mapping.entityMappings) {
            guard let name = mapping.entityMigrationPolicyName else { continue }
            options.policies[name] = { EntityMigrationPolicy() }
        }
        let model = try versions.model(named: "Moody 6")
        let migrated = try SQLiteStore.open(at: path, model: model, migrating: options)
        #expect(try migrated.integrityProblems().isEmpty)
        #expect(try migrated.count(matching: FetchSpecification("Mood")) > 0)
        try migrated.close()
    }

    @Test(.corpus) func aStoreMigratesByAMappingModelWithAPolicy() throws {
        let store = try #require(Corpus.files { $0.hasSuffix("SampleModel_V2.sqlite") }.first)
        let file = try #require(Self.files.first { $0.path.contains("V2toV3") })
        let folder = try TemporaryFolder()
        let path = folder.path("store.sqlite")
        try FileManager.default.copyItem(atPath: store.path, toPath: path)
        let versions = try Self.versions(for: file)
        let custom = try CustomMapping(contentsOf: file.path, among: versions)
        #expect(
            custom.mapping["SportCar"]?.entityMigrationPolicyName
                == "REPLACE_AT_RUNTIME.V2to3MakerPolicy")
        let before = try SQLiteStore.open(at: path, model: custom.source)
        let cars = try before.count(matching: FetchSpecification("Car"))
        try before.close()
        #expect(cars > 0)
        let manager = MigrationManager(mappingModel: custom.mapping)
        let missing = #expect(throws: QuireError.self) {
            try SQLiteStore.migrate(
                at: path, from: custom.source, to: custom.destination, manager: manager)
        }
        #expect(missing?.message.contains("V2to3MakerPolicy") == true)
        manager.policies["V2to3MakerPolicy"] = { EntityMigrationPolicy() }
        try SQLiteStore.migrate(
            at: path, from: custom.source, to: custom.destination, manager: manager)
        let after = try SQLiteStore.open(at: path)
        #expect(try after.count(matching: FetchSpecification("Car")) == cars)
        #expect(try after.integrityProblems().isEmpty)
        try after.close()
    }

    @Test func whatIsNoMappingModelIsRefused() throws {
        let folder = try TemporaryFolder()
        for text in ["", "<database/>", "nonsense"] {
            let path = folder.path("xcmapping.xml")
            try Data(text.utf8).write(to: URL(fileURLWithPath: path))
            let error = #expect(throws: QuireError.self) {
                _ = try MappingModelFile(contentsOf: path)
            }
            #expect(error?.code == .invalidFormat)
        }
    }
}
