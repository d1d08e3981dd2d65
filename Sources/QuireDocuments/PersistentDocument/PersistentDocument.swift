public import Foundation
public import Quire
internal import QuireAtomicStores

/// A document that is one file: a store, or a file in a custom format.
///
/// Objects are edited in ``managedObjectContext`` on the main actor. Saving writes them to ``fileURL`` off the main queue; the
/// user goes on editing meanwhile. ``ManagedDocument`` is for documents that are packages, with files beside the objects,
/// versions, drafts, and an owner at a time.
///
/// ```swift
/// let document = PersistentDocument(fileURL: URL(fileURLWithPath: "Library.sqlite"))
/// try await document.open()
/// let book = try document.managedObjectContext.insertObject(entityName: "Book")
/// book["title"] = "Emma"
/// try await document.close()          // Saves.
/// ```
///
/// A new document can do without a file until the user gives it a name:
///
/// ```swift
/// let document = try PersistentDocument(model: model)
/// try document.managedObjectContext.insertObject(entityName: "Book")["title"] = "Emma"
/// try await document.save(as: URL(fileURLWithPath: "Library.sqlite"))
/// ```
///
/// The extension of the file decides its format: ``persistentStoreType(forFileType:)`` says SQLite, XML or binary. For other
/// files a subclass reads and writes objects itself:
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
/// - A save that succeeded survives power loss. One that failed leaves the file as it was and the changes unsaved.
/// - SQLite files are changed in place, in one transaction. All other files are replaced as a whole, atomically and durably, with
///   the permissions they had; a file that is a symbolic link stays one.
/// - A file that others have changed or replaced since it was read here is not saved over: saving throws an error with code
///   `storeReplaced`. Save the document elsewhere, or revert it. In a SQLite file that others have saved to, only objects
///   that both have changed are in conflict, and the context's merge policy decides.
/// - Requests are carried out in the order in which they are made, one at a time. What is changed while a save runs stays
///   unsaved until the next.
/// - What a background context of ``newBackgroundContext()`` has saved is an unsaved change of the document like any other.
/// - Closing saves unsaved changes; if that fails the document stays open.
///
/// Not guaranteed: nothing prevents others from opening the same file for writing. Saves of several processes to one SQLite file
/// are serialized by SQLite; of other files the process that saves first wins, and the others' saves fail. A file that is
/// moved while it is open is not followed: saving fails. Files in a custom format are not protected by keys, also
/// if the document they were saved from is; see ``fileProtection``.
///
/// ``ManagedDocument/saveOnTermination(signals:)`` saves these documents too when the process is asked to end.
@MainActor
open class PersistentDocument {
    /// The file; `nil` for a document that has not been saved as one yet. It changes when the document is saved as another file.
    public internal(set) var fileURL: URL?
    /// When the document saves itself.
    public var autosavePolicy = AutosavePolicy() {
        didSet {
            autosaveTimer.cancel()
            scheduleAutosave()
        }
    }
    /// The migration when the document is opened with another model than it was made with; `nil` if opening it is to fail then.
    /// Files in a custom format are read by any version of the program that can.
    public var migrationOptions: StoreMigrationOptions?
    /// The options of the file's store: of a SQLite file all of them, of an XML or a binary file the configuration and those of its
    /// protection. They are used when the document is created or opened. Whether it is read only is an argument of ``open(model:readOnly:)``.
    public var persistentStoreOptions = SQLiteStoreOptions()
    /// Called after each change of ``documentState``. See also ``stateChanges`` and ``stateChangedNotification``.
    public var stateChangeHandler: ((DocumentStateChange) -> Void)?
    /// Why the last save failed, until one succeeds.
    public internal(set) var lastSaveError: QuireError?
    /// The progress of the request that is being carried out, if it may take long: opening with a migration, saving as another
    /// file, exporting. Cancelling it makes the request fail with code `cancelled`, and changes nothing.
    public internal(set) var progress: Progress?
    /// Whether the document was opened for reading only. It can be saved as another file, and is writable from then on.
    public internal(set) var isReadOnly = false

    var contexts: DocumentContexts? { didSet { if let contexts { lastContexts = contexts } } }
    /// The contexts of the last opening, which ``managedObjectContext`` returns after the document was closed.
    private var lastContexts: DocumentContexts?
    /// The model that the document was opened with.
    var model: ManagedObjectModel?
    var autosaveSchedule = AutosaveSchedule()
    lazy var autosaveTimer = AutosaveTimer { [weak self] in self?.autosaveTimerFired() }
    /// Whether an operation is running, and the requests that wait for its end.
    var isBusy = false
    var waiting: [Turn] = []
    let stateBroadcast = Broadcast<DocumentStateChange>()
    /// The state's part that is caused by the running request.
    var activity: DocumentState = [] { didSet { stateDidChange() } }
    /// The error of the running request, or of the last one.
    var requestError: QuireError?
    /// The state that was reported last.
    var reportedState: DocumentState = .closed

    /// Makes a document for a file, which need not exist yet. Nothing is read before it is opened.
    public required init(fileURL: URL) { self.fileURL = fileURL }

    /// Makes a document without a file, and opens it. Its objects are in memory until ``save(as:progress:)`` makes the file; then
    /// ``managedObjectContext`` is another one, and objects that are still referenced belong to no context.
    ///
    /// It does not save itself. Saving it, and closing it with unsaved changes, fails with code `invalidState` until it has a file.
    ///
    /// - Parameter model: The model of the objects; `nil` for ``managedObjectModel``, or the models of the program's bundle.
    /// - Throws: ``QuireError`` with code `invalidModel` if it cannot be used or there is none.
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

    /// The document's state. It is in conflict when a save has failed because others have changed or replaced the file, until it
    /// is saved as another file, reverted or closed.
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
    /// Whether there is anything that the last save did not save. Undoing back to what was saved makes it false.
    public var hasUnsavedChanges: Bool { contexts?.hasUnsavedChanges ?? false }
    /// The name to show: that of the file without its extension.
    public var localizedName: String {
        fileURL?.deletingPathExtension().lastPathComponent ?? Self.untitled
    }
    /// The type of the document: the extension of its file; empty without one.
    open var fileType: String { fileURL?.pathExtension ?? "" }

    /// The class of protection: what an open document has, and otherwise what a new one gets, `nil` for that of
    /// ``protectionDomain``, or none if there is no domain.
    ///
    /// A file that is there keeps its class, which `StoreFile.setFileProtection(_:domain:)` changes while the document is closed. To
    /// open it with another one fails, with code `protectionUnavailable`, unless that is `none`; so does making a file in a format of
    /// the program's own, which cannot be protected.
    public var fileProtection: FileProtection? {
        get {
            guard let store = contexts?.store else { return persistentStoreOptions.fileProtection }
            return store.storeProtection?.fileProtection ?? FileProtection.none
        }
        set { persistentStoreOptions.fileProtection = newValue }
    }
    /// The domain whose keys protect the document: its own while it is open, and otherwise the one that a new document
    /// belongs to, `nil` for ``ProtectionDomain/default``.
    public var protectionDomain: ProtectionDomain? {
        get { contexts?.store.storeProtection?.domain ?? persistentStoreOptions.protectionDomain }
        set { persistentStoreOptions.protectionDomain = newValue }
    }

    /// The context to edit the document's objects in. It belongs to the main queue. Swift's Observation follows its objects;
    /// see ``ManagedObjectContext/isObservable``. Its merge policy is that of saves to the file.
    ///
    /// Saving the context itself writes nothing to the file: that is what ``save()`` is for. It is another context after the
    /// document was saved as a file of another format, reverted to a file that others had changed, or opened again. Once the
    /// document is closed it has no objects, and fetching, inserting and saving throw.
    ///
    /// - Precondition: The document has been open.
    public var managedObjectContext: ManagedObjectContext {
        guard let contexts = contexts ?? lastContexts else {
            preconditionFailure("“\(path)” is not open; open the document first.")
        }
        return contexts.context
    }

    /// Takes back changes of the context's objects. `nil` for no undo, and while the document is closed; then it cannot be set.
    public var undoManager: UndoManager? {
        get { contexts?.context.undoManager }
        set { contexts?.observe(newValue) }
    }

    /// The coordinator of the document's store. It is another one whenever ``managedObjectContext`` is.
    ///
    /// - Precondition: The document has been open.
    public var persistentStoreCoordinator: PersistentStoreCoordinator {
        managedObjectContext.persistentStoreCoordinator
    }

    // MARK: - For subclasses: the format

    /// The model of documents of this class; `nil`, as it is by itself, for the one that a file carries. Stores that were made
    /// here carry theirs; files in a custom format carry none. A new document then gets all models of the program's
    /// bundle, as by ``ManagedObjectModel/mergedModel(from:)``.
    open var managedObjectModel: ManagedObjectModel? { nil }

    /// The type of the store in files of a type; `nil` for files that ``readObjects(from:type:into:)`` and
    /// ``writeObjects(of:to:type:)`` read and write.
    ///
    /// By itself it says SQLite for `sqlite`, `sqlite3` and `db`, XML for `xml`, binary for `binary`, in upper case too, and `nil`
    /// for all others.
    open func persistentStoreType(forFileType type: String) -> StoreType? {
        switch type.lowercased() {
        case "sqlite", "sqlite3", "db": .sqlite
        case "xml": .xml
        case "binary": .binary
        default: nil
        }
    }

    /// Called off the main queue to read a file in a custom format: inserts its objects into a context, which is
    /// saved in memory afterwards. It may be called again if the file is changed by others meanwhile.
    ///
    /// The file may come from anywhere: it must not make the method crash, run forever or use more memory than its size
    /// justifies. By default it throws an error with code `unsupported`.
    ///
    /// - Parameters:
    ///   - url: The file.
    ///   - type: Its extension.
    ///   - context: An empty context on a queue of its own, which is not to be used afterwards.
    /// - Throws: An error makes opening the document fail.
    open nonisolated func readObjects(
        from url: URL, type: String, into context: ManagedObjectContext
    ) throws {
        throw unreadable(url, type, override: "readObjects(from:type:into:)")
    }

    /// Called off the main queue to write a file in a custom format: all objects as they are to be saved. By
    /// itself it throws an error with code `unsupported`.
    ///
    /// - Parameters:
    ///   - context: A context on a queue of its own, which has what is to be saved whatever is changed meanwhile, and is for
    ///     reading only.
    ///   - url: The file to write: a new one of the document's name in a folder of its own. Its bytes then replace the
    ///     document's file, durably.
    ///   - type: The extension.
    /// - Throws: An error makes the save fail; the document's file stays as it was, and the changes stay unsaved.
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
                + "persistentStoreType(forFileType:).", subject: .init(file: url.path))
    }

    // MARK: - For subclasses: what happens to the document

    /// Called off the main queue when the file has been opened, or made, and its store is the coordinator's only one: the place to
    /// add other stores, of things that belong to the user or to the machine rather than to the document. ``save()`` saves to all of
    /// them; copies have the objects of the document's own store only.
    ///
    /// Entities of another store need a configuration of the model; give ``persistentStoreOptions`` the configuration of the
    /// document's own. Saving as a file of the same format keeps the coordinator and its other stores.
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

    /// Called on the main actor when opening, saving, reverting or closing has failed, before the error is thrown. By itself it
    /// does nothing.
    ///
    /// - Parameter userInteractionPermitted: Whether the user may be asked anything; `false` for an autosave.
    open func handleError(_ error: QuireError, userInteractionPermitted: Bool) {}
}
