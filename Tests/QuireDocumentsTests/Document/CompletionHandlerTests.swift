import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Requests with completion handlers: each is called once, later, on the main queue, and what was asked for first is done first.
@Suite @MainActor struct CompletionHandlerTests {
    private let folder: TemporaryFolder
    private var url: URL { folder.url.appendingPathComponent("Notes.quire") }
    private func url(_ name: String) -> URL { folder.url.appendingPathComponent(name) }

    init() throws { folder = try TemporaryFolder() }

    private func make() async throws -> ManagedDocument {
        let document = ManagedDocument(fileURL: url)
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        _ = try document.addNote("first")
        try await document.save()
        return document
    }

    /// Makes requests without waiting for one, and waits for all.
    private func answers(
        _ count: Int,
        _ requests: (@escaping @MainActor @Sendable (String, QuireError?) -> Void) -> Void
    ) async -> [String] {
        var log: [String] = []
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            requests { name, error in
                log.append("\(name) \(error?.code.rawValue ?? "done")")
                if log.count == count { continuation.resume() }
            }
            #expect(log.isEmpty)
        }
        return log
    }

    @Test func requestsOfADocumentAreDoneInOrder() async throws {
        let document = try await make()
        _ = try document.addNote("second")
        let (copy, archive) = (url("Copy.quire"), url("Notes.zip"))
        var made: ManagedDocument?
        let log = await answers(5) { answer in
            document.save { answer("save", $0) }
            document.move(to: url("Moved.quire")) { answer("move", $0) }
            document.duplicate(to: copy) { result in
                switch result {
                case .success(let document):
                    made = document
                    answer("duplicate", nil)
                case .failure(let error): answer("duplicate", error)
                }
            }
            document.export(to: archive, protection: .keep) { answer("export", $0) }
            document.revert(to: url("Nowhere.quire")) { answer("revert", $0) }
        }
        #expect(
            log.sorted() == [
                "duplicate done", "export done", "move done", "revert notFound", "save done",
            ])
        #expect(log.prefix(3) == ["save done", "move done", "duplicate done"])
        #expect(made?.path == copy.path)
        #expect(document.path == url("Moved.quire").path)
        #expect(try await ManagedDocument.titles(at: copy.path) == ["first", "second"])
        #expect(FileManager.default.fileExists(atPath: archive.path))
        _ = try document.addNote("third")
        // The close comes after what was asked for first.
        document.revert(to: copy) { error in #expect(error == nil) }
        try await document.close()
        #expect(try await ManagedDocument.titles(at: document.path) == ["first", "second"])
    }

    @Test func wrongArgumentsAreAnsweredToo() async throws {
        let document = try await make()
        let web = try #require(URL(string: "https://example.com/Notes.quire"))
        let log = await answers(5) { answer in
            document.move(to: web) { answer("move", $0) }
            document.revert(to: web) { answer("revert", $0) }
            document.export(to: web) { answer("export", $0) }
            document.save(to: web, for: .forCreating) { answer("save", $0) }
            document.duplicate(to: web) { result in
                if case .failure(let error) = result { answer("duplicate", error) }
            }
        }
        #expect(Set(log.map { $0.split(separator: " ").last }).count == 1)
        #expect(!log.contains { $0.hasSuffix("done") })
        try await document.close()
    }

    // MARK: - Documents of one file

    @Test(arguments: PeopleFormat.allCases)
    func requestsOfADocumentOfOneFileAreDoneInOrder(_ format: PeopleFormat) async throws {
        let document = PeopleDocument(fileURL: url("People.\(format.rawValue)"))
        document.autosavePolicy = .never
        try await document.create()
        try document.add("Ada")
        let second = url("Second.\(format.rawValue)")
        var log = await answers(4) { answer in
            document.autosave { answer("autosave", $0) }
            document.save(as: second) { answer("save as", $0) }
            document.save(as: second.deletingLastPathComponent()) { answer("save as", $0) }
            document.close { answer("close", $0) }
        }
        #expect(log.count == 4)
        #expect(log[0] == "autosave done" && log[1] == "save as done" && log[3] == "close done")
        #expect(log[2] != "save as done")
        #expect(document.fileURL == second)
        log = await answers(4) { answer in
            document.open { answer("open", $0) }
            document.save { answer("save", $0) }
            document.revert { answer("revert", $0) }
            document.open { answer("open", $0) }
        }
        #expect(log == ["open done", "save done", "revert done", "open invalidState"])
        try document.add("Bob")
        // The close comes after what was asked for first.
        document.revert { error in #expect(error == nil) }
        try await document.close()
        try await document.open()
        #expect(try document.person("Bob") == nil && document.person("Ada") != nil)
        try await document.close()
    }

    @Test(arguments: PeopleFormat.allCases)
    func aNewFileIsProtectedAsTheDocumentSays(_ format: PeopleFormat) async throws {
        try Data(repeating: 7, count: 32).write(to: url("key"))
        chmod(url("key").path, 0o600)
        let domain = try ProtectionDomain.setUp(
            at: url("me.keybag").path, keyFile: url("key").path)
        let file = url("People.\(format.rawValue)")
        let document = PeopleDocument(fileURL: file)
        document.autosavePolicy = .never
        (document.fileProtection, document.protectionDomain) = (.complete, domain)
        if document.persistentStoreType(forFileType: format.rawValue) == nil {
            let error = await failure { try await document.create() }
            #expect(error?.code == .protectionUnavailable)
            #expect(!FileManager.default.fileExists(atPath: file.path))
            return
        }
        try await document.create()
        try document.add("CANARY-6a20")
        try await document.close()
        #expect(try StoreFile(at: file.path).fileProtection == .complete)
        for name in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
            let bytes = FileManager.default.contents(atPath: folder.path(name))
            #expect(bytes?.range(of: Data("CANARY-6a20".utf8)) == nil, "\(name)")
        }
        let again = PeopleDocument(fileURL: file)
        try await again.open()
        #expect(again.fileProtection == .complete && again.protectionDomain != nil)
        #expect(try again.person("CANARY-6a20") != nil)
        try await again.close()
    }
}
