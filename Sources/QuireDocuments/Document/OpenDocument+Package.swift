import Foundation
import Quire
internal import QuireStore

// The package of an open document: copying, replacing and moving it.

extension OpenDocument {
    // MARK: Copies

    /// Writes a copy of the document to another package.
    func writeCopy(to destination: SaveDestination, _ snapshot: Snapshot) async throws {
        let unsaved = try await unsavedChanges(of: snapshot)
        let package = package
        try await FileQueue.copies.run { try package.writeCopy(to: destination, with: unsaved) }
    }

    /// Saves the document to another package, and switches to that.
    ///
    /// - Returns: The error that lists the files missing from the new package; see
    ///   ``DocumentPackage/saveAs(_:with:)``.
    func saveAs(
        _ destination: SaveDestination, _ snapshot: Snapshot
    ) async throws -> QuireError? {
        do {
            let old = package
            let unsaved = try await unsavedChanges(of: snapshot)
            let (new, derived, incomplete) = try await FileQueue.copies.run {
                try old.saveAs(destination, with: unsaved)
            }
            try await switchPackage(from: old, to: new, saved: unsaved.objects, derived)
            generation = try await FileQueue.shared.run { try new.liveGeneration() }
            mustRecordGeneration = false
            isStoreMissing = false
            if snapshot.content.rewriting != nil || incomplete != nil {
                await readContentNames(of: new)
            }
            finishSave(succeeded: true)
            let hadDraft = draftInStore != nil
            draftInStore = nil
            await FileQueue.shared.run {
                // Its changes are saved in the new package. If it is not removed, opening the old one restores it.
                if hadDraft { try? old.removeDraft() }
                old.closeSaved()
            }
            return incomplete
        } catch {
            finishSave(succeeded: false)
            throw error
        }
    }

    /// A snapshot with the changes that the parent has not saved.
    private func unsavedChanges(of snapshot: Snapshot) async throws -> UnsavedChanges {
        UnsavedChanges(
            objects: try await contexts.unsavedChanges(), content: snapshot.content,
            contentNames: snapshot.contentNames)
    }

    // MARK: Other packages

    /// Replaces the package's content with that of another package. Reset the contexts afterwards.
    func replaceContent(
        with path: String, migrating migration: StoreMigrationOptions?, progress: Progress
    ) async throws {
        let old = package
        let new = try await FileQueue.copies.run {
            let other = try DocumentPackage.open(at: path, readOnly: true)
            // It was opened for reading only.
            defer { try? other.close() }
            return try old.replaceContent(
                with: other, migrating: migration, progress: progress)
        }
        await switchPackage(from: old, to: new)
    }

    /// Creates the files of the store again, which another program has removed or replaced.
    func restoreStore() async throws {
        let old = package
        let new = try await FileQueue.copies.run { try old.restoringStore() }
        await switchPackage(from: old, to: new)
        isStoreMissing = false
    }

    /// Switches to a package with other content.
    func switchPackage(from old: DocumentPackage, to new: DocumentPackage) async {
        coordinator.willReplace(old.store)
        defer { coordinator.didReplace(old.store, with: new.store) }
        await parent.performWithoutObjects { $0.replaceStore(old.store, with: new.store) }
        package = new
        await FileQueue.shared.run {
            old.closeSaved()
            new.removeReplacedContent()
        }
    }

    /// Switches to a package that has the parent's changes, which are saved then.
    private func switchPackage(
        from old: DocumentPackage, to new: DocumentPackage, saved: ChangeSet,
        _ derived: [ManagedObjectID]
    ) async throws {
        coordinator.willReplace(old.store)
        do {
            try await parent.performWithoutObjects {
                [parentChanges = contexts.parentChanges] context in
                parentChanges.beginSave()
                try context.save(replacing: old.store) { changes in
                    guard changes.hasSameObjects(as: saved) else {
                        throw QuireError(
                            .invalidState,
                            "Objects of “\(old.layout.path)” were saved to the context's parent while the document was "
                                + "being saved as “\(new.layout.path)”, which does not contain them. Save it again.",
                            file: new.layout.path)
                    }
                    return (new.store, derived)
                }
                parentChanges.didSave()
            }
        } catch {
            await FileQueue.shared.run { new.closeSaved() }
            throw error
        }
        package = new
        coordinator.didReplace(old.store, with: new.store)
    }

    // MARK: Moving

    /// Renames the package's folder; ``follow()`` switches to its new path.
    func move(to path: String) async throws {
        let old = package.layout.path
        if package.isArchived {
            throw QuireError(
                .readOnly,
                "“\(old)” is an archive with an open document; close the document, then move the archive as a file.",
                file: old)
        }
        try await FileQueue.shared.run {
            try DocumentPackageLayout(path: path).requireOpenablePath()
            try FileSystem.renameWithoutReplacing(old, to: path)
            do {
                try FileSystem.synchronizeFolder(containing: path)
                try FileSystem.synchronizeFolder(containing: old)
            } catch {
                // If that fails too, it is followed like a package moved by another program.
                try? FileSystem.renameWithoutReplacing(path, to: old)
                throw error
            }
        }
    }

    /// Switches to the package's present path.
    ///
    /// - Returns: Its new path; `nil` if it was not moved.
    /// - Throws: ``QuireError`` with code `notFound` if it was deleted, `storeReplaced` if another program has replaced it or its store,
    ///   or errors of opening its store there.
    func follow() async throws -> String? {
        let old = package
        let newPath = try await FileQueue.shared.run { () throws -> String? in
            switch old.location() {
            case .here: return nil
            case .moved(let path): return path
            case .removed: throw old.deleted
            case .replaced, .storeReplaced, .storeLost:
                throw QuireError(
                    .storeReplaced,
                    "“\(old.layout.path)” or its store was replaced by another program while it was open.",
                    file: old.layout.path)
            }
        }
        guard let newPath else { return nil }
        coordinator.willReplace(old.store)
        // With objects, so that readers wait meanwhile: on a network the old store is closed before the new one is opened.
        package = try await parent.perform { context in
            let moved = try old.moved(to: newPath)
            context.replaceStore(old.store, with: moved.store)
            return moved
        }
        coordinator.didReplace(old.store, with: package.store)
        await FileQueue.shared.run { old.closeSaved() }
        return newPath
    }
}

extension ChangeSet {
    /// Whether it has the same changes of the same objects.
    fileprivate func hasSameObjects(as other: ChangeSet) -> Bool {
        inserted.elementsEqual(other.inserted, by: Self.isSame)
            && updated.elementsEqual(other.updated, by: Self.isSame)
            && deleted.map(\.objectID) == other.deleted.map(\.objectID)
    }

    private static func isSame(_ left: ObjectChange, _ right: ObjectChange) -> Bool {
        if left.objectID != right.objectID || left.changedSlots != right.changedSlots {
            return false
        }
        return left.values == right.values && left.toManyChanges == right.toManyChanges
    }
}
