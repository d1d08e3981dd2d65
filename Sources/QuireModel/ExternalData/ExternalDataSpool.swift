internal import Crypto
package import Foundation
internal import QuireProtection
internal import QuireSystem
import Synchronization

/// Streams the bytes of an unsaved value into a file and computes their digest.
///
/// The file is in the store's folder, so that the save has nothing to copy. Until then it is unreferenced: it is removed
/// with the last instance of the value or, if the process is killed, as an orphan.
package final class ExternalDataSpool: Sendable {
    private let folder: ExternalDataFolder
    /// The location of the folder when the file was created.
    private let home: ExternalDataFolder.Location
    private let temporary: String
    private let file: OpenFile
    private let writer: ContentFileWriter
    private let digest = RunningDigest()
    private let isFinished = Atomic(false)

    /// Creates a file in a store's folder, which is created if missing.
    init(in folder: ExternalDataFolder?) throws {
        self.folder = folder ?? .temporary()
        home = self.folder.location
        try FileSystem.makeFolderDurably(home.folder, beneath: home.root)
        (file, temporary) = try OpenFile.createTemporary(
            beside: home.path(ofFileNamed: UUID().uuidString), beneath: home.root)
        writer = try ContentFileWriter(file, sealing: home.classKey)
        ExternalDataFolder.retain(FileSystem.name(of: temporary))
    }

    deinit {
        if !isFinished.load(ordering: .relaxed) {
            _ = try? FileSystem.removeFileIfPresent(temporary, beneath: home.root)
        }
        ExternalDataFolder.release(FileSystem.name(of: temporary))
    }

    /// Appends bytes.
    func append(_ bytes: UnsafeRawBufferPointer) throws {
        try writer.write(bytes)
        digest.update(bytes)
    }

    /// Appends a file's content from its current position.
    func append(contentsOf source: OpenFile) throws {
        let block = UnsafeMutableRawBufferPointer.allocate(
            byteCount: ExternalData.blockSize, alignment: 16)
        defer { block.deallocate() }
        while true {
            if Task.isCancelled { throw ExternalData.cancelled() }
            let count = try source.read(into: block)
            if count == 0 { return }
            try append(UnsafeRawBufferPointer(rebasing: block[..<count]))
        }
    }

    /// Makes the file durable, and returns the value.
    func finish() throws -> ExternalData {
        try writer.finish()
        let name = UUID().uuidString
        // The store, and the file with it, may have been moved meanwhile.
        let present = folder.location
        let moved = present.path(ofFileNamed: FileSystem.name(of: temporary))
        let isMoved =
            present.folder != home.folder && FileSystem.exists(moved, beneath: present.root)
        let place = isMoved ? present : home
        try FileSystem.renameWithoutReplacing(
            isMoved ? moved : temporary, to: place.path(ofFileNamed: name), beneath: place.root)
        file.close()
        isFinished.store(true, ordering: .relaxed)
        return ExternalData(
            .file(
                ExternalDataFile(
                    spooled: name,
                    in: place.folder == present.folder ? folder : ExternalDataFolder(home),
                    record: digest.record)))
    }

    // MARK: - Files

    /// A value with the bytes of a file.
    package static func value(
        contentsOf path: String, taking: ExternalData.Taking, in folder: ExternalDataFolder?
    ) throws -> ExternalData {
        let folder = folder ?? .temporary()
        let isSealed = folder.location.classKey != nil
        if taking == .moving, !isSealed, let moved = try moved(path, to: folder) {
            return moved
        }
        let source = try OpenFile.open(path, for: .reading)
        defer { source.close() }
        let information = try source.information()
        if information.kind == .folder { throw FileSystem.failure("read", path, errno: EISDIR) }
        let spool = try ExternalDataSpool(in: folder)
        if !isSealed, information.kind == .regular, information.size > 0,
            spool.file.takeBlocks(of: source)
        {
            try spool.digest.update(contentsOf: spool.file)
        } else {
            try spool.append(contentsOf: source)
        }
        let value = try spool.finish()
        if taking == .moving, let file = value.file { file.willRemove(path) }
        return value
    }

    /// Hard-links a file into the folder of values; `nil` if the file system cannot, or it is not a regular file.
    private static func moved(
        _ path: String, to folder: ExternalDataFolder
    ) throws -> ExternalData? {
        guard try FileSystem.informationWithoutFollowing(at: path)?.kind == .regular else {
            return nil
        }
        let place = folder.location
        try FileSystem.makeFolderDurably(place.folder, beneath: place.root)
        let name = UUID().uuidString
        let link = place.path(ofFileNamed: name)
        do {
            try FileSystem.link(
                FileLocation(path, beneath: nil), FileLocation(link, beneath: place.root))
        } catch { return nil }
        return try FileSystem.removeOnFailure(link, beneath: place.root) {
            let file = try OpenFile.open(link, beneath: place.root, for: .reading)
            let digest = RunningDigest()
            try digest.update(contentsOf: file)
            try file.synchronize()
            return ExternalData(
                .file(
                    ExternalDataFile(
                        spooled: name, in: folder, record: digest.record, movedFrom: path)))
        }
    }

    /// A value with the bytes of an async sequence.
    package static func value<Chunks: AsyncSequence>(
        of chunks: Chunks, in folder: ExternalDataFolder?
    ) async throws -> ExternalData where Chunks.Element: DataProtocol {
        let spool = try ExternalDataSpool(in: folder)
        for try await chunk in chunks {
            if Task.isCancelled { throw ExternalData.cancelled() }
            let data = Data(chunk)
            try await ExternalData.apart { try data.withUnsafeBytes(spool.append) }.get()
        }
        // A sequence may end because the task was cancelled.
        if Task.isCancelled { throw ExternalData.cancelled() }
        return try await ExternalData.apart { try spool.finish() }.get()
    }

    /// A value with the bytes of a handle from its current position.
    package static func value(readingFrom handle: FileHandle, in folder: ExternalDataFolder?) throws
        -> ExternalData
    {
        let spool = try ExternalDataSpool(in: folder)
        let source = try OpenFile.duplicate(of: handle.fileDescriptor)
        defer { source.close() }
        try spool.append(contentsOf: source)
        return try spool.finish()
    }
}

extension ExternalData {
    /// Runs a closure off the caller's queue.
    ///
    /// - Returns: The result, or the error. It is returned because of a compiler bug: if a function on another executor throws
    ///   to a `nonisolated(nonsending)` one, optimized code does not return to the caller's executor, and the error is
    ///   caught on a wrong thread. Returning is not affected.
    @concurrent package static func apart<Value: Sendable>(
        _ body: @Sendable () throws -> Value
    ) async -> Result<Value, any Error> { Result(catching: body) }

    /// The treatment of the source file of a value.
    public enum Taking: Sendable {
        /// The source stays. Its blocks are cloned if the file system can; otherwise its bytes are copied.
        case copying
        /// The store takes it over: it is linked there, without being copied if it is on the same file system, and its old
        /// name is removed when the value has been saved. It must not be changed from now on.
        case moving
    }
}

// MARK: - Digests

/// An incremental SHA-256.
package final class RunningDigest: Sendable {
    private struct State {
        var hash = SHA256()
        var size = 0
    }

    private let state = Lock(State())

    package init() {}

    package func update(_ bytes: UnsafeRawBufferPointer) {
        state.withLock {
            $0.hash.update(bufferPointer: bytes)
            $0.size += bytes.count
        }
    }

    /// The number of bytes written.
    package var size: Int { state.withLock { $0.size } }

    /// The digest of the bytes so far.
    package var sha256: Data { state.withLock { Data($0.hash.finalize()) } }

    /// The number and digest of the bytes so far.
    package var record: ExternalDataRecord { ExternalDataRecord(size: size, sha256: sha256) }

    /// Adds the content of a file.
    fileprivate func update(contentsOf file: OpenFile) throws {
        try ContentFile(file, unsealing: nil).forEachBlock(ofSize: ExternalData.blockSize) {
            if Task.isCancelled { throw ExternalData.cancelled() }
            update($0)
        }
    }

    /// The digest of bytes in memory.
    package static func sha256(of data: Data) -> Data { Data(SHA256.hash(data: data)) }
}
