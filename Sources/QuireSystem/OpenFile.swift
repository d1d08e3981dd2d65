import CLinux
package import Foundation
import Synchronization

/// The owner of a file descriptor: closes it on deinit.
///
/// Reads and writes use the descriptor's position; callers that share an open file between threads must serialize them. Its
/// own locks are released when the file is closed; SQLite's locks on the same file stay, see ``FileLockRegistry``.
package final class OpenFile: Sendable {
    /// The access mode of an open file.
    package enum Purpose: Sendable {
        /// Reading an existing file.
        case reading
        /// Reading and writing an existing file.
        case updating
        /// Reading and writing; the file is created if missing.
        case updatingOrCreating
        /// Writing a new file; the path must not exist, not even as a symbolic link.
        case creating
        /// A folder, to synchronize it, lock it, or open its contents.
        case folder
        /// Any entry, for `fstat` only.
        case examining

        var flags: Int32 {
            switch self {
            // Non-blocking in case it is a pipe.
            case .reading: O_RDONLY | O_NOCTTY | O_NONBLOCK
            case .updating: O_RDWR | O_NOCTTY
            case .updatingOrCreating: O_RDWR | O_CREAT | O_NOCTTY
            case .creating: O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW
            case .folder: O_RDONLY | O_DIRECTORY
            case .examining: O_RDONLY | O_NONBLOCK | O_NOCTTY
            }
        }

        var action: String {
            switch self {
            case .reading: "read"
            case .updating, .updatingOrCreating: "write"
            case .creating: "create"
            case .folder: "open the folder"
            case .examining: "examine"
            }
        }
    }

    /// The path it was opened by, or its replacement in errors.
    package let path: String
    private let state: Atomic<Int32>
    /// What it is in an archive, if it is in one; then it has no descriptor.
    private let archived: Archived?
    /// The position in a file that is in an archive.
    private let position = Atomic<Int64>(0)
    /// Whether it has been locked, or claimed.
    private let isLocked = Atomic(false)

    /// Takes ownership of a descriptor.
    package init(owning descriptor: Int32, path: String) {
        self.path = path
        state = Atomic(descriptor)
        archived = nil
    }

    private init(_ archived: Archived, path: String) {
        self.path = path
        state = Atomic(-1)
        self.archived = archived
    }

    deinit { close() }

    /// The descriptor, or -1 once closed.
    package var descriptor: Int32 { state.load(ordering: .acquiring) }

    /// Opens a path.
    ///
    /// - Parameter reported: The file's name in errors, if not its path: for a temporary file, its final path.
    package static func open(
        _ path: String, for purpose: Purpose, reportedAs reported: String? = nil
    ) throws -> OpenFile {
        let name = reported ?? path
        if let place = ArchiveMount.place(of: path), purpose == .folder || !place.isTop {
            return try OpenFile(place, for: purpose, path: name)
        }
        return try openUnmounted(path, for: purpose, reportedAs: name)
    }

    /// As ``open(_:for:reportedAs:)``, if the path may be that of a mounted archive: then it is the archive's file.
    static func openUnmounted(
        _ path: String, for purpose: Purpose = .reading, reportedAs reported: String? = nil
    ) throws -> OpenFile {
        let name = reported ?? path
        if let waiting = waiting(purpose, reportedAs: name, { FileLockRegistry.identity(of: path) })
        {
            return waiting
        }
        while true {
            let descriptor = FileName.withCString(path) {
                quire_openat(AT_FDCWD, $0, purpose.flags, 0o666)
            }
            let number = errno
            if descriptor >= 0 { return OpenFile(owning: descriptor, path: name) }
            if number == EINTR { continue }
            if number == ENOENT, purpose == .creating {
                throw FileSystem.failure("open", FileSystem.folder(of: name), errno: number)
            }
            throw FileSystem.failure(purpose.action, name, errno: number)
        }
    }

    /// Reopens a file using one of its descriptors whose closing is deferred; `nil` if there is none. See ``FileLockRegistry``.
    static func waiting(
        _ purpose: Purpose, reportedAs path: String,
        _ file: () throws -> FileInformation.Identity?
    ) rethrows -> OpenFile? {
        let isWritable: Bool
        switch purpose {
        case .reading, .examining: isWritable = false
        case .updating, .updatingOrCreating: isWritable = true
        case .creating, .folder: return nil
        }
        return try FileLockRegistry.takeDescriptor(writable: isWritable, of: file)
            .map { OpenFile(owning: $0, path: path) }
    }

    /// Opens a path beneath a root, which is not trusted; see ``FileLocation``. Without a root as
    /// ``open(_:for:reportedAs:)``.
    package static func open(
        _ path: String, beneath root: String?, for purpose: Purpose,
        reportedAs reported: String? = nil
    ) throws -> OpenFile {
        try FileLocation(path, beneath: root).open(for: purpose, reportedAs: reported)
    }

    /// Opens a path relative to a root that is open, which is not trusted; see ``FileLocation``.
    package static func open(
        _ relative: String, in root: OpenFile, for purpose: Purpose
    ) throws -> OpenFile {
        try FileLocation(relative, in: root).open(for: purpose, reportedAs: nil)
    }

    /// Opens a folder beneath another for lookups only, without requiring the permission to list it.
    static func openFolderPath(
        _ relative: String, beneath folder: OpenFile, path: String
    ) throws -> OpenFile {
        while true {
            var descriptor = FileName.withCString(relative) {
                quire_open_folder_path_beneath(folder.descriptor, $0)
            }
            // A sandbox may forbid unknown calls.
            if descriptor < 0, errno == ENOSYS || errno == EINVAL || errno == EPERM {
                descriptor = openStepwise(relative, in: folder, flags: O_RDONLY | O_DIRECTORY)
            }
            if descriptor >= 0 { return OpenFile(owning: descriptor, path: path) }
            // A concurrent rename during path resolution.
            if errno == EINTR || errno == EAGAIN { continue }
            throw FileSystem.failure("open the folder", path)
        }
    }

    /// Fallback where the kernel or a sandbox has no `openat2`: opens one component at a time, none of which may be a
    /// symbolic link.
    private static func openStepwise(_ path: String, in folder: OpenFile, flags: Int32) -> Int32 {
        let components = FileSystem.components(of: path)
        guard let last = components.last, !components.contains(""), !components.contains("..")
        else {
            errno = EXDEV
            return -1
        }
        var current = folder
        for component in components.dropLast() {
            let next = FileName.withCString(component) {
                quire_openat(current.descriptor, $0, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)
            }
            if next < 0 { return next }
            current = OpenFile(owning: next, path: component)
        }
        return FileName.withCString(last) {
            quire_openat(current.descriptor, $0, flags | O_NOFOLLOW, 0o666)
        }
    }

    /// Closes the file now. Closing twice does nothing.
    package func close() {
        let descriptor = state.exchange(-1, ordering: .acquiringAndReleasing)
        if descriptor < 0 { return }
        if isLocked.load(ordering: .relaxed) {
            // Closing alone is not enough: a forked child shares the open file description, and its locks, until exec.
            _ = quire_lock_open_file(descriptor, Int32(F_UNLCK))
            flock(descriptor, LOCK_UN)
        }
        FileLockRegistry.close(descriptor, path: path)
    }

    /// The result of `fstat`.
    package func information() throws -> FileInformation {
        if let archived { return archived.information }
        var status = stat()
        if fstat(descriptor, &status) != 0 { throw FileSystem.failure("examine", path) }
        return FileInformation(status)
    }

    /// The current path of the file, after any moves; for a deleted file, a path that does not refer to it. `nil` if the
    /// system does not provide it.
    package var presentPath: String? {
        if archived != nil { return path }
        var buffer = [CChar](repeating: 0, count: 4097)
        let count = readlink("/proc/self/fd/\(descriptor)", &buffer, buffer.count - 1)
        if count <= 0 { return nil }
        return String(decoding: buffer[..<count].lazy.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Makes the bytes and the length durable. After a failure the file must be abandoned; see ``FileSystem``.
    package func synchronize() throws {
        while fsync(descriptor) != 0 {
            if errno == EINTR { continue }
            // Some network file systems cannot synchronize a folder; its names are then as durable as they get.
            if errno == EINVAL, try information().kind == .folder { return }
            throw FailedSynchronization.error(path: path, errno: errno)
        }
    }

    /// Sets the permission bits.
    package func setPermissions(_ permissions: UInt32) throws {
        if fchmod(descriptor, mode_t(permissions)) != 0 {
            throw FileSystem.failure("set the permissions of", path)
        }
    }

    /// Sets the permission bits, unless the file system has none.
    package func setPermissionsIfPossible(_ permissions: UInt32) throws {
        if fchmod(descriptor, mode_t(permissions)) != 0, errno != EPERM, errno != EOPNOTSUPP {
            throw FileSystem.failure("set the permissions of", path)
        }
    }

    /// Gives the file, which comes in the place of another, the owner, group, permissions and extended attributes of that, as far
    /// as the process may. If it may not set the group, its own gets no more than all users have.
    package func takeAttributes(of old: OpenFile) throws {
        let (original, own) = try (old.information(), information())
        if original.user != own.user || original.group != own.group,
            fchown(descriptor, original.user, original.group) != 0
        {
            _ = fchown(descriptor, .max, original.group)
        }
        var permissions = original.permissions & 0o777
        if try information().group != original.group {
            permissions = permissions & 0o707 | (permissions & 0o007) << 3 & permissions
        }
        try setPermissions(permissions)
        // After the permissions, which are part of an access list.
        for name in old.extendedAttributeNames() {
            guard let value = old.extendedAttribute(name) else { continue }
            // The system keeps some attributes for itself, and file systems differ in what they support.
            _ = value.withUnsafeBytes { fsetxattr(descriptor, name, $0.baseAddress, $0.count, 0) }
        }
    }

    private func extendedAttributeNames() -> [String] {
        guard let list = Self.buffer({ flistxattr(descriptor, $0, $1) }) else { return [] }
        return list.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
    }

    private func extendedAttribute(_ name: String) -> [UInt8]? {
        Self.buffer { fgetxattr(descriptor, name, $0, $1) }
    }

    /// The bytes that a call writes to a buffer, whose size it gives when it gets none.
    private static func buffer(
        _ call: (UnsafeMutablePointer<CChar>?, Int) -> Int
    ) -> [UInt8]? {
        let count = call(nil, 0)
        if count <= 0 { return count == 0 ? [] : nil }
        var bytes = [CChar](repeating: 0, count: count)
        let written = bytes.withUnsafeMutableBufferPointer { call($0.baseAddress, $0.count) }
        return written < 0 ? nil : bytes.prefix(written).map { UInt8(bitPattern: $0) }
    }

    /// Cuts or extends the file.
    package func setSize(_ size: Int64) throws {
        while ftruncate(descriptor, off_t(size)) != 0 {
            if errno != EINTR { throw FileSystem.failure("resize", path) }
        }
    }
}

// MARK: - Archives

extension OpenFile {
    /// What is open in an archive.
    private enum Archived: Sendable {
        case file(any ArchivedFile)
        case folder(ArchiveMount.Place, FileInformation)

        var information: FileInformation {
            switch self {
            case .file(let file): file.information
            case .folder(_, let information): information
            }
        }
    }

    private convenience init(_ file: any ArchivedFile, path: String) {
        self.init(.file(file), path: path)
    }

    /// Opens a file or folder in an archive.
    convenience init(_ place: ArchiveMount.Place, for purpose: Purpose, path: String) throws {
        switch purpose {
        case .reading, .folder, .examining: break
        case .updating, .updatingOrCreating, .creating:
            throw FileSystem.failure(purpose.action, path, errno: EROFS)
        }
        guard let information = place.information else {
            throw FileSystem.failure(purpose.action, path, errno: ENOENT)
        }
        try information.require(purpose.kind, at: path)
        guard information.kind == .regular else {
            self.init(.folder(place, information), path: path)
            return
        }
        self.init(try place.archive.open(place.path), path: path)
    }

    /// The place of a folder that is in an archive.
    var archivedFolder: ArchiveMount.Place? {
        if case .folder(let place, _)? = archived { place } else { nil }
    }

    /// Whether it is in an archive, and has no descriptor.
    package var isArchived: Bool { archived != nil }
}

// MARK: - Reading and writing

extension OpenFile {
    /// Reads as many bytes as there are, up to the buffer's size.
    ///
    /// - Returns: The number of bytes; 0 at the end of the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        if case .file(let file)? = archived {
            let count = try file.read(into: buffer, at: position.load(ordering: .relaxed))
            position.add(Int64(count), ordering: .relaxed)
            return count
        }
        while true {
            let count = CLinux.read(descriptor, buffer.baseAddress, buffer.count)
            if count >= 0 { return count }
            if errno != EINTR { throw FileSystem.failure("read", path) }
        }
    }

    /// Reads from the position to the end.
    ///
    /// - Parameter limit: The maximum number of bytes.
    /// - Throws: ``QuireError`` with code `invalidFormat` if there are more.
    package func readToEnd(limit: Int = .max) throws -> Data {
        let information = try information()
        if information.kind == .folder {
            throw FileSystem.failure("read", path, errno: EISDIR)
        }
        func checkSize(_ size: Int64) throws {
            if size <= Int64(limit) { return }
            throw QuireError(
                .invalidFormat,
                "“\(path)” exceeds the limit of \(limit) bytes for this kind of file; restore it from a backup.",
                file: path)
        }
        try checkSize(information.size)
        // One byte more than expected, so that the end is detected without growing.
        var bytes = Data(count: max(Int(clamping: information.size), 0) + 1)
        var filled = 0
        while true {
            if filled == bytes.count { bytes.count += max(bytes.count, 65_536) }
            let count = try bytes.withUnsafeMutableBytes {
                try read(into: UnsafeMutableRawBufferPointer(rebasing: $0[filled...]))
            }
            if count == 0 { break }
            filled += count
            try checkSize(Int64(filled))
        }
        bytes.count = filled
        return bytes
    }

    /// The number of bytes written by one call. Linux copies them into page cache folios of up to that size, and a processor may
    /// run nothing else until one is copied: 5 ms for 2 MiB if a virtual machine's host must provide the memory.
    private static var maximumWriteSize: Int { 256 << 10 }

    /// Writes all bytes at the position.
    package func write(_ data: Data) throws {
        try data.withUnsafeBytes { try write($0) }
    }

    /// Writes all bytes at the position.
    package func write(_ bytes: UnsafeRawBufferPointer) throws {
        var rest = bytes
        while !rest.isEmpty {
            let count = CLinux.write(
                descriptor, rest.baseAddress, min(rest.count, Self.maximumWriteSize))
            if count < 0 {
                if errno == EINTR { continue }
                throw FileSystem.failure("write", path)
            }
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
    }

    /// Reads exactly as many bytes at an offset, leaving the position alone.
    package func read(_ count: Int, at offset: Int64) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let found = try bytes.withUnsafeMutableBytes { try read(into: $0, at: offset) }
        if found < count { throw FileSystem.failure("read", path, errno: EIO) }
        return bytes
    }

    /// Writes bytes at an offset, leaving the position alone.
    package func write(_ bytes: [UInt8], at offset: Int64) throws {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes {
                pwrite(
                    descriptor, $0.baseAddress.map { $0 + written }, $0.count - written,
                    off_t(offset) + off_t(written))
            }
            if count < 0 && errno == EINTR { continue }
            if count < 0 { throw FileSystem.failure("write", path) }
            written += count
        }
    }
}

// MARK: - Locks

extension OpenFile {
    /// Tries to lock the file exclusively until it is closed. The lock belongs to this open file description: it also
    /// excludes other opens of the file in this process. The file must have been opened for updating.
    ///
    /// - Returns: Whether the lock was acquired.
    package func lockExclusively() throws -> Bool {
        if quire_lock_open_file(descriptor, Int32(F_WRLCK)) == 0 {
            isLocked.store(true, ordering: .relaxed)
            return true
        }
        if errno == EAGAIN || errno == EACCES { return false }
        // Some file systems support only whole-file locks.
        if Self.lacksLocks(errno) { return try claim() }
        throw FileSystem.failure("lock", path)
    }

    /// Whether another open file holds an exclusive lock. Takes no lock.
    package func isLockedByAnother() throws -> Bool {
        let answer = quire_would_block(descriptor, Int32(F_RDLCK))
        if answer >= 0 { return answer == 1 }
        guard Self.lacksLocks(errno) else {
            throw FileSystem.failure("examine the lock of", path)
        }
        if try !claim() { return true }
        flock(descriptor, LOCK_UN)
        return false
    }

    /// Whether another open file holds any lock, shared or exclusive. Takes no lock.
    package func hasLocks() throws -> Bool {
        let answer = quire_would_block(descriptor, Int32(F_WRLCK))
        if answer < 0 { throw FileSystem.failure("examine the locks of", path) }
        return answer == 1
    }

    /// Tries to claim a file or folder until it is closed. Unlike ``lockExclusively()`` this also works on folders; the two
    /// kinds of lock are independent.
    ///
    /// - Parameter shared: Whether the claim is compatible with other shared claims.
    /// - Returns: Whether the claim was acquired. A shared one in an archive always is, because nothing there changes.
    package func claim(shared: Bool = false) throws -> Bool {
        if isArchived {
            if shared { return true }
            throw FileSystem.failure("lock", path, errno: EROFS)
        }
        if flock(descriptor, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0 {
            isLocked.store(true, ordering: .relaxed)
            return true
        }
        if errno == EWOULDBLOCK { return false }
        throw FileSystem.failure("lock", path)
    }

    /// Ends a claim before the file is closed.
    package func endClaim() { flock(descriptor, LOCK_UN) }

    private static func lacksLocks(_ number: Int32) -> Bool {
        [EINVAL, ENOSYS, EOPNOTSUPP, ENOLCK].contains(number)
    }
}

// MARK: - Ranges

extension OpenFile {
    /// Reads bytes at an offset without moving the position, so that threads may read concurrently.
    ///
    /// - Returns: The number of bytes; fewer than the buffer's size only at the end of the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws -> Int {
        if case .file(let file)? = archived { return try file.read(into: buffer, at: offset) }
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

    /// A path that refers to the file as long as it is open, even if it is unlinked.
    package var descriptorPath: String { "/proc/self/fd/\(descriptor)" }

    /// Opens the same file again with an independent position, even if it is unlinked.
    package func reopened() throws -> OpenFile {
        if case .file(let file)? = archived { return OpenFile(file, path: path) }
        return try OpenFile.open(descriptorPath, for: .reading, reportedAs: path)
    }

    /// Duplicates a descriptor that is owned elsewhere; the position is shared.
    package static func duplicate(of descriptor: Int32) throws -> OpenFile {
        let copy = quire_duplicate(descriptor, 0)
        let name = "descriptor \(descriptor)"
        if copy < 0 { throw FileSystem.failure("read", name) }
        return OpenFile(owning: copy, path: name)
    }

    /// Creates an empty anonymous file in memory.
    ///
    /// - Parameter name: Its name in errors and in `/proc`.
    package static func inMemory(named name: String) throws -> OpenFile {
        let descriptor = quire_memory_file(name)
        if descriptor < 0 { throw FileSystem.failure("create", name) }
        return OpenFile(owning: descriptor, path: name)
    }

    /// Makes an empty file share the blocks of another (reflink).
    ///
    /// - Returns: Whether the file system supports it. If not, the file is unchanged.
    package func takeBlocks(of other: OpenFile) -> Bool {
        quire_clone(other.descriptor, descriptor) == 0
    }
}

extension FileSystem {
    /// Creates a folder, and its parents, each with a durable name. Existing ones are left unchanged.
    package static func makeFolderDurably(_ path: String, beneath root: String? = nil) throws {
        if exists(path, beneath: root) || path == root { return }
        let above = folder(of: path)
        if above != path { try makeFolderDurably(above, beneath: root) }
        do {
            try makeFolder(path, beneath: root)
        } catch let error as QuireError where error.code == .alreadyExists {
            // Created concurrently by another process.
        }
        try synchronizeFolder(above, beneath: root)
    }
}
