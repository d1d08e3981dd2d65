import Foundation
import Quire
import QuireRescue
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

/// Disks without space: a round fails with `outOfSpace`, nothing is half done, and the next one with space makes it good.
@MainActor @Suite struct SyncFullDiskTests {
    /// A store that is synchronized through a folder, which may be on another disk.
    @MainActor
    private struct Replica {
        let context: ManagedObjectContext
        let sync: SyncContainer

        init(_ path: String, _ transport: any SyncTransport) throws {
            let coordinator = try PersistentStoreCoordinator(managedObjectModel: SyncTests.model)
            var description = PersistentStoreDescription(path: path)
            description.tracksHistory = true
            try coordinator.addPersistentStore(description)
            context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            context.automaticallyMergesChangesFromParent = true
            sync = try SyncContainer(coordinator: coordinator, transport: transport)
        }

        func insert(_ title: String, cover: UInt8) throws {
            let book = try context.insertObject(entityName: "Book")
            book["title"] = title
            book["cover"] = Data(repeating: cover, count: 200_000)
            try context.save()
        }

        func content() throws -> [String] {
            context.refreshAllObjects()
            return try context.fetch(FetchRequest("Book")).map {
                "\($0["title", as: String.self] ?? "") \($0["cover", as: Data.self]?.count ?? 0)"
            }.sorted()
        }

        func expectSound() throws {
            for store in context.persistentStoreCoordinator.persistentStores {
                #expect(try StoreCheck.run(on: store).problems.map(\.message) == [])
            }
        }

        func close() throws { try context.persistentStoreCoordinator.close() }
    }

    private func code(_ body: () async throws -> some Any) async -> QuireError.Code? {
        do {
            _ = try await body()
            return nil
        } catch {
            return (error as? QuireError)?.code
        }
    }

    private func names(in folder: String) throws -> Set<String> {
        Set(
            try FileSystem.contentsOfTree(folder).filter { $0.information.kind == .regular }
                .map(\.path))
    }

    @Test(.smallDisk) func aFullFolderFailsTheRoundAndFreeingSpaceSendsAll() async throws {
        let disk = try #require(SmallDisk(megabytes: 4))
        defer { disk.unmount() }
        let folder = try TemporaryFolder()
        let first = try Replica(folder.path("a.sqlite"), try FolderTransport(folder: disk.folder))
        try await first.sync.create(named: "Library")
        let second = try Replica(folder.path("b.sqlite"), try FolderTransport(folder: disk.folder))
        try await second.sync.join()
        for (number, room) in [500_000, 300_000, 150_000, 5_000, 0].enumerated() {
            for part in 0..<3 {
                try first.insert("\(number) \(part)", cover: UInt8(3 * number + part))
            }
            let content = try first.content()
            let before = try await second.sync.synchronize().problems
            #expect(before.isEmpty)
            try disk.fill(disk.path("filler"), leaving: room)
            #expect(await code { try await first.sync.synchronize() } == .outOfSpace, "\(room)")
            #expect(try first.content() == content)
            #expect(try await first.sync.status()?.outgoingCount == 1)
            // What is there is whole, and no temporary file is left.
            #expect(try names(in: disk.folder).allSatisfy { SyncFileName($0) != nil })
            #expect(try await second.sync.synchronize().problems.isEmpty)
            try FileSystem.removeFile(disk.path("filler"))
            #expect(try await first.sync.synchronize().sentCount == 1)
            #expect(try await second.sync.synchronize().missingFileCount == 0)
            #expect(try second.content() == content)
            // Room for the next.
            for replica in [first, second] {
                for book in try first.context.fetch(FetchRequest("Book")) { book["cover"] = nil }
                try first.context.save()
                try await replica.sync.synchronize()
            }
            for (file, _) in try await SyncContainer.blobFiles(
                in: FolderTransport(folder: disk.folder))
            {
                try FileSystem.removeFile(disk.path(file.path))
            }
        }
        for replica in [first, second] {
            try replica.expectSound()
            try replica.close()
        }
    }

    @Test(.smallDisk) func aFullDiskOfTheStoreAppliesNothingAndFreeingSpaceAll() async throws {
        let disk = try #require(SmallDisk(megabytes: 6))
        defer { disk.unmount() }
        let folder = try TemporaryFolder()
        let transport = try FolderTransport(folder: folder.path("shared"), creates: true)
        let first = try Replica(folder.path("a.sqlite"), transport)
        try await first.sync.create(named: "Library")
        let second = try Replica(disk.path("b.sqlite"), transport)
        try await second.sync.join()
        for (number, room) in [500_000, 300_000, 150_000, 20_000, 0].enumerated() {
            for part in 0..<3 {
                try first.insert("\(number) \(part)", cover: UInt8(3 * number + part))
            }
            try await first.sync.synchronize()
            let content = try second.content()
            try disk.fill(disk.path("filler"), leaving: room)
            #expect(await code { try await second.sync.synchronize() } == .outOfSpace, "\(room)")
            #expect(try second.content() == content, "\(room)")
            try FileSystem.removeFile(disk.path("filler"))
            let result = try await second.sync.synchronize()
            #expect(result.problems.isEmpty && result.missingFileCount == 0)
            #expect(try second.content() == first.content(), "\(room)")
            // Room for the next.
            for book in try first.context.fetch(FetchRequest("Book")) { book["cover"] = nil }
            try first.context.save()
            try await first.sync.synchronize()
            try await second.sync.synchronize()
        }
        for replica in [first, second] {
            try replica.expectSound()
            try replica.close()
        }
    }

    /// A transport that has no space from one of its creations on.
    private final class FullTransport: SyncTransport {
        private let transport: FolderTransport
        private let room = Lock<Int?>(nil)

        init(_ transport: FolderTransport) { self.transport = transport }

        func fill(after count: Int?) { room.withLock { $0 = count } }

        func create(_ file: SyncFileName, _ contents: Data) async throws -> Bool {
            let isFull = room.withLock { room in
                guard let count = room else { return false }
                room = max(count - 1, 0)
                return count == 0
            }
            if isFull {
                throw QuireError(
                    .outOfSpace, "There is no space.", subject: .init(file: file.path))
            }
            return try await transport.create(file, contents)
        }

        func fileNames(in folder: SyncFileName) async throws -> [String] {
            try await transport.fileNames(in: folder)
        }

        func contents(of file: SyncFileName, maximumSize: Int) async throws -> Data? {
            try await transport.contents(of: file, maximumSize: maximumSize)
        }

        func remove(_ file: SyncFileName) async throws { try await transport.remove(file) }

        var changes: AsyncStream<Void> { transport.changes }
    }

    enum Operation: CaseIterable { case export, repair, rebuild }

    @Test(arguments: Operation.allCases)
    func whereverSpaceEndsNothingIsLost(_ operation: Operation) async throws {
        let folder = try TemporaryFolder()
        let plain = try FolderTransport(folder: folder.path("shared"), creates: true)
        let transport = FullTransport(plain)
        let first = try Replica(folder.path("a.sqlite"), transport)
        try await first.sync.create(named: "Library")
        let second = try Replica(folder.path("b.sqlite"), plain)
        try await second.sync.join()
        func perform() async throws {
            switch operation {
            case .export: try await first.sync.synchronize()
            case .repair: try await first.sync.repair()
            case .rebuild: try await first.sync.rebuildFromSyncedContent()
            }
        }
        var failures = 0
        for room in 0..<20 {
            try first.insert("first \(room)", cover: UInt8(2 * room))
            try second.insert("second \(room)", cover: UInt8(2 * room + 1))
            try await second.sync.synchronize()
            let before = try names(in: plain.path)
            transport.fill(after: room)
            let code = await code { try await perform() }
            transport.fill(after: nil)
            if code == nil { break }
            failures += 1
            #expect(code == .outOfSpace, "\(room)")
            // Nothing is removed before what takes its place is there.
            #expect(try names(in: plain.path).isSuperset(of: before), "\(room)")
            #expect(try first.content().contains("first \(room) 200000"))
            try await perform()
            try await second.sync.synchronize()
            #expect(try second.content() == first.content(), "\(room)")
            #expect(try second.content().count == 2 * (room + 1), "\(room)")
        }
        // A blob, a segment; a part of a snapshot.
        #expect(failures == (operation == .repair ? 3 : 2))
        for replica in [first, second] {
            try replica.expectSound()
            try replica.close()
        }
    }
}
