import Foundation
import Logging
import Quire
internal import QuireSQLite

// A save, step by step:
//
// 1. Main actor, when the request's turn comes: the subclass provides its content, the context's changes are pushed to the
//    parent, the change counters are marked, and the changes of additional content are collected. That is the snapshot.
// 2. The package is located; it may have been moved, or replaced by another program.
// 3. A version of the last save is kept, if the version policy says so.
// 4. Off the main queue: a new generation of additional content is written, durably, if there are such changes.
// 5. On the parent's queue: the parent is saved, with the number of the generation, in one transaction.
// 6. Off the main queue: files of the generation before and of the draft are removed.
// 7. Main actor: the document is clean as of the snapshot.
//
// If step 1 fails nothing has changed. If a later step fails, changes of objects stay in the parent, those of additional content
// become unsaved again, and the next save writes both; changes that cannot be saved because of the state of the objects are kept as
// a draft.

private let logger = Logger(label: "quire.document")

extension ManagedDocument {
    /// Step 1.
    func takeSnapshot() throws -> OpenDocument.Snapshot {
        let open = requireOpen()
        if documentState.contains(.inConflict) { throw conflictError }
        if open.package.isReadOnly {
            throw QuireError(
                .readOnly,
                "“\(path)” is open for reading only; save it as another document.", file: path)
        }
        return try open.takeSnapshot(for: .save, content: contentToWrite())
    }

    /// The subclass's part of a snapshot.
    func contentToWrite() throws -> AdditionalContentChanges.Rewriting? {
        guard let content = try contents(forType: fileType) else { return nil }
        return { [self] folder, original in
            try writeAdditionalContent(
                content, to: URL(fileURLWithPath: folder, isDirectory: true),
                originalContentsURL: original.map { URL(fileURLWithPath: $0, isDirectory: true) })
        }
    }

    /// Steps 2 to 6.
    func performSave(_ snapshot: Result<OpenDocument.Snapshot, any Error>) async throws {
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
        try await followPackage(of: open)
        await keepVersionBeforeSave()
        try await open.write(snapshot)
    }

    /// Step 7.
    func finishSave(_ error: QuireError?) {
        openDocument?.finishSave(succeeded: error == nil)
        lastSaveError = error
        autosaveSchedule.didSave(succeeded: error == nil, at: .now)
        if error == nil { didSucceedSaving() }
    }

    func finishSaveAs() {
        lastSaveError = nil
        autosaveSchedule.didSave(succeeded: true, at: .now)
        didSucceedSaving()
    }

    private func didSucceedSaving() {
        fileModificationDate = Date()
        didSave()
        didSaveForLibrary()
    }

    // MARK: Versions

    /// Call it before a save writes anything. Failing to keep a version does not prevent the save.
    func keepVersionBeforeSave() async {
        guard versionPolicy.occasion == .beforeFirstChange, let package = openDocument?.package
        else { return }
        let policy = versionPolicy
        await FileQueue.shared.run { package.keepVersionBeforeSave(policy) }
    }

    /// Call it after a save has succeeded. Versions are kept in the background.
    func keepVersionAfterSave() {
        guard case .every = versionPolicy.occasion, let package = openDocument?.package else {
            return
        }
        let policy = versionPolicy
        Task.detached {
            await FileQueue.copies.run { package.keepVersionAfterSave(policy) }
        }
    }
}

extension OpenDocument {
    /// The changes that a save writes.
    struct Snapshot: Sendable {
        var content: AdditionalContentChanges
        /// The names of all files of additional content, including these changes.
        var contentNames = AdditionalContentNames([])
    }

    enum SnapshotPurpose {
        /// A save, after which the document is clean.
        case save
        /// A copy, after which the document is as unsaved as before.
        case copy
    }

    /// Takes a snapshot of the document; `finishSave(succeeded:)` ends it if it is for a save.
    func takeSnapshot(
        for purpose: SnapshotPurpose, content rewriting: AdditionalContentChanges.Rewriting?
    ) throws -> Snapshot {
        try contexts.pushChanges()
        var snapshot = Snapshot(content: unsavedContent, contentNames: contentNames)
        snapshot.content.rewriting = rewriting
        if purpose == .save {
            tokenBeingSaved = takeChangeToken()
            contentBeingSaved = snapshot.content
            unsavedContent = AdditionalContentChanges()
        }
        return snapshot
    }

    /// Writes a snapshot to the package: steps 4 to 6.
    func write(_ snapshot: Snapshot) async throws {
        let package = package
        let old = generation
        let changesContent = !snapshot.content.isEmpty
        let new =
            changesContent
            ? try await FileQueue.shared.run {
                try package.writeContent(snapshot.content, after: old)
            } : old
        do {
            var records: [String: String?] = [:]
            if changesContent || mustRecordGeneration {
                records = AdditionalContentStore.records(
                    ofGeneration: new, after: snapshot.content)
            }
            try await saveParent(records)
        } catch {
            if changesContent {
                mustRecordGeneration = true
                await discard(new, after: error)
            }
            throw error
        }
        mustRecordGeneration = false
        let removesDraftFiles = draftInStore?.largeFiles.isEmpty == false
        draftInStore = nil
        generation = new
        if changesContent && snapshot.content.rewriting != nil {
            await readContentNames(of: package)
        }
        if removesDraftFiles || changesContent {
            // If that fails, opening the package removes them.
            await FileQueue.shared.run {
                if removesDraftFiles { package.removeDraftFiles() }
                if changesContent { package.tidy(generation: new) }
            }
        }
    }

    /// Saves the parent and the records of additional content in one transaction: step 5. It removes the draft, which is saved
    /// with it.
    private func saveParent(_ records: [String: String?]) async throws {
        let removesDraft = draftInStore != nil
        try await parent.performWithoutObjects { [parentChanges = contexts.parentChanges] context in
            parentChanges.beginSave()
            parentChanges.ignoring(context) {
                for (key, value) in records { context.setRecord(value, forKey: key) }
                if removesDraft {
                    context.setRecord(nil, forKey: SQLiteStore.draftRecordKey)
                }
            }
            try context.save()
            parentChanges.didSave()
        }
    }

    /// Removes an unrecorded generation to free its space, unless the transaction may have been committed; in that case the next owner of
    /// the package determines it.
    private func discard(_ generation: Int?, after error: any Error) async {
        let certain: Set<QuireError.Code> = [
            .outOfSpace, .readOnly, .validation, .constraintConflict, .mergeConflict,
            .storeReplaced,
        ]
        guard let generation, let code = (error as? QuireError)?.code, certain.contains(code),
            !error.leavesCommitOpen
        else { return }
        let content = package.content
        await FileQueue.shared.run { content.discard(generation) }
    }

    /// Reads the names of the files that a subclass has written, and applies the unsaved changes to them.
    func readContentNames(of package: DocumentPackage) async {
        let generation = generation
        do {
            let paths = try await FileQueue.shared.run {
                try package.content.files(in: generation).map(\.path)
            }
            contentNames = AdditionalContentNames(paths)
        } catch {
            logger.warning(
                "Could not list the additional content of “\(package.layout.path)”: \(error)")
            return
        }
        for (path, change) in unsavedContent.files {
            if change.isRemoval { contentNames.remove(path) } else { contentNames.insert(path) }
        }
    }

    /// Ends a snapshot for a save: step 7.
    func finishSave(succeeded: Bool) {
        let token = tokenBeingSaved
        // The document may have switched to another package since the snapshot was taken.
        if token == 0 { return }
        tokenBeingSaved = 0
        if succeeded {
            draftError = nil
            contexts.hasPushedChanges = false
            didSave(token)
        } else {
            didFailToSave(token)
            // The subclass will provide its content again.
            contentBeingSaved.rewriting = nil
            unsavedContent = allUnsavedContent
        }
        contentBeingSaved = AdditionalContentChanges()
    }
}
