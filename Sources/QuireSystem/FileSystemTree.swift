import CLinux
package import Foundation

// Folders and their contents.

extension FileSystem {
    /// The names in a folder, without `.` and `..`, sorted by their bytes: texts of ``FileName``.
    package static func names(in path: String, beneath root: String? = nil) throws -> [String] {
        try names(in: OpenFile.open(path, beneath: root, for: .folder))
    }

    package static func names(in folder: OpenFile) throws -> [String] {
        if let place = folder.archivedFolder { return place.archive.names(in: place.path) }
        // The stream takes ownership of its descriptor and moves its position: a new one, so that ours is unaffected.
        let descriptor = quire_openat(folder.descriptor, ".", O_RDONLY | O_DIRECTORY, 0)
        guard descriptor >= 0 else { throw failure("list", folder.path) }
        guard let stream = fdopendir(descriptor) else {
            let number = errno
            close(descriptor)
            throw failure("list", folder.path, errno: number)
        }
        defer { closedir(stream) }
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else { break }
            let name = withUnsafeBytes(of: &entry.pointee.d_name) {
                FileName(bytes: $0.prefix { $0 != 0 }).text
            }
            if name != "." && name != ".." { names.append(name) }
        }
        if errno != 0 { throw failure("list", folder.path) }
        return names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }

    /// Everything below a folder: paths relative to it, a folder before its contents, otherwise sorted by bytes.
    package static func contentsOfTree(
        _ path: String, beneath root: String? = nil
    ) throws -> [(path: String, information: FileInformation)] {
        var found: [(path: String, information: FileInformation)] = []
        func visit(_ folder: OpenFile, _ prefix: String) throws {
            for name in try names(in: folder) {
                // Entries removed concurrently by another process are skipped.
                guard let information = try entry(name, of: folder) else { continue }
                found.append((prefix + name, information))
                guard information.kind == .folder else { continue }
                do {
                    try visit(openFolderWithoutFollowing(name, in: folder), prefix + name + "/")
                } catch let error as QuireError where error.code == .notFound { continue }
            }
        }
        try visit(OpenFile.open(path, beneath: root, for: .folder), "")
        return found
    }

    /// The entry of a name in an open folder, symbolic links not followed.
    private static func entry(_ name: String, of folder: OpenFile) throws -> FileInformation? {
        if let place = folder.archivedFolder { return place.place(name).information }
        var status = stat()
        let result = FileName.withCString(name) {
            fstatat(folder.descriptor, $0, &status, AT_SYMLINK_NOFOLLOW)
        }
        if result == 0 { return FileInformation(status) }
        if errno == ENOENT { return nil }
        throw failure("examine", FileSystem.path(folder.path, name))
    }

    /// Removes a file, or a folder with everything in it. Symbolic links are removed, not followed.
    package static func removeTree(_ path: String, beneath root: String? = nil) throws {
        let location = try FileLocation(path, beneath: root)
        guard let information = try location.information() else {
            throw failure("remove", path, errno: ENOENT)
        }
        guard information.kind == .folder else { return try removeFile(path, beneath: root) }
        // By descriptors, so that no folder can be exchanged for a symbolic link in between.
        try removeContents(of: openFolderWithoutFollowing(location.name, in: location.folder))
        if location.withName({ unlinkat($0, $1, AT_REMOVEDIR) }) != 0 {
            throw failure("remove", path)
        }
    }

    private static func removeContents(of folder: OpenFile) throws {
        func unlink(_ name: String, _ flags: Int32) -> Bool {
            FileName.withCString(name) { unlinkat(folder.descriptor, $0, flags) == 0 }
        }
        for name in try names(in: folder) {
            if unlink(name, 0) || errno == ENOENT { continue }
            let full = FileSystem.path(folder.path, name)
            guard errno == EISDIR || errno == EPERM else { throw failure("remove", full) }
            try removeContents(of: openFolderWithoutFollowing(name, in: folder))
            if !unlink(name, AT_REMOVEDIR) { throw failure("remove", full) }
        }
    }

    private static func openFolderWithoutFollowing(
        _ path: String, in folder: OpenFile?
    ) throws -> OpenFile {
        let full = folder.map { FileSystem.path($0.path, path) } ?? path
        if let place = folder?.archivedFolder {
            return try OpenFile(place.place(path), for: .folder, path: full)
        }
        let descriptor = FileName.withCString(path) {
            quire_openat(
                folder?.descriptor ?? AT_FDCWD, $0, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)
        }
        guard descriptor >= 0 else { throw failure("open the folder", full) }
        return OpenFile(owning: descriptor, path: full)
    }

    /// Makes everything below a folder durable: files first, each folder after its contents, the folder itself last. The
    /// folder's own name is durable once its parent is synchronized.
    package static func synchronizeTree(_ path: String, beneath root: String? = nil) throws {
        for name in try names(in: path, beneath: root) {
            let full = FileSystem.path(path, name)
            switch try FileLocation(full, beneath: root).information()?.kind {
            case .folder: try synchronizeTree(full, beneath: root)
            case .regular: try OpenFile.open(full, beneath: root, for: .reading).synchronize()
            default: break
            }
        }
        try synchronizeFolder(path, beneath: root)
    }

    /// Makes the names in a folder and in all folders below it durable, deepest first. For trees whose files are on disk
    /// already.
    package static func synchronizeFolders(
        ofTree path: String, beneath root: String? = nil
    ) throws {
        for name in try names(in: path, beneath: root) {
            let full = FileSystem.path(path, name)
            if try FileLocation(full, beneath: root).information()?.kind == .folder {
                try synchronizeFolders(ofTree: full, beneath: root)
            }
        }
        try synchronizeFolder(path, beneath: root)
    }
}

// MARK: - Copying

extension FileSystem {
    /// Copies the bytes and permissions of a file to a new file, sharing blocks if the file system can, and preserving holes.
    /// Not synchronized unless requested. The progress advances by the size; cancelling it leaves no copy.
    ///
    /// Must not be used for a database that is open in this process: closing the file would drop SQLite's locks.
    package static func copyFile(
        _ path: String, beneath root: String? = nil, to newPath: String,
        within newRoot: String? = nil, synchronizing: Bool = false, progress: Progress? = nil
    ) throws {
        let source = try OpenFile.open(path, beneath: root, for: .reading)
        let information = try source.information()
        guard information.kind == .regular else {
            throw QuireError(
                .unsupported, "“\(path)” cannot be copied: it is not a file.", file: path)
        }
        let target = try OpenFile.open(newPath, beneath: newRoot, for: .creating)
        try removeOnFailure(newPath, beneath: newRoot) {
            let start = progress?.completedUnitCount ?? 0
            try copyBytes(from: source, to: target, progress)
            // Holes and shared blocks were not counted.
            progress?.completedUnitCount = start + information.size
            try target.setPermissionsIfPossible(information.permissions & 0o777)
            if synchronizing { try target.synchronize() }
        }
    }

    private static func copyBytes(
        from source: OpenFile, to target: OpenFile, _ progress: Progress?
    ) throws {
        if source.isArchived {
            return try copyBytesByReading(from: source, to: target, count: .max, progress)
        }
        if quire_clone(source.descriptor, target.descriptor) == 0 { return }
        let size = try source.information().size
        var hole = lseek(source.descriptor, 0, SEEK_HOLE)
        guard hole >= 0, hole < size else {
            lseek(source.descriptor, 0, SEEK_SET)
            return try copyBytes(from: source, to: target, count: .max, progress)
        }
        // Holes are preserved: they may exceed the free space.
        var data = lseek(source.descriptor, 0, SEEK_DATA)
        while data >= 0 {
            hole = lseek(source.descriptor, data, SEEK_HOLE)
            guard hole > data, lseek(source.descriptor, data, SEEK_SET) == data,
                lseek(target.descriptor, data, SEEK_SET) == data
            else { throw failure("read", source.path) }
            try copyBytes(from: source, to: target, count: Int64(hole - data), progress)
            data = lseek(source.descriptor, hole, SEEK_DATA)
        }
        // No data behind the last hole.
        guard errno == ENXIO else { throw failure("read", source.path) }
        try target.setSize(size)
    }

    /// Copies bytes between the positions of two files, to the end of the first or a number of them.
    private static func copyBytes(
        from source: OpenFile, to target: OpenFile, count greatest: Int64, _ progress: Progress?
    ) throws {
        var rest = greatest
        var isFirst = true
        while rest > 0 {
            let count = quire_copy_file_range(
                source.descriptor, target.descriptor, Int(min(rest, 1 << 24)))
            if count == 0 && !isFirst { return }
            if count < 0 && errno == EINTR { continue }
            if count > 0 {
                isFirst = false
                rest -= Int64(count)
                progress?.completedUnitCount += Int64(count)
                try progress?.checkCancelled(copying: source.path)
                continue
            }
            // Zero on the first call: an empty file, or a file system without support (or, like procfs, with a false report
            // of success).
            guard isFirst else { throw failure("write", target.path) }
            break
        }
        try copyBytesByReading(from: source, to: target, count: rest, progress)
    }

    private static func copyBytesByReading(
        from source: OpenFile, to target: OpenFile, count greatest: Int64, _ progress: Progress?
    ) throws {
        var rest = greatest
        try withUnsafeTemporaryAllocation(byteCount: 262_144, alignment: 16) { buffer in
            while rest > 0 {
                let most = Int(min(rest, Int64(buffer.count)))
                let count = try source.read(
                    into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<most]))
                if count == 0 { return }
                try target.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                rest -= Int64(count)
                progress?.completedUnitCount += Int64(count)
                try progress?.checkCancelled(copying: source.path)
            }
        }
    }

    /// The method by which ``copyTree(_:to:by:)`` copies files.
    package enum CopyMethod: Sendable {
        /// Bytes are copied, or blocks shared.
        case copying
        /// Files get a second name; for files that never change.
        case linking
    }

    /// Copies a folder with its contents and permissions to a name that must be free. Not synchronized.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if there is anything but files and folders. A partial copy remains on
    ///   failure.
    package static func copyTree(
        _ path: String, beneath root: String? = nil, to newPath: String,
        by method: CopyMethod = .copying, progress: Progress? = nil
    ) throws {
        try makeFolder(newPath)
        try copyContents(of: path, beneath: root, to: newPath, by: method, progress: progress)
        try copyPermissions(of: path, beneath: root, to: newPath)
    }

    /// Copies everything in a folder to a folder that is there, as ``copyTree(_:beneath:to:by:)`` does.
    package static func copyContents(
        of path: String, beneath root: String? = nil, to newPath: String,
        by method: CopyMethod = .copying, progress: Progress? = nil
    ) throws {
        for name in try names(in: path, beneath: root) {
            let from = FileSystem.path(path, name)
            let to = FileSystem.path(newPath, name)
            guard let information = try FileLocation(from, beneath: root).information() else {
                continue
            }
            switch information.kind {
            case .folder:
                try copyTree(from, beneath: root, to: to, by: method, progress: progress)
            case .regular:
                try copyFile(from, beneath: root, to: to, by: method, progress: progress)
            case .symbolicLink, .other:
                throw QuireError(
                    .unsupported, "“\(from)” cannot be copied: it is neither a file nor a folder.",
                    file: from)
            }
        }
    }

    /// Copies the permissions of an original to its copy. The current user may always read and write the copy.
    ///
    /// If there is no original the copy keeps its permissions.
    package static func copyPermissions(
        of path: String, beneath root: String? = nil, to newPath: String
    ) throws {
        guard let original = try information(at: path, beneath: root) else { return }
        let copy = try OpenFile.open(newPath, for: .examining)
        let information = try copy.information()
        let least: UInt32 = information.kind == .folder ? 0o700 : 0o600
        let permissions =
            original.permissions & 0o777 | least | information.permissions & 0o7000
        if permissions != information.permissions { try copy.setPermissionsIfPossible(permissions) }
    }

    /// Copies a file by one of the methods. Both paths may be beneath a root each.
    ///
    /// - Returns: Whether it was copied rather than linked, and hence has bytes to synchronize.
    @discardableResult
    package static func copyFile(
        _ path: String, beneath root: String? = nil, to newPath: String,
        within newRoot: String? = nil, by method: CopyMethod, progress: Progress? = nil
    ) throws -> Bool {
        switch method {
        case .copying:
            try copyFile(path, beneath: root, to: newPath, within: newRoot, progress: progress)
            return true
        case .linking:
            return try linkOrCopy(path, beneath: root, to: newPath, within: newRoot)
        }
    }

    /// Makes a hard link to an immutable file, or copies it where the file system has no hard links.
    ///
    /// - Returns: Whether it was copied rather than linked, and hence has bytes to synchronize.
    @discardableResult
    package static func linkOrCopy(
        _ path: String, beneath root: String? = nil, to newPath: String,
        within newRoot: String? = nil
    ) throws -> Bool {
        let (old, new) = try (
            FileLocation(path, beneath: root), FileLocation(newPath, beneath: newRoot)
        )
        // A hard link to a symbolic link is a symbolic link too.
        if root != nil, let found = try old.information(), found.kind != .regular {
            throw found.foreignError(at: path, expected: .regular)
        }
        if old.withNames(new, { linkat($0, $1, $2, $3, 0) }) == 0 { return false }
        guard old.archived != nil || [EPERM, EXDEV, EMLINK, EOPNOTSUPP, ENOSYS].contains(errno)
        else {
            throw failure("link", newPath)
        }
        try copyFile(path, beneath: root, to: newPath, within: newRoot)
        return true
    }
}
