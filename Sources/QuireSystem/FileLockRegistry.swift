import CLinux

/// Files with POSIX locks held by libraries in this process: SQLite's databases.
///
/// Closing any descriptor of a file drops all POSIX locks of the process on that file, also those taken through another
/// descriptor. So an ``OpenFile`` of such a file is closed only when the last connection is: code that reads or copies a file
/// need not know of the process's connections, earlier, concurrent or later.
///
/// Files are identified by device and inode, whatever path they were opened by. A database's shared memory, `-shm`, is locked
/// as long as the database is.
package enum FileLockRegistry {
    package struct Identity: Hashable, Sendable {
        var device: UInt64
        var inode: UInt64

        init(_ status: stat) {
            device = UInt64(status.st_dev)
            inode = UInt64(status.st_ino)
        }
    }

    private struct Use {
        var connections = 0
        /// Descriptors that are to be closed, of the file or of its shared memory.
        var waiting: [(file: Identity, descriptor: Int32)] = []
    }

    private static let uses = Lock<[Identity: Use]>([:])

    /// Registers a connection that has opened a file, and has not taken a lock yet.
    ///
    /// - Returns: The identity to pass to ``remove(_:)``; `nil` if there is no such file.
    package static func add(_ path: String) -> Identity? {
        guard let identity = identity(of: path) else { return nil }
        uses.withLock { $0[identity, default: Use()].connections += 1 }
        return identity
    }

    /// Unregisters a connection, and closes descriptors deferred until the last one is closed.
    package static func remove(_ identity: Identity) {
        uses.withLock { uses in
            guard var use = uses[identity] else { return }
            use.connections -= 1
            if use.connections > 0 { return uses[identity] = use }
            uses[identity] = nil
            for (_, descriptor) in use.waiting { CLinux.close(descriptor) }
        }
    }

    /// Closes a descriptor, now or when no connection has the file any more.
    static func close(_ descriptor: Int32, path: String) {
        var status = stat()
        // Nothing else can be locked, and closing a pipe may block.
        guard fstat(descriptor, &status) == 0, FileInformation(status).kind == .regular else {
            _ = CLinux.close(descriptor)
            return
        }
        let file = Identity(status)
        let candidates = databases(of: file, path)
        // Closed under the lock, so that no connection can be added in between.
        uses.withLock { uses in
            if let database = candidates.first(where: { uses[$0] != nil }) {
                uses[database]?.waiting.append((file, descriptor))
            } else {
                _ = CLinux.close(descriptor)
            }
        }
    }

    /// A descriptor of the file whose close is deferred, reused for reading instead of opening another one: so there are
    /// never more than were needed at once. (An ``OpenFile`` is never write-only.)
    static func descriptorForReading(_ path: String) -> Int32? {
        if uses.withLock(\.isEmpty) { return nil }
        guard let file = identity(of: path) else { return nil }
        let candidates = databases(of: file, path)
        let descriptor: Int32? = uses.withLock { uses in
            guard let database = candidates.first(where: { uses[$0] != nil }),
                let index = uses[database]?.waiting.firstIndex(where: { $0.file == file })
            else { return nil }
            return uses[database]?.waiting.remove(at: index).descriptor
        }
        if let descriptor { lseek(descriptor, 0, SEEK_SET) }
        return descriptor
    }

    /// The databases that a file may be, or may be the shared memory of.
    private static func databases(of file: Identity, _ path: String) -> [Identity] {
        guard path.hasSuffix(sharedMemory) else { return [file] }
        return [file] + [identity(of: "\(path.dropLast(sharedMemory.count))")].compactMap(\.self)
    }

    private static let sharedMemory = "-shm"

    /// The device and inode at a path; `nil` if there is no file, or access is denied.
    package static func identity(of path: String) -> Identity? {
        var status = stat()
        if stat(path, &status) != 0 { return nil }
        return Identity(status)
    }
}
