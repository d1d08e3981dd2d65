import Dispatch
import QuireSystem

/// Watches a shared folder for one sequence of ``FolderTransport/changes``.
///
/// What touches the file system runs on the transport's queue, because a network that does not answer must not hold up the
/// events of others.
final class FolderWatch: Sendable {
    private struct State {
        var folders: Set<SyncFileName> = []
        /// The folders that the kernel reports changes of.
        var subscriptions: [SyncFileName: FileEventSubscription] = [:]
        var ticks: FileEventSubscription?
        /// Whether the folder was there at the last look; `nil` before the first.
        var isReachable: Bool?
        /// Whether a look is waiting for the queue.
        var isLooking = false
        var isCancelled = false
    }

    private let folder: SharedFolder
    private let queue: DispatchQueue
    private let events: FileEvents
    private let consumer: AsyncStream<Void>.Continuation
    private let state = Lock(State())

    /// - Parameter queue: The transport's, which is serial.
    init(
        _ folder: SharedFolder, queue: DispatchQueue, events: FileEvents,
        consumer: AsyncStream<Void>.Continuation
    ) {
        self.folder = folder
        self.queue = queue
        self.events = events
        self.consumer = consumer
    }

    deinit { cancel() }

    /// Ends the sequence.
    func finish() { consumer.finish() }

    /// Ends watching.
    func cancel() {
        // Released after unlocking.
        let old = state.withLock { state in
            defer {
                state = State()
                state.isCancelled = true
            }
            return state
        }
        old.ticks?.cancel()
        for subscription in old.subscriptions.values { subscription.cancel() }
    }

    /// Watches folders that need not exist.
    func add(_ folders: Set<SyncFileName>) {
        state.withLock { $0.folders.formUnion(folders) }
        lookLater()
    }

    /// Watches folders that need not exist, and are listed next or created in. Called on the queue.
    func addNow(_ folders: Set<SyncFileName>) {
        state.withLock { $0.folders.formUnion(folders) }
        look(isListedNext: true)
    }

    // MARK: Events

    private func receive(_ event: FileEvents.Event, of name: SyncFileName) {
        let isGone = !event.kinds.isDisjoint(with: [.itself, .ended])
        // A sync tool's temporary file, or a writer's.
        if !isGone, !event.name.isEmpty, !SyncFileName.isValidPart(event.name) { return }
        let child = event.kinds.contains(.overflow) ? nil : name.entry(event.name)
        let (ended, isNeeded) = state.withLock { state in
            // Other folders may get the names of it and of those in it.
            let gone = isGone ? state.subscriptions.keys.filter { $0.isInside(name) } : []
            let ended = gone.compactMap { state.subscriptions.removeValue(forKey: $0) }
            guard !isGone, let child else {
                return (ended, state.subscriptions.count < state.folders.count)
            }
            // A file, or a folder that is watched already: many may be missing, and need not be tried at each event.
            return (ended, state.folders.contains(child) && state.subscriptions[child] == nil)
        }
        for subscription in ended { subscription.cancel() }
        if isNeeded { lookLater() }
        consumer.yield()
    }

    private func lookLater(isTick: Bool = false) {
        let isNeeded = state.withLock { state in
            if state.isLooking || state.isCancelled { return false }
            state.isLooking = true
            return true
        }
        guard isNeeded else { return }
        queue.async { [weak self] in
            self?.state.withLock { $0.isLooking = false }
            self?.look(isTick: isTick)
        }
    }

    // MARK: Looking

    /// Subscribes to the folders that exist and are not watched yet, and finds out whether the folder is there.
    private func look(isTick: Bool = false, isListedNext: Bool = false) {
        var isReachable = false
        var result = (isComplete: false, hasNew: false)
        do {
            let top = try folder.open()
            isReachable = true
            result = subscribe(in: top)
            if try FileSystem.isOnNetwork(folder.path) { result.isComplete = false }
        } catch {
            // The caller of the next operation gets the error.
        }
        let hasChanged = state.withLock { state in
            defer { state.isReachable = isReachable }
            return state.isReachable != isReachable
        }
        setTicking(!result.isComplete)
        // In a new folder there may be files from before the kernel reported its changes.
        if hasChanged || (result.hasNew && !isListedNext) || (isTick && isReachable) {
            consumer.yield()
        }
    }

    /// - Returns: Whether the kernel reports the changes of all folders that exist, and whether there are new ones among them.
    private func subscribe(in top: OpenFile) -> (isComplete: Bool, hasNew: Bool) {
        let missing = state.withLock { $0.folders.subtracting($0.subscriptions.keys) }
        var result = (isComplete: true, hasNew: false)
        // A folder after the one that it is in: if it is made later, that reports it.
        for name in missing.sorted(by: { $0.path.utf8.count < $1.path.utf8.count }) {
            do {
                guard let opened = try SharedFolder.open(name, in: top) else { continue }
                let subscription = try events.watch(opened, for: [.names, .written, .itself]) {
                    [weak self] event in self?.receive(event, of: name)
                }
                let isLate = state.withLock { state in
                    if !state.isCancelled { state.subscriptions[name] = subscription }
                    return state.isCancelled
                }
                if isLate { subscription.cancel() }
                result.hasNew = true
            } catch {
                // The user watches too much already, or something else is in the folder's place.
                result.isComplete = false
            }
        }
        return result
    }

    private func setTicking(_ isOn: Bool) {
        let isTicking = state.withLock { $0.ticks != nil }
        if isOn == isTicking { return }
        let new = isOn ? events.tick { [weak self] in self?.lookLater(isTick: true) } : nil
        let old = state.withLock { state in
            if state.isCancelled { return new }
            defer { state.ticks = new }
            return state.ticks
        }
        old?.cancel()
    }
}

extension SyncFileName {
    /// Whether it is a folder or beneath it.
    fileprivate func isInside(_ folder: SyncFileName) -> Bool {
        self == folder || folder == .top || path.hasPrefix(folder.path + "/")
    }
}
