public import Foundation
public import Quire

// Requests of users. Those that UIDocument has with a completion handler have that form too; the handler is called exactly
// once, later, on the main queue.

/// Called once on the main queue, with `nil` if the request was carried out.
public typealias DocumentCompletionHandler = @MainActor @Sendable (QuireError?) -> Void

extension ManagedDocument {
    // MARK: Creating and opening

    /// Makes the package and opens it for writing. It is on disk when this returns.
    ///
    /// - Parameter model: The model of the objects, which the package will carry; `nil` for ``managedObjectModel``, or the
    ///   models of the program's bundle.
    /// - Throws: ``QuireError`` with code `alreadyExists` if there is anything at the path, `invalidModel` if the model
    ///   cannot be used or there is none, `invalidState` if the document is open, or what writing throws.
    public func create(model: ManagedObjectModel? = nil) async throws {
        try await request(.open(OpenRequest(model: model, isCreation: true)))
    }

    /// Opens the package. If it is open or being opened in the same way, that will do.
    ///
    /// - Parameters:
    ///   - model: The model, if it shall not be the one that the package carries.
    ///   - readOnly: Whether to open it for reading only, which leaves no trace and works beside a writer.
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
    /// The snapshot is taken before this first suspends, or when the saves before it have ended. Main-queue work is O(*n*)
    /// in what changed; writing happens off the main queue.
    ///
    /// A package that was moved or renamed meanwhile is saved where it is now.
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

    /// Makes the document what it was when it was saved last. Objects that are held belong to no context afterwards.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open, or what reading throws; then nothing
    ///   has changed.
    public func revert() async throws { try await request(.revert(nil)) }

    /// Makes the document what it was when it was saved last.
    public func revert(completionHandler: @escaping DocumentCompletionHandler) {
        submit(.revert(nil), answer: completionHandler)
    }

    /// Makes the document's content that of another package as of its last save, or of an archive's: objects, external data
    /// and additional content, all or nothing, on disk as well. The document keeps its place. Unsaved changes are dropped.
    /// Objects that are held belong to no context afterwards.
    ///
    /// - Parameters:
    ///   - url: The other package. Others may have it open.
    ///   - progress: Cancelling it leaves everything as it was. ``progress`` is the same while the request is carried out.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat`, `incompatibleModel` if it has another model and
    ///   ``migrationOptions`` do not help, `readOnly`, `cancelled`, `invalidState` if the document is not open, or what reading
    ///   and writing throw; then nothing has changed.
    public func revert(to url: URL, progress: Progress? = nil) async throws {
        try await request(revertRequest(to: url, progress))
    }

    /// Makes the document's content that of another package; see ``revert(to:progress:)``.
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

    /// Makes a progress the present one until the running request ends.
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
    /// Afterwards nothing is left beside the package's files: no log, no lock. ``managedObjectContext`` has no objects then,
    /// and those that are held belong to no context. It takes no new ones: `insertObject` throws an error with code
    /// `invalidState`, and so does saving an object that an initializer has made in it. Opened again, the document has another
    /// context.
    ///
    /// - Parameter discardingChanges: Whether to drop unsaved changes instead.
    /// - Throws: As ``save()``; then the document stays open and nothing is lost. If what cannot be saved is in no draft either,
    ///   because the disk is full, the message says so, and ``draftError`` says why.
    public func close(discardingChanges: Bool = false) async throws {
        try await request(.close(discardingChanges: discardingChanges))
    }

    /// Saves unsaved changes and closes the document.
    public func close(
        discardingChanges: Bool = false, completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(.close(discardingChanges: discardingChanges), answer: completionHandler)
    }

    /// Hands a request to the state machine. If an argument is invalid, the handler gets that error instead.
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

// The document written elsewhere than to its own package.

extension ManagedDocument {
    // MARK: Saving to a place

    /// Saves the document to a place, and makes that the document's: its own package for ``save()``, another for
    /// ``save(as:replacing:keepingDamage:progress:)``. A document that is not open is made there, with ``managedObjectModel``.
    /// Which of these it is, the state of the document decides when the requests before it have ended.
    ///
    /// - Parameters:
    ///   - url: The package.
    ///   - operation: With `forCreating` there must be nothing at the URL; with `forOverwriting` there may be a document.
    /// - Throws: As those.
    public func save(to url: URL, for operation: SaveOperation) async throws {
        let saving = SavingAs(self, try destination(of: url, for: operation))
        try await request(.saveTo(saving.target(for: operation)))
        if let error = saving.reportIncomplete() { throw error }
    }

    /// Saves the document to a place, and makes that the document's.
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

    /// Saves the document as another package, which it is from then on. The package that it was stays as it was saved last.
    ///
    /// Objects, their identifiers, undo and the context stay; a document that was opened for reading only can be written
    /// afterwards. The new package is there whole, or not at all; while it replaces another one, its path is that of the one
    /// or the other at any moment. What is changed meanwhile stays unsaved.
    ///
    /// If others have deleted the document's package, the new one gets every object and value that is in the store, which is
    /// open, or in memory, and every file of additional content that is unsaved. The document is the new package then, with
    /// nothing unsaved; if that lacks files, which went with the old one, an error names them all the same.
    ///
    /// - Parameters:
    ///   - url: The package to make.
    ///   - replacing: Whether to replace a document that is there, and that is not open for writing.
    ///   - keepingDamage: Whether a damaged document is copied too, with its damage; what is copied is checked otherwise.
    ///   - progress: Gets the bytes to copy as its total; cancelling it leaves no package. ``progress`` is the same while the
    ///     request is carried out.
    /// - Complexity: O(*n*) in the size of the document, off the main queue.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `locked`, `cancelled`, `notFound` if the folder is not there, or as
    ///   ``save()``.
    ///   Then the document is what it was. With code `notFound` and ``path`` the new one if the document was saved as far as
    ///   it is still there: `failures` has one error for each file of external data and of additional content that is not,
    ///   and the message names the first ones.
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

    /// Writes the document as it is now, unsaved changes included, to another package. The document's own
    /// package and its unsaved changes stay as they are.
    ///
    /// - Parameters:
    ///   - url: The package to make.
    ///   - replacing: Whether to replace a document that is there, and that is not open for writing.
    ///   - keepingDamage: Whether a damaged document is copied too, with its damage; what is copied is checked otherwise.
    ///   - progress: As ``save(as:replacing:keepingDamage:progress:)`` has it.
    /// - Complexity: O(*n*) in the size of the document, off the main queue.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `locked`, `cancelled`, `validation` if an object could not be saved, or
    ///   what reading and writing throw. With code `notFound` and the path of the copy as its subject if that is there, but lacks
    ///   files which others have deleted with the document's package; see ``save(as:replacing:keepingDamage:progress:)``.
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
                // Where it fails the open store is still there to be copied.
                try? await followPackage(of: open)
                try await open.writeCopy(to: destination, snapshot)
            })
    }

    /// Writes the document as it is now to another package beside it, and gives a document for that, of the same class,
    /// which is not open yet.
    ///
    /// - Parameters:
    ///   - url: The package to make; `nil` for one beside this one, “Name 2”, or 3, 4 ….
    ///   - keepingDamage: As ``writeCopy(to:replacing:keepingDamage:progress:)`` has it.
    ///   - progress: As ``writeCopy(to:replacing:keepingDamage:progress:)`` has it.
    /// - Throws: As ``writeCopy(to:replacing:keepingDamage:progress:)``.
    public func duplicate(
        to url: URL? = nil, keepingDamage: Bool = false, progress: Progress? = nil
    ) async throws -> Self {
        let copy = url ?? URL(fileURLWithPath: SiblingName.unused(beside: path))
        try await writeCopy(to: copy, keepingDamage: keepingDamage, progress: progress)
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
        let copy = url ?? URL(fileURLWithPath: SiblingName.unused(beside: path))
        let documentClass = type(of: self)
        submit({ error in
            completionHandler(
                error.map { .failure($0) } ?? .success(documentClass.init(fileURL: copy)))
        }) { try copyRequest(to: copy, false, keepingDamage, progress) }
    }

    /// Renames or moves the document's package within its file system; the document stays open there.
    ///
    /// If it has been moved, but its store cannot be opened there, this fails too, and ``path`` is the new one. To move it
    /// there again opens it, as saving and reverting do.
    ///
    /// - Parameter url: The new place, where there must be nothing but this document.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `notFound` if the folder is not there, `unsupported` for another
    ///   file system, or `invalidState` if the document is not open. Then it is where it was. Or what opening the store
    ///   throws.
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
                if path == self.path { return }
                try await open.move(to: path)
                self.path = path
                _ = try await open.follow()
            })
    }

    // MARK: Copies of the last save

    /// Saves unsaved changes, and exports the document to an archive, `.zip` or `.tar.zst` as the URL says.
    ///
    /// Exporting an unchanged document again gives an equal archive, unless it is protected. Editing and saving may go on
    /// meanwhile; closing makes the export fail.
    ///
    /// - Parameters:
    ///   - url: The archive to make.
    ///   - replacing: Whether to replace a file that is there.
    ///   - keepingDamage: Whether a damaged document is exported too, with its damage.
    ///   - protection: The protection of the archive of a protected document, which has to be chosen; ignored for others.
    ///   - progress: Gets the bytes to write as its total; cancelling it stops the export and leaves nothing.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `unsupported`, `protectionUnavailable` if it is protected and
    ///   nothing was chosen, `protectedDataUnavailable`, `cancelled`, or as ``save()``.
    public func export(
        to url: URL, replacing: Bool = false, keepingDamage: Bool = false,
        protection: ArchiveProtection? = nil, progress: Progress? = nil
    ) async throws {
        if !isReadOnly { try await autosave() }
        try await exportSaved(to: url, replacing, keepingDamage, protection, progress)
    }

    /// Saves unsaved changes, and exports the document to the archive at a path; see
    /// ``export(to:replacing:keepingDamage:protection:progress:)-(URL,_,_,_,_)``.
    public func export(
        to path: String, replacing: Bool = false, keepingDamage: Bool = false,
        protection: ArchiveProtection? = nil, progress: Progress? = nil
    ) async throws {
        try await export(
            to: URL(fileURLWithPath: path), replacing: replacing, keepingDamage: keepingDamage,
            protection: protection, progress: progress)
    }

    /// Saves unsaved changes, and exports the document to an archive; see
    /// ``export(to:replacing:keepingDamage:protection:progress:)-(URL,_,_,_,_)``.
    public func export(
        to url: URL, replacing: Bool = false, keepingDamage: Bool = false,
        protection: ArchiveProtection? = nil, progress: Progress? = nil,
        completionHandler: @escaping DocumentCompletionHandler
    ) {
        let exportSaved: @MainActor @Sendable (QuireError?) -> Void = { [self] error in
            if let error { return completionHandler(error) }
            Task { @MainActor in
                var failure: QuireError?
                do {
                    try await self.exportSaved(
                        to: url, replacing, keepingDamage, protection, progress)
                } catch {
                    failure = QuireError(wrapping: error, path: self.path)
                }
                completionHandler(failure)
            }
        }
        if isReadOnly { exportSaved(nil) } else { submit(.autosave, answer: exportSaved) }
    }

    private func exportSaved(
        to url: URL, _ replacing: Bool, _ keepingDamage: Bool, _ protection: ArchiveProtection?,
        _ progress: Progress?
    ) async throws {
        let path = try FileSystem.path(of: url)
        let package = try openPackage()
        try await FileQueue.copies.run {
            try package.export(
                to: path, replacing: replacing, keepingDamage: keepingDamage,
                protection: protection, progress: progress)
        }
    }

    /// Looks at everything in the package, as of the last save. Changes nothing.
    public func check() async throws -> [DocumentProblem] {
        let package = try openPackage()
        return try await FileQueue.copies.run { try package.check() }
    }

    /// Does something with the package's files, off the main queue, while the document itself leaves them alone: neither
    /// saves nor closes before it is through.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open, or what the body throws.
    public func performAsynchronousFileAccess<Result: Sendable>(
        _ body: @escaping @Sendable (DocumentPackage) throws -> Result
    ) async throws -> Result {
        try await withOpenDocument { open in
            let package = open.package
            return try await FileQueue.copies.run { try body(package) }
        }
    }

    private func openPackage() throws -> DocumentPackage {
        guard let package = openDocument?.package else { throw notOpenError }
        return package
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
            path: destination.path, operation: operation,
            creation: OpenRequest(isCreation: true, path: destination.path), work: work)
    }

    /// Reports and returns the error of a request that was carried out, but not completely.
    func reportIncomplete() -> QuireError? {
        guard let incomplete else { return nil }
        document.handleError(incomplete, userInteractionPermitted: !document.isTerminating)
        return incomplete
    }
}

/// Whether a document is written where there is nothing yet, or over what is there.
public enum SaveOperation: Sendable, Hashable {
    /// There must be nothing at the path.
    case forCreating
    /// A document at the path is replaced.
    case forOverwriting
}

// MARK: - Versions

extension ManagedDocument {
    /// Saves unsaved changes, and keeps what the document is then as a version. Editing and saving may go on meanwhile.
    ///
    /// - Parameters:
    ///   - name: What the user calls it.
    ///   - keepingDamage: Whether what is damaged is kept too; it is checked otherwise.
    ///   - progress: Gets the bytes of the database as its total. Cancelling it leaves no version.
    /// - Throws: ``QuireError`` as ``save()`` and ``DocumentPackage/keepVersion(named:reason:onlyIfNew:keepingDamage:progress:)``.
    @discardableResult
    public func keepVersion(
        named name: String? = nil, keepingDamage: Bool = false, progress: Progress? = nil
    ) async throws -> DocumentVersion {
        try await autosave()
        return try await withPackage {
            try $0.keepVersion(named: name, keepingDamage: keepingDamage, progress: progress)
        }
    }

    /// The versions that were kept, newest first.
    public func versions() async throws -> [DocumentVersion] {
        try await withPackage { try $0.versions() }
    }

    /// Makes a version a package of its own, to be opened for reading only; see ``VersionCheckout``.
    public func checkOut(
        _ version: DocumentVersion.ID, progress: Progress? = nil
    ) async throws -> VersionCheckout {
        try await withPackage { try $0.checkOut(version, progress: progress) }
    }

    /// Makes the document what a version is: objects, external data and additional content, all or nothing, on disk as well.
    /// The state before, unsaved changes included, is kept as a version first. Objects that are held belong to no context
    /// afterwards.
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

    /// Resolves a conflict version: one side becomes the content of the document, and the other stays as a version. Unsaved
    /// changes are saved first. If that is the version, objects that are held belong to no context afterwards.
    ///
    /// - Throws: As ``DocumentPackage/resolveConflict(_:keeping:migrating:)`` and ``save()``.
    public func resolveConflict(
        _ version: DocumentVersion.ID, keeping side: ConflictSide
    ) async throws {
        let migration = migrationOptions
        switch side {
        case .current:
            try await autosave()
            _ = try await withPackage { try $0.resolveConflict(version, keeping: .current) }
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
    /// - Parameter retention: Which stay; `nil` for what ``versionPolicy`` says, or the usual.
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
