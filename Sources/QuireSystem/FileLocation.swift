import CLinux
import Foundation

/// A path in the form that the `*at` system calls take: a name, and a folder descriptor.
///
/// Paths beneath a root
/// ====================
///
/// A document package, and the folder of a store's external data, are untrusted input. Their contents are addressed by path
/// and **root**, the folder that the path must not escape. All of ``FileSystem``, ``OpenFile`` and ``AtomicFileReplace`` take
/// one:
///
/// - The root itself is opened by its path, or is open already. It, and the folders above it, may be symbolic links: they are
///   the user's.
/// - The folders between the root and the last component are opened beneath the root's descriptor, and none may be a symbolic
///   link. So none can be exchanged for a link between check and use.
/// - The last component is not followed either. It must be a regular file, or a folder where one is expected: opening a FIFO
///   blocks, a device may be endless, and opening one may have side effects.
/// - Everything else is a ``QuireError`` with code `invalidFormat` that names the entry and its type.
///
/// Without a root a path is the caller's own, and the system resolves it.
package struct FileLocation {
    /// The folder; `nil` if the name is a path that the system resolves.
    package let folder: OpenFile?
    /// The last component, or the whole path without a folder.
    package let name: String
    /// The whole path, for errors.
    package let path: String
    /// The place in an archive, if it is in one; see ``ArchiveMount``.
    let archived: ArchiveMount.Place?

    /// The folder's descriptor as system calls take it. In an archive it is invalid, so that no call changes anything; the
    /// archive itself is a file.
    var descriptor: Int32 {
        archived?.isTop == false ? -1 : folder?.descriptor ?? AT_FDCWD
    }

    /// Calls a closure with the folder's descriptor and the name, as a system call takes them.
    func withName<Result>(
        _ body: (Int32, UnsafePointer<CChar>) throws -> Result
    ) rethrows -> Result {
        try FileName.withCString(name) { try body(descriptor, $0) }
    }

    /// Calls a closure with what system calls take of this location and another one.
    func withNames<Result>(
        _ other: FileLocation,
        _ body: (Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>) throws -> Result
    ) rethrows -> Result {
        try withName { descriptor, name in
            try other.withName { try body(descriptor, name, $0, $1) }
        }
    }

    /// - Throws: ``QuireError`` with code `notFound`, `readOnly`, or `invalidFormat` if the path leads out of the root.
    package init(_ path: String, beneath root: String?) throws {
        let archived = ArchiveMount.place(of: path)
        guard let root, path != root else {
            self.init(folder: nil, name: path, path: path, archived: archived)
            return
        }
        let prefix = root.hasSuffix("/") ? root : root + "/"
        // By bytes: the slash may be one character with an accent that the next name begins with.
        guard path.utf8.starts(with: prefix.utf8) else { throw Self.outsideError(path, root) }
        if let archived, !archived.isTop {
            self.init(folder: nil, name: archived.path, path: path, archived: archived)
            return
        }
        let opened = FileName.withCString(root) { quire_open_folder_path(AT_FDCWD, $0) }
        guard opened >= 0 else { throw FileSystem.failure("open the folder", root) }
        try self.init(
            String(Substring(path.utf8.dropFirst(prefix.utf8.count))),
            in: OpenFile(owning: opened, path: root))
    }

    /// A path relative to a root that is open, wherever that is now.
    ///
    /// - Throws: As ``init(_:beneath:)``.
    package init(_ relative: String, in root: OpenFile) throws {
        let path = FileSystem.path(root.path, relative)
        let names = FileSystem.components(of: relative)
        guard let name = names.last, names.allSatisfy({ !$0.isEmpty && $0 != "." && $0 != ".." })
        else { throw Self.outsideError(path, root.path) }
        if let archived = root.archivedFolder?.place(relative) {
            self.init(folder: root, name: relative, path: path, archived: archived)
            return
        }
        let parent = names.dropLast().joined(separator: "/")
        if parent.isEmpty {
            self.init(folder: root, name: name, path: path)
            return
        }
        do {
            let folder = try OpenFile.openFolderPath(
                parent, beneath: root, path: FileSystem.path(root.path, parent))
            self.init(folder: folder, name: name, path: path)
        } catch {
            throw Self.obstacle(on: parent, in: root) ?? error
        }
    }

    private init(
        folder: OpenFile?, name: String, path: String, archived: ArchiveMount.Place? = nil
    ) {
        self.folder = folder
        self.name = name
        self.path = path
        self.archived = archived
    }

    private static func outsideError(_ path: String, _ root: String) -> QuireError {
        QuireError(.invalidFormat, "“\(path)” is not in “\(root)”.", file: path)
    }

    /// The error for the first folder of a path that is a symbolic link.
    private static func obstacle(on path: String, in root: OpenFile) -> QuireError? {
        var part = ""
        for name in FileSystem.components(of: path) {
            part += part.isEmpty ? name : "/\(name)"
            var status = stat()
            let result = FileName.withCString(part) {
                fstatat(root.descriptor, $0, &status, AT_SYMLINK_NOFOLLOW)
            }
            guard result == 0 else { return nil }
            let found = FileInformation(status)
            if found.kind == .symbolicLink {
                return found.foreignError(at: FileSystem.path(root.path, part))
            }
        }
        return nil
    }

    /// Information on the entry itself (`lstat`), or `nil` if there is none.
    package func information(following: Bool = false) throws -> FileInformation? {
        if let archived { return archived.information }
        var status = stat()
        let flags = following ? 0 : AT_SYMLINK_NOFOLLOW
        if withName({ fstatat($0, $1, &status, flags) }) == 0 { return FileInformation(status) }
        // An entry whose name would be too long does not exist.
        if errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG { return nil }
        throw FileSystem.failure("examine", path)
    }

    /// Opens it: beneath a root, only if it is of the kind that the purpose needs.
    func open(for purpose: OpenFile.Purpose, reportedAs reported: String?) throws -> OpenFile {
        if let archived, !archived.isTop {
            return try OpenFile(archived, for: purpose, path: reported ?? path)
        }
        guard folder != nil else {
            return try OpenFile.open(path, for: purpose, reportedAs: reported)
        }
        // A device is not even opened.
        if purpose != .creating, let found = try information() {
            try found.require(purpose.kind, at: path)
            if let waiting = OpenFile.waiting(
                purpose, reportedAs: reported ?? path, { found.identity })
            {
                return waiting
            }
        }
        while true {
            let opened = withName {
                quire_openat($0, $1, purpose.flags | O_NOFOLLOW | O_NONBLOCK, 0o666)
            }
            let number = errno
            if opened < 0 {
                if number == EINTR { continue }
                if let found = try? information(), found.kind == .symbolicLink,
                    purpose != .creating
                {
                    throw found.foreignError(at: path)
                }
                throw FileSystem.failure(purpose.action, reported ?? path, errno: number)
            }
            let file = OpenFile(owning: opened, path: reported ?? path)
            try file.information().require(purpose.kind, at: path)
            return file
        }
    }
}

extension OpenFile.Purpose {
    /// The kind that can be opened; `nil` accepts files and folders.
    var kind: FileInformation.Kind? {
        switch self {
        case .folder: .folder
        case .examining: nil
        case .reading, .updating, .updatingOrCreating, .creating: .regular
        }
    }
}

extension FileInformation {
    /// Throws if the entry is not of a kind; without a kind, if it is neither a file nor a folder.
    package func require(_ kind: Kind?, at path: String) throws {
        let isRight =
            kind.map { $0 == self.kind } ?? (self.kind == .regular || self.kind == .folder)
        if !isRight { throw foreignError(at: path, expected: kind) }
    }

    /// The type with an article.
    private var kindName: String {
        switch kind {
        case .regular: "a file"
        case .folder: "a folder"
        case .symbolicLink: "a symbolic link"
        case .other: otherName
        }
    }

    /// The error for an entry of a document, or of a store's files, that must not be of this kind.
    package func foreignError(at path: String, expected: Kind? = nil) -> QuireError {
        let needed =
            switch expected {
            case .folder: "a folder"
            case .regular: "a file"
            default: "a file or a folder"
            }
        return QuireError(
            .invalidFormat,
            "“\(path)” is \(kindName), but must be \(needed); remove it, or replace it with the original.",
            file: path)
    }
}

// MARK: - Paths of stores

/// Properties of a store derived from its path.
package enum StorePath {
    private static let memory = "/dev/null"

    /// The document package that contains a store; `nil` if none does. Recognized by the relative path
    /// `StoreContent/persistentStore`, which is UIManagedDocument's too.
    package static func packageRoot(of path: String) -> String? {
        let folder = FileSystem.folder(of: path)
        guard FileSystem.name(of: path) == "persistentStore",
            FileSystem.name(of: folder) == "StoreContent"
        else { return nil }
        return FileSystem.folder(of: folder)
    }

    /// The path of a store's file, beside which its keybag and external data are, as SQLite's log is: the target of a symbolic
    /// link of the user's. In a package no link is followed.
    package static func resolvingLink(_ path: String) -> String {
        packageRoot(of: path) == nil ? FileSystem.resolvingLink(path) : FileSystem.absolute(path)
    }

    /// The folder beside a store that has the folder of its external data, as in Core Data: `.NAME_SUPPORT`, where NAME is the store's
    /// name without its extension.
    package static func supportFolder(of path: String) -> String {
        let name = FileSystem.name(of: path)
        let dot = name.lastIndex(of: ".").flatMap { $0 == name.startIndex ? nil : $0 }
        return FileSystem.path(
            FileSystem.folder(of: path), ".\(name[..<(dot ?? name.endIndex)])_SUPPORT")
    }

    /// The name of the folder of external data.
    package static let externalData = "_EXTERNAL_DATA"

    /// Whether the path is that of a store in memory, as in Core Data: `/dev/null`, which is private, or `/dev/null/NAME`,
    /// which is shared within this process.
    package static func isInMemory(_ path: String) -> Bool {
        path == memory || path.hasPrefix(memory + "/")
    }

    /// The name of a shared store in memory; `nil` for every other path.
    package static func sharedMemoryName(of path: String) -> String? {
        path.hasPrefix(memory + "/") ? String(path.dropFirst(memory.count + 1)) : nil
    }
}
