import Synchronization

/// An archive whose files are read where they are, without unpacking it.
///
/// Paths are relative to its top, whose path is empty.
package protocol ReadableArchive: AnyObject, Sendable {
    /// Information on a file or folder, or `nil` if there is none. Every file has a unique identity.
    func information(at path: String) -> FileInformation?

    /// The names in a folder, sorted by their bytes.
    func names(in folder: String) -> [String]

    /// Opens a file that exists.
    func open(_ path: String) throws -> any ArchivedFile
}

/// A file in an archive, open for reading. It stays readable as long as it is retained.
package protocol ArchivedFile: AnyObject, Sendable {
    /// What ``ReadableArchive/information(at:)`` says of it.
    var information: FileInformation { get }

    /// Reads bytes at an offset, of which there are fewer than the buffer holds only at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws -> Int
}

/// An archive that appears as a folder at its own path, as long as it is mounted: ``FileSystem``, ``OpenFile`` and
/// ``FileLocation`` read what is in it at the paths below. Nothing there can be written.
package final class ArchiveMount: Sendable {
    /// A file or folder in a mounted archive, which need not exist.
    struct Place: Sendable {
        let archive: any ReadableArchive
        /// The path at which the archive is mounted.
        let root: String
        /// The path in the archive.
        let path: String

        /// Whether it is the archive: a folder to look at, and the file to everything else.
        var isTop: Bool { path.isEmpty }

        var information: FileInformation? { archive.information(at: path) }

        /// A place below.
        func place(_ name: String) -> Place {
            Place(
                archive: archive, root: root,
                path: path.isEmpty ? name : FileSystem.path(path, name))
        }
    }

    private struct Mounted {
        let archive: any ReadableArchive
        let file: FileInformation
        var count: Int

        /// Whether the file with this information is the one that is mounted, and has not been overwritten since.
        func isMounted(_ found: FileInformation) -> Bool {
            found.identity == file.identity && found.size == file.size
                && found.modificationTime == file.modificationTime
                && found.modificationNanoseconds == file.modificationNanoseconds
        }
    }

    private static let mounted = Lock<[String: Mounted]>([:])
    /// The number of mounted archives: usually none, and nothing needs to be looked up.
    private static let mountedCount = Atomic(0)

    private let path: String
    /// Also before it is mounted.
    private let isEnded = Atomic(true)

    /// Mounts an archive.
    ///
    /// - Parameters:
    ///   - path: The absolute path of its file.
    ///   - read: Reads the archive, unless the same file is mounted already. It gives `nil` if it is not one that can be mounted.
    /// - Throws: ``QuireError`` with code `locked` if another file at this path is still mounted, or another state of it; errors of opening the file, or
    ///   what `read` throws.
    package init?(at path: String, read: (OpenFile) throws -> (any ReadableArchive)?) throws {
        self.path = path
        let isMounted = try Self.mounted.withLock { mounted in
            let file = try OpenFile.openUnmounted(path)
            let information = try file.information()
            if let known = mounted[path] {
                guard known.isMounted(information) else {
                    throw QuireError(
                        .locked,
                        "“\(path)” was replaced while a document in it was open; close that document, and open it again.",
                        file: path)
                }
                mounted[path]?.count += 1
                return true
            }
            guard let archive = try read(file) else { return false }
            mounted[path] = Mounted(archive: archive, file: information, count: 1)
            Self.mountedCount.add(1, ordering: .releasing)
            return true
        }
        if !isMounted { return nil }
        isEnded.store(false, ordering: .releasing)
    }

    private init(mountedAt path: String) {
        self.path = path
        isEnded.store(false, ordering: .releasing)
    }

    /// Mounts the archive once more that a path is in; `nil` if the path is in none.
    package static func mount(containing path: String) -> ArchiveMount? {
        guard let root = place(of: path)?.root else { return nil }
        return mounted.withLock { mounted in
            guard mounted[root] != nil else { return nil }
            mounted[root]?.count += 1
            return ArchiveMount(mountedAt: root)
        }
    }

    deinit { end() }

    /// Unmounts it, unless it is mounted once more. Files that are open stay readable.
    package func end() {
        guard !isEnded.exchange(true, ordering: .acquiringAndReleasing) else { return }
        Self.mounted.withLock { mounted in
            mounted[path]?.count -= 1
            guard mounted[path]?.count == 0 else { return }
            mounted[path] = nil
            Self.mountedCount.subtract(1, ordering: .releasing)
        }
    }

    /// The place of a path in a mounted archive; `nil` if the path is in none.
    static func place(of path: String) -> Place? {
        if mountedCount.load(ordering: .acquiring) == 0 { return nil }
        return mounted.withLock { mounted in
            for (root, mount) in mounted where path.utf8.starts(with: root.utf8) {
                let rest = path.utf8.dropFirst(root.utf8.count)
                guard rest.isEmpty || rest.first == UInt8(ascii: "/") else { continue }
                return Place(
                    archive: mount.archive, root: root, path: String(Substring(rest.dropFirst())))
            }
            return nil
        }
    }

    /// Whether a path is in a mounted archive, and not that of a file that programs can open.
    package static func contains(_ path: String) -> Bool { place(of: path) != nil }
}
