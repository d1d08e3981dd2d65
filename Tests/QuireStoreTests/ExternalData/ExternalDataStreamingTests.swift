import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Values go in and out without being in memory.
@Suite struct ExternalDataStreamingTests {
    private typealias Fixture = ExternalDataFixture
    private let bytes = ExternalDataFixture.bytes(3_000_001)

    private func collect(_ data: ExternalData, _ size: Int) async throws -> (Data, Int) {
        var whole = Data()
        var count = 0
        for try await chunk in data.chunks(ofSize: size) {
            whole += chunk
            count += 1
        }
        return (whole, count)
    }

    /// Only optimized code used to stay on the other thread, where the next use of the object trapped.
    @Test @MainActor func anErrorIsThrownOnTheCallersQueueAndTheObjectIsAsItWas() async throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        for path in [fixture.folder.path("missing"), fixture.folder.path] {
            do {
                try await cover.setExternalData(contentsOf: path, forKey: "image")
                Issue.record("There is nothing to read.")
            } catch {
                MainActor.preconditionIsolated()
            }
            do {
                _ = try await fixture.coordinator.makeExternalData(contentsOf: path)
                Issue.record("There is nothing to read.")
            } catch {
                MainActor.preconditionIsolated()
            }
            #expect(try cover.externalData(forKey: "image") == nil)
        }
        #expect(try fixture.files.isEmpty)

        try await cover.setExternalData(contentsOf: fixture.file(bytes), forKey: "image")
        try context.save()
        let file = try fixture.onlyFile
        try Data(count: 5).write(to: URL(fileURLWithPath: file))
        let (other, stored) = try fixture.stored()
        do {
            let data = try #require(try stored.externalData(forKey: "image"))
            _ = try await collect(data, 1_000_000)
            Issue.record("It is not what was saved.")
        } catch {
            MainActor.preconditionIsolated()
        }
        withExtendedLifetime(other) {}
    }

    @Test @MainActor func aFileGoesInAndComesOut() async throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        let source = try fixture.file(bytes)
        try await cover.setExternalData(contentsOf: source, forKey: "image")
        let inode = try FileSystem.information(at: fixture.onlyFile)?.inode
        #expect(cover["image", as: Data.self] == bytes)
        try context.save()
        // The save had nothing to copy.
        #expect(try FileSystem.information(at: fixture.onlyFile)?.inode == inode)
        #expect(FileSystem.exists(source))

        let (other, stored) = try fixture.stored()
        let data = try #require(try stored.externalData(forKey: "image"))
        #expect(data.size == bytes.count)
        #expect(data.sha256 == RunningDigest.sha256(of: bytes))
        #expect(try data.path == fixture.onlyFile)
        #expect(try data.data() == bytes)
        #expect(try data.read(5, at: 1_000_000) == bytes[1_000_000..<1_000_005])
        #expect(try data.read(9, at: bytes.count - 4) == bytes.suffix(4))
        #expect(try data.read(9, at: bytes.count + 1).isEmpty)
        #expect(try data.verify())
        let (whole, count) = try await collect(data, 1_000_000)
        #expect(whole == bytes && count == 4)
        try data.withFileHandle { handle in
            try handle.seek(toOffset: 2)
            #expect(try handle.read(upToCount: 3) == bytes[2..<5])
        }
        #expect(try data.withFileHandle { try $0.readToEnd() } == bytes)
        let copy = fixture.folder.path("copy")
        try data.copy(to: copy)
        #expect(try FileSystem.contents(of: copy) == bytes)
        let error = #expect(throws: QuireError.self) { try data.copy(to: copy) }
        #expect(error?.code == .alreadyExists)
        try data.copy(to: copy, replacing: true)
        withExtendedLifetime(other) {}
    }

    @Test @MainActor func aSequenceAndAHandleGoIn() async throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let (one, two) = (try fixture.cover(context), try fixture.cover(context))
        let piece = Fixture.bytes(70_000)
        try await one.setExternalData(from: Pieces(count: 5, piece: piece), forKey: "image")
        let source = try fixture.file(bytes)
        let handle = try #require(FileHandle(forReadingAtPath: source))
        try handle.seek(toOffset: 1000)
        try two.setExternalData(readingFrom: handle, forKey: "image")
        try context.save()
        #expect(one["image", as: Data.self] == piece + piece + piece + piece + piece)
        #expect(two["image", as: Data.self] == bytes.dropFirst(1000))
    }

    @Test @MainActor func aSequenceThatFailsChangesNothing() async throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        cover["image"] = Data([1])
        await #expect(throws: Pieces.Broken.self) {
            try await cover.setExternalData(
                from: Pieces(count: 3, piece: bytes, failsAtEnd: true), forKey: "image")
        }
        #expect(cover["image", as: Data.self] == Data([1]))
        #expect(try fixture.files.isEmpty)
        let error = #expect(throws: QuireError.self) {
            try cover.setExternalData(contentsOf: "/nowhere/at/all", forKey: "image")
        }
        #expect(error?.code == .notFound)
        let wrong = #expect(throws: QuireError.self) {
            try cover.setExternalData(contentsOf: "/dev/null", forKey: "name")
        }
        #expect(wrong?.code == .invalidValue)
    }

    @Test @MainActor func aCancelledTaskLeavesNothing() async throws {
        let fixture = try Fixture()
        let coordinator = fixture.coordinator
        let piece = bytes
        let task = Task.detached {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await coordinator.makeExternalData(from: Pieces(count: 3, piece: piece))
        }
        let error = await #expect(throws: QuireError.self) { try await task.value }
        #expect(error?.code == .cancelled)
        #expect(try fixture.files.isEmpty)
    }

    @Test @MainActor func smallValuesAreReadTheSameWay() async throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        let small = Fixture.bytes(1000)
        try await cover.setExternalData(contentsOf: fixture.file(small), forKey: "image")
        try await cover.setExternalData(
            contentsOf: fixture.file(small, "two"), forKey: "small")
        try context.save()
        #expect(cover["small", as: AttributeValue.self] == .binary(small))
        let (other, stored) = try fixture.stored()
        let data = try #require(try stored.externalData(forKey: "image"))
        #expect(data.url == nil && data.size == 1000)
        let (whole, count) = try await collect(data, 300)
        #expect(whole == small && count == 4)
        #expect(try data.withFileHandle { try $0.readToEnd() } == small)
        #expect(try !data.verify())
        #expect(try stored.externalData(forKey: "small")?.data() == small)
        stored["image"] = nil
        #expect(try stored.externalData(forKey: "image") == nil)
        withExtendedLifetime(other) {}
    }

    @Test @MainActor func aMovedFileGoesWhenItIsSaved() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let source = try fixture.file(bytes)
        let inode = try FileSystem.information(at: source)?.inode
        do {
            let cover = try fixture.cover(context)
            try cover.setExternalData(contentsOf: source, forKey: "image", taking: .moving)
            #expect(FileSystem.exists(source))
            context.rollback()
        }
        #expect(FileSystem.exists(source))
        let again = try fixture.cover(context)
        try again.setExternalData(contentsOf: source, forKey: "image", taking: .moving)
        try context.save()
        #expect(!FileSystem.exists(source))
        #expect(try FileSystem.information(at: fixture.onlyFile)?.inode == inode)
        #expect(again["image", as: Data.self] == bytes)
    }

    @Test @MainActor func aPrivateContextSavesWhatWasMadeElsewhere() async throws {
        let fixture = try Fixture()
        let path = try fixture.file(bytes)
        let data = try await fixture.coordinator.makeExternalData(
            contentsOf: path, forEntity: "Cover")
        #expect(try data.file?.folder == fixture.store.externalData.folder)
        let context = QueueConfinedContext(coordinator: fixture.coordinator)
        try await context.perform { context in
            let cover = try context.insertObject(entityName: "Cover")
            try cover.setExternalData(data, forKey: "image")
            try context.save()
        }
        let (other, stored) = try fixture.stored()
        #expect(stored["image", as: Data.self] == bytes)
        #expect(try fixture.files.count == 1)
        withExtendedLifetime(other) {}
    }

    /// In a process of its own, whose memory nobody else uses.
    @Test func memoryStaysBounded() async {
        await #expect(processExitsWith: .success) {
            let isTorture = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"
            let megabytes = isTorture ? 2048 : 64
            let fixture = try ExternalDataFixture()
            let piece = ExternalDataFixture.bytes(1 << 20)
            let before = try residentSize()
            let data = try await fixture.coordinator.makeExternalData(
                from: Pieces(count: megabytes, piece: piece))
            let context = QueueConfinedContext(coordinator: fixture.coordinator)
            try await context.perform { context in
                let cover = try context.insertObject(entityName: "Cover")
                try cover.setExternalData(data, forKey: "image")
                try context.save()
                // Undo must not need the old value in memory either.
                context.undoManager = UndoManager()
                cover["image"] = nil
                context.processPendingChanges()
                context.undo()
                #expect(cover.changedValues().isEmpty)
                cover["name"] = "renamed"
                try context.save()
            }
            let read = try await context.perform { context in
                let cover = try context.fetch(FetchRequest("Cover"))[0]
                return try #require(try cover.externalData(forKey: "image"))
            }
            var size = 0
            for try await chunk in read.chunks() { size += chunk.count }
            #expect(size == megabytes << 20)
            try read.copy(to: fixture.folder.path("copy"))
            let copy = fixture.folder.path("copy.sqlite")
            try fixture.store.writeCopy(to: copy)
            let grown = try residentSize() - before
            precondition(grown < 40 << 20, "Memory has grown by \(grown) bytes.")
        }
    }
}

/// The greatest resident size of the process so far, in bytes.
private func residentSize() throws -> Int {
    let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
    let number = try #require(line.split(separator: " ").dropFirst().first.flatMap { Int($0) })
    return number << 10
}
