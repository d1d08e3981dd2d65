import CLinux
package import Foundation

// Renaming files and folders, and the temporary names that they are built under.

extension FileSystem {
    /// Gives a file or folder another name in the same file system, replacing a file of that name.
    package static func rename(
        _ path: String, to newPath: String, beneath root: String? = nil
    ) throws {
        try rename(FileLocation(path, beneath: root), FileLocation(newPath, beneath: root))
    }

    package static func rename(_ old: FileLocation, _ new: FileLocation) throws {
        if old.withNames(new, renameat) != 0 { throw renameFailure(old, new, errno) }
    }

    private static func renameFailure(
        _ old: FileLocation, _ new: FileLocation, _ number: Int32
    ) -> QuireError {
        guard number == EXDEV else { return failure("rename to", new.path, errno: number) }
        return QuireError(
            .unsupported,
            "“\(old.path)” cannot be moved to “\(new.path)”, because the new path is on another file system. Copy it there, and "
                + "remove the original.",
            file: new.path, underlying: POSIXError(.EXDEV))
    }

    /// Renames a file or folder within a file system, to a name that must be free.
    ///
    /// Where the file system has no such operation, a file is linked and unlinked, and a folder is renamed after a check; in
    /// between, another process could create an empty folder there, and only that would be replaced.
    ///
    /// - Throws: ``QuireError`` with code `alreadyExists` if the name is taken, or `unsupported` if it is on another file system.
    package static func renameWithoutReplacing(
        _ path: String, to newPath: String, beneath root: String? = nil
    ) throws {
        let (old, new) = try (
            FileLocation(path, beneath: root), FileLocation(newPath, beneath: root)
        )
        if try renameExclusively(old, new) { return }
        if try new.information() != nil { throw failure("rename to", newPath, errno: EEXIST) }
        try rename(old, new)
    }

    /// Renames a file or folder within a file system in one step, to a name that must be free.
    ///
    /// - Returns: Whether it was renamed. `false` if the file system has no operation for that: FAT and some network file
    ///   systems have neither a rename that replaces nothing nor hard links.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the name is taken, or `unsupported` if it is on another file system.
    package static func renameExclusively(
        _ old: FileLocation, _ new: FileLocation
    ) throws -> Bool {
        let result = old.withNames(new) {
            quire_renameat2($0, $1, $2, $3, QUIRE_RENAME_NOREPLACE)
        }
        if result == 0 { return true }
        guard lacksOperation(errno) else { throw renameFailure(old, new, errno) }
        if try old.information()?.kind == .folder { return false }
        if old.withNames(new, { linkat($0, $1, $2, $3, 0) }) == 0 {
            _ = old.withName { unlinkat($0, $1, 0) }
            return true
        }
        let number = errno
        if number == EPERM || lacksOperation(number) { return false }
        throw failure("rename to", new.path, errno: number)
    }

    /// Swaps two files or folders of the same file system.
    ///
    /// Atomic: at every instant each name refers to one of the two. Where the file system has no such operation, the second
    /// name is missing for a moment, and its entry has a name that ``interruptedExchange(of:)`` finds.
    package static func exchange(_ path: String, _ otherPath: String) throws {
        let (one, other) = try (
            FileLocation(path, beneath: nil), FileLocation(otherPath, beneath: nil)
        )
        let result = one.withNames(other) {
            quire_renameat2($0, $1, $2, $3, QUIRE_RENAME_EXCHANGE)
        }
        if result == 0 { return }
        guard lacksOperation(errno) else { throw failure("exchange", otherPath) }
        let aside = temporarySibling(of: otherPath, for: asidePurpose)
        try rename(otherPath, to: aside)
        do {
            try rename(path, to: otherPath)
        } catch {
            try rename(aside, to: otherPath)
            throw error
        }
        try rename(aside, to: path)
    }

    /// The temporary path of the entry displaced by an interrupted exchange, if the original path is missing.
    package static func interruptedExchange(of path: String) throws -> String? {
        guard !exists(path) else { return nil }
        return try temporarySiblings(of: path).first { $0.contains(marker + asidePurpose) }
    }

    private static let asidePurpose = "aside"

    private static func lacksOperation(_ number: Int32) -> Bool {
        number == EINVAL || number == ENOSYS || number == EOPNOTSUPP
    }
}

// MARK: - Temporary siblings

extension FileSystem {
    private static let marker = ".quire-"

    /// A free name in the same folder, for building the destination: `.<name>.quire-<purpose>-<unique>`.
    package static func temporarySibling(of path: String, for purpose: String) -> String {
        let unique = UUID().uuidString.prefix(13)
        let suffix = "\(marker)\(purpose)-\(unique)"
        return FileSystem.path(
            folder(of: path), FileName.fitting(".\(name(of: path))", suffix))
    }

    /// Whether a file's name has the form of ``temporarySibling(of:for:)``.
    package static func isTemporaryName(_ name: String) -> Bool {
        name.hasPrefix(".") && name.contains(marker)
    }

    /// Whether an entry with a temporary name can be removed if no process has claimed it. The result of an interrupted
    /// exchange is kept as long as its original name is free.
    static func isRemovable(temporaryName name: String, in folder: String) -> Bool {
        guard isTemporaryName(name),
            let match = name.wholeMatch(of: /\.(.*)\.quire-([a-z]+)-[0-9A-F]{8}-[0-9A-F]{4}/)
        else {
            return false
        }
        return match.2 != asidePurpose || exists(path(folder, String(match.1)))
    }

    /// The temporary siblings of a path, made by any process.
    package static func temporarySiblings(of path: String) throws -> [String] {
        let folder = folder(of: path)
        let prefix = "." + name(of: path) + marker
        return try names(in: folder).filter { $0.utf8.starts(with: prefix.utf8) }
            .map { FileSystem.path(folder, $0) }
    }
}

// MARK: - Failures of synchronization

/// The underlying error of a failed synchronization.
///
/// The kernel may have dropped dirty pages, and reports success the next time all the same. So the file is not synchronized
/// again; the write is abandoned, and the store or document is reopened and checked before anything else is written.
package struct FailedSynchronization: Error {
    /// The system's error.
    package let cause: POSIXError

    /// The error to throw.
    static func error(path: String, errno number: Int32) -> QuireError {
        var error = FileSystem.failure("write to disk", path, errno: number)
        if let cause = error.underlying as? POSIXError {
            error.underlying = FailedSynchronization(cause: cause)
        }
        return error
    }
}

extension Error {
    /// Whether a synchronization failed.
    package var isFailedSynchronization: Bool {
        (self as? QuireError)?.underlying is FailedSynchronization
    }
}
