import Dispatch
import Logging
import Quire

private let logger = Logger(label: "quire.document")

// A program that synchronizes folders may replace the package, or the files of its store, while it is open. The document then shows
// the replacement with new contexts. Unsaved changes are applied to it again, by object and property, and kept as a draft in the
// new package; the last save is kept as a conflict version. So nothing is lost, and the document is in conflict until it is
// resolved.
//
// If there is no replacement, because the store's files were removed or cannot be read, the document keeps the objects in memory
// and the files that it has open, and is in conflict too.

extension ManagedDocument {
    /// Resolves a conflict: another program has replaced the package or its store while there were unsaved changes, or has removed
    /// the store's files.
    ///
    /// With `current`, the replacement is kept as a version, and the document is saved. If objects were changed on both sides,
    /// that is an ordinary merge conflict, and nothing is lost. Removed files of the store are created again. With `other`, the
    /// unsaved changes are dropped, and the replacement is shown.
    ///
    /// The last save before the replacement is among the versions, with the reason ``DocumentVersion/Reason/conflict``, and
    /// counts as resolved afterwards.
    ///
    /// - Throws: ``QuireError`` as ``save()`` or ``revert()``; the conflict is then resolved too, and the document unsaved,
    ///   unless the store could not be created again, or the replacement does not exist. With code `invalidState` if the document
    ///   is not in conflict.
    public func resolveConflict(keeping side: ConflictSide) async throws {
        guard documentState.contains(.inConflict), let open = openDocument else {
            throw QuireError(.invalidState, "“\(path)” is not in conflict.", file: path)
        }
        let version = open.conflictVersion
        switch side {
        case .current:
            if open.isStoreMissing {
                try await withOpenDocument { try await $0.restoreStore() }
            } else {
                let package = open.package
                do {
                    try await FileQueue.copies.run {
                        _ = try package.keepVersion(reason: .beforeChanges, onlyIfNew: true)
                    }
                } catch {
                    logger.warning(
                        "Could not keep the replacement of “\(path)” as a version: \(error)")
                }
            }
            carryOut(machine.setConflict(false))
            try await save()
        case .other:
            if !open.isStoreMissing { carryOut(machine.setConflict(false)) }
            try await revert()
        }
        if let version, let package = openDocument?.package {
            openDocument?.conflictVersion = nil
            // If it cannot be marked it counts as unresolved, and can be resolved again.
            try? await FileQueue.copies.run { try package.versionStore.markResolved(version) }
        }
    }

    /// The error of saving a document in conflict.
    var conflictError: QuireError {
        let isLost = openDocument?.isStoreMissing ?? false
        // Deleting a package removes its store first, which may be detected before the rest is removed.
        if isLost, let package = openDocument?.package, package.location() == .removed {
            return package.deleted
        }
        return QuireError(
            .mergeConflict,
            isLost
                ? "“\(path)” was not saved, because another program has removed or replaced some of its files; save it as "
                    + "another document, or resolve the conflict."
                : "“\(path)” was not saved, because another program has replaced it; resolve the conflict first.",
            file: path)
    }

    /// Shows the replacement of the package or store; if it is not a state of this document, the document is closed.
    func adoptReplacedPackage() {
        // A replacement may be reported several times; later reports find that it is already shown.
        let earlier = adoption
        adoption = Task { [weak self] in
            await earlier?.value
            guard let self else { return }
            do {
                // A save may have detected and shown it before.
                let isHere = try await withOpenDocument { open in
                    let package = open.package
                    return await FileQueue.shared.run { package.location() == .here }
                }
                if isHere { return }
                let work = DocumentWork { [self] open in
                    try await handleReplacedPackage(of: open, isSaving: false)
                }
                try await request(.revert(work))
            } catch {
                logger.warning("Could not show the replacement of “\(path)”: \(error)")
                packageWasDeleted()
            }
        }
    }

    /// Handles changes of the package by other programs.
    ///
    /// - Parameter isSaving: Whether a save follows, so that missing files matter.
    /// - Returns: Whether it is the same package, at whatever path.
    /// - Throws: ``QuireError`` with code `mergeConflict` if a save follows and the package was replaced with another state of the
    ///   document, or lacks files; `notFound` if the package was removed, or replaced with another document.
    @discardableResult
    func handleReplacedPackage(of open: OpenDocument, isSaving: Bool = true) async throws -> Bool {
        let old = open.package
        switch await FileQueue.shared.run({ old.location() }) {
        case .here: return true
        case .moved, .removed:
            try await followPackage(of: open)
            return true
        case .replaced: try await replacePackage(open, succeedsInPlace: false)
        case .storeReplaced:
            do {
                try await replacePackage(open, succeedsInPlace: !old.isReadOnly)
            } catch {
                logger.warning("Could not show the replacement of “\(path)”: \(error)")
                if isSaving { markStoreMissing(of: open) }
            }
        case .storeLost:
            if isSaving { markStoreMissing(of: open) }
        }
        if isSaving && documentState.contains(.inConflict) { throw conflictError }
        return false
    }

    /// Records that the store's files at its path are not those that are open, and that there is no replacement.
    private func markStoreMissing(of open: OpenDocument) {
        open.isStoreMissing = true
        carryOut(machine.setConflict(true))
    }

    /// Shows the replacement, with the unsaved changes.
    ///
    /// - Parameter succeedsInPlace: Whether it is in the same package folder, whose lock this document has.
    private func replacePackage(_ open: OpenDocument, succeedsInPlace: Bool) async throws {
        let (old, coordinator) = (open.package, open.coordinator)
        if !succeedsInPlace, let uuid = DocumentMetadata.storeUUID(of: old.layout),
            uuid != old.store.identity.uuid
        {
            throw old.otherDocument
        }
        // Later saves of background contexts would be neither in the draft nor in the new contexts.
        _ = await open.contexts.blockChildSaves(discardingChanges: true, open.closedError)
        var isShown = false
        defer { if !isShown { Task { await open.contexts.unblockChildSaves() } } }
        var loaded = try await load(
            OpenRequest(model: coordinator.layout.model, isReadOnly: old.isReadOnly),
            succeeding: succeedsInPlace ? old : nil)
        do {
            guard loaded.package.store.identity.uuid == old.store.identity.uuid else {
                throw old.otherDocument
            }
            let own = try await keepOwnSide(of: open, in: &loaded)
            show(loaded, insteadOf: open)
            isShown = true
            if own.isUnsaved, let shown = openDocument {
                shown.conflictVersion = own.version ?? open.conflictVersion
                if shown.package.isReadOnly { shown.draftInStore = nil }
                // The content of a subclass.
                if !shown.hasUnsavedChanges { shown.count(.done) }
                carryOut(machine.setConflict(true))
            }
        } catch {
            let package = loaded.package
            await FileQueue.shared.run {
                if succeedsInPlace { old.resume(insteadOf: package) } else { package.closeSaved() }
            }
            throw error
        }
        closeReplaced(old, coordinator)
        loadContents(of: loaded)
        presentedItemDidChange()
    }

    /// Keeps unsaved changes as a draft, and the last save as a version, in the replacement. Opening the replacement restores the
    /// draft.
    ///
    /// - Returns: The version, and whether there were unsaved changes.
    private func keepOwnSide(
        of open: OpenDocument, in loaded: inout OpenedPackage
    ) async throws -> (version: DocumentVersion.ID?, isUnsaved: Bool) {
        let (old, new) = (open.package, loaded.package)
        let theirDraft = loaded.draft
        var version: DocumentVersion.ID?
        while true {
            open.context.processPendingChanges()
            if !open.mayHaveUnsavedChanges { return (nil, false) }
            let (hasChanges, editCount) = (open.hasUnsavedChanges, open.editCount)
            if version == nil && hasChanges && !new.isReadOnly {
                do {
                    version = try await FileQueue.copies.run {
                        try new.keepConflictVersion(of: old).id
                    }
                } catch {
                    logger.error(
                        "Could not keep the last save of “\(path)” as a version before showing its replacement: \(error)"
                    )
                }
            }
            let collected = open.collectDraft()
            loaded.draft = try await FileQueue.shared.run {
                let unsaved = try collected()
                if unsaved.draft.isEmpty { return theirDraft }
                if new.isReadOnly { return .found(unsaved.draft, [:]) }
                return .found(
                    try new.writeDraft(unsaved), try new.draftFiles(of: unsaved.draft))
            }
            open.context.processPendingChanges()
            // Changes made meanwhile belong to it too.
            if open.editCount == editCount { return (version, hasChanges) }
        }
    }

    /// Drops the content of a document whose store has lost its files, and opens the package at the path.
    func showRemainingStore(of open: OpenDocument) async throws {
        let (old, coordinator) = (open.package, open.coordinator)
        try await FileQueue.shared.run {
            guard FileSystem.exists(old.layout.store) else {
                throw QuireError(
                    .notFound,
                    "The store of “\(old.layout.path)” was removed by another program; save the document as another "
                        + "one, or restore the store.",
                    file: old.layout.store)
            }
            // Connections to the same database share the index of its write-ahead log, which was replaced.
            if old.store.fileReplacement != .replaced { try old.store.abandon() }
        }
        let loaded = try await load(
            OpenRequest(model: coordinator.layout.model, isReadOnly: old.isReadOnly),
            succeeding: old)
        show(loaded, insteadOf: open)
        closeReplaced(old, coordinator)
        loadContents(of: loaded)
    }

    /// Closes a package whose files are no longer at its path, so that errors of closing do not matter.
    private func closeReplaced(
        _ package: DocumentPackage, _ coordinator: PersistentStoreCoordinator
    ) {
        FileQueue.shared.runLater {
            try? package.close()
            try? coordinator.close()
        }
    }

    private func show(_ loaded: OpenedPackage, insteadOf open: OpenDocument) {
        open.detach()
        stopPresenting()
        install(loaded)
    }

    private func loadContents(of loaded: OpenedPackage) {
        do {
            try load(fromContents: loaded.content.contents)
        } catch {
            // As after reverting, the document shows the new content even if the subclass cannot load it.
            handleError(QuireError(wrapping: error, path: path), userInteractionPermitted: true)
        }
    }
}

// MARK: - Changes by other programs

// Changes to the package by other programs while it is open.

extension ManagedDocument {
    /// Starts watching the package. If that is not possible, the next save detects changes.
    func watchPackage() {
        packageWatch?.cancel()
        packageWatch = try? PackageWatch(
            path: path, folder: openDocument?.package.folder, queue: .main
        ) { [weak self] event in
            MainActor.assumeIsolated { self?.packageDid(event) }
        }
    }

    func stopWatching() {
        packageWatch?.cancel()
        packageWatch = nil
    }

    func packageDid(_ event: PackageEvent) {
        guard machine.isOpen, !isClosing else { return }
        switch event {
        case .moved(let newPath):
            if FileName(newPath) != FileName(path) {
                Task { [weak self] in await self?.followPackage() }
            }
        case .replaced: adoptReplacedPackage()
        case .deleted: folderWasDeleted()
        case .changed(let parts): if parts.contains(.store) { storeDidChange() }
        }
    }

    /// Shows the package that is now at the path, or closes the document. A package that was exchanged with another one and then
    /// deleted is reported as both, possibly before the other one is shown.
    private func folderWasDeleted() {
        guard let package = openDocument?.package else { return }
        Task { [weak self] in
            let isReplaced = await FileQueue.shared.run { package.location() == .replaced }
            guard let self, openDocument?.package === package else { return }
            if isReplaced { adoptReplacedPackage() } else { packageWasDeleted() }
        }
    }

    /// Called after a write to the folder of the store, possibly by the document itself.
    private func storeDidChange() {
        guard let package = openDocument?.package else { return }
        Task { [weak self] in
            let location = await FileQueue.shared.run { package.location() }
            // Missing files may be about to be written; the next save checks.
            guard location == .storeReplaced, let self, openDocument?.package === package else {
                return
            }
            adoptReplacedPackage()
        }
    }

    /// Switches to the package's present path, when the document's turn comes. The next save tries again.
    func followPackage() async {
        await whileOpen("could not open the package at its new path") { [self] open in
            try await followPackage(of: open)
        }
    }

    /// Runs a body with exclusive access to the open package, unless the document is closed meanwhile. Failures are logged.
    func whileOpen(
        _ failure: String, _ body: @escaping @MainActor (OpenDocument) async throws -> Void
    ) async {
        do { try await withOpenDocument(body) } catch {
            if isOpen { logger.warning("“\(path)”: \(failure): \(error)") }
        }
    }

    /// Closes the document after its package was deleted, or replaced with another document. It is not created again.
    func packageWasDeleted() {
        Task { [weak self] in
            guard self?.openDocument != nil else { return }
            await self?.accommodatePresentedItemDeletion()
            // The subclass may have saved it as another document meanwhile.
            guard let self, let package = openDocument?.package else { return }
            guard await FileQueue.shared.run({ package.presentPath == nil }) else { return }
            do { try await close(discardingChanges: true) } catch {
                logger.warning("Could not close “\(path)”, which was deleted: \(error)")
            }
        }
    }
}
