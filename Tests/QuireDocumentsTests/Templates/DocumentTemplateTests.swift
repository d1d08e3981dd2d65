import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

@MainActor
@Suite struct DocumentTemplateTests {
    private let templates = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Sources/QuireDocuments/Resources/Templates").path

    /// A template with a model of notes and tags, and a seed.
    private func template(_ seed: String?) throws -> (folder: TemporaryFolder, DocumentTemplate) {
        let folder = try TemporaryFolder()
        let path = folder.path("T")
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
        try FileManager.default.copyItem(
            atPath: templates + "/Notes/Model.xcdatamodeld", toPath: path + "/Model.xcdatamodeld")
        if let seed {
            try Data(seed.utf8).write(to: URL(fileURLWithPath: path + "/Seed.json"))
        }
        return (folder, try DocumentTemplate(contentsOf: path))
    }

    /// They are parts of any program that depends on the package, which needs no files.
    @Test func builtInTemplatesAreThoseOfTheFolder() throws {
        for template in DocumentTemplate.builtIn {
            let original = try DocumentTemplate.named(template.name, in: templates)
            #expect(try template.model() == original.model())
            #expect(template.summary == original.summary)
            #expect(
                try template.additionalContent().map(\.data)
                    == original.additionalContent().map(\.data))
            #expect(
                try template.additionalContent().map(\.path)
                    == original.additionalContent().map(\.path))
        }
        #expect(DocumentTemplate.builtIn.map(\.name) == Self.names)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: templates).sorted() == Self.names)
        #expect(try Set(DocumentTemplate.all().map(\.name)).isSuperset(of: Self.names))
    }

    @Test func templatesOfAnInstallationAreFoundFromTheProgram() throws {
        let folder = try TemporaryFolder()
        let installed = folder.path("share/quire/Templates")
        #expect(DocumentTemplate.folder(above: folder.path("bin/quire")) != installed)
        try FileManager.default.createDirectory(
            atPath: installed + "/T/Model.xcdatamodeld", withIntermediateDirectories: true)
        #expect(DocumentTemplate.folder(above: folder.path("bin/quire")) == installed)
        try FileManager.default.removeItem(atPath: folder.path("share"))
        #expect(DocumentTemplate.folder(above: folder.path("bin/quire")) != installed)
    }

    nonisolated private static let names = [
        "Blank", "Contacts", "Inventory", "Journal", "Library", "Notes", "Recipes",
    ]

    @Test(arguments: names, [true, false])
    func everyTemplateMakesADocument(_ name: String, isBuiltIn: Bool) async throws {
        let folder = try TemporaryFolder()
        let template =
            isBuiltIn
            ? try #require(DocumentTemplate.builtIn.first { $0.name == name })
            : try DocumentTemplate.named(name, in: templates)
        #expect(!template.summary.isEmpty)
        try template.model().validate()
        let document = ManagedDocument(path: folder.path("D.quire"))
        try await document.create(from: template)
        #expect(!document.hasUnsavedChanges)
        #expect(document.undoManager?.canUndo == false)
        #expect(
            try document.additionalContent.paths == template.additionalContent().map(\.path))
        try await document.close()
    }

    @Test(arguments: [
        ("Libary", "did you mean “Library”?"),
        ("Other", "available templates: \(names.joined(separator: ", "))."),
    ])
    func unknownNameSuggestsSimilarNamesOrListsAll(_ name: String, _ advice: String) {
        let error = #expect(throws: QuireError.self) {
            try DocumentTemplate.named(name, in: templates)
        }
        #expect(error?.code == .notFound)
        #expect(error?.message.hasSuffix(advice) == true, "\(error?.message ?? "")")
    }

    @Test func folderWithoutModelIsNoTemplate() throws {
        let folder = try TemporaryFolder()
        let error = #expect(throws: QuireError.self) {
            try DocumentTemplate(contentsOf: folder.path)
        }
        #expect(error?.code == .invalidFormat)
        #expect(try DocumentTemplate.all(in: folder.path).isEmpty)
    }

    @Test func seedMayReferBackAndForth() async throws {
        let (folder, template) = try template(
            """
            {"format": "quire-dump/1", "entities": {
              "Post": [{"id": "Post/p7", "title": "P", "tags": ["b", "a"], "attachments": ["x", "y"]}],
              "Tag": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}],
              "Attachment": [{"id": "y", "name": "Y"}, {"id": "x", "name": "X", "data": "aGk="}]}}
            """)
        let document = ManagedDocument(path: folder.path("D.quire"))
        try await document.create(from: template)
        let posts = try document.managedObjectContext.fetch(FetchRequest("Post"))
        let post = try #require(posts.first)
        #expect(Set(post.objects("tags").map { $0["name", as: String.self] }) == ["A", "B"])
        #expect(post.objects("attachments").map { $0["name", as: String.self] } == ["X", "Y"])
        #expect(post.objects("attachments").first?["data", as: Data.self] == Data("hi".utf8))
        try await document.close()
    }

    @Test(arguments: [
        (#"{"entities": {}}"#, "line 1, column 1: the member “format” must be “quire-dump/1”."),
        (#"{"format": "quire-dump/1", "entities": {"Pots": []}}"#, "has no entity “Pots”"),
        (
            #"{"format": "quire-dump/1", "entities": {"Post": [{"titel": "x"}]}}"#,
            "Post has no property “titel”"
        ),
        (
            #"{"format": "quire-dump/1", "entities": {"Post": [{"title": "x", "tags": ["q"]}]}}"#,
            "column 74: the file has no object “q”."
        ),
        (
            #"{"format": "quire-dump/1", "entities": {"Post": [{"title": "x", "createdAt": "soon"}]}}"#,
            "column 78: “soon” is not a date"
        ),
        (
            #"{"format": "quire-dump/1", "entities": {"Post": [{"title": "x"}]}"#,
            "this is not valid JSON"
        ),
        (#"{"format": "quire-dump/1", "entities": {"Post": [{}]}}"#, "title” is required"),
    ])
    func badSeedIsRefusedAndLeavesNoDocument(_ seed: String, _ sentence: String) async throws {
        let (folder, template) = try template(seed)
        let document = ManagedDocument(path: folder.path("D.quire"))
        let error = await #expect(throws: QuireError.self) {
            try await document.create(from: template)
        }
        #expect(error?.message.contains(sentence) == true, "\(error?.message ?? "")")
        #expect(!document.isOpen)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["T"])
    }

    @Test func dumpOfADocumentIsASeed() async throws {
        // Identifiers with a store's UUID name objects of the seed just as well.
        let (folder, template) = try template(
            """
            {"format": "quire-dump/1", "entities": {"Attachment": [], "Post": [
              {"attachments": [], "body": null, "createdAt": null, "id": "x-coredata://U/Post/p1",
               "modifiedAt": null, "tags": ["x-coredata://U/Tag/p1"], "title": "P", "uuid": null}],
             "Tag": [{"id": "x-coredata://U/Tag/p1", "name": "T", "posts": ["x-coredata://U/Post/p1"]}]}}
            """)
        let document = ManagedDocument(path: folder.path("D.quire"))
        try await document.create(from: template)
        let tags = try document.managedObjectContext.fetch(FetchRequest("Tag"))
        #expect(tags.first?.objects("posts").map { $0["title", as: String.self] } == ["P"])
        try await document.close()
    }
}
