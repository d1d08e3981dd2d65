import CLinux
package import Foundation

/// Files and folders, by system calls.
///
/// All atomic or durable file operations in Quire go through here and never through Foundation, whose `replaceItemAt`
/// destroys the new file on Linux and whose atomic writes do not synchronize the folder.
///
/// The contract
/// ============
///
/// Guarantees, and the caller's obligations:
///
/// - **A name is durable when its folder has been synchronized; bytes are durable when their file has been.** Neither
///   implies the other. ``synchronizeFolder(_:)`` is for names, ``OpenFile/synchronize()`` for bytes.
/// - **A new file appears complete or not at all.** ``writeNewFile(_:at:synchronizingFolder:)`` writes a sibling with a
///   temporary name, synchronizes it, and gives it its name without replacing anything. A caller that writes many files
///   into a folder passes `synchronizingFolder: false` and synchronizes the folder once, before it records anywhere that
///   the files exist.
/// - **A file is replaced whole.** That is ``AtomicFileReplace``, the only implementation of it.
/// - **A folder is built beside its destination**, as a ``TemporarySibling``, synchronized bottom-up by
///   ``synchronizeTree(_:)``, and renamed by ``renameWithoutReplacing(_:to:)`` or ``exchange(_:_:)``. The sibling is claimed
///   while its process lives; the next process that builds in the same folder removes those without a claim.
/// - **A failed synchronization is final.** The kernel may have dropped the pages and will report success next time. It is
///   not retried on that file; the write is abandoned. After a failed folder synchronization none of the names that it
///   covered counts as durable, and undoing them is not followed by another synchronization. A later change creates its names
///   again, and is durable when the synchronization that follows it succeeds.
/// - **A call that throws has not replaced or removed anything** beyond its purpose, and removes the files it created,
///   temporary files included. Removing and copying trees are the exceptions: they may stop half-way.
/// - **Interruptions by signals are not errors**: reads, writes and opens are repeated.
/// - **Every error is a ``QuireError``** that names the path: `notFound`, `alreadyExists`, `outOfSpace`, `readOnly`,
///   `locked`, or `inputOutput`, with the `POSIXError` underneath.
///
/// - **Contents beneath a root are untrusted**: see ``FileLocation``. All operations on the contents of a package, or on a
///   store's external data, pass the root.
///
/// Nothing here follows a symbolic link at the end of a path, except ``OpenFile/open(_:for:reportedAs:)`` and ``information(at:)``
/// without a root.
package enum FileSystem {
    /// The whole content of a file.
    ///
    /// - Parameter limit: The maximum number of bytes.
    package static func contents(
        of path: String, beneath root: String? = nil, limit: Int = .max
    ) throws -> Data {
        try OpenFile.open(path, beneath: root, for: .reading).readToEnd(limit: limit)
    }

    /// Information on the entry at a path, symbolic links followed, or `nil` if there is none.
    package static func information(at path: String) throws -> FileInformation? {
        try FileLocation(path, beneath: nil).information(following: true)
    }

    /// When the file at a path was made, in nanoseconds since 1970; `nil` where the file system does not say. A file that is made
    /// after another was removed may have the number of that one, but not its time.
    package static func birthTime(at path: String) throws -> Int64? {
        var time: Int64 = 0
        guard quire_birth_time(path, &time) == 0 else {
            // Some sandboxes refuse the call.
            if errno == EPERM || errno == ENOSYS { return nil }
            throw failure("examine", path)
        }
        return time == 0 ? nil : time
    }

    /// Information on the entry at a path itself (`lstat`), or `nil` if there is none.
    package static func informationWithoutFollowing(at path: String) throws -> FileInformation? {
        try FileLocation(path, beneath: nil).information()
    }

    /// Information on the entry at a path beneath a root (`lstat`), or `nil` if there is none. Without a root, and at the
    /// root itself, symbolic links are followed.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if a parent folder is a symbolic link.
    package static func information(
        at path: String, beneath root: String?
    ) throws -> FileInformation? {
        try information(at: FileLocation(path, beneath: root))
    }

    /// Information on the entry at a path relative to an open root (`lstat`), or `nil` if there is none.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if a parent folder is a symbolic link.
    package static func information(
        at relative: String, in root: OpenFile
    ) throws -> FileInformation? {
        try information(at: FileLocation(relative, in: root))
    }

    private static func information(
        at location: @autoclosure () throws -> FileLocation
    ) throws -> FileInformation? {
        do {
            let location = try location()
            return try location.information(following: location.folder == nil)
        } catch let error as QuireError where error.code == .notFound {
            return nil
        }
    }

    /// Whether an entry exists at a path, a dangling symbolic link included.
    package static func hasEntry(at path: String, beneath root: String? = nil) throws -> Bool {
        guard let root else { return try informationWithoutFollowing(at: path) != nil }
        return try information(at: path, beneath: root) != nil
    }

    /// Whether an entry exists, like ``hasEntry(at:beneath:)``; `false` if that cannot be determined. For names to choose, not
    /// where data would be left out or removed without the entry.
    package static func exists(_ path: String, beneath root: String? = nil) -> Bool {
        (try? hasEntry(at: path, beneath: root)) ?? false
    }

    /// Durably writes a new file.
    ///
    /// The file gets its name only once its bytes are on disk.
    ///
    /// - Parameter synchronizingFolder: Whether to make the name durable as well. A caller that writes several files
    ///   passes `false` and calls ``synchronizeFolder(_:)`` after the last.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the name is taken.
    package static func writeNewFile(
        _ data: Data, at path: String, beneath root: String? = nil,
        synchronizingFolder: Bool = true
    ) throws {
        let (file, temporary) = try OpenFile.createTemporary(beside: path, beneath: root)
        try removeOnFailure(temporary, beneath: root) {
            try file.write(data)
            try file.synchronize()
            try renameWithoutReplacing(temporary, to: path, beneath: root)
            file.close()
        }
        if synchronizingFolder { try synchronizeFolder(containing: path, beneath: root) }
    }

    /// Creates a folder, and optionally its parents.
    ///
    /// - Parameter action: What could not be done if it fails, for the error.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the name is taken, unless intermediates are requested and it is
    ///   a folder.
    package static func makeFolder(
        _ path: String, beneath root: String? = nil, withIntermediates: Bool = false,
        orFailTo action: String = "create the folder"
    ) throws {
        func make() throws -> Int32 {
            do {
                let location = try FileLocation(path, beneath: root)
                return location.withName { mkdirat($0, $1, 0o777) } == 0 ? 0 : errno
            } catch let error as QuireError where error.code == .notFound {
                return ENOENT
            }
        }
        var number = try make()
        if withIntermediates {
            let above = folder(of: path)
            if number == ENOENT, above != path, path != root {
                try makeFolder(above, beneath: root, withIntermediates: true)
                number = try make()
            }
            if number == EEXIST {
                if try information(at: path, beneath: root)?.kind == .folder { return }
            }
        }
        if number != 0 { throw failure(action, path, errno: number) }
    }

    /// Creates a folder. Its parent must exist.
    package static func makeFolder(_ location: FileLocation) throws {
        if location.withName({ mkdirat($0, $1, 0o777) }) != 0 {
            throw failure("create the folder", location.path)
        }
    }

    /// Removes a file or symbolic link.
    package static func removeFile(_ path: String, beneath root: String? = nil) throws {
        try removeFile(FileLocation(path, beneath: root))
    }

    package static func removeFile(_ location: FileLocation) throws {
        if location.withName({ unlinkat($0, $1, 0) }) != 0 {
            throw failure("remove", location.path)
        }
    }

    /// Runs a body that makes or fills a file, and removes the file if the body throws.
    package static func removeOnFailure<Result>(
        _ path: String, beneath root: String? = nil, _ body: () throws -> Result
    ) throws -> Result {
        do {
            return try body()
        } catch {
            _ = try? removeFileIfPresent(path, beneath: root)
            throw error
        }
    }

    /// Removes a file or symbolic link if it exists.
    ///
    /// - Returns: Whether it existed.
    @discardableResult
    package static func removeFileIfPresent(
        _ path: String, beneath root: String? = nil
    ) throws -> Bool {
        do {
            let location = try FileLocation(path, beneath: root)
            if location.withName({ unlinkat($0, $1, 0) }) == 0 { return true }
        } catch let error as QuireError where root != nil && error.code == .notFound {
            return false
        }
        if errno == ENOENT { return false }
        throw failure("remove", path)
    }

    /// Gives a file a second name, which must be free.
    package static func link(
        _ path: String, to newPath: String, beneath root: String? = nil
    ) throws {
        try link(FileLocation(path, beneath: root), FileLocation(newPath, beneath: root))
    }

    package static func link(_ old: FileLocation, _ new: FileLocation) throws {
        if old.withNames(new, { linkat($0, $1, $2, $3, 0) }) != 0 {
            throw failure("link", new.path)
        }
    }

    /// Makes a symbolic link at a path, which must be free.
    package static func makeSymbolicLink(_ path: String, to target: String) throws {
        if symlink(target, path) != 0 { throw failure("create", path) }
    }

    /// Makes the names in a folder durable.
    package static func synchronizeFolder(_ path: String, beneath root: String? = nil) throws {
        try OpenFile.open(path, beneath: root, for: .folder).synchronize()
    }

    /// Makes the name of a path, and thereby its last renaming, durable.
    package static func synchronizeFolder(
        containing path: String, beneath root: String? = nil
    ) throws {
        try synchronizeFolder(folder(of: path), beneath: root)
    }

    /// Whether a file or folder, or if it is missing the folder it would be in, is on a file system that other machines
    /// write to as well or that cannot share memory between processes. SQLite's write-ahead log does not work there.
    package static func isOnNetwork(_ path: String) throws -> Bool {
        let existing = exists(path) ? path : folder(of: path)
        return networkFileSystems.contains(try fileSystemType(of: existing))
    }

    /// Whether what is written to a folder stays in memory: on tmpfs or ramfs. It may be swapped out.
    static func isInMemory(_ folder: String) throws -> Bool {
        [0x0102_1994, 0x8584_58F6].contains(try fileSystemType(of: folder))
    }

    private static func fileSystemType(of path: String) throws -> Int64 {
        let file = try OpenFile.open(path, for: .examining)
        var type: Int64 = 0
        if quire_file_system_type(file.descriptor, &type) != 0 {
            throw failure("examine the file system of", path)
        }
        return type
    }

    /// NFS, SMB, CIFS, SMB2, 9P, FUSE (virtiofs and sshfs among them), Ceph, AFS, Coda, NCP, OCFS2, GFS2, Lustre.
    private static let networkFileSystems: Set<Int64> = [
        0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x0102_1997, 0x6573_5546, 0x00C3_6400,
        0x5346_414F, 0x7375_7245, 0x564C, 0x7461_636F, 0x0116_1970, 0x0BD0_0BD0,
    ]
}

// MARK: - Paths

extension FileSystem {
    /// The folder that a path's last component is in.
    package static func folder(of path: String) -> String {
        let trimmed = withoutTrailingSlashes(path)
        guard let slash = lastSlash(in: trimmed) else { return "." }
        let folder = withoutTrailingSlashes(String(trimmed[..<slash]))
        return folder.isEmpty ? "/" : folder
    }

    /// The last component of a path.
    package static func name(of path: String) -> String {
        let trimmed = withoutTrailingSlashes(path)
        guard let slash = lastSlash(in: trimmed) else { return trimmed }
        let name = String(trimmed[trimmed.utf8.index(after: slash)...])
        return name.isEmpty ? "/" : name
    }

    /// A path with a component added.
    package static func path(_ folder: String, _ name: String) -> String {
        folder.utf8.last == slash ? folder + name : folder + "/" + name
    }

    // As bytes: a Swift character may be a slash together with an accent that a name begins with.
    private static let slash = UInt8(ascii: "/")

    private static func lastSlash(in path: String) -> String.Index? {
        path.utf8.lastIndex(of: slash)
    }

    /// A kind of the user's files, by the variable that names its folder in the XDG Base Directory Specification.
    package enum UserFiles: String {
        case data = "XDG_DATA_HOME"
        case configuration = "XDG_CONFIG_HOME"
        case state = "XDG_STATE_HOME"

        fileprivate var standardFolder: String {
            switch self {
            case .data: ".local/share"
            case .configuration: ".config"
            case .state: ".local/state"
            }
        }
    }

    /// The folder of the user's files of a kind: that of the environment, or one in the home folder.
    package static func userFolder(
        for files: UserFiles, environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> String {
        if let path = environment[files.rawValue], path.hasPrefix("/") { return path }
        let home = environment["HOME"] ?? FileManager.default.homeDirectoryForCurrentUser.path
        return FileSystem.path(home, files.standardFolder)
    }

    /// The path of a file URL from the root.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not that of a file.
    package static func path(of url: URL) throws -> String {
        if url.isFileURL { return absolute(url.path) }
        throw QuireError(
            .invalidValue,
            "“\(url.absoluteString)” is not a file URL; create one with URL(fileURLWithPath:).",
            file: url.absoluteString)
    }

    /// The path from the root, without empty components and `.`. Symbolic links are not followed, so `..` remains.
    package static func absolute(_ path: String) -> String {
        // A URL that is not a file's remains readable in the error that it leads to.
        let isURL = path.contains("://")
        var path = path
        if path.utf8.first != slash {
            guard let current = getcwd(nil, 0) else { return withoutTrailingSlashes(path) }
            defer { free(current) }
            path = FileSystem.path(String(cString: current), path)
        }
        let components = components(of: path).dropFirst()
        if isURL || !components.contains(where: { $0.isEmpty || $0 == "." }) { return path }
        return "/" + components.filter { !$0.isEmpty && $0 != "." }.joined(separator: "/")
    }

    /// The path of an existing entry without symbolic links, `.` and `..`; that of a missing one unchanged.
    package static func resolved(_ path: String) -> String {
        guard let real = FileName.withCString(path, { realpath($0, nil) }) else { return path }
        defer { free(real) }
        return FileName(bytes: UnsafeRawBufferPointer(start: real, count: strlen(real))).text
    }

    /// The path from the root of the file or folder that a path refers to: through a symbolic link at its end, that of the
    /// link's target, which may be missing.
    ///
    /// For paths that the user gives and that something is renamed over, exchanged with, or removed from: these operations
    /// act on the link itself. Resolved once, at the beginning, so that temporary siblings are in the target's folder.
    package static func resolvingLink(_ path: String) -> String {
        var path = absolute(path)
        for _ in 0..<40 {
            guard let found = try? informationWithoutFollowing(at: path),
                found.kind == .symbolicLink
            else { return path }
            if let real = realpath(path, nil) {
                defer { free(real) }
                return String(cString: real)
            }
            // Dangling, or a cycle of links.
            guard let target = linkTarget(path) else { return path }
            path = target.hasPrefix("/") ? target : Self.path(folder(of: path), target)
        }
        return path
    }

    private static func linkTarget(_ path: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &buffer, buffer.count)
        if count <= 0 { return nil }
        return String(decoding: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    private static func withoutTrailingSlashes(_ path: String) -> String {
        var rest = Substring(path)
        while rest.utf8.count > 1, rest.utf8.last == slash {
            rest = Substring(rest.utf8.dropLast())
        }
        return String(rest)
    }
}
