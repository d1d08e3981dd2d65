public import Foundation
import Quire
internal import QuireAtomicStores

// Writing the document to other files.

extension PersistentDocument {
    /// Saves the document, including unsaved changes, as another file, which becomes the document's file. The old file remains as of its
    /// last save.
    ///
    /// If the new file has the same format, objects, their identifiers, undo and the context are kept, and changes made meanwhile stay
    /// unsaved. All custom formats count as one format. If it has another format, it is converted and opened with a new
    /// ``managedObjectContext``, and objects that are still referenced belong to no context.
    ///
    /// - Parameters:
    ///   - url: The file, which must not exist yet. It gets the permissions of the present one.
    ///   - progress: For a SQLite file, counts the bytes to copy. Cancelling it leaves no file. ``progress`` is the same while the
    ///     request runs.
    /// - Complexity: O(*n*) in the size of the document, off the main queue.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `notFound` if the folder does not exist, `unsupported` if the format
    ///   cannot store the objects, `invalidState` if objects were changed while they were converted, `cancelled`, or as
    ///   ``save()``. Then the document is unchanged.
    public func save(as url: URL, progress: Progress? = nil) async throws {
        try await carryOut { [self] in try await performSave(as: url, progress) }
    }

    /// Saves the document as another file, which becomes the document's file; see ``save(as:progress:)``.
    public func save(
        as url: URL, progress: Progress? = nil,
        completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(completionHandler) { [self] in try await performSave(as: url, progress) }
    }

    private func performSave(as url: URL, _ progress: Progress?) async throws {
        func name(_ url: URL) throws -> FileName {
            try FileName(FileSystem.resolved(FileSystem.path(of: url)))
        }
        if let fileURL, !isReadOnly, try name(url) == name(fileURL) {
            return try await performSave()
        }
        let contexts = try opened()
        activity.insert(.progressAvailable)
        let file = try file(at: url, progress)
        if file.continues(contexts.store) {
            try await contexts.save(as: file)
            fileURL = url
            isReadOnly = false
        } else {
            try await convert(contexts, to: file, url)
        }
        didSave(nil)
    }

    private func convert(
        _ contexts: DocumentContexts, to file: DocumentFile, _ url: URL
    ) async throws {
        let (store, coordinator, original) = (
            contexts.store, contexts.coordinator, fileURL.map { _ in path }
        )
        let snapshot = try await contexts.takeSnapshot()
        let new = try await FileQueue.copies.run {
            try file.write(store, applying: snapshot.changes, permissionsOf: original)
            do { return try file.open() } catch {
                file.removeUnused()
                throw error
            }
        }
        if contexts.hasChanged(since: snapshot) {
            await FileQueue.copies.run {
                new.closeSaved()
                file.removeUnused()
            }
            throw QuireError(
                .invalidState,
                "“\(path)” was not saved as “\(file.path)”, because objects were changed during the save; save it again.",
                file: file.path)
        }
        fileURL = url
        install(new, readOnly: false, replacing: contexts)
        await FileQueue.shared.run { coordinator.closeSaved() }
    }

    /// Writes the document as it is now, including unsaved changes, to another file, in the format of its extension. The document's own
    /// file and its unsaved changes are not affected.
    ///
    /// - Parameters:
    ///   - url: The file, which must not exist yet. It gets the permissions of the present one.
    ///   - progress: As in ``save(as:progress:)``.
    /// - Complexity: O(*n*) in the size of the document, off the main queue.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `notFound` if the folder does not exist, `validation` if an object
    ///   could not be saved, `unsupported` if the format cannot store the objects, `cancelled`, `invalidState` if the document is
    ///   not open, or errors of reading and writing. Then no copy exists.
    public func writeCopy(to url: URL, progress: Progress? = nil) async throws {
        try await carryOut { [self] in try await performCopy(to: url, progress) }
    }

    /// Writes the document as it is now to another file; see ``writeCopy(to:progress:)``.
    public func writeCopy(
        to url: URL, progress: Progress? = nil,
        completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(completionHandler) { [self] in try await performCopy(to: url, progress) }
    }

    private func performCopy(to url: URL, _ progress: Progress?) async throws {
        let contexts = try opened()
        let (file, store) = (try file(at: url, progress), contexts.store)
        let original = fileURL.map { _ in path }
        let snapshot = try await contexts.takeSnapshot()
        try await FileQueue.copies.run {
            try file.write(store, applying: snapshot.changes, permissionsOf: original)
        }
    }

    /// The file of a copy, with the progress of its request.
    private func file(at url: URL, _ progress: Progress?) throws -> DocumentFile {
        var file = try file(at: url, model: model)
        file.progress = show(progress)
        return file
    }

    /// Makes a progress, or a new one, the current one until the running request ends.
    private func show(_ progress: Progress?) -> Progress {
        let shown = progress ?? Progress(totalUnitCount: -1)
        self.progress = shown
        return shown
    }

    /// Exports the document as it is now, including unsaved changes, to an archive, whose format depends on the URL's extension;
    /// see ``ArchiveFormat``. It contains the file under its name, with its external data. `unzip` and `tar` extract it.
    ///
    /// The archive of a protected document is encrypted with the same keys, and contains the keybag; the keys of the document
    /// open the extracted files.
    ///
    /// - Parameters:
    ///   - url: The archive to create. It gets the permissions of the document's file.
    ///   - replacing: Whether to replace an existing file.
    ///   - progress: Counts the bytes to write; cancelling it stops the export and leaves nothing.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `unsupported` for another extension, `cancelled`, `invalidState` if
    ///   the document is not open or has no file yet, or as ``writeCopy(to:progress:)``. Then no archive exists.
    public func export(
        to url: URL, replacing: Bool = false, progress: Progress? = nil
    ) async throws {
        try await carryOut { [self] in try await performExport(to: url, replacing, progress) }
    }

    /// Exports the document as it is now to an archive; see ``export(to:replacing:progress:)``.
    public func export(
        to url: URL, replacing: Bool = false, progress: Progress? = nil,
        completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(completionHandler) { [self] in
            try await performExport(to: url, replacing, progress)
        }
    }

    private func performExport(
        to url: URL, _ replacing: Bool, _ progress: Progress?
    ) async throws {
        let contexts = try opened()
        let archive = try FileSystem.path(of: url)
        let progress = show(progress)
        let copy = try file(at: requireURL(), model: model)
        _ = try ArchiveFormat(path: archive)
        let (store, original) = (contexts.store, copy.path)
        let snapshot = try await contexts.takeSnapshot()
        try await FileQueue.copies.run { [copy] in
            try DocumentPackage.checkOutside(archive)
            if !replacing, FileSystem.exists(archive) {
                throw FileSystem.failure("create", archive, errno: EEXIST)
            }
            let sibling = try TemporarySibling.makeFolder(beside: archive)
            defer { sibling.remove() }
            var copy = copy
            copy.path = FileSystem.path(sibling.path, FileSystem.name(of: original))
            try sibling.building {
                try FileSystem.building(archive, as: copy.path) {
                    try copy.write(store, applying: snapshot.changes, permissionsOf: original)
                }
            }
            try ArchiveExport(
                folder: sibling.path, destination: archive, replacesExisting: replacing,
                progress: progress,
                permissions: FileSystem.information(at: original)?.permissions
            ).run()
        }
    }
}
