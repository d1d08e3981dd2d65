import CLinux
package import Foundation

/// The result of `stat` for a file or folder.
package struct FileInformation: Sendable {
    /// The type of a file system entry.
    package enum Kind: Sendable {
        /// A file with bytes in it.
        case regular
        /// A folder.
        case folder
        /// A symbolic link.
        case symbolicLink
        /// A device, a pipe or a socket.
        case other
    }

    /// A file, by whatever name.
    package struct Identity: Hashable, Sendable {
        /// The device it is on.
        package var device: UInt64
        /// Its number on the device.
        package var inode: UInt64
    }

    /// The device and inode numbers.
    package var identity: Identity { Identity(device: device, inode: inode) }

    /// The type of the entry.
    package var kind: Kind
    /// The number of bytes.
    package var size: Int64
    /// The permission bits.
    package var permissions: UInt32
    /// The user whose it is.
    package var user: UInt32
    /// The group whose it is.
    package var group: UInt32
    /// The number of hard links.
    package var linkCount: Int
    /// The device it is on.
    package var device: UInt64
    /// Its number on the device.
    package var inode: UInt64
    /// The modification time (mtime), in seconds since 1970.
    package var modificationTime: Int64
    /// The nanoseconds of the modification time, at the file system's resolution.
    package var modificationNanoseconds: Int64
    /// The status change time (ctime: bytes, names or permissions), in seconds since 1970.
    package var statusChangeTime: Int64
    /// The type with an article, if the kind is `other`.
    let otherName: String

    /// Whether the file has been in its place for more than a day.
    package func isOld(at date: Date) -> Bool {
        Int64(date.timeIntervalSince1970) - statusChangeTime > 24 * 60 * 60
    }

    init(_ status: stat) {
        switch Int32(status.st_mode) & S_IFMT {
        case S_IFREG: kind = .regular
        case S_IFDIR: kind = .folder
        case S_IFLNK: kind = .symbolicLink
        default: kind = .other
        }
        otherName =
            switch Int32(status.st_mode) & S_IFMT {
            case S_IFIFO: "a FIFO"
            case S_IFSOCK: Self.socketName
            default: "a device"
            }
        size = Int64(status.st_size)
        permissions = UInt32(status.st_mode & 0o7777)
        user = UInt32(status.st_uid)
        group = UInt32(status.st_gid)
        linkCount = Int(status.st_nlink)
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        modificationTime = Int64(status.st_mtim.tv_sec)
        modificationNanoseconds =
            Int64(status.st_mtim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_mtim.tv_nsec)
        statusChangeTime = Int64(status.st_ctim.tv_sec)
    }

    /// Information on a file or folder in an archive, with the owner, permissions and dates of the archive.
    ///
    /// - Parameter number: Its number in the archive.
    package init(
        _ kind: Kind, inArchive archive: FileInformation, number: Int, size: Int64
    ) {
        self = archive
        self.kind = kind
        self.size = size
        linkCount = 1
        // No device has such a number.
        device = 1 << 63 | (archive.device << 40 ^ archive.inode)
        inode = UInt64(number)
    }

    /// Whether it is a socket.
    package var isSocket: Bool { otherName == Self.socketName && kind == .other }

    private static let socketName = "a socket"

    /// Whether both describe the same file.
    package func isSameFile(as other: FileInformation) -> Bool {
        identity == other.identity
    }

    /// The total size of files. Hard links to one file count once.
    package static func totalSize(of files: [FileInformation]) -> Int64 {
        var seen: Set<Identity> = []
        return files.reduce(0) { sum, file in
            guard file.kind == .regular,
                file.linkCount == 1 || seen.insert(file.identity).inserted
            else { return sum }
            return sum + file.size
        }
    }

    /// Whether the file was not written to between the two, judging by size and modification time.
    package func hasSameContent(as other: FileInformation) -> Bool {
        size == other.size && modificationNanoseconds == other.modificationNanoseconds
    }
}
