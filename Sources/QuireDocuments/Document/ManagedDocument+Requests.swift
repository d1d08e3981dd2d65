public import Foundation
public import Quire

// The requests of programs. Those that have a completion handler in UIDocument have that form too; the handler is called exactly
// once, later, on the main queue.

/// Called once on the main queue, with `nil` if the request was carried out.
public typealias DocumentCompletionHandler = @MainActor @Sendable (QuireError?) -> Void

extension ManagedDocument {
    // MARK: Creating and opening

    /// Creates the package and opens it for writing. It is on disk when this returns.
    ///
    /// - Parameter model: The model of the objects, which is stored in the package; `nil` for ``managedObjectModel``, or the
    ///   models of the program's bundle.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the path exists, `invalidModel` if the model cannot be used or none
    ///   is found, `invalidState` if the document is open, or errors of writing.
    public func create(model: ManagedObjectModel? = nil) async throws {
        try await request(.open(OpenRequest(model: model, isCreation: true)))
    }

    /// Opens the package. Does nothing if it is already open in the same way, and joins an opening that is running.
    ///
    /// - Parameters:
    ///   - model: The model; `nil` for ``managedObjectModel``, or the one stored in the package.
    ///   - readOnly: Whether to open it for reading only, which leaves no trace and is possible while another process writes it.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat`, `unsupported`, `locked` if another owner has it open
    ///   for writing, `cancelled` if it is closed meanwhile, or `invalidState` if it is open in another way.
    public func open(model: ManagedObjectModel? = nil, readOnly: Bool = false) async throws {
        try await request(.open(OpenRequest(model: model, isReadOnly: readOnly)))
    }

    /// Opens the package.
    public func open(
        model: ManagedObjectModel? = nil, readOnly: Bool = false,
        completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(
            .open(OpenRequest(model: model, isReadOnly: readOnly)),
            answer: completionHandler)
    }

    // MARK: Saving

    /// Saves the document as it is now: objects, external data and additional content, all or nothing.
    ///
    /// The snapshot is taken before this first suspends, or when earlier saves have ended. The work on the main queue is O(*n*) in
    /// the number of changes; writing happens off the main queue.
    ///
    /// A package that was moved or renamed meanwhile is saved at its new path.
    ///
    /// - Throws: ``QuireError`` with code `validation`, `constraintConflict`, `mergeConflict`, `outOfSpace`, `readOnly`,
    ///   `inputOutput`, `notFound` if the package was deleted, or `invalidState` if the document is not open.
    public func save() async throws { try await request(.save) }

    /// Saves the document as it is now; see ``save()``.
    public func save(completionHandler: @escaping DocumentCompletionHandler) {
        submit(.save, answer: completionHandler)
    }

    /// Saves the document if it has unsaved changes.
    ///
    /// - Throws: As ``save()``.
    public func autosave() async throws { try await request(.autosave) }

    /// Saves the document if it has unsaved changes.
    public func autosave(completionHandler: @escaping DocumentCompletionHandler) {
        submit(.autosave, answer: completionHandler)
    }

    /// Reverts the document to the last save. Objects that are still referenced belong to no context afterwards.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open, or errors of reading; then nothing
    ///   has changed.
    public func revert() async throws { try await request(.revert(nil)) }

    /// Reverts the document to the last save.
    public func revert(completionHandler: @escaping DocumentCompletionHandler) {
        submit(.revert(nil), answer: completionHandler)
    }

    /// Replaces the document's content with that of another package as of its last save: objects, external data and additional
    /// content, all or nothing, also on disk. The document keeps its path. Unsaved changes are dropped. Objects that
    /// are still referenced belong to no context afterwards.
    ///
    /// - Parameters:
    ///   - url: The other package. It may be open.
    ///   - progress: Cancelling it leaves everything as it was. ``progress`` is the same while the request runs.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat`, `incompatibleModel` if it has another model and
    ///   ``migrationOptions`` do not help, `readOnly`, `cancelled`, `invalidState` if the document is not open, or errors of reading
    ///   and writing; then nothing has changed.
    public func revert(to url: URL, progress: Progress? = nil) async throws {
        try await request(revertRequest(to: url, progress))
    }

    /// Replaces the document's content with that of another package; see ``revert(to:progress:)``.
    public func revert(
        to url: URL, progress: Progress? = nil,
        completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(completionHandler) { try revertRequest(to: url, progress) }
    }

    private func revertRequest(
        to url: URL, _ progress: Progress?
    ) throws -> StateMachine.Request {
        let path = try FileSystem.path(of: url)
        let migration = migrationOptions
        let work = DocumentWork { [self] _ in
            let progress = show(progress)
            try await performRevert { open in
                try await open.replaceContent(
                    with: path, migrating: migration, progress: progress)
            }
        }
        return .revert(work)
    }

    /// Makes a progress the current one until the running request ends.
    ///
    /// - Parameter progress: The progress that the caller of a request has given; `nil` for a new one.
    func show(_ progress: Progress?) -> Progress {
        let shown = progress ?? Progress(totalUnitCount: -1)
        self.progress = shown
        return shown
    }

    // MARK: Closing

    /// Saves unsaved changes and closes the document. Closing a closed document does nothing.
    ///
    /// Afterwards the package contains neither a log nor a lock file. ``managedObjectContext`` has no objects, and objects that are
    /// still referenced belong to no context. No new ones can be inserted: `insertObject` throws an error with code `invalidState`, and
    /// so does saving an object that an initializer has created in it. When it is opened again, the document has a new context.
    ///
    /// - Parameter discardingChanges: Whether to drop unsaved changes instead.
    /// - Throws: As ``save()``; then the document stays open and nothing is lost. If the unsaved changes could not be kept as a draft
    ///   either, because the disk is full, the message includes that, and ``draftError`` has the reason.
    public func close(discardingChanges: Bool = false) async throws {
        try await request(.close(discardingChanges: discardingChanges))
    }

    /// Saves unsaved changes and closes the document.
    public func close(
        discardingChanges: Bool = false, completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(.close(discardingChanges: discardingChanges), answer: completionHandler)
    }

    /// Passes a request to the state machine. If an argument is invalid, the handler gets that error instead.
    private func submit(
        _ completionHandler: @escaping DocumentCompletionHandler,
        _ request: () throws -> StateMachine.Request
    ) {
        do { try submit(request(), answer: completionHandler) } catch {
            let error = QuireError(wrapping: error, path: path)
            Task { @MainActor in completionHandler(error) }
        }
    }
}

// MARK: - Copies

// Writing the document to other packages.

extension ManagedDocument {
    // MARK: Saving to a URL

    /// Saves the document to a URL, which becomes the document's: as ``save()`` for its own package, and as
    /// ``save(as:replacing:keepingDamage:progress:)`` for another one. A document that is not open is created there, with
    /// ``managedObjectModel``. The state of the document when earlier requests have ended decides between these.
    ///
    /// - Parameters:
    ///   - url: The package.
    ///   - operation: With `forCreating` the URL must not exist; with `forOverwriting` a document at the URL is replaced.
    /// - Throws: As those.
    public func save(to url: URL, for operation: SaveOperation) async throws {
        let saving = SavingAs(self, try destination(of: url, for: operation))
        try await request(.saveTo(saving.target(for: operation)))
        if let error = saving.reportIncomplete() { throw error }
    }

    /// Saves the document to a URL, which becomes the document's.
    public func save(
        to url: URL, for operation: SaveOperation,
        completionHandler: @escaping DocumentCompletionHandler
    ) {
        var saving: SavingAs?
        submit({ completionHandler($0 ?? saving?.reportIncomplete()) }) {
            let new = SavingAs(self, try destination(of: url, for: operation))
            saving = new
            return .saveTo(new.target(for: operation))
        }
    }

    private func destination(
        of url: URL, for operation: SaveOperation
    ) throws -> SaveDestination {
        SaveDestination(
            path: try FileSystem.path(of: url), replaces: operation == .forOverwriting,
            keepsDamage: false)
    }

    /// Saves the document as another package, which becomes the document's package. The old package remains as of its last save.
    ///
    /// Objects, their identifiers, undo and the context are kept; a document that was opened for reading only can be saved
    /// afterwards. The new package is created whole, or not at all; an existing package is replaced atomically. Changes made meanwhile
    /// stay unsaved.
    ///
    /// If another program has deleted the document's package, the new one gets all objects and values of the store, which is still
    /// open, and of memory, and all unsaved files of additional content. The new package is then the document's, without unsaved
    /// changes; if it lacks files that were deleted with the old one, an error that lists them is thrown nevertheless.
    ///
    /// - Parameters:
    ///   - url: The package to create.
    ///   - replacing: Whether to replace an existing document, which must not be open for writing.
    ///   - keepingDamage: Whether to copy a damaged document as it is; otherwise the copy is checked.
    ///   - progress: Counts the bytes to copy; cancelling it leaves no package. ``progress`` is the same while the
    ///     request is carried out.
    /// - Complexity: O(*n*) in the size of the document, off the main queue.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `locked`, `cancelled`, `notFound` if the folder does not exist, or as
    ///   ``save()``.
    ///   Then the document is unchanged. With code `notFound`, and ``path`` being the new one, if the document was saved without
    ///   files that are lost: `failures` has one error for each lost file of external data and additional content, and the message
    ///   lists the first ones.
    public func save(
        as url: URL, replacing: Bool = false, keepingDamage: Bool = false,
        progress: Progress? = nil
    ) async throws {
        let saving = SavingAs(
            self,
            SaveDestination(
                path: try FileSystem.path(of: url), replaces: replacing,
                keepsDamage: keepingDamage, progress: progress))
        try await request(.saveAs(saving.work))
        if let error = saving.reportIncomplete() { throw error }
    }

    /// Writes the document as it is now, including unsaved changes, to another package. The document's own
    /// package and its unsaved changes are not affected.
    ///
    /// - Parameters:
    ///   - url: The package to create.
    ///   - replacing: Whether to replace an existing document, which must not be open for writing.
    ///   - keepingDamage: Whether to copy a damaged document as it is; otherwise the copy is checked.
    ///   - progress: As in ``save(as:replacing:keepingDamage:progress:)``.
    /// - Complexity: O(*n*) in the size of the document, off the main queue.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `locked`, `cancelled`, `validation` if an object could not be saved,
    ///   or errors of reading and writing. With code `notFound` and the path of the copy as its subject if the copy was created,
    ///   but lacks files that were deleted with the document's package; see ``save(as:replacing:keepingDamage:progress:)``.
    public func writeCopy(
        to url: URL, replacing: Bool = false, keepingDamage: Bool = false,
        progress: Progress? = nil
    ) async throws {
        try await request(copyRequest(to: url, replacing, keepingDamage, progress))
    }

    private func copyRequest(
        to url: URL, _ replacing: Bool, _ keepingDamage: Bool, _ progress: Progress?
    ) throws -> StateMachine.Request {
        var destination = SaveDestination(
            path: try FileSystem.path(of: url), replaces: replacing, keepsDamage: keepingDamage)
        return .access(
            DocumentWork(onSnapshotFor: .copy) { [self] open, snapshot in
                destination.progress = show(progress)
                // If it fails, the open store can still be copied.
                try? await followPackage(of: open)
                try await open.writeCopy(to: destination, snapshot)
            })
    }

    /// Writes the document as it is now to another package beside it, and returns a document of the same class for it, which is
    /// not open yet.
    ///
    /// - Parameters:
    ///   - url: The package to create; `nil` for one beside this one, “Name 2”, or 3, 4 ….
    ///   - keepingDamage: As in ``writeCopy(to:replacing:keepingDamage:progress:)``.
    ///   - progress: As in ``writeCopy(to:replacing:keepingDamage:progress:)``.
    /// - Throws: As ``writeCopy(to:replacing:keepingDamage:progress:)``.
    public func duplicate(
        to url: URL? = nil, keepingDamage: Bool = false, progress: Progress? = nil
    ) async throws -> Self {
        let copy = url ?? unusedURL
        do {
            try await writeCopy(to: copy, keepingDamage: keepingDamage, progress: progress)
        } catch let error as QuireError where url == nil && error.code == .alreadyExists {
            // Another copy has been given the name in the meantime.
            return try await duplicate(keepingDamage: keepingDamage, progress: progress)
        }
        return Self(fileURL: copy)
    }

    /// Writes the document as it is now to another package beside it; see ``duplicate(to:keepingDamage:progress:)``. The handler
    /// is called once on the main queue, with the document for the copy, which is of the same class.
    public func duplicate(
        to url: URL? = nil, keepingDamage: Bool = false, progress: Progress? = nil,
        completionHandler:
            @escaping @MainActor @Sendable (Result<ManagedDocument, QuireError>)
            -> Void
    ) {
        let copy = url ?? unusedURL
        let documentClass = type(of: self)
        submit({ [self] error in
            if url == nil, error?.code == .alreadyExists {
                return duplicate(
                    keepingDamage: keepingDamage, progress: progress,
                    completionHandler: completionHandler)
            }
            completionHandler(
                error.map { .failure($0) } ?? .success(documentClass.init(fileURL: copy)))
        }) { try copyRequest(to: copy, false, keepingDamage, progress) }
    }

    /// An unused URL for a copy: beside the package, or beside the archive that the document is in.
    private var unusedURL: URL {
        URL(
            fileURLWithPath: SiblingName.unused(
                beside: openDocument?.package.archiveSibling ?? path))
    }

    /// Renames or moves the document's package within its file system; the document stays open there.
    ///
    /// If it has been moved, but its store cannot be opened there, this fails too, and ``path`` is the new one. Moving it there again
    /// opens it, as saving and reverting do.
    ///
    /// - Parameter url: The new URL, which must not exist unless it is that of this document.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `notFound` if the folder does not exist, `unsupported` for another
    ///   file system, `invalidValue` if SQLite could not open so long a path, or `invalidState` if the document is not open. Then
    ///   the package is not moved. Or errors of opening the store.
    public func move(to url: URL) async throws { try await request(moveRequest(to: url)) }

    /// Renames or moves the document's package; see ``move(to:)``.
    public func move(to url: URL, completionHandler: @escaping DocumentCompletionHandler) {
        submit(completionHandler) { try moveRequest(to: url) }
    }

    private func moveRequest(to url: URL) throws -> StateMachine.Request {
        let path = try FileSystem.path(of: url)
        return .access(
            DocumentWork { [self] open in
                try await followPackage(of: open)
                if FileName(path) == FileName(self.path) { return }
                try await open.move(to: path)
                self.path = path
                _ = try await open.follow()
            })
    }

    // MARK: Copies of the last save

    /// Saves unsaved changes, and exports the document to an archive, whose format depends on the URL's extension unless `options`
    /// chooses another one; see ``ArchiveFormat``.
    ///
    /// The archive contains the state saved when this is called. Exporting an unchanged document again produces an identical
    /// archive, unless it is protected. The document can be edited meanwhile; later saves wait only until its files are copied.
    ///
    /// - Parameters:
    ///   - url: The archive to create.
    ///   - replacing: Whether to replace an existing file.
    ///   - keepingDamage: Whether to export a damaged document as it is.
    ///   - protection: The protection of the archive; required if the document is protected, and ignored otherwise.
    ///   - options: The format of the archive, and its optional contents.
    ///   - progress: Counts the bytes to write; cancelling it stops the export and leaves nothing.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `unsupported`, `protectionUnavailable` if it is protected and
    ///   `protection` is `nil`, `protectedDataUnavailable`, `cancelled`, or as ``save()``.
    public func export(
        to url: URL, replacing: Bool = false, keepingDamage: Bool = false,
        protection: ArchiveProtection? = nil, options: ArchiveOptions = ArchiveOptions(),
        progress: Progress? = nil
    ) async throws {
        let export = try await withSavedPackage {
            try await $0.beginExport(
                to: url, replacing, keepingDamage, protection, options, progress)
        }
        try await export.value
    }

    /// Saves unsaved changes, and exports the document to the archive at a path; see
    /// ``export(to:replacing:keepingDamage:protection:options:progress:)-(URL,_,_,_,_,_)``.
    public func export(
        to path: String, replacing: Bool = false, keepingDamage: Bool = false,
        protection: ArchiveProtection? = nil, options: ArchiveOptions = ArchiveOptions(),
        progress: Progress? = nil
    ) async throws {
        try await export(
            to: URL(fileURLWithPath: path), replacing: replacing, keepingDamage: keepingDamage,
            protection: protection, options: options, progress: progress)
    }

    /// Saves unsaved changes, and exports the document to an archive; see
    /// ``export(to:replacing:keepingDamage:protection:options:progress:)-(URL,_,_,_,_,_)``.
    public func export(
        to url: URL, replacing: Bool = false, keepingDamage: Bool = false,
        protection: ArchiveProtection? = nil, options: ArchiveOptions = ArchiveOptions(),
        progress: Progress? = nil,
        completionHandler: @escaping DocumentCompletionHandler
    ) {
        withSavedPackage {
            try await $0.beginExport(
                to: url, replacing, keepingDamage, protection, options, progress)
        } answer: { [path] begun in
            Task { @MainActor in
                do {
                    try await begun.get().value
                    completionHandler(nil)
                } catch {
                    completionHandler(QuireError(wrapping: error, path: path))
                }
            }
        }
    }

    /// Checks the whole package as of the last save. Changes nothing.
    public func check() async throws -> [DocumentProblem] {
        let package = try openPackage()
        return try await FileQueue.copies.run { try package.check() }
    }

    /// Runs a body that uses the package's files, off the main queue. The document neither saves nor closes until it has ended.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open, or an error of the body.
    public func performAsynchronousFileAccess<Result: Sendable>(
        _ body: @escaping @Sendable (DocumentPackage) throws -> Result
    ) async throws -> Result {
        try await withOpenDocument { open in
            let package = open.package
            return try await FileQueue.copies.run { try body(package) }
        }
    }

    /// Saves unsaved changes, and runs a body on the package before anything else is saved: both are requested at once. An error of
    /// the body is no failure of the document, and is only thrown.
    fileprivate func withSavedPackage<Value: Sendable>(
        _ body: @escaping @MainActor (DocumentPackage) async throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            withSavedPackage(body) { continuation.resume(with: $0) }
        }
    }

    private func withSavedPackage<Value: Sendable>(
        _ body: @escaping @MainActor (DocumentPackage) async throws -> Value,
        answer: @escaping @MainActor (Result<Value, any Error>) -> Void
    ) {
        var result: Result<Value, any Error>?
        if !isReadOnly { submit(.autosave) { if let error = $0 { result = .failure(error) } } }
        let work = DocumentWork { open in
            if result != nil { return }
            do { result = .success(try await body(open.package)) } catch {
                result = .failure(error)
            }
        }
        submit(.access(work)) { [self] error in
            answer(result ?? .failure(error ?? notOpenError))
        }
    }

    private func openPackage() throws -> DocumentPackage {
        guard let package = openDocument?.package else { throw notOpenError }
        return package
    }
}

extension DocumentPackage {
    /// Starts an export, and returns when its files are copied: the package may change from then on.
    fileprivate func beginExport(
        to url: URL, _ replacing: Bool, _ keepingDamage: Bool, _ protection: ArchiveProtection?,
        _ options: ArchiveOptions, _ progress: Progress?
    ) async throws -> Task<Void, any Error> {
        let path = try FileSystem.path(of: url)
        let (copied, continuation) = AsyncStream.makeStream(of: Void.self)
        let export = Task {
            defer { continuation.finish() }
            try await FileQueue.copies.run {
                _ = try self.export(
                    to: path, replacing: replacing, keepingDamage: keepingDamage,
                    protection: protection, options: options, progress: progress
                ) { continuation.finish() }
            }
        }
        for await _ in copied {}
        return export
    }
}

/// The work of saving a document as another package.
@MainActor
private final class SavingAs {
    private let document: ManagedDocument
    private var destination: SaveDestination
    /// The error of files that are missing in the new package.
    private var incomplete: QuireError?

    init(_ document: ManagedDocument, _ destination: SaveDestination) {
        self.document = document
        self.destination = destination
    }

    var work: DocumentWork {
        DocumentWork(onSnapshotFor: .save) { [self] open, snapshot in
            destination.progress = document.show(destination.progress)
            // Where it fails the open store is still there to be saved.
            try? await document.followPackage(of: open)
            incomplete = try await open.saveAs(destination, snapshot)
            document.path = destination.path
            document.watchPackage()
        }
    }

    /// The request of a save to the destination's path, which may be that of the document.
    func target(for operation: SaveOperation) -> ManagedDocument.StateMachine.SaveTarget {
        .init(
            path: FileSystem.resolved(destination.path), operation: operation,
            creation: OpenRequest(isCreation: true, path: destination.path), work: work)
    }

    /// Reports and returns the error of a request that was carried out, but not completely.
    func reportIncomplete() -> QuireError? {
        guard let incomplete else { return nil }
        document.handleError(incomplete, userInteractionPermitted: !document.isTerminating)
        return incomplete
    }
}

/// Whether a document is written to a new path, or replaces an existing document.
public enum SaveOperation: Sendable, Hashable {
    /// The path must not exist.
    case forCreating
    /// A document at the path is replaced.
    case forOverwriting
}

// MARK: - Versions

extension ManagedDocument {
    /// Saves unsaved changes, and keeps the document as it is when this is called as a version. It can be edited meanwhile; later
    /// saves wait until the version is complete.
    ///
    /// - Parameters:
    ///   - name: A name given by the user.
    ///   - keepingDamage: Whether to keep damaged content too; otherwise the content is checked.
    ///   - progress: Counts the bytes of the database. Cancelling it leaves no version.
    /// - Throws: ``QuireError`` as ``save()`` and ``DocumentPackage/keepVersion(named:reason:onlyIfNew:keepingDamage:progress:)``.
    @discardableResult
    public func keepVersion(
        named name: String? = nil, keepingDamage: Bool = false, progress: Progress? = nil
    ) async throws -> DocumentVersion {
        try await withSavedPackage { package in
            try await FileQueue.copies.run {
                try package.keepVersion(
                    named: name, keepingDamage: keepingDamage, progress: progress)
            }
        }
    }

    /// The versions, newest first.
    public func versions() async throws -> [DocumentVersion] {
        try await withPackage { try $0.versions() }
    }

    /// Extracts a version to a temporary package, to be opened for reading only; see ``VersionCheckout``.
    public func checkOut(
        _ version: DocumentVersion.ID, progress: Progress? = nil
    ) async throws -> VersionCheckout {
        try await withPackage { try $0.checkOut(version, progress: progress) }
    }

    /// Restores a version: objects, external data and additional content, all or nothing, also on disk. The current state,
    /// including unsaved changes, is kept as a version first. Objects that are still referenced belong to no context afterwards.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` if the version is damaged, `incompatibleModel` if it is of
    ///   another version of the model and ``migrationOptions`` do not help, or as ``save()``. Then nothing has changed.
    public func restore(_ version: DocumentVersion.ID) async throws {
        let migration = migrationOptions
        try await replaceContent {
            try $0.replaceContent(withVersion: version, migrating: migration)
        }
    }

    /// The unresolved conflict versions, newest first.
    public func unresolvedConflictVersions() async throws -> [DocumentVersion] {
        try await withPackage { try $0.unresolvedConflictVersions() }
    }

    /// Resolves a conflict version: one side becomes the content of the document, and the other remains as a version. Unsaved
    /// changes are saved first. If the version is chosen, objects that are still referenced belong to no context afterwards.
    ///
    /// - Throws: As ``DocumentPackage/resolveConflict(_:keeping:migrating:)`` and ``save()``.
    public func resolveConflict(
        _ version: DocumentVersion.ID, keeping side: ConflictSide
    ) async throws {
        let migration = migrationOptions
        switch side {
        case .current:
            _ = try await withSavedPackage { package in
                try await FileQueue.copies.run {
                    try package.resolveConflict(version, keeping: .current)
                }
            }
        case .other:
            try await replaceContent {
                try $0.resolveConflict(version, keeping: .other, migrating: migration)
            }
        }
    }

    /// Saves unsaved changes and replaces the content of the package, when the document's turn comes, and shows the new one.
    private func replaceContent(
        _ body: @escaping @Sendable (DocumentPackage) throws -> DocumentPackage
    ) async throws {
        let work = DocumentWork { [self] _ in
            try await performRevert { open in
                let old = open.package
                let new = try await FileQueue.copies.run { try body(old) }
                await open.switchPackage(from: old, to: new)
            }
        }
        try await request(.saveAndRevert(work))
    }

    /// Removes a version.
    public func deleteVersion(_ version: DocumentVersion.ID) async throws {
        try await withPackage { try $0.deleteVersion(version) }
    }

    /// Removes old versions.
    ///
    /// - Parameter retention: The versions to keep; `nil` for the retention of ``versionPolicy``, or the default one.
    /// - Returns: The versions that were removed.
    @discardableResult
    public func pruneVersions(
        _ retention: VersionRetention? = nil
    ) async throws -> [DocumentVersion] {
        let retention = retention ?? versionPolicy.retention ?? VersionRetention()
        return try await withPackage { try $0.pruneVersions(retention) }
    }

    private func withPackage<Result: Sendable>(
        _ body: @escaping @Sendable (DocumentPackage) throws -> Result
    ) async throws -> Result {
        guard let package = openDocument?.package else { throw notOpenError }
        return try await FileQueue.copies.run { try body(package) }
    }
}
