import Quire

/// Makes an open document visible: as a ``FilePresenter`` in this process, and, if it is open for writing, through a socket for
/// save requests of other processes. A document that is open for reading follows saves of another process.
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
        /// Whether there are unsaved changes.
        var hasUnsavedChanges: @Sendable () async -> Bool
        /// Closes it without saving, because it is about to be deleted.
        var close: @Sendable () async throws -> Void
        /// Called after it was moved.
        var didMove: @Sendable (String) async -> Void
    }

    private let path: Lock<String?>
    private let actions: Actions
    private let isWriting: Bool
    private let listener: Lock<PackageListener?>
    let presenterName: String

    /// Presents an open package until ``end()`` is called.
    init(ofPackageAt path: String, isWriting: Bool, _ actions: Actions) {
        self.path = Lock(path)
        self.actions = actions
        self.isWriting = isWriting
        presenterName = "the document “\(FileSystem.name(of: path))”"
        listener = Lock(nil)
        FileCoordinator.addFilePresenter(self)
        listen(at: path)
    }

    /// Listens to other processes.
    private func listen(at path: String) {
        guard isWriting else { return }
        let save: @Sendable () async throws -> Void = { [weak self] in
            guard let path = self?.presentedItemPath else { return }
            // Coordinated with accesses in this process.
            try await FileCoordinator().coordinate(readingItemAt: path) { _ in }
        }
        let old = listener.withLock { listener in
            if listener?.isForPackage(at: path) == true { return PackageListener?.none }
            let old = listener
            listener = PackageListener(
                forPackageAt: path, save: save, hasUnsavedChanges: actions.hasUnsavedChanges)
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
    }

    /// Called when the document is at another path, or is another package.
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
    /// Presents an open document without retaining it.
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

    /// Shows commits of another process in a document opened for reading.
    @MainActor
    private func followWriter(of document: ManagedDocument) {
        document.persistentStoreCoordinator.followRemoteChanges(of: document.package.store) {
            [weak document] changes in
            Task { @MainActor in await document?.showRemoteChanges(changes) }
        }
    }
}

extension ManagedDocument {
    /// Shows a save of another process: merges its changes, and reads the additional content.
    ///
    /// - Parameter changes: The objects changed; `nil` if they are not known.
    func showRemoteChanges(_ changes: ObjectIDChanges?) async {
        await whileOpen("could not show the last save of another process") { [self] open in
            guard open.package.isReadOnly else { return }
            let package = open.package
            let reading: ContentReader = { try self.readAdditionalContent(from: $0) }
            let loaded = try await FileQueue.shared.run {
                try OpenedContent(package, reading: reading)
            }
            if let changes {
                await open.parent.perform { $0.mergeChanges(from: changes) }
                open.context.mergeChanges(from: changes)
            } else {
                await open.parent.perform { $0.refreshAllObjects() }
                open.context.refreshAllObjects()
            }
            if loaded.generation != open.generation {
                open.generation = loaded.generation
                open.contentNames = loaded.names
                try load(fromContents: loaded.contents)
            }
            presentedItemDidChange()
        }
    }
}
