import Foundation
import Quire

/// Where verbs print, and in which form.
final class Output {
    /// Whether to print JSON.
    let json: Bool
    /// Whether JSON stays on one line, for a session that is driven by a program.
    let compact: Bool
    private let write: (Data) throws -> Void
    private var buffer: [UInt8] = []

    /// Prints to a file handle.
    convenience init(json: Bool, compact: Bool = false, to handle: FileHandle = .standardOutput) {
        self.init(json: json, compact: compact) { try handle.write(contentsOf: $0) }
    }

    init(json: Bool, compact: Bool, write: @escaping (Data) throws -> Void) {
        self.json = json
        self.compact = compact
        self.write = write
    }

    /// Prints a text as it is.
    func print(raw text: String) throws {
        buffer.append(contentsOf: text.utf8)
        if buffer.count >= 1 << 16 { try flush() }
    }

    /// Prints a line.
    func print(_ line: String) throws { try print(raw: line + "\n") }

    /// Prints a JSON value, spread over lines to a depth where lines are allowed.
    func print(_ value: JSONValue, levels: Int) throws {
        try print(value.text(levels: compact ? 0 : levels))
    }

    /// Writes out what is buffered.
    ///
    /// - Throws: `QuireError` with code `inputOutput`: a full disk must not look like success.
    func flush() throws {
        if buffer.isEmpty { return }
        defer { buffer.removeAll(keepingCapacity: true) }
        do {
            try write(Data(buffer))
        } catch {
            throw QuireError(
                .inputOutput, "The output could not be written: \(error.localizedDescription)",
                underlying: error)
        }
    }

    /// Prints a sentence on standard error, after what was printed before.
    static func report(_ sentence: String) {
        // If even that fails there is nobody to tell; the exit code remains.
        try? FileHandle.standardError.write(contentsOf: Data("quire: \(sentence)\n".utf8))
    }
}
