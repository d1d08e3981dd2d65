import CLinux
import Foundation
import Quire

/// A connection to another process of the same user on this machine, for lines of text.
///
/// Both sides refuse a process of another user, whoever owns the socket's file.
final class LocalSocket: Sendable {
    private let file: OpenFile
    private static let maximumLine = 65_536

    init(_ file: OpenFile) { self.file = file }

    /// Connects to the process that listens at a path.
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
            // EAGAIN: the other side's backlog is full.
            case ENOENT, ECONNREFUSED, EACCES, ENOTDIR, ENAMETOOLONG, EAGAIN, EPROTOTYPE:
                return nil
            default: throw FileSystem.failure("connect to", path)
            }
        }
        return socket.isOfThisUser ? socket : nil
    }

    /// Whether no process listens at the socket at a path.
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
    /// - Returns: Whether it was sent; `false` if the other side has disconnected or does not read.
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
        /// A line was received.
        case line(String)
        /// The other side has closed the connection, or sent invalid data.
        case nothing
        /// The timeout has expired.
        case timeout
    }

    /// Waits for a line. Blocks the calling thread.
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

/// Accepts connections at a path until it is deallocated or closed.
///
/// `@unchecked`: a dispatch source may be used from any thread.
final class LocalListener: @unchecked Sendable {
    private let file: OpenFile
    private let path: String
    private let source: any DispatchSourceRead
    /// The identity of the socket's file, so that a replacement is not removed.
    private let identity: FileInformation
    private let cleanup: Int

    /// Listens at a path. An existing socket is replaced: the caller must have the exclusive right to the path.
    ///
    /// - Parameters:
    ///   - queue: The queue on which `connected` is called.
    ///   - connected: Receives each connection. It must not block.
    init(
        path: String, queue: DispatchQueue, connected: @escaping @Sendable (LocalSocket) -> Void
    ) throws {
        let descriptor = quire_local_socket()
        guard descriptor >= 0 else { throw FileSystem.failure("listen at", path) }
        let file = OpenFile(owning: descriptor, path: path)
        // A socket gets its name only when it is listening, so one that refuses connections belongs to a process that has ended.
        let temporary = path + Self.temporaryInfix + String(getpid())
        try FileSystem.removeFileIfPresent(temporary)
        if quire_local_bind(descriptor, temporary) != 0 {
            throw FileSystem.failure("listen at", path)
        }
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        let identity = try FileSystem.removeOnFailure(temporary) {
            guard let found = try FileSystem.informationWithoutFollowing(at: temporary),
                listen(descriptor, 16) == 0
            else { throw FileSystem.failure("listen at", path) }
            try FileSystem.rename(temporary, to: path)
            return found
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
        // The descriptor is closed only when the source no longer uses it.
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

    /// Precedes the process identifier in the name of a socket that is not listening yet.
    private static let temporaryInfix = ".new-"

    /// Removes the sockets in a folder whose processes have ended. Sockets that cannot be examined or removed are skipped.
    static func removeAbandoned(in folder: String) {
        for name in (try? FileSystem.names(in: folder)) ?? [] {
            let path = FileSystem.path(folder, name)
            guard let found = (try? FileSystem.informationWithoutFollowing(at: path)) ?? nil,
                found.isSocket
            else { continue }
            if name.contains(temporaryInfix) {
                // It has this name only briefly.
                if Int64(time(nil)) - found.statusChangeTime < 3600 { continue }
            } else if !LocalSocket.isRefused(at: path) {
                continue
            }
            // Another process may be replacing it: only the file that was examined is removed.
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
