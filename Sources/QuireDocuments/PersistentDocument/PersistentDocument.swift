public import Foundation
public import Quire
internal import QuireAtomicStores

/// A document that is one file: a store, or a file in a custom format.
///
/// Objects are edited in ``managedObjectContext`` on the main actor. Saving writes them to ``fileURL`` off the main queue, while
/// the user continues to edit. ``ManagedDocument`` is for documents that are packages, with additional files, versions, drafts, and
/// one owner at a time.
///
/// ```swift
/// let document = PersistentDocument(fileURL: URL(fileURLWithPath: "Library.sqlite"))
/// try await document.open()
/// let book = try document.managedObjectContext.insertObject(entityName: "Book")
/// book["title"] = "Emma"
/// try await document.close()          // Saves.
/// ```
///
/// A new document needs no file until the user gives it a name:
///
/// ```swift
/// let document = try PersistentDocument(model: model)
/// try document.managedObjectContext.insertObject(entityName: "Book")["title"] = "Emma"
/// try await document.save(as: URL(fileURLWithPath: "Library.sqlite"))
/// ```
///
/// The extension of the file determines its format: ``persistentStoreType(forFileType:)`` returns SQLite, XML or binary. A subclass
/// reads and writes the objects of other files itself:
///
/// ```swift
/// final class Contacts: PersistentDocument {
///     override var managedObjectModel: ManagedObjectModel? { contactsModel }
///     override nonisolated func readObjects(
///         from url: URL, type: String, into context: ManagedObjectContext
///     ) throws {
///         for card in try JSONDecoder().decode([Card].self, from: Data(contentsOf: url)) {
///             try context.insertObject(entityName: "Person")["name"] = card.name
///         }
///     }
///     override nonisolated func writeObjects(
///         of context: ManagedObjectContext, to url: URL, type: String
///     ) throws {
///         let people = try context.fetch(FetchRequest("Person"))
///         try JSONEncoder().encode(people.map(Card.init)).write(to: url)
///     }
/// }
/// ```
///
/// Guarantees
/// ==========
///
/// - A successful save survives power loss. A failed save leaves the file unchanged and the changes unsaved.
/// - SQLite files are changed in place, in one transaction. All other files are replaced as a whole, atomically and durably, with
///   the same permissions; a symbolic link is kept.
/// - A file that another program has changed or replaced since it was read is not overwritten: saving throws an error with code
///   `storeReplaced`. Save the document as another file, or revert it. If another program has saved to a SQLite file, only objects
///   changed on both sides are in conflict, and the context's merge policy decides.
/// - Requests are executed in the order in which they are made, one at a time. Changes made while a save runs stay unsaved until
///   the next.
/// - Saves of a background context of ``newBackgroundContext()`` are unsaved changes of the document.
/// - Closing saves unsaved changes; if that fails the document stays open.
///
/// Not guaranteed: other processes can open the same file for writing. SQLite serializes saves of several processes to one file; for
/// other files the first process to save wins, and the saves of the others fail. A file that is moved while it is open is not
/// followed: saving fails. Files in a custom format are not encrypted, even if they are saved from a protected document; see
/// ``fileProtection``.
///
/// ``ManagedDocument/saveOnTermination(signals:)`` saves these documents too when the process is asked to end.
@MainActor
open class PersistentDocument {
    /// The file; `nil` for a document that has no file yet. It changes when the document is saved as another file.
    public internal(set) var fileURL: URL?
    /// When the document saves itself.
    public var autosavePolicy = AutosavePolicy() {
        didSet {
            autosaveTimer.cancel()
            scheduleAutosave()
        }
    }
    /// The migration if the document is opened with another model than it was created with; `nil` to fail in that case. It does not
    /// apply to files in a custom format.
    public var migrationOptions: StoreMigrationOptions?
    /// The options of the file's store: all of them for a SQLite file, the configuration and the protection for an XML or binary file.
    /// They are used when the document is created or opened. ``open(model:readOnly:)`` has its own argument for reading only.
    public var persistentStoreOptions = SQLiteStoreOptions()
    /// Called after each change of ``documentState``. See also ``stateChanges`` and ``stateChangedNotification``.
    public var stateChangeHandler: ((DocumentStateChange) -> Void)?
    /// Why the last save failed, until one succeeds.
    public internal(set) var lastSaveError: QuireError?
    /// The progress of the running request, if it may take long: opening with a migration, saving as another file, exporting.
    /// Cancelling it makes the request fail with code `cancelled`, and changes nothing.
    public internal(set) var progress: Progress?
    /// Whether the document was opened for reading only. It can be saved as another file, after which it is writable.
    public internal(set) var isReadOnly = false

    var contexts: DocumentContexts? { didSet { if let contexts { lastContexts = contexts } } }
    /// The contexts of the last opening, which ``managedObjectContext`` returns after the document was closed.
    private var lastContexts: DocumentContexts?
    /// The model that the document was opened with.
    var model: ManagedObjectModel?
    var autosaveSchedule = AutosaveSchedule()
    lazy var autosaveTimer = AutosaveTimer { [weak self] in self?.autosaveTimerFired() }
    /// Whether an operation is running, and the requests waiting for it.
    var isBusy = false
    var waiting: [Turn] = []
    let stateBroadcast = Broadcast<DocumentStateChange>()
    /// The part of the state that the running request determines.
    var activity: DocumentState = [] { didSet { stateDidChange() } }
    /// The error of the running request, or of the last one.
    var requestError: QuireError?
    /// The last reported state.
    var reportedState: DocumentState = .closed

    /// Creates a document for a file, which need not exist yet. Nothing is read before it is opened.
    public required init(fileURL: URL) { self.fileURL = fileURL }

    /// Creates a document without a file, and opens it. Its objects are in memory until ``save(as:progress:)`` creates the file; then
    /// ``managedObjectContext`` is a new one, and objects that are still referenced belong to no context.
    ///
    /// It is not autosaved. Until it has a file, saving it, and closing it with unsaved changes, fails with code `invalidState`.
    ///
    /// - Parameter model: The model of the objects; `nil` for ``managedObjectModel``, or the models of the program's bundle.
    /// - Throws: ``QuireError`` with code `invalidModel` if the model is not valid or none is found.
    public convenience init(model: ManagedObjectModel? = nil) throws {
        self.init(fileURL: URL(fileURLWithPath: Self.untitled))
        fileURL = nil
        let store = try InMemoryStore(model: requireModel(model))
        install(PersistentStoreCoordinator(store: store), readOnly: false)
        reportedState = documentState
    }

    /// The name of a document without a file.
    static let untitled = "Untitled"

    // MARK: - State

    /// The document's state. It is in conflict after a save has failed because another program has changed or replaced the file,
    /// until it is saved as another file, reverted or closed.
    public var documentState: DocumentState {
        var state = activity
        if !isOpen { state.insert(.closed) }
        if let lastSaveError {
            state.insert(.savingError)
            if lastSaveError.code == .storeReplaced { state.insert(.inConflict) }
        }
        return state
    }
    /// Whether the document is open.
    public var isOpen: Bool { contexts != nil }
    /// Whether the document differs from the last save. It is false again after undoing all changes since then.
    public var hasUnsavedChanges: Bool { contexts?.hasUnsavedChanges ?? false }
    /// The name to show: that of the file without its extension.
    public var localizedName: String {
        fileURL?.deletingPathExtension().lastPathComponent ?? Self.untitled
    }
    /// The type of the document: the extension of its file; empty without one.
    open var fileType: String { fileURL?.pathExtension ?? "" }

    /// The protection class of an open document, or the class for a new one; `nil` for that of ``protectionDomain``, or none if
    /// no domain is set.
    ///
    /// An existing file keeps its class; `StoreFile.setFileProtection(_:domain:)` changes it while the document is closed. Opening a file
    /// with another class fails with code `protectionUnavailable`, unless that is `none`; so does creating a file in a custom format,
    /// which cannot be protected.
    public var fileProtection: FileProtection? {
        get {
            guard let store = contexts?.store else { return persistentStoreOptions.fileProtection }
            return store.storeProtection?.fileProtection ?? FileProtection.none
        }
        set { persistentStoreOptions.fileProtection = newValue }
    }
    /// The domain whose keys protect the document: that of the document while it is open, otherwise the one for a new document;
    /// `nil` for ``ProtectionDomain/default``.
    public var protectionDomain: ProtectionDomain? {
        get { contexts?.store.storeProtection?.domain ?? persistentStoreOptions.protectionDomain }
        set { persistentStoreOptions.protectionDomain = newValue }
    }

    /// The context in which the document's objects are edited. It belongs to the main queue. Its objects are observable; see
    /// ``ManagedObjectContext/isObservable``. Its merge policy applies to saves to the file.
    ///
    /// Saving the context itself writes nothing to the file; use ``save()``. The document gets a new context when it is saved as a
    /// file of another format, reverted to a file that another program has changed, or opened again. After the document has been
    /// closed the context has no objects, and fetching, inserting and saving throw.
    ///
    /// - Precondition: The document has been open.
    public var managedObjectContext: ManagedObjectContext {
        guard let contexts = contexts ?? lastContexts else {
            preconditionFailure("“\(path)” is not open; open the document first.")
        }
        return contexts.context
    }

    /// The undo manager of the context. `nil` for no undo, and while the document is closed, when it cannot be set.
    public var undoManager: UndoManager? {
        get { contexts?.context.undoManager }
        set { contexts?.observe(newValue) }
    }

    /// The coordinator of the document's store. It is replaced whenever ``managedObjectContext`` is.
    ///
    /// - Precondition: The document has been open.
    public var persistentStoreCoordinator: PersistentStoreCoordinator {
        managedObjectContext.persistentStoreCoordinator
    }

    // MARK: - For subclasses: the format

    /// The model of documents of this class. `nil`, the default, for the model stored in the file. Stores created by Quire contain their
    /// model; files in a custom format do not. A new document then gets all models of the program's bundle, merged by
    /// ``ManagedObjectModel/mergedModel(from:)``.
    open var managedObjectModel: ManagedObjectModel? { nil }

    /// The type of the store in files of a type; `nil` for files that ``readObjects(from:type:into:)`` and
    /// ``writeObjects(of:to:type:)`` read and write.
    ///
    /// By default it returns SQLite for `sqlite`, `sqlite3` and `db`, XML for `xml`, binary for `binary`, ignoring case, and `nil` for
    /// all others.
    open func persistentStoreType(forFileType type: String) -> StoreType? {
        switch type.lowercased() {
        case "sqlite", "sqlite3", "db": .sqlite
        case "xml": .xml
        case "binary": .binary
        default: nil
        }
    }

    /// Called off the main queue to read a file in a custom format: inserts its objects into a context, which is
    /// saved in memory afterwards. It may be called again if another program changes the file meanwhile.
    ///
    /// The file is untrusted: it must not make the method crash, run forever or use more memory than its size justifies. By default it throws an error with code `unsupported`.
    ///
    /// - Parameters:
    ///   - url: The file.
    ///   - type: Its extension.
    ///   - context: An empty context on a private queue, which must not be used afterwards.
    /// - Throws: An error makes opening the document fail.
    open nonisolated func readObjects(
        from url: URL, type: String, into context: ManagedObjectContext
    ) throws {
        throw unreadable(url, type, override: "readObjects(from:type:into:)")
    }

    /// Called off the main queue to write a file in a custom format: all objects of a save. By default
    /// it throws an error with code `unsupported`.
    ///
    /// - Parameters:
    ///   - context: A read-only context on a private queue with a snapshot of the objects.
    ///   - url: The file to write: a new one with the document's name in a temporary folder. Its bytes then replace the document's
    ///     file, durably.
    ///   - type: The extension.
    /// - Throws: An error makes the save fail; the document's file is unchanged, and the changes stay unsaved.
    open nonisolated func writeObjects(
        of context: ManagedObjectContext, to url: URL, type: String
    ) throws {
        throw unreadable(url, type, override: "writeObjects(of:to:type:)")
    }

    private nonisolated func unreadable(
        _ url: URL, _ type: String, override name: String
    ) -> QuireError {
        QuireError(
            .unsupported,
            "“\(url.path)” has the type “\(type)”, which is not the type of a store; override \(name), or "
                + "persistentStoreType(forFileType:).",
            file: url.path)
    }

    // MARK: - For subclasses: what happens to the document

    /// Called off the main queue when the file has been opened or created, and its store is the coordinator's only one. Override it to
    /// add other stores, for objects that belong to the user or to the machine rather than to the document. ``save()`` saves to all
    /// of them; copies contain the objects of the document's own store only.
    ///
    /// Entities of another store need a configuration of the model; set the configuration of the document's own store in
    /// ``persistentStoreOptions``. Saving as a file of the same format keeps the coordinator and its other stores.
    ///
    /// - Parameters:
    ///   - coordinator: The document's coordinator.
    ///   - storeURL: The document's file.
    ///   - fileType: Its extension.
    ///   - configuration: The configuration of the model that the document's store has; `nil` for all entities.
    ///   - storeOptions: ``persistentStoreOptions``.
    /// - Throws: An error makes opening or creating the document fail.
    open nonisolated func configurePersistentStoreCoordinator(
        _ coordinator: PersistentStoreCoordinator, for storeURL: URL, ofType fileType: String,
        modelConfiguration configuration: String?, storeOptions: SQLiteStoreOptions
    ) throws {}

    /// Called on the main actor when opening, saving, reverting or closing has failed, before the error is thrown. By default it
    /// does nothing.
    ///
    /// - Parameter userInteractionPermitted: Whether the user may be asked; `false` for an autosave.
    open func handleError(_ error: QuireError, userInteractionPermitted: Bool) {}
}
