import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Protected documents whose class writes additional content to a folder by itself.
@Suite @MainActor struct FolderContentTests {
    private let folder: TemporaryFolder
    private let domain: ProtectionDomain
    nonisolated static let classes = ProtectedDocumentFixture.classes

    init() throws {
        folder = try TemporaryFolder()
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        domain = try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
    }

    private func make(_ protection: FileProtection) async throws -> Sketch {
        let sketch = Sketch(path: folder.path("Sketch.quire"))
        sketch.autosavePolicy = .never
        sketch.fileProtection = protection
        sketch.protectionDomain = domain
        try await sketch.create(model: notesModel)
        sketch.lines = Sketch.canary + "lines"
        try await sketch.save()
        return sketch
    }

    private func open(_ name: String = "Sketch.quire") async throws -> Sketch {
        let sketch = Sketch(path: folder.path(name))
        sketch.autosavePolicy = .never
        try await sketch.open()
        return sketch
    }

    @Test(arguments: classes)
    func itIsReadAndWrittenInMemoryAndSealedOnDisk(_ protection: FileProtection) async throws {
        let sketch = try await make(protection)
        #expect(sketch.additionalContent.paths == ["lines", "sub/picture"])
        sketch.lines = Sketch.canary + "more"
        try sketch.additionalContent.write(Data((Sketch.canary + "note").utf8), at: "note")
        try await sketch.save()
        try await sketch.writeCopy(to: URL(fileURLWithPath: folder.path("Copy.quire")))
        let version = try await sketch.keepVersion()
        let note = Data((Sketch.canary + "note").utf8)
        #expect(try sketch.additionalContent.data(at: "note") == note)
        sketch.lines = "else"
        try await sketch.save()
        try await sketch.restore(version.id)
        #expect(sketch.lines == Sketch.canary + "more")
        #expect(try sketch.additionalContent.data(at: "note") == note)
        sketch.lines = Sketch.canary + "as"
        try await sketch.save(as: URL(fileURLWithPath: folder.path("Other.quire")))
        try await sketch.close()
        #expect(try ProtectedDocumentFixture.filesInClear(in: folder.path).isEmpty)
        for (name, lines) in [("Sketch", "more"), ("Copy", "more"), ("Other", "as")] {
            let again = try await open(name + ".quire")
            #expect(again.lines == Sketch.canary + lines)
            #expect(try await again.check().isEmpty)
            #expect(again.folders.withLock { $0 }.allSatisfy { !FileSystem.exists($0) })
            try await again.close()
        }
        #expect(sketch.folders.withLock { $0 }.allSatisfy { !FileSystem.exists($0) })
    }

    @Test func aFileThatIsAsItWasIsNotSealedAgain() async throws {
        let sketch = try await make(.complete)
        func file() throws -> UInt64? {
            let layout = DocumentPackageLayout(path: sketch.path)
            let generation = try #require(try sketch.package.liveGeneration())
            return try FileSystem.information(
                at: FileSystem.path(
                    layout.additionalContent(generation: generation), "sub/picture"))?.inode
        }
        let before = try #require(try file())
        sketch.lines = "new"
        try await sketch.save()
        #expect(try file() == before)
        try await sketch.close()
    }

    @Test(arguments: classes)
    func oneThatIsProtectedLaterIsReadAndWrittenAsBefore(_ protection: FileProtection) async throws
    {
        let clear = try await make(.none)
        try await clear.close()
        try DocumentPackage.setFileProtection(
            protection, ofDocumentAt: clear.path, domain: domain)
        let sketch = try await open()
        #expect(sketch.lines == Sketch.canary + "lines")
        sketch.lines = Sketch.canary + "sealed"
        try await sketch.close()
        #expect(try ProtectedDocumentFixture.filesInClear(in: folder.path).isEmpty)
        try DocumentPackage.setFileProtection(.none, ofDocumentAt: clear.path)
        let again = try await open()
        #expect(again.lines == Sketch.canary + "sealed")
        try await again.close()
    }

    @Test func filesThatTheClassHasNotWrittenAreNotReplaced() async throws {
        let document = ManagedDocument(path: folder.path("Sketch.quire"))
        document.fileProtection = .complete
        document.protectionDomain = domain
        try await document.create(model: notesModel)
        try document.additionalContent.write(Data("mine".utf8), at: "lines")
        try await document.close()
        let sketch = try await open()
        #expect(sketch.lines.isEmpty)
        sketch.lines = "new"
        #expect(await failure { try await sketch.save() }?.code == .protectionUnavailable)
        #expect(try sketch.additionalContent.data(at: "lines") == Data("mine".utf8))
        try await sketch.close(discardingChanges: true)
        // In clear the class reads it, and it can be protected then.
        try DocumentPackage.setFileProtection(.none, ofDocumentAt: sketch.path)
        let clear = try await open()
        #expect(clear.lines == "mine")
        clear.lines = "ours"
        try await clear.close()
        try DocumentPackage.setFileProtection(
            .complete, ofDocumentAt: sketch.path, domain: domain)
        let again = try await open()
        #expect(again.lines == "ours")
        try await again.close()
    }

    @Test func aFailureLeavesTheSavedFilesAndNothingInMemory() async throws {
        let sketch = try await make(.complete)
        sketch.failure.withLock {
            $0 = QuireError(.outOfSpace, "There is no space left.")
        }
        sketch.lines = "new"
        #expect(await failure { try await sketch.save() }?.code == .outOfSpace)
        #expect(sketch.hasUnsavedChanges)
        sketch.failure.withLock { $0 = nil }
        await domain.lock(after: .zero)
        #expect(await failure { try await sketch.save() }?.code == .protectedDataUnavailable)
        try await domain.unlock(keyFile: folder.path("key"))
        #expect(sketch.folders.withLock { $0 }.allSatisfy { !FileSystem.exists($0) })
        try await sketch.save()
        try await sketch.close()
        let again = try await open()
        #expect(again.lines == "new")
        try await again.close()
    }

    @Test func oneThatAKilledProcessHasLeftIsRemoved() throws {
        let memory = try TemporarySibling.makeFolderInMemory()
        let place = FileSystem.folder(of: memory.path)
        memory.remove()
        let left = FileSystem.temporarySibling(
            of: FileSystem.path(place, "quire"), for: "building")
        try FileSystem.makeFolder(left)
        try FileSystem.writeNewFile(Data("secret".utf8), at: FileSystem.path(left, "lines"))
        try TemporarySibling.makeFolderInMemory().remove()
        #expect(!FileSystem.exists(left))
    }

    @Test func onlyTheUserMayLookIntoTheFolderInMemory() throws {
        let memory = try TemporarySibling.makeFolderInMemory()
        defer { memory.remove() }
        #expect(try FileSystem.information(at: memory.path)?.permissions == 0o700)
    }
}

/// A document that keeps two files beside its objects, one of which never changes.
private final class Sketch: ManagedDocument {
    nonisolated static let canary = ProtectedDocumentFixture.canary

    var lines = "" { didSet { if lines != oldValue { updateChangeCount(.done) } } }
    /// Fails a save.
    nonisolated let failure = Lock<QuireError?>(nil)
    /// The folders that it was given.
    nonisolated let folders = Lock<[String]>([])

    override func additionalContent(for absoluteURL: URL) throws -> (any Sendable)? { lines }

    override nonisolated func writeAdditionalContent(
        _ content: any Sendable, to url: URL, originalContentsURL: URL?
    ) throws {
        folders.withLock { $0 += [url.path] + (originalContentsURL.map { [$0.path] } ?? []) }
        let lines = try #require(content as? String)
        try Data(lines.utf8).write(to: url.appendingPathComponent("lines"))
        if let failure = failure.withLock({ $0 }) { throw failure }
        let sub = url.appendingPathComponent("sub")
        try FileManager.default.createDirectory(at: sub, withIntermediateDirectories: false)
        let picture = sub.appendingPathComponent("picture")
        if let old = originalContentsURL?.appendingPathComponent("sub/picture"),
            FileManager.default.fileExists(atPath: old.path)
        {
            try FileManager.default.linkItem(at: old, to: picture)
        } else {
            try Data((Self.canary + "picture").utf8).write(to: picture)
        }
    }

    override nonisolated func readAdditionalContent(from url: URL) throws -> (any Sendable)? {
        folders.withLock { $0.append(url.path) }
        return try String(
            contentsOf: url.appendingPathComponent("lines"), encoding: .utf8)
    }

    override func load(fromContents contents: (any Sendable)?) throws {
        lines = contents as? String ?? ""
        updateChangeCount(.cleared)
    }
}
