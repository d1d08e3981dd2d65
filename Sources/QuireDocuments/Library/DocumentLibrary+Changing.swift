import Foundation
public import Quire

extension DocumentLibrary {
    // MARK: New documents

    /// Makes a document from a template.
    ///
    /// - Parameters:
    ///   - name: Its name; a number is added if it is taken.
    ///   - template: What it begins as.
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
            let document = type.init(path: path)
            do {
                try await body(document)
            } catch let error as QuireError where error.code == .alreadyExists {
                // Somebody else was faster. If what is there is something else, it is an error of the template's.
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
    /// - Parameter name: The copy's name, if it is to be another.
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
            limit: LibraryMetadata.greatestThumbnailSize)
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
    /// - Throws: As ``rename(_:to:waiting:)``; `inputOutput` if the folder is on another file system: duplicate it there.
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

    /// Runs a body while nobody else can open a package for writing.
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
