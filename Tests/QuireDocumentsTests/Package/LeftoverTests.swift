import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments
@testable import QuireModel

/// What processes that were killed have left goes without an hour's waiting.
@Suite struct LeftoverTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// A folder as a process that was killed leaves it.
    private func abandon(_ name: String) throws -> String {
        let sibling = try TemporarySibling.makeFolder(beside: folder.path(name))
        try FileSystem.makeFolder(sibling.path + "/StoreContent")
        try FileSystem.writeNewFile(Data([1]), at: sibling.path + "/StoreContent/file")
        try FileSystem.rename(sibling.path, to: sibling.path + "-kept")
        try FileSystem.makeFolder(sibling.path)
        sibling.remove()
        try FileSystem.rename(sibling.path + "-kept", to: sibling.path)
        return sibling.path
    }

    @Test func theNextToBuildInTheFolderRemovesThem() throws {
        let path = try abandon("Other.quire")
        let live = try TemporarySibling.makeFolder(beside: folder.path("Live.quire"))
        #expect(!FileSystem.exists(path))
        let sibling = try TemporarySibling.makeFile(beside: folder.path("a.zip"))
        #expect(FileSystem.exists(live.path))
        #expect(FileSystem.exists(sibling.path))
        live.remove()
        sibling.remove()
        #expect(try FileSystem.names(in: folder.path) == [])
    }

    /// Whatever made it, and at once: there is no age to reach.
    @Test(arguments: ["building", "new", "removed", "aside"], [true, false])
    func whatHasATemporaryNameAndNoMakerGoes(purpose: String, isFolder: Bool) throws {
        let path = folder.path("Doc")
        try FileSystem.writeNewFile(Data(), at: path)
        func make() throws -> String {
            let temporary = FileSystem.temporarySibling(of: path, for: purpose)
            if isFolder {
                try FileSystem.makeFolder(temporary)
                try FileSystem.writeNewFile(Data(), at: temporary + "/file")
            } else {
                try OpenFile.open(temporary, for: .creating).close()
            }
            return temporary
        }
        let (left, claimed) = (try make(), try make())
        let maker = try OpenFile.open(claimed, for: .examining)
        #expect(try maker.claim())
        TemporarySibling.removeAbandoned(in: folder.path)
        #expect(!FileSystem.exists(left))
        #expect(FileSystem.exists(claimed) && FileSystem.exists(path))
        maker.close()
        TemporarySibling.removeAbandoned(in: folder.path)
        #expect(try FileSystem.names(in: folder.path) == ["Doc"])
    }

    /// It is the only one there is.
    @Test func whatAnInterruptedExchangeLeftStaysWhileItsPlaceIsEmpty() throws {
        let aside = FileSystem.temporarySibling(of: folder.path("Doc"), for: "aside")
        try FileSystem.makeFolder(aside)
        TemporarySibling.removeAbandoned(in: folder.path)
        #expect(FileSystem.exists(aside))
    }

    /// Files that are soon done are claimed as well, until they have their names.
    @Test func whatIsBeingWrittenStays() throws {
        let (file, path) = try OpenFile.createTemporary(beside: folder.path("a"))
        let spool = try ExternalDataSpool(
            in: .init(folder.path, beneath: folder.path, classKey: nil))
        TemporarySibling.removeAbandoned(in: folder.path)
        #expect(FileSystem.exists(path))
        try Data([1]).withUnsafeBytes { try spool.append($0) }
        _ = try spool.finish()
        file.close()
        TemporarySibling.removeAbandoned(in: folder.path)
        #expect(!FileSystem.exists(path))
    }

    @Test func openingAnXMLStoreForWritingRemovesThem() throws {
        let path = folder.path("Doc.xml")
        try XMLStore.create(at: path, model: FixtureModels.library).close()
        let left = FileSystem.temporarySibling(of: path, for: "new")
        try OpenFile.open(left, for: .creating).close()
        var readOnly = AtomicStoreOptions()
        readOnly.isReadOnly = true
        try XMLStore.open(at: path, options: readOnly).close()
        #expect(FileSystem.exists(left))
        try XMLStore.open(at: path).close()
        #expect(!FileSystem.exists(left))
    }

    @Test func whatIsBeingBuiltIsPrivate() throws {
        let sibling = try TemporarySibling.makeFolder(beside: folder.path("Doc.quire"))
        let information = try #require(try FileSystem.information(at: sibling.path))
        #expect(information.permissions & 0o777 == 0o700)
        sibling.remove()
    }

    @Test func aMissingFolderIsNotFound() throws {
        let error = failure {
            _ = try TemporarySibling.makeFolder(beside: folder.path("none/Doc.quire"))
        }
        #expect(error?.code == .notFound)
    }

    /// In a process of its own, which a signal ends.
    @Test func signalRemovesFolderThatIsBeingFilled() async throws {
        let result = await #expect(
            processExitsWith: .signal(SIGTERM), observing: [\.standardOutputContent]
        ) {
            let path = try TemporaryFolder().path
            try FileSystem.makeFolder(path)
            try FileHandle.standardOutput.write(contentsOf: Data(path.utf8))
            for name in ["filled", "filling"] {
                let folder = FileSystem.path(path, name)
                try TerminationCleanup.making(folder: folder, beneath: path) {
                    try FileSystem.writeNewFile(Data(), at: FileSystem.path(folder, "file"))
                    if name == "filling" { TerminationCleanup.end(by: SIGTERM) }
                }
            }
        }
        let path = String(
            decoding: try #require(result).standardOutputContent, as: UTF8.self)
        #expect(try FileSystem.names(in: path) == ["filled"])
        try FileSystem.removeTree(path)
    }

    @Test func othersFilesStay() throws {
        let names = [".Doc.quire.quire-new-1234", ".quire-building", "a.quire-building-1234"]
        for name in names { try FileSystem.writeNewFile(Data(), at: folder.path(name)) }
        try FileSystem.makeSymbolicLink(
            folder.path(".Doc.quire.quire-building-1234"), to: folder.path(names[0]))
        TemporarySibling.removeAbandoned(in: folder.path)
        #expect(try FileSystem.names(in: folder.path).count == 4)
    }

    @MainActor @Test func openingADocumentForWritingRemovesThem() async throws {
        try await ManagedDocument.make(at: folder.path("Doc.quire"))
        let path = try abandon("Export.zip")
        try DocumentPackage.open(at: folder.path("Doc.quire"), readOnly: true).close()
        #expect(FileSystem.exists(path))
        try DocumentPackage.open(at: folder.path("Doc.quire")).close()
        #expect(!FileSystem.exists(path))
    }

    @Test func socketsOfProcessesThatAreGoneAreRemoved() throws {
        let queue = DispatchQueue(label: "test")
        let live = try LocalListener(path: folder.path("live"), queue: queue) { _ in }
        // As a process that was killed leaves it: the socket is closed, its name is there.
        let dead = try LocalListener(path: folder.path("closed"), queue: queue) { _ in }
        try FileSystem.rename(folder.path("closed"), to: folder.path("dead"))
        dead.close()
        // The socket itself is closed by its queue.
        while !LocalSocket.isRefused(at: folder.path("dead")) { sched_yield() }
        try FileSystem.writeNewFile(Data(), at: folder.path("file"))
        #expect(try FileSystem.names(in: folder.path) == ["dead", "file", "live"])
        LocalListener.removeAbandoned(in: folder.path)
        #expect(try FileSystem.names(in: folder.path) == ["file", "live"])
        live.close()
    }
}
