import CLinux
import Foundation
import Quire

/// A connection to another process of the same user on this machine, for lines of text.
///
/// A process of another user is refused on both sides, no matter who made the socket's file.
final class LocalSocket: Sendable {
    private let file: OpenFile
    private static let maximumLine = 65_536

    init(_ file: OpenFile) { self.file = file }

    /// Connects to who listens at a path.
    ///
    /// - Returns: `nil` if no process of this user listens there.
    static func connect(to path: String) throws -> LocalSocket? {
        let descriptor = quire_local_socket()
        guard descriptor >= 0 else { throw FileSystem.failure("connect to", path) }
        let socket = LocalSocket(OpenFile(owning: descriptor, path: path))
        try socket.setTimeout(milliseconds: 2000)
        while quire_local_connect(descriptor, path) != 0 {
            switch errno {
            case EINTR: continue
            // EAGAIN: more want to connect than the other side takes.
            case ENOENT, ECONNREFUSED, EACCES, ENOTDIR, ENAMETOOLONG, EAGAIN, EPROTOTYPE:
                return nil
            default: throw FileSystem.failure("connect to", path)
            }
        }
        return socket.isOfThisUser ? socket : nil
    }

    /// Whether there is a socket at a path that no process listens at.
    static func isRefused(at path: String) -> Bool {
        let descriptor = quire_local_socket()
        if descriptor < 0 { return false }
        let socket = OpenFile(owning: descriptor, path: path)
        defer { socket.close() }
        while quire_local_connect(descriptor, path) != 0 {
            if errno != EINTR { return errno == ECONNREFUSED }
        }
        return false
    }

    var isOfThisUser: Bool {
        var user: UInt32 = 0
        return quire_peer_user(file.descriptor, &user) == 0 && user == geteuid()
    }

    private func setTimeout(milliseconds: Int) throws {
        if quire_socket_timeout(file.descriptor, max(milliseconds, 1)) != 0 {
            throw FileSystem.failure("set up", file.path)
        }
    }

    /// Sends a line. Gives up after some seconds.
    ///
    /// - Returns: Whether it was sent; otherwise the other side is gone or does not read.
    func send(_ line: String) -> Bool {
        var rest = Array((line + "\n").utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                quire_send(file.descriptor, $0.baseAddress, $0.count)
            }
            if count < 0 && errno == EINTR { continue }
            if count <= 0 { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// The result of waiting for a line.
    enum Received: Equatable, Sendable {
        /// It came.
        case line(String)
        /// The other side has ended the connection, or sends what is no line.
        case nothing
        /// None came in time.
        case timeout
    }

    /// Waits for a line. To be called on a thread that may wait.
    func receive(within milliseconds: Int) throws -> Received {
        let deadline = ContinuousClock.now + .milliseconds(milliseconds)
        var bytes: [UInt8] = []
        while true {
            let left = (deadline - .now).components
            let rest = Int(left.seconds) * 1000 + Int(left.attoseconds / 1_000_000_000_000_000)
            if rest <= 0 && milliseconds > 0 { return .timeout }
            try setTimeout(milliseconds: rest)
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = read(file.descriptor, &buffer, buffer.count)
            if count < 0 && errno == EINTR { continue }
            if count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) { return .timeout }
            if count <= 0 { return .nothing }
            bytes += buffer[..<count]
            if let end = bytes.firstIndex(of: UInt8(ascii: "\n")) {
                return .line(String(decoding: bytes[..<end], as: UTF8.self))
            }
            if bytes.count > Self.maximumLine { return .nothing }
        }
    }
}

/// Takes connections at a path until it is freed or closed.
///
/// `@unchecked`: a dispatch source may be used from any thread.
final class LocalListener: @unchecked Sendable {
    private let file: OpenFile
    private let path: String
    private let source: any DispatchSourceRead
    /// The identity of our file, so that another one is not removed.
    private let identity: FileInformation
    private let cleanup: Int

    /// Listens at a path. What is there is replaced: the caller must be the only one with a right to the path.
    ///
    /// - Parameters:
    ///   - queue: Where connections are handed over.
    ///   - connected: Gets each connection. It must not wait.
    init(
        path: String, queue: DispatchQueue, connected: @escaping @Sendable (LocalSocket) -> Void
    ) throws {
        let descriptor = quire_local_socket()
        guard descriptor >= 0 else { throw FileSystem.failure("listen at", path) }
        let file = OpenFile(owning: descriptor, path: path)
        // A socket has its name only when it is listening: one that refuses connections belongs to a process that has ended.
        let temporary = path + Self.temporaryInfix + String(getpid())
        try FileSystem.removeFileIfPresent(temporary)
        if quire_local_bind(descriptor, temporary) != 0 {
            throw FileSystem.failure("listen at", path)
        }
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        let identity: FileInformation
        do {
            guard let found = try FileSystem.informationWithoutFollowing(at: temporary),
                listen(descriptor, 16) == 0
            else { throw FileSystem.failure("listen at", path) }
            try FileSystem.rename(temporary, to: path)
            identity = found
        } catch {
            _ = try? FileSystem.removeFileIfPresent(temporary)
            throw error
        }
        self.file = file
        self.path = path
        self.identity = identity
        cleanup = TerminationCleanup.add { Self.remove(path, ifSameAs: identity) }
        source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        source.setEventHandler {
            while true {
                let connection = quire_accept(file.descriptor)
                if connection < 0 && errno == EINTR { continue }
                if connection < 0 { return }
                let socket = LocalSocket(OpenFile(owning: connection, path: path))
                if socket.isOfThisUser { connected(socket) }
            }
        }
        // The descriptor is closed only when the source does not use it any more.
        source.setCancelHandler { file.close() }
        source.resume()
    }

    deinit { close() }

    /// Ends listening. Calling it twice does nothing.
    func close() {
        if source.isCancelled { return }
        source.cancel()
        TerminationCleanup.remove(cleanup)
        Self.remove(path, ifSameAs: identity)
    }

    private static func remove(_ path: String, ifSameAs identity: FileInformation) {
        if let there = (try? FileSystem.informationWithoutFollowing(at: path)) ?? nil,
            there.isSameFile(as: identity)
        {
            _ = try? FileSystem.removeFileIfPresent(path)
        }
    }

    /// In the name of a socket that is not listening yet, before the number of its process.
    private static let temporaryInfix = ".new-"

    /// Removes the sockets in a folder whose processes have ended. Those that cannot be examined or removed stay.
    static func removeAbandoned(in folder: String) {
        for name in (try? FileSystem.names(in: folder)) ?? [] {
            let path = FileSystem.path(folder, name)
            guard let found = (try? FileSystem.informationWithoutFollowing(at: path)) ?? nil,
                found.isSocket
            else { continue }
            if name.contains(temporaryInfix) {
                // It has this name for an instant only.
                if Int64(time(nil)) - found.statusChangeTime < 3600 { continue }
            } else if !LocalSocket.isRefused(at: path) {
                continue
            }
            // A process may be putting its own in this place: what is removed is what was looked at.
            let aside = path + temporaryInfix + String(getpid())
            guard (try? FileSystem.renameWithoutReplacing(path, to: aside)) != nil else { continue }
            let moved = (try? FileSystem.informationWithoutFollowing(at: aside)) ?? nil
            if moved?.isSameFile(as: found) == true {
                _ = try? FileSystem.removeFileIfPresent(aside)
            } else {
                try? FileSystem.renameWithoutReplacing(aside, to: path)
            }
        }
    }
}
