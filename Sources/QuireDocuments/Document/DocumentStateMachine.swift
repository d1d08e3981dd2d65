import Quire

/// Decides what a document does next. It is a pure value, which accesses neither files nor the clock.
///
/// Its owner reports requests and ends of operations, and carries out the effects that it returns, in order. Requests contain their
/// work, and waiters their answers; the machine only passes them on.
///
/// Rules
/// =====
///
/// - One operation runs at a time. Requests wait in a queue and are answered in the order in which they were made, each
///   exactly once.
/// - An opening joins the same opening that is running or waiting; a save joins a waiting save, and a close a waiting close. A save
///   never joins a running one, whose snapshot has been taken.
/// - An autosave without unsaved changes succeeds immediately.
/// - Closing saves unsaved changes first, also those made meanwhile or while closing is being prepared. If that fails the document
///   stays open.
/// - A close that waits for an opening cancels it; a creation, whose package is on disk, still succeeds.
/// - A save to a path is a creation, a save, or a save as another package, depending on the state of the document when its
///   turn comes, not when it was requested.
/// - Work that needs unsaved changes to be saved first is one request with that save, so that no other comes between them.
/// - A failed save leaves the document unsaved and in ``DocumentState/savingError`` until one succeeds. Saving as another
///   package that fails leaves the document as it was.
/// - Work with exclusive access to the package, such as writing a copy, waits for its turn like other requests, and does not change the
///   state of the document.
/// - A document stays in ``DocumentState/inConflict`` until its owner reports that it is resolved; closing ends it too.
struct DocumentStateMachine<Work: Equatable, Waiter> {
    enum Request: Equatable {
        /// Equal requests may share one opening.
        case open(OpenRequest)
        case save
        /// To save if there are unsaved changes.
        case autosave
        /// To save as another package, which becomes the document's.
        case saveAs(Work)
        /// To save to a path.
        case saveTo(SaveTarget)
        /// To save unsaved changes, and then to replace the content by some work.
        case saveAndRevert(Work)
        /// To revert to the last save, or to replace the content by some work.
        case revert(Work?)
        /// To give some work exclusive access to the package.
        case access(Work)
        case close(discardingChanges: Bool)
    }

    /// The destination of a save to a path, with the work of saving there in each state of the document.
    struct SaveTarget: Equatable {
        /// Without symbolic links.
        var path: String
        var operation: SaveOperation
        /// The creation, if the document is not open.
        var creation: OpenRequest
        /// The save, if the document is open and its package is another one.
        var work: Work
    }

    /// An operation; one runs at a time.
    enum Operation: Equatable {
        case open(OpenRequest)
        case save
        case saveAs(Work)
        case revert(Work?)
        case access(Work)
        case close
    }

    /// The result of a request.
    enum Answer: Equatable {
        case done
        /// The operation failed, with the owner's error.
        case failed
        /// Cancelled by a later request.
        case cancelled
        /// The document is not open.
        case notOpen
        /// The document is already open, in another way than requested.
        case alreadyOpen
    }

    enum Effect {
        /// Start an operation, and report its end by ``DocumentStateMachine/finish(succeeded:)``.
        case start(Operation)
        case answer([Waiter], Answer)
        /// Notify of a new state; the first is the previous one.
        case stateChanged(DocumentState, DocumentState)
    }

    private struct Pending {
        var request: Request
        var waiters: [Waiter]
    }

    private var queue: [Pending] = []
    private var running: (operation: Operation, pending: Pending)?
    /// The request by which the document is open.
    private var opened: OpenRequest?
    private var hasSavingError = false
    /// Whether there is anything unsaved. The owner keeps it up to date.
    var hasUnsavedChanges = false
    /// The path of the document's package, without symbolic links. The owner keeps it up to date.
    var path = ""

    /// Whether another program has changed the package, and the conflict is not resolved.
    private var isInConflict = false

    /// The present state.
    private(set) var state: DocumentState = .closed

    /// Whether the document is open.
    var isOpen: Bool { opened != nil }

    /// Whether a save is running or waits.
    var isSaveExpected: Bool {
        switch running?.operation {
        case .save, .saveAs: return true
        default: break
        }
        return queue.contains { $0.request == .save || $0.request == .autosave }
    }

    /// Whether a close is running that drops unsaved changes.
    var isDiscardingChanges: Bool {
        running?.pending.request == .close(discardingChanges: true)
    }

    // MARK: Events

    /// A request was made.
    mutating func submit(_ request: Request, for waiter: Waiter) -> [Effect] {
        if !join(request, waiter) {
            queue.append(Pending(request: request, waiters: [waiter]))
        }
        return advance()
    }

    /// The running operation has ended.
    mutating func finish(succeeded: Bool) -> [Effect] {
        guard let (operation, pending) = running else { return [] }
        running = nil
        var answer: Answer? = succeeded ? .done : .failed
        switch operation {
        case .open(let request):
            if succeeded {
                opened = request
                hasSavingError = false
                if !request.isCreation, let next = queue.first, case .close = next.request {
                    answer = .cancelled
                }
            }
        case .save:
            hasSavingError = !succeeded
            switch pending.request {
            case .close, .saveAndRevert:
                // Repeated for changes made meanwhile, or for its own work.
                if succeeded {
                    queue.insert(pending, at: 0)
                    answer = nil
                }
            default: break
            }
        case .saveAs, .revert(nil):
            if succeeded {
                hasSavingError = false
                // The other side remains where it is, or is the content now.
                isInConflict = false
            }
        case .revert: if succeeded { hasSavingError = false }
        case .access: break
        case .close:
            // A store that was not closed cleanly is closed nevertheless.
            opened = nil
            hasSavingError = false
            isInConflict = false
            hasUnsavedChanges = false
        }
        var effects: [Effect] = []
        if let answer { effects.append(.answer(pending.waiters, answer)) }
        return effects + advance()
    }

    /// The running close has found changes made while it was prepared: it is repeated, and saves them first.
    mutating func repeatClose() -> [Effect] {
        guard let (operation, pending) = running, operation == .close else { return [] }
        running = nil
        queue.insert(pending, at: 0)
        return advance()
    }

    /// A conflict with changes by another program has begun, or is resolved.
    mutating func setConflict(_ isInConflict: Bool) -> [Effect] {
        guard isOpen else { return [] }
        self.isInConflict = isInConflict
        var effects: [Effect] = []
        updateState(&effects)
        return effects
    }

    // MARK: Deciding

    private mutating func join(_ request: Request, _ waiter: Waiter) -> Bool {
        if case .open(let opening) = request, opening.isCreation { return false }
        if queue.isEmpty, case .open = request, running?.pending.request == request {
            running?.pending.waiters.append(waiter)
            return true
        }
        guard let last = queue.indices.last else { return false }
        switch (queue[last].request, request) {
        case (.save, .save), (.save, .autosave), (.autosave, .autosave): break
        case (.autosave, .save): queue[last].request = .save
        case (.open, .open), (.revert, .revert), (.close, .close):
            guard queue[last].request == request else { return false }
        default: return false
        }
        queue[last].waiters.append(waiter)
        return true
    }

    /// Takes requests from the queue until an operation starts or none is left.
    private mutating func advance() -> [Effect] {
        var effects: [Effect] = []
        while running == nil, !queue.isEmpty {
            let pending = queue.removeFirst()
            switch decide(pending.request) {
            case .answer(let answer): effects.append(.answer(pending.waiters, answer))
            case .run(let operation):
                running = (operation, pending)
                updateState(&effects)
                effects.append(.start(operation))
            }
        }
        updateState(&effects)
        return effects
    }

    private enum Decision {
        case answer(Answer)
        case run(Operation)
    }

    private func decide(_ request: Request) -> Decision {
        switch request {
        case .open(let opening):
            guard let opened else { return .run(.open(opening)) }
            return .answer(opening.isSatisfied(by: opened) ? .done : .alreadyOpen)
        case .save: return isOpen ? .run(.save) : .answer(.notOpen)
        case .autosave:
            guard isOpen else { return .answer(.notOpen) }
            return hasUnsavedChanges ? .run(.save) : .answer(.done)
        case .saveAs(let work): return isOpen ? .run(.saveAs(work)) : .answer(.notOpen)
        case .saveTo(let target):
            switch target.operation {
            case .forCreating where !isOpen: return .run(.open(target.creation))
            case .forOverwriting where isOpen && FileName(target.path) == FileName(path):
                return .run(.save)
            default: return decide(.saveAs(target.work))
            }
        case .saveAndRevert(let work):
            return isOpen && hasUnsavedChanges ? .run(.save) : decide(.revert(work))
        case .revert(let work): return isOpen ? .run(.revert(work)) : .answer(.notOpen)
        case .access(let work): return isOpen ? .run(.access(work)) : .answer(.notOpen)
        case .close(let discardingChanges):
            guard isOpen else { return .answer(.done) }
            return .run(hasUnsavedChanges && !discardingChanges ? .save : .close)
        }
    }

    private mutating func updateState(_ effects: inout [Effect]) {
        var new = DocumentState()
        if !isOpen { new.insert(.closed) }
        if hasSavingError { new.insert(.savingError) }
        if isInConflict { new.insert(.inConflict) }
        if let running {
            switch running.operation {
            case .open, .save, .saveAs: new.insert(.progressAvailable)
            case .revert, .close: new.insert(.editingDisabled)
            case .access: break
            }
            if case .close = running.pending.request { new.insert(.editingDisabled) }
        }
        if new != state {
            effects.append(.stateChanged(state, new))
            state = new
        }
    }
}

extension DocumentStateMachine.Effect: Equatable where Waiter: Equatable {}
