import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct LegacyModelTests {
    @Test(.corpus) func everyModelOfXcode3IsRead() throws {
        let files = Corpus.files { $0.hasSuffix(".xcdatamodel/elements") }
        try #require(!files.isEmpty)
        for file in files {
            let (model, remarks) = try ManagedObjectModel.reading(contentsOf: file.path)
            #expect(!model.entities.isEmpty, "\(file.path)")
            #expect(remarks.allSatisfy { $0.contains("Sync Services") }, "\(file.path): \(remarks)")
            let folder = file.deletingLastPathComponent().path
            #expect(try ManagedObjectModel(contentsOf: folder) == model)
            try model.validate()
            #expect(
                try ManagedObjectModel(modelXML: model.modelXML(), name: "again").asCompiled
                    == model.asCompiled)
        }
    }

    @Test(.corpus) func detailsAreRead() throws {
        let files = Corpus.files {
            $0.hasSuffix("Recipes.xcdatamodeld/Recipes.xcdatamodel/elements")
        }
        let file = try #require(files.first)
        let model = try ManagedObjectModel(contentsOf: file.path)
        #expect(model.entities.map(\.name).contains("Recipe"))
        let recipe = try #require(model.entity(named: "Recipe"))
        #expect(recipe.managedObjectClassName == "Recipe")
        let ingredients = try #require(recipe.relationships.first { $0.name == "ingredients" })
        #expect(ingredients.isToMany && ingredients.inverseName == "recipe")
        #expect(ingredients.deleteRule == .cascade)
    }

    @Test(.corpus) func modelsWithinMappingModelsAreThoseOfTheirSources() throws {
        let models = try Corpus.mappingModels()
        try #require(!models.isEmpty)
        #expect(models.count == 18)
        let sources = try Corpus.sourceModels().map { ($0.path, $0.model.entityVersionHashes()) }
        var found = 0
        for (path, data) in models {
            let model = try ManagedObjectModel(archivedModel: data, name: path)
            try model.validate()
            let hashes = model.entityVersionHashes()
            if sources.contains(where: { $0.1 == hashes }) { found += 1 }
        }
        #expect(found >= 12, "\(found) of \(models.count)")
    }
}
