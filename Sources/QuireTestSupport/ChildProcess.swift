import Dispatch
import Foundation

/// Runs a program to its end, with a deadline. (Foundation's `Process` may miss that a traced child has ended.)
public enum ChildProcess {
    /// The result of a program.
    public struct Outcome: Sendable {
        /// Its standard output.
        public var output: String
        /// Its exit status, or `nil` if a signal ended it.
        public var status: Int32?
        /// Whether it had to be killed at the deadline.
        public var timedOut: Bool
    }

    /// Runs a program off the cooperative threads.
    public static func run(
        _ path: String, _ arguments: [String], deadline seconds: Int = 60
    ) async throws -> Outcome {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(
                    with: Result { try runAndWait(path, arguments, deadline: seconds) })
            }
        }
    }

    /// Runs a program. It and what it starts are a process group, which is killed at the deadline.
    public static func runAndWait(
        _ path: String, _ arguments: [String], deadline seconds: Int = 60
    ) throws -> Outcome {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw POSIXError(.EMFILE) }
        // Not to be inherited by a program that another test starts meanwhile.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        defer { close(ends[0]) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // What this process ignores, as under `nohup`, a program is to hear of all the same.
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] { sigaddset(&signals, number) }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF))
        var pointers = ([path] + arguments).map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        var process: pid_t = 0
        let failure = posix_spawn(&process, path, &actions, &attributes, &pointers, environ)
        close(ends[1])
        guard failure == 0 else {
            throw POSIXError(POSIXErrorCode(rawValue: failure) ?? .EIO)
        }
        let (output, timedOut) = read(ends[0], until: Date(timeIntervalSinceNow: Double(seconds)))
        if timedOut { kill(-process, SIGKILL) }
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 && errno == EINTR {}
        return Outcome(
            output: String(decoding: output, as: UTF8.self),
            status: status & 0x7F == 0 ? status >> 8 & 0xFF : nil, timedOut: timedOut)
    }

    /// Reads until all other ends are closed, or until the deadline.
    private static func read(_ descriptor: Int32, until deadline: Date) -> (Data, timedOut: Bool) {
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let rest = deadline.timeIntervalSinceNow
            if rest <= 0 { return (data, true) }
            var poll = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let ready = Foundation.poll(&poll, 1, Int32(min(rest, 3600) * 1000) + 1)
            if ready < 0 && errno != EINTR { return (data, true) }
            if ready <= 0 { continue }
            let count = Foundation.read(descriptor, &buffer, buffer.count)
            if count <= 0 { return (data, false) }
            data.append(contentsOf: buffer[..<count])
        }
    }
}

// MARK: - Programs

/// Finds the programs that are built for tests, which lie beside these.
public enum TestProgram {
    /// A folder with programs to test instead, `QUIRE_PROGRAMS`: optimized ones, by `make test-optimized`.
    public static let folder = ProcessInfo.processInfo.environment["QUIRE_PROGRAMS"]

    /// The path of a program.
    public static func path(named name: String) throws -> String {
        let folders = [
            folder.map { URL(fileURLWithPath: $0) },
            Bundle.main.executableURL?.deletingLastPathComponent(),
            URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent(),
        ]
        for folder in folders {
            guard let url = folder?.appendingPathComponent(name),
                FileManager.default.isExecutableFile(atPath: url.path)
            else { continue }
            return url.path
        }
        throw Missing(name: name)
    }

    private struct Missing: Error, CustomStringConvertible {
        var name: String

        var description: String { "\(name) is not beside the tests." }
    }
}
