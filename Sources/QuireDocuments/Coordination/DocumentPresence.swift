import Dispatch
import Quire

/// A document that is open, as others see it: a ``FilePresenter`` in this process, and, if it is open for writing, somebody
/// whom other processes can ask to save; if it is open for reading, it follows what another process saves.
///
/// ```swift
/// presence = DocumentPresence(of: self)      // when it has been opened
/// presence?.end()                            // before it is closed
/// ```
final class DocumentPresence: FilePresenter {
    /// What is done with the document.
    struct Actions: Sendable {
        /// Saves what is unsaved.
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
    private let remoteChanges: Lock<RemoteChanges?>
    let presenterName: String

    /// Presents a package that is open, until ``end()`` is called.
    init(ofPackageAt path: String, isWriting: Bool, _ actions: Actions) {
        self.path = Lock(path)
        self.actions = actions
        self.isWriting = isWriting
        presenterName = "the document “\(FileSystem.name(of: path))”"
        listener = Lock(nil)
        remoteChanges = Lock(nil)
        FileCoordinator.addFilePresenter(self)
        listen(at: path)
    }

    /// Has other processes find the package.
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

    /// Does not present it any more. Doing so twice does nothing.
    func end() {
        FileCoordinator.removeFilePresenter(self)
        path.withLock { $0 = nil }
        let listener = listener.withLock { listener in
            defer { listener = nil }
            return listener
        }
        listener?.close()
        remoteChanges.withLock { remoteChanges in
            defer { remoteChanges = nil }
            return remoteChanges
        }?.end()
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
        if document.isReadOnly {
            let changes = RemoteChanges(
                ofPackageAt: document.path, document.persistentStoreCoordinator
            ) { [weak document] in
                Task { @MainActor in await document?.showRemoteChanges() }
            }
            remoteChanges.withLock { $0 = changes }
        }
    }
}

extension ManagedDocument {
    /// Goes on with the package where it is now.
    func followPackage() async {
        try? await withOpenDocument { [self] open in
            if let place = try await open.follow() { didMove(to: place) }
        }
    }
}

// MARK: - Changes by other processes

/// Has a document that is open for reading follow what another process saves.
///
/// The package is watched; whenever something was written to it, the store is asked whether anything was committed; if so
/// ``PersistentStoreCoordinator/remoteChangeNotification`` is posted, and the document shows it.
///
/// What a writer commits is to be seen only when its log has reached the disk, which nothing tells. So the store is asked
/// several times more, in ever longer intervals, over some seconds.
final class RemoteChanges: Sendable {
    private let watch: PackageWatch

    /// Follows a package until it is freed. `nil` if it cannot be watched.
    ///
    /// - Parameter changed: Called when something was saved, one call at a time.
    init?(
        ofPackageAt path: String, _ coordinator: PersistentStoreCoordinator,
        changed: @escaping @Sendable () -> Void
    ) {
        let look = RepeatedLook(RemoteChangeDetector(coordinator), changed)
        guard
            let watch = try? PackageWatch(
                path: path, queue: look.queue,
                handler: { event in if case .changed = event { look.begin() } })
        else { return nil }
        self.watch = watch
        // What was saved before it was watched.
        look.queue.async { look.begin() }
    }

    /// Ends following.
    func end() { watch.cancel() }

    private final class RepeatedLook: Sendable {
        let queue = DispatchQueue(
            label: "quire.remote-changes", qos: .utility, target: .global(qos: .utility))
        private let detector: RemoteChangeDetector
        private let changed: @Sendable () -> Void
        /// The intervals add up to some 13 seconds.
        private static let intervals = (0..<8).map { DispatchTimeInterval.milliseconds(50 << $0) }
        /// Counts the beginnings, so that only the last goes on.
        private let run = Lock(0)

        init(_ detector: RemoteChangeDetector, _ changed: @escaping @Sendable () -> Void) {
            self.detector = detector
            self.changed = changed
        }

        /// Something was written.
        func begin() {
            let run = run.withLock { run in
                run += 1
                return run
            }
            look(0, run)
        }

        private func look(_ number: Int, _ run: Int) {
            guard self.run.withLock({ $0 == run }) else { return }
            if detector.check() { return changed() }
            guard number < Self.intervals.count else { return }
            queue.asyncAfter(deadline: .now() + Self.intervals[number]) { [weak self] in
                self?.look(number + 1, run)
            }
        }
    }
}

extension ManagedDocument {
    /// Shows what another process has saved: objects are refreshed, and the additional content is that of the new save.
    func showRemoteChanges() async {
        try? await withOpenDocument { [self] open in
            guard open.package.isReadOnly else { return }
            let package = open.package
            let reading: ContentReader = { try self.readAdditionalContent(from: $0) }
            let loaded = try await FileQueue.shared.run {
                try LoadedContent(package, reading: reading)
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
