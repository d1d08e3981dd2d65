import Foundation

/// The waiting policy for files locked by other processes.
package struct FileLockWait: Sendable {
    /// The maximum time to wait.
    package var timeout: Duration
    /// Called before the first wait, on the thread that waits, with the process to wait for if it is known.
    package var willWait: @Sendable (FileLockHolder?) -> Void

    package init(timeout: Duration, willWait: @escaping @Sendable (FileLockHolder?) -> Void) {
        self.timeout = timeout
        self.willWait = willWait
    }

    /// Runs a body until it succeeds or the timeout expires. The timeout starts when the file is first found locked.
    ///
    /// - Parameters:
    ///   - path: The file, to name the lock holder.
    ///   - body: Returns `nil` if another process has the file locked. It gets the remaining time, to wait itself.
    /// - Returns: `nil` on timeout.
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
            // The kernel does not notify when a file lock is released.
            Thread.sleep(forTimeInterval: Self.interval)
        }
    }

    /// The polling interval, in seconds.
    package static let interval = 0.01
}

/// A process that has a file locked.
package struct FileLockHolder: Sendable, Hashable {
    package var processIdentifier: Int32
    package var processName: String?

    /// The holder, to continue “… is locked”: `by process 123 (quire)`.
    package var phrase: String {
        " by process \(processIdentifier)\(processName.map { " (\($0))" } ?? "")"
    }

    /// Another process that holds a lock on the file, or on a database's shared memory; exclusive locks are preferred to
    /// shared ones.
    ///
    /// - Returns: `nil` if there is none, or it cannot be determined, as for processes of other users.
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
