import Foundation
import Observation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

@Suite(.inClear) @MainActor struct LibraryWatchTests {
    private let folder: TemporaryFolder
    private let library: DocumentLibrary

    init() throws {
        folder = try TemporaryFolder()
        library = DocumentLibrary(folder: folder.path, isRecursive: true)
    }

    /// What a library tells.
    private func follow(
        _ library: DocumentLibrary? = nil, events: FileEvents = .shared
    ) -> EventRecorder<DocumentLibrary.Change> {
        let recorder = EventRecorder<DocumentLibrary.Change>()
        let changes = (library ?? self.library).changes(events: events, latency: .milliseconds(5))
        Task { for await change in changes { recorder.record(change) } }
        return recorder
    }

    private func makePackage(_ name: String) throws -> String {
        let path = folder.path(name)
        let building = folder.path("." + FileSystem.name(of: name) + ".quire-new-1")
        try FileSystem.makeFolder(building + "/StoreContent", withIntermediates: true)
        try FileSystem.writeNewFile(
            Data("store".utf8), at: building + "/StoreContent/persistentStore")
        try FileSystem.rename(building, to: path)
        return path
    }

    @Test func whatComesAndGoesIsTold() async throws {
        let first = try makePackage("First.quire")
        let recorder = follow()
        guard case .all(let entries)? = await recorder.next() else {
            return #expect(Bool(false), "The documents are the first element.")
        }
        #expect(entries.map(\.path) == [first])
        let second = try makePackage("Second.quire")
        #expect(await recorder.next()?.summary == "added \(second)")
        let third = folder.path("Third.quire")
        try FileSystem.rename(second, to: third)
        #expect(await recorder.next()?.summary == "moved \(second) \(third)")
        let store = try OpenFile.open(third + "/StoreContent/persistentStore", for: .updating)
        try store.write(Data("longer than it was".utf8))
        #expect(await recorder.next()?.summary == "changed \(third)")
        try FileSystem.rename(first, to: folder.path(".gone"))
        #expect(await recorder.next()?.summary == "removed \(first)")
    }

    @Test func foldersBelowAreFollowed() async throws {
        let recorder = follow()
        #expect(await recorder.next()?.summary == "all 0")
        try FileSystem.makeFolder(folder.path("a/b"), withIntermediates: true)
        let path = try makePackage("a/b/Deep.quire")
        #expect(await recorder.next()?.summary == "added \(path)")
        try FileSystem.rename(folder.path("a"), to: folder.path("c"))
        #expect(
            await recorder.next()?.summary
                == "moved \(path) \(folder.path("c/b/Deep.quire"))")
    }

    /// A folder is moved while the folders are being listed, which any name that comes or goes leads to: what is in it is then
    /// found in neither place.
    @Test func moveDuringAListingIsNoRemoval() async throws {
        for number in 0..<30 {
            try FileSystem.makeFolder(folder.path("f\(number)/a"), withIntermediates: true)
        }
        let names = ["e", "g"].map { folder.path($0) }
        try FileSystem.makeFolder(names[0])
        _ = try makePackage("e/Deep.quire")
        let recorder = follow()
        #expect(await recorder.next()?.summary == "all 1")
        let file = folder.path("z")
        let noise = Task.detached {
            while !Task.isCancelled {
                try FileSystem.writeNewFile(Data(), at: file)
                try FileSystem.removeFile(file)
                try await Task.sleep(for: .microseconds(200))
            }
        }
        for round in 0..<100 {
            let (from, to) = (names[round % 2], names[1 - round % 2])
            try FileSystem.rename(from, to: to)
            let change = await recorder.next()?.summary
            #expect(change == "moved \(from)/Deep.quire \(to)/Deep.quire", "round \(round)")
            if change?.hasPrefix("moved") != true { break }
        }
        noise.cancel()
        try? await noise.value
    }

    @Test func folderThatTakesTheNameOfAMovedOneIsFollowed() async throws {
        try FileSystem.makeFolder(folder.path("a/b"), withIntermediates: true)
        let path = try makePackage("a/b/Deep.quire")
        let recorder = follow()
        #expect(await recorder.next()?.summary == "all 1")
        try FileSystem.rename(folder.path("a"), to: folder.path("c"))
        try FileSystem.makeFolder(folder.path("a/b"), withIntermediates: true)
        let moved = folder.path("c/b/Deep.quire")
        #expect(await recorder.next()?.summary == "moved \(path) \(moved)")
        // Everything that is pending has been looked at once this is reported.
        let other = try makePackage("c/b/Other.quire")
        #expect(await recorder.next()?.summary == "added \(other)")
        let new = try makePackage("a/b/New.quire")
        #expect(await recorder.next()?.summary == "added \(new)")
    }

    @Test func openingAndSavingIsTold() async throws {
        let path = folder.path("Notes.quire")
        try await ManagedDocument.make(at: path)
        let recorder = follow()
        _ = await recorder.next()
        let document = ManagedDocument(path: path)
        try await document.open()
        let opened = await recorder.next { $0.entry?.owner != nil }
        #expect(opened != nil)
        try document.addNote("second")
        try await document.close()
        let closed = await recorder.next {
            $0.entry?.owner == nil && $0.entry?.metadata.objectCounts == ["Note": 2]
        }
        #expect(closed != nil)
    }

    @Test func lostEventsMeanLookingAtEverything() async throws {
        let events = FileEvents()
        let recorder = follow(events: events)
        #expect(await recorder.next()?.summary == "all 0")
        let path = try makePackage("New.quire")
        events.simulateOverflow()
        #expect(await recorder.next()?.summary == "added \(path)")
    }

    @Test func withoutTheKernelItIsLookedAtRegularly() async throws {
        let events = FileEvents(tickInterval: .milliseconds(20), watchLimit: 0)
        let recorder = follow(events: events)
        #expect(await recorder.next()?.summary == "all 0")
        let path = try makePackage("New.quire")
        #expect(await recorder.next()?.summary == "added \(path)")
        try FileSystem.removeTree(path)
        #expect(await recorder.next { $0.summary.hasPrefix("removed") } != nil)
    }

    @Test func aFolderThatComesLaterIsFollowed() async throws {
        let events = FileEvents(tickInterval: .milliseconds(20))
        let recorder = follow(
            DocumentLibrary(folder: folder.path("later")), events: events)
        #expect(await recorder.next()?.summary == "all 0")
        try FileSystem.makeFolder(folder.path("later"))
        let path = try makePackage("later/New.quire")
        #expect(await recorder.next()?.summary == "added \(path)")
    }

    @Test func manyDocumentsAreFollowedAndLetGo() async throws {
        let events = FileEvents()
        for number in 0..<300 { _ = try makePackage("\(number).quire") }
        let recorder = EventRecorder<DocumentLibrary.Change>()
        let changes = library.changes(events: events, latency: .milliseconds(5))
        let task = Task { for await change in changes { recorder.record(change) } }
        #expect(await recorder.next()?.summary == "all 300")
        #expect(events.watchCount == 601)
        try FileSystem.removeTree(folder.path("150.quire"))
        #expect(
            await recorder.next { $0.summary.hasPrefix("removed") }?.summary
                == "removed \(folder.path("150.quire"))")
        task.cancel()
        await task.value
        while events.watchCount > 0 { await Task.yield() }
    }

    @Test func aListStaysInOrder() async throws {
        let one = try makePackage("b.quire")
        let list = DocumentList(
            library, sortedBy: .title,
            changes: library.changes(events: .shared, latency: .milliseconds(5)))
        while !list.isLoaded { await Task.yield() }
        #expect(list.documents.map(\.path) == [one])
        let watch = Watch { _ = list.documents }
        let two = try makePackage("A.quire")
        while list.documents.count < 2 { await Task.yield() }
        #expect(watch.sawChange)
        #expect(list.documents.map(\.path) == [two, one])
        try FileSystem.rename(two, to: folder.path("c.quire"))
        while list.documents.first?.path != one { await Task.yield() }
        #expect(list.documents.map(\.name) == ["b", "c"])
        let store = try OpenFile.open(one + "/StoreContent/persistentStore", for: .updating)
        try store.write(Data(repeating: 1, count: 10_000))
        list.order = .size
        while list.documents.first?.size ?? 0 < 10_000 { await Task.yield() }
        #expect(list.documents.map(\.name) == ["b", "c"])
        try FileSystem.removeTree(folder.path("c.quire"))
        while list.documents.count > 1 { await Task.yield() }
        #expect(list.documents.map(\.path) == [one])
    }
}

extension DocumentLibrary.Change {
    /// What happened to which paths.
    fileprivate var summary: String {
        switch self {
        case .all(let entries): "all \(entries.count)"
        case .added(let entry): "added \(entry.path)"
        case .changed(let entry): "changed \(entry.path)"
        case .moved(let path, let entry): "moved \(path) \(entry.path)"
        case .removed(let path): "removed \(path)"
        }
    }

    fileprivate var entry: DocumentLibrary.Entry? {
        switch self {
        case .added(let entry), .changed(let entry), .moved(_, let entry): entry
        case .all, .removed: nil
        }
    }
}
