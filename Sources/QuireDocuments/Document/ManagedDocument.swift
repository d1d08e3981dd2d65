public import Foundation
public import Quire

/// A document: a package with a graph of objects, which the user edits, undoes, and finds saved.
///
/// Objects are edited in ``managedObjectContext`` on the main actor, in memory. Saving pushes what changed to a parent
/// context, which writes it off the main queue; the user goes on editing meanwhile.
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
/// - A save that succeeded survives power loss. One that failed changed nothing on disk and loses nothing in memory: the
///   document stays unsaved, its state has ``DocumentState/savingError``, ``lastSaveError`` says why, and saving may be
///   tried again.
/// - Rows, external data and additional content of the package are always of one save.
/// - Requests are carried out in the order in which they are made, one at a time, and each is answered exactly once.
///   Saves that wait become one. What is changed while a save runs stays unsaved until the next.
/// - Closing saves unsaved changes; if that fails the document stays open. Only `close(discardingChanges: true)` drops
///   changes.
/// - One process at a time has a document open for writing. Opening it for reading only works beside that and leaves no
///   trace.
/// - A package that is moved or renamed while it is open is followed. One that is deleted closes the document; it is never
///   made again silently. Before, ``accommodatePresentedItemDeletion()`` may save it elsewhere.
/// - A save goes to what is at the package's path, or fails: if others have replaced or removed the package's files, the
///   document is in conflict, and both sides are kept; see ``resolveConflict(keeping:)``.
/// - Others may close the document at any time, by deleting its package. What is asked of it then throws, or gives nothing.
///
/// Subclassing
/// ===========
///
/// All methods that a subclass may override do nothing by themselves, unless they say so. In the order in which they are
/// called:
///
/// - Opening: ``configurePersistentStoreCoordinator(_:for:ofType:modelConfiguration:storeOptions:)`` and ``readAdditionalContent(from:)`` off the main queue, then
///   ``load(fromContents:)``.
/// - Saving: ``contents(forType:)``, which asks ``additionalContent(for:)``, before the snapshot is taken;
///   ``writeAdditionalContent(_:to:originalContentsURL:)`` off the main queue; ``didSave()`` when the save has succeeded.
/// - Failing: ``handleError(_:userInteractionPermitted:)``, before the requests are answered.
@MainActor
open class ManagedDocument {
    /// The path of the package folder. It changes when the document is saved as another package, and when the folder is moved.
    public internal(set) var path: String {
        didSet {
            presence?.move(to: path)
            machine.path = path
        }
    }
    /// When the document saves itself.
    public var autosavePolicy = AutosavePolicy() { didSet { autosavePolicyDidChange() } }
    /// The options of the store, from the next opening on. At first the store tracks its history, for 30 days and up to some
    /// 16 MiB, unless Core Data made it: then it has a history only if its app has begun one, which is left as it is.
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
    /// The migration when the document is opened with another model than it was made with; `nil` if opening it is to
    /// fail then. Set it before opening.
    public var migrationOptions: StoreMigrationOptions?
    /// The wait of opening while another owner has the document open for writing; `nil` to fail at once. Nothing else waits
    /// with it: no queue is blocked that other documents need.
    public var lockWait: LockWait?
    /// Whether what a save cannot save, because objects are invalid or in conflict, is kept as a draft; see
    /// ``draftStatus``.
    public var keepsDrafts = true
    /// Called after each change of ``documentState``. See also ``stateChanges`` and ``stateChangedNotification``.
    public var stateChangeHandler: ((DocumentStateChange) -> Void)?
    /// Why the last save failed, until one succeeds.
    public internal(set) var lastSaveError: QuireError?
    /// The progress of the request that is being carried out, if it may take long: opening with a migration, saving as another
    /// package, writing a copy, and reverting to another package. Cancelling it makes the request fail with code `cancelled`, and
    /// changes nothing.
    public internal(set) var progress: Progress?
    /// When the document was saved last, here or by others; `nil` while it is closed.
    public internal(set) var fileModificationDate: Date?

    var machine = StateMachine()
    var openDocument: OpenDocument? {
        didSet { if let openDocument { lastOpenDocument = openDocument } }
    }
    /// The open document of the last opening: others may close it between a check of ``isOpen`` and the next call.
    private var lastOpenDocument: OpenDocument?
    /// The document's presence for other processes and presenters while it is open.
    var presence: DocumentPresence?
    /// Whether it was saved since its library metadata were written, and when that was.
    var needsLibraryMetadata = false
    var libraryMetadataDate: Date?
    let stateBroadcast = Broadcast<DocumentStateChange>()
    /// The effects that are yet to be carried out.
    var effects: [StateMachine.Effect] = []
    var isCarryingOut = false
    var operationError: QuireError?
    var autosaveSchedule = AutosaveSchedule()
    lazy var autosaveTimer = AutosaveTimer { [weak self] in self?.autosaveTimerFired() }
    /// Whether the process is about to end.
    var isTerminating = false
    /// Whether the document is being closed, and does not care about its package any more.
    var isClosing = false
    var packageWatch: PackageWatch?
    /// Shows what others have put into the package's place; see ``adoptReplacedPackage()``.
    var adoption: Task<Void, Never>?

    /// Creates a document for a package, which need not exist yet. Nothing is read before it is opened.
    public required init(fileURL: URL) {
        // Opening reports the whole URL where it is not that of a file.
        path = FileSystem.absolute(fileURL.isFileURL ? fileURL.path : fileURL.absoluteString)
        machine.path = path
    }

    // File coordinators retain what presents an open document until it ends.
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
    /// Whether there is anything that the last save did not save. Undoing back to what was saved makes it false.
    public var hasUnsavedChanges: Bool { openDocument?.hasUnsavedChanges ?? false }
    /// The name to show: that of the package without its extension.
    public var localizedName: String {
        (FileSystem.name(of: path) as NSString).deletingPathExtension
    }
    /// The type of the document: the extension of its package.
    open var fileType: String { (path as NSString).pathExtension }

    /// The class of protection: what an open document has, and otherwise what a new one gets, `nil` for that of
    /// ``protectionDomain``, or none if there is no domain.
    ///
    /// A document that is there keeps its class, which
    /// ``DocumentPackage/setFileProtection(_:ofDocumentAt:domain:waiting:)`` changes. To open it with another one fails, with
    /// code `protectionUnavailable`, unless that is `none`.
    public var fileProtection: FileProtection? {
        get {
            guard let store = openDocument?.package.store else {
                return persistentStoreOptions.fileProtection
            }
            return store.protection?.fileProtection ?? FileProtection.none
        }
        set { persistentStoreOptions.fileProtection = newValue }
    }
    /// The domain whose keys protect the document: its own while it is open, and otherwise the one that a new document
    /// belongs to, `nil` for ``ProtectionDomain/default``.
    public var protectionDomain: ProtectionDomain? {
        get {
            openDocument?.package.store.protection?.domain
                ?? persistentStoreOptions.protectionDomain
        }
        set { persistentStoreOptions.protectionDomain = newValue }
    }

    /// The context to edit the document's objects in. It belongs to the main queue; its parent, which saves to the store,
    /// to a queue of its own. Swift's Observation follows its objects; see ``ManagedObjectContext/isObservable``.
    ///
    /// Once the document is closed, here or by others, it is the context that it had: it has no objects, and fetching,
    /// inserting and saving throw.
    ///
    /// - Precondition: The document has been open.
    public var managedObjectContext: ManagedObjectContext { requireOpen().context }

    /// The coordinator of the document's store. Once the document is closed, what is asked of it throws.
    ///
    /// - Precondition: The document has been open.
    public var persistentStoreCoordinator: PersistentStoreCoordinator { requireOpen().coordinator }

    /// The package on disk. It is another object after the document was saved as another package, or moved. Once the document
    /// is closed, what is asked of it throws.
    ///
    /// - Precondition: The document has been open.
    public var package: DocumentPackage { requireOpen().package }

    /// Takes back changes of the context's objects. `nil` for no undo, and while the document is closed; then it cannot be
    /// set.
    public var undoManager: UndoManager? {
        get { openDocument?.context.undoManager }
        set { openDocument?.contexts.observe(newValue) }
    }

    /// The files of the document beside its objects. While it is closed there are none, and reading and changing them throws
    /// an error with code `invalidState`.
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

    /// The model of documents of this class, for creating them, and for opening them without a model given; `nil`, as it
    /// is by itself, for the one that a package carries. A new package then gets all models of the program's bundle, as by
    /// ``ManagedObjectModel/mergedModel(from:)``.
    open var managedObjectModel: ManagedObjectModel? { nil }

    /// Called off the main queue when the document is opened and its own store is there: the place to add other stores, of
    /// things that need not be saved together with the document.
    ///
    /// An error makes the opening fail.
    ///
    /// - Parameters:
    ///   - coordinator: The document's coordinator.
    ///   - storeURL: The file of the document's own store.
    ///   - fileType: ``fileType``.
    ///   - configuration: The configuration of the model that the store has; `nil` for all entities.
    ///   - storeOptions: ``persistentStoreOptions``.
    open nonisolated func configurePersistentStoreCoordinator(
        _ coordinator: PersistentStoreCoordinator, for storeURL: URL, ofType fileType: String,
        modelConfiguration configuration: String?, storeOptions: SQLiteStoreOptions
    ) throws {}

    /// Called off the main queue when the document is opened or reverted, if it has additional content.
    ///
    /// In a protected document it is called if ``writeAdditionalContent(_:to:originalContentsURL:)`` has written the files, and finds
    /// them in clear, in a folder in memory that only this user can read, and that is removed when it returns.
    ///
    /// - Parameter absoluteURL: The folder of the files, which must not be changed.
    /// - Returns: What ``load(fromContents:)`` is to be given.
    /// - Throws: An error makes the opening, or the reverting, fail.
    open nonisolated func readAdditionalContent(from absoluteURL: URL) throws -> (any Sendable)? {
        nil
    }

    /// Called on the main actor when the document has been opened or reverted.
    ///
    /// An error makes the opening fail.
    ///
    /// - Parameter contents: What ``readAdditionalContent(from:)`` gave.
    open func load(fromContents contents: (any Sendable)?) throws {}

    // MARK: - For subclasses: saving

    /// Called on the main actor before each save takes its snapshot; the place to change objects, or ``additionalContent``,
    /// a last time. By itself it gives what ``additionalContent(for:)`` gives.
    ///
    /// An error makes the save fail.
    ///
    /// - Parameter type: ``fileType``.
    /// - Returns: What ``writeAdditionalContent(_:to:originalContentsURL:)`` is to be given; `nil` if it is not to be called.
    open func contents(forType type: String) throws -> (any Sendable)? {
        try additionalContent(for: fileURL)
    }

    /// Called on the main actor before each save, by ``contents(forType:)``, to take a snapshot of what the document has
    /// beside its objects, if a subclass writes that itself. By itself it gives `nil`.
    ///
    /// - Parameter absoluteURL: The package.
    open func additionalContent(for absoluteURL: URL) throws -> (any Sendable)? { nil }

    /// Called off the main queue to write what ``additionalContent(for:)`` gave, as files in a folder that is empty. What
    /// is there afterwards is the document's additional content, together with what was changed through
    /// ``additionalContent``.
    ///
    /// Files that are as they were may be hard links to those in `absoluteOriginalContentsURL`. The folder becomes the document's
    /// with the commit of its objects, or not at all; all of it is synchronized before.
    ///
    /// In a protected document both folders are in memory, where only this user can read them, and what is written is sealed when it
    /// returns; that takes memory for all files, and time for those that are not such links. Without a file system in memory
    /// (`XDG_RUNTIME_DIR` or `/dev/shm`) saving fails with code `unsupported`. Files that were there before this class has ever
    /// written any are not replaced: saving fails with code `protectionUnavailable`.
    ///
    /// - Parameters:
    ///   - content: The snapshot.
    ///   - absoluteURL: The folder to write to.
    ///   - absoluteOriginalContentsURL: The folder of the last save, which must not be changed; `nil` if there is none.
    open nonisolated func writeAdditionalContent(
        _ content: any Sendable, to absoluteURL: URL,
        originalContentsURL absoluteOriginalContentsURL: URL?
    ) throws {}

    /// Called on the main actor when a save has succeeded.
    open func didSave() {}

    /// Called on the main actor to ask what a ``DocumentLibrary`` is to show of the document, after it was saved: at most
    /// every minute, and when it is closed. What is left out is filled in: the dates, and the counts of all entities.
    ///
    /// By itself it gives nothing.
    open func libraryMetadata() -> LibraryMetadata { LibraryMetadata() }

    // MARK: - For subclasses: what happens to the document

    /// Called on the main actor when opening, saving, reverting or closing has failed, before the requests are answered. By
    /// itself it does nothing: ``lastSaveError``, the state and the answers say the same.
    ///
    /// - Parameter userInteractionPermitted: Whether the user may be asked anything; not if the process is about to end.
    open func handleError(_ error: QuireError, userInteractionPermitted: Bool) {}

    /// Called on the main actor when the document may not be edited any more for now: it is being reverted or closed.
    open func disableEditing() {}

    /// Called on the main actor when the document may be edited again.
    open func enableEditing() {}

    /// Called on the main actor when the package has been moved or renamed by another program; ``fileURL`` is the new one.
    open func presentedItemDidMove(to newURL: URL) {}

    /// Called on the main actor when the package has been deleted by another program, or another document is in its place,
    /// before the document is closed. What is in memory, and in the store's files, which are still open, can be read, and what
    /// is unsaved is lost afterwards, unless this method saves the document elsewhere:
    ///
    /// ```swift
    /// override func accommodatePresentedItemDeletion() async {
    ///     if hasUnsavedChanges { try? await save(as: rescueURL) }      // Throws too if files are missing there.
    /// }
    /// ```
    ///
    /// A document that was saved as another package stays open, as that. Files of additional content and of external data that
    /// had been saved went with the package, and are missing there; the error that saving throws then names them.
    open func accommodatePresentedItemDeletion() async {}

    /// Called on the main actor when synchronization has changed files of ``additionalContent``: those of other machines have arrived.
    /// A class that writes the files to a folder by itself has been given them by ``load(fromContents:)`` before; as long as such a
    /// document has unsaved changes, nothing is changed.
    open func additionalContentDidChange() {}

    /// Called on the main actor when others have put another state of the document into its place, and the document
    /// shows that now: with new contexts. If anything was unsaved it is so still, and the document is in conflict; see
    /// ``resolveConflict(keeping:)``.
    open func presentedItemDidChange() {}
}
