public import Foundation
public import Quire

/// The documents in a folder: listed without opening them, followed as they change, made, renamed, duplicated, moved and
/// put into the trash.
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
/// - A document is a folder with `StoreContent/persistentStore` in it, or one whose name ends in one of ``extensions``.
///   What cannot be opened is listed with its error. Names that begin with a full stop are passed over.
/// - Nothing is opened to be listed, and nothing waits on the caller's queue: disks are asked on queues of their own.
/// - Nothing is ever replaced: a name that is taken is an error, or, for a new document, gets a number: “Books 2”.
/// - A document that another process has open for writing is not renamed, moved or put into the trash. One that is open in
///   this process is renamed and moved by coordination: it is saved, and goes on under its new name.
///
/// It is a value that knows a folder; any number may be made of the same one.
public struct DocumentLibrary: Sendable, Hashable {
    /// The folder.
    public let folder: String
    /// Whether documents in folders below it are the library's as well.
    public let isRecursive: Bool
    /// The extensions of documents' names, without the full stop. The first one is that of new documents.
    public let extensions: [String]

    /// The library of a folder, which should exist.
    public init(folder: String, isRecursive: Bool = false, extensions: [String] = ["quire"]) {
        self.folder = FileSystem.absolute(folder)
        self.isRecursive = isRecursive
        self.extensions = extensions.isEmpty ? ["quire"] : extensions
    }

    /// The library of a folder's URL. Listing it throws if the URL is not that of a file.
    public init(folder: URL, isRecursive: Bool = false, extensions: [String] = ["quire"]) {
        self.init(
            folder: folder.isFileURL ? folder.path : folder.absoluteString,
            isRecursive: isRecursive, extensions: extensions)
    }

    /// The documents, sorted by their paths' bytes.
    ///
    /// - Complexity: O(*n*) in the documents' files; a few calls of the system for each document.
    /// - Throws: ``QuireError`` with code `notFound` if there is no such folder, or what reading it throws. What is wrong
    ///   with single documents is in their entries.
    public func entries() async throws -> [Entry] {
        try await FileQueue.copies.run {
            try packages().paths.map { Entry(lookingAt: $0) }
        }
    }

    /// One document.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if there is nothing at the path.
    public func entry(at path: String) async throws -> Entry {
        try await FileQueue.copies.run {
            let path = FileSystem.absolute(path)
            guard FileSystem.exists(path) else {
                throw FileSystem.failure("open", path, errno: ENOENT)
            }
            return Entry(lookingAt: path)
        }
    }

    /// The name that a package's path shows.
    static func name(of path: String) -> String {
        (FileSystem.name(of: path) as NSString).deletingPathExtension
    }

    /// The packages, and all folders that were looked into.
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
                    // One that may not be read, or went meanwhile, does not hide the others.
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

    /// A path for a name that is free at the moment: the name itself, or with a number.
    func freePath(named name: String, in folder: String, extension suffix: String?) throws -> String
    {
        try Self.checkName(name)
        let end = (suffix ?? extensions[0]).isEmpty ? "" : "." + (suffix ?? extensions[0])
        for number in 1..<10_000 {
            let numbered = number == 1 ? name : "\(name) \(number)"
            let path = FileSystem.path(folder, numbered + end)
            if !FileSystem.exists(path) { return path }
        }
        throw FileSystem.failure("create", FileSystem.path(folder, name + end), errno: EEXIST)
    }

    static func checkName(_ name: String) throws {
        if let problem = PortableNames.problem(with: name)
            ?? (name.contains("/") ? "has a slash" : nil)
            ?? (name.hasPrefix(".") ? "begins with a full stop" : nil)
        {
            throw QuireError(
                .invalidValue, "“\(name)” cannot be the name of a document: it \(problem).",
                subject: .init(file: name))
        }
    }
}

// MARK: - Changing

extension DocumentLibrary {
    // MARK: New documents

    /// Makes a document from a template.
    ///
    /// - Parameters:
    ///   - name: Its name; a number is added if it is taken.
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

    /// Makes a document of a model.
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
                // Another process was faster. An existing item of another kind is an error of the template.
                if FileSystem.exists(path) { continue }
                throw error
            }
            document.needsLibraryMetadata = true
            try await document.close()
            return path
        }
    }

    /// Makes a copy of a document beside it, named like it with a number. What another process, or a document in this one,
    /// has not saved is saved before.
    ///
    /// - Parameters:
    ///   - path: The document's path.
    ///   - name: The copy's name, if it is to be another.
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

    /// Gives a copy what a library shows of its original. It was made now.
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

    /// Gives a document another name in its folder.
    ///
    /// - Parameters:
    ///   - path: The document.
    ///   - name: The new name, without the extension.
    ///   - waiting: How to wait if another process has it open; `nil` to fail at once.
    /// - Returns: The new path.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the name is taken, `locked` if another process has the
    ///   document open, `invalidValue` if the name cannot be used, or what saving throws if it is open here.
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

    /// Moves a document to another folder of the same file system, under its name.
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
        if FileSystem.absolute(path) == newPath { return }
        let coordinator = FileCoordinator()
        try await coordinator.coordinate(
            writingItemAt: path, for: .moving, writingItemAt: newPath, for: .replacing
        ) { path, newPath in
            try await FileQueue.copies.run {
                try withRightToMove(path, mayBeOpenHere: true, waiting: waiting) { lock in
                    try FileSystem.renameWithoutReplacing(path, to: newPath)
                    do {
                        try FileSystem.synchronizeFolder(containing: newPath)
                        try FileSystem.synchronizeFolder(containing: path)
                    } catch {
                        // It may not survive a power loss, so it keeps its name.
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
                .invalidFormat, "“\(layout.path)” is no document.",
                subject: .init(file: layout.path))
        }
        // Its own lock a process would wait for in vain.
        let isOpenHere = try mayBeOpenHere && DocumentLock.owner(of: layout)?.isThisProcess == true
        let lock = isOpenHere ? nil : try DocumentLock.acquire(for: layout, waiting: waiting)
        defer { lock?.release() }
        try body(lock)
    }
}
