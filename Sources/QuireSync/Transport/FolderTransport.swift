import Dispatch
public import Foundation
import QuireSystem

/// A folder that another program or a person carries between machines: a sync tool, a network file system, a removable disk.
///
/// ```swift
/// let transport = try FolderTransport(folder: "/home/ada/Dropbox/Notes.quiresync")
/// for await _ in transport.changes { try await look(transport) }
/// ```
///
/// A file is written under a temporary name in its folder, synchronized, and then renamed without replacing an existing file,
/// even if several processes create it at once. Where the file system has no operation for that, an empty file reserves the name;
/// a process that is killed at that moment leaves it behind.
///
/// The folder is not trusted: symbolic links in it are not followed, and only files and folders are opened. It is not held open
/// between calls, so it can be unmounted. While it is missing, or another folder is in its place, calls throw `storeUnavailable`;
/// they succeed again when it is back. A folder that is mounted again is recognized by its device and inode numbers, or by the
/// first small file that was read or created.
///
/// Calls do their work on a separate queue, one after another.
public final class FolderTransport: SyncTransport {
    /// The folder's path.
    public let path: String
    /// Whether files are neither created nor removed.
    public let isReadOnly: Bool

    /// Gives a file another name in its folder, or says that the file system cannot do that without replacing.
    typealias RenameExclusively =
        @Sendable (_ temporary: FileLocation, _ file: FileLocation) throws -> Bool

    private struct Watches {
        /// The folders that were listed or created in, with those above them.
        var folders: Set<SyncFileName> = [.top]
        var active: [Int: FolderWatch] = [:]
        var lastNumber = 0
    }

    private let folder: SharedFolder
    private let renameExclusively: RenameExclusively
    private let queue = DispatchQueue(label: "quire.sync.folder")
    private let watches = Lock(Watches())

    /// Opens a folder. Accesses the file system on the calling thread.
    ///
    /// - Parameters:
    ///   - path: The absolute path of the folder. It may be a symbolic link.
    ///   - isReadOnly: Whether creating and removing files is an error.
    ///   - creates: Whether the folder is created if it does not exist. Its parent folder must exist.
    /// - Throws: `QuireError` with code `notFound` if the folder does not exist, `invalidValue` if the path is relative,
    ///   `readOnly` if the folder may not be read, or an error of creating it.
    public convenience init(
        folder path: String, isReadOnly: Bool = false, creates: Bool = false
    ) throws {
        try self.init(
            folder: path, isReadOnly: isReadOnly, creates: creates,
            renamingBy: { try FileSystem.renameExclusively($0, $1) })
    }

    /// For tests of file systems that lack operations.
    init(
        folder path: String, isReadOnly: Bool = false, creates: Bool = false,
        renamingBy renameExclusively: @escaping RenameExclusively
    ) throws {
        guard path.hasPrefix("/") else {
            throw QuireError(
                .invalidValue,
                "“\(path)” is not an absolute path; specify a path that begins with “/”.",
                file: path)
        }
        let path = FileSystem.absolute(path)
        if creates, try FileSystem.information(at: path) == nil {
            do {
                try FileSystem.makeFolder(path)
            } catch let error as QuireError where error.code == .alreadyExists {
                // Another process has just made it.
            }
            try FileSystem.synchronizeFolder(containing: path)
        }
        self.path = path
        self.isReadOnly = isReadOnly
        self.renameExclusively = renameExclusively
        folder = try SharedFolder(path: path)
    }

    deinit {
        for watch in watches.withLock({ $0.active.values }) { watch.finish() }
    }

    /// Runs a body that blocks on the queue. Errors are those of ``SharedFolder/reaching(_:)``.
    private func perform<Result: Sendable>(
        _ body: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        try await withCheckedContinuation { continuation in
            queue.async { [folder] in
                continuation.resume(returning: Swift.Result { try folder.reaching(body) })
            }
        }.get()
    }

    // MARK: Reading

    /// Lists the regular files in a folder, and watches the folder from now on.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` if the path is not a folder, `readOnly` if it may not be read,
    ///   `inputOutput`, or `storeUnavailable`.
    /// - Complexity: A system call for each file.
    public func fileNames(in folder: SyncFileName) async throws -> [String] {
        try await perform { [self] in
            let top = try self.folder.open()
            // Before the folder is listed, so that nothing is missed between.
            watch(folder)
            guard let opened = try SharedFolder.open(folder, in: top) else { return [] }
            return try FileSystem.names(in: opened).filter { name in
                try SyncFileName.isValidPart(name)
                    && FileSystem.information(at: name, in: opened)?.kind == .regular
            }
        }
    }

    /// Reads a file.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` if it is larger than the maximum, is not a file, or is beneath something
    ///   that is not a folder, `readOnly` if it may not be read, `inputOutput`, or `storeUnavailable`.
    public func contents(of file: SyncFileName, maximumSize: Int) async throws -> Data? {
        try await perform { [folder] in
            try Self.requireFile(file)
            let top = try folder.open()
            guard let parent = try SharedFolder.open(file.folder, in: top) else { return nil }
            let opened: OpenFile
            do {
                opened = try OpenFile.open(file.lastPart, in: parent, for: .reading)
            } catch let error as QuireError where error.code == .notFound {
                return nil
            }
            let contents = try opened.readToEnd(limit: maximumSize)
            folder.keepWitness(file, contents)
            return contents
        }
    }

    // MARK: Writing

    /// Creates a file, and the folders that contain it.
    ///
    /// - Returns: Whether it was created. `false` if the file already exists; another process may have created it just now.
    /// - Throws: `QuireError` with code `readOnly`, `outOfSpace`, `invalidFormat` if its place, or that of a folder above it, is
    ///   taken by something else, `inputOutput`, or `storeUnavailable`. Then neither the file nor its temporary file exists.
    @discardableResult
    public func create(_ file: SyncFileName, _ contents: Data) async throws -> Bool {
        try await perform { [self] in
            try requireWritable()
            try Self.requireFile(file)
            let top = try folder.open()
            let parent = try folder.openForCreating(file.folder, in: top)
            watch(file.folder)
            let place = try FileLocation(file.lastPart, in: parent)
            let isNew = try !Self.hasFile(at: place) && write(contents, to: place, in: parent)
            do {
                // Also if another process has created it: it may not have got so far yet.
                try parent.synchronize()
            } catch {
                // It may not survive power loss. Another attempt creates it anew.
                if isNew { try? FileSystem.removeFile(place) }
                throw error
            }
            if isNew { folder.keepWitness(file, contents) }
            return isNew
        }
    }

    /// - Returns: `false` if another process has created the file meanwhile.
    private func write(
        _ contents: Data, to place: FileLocation, in parent: OpenFile
    ) throws -> Bool {
        let temporary = try FileLocation(
            Self.temporaryPrefix + UUID().uuidString.lowercased(), in: parent)
        do {
            try FileSystem.building(place.path, as: temporary.path) {
                let opened = try OpenFile.open(temporary.name, in: parent, for: .creating)
                try opened.write(contents)
                try opened.synchronize()
                opened.close()
                if try renameExclusively(temporary, place) { return }
                // No other process can create it now, nor see a part of it.
                _ = try OpenFile.open(place.name, in: parent, for: .creating)
                do {
                    try FileSystem.rename(temporary, place)
                } catch {
                    try FileSystem.removeFile(place)
                    throw error
                }
            }
            return true
        } catch {
            try? FileSystem.removeFile(temporary)
            if let error = error as? QuireError, error.code == .alreadyExists,
                try Self.hasFile(at: place)
            {
                return false
            }
            throw error
        }
    }

    /// - Throws: ``QuireError`` with code `invalidFormat` if there is something else than a file.
    private static func hasFile(at place: FileLocation) throws -> Bool {
        guard let found = try place.information() else { return false }
        try found.require(.regular, at: place.path)
        return true
    }

    /// Removes a file. After a power loss it may exist again.
    ///
    /// - Throws: `QuireError` with code `readOnly`, `invalidFormat` if it is not a file, `inputOutput`, or `storeUnavailable`.
    public func remove(_ file: SyncFileName) async throws {
        try await perform { [self] in
            try requireWritable()
            try Self.requireFile(file)
            let top = try folder.open()
            folder.dropWitness(file)
            guard let parent = try SharedFolder.open(file.folder, in: top) else { return }
            let place = try FileLocation(file.lastPart, in: parent)
            guard try Self.hasFile(at: place) else { return }
            do {
                try FileSystem.removeFile(place)
            } catch let error as QuireError where error.code == .notFound {
                // Another process has removed it meanwhile.
            }
        }
    }

    private func requireWritable() throws {
        if isReadOnly { throw QuireError.readOnly(path) }
    }

    private static func requireFile(_ file: SyncFileName) throws {
        if file != .top { return }
        throw QuireError(.invalidValue, "The top folder is not a file; specify a name in it.")
    }

    // MARK: Leftovers

    private static let temporaryPrefix = ".tmp-"

    /// Removes temporary files left behind by writers that were killed, on any machine.
    ///
    /// - Parameter age: The minimum age of the files, by the file system's clock. It must exceed the time that a writer needs for
    ///   a file, and a sync tool to carry it.
    /// - Throws: `QuireError` with code `readOnly`, `inputOutput` or `storeUnavailable`.
    public func removeLeftovers(olderThan age: Duration = .seconds(86_400)) async throws {
        try await perform { [self] in
            try requireWritable()
            try Self.removeLeftovers(in: folder.open(), olderThan: age, depth: 0)
        }
    }

    private static func removeLeftovers(
        in folder: OpenFile, olderThan age: Duration, depth: Int
    ) throws {
        let names = try FileSystem.names(in: folder)
        let leftovers = names.filter {
            $0.hasPrefix(temporaryPrefix)
                && UUID(uuidString: String($0.dropFirst(temporaryPrefix.count))) != nil
        }
        if !leftovers.isEmpty {
            let latest = try currentTime(in: folder) - age.components.seconds
            for name in leftovers {
                let place = try FileLocation(name, in: folder)
                guard let found = try place.information(), found.kind == .regular,
                    max(found.modificationTime, found.statusChangeTime) <= latest
                else { continue }
                do {
                    try FileSystem.removeFile(place)
                } catch let error as QuireError where error.code == .notFound {
                    // Its writer has finished, or another process has removed it.
                }
            }
        }
        guard depth < SyncFileName.maximumPartCount - 1 else { return }
        for name in names where SyncFileName.isValidPart(name) {
            guard try FileSystem.information(at: name, in: folder)?.kind == .folder else {
                continue
            }
            let opened: OpenFile
            do {
                opened = try OpenFile.open(name, in: folder, for: .folder)
            } catch let error as QuireError where error.code == .notFound {
                continue
            }
            try removeLeftovers(in: opened, olderThan: age, depth: depth + 1)
        }
    }

    /// The present time in seconds since 1970, by the clock of a folder's file system: another machine's may be wrong.
    private static func currentTime(in folder: OpenFile) throws -> Int64 {
        let name = temporaryPrefix + UUID().uuidString.lowercased()
        let file = try OpenFile.open(name, in: folder, for: .creating)
        defer { try? FileSystem.removeFile(FileLocation(name, in: folder)) }
        return try file.information().statusChangeTime
    }

    // MARK: Changes

    /// Yields an element once watching has begun, and whenever files may have been created or removed, including by this
    /// transport; several changes at once are one element. Watches the folders that were listed or created in.
    ///
    /// Where the kernel does not report changes, because other machines write to the file system, or while the folder is missing,
    /// an element is yielded every two seconds as long as the folder can be reached. One is also yielded when the folder is seen
    /// to disappear or return.
    ///
    /// Watching ends when the sequence is cancelled or freed, and the sequence when the transport is.
    public var changes: AsyncStream<Void> { changes(events: .shared) }

    /// ``changes``, with other events in tests.
    func changes(events: FileEvents) -> AsyncStream<Void> {
        let (stream, consumer) = AsyncStream.makeStream(
            of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let watch = FolderWatch(folder, queue: queue, events: events, consumer: consumer)
        let (number, folders) = watches.withLock { watches in
            watches.lastNumber += 1
            watches.active[watches.lastNumber] = watch
            return (watches.lastNumber, watches.folders)
        }
        consumer.onTermination = { [weak self, weak watch] _ in
            watch?.cancel()
            // Freed after the lock is given back.
            _ = self?.watches.withLock { $0.active.removeValue(forKey: number) }
        }
        watch.add(folders)
        return stream
    }

    /// Watches a folder, and those above it, from now on.
    private func watch(_ folder: SyncFileName) {
        let (new, active) = watches.withLock { watches -> (Set<SyncFileName>, [FolderWatch]) in
            var new: Set<SyncFileName> = []
            var next = folder
            while watches.folders.insert(next).inserted {
                new.insert(next)
                next = next.folder
            }
            return (new, Array(watches.active.values))
        }
        if new.isEmpty { return }
        for watch in active { watch.addNow(new) }
    }
}
