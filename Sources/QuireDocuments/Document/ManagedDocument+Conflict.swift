import Logging
import Quire

private let logger = Logger(label: "quire.document")

/// Which of two contents a document is to have.
public enum DocumentConflictChoice: Sendable, Hashable {
    /// What is in the document: the changes that were unsaved, made to what the others have left.
    case own
    /// What the others have left.
    case others
}

// A program that brings documents from elsewhere may replace the package while it is open here. Then what is at the path is
// shown, with new contexts. What was unsaved is made again in that, by objects and properties, and is kept as a draft in the
// new package, so that nothing is lost whatever happens; the document is in conflict until somebody has decided.

extension ManagedDocument {
    /// Ends a conflict: somebody else has replaced the package while there were unsaved changes here.
    ///
    /// With `own`, the document is saved; what the others have left is kept as a version before. If what the others have
    /// changed contradicts what is unsaved here, that is a conflict of saving as usual, and nothing is lost. With `others`,
    /// the unsaved changes are dropped.
    ///
    /// - Throws: As ``save()`` or ``revert()``; the conflict is over then too, and the document unsaved. With code
    ///   `invalidState` if there is no conflict.
    public func resolveConflict(keeping choice: DocumentConflictChoice) async throws {
        guard documentState.contains(.inConflict) else {
            throw QuireError(
                .invalidState, "“\(path)” is not in conflict.", subject: .init(file: path))
        }
        carryOut(machine.setConflict(false))
        switch choice {
        case .own:
            let package = requireOpen().package
            // What the others have left can be come back to.
            _ = try? await FileQueue.copies.run {
                try package.keepVersion(reason: .beforeChanges, onlyIfNew: true)
            }
            try await save()
        case .others: try await revert()
        }
    }

    /// Shows the package that somebody has put into the place of the document's.
    func takeOverReplacement() {
        Task { [weak self] in
            guard let self else { return }
            var isShown = false
            let number = requests.addWork { [self] open in
                { isShown = try await self.replacePackage(open) }
            }
            do {
                try await request(.revert(number))
            } catch {
                logger.warning("What has taken the place of “\(path)” is not shown: \(error)")
                return packageIsGone()
            }
            if isShown { presentedItemDidChange() }
        }
    }

    /// - Returns: Whether another package is shown now.
    private func replacePackage(_ open: OpenDocument) async throws -> Bool {
        let (old, coordinator) = (open.package, open.coordinator)
        // It may have come back meanwhile, or have been followed.
        if try await FileQueue.shared.run({ old.isInPlace || old.presentPath != nil }) {
            return false
        }
        // What background contexts save from here on would be neither in the draft nor in the new contexts.
        _ = await open.refuseChanges(discardingChanges: true)
        var isReplaced = false
        defer { if !isReplaced { Task { await open.takeChanges() } } }
        let unsaved = open.hasUnsavedChanges ? try open.collectDraft()() : nil
        let loaded = try await load(
            Opening(model: coordinator.layout.model, isReadOnly: old.isReadOnly))
        guard loaded.package.store.identity.uuid == old.store.identity.uuid else {
            let package = loaded.package
            try? await FileQueue.shared.run { try package.close() }
            throw QuireError(
                .notFound, "“\(path)” is another document now.", subject: .init(file: path))
        }
        isReplaced = true
        open.detach()
        install(loaded, draft: unsaved.map { .found($0) } ?? loaded.draft)
        FileQueue.shared.runLater {
            try? old.close()
            try? coordinator.close()
        }
        if unsaved != nil {
            carryOut(machine.setConflict(true))
            // It is not in this package yet.
            requireOpen().draftInStore = nil
            try? await requireOpen().saveDraft()
        }
        do {
            try load(fromContents: loaded.content.contents)
        } catch {
            // As after reverting, the document shows what is there even if the subclass cannot make anything of it.
            handleError(QuireError(wrapping: error, path: path), userInteractionPermitted: true)
        }
        return true
    }
}
