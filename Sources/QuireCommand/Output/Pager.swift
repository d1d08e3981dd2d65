import Foundation
import Glibc
import Quire

/// A program that shows output page by page on a terminal: that of `QUIRE_PAGER` or `PAGER`, or else less, which shows what fits on
/// the screen as it is.
final class Pager {
    private let program: ChildProgram
    private let end: Int32

    private static let showing = Lock(false)

    /// Whether one has the terminal, and Ctrl-C is for it.
    static var isShowing: Bool { showing.withLock { $0 } }

    /// Starts the pager; `nil` if standard output is not a terminal, or none is wanted or installed.
    static func start() -> Pager? {
        guard isatty(STDOUT_FILENO) == 1, !Output.isCompact else { return nil }
        let environment = ProcessInfo.processInfo.environment
        let command = environment["QUIRE_PAGER"] ?? environment["PAGER"] ?? "less"
        if ["", "cat"].contains(command) { return nil }
        // Its options in git: end at once on one screen, keep colours and the screen.
        setenv("LESS", "FRX", 0)
        var pipe: [Int32] = [0, 0]
        guard Glibc.pipe(&pipe) == 0 else { return nil }
        defer { close(pipe[0]) }
        _ = fcntl(pipe[1], F_SETFD, FD_CLOEXEC)
        let isShell = command != "less"
        let program = try? ChildProgram(
            running: isShell ? "/bin/sh" : command, isShell ? ["-c", command] : [],
            descriptors: [STDIN_FILENO: pipe[0]])
        guard let program else {
            close(pipe[1])
            return nil
        }
        return Pager(program, pipe[1])
    }

    private init(_ program: ChildProgram, _ end: Int32) {
        (self.program, self.end) = (program, end)
        Self.showing.withLock { $0 = true }
    }

    /// Writes bytes to the pager.
    ///
    /// - Throws: `OutputClosed` if the user has ended it.
    func write(_ bytes: UnsafeRawBufferPointer) throws { try Output.write(bytes, to: end) }

    /// Waits until the user has seen enough.
    func finish() {
        close(end)
        _ = program.wait()
        Self.showing.withLock { $0 = false }
    }
}
