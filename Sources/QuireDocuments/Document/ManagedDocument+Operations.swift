import Dispatch
import Foundation
import Quire

// Requests go to the state machine, and what it decides is carried out here.

extension ManagedDocument {
    /// Hands a request to the state machine. The answer comes later, on the main queue.
    func submit(
        _ request: DocumentStateMachine.Request,
        answer: @escaping @MainActor (QuireError?) -> Void
    ) {
        machine.hasUnsavedChanges = openDocument?.mayHaveUnsavedChanges ?? false
        carryOut(machine.submit(request, for: requests.addWaiter(answer)))
    }

    /// Hands a request to the state machine and waits for the answer.
    func request(_ request: DocumentStateMachine.Request) async throws {
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

    /// Does something that needs the open package to itself, when its turn comes.
    func withOpenDocument<Result>(
        _ body: @escaping @MainActor (OpenDocument) async throws -> Result
    ) async throws -> Result {
        try await withSnapshot { open in { try await body(open) } }
    }

    /// Takes a snapshot of the open document when its turn comes, and does something with that and the package.
    func withSnapshot<Result>(
        _ body: @escaping @MainActor (OpenDocument) throws -> @MainActor () async throws -> Result
    ) async throws -> Result {
        var result: Result?
        let number = requests.addWork { open in
            let rest = try body(open)
            return { result = try await rest() }
        }
        try await request(.access(number))
        guard let result else {
            preconditionFailure("A document's work was answered without having been done.")
        }
        return result
    }

    func carryOut(_ new: [DocumentStateMachine.Effect]) {
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
            if current.contains(.editingDisabled) && !previous.contains(.editingDisabled) {
                disableEditing()
            }
            tell(
                DocumentStateChange(
                    previous: previous, current: current,
                    error: current.contains(.savingError) ? lastSaveError : operationError))
            if previous.contains(.editingDisabled)
                && current.isDisjoint(with: [.editingDisabled, .closed])
            {
                enableEditing()
            }
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
            case .notOpen: notOpenError
            case .alreadyOpen:
                QuireError(
                    .invalidState, "“\(path)” is open already; close the document first.",
                    subject: .init(file: path))
            }
        for number in numbers {
            guard let waiter = requests.takeWaiter(number) else { continue }
            // Never within the call that made the request, and always in the same order.
            DispatchQueue.main.async { MainActor.assumeIsolated { waiter(error) } }
        }
    }

    var notOpenError: QuireError {
        QuireError(
            .invalidState, "“\(path)” is not open; open the document first.",
            subject: .init(file: path))
    }

    // MARK: Operations

    private func start(_ operation: DocumentStateMachine.Operation) {
        autosaveTimer.cancel()
        switch operation {
        case .open(let opening): run { try await $0.performOpening($0.requests.opening(opening)) }
        case .save:
            // The snapshot is taken now, on the caller; what is changed later is not in this save.
            let snapshot = Result { try takeSnapshot() }
            run { try await $0.performSave(snapshot) }
        case .saveAs(let number), .access(let number):
            let work = Result { try requests.takeWork(number)?(requireOpen()) }
            run { _ in try await work.get()?() }
        case .revert(let number):
            let work = requests.takeWork(number)
            run {
                guard let work else { return try await $0.performRevert() }
                try await work($0.requireOpen())()
            }
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
        switch operation {
        case .save:
            openDocument?.didFinishSave(succeeded: error == nil)
            lastSaveError = error
            autosaveSchedule.didSave(succeeded: error == nil, at: .now)
            if error == nil { didSucceedSaving() }
        case .saveAs where error == nil:
            lastSaveError = nil
            autosaveSchedule.didSave(succeeded: true, at: .now)
            didSucceedSaving()
        default: break
        }
        if let error {
            handleError(error, userInteractionPermitted: !isTerminating)
        }
        machine.hasUnsavedChanges = openDocument?.mayHaveUnsavedChanges ?? false
        carryOut(machine.finish(succeeded: error == nil))
    }

    private func didSucceedSaving() {
        fileModificationDate = Date()
        didSave()
        didSaveForLibrary()
    }

    func takeSnapshot() throws -> OpenDocument.Snapshot {
        let open = requireOpen()
        if documentState.contains(.inConflict) { throw conflictError }
        if open.package.isReadOnly {
            throw QuireError(
                .readOnly,
                "“\(path)” was opened for reading only and cannot be saved; save it as another document.",
                subject: .init(file: path))
        }
        return try open.takeSnapshot(content: contentToWrite())
    }

    /// Has the subclass take its part of a snapshot.
    func contentToWrite() throws -> AdditionalContentChanges.Rewriting? {
        guard let content = try contents(forType: fileType) else { return nil }
        return { [self] folder, original in
            try writeAdditionalContent(content, to: folder, originalContents: original)
        }
    }

    private func performOpening(_ opening: Opening) async throws {
        var opening = opening
        if opening.model == nil { opening.model = managedObjectModel }
        let loaded = try await load(opening)
        autosaveSchedule = AutosaveSchedule()
        let open = install(loaded, draft: loaded.draft)
        do {
            try load(fromContents: loaded.content.contents)
        } catch {
            stopPresenting()
            openDocument = nil
            fileModificationDate = nil
            open.detach()
            try? await FileQueue.shared.run { try loaded.package.close() }
            throw error
        }
        OpenDocuments.add(self)
    }

    /// Opens the package.
    ///
    /// - Parameter predecessor: The open package, if only its store has been replaced.
    func load(
        _ opening: Opening, succeeding predecessor: DocumentPackage? = nil
    ) async throws -> OpenedPackage {
        let (path, options, migration) = (path, storeOptions, migrationOptions)
        let waiting = lockWait
        return try await FileQueue.shared.run {
            try opening.load(
                path: path, options: options, migrating: migration, waiting: waiting,
                succeeding: predecessor,
                reading: self.readAdditionalContent,
                configuring: self.configurePersistentStoreCoordinator)
        }
    }

    /// Shows an opened package as the document, with a draft's changes as its unsaved ones.
    @discardableResult
    func install(_ loaded: OpenedPackage, draft: OpenedPackage.Draft) -> OpenDocument {
        let open = OpenDocument(loaded)
        open.changed = { [weak self] in self?.documentDidChange() }
        openDocument = open
        lastSaveError = nil
        fileModificationDate = loaded.modificationDate
        open.restoreDraft(draft)
        presence = DocumentPresence(of: self)
        watchPackage()
        protectionDomain?.addResponder(self)
        return open
    }

    /// Is not told of others any more, nor they of it.
    func stopPresenting() {
        protectionDomain?.removeResponder(self)
        stopWatching()
        presence?.end()
        presence = nil
    }

    private func performSave(
        _ snapshot: Result<OpenDocument.Snapshot, any Error>
    ) async throws {
        let open = requireOpen()
        do {
            let snapshot = try snapshot.get()
            do {
                try await write(snapshot, of: open)
            } catch let error as QuireError where error.code == .storeReplaced {
                guard try await handleReplacedPackage(of: open) else { return }
                // It was moved at the same time.
                try await write(snapshot, of: open)
            }
        } catch {
            let isKept = open === openDocument && !open.isStoreMissing
            if keepsDrafts && isKept { throw await open.saveDraft(after: error) }
            throw error
        }
        keepVersionAfterSave()
    }

    private func write(_ snapshot: OpenDocument.Snapshot, of open: OpenDocument) async throws {
        if let place = try await open.follow() { didMove(to: place) }
        await keepVersionBeforeSave()
        try await open.write(snapshot)
    }

    /// Makes the document's content what is in its package, or what a body has put there.
    func performRevert(
        _ body: @MainActor (OpenDocument) async throws -> Void = { _ in }
    ) async throws {
        if requireOpen().isStoreMissing { return try await showWhatIsLeft(of: requireOpen()) }
        do {
            if let place = try await requireOpen().follow() { didMove(to: place) }
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

    /// - Returns: Whether the document is closed; not if anything was changed after closing had begun, which is to be saved
    ///   first.
    private func performClose() async throws -> Bool {
        let open = requireOpen()
        await writeLibraryMetadata(of: open)
        let isDiscarding = machine.isDiscardingChanges
        // Background contexts save to the parent at any time, until it refuses that.
        guard await open.refuseChanges(discardingChanges: isDiscarding) else { return false }
        // From here until the contexts are detached nothing is waited for, so that nothing can be changed.
        if !isDiscarding && open.mayHaveUnsavedChanges {
            await open.takeChanges()
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
        // What is unsaved now is dropped.
        await open.removeDraft()
        let (package, coordinator) = (open.package, open.coordinator)
        try await FileQueue.shared.run {
            try? coordinator.close()
            package.closeSaved()
            // The document keeps the package for those who were not told.
            package.folder?.close()
        }
        return true
    }

    /// The package is found under another path.
    func didMove(to place: String) {
        if place == path { return }
        path = place
        presentedItemDidMove(to: place)
    }
}

// MARK: - Pending requests

/// Those who wait for answers, and what the numbers stand for by which the state machine knows things it need not know
/// more of.
@MainActor
struct DocumentRequests {
    /// Work that has the package to itself for as long as it takes. What it does at once, when its turn comes, is a snapshot
    /// of the document as it is then; the rest is what it gives.
    typealias Work = @MainActor (OpenDocument) throws -> @MainActor () async throws -> Void

    private var openings: [Opening] = []
    private var waiters: [Int: @MainActor (QuireError?) -> Void] = [:]
    private var work: [Int: Work] = [:]
    private var lastNumber = 0

    /// A number for somebody who waits.
    mutating func addWaiter(_ answer: @escaping @MainActor (QuireError?) -> Void) -> Int {
        lastNumber += 1
        waiters[lastNumber] = answer
        return lastNumber
    }

    /// Who waits under a number; they are answered once.
    mutating func takeWaiter(_ number: Int) -> (@MainActor (QuireError?) -> Void)? {
        waiters.removeValue(forKey: number)
    }

    /// A number for work.
    mutating func addWork(_ body: @escaping Work) -> Int {
        lastNumber += 1
        work[lastNumber] = body
        return lastNumber
    }

    /// The work of a number, which is done once.
    mutating func takeWork(_ number: Int) -> Work? { work.removeValue(forKey: number) }

    /// The machine's name for a way of opening.
    mutating func name(of opening: Opening) -> DocumentStateMachine.Opening {
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

    /// The way of opening that the machine names.
    func opening(_ named: DocumentStateMachine.Opening) -> Opening {
        named.number == 0 ? Opening(isReadOnly: named.isReadOnly) : openings[named.number - 1]
    }
}
