import CEdit
import Foundation
import Quire

/// Lines of a session, from a terminal or from standard input.
protocol LineSource: Sendable {
    /// The next line, or `nil` after the last. The main queue is free meanwhile.
    ///
    /// - Parameter prompt: The text before the line, on a terminal.
    /// - Throws: `Failure` if it is not UTF-8; the one after it can be read.
    func next(prompt: String) async throws -> String?
}

/// Reads the lines of standard input.
final class LineReader: LineSource {
    private let queue = DispatchQueue(label: "quire.lines")
    // Used on the queue only.
    private nonisolated(unsafe) let input = fdopen(STDIN_FILENO, "r")

    func next(prompt: String) async throws -> String? {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result { try self.read() }) }
        }
    }

    private func read() throws -> String? {
        guard let input else { return nil }
        var (line, capacity): (UnsafeMutablePointer<CChar>?, Int) = (nil, 0)
        defer { free(line) }
        let count = getline(&line, &capacity, input)
        guard count >= 0, let line else { return nil }
        let bytes = UnsafeRawBufferPointer(start: line, count: count)
        return try CommandText.string(
            bytes.last == UInt8(ascii: "\n") ? bytes.dropLast() : bytes[...], of: "The line")
    }
}

// MARK: - Editing

/// Reads lines from a terminal, with editing, a history and completion, by libedit.
///
/// Lines are read on a queue of its own, so that the main queue is free meanwhile. Ctrl-C drops the line that is edited, and
/// Ctrl-Z suspends the program; both arrive as signals, which ``interrupt()`` and ``suspend()`` hand to the editor.
final class LineEditor: LineSource, @unchecked Sendable {
    // The editor, its history and the texts below are used on the queue only; the rest does not change, or has a lock.
    private let queue = DispatchQueue(label: "quire.lines")
    private let editor: OpaquePointer
    private let history: OpaquePointer?
    private let historyPath: String?
    private var prompt: UnsafeMutablePointer<CChar>?
    private var isInterrupted = false
    private let isEditing = Lock(false)
    /// Wakes the editor, which waits for a key: a byte says why.
    private let wake: (read: Int32, write: Int32)
    /// Completes the text before the cursor: words, with a space behind those that are whole.
    private let complete: @MainActor (String) -> [String]

    private enum Wake {
        static let interrupt = UInt8(ascii: "i")
        static let suspend = UInt8(ascii: "z")
    }

    /// Control-C, as a key.
    private static let interruptKey = wchar_t(3)
    /// The number of lines in the history.
    private static let historySize = 1000
    /// The size of a history file that is written anew with the lines that are kept.
    private static let maximumHistoryFileSize = 1 << 20

    /// - Parameters:
    ///   - historyPath: The file of the history; `nil` for none.
    ///   - complete: Returns the words that can stand in place of the last one of a text. Called between lines only.
    /// - Returns: `nil` if standard input or output is not a terminal that can be edited on.
    init?(historyPath: String?, complete: @escaping @MainActor (String) -> [String]) {
        guard isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1 else { return nil }
        Self.useUTF8()
        var pipe: [Int32] = [0, 0]
        guard Glibc.pipe(&pipe) == 0, let editor = quire_edit_init("quire")
        else { return nil }
        for descriptor in pipe {
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        }
        wake = (pipe[0], pipe[1])
        self.editor = editor
        self.complete = complete
        self.historyPath = historyPath
        history = quire_history_init(Int32(Self.historySize))
        quire_edit_set_up(
            editor, Unmanaged.passUnretained(self).toOpaque(),
            { LineEditor.owner(of: $0)?.prompt },
            { editor, character in LineEditor.owner(of: editor)?.readKey(character) ?? -1 },
            history)
        quire_edit_bind(editor, "^I", "quire-complete") { editor, _ in
            LineEditor.owner(of: editor)?.completeWord() ?? UInt8(CC_ERROR)
        }
        quire_edit_bind(editor, "^C", "quire-interrupt") { editor, _ in
            LineEditor.owner(of: editor)?.isInterrupted = true
            return UInt8(CC_NEWLINE)
        }
        // The user's own keys, such as those of vi.
        el_source(editor, nil)
        readHistory()
        restoreTerminalAtEnd()
    }

    private static func owner(of editor: OpaquePointer?) -> LineEditor? {
        guard let owner = quire_edit_owner(editor) else { return nil }
        return Unmanaged<LineEditor>.fromOpaque(owner).takeUnretainedValue()
    }

    /// Makes the C library use UTF-8, even if the environment specifies no language.
    private static func useUTF8() {
        setlocale(LC_CTYPE, "")
        if String(cString: nl_langinfo(Int32(CODESET))) != "UTF-8" {
            setlocale(LC_CTYPE, "C.UTF-8")
        }
    }

    /// Puts the terminal back into its mode if a signal ends the program while a line is edited.
    private func restoreTerminalAtEnd() {
        var mode = termios()
        guard tcgetattr(STDIN_FILENO, &mode) == 0 else { return }
        _ = TerminationCleanup.add { [mode] in
            var mode = mode
            tcsetattr(STDIN_FILENO, TCSADRAIN, &mode)
        }
    }

    // MARK: - Lines

    /// Reads a line, which may have several lines if quotation marks are open or a line ends with a backslash.
    ///
    /// - Returns: The line; an empty one if it was dropped by Ctrl-C; `nil` at the end, Ctrl-D.
    func next(prompt: String) async -> String? {
        await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: self.read(prompt)) }
        }
    }

    private func read(_ prompt: String) -> String? {
        var text = ""
        var prompt = prompt
        while true {
            guard let line = readOne(prompt) else { return isInterrupted ? "" : nil }
            if isInterrupted { return "" }
            text += line
            switch ShellWords(text).continuation {
            case .none:
                remember(text)
                return text
            case .backslash: text.removeLast()
            case .quotation: text += "\n"
            }
            prompt = String(repeating: " ", count: max(0, prompt.count - 3)) + "-> "
        }
    }

    private func readOne(_ prompt: String) -> String? {
        free(self.prompt)
        self.prompt = strdup(prompt)
        isInterrupted = false
        el_resize(editor)
        drainWake()
        isEditing.withLock { $0 = true }
        defer { isEditing.withLock { $0 = false } }
        // Before the prompt is shown: the terminal would take a Ctrl-D that comes in between for itself.
        quire_edit_prepare_terminal(editor, 1)
        var count: Int32 = 0
        let line = el_gets(editor, &count)
        if isInterrupted { writeOut("^C\n") }
        guard let line, count > 0 else {
            if !isInterrupted { writeOut("\n") }
            return nil
        }
        // Invalid UTF-8 cannot be typed: keys are decoded one by one.
        let text = String(cString: line)
        return text.hasSuffix("\n") ? String(text.dropLast()) : text
    }

    private func writeOut(_ text: String) {
        _ = text.withCString { Glibc.write(STDOUT_FILENO, $0, strlen($0)) }
    }

    // MARK: - Signals

    /// Drops the line that is edited.
    ///
    /// - Returns: Whether one is.
    func interrupt() -> Bool { wakeUp(Wake.interrupt) }

    /// Suspends the program until it is continued, with the terminal in its mode meanwhile.
    func suspend() {
        if !wakeUp(Wake.suspend) { kill(getpid(), SIGSTOP) }
    }

    private func wakeUp(_ reason: UInt8) -> Bool {
        isEditing.withLock { isEditing in
            guard isEditing else { return false }
            var byte = reason
            return Glibc.write(wake.write, &byte, 1) == 1
        }
    }

    private func drainWake() {
        var byte: UInt8 = 0
        while Glibc.read(wake.read, &byte, 1) == 1 {}
    }

    // MARK: - Keys

    /// Reads a character for the editor, as its `el_rfunc_t`: returns 1, 0 at the end, or -1.
    private func readKey(_ character: UnsafeMutablePointer<wchar_t>?) -> Int32 {
        var bytes: [UInt8] = []
        while true {
            var files = [
                pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0),
                pollfd(fd: wake.read, events: Int16(POLLIN), revents: 0),
            ]
            if poll(&files, 2, -1) < 0 {
                if errno == EINTR { continue }
                return -1
            }
            if files[1].revents != 0, let key = wokenKey() {
                character?.pointee = key
                return 1
            }
            if files[0].revents == 0 { continue }
            var byte: UInt8 = 0
            switch Glibc.read(STDIN_FILENO, &byte, 1) {
            case 0: return 0
            case -1 where errno == EINTR || errno == EAGAIN: continue
            case -1: return -1
            default: break
            }
            bytes.append(byte)
            if let scalar = String(validating: bytes, as: UTF8.self)?.unicodeScalars.first {
                character?.pointee = wchar_t(scalar.value)
                return 1
            }
            // Bytes that are not UTF-8 are dropped.
            if bytes.count == 4 || bytes[0] < 0xC2 { bytes = [] }
        }
    }

    /// Does what woke the editor.
    ///
    /// - Returns: The key to handle, or `nil`.
    private func wokenKey() -> wchar_t? {
        var reason: UInt8 = 0
        guard Glibc.read(wake.read, &reason, 1) == 1 else { return nil }
        if reason == Wake.interrupt { return Self.interruptKey }
        quire_edit_prepare_terminal(editor, 0)
        kill(getpid(), SIGSTOP)
        quire_edit_prepare_terminal(editor, 1)
        quire_edit_refresh(editor)
        return nil
    }

    // MARK: - Completion

    /// Completes the word before the cursor as far as all candidates agree, or lists them.
    private func completeWord() -> UInt8 {
        guard let line = el_line(editor)?.pointee, let start = line.buffer, let end = line.cursor
        else { return UInt8(CC_ERROR) }
        let before = UnsafeRawBufferPointer(start: start, count: end - start)
        let text = String(decoding: before, as: UTF8.self)
        let candidates = DispatchQueue.main.sync {
            MainActor.assumeIsolated { complete(text) }
        }
        guard let first = candidates.first else { return UInt8(CC_REFRESH_BEEP) }
        let word = ShellWords(text).lastWordStart.map { text[$0...] } ?? ""
        let common = candidates.dropFirst().reduce(first) { $0.commonPrefix(with: $1) }
        if common.count > word.count {
            el_deletestr(editor, Int32(word.unicodeScalars.count))
            if el_insertstr(editor, common) == 0 { return UInt8(CC_REFRESH) }
            return UInt8(CC_REFRESH_BEEP)
        }
        list(candidates.map { $0.trimmingCharacters(in: .whitespaces) })
        return UInt8(CC_REDISPLAY)
    }

    /// The number of candidates that are listed.
    private static let maximumListLength = 200

    private func list(_ candidates: [String]) {
        let shown = candidates.prefix(Self.maximumListLength).map(TerminalText.line)
        let width = (shown.map(\.count).max() ?? 0) + 2
        let columns = max(1, (Output.terminalWidth ?? 80) / width)
        let rows = (shown.count + columns - 1) / columns
        var text = "\n"
        for row in 0..<rows {
            let cells = stride(from: row, to: shown.count, by: rows).map { shown[$0] }
            text +=
                cells.enumerated().map { index, cell in
                    index == cells.count - 1
                        ? cell : cell + String(repeating: " ", count: width - cell.count)
                }.joined() + "\n"
        }
        if candidates.count > shown.count {
            text += "… and \(candidates.count - shown.count) more\n"
        }
        writeOut(text)
    }

    // MARK: - History

    /// The file of the history, `$XDG_STATE_HOME/quire/history`; its folder is made.
    ///
    /// - Throws: `QuireError` if the folder cannot be made.
    static func standardHistoryPath() throws -> String {
        let folder = FileSystem.path(FileSystem.userFolder(for: .state), "quire")
        do {
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
        } catch {
            throw FileSystem.failure("create", folder, thrown: error)
        }
        return FileSystem.path(folder, "history")
    }

    /// Reads the file of the history, and shortens one that has grown too long. It has a line per entry, in which `\n` is a line
    /// end and `\\` a backslash.
    private func readHistory() {
        guard let history, let historyPath,
            let text = try? String(contentsOfFile: historyPath, encoding: .utf8)
        else { return }
        let lines = text.split(separator: "\n").suffix(Self.historySize)
        for line in lines {
            let parts = line.split(separator: "\\\\", omittingEmptySubsequences: false)
            quire_history_add(
                history, parts.map { $0.replacing("\\n", with: "\n") }.joined(separator: "\\"))
        }
        if text.utf8.count > Self.maximumHistoryFileSize {
            write(lines.joined(separator: "\n"), toHistory: historyPath, O_TRUNC)
        }
    }

    /// Adds a line to the history and its file. Lines that begin with a space are not kept.
    private func remember(_ typed: String) {
        guard let history, let first = typed.first, !first.isWhitespace else { return }
        let line = typed.trimmingCharacters(in: .whitespacesAndNewlines)
        quire_history_add(history, line)
        guard let historyPath else { return }
        let escaped = line.replacing("\\", with: "\\\\").replacing("\n", with: "\\n")
        write(escaped, toHistory: historyPath, O_APPEND)
    }

    /// Writes a line. A history that cannot be written is no reason to disturb its user.
    private func write(_ line: String, toHistory path: String, _ mode: Int32) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | mode, 0o600)
        if descriptor < 0 { return }
        _ = "\(line)\n".withCString { Glibc.write(descriptor, $0, strlen($0)) }
        close(descriptor)
    }
}
