import Dispatch
import Logging
import Quire

/// Answers other processes of the user that want something of a package which this process has open for writing.
///
/// They find it by a socket in ``RuntimeFolder``, named by the package's device and inode. Who has the package's lock has
/// the right to the name: what is there of a process that was killed is replaced. A connection brings a line and takes
/// one:
///
/// | line | answer |
/// |---|---|
/// | `quire/1 save` | `saved`, or `failed CODE SENTENCE` |
/// | `quire/1 status` | `unsaved` or `clean` |
///
/// Another machine that has the package open by a network file system is not found, nor is another user: they read what
/// was saved last.
final class PackageListener: Sendable {
    /// What is done for other processes.
    struct Actions: Sendable {
        /// Saves what is unsaved.
        var save: @Sendable () async throws -> Void
        /// Whether anything is.
        var hasUnsavedChanges: @Sendable () async -> Bool
    }

    private static let logger = Logger(label: "quire.document")
    private static let greeting = "quire/1 "
    /// More at a time are turned away.
    private static let greatestConnectionCount = 16
    private static let queue = DispatchQueue(label: "quire.package-listener")

    private let listener: LocalListener
    private let socketName: String

    /// Listens for a package. `nil` if there is nowhere to; then others read what was saved last.
    init?(forPackageAt path: String, _ actions: Actions) {
        let count = ConnectionCount()
        do {
            guard let package = try FileSystem.information(at: path),
                let folder = RuntimeFolder.make()
            else { return nil }
            _ = RuntimeFolder.removeAbandonedSockets
            socketName = RuntimeFolder.socketName(of: package)
            let socket = FileSystem.path(folder, socketName)
            listener = try LocalListener(path: socket, queue: Self.queue) { connection in
                guard count.begin(Self.greatestConnectionCount) else { return }
                DispatchQueue.global().async {
                    Self.answer(connection, actions) { count.end() }
                }
            }
        } catch {
            Self.logger.notice("Other processes cannot ask for “\(path)” to be saved: \(error)")
            return nil
        }
    }

    /// Whether it is this package for which it listens.
    func isForPackage(at path: String) -> Bool {
        let package = (try? FileSystem.information(at: path)) ?? nil
        return package.map(RuntimeFolder.socketName) == socketName
    }

    /// Ends listening.
    func close() { listener.close() }

    private static func answer(
        _ connection: LocalSocket, _ actions: Actions, _ end: @escaping @Sendable () -> Void
    ) {
        guard case .line(let line)? = try? connection.receive(within: 2000),
            line.hasPrefix(greeting)
        else { return end() }
        Task {
            defer { end() }
            switch line.dropFirst(greeting.count) {
            case "save":
                do {
                    try await actions.save()
                    _ = connection.send("saved")
                } catch {
                    let error = QuireError(wrapping: error, path: "")
                    let sentence = error.message.filter { !$0.isNewline }.prefix(2000)
                    _ = connection.send("failed \(error.code.rawValue) \(sentence)")
                }
            case "status":
                _ = connection.send(await actions.hasUnsavedChanges() ? "unsaved" : "clean")
            default: break
            }
        }
    }

    private final class ConnectionCount: Sendable {
        private let count = Lock(0)

        func begin(_ greatest: Int) -> Bool {
            count.withLock { count in
                if count >= greatest { return false }
                count += 1
                return true
            }
        }

        func end() { count.withLock { $0 -= 1 } }
    }

    // MARK: The other side

    /// Asks whoever has a package open.
    ///
    /// - Returns: The answer, or `nil` if nobody listens or answers in a way that is understood.
    static func ask(_ question: String, aboutPackageAt path: String, within timeout: Duration)
        throws -> LocalSocket.Received?
    {
        guard let package = try FileSystem.information(at: path) else { return nil }
        let name = RuntimeFolder.socketName(of: package)
        for folder in RuntimeFolder.candidates where RuntimeFolder.isSafe(folder) {
            guard let socket = try LocalSocket.connect(to: FileSystem.path(folder, name)),
                socket.send(greeting + question)
            else { continue }
            let (seconds, attoseconds) = timeout.components
            let milliseconds =
                Int(min(seconds, 1_000_000)) * 1000 + Int(attoseconds / 1_000_000_000_000_000)
            return try socket.receive(within: max(milliseconds, 1))
        }
        return nil
    }
}
