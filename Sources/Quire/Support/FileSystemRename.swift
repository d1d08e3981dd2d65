import CLinux
import Foundation

// Giving files and folders other names, and the temporary names that they are built under.

extension FileSystem {
    /// Gives a file or folder another name in the same file system, replacing a file of that name.
    package static func rename(
        _ path: String, to newPath: String, beneath root: String? = nil
    ) throws {
        try rename(FileLocation(path, beneath: root), FileLocation(newPath, beneath: root))
    }

    private static func rename(_ old: FileLocation, _ new: FileLocation) throws {
        if renameat(old.descriptor, old.name, new.descriptor, new.name) != 0 {
            throw failure("rename to", new.path)
        }
    }

    /// Gives a file or folder another name in the same file system, which must be free.
    ///
    /// Where the file system has no such operation, a file is linked and unlinked, and a folder is renamed after a look;
    /// then another process could put an empty folder there between the two, and only that would be replaced.
    ///
    /// - Throws: ``QuireError`` with code `alreadyExists` if the name is taken.
    package static func renameWithoutReplacing(
        _ path: String, to newPath: String, beneath root: String? = nil
    ) throws {
        let (old, new) = try (
            FileLocation(path, beneath: root), FileLocation(newPath, beneath: root)
        )
        if quire_renameat2(
            old.descriptor, old.name, new.descriptor, new.name, QUIRE_RENAME_NOREPLACE) == 0
        {
            return
        }
        guard lacksOperation(errno) else { throw failure("rename to", newPath) }
        if try old.information()?.kind != .folder {
            if linkat(old.descriptor, old.name, new.descriptor, new.name, 0) == 0 {
                unlinkat(old.descriptor, old.name, 0)
                return
            }
            // FAT and some network file systems have no hard links either.
            guard errno == EPERM || lacksOperation(errno) else {
                throw failure("rename to", newPath)
            }
        }
        if try new.information() != nil { throw failure("rename to", newPath, errno: EEXIST) }
        try rename(old, new)
    }

    /// Swaps two files or folders of the same file system.
    ///
    /// At every instant each name leads to one of the two. Where the file system has no such operation, the second name
    /// is missing for a moment, and what was there has a name that ``interruptedExchange(of:)`` finds.
    package static func exchange(_ path: String, _ otherPath: String) throws {
        if quire_renameat2(AT_FDCWD, path, AT_FDCWD, otherPath, QUIRE_RENAME_EXCHANGE) == 0 {
            return
        }
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

    /// Where an exchange that was interrupted left what had been at a path, if the path is missing since.
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

    /// A free name in the same folder, to build what shall be at the path: `.<name>.quire-<purpose>-<unique>`.
    package static func temporarySibling(of path: String, for purpose: String) -> String {
        let unique = UUID().uuidString.prefix(13)
        let suffix = "\(marker)\(purpose)-\(unique)"
        var name = name(of: path)
        while name.utf8.count + suffix.utf8.count + 1 > 255 { name.removeLast() }
        return FileSystem.path(folder(of: path), ".\(name)\(suffix)")
    }

    /// Whether a file's name is one that ``temporarySibling(of:for:)`` makes.
    package static func isTemporaryName(_ name: String) -> Bool {
        name.hasPrefix(".") && name.contains(marker)
    }

    /// Whether a file's name is one that ``temporarySibling(of:for:)`` makes for a purpose.
    static func isTemporaryName(_ name: String, for purpose: String) -> Bool {
        name.hasPrefix(".") && name.contains("\(marker)\(purpose)-")
    }

    /// The temporary siblings of a path, whoever made them.
    package static func temporarySiblings(of path: String) throws -> [String] {
        let folder = folder(of: path)
        let prefix = "." + name(of: path) + marker
        return try names(in: folder).filter { $0.hasPrefix(prefix) }
            .map { FileSystem.path(folder, $0) }
    }

    /// Removes temporary siblings of a path that nobody is building any more: which are older than some seconds, and not
    /// claimed (``OpenFile/claim()``) by a process. An interrupted exchange's old content is kept.
    ///
    /// What cannot be examined or removed stays; it is in nobody's way.
    package static func removeStaleSiblings(of path: String, olderThan seconds: Int64 = 3600) {
        guard let siblings = try? temporarySiblings(of: path) else { return }
        let now = Int64(time(nil))
        let isMissing = !exists(path)
        for sibling in siblings {
            if isMissing && sibling.contains(marker + asidePurpose) { continue }
            guard let information = try? informationWithoutFollowing(at: sibling),
                now - information.statusChangeTime >= seconds
            else { continue }
            guard information.kind == .regular || information.kind == .folder,
                let file = try? OpenFile.open(sibling, for: .examining),
                (try? file.claim()) == true
            else { continue }
            try? removeTree(sibling)
        }
    }
}
