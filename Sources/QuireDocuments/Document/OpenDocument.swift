import Foundation
import Quire

/// What happened to something that a document does not see itself.
public enum DocumentChange: Sendable, Hashable {
    /// It was changed.
    case done
    /// A change was undone.
    case undone
    /// A change was redone.
    case redone
    /// It is as it was saved.
    case cleared
}

/// What there is of a document only while it is open: the package, the two contexts, and what is unsaved.
///
/// Saving, as a list of steps:
///
/// 1. On the main actor: end the user event, mark the position of the change counters, push the context's changes to the
///    parent, and take the changes of additional content over. That is the snapshot.
/// 2. Off the main queue: write a new generation of additional content, durably, if there are such changes.
/// 3. On the parent's queue: save the parent, with the number of the generation, in one transaction.
/// 4. Off the main queue: bring the metadata up to date and remove what nobody needs any more.
/// 5. On the main actor: the document is clean as of the snapshot.
///
/// If step 1 fails nothing has changed. If step 2 or 3 fails, objects' changes stay in the parent, and those of additional
/// content are put back; the next save writes them.
@MainActor
final class OpenDocument {
    /// What a save has to write.
    struct Snapshot: Sendable {
        var content: AdditionalContentChanges
    }

    let package: DocumentPackage
    let coordinator: PersistentStoreCoordinator
    let parent: PrivateQueueContext
    let context: ManagedObjectContext
    /// Called after every change.
    var changed: () -> Void = {}

    /// The paths of all files of additional content, unsaved changes included.
    private(set) var contentNames: AdditionalContentNames
    private var generation: Int?
    private var unsavedContent = AdditionalContentChanges()
    /// What the running save writes.
    private var contentBeingSaved = AdditionalContentChanges()
    /// The draft in the store that stands for unsaved changes; see `OpenDocument+Drafts`.
    var draftInStore: DocumentDraft?
    var draftStatus = DocumentDraftStatus.none
    /// Whether the parent may have a record of a generation that was given up.
    private var mustRecordGeneration = false
    /// Whether the parent has changes that no save has written.
    private var hasPushedChanges = false
    /// Whether the context's objects are as they were saved.
    private var savedPosition = SavedPosition(at: 0)
    /// The position of the context while there is no undo manager.
    private let fixedPosition: UInt64 = 0
    /// Changes of what the document does not see itself.
    private var otherChanges = ChangeCounter()

    init(_ loaded: LoadedPackage) {
        package = loaded.package
        generation = loaded.generation
        contentNames = loaded.names
        coordinator = PersistentStoreCoordinator(store: package.store)
        parent = PrivateQueueContext(coordinator: coordinator)
        context = ManagedObjectContext.mainQueue(parent: parent)
        context.isObservable = true
        context.changeHandler = { [weak self] in self?.contextDidChange() }
        observe(UndoManager())
    }

    // MARK: Changes

    /// Whether anything differs from the last save.
    var hasUnsavedChanges: Bool {
        !savedPosition.isClean(at: position) || otherChanges.hasChanges || hasPushedChanges
            || !unsavedContent.isEmpty || !contentBeingSaved.isEmpty
    }

    /// Whether a save might write anything: also when undo has led back to what was saved, which the context may not
    /// know. To be asked before changes are dropped.
    var mayHaveUnsavedChanges: Bool {
        hasUnsavedChanges || context.hasChanges || draftInStore != nil
    }

    /// The changes of additional content that the store does not have, those that a save is writing included.
    var allUnsavedContent: AdditionalContentChanges {
        unsavedContent.following(contentBeingSaved)
    }

    func observe(_ undoManager: UndoManager?) {
        let old = position
        context.undoManager?.didChange = nil
        context.undoManager = undoManager
        undoManager?.didChange = { [weak self] in self?.undoManagerDidChange() }
        savedPosition.move(from: old, to: position)
    }

    /// Where undo and redo have led to; `nil` while a group is open.
    private var position: UInt64? {
        guard let undoManager = context.undoManager else { return fixedPosition }
        return undoManager.position
    }

    private var isUndoing: Bool {
        context.undoManager.map { $0.isUndoing || $0.isRedoing } ?? false
    }

    /// What undo and redo change, the undo manager tells when it is through.
    private func undoManagerDidChange() {
        if !isUndoing { changed() }
    }

    private func contextDidChange() {
        if isUndoing { return }
        if !context.lastEventIsUndoable {
            if !context.hasChanges && !hasPushedChanges, let position {
                savedPosition = SavedPosition(at: position)  // It was rolled back.
            } else {
                savedPosition.changeForGood()
            }
        }
        changed()
    }

    func count(_ change: DocumentChange) {
        switch change {
        case .done: otherChanges.count(.done)
        case .undone: otherChanges.count(.undone)
        case .redone: otherChanges.count(.redone)
        case .cleared: otherChanges.clear()
        }
    }

    // MARK: Additional content

    func contentData(at path: String) throws -> Data? {
        if let unsaved = unsavedContent.files[path] ?? contentBeingSaved.files[path] {
            return unsaved
        }
        guard contentNames.contains(path) || package.isReadOnly else { return nil }
        // A reader beside a writer reads what is saved now; the writer itself knows its generation.
        return package.isReadOnly
            ? try package.additionalContent(at: path)
            : try package.content.data(at: path, in: generation)
    }

    func changeContent(_ data: Data?, at path: String) {
        unsavedContent.files.updateValue(data, forKey: path)
        if data == nil { contentNames.remove(path) } else { contentNames.insert(path) }
    }

    // MARK: Saving

    func takeSnapshot() throws -> Snapshot {
        context.processPendingChanges()
        let pushes = context.hasChanges
        try context.save()
        if pushes { hasPushedChanges = true }
        savedPosition.beginSave(at: position)
        otherChanges.beginSave()
        contentBeingSaved = unsavedContent
        unsavedContent = AdditionalContentChanges()
        return Snapshot(content: contentBeingSaved)
    }

    func write(_ snapshot: Snapshot) async throws {
        let package = package
        let old = generation
        let changesContent = !snapshot.content.isEmpty
        let new =
            changesContent
            ? try await FileQueue.shared.run {
                try package.content.write(snapshot.content, after: old)
            } : old
        let records: String?? =
            changesContent || mustRecordGeneration ? .some(new.map(String.init)) : nil
        let removesDraft = draftInStore != nil
        do {
            try await parent.perform { context in
                if let record = records {
                    context.setRecord(record, forKey: AdditionalContentStore.recordKey)
                }
                if removesDraft { context.setRecord(nil, forKey: SQLiteStore.draftRecordKey) }
                try context.save()
            }
        } catch {
            if changesContent {
                mustRecordGeneration = true
                try? await discard(new, unlessUncertain: error)
            }
            throw error
        }
        mustRecordGeneration = false
        draftInStore = nil
        generation = new
        if changesContent {
            try? await FileQueue.shared.run { [new] in package.tidy(generation: new) }
        }
    }

    /// Removes a generation that was not recorded, to give its space back, unless the transaction may yet turn out to have
    /// been committed: then the next owner of the package decides.
    private func discard(_ new: Int?, unlessUncertain error: any Error) async throws {
        let certain: Set<QuireError.Code> = [
            .outOfSpace, .readOnly, .validation, .constraintConflict, .mergeConflict,
        ]
        guard let new, let code = (error as? QuireError)?.code, certain.contains(code) else {
            return
        }
        let content = package.content
        try await FileQueue.shared.run { content.discard(new) }
    }

    func didFinishSave(succeeded: Bool) {
        if succeeded {
            hasPushedChanges = false
            savedPosition.finishSave()
            otherChanges.finishSave()
        } else {
            savedPosition.failSave()
            otherChanges.failSave()
            unsavedContent = allUnsavedContent
        }
        contentBeingSaved = AdditionalContentChanges()
    }

    // MARK: Reverting and closing

    func revert() async throws {
        let package = package
        let loaded = try await FileQueue.shared.run { try LoadedPackage(package) }
        await removeDraft()
        await parent.perform { $0.reset() }
        context.reset()
        generation = loaded.generation
        contentNames = loaded.names
        unsavedContent = AdditionalContentChanges()
        mustRecordGeneration = false
        hasPushedChanges = false
        savedPosition = SavedPosition(at: position ?? fixedPosition)
        otherChanges.clear()
    }

    /// Lets go of the objects: those that are held belong to no context afterwards.
    func detach() {
        context.changeHandler = nil
        context.undoManager?.didChange = nil
        context.reset()
        context.undoManager = nil
    }
}
