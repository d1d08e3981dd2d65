import Dispatch
import Logging
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
/// What it promises
/// ================
///
/// - A save that succeeded survives power loss. One that failed changed nothing on disk and loses nothing in memory: the
///   document stays unsaved, its state has ``DocumentState/savingError``, ``lastSaveError`` says why, and saving may be
///   tried again.
/// - Rows, external data and additional content of the package are always of one save.
/// - Requests are carried out in the order in which they are made, one at a time, and each is answered exactly once.
///   Saves that wait become one. What is changed while a save runs stays unsaved until the next.
/// - Closing saves what is unsaved; if that fails the document stays open. Only `close(discardingChanges: true)` drops
///   changes.
/// - One process at a time has a document open for writing. Opening it for reading only works beside that and leaves no
///   trace.
@MainActor
open class ManagedDocument {
    /// The package folder.
    public let path: String
    /// When the document saves itself.
    public var autosavePolicy = AutosavePolicy() {
        didSet {
            autosaveTimer.cancel()
            scheduleAutosave()
        }
    }
    /// How the store uses its file, from the next opening on.
    public var storeOptions = SQLiteStoreOptions()
    /// How the document is migrated when it is opened with another model than it was made with; `nil` if opening it is to
    /// fail then. Set it before opening.
    public var migrationOptions: StoreMigrationOptions?
    /// Called after each change of ``documentState``.
    public var stateChangeHandler: ((DocumentStateChange) -> Void)?
    /// Why the last save failed, until one succeeds.
    public private(set) var lastSaveError: QuireError?

    var machine = DocumentStateMachine()
    var openDocument: OpenDocument?
    private var openings: [Opening] = []
    private var waiters: [Int: @MainActor (QuireError?) -> Void] = [:]
    private var nextWaiter = 0
    private var effects: [DocumentStateMachine.Effect] = []
    private var isCarryingOut = false
    private var operationError: QuireError?
    private var failedSaves = 0
    private lazy var autosaveTimer = AutosaveTimer { [weak self] in self?.autosaveIsDue() }
    private static let logger = Logger(label: "quire.document")

    /// Makes a document for a package, which need not exist yet. Nothing is read before it is opened.
    public init(path: String) { self.path = FileSystem.absolute(path) }

    // MARK: State

    /// The document's state.
    public var documentState: DocumentState { machine.state }
    /// Whether the document is open.
    public var isOpen: Bool { machine.isOpen }
    /// Whether it is open for reading only.
    public var isReadOnly: Bool { openDocument?.package.isReadOnly ?? false }
    /// Whether there is anything that the last save did not save. Undoing back to what was saved makes it false.
    public var hasUnsavedChanges: Bool { openDocument?.hasUnsavedChanges ?? false }

    /// The context to edit the document's objects in. It belongs to the main queue; its parent, which saves to the store,
    /// to a queue of its own. Swift's Observation follows its objects; see ``ManagedObjectContext/isObservable``.
    ///
    /// - Precondition: The document is open.
    public var managedObjectContext: ManagedObjectContext { requireOpen().context }

    /// The coordinator of the document's store.
    ///
    /// - Precondition: The document is open.
    public var persistentStoreCoordinator: PersistentStoreCoordinator { requireOpen().coordinator }

    /// The package on disk.
    ///
    /// - Precondition: The document is open.
    public var package: DocumentPackage { requireOpen().package }

    /// Takes back changes of the context's objects. `nil` for no undo.
    ///
    /// - Precondition: The document is open.
    public var undoManager: UndoManager? {
        get { requireOpen().context.undoManager }
        set { requireOpen().observe(newValue) }
    }

    /// The files of the document beside its objects.
    ///
    /// - Precondition: The document is open when they are used.
    public var additionalContent: AdditionalContent { AdditionalContent(document: self) }

    /// Counts a change of something that is neither in the context nor in the additional content, so that the document is
    /// saved. Changes that the undo manager knows of are counted without this.
    public func updateChangeCount(_ change: DocumentChange) {
        requireOpen().count(change)
        scheduleAutosave()
    }

    func requireOpen() -> OpenDocument {
        guard let openDocument else {
            preconditionFailure("“\(path)” is not open; open the document first.")
        }
        return openDocument
    }

    // MARK: For subclasses

    /// Called on the main actor when the document has been opened or reverted. Does nothing by itself.
    ///
    /// An error makes the opening fail.
    open func didLoad() throws {}

    /// Called on the main actor before each save takes its snapshot; the place to put into ``additionalContent`` what is
    /// kept elsewhere. Does nothing by itself.
    ///
    /// An error makes the save fail.
    open func willSave() throws {}

    /// Called on the main actor when a save has succeeded. Does nothing by itself.
    open func didSave() {}

    // MARK: Requests

    /// Hands a request to the state machine. The answer comes later, on the main queue.
    func submit(
        _ request: DocumentStateMachine.Request,
        answer: @escaping @MainActor (QuireError?) -> Void
    ) {
        nextWaiter += 1
        waiters[nextWaiter] = answer
        machine.hasUnsavedChanges = openDocument?.mayHaveUnsavedChanges ?? false
        carryOut(machine.submit(request, for: nextWaiter))
    }

    /// The machine's name for a way of opening.
    func opening(_ opening: Opening) -> DocumentStateMachine.Opening {
        var named = DocumentStateMachine.Opening(isReadOnly: opening.isReadOnly)
        if opening.creates || opening.model != nil {
            named.isCreation = opening.creates
            if !opening.creates, let known = openings.firstIndex(of: opening) {
                named.number = known + 1
            } else {
                openings.append(opening)
                named.number = openings.count
            }
        }
        return named
    }

    private func carryOut(_ new: [DocumentStateMachine.Effect]) {
        effects += new
        // An answer or a handler may request something; its effects come after those that are there.
        if isCarryingOut { return }
        isCarryingOut = true
        while !effects.isEmpty { carryOut(effects.removeFirst()) }
        isCarryingOut = false
        scheduleAutosave()
    }

    private func carryOut(_ effect: DocumentStateMachine.Effect) {
        switch effect {
        case .answer(let waiters, let answer): deliver(answer, to: waiters)
        case .stateChanged(let previous, let current):
            let change = DocumentStateChange(
                previous: previous, current: current,
                error: current.contains(.savingError) ? lastSaveError : operationError)
            stateChangeHandler?(change)
        case .start(let operation): start(operation)
        }
    }

    private func deliver(_ answer: DocumentStateMachine.Answer, to numbers: [Int]) {
        let error: QuireError? =
            switch answer {
            case .done: nil
            case .failed: operationError
            case .cancelled:
                QuireError(
                    .cancelled, "“\(path)” was closed while it was being opened.",
                    subject: .init(file: path))
            case .notOpen:
                QuireError(
                    .invalidState, "“\(path)” is not open; open the document first.",
                    subject: .init(file: path))
            case .alreadyOpen:
                QuireError(
                    .invalidState, "“\(path)” is open already; close the document first.",
                    subject: .init(file: path))
            }
        for number in numbers {
            guard let waiter = waiters.removeValue(forKey: number) else { continue }
            // Never within the call that made the request, and always in the same order.
            DispatchQueue.main.async { MainActor.assumeIsolated { waiter(error) } }
        }
    }

    // MARK: Operations

    private func start(_ operation: DocumentStateMachine.Operation) {
        autosaveTimer.cancel()
        switch operation {
        case .open(let opening): run { try await $0.performOpening(opening) }
        case .save:
            // The snapshot is taken now, on the caller; what is changed later is not in this save.
            let snapshot = Result { try takeSnapshot() }
            run { try await $0.performSave(snapshot) }
        case .revert: run { try await $0.performRevert() }
        case .close: run { try await $0.performClose() }
        }
        func run(_ body: @escaping @MainActor (ManagedDocument) async throws -> Void) {
            // Retains the document: an operation that has begun ends, and is answered.
            Task { @MainActor in
                do {
                    try await body(self)
                    finish(operation, nil)
                } catch {
                    finish(operation, QuireError(wrapping: error, path: path))
                }
            }
        }
    }

    private func finish(_ operation: DocumentStateMachine.Operation, _ error: QuireError?) {
        operationError = error
        if operation == .save {
            openDocument?.didFinishSave(succeeded: error == nil)
            lastSaveError = error
            failedSaves = error == nil ? 0 : failedSaves + 1
            if let error {
                Self.logger.error("“\(path)” could not be saved: \(error.message)")
            } else {
                didSave()
            }
        }
        machine.hasUnsavedChanges = openDocument?.mayHaveUnsavedChanges ?? false
        carryOut(machine.finish(succeeded: error == nil))
    }

    private func takeSnapshot() throws -> OpenDocument.Snapshot {
        let open = requireOpen()
        if open.package.isReadOnly {
            throw QuireError(
                .readOnly, "“\(path)” was opened for reading only and cannot be saved.",
                subject: .init(file: path))
        }
        try willSave()
        return try open.takeSnapshot()
    }

    private func performSave(
        _ snapshot: Result<OpenDocument.Snapshot, any Error>
    ) async throws {
        let open = requireOpen()
        do {
            try await open.write(snapshot.get())
        } catch {
            await open.saveDraft(after: error)
            throw error
        }
    }

    private func performOpening(_ named: DocumentStateMachine.Opening) async throws {
        let opening =
            named.number == 0 ? Opening(isReadOnly: named.isReadOnly) : openings[named.number - 1]
        let (path, options, migration) = (path, storeOptions, migrationOptions)
        let loaded = try await FileQueue.shared.run {
            try opening.load(path: path, options: options, migrating: migration)
        }
        let open = OpenDocument(loaded)
        open.changed = { [weak self] in self?.scheduleAutosave() }
        openDocument = open
        lastSaveError = nil
        failedSaves = 0
        open.restoreDraft(loaded.draft)
        do {
            try didLoad()
        } catch {
            openDocument = nil
            try? await FileQueue.shared.run { try loaded.package.close() }
            throw error
        }
    }

    private func performRevert() async throws {
        try await requireOpen().revert()
        lastSaveError = nil
        failedSaves = 0
        try didLoad()
    }

    private func performClose() async throws {
        let open = requireOpen()
        openDocument = nil
        lastSaveError = nil
        open.detach()
        // What is unsaved now is dropped.
        await open.removeDraft()
        let package = open.package
        try await FileQueue.shared.run { try package.close() }
    }

    // MARK: Autosave

    func scheduleAutosave() {
        guard autosavePolicy.isEnabled, machine.isOpen, !machine.isSaveExpected, !isReadOnly,
            let open = openDocument, open.hasUnsavedChanges || open.draftInStore != nil
        else { return autosaveTimer.cancel() }
        autosaveTimer.schedule(after: autosavePolicy.delay(afterFailures: failedSaves))
    }

    private func autosaveIsDue() {
        // The error is kept in lastSaveError, and the state says that there is one.
        submit(.autosave) { _ in }
    }
}
