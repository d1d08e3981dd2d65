import Foundation
import Testing

@testable import Quire

@Suite struct MergingModelsTests {
    private func model(_ names: String..., version: String) -> ManagedObjectModel {
        var model = ManagedObjectModel()
        for name in names {
            var entity = EntityDescription(name: name)
            entity.properties = [.attribute(.init(name: "title", type: .string))]
            model.entities.append(entity)
        }
        model.versionIdentifiers = [version]
        model.configurations = [.init(name: "All", entityNames: names)]
        return model
    }

    @Test func entitiesAndConfigurationsAreUnited() throws {
        let merged = try ManagedObjectModel.merging([
            model("A", "B", version: "1"), model("B", "C", version: "2"),
        ])
        #expect(merged.entities.map(\.name) == ["A", "B", "C"])
        #expect(merged.versionIdentifiers == ["1", "2"])
        #expect(merged.configurations.map(\.entityNames) == [["A", "B", "C"]])
        try merged.validate()
    }

    @Test func differentEntitiesOfOneNameAreNamed() throws {
        var other = model("A", "B", version: "2")
        other.entities[1].properties.append(.attribute(.init(name: "more", type: .date)))
        let error = #expect(throws: QuireError.self) {
            try ManagedObjectModel.merging([model("A", "B", version: "1"), other])
        }
        #expect(error?.code == .invalidModel)
        #expect(error?.subject.entity == "B")
        #expect(error?.message.contains("“B”") == true)
    }

    @Test func theModelOfAStoreIsFound() throws {
        let first = model("A", "B", version: "1")
        let second = model("C", version: "2")
        let models = [first, second]
        let found = try ManagedObjectModel.model(
            among: models, matching: second.entityVersionHashes())
        #expect(found == second)
        var hashes = second.entityVersionHashes()
        hashes["A"] = first.entityVersionHashes()["A"]
        let merged = try #require(
            try ManagedObjectModel.model(among: models, matching: hashes))
        #expect(merged.entities.map(\.name) == ["A", "C"])
        #expect(merged.matches(versionHashes: hashes))
        hashes["A"] = Data(count: 32)
        #expect(try ManagedObjectModel.model(among: models, matching: hashes) == nil)
        #expect(try ManagedObjectModel.model(among: models, matching: [:]) == nil)
    }

    @Test func theModelOfAStoreIsFoundByHashesThatCameWithIt() throws {
        var first = model("A", "B", version: "1")
        let hashes = ["A": Data(repeating: 1, count: 32), "B": Data(repeating: 2, count: 32)]
        first.knownVersionHashes = hashes
        let found = try #require(
            try ManagedObjectModel.model(
                among: [model("A", version: "0"), first], matching: ["B": hashes["B"] ?? Data()]))
        #expect(found.entities.map(\.name) == ["B"])
        #expect(found.knownVersionHashes == ["B": Data(repeating: 2, count: 32)])
    }
}
