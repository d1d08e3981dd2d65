import Foundation
import Logging
import Quire
import QuireAtomicStores
import QuireDocuments
import QuireSQLite

/// An open document, whatever it is: a package, through ``ManagedDocument`` when it is to be changed, or a bare
/// store.
///
/// Reading verbs open it for reading only: they leave no trace, and work while the document is open elsewhere. External data
/// that differ from what was saved are an error: what the command prints, others take for the document's.
@MainActor
final class DocumentSession {
    /// The access that a verb needs.
    enum Access {
        case read
        /// Reads, and sees what others save meanwhile.
        case follow
        case write
    }

    /// The form of a document on disk.
    enum Kind: String {
        case package, store, archive

        /// The kind in a sentence.
        var title: String {
            switch self {
            case .package: "document package"
            case .store: "bare store"
            case .archive: "archive"
            }
        }
    }

    /// The open document, package or store.
    private enum Backing {
        /// A package that is to be changed.
        case document(SessionDocument)
        /// A package that is only read.
        case package(DocumentPackage, ManagedObjectContext)
        /// A bare store.
        case store(any PersistentStore, ManagedObjectContext)
    }

    /// Whether an app mirrors the store to CloudKit.
    var isMirrored: Bool {
        get throws { try (store as? SQLiteStore)?.ancillaryData().isMirrored ?? false }
    }

    /// The author of what the command saves, in stores with a history.
    nonisolated static let author = "quire"

    /// The path as it was given.
    private(set) var path: String
    /// The form of the document.
    let kind: Kind
    /// Turns texts into identifiers.
    let coordinator: PersistentStoreCoordinator
    /// The values that could not be read since it was asked last.
    let unreadable = UnreadableValues()
    private let backing: Backing
    /// Whether changes stay unsaved until they are saved explicitly, and can be undone.
    let isInteractive: Bool

    private init(
        path: String, kind: Kind, backing: Backing, coordinator: PersistentStoreCoordinator,
        isInteractive: Bool = false
    ) {
        self.isInteractive = isInteractive
        self.path = path
        self.kind = kind
        self.backing = backing
        self.coordinator = coordinator
    }

    /// A package that is only read.
    private convenience init(path: String, kind: Kind, package: DocumentPackage) {
        let coordinator = PersistentStoreCoordinator(store: package.store)
        self.init(
            path: path, kind: kind,
            backing: .package(package, .mainQueue(coordinator: coordinator)),
            coordinator: coordinator)
    }

    /// A new store that is being filled.
    convenience init(filling store: any PersistentStore, path: String) {
        let coordinator = PersistentStoreCoordinator(store: store)
        self.init(
            path: path, kind: .store,
            backing: .store(store, .mainQueue(coordinator: coordinator)), coordinator: coordinator)
    }

    /// The model.
    var layout: ResolvedModel { coordinator.layout }

    /// The store.
    var store: any PersistentStore {
        switch backing {
        case .document(let document): document.package.store
        case .package(let package, _): package.store
        case .store(let store, _): store
        }
    }

    /// The document, if it is a package that is to be changed.
    private var document: SessionDocument? {
        if case .document(let document) = backing { document } else { nil }
    }

    /// The package; `nil` for a bare store.
    private var package: DocumentPackage? {
        if case .package(let package, _) = backing { package } else { document?.package }
    }

    /// The context to fetch from and to change. Reverting a document gives it a new one.
    var context: ManagedObjectContext {
        switch backing {
        case .document(let document): document.managedObjectContext
        case .package(_, let context), .store(_, let context): context
        }
    }

    // MARK: - Opening and closing

    /// Opens the document at a path.
    ///
    /// - Parameters:
    ///   - modelPath: The model to use instead of the one that the store carries.
    ///   - isInteractive: Whether it is for a session, which restores what the last one could not save, and in which
    ///     changes stay unsaved until they are saved explicitly. Otherwise the caller saves all changes of a verb.
    ///   - waiting: How long to wait for others who have it open for writing.
    ///   - reportsWaiting: Whether that is reported on standard error.
    ///   - unlock: What unlocks the document in an archive; without it archives are not opened.
    /// - Throws: `QuireError` with code `notFound`, `invalidFormat`, `locked`, …
    static func open(
        _ path: String, modelPath: String?, access: Access, isInteractive: Bool = false,
        waiting: WaitOption? = nil, reportsWaiting: Bool = true, unlock: UnlockOptions? = nil
    ) async throws -> DocumentSession {
        let model = try modelPath.map(ModelSource.model)
        switch try DocumentPath.kind(of: path) {
        case .package:
            if access == .write {
                if !isInteractive { try checkHasNoDraft(path) }
                let document = SessionDocument(path: path)
                // Only explicit saves; see autosave(after:).
                document.autosavePolicy = .never
                document.keepsDrafts = isInteractive
                document.persistentStoreOptions.verifiesExternalData = true
                document.lockWait = waiting?.lockWait(for: path, isReported: reportsWaiting)
                try await document.open(model: model)
                let session = DocumentSession(
                    path: path, kind: .package, backing: .document(document),
                    coordinator: document.persistentStoreCoordinator,
                    isInteractive: isInteractive)
                // Who had it open may have left one.
                if !isInteractive, try document.package.hasDraft() {
                    session.closeKeepingDraft()
                    throw draftError(path)
                }
                return session
            }
            var options = SQLiteStoreOptions()
            options.infersModel = true
            options.verifiesExternalData = true
            options.postsRemoteChanges = access == .follow
            return DocumentSession(
                path: path, kind: .package,
                package: try DocumentPackage.open(
                    at: path, model: model, readOnly: true, options: options))
        case .store:
            let store = try StoreFile(at: path).open(
                model: model, isReadOnly: access != .write,
                lockWait: waiting?.fileLockWait(for: path, isReported: reportsWaiting),
                postsRemoteChanges: access == .follow, verifiesExternalData: true)
            let coordinator = PersistentStoreCoordinator(store: store)
            let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            if access == .write { context.undoManager = UndoManager() }
            return DocumentSession(
                path: path, kind: .store, backing: .store(store, context),
                coordinator: coordinator,
                isInteractive: isInteractive)
        case .archive:
            guard access == .read, let unlock else { throw DocumentPath.archiveError(path) }
            return DocumentSession(
                path: path, kind: .archive, package: try unlock.open(archive: path, model: model))
        }
    }

    /// Throws if a package has unsaved changes, which one command must not save along with its own.
    private static func checkHasNoDraft(_ path: String) throws {
        let package = try DocumentPackage.open(at: path, readOnly: true)
        defer { try? package.close() }
        if try package.hasDraft() { throw draftError(path) }
    }

    private static func draftError(_ path: String) -> QuireError {
        QuireError(
            .invalidState,
            "“\(path)” has changes that could not be saved; fix them with “quire open”, or discard them with “quire revert”.",
            file: path)
    }

    /// Closes it. Changes must have been saved, or a document saves them. What fails after that takes nothing back, and is
    /// only logged.
    func close() async throws {
        switch backing {
        case .document(let document): try await document.close()
        case .package(let package, _): package.closeSaved()
        case .store(let store, _): store.closeSaved()
        }
    }

    /// Closes it without saving, and without dropping what could not be saved.
    func closeKeepingDraft() {
        if let package { try? package.close() } else { try? store.close() }
    }

    /// Runs a body, and closes the document. What the body has not saved is dropped if it throws; the first failure is reported.
    func closing<Result>(_ body: @MainActor () async throws -> Result) async throws -> Result {
        let result: Result
        do {
            result = try await body()
        } catch {
            try? await closeDiscardingChanges()
            guard case .package(let package, _) = backing else { throw error }
            throw package.naming(path, in: error)
        }
        try await close()
        return result
    }

    /// Runs a body until it ends or a signal cancels it, and closes the document.
    func untilInterrupted(_ body: @MainActor @escaping () async throws -> Void) async throws {
        let task = Task { @MainActor in try await body() }
        Interruption.cancel(task)
        do {
            try await task.value
        } catch {
            // The first failure is reported.
            closeKeepingDraft()
            throw error
        }
        try await close()
    }

    /// A sentence about the loss if the process ends after a failed save; `nil` if it comes back, or was told of where
    /// it is not a document.
    var loss: String? {
        guard document?.draftError != nil else { return nil }
        let counts = status.changes.text
        return "Unsaved changes to “\(path)” are lost\(counts.isEmpty ? "" : ": \(counts)")."
    }

    /// Closes it without saving.
    func closeDiscardingChanges() async throws {
        guard let document else { return try await close() }
        try await document.close(discardingChanges: true)
    }

    // MARK: - Packages that go

    /// Calls a closure when another program has deleted the document, or put another one in its place. The document stays
    /// open until the session ends, so that it can be saved elsewhere.
    func whenPackageIsGone(_ body: @escaping @MainActor () -> Void) {
        document?.packageIsGone = body
    }

    /// - Throws: `QuireError` with code `notFound` if another program has deleted the document, which closes it.
    private func checkIsOpen() throws {
        if document?.isOpen ?? true { return }
        throw QuireError(
            .notFound, "“\(path)” was deleted by another program while it was open.", file: path)
    }

    // MARK: - Saving

    /// Saves the changes.
    func save() async throws {
        try checkIsOpen()
        context.transactionAuthor = Self.author
        if let document { try await document.save() } else { try context.save() }
    }

    /// Saves unsaved changes when a signal ends the process, instead of ending at once as other commands do.
    func saveOnTermination(signals: [Int32]) {
        ManagedDocument.saveOnTermination(signals: signals) {
            guard case .store(let store, let context) = self.backing else { return }
            do { try context.save() } catch { Output.report("\(error)") }
            store.closeSaved()
        }
    }

    /// A store that saves portions in one transaction; `nil` if changes are to stay unsaved, or
    /// the store is in memory as a whole.
    var storeToImportInto: SQLiteStore? {
        isInteractive || hasUnsavedChanges ? nil : store as? SQLiteStore
    }

    /// Counts what was saved to the store directly as a change, so that the document does what belongs to a save.
    func didSaveApart() {
        document?.updateChangeCount(.done)
    }

    /// Saves the document as another package.
    func saveAs(_ path: String, replacing: Bool, keepingDamage: Bool) async throws {
        guard let document else {
            throw QuireError(
                .unsupported,
                "“\(self.path)” is a bare store; copy it with “quire convert”.",
                file: self.path)
        }
        try checkIsOpen()
        // Also if files of a package that was deleted are missing there, which is an error.
        defer { if document.path == FileSystem.absolute(path) { self.path = path } }
        try await document.save(
            as: URL(fileURLWithPath: path), replacing: replacing, keepingDamage: keepingDamage)
    }

    /// Drops the changes since the last save.
    func revert() async throws {
        try checkIsOpen()
        if let document { return try await document.revert() }
        context.rollback()
        context.undoManager?.removeAllActions()
    }

    /// Lets the document save itself.
    func autosave(after seconds: Double) throws {
        guard let document else {
            throw QuireError(
                .unsupported, "“\(path)” is a bare store, which cannot be autosaved.", file: path)
        }
        document.autosavePolicy = AutosavePolicy(delay: .seconds(seconds))
    }

    /// Ends a user event: what was changed becomes one step of undo.
    func endUserEvent() { context.processPendingChanges() }

    /// Whether there is something to save.
    var hasUnsavedChanges: Bool {
        document?.hasUnsavedChanges ?? context.hasChanges
    }

    var canUndo: Bool { context.undoManager?.canUndo ?? false }
    var canRedo: Bool { context.undoManager?.canRedo ?? false }
    func undo() { context.undo() }
    func redo() { context.redo() }

    /// The status.
    var status: DocumentStatus {
        DocumentStatus(
            path: path,
            changes: ChangeCounts(
                inserted: context.insertedObjects.count, updated: context.updatedObjects.count,
                deleted: context.deletedObjects.filter(\.hasChanges).count),
            hasUnsavedChanges: hasUnsavedChanges, canUndo: canUndo, canRedo: canRedo)
    }

    // MARK: - Beside the objects

    /// The files of additional content.
    func additionalContentFiles() throws -> [(path: String, size: Int64)] {
        try package?.additionalContent() ?? []
    }

    /// The number and size of the files of external data.
    func externalData() throws -> (files: Int, bytes: Int64) {
        guard let path = (store as? SQLiteStore)?.storePath else { return (0, 0) }
        let folder = FileSystem.path(StorePath.supportFolder(of: path), StorePath.externalData)
        guard FileSystem.exists(folder) else { return (0, 0) }
        let files = try FileSystem.names(in: folder)
            .compactMap {
                try FileSystem.informationWithoutFollowing(at: FileSystem.path(folder, $0))
            }.filter { $0.kind == .regular }
        return (files.count, files.reduce(0) { $0 + $1.size })
    }

    /// The problems of the package beside its store.
    func packageProblems(progress: Progress? = nil) throws -> [DocumentProblem] {
        try package?.packageProblems(progress: progress) ?? []
    }

    /// A sentence about another process that has unsaved changes of the document, which is read without them; `nil` if there is
    /// none, or it does not answer at once.
    var unsavedChangesNote: String? {
        guard kind == .package, case .package = backing,
            DocumentPackage.ownerHasUnsavedChanges(at: path, timeout: .milliseconds(100)) == true,
            let owner = try? DocumentPackage.owner(at: path)
        else { return nil }
        return
            "“\(path)” is open for writing\(owner.phrase) with unsaved changes, which are not shown."
    }

    /// A sentence about where the names come from, if not from a model.
    var modelNote: String? { Self.modelNote(of: store, at: path) }

    /// As ``modelNote``, of a store.
    nonisolated static func modelNote(of store: any PersistentStore, at path: String) -> String? {
        switch store {
        case let store as SQLiteStore where store.hasInferredModel:
            "“\(path)” does not contain a matching model. Names come from its tables; other information is missing."
        case let store as AtomicStore where store.hasInferredModel:
            "“\(path)” does not contain a model. Names and types come from its objects; other information is missing."
        default: nil
        }
    }
}

extension PersistentStore {
    /// The number of objects.
    func objectCount() throws -> Int {
        try layout.entities.filter { $0.number == $0.rootNumber }
            .reduce(0) { try $0 + count(matching: FetchSpecification($1.name)) }
    }

    /// Closes a store after everything has been saved. What fails then takes nothing back, and is only logged.
    func closeSaved() {
        do { try close() } catch {
            Logger(label: "quire.command").warning(
                "Closing “\(path ?? identity.uuid)” failed: \(error)")
        }
    }
}

/// The document of a session.
final class SessionDocument: ManagedDocument {
    /// Called when its package was deleted; `nil` if the document is to be closed then.
    var packageIsGone: (@MainActor () -> Void)?

    /// When a signal ends the process, there is no other report of it.
    override func handleError(_ error: QuireError, userInteractionPermitted: Bool) {
        if !userInteractionPermitted && draftError != nil {
            Output.report(
                "Unsaved changes are lost. \(Failure(error, of: QuireCommand.self).sentence)")
        }
    }

    override func accommodatePresentedItemDeletion() async {
        guard let packageIsGone else { return }
        packageIsGone()
        // For as long as the session lasts.
        await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
    }
}

// MARK: - Status

/// The status of an open document.
struct DocumentStatus {
    var path: String
    var changes: ChangeCounts
    var hasUnsavedChanges: Bool
    var canUndo: Bool
    var canRedo: Bool

    var json: JSONValue {
        .object([
            "path": .string(path),
            "hasUnsavedChanges": .boolean(hasUnsavedChanges),
            "inserted": .integer(Int64(changes.inserted)),
            "updated": .integer(Int64(changes.updated)),
            "deleted": .integer(Int64(changes.deleted)),
            "canUndo": .boolean(canUndo),
            "canRedo": .boolean(canRedo),
        ])
    }

    var sentence: String {
        let counts = changes.text
        let unsaved =
            !hasUnsavedChanges
            ? "No unsaved changes" : counts.isEmpty ? "Unsaved changes" : "Unsaved: \(counts)"
        let steps = [(canUndo, "undo"), (canRedo, "redo")].filter(\.0).map(\.1)
        return unsaved + (steps.isEmpty ? "." : "; can \(steps.joined(separator: " and ")).")
    }
}
