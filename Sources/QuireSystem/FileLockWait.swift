import Foundation

/// How to wait for other processes that have a store's file locked.
package struct FileLockWait: Sendable {
    /// How long to wait at most.
    package var timeout: Duration
    /// Called before the first wait, on the thread that waits, with the process to wait for if it is known.
    package var willWait: @Sendable (FileLockHolder?) -> Void

    package init(timeout: Duration, willWait: @escaping @Sendable (FileLockHolder?) -> Void) {
        self.timeout = timeout
        self.willWait = willWait
    }

    /// Runs a body until it succeeds or the time is over, which runs from when the file was first found locked.
    ///
    /// - Parameters:
    ///   - path: The file, to say for whom it waits.
    ///   - body: Gives `nil` if another process has the file locked. It gets what is left of the time, to wait itself.
    /// - Returns: `nil` if the time is over.
    package func polling<Result>(
        _ path: String, _ body: (FileLockWait) throws -> Result?
    ) throws -> Result? {
        let deadline = Lock<ContinuousClock.Instant?>(nil)
        @Sendable func beginWaiting(for holder: @autoclosure () -> FileLockHolder?) {
            let isFirst = deadline.withLock { deadline in
                if deadline != nil { return false }
                deadline = .now + timeout
                return true
            }
            if isFirst { willWait(holder()) }
        }
        while true {
            let rest = deadline.withLock { $0.map { max($0 - .now, .zero) } } ?? timeout
            let result = try body(FileLockWait(timeout: rest) { beginWaiting(for: $0) })
            if let result { return result }
            if rest <= .zero { return nil }
            beginWaiting(for: .find(path))
            // The kernel does not tell when a lock of a file goes.
            Thread.sleep(forTimeInterval: Self.interval)
        }
    }

    /// How long to wait before a lock is tried again, in seconds.
    package static let interval = 0.01
}

/// A process that has a file locked.
package struct FileLockHolder: Sendable, Hashable {
    package var processIdentifier: Int32
    package var processName: String?

    /// Who it is, to continue “… is locked”: `by process 123 (quire)`.
    package var phrase: String {
        " by process \(processIdentifier)\(processName.map { " (\($0))" } ?? "")"
    }

    /// The other process that has any of a file locked, or of a database's shared memory; one that locks it for itself alone
    /// before one that shares its lock.
    ///
    /// - Returns: `nil` if there is none, or it cannot be told: as a rule of processes of other users.
    /// - Complexity: O(*n*) in the files that processes have open.
    package static func find(_ path: String) -> FileLockHolder? {
        let files = [path, path + "-shm"].compactMap {
            (try? FileSystem.information(at: $0)) ?? nil
        }
        let own = ProcessInfo.processInfo.processIdentifier
        var sharing: Int32?
        for name in (try? FileSystem.names(in: "/proc")) ?? [] {
            guard let process = Int32(name), process != own,
                let descriptors = try? FileSystem.names(in: "/proc/\(name)/fd")
            else { continue }
            for descriptor in descriptors {
                guard
                    let file = try? FileSystem.information(at: "/proc/\(name)/fd/\(descriptor)"),
                    files.contains(where: file.isSameFile(as:)),
                    let data = try? FileSystem.contents(of: "/proc/\(name)/fdinfo/\(descriptor)")
                else { continue }
                // As in /proc/locks: “lock: 1: POSIX ADVISORY WRITE 123 …”.
                let locks = String(decoding: data, as: UTF8.self).split(separator: "\n")
                    .filter { $0.hasPrefix("lock:") }
                if locks.contains(where: { $0.contains(" WRITE ") }) { return Self(process) }
                if !locks.isEmpty { sharing = process }
            }
        }
        return sharing.map(Self.init)
    }

    private init(_ processIdentifier: Int32) {
        self.processIdentifier = processIdentifier
        processName = (try? FileSystem.contents(of: "/proc/\(processIdentifier)/comm")).map {
            String(decoding: $0, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        }
    }
}
