import Foundation
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

@Suite struct FolderTransportTests {
    let folder: TemporaryFolder
    /// The shared folder.
    let path: String
    let transport: FolderTransport

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("shared")
        transport = try FolderTransport(folder: path, creates: true)
    }

    /// Everything in the shared folder.
    private func entries() throws -> [String] {
        try FileSystem.contentsOfTree(path).map(\.path)
    }

    private func write(_ text: String, at name: String) throws {
        let place = FileSystem.path(path, name)
        try FileSystem.makeFolder(FileSystem.folder(of: place), withIntermediates: true)
        try FileSystem.writeNewFile(Data(text.utf8), at: place)
    }

    // MARK: Conformance

    @Test func foldersConform() async throws {
        let failures = await SyncTransportConformance.check { [folder] place in
            try FolderTransport(folder: folder.path(place.uuidString), creates: true)
        }
        #expect(failures == [])
    }

    @Test func foldersWithoutExclusiveRenamingConform() async throws {
        let failures = await SyncTransportConformance.check { [folder] place in
            try FolderTransport(folder: folder.path(place.uuidString), creates: true) { _, _ in
                false
            }
        }
        #expect(failures == [])
        let leftovers = try FileSystem.contentsOfTree(folder.path).filter {
            $0.path.contains(".tmp-")
        }
        #expect(leftovers.isEmpty)
    }

    /// The checks find what is wrong.
    @Test func aTransportThatReplacesDoesNotConform() async throws {
        let failures = await SyncTransportConformance.check { [folder] place in
            try ReplacingTransport(
                FolderTransport(folder: folder.path(place.uuidString), creates: true))
        }
        #expect(failures.contains { $0.hasPrefix("an existing file is not created again") })
    }

    // MARK: Opening

    @Test func onlyAnExistingFolderIsOpened() throws {
        let missing = folder.path("missing")
        #expect(failure { try FolderTransport(folder: missing) }?.code == .notFound)
        #expect(!FileSystem.exists(missing))
        #expect(
            failure { try FolderTransport(folder: missing + "/a", creates: true) }?.code
                == .notFound)
        #expect(failure { try FolderTransport(folder: "relative") }?.code == .invalidValue)
        try FileSystem.writeNewFile(Data(), at: missing)
        #expect(failure { try FolderTransport(folder: missing) }?.code == .notFound)
        #expect(throws: QuireError.self) { try FolderTransport(folder: missing, creates: true) }
        #expect(try FolderTransport(folder: path + "/", creates: true).path == path)
    }

    @Test func theFolderItselfMayBeALink() async throws {
        let link = folder.path("link")
        try FileSystem.makeSymbolicLink(link, to: path)
        try await FolderTransport(folder: link).create(name("a"), Data([1]))
        #expect(try await transport.contents(of: name("a"), maximumSize: 1) == Data([1]))
    }

    // MARK: Hostile contents

    @Test func linksInPlaceOfFilesAreNotFollowed() async throws {
        try write("secret", at: "secret")
        for target in [path + "/secret", "secret", "missing", "/dev/zero"] {
            try FileSystem.makeSymbolicLink(path + "/a", to: target)
            await expectRefusal(of: name("a"))
            try FileSystem.removeFile(path + "/a")
        }
        #expect(try FileSystem.contents(of: path + "/secret") == Data("secret".utf8))
        #expect(try entries() == ["secret"])
    }

    @Test func linksInPlaceOfFoldersAreNotFollowed() async throws {
        let outside = folder.path("outside")
        try FileSystem.makeFolder(outside + "/b", withIntermediates: true)
        try FileSystem.writeNewFile(Data("secret".utf8), at: outside + "/secret")
        try FileSystem.writeNewFile(Data("secret".utf8), at: outside + "/b/secret")
        try FileSystem.makeSymbolicLink(path + "/a", to: outside)
        for parent in ["a", "a/b"] {
            await expectRefusal(of: name(parent + "/secret"))
            let error = await failure {
                _ = try await transport.create(name(parent + "/x"), Data())
            }
            #expect(error?.code == .invalidFormat)
            #expect(
                await failure { _ = try await transport.fileNames(in: name(parent)) }?.code
                    == .invalidFormat)
        }
        try await transport.removeLeftovers(olderThan: .zero)
        #expect(
            try FileSystem.contentsOfTree(outside).map(\.path) == ["b", "b/secret", "secret"])
    }

    @Test func pipesFoldersAndDevicesAreNotRead() async throws {
        #expect(mkfifo(path + "/pipe", 0o600) == 0)
        try FileSystem.makeFolder(path + "/folder")
        for path in ["pipe", "folder"] { await expectRefusal(of: name(path)) }
        try write("text", at: "file")
        let error = await failure {
            _ = try await transport.contents(of: name("file/a/b"), maximumSize: 10)
        }
        #expect(error?.code == .invalidFormat)
        #expect(error?.subject.file == path + "/file")
        #expect(
            await failure { _ = try await transport.create(name("file/a/b"), Data()) }?.code
                == .invalidFormat)
        #expect(
            await failure { _ = try await transport.fileNames(in: name("file")) }?.code
                == .invalidFormat)
        #expect(try await transport.fileNames(in: .top) == ["file"])
    }

    /// Reading, creating and removing is an error that names the file.
    private func expectRefusal(of file: SyncFileName) async {
        let place = FileSystem.path(path, file.path)
        for operation in ["read", "create", "remove"] {
            let error = await failure {
                switch operation {
                case "read": _ = try await transport.contents(of: file, maximumSize: 10)
                case "create": try await transport.create(file, Data([1]))
                default: try await transport.remove(file)
                }
            }
            #expect(
                error?.code == .invalidFormat, "\(operation) \(file): \(String(describing: error))")
            #expect(error.map { place.hasPrefix($0.subject.file ?? "?") } == true, "\(operation)")
        }
    }

    @Test func aFileThatIsTooLargeIsNotRead() async throws {
        let file = try OpenFile.open(path + "/a", for: .creating)
        try file.setSize(1 << 40)
        let error = await failure {
            _ = try await transport.contents(of: name("a"), maximumSize: 1 << 20)
        }
        #expect(error?.code == .invalidFormat)
        #expect(error?.subject.file == path + "/a")
    }

    @Test func theTopFolderIsNoFile() async throws {
        #expect(
            await failure { _ = try await transport.contents(of: .top, maximumSize: 1) }?.code
                == .invalidValue)
        #expect(await failure { try await transport.create(.top, Data()) }?.code == .invalidValue)
        #expect(await failure { try await transport.remove(.top) }?.code == .invalidValue)
    }

    @Test func filesOfSyncToolsAreNotListed() async throws {
        for name in SyncFileNameTests.toolNames where name != ".stversions" {
            try write("x", at: "log/" + name)
            try write("x", at: name)
        }
        try write("x", at: ".stversions/log/a.seg")
        try await transport.create(name("log/a.seg"), Data())
        #expect(try await transport.fileNames(in: name("log")) == ["a.seg"])
        #expect(try await transport.fileNames(in: .top) == [])
        let all = try entries()
        try await transport.removeLeftovers()
        #expect(try entries() == all)
    }

    // MARK: Failing and ending in the middle

    @Test func untilAFileIsWholeOnlyItsTemporaryNameExists() async throws {
        let seen = Lock<[[String]]>([])
        let bytes = Data(repeating: 7, count: 100_000)
        let transport = try FolderTransport(folder: path) { [path] temporary, file in
            let names = try FileSystem.names(in: path + "/log")
            seen.withLock { $0.append(names) }
            #expect(try FileSystem.contents(of: temporary.path) == bytes)
            throw FileSystem.failure("rename to", file.path, errno: EIO)
        }
        let error = await failure { try await transport.create(name("log/a"), bytes) }
        #expect(error?.code == .inputOutput)
        #expect(error?.subject.file == path + "/log/a")
        let names = try #require(seen.withLock { $0 }.first)
        #expect(names.count == 1)
        #expect(
            names.allSatisfy {
                $0.hasPrefix(".tmp-") && UUID(uuidString: String($0.dropFirst(5))) != nil
            })
        #expect(try entries() == ["log"])
        #expect(try await self.transport.create(name("log/a"), bytes))
    }

    @Test func aFileThatAnotherCreatesMeanwhileStays() async throws {
        let transport = try FolderTransport(folder: path) { temporary, file in
            try FileSystem.writeNewFile(Data("other".utf8), at: file.path)
            return try FileSystem.renameExclusively(temporary, file)
        }
        #expect(try await !transport.create(name("a"), Data("own".utf8)))
        #expect(try await transport.contents(of: name("a"), maximumSize: 10) == Data("other".utf8))
        let reserving = try FolderTransport(folder: path) { _, file in
            try FileSystem.makeSymbolicLink(file.path, to: "a")
            return false
        }
        let error = await failure { try await reserving.create(name("b"), Data("own".utf8)) }
        #expect(error?.code == .invalidFormat)
        #expect(try await transport.contents(of: name("a"), maximumSize: 10) == Data("other".utf8))
        #expect(try entries() == ["a", "b"])
    }

    @Test func leftoversAreRemovedWhenTheyAreOld() async throws {
        let leftover = ".tmp-" + UUID().uuidString.lowercased()
        for folder in ["", "log/", "log/peer/", "log/peer/x/", ".hidden/"] {
            try write("x", at: folder + leftover)
            try write("x", at: folder + ".tmp-other")
            try write("x", at: folder + "file")
        }
        let all = try entries()
        try await transport.removeLeftovers()
        try await transport.removeLeftovers(olderThan: .seconds(3600))
        #expect(try entries() == all)
        try await transport.removeLeftovers(olderThan: .zero)
        #expect(
            try entries() == all.filter { !$0.hasSuffix(leftover) || $0.hasPrefix(".hidden") })
        let readOnly = try FolderTransport(folder: path, isReadOnly: true)
        #expect(await failure { try await readOnly.removeLeftovers() }?.code == .readOnly)
    }

    @Test func forReadingOnlyNothingIsChanged() async throws {
        try await transport.create(name("log/a"), Data([1]))
        let readOnly = try FolderTransport(folder: path, isReadOnly: true)
        #expect(await failure { try await readOnly.create(name("b"), Data()) }?.code == .readOnly)
        #expect(
            await failure { try await readOnly.create(name("log/a"), Data()) }?.code == .readOnly)
        #expect(await failure { try await readOnly.remove(name("log/a")) }?.code == .readOnly)
        #expect(try await readOnly.contents(of: name("log/a"), maximumSize: 1) == Data([1]))
        #expect(try await readOnly.fileNames(in: name("log")) == ["a"])
        #expect(try entries() == ["log", "log/a"])
    }

    @Test(.smallDisk) func aFullDiskLeavesNothing() async throws {
        let disk = try #require(SmallDisk(megabytes: 1))
        defer { disk.unmount() }
        let transport = try FolderTransport(folder: disk.folder)
        let bytes = Data(repeating: 1, count: 200_000)
        try await transport.create(name("log/a"), bytes)
        try disk.fill(disk.path("filler"), leaving: 50_000)
        let error = await failure { try await transport.create(name("log/b"), bytes) }
        #expect(error?.code == .outOfSpace)
        #expect(error?.subject.file == disk.path("log/b"))
        #expect(try FileSystem.names(in: disk.path("log")) == ["a"])
        #expect(try await transport.contents(of: name("log/a"), maximumSize: 1 << 20) == bytes)
        try FileSystem.removeFile(disk.path("filler"))
        #expect(try await transport.create(name("log/b"), bytes))
    }

    @Test(.smallDisk) func aReadOnlyDiskCanBeRead() async throws {
        let disk = try #require(SmallDisk(megabytes: 1))
        defer { disk.unmount() }
        let transport = try FolderTransport(folder: disk.folder)
        try await transport.create(name("log/a"), Data([1]))
        disk.makeReadOnly()
        #expect(
            await failure { try await transport.create(name("log/b"), Data()) }?.code == .readOnly)
        #expect(
            await failure { try await transport.create(name("new/b"), Data()) }?.code == .readOnly)
        #expect(await failure { try await transport.remove(name("log/a")) }?.code == .readOnly)
        #expect(try await transport.contents(of: name("log/a"), maximumSize: 1) == Data([1]))
        #expect(try await transport.fileNames(in: name("log")) == ["a"])
    }

    // MARK: Missing folders

    /// All calls throw `storeUnavailable`.
    private func expectUnavailable(_ transport: FolderTransport, saying sentence: String) async {
        for operation in ["list", "read", "create", "remove", "clean"] {
            let error = await failure {
                switch operation {
                case "list": _ = try await transport.fileNames(in: name("log"))
                case "read": _ = try await transport.contents(of: name("log/a"), maximumSize: 10)
                case "create": try await transport.create(name("log/b"), Data())
                case "remove": try await transport.remove(name("log/a"))
                default: try await transport.removeLeftovers()
                }
            }
            #expect(error?.code == .storeUnavailable, "\(operation)")
            #expect(error?.message.contains(sentence) == true, "\(operation)")
            #expect(error?.subject.file == transport.path)
        }
    }

    @Test func aMissingFolderIsUnavailableUntilItIsBack() async throws {
        try await transport.create(name("log/a"), Data([1]))
        try FileSystem.rename(path, to: folder.path("away"))
        await expectUnavailable(transport, saying: "is missing")
        #expect(!FileSystem.exists(path))
        try FileSystem.writeNewFile(Data(), at: path)
        await expectUnavailable(transport, saying: "is missing")
        try FileSystem.removeFile(path)
        try FileSystem.rename(folder.path("away"), to: path)
        #expect(try await transport.contents(of: name("log/a"), maximumSize: 10) == Data([1]))
        #expect(try await transport.create(name("log/b"), Data()))
    }

    @Test func anotherFolderInItsPlaceIsUnavailable() async throws {
        let bytes = Data("container 1".utf8)
        try await transport.create(name("container.json"), bytes)
        try await transport.create(name("log/a"), Data([1]))
        try FileSystem.rename(path, to: folder.path("away"))
        // An empty mount point, and what somebody else has there.
        try FileSystem.makeFolder(path)
        await expectUnavailable(transport, saying: "is not the shared folder that was opened")
        #expect(try entries() == [])
        try write("container 2", at: "container.json")
        await expectUnavailable(transport, saying: "is not the shared folder that was opened")
        #expect(try entries() == ["container.json"])
        try FileSystem.removeTree(path)
        try FileSystem.rename(folder.path("away"), to: path)
        #expect(try await transport.create(name("log/b"), Data()))
    }

    /// As one that is mounted again with other numbers.
    @Test func aFolderWithOtherNumbersIsKnownByAFileInIt() async throws {
        try write("container 1", at: "x/container.json")
        #expect(try await transport.contents(of: name("x/container.json"), maximumSize: 100) != nil)
        try await transport.create(name("log/a"), Data([1]))
        try FileSystem.copyTree(path, to: folder.path("copy"))
        try FileSystem.rename(path, to: folder.path("away"))
        try FileSystem.rename(folder.path("copy"), to: path)
        #expect(try await transport.create(name("log/b"), Data([2])))
        #expect(try entries() == ["log", "log/a", "log/b", "x", "x/container.json"])
        // Without that file it is unknown.
        try await transport.remove(name("x/container.json"))
        try FileSystem.removeTree(path)
        try FileSystem.rename(folder.path("away"), to: path)
        await expectUnavailable(transport, saying: "is not the shared folder that was opened")
    }

    @Test(.smallDisk) func aDiskCanBeUnmountedAndItsMountPointIsNotTheFolder() async throws {
        let disk = try #require(SmallDisk(megabytes: 1))
        defer { disk.unmount() }
        let events = FileEvents(tickInterval: .milliseconds(20))
        let transport = try FolderTransport(folder: disk.folder)
        let changes = Changes(transport, events)
        #expect(await changes.next())
        try await transport.create(name("container.json"), Data("container 1".utf8))
        #expect(try await transport.fileNames(in: name("log")) == [])
        #expect(disk.unmount())
        await expectUnavailable(transport, saying: "is not the shared folder that was opened")
        #expect(try FileSystem.names(in: disk.folder) == [])
        // Mounted again, perhaps with another device number.
        #expect(disk.mount())
        try FileSystem.writeNewFile(Data("container 1".utf8), at: disk.path("container.json"))
        await changes.next { (try? await transport.fileNames(in: .top)) == ["container.json"] }
        #expect(disk.unmount())
        await changes.cancel()
    }

    // MARK: Changes

    @Test func changesOfOthersAreReported() async throws {
        let events = FileEvents()
        let changes = Changes(transport, events)
        #expect(await changes.next())
        #expect(events.watchCount == 1)
        let other = try FolderTransport(folder: path)
        try await other.create(name("a"), Data())
        await changes.next { try await transport.fileNames(in: .top) == ["a"] }
        // Folders that come later.
        let log = name("log/peer")
        #expect(try await transport.fileNames(in: log) == [])
        try await other.create(name("log/peer/a"), Data())
        await changes.next { try await transport.fileNames(in: log) == ["a"] }
        // The folder is listed before it is watched.
        while events.watchCount < 3 { await Task.yield() }
        try await other.create(name("log/peer/b"), Data())
        await changes.next { try await transport.fileNames(in: log) == ["a", "b"] }
        try FileSystem.rename(path + "/log", to: path + "/old")
        try await other.create(name("log/peer/c"), Data())
        await changes.next { try await transport.fileNames(in: log) == ["c"] }
        try await other.create(name("log/peer/d"), Data())
        await changes.next { try await transport.fileNames(in: log) == ["c", "d"] }
        await changes.cancel()
        while events.watchCount > 0 { await Task.yield() }
    }

    @Test func aFolderThatIsCreatedInIsWatched() async throws {
        try await transport.create(name("log/a"), Data())
        let events = FileEvents()
        let changes = Changes(transport, events)
        #expect(await changes.next())
        #expect(events.watchCount == 2)
        try await transport.create(name("x/y/a"), Data())
        #expect(await changes.next())
        #expect(events.watchCount == 4)
        await changes.cancel()
    }

    @Test(arguments: [0, 1])
    func withoutEnoughKernelEventsThereAreElementsRegularly(limit: Int) async throws {
        let events = FileEvents(tickInterval: .milliseconds(20), watchLimit: limit)
        try FileSystem.makeFolder(path + "/log")
        #expect(try await transport.fileNames(in: name("log")) == [])
        let changes = Changes(transport, events)
        for _ in 0..<3 { #expect(await changes.next()) }
        try write("x", at: "log/a")
        await changes.next { try await transport.fileNames(in: name("log")) == ["a"] }
        await changes.cancel()
    }

    @Test func theReturnOfTheFolderIsReported() async throws {
        let events = FileEvents(tickInterval: .milliseconds(20))
        let changes = Changes(transport, events)
        #expect(await changes.next())
        try FileSystem.rename(path, to: folder.path("away"))
        await changes.next {
            await failure { _ = try await transport.fileNames(in: .top) }?.code == .storeUnavailable
        }
        try FileSystem.writeNewFile(Data(), at: folder.path("away") + "/a")
        try FileSystem.rename(folder.path("away"), to: path)
        await changes.next {
            (try? await transport.fileNames(in: .top)) == ["a"]
        }
        // The kernel reports again.
        try write("x", at: "b")
        await changes.next { try await transport.fileNames(in: .top) == ["a", "b"] }
        await changes.cancel()
    }

    @Test func lostEventsAreReported() async throws {
        let events = FileEvents()
        let changes = Changes(transport, events)
        #expect(await changes.next())
        events.simulateOverflow()
        #expect(await changes.next())
        await changes.cancel()
    }

    @Test func changesEndWithTheTransport() async throws {
        var transport: FolderTransport? = try FolderTransport(folder: path)
        let events = FileEvents()
        let stream = try #require(transport).changes(events: events)
        transport = nil
        for await _ in stream {}
        while events.watchCount > 0 { await Task.yield() }
    }
}

/// A name, which is valid.
private func name(_ path: String) -> SyncFileName {
    guard let name = SyncFileName(path) else { preconditionFailure("“\(path)” is no name.") }
    return name
}

/// The error that a body throws.
private func failure(_ body: () throws -> some Any) -> QuireError? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as? QuireError
    }
}

/// The error that a body throws.
private func failure(_ body: () async throws -> some Any) async -> QuireError? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error as? QuireError
    }
}

/// Records the changes of a transport.
private struct Changes {
    private let recorder = EventRecorder<Void>()
    private let task: Task<Void, Never>

    init(_ transport: FolderTransport, _ events: FileEvents) {
        let stream = transport.changes(events: events)
        task = Task { [recorder] in
            for await _ in stream { recorder.record(()) }
        }
    }

    /// Waits for an element.
    func next() async -> Bool { await recorder.next() != nil }

    /// Waits for an element after which something holds.
    func next(
        _ location: SourceLocation = #_sourceLocation, until holds: () async throws -> Bool
    ) async {
        do {
            while await next() {
                if try await holds() { return }
            }
            Issue.record("There is no element.", sourceLocation: location)
        } catch {
            Issue.record(error, sourceLocation: location)
        }
    }

    func cancel() async {
        task.cancel()
        await task.value
    }
}

/// Breaks the rule that files are not replaced.
private struct ReplacingTransport: SyncTransport {
    let transport: FolderTransport

    init(_ transport: FolderTransport) { self.transport = transport }

    func fileNames(in folder: SyncFileName) async throws -> [String] {
        try await transport.fileNames(in: folder)
    }

    func contents(of file: SyncFileName, maximumSize: Int) async throws -> Data? {
        try await transport.contents(of: file, maximumSize: maximumSize)
    }

    func create(_ file: SyncFileName, _ contents: Data) async throws -> Bool {
        try await transport.remove(file)
        return try await transport.create(file, contents)
    }

    func remove(_ file: SyncFileName) async throws { try await transport.remove(file) }

    var changes: AsyncStream<Void> { transport.changes }
}
