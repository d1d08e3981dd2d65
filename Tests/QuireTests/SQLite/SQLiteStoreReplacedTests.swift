import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire

/// What becomes of saves when another program replaces or removes a store's files while it is open.
@Suite struct SQLiteStoreReplacedTests {
    enum Way: String, CaseIterable {
        case renameOver, remove, moveAway, exchangeFolder, removeLog, replaceLog, removeIndex,
            replaceIndex
    }

    let folder: TemporaryFolder
    let path: String
    let store: SQLiteStore

    init() throws {
        folder = try TemporaryFolder()
        try FileSystem.makeFolder(folder.path("place"))
        path = folder.path("place/test.sqlite")
        store = try SQLiteStore.create(at: path, model: SQLiteTestModel.model)
        try insert(into: store)
    }

    private func insert(into store: SQLiteStore) throws {
        let entity = try store.layout.requireEntity(named: "Room")
        let id = try store.reserveObjectIDs(for: entity, count: 1, durably: false)[0]
        var changes = ChangeSet()
        changes.inserted = [
            ObjectChange(
                objectID: id, entity: entity, version: 0,
                values: ContiguousArray(repeating: .null, count: entity.slots.count),
                changedSlots: SlotMask(first: entity.slots.count), toManyChanges: [])
        ]
        try store.save(changes)
    }

    private func count(_ store: SQLiteStore) throws -> Int {
        try store.count(matching: FetchSpecification("Room"))
    }

    /// Makes the files at the path others than those that are open.
    private func apply(_ way: Way) throws {
        let other = folder.path("other")
        try FileSystem.makeFolder(other)
        try store.writeCopy(to: other + "/test.sqlite")
        func replace(_ path: String) throws {
            try FileSystem.writeNewFile(Data(count: 100), at: other + "/new")
            try FileSystem.rename(other + "/new", to: path)
        }
        switch way {
        case .renameOver: try FileSystem.rename(other + "/test.sqlite", to: path)
        case .remove: try FileSystem.removeFile(path)
        case .moveAway: try FileSystem.rename(path, to: other + "/away")
        case .exchangeFolder: try FileSystem.exchange(other, folder.path("place"))
        case .removeLog: try FileSystem.removeFile(path + "-wal")
        case .replaceLog: try replace(path + "-wal")
        case .removeIndex: try FileSystem.removeFile(path + "-shm")
        case .replaceIndex: try replace(path + "-shm")
        }
    }

    @Test(arguments: Way.allCases)
    func nothingIsSavedAndWhatIsOpenCanBeRead(_ way: Way) throws {
        try apply(way)
        let error = #expect(throws: QuireError.self) { try insert(into: store) }
        #expect(error?.code == .storeReplaced)
        #expect(error?.message.contains(path) == true)
        #expect(try count(store) == 1)
        // Also in writes that are no saves.
        #expect(throws: QuireError.self) { try store.setMetadata(.string("x"), forKey: "x") }
        #expect(throws: QuireError.self) { try store.writeDraft(Data([1])) }
        let deletion = try BatchDeleteRequest(fetchRequest: FetchRequest("Room"))
        #expect(throws: QuireError.self) { try store.delete(deletion) }
        // What is read by many threads at once needs connections that cannot be made any more.
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            #expect((try? count(store)) == 1)
        }
        #expect(store.contentVersion == nil)
        // Both sides: a copy of what is open, and what others have left.
        try store.writeCopy(to: folder.path("rescue"))
        try store.close()
        let rescue = try SQLiteStore.open(at: folder.path("rescue"))
        #expect(try count(rescue) == 1)
        try rescue.close()
        // Without its log the database is empty.
        if ![.remove, .moveAway, .replaceLog].contains(way) {
            let theirs = try SQLiteStore.open(at: path)
            #expect(try count(theirs) == 1)
            try insert(into: theirs)
            #expect(try count(theirs) == 2)
            #expect(try StoreCheck.run(on: theirs).problems.isEmpty)
            try theirs.close()
        }
    }

    @Test func theLogOfAReplacedStoreIsNotTakenForThatOfTheNewOne() throws {
        // More in the log than in the database, where the other store has other pages.
        for _ in 0..<20 { try insert(into: store) }
        let other = try SQLiteStore.create(
            at: folder.path("other"), model: SQLiteTestModel.model)
        try insert(into: other)
        try other.close()
        try FileSystem.rename(folder.path("other"), to: path)
        #expect(throws: QuireError.self) { try insert(into: store) }
        let theirs = try SQLiteStore.open(at: path)
        #expect(try count(theirs) == 1)
        #expect(try count(store) == 21)
        try insert(into: theirs)
        try store.close()
        #expect(try count(theirs) == 2)
        #expect(try StoreCheck.run(on: theirs).problems.isEmpty)
        try theirs.close()
    }

    @Test func aStoreThatComesBackIsSavedToAgain() throws {
        try FileSystem.rename(path, to: folder.path("away"))
        #expect(throws: QuireError.self) { try insert(into: store) }
        try FileSystem.rename(folder.path("away"), to: path)
        try insert(into: store)
        try store.close()
        let again = try SQLiteStore.open(at: path)
        #expect(try count(again) == 2)
        try again.close()
    }

    @Test func withoutALogNothingIsSavedToAReplacedStoreEither() throws {
        var options = SQLiteStoreOptions()
        options.journal = .rollback
        let path = folder.path("rollback")
        let store = try SQLiteStore.create(
            at: path, model: SQLiteTestModel.model, options: options)
        try insert(into: store)
        try store.writeCopy(to: folder.path("other"))
        try FileSystem.rename(folder.path("other"), to: path)
        let error = #expect(throws: QuireError.self) { try insert(into: store) }
        #expect(error?.code == .storeReplaced)
        #expect(try count(store) == 1)
        try store.close()
        let theirs = try SQLiteStore.open(at: path)
        #expect(try count(theirs) == 1)
        try theirs.close()
    }

    /// A store without a log gets one with its first save.
    @Test(arguments: ["-wal", "-shm"])
    func aLogThatIsMadeLaterIsComparedToo(suffix: String) throws {
        var options = SQLiteStoreOptions()
        options.journal = .rollback
        let path = folder.path("rollback")
        try SQLiteStore.create(at: path, model: SQLiteTestModel.model, options: options).close()
        let store = try SQLiteStore.open(at: path)
        try insert(into: store)
        try FileSystem.removeFile(path + suffix)
        let error = #expect(throws: QuireError.self) { try insert(into: store) }
        #expect(error?.code == .storeReplaced)
        #expect(try count(store) == 1)
        try store.close()
    }

    /// Another process that opens the store makes a new index, and sees neither our locks nor we its own.
    @Test func whatOthersWriteBesideAReplacedIndexIsNotDamaged() throws {
        try FileSystem.removeFile(path + "-shm")
        // It is killed, so that it leaves the log.
        let script =
            "CREATE TABLE other (a); INSERT INTO other VALUES (1); SELECT 'written';\n"
        let shell = Process()
        shell.executableURL = URL(fileURLWithPath: "/usr/bin/sqlite3")
        shell.arguments = [path]
        let (input, output) = (Pipe(), Pipe())
        (shell.standardInput, shell.standardOutput) = (input, output)
        try shell.run()
        input.fileHandleForWriting.write(Data(script.utf8))
        #expect(output.fileHandleForReading.availableData == Data("written\n".utf8))
        kill(shell.processIdentifier, SIGKILL)
        shell.waitUntilExit()
        #expect(throws: QuireError.self) { try insert(into: store) }
        try store.close()
        #expect(try SQLiteTestStore.query("SELECT a FROM other", path: path) == [["1"]])
        #expect(try SQLiteTestStore.query("PRAGMA integrity_check", path: path) == [["ok"]])
    }

    @Test func aReaderNoticesThatItsStoreWasReplaced() async throws {
        try store.close()
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        options.postsRemoteChanges = true
        let reader = try SQLiteStore.open(at: path, options: options)
        let coordinator = PersistentStoreCoordinator(store: reader)
        let changes = coordinator.remoteChanges
        #expect(try count(reader) == 1)
        try reader.writeCopy(to: folder.path("other"))
        try FileSystem.rename(folder.path("other"), to: path)
        var iterator = changes.makeAsyncIterator()
        #expect(await iterator.next()?.store === reader)
        try reader.close()
    }

    /// The store that has the old file open is none whose log is to be read.
    @Test(arguments: [Way.renameOver, .exchangeFolder])
    func whatReadsTheNewFileLeavesNothingBesideIt(_ way: Way) throws {
        try apply(way)
        store.unlinkLog()
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let reader = try SQLiteStore.open(at: path, options: options)
        #expect(try count(reader) == 1)
        try reader.close()
        let names = try FileSystem.names(in: FileSystem.folder(of: path))
        #expect(names == ["test.sqlite"])
        #expect(!OpenDatabaseRegistry.contains(path))
    }

    /// Nor has a new file that has been given the number of one that was just removed.
    @Test func whatReadsAnotherLinkLeavesNothingBesideIt() throws {
        try store.writeCopy(to: folder.path("open"))
        let open = try SQLiteStore.open(at: folder.path("open"))
        let other = folder.path("other")
        try FileSystem.makeFolder(other)
        let link = other + "/link"
        try FileSystem.link(folder.path("open"), to: link)
        #expect(OpenDatabaseRegistry.contains(folder.path("open")))
        #expect(!OpenDatabaseRegistry.contains(link))
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let reader = try SQLiteStore.open(at: link, options: options)
        #expect(try count(reader) == 1)
        try reader.close()
        #expect(try FileSystem.names(in: other) == ["link"])
        try open.close()
    }

    @Test func whatWasMovedWithItsLogIsReadWithIt() throws {
        let moved = folder.path("there/test.sqlite")
        try FileSystem.rename(folder.path("place"), to: folder.path("there"))
        #expect(OpenDatabaseRegistry.contains(moved))
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let reader = try SQLiteStore.open(at: moved, options: options)
        #expect(try count(reader) == 1)
        try reader.close()
        try store.close()
        #expect(!OpenDatabaseRegistry.contains(moved))
    }
}
