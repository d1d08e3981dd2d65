import Foundation
import Synchronization

/// The file of a store that is written as a whole: read once, then replaced by saves.
///
/// The file that was read or written last is kept open. So its number cannot be given to another one, and whether the
/// path still leads to it tells whether somebody else has replaced it.
final class AtomicStoreFile: Sendable {
    let path: String
    private struct State: Sendable {
        var file: OpenFile
        var information: FileInformation
    }
    private let state = Mutex<State?>(nil)

    /// How long a save waits for another process that is saving.
    private static let patience = Duration.seconds(5)

    init(path: String) { self.path = path }

    /// Reads the file, and remembers which it was.
    func read() throws -> Data {
        // Somebody may write into it rather than replace it; then what was read may be parts of two states.
        for _ in 0..<5 {
            let file = try OpenFile.open(path, for: .reading)
            let before = try file.information()
            let data = try file.readToEnd()
            let after = try file.information()
            if data.count == Int(after.size), before.hasSameContent(as: after) {
                state.withLock { $0 = State(file: file, information: after) }
                return data
            }
        }
        throw QuireError(
            .locked,
            "“\(path)” is being written by another process; try again when it has finished.",
            subject: .init(file: path))
    }

    /// Makes the file, which must not be there yet.
    func create(with data: Data) throws {
        let file = try OpenFile.open(path, for: .creating)
        do {
            try file.write(data)
            try file.synchronize()
            try FileSystem.synchronizeFolder(containing: path)
            let information = try file.information()
            state.withLock { $0 = State(file: file, information: information) }
        } catch {
            _ = try? FileSystem.removeFileIfPresent(path)
            throw error
        }
    }

    /// Replaces the file, if it is still the one that was read or written last.
    ///
    /// - Parameter beforeCommit: Called when that has been found out, and may stop it by throwing.
    func replace(with data: Data, beforeCommit: () throws -> Void) throws {
        let lock = try lock()
        defer { lock.close() }
        guard let known = state.withLock({ $0?.information }),
            let present = try FileSystem.information(at: path), present.isSameFile(as: known),
            present.hasSameContent(as: known)
        else { throw replacedError() }
        try beforeCommit()
        let file = try AtomicFileReplace.replaceKeepingOpen(path, with: data)
        let information = try file.information()
        state.withLock { $0 = State(file: file, information: information) }
    }

    /// Locks the file that is there, so that others who save wait.
    private func lock() throws -> OpenFile {
        let deadline = ContinuousClock.now + Self.patience
        while true {
            guard try FileSystem.information(at: path) != nil else { throw replacedError() }
            let file = try OpenFile.open(path, for: .updating)
            if try file.lockExclusively() { return file }
            file.close()
            if ContinuousClock.now > deadline {
                throw QuireError(
                    .locked, "Another process is saving “\(path)”; try again when it has finished.",
                    subject: .init(file: path))
            }
            Thread.sleep(forTimeInterval: 0.005)
        }
    }

    private func replacedError() -> QuireError {
        QuireError(
            .mergeConflict,
            "“\(path)” has been replaced or removed by somebody else since it was read here, so it was not saved over; "
                + "open the store anew and repeat the changes, or save a copy.",
            subject: .init(file: path))
    }

    func close() { state.withLock { $0 = nil } }
}
