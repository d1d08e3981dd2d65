import Dispatch
import Foundation
import Quire

// Requests go to the state machine; its effects are carried out here. `ManagedDocument+Saving` has the steps of a save.

/// Work of a request with exclusive access to the package of an open document.
@MainActor
final class DocumentWork: Equatable {
    enum Body {
        case package(@MainActor (OpenDocument) async throws -> Void)
        /// Work on a snapshot that is taken when the work's turn comes; later changes are not in it.
        case snapshot(
            OpenDocument.SnapshotPurpose,
            @MainActor (OpenDocument, OpenDocument.Snapshot) async throws -> Void)
    }

    let body: Body

    init(_ body: @escaping @MainActor (OpenDocument) async throws -> Void) {
        self.body = .package(body)
    }

    init(
        onSnapshotFor purpose: OpenDocument.SnapshotPurpose,
        _ body: @escaping @MainActor (OpenDocument, OpenDocument.Snapshot) async throws -> Void
    ) {
        self.body = .snapshot(purpose, body)
    }

    nonisolated static func == (left: DocumentWork, right: DocumentWork) -> Bool { left === right }
}

extension ManagedDocument {
    typealias RequestHandler = @MainActor (QuireError?) -> Void
    typealias StateMachine = DocumentStateMachine<DocumentWork, RequestHandler>

    // MARK: Requests

    /// Passes a request to the state machine. It is answered later, on the main queue.
    func submit(_ request: StateMachine.Request, answer: @escaping RequestHandler) {
        machine.hasUnsavedChanges = openDocument?.mayHaveUnsavedChanges ?? false
        carryOut(machine.submit(request, for: answer))
    }

    /// Passes a request to the state machine and waits for the answer.
    func request(_ request: StateMachine.Request) async throws {
        try await withCheckedThrowingContinuation {
            (continuation: CheckedContinuation<Void, any Error>) in
            submit(request) { error in
                if let error {
                    continuation.resume(throwing: error)
                } else {
                    continuation.resume()
                }
            }
        }
    }

    /// Runs a body with exclusive access to the open package, when its turn comes.
    func withOpenDocument<Result>(
        _ body: @escaping @MainActor (OpenDocument) async throws -> Result
    ) async throws -> Result {
        var result: Result?
        try await request(.access(DocumentWork { result = try await body($0) }))
        guard let result else {
            preconditionFailure("The work was answered, but has no result.")
        }
        return result
    }

    // MARK: Effects

    func carryOut(_ new: [StateMachine.Effect]) {
        effects += new
        // An answer or a handler may make requests; their effects are carried out after the pending ones.
        if isCarryingOut { return }
        isCarryingOut = true
        while !effects.isEmpty { carryOut(effects.removeFirst()) }
        isCarryingOut = false
        scheduleAutosave()
    }

    private func carryOut(_ effect: StateMachine.Effect) {
        switch effect {
        case .answer(let handlers, let answer):
            let error = error(for: answer)
            for handler in handlers {
                // Never within the call that made the request, and always in the same order.
                DispatchQueue.main.async { MainActor.assumeIsolated { handler(error) } }
            }
        case .stateChanged(let previous, let current):
            if current.contains(.editingDisabled) && !isEditingDisabled {
                isEditingDisabled = true
                disableEditing()
            }
            notify(
                DocumentStateChange(
                    previous: previous, current: current,
                    error: current.contains(.savingError) ? lastSaveError : operationError))
            if isEditingDisabled && current.isDisjoint(with: [.editingDisabled, .closed]) {
                isEditingDisabled = false
                enableEditing()
            }
        case .start(let operation): start(operation)
        }
    }

    private func error(for answer: StateMachine.Answer) -> QuireError? {
        switch answer {
        case .done: nil
        case .failed: operationError
        case .cancelled:
            QuireError(.cancelled, "“\(path)” was closed while it was being opened.", file: path)
        case .notOpen: notOpenError
        case .alreadyOpen:
            QuireError(
                .invalidState, "“\(path)” is already open; close the document first.", file: path)
        }
    }

    var notOpenError: QuireError {
        QuireError(.invalidState, "“\(path)” is not open; open the document first.", file: path)
    }

    // MARK: Operations

    /// Starts an operation. Snapshots are taken before this returns; later changes are not in them.
    private func start(_ operation: StateMachine.Operation) {
        autosaveTimer.cancel()
        switch operation {
        case .open(let request): run(operation) { try await self.performOpening(request) }
        case .save:
            let snapshot = Result { try takeSnapshot() }
            run(operation) {
                DescriptorReserve.beginUse()
                defer { DescriptorReserve.endUse() }
                try await self.performSave(snapshot)
            }
        case .saveAs(let work), .access(let work), .revert(let work?):
            let open = requireOpen()
            switch work.body {
            case .package(let body): run(operation) { try await body(open) }
            case .snapshot(let purpose, let body):
                let snapshot = Result {
                    try open.takeSnapshot(for: purpose, content: contentToWrite())
                }
                run(operation) { try await body(open, snapshot.get()) }
            }
        case .revert(nil): run(operation) { try await self.performRevert() }
        case .close:
            Task { @MainActor in
                do {
                    if try await performClose() {
                        finish(operation, nil)
                    } else {
                        machine.hasUnsavedChanges = true
                        carryOut(machine.repeatClose())
                    }
                } catch {
                    finish(operation, QuireError(wrapping: error, path: path))
                }
            }
        }
    }

    private func run(
        _ operation: StateMachine.Operation, _ body: @escaping @MainActor () async throws -> Void
    ) {
        // Retains the document, so that a started operation ends and is answered.
        Task { @MainActor in
            do {
                try await body()
                finish(operation, nil)
            } catch {
                finish(operation, QuireError(wrapping: error, path: path))
            }
        }
    }

    private func finish(_ operation: StateMachine.Operation, _ error: QuireError?) {
        operationError = error
        progress = nil
        switch operation {
        case .save: finishSave(error)
        case .saveAs: if error == nil { finishSaveAs() }
        default: break
        }
        if let error {
            handleError(error, userInteractionPermitted: !isTerminating)
        }
        machine.hasUnsavedChanges = openDocument?.mayHaveUnsavedChanges ?? false
        carryOut(machine.finish(succeeded: error == nil))
    }

    // MARK: Opening

    private func performOpening(_ request: OpenRequest) async throws {
        var request = request
        if let path = request.path { self.path = path }
        if request.model == nil { request.model = managedObjectModel }
        if request.model == nil && request.isCreation { request.model = try .mergedModel() }
        let opened = try await load(request)
        autosaveSchedule = AutosaveSchedule()
        let open = install(opened)
        do {
            try load(fromContents: opened.content.contents)
        } catch {
            stopPresenting()
            openDocument = nil
            fileModificationDate = nil
            open.detach()
            await FileQueue.shared.run { opened.package.closeSaved() }
            throw error
        }
        OpenDocuments.add(self)
    }

    /// Opens the package.
    ///
    /// - Parameter predecessor: The open package, if only its store has been replaced.
    func load(
        _ request: OpenRequest, succeeding predecessor: DocumentPackage? = nil
    ) async throws -> OpenedPackage {
        var migration = migrationOptions
        if migration?.progress == nil { migration?.progress = Progress(totalUnitCount: -1) }
        progress = migration?.progress
        defer { progress = nil }
        let (path, options) = (path, persistentStoreOptions)
        let (waiting, type) = (lockWait, fileType)
        return try await FileQueue.shared.run { [migration] in
            try request.load(
                path: path, options: options, migrating: migration, waiting: waiting,
                succeeding: predecessor,
                reading: self.readAdditionalContent,
                configuring: { coordinator, store in
                    try self.configurePersistentStoreCoordinator(
                        coordinator, for: store, ofType: type,
                        modelConfiguration: options.configuration, storeOptions: options)
                })
        }
    }

    /// Shows an opened package as the document, with its draft's changes as the unsaved ones.
    @discardableResult
    func install(_ opened: OpenedPackage) -> OpenDocument {
        let open = OpenDocument(opened)
        open.contexts.changed = { [weak self] in self?.documentDidChange() }
        openDocument = open
        open.synchronizeFiles(of: self)
        lastSaveError = nil
        fileModificationDate = opened.modificationDate
        open.restoreDraft(opened.draft)
        // An archive has no writer to follow.
        if !open.package.isArchived {
            presence = DocumentPresence(of: self)
            watchPackage()
        }
        protectionDomain?.addResponder(self)
        return open
    }

    /// Stops watching the package, and answering other processes.
    func stopPresenting() {
        protectionDomain?.removeResponder(self)
        stopWatching()
        presence?.end()
        presence = nil
    }

    // MARK: Reverting

    /// Reloads the document from its package, after a body that may have replaced the content.
    func performRevert(
        _ body: @MainActor (OpenDocument) async throws -> Void = { _ in }
    ) async throws {
        if requireOpen().isStoreMissing { return try await showRemainingStore(of: requireOpen()) }
        do {
            try await followPackage(of: requireOpen())
        } catch let error as QuireError where error.code == .storeReplaced {
            let former = requireOpen()
            try await handleReplacedPackage(of: former, isSaving: false)
            if openDocument === former { throw error }
        }
        let open = requireOpen()
        try await body(open)
        let contents = try await open.revert(reading: readAdditionalContent)
        lastSaveError = nil
        autosaveSchedule = AutosaveSchedule()
        try load(fromContents: contents)
    }

    // MARK: Closing

    /// - Returns: Whether the document is closed; `false` if there are changes made after closing had begun, which must be saved
    ///   first.
    private func performClose() async throws -> Bool {
        DescriptorReserve.beginUse()
        defer { DescriptorReserve.endUse() }
        let open = requireOpen()
        await writeLibraryMetadata(of: open)
        let isDiscarding = machine.isDiscardingChanges
        // Background contexts can save to the parent at any time, until saves are blocked.
        let isBlocked = await open.contexts.blockChildSaves(
            discardingChanges: isDiscarding, open.closedError)
        guard isBlocked else { return false }
        // There is no suspension from here until the contexts are detached, so that nothing can be changed.
        if !isDiscarding && open.mayHaveUnsavedChanges {
            await open.contexts.unblockChildSaves()
            return false
        }
        isClosing = true
        defer { isClosing = false }
        OpenDocuments.remove(self)
        stopPresenting()
        openDocument = nil
        lastSaveError = nil
        fileModificationDate = nil
        open.detach()
        // Unsaved changes are dropped now.
        await open.removeDraft()
        let (package, coordinator) = (open.package, open.coordinator)
        await FileQueue.shared.run {
            coordinator.closeSaved()
            package.closeSaved()
            // The document keeps the package for callers that are unaware that it is closed.
            package.folder?.close()
        }
        return true
    }

    // MARK: Moving

    /// Switches to the package's present path, if it was moved.
    ///
    /// - Throws: As ``OpenDocument/follow()``.
    func followPackage(of open: OpenDocument) async throws {
        if let path = try await open.follow() { didMove(to: path) }
    }

    /// Adopts the path at which the package was found.
    func didMove(to path: String) {
        if FileName(path) == FileName(self.path) { return }
        self.path = path
        presentedItemDidMove(to: fileURL)
    }
}
