public import Foundation
internal import QuireProtection
internal import QuireSystem

extension ExternalData {
    /// The bytes of a value in chunks; see ``ExternalData/chunks(ofSize:)``.
    public struct Chunks: AsyncSequence, Sendable {
        /// A chunk of the value.
        public typealias Element = Data

        fileprivate let value: ExternalData
        fileprivate let size: Int

        /// Reads the chunks in order.
        public struct AsyncIterator: AsyncIteratorProtocol {
            /// The value, whose file is open after the first chunk; `nil` at the end.
            fileprivate var value: ExternalData?
            fileprivate let size: Int
            fileprivate var offset = 0
            fileprivate let digest = RunningDigest()

            fileprivate init(_ chunks: Chunks) {
                value = chunks.value
                size = chunks.size
            }

            /// The next chunk; `nil` at the end.
            ///
            /// - Throws: ``QuireError`` with code `invalidFormat` at the end, if the bytes differ from the saved ones; or as
            ///   ``ExternalData/data()``.
            public mutating func next() async throws -> Data? {
                guard var value else { return nil }
                if Task.isCancelled { throw ExternalData.cancelled() }
                if offset == 0 {
                    value = try value.opened(ownedBy: value.owner)
                    self.value = value
                }
                let chunk = try await ExternalData.apart { [value, size, offset, digest] in
                    let chunk = try value.read(size, at: offset)
                    chunk.withUnsafeBytes(digest.update)
                    return chunk
                }.get()
                if chunk.isEmpty {
                    self.value = nil
                    if let record = value.file?.record { try value.check(digest, against: record) }
                    return nil
                }
                offset += chunk.count
                return chunk
            }
        }

        /// Begins at the first byte.
        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
    }

    /// The bytes in chunks, read off the caller's queue. One chunk at a time is in memory.
    ///
    /// At the end they are verified against the saved digest, if the store has recorded one.
    ///
    /// - Parameter size: The number of bytes of each chunk but the last.
    /// - Precondition: The size is positive.
    public func chunks(ofSize size: Int = 1 << 20) -> Chunks {
        precondition(size > 0, "ExternalData.chunks requires a size of at least 1.")
        return Chunks(value: self, size: size)
    }

    /// Calls a closure with a read-only file handle at the first byte, and closes it afterwards.
    ///
    /// - Throws: Errors of the closure, or as ``data()``.
    public func withFileHandle<Result>(_ body: (FileHandle) throws -> Result) throws -> Result {
        let file = try naming { try fileAtItsBeginning() }
        defer { file.close() }
        return try body(FileHandle(fileDescriptor: file.descriptor, closeOnDealloc: false))
    }

    private func fileAtItsBeginning() throws -> OpenFile {
        guard case .bytes(let data) = content else {
            let file = try openFile()
            if !file.hasPlainDescriptor { return try file.openedInClear() }
            if let reopened = try? file.file.reopened() { return reopened }
            return try self.file?.open().file ?? file.file
        }
        let file = try OpenFile.inMemory(named: "value")
        try file.write(data)
        return try file.reopened()
    }

    /// Copies the bytes durably to a file, verifying them against the saved digest on the way.
    ///
    /// The file appears under its name only when it is complete.
    ///
    /// - Parameters:
    ///   - path: The file's path.
    ///   - replacing: Whether an existing file may be replaced.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `outOfSpace` or `invalidFormat`, or as ``data()``.
    public func copy(to path: String, replacing: Bool = false) throws {
        let record = file?.record
        try write(
            to: path, replacing: replacing, digest: record.map { _ in RunningDigest() },
            checking: record)
        try FileSystem.synchronizeFolder(containing: path)
    }

    /// Copies the bytes durably to the file of a URL; see ``copy(to:replacing:)-(String,_)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or as that method.
    public func copy(to url: URL, replacing: Bool = false) throws {
        try copy(to: FileSystem.path(of: url), replacing: replacing)
    }

    /// Copies the bytes to a file, computing their digest and verifying it against a record. The file's content is durable, its
    /// name is not.
    func write(
        to path: String, beneath root: String? = nil, sealing classKey: ClassKey? = nil,
        replacing: Bool = false, digest: RunningDigest?, checking record: ExternalDataRecord?
    ) throws {
        let (target, temporary) = try OpenFile.createTemporary(beside: path, beneath: root)
        try FileSystem.removeOnFailure(temporary, beneath: root) {
            let writer = try ContentFileWriter(target, sealing: classKey)
            try forEachBlock { block in
                digest?.update(block)
                try writer.write(block)
            }
            if let digest, let record { try check(digest, against: record) }
            try writer.finish()
            if replacing {
                try FileSystem.rename(temporary, to: path, beneath: root)
            } else {
                try FileSystem.renameWithoutReplacing(temporary, to: path, beneath: root)
            }
            target.close()
        }
    }
}
