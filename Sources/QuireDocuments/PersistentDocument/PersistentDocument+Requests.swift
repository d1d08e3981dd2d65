import Foundation
public import Quire
internal import QuireAtomicStores

extension PersistentDocument {
    // MARK: - Creating and opening

    /// Creates the file, without objects, and opens it. It is on disk when this returns.
    ///
    /// - Parameter model: The model of the objects; `nil` for ``managedObjectModel``, or the models of the program's bundle.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the URL exists, `invalidModel` if the model cannot be used or none
    ///   is found, `protectionUnavailable` if the file cannot be protected as ``fileProtection`` requires, `invalidState` if the
    ///   document is open, or errors of writing. Then no file is left.
    public func create(model: ManagedObjectModel? = nil) async throws {
        try await carryOut { [self] in
            try requireClosed()
            activity = .progressAvailable
            let file = try file(at: requireURL(), model: requireModel(model))
            try await install(FileQueue.shared.run { try file.create() }, readOnly: false)
        }
    }

    /// Opens the file.
    ///
    /// - Parameters:
    ///   - model: The model; `nil` for ``managedObjectModel``, or else the one stored in the file.
    ///   - readOnly: Whether to open it for reading only.
    /// - Complexity: O(*n*) in the size of the file, off the main queue; less for SQLite files, whose objects are read when they
    ///   are used.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` if it is not a file of its type or is damaged,
    ///   `incompatibleModel`, `invalidModel`, `unsupported`, `locked`, `inputOutput`, `invalidState` if the document is open, or
    ///   an error of ``readObjects(from:type:into:)``.
    public func open(model: ManagedObjectModel? = nil, readOnly: Bool = false) async throws {
        try await carryOut { [self] in try await performOpen(model, readOnly) }
    }

    /// Opens the file; see ``open(model:readOnly:)``.
    public func open(
        model: ManagedObjectModel? = nil, readOnly: Bool = false,
        completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(completionHandler) { [self] in try await performOpen(model, readOnly) }
    }

    private func performOpen(_ model: ManagedObjectModel?, _ readOnly: Bool) async throws {
        try requireClosed()
        activity = .progressAvailable
        try await install(
            load(model: model ?? managedObjectModel, readOnly), readOnly: readOnly)
    }

    private func load(
        model: ManagedObjectModel?, _ readOnly: Bool
    ) async throws -> PersistentStoreCoordinator {
        var file = try file(at: requireURL(), model: model)
        file.isReadOnly = readOnly
        if file.migration?.progress == nil {
            file.migration?.progress = Progress(totalUnitCount: -1)
        }
        progress = file.migration?.progress
        return try await FileQueue.shared.run { [file] in try file.open() }
    }

    /// Shows a coordinator's store as the document.
    ///
    /// - Parameter former: The contexts that the new ones replace; the undo manager is kept, without actions.
    func install(
        _ coordinator: PersistentStoreCoordinator, readOnly: Bool,
        replacing former: DocumentContexts? = nil
    ) {
        let new = DocumentContexts(coordinator)
        if let former {
            let undoManager = former.context.undoManager
            new.context.mergePolicy = former.context.mergePolicy
            former.detach(closedError)
            undoManager?.removeAllActions()
            new.observe(undoManager)
        }
        new.changed = { [weak self] in self?.documentDidChange() }
        contexts = new
        model = coordinator.managedObjectModel
        isReadOnly = readOnly
        lastSaveError = nil
        autosaveSchedule = AutosaveSchedule()
        OpenDocuments.add(self)
    }

    // MARK: - Saving

    /// Saves the document as it is now, all or nothing. Without unsaved changes nothing is written.
    ///
    /// The changes are collected before this first suspends, or when earlier requests have ended. The work on the main queue is O(*n*)
    /// in the number of changes; writing happens off the main queue.
    ///
    /// - Complexity: O(*n*) in the number of changes for a SQLite file; O(*n*) in the size of the file for others.
    /// - Throws: ``QuireError`` with code `validation`, `constraintConflict`, `mergeConflict` if another program has saved the same
    ///   objects to the SQLite file, `storeReplaced` if another program has changed or replaced the file, `outOfSpace`, `readOnly`,
    ///   `inputOutput`, `invalidState` if the document is not open, or an error of ``writeObjects(of:to:type:)``. Then the file
    ///   is unchanged, and the changes stay unsaved.
    public func save() async throws {
        try await carryOut { [self] in try await performSave() }
    }

    /// Saves the document as it is when the requests before this one have ended; see ``save()``.
    public func save(completionHandler: @escaping DocumentCompletionHandler) {
        submit(completionHandler) { [self] in try await performSave() }
    }

    /// Saves the document if it has unsaved changes.
    ///
    /// - Throws: As ``save()``.
    public func autosave() async throws {
        try await carryOut(isAutomatic: true) { [self] in
            if hasUnsavedChanges { try await performSave() }
        }
    }

    /// Saves the document if it has unsaved changes; see ``autosave()``.
    public func autosave(completionHandler: @escaping DocumentCompletionHandler) {
        submit(completionHandler, isAutomatic: true) { [self] in
            if hasUnsavedChanges { try await performSave() }
        }
    }

    func performSave() async throws {
        DescriptorReserve.beginUse()
        defer { DescriptorReserve.endUse() }
        let contexts = try opened()
        activity.insert(.progressAvailable)
        defer { activity.remove(.progressAvailable) }
        do {
            if contexts.mayHaveUnsavedChanges { _ = try requireURL() }
            if isReadOnly && contexts.mayHaveUnsavedChanges {
                throw QuireError(
                    .readOnly,
                    "“\(path)” is open for reading only; save the document as another file.",
                    file: path)
            }
            try await contexts.save()
            didSave(nil)
        } catch {
            let error = await explained(error, contexts.store)
            didSave(error)
            throw error
        }
    }

    func didSave(_ error: QuireError?) {
        lastSaveError = error
        autosaveSchedule.didSave(succeeded: error == nil, at: .now)
    }

    /// The error of a failed save: that the file was replaced, if it was. Stores that are written as a whole report a replaced file as a
    /// conflict, or as an earlier error.
    private func explained(
        _ error: any Error, _ store: any PersistentStore
    ) async -> QuireError {
        let error = QuireError(wrapping: error, path: path)
        let isReplaced = await FileQueue.shared.run {
            error.code == .storeReplaced
                || store is AtomicStore && (try? store.isFileCurrent()) == false
        }
        if !isReplaced { return error }
        return QuireError(
            .storeReplaced,
            "“\(path)” was not saved, because another program has changed, replaced or removed it since it was read; "
                + "save the document as another file, or revert it.",
            file: path, underlying: error)
    }

    // MARK: - Reverting and closing

    /// Reverts the document to the current content of its file; unsaved changes are dropped. Objects that are still referenced belong
    /// to no context afterwards.
    ///
    /// If another program has changed or replaced the file, it is opened again, with a new ``managedObjectContext``. Saves to a SQLite
    /// file by other programs do not count as that.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open, or as ``open(model:readOnly:)``; then nothing
    ///   has changed.
    public func revert() async throws {
        try await carryOut { [self] in try await performRevert() }
    }

    /// Reverts the document to the current content of its file; see ``revert()``.
    public func revert(completionHandler: @escaping DocumentCompletionHandler) {
        submit(completionHandler) { [self] in try await performRevert() }
    }

    private func performRevert() async throws {
        let contexts = try opened()
        _ = try requireURL()
        activity = .editingDisabled
        let (store, coordinator) = (contexts.store, contexts.coordinator)
        if try await FileQueue.shared.run({ try store.isFileCurrent() }) {
            await contexts.reset()
        } else {
            let new = try await load(model: managedObjectModel ?? model, isReadOnly)
            install(new, readOnly: isReadOnly, replacing: contexts)
            await FileQueue.shared.run { coordinator.closeSaved() }
        }
        lastSaveError = nil
        autosaveSchedule = AutosaveSchedule()
    }

    /// Saves unsaved changes and closes the document. Closing a closed document does nothing.
    ///
    /// ``managedObjectContext`` has no objects afterwards, and those that are still referenced belong to no context. A SQLite file has no log
    /// beside it then, unless another program has it open.
    ///
    /// - Parameter discardingChanges: Whether to drop unsaved changes instead.
    /// - Throws: As ``save()``; then the document stays open and nothing is lost.
    public func close(discardingChanges: Bool = false) async throws {
        try await carryOut { [self] in try await performClose(discardingChanges) }
    }

    /// Saves unsaved changes and closes the document; see ``close(discardingChanges:)``.
    public func close(
        discardingChanges: Bool = false, completionHandler: @escaping DocumentCompletionHandler
    ) {
        submit(completionHandler) { [self] in try await performClose(discardingChanges) }
    }

    private func performClose(_ discardingChanges: Bool) async throws {
        DescriptorReserve.beginUse()
        defer { DescriptorReserve.endUse() }
        guard let contexts else { return }
        activity = .editingDisabled
        while true {
            // Objects may be changed while they are saved, and background contexts save at any time, until that is blocked.
            while !discardingChanges && contexts.mayHaveUnsavedChanges { try await performSave() }
            let isBlocked = await contexts.blockChildSaves(
                discardingChanges: discardingChanges, closedError)
            if isBlocked && (discardingChanges || !contexts.mayHaveUnsavedChanges) { break }
            if isBlocked { await contexts.unblockChildSaves() } else { try await performSave() }
        }
        contexts.detach(closedError)
        self.contexts = nil
        OpenDocuments.remove(self)
        lastSaveError = nil
        let coordinator = contexts.coordinator
        await FileQueue.shared.run { coordinator.closeSaved() }
    }

    // MARK: - Background contexts

    /// Creates a context on a private queue, for long work on the document's objects. Its saves are unsaved changes of the document, as
    /// in ``ManagedDocument/newBackgroundContext()``.
    ///
    /// After the document was closed, or ``managedObjectContext`` was replaced, saving the context throws an error with code
    /// `invalidState`, or `storeUnavailable` if it has new objects.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open.
    public func newBackgroundContext() throws -> QueueConfinedContext {
        try opened().newBackgroundContext()
    }

    /// Runs a closure in a new context on a private queue; see ``ManagedDocument/performBackgroundTask(_:)``. The closure must save the
    /// context; unsaved changes are dropped.
    ///
    /// ```swift
    /// try await document.performBackgroundTask { context in
    ///     for title in titles { try context.insertObject(entityName: "Book")["title"] = title }
    ///     try context.save()          // The document has unsaved changes now, and shows the books.
    /// }
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the document is not open, or an error of the closure.
    public func performBackgroundTask<Result>(
        _ body: sending @escaping (ManagedObjectContext) throws -> sending Result
    ) async throws -> sending Result {
        let context = try newBackgroundContext()
        defer { contexts?.context.mergePendingSaves() }
        return try await context.perform(body)
    }

    // MARK: - One at a time

    /// The turn of a request, in the order of the calls.
    @MainActor final class Turn {
        private var hasCome = false
        private var continuation: CheckedContinuation<Void, Never>?

        func come() {
            hasCome = true
            continuation?.resume()
            continuation = nil
        }

        func wait() async {
            if !hasCome { await withCheckedContinuation { continuation = $0 } }
        }
    }

    private func takeTurn() -> Turn {
        let turn = Turn()
        if isBusy {
            waiting.append(turn)
        } else {
            isBusy = true
            turn.come()
        }
        return turn
    }

    /// Executes a request after earlier ones, and calls a handler.
    func submit(
        _ completionHandler: @escaping DocumentCompletionHandler, isAutomatic: Bool = false,
        _ body: @escaping @MainActor () async throws -> Void
    ) {
        let turn = takeTurn()
        Task { @MainActor in
            var failure: QuireError?
            do { try await carryOut(isAutomatic: isAutomatic, turn, body) } catch {
                failure = QuireError(wrapping: error, path: path)
            }
            completionHandler(failure)
        }
    }

    /// Executes a request when earlier ones have ended.
    func carryOut(
        isAutomatic: Bool = false, _ turn: Turn? = nil, _ body: @MainActor () async throws -> Void
    ) async throws {
        await (turn ?? takeTurn()).wait()
        requestError = nil
        defer {
            progress = nil
            activity = []
            if waiting.isEmpty {
                isBusy = false
                scheduleAutosave()
            } else {
                // Stays busy, so that no other request runs first.
                waiting.removeFirst().come()
            }
        }
        autosaveTimer.cancel()
        do {
            try await body()
        } catch {
            let error = QuireError(wrapping: error, path: path)
            requestError = error
            handleError(error, userInteractionPermitted: !isAutomatic)
            throw error
        }
    }

    private func requireClosed() throws {
        if !isOpen { return }
        throw QuireError(
            .invalidState, "“\(path)” is already open; close the document first.", file: path)
    }

    func opened() throws -> DocumentContexts {
        if let contexts { return contexts }
        throw QuireError(
            .invalidState, "“\(path)” is not open; open the document first.", file: path)
    }

    private var closedError: QuireError {
        QuireError(
            .invalidState,
            "“\(path)” was closed or reloaded, so this context can no longer save to it; make the changes in the document's "
                + "current context.",
            file: path)
    }

    // MARK: - Autosaving

    private func documentDidChange() {
        autosaveSchedule.didChange(at: .now)
        scheduleAutosave()
    }

    /// Schedules the timer for unsaved changes.
    func scheduleAutosave() {
        guard isOpen, !isReadOnly, fileURL != nil, hasUnsavedChanges else {
            autosaveSchedule.isClean()
            return autosaveTimer.cancel()
        }
        autosaveSchedule.isUnsaved(at: .now)
        guard !isBusy, let due = autosaveSchedule.due(autosavePolicy) else {
            return autosaveTimer.cancel()
        }
        // If more is changed until it fires, it is found not to be due yet, and set again.
        autosaveTimer.schedule(at: due)
    }

    func autosaveTimerFired() {
        guard !isBusy, let due = autosaveSchedule.due(autosavePolicy) else { return }
        if due > .now { return autosaveTimer.schedule(at: due) }
        Task { @MainActor in
            do { try await autosave() } catch {
                logFailedAutosave(of: path, QuireError(wrapping: error, path: path))
            }
        }
    }

    // MARK: - Files

    /// The path of the document's file, for errors.
    var path: String { fileURL.map { FileSystem.absolute($0.path) } ?? Self.untitled }

    func requireURL() throws -> URL {
        if let fileURL { return fileURL }
        throw QuireError(
            .invalidState, "“\(path)” has no file yet; save it with save(as:).", file: path)
    }

    /// The model of a new document.
    func requireModel(_ model: ManagedObjectModel?) throws -> ManagedObjectModel {
        if let model = try model ?? managedObjectModel ?? .mergedModel() { return model }
        throw QuireError(
            .invalidModel,
            "“\(path)” cannot be created without a model, and the program's bundle contains none; pass a model, or override managedObjectModel.",
            file: path)
    }

    func file(at url: URL, model: ManagedObjectModel?) throws -> DocumentFile {
        let type = url == fileURL ? fileType : url.pathExtension
        let options = persistentStoreOptions
        return DocumentFile(
            path: try FileSystem.path(of: url), storeType: persistentStoreType(forFileType: type),
            model: model, options: options, migration: migrationOptions,
            read: { [weak self] url, context in
                guard let self else { throw Self.released(url) }
                try readObjects(from: url, type: type, into: context)
            },
            // The store keeps it, and the document the store.
            write: { [weak self] context, url in
                guard let self else { throw Self.released(url) }
                try writeObjects(of: context, to: url, type: type)
            },
            configure: { [weak self] coordinator in
                try self?.configurePersistentStoreCoordinator(
                    coordinator, for: url, ofType: type,
                    modelConfiguration: options.configuration, storeOptions: options)
            })
    }

    private nonisolated static func released(_ url: URL) -> QuireError {
        QuireError(
            .invalidState,
            "“\(url.path)” was neither read nor written, because its document was deallocated; keep a reference to the document.",
            file: url.path)
    }
}
