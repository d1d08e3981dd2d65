import CLinux
import Foundation

extension OpenFile {
    /// Reads bytes at an offset, leaving the position alone, so that several may read at a time.
    ///
    /// - Returns: How many; fewer than the buffer takes only at the end of the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws -> Int {
        var filled = 0
        while filled < buffer.count {
            let count = pread(
                descriptor, buffer.baseAddress.map { $0 + filled }, buffer.count - filled,
                off_t(offset) + off_t(filled))
            if count < 0 && errno == EINTR { continue }
            if count < 0 { throw FileSystem.failure("read", path) }
            if count == 0 { break }
            filled += count
        }
        return filled
    }

    /// A path that leads to the file as long as it is open, also if it has no name any more.
    package var descriptorPath: String { "/proc/self/fd/\(descriptor)" }

    /// Opens the same file once more, with a position of its own, also if it has no name any more.
    package func reopened() throws -> OpenFile {
        try OpenFile.open(descriptorPath, for: .reading, reportedAs: path)
    }

    /// Takes part in a descriptor that somebody else owns, with its position.
    package static func duplicate(of descriptor: Int32) throws -> OpenFile {
        let copy = quire_duplicate(descriptor)
        let name = "descriptor \(descriptor)"
        if copy < 0 { throw FileSystem.failure("read", name) }
        return OpenFile(owning: copy, path: name)
    }

    /// Makes an empty file that is in memory and has no path.
    ///
    /// - Parameter name: What errors, and `/proc`, call it.
    package static func inMemory(named name: String) throws -> OpenFile {
        let descriptor = quire_memory_file(name)
        if descriptor < 0 { throw FileSystem.failure("create", name) }
        return OpenFile(owning: descriptor, path: name)
    }

    /// Makes an empty file share the blocks of another.
    ///
    /// - Returns: Whether the file system can. Else the file is as it was.
    package func takeBlocks(of other: OpenFile) -> Bool {
        quire_clone(other.descriptor, descriptor) == 0
    }
}

extension FileSystem {
    /// Makes a folder, and those above it, each with a durable name. One that is there is left alone.
    package static func makeFolderDurably(_ path: String, beneath root: String? = nil) throws {
        if exists(path, beneath: root) || path == root { return }
        let above = folder(of: path)
        if above != path { try makeFolderDurably(above, beneath: root) }
        do {
            try makeFolder(path, beneath: root)
        } catch let error as QuireError where error.code == .alreadyExists {
            // By somebody else, this very moment.
        }
        try synchronizeFolder(above, beneath: root)
    }
}
