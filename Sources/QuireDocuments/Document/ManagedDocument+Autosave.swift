import Dispatch
public import Foundation
import Logging
public import Quire

/// Logs the failure of a save that no caller waits for. Other failures are thrown to the caller.
@MainActor
func logFailedAutosave(of path: String, _ error: QuireError?) {
    guard let error else { return }
    Logger(label: "quire.document").error("“\(path)” could not be saved: \(error.message)")
}

extension ManagedDocument {
    func autosavePolicyDidChange() {
        autosaveTimer.cancel()
        scheduleAutosave()
    }

    /// Called after each change.
    func documentDidChange() {
        autosaveSchedule.didChange(at: .now)
        scheduleAutosave()
    }

    /// Schedules the timer for unsaved changes.
    func scheduleAutosave() {
        guard machine.isOpen, !isReadOnly, openDocument?.needsSave == true else {
            autosaveSchedule.isClean()
            return autosaveTimer.cancel()
        }
        autosaveSchedule.isUnsaved(at: .now)
        guard !machine.isSaveExpected, !documentState.contains(.inConflict), isDataAvailable,
            let due = autosaveSchedule.due(autosavePolicy)
        else {
            return autosaveTimer.cancel()
        }
        // If more is changed until it fires, it is found not to be due yet, and set again.
        autosaveTimer.schedule(at: due)
    }

    func autosaveTimerFired() {
        guard let due = autosaveSchedule.due(autosavePolicy) else { return }
        if due > .now { return autosaveTimer.schedule(at: due) }
        submit(.autosave) { [path] in logFailedAutosave(of: path, $0) }
    }
}

// MARK: - Locking of protected data

// An open document of class `complete` autosaves when its domain is about to be locked. While it is locked, fetching, firing
// faults, reading and saving throw `protectedDataUnavailable`; objects, context, undo and unsaved changes are kept.

extension ManagedDocument: ProtectedDataResponder {
    /// Whether the data on disk can be read and written now.
    @MainActor var isDataAvailable: Bool {
        openDocument?.package.store.protection?.isAvailable ?? true
    }

    /// Saves unsaved changes, unless autosaving is disabled. Changes that cannot be saved in time stay unsaved.
    @MainActor package func protectedDataWillBecomeUnavailable() async {
        guard fileProtection == .complete, !isReadOnly, autosavePolicy.isEnabled,
            hasUnsavedChanges
        else { return }
        do { try await autosave() } catch {
            logFailedAutosave(of: path, error as? QuireError)
        }
    }

    /// Schedules the save of changes that could not be saved.
    @MainActor package func protectedDataDidBecomeAvailable() async { scheduleAutosave() }
}

// MARK: - Termination

extension ManagedDocument {
    /// Saves all open documents, including those of ``PersistentDocument``, when one of the signals terminates the process. The
    /// process then ends as it would have without this.
    ///
    /// Call it once, early, in a program that does not handle these signals otherwise; ignored signals, as under `nohup`, remain
    /// ignored. After a second signal, or ten seconds, the process ends without further waiting. The main queue must be running.
    /// Changes that cannot be saved, because objects are invalid, are kept as a draft; see ``draftStatus``. A
    /// ``PersistentDocument`` has no drafts.
    public static func saveOnTermination(
        signals: [Int32] = [SIGTERM, SIGINT, SIGHUP]
    ) {
        saveOnTermination(signals: signals) {}
    }

    /// As ``saveOnTermination(signals:)``, and runs a body after the documents have been saved.
    package static func saveOnTermination(
        signals: [Int32] = [SIGTERM, SIGINT, SIGHUP],
        _ body: @escaping @MainActor @Sendable () -> Void
    ) {
        for number in signals { TerminationSignal.handle(number, body) }
    }
}

/// Saves documents before the process ends.
private enum TerminationSignal {
    private static let isEnding = Lock(false)
    private static let patience = 10.0
    /// Not the main queue, so that a second signal is handled while that is busy.
    private static let queue = DispatchQueue(label: "quire.termination")

    static func handle(_ number: Int32, _ body: @escaping @MainActor @Sendable () -> Void) {
        TerminationCleanup.handle(number, on: queue) { received(number, body) }
    }

    private static func received(
        _ number: Int32, _ body: @escaping @MainActor @Sendable () -> Void
    ) {
        let isFirst = isEnding.withLock { isEnding in
            defer { isEnding = true }
            return !isEnding
        }
        if !isFirst { TerminationCleanup.end(by: number) }
        queue.asyncAfter(deadline: .now() + patience) { TerminationCleanup.end(by: number) }
        Task { @MainActor in
            await saveAll()
            // Closed without saving again, so that neither logs nor locks remain.
            for document in documents { document.closeBeforeTermination() }
            body()
            TerminationCleanup.end(by: number)
        }
    }

    @MainActor
    private static var documents: [any TerminableDocument] {
        OpenDocuments.all.filter { !$0.isReadOnly }
    }

    @MainActor
    private static func saveAll() async {
        await withTaskGroup(of: Void.self) { group in
            for document in documents {
                group.addTask { await document.saveBeforeTermination() }
            }
        }
    }
}

/// A document of either class, for saving at termination.
@MainActor
protocol TerminableDocument: AnyObject, Sendable {
    var isReadOnly: Bool { get }
    /// Saves unsaved changes. A failure is logged.
    func saveBeforeTermination() async
    /// Closes the store as it is on disk.
    func closeBeforeTermination()
}

extension ManagedDocument: TerminableDocument {
    func saveBeforeTermination() async {
        isTerminating = true
        // Changes that cannot be saved are kept as a draft where possible.
        do { try await autosave() } catch {
            logFailedAutosave(of: path, QuireError(wrapping: error, path: path))
        }
    }

    func closeBeforeTermination() { package.closeSaved() }
}

extension PersistentDocument: TerminableDocument {
    func saveBeforeTermination() async {
        do { try await autosave() } catch {
            logFailedAutosave(of: path, QuireError(wrapping: error, path: path))
        }
    }

    func closeBeforeTermination() { contexts?.coordinator.closeSaved() }
}

/// The documents that are open in this process.
@MainActor
enum OpenDocuments {
    private static var documents = WeakList<any TerminableDocument>()

    static var all: [any TerminableDocument] { documents.objects }

    static func add(_ document: any TerminableDocument) {
        documents.remove(document)
        documents.append(document)
    }

    static func remove(_ document: any TerminableDocument) { documents.remove(document) }
}

// MARK: - Background changes

// Work on a document's objects off the main queue.

extension ManagedDocument {
    /// Creates a context on a private queue, for long work on the document's objects: an import, a computation.
    ///
    /// Its saves go to the parent of ``managedObjectContext``, in memory, and are then unsaved changes of the document like any
    /// other: ``hasUnsavedChanges`` is true, they are saved by autosaving, ``save()`` and closing, and they appear in
    /// ``managedObjectContext`` in the next turn of the main queue. They are not undoable, and do not affect undo of other changes. If
    /// a property is changed in both contexts, the last save wins.
    ///
    /// The context sees the changes saved to the parent before, and merges later ones automatically; edits of
    /// ``managedObjectContext`` reach the parent when the document is saved.
    ///
    /// ```swift
    /// let background = try document.newBackgroundContext()
    /// try await background.perform { context in
    ///     for title in titles {
    ///         try context.insertObject(entityName: "Book")["title"] = title
    ///     }
    ///     try context.save()          // The document has unsaved changes now, and shows the books.
    /// }
    /// ```
    ///
    /// After the document was closed, or has switched to another package, saving the context throws an error with code
    /// `invalidState`, or `storeUnavailable` if it has new objects.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open.
    public func newBackgroundContext() throws -> QueueConfinedContext {
        try opened().contexts.newBackgroundContext()
    }

    /// Runs a closure in a new context on a private queue; see ``newBackgroundContext()``. The closure must save the context;
    /// unsaved changes are dropped.
    ///
    /// ```swift
    /// let count = try await document.performBackgroundTask { context in
    ///     let books = try context.fetch(FetchRequest("Book"))
    ///     for book in books { book["pages"] = countPages(of: book) }
    ///     try context.save()
    ///     return books.count
    /// }
    /// ```
    ///
    /// The closure's saves have appeared in ``managedObjectContext`` when this returns.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open, or an error of the closure.
    public func performBackgroundTask<Result>(
        _ body: sending @escaping (ManagedObjectContext) throws -> sending Result
    ) async throws -> sending Result {
        let context = try newBackgroundContext()
        defer { openDocument?.context.mergePendingSaves() }
        return try await context.perform(body)
    }
}

// MARK: - Change counts

/// A token of a document's state at a moment.
public struct DocumentChangeToken: Sendable, Hashable {
    let number: Int
}

extension ManagedDocument {
    /// Counts a change outside of the context and the additional content, so that the document is saved. Changes registered with
    /// the undo manager are counted automatically. Nothing is counted while the document is closed.
    public func updateChangeCount(_ change: DocumentChange) {
        guard let openDocument else { return }
        openDocument.count(change)
        if change == .cleared { scheduleAutosave() } else { documentDidChange() }
    }

    /// A token of the document's current state, for subclasses that save it themselves and report success with
    /// ``updateChangeCount(with:)``. The document's own saves do not need it. The token of a closed document has no effect.
    public func changeCountToken() -> DocumentChangeToken {
        DocumentChangeToken(number: openDocument?.takeChangeToken() ?? 0)
    }

    /// Marks the state of a token as saved. Later changes stay unsaved.
    ///
    /// The token of a state that undo and redo can no longer reach, or an old token, leaves the document unsaved.
    public func updateChangeCount(with token: DocumentChangeToken) {
        openDocument?.didSave(token.number)
        scheduleAutosave()
    }
}
