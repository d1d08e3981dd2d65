public import Foundation
public import Quire

/// The documents in a folder: lists them without opening them, observes changes, and creates, renames, duplicates, moves and
/// trashes documents.
///
/// ```swift
/// let library = DocumentLibrary(folder: "/home/ada/Documents")
/// for entry in try await library.entries() { print(entry.title, entry.modified ?? .distantPast) }
/// let path = try await library.create(named: "Books", from: .named("Library"))
/// try await library.rename(path, to: "Old books")
/// for await change in library.changes() { … }
/// ```
///
/// Guarantees
/// ==========
///
/// - A document is a folder that contains `StoreContent/persistentStore`, or whose name ends in one of ``extensions``.
///   A document that cannot be opened is listed with its error. Names that begin with a full stop are skipped.
/// - Listing opens no document and does not block the caller's queue: disks are read on separate queues.
/// - Nothing is ever replaced: if a name is taken, an error is thrown, or a new document gets a number: “Books 2”.
/// - A document that another process has open for writing is not renamed, moved or trashed. One that is open in this process is
///   renamed and moved with file coordination: it is saved, and stays open under its new name.
///
/// It is a value that refers to a folder; any number of libraries may refer to the same one.
public struct DocumentLibrary: Sendable, Hashable {
    /// The folder.
    public let folder: String
    /// Whether documents in subfolders belong to the library too.
    public let isRecursive: Bool
    /// The extensions of documents' names, without the full stop. New documents get the first one.
    public let extensions: [String]

    /// The library of a folder, which should exist.
    public init(folder: String, isRecursive: Bool = false, extensions: [String] = ["quire"]) {
        self.folder = FileSystem.absolute(folder)
        self.isRecursive = isRecursive
        self.extensions = extensions.isEmpty ? ["quire"] : extensions
    }

    /// The library of the folder at a URL. Listing it throws if the URL is not a file URL.
    public init(folder: URL, isRecursive: Bool = false, extensions: [String] = ["quire"]) {
        self.init(
            folder: folder.isFileURL ? folder.path : folder.absoluteString,
            isRecursive: isRecursive, extensions: extensions)
    }

    /// The documents, sorted by their paths' bytes.
    ///
    /// - Complexity: O(*n*) in the documents' files; a few system calls for each document.
    /// - Throws: ``QuireError`` with code `notFound` if the folder does not exist, or errors of reading it. Errors of single
    ///   documents are in their entries.
    public func entries() async throws -> [Entry] {
        try await FileQueue.copies.run {
            try packages().paths.map { Entry(lookingAt: $0) }
        }
    }

    /// One document.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the path does not exist.
    public func entry(at path: String) async throws -> Entry {
        try await FileQueue.copies.run {
            let path = FileSystem.absolute(path)
            guard FileSystem.exists(path) else {
                throw FileSystem.failure("open", path, errno: ENOENT)
            }
            return Entry(lookingAt: path)
        }
    }

    /// The display name of a package at a path.
    static func name(of path: String) -> String {
        (FileSystem.name(of: path) as NSString).deletingPathExtension
    }

    /// The packages, and all folders that were searched.
    func packages() throws -> (paths: [String], folders: [String]) {
        var paths: [String] = []
        var folders: [String] = []
        func visit(_ folder: String) throws {
            folders.append(folder)
            for name in try FileSystem.names(in: folder) where !name.hasPrefix(".") {
                let path = FileSystem.path(folder, name)
                let found = try? FileSystem.informationWithoutFollowing(at: path)
                guard let found, found.kind == .folder else { continue }
                if isPackage(path) {
                    paths.append(path)
                } else if isRecursive {
                    // A folder that cannot be read, or was removed meanwhile, does not hide the others.
                    try? visit(path)
                }
            }
        }
        try visit(folder)
        return (paths.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }, folders)
    }

    func isPackage(_ path: String) -> Bool {
        extensions.contains((path as NSString).pathExtension)
            || DocumentPackageLayout(path: path).isPackage
    }

    /// A path for a name that does not exist yet: with the name itself, or with a number added.
    func freePath(named name: String, in folder: String, extension suffix: String?) throws -> String
    {
        try Self.checkName(name)
        let end = (suffix ?? extensions[0]).isEmpty ? "" : "." + (suffix ?? extensions[0])
        for number in 1..<10_000 {
            let numbered = number == 1 ? name + end : FileName.fitting(name, " \(number)\(end)")
            let path = FileSystem.path(folder, numbered)
            if !FileSystem.exists(path) { return path }
        }
        throw FileSystem.failure("create", FileSystem.path(folder, name + end), errno: EEXIST)
    }

    static func checkName(_ name: String) throws {
        if let problem = PortableNames.problem(with: name)
            ?? (name.contains("/") ? "contains a slash" : nil)
            ?? (name.hasPrefix(".") ? "begins with a full stop" : nil)
        {
            throw QuireError(
                .invalidValue, "“\(name)” cannot be the name of a document: it \(problem).",
                file: name)
        }
    }
}

// MARK: - Changing

extension DocumentLibrary {
    // MARK: New documents

    /// Creates a document from a template.
    ///
    /// - Parameters:
    ///   - name: Its name; a number is added if the name is taken.
    ///   - template: The template of its content.
    ///   - type: The class of the document, whose hooks are called.
    /// - Returns: The path.
    /// - Throws: As ``ManagedDocument/create(from:)``, and `invalidValue` if the name cannot be used.
    @MainActor
    public func create(
        named name: String, from template: DocumentTemplate,
        as type: ManagedDocument.Type = ManagedDocument.self
    ) async throws -> String {
        try await create(named: name, as: type) { try await $0.create(from: template) }
    }

    /// Creates a document with a model.
    ///
    /// - Returns: The path.
    @MainActor
    public func create(
        named name: String, model: ManagedObjectModel,
        as type: ManagedDocument.Type = ManagedDocument.self
    ) async throws -> String {
        try await create(named: name, as: type) { try await $0.create(model: model) }
    }

    @MainActor
    private func create(
        named name: String, as type: ManagedDocument.Type,
        _ body: (ManagedDocument) async throws -> Void
    ) async throws -> String {
        while true {
            let path = try await FileQueue.copies.run {
                try freePath(named: name, in: folder, extension: nil)
            }
            let document = type.init(fileURL: URL(fileURLWithPath: path))
            do {
                try await body(document)
            } catch let error as QuireError where error.code == .alreadyExists {
                // Another process has created it meanwhile. If the path does not exist, the template is at fault.
                if FileSystem.exists(path) { continue }
                throw error
            }
            document.needsLibraryMetadata = true
            try await document.close()
            return path
        }
    }

    /// Copies a document to the same folder, under its name with a number. Unsaved changes, also of another process, are saved
    /// before.
    ///
    /// - Parameters:
    ///   - path: The document's path.
    ///   - name: The copy's name; `nil` for the document's.
    /// - Returns: The path of the copy.
    public func duplicate(_ path: String, named name: String? = nil) async throws -> String {
        try await FileCoordinator().coordinate(readingItemAt: path) { path in
            try await FileQueue.copies.run {
                let package = try DocumentPackage.open(at: path, readOnly: true)
                defer { try? package.close() }
                while true {
                    let copy = try freePath(
                        named: name ?? Self.name(of: path), in: FileSystem.folder(of: path),
                        extension: (path as NSString).pathExtension)
                    do {
                        try package.writeCopy(to: copy)
                    } catch let error as QuireError where error.code == .alreadyExists {
                        continue
                    }
                    try Self.bringMetadata(from: package.layout, to: .init(path: copy))
                    return copy
                }
            }
        }
    }

    /// Gives a copy the library metadata of its original, with the current time as its creation date.
    private static func bringMetadata(
        from old: DocumentPackageLayout, to new: DocumentPackageLayout
    ) throws {
        var metadata = LibraryMetadata(readingFrom: old)
        if metadata == LibraryMetadata() { return }
        metadata.created = Date()
        metadata.thumbnail = try? FileSystem.contents(
            of: FileSystem.path(old.path, LibraryMetadata.thumbnailName), beneath: old.path,
            limit: LibraryMetadata.maximumThumbnailSize)
        try metadata.write(to: new)
    }

    // MARK: Names and places

    /// Renames a document in its folder.
    ///
    /// - Parameters:
    ///   - path: The document.
    ///   - name: The new name, without the extension.
    ///   - waiting: How to wait if another process has it open; `nil` to fail at once.
    /// - Returns: The new path.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the name is taken, `locked` if another process has the
    ///   document open, `invalidValue` if the name cannot be used, or errors of saving if it is open in this process.
    @discardableResult
    public func rename(
        _ path: String, to name: String, waiting: LockWait? = nil
    ) async throws -> String {
        try Self.checkName(name)
        let suffix = (path as NSString).pathExtension
        let new = FileSystem.path(
            FileSystem.folder(of: FileSystem.absolute(path)),
            suffix.isEmpty ? name : name + "." + suffix)
        try await Self.move(path, to: new, waiting: waiting)
        return new
    }

    /// Moves a document to another folder on the same file system, keeping its name.
    ///
    /// - Returns: The new path.
    /// - Throws: As ``rename(_:to:waiting:)``; `unsupported` if the folder is on another file system.
    @discardableResult
    public func move(_ path: String, toFolder folder: String) async throws -> String {
        let new = FileSystem.path(FileSystem.absolute(folder), FileSystem.name(of: path))
        try await Self.move(path, to: new)
        return new
    }

    static func move(
        _ path: String, to newPath: String, waiting: LockWait? = nil
    ) async throws {
        if FileName(FileSystem.absolute(path)) == FileName(newPath) { return }
        let coordinator = FileCoordinator()
        try await coordinator.coordinate(
            writingItemAt: path, for: .moving, writingItemAt: newPath, for: .replacing
        ) { path, newPath in
            try await FileQueue.copies.run {
                try withRightToMove(path, mayBeOpenHere: true, waiting: waiting) { lock in
                    try DocumentPackageLayout(path: newPath).requireOpenablePath()
                    try FileSystem.renameWithoutReplacing(path, to: newPath)
                    do {
                        try FileSystem.synchronizeFolder(containing: newPath)
                        try FileSystem.synchronizeFolder(containing: path)
                    } catch {
                        // The move might not survive a power loss, so it is undone.
                        try FileSystem.renameWithoutReplacing(newPath, to: path)
                        throw error
                    }
                    lock?.move(to: .init(path: newPath))
                }
            }
            await coordinator.item(at: path, didMoveTo: newPath)
        }
    }

    /// Runs a body while no other owner can open a package for writing.
    ///
    /// - Parameters:
    ///   - mayBeOpenHere: Whether it may be open for writing in this process; then the body gets no lock.
    ///   - waiting: How to wait for another process.
    static func withRightToMove(
        _ path: String, mayBeOpenHere: Bool, waiting: LockWait?,
        _ body: (DocumentLock?) throws -> Void
    ) throws {
        let layout = DocumentPackageLayout(path: path)
        guard let information = try FileSystem.information(at: layout.path) else {
            throw FileSystem.failure("open", layout.path, errno: ENOENT)
        }
        guard information.kind == .folder else {
            throw QuireError(
                .invalidFormat, "“\(layout.path)” is not a document.", file: layout.path)
        }
        // A process would wait for its own lock forever.
        let isOpenHere = try mayBeOpenHere && DocumentLock.owner(of: layout)?.isThisProcess == true
        let lock = isOpenHere ? nil : try DocumentLock.acquire(for: layout, waiting: waiting)
        defer { lock?.release() }
        try body(lock)
    }
}
