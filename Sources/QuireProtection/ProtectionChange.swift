internal import QuireSystem

/// A change of the keys of a store outside of packages.
///
/// The store, its keybag and each large value are files of their own, which cannot be replaced at once. So all of them are written,
/// with the new keys, to a folder beside the store. Once that is complete and on disk it is renamed to `.NAME.protection`, which decides
/// the change. Then the files are moved to where they belong. If that is interrupted, the next process to open the store moves the rest
/// first, so the former files are never read again.
package enum ProtectionChange {
    /// The name of an empty file that says that the store has no keybag afterwards.
    private static let unprotected = "Unprotected"
    private static let patience = Duration.seconds(10)

    /// The folder that decides a change of the store at a path.
    package static func folder(ofStoreAt path: String) -> String {
        let path = StorePath.resolvingLink(path)
        return FileSystem.path(
            FileSystem.folder(of: path), ".\(FileSystem.name(of: path)).protection")
    }

    /// Says in a folder that is being built that the store has no keybag afterwards.
    package static func markUnprotected(_ folder: String) throws {
        try OpenFile.open(FileSystem.path(folder, unprotected), for: .creating).close()
    }

    /// Moves the files of a change that was decided to where they belong. Does nothing if there is none.
    ///
    /// It can be interrupted and called again at any point, by several processes: one moves the files, the others wait for it.
    ///
    /// - Throws: ``QuireError`` with code `locked` if another process does not come to an end with it, or errors of moving files, such
    ///   as `readOnly`.
    package static func finish(ofStoreAt path: String) throws {
        let path = StorePath.resolvingLink(path)
        let folder = folder(ofStoreAt: path)
        guard try FileSystem.informationWithoutFollowing(at: folder)?.kind == .folder else {
            return
        }
        var claim: OpenFile?
        let isDecided: Void? = try FileLockWait(timeout: patience) { _ in }.polling(path) { _ in
            // Another process may have moved them meanwhile.
            guard try FileSystem.informationWithoutFollowing(at: folder)?.kind == .folder else {
                return ()
            }
            let file = try OpenFile.open(folder, for: .folder)
            guard try file.claim(), try file.isFound(at: folder) else { return nil }
            claim = file
            return ()
        }
        guard isDecided != nil else {
            throw QuireError(
                .locked,
                "Another process is changing the protection of “\(path)”; try again when it has finished.",
                file: path)
        }
        guard let claim else { return }
        defer { claim.close() }
        try moveFiles(of: folder, to: path)
        try FileSystem.removeTree(folder)
        try FileSystem.synchronizeFolder(containing: path)
    }

    private static func moveFiles(of folder: String, to path: String) throws {
        let root = FileSystem.folder(of: path)
        let name = FileSystem.name(of: path)
        /// Moves a file; one that is missing has been moved before.
        func move(_ source: String, to target: String) throws {
            guard
                try FileSystem.information(at: source, beneath: folder)?.kind == .regular
            else { return }
            try FileSystem.rename(
                FileLocation(source, beneath: folder), FileLocation(target, beneath: root))
        }
        let keybag = path + ".keybag"
        if FileSystem.exists(FileSystem.path(folder, unprotected), beneath: folder) {
            try FileSystem.removeFileIfPresent(keybag, beneath: root)
        } else {
            try move(FileSystem.path(folder, name + ".keybag"), to: keybag)
        }
        let store = FileSystem.path(folder, name)
        let values = FileSystem.path(StorePath.supportFolder(of: store), StorePath.externalData)
        if FileSystem.exists(values, beneath: folder) {
            let target = FileSystem.path(StorePath.supportFolder(of: path), StorePath.externalData)
            try FileSystem.makeFolder(target, beneath: root, withIntermediates: true)
            for value in try FileSystem.names(in: values, beneath: folder) {
                try move(FileSystem.path(values, value), to: FileSystem.path(target, value))
            }
            try FileSystem.synchronizeFolder(target, beneath: root)
        }
        // The log of a killed process would be taken for that of the new file.
        if FileSystem.exists(store, beneath: folder) {
            for suffix in ["-wal", "-shm", "-journal"] {
                try FileSystem.removeFileIfPresent(path + suffix, beneath: root)
            }
            try FileSystem.synchronizeFolder(root)
        }
        try move(store, to: path)
        try FileSystem.synchronizeFolder(root)
    }
}
