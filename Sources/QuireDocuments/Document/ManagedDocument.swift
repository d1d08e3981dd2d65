public import Foundation
public import Quire

/// A document: a package with an object graph, with undo and autosaving.
///
/// Objects are edited in ``managedObjectContext`` on the main actor, in memory. Saving pushes the changes to a parent
/// context, which writes them off the main queue while the user continues to edit.
///
/// ```swift
/// let document = ManagedDocument(path: "Library.quire")
/// try await document.open()
/// let book = try document.managedObjectContext.insertObject(entityName: "Book")
/// book["title"] = "Emma"
/// try document.additionalContent.write(cover, at: "covers/emma.png")
/// try await document.close()          // Saves: rows and files of additional content together, or neither.
/// ```
///
/// Guarantees
/// ==========
///
/// - A successful save survives power loss. A failed save changes nothing on disk and loses nothing in memory: the document
///   stays unsaved, its state contains ``DocumentState/savingError``, ``lastSaveError`` has the reason, and saving can be
///   tried again.
/// - Rows, external data and additional content of the package always belong to the same save.
/// - Requests are executed in the order in which they are made, one at a time, and each is answered exactly once. Waiting
///   saves are combined. Changes made while a save runs stay unsaved until the next.
/// - Closing saves unsaved changes; if that fails the document stays open. Only `close(discardingChanges: true)` drops
///   changes.
/// - One process at a time can open a document for writing. Others can open it for reading only meanwhile, which leaves no
///   trace.
/// - A package that is moved or renamed while it is open is followed. If it is deleted the document closes, and does not create
///   it again. Before that, ``accommodatePresentedItemDeletion()`` can save it elsewhere.
/// - A save is written to the package at the path, or fails: if another program has replaced or removed the package's files,
///   the document is in conflict, and both sides are kept; see ``resolveConflict(keeping:)``.
/// - Another program can close the document at any time by deleting its package. Methods then throw, and properties are empty.
///
/// Subclassing
/// ===========
///
/// The default implementations of the methods for subclasses do nothing, unless documented otherwise. In the order in which
/// they are called:
///
/// - Opening: ``configurePersistentStoreCoordinator(_:for:ofType:modelConfiguration:storeOptions:)`` and ``readAdditionalContent(from:)`` off the main queue, then
///   ``load(fromContents:)``.
/// - Saving: ``contents(forType:)``, which calls ``additionalContent(for:)``, before the snapshot is taken;
///   ``writeAdditionalContent(_:to:originalContentsURL:)`` off the main queue; ``didSave()`` when the save has succeeded.
/// - Failing: ``handleError(_:userInteractionPermitted:)``, before the requests are answered.
@MainActor
open class ManagedDocument {
    /// The path of the package folder. It changes when the document is saved as another package, and when the folder is moved.
    public internal(set) var path: String {
        didSet {
            presence?.move(to: path)
            machine.path = FileSystem.resolved(path)
        }
    }
    /// When the document saves itself.
    public var autosavePolicy = AutosavePolicy() { didSet { autosavePolicyDidChange() } }
    /// The options of the store, from the next opening on. By default the store tracks its history, for 30 days and up to about
    /// 16 MiB. A store created by Core Data has a history only if its app has enabled it; that setting is not changed.
    public var persistentStoreOptions = {
        var options = SQLiteStoreOptions()
        options.tracksHistory = true
        options.maximumHistoryAge = .seconds(30 * 86_400)
        options.maximumHistorySize = 16 << 20
        options.leavesForeignHistory = true
        return options
    }()
    /// When the document keeps versions of itself; see ``keepVersion(named:keepingDamage:progress:)``.
    public var versionPolicy = VersionPolicy.onDemand
    /// The migration if the document is opened with another model than it was created with; `nil` to fail in that case. Set it
    /// before opening.
    public var migrationOptions: StoreMigrationOptions?
    /// How opening waits while another owner has the document open for writing; `nil` to fail immediately. Waiting does not
    /// block other documents.
    public var lockWait: LockWait?
    /// Whether changes that cannot be saved, because objects are invalid or in conflict, are kept as a draft; see
    /// ``draftStatus``.
    public var keepsDrafts = true
    /// Called after each change of ``documentState``. See also ``stateChanges`` and ``stateChangedNotification``.
    public var stateChangeHandler: ((DocumentStateChange) -> Void)?
    /// Why the last save failed, until one succeeds.
    public internal(set) var lastSaveError: QuireError?
    /// The progress of the running request, if it may take long: opening with a migration, saving as another package, writing a
    /// copy, and reverting to another package. Cancelling it makes the request fail with code `cancelled`, and changes nothing.
    public internal(set) var progress: Progress?
    /// When the document was last saved, by this or another process; `nil` while it is closed.
    public internal(set) var fileModificationDate: Date?

    var machine = StateMachine()
    var openDocument: OpenDocument? {
        didSet {
            guard let openDocument else { return }
            lastOpenDocument = openDocument
            machine.path = FileSystem.resolved(path)
        }
    }
    /// The open document of the last opening, because it may be closed between a check of ``isOpen`` and the next call.
    private var lastOpenDocument: OpenDocument?
    /// The document's presence for other processes and presenters while it is open.
    var presence: DocumentPresence?
    /// Whether it was saved since its library metadata was written, and when that was.
    var needsLibraryMetadata = false
    var libraryMetadataDate: Date?
    let stateBroadcast = Broadcast<DocumentStateChange>()
    /// Whether ``disableEditing()`` was called last. It stays so while the document is closed.
    var isEditingDisabled = false
    /// The pending effects.
    var effects: [StateMachine.Effect] = []
    var isCarryingOut = false
    var operationError: QuireError?
    var autosaveSchedule = AutosaveSchedule()
    lazy var autosaveTimer = AutosaveTimer { [weak self] in self?.autosaveTimerFired() }
    /// Whether the process is about to end.
    var isTerminating = false
    /// Whether the document is being closed, so that changes of its package no longer matter.
    var isClosing = false
    var packageWatch: PackageWatch?
    /// Shows the replacement of the package; see ``adoptReplacedPackage()``.
    var adoption: Task<Void, Never>?

    /// Creates a document for a package, which need not exist yet. Nothing is read before it is opened.
    public required init(fileURL: URL) {
        // If it is not a file URL, opening reports all of it.
        path = FileSystem.absolute(fileURL.isFileURL ? fileURL.path : fileURL.absoluteString)
    }

    // File coordinators retain the presenter of an open document until it is removed.
    deinit { presence?.end() }

    /// Creates a document for the package at a path.
    public convenience init(path: String) { self.init(fileURL: URL(fileURLWithPath: path)) }

    // MARK: - State

    /// The URL of the package folder: ``path`` as a file URL.
    public var fileURL: URL { URL(fileURLWithPath: path, isDirectory: true) }
    /// The document's state.
    public var documentState: DocumentState { machine.state }
    /// Whether the document is open.
    public var isOpen: Bool { machine.isOpen && openDocument != nil }
    /// Whether it is open for reading only.
    public var isReadOnly: Bool { openDocument?.package.isReadOnly ?? false }
    /// Whether the document differs from the last save. It is false again after undoing all changes since then.
    public var hasUnsavedChanges: Bool { openDocument?.hasUnsavedChanges ?? false }
    /// The name to show: that of the package without its extension.
    public var localizedName: String {
        (FileSystem.name(of: path) as NSString).deletingPathExtension
    }
    /// The type of the document: the extension of its package.
    open var fileType: String { (path as NSString).pathExtension }

    /// The protection class of an open document, or the class for a new one; `nil` for that of ``protectionDomain``, or none if
    /// no domain is set.
    ///
    /// An existing document keeps its class; ``DocumentPackage/setFileProtection(_:ofDocumentAt:domain:waiting:)`` changes it.
    /// Opening it with another class fails with code `protectionUnavailable`, unless that is `none`.
    public var fileProtection: FileProtection? {
        get {
            guard let store = openDocument?.package.store else {
                return persistentStoreOptions.fileProtection
            }
            return store.protection?.fileProtection ?? FileProtection.none
        }
        set { persistentStoreOptions.fileProtection = newValue }
    }
    /// The domain whose keys protect the document: that of the document while it is open, otherwise the one for a new document;
    /// `nil` for ``ProtectionDomain/default``.
    public var protectionDomain: ProtectionDomain? {
        get {
            openDocument?.package.store.protection?.domain
                ?? persistentStoreOptions.protectionDomain
        }
        set { persistentStoreOptions.protectionDomain = newValue }
    }

    /// The context in which the document's objects are edited. It belongs to the main queue; its parent, which saves to the
    /// store, has a private queue. Its objects are observable; see ``ManagedObjectContext/isObservable``.
    ///
    /// After the document has been closed, it remains the last context: it has no objects, and fetching, inserting and saving
    /// throw.
    ///
    /// - Precondition: The document has been open.
    public var managedObjectContext: ManagedObjectContext { requireOpen().context }

    /// The coordinator of the document's store. After the document has been closed, its methods throw.
    ///
    /// - Precondition: The document has been open.
    public var persistentStoreCoordinator: PersistentStoreCoordinator { requireOpen().coordinator }

    /// The package on disk. It is replaced when the document is saved as another package, or moved. After the document has been
    /// closed, its methods throw.
    ///
    /// - Precondition: The document has been open.
    public var package: DocumentPackage { requireOpen().package }

    /// The undo manager of the context. `nil` for no undo, and while the document is closed, when it cannot be set.
    public var undoManager: UndoManager? {
        get { openDocument?.context.undoManager }
        set { openDocument?.contexts.observe(newValue) }
    }

    /// The document's additional files. While it is closed there are none, and reading and changing them throws an error with code
    /// `invalidState`.
    public var additionalContent: AdditionalContent { AdditionalContent(document: self) }

    func requireOpen() -> OpenDocument {
        guard let open = openDocument ?? lastOpenDocument else {
            preconditionFailure("“\(path)” is not open; open the document first.")
        }
        return open
    }

    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open.
    func opened() throws -> OpenDocument {
        guard let openDocument else { throw notOpenError }
        return openDocument
    }

    // MARK: - For subclasses: opening

    /// The model of documents of this class, for creating them, and for opening them without an explicit model. `nil`, the
    /// default, for the model stored in the package; a new package then gets all models of the program's bundle, merged by
    /// ``ManagedObjectModel/mergedModel(from:)``.
    open var managedObjectModel: ManagedObjectModel? { nil }

    /// Called off the main queue when the document is opened, after its own store has been added. Override it to add stores of
    /// objects that need not be saved together with the document.
    ///
    /// An error makes opening fail.
    ///
    /// - Parameters:
    ///   - coordinator: The document's coordinator.
    ///   - storeURL: The file of the document's own store.
    ///   - fileType: ``fileType``.
    ///   - configuration: The store's configuration of the model; `nil` for all entities.
    ///   - storeOptions: ``persistentStoreOptions``.
    open nonisolated func configurePersistentStoreCoordinator(
        _ coordinator: PersistentStoreCoordinator, for storeURL: URL, ofType fileType: String,
        modelConfiguration configuration: String?, storeOptions: SQLiteStoreOptions
    ) throws {}

    /// Called off the main queue when the document is opened or reverted, if it has additional content.
    ///
    /// In a protected document it is called if ``writeAdditionalContent(_:to:originalContentsURL:)`` has written the files. They are
    /// then decrypted in a folder in memory, which only this user can read and which is removed when the method returns.
    ///
    /// - Parameter absoluteURL: The folder of the files, which must not be changed.
    /// - Returns: The value to pass to ``load(fromContents:)``.
    /// - Throws: An error makes opening or reverting fail.
    open nonisolated func readAdditionalContent(from absoluteURL: URL) throws -> (any Sendable)? {
        nil
    }

    /// Called on the main actor when the document has been opened or reverted.
    ///
    /// An error makes opening fail.
    ///
    /// - Parameter contents: The result of ``readAdditionalContent(from:)``.
    open func load(fromContents contents: (any Sendable)?) throws {}

    // MARK: - For subclasses: saving

    /// Called on the main actor before each save takes its snapshot. Override it to make last changes to objects or
    /// ``additionalContent``. By default it returns the result of ``additionalContent(for:)``.
    ///
    /// An error makes the save fail.
    ///
    /// - Parameter type: ``fileType``.
    /// - Returns: The value to pass to ``writeAdditionalContent(_:to:originalContentsURL:)``; `nil` not to call it.
    open func contents(forType type: String) throws -> (any Sendable)? {
        try additionalContent(for: fileURL)
    }

    /// Called on the main actor before each save, by ``contents(forType:)``, to take a snapshot of the content that a subclass
    /// writes itself. By default it returns `nil`.
    ///
    /// - Parameter absoluteURL: The package.
    open func additionalContent(for absoluteURL: URL) throws -> (any Sendable)? { nil }

    /// Called off the main queue to write the result of ``additionalContent(for:)`` as files to an empty folder. Its files, with the
    /// changes made through ``additionalContent``, become the document's additional content.
    ///
    /// Unchanged files may be hard links to those in `absoluteOriginalContentsURL`. The folder is synchronized, and becomes part of the
    /// document with the commit of its objects, or not at all.
    ///
    /// In a protected document both folders are in memory, where only this user can read them, and the new files are encrypted
    /// when the method returns; this needs memory for all files, and time for those that are not such links. Without an in-memory
    /// file system (`XDG_RUNTIME_DIR` or `/dev/shm`) saving fails with code `unsupported`. Existing files that were not written
    /// by this class are not replaced: saving fails with code `protectionUnavailable`.
    ///
    /// - Parameters:
    ///   - content: The snapshot.
    ///   - absoluteURL: The folder to write to.
    ///   - absoluteOriginalContentsURL: The folder of the last save, which must not be changed; `nil` before the first save.
    open nonisolated func writeAdditionalContent(
        _ content: any Sendable, to absoluteURL: URL,
        originalContentsURL absoluteOriginalContentsURL: URL?
    ) throws {}

    /// Called on the main actor when a save has succeeded.
    open func didSave() {}

    /// Called on the main actor after a save, at most once a minute, and when the document is closed: the metadata that a
    /// ``DocumentLibrary`` shows. Dates and object counts are added if they are missing.
    ///
    /// By default it returns empty metadata.
    open func libraryMetadata() -> LibraryMetadata { LibraryMetadata() }

    // MARK: - For subclasses: what happens to the document

    /// Called on the main actor when opening, saving, reverting or closing has failed, before the requests are answered. By default
    /// it does nothing: ``lastSaveError``, the state and the answers contain the error too.
    ///
    /// - Parameter userInteractionPermitted: Whether the user may be asked; `false` if the process is about to end.
    open func handleError(_ error: QuireError, userInteractionPermitted: Bool) {}

    /// Called on the main actor when the document cannot be edited for now, because it is being reverted or closed.
    open func disableEditing() {}

    /// Called on the main actor when the document can be edited again, also when it is opened again after it was closed.
    open func enableEditing() {}

    /// Called on the main actor when the package has been moved or renamed by another program; ``fileURL`` is the new one.
    open func presentedItemDidMove(to newURL: URL) {}

    /// Called on the main actor when another program has deleted the package, or replaced it with another document, before the
    /// document is closed. Objects in memory and in the store, which is still open, can be read. Unsaved changes are lost
    /// afterwards, unless this method saves the document elsewhere:
    ///
    /// ```swift
    /// override func accommodatePresentedItemDeletion() async {
    ///     if hasUnsavedChanges { try? await save(as: rescueURL) }      // Throws too if files are missing there.
    /// }
    /// ```
    ///
    /// A document that was saved as another package stays open with that package. Saved files of additional content and external
    /// data were deleted with the old package, and are missing; the error thrown by saving lists them.
    open func accommodatePresentedItemDeletion() async {}

    /// Called on the main actor when synchronization has changed files of ``additionalContent`` with those of other machines. A class
    /// that writes the files itself has loaded them in ``load(fromContents:)`` before; while such a document has unsaved changes,
    /// synchronization changes nothing.
    open func additionalContentDidChange() {}

    /// Called on the main actor when another program has replaced the package with another state of the document, which is now
    /// shown with new contexts. Unsaved changes are still unsaved, and put the document in conflict; see
    /// ``resolveConflict(keeping:)``.
    open func presentedItemDidChange() {}
}
