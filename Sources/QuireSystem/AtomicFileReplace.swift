import CLinux
package import Foundation

/// Atomically replaces the content of a file: at every instant, also after a crash or power loss, its name refers to either
/// the complete old or the complete new content.
///
/// Steps, and the failure that each guards against:
///
/// 1. A new file is made **in the same folder** with a temporary name (`O_EXCL`), with the owner, group, permissions and
///    extended attributes of the old file, access lists among them, as far as this process may set them. The same folder,
///    because a rename across file systems is a copy.
/// 2. All bytes are written. If the disk is full, or the process dies, the old file is unchanged; the temporary file is
///    removed, or remains until ``TemporarySibling/removeAbandoned(in:)``.
/// 3. The new file is synchronized **before** it is renamed: otherwise a file system may make the name durable
///    before the bytes, and leave an empty file.
/// 4. It is renamed over the old one. From here on all readers see the new content.
/// 5. The folder is synchronized. Without that the rename may be undone by a power loss.
///
/// If step 5 fails the new content is in place but may not survive power loss; the error is thrown, and the caller must not
/// report success. A symbolic link stays, and its target is replaced; beneath a root, which is untrusted, it is an error
/// instead (see ``FileLocation``). Other hard links of the old file keep the old content.
package enum AtomicFileReplace {
    /// Replaces or creates a file.
    ///
    /// - Throws: ``QuireError`` of the failed step.
    package static func replace(
        _ path: String, beneath root: String? = nil, with data: Data
    ) throws {
        try replaceKeepingOpen(path, beneath: root, with: data).close()
    }

    /// Replaces or creates a file, and returns the new file: by the time this returns, another process may have replaced it
    /// again.
    ///
    /// - Parameters:
    ///   - locking: Whether the new file is locked (``OpenFile/lockExclusively()``) before it has its name.
    ///   - synchronizingFolder: Whether to perform step 5.
    ///   - recover: Called with the new file if it is in place but step 5 failed.
    /// - Throws: ``QuireError`` of the failed step.
    package static func replaceKeepingOpen(
        _ path: String, beneath root: String? = nil, with data: Data,
        locking: Bool = false, synchronizingFolder: Bool = true,
        ifNotDurable recover: (OpenFile) -> Void = { _ in }
    ) throws -> OpenFile {
        let path = root == nil ? FileSystem.resolvingLink(path) : path
        let old = try FileLocation(path, beneath: root).information()
        if root != nil, let old, old.kind != .regular {
            throw old.foreignError(at: path, expected: .regular)
        }
        let (file, temporary) = try OpenFile.createTemporary(beside: path, beneath: root)
        try FileSystem.removeOnFailure(temporary, beneath: root) {
            if let old {
                if let original = try? OpenFile.open(path, beneath: root, for: .examining) {
                    try file.takeAttributes(of: original)
                } else {
                    try file.setPermissions(old.permissions & 0o777)
                }
            }
            if locking { _ = try file.lockExclusively() }
            try file.write(data)
            try file.synchronize()
            try FileSystem.rename(temporary, to: path, beneath: root)
            // On a network file system ending the claim would end the lock.
            if !locking { file.endClaim() }
        }
        if !synchronizingFolder { return file }
        do {
            try FileSystem.synchronizeFolder(containing: path, beneath: root)
        } catch {
            recover(file)
            throw error
        }
        return file
    }
}
