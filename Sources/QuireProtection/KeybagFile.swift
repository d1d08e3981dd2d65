package import Foundation
import QuireSystem

/// The file that has a keybag.
///
/// It is replaced as a whole (``AtomicFileReplace``), and while somebody changes it, it is claimed: two processes that each
/// add a slot do it one after the other. Beneath a root it is not trusted; see ``FileLocation``.
struct KeybagFile: Sendable {
    /// The file's path.
    var path: String
    /// The document package that it is in, if it is in one.
    var root: String?

    private static let patience = FileLockWait(timeout: .seconds(10)) { _ in }

    /// The file's metadata, if it exists.
    var information: FileInformation? {
        (try? FileSystem.information(at: path, beneath: root)) ?? nil
    }

    /// Reads the keybag. Nothing of it is verified.
    func read() throws -> Keybag {
        try Keybag(
            FileSystem.contents(of: path, beneath: root, limit: Keybag.greatestSize), path: path)
    }

    /// Writes a keybag where nothing is.
    ///
    /// - Parameter isPrivate: Whether only its user may read it.
    /// - Throws: ``QuireError`` with code `alreadyExists` if there is something of that name.
    func create(_ bytes: Data, isPrivate: Bool) throws {
        try Self.writeNewFile(bytes, at: path, beneath: root, isPrivate: isPrivate)
    }

    /// Reads the keybag, lets it be changed, and writes it.
    ///
    /// - Parameter change: Gives the bytes of the changed keybag.
    /// - Throws: ``QuireError`` with code `locked` if another process is changing it all the time.
    func update(_ change: (Keybag) throws -> Data) throws {
        let isDone: Bool? = try Self.patience.polling(path) { _ in
            let file = try OpenFile.open(path, beneath: root, for: .reading)
            defer { file.close() }
            // Without flock on the file system, the last of two concurrent changes wins.
            guard (try? file.claim()) ?? true,
                // The previous holder of the claim has replaced it.
                let found = try FileSystem.information(at: path, beneath: root),
                try file.information().isSameFile(as: found)
            else { return nil }
            let keybag = try Keybag(
                file.readToEnd(limit: Keybag.greatestSize), path: path)
            try AtomicFileReplace.replace(path, beneath: root, with: change(keybag))
            return true
        }
        if isDone == nil {
            throw QuireError(
                .locked,
                "Another process is changing the keybag “\(path)”; wait until it is done, and try again.",
                subject: .init(file: path))
        }
    }

    fileprivate static func writeNewFile(
        _ bytes: Data, at path: String, beneath root: String? = nil, isPrivate: Bool
    ) throws {
        guard isPrivate else {
            try FileSystem.writeNewFile(bytes, at: path, beneath: root)
            return
        }
        let (file, temporary) = try OpenFile.createTemporary(beside: path, beneath: root)
        do {
            try file.setPermissionsIfPossible(0o600)
            try file.write(bytes)
            try file.synchronize()
            try FileSystem.renameWithoutReplacing(temporary, to: path, beneath: root)
            file.close()
        } catch {
            _ = try? FileSystem.removeFileIfPresent(temporary, beneath: root)
            throw error
        }
        try FileSystem.synchronizeFolder(containing: path, beneath: root)
    }
}

/// Files with random bytes that open a slot.
package enum KeyFile {
    /// Reads a key file.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if it is not a file, of a size that no key file has, or if others
    ///   than its user may write to it: they could have exchanged it.
    package static func read(_ path: String) throws -> Data {
        let file = try OpenFile.open(path, for: .reading)
        defer { file.close() }
        let information = try file.information()
        guard information.kind == .regular else {
            throw error("“\(path)” cannot be a key file: it is not a regular file.", path)
        }
        guard information.permissions & 0o022 == 0 else {
            throw error(
                "Others can write to the key file “\(path)”; make it yours alone (chmod 600) and check that it is the right one.",
                path)
        }
        guard KeybagCredential.keyFileCounts.contains(Int(clamping: information.size)) else {
            throw error(
                "“\(path)” cannot be a key file: it has \(information.size) bytes, and a key file has \(KeybagCredential.keyFileCounts.lowerBound) to \(KeybagCredential.keyFileCounts.upperBound).",
                path)
        }
        return try file.readToEnd(limit: KeybagCredential.keyFileCounts.upperBound)
    }

    /// Makes a key file of 32 random bytes that only its user may read.
    static func make(at path: String) throws {
        let secret = try SecretMemory(randomCount: 32)
        try KeybagFile.writeNewFile(
            secret.withUnsafeBytes { Data($0) }, at: path, isPrivate: true)
    }

    private static func error(_ message: String, _ path: String) -> QuireError {
        QuireError(.invalidValue, message, subject: .init(file: path))
    }
}
