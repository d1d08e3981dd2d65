import Foundation
import Quire
import QuireTestSupport
import Testing

/// Models by name among the resources of a bundle.
@Suite struct ModelSearchTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private var bundle: Bundle { get throws { try #require(Bundle(path: folder.path)) } }

    private static func model(_ entity: String) -> ManagedObjectModel {
        ManagedObjectModel { Entity(entity) { Attribute("name", .string) } }
    }

    /// Writes a model whose only entity has a name.
    private func write(_ entity: String, to path: String) throws {
        let path = folder.path(path)
        try FileManager.default.createDirectory(
            at: URL(fileURLWithPath: path).deletingLastPathComponent(),
            withIntermediateDirectories: true)
        if path.hasSuffix(".mom") {
            try Self.model(entity).compiledModel().data.write(to: URL(fileURLWithPath: path))
        } else if path.hasSuffix(".quiremodel") {
            try Data(Self.model(entity).modelText().utf8).write(to: URL(fileURLWithPath: path))
        } else {
            try Self.model(entity).write(to: path)
        }
    }

    private func found(_ name: String = "Library") throws -> [String] {
        try ManagedObjectModel(named: name, bundle: bundle).entities.map(\.name)
    }

    @Test func everyFormOfModelIsFoundCompiledOnesFirst() throws {
        try write("Text", to: "Library.quiremodel")
        #expect(try found() == ["Text"])
        try write("Source", to: "Library.xcdatamodel")
        #expect(try found() == ["Source"])
        try write("Versions", to: "Library.xcdatamodeld/One.xcdatamodel")
        #expect(try found() == ["Versions"])
        try write("Compiled", to: "Library.mom")
        #expect(try found() == ["Compiled"])
        try write("CompiledVersions", to: "Library.momd/One.mom")
        #expect(try found() == ["CompiledVersions"])
    }

    @Test func modelsInResourcesAreFound() throws {
        try write("Resource", to: "Resources/Library.xcdatamodel")
        #expect(try found() == ["Resource"])
    }

    @Test func resourcesOfASwiftPackageAreFoundBesideTheProgram() throws {
        try write("Package", to: "App_Model.resources/Library.xcdatamodeld/One.xcdatamodel")
        try write("Other", to: "App_Other.resources/Other.mom")
        #expect(try found() == ["Package"])
        // What the bundle itself has comes first.
        try write("Own", to: "Library.mom")
        #expect(try found() == ["Own"])
    }

    @Test func whereSeveralPackagesHaveAModelNoneIsChosen() throws {
        try write("One", to: "App_One.resources/Library.mom")
        try write("Two", to: "App_Two.resources/Library.mom")
        let error = #expect(throws: QuireError.self) { try found() }
        #expect(error?.code == .invalidState)
        #expect(error?.message.contains("App_One.resources/Library.mom”, “") == true)
        let two = try #require(Bundle(path: folder.path("App_Two.resources")))
        let model = try ManagedObjectModel(named: "Library", bundle: two)
        #expect(model.entities.map(\.name) == ["Two"])
    }

    @Test func allModelsOfABundleAreMerged() throws {
        #expect(try ManagedObjectModel.mergedModel(from: [bundle]) == nil)
        try write("Author", to: "Authors.mom")
        try write("Loan", to: "Loans.xcdatamodel")
        try write("Book", to: "App_Books.resources/Books.xcdatamodeld/One.xcdatamodel")
        let merged = try #require(try ManagedObjectModel.mergedModel(from: [bundle]))
        #expect(merged.entities.map(\.name).sorted() == ["Author", "Book", "Loan"])
        // The source of a compiled model beside it is the same model.
        try write("Author", to: "Authors.xcdatamodel")
        #expect(try ManagedObjectModel.mergedModel(from: [bundle]) == merged)
        try Data("no model".utf8).write(to: folder.url.appendingPathComponent("Broken.mom"))
        let error = #expect(throws: QuireError.self) {
            try ManagedObjectModel.mergedModel(from: [bundle])
        }
        #expect(error?.code == .invalidFormat)
    }

    @Test func theErrorOfAMissingModelSaysWhereItWasLookedFor() throws {
        try write("Other", to: "Other.mom")
        let error = #expect(throws: QuireError.self) { try found() }
        #expect(error?.code == .notFound)
        for part in ["“Library”", "Library.momd", "Library.xcdatamodeld", folder.path] {
            #expect(error?.message.contains(part) == true, "\(part)")
        }
    }

    @Test func aDamagedModelIsNotPassedOver() throws {
        try Data("no model".utf8).write(to: folder.url.appendingPathComponent("Library.mom"))
        try write("Source", to: "Library.xcdatamodel")
        let error = #expect(throws: QuireError.self) { try found() }
        #expect(error?.code == .invalidFormat)
    }
}
