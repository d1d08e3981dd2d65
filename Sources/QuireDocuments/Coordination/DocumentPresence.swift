import Dispatch
import Logging
import Quire

private let logger = Logger(label: "quire.document")

/// An open document as seen by others: a ``FilePresenter`` in this process, and, if it is open for writing, a socket
/// for other processes' requests to save; if it is open for reading, it follows saves of another process.
///
/// ```swift
/// presence = DocumentPresence(of: self)      // when it has been opened
/// presence?.end()                            // before it is closed
/// ```
final class DocumentPresence: FilePresenter {
    /// The actions of the document.
    struct Actions: Sendable {
        /// Saves unsaved changes.
        var save: @Sendable () async throws -> Void
        /// Whether anything is.
        var hasUnsavedChanges: @Sendable () async -> Bool
        /// Closes it without saving, because it is about to be deleted.
        var close: @Sendable () async throws -> Void
        /// It was moved.
        var didMove: @Sendable (String) async -> Void
    }

    private let path: Lock<String?>
    private let actions: Actions
    private let isWriting: Bool
    private let listener: Lock<PackageListener?>
    private let watch: Lock<PackageWatch?>
    let presenterName: String

    /// Presents a package that is open, until ``end()`` is called.
    init(ofPackageAt path: String, isWriting: Bool, _ actions: Actions) {
        self.path = Lock(path)
        self.actions = actions
        self.isWriting = isWriting
        presenterName = "the document “\(FileSystem.name(of: path))”"
        listener = Lock(nil)
        watch = Lock(nil)
        FileCoordinator.addFilePresenter(self)
        listen(at: path)
    }

    /// Listens to other processes.
    private func listen(at path: String) {
        guard isWriting else { return }
        let answers = PackageListener.Actions(
            save: { [weak self] in
                guard let path = self?.presentedItemPath else { return }
                // In turn with those in this process.
                try await FileCoordinator().coordinate(readingItemAt: path) { _ in }
            },
            hasUnsavedChanges: actions.hasUnsavedChanges)
        let old = listener.withLock { listener in
            if listener?.isForPackage(at: path) == true { return PackageListener?.none }
            let old = listener
            listener = PackageListener(forPackageAt: path, answers)
            return old
        }
        old?.close()
    }

    /// Ends presenting. Calling it twice does nothing.
    func end() {
        FileCoordinator.removeFilePresenter(self)
        path.withLock { $0 = nil }
        let listener = listener.withLock { listener in
            defer { listener = nil }
            return listener
        }
        listener?.close()
        watch.withLock { watch in
            defer { watch = nil }
            return watch
        }?.cancel()
    }

    /// The document is at another path, or is another package by now.
    func move(to newPath: String) {
        let isOpen = path.withLock { path in
            defer { if path != nil { path = newPath } }
            return path != nil
        }
        if isOpen { listen(at: newPath) }
    }

    var presentedItemPath: String? { path.withLock { $0 } }

    func savePresentedItemChanges() async throws { try await actions.save() }

    func accommodatePresentedItemDeletion() async throws { try await actions.close() }

    func presentedItemDidMove(to newPath: String) async {
        move(to: newPath)
        await actions.didMove(newPath)
    }
}

extension DocumentPresence {
    /// Presents a document that is open. It does not retain it.
    @MainActor
    convenience init(of document: ManagedDocument) {
        self.init(
            ofPackageAt: document.path, isWriting: !document.isReadOnly,
            Actions(
                save: { @MainActor [weak document] in
                    if let document, !document.isReadOnly { try await document.autosave() }
                },
                hasUnsavedChanges: { @MainActor [weak document] in
                    document?.hasUnsavedChanges ?? false
                },
                close: { @MainActor [weak document] in
                    await document?.accommodatePresentedItemDeletion()
                    try await document?.close(discardingChanges: true)
                },
                didMove: { @MainActor [weak document] _ in await document?.followPackage() }))
        if document.isReadOnly { followWriter(of: document) }
    }

    /// Shows commits of another process in a document that is open for reading.
    @MainActor
    private func followWriter(of document: ManagedDocument) {
        let poll = RemoteChangePoll(document.persistentStoreCoordinator) { [weak document] in
            Task { @MainActor in await document?.showRemoteChanges() }
        }
        do {
            let new = try PackageWatch(path: document.path, queue: poll.queue) { event in
                if case .changed = event { poll.begin() }
            }
            watch.withLock { $0 = new }
            // Commits before it was watched.
            poll.queue.async { poll.begin() }
        } catch {
            logger.info("Saves of others to “\(document.path)” are not followed: \(error)")
        }
    }
}

// MARK: - Changes by other processes

/// Asks a store for commits of another process after a write to its package.
///
/// A commit is visible only when its log has reached the disk, of which there is no event. So the store is asked several
/// times more, at increasing intervals, over some 13 seconds. A commit posts
/// ``PersistentStoreCoordinator/remoteChangeNotification``.
private final class RemoteChangePoll: Sendable {
    let queue = DispatchQueue(
        label: "quire.remote-changes", qos: .utility, target: .global(qos: .utility))
    private let detector: RemoteChangeDetector
    private let changed: @Sendable () -> Void
    private static let intervals = (0..<8).map { DispatchTimeInterval.milliseconds(50 << $0) }
    /// The number of the last run; earlier ones end.
    private let run = Lock(0)

    /// - Parameter changed: Called after a commit, one call at a time.
    init(_ coordinator: PersistentStoreCoordinator, changed: @escaping @Sendable () -> Void) {
        detector = RemoteChangeDetector(coordinator)
        self.changed = changed
    }

    /// Begins a run, after a write.
    func begin() {
        let run = run.withLock { run in
            run += 1
            return run
        }
        check(0, run)
    }

    private func check(_ number: Int, _ run: Int) {
        guard self.run.withLock({ $0 == run }) else { return }
        if detector.check() { return changed() }
        guard number < Self.intervals.count else { return }
        queue.asyncAfter(deadline: .now() + Self.intervals[number]) { [weak self] in
            self?.check(number + 1, run)
        }
    }
}

extension ManagedDocument {
    /// Shows a save of another process: refreshes the objects and the additional content.
    func showRemoteChanges() async {
        await whileOpen("The last save of another process is not shown") { [self] open in
            guard open.package.isReadOnly else { return }
            let package = open.package
            let reading: ContentReader = { try self.readAdditionalContent(from: $0) }
            let loaded = try await FileQueue.shared.run {
                try OpenedContent(package, reading: reading)
            }
            await open.parent.perform { $0.refreshAllObjects() }
            open.context.refreshAllObjects()
            if loaded.generation != open.generation {
                open.generation = loaded.generation
                open.contentNames = loaded.names
                try load(fromContents: loaded.contents)
            }
            presentedItemDidChange()
        }
    }
}
