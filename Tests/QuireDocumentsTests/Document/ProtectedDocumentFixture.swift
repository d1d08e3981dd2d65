import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// A protected document with objects, external data and additional content, and what is to be found in copies of it.
@MainActor struct ProtectedDocumentFixture {
    let folder: TemporaryFolder
    let path: String
    let domain: ProtectionDomain
    nonisolated static let classes: [FileProtection] = [
        .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication,
    ]
    nonisolated static let canary = "CANARY-3b7f"
    private static let picture = Data((canary + "picture").utf8) + Data(count: 300_000)
    private static let attachment = Data((canary + "attachment").utf8) + Data(count: 150_000)

    /// - Parameter protection: The class; `none` for a document that is not protected.
    init(_ protection: FileProtection) async throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        domain = try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
        let document = ManagedDocument(path: path)
        document.fileProtection = protection
        document.protectionDomain = domain
        try await document.create(model: notesModel)
        try document.addNote(Self.canary + "title", picture: Self.picture)
        try document.additionalContent.write(Self.attachment, at: "folder/attachment")
        try await document.close()
    }

    /// Expects a document to have everything.
    func requireWhole(
        _ path: String, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let document = ManagedDocument(path: path)
        try await document.open(readOnly: true)
        let note = try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note")).first,
            sourceLocation: sourceLocation)
        #expect(
            note["title", as: String.self] == Self.canary + "title", sourceLocation: sourceLocation)
        #expect(note["picture", as: Data.self] == Self.picture, sourceLocation: sourceLocation)
        #expect(
            try document.additionalContent.data(at: "folder/attachment") == Self.attachment,
            sourceLocation: sourceLocation)
        try await document.close()
    }

    /// The names of the files in a folder that have something in clear.
    static func filesInClear(in folder: String) throws -> [String] {
        try contents(ofFolder: folder).filter { $1.range(of: Data(canary.utf8)) != nil }
            .keys.sorted()
    }

    func names() throws -> [String] { try FileSystem.names(in: folder.path).sorted() }
}
