import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireRescue

/// The locks of a store that is open for writing survive whatever else the process does with its file: closing any
/// descriptor of a file drops all POSIX locks that the process has on it.
@Suite struct StoreLockTests {
    enum Journal: CaseIterable {
        case writeAheadLog, rollback

        var option: SQLiteStoreOptions {
            var options = SQLiteStoreOptions()
            options.journal = self == .rollback ? .rollback : .writeAheadLog
            return options
        }
    }

    /// Whether another process is refused the lock to write.
    private func othersAreRefused(_ path: String) throws -> Bool {
        let outcome = try ChildProcess.runAndWait(
            "/usr/bin/sqlite3", [path, "BEGIN IMMEDIATE; SELECT 'written'; ROLLBACK;"])
        return !outcome.output.contains("written")
    }

    /// Calls a closure while a transaction that writes is open, and says whether others cannot write then.
    private func othersAreRefused(
        _ path: String, _ journal: Journal, while body: (SQLiteConnection) throws -> Void
    ) throws -> Bool {
        let source = try SQLiteDatabaseFile(path: path, isReadOnly: false)
        let writer = try source.connect(.writing, options: journal.option)
        defer {
            writer.close()
            source.release()
        }
        try writer.execute("BEGIN IMMEDIATE")
        #expect(try othersAreRefused(path))
        try body(writer)
        defer { try? writer.execute("ROLLBACK") }
        return try othersAreRefused(path)
    }

    private func makeStore(_ folder: TemporaryFolder, _ journal: Journal) throws -> String {
        let path = folder.path("a.sqlite")
        try SQLiteStore.create(at: path, model: FixtureModels.library, options: journal.option)
            .close()
        return path
    }

    @Test(arguments: Journal.allCases)
    func whatBeganToReadTheFileBeforeItWasOpenedLeavesTheLocks(_ journal: Journal) throws {
        let folder = try TemporaryFolder()
        let path = try makeStore(folder, journal)
        var pages: DatabasePages? = try DatabasePages(path: path)
        #expect(pages?.hasMagic == true)
        var file: OpenFile? = try OpenFile.open(path, for: .reading)
        #expect(try file?.read(16, at: 0).count == 16)
        let areRefused = try othersAreRefused(path, journal) { _ in
            pages = nil
            file = nil
        }
        #expect(areRefused)
    }

    @Test(arguments: Journal.allCases)
    func readingAndCopyingTheFileLeavesTheLocks(_ journal: Journal) throws {
        let folder = try TemporaryFolder()
        let path = try makeStore(folder, journal)
        let areRefused = try othersAreRefused(path, journal) { writer in
            for name in [path, path + "-shm", path + "-wal"] where FileSystem.exists(name) {
                _ = try FileSystem.contents(of: name)
                try FileSystem.copyFile(name, to: folder.path("copy"))
                try FileSystem.removeFileIfPresent(folder.path("copy"))
            }
            try SQLiteDatabaseFile.copy(path, to: folder.path("whole"))
            #expect(try StoreFile(at: path).type == .sqlite)
        }
        #expect(areRefused)
    }

    /// A descriptor that was kept back is closed when the last connection is.
    @Test func descriptorsAreClosedInTheEnd() throws {
        let folder = try TemporaryFolder()
        let path = try makeStore(folder, .rollback)
        func count() throws -> Int {
            try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count {
                let target = try? FileManager.default.destinationOfSymbolicLink(
                    atPath: "/proc/self/fd/" + $0)
                return target == path
            }
        }
        let store = try SQLiteStore.open(at: path)
        let before = try count()
        for _ in 0..<10 { _ = try FileSystem.contents(of: path) }
        #expect(try count() <= before + 1)
        try store.close()
        #expect(try count() == 0)
    }

    enum Kind: CaseIterable {
        case writeAheadLog, rollback, xml, binary

        func description(_ path: String) -> PersistentStoreDescription {
            let type: StoreType =
                switch self {
                case .writeAheadLog, .rollback: .sqlite
                case .xml: .xml
                case .binary: .binary
                }
            var description = PersistentStoreDescription(path: path, type: type)
            if self == .rollback { description.sqliteOptions.journal = .rollback }
            return description
        }
    }

    /// Stores beside an open one, and whatever else opens its files: to read, to write, or to examine them, by path or beneath a
    /// folder.
    @Test(arguments: Kind.allCases)
    @MainActor func openingBesideAnOpenStoreKeepsNoDescriptor(_ kind: Kind) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.store")
        func count() throws -> Int {
            try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count {
                let target = try? FileManager.default.destinationOfSymbolicLink(
                    atPath: "/proc/self/fd/" + $0)
                return target?.hasPrefix(folder.path) == true
            }
        }
        func openContainer() throws -> PersistentContainer {
            try PersistentContainer(
                managedObjectModel: FixtureModels.library,
                persistentStoreDescriptions: [kind.description(path)])
        }
        let first = try openContainer()
        var counts: [Int] = []
        for _ in 0..<10 {
            let beside = try openContainer()
            _ = try beside.persistentStoreCoordinator.rows(
                matching: FetchSpecification("Tag"))
            try beside.close()
            for name in ["", "-shm", "-wal"].map({ path + $0 }) where FileSystem.exists(name) {
                for purpose in [.reading, .updating, .updatingOrCreating, .examining]
                    as [OpenFile.Purpose]
                {
                    let file = try OpenFile.open(name, for: purpose)
                    let beneath = try OpenFile.open(name, beneath: folder.path, for: purpose)
                    #expect(file.descriptor != beneath.descriptor)
                    #expect(try beneath.information().isSameFile(as: file.information()))
                    if purpose == .reading { _ = try file.reopened() }
                }
            }
            counts.append(try count())
        }
        #expect(counts.last == counts.first)
        try first.close()
        #expect(try count() == 0)
    }
}
