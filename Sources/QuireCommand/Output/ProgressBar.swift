import Foundation
import Quire

/// A progress bar on the terminal, for work that takes long; nothing in a pipe or a file.
///
/// ```swift
/// try ProgressBar.showing("Exporting Library.quire", of: .bytes) { progress in
///     try package.export(to: archive, progress: progress)
/// }
/// ```
///
/// Invariants
/// - It is on standard error, and only if that is a terminal of which this process is in the foreground. It appears after
///   ``delay`` and is redrawn every ``interval`` if it has changed.
/// - Everything else that is written to the terminal is written in ``hiding(_:)``, on an empty line. The line is empty at the
///   end too, and when a signal ends the process. No other state of the terminal changes.
/// - Drawing never blocks: while the terminal accepts no output, as after Ctrl-S, nothing is drawn.
final class ProgressBar: Sendable {
    private struct State {
        var line: ProgressLine
        var progress: Progress
        /// The text shown on the terminal; empty if none is.
        var drawn = ""
        /// The number of bodies that are writing to the terminal.
        var hidings = 0
        var isFinished = false
        /// Draws the bar; `nil` before the beginning.
        var timer: (any DispatchSourceTimer)?
        /// The token of the clean-up before a signal ends the process.
        var cleanup: Int?
    }

    /// The delay before the bar appears.
    static let delay = Duration.milliseconds(500)
    /// The time between two readings of the progress.
    static let interval = DispatchTimeInterval.milliseconds(100)

    private let terminal: ProgressTerminal
    private let delay: Duration
    private let start = SuspendingClock.now
    private let state: Lock<State>

    /// The bar that is shown; a process has one at a time.
    private static let current = Lock<ProgressBar?>(nil)

    // MARK: - Showing

    /// Shows a bar while a body runs.
    ///
    /// - Parameters:
    ///   - title: What is being done, such as “Exporting Library.quire”.
    ///   - unit: What the body counts.
    ///   - body: The work. It advances the progress, whose total is unknown at first, on any thread.
    static func showing<Result>(
        _ title: String, of unit: ProgressLine.Unit, _ body: (Progress) throws -> Result
    ) rethrows -> Result {
        let progress = Progress.discreteProgress(totalUnitCount: -1)
        let bar = begin(title, of: unit, observing: progress)
        defer { bar?.finish() }
        return try body(progress)
    }

    /// Shows a bar for work that provides its own progress, or that suspends, until ``finish()`` is called.
    ///
    /// - Parameter progress: The progress; ``observe(_:)`` may replace it.
    /// - Returns: `nil` if standard error is not a terminal.
    static func begin(
        _ title: String, of unit: ProgressLine.Unit,
        observing progress: Progress = .discreteProgress(totalUnitCount: -1)
    ) -> ProgressBar? {
        guard let terminal = ProgressTerminal() else { return nil }
        let bar = ProgressBar(title, of: unit, observing: progress, on: terminal)
        bar.begin()
        return bar
    }

    /// Makes a bar that only ``draw()`` draws.
    init(
        _ title: String, of unit: ProgressLine.Unit, observing progress: Progress,
        on terminal: ProgressTerminal, delay: Duration = delay
    ) {
        self.terminal = terminal
        self.delay = delay
        state = Lock(State(line: ProgressLine(title, of: unit), progress: progress))
    }

    /// Begins to draw the bar periodically.
    private func begin() {
        Self.current.withLock { $0 = self }
        state.withLock { state in
            state.cleanup = TerminationCleanup.add { self.finish() }
            let queue = DispatchQueue(label: "quire.progress")
            let timer = DispatchSource.makeTimerSource(queue: queue)
            timer.setEventHandler { [weak self] in self?.draw() }
            timer.schedule(deadline: .now() + Self.interval, repeating: Self.interval)
            timer.activate()
            state.timer = timer
        }
    }

    /// Observes another progress from now on.
    func observe(_ progress: Progress) { state.withLock { $0.progress = progress } }

    /// Removes the bar. Later calls do nothing.
    func finish() {
        let cleanup = state.withLock { state in
            state.isFinished = true
            state.timer?.cancel()
            erase(&state)
            return state.cleanup
        }
        if let cleanup { TerminationCleanup.remove(cleanup) }
        Self.current.withLock { if $0 === self { $0 = nil } }
    }

    // MARK: - Drawing

    /// Reads the progress, and draws the bar if it has changed.
    func draw() {
        state.withLock { state in
            if state.isFinished || state.hidings > 0 { return }
            let time = SuspendingClock.now - start
            state.line.update(ProgressLine.Reading(of: state.progress), at: time / .seconds(1))
            guard time >= delay, terminal.acceptsOutput() else { return }
            // Terminals differ about what follows a character in the last column.
            let text = state.line.text(columns: terminal.columns - 1, isASCII: terminal.isASCII)
            if text == state.drawn { return }
            terminal.write("\r\(text)\(Self.eraseToEnd)")
            state.drawn = text
        }
    }

    /// Runs a body that writes to the terminal, without a bar on it.
    static func hiding<Result>(_ body: () throws -> Result) rethrows -> Result {
        guard let bar = current.withLock({ $0 }) else { return try body() }
        return try bar.hiding(body)
    }

    /// As the static method, for this bar. The lock is not held meanwhile: the body may block, and a signal's clean-up needs it.
    func hiding<Result>(_ body: () throws -> Result) rethrows -> Result {
        state.withLock {
            $0.hidings += 1
            erase(&$0)
        }
        defer { state.withLock { $0.hidings -= 1 } }
        return try body()
    }

    private func erase(_ state: inout State) {
        if state.drawn.isEmpty { return }
        state.drawn = ""
        if terminal.acceptsOutput(withinMilliseconds: 100) {
            terminal.write("\r" + Self.eraseToEnd)
        }
    }

    /// Erases the line from the cursor on.
    private static let eraseToEnd = "\u{1B}[K"
}

extension ProgressLine.Reading {
    /// Reads a progress that other threads advance. Its values may be of different moments.
    init(of progress: Progress) {
        self.init(
            completed: progress.completedUnitCount, total: progress.totalUnitCount,
            fraction: progress.fractionCompleted)
    }
}

// MARK: - Terminal

/// A terminal that can show a progress bar.
struct ProgressTerminal: Sendable {
    /// Whether it shows only ASCII, according to the locale.
    let isASCII: Bool
    private let descriptor: Int32

    /// - Returns: `nil` if the descriptor is not that of a terminal, or the terminal cannot erase a line.
    init?(
        _ descriptor: Int32 = STDERR_FILENO,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) {
        guard isatty(descriptor) == 1, let type = environment["TERM"], !type.isEmpty,
            type != "dumb"
        else { return nil }
        self.descriptor = descriptor
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { environment[$0] }
            .first { !$0.isEmpty }?.uppercased()
        isASCII = !(locale.map { $0.contains("UTF-8") || $0.contains("UTF8") } ?? false)
    }

    /// Its width, which may change.
    var columns: Int { Self.columns(of: descriptor) ?? 80 }

    /// The width of a terminal, if it is known.
    static func columns(of descriptor: Int32) -> Int? {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// Whether it shows what is written without blocking, and this process is not in its background.
    func acceptsOutput(withinMilliseconds limit: Int32 = 0) -> Bool {
        let foreground = tcgetpgrp(descriptor)
        // Fails on a terminal that is not the controlling one, which has no background.
        guard foreground == -1 || foreground == getpgrp() else { return false }
        var events = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&events, 1, limit) == 1
            && events.revents & Int16(POLLOUT) != 0
    }

    /// Writes a text. A failure is ignored: the bar is only a decoration.
    func write(_ text: String) {
        try? Array(text.utf8).withUnsafeBytes { try Output.write($0, to: descriptor) }
    }
}
