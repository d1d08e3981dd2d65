import CLinux
import Foundation
import Synchronization

/// A file or folder that this process builds beside its destination, under a temporary name.
///
/// ```swift
/// let sibling = try TemporarySibling.makeFolder(beside: path)
/// defer { sibling.remove() }
/// try sibling.building {
///     …
///     try sibling.publish()
/// }
/// ```
///
/// It is claimed (``OpenFile/claim(shared:)``) from the moment it is visible to other processes until it is removed or has
/// its final name. So a temporary name without a claim was left by a killed process, or is being removed: the next process
/// that makes one in the same folder removes it. A signal that ends the process removes it as well, see
/// ``TerminationCleanup``. A single short-lived file is made by ``OpenFile/createTemporary(beside:beneath:)``.
package final class TemporarySibling: Sendable {
    /// Its temporary path.
    package let path: String
    /// Its name in errors: the destination's path. Those in the folder for temporary files have none.
    private let reportedPath: String
    /// The file, open for writing, or the folder. It has the claim.
    package let file: OpenFile
    /// The permissions that a new file or folder gets here. While it is being built, only its user may look into it.
    package let defaultPermissions: UInt32
    private let cleanup = Atomic(0)

    private init(
        path: String, reportedAs reportedPath: String, file: OpenFile, defaultPermissions: UInt32
    ) {
        self.path = path
        self.reportedPath = reportedPath
        self.file = file
        self.defaultPermissions = defaultPermissions
        let number = TerminationCleanup.add { Self.removeWhileWritten(path) }
        cleanup.store(number, ordering: .releasing)
    }

    deinit { release() }

    /// Makes a folder.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the folder that it would be in is missing.
    package static func makeFolder(beside destination: String) throws -> TemporarySibling {
        try make(beside: destination, as: .folder)
    }

    /// Makes a folder in the folder for temporary files.
    package static func makeFolderInTemporaryDirectory() throws -> TemporarySibling {
        let folder = FileSystem.absolute(FileManager.default.temporaryDirectory.path)
        do {
            return try make(
                beside: FileSystem.path(folder, "quire"), as: .folder,
                isReportedAsDestination: false)
        } catch let error as QuireError where error.code == .notFound {
            throw QuireError(
                .notFound,
                "The folder for temporary files “\(folder)” does not exist; create it, or set TMPDIR to another one.",
                file: folder, underlying: error)
        }
    }

    /// Makes a folder in a file system in memory, for what must not be on disk. Only this user may look into it.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if the machine has none, or what creating it throws.
    package static func makeFolderInMemory() throws -> TemporarySibling {
        let own = ProcessInfo.processInfo.environment["XDG_RUNTIME_DIR"]
        let folders = [own, "/dev/shm"].compactMap(\.self)
        for folder in folders where folder.hasPrefix("/") {
            guard (try? FileSystem.isInMemory(folder)) == true,
                FileName.withCString(folder, { access($0, W_OK | X_OK) }) == 0
            else { continue }
            return try make(
                beside: FileSystem.path(folder, "quire"), as: .folder,
                isReportedAsDestination: false)
        }
        throw QuireError(
            .unsupported,
            "No writable in-memory file system was found: neither XDG_RUNTIME_DIR nor /dev/shm is one."
        )
    }

    /// Makes an empty file.
    package static func makeFile(beside destination: String) throws -> TemporarySibling {
        try make(beside: destination, as: .creating)
    }

    private static func make(
        beside destination: String, as purpose: OpenFile.Purpose,
        isReportedAsDestination: Bool = true
    ) throws -> TemporarySibling {
        let destination = FileSystem.absolute(destination)
        removeAbandoned(in: FileSystem.folder(of: destination))
        for _ in 0..<100 {
            let path = FileSystem.temporarySibling(of: destination, for: "building")
            let reportedPath = isReportedAsDestination ? destination : path
            // When a signal arrives it is either registered, or not created yet.
            let made = try TerminationCleanup.uninterrupted {
                try FileSystem.building(reportedPath, as: path) {
                    try makeClaimed(at: path, as: purpose, reportedAs: reportedPath)
                }
            }
            if let made { return made }
        }
        throw FileSystem.failure("create", destination, errno: EEXIST)
    }

    /// - Returns: `nil` if another process has removed it before it was claimed; the caller retries.
    private static func makeClaimed(
        at path: String, as purpose: OpenFile.Purpose, reportedAs reportedPath: String
    ) throws -> TemporarySibling? {
        let file: OpenFile
        var isMade = false
        do {
            if purpose == .folder {
                try FileSystem.makeFolder(path, orFailTo: "create")
                isMade = true
            }
            file = try OpenFile.open(path, for: purpose, reportedAs: reportedPath)
        } catch let error as QuireError where error.code == .notFound {
            let folder = FileSystem.folder(of: path)
            if isMade, FileSystem.exists(folder), !FileSystem.exists(path) { return nil }
            if FileSystem.exists(folder) {
                // Open folders, such as the working directory, can be found after their removal.
                throw QuireError(
                    .notFound, "The folder of “\(reportedPath)” was removed.",
                    file: reportedPath)
            }
            throw FileSystem.failure("open", folder, errno: ENOENT)
        }
        do {
            let information = try file.information()
            guard try file.claim(), try file.isFound(at: path) else { return nil }
            // Bits beyond those of user, group and others are inherited from the parent folder.
            let inherited = information.permissions & 0o7000
            let own: UInt32 = information.kind == .folder ? 0o700 : 0o600
            try file.setPermissionsIfPossible(inherited | own)
            return TemporarySibling(
                path: path, reportedAs: reportedPath, file: file,
                defaultPermissions: information.permissions)
        } catch {
            try? FileSystem.removeTree(path)
            throw error
        }
    }

    /// Runs a body that makes a file of the same name in a folder beside it, which is removed afterwards. Errors name the file
    /// instead of the temporary one.
    ///
    /// - Parameter body: Gets the path of the temporary file.
    package static func buildingFile<Result>(
        beside path: String, _ body: (String) throws -> Result
    ) throws -> Result {
        let sibling = try makeFolder(beside: path)
        defer { sibling.remove() }
        let temporary = FileSystem.path(sibling.path, FileSystem.name(of: path))
        return try sibling.building {
            try FileSystem.building(path, as: temporary) { try body(temporary) }
        }
    }

    /// Runs a body that fills it. Errors name its destination instead of the temporary path.
    package func building<Result>(_ body: () throws -> Result) throws -> Result {
        try FileSystem.building(reportedPath, as: path, body)
    }

    /// Durably renames it to its destination. Its contents must be on disk.
    ///
    /// - Throws: ``QuireError`` with code `alreadyExists` if the name is taken, or errors of renaming and synchronizing. Then
    ///   nothing is published: it might not survive a power loss.
    package func publish() throws {
        try TerminationCleanup.uninterrupted {
            try FileSystem.renameWithoutReplacing(path, to: reportedPath)
        }
        do {
            try FileSystem.synchronizeFolder(containing: reportedPath)
        } catch {
            try? FileSystem.renameWithoutReplacing(reportedPath, to: path)
            throw error
        }
    }

    /// Synchronizes a finished file, and durably renames it to its destination.
    ///
    /// - Parameters:
    ///   - replacing: Whether an existing file is replaced.
    ///   - permissions: The maximum permissions of the file; `nil` for those of any new file.
    /// - Throws: As ``publish()``, or errors of synchronizing the file.
    package func publishFile(replacing: Bool, permissions: UInt32? = nil) throws {
        try file.setPermissionsIfPossible(defaultPermissions & (permissions ?? 0o777))
        try file.synchronize()
        guard replacing else { return try publish() }
        try TerminationCleanup.uninterrupted {
            try FileSystem.rename(path, to: reportedPath)
        }
        try FileSystem.synchronizeFolder(containing: reportedPath)
    }

    /// Sets the permissions of an original, or the default ones of a new entry.
    package func setFinalPermissions(of original: FileInformation?) throws {
        try file.setPermissionsIfPossible(
            original.map { $0.permissions & 0o777 | 0o700 | defaultPermissions & 0o7000 }
                ?? defaultPermissions)
    }

    /// Sets the default permissions of a new folder, restricted to users who may read a file.
    package func setFinalPermissions(limitedBy file: FileInformation) throws {
        let readers = (file.permissions & 0o444) >> 2
        let others = file.permissions & 0o777 | readers | 0o700
        try self.file.setPermissionsIfPossible(defaultPermissions & (others | 0o7000))
    }

    /// Removes the entry at the temporary path, and releases the claim. Nothing is removed after publishing.
    package func remove() {
        try? FileSystem.removeTree(path)
        release()
    }

    private func release() {
        let number = cleanup.exchange(0, ordering: .acquiringAndReleasing)
        if number == 0 { return }
        TerminationCleanup.remove(number)
        file.close()
    }

    /// Another thread may be adding files: it is given some seconds to notice that its folder is gone.
    static func removeWhileWritten(_ path: String, beneath root: String? = nil) {
        for attempt in 0..<5_000 {
            try? FileSystem.removeTree(path, beneath: root)
            if !FileSystem.exists(path, beneath: root) { return }
            if attempt > 100 { usleep(1_000) }
        }
    }

    // MARK: - Abandoned siblings

    /// Removes entries with temporary names in a folder that are not claimed: their process is gone, or is removing them.
    ///
    /// Entries that cannot be examined or removed stay.
    package static func removeAbandoned(in folder: String) {
        guard let names = try? FileSystem.names(in: folder) else { return }
        var isFolderDurable = false
        for name in names where FileSystem.isRemovable(temporaryName: name, in: folder) {
            let path = FileSystem.path(folder, name)
            guard let found = try? FileSystem.informationWithoutFollowing(at: path),
                found.kind == .regular || found.kind == .folder,
                let file = try? OpenFile.open(path, for: .examining),
                (try? file.information().isSameFile(as: found)) == true,
                (try? file.claim()) == true
            else { continue }
            defer { file.close() }
            // It may have been exchanged for another. That must be on disk before its files go.
            if !isFolderDurable {
                guard (try? FileSystem.synchronizeFolder(folder)) != nil else { return }
                isFolderDurable = true
            }
            guard let now = try? FileSystem.informationWithoutFollowing(at: path),
                now.isSameFile(as: found)
            else { continue }
            try? FileSystem.removeTree(path)
        }
    }
}

extension OpenFile {
    /// Creates an empty temporary file beside a path, to be renamed or removed soon. It is claimed until it is closed, or
    /// ``endClaim()`` is called, which must not be before that.
    ///
    /// - Returns: The file, open for writing, and its path.
    package static func createTemporary(
        beside path: String, beneath root: String? = nil
    ) throws -> (file: OpenFile, path: String) {
        for _ in 0..<100 {
            let temporary = FileSystem.temporarySibling(of: path, for: "new")
            let file = try open(temporary, beneath: root, for: .creating, reportedAs: path)
            // Without support for claims nothing is removed for lack of one.
            guard let isClaimed = try? file.claim() else { return (file, temporary) }
            do {
                // Another process may remove it before it is claimed; then it is created again.
                if try isClaimed && file.isFound(at: temporary, beneath: root) {
                    return (file, temporary)
                }
            } catch {
                _ = try? FileSystem.removeFileIfPresent(temporary, beneath: root)
                throw error
            }
        }
        throw FileSystem.failure("create", path, errno: EEXIST)
    }

    /// Whether a path refers to this very file.
    package func isFound(at path: String, beneath root: String? = nil) throws -> Bool {
        try FileLocation(path, beneath: root).information()?.isSameFile(as: information()) == true
    }
}
