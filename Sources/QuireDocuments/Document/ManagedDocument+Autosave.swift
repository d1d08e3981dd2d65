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
    /// Whether what is on disk can be read and written now.
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
    /// Saves all open documents, those of ``PersistentDocument`` too, when the process is asked to end, by the signals given.
    /// Then it ends as it would have.
    ///
    /// Call it once, early, in a program that leaves these signals alone otherwise; signals that are ignored, as under
    /// `nohup`, stay so. A second signal, or ten seconds, end the process without waiting any longer. The main queue must be
    /// running. What cannot be saved because objects are invalid is kept as a draft; see ``draftStatus``. A
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
    /// Not the main queue: a second signal is heard also while that is busy.
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
            // As they are: neither logs nor locks are left in them.
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

/// A document of either kind, as the end of the process concerns it.
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
        // What fails is in a draft if that is of use.
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

/// The documents that are open in this process, for what concerns all of them.
@MainActor
enum OpenDocuments {
    private struct Entry {
        weak var document: (any TerminableDocument)?
    }

    private static var entries: [ObjectIdentifier: Entry] = [:]

    /// The documents, in no order.
    static var all: [any TerminableDocument] { entries.values.compactMap(\.document) }

    static func add(_ document: any TerminableDocument) {
        entries[ObjectIdentifier(document)] = Entry(document: document)
    }

    static func remove(_ document: any TerminableDocument) {
        entries[ObjectIdentifier(document)] = nil
        // Those that were dropped without having been closed.
        entries = entries.filter { $0.value.document != nil }
    }
}

// MARK: - Background changes

// Work on a document's objects off the main queue.

extension ManagedDocument {
    /// Makes a context on a queue of its own, for work on the document's objects that takes long: an import, a computation.
    ///
    /// Its saves go to the parent of ``managedObjectContext``, in memory, and are then changes of the document like
    /// any other: ``hasUnsavedChanges`` is true, it is autosaved, saved by ``save()`` and by closing, and shown in
    /// ``managedObjectContext`` from the next turn of the main queue on. It is no step of undo, and undoing other changes
    /// works on. Of a property that is changed in both contexts, what is saved last counts.
    ///
    /// The context sees what was saved to the parent by then, and merges automatically what is saved to it later; edits
    /// of ``managedObjectContext`` get there when the document is saved.
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
    /// Once the document was closed, or shows another package, saving the context is an error with code `invalidState`,
    /// or `storeUnavailable` if it has new objects.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open.
    public func newBackgroundContext() throws -> QueueConfinedContext {
        try opened().contexts.newBackgroundContext()
    }

    /// Runs a closure in a new context on a queue of its own; see ``newBackgroundContext()``. The closure saves the context
    /// itself; what it has not saved is dropped.
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
    /// The closure's saves are shown in ``managedObjectContext`` when this returns.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open, or what the closure throws.
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
    /// Counts a change of something that is neither in the context nor in the additional content, so that the document is
    /// saved. Changes that the undo manager knows of are counted without this. Nothing is counted while it is closed.
    public func updateChangeCount(_ change: DocumentChange) {
        guard let openDocument else { return }
        openDocument.count(change)
        if change == .cleared { scheduleAutosave() } else { documentDidChange() }
    }

    /// A token of the document as it is now, for subclasses that save it themselves and report by
    /// ``updateChangeCount(with:)`` when that has succeeded. The document's own saves need none. The token of a closed
    /// document has no effect.
    public func changeCountToken() -> DocumentChangeToken {
        DocumentChangeToken(number: openDocument?.takeChangeToken() ?? 0)
    }

    /// Counts the document as saved in the state that a token was taken of. What was changed since stays unsaved.
    ///
    /// A token of a state that undo and redo cannot reach any more, or that is old, leaves the document unsaved.
    public func updateChangeCount(with token: DocumentChangeToken) {
        openDocument?.didSave(token.number)
        scheduleAutosave()
    }
}
