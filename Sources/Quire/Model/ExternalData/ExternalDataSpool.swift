import Foundation
import Synchronization

/// Writes the bytes of a value that is to be saved into a file, as they come, and finds out their digest.
///
/// The file lies where the store will have it, so that the save has nothing to copy. Until then nothing refers to it: it
/// goes when nobody holds the value any more, and if the process is killed, as a file of nobody.
final class ExternalDataSpool: Sendable {
    /// The folder for values of no store in particular.
    static var temporaryFolder: String { FileManager.default.temporaryDirectory.path }

    private let folder: String
    private let temporary: String
    private let file: OpenFile
    private let digest = RunningDigest()
    private let isFinished = Atomic(false)

    /// Begins a file in a folder, which is made if it is not there.
    init(in folder: String?) throws {
        self.folder = folder ?? Self.temporaryFolder
        try FileSystem.makeFolderDurably(self.folder)
        let path = FileSystem.path(self.folder, UUID().uuidString)
        temporary = FileSystem.temporarySibling(of: path, for: "new")
        file = try OpenFile.open(temporary, for: .creating, reportedAs: path)
        ExternalDataHolds.hold(temporary)
    }

    deinit {
        if !isFinished.load(ordering: .relaxed) {
            _ = try? FileSystem.removeFileIfPresent(temporary)
        }
        ExternalDataHolds.release(temporary)
    }

    /// Adds bytes.
    func append(_ bytes: UnsafeRawBufferPointer) throws {
        try file.write(bytes)
        digest.update(bytes)
    }

    /// Adds bytes, apart from the caller's queue.
    @concurrent func append(_ data: Data) async throws {
        try data.withUnsafeBytes { try append($0) }
    }

    /// Adds what a file holds from its position on.
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

    /// Makes the file durable, and gives the value.
    func finish() throws -> ExternalData {
        try file.synchronize()
        file.close()
        let path = FileSystem.path(folder, UUID().uuidString)
        try FileSystem.renameWithoutReplacing(temporary, to: path)
        isFinished.store(true, ordering: .relaxed)
        return ExternalData(
            .file(
                ExternalDataFile(
                    spooledAt: path, record: .init(size: digest.size, sha256: digest.sha256))))
    }

    /// As ``finish()``, apart from the caller's queue.
    @concurrent func finishApart() async throws -> ExternalData { try finish() }

    // MARK: - Files

    /// The value with the bytes of a file.
    static func value(
        contentsOf path: String, taking: ExternalData.Taking, in folder: String?
    ) throws -> ExternalData {
        if taking == .moving, let moved = try moved(path, to: folder ?? temporaryFolder) {
            return moved
        }
        let source = try OpenFile.open(path, for: .reading)
        defer { source.close() }
        let information = try source.information()
        if information.kind == .folder { throw FileSystem.failure("read", path, errno: EISDIR) }
        let spool = try ExternalDataSpool(in: folder)
        if information.kind == .regular, information.size > 0, spool.file.takeBlocks(of: source) {
            let written = try spool.file.reopened()
            let block = UnsafeMutableRawBufferPointer.allocate(
                byteCount: ExternalData.blockSize, alignment: 16)
            defer { block.deallocate() }
            while case let count = try written.read(into: block), count > 0 {
                if Task.isCancelled { throw ExternalData.cancelled() }
                spool.digest.update(UnsafeRawBufferPointer(rebasing: block[..<count]))
            }
        } else {
            try spool.append(contentsOf: source)
        }
        let value = try spool.finish()
        if taking == .moving, let file = value.file { file.willRemove(path) }
        return value
    }

    /// Gives a file a second name in the folder of values; `nil` if the file system cannot, or it is no plain file.
    private static func moved(_ path: String, to folder: String) throws -> ExternalData? {
        guard try FileSystem.informationWithoutFollowing(at: path)?.kind == .regular else {
            return nil
        }
        try FileSystem.makeFolderDurably(folder)
        let name = FileSystem.path(folder, UUID().uuidString)
        do { try FileSystem.link(path, to: name) } catch { return nil }
        do {
            let file = try OpenFile.open(name, for: .reading)
            let digest = RunningDigest()
            try ExternalData(
                .file(ExternalDataFile(storedAt: name, records: nil)), descriptor: file
            ).forEachBlock(digest.update)
            try file.synchronize()
            return ExternalData(
                .file(
                    ExternalDataFile(
                        spooledAt: name,
                        record: .init(size: digest.size, sha256: digest.sha256), movedFrom: path)))
        } catch {
            _ = try? FileSystem.removeFileIfPresent(name)
            throw error
        }
    }

    /// As ``value(contentsOf:taking:in:)``, apart from the caller's queue.
    @concurrent static func valueApart(
        contentsOf path: String, taking: ExternalData.Taking, in folder: String?
    ) async throws -> ExternalData {
        try value(contentsOf: path, taking: taking, in: folder)
    }

    /// The value with the bytes that come one after another.
    static func value<Chunks: AsyncSequence>(
        of chunks: Chunks, in folder: String?
    ) async throws -> ExternalData where Chunks.Element: DataProtocol {
        let spool = try ExternalDataSpool(in: folder)
        for try await chunk in chunks {
            if Task.isCancelled { throw ExternalData.cancelled() }
            try await spool.append(Data(chunk))
        }
        // A sequence may end because the task was cancelled.
        if Task.isCancelled { throw ExternalData.cancelled() }
        return try await spool.finishApart()
    }

    /// The value with the bytes that a handle gives from its position on.
    static func value(readingFrom handle: FileHandle, in folder: String?) throws -> ExternalData {
        let spool = try ExternalDataSpool(in: folder)
        let source = try OpenFile.duplicate(of: handle.fileDescriptor)
        defer { source.close() }
        try spool.append(contentsOf: source)
        return try spool.finish()
    }
}

extension ExternalData {
    /// What becomes of the file that a value is made of.
    public enum Taking: Sendable {
        /// It stays. Its blocks are shared where the file system can; else its bytes are copied.
        case copying
        /// It becomes the store's: it gets a name there, without being copied if it is on the same file system, and loses
        /// its own when the value has been saved. Nobody may change it from now on.
        case moving
    }
}
