import CLinux
import Foundation

/// Files with POSIX locks held by libraries in this process: SQLite's databases.
///
/// Closing any descriptor of a file drops all POSIX locks of the process on that file, also those taken through another
/// descriptor. So an ``OpenFile`` of such a file is closed only when the last connection is: code that reads or copies a file
/// need not know of the process's connections, earlier, concurrent or later.
///
/// Files are identified by device and inode, whatever path they were opened by. A database's shared memory, `-shm`, is locked
/// as long as the database is.
package enum FileLockRegistry {
    package typealias Identity = FileInformation.Identity

    /// A descriptor that is to be closed after the last connection to a database.
    private struct Waiting {
        var descriptor: Int32
        var isWritable: Bool
        var database: Identity
    }

    private struct State {
        /// The number of connections to each database.
        var connections: [Identity: Int] = [:]
        /// By file: a database, or its shared memory.
        var waiting: [Identity: [Waiting]] = [:]
    }

    private static let state = Lock(State())

    /// Registers a connection that has opened a file, and has not taken a lock yet.
    ///
    /// - Returns: The identity to pass to ``remove(_:)``; `nil` if there is no such file.
    package static func add(_ path: String) -> Identity? {
        guard let identity = identity(of: path) else { return nil }
        state.withLock { $0.connections[identity, default: 0] += 1 }
        return identity
    }

    /// Unregisters a connection, and closes descriptors deferred until the last one is closed.
    package static func remove(_ identity: Identity) {
        state.withLock { state in
            guard let count = state.connections[identity] else { return }
            if count > 1 { return state.connections[identity] = count - 1 }
            state.connections[identity] = nil
            for (file, descriptors) in state.waiting {
                let rest = descriptors.filter { $0.database != identity }
                if rest.count == descriptors.count { continue }
                state.waiting[file] = rest.isEmpty ? nil : rest
                for waiting in descriptors where waiting.database == identity {
                    _ = CLinux.close(waiting.descriptor)
                }
            }
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
        let file = FileInformation(status).identity
        let candidates = databases(of: file, path)
        // Closed under the lock, so that no connection can be added in between.
        state.withLock { state in
            guard let database = candidates.first(where: { state.connections[$0] != nil }) else {
                _ = CLinux.close(descriptor)
                return
            }
            state.waiting[file, default: []].append(
                Waiting(
                    descriptor: descriptor,
                    isWritable: fcntl(descriptor, F_GETFL) & O_ACCMODE == O_RDWR,
                    database: database))
        }
    }

    /// Takes a descriptor of a file whose close is deferred, to be used instead of opening the file again: so no more wait
    /// than were in use at once. `nil` if none waits that will do.
    ///
    /// - Parameters:
    ///   - writable: Whether it must be open for writing too.
    ///   - file: The identity of the file, asked for only if any descriptor waits.
    static func takeDescriptor(
        writable: Bool, of file: () throws -> Identity?
    ) rethrows -> Int32? {
        if state.withLock(\.waiting.isEmpty) { return nil }
        guard let file = try file() else { return nil }
        let descriptor = state.withLock { state -> Int32? in
            guard let descriptors = state.waiting[file],
                // One for reading only is preferred where it will do.
                let index = descriptors.firstIndex(where: { $0.isWritable == writable })
                    ?? (writable ? nil : descriptors.indices.first)
            else { return nil }
            defer { if state.waiting[file]?.isEmpty == true { state.waiting[file] = nil } }
            return state.waiting[file]?.remove(at: index).descriptor
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
        if FileName.withCString(path, { stat($0, &status) }) != 0 { return nil }
        return FileInformation(status).identity
    }
}
