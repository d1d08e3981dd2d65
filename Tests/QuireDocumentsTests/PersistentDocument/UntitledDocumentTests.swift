import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Documents of one file that have none yet.
@Suite @MainActor struct UntitledDocumentTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func url(_ name: String) -> URL { folder.url.appendingPathComponent(name) }

    @Test(arguments: PeopleFormat.allCases)
    func theFirstSaveMakesTheFile(_ format: PeopleFormat) async throws {
        let document = try PeopleDocument()
        #expect(document.fileURL == nil && document.localizedName == "Untitled")
        #expect(document.isOpen && !document.hasUnsavedChanges)
        try document.add("Ada", photo: Data(repeating: 7, count: 200_000))
        try document.add("Bob")
        try document.person("Bob").map(document.managedObjectContext.delete)
        try document.add("Cleo")
        #expect(document.hasUnsavedChanges)
        let file = url("People.\(format.rawValue)")
        try await document.save(as: file)
        #expect(document.fileURL == file && document.localizedName == "People")
        #expect(!document.hasUnsavedChanges)
        #expect(try document.person("Ada")?["photo", as: Data.self]?.count == 200_000)
        try document.add("Dora")
        try await document.close()
        let again = PeopleDocument(fileURL: file)
        try await again.open()
        #expect(try again.person("Bob") == nil)
        for name in ["Ada", "Cleo", "Dora"] { #expect(try again.person(name) != nil, "\(name)") }
        try await again.close()
    }

    @Test func withoutAFileNothingIsSavedAndNothingIsLost() async throws {
        let document = try PeopleDocument()
        (document.autosavePolicy.delay, document.autosavePolicy.quietTime) = (.zero, .zero)
        try document.add("Ada")
        let requests: [@MainActor () async throws -> Void] = [
            { try await document.save() }, { try await document.autosave() },
            { try await document.close() }, { try await document.revert() },
        ]
        for request in requests {
            #expect(await failure(request)?.code == .invalidState)
            #expect(document.isOpen && document.hasUnsavedChanges)
        }
        // What fails leaves it as it is.
        let taken = url("Taken.sqlite")
        try Data("mine".utf8).write(to: taken)
        #expect(await failure { try await document.save(as: taken) }?.code == .alreadyExists)
        #expect(try Data(contentsOf: taken) == Data("mine".utf8))
        #expect(document.fileURL == nil)
        #expect(try document.person("Ada") != nil)
        try await document.writeCopy(to: url("Copy.xml"))
        #expect(document.fileURL == nil && document.hasUnsavedChanges)
        let copy = PeopleDocument(fileURL: url("Copy.xml"))
        try await copy.open()
        #expect(try copy.person("Ada") != nil)
        try await copy.close()
        try await document.close(discardingChanges: true)
        #expect(!document.isOpen)
    }

    @Test func withoutAModelThereIsNoDocument() {
        #expect(failure { _ = try PersistentDocument() }?.code == .invalidModel)
    }

    @Test func theFirstSaveIsProtectedAsTheDocumentSays() async throws {
        try Data(repeating: 7, count: 32).write(to: url("key"))
        chmod(url("key").path, 0o600)
        let domain = try ProtectionDomain.setUp(
            at: url("me.keybag").path, keyFile: url("key").path)
        for name in ["People.sqlite", "People.xml", "People.binary"] {
            let document = try PeopleDocument()
            (document.fileProtection, document.protectionDomain) = (.complete, domain)
            try document.add("Ada")
            try await document.save(as: url(name))
            #expect(document.fileProtection == .complete)
            try await document.close()
            #expect(try StoreFile(at: url(name).path).fileProtection == .complete)
        }
    }
}
