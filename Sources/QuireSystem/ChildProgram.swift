import Foundation
import Glibc

/// A program that runs beside this one, in its process group: both have the terminal.
package struct ChildProgram {
    private let process: pid_t
    private let cleanup: Int

    /// `POSIX_SPAWN_SETSID`, which is hidden without the GNU extensions.
    private static let newSession: Int16 = 0x80

    /// Starts a program, which is searched in `PATH`. A signal that ends this process ends it as well.
    ///
    /// - Parameters:
    ///   - descriptors: The files that it gets as its descriptors instead of this process's; `nil` is `/dev/null`, for reading.
    ///   - hasTerminal: Whether it may use the terminal; otherwise it runs in a session of its own.
    /// - Throws: ``QuireError`` with code `notFound` if there is no such program, or others.
    package init(
        running program: String, _ arguments: [String], descriptors: [Int32: Int32?] = [:],
        hasTerminal: Bool = true
    ) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (descriptor, file) in descriptors {
            if let file {
                posix_spawn_file_actions_adddup2(&actions, file, descriptor)
            } else {
                posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDONLY, 0)
            }
        }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // Signals that this process ignores or blocks must reach the program.
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        for number in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGPIPE, SIGCHLD] {
            sigaddset(&signals, number)
        }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        let flags = Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK)
        posix_spawnattr_setflags(&attributes, hasTerminal ? flags : flags | Self.newSession)
        var pointers = ([program] + arguments).map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        let (failure, process, cleanup) = TerminationCleanup.uninterrupted {
            var process: pid_t = 0
            let failure = posix_spawnp(
                &process, program, &actions, &attributes, &pointers, environ)
            let started = process
            return (
                failure, process,
                failure == 0 ? TerminationCleanup.add { kill(started, SIGTERM) } : 0
            )
        }
        if failure != 0 { throw FileSystem.failure("run", program, errno: failure) }
        (self.process, self.cleanup) = (process, cleanup)
    }

    /// Waits until the program has ended.
    ///
    /// - Returns: Its exit status, 1 if a signal has ended it, or `nil` if the status is unknown.
    package func wait() -> Int32? {
        defer { TerminationCleanup.remove(cleanup) }
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 {
            if errno != EINTR { return nil }
        }
        return status & 0x7F == 0 ? status >> 8 & 0xFF : 1
    }
}
