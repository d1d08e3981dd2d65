import Dispatch
import Foundation
import Glibc

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
