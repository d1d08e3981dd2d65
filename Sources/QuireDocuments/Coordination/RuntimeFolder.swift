import Foundation
import Quire

/// Where processes of a user find each other: a folder that only they can enter and that does not outlive the machine's
/// running.
///
/// It is `quire` in `$XDG_RUNTIME_DIR` or `/run/user/UID`, otherwise `/tmp/quire-UID`. Processes that were started
/// differently may choose differently, so whoever looks for another looks into all of them.
enum RuntimeFolder {
    /// All folders that may be it, the preferred first.
    static var candidates: [String] {
        let user = geteuid()
        let configured = ProcessInfo.processInfo.environment["XDG_RUNTIME_DIR"]
            .flatMap { $0.hasPrefix("/") ? $0 : nil }
        let runtime = [configured, "/run/user/\(user)"].compactMap { $0 }
            .map { FileSystem.path($0, "quire") }
        return runtime + ["/tmp/quire-\(user)"]
    }

    /// The first folder that can be used; it is made if there is none yet.
    static func make() -> String? {
        candidates.first { path in
            if !FileSystem.exists(path) {
                guard (try? FileSystem.makeFolder(path)) != nil else { return false }
                try? OpenFile.open(path, for: .folder).setPermissions(0o700)
            }
            return isSafe(path)
        }
    }

    /// Removes the sockets of processes that were killed; once in the life of this one.
    static let removeAbandonedSockets: Void = {
        for folder in candidates where isSafe(folder) { LocalListener.removeAbandoned(in: folder) }
    }()

    /// Whether a folder is one that nobody else can put anything into.
    static func isSafe(_ path: String) -> Bool {
        guard let folder = try? FileSystem.informationWithoutFollowing(at: path) else {
            return false
        }
        return folder.kind == .folder && folder.user == geteuid() && folder.permissions & 0o077 == 0
    }

    /// The name of the socket of whoever has a package open. It is the folder's, wherever that is moved.
    static func socketName(of package: FileInformation) -> String {
        String(package.device, radix: 16) + "-" + String(package.inode, radix: 16)
    }
}
