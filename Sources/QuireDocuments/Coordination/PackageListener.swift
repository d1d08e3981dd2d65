import Dispatch
import Foundation
import Logging
import Quire

/// Answers requests of the user's other processes about a package that this process has open for writing.
///
/// They connect to a socket in ``RuntimeFolder``, named by the package's device and inode. Only the owner of the package's lock
/// uses the name; it replaces the socket of a process that was killed. A client sends one line and receives one:
///
/// | line | answer |
/// |---|---|
/// | `quire/1 save` | `saved`, or `failed CODE SENTENCE` |
/// | `quire/1 status` | `unsaved` or `clean` |
///
/// Processes of other machines, which open the package over a network file system, and of other users cannot connect: they read
/// the last save.
final class PackageListener: Sendable {
    private static let logger = Logger(label: "quire.document")
    private static let greeting = "quire/1 "
    /// Further simultaneous connections are refused.
    private static let maximumConnectionCount = 16
    private static let queue = DispatchQueue(label: "quire.package-listener")

    private let listener: LocalListener
    private let socketName: String

    /// Listens for a package. `nil` if there is no folder for its socket; other processes then read the last save.
    ///
    /// - Parameters:
    ///   - path: The package's path.
    ///   - save: Saves unsaved changes.
    ///   - hasUnsavedChanges: Whether there are unsaved changes.
    init?(
        forPackageAt path: String, save: @escaping @Sendable () async throws -> Void,
        hasUnsavedChanges: @escaping @Sendable () async -> Bool
    ) {
        let free = DispatchSemaphore(value: Self.maximumConnectionCount)
        do {
            guard let package = try FileSystem.information(at: path),
                let folder = RuntimeFolder.make()
            else { return nil }
            _ = RuntimeFolder.removeAbandonedSockets
            socketName = RuntimeFolder.socketName(of: package)
            let socket = FileSystem.path(folder, socketName)
            listener = try LocalListener(path: socket, queue: Self.queue) { connection in
                guard free.wait(timeout: .now()) == .success else { return }
                DispatchQueue.global().async {
                    Self.answer(connection, save, hasUnsavedChanges) { free.signal() }
                }
            }
        } catch {
            Self.logger.notice("Other processes cannot request saves of “\(path)”: \(error)")
            return nil
        }
    }

    /// Whether it listens for the package at a path.
    func isForPackage(at path: String) -> Bool {
        let package = (try? FileSystem.information(at: path)) ?? nil
        return package.map(RuntimeFolder.socketName) == socketName
    }

    /// Ends listening.
    func close() { listener.close() }

    private static func answer(
        _ connection: LocalSocket, _ save: @escaping @Sendable () async throws -> Void,
        _ hasUnsavedChanges: @escaping @Sendable () async -> Bool,
        _ end: @escaping @Sendable () -> Void
    ) {
        guard case .line(let line)? = try? connection.receive(within: 2000),
            line.hasPrefix(greeting)
        else { return end() }
        Task {
            defer { end() }
            switch line.dropFirst(greeting.count) {
            case "save":
                do {
                    try await save()
                    _ = connection.send("saved")
                } catch {
                    let error = QuireError(wrapping: error, path: "")
                    let sentence = error.message.filter { !$0.isNewline }.prefix(2000)
                    _ = connection.send("failed \(error.code.rawValue) \(sentence)")
                }
            case "status":
                _ = connection.send(await hasUnsavedChanges() ? "unsaved" : "clean")
            default: break
            }
        }
    }

    // MARK: Client

    /// Sends a request to the process that has a package open.
    ///
    /// - Returns: The answer, or `nil` if no process listens or the answer is invalid.
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

// MARK: - The folder of the sockets

/// The folder of the sockets, which only the user can enter and which is removed at shutdown.
///
/// It is `quire` in `$XDG_RUNTIME_DIR` or `/run/user/UID`, otherwise `/tmp/quire-UID`. Processes with different environments may
/// choose different folders, so a client tries all of them.
enum RuntimeFolder {
    /// All candidates, the preferred one first.
    static var candidates: [String] {
        let user = geteuid()
        let configured = ProcessInfo.processInfo.environment["XDG_RUNTIME_DIR"]
            .flatMap { $0.hasPrefix("/") ? $0 : nil }
        let runtime = [configured, "/run/user/\(user)"].compactMap { $0 }
            .map { FileSystem.path($0, "quire") }
        return runtime + ["/tmp/quire-\(user)"]
    }

    /// The first usable folder, created if necessary.
    static func make() -> String? {
        candidates.first { path in
            if !FileSystem.exists(path) {
                guard (try? FileSystem.makeFolder(path)) != nil else { return false }
                try? OpenFile.open(path, for: .folder).setPermissions(0o700)
            }
            return isSafe(path)
        }
    }

    /// Removes the sockets of processes that were killed, once per process.
    static let removeAbandonedSockets: Void = {
        for folder in candidates where isSafe(folder) { LocalListener.removeAbandoned(in: folder) }
    }()

    /// Whether only the user can write to a folder.
    static func isSafe(_ path: String) -> Bool {
        guard let folder = try? FileSystem.informationWithoutFollowing(at: path) else {
            return false
        }
        return folder.kind == .folder && folder.user == geteuid() && folder.permissions & 0o077 == 0
    }

    /// The name of the socket of a package's owner. It does not change when the package is moved.
    static func socketName(of package: FileInformation) -> String {
        String(package.device, radix: 16) + "-" + String(package.inode, radix: 16)
    }
}
