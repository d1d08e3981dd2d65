import Foundation
import Quire

/// A program that shows output page by page on a terminal, if it does not fit on the screen: that of `QUIRE_PAGER` or `PAGER`, or
/// else less.
final class Pager {
    /// The command, as a shell takes it.
    private let command: String
    private var program: ChildProgram?
    /// The descriptor that is written to.
    private var end = STDOUT_FILENO
    private var hasBegun = false

    private static let showing = Lock(false)

    /// Whether one has the terminal, and Ctrl-C is for it.
    static var isShowing: Bool { showing.withLock { $0 } }

    /// - Returns: `nil` if standard output is not a terminal, or no pager is wanted.
    init?() {
        guard isatty(STDOUT_FILENO) == 1, !Output.isCompact else { return nil }
        let environment = ProcessInfo.processInfo.environment
        command = environment["QUIRE_PAGER"] ?? environment["PAGER"] ?? "less"
        if ["", "cat"].contains(command) { return nil }
    }

    /// Writes bytes to the pager, or to the terminal if they fit on the screen or the pager cannot be started. The first call
    /// decides; short output arrives in one call.
    ///
    /// - Throws: `OutputClosed` if the user has ended it.
    func write(_ bytes: UnsafeRawBufferPointer) throws {
        if !hasBegun {
            hasBegun = true
            if Self.exceedsScreen(bytes) { start() }
        }
        if program == nil { return try Output.write(bytes) }
        try Output.write(bytes, to: end)
    }

    private static func exceedsScreen(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 0 else {
            return false
        }
        return bytes.count { $0 == UInt8(ascii: "\n") } >= size.ws_row
    }

    private func start() {
        // As git has it: colours are shown, and what was shown stays on the screen.
        setenv("LESS", "FRX", 0)
        var pipe: [Int32] = [0, 0]
        guard Glibc.pipe(&pipe) == 0 else { return }
        defer { close(pipe[0]) }
        _ = fcntl(pipe[1], F_SETFD, FD_CLOEXEC)
        let isGiven = command != "less"
        program = try? ChildProgram(
            running: isGiven ? "/bin/sh" : command, isGiven ? ["-c", command] : [],
            descriptors: [STDIN_FILENO: pipe[0]])
        if program == nil {
            close(pipe[1])
            return
        }
        end = pipe[1]
        Self.showing.withLock { $0 = true }
    }

    /// Waits until the user has seen enough.
    func finish() {
        guard let program else { return }
        close(end)
        _ = program.wait()
        Self.showing.withLock { $0 = false }
    }
}
