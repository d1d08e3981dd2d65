import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct ModelVersionsTests {
    private let folder: TemporaryFolder
    private var path: String { folder.path("Library.xcdatamodeld") }

    init() throws { folder = try TemporaryFolder() }

    private func model(_ entity: String) -> ManagedObjectModel {
        ManagedObjectModel { Entity(entity) { Attribute("name", .string) } }
    }

    private func makeVersions(_ names: String..., current: String?) throws {
        try FileSystem.makeFolder(path)
        for name in names { try model("E").write(to: path + "/\(name).xcdatamodel") }
        if let current {
            try write(
                "<plist version=\"1.0\"><dict><key>_XCCurrentVersionName</key><string>\(current)</string></dict></plist>",
                to: path + "/.xccurrentversion")
        }
    }

    private func write(_ text: String, to path: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }

    private func code(_ body: () throws -> Void) -> QuireError.Code? {
        do {
            try body()
            return nil
        } catch { return (error as? QuireError)?.code }
    }

    @Test func modelIsWrittenAndReadAsFolderAndFile() throws {
        let path = folder.path("M.xcdatamodel")
        try ModelXMLTests.everything.write(to: path)
        #expect(try FileSystem.names(in: path) == ["contents"])
        #expect(try ManagedObjectModel(contentsOf: path) == ModelXMLTests.everything)
        #expect(try ManagedObjectModel(contentsOf: path + "/") == ModelXMLTests.everything)
        #expect(try ManagedObjectModel(contentsOf: path + "/contents") == ModelXMLTests.everything)
        #expect(try FileSystem.names(in: folder.path) == ["M.xcdatamodel"])
    }

    @Test func writingAgainReplaces() throws {
        let path = folder.path("M.xcdatamodel")
        try model("A").write(to: path)
        try model("B").write(to: path)
        #expect(try ManagedObjectModel(contentsOf: path).entities.map(\.name) == ["B"])
    }

    @Test func contradictoryModelIsNotWritten() throws {
        let path = folder.path("M.xcdatamodel")
        try model("A").write(to: path)
        #expect(code { try model("").write(to: path) } == .invalidModel)
        #expect(try ManagedObjectModel(contentsOf: path).entities.map(\.name) == ["A"])
    }

    @Test func otherThingsAreNotOverwritten() throws {
        try write("x", to: folder.path("file"))
        #expect(code { try model("A").write(to: folder.path("file")) } == .invalidState)
        #expect(code { try model("A").write(to: folder.path) } == .invalidState)
        #expect(code { try model("A").write(to: folder.path("no/M.xcdatamodel")) } == .notFound)
        #expect(try FileSystem.names(in: folder.path) == ["file"])
    }

    @Test func currentVersionIsTheNamedOne() throws {
        try makeVersions("Library", "Library 2", current: "Library 2.xcdatamodel")
        try model("Two").write(to: path + "/Library 2.xcdatamodel")
        let versions = try ModelVersions(contentsOf: path)
        #expect(versions.names == ["Library", "Library 2"])
        #expect(versions.currentName == "Library 2")
        #expect(try versions.currentModel().entities.map(\.name) == ["Two"])
        #expect(try versions.model(named: "Library").entities.map(\.name) == ["E"])
        #expect(Set(try versions.models().keys) == ["Library", "Library 2"])
        #expect(try ManagedObjectModel(contentsOf: path).entities.map(\.name) == ["Two"])
        #expect(code { _ = try versions.model(named: "Library 3") } == .notFound)
        #expect(code { _ = try versions.model(named: "../x") } == .notFound)
    }

    @Test func theOnlyVersionIsCurrent() throws {
        try makeVersions("Any", current: nil)
        #expect(try ModelVersions(contentsOf: path).currentName == "Any")
    }

    @Test func theVersionOfTheFoldersNameIsCurrentIfNoneIsNamed() throws {
        try makeVersions("Library", "Library 2", current: nil)
        #expect(try ModelVersions(contentsOf: path).currentName == "Library")
    }

    @Test func aListWithoutACurrentVersionNamesNone() throws {
        try makeVersions("Library", "Library 2", current: nil)
        try write("<plist version=\"1.0\"><dict/></plist>", to: path + "/.xccurrentversion")
        #expect(try ModelVersions(contentsOf: path).currentName == "Library")
    }

    @Test func severalVersionsWithoutACurrentOneAreAmbiguous() throws {
        try makeVersions("A", "B", current: nil)
        #expect(code { _ = try ModelVersions(contentsOf: path) } == .invalidFormat)
    }

    @Test func currentVersionMustBeThere() throws {
        try makeVersions("A", current: "../../A.xcdatamodel")
        #expect(code { _ = try ModelVersions(contentsOf: path) } == .notFound)
        for text in ["", "no plist", "<plist><array/></plist>", "bplist00"] {
            try write(text, to: path + "/.xccurrentversion")
            #expect(code { _ = try ModelVersions(contentsOf: path) } == .invalidFormat)
        }
    }

    @Test func aSingleModelIsItsOnlyVersion() throws {
        let path = folder.path("M.xcdatamodel")
        try model("A").write(to: path)
        let versions = try ModelVersions(contentsOf: path)
        #expect(versions.names == ["M"])
        #expect(try versions.currentModel() == model("A"))
    }

    @Test func whatIsNotThereOrNoModelIsNamed() throws {
        let missing = folder.path("Missing.xcdatamodeld")
        let error = #expect(throws: QuireError.self) { try ManagedObjectModel(contentsOf: missing) }
        #expect(error?.code == .notFound)
        #expect(error?.message == "The model “\(missing)” does not exist.")
        #expect(code { _ = try ModelVersions(contentsOf: missing) } == .notFound)
        #expect(code { _ = try ManagedObjectModel(contentsOf: folder.path) } == .invalidFormat)
        try FileSystem.makeFolder(path)
        #expect(code { _ = try ManagedObjectModel(contentsOf: path) } == .invalidFormat)
        try write("hello", to: folder.path("text"))
        #expect(
            code { _ = try ManagedObjectModel(contentsOf: folder.path("text")) } == .invalidFormat)
    }
}
