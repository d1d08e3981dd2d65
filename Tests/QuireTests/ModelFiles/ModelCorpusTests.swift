import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Models that Xcode made, of many years and many apps.
@Suite(.corpus) struct ModelCorpusTests {
    @Test func everyModernModelLoadsAndSurvivesWritingAndReading() throws {
        let files = Corpus.files { $0.hasSuffix("/contents") }
        try #require(!files.isEmpty)
        #expect(files.count >= 220)
        for file in files {
            do {
                let model = try ManagedObjectModel(contentsOf: file.path)
                let layout = try model.layout()
                #expect(layout.entities.count == model.entities.count, "\(file.path)")
                for entity in layout.entities {
                    for relationship in entity.relationships {
                        // Whatever an inverse leads to leads back.
                        guard let inverse = layout.inverse(of: relationship) else { continue }
                        #expect(inverse.description.inverseName == relationship.name)
                    }
                }
                let written = model.modelXML()
                let read = try ManagedObjectModel(modelXML: written, name: "written")
                #expect(read == model, "\(file.path)")
                #expect(read.modelXML() == written, "\(file.path)")
                #expect(
                    Set(model.entityVersionHashes().keys) == Set(model.entities.map(\.name)))
            } catch {
                Issue.record("\(file.path): \(error)")
            }
        }
    }

    /// The numbers of elements in the corpus, counted by another program.
    @Test func nothingIsPassedOver() throws {
        let models = try Corpus.files { $0.hasSuffix("/contents") }
            .map { try ManagedObjectModel(contentsOf: $0.path) }
        #expect(models.count == 220)
        let entities = models.flatMap(\.entities)
        let attributes = entities.flatMap(\.attributes)
        let relationships = entities.flatMap(\.relationships)
        #expect(entities.count == 1_153)
        #expect(entities.filter(\.isAbstract).count == 15)
        #expect(entities.filter { $0.superentityName != nil }.count == 90)
        #expect(attributes.count == 9_182)
        #expect(attributes.filter(\.isOptional).count == 8_475)
        #expect(attributes.filter { !$0.defaultValue.isNull }.count == 2_275)
        #expect(attributes.filter { !$0.minimum.isNull }.count == 11)
        #expect(attributes.filter(\.usesScalarValueType).count == 1_081)
        #expect(attributes.filter(\.allowsExternalBinaryDataStorage).count == 26)
        #expect(relationships.count == 2_812)
        #expect(relationships.filter(\.isToMany).count == 1_200)
        #expect(relationships.filter(\.isOrdered).count == 28)
        #expect(relationships.filter { $0.inverseName != nil }.count == 2_765)
        #expect(relationships.filter { $0.deleteRule == .cascade }.count == 876)
        #expect(relationships.filter { $0.minimumCount == 1 }.count == 242)
        #expect(entities.flatMap(\.indexes).flatMap(\.elements).count == 205)
        #expect(entities.flatMap(\.uniquenessConstraints).flatMap { $0 }.count == 34)
        #expect(entities.flatMap(\.compoundIndexes).flatMap { $0 }.count == 225)
        #expect(models.flatMap(\.fetchRequestTemplates).count == 7)
        #expect(models.flatMap(\.composites).flatMap(\.elements).count == 7)
        #expect(models.filter { !$0.versionIdentifiers.isEmpty }.count == 42)
    }

    @Test func everyVersionedModelHasACurrentVersion() throws {
        let folders = Corpus.files { $0.hasSuffix(".xcdatamodeld") }
        try #require(!folders.isEmpty)
        var loaded = 0
        var empty: [String] = []
        for folder in folders {
            do {
                let versions = try ModelVersions(contentsOf: folder.path)
                #expect(versions.names.contains(versions.currentName))
                let current = try versions.currentModel()
                #expect(try ManagedObjectModel(contentsOf: folder.path) == current)
                for name in versions.names {
                    _ = try versions.model(named: name)
                }
                loaded += 1
            } catch let error as QuireError
                where error.message.contains("does not contain a version")
            {
                empty.append(folder.lastPathComponent)
            } catch {
                Issue.record("\(folder.path): \(error)")
            }
        }
        // Of this one, only the list of versions is in the corpus.
        #expect(empty == ["RestKitCoreData.xcdatamodeld"])
        #expect(loaded == folders.count - 1)
    }

    /// Details of a few models, checked by eye.
    @Test func detailsAreRead() throws {
        let files = Corpus.files { $0.hasSuffix("/contents") }
        let car = try #require(
            files.first {
                $0.path.hasSuffix("SampleModel.xcdatamodeld/SampleModel2.xcdatamodel/contents")
            })
        let model = try ManagedObjectModel(contentsOf: car.path)
        let luxury = try #require(model.entity(named: "LuxuryCar"))
        #expect(luxury.renamingIdentifier == "ExpensiveSportCar")
        #expect(luxury.superentityName == "SportCar")
        let limited = try #require(luxury.attributes.first)
        #expect(limited.defaultValue == .boolean(false))
        #expect(limited.isOptional)
        let base = try #require(model.entity(named: "Car"))
        #expect(base.uniquenessConstraints == [["numberPlate"]])
        #expect(base.attributes.first { $0.name == "numberPlate" }?.isOptional == false)
    }
}
