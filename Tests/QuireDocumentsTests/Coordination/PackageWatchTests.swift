import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

/// A watch with what it told.
private struct Watched {
    let folder: TemporaryFolder
    let path: String
    let recorder = EventRecorder<PackageEvent>()
    let watch: PackageWatch

    /// Makes a folder that looks like a package, and watches it.
    init(
        at name: String = "Doc.quire", polling: Bool = false, events: FileEvents = .shared
    ) throws {
        folder = try TemporaryFolder()
        path = folder.path(name)
        try Watched.makePackage(path)
        watch = try PackageWatch(
            path: path, latency: .milliseconds(5), events: events, alwaysPolls: polling,
            queue: .global(), handler: recorder.record)
    }

    static func makePackage(_ path: String) throws {
        try FileSystem.makeFolder(path + "/StoreContent", withIntermediates: true)
        try FileSystem.writeNewFile(Data("store".utf8), at: path + "/StoreContent/persistentStore")
    }

    func append(_ text: String = "more", to name: String) throws {
        let file = try OpenFile.open(path + "/" + name, for: .updatingOrCreating)
        try file.write(Data(text.utf8))
    }
}

@Suite struct PackageWatchTests {
    @Test func renamingIsTold() async throws {
        let watched = try Watched()
        let new = watched.folder.path("New.quire")
        try FileSystem.rename(watched.path, to: new)
        #expect(await watched.recorder.next() == .moved(to: new))
        #expect(watched.watch.path == new)
        // It is followed on.
        let newer = watched.folder.path("Newer.quire")
        try FileSystem.rename(new, to: newer)
        #expect(await watched.recorder.next() == .moved(to: newer))
    }

    @Test func movingToAnotherFolderIsTold() async throws {
        let watched = try Watched()
        try FileSystem.makeFolder(watched.folder.path("a"))
        let new = watched.folder.path("a/Doc.quire")
        try FileSystem.rename(watched.path, to: new)
        #expect(await watched.recorder.next() == .moved(to: new))
        // The new folder is watched from now on.
        try FileSystem.rename(watched.folder.path("a"), to: watched.folder.path("b"))
        #expect(
            await watched.recorder.next() == .moved(to: watched.folder.path("b/Doc.quire")))
    }

    @Test(arguments: ["a", "a/b", "a/b/c"])
    func renamingAFolderAboveIsTold(above: String) async throws {
        let watched = try Watched(at: "a/b/c/Doc.quire")
        try FileSystem.rename(watched.folder.path(above), to: watched.folder.path("moved"))
        let rest = "a/b/c/Doc.quire".dropFirst(above.count)
        #expect(
            await watched.recorder.next() == .moved(to: watched.folder.path("moved" + rest)))
    }

    @Test func deletionIsToldAndIsTheLastEvent() async throws {
        let watched = try Watched()
        try FileSystem.removeTree(watched.path)
        #expect(await watched.recorder.next { !$0.isChange } == .deleted)
        // A new one is another's affair. A second watch proves that the time to tell of it has passed.
        try Watched.makePackage(watched.path)
        let second = EventRecorder<PackageEvent>()
        let watch = try PackageWatch(
            path: watched.path, queue: .global(), handler: second.record)
        try FileSystem.removeTree(watched.path)
        #expect(await second.next { !$0.isChange } == .deleted)
        #expect(watched.recorder.events.filter { !$0.isChange } == [.deleted])
        watch.cancel()
    }

    /// As between a look at the package and the subscriptions that follow it.
    @Test func deletionBeforeItIsWatchedIsTold() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Doc.quire")
        try Watched.makePackage(path)
        let opened = try OpenFile.open(path, for: .folder)
        try FileSystem.removeTree(path)
        let recorder = EventRecorder<PackageEvent>()
        let watch = try PackageWatch(
            path: path, folder: opened, queue: .global(), handler: recorder.record)
        #expect(await recorder.next() == .deleted)
        watch.cancel()
    }

    @Test func replacementByExchangeIsTold() async throws {
        let watched = try Watched()
        let other = watched.folder.path("Other.quire")
        try Watched.makePackage(other)
        try FileSystem.exchange(other, watched.path)
        #expect(await watched.recorder.next() == .replaced(movedTo: other))
        try FileSystem.removeTree(other)
        #expect(await watched.recorder.next { !$0.isChange } == .deleted)
    }

    @Test func replacementByDeletingAndMakingAgainIsTold() async throws {
        let watched = try Watched()
        let new = watched.folder.path("new")
        try Watched.makePackage(new)
        try FileSystem.exchange(new, watched.path)
        try FileSystem.removeTree(new)
        let event = await watched.recorder.next { !$0.isChange }
        // As soon as it is looked at the old one is being removed, or has been.
        #expect(event == .replaced(movedTo: nil) || event == .replaced(movedTo: new))
    }

    @Test(arguments: [false, true])
    func whatLinksInThePackageLeadToIsNotWatched(polling: Bool) async throws {
        let folder = try TemporaryFolder()
        let (path, outside) = (folder.path("Doc.quire"), folder.path("outside"))
        try Watched.makePackage(path)
        try Watched.makePackage(outside)
        let victim = outside + "/StoreContent/persistentStore"
        try FileSystem.makeSymbolicLink(
            path + "/AdditionalContent", to: outside + "/StoreContent")
        try FileSystem.makeSymbolicLink(path + "/DocumentMetadata.plist", to: victim)
        let recorder = EventRecorder<PackageEvent>()
        let watch = try PackageWatch(
            path: path, latency: .milliseconds(5), events: .shared, alwaysPolls: polling,
            queue: .global(), handler: recorder.record)
        try FileSystem.writeNewFile(Data([1]), at: outside + "/StoreContent/new")
        try OpenFile.open(victim, for: .updating).setSize(1000)
        try FileSystem.writeNewFile(Data([1]), at: folder.path("lock"))
        try FileSystem.rename(folder.path("lock"), to: path + "/.lock")
        #expect(await recorder.next() == .changed(.lock))
        watch.cancel()
    }

    @Test func movingAwayAndBackIsNotTold() async throws {
        let watched = try Watched()
        let away = watched.folder.path("away")
        try FileSystem.rename(watched.path, to: away)
        try FileSystem.rename(away, to: watched.path)
        try watched.append(to: "DocumentMetadata.plist")
        let event = await watched.recorder.next()
        #expect(event == .changed(.metadata) || event == .moved(to: away))
    }

    @Test(arguments: [
        ("StoreContent/persistentStore", PackageParts.store),
        ("StoreContent/persistentStore-wal", .store), ("DocumentMetadata.plist", .metadata),
        (".lock", .lock), ("Notes.txt", .other),
    ])
    func whatIsWrittenIsTold(name: String, part: PackageParts) async throws {
        let watched = try Watched()
        try watched.append(to: name)
        #expect(await watched.recorder.next() == .changed(part))
    }

    @Test func sharedMemoryOfReadersIsNoChange() async throws {
        let watched = try Watched()
        try watched.append(to: "StoreContent/persistentStore-shm")
        try watched.append(to: "DocumentMetadata.plist")
        #expect(await watched.recorder.next() == .changed(.metadata))
    }

    @Test func contentThatComesLaterIsWatched() async throws {
        let watched = try Watched()
        try FileSystem.makeFolder(watched.path + "/AdditionalContent")
        #expect(await watched.recorder.next() == .changed(.additionalContent))
        try FileSystem.makeFolder(watched.path + "/AdditionalContent/1")
        #expect(await watched.recorder.next() == .changed(.additionalContent))
    }

    @Test func changesAfterAMoveAreTold() async throws {
        let watched = try Watched()
        let new = watched.folder.path("New.quire")
        try FileSystem.rename(watched.path, to: new)
        #expect(await watched.recorder.next() == .moved(to: new))
        try OpenFile.open(new + "/StoreContent/persistentStore", for: .updating)
            .write(Data("x".utf8))
        #expect(await watched.recorder.next() == .changed(.store))
    }

    @Test func manyChangesAreToldTogether() async throws {
        let watched = try Watched()
        for _ in 0..<2000 {
            try watched.append(to: "StoreContent/persistentStore-wal")
            try watched.append(to: "DocumentMetadata.plist")
        }
        var parts: PackageParts = []
        while parts != [.store, .metadata] {
            guard case .changed(let more)? = await watched.recorder.next() else { break }
            parts.formUnion(more)
        }
        #expect(parts == [.store, .metadata])
        #expect(watched.recorder.events.count < 400)
    }

    @Test func anOverflowMeansLookingAtEverything() async throws {
        let events = FileEvents()
        let watched = try Watched(events: events)
        events.simulateOverflow()
        #expect(await watched.recorder.next() == .changed(.all))
        let new = watched.folder.path("New.quire")
        try FileSystem.rename(watched.path, to: new)
        #expect(await watched.recorder.next() == .moved(to: new))
    }

    // MARK: Polling

    @Test func withoutTheKernelItLooksRegularly() async throws {
        let events = FileEvents(tickInterval: .milliseconds(20))
        let watched = try Watched(polling: true, events: events)
        #expect(watched.watch.isPolling)
        try watched.append("longer text", to: "StoreContent/persistentStore")
        #expect(await watched.recorder.next { $0.isChange } != nil)
        let new = watched.folder.path("New.quire")
        try FileSystem.rename(watched.path, to: new)
        #expect(await watched.recorder.next { !$0.isChange } == .moved(to: new))
        try FileSystem.removeTree(new)
        #expect(await watched.recorder.next { !$0.isChange } == .deleted)
    }

    @Test func fingerprintsTellWhichPartsDiffer() throws {
        let watched = try Watched()
        let folder = try OpenFile.open(watched.path, for: .folder)
        let before = PackageFingerprint(of: folder)
        #expect(PackageFingerprint(of: folder).differences(from: before) == [])
        try watched.append("longer than it was", to: "StoreContent/persistentStore")
        try FileSystem.makeFolder(watched.path + "/AdditionalContent")
        #expect(
            PackageFingerprint(of: folder).differences(from: before)
                == [.store, .additionalContent])
    }

    @Test(arguments: [0, 1, 3])
    func withoutEnoughKernelWatchesItLooksRegularly(limit: Int) async throws {
        let events = FileEvents(tickInterval: .milliseconds(20), watchLimit: limit)
        let watched = try Watched(events: events)
        #expect(watched.watch.isPolling)
        #expect(events.watchCount == limit)
        let new = watched.folder.path("New.quire")
        try FileSystem.rename(watched.path, to: new)
        #expect(await watched.recorder.next { !$0.isChange } == .moved(to: new))
    }

    // MARK: Cancelling

    @Test func nothingIsToldAfterCancelHasReturned() async throws {
        for _ in 0..<50 {
            let watched = try Watched()
            let barrier = EventRecorder<PackageEvent>()
            let second = try PackageWatch(
                path: watched.path, latency: .milliseconds(5), queue: .global(),
                handler: barrier.record)
            try watched.append(to: ".lock")
            watched.watch.cancel()
            let count = watched.recorder.events.count
            #expect(await barrier.next() == .changed(.lock))
            #expect(watched.recorder.events.count == count)
            second.cancel()
        }
    }

    @Test func aHandlerMayCancelItsOwnWatch() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Doc.quire")
        try Watched.makePackage(path)
        let recorder = EventRecorder<PackageEvent>()
        let box = WatchBox()
        box.watch = try PackageWatch(path: path, queue: .main) { event in
            box.watch?.cancel()
            recorder.record(event)
        }
        try FileSystem.rename(path, to: path + "2")
        #expect(await recorder.next() == .moved(to: path + "2"))
    }

    /// `@unchecked`: set before the handler can run, because nothing happens to the package before.
    private final class WatchBox: @unchecked Sendable {
        var watch: PackageWatch?
    }

    @Test func aPackageThatIsMissingCannotBeWatched() throws {
        let folder = try TemporaryFolder()
        let error = failure {
            _ = try PackageWatch(path: folder.path("none"), queue: .main) { _ in }
        }
        #expect(error?.code == .notFound)
    }

    @Test func aThousandWatchesTakeADescriptorEachAndGiveItBack() async throws {
        let folder = try TemporaryFolder()
        let events = FileEvents()
        let recorder = EventRecorder<PackageEvent>()
        try FileSystem.makeFolder(folder.path("in"))
        for number in 0..<1000 { try FileSystem.makeFolder(folder.path("in/\(number)")) }
        let first = try PackageWatch(
            path: folder.path("in/0"), events: events, queue: .global()
        ) { _ in }
        let before = try descriptors(in: folder)
        var watches: [PackageWatch] = []
        for number in 0..<1000 {
            watches.append(
                try PackageWatch(
                    path: folder.path("in/\(number)"), events: events, queue: .global(),
                    handler: recorder.record))
        }
        #expect(try descriptors(in: folder) == before + 1000)
        // One watch for each package and each folder above, however many watch it.
        #expect(events.watchCount < 1000 + 20)
        try FileSystem.rename(folder.path("in"), to: folder.path("out"))
        var moved = Set<String>()
        while moved.count < 1000, case .moved(let path)? = await recorder.next() {
            moved.insert(path)
        }
        #expect(moved == Set((0..<1000).map { folder.path("out/\($0)") }))
        for watch in watches { watch.cancel() }
        watches = []
        first.cancel()
        #expect(events.watchCount == 0)
    }

    @Test func watchesThatComeAndGoLeaveNothing() throws {
        let folder = try TemporaryFolder()
        let events = FileEvents()
        try Watched.makePackage(folder.path("Doc"))
        for number in 0..<2000 {
            let watch = try PackageWatch(
                path: folder.path("Doc"), events: events, queue: .global()
            ) { _ in }
            if number.isMultiple(of: 2) { watch.cancel() }
        }
        #expect(events.watchCount == 0)
        #expect(try descriptors(in: folder) == 0)
    }

    /// How many descriptors of this process lead into a folder. Other tests open others meanwhile.
    private func descriptors(in folder: TemporaryFolder) throws -> Int {
        try FileSystem.names(in: "/proc/self/fd").count { name in
            let target = try? FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/self/fd/" + name)
            return target?.hasPrefix(folder.path) == true
        }
    }
}

extension PackageEvent {
    fileprivate var isChange: Bool {
        if case .changed = self { return true }
        return false
    }
}
