import Foundation
import Quire
import QuireDocuments
import QuireProtection
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

/// Additional content of documents that are synchronized.
@MainActor @Suite(.inClear) struct SyncFilesTests {
    private let folder: TemporaryFolder
    private static let model = ManagedObjectModel {
        Entity("Note") { Attribute("title", .string) }
    }
    private static let large = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })

    init() throws { folder = try TemporaryFolder() }

    /// A machine: an open document, and its rounds.
    @MainActor private final class Site {
        let document: Book
        var sync: SyncContainer!

        init(_ document: Book) { self.document = document }

        @discardableResult
        func synchronize() async throws -> SyncResult { try await sync.synchronize() }

        func write(_ text: String, at path: String) async throws {
            try document.additionalContent.write(Data(text.utf8), at: path)
            try await document.save()
        }

        /// All files as text.
        func files() throws -> [String: String] {
            var files: [String: String] = [:]
            for path in document.additionalContent.paths {
                files[path] = String(
                    decoding: try document.additionalContent.data(at: path) ?? Data(),
                    as: UTF8.self)
            }
            return files
        }
    }

    private final class Book: ManagedDocument {
        var changeCount = 0
        override func additionalContentDidChange() { changeCount += 1 }
    }

    private func makeSite(
        _ name: String, password: String? = nil, excluding patterns: [String] = [],
        _ prepare: (Book) throws -> Void = { _ in }
    ) async throws -> Site {
        let document = Book(path: folder.path(name + ".quire"))
        document.autosavePolicy = .never
        try prepare(document)
        try await document.create(model: Self.model)
        let site = Site(document)
        site.sync = try SyncContainer(
            coordinator: document.persistentStoreCoordinator,
            store: SyncContainer.store(of: document.persistentStoreCoordinator),
            transport: FolderTransport(folder: folder.path("shared"), creates: true),
            passwordCost: .least)
        if try await SyncContainer.description(in: site.sync.carrier) == nil {
            try await site.sync.create(named: "Book", password: password)
        } else {
            try await site.sync.join(password: password)
        }
        if !patterns.isEmpty { try await site.sync.setExcludedFiles(patterns) }
        return site
    }

    private func close(_ sites: Site...) async throws {
        for site in sites { try await site.document.close(discardingChanges: true) }
    }

    @Test func filesTravelWithTheObjects() async throws {
        let (a, b) = (try await makeSite("a"), try await makeSite("b"))
        try await a.write("one", at: "notes/1.txt")
        try a.document.additionalContent.write(Self.large, at: "large")
        try a.document.managedObjectContext.insertObject(entityName: "Note")["title"] = "Emma"
        try await a.document.save()
        try await a.synchronize()
        let result = try await b.synchronize()
        #expect(result.changesFiles && result.missingFileCount == 0)
        #expect(b.document.changeCount == 1 && !b.document.hasUnsavedChanges)
        #expect(b.document.additionalContent.paths == ["large", "notes/1.txt"])
        #expect(try b.document.additionalContent.data(at: "large") == Self.large)
        // What is saved afterwards keeps them, and travels back.
        try await b.write("two", at: "notes/2.txt")
        try b.document.additionalContent.remove(at: "large")
        try await b.document.save()
        try await b.synchronize()
        try await a.synchronize()
        #expect(try a.files() == ["notes/1.txt": "one", "notes/2.txt": "two"])
        #expect(try a.files() == b.files())
        for site in [a, b] {
            let status = try await site.sync.status()
            #expect(status?.hasNewChanges == false && status?.missingFileCount == 0)
            #expect(try await site.document.check().isEmpty)
            #expect(try await site.synchronize().isQuiet)
        }
        try await close(a, b)
        // On disk too.
        let package = try DocumentPackage.open(at: folder.path("b.quire"), readOnly: true)
        #expect(try package.additionalContent(at: "notes/1.txt") == Data("one".utf8))
        try package.close()
    }

    @Test func aFileThatTwoChangeIsAConflict() async throws {
        let (a, b) = (try await makeSite("a"), try await makeSite("b"))
        try await a.write("first", at: "page")
        try await a.synchronize()
        try await b.synchronize()
        try await a.write("of a", at: "page")
        try await b.write("of b", at: "page")
        try await a.synchronize()
        #expect(try await b.synchronize().conflictCount == 1)
        try await a.synchronize()
        #expect(try a.files() == ["page": "of b"] && b.files() == ["page": "of b"])
        let conflict = try #require(try await b.sync.conflicts().first)
        #expect(conflict.entityName == SyncConflict.additionalContent)
        #expect(conflict.propertyName == "page" && conflict.kind == .value)
        #expect(conflict.lost == .binary(Data("of a".utf8)))
        try await b.sync.choose(conflict)
        try await b.synchronize()
        try await a.synchronize()
        #expect(try a.files() == ["page": "of a"] && b.files() == ["page": "of a"])
        for site in [a, b] { #expect(try await site.sync.conflicts().isEmpty) }
        try await close(a, b)
    }

    @Test func aRemovedFileThatAnotherChangesIsListedAndComesBack() async throws {
        let (a, b) = (try await makeSite("a"), try await makeSite("b"))
        try await a.write("first", at: "page")
        try await a.synchronize()
        try await b.synchronize()
        try a.document.additionalContent.remove(at: "page")
        try await a.document.save()
        try await b.write("changed", at: "page")
        try await a.synchronize()
        try await b.synchronize()
        try await a.synchronize()
        #expect(try a.files().isEmpty && b.files().isEmpty)
        let conflict = try #require(try await b.sync.conflicts().first)
        #expect(conflict.kind == .deletion && conflict.lost == .binary(Data("changed".utf8)))
        try await b.sync.choose(conflict)
        try await b.synchronize()
        try await a.synchronize()
        #expect(try a.files() == ["page": "changed"] && b.files() == ["page": "changed"])
        try await close(a, b)
    }

    @Test func anUnsavedChangeOfAFileStaysAndIsAConflictWhenItIsSaved() async throws {
        let (a, b) = (try await makeSite("a"), try await makeSite("b"))
        try await a.write("first", at: "page")
        try await a.synchronize()
        try await b.synchronize()
        try b.document.additionalContent.write(Data("unsaved".utf8), at: "page")
        try await a.write("of a", at: "page")
        try await a.write("else", at: "other")
        try await a.synchronize()
        try await b.synchronize()
        #expect(try b.files() == ["page": "unsaved", "other": "else"])
        #expect(b.document.hasUnsavedChanges)
        try await b.document.save()
        #expect(try await b.synchronize().conflictCount == 1)
        try await a.synchronize()
        #expect(try a.files() == ["page": "unsaved", "other": "else"])
        #expect(try await b.sync.conflicts().first?.lost == .binary(Data("of a".utf8)))
        // Reverted instead, it gets what others have.
        try b.document.additionalContent.write(Data("dropped".utf8), at: "page")
        try await a.write("again", at: "page")
        try await a.synchronize()
        try await b.synchronize()
        try await b.document.revert()
        try await b.synchronize()
        #expect(try b.files()["page"] == "again")
        try await close(a, b)
    }

    /// File systems give the number of a removed file to the next one, within the same second.
    @Test func aFileThatIsRewrittenWithTheSameSizeIsSent() async throws {
        let (a, b) = (try await makeSite("a"), try await makeSite("b"))
        for round in 10..<25 {
            for text in ["a", "b", "c"] { try await a.write("\(round)\(text)", at: "page") }
            try await a.synchronize()
            try await b.synchronize()
            #expect(try b.files() == ["page": "\(round)c"])
        }
        try await close(a, b)
    }

    @Test func excludedFilesAreNeitherSentNorWrittenNorRemoved() async throws {
        let a = try await makeSite("a", excluding: ["cache", "*.tmp", "previews/*.png"])
        let b = try await makeSite("b")
        for path in ["cache/1", "x.tmp", "sub/y.tmp", "previews/1.png", "previews/1.jpg", "page"] {
            try a.document.additionalContent.write(Data("a".utf8), at: path)
        }
        try await a.document.save()
        try await b.write("b", at: "z.tmp")
        for site in [a, b, a] { try await site.synchronize() }
        #expect(b.document.additionalContent.paths == ["page", "previews/1.jpg", "z.tmp"])
        #expect(
            a.document.additionalContent.paths == [
                "cache/1", "page", "previews/1.jpg", "previews/1.png", "sub/y.tmp", "x.tmp",
            ])
        // Taken in again.
        try await a.sync.setExcludedFiles(["cache"])
        for site in [a, b, a] { try await site.synchronize() }
        #expect(
            b.document.additionalContent.paths == [
                "page", "previews/1.jpg", "previews/1.png", "sub/y.tmp", "x.tmp", "z.tmp",
            ])
        #expect(a.document.additionalContent.paths.contains("z.tmp"))
        // Left out, they stay where they are.
        try await a.sync.setExcludedFiles(["cache", "page"])
        for site in [a, b, a] { try await site.synchronize() }
        #expect(b.document.additionalContent.contains("page"))
        #expect(a.document.additionalContent.contains("page"))
        try await close(a, b)
    }

    @Test func filesOfProtectedDocumentsAreNowhereInClear() async throws {
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        let domain = try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
        let canary = "CANARY-51c2"
        func protect(_ document: Book) {
            (document.fileProtection, document.protectionDomain) = (.complete, domain)
        }
        let a = try await makeSite("a", password: "secret", protect)
        let b = try await makeSite("b", password: "secret", protect)
        try await a.write(canary, at: "page")
        try a.document.additionalContent.write(Data(canary.utf8) + Self.large, at: "large")
        try await a.document.save()
        try await a.synchronize()
        try await b.synchronize()
        #expect(try b.files()["page"] == canary)
        #expect(try b.document.additionalContent.data(at: "large")?.count == 300_011)
        try await close(a, b)
        for (name, information) in try FileSystem.contentsOfTree(folder.path)
        where information.kind == .regular {
            let bytes = try FileSystem.contents(of: folder.path(name))
            #expect(bytes.range(of: Data(canary.utf8)) == nil, "\(name)")
        }
    }

    @Test func pathsOfOthersCannotLeadOutOfTheDocument() async throws {
        let (a, b) = (try await makeSite("a"), try await makeSite("b"))
        try await a.write("good", at: "good")
        try await a.synchronize()
        try await b.synchronize()
        let replica = await a.sync.replica
        let settings = try #require(try replica.settings())
        let paths = ["../evil", "/tmp/evil", "a/../../evil", "", ".", "a\0b", "good/below", "GOOD"]
        try replica.transact { tables in
            var records: [SyncRecord] = []
            let version = tables.nextVersion(at: Date())
            for path in paths {
                let id = SyncIdentifier(
                    ofObjectNamed: Array(path.utf8), entity: SyncFiles.entity,
                    in: settings.container)
                var record = SyncRecord(id: id, entity: SyncFiles.entity)
                record.set(.existence, .integer(1), version)
                record.set(.property("path"), .string(path), version)
                record.set(.property("content"), .binary(Data("evil".utf8)), version)
                records.append(record)
            }
            // A path under another one's identifier.
            var liar = SyncRecord(
                id: SyncIdentifier(
                    ofObjectNamed: Array("mine".utf8), entity: SyncFiles.entity,
                    in: settings.container), entity: SyncFiles.entity)
            liar.set(.existence, .integer(1), version)
            liar.set(.property("path"), .string("yours"), version)
            liar.set(.property("content"), .binary(Data("evil".utf8)), version)
            records.append(liar)
            try tables.addToOutbox(records)
        }
        try await a.synchronize()
        let before = try FileSystem.names(in: folder.path)
        let result = try await b.synchronize()
        #expect(try b.files() == ["good": "good"])
        #expect(Set(result.problems.map(\.fileName)) == Set(paths))
        #expect(try FileSystem.names(in: folder.path) == before)
        // Nothing keeps others from being written.
        try await a.write("more", at: "more")
        try await a.synchronize()
        try await b.synchronize()
        #expect(try b.files() == ["good": "good", "more": "more"])
        try await close(a, b)
    }

    @Test func aFileWhoseBytesAreMissingIsWrittenWhenTheyArrive() async throws {
        let (a, b) = (try await makeSite("a"), try await makeSite("b"))
        try a.document.additionalContent.write(Self.large, at: "large")
        try await a.document.save()
        try await a.synchronize()
        let blobs = folder.path("shared/blob")
        let away = folder.path("away")
        try FileManager.default.moveItem(atPath: blobs, toPath: away)
        let result = try await b.synchronize()
        #expect(result.missingFileCount == 1 && b.document.additionalContent.paths.isEmpty)
        #expect(try await b.sync.status()?.missingFileCount == 1)
        try await b.write("mine", at: "mine")
        try? FileManager.default.removeItem(atPath: blobs)
        try FileManager.default.moveItem(atPath: away, toPath: blobs)
        #expect(try await b.synchronize().missingFileCount == 0)
        #expect(try b.document.additionalContent.data(at: "large") == Self.large)
        #expect(b.document.additionalContent.contains("mine"))
        try await close(a, b)
    }

    @Test func aClassThatWritesTheFilesItselfIsGivenThem() async throws {
        let (a, b) = (Sketch(path: folder.path("a.quire")), Sketch(path: folder.path("b.quire")))
        var syncs: [SyncContainer] = []
        for sketch in [a, b] {
            sketch.autosavePolicy = .never
            try await sketch.create(model: Self.model)
            let sync = try SyncContainer(
                coordinator: sketch.persistentStoreCoordinator,
                transport: FolderTransport(folder: folder.path("shared"), creates: true))
            if syncs.isEmpty {
                try await sync.create(named: "Sketch")
            } else {
                try await sync.join()
            }
            syncs.append(sync)
        }
        a.lines = "of a"
        try await a.save()
        try await syncs[0].synchronize()
        try await syncs[1].synchronize()
        #expect(b.additionalContent.paths == ["lines"] && b.lines == "of a")
        b.lines = "of b"
        try await b.save()
        try await syncs[1].synchronize()
        try await syncs[0].synchronize()
        #expect(a.lines == "of b")
        // Unsaved changes are not overwritten.
        a.lines = "unsaved"
        b.lines = "newer"
        try await b.save()
        try await syncs[1].synchronize()
        try await syncs[0].synchronize()
        #expect(a.lines == "unsaved")
        try await a.save()
        #expect(try await syncs[0].synchronize().conflictCount == 1)
        try await syncs[1].synchronize()
        #expect(b.lines == "unsaved")
        for sketch in [a, b] { try await sketch.close() }
    }

    /// Machines that change files at random have the same ones in the end.
    @Test(arguments: SeededRandom.seeds(18))
    func machinesThatChangeFilesEndWithTheSame(_ seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        var sites: [Site] = []
        for name in ["a", "b", "c"] { sites.append(try await makeSite(name)) }
        let paths = ["p", "q", "d/r", "d/s", "t"]
        for step in 0..<40 {
            let site = sites[Int.random(in: 0..<3, using: &random)]
            let path = paths[Int.random(in: 0..<paths.count, using: &random)]
            switch Int.random(in: 0..<6, using: &random) {
            case 0...2:
                try await site.write("\(step)", at: path)
            case 3 where site.document.additionalContent.contains(path):
                try site.document.additionalContent.remove(at: path)
                try await site.document.save()
            default: try await site.synchronize()
            }
        }
        for _ in 0..<2 { for site in sites { try await site.synchronize() } }
        let files = try sites[0].files()
        for site in sites {
            #expect(try site.files() == files, "seed \(seed)")
            #expect(try await site.synchronize().isQuiet, "seed \(seed)")
            #expect(try await site.document.check().isEmpty)
            try await site.document.close()
        }
    }
}

extension SyncResult {
    fileprivate var isQuiet: Bool {
        sentCount == 0 && receivedCount == 0 && !changesFiles && conflictCount == 0
            && missingFileCount == 0 && problems.isEmpty
    }
}

/// A document that writes its additional content to a folder by itself.
private final class Sketch: ManagedDocument {
    var lines = "" { didSet { if lines != oldValue { updateChangeCount(.done) } } }

    override func additionalContent(for absoluteURL: URL) throws -> (any Sendable)? { lines }

    override nonisolated func writeAdditionalContent(
        _ content: any Sendable, to url: URL, originalContentsURL: URL?
    ) throws {
        try Data(try #require(content as? String).utf8).write(
            to: url.appendingPathComponent("lines"))
    }

    override nonisolated func readAdditionalContent(from url: URL) throws -> (any Sendable)? {
        try String(contentsOf: url.appendingPathComponent("lines"), encoding: .utf8)
    }

    override func load(fromContents contents: (any Sendable)?) throws {
        lines = contents as? String ?? ""
        updateChangeCount(.cleared)
    }
}
