public import Foundation
import Quire

/// The user's trash, as defined by the freedesktop.org trash specification (version 1.0).
///
/// Items on the file system of the user's data are moved to `$XDG_DATA_HOME/Trash`; others to `.Trash/UID` or `.Trash-UID` at the
/// top of their file system. Nothing is copied, and file managers can list and restore the items.
public struct Trash: Sendable {
    /// An item in the trash.
    public struct Item: Sendable, Hashable {
        /// The path in the trash.
        public var path: String
        /// The original path.
        public var originalPath: String
        /// When it was moved to the trash.
        public var deleted: Date?
        /// The `.trashinfo` file of the item.
        var informationPath: String
    }

    /// The trash on the file system of the user's data.
    let home: String

    /// The user's trash.
    public init() {
        home = FileSystem.path(FileSystem.userFolder(for: .data), "Trash")
    }

    /// For tests: a trash in another folder.
    init(home: String) { self.home = home }

    // MARK: Trashing

    /// Moves a file or folder to the trash. It is renamed, never copied.
    ///
    /// - Returns: The item in the trash.
    /// - Throws: ``QuireError`` with code `notFound`, or `unsupported` if its file system has no trash and none can be created.
    @discardableResult
    func put(_ path: String) throws -> Item {
        let path = FileSystem.absolute(path)
        guard let information = try FileSystem.informationWithoutFollowing(at: path) else {
            throw FileSystem.failure("move to the trash", path, errno: ENOENT)
        }
        let (trash, top) = try trash(for: path, on: information.device)
        let files = FileSystem.path(trash, "files")
        let informationFolder = FileSystem.path(trash, "info")
        let date = Date()
        let shown = top.map { String(path.dropFirst($0 == "/" ? 1 : $0.count + 1)) } ?? path
        for number in 1..<10_000 {
            let name = Self.numbered(FileSystem.name(of: path), number)
            let target = FileSystem.path(files, name)
            let note = FileSystem.path(informationFolder, name + Self.informationEnding)
            if FileSystem.exists(target) { continue }
            do {
                // Creating this file reserves the name.
                let file = try OpenFile.open(note, for: .creating)
                try file.write(Data(Self.text(path: shown, date: date).utf8))
                try file.synchronize()
            } catch let error as QuireError where error.code == .alreadyExists {
                continue
            }
            try FileSystem.removeOnFailure(note) {
                try FileSystem.renameWithoutReplacing(path, to: target)
            }
            // If that fails, the move may not survive a power loss; nothing is lost.
            try? FileSystem.synchronizeFolder(files)
            try? FileSystem.synchronizeFolder(containing: path)
            return Item(path: target, originalPath: path, deleted: date, informationPath: note)
        }
        throw FileSystem.failure("move to the trash", path, errno: EEXIST)
    }

    private static let informationEnding = ".trashinfo"

    /// A name in the trash, short enough for that of its information file.
    private static func numbered(_ name: String, _ number: Int) -> String {
        let limit = 255 - informationEnding.utf8.count
        if number == 1, FileName(name).byteCount <= limit { return name }
        let suffix = (name as NSString).pathExtension
        let stem = (name as NSString).deletingPathExtension
        return FileName.fitting(
            stem, (number == 1 ? "" : " \(number)") + (suffix.isEmpty ? "" : "." + suffix),
            limit: limit)
    }

    // MARK: Listing and restoring

    /// The items in the trash, most recently deleted first: on the file system of the user's data, and on that of a path.
    public func items(besides path: String? = nil) -> [Item] {
        var trashes: [(String, String?)] = [(home, nil)]
        if let path, let top = try? Self.top(of: FileSystem.absolute(path)) {
            trashes += Self.places(at: top).map { ($0, top) }
        }
        return trashes.flatMap { Self.items(in: $0.0, top: $0.1) }.sorted {
            ($0.deleted ?? .distantPast, $0.path) > ($1.deleted ?? .distantPast, $1.path)
        }
    }

    private static func items(in trash: String, top: String?) -> [Item] {
        let informationFolder = FileSystem.path(trash, "info")
        let names = (try? FileSystem.names(in: informationFolder)) ?? []
        return names.filter { $0.hasSuffix(informationEnding) }.compactMap { name in
            let note = FileSystem.path(informationFolder, name)
            let file = FileSystem.path(
                FileSystem.path(trash, "files"), String(name.dropLast(informationEnding.count)))
            guard FileSystem.exists(file), let data = try? FileSystem.contents(of: note) else {
                return nil
            }
            let values = values(in: String(decoding: data.prefix(65_536), as: UTF8.self))
            guard let path = values["Path"]?.removingPercentEncoding, !path.isEmpty else {
                return nil
            }
            // On other file systems, paths are relative to the top directory, and must stay within it.
            if !path.hasPrefix("/"), top == nil || path.split(separator: "/").contains("..") {
                return nil
            }
            return Item(
                path: file,
                originalPath: path.hasPrefix("/") ? path : FileSystem.path(top ?? "/", path),
                deleted: values["DeletionDate"].flatMap(date), informationPath: note)
        }
    }

    /// Restores an item to its original path.
    ///
    /// - Parameters:
    ///   - item: The item.
    ///   - path: Another path to restore it to.
    /// - Returns: The path of the restored item.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the path exists, or `notFound` if its folder does not.
    @discardableResult
    public func restore(_ item: Item, to path: String? = nil) throws -> String {
        let target = path.map(FileSystem.absolute) ?? item.originalPath
        guard FileSystem.exists(FileSystem.folder(of: target)) else {
            throw FileSystem.failure("open", FileSystem.folder(of: target), errno: ENOENT)
        }
        try FileSystem.renameWithoutReplacing(item.path, to: target)
        // If that fails, a power loss may undo the move; an information file without its item is not listed.
        try? FileSystem.synchronizeFolder(containing: target)
        _ = try? FileSystem.removeFileIfPresent(item.informationPath)
        return target
    }

    // MARK: Places

    /// The trash for an item on a device, and the top directory that its paths are relative to, if any.
    private func trash(for path: String, on device: UInt64) throws -> (String, String?) {
        if let made = try? Self.make(home), made.device == device { return (home, nil) }
        let top = try Self.top(of: path)
        for place in Self.places(at: top) {
            if let made = try? Self.make(place), made.device == device { return (place, top) }
        }
        throw QuireError(
            .unsupported,
            "“\(path)” cannot be moved to the trash: its file system has no trash folder, and none can be created in “\(top)”.",
            file: path)
    }

    /// The folders for a trash at the top of a file system, the preferred one first.
    private static func places(at top: String) -> [String] {
        let user = geteuid()
        var places: [String] = []
        let shared = FileSystem.path(top, ".Trash")
        // An administrator's folder for all users; it must have the sticky bit, so that users cannot remove each other's files.
        if let found = (try? FileSystem.informationWithoutFollowing(at: shared)) ?? nil,
            found.kind == .folder, found.permissions & 0o1000 != 0
        {
            places.append(FileSystem.path(shared, String(user)))
        }
        return places + [FileSystem.path(top, ".Trash-\(user)")]
    }

    /// The highest folder above a path on the same file system.
    private static func top(of path: String) throws -> String {
        var top = FileSystem.folder(of: path)
        guard let device = try FileSystem.information(at: top)?.device else {
            throw FileSystem.failure("open", top, errno: ENOENT)
        }
        while top != "/" {
            let above = FileSystem.folder(of: top)
            guard try FileSystem.information(at: above)?.device == device else { break }
            top = above
        }
        return top
    }

    /// Creates missing folders of a trash, accessible by the user only.
    private static func make(_ trash: String) throws -> FileInformation {
        if !FileSystem.exists(trash) {
            try FileSystem.makeFolder(trash, withIntermediates: true)
            try OpenFile.open(trash, for: .folder).setPermissions(0o700)
        }
        for name in ["files", "info"] {
            let folder = FileSystem.path(trash, name)
            try FileSystem.makeFolder(folder, withIntermediates: true)
        }
        guard let made = try FileSystem.informationWithoutFollowing(at: trash),
            made.kind == .folder, made.user == geteuid()
        else { throw FileSystem.failure("open the folder", trash, errno: EACCES) }
        return made
    }

    // MARK: Information files

    static func text(path: String, date: Date) -> String {
        let allowed = CharacterSet(
            charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
        let encoded = path.addingPercentEncoding(withAllowedCharacters: allowed) ?? path
        return "[Trash Info]\nPath=\(encoded)\nDeletionDate=\(formatter.string(from: date))\n"
    }

    private static func values(in text: String) -> [String: String] {
        let lines = text.split(whereSeparator: \.isNewline)
        guard lines.first == "[Trash Info]" else { return [:] }
        var values: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let equals = line.firstIndex(of: "=") else { continue }
            let key = String(line[..<equals])
            if values[key] == nil { values[key] = String(line[line.index(after: equals)...]) }
        }
        return values
    }

    private static func date(_ text: String) -> Date? { formatter.date(from: text) }

    /// Local time, as the specification demands.
    private static var formatter: DateFormatter {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.dateFormat = "yyyy-MM-dd'T'HH:mm:ss"
        return formatter
    }
}

extension DocumentLibrary {
    /// Moves a document to the trash.
    ///
    /// - Parameters:
    ///   - path: The document.
    ///   - trash: The trash.
    ///   - waiting: How to wait if another process has it open for writing; `nil` to fail at once.
    /// - Returns: The item in the trash, for ``Trash/restore(_:to:)``.
    /// - Throws: ``QuireError`` with code `locked` if it is open for writing, also in this process, or `unsupported` if its file
    ///   system has no trash and none can be created.
    @discardableResult
    public func trash(
        _ path: String, in trash: Trash = Trash(), waiting: LockWait? = nil
    ) async throws -> Trash.Item {
        try await FileQueue.copies.run {
            var item: Trash.Item?
            try Self.withRightToMove(path, mayBeOpenHere: false, waiting: waiting) { lock in
                let trashed = try trash.put(path)
                lock?.move(to: .init(path: trashed.path))
                item = trashed
            }
            guard let item else { preconditionFailure("The body was not run.") }
            return item
        }
    }
}
