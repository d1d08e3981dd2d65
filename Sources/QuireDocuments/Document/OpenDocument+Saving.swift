import Quire

extension OpenDocument {
    /// Takes over what there is to save; on the main actor.
    func takeSnapshot(content rewriting: AdditionalContentChanges.Rewriting?) throws -> Snapshot {
        try pushChanges()
        tokenBeingSaved = takeChangeToken()
        contentBeingSaved = unsavedContent
        contentBeingSaved.rewriting = rewriting
        unsavedContent = AdditionalContentChanges()
        return Snapshot(content: contentBeingSaved, contentNames: contentNames)
    }

    /// Hands the context's changes to the parent.
    private func pushChanges() throws {
        context.processPendingChanges()
        let pushes = context.hasChanges
        try context.save(evenIfUnchanged: false) { [parent, parentChanges] changes in
            try parent.save(changes, isNoted: false) { parent in
                try parentChanges.ignoring(parent) { try parent.apply(changes) }
            }
            return []
        }
        if pushes { hasPushedChanges = true }
    }

    func write(_ snapshot: Snapshot) async throws {
        let package = package
        let old = generation
        let changesContent = !snapshot.content.isEmpty
        let new =
            changesContent
            ? try await FileQueue.shared.run {
                try package.writeContent(snapshot.content, after: old)
            } : old
        let records: String?? =
            changesContent || mustRecordGeneration ? .some(new.map(String.init)) : nil
        let removesDraft = draftInStore != nil
        do {
            try await parent.performWithoutObjects { [parentChanges] context in
                parentChanges.beginSave()
                parentChanges.ignoring(context) {
                    if let record = records {
                        context.setRecord(record, forKey: AdditionalContentStore.recordKey)
                    }
                    if removesDraft {
                        context.setRecord(nil, forKey: SQLiteStore.draftRecordKey)
                    }
                }
                try context.save()
                parentChanges.didSave()
            }
        } catch {
            if changesContent {
                mustRecordGeneration = true
                try? await discard(new, unlessUncertain: error)
            }
            throw error
        }
        mustRecordGeneration = false
        if draftInStore?.largeFiles.isEmpty == false {
            try? await FileQueue.shared.run { package.removeDraftFiles() }
        }
        draftInStore = nil
        generation = new
        if changesContent {
            if snapshot.content.rewriting != nil { try? await readContentNames(of: package) }
            try? await FileQueue.shared.run { [new] in package.tidy(generation: new) }
        }
    }

    /// Takes notice of the files that a subclass has written.
    private func readContentNames(of package: DocumentPackage) async throws {
        let generation = generation
        let paths = try await FileQueue.shared.run {
            try package.content.files(in: generation).map(\.path)
        }
        contentNames = AdditionalContentNames(paths)
        for (path, change) in unsavedContent.files {
            if change.isRemoval { contentNames.remove(path) } else { contentNames.insert(path) }
        }
    }

    /// Removes a generation that was not recorded, to give its space back, unless the transaction may yet turn out to have
    /// been committed: then the next owner of the package decides.
    private func discard(_ new: Int?, unlessUncertain error: any Error) async throws {
        let certain: Set<QuireError.Code> = [
            .outOfSpace, .readOnly, .validation, .constraintConflict, .mergeConflict,
            .storeReplaced,
        ]
        guard let new, let code = (error as? QuireError)?.code, certain.contains(code),
            !error.leavesCommitOpen
        else { return }
        let content = package.content
        try await FileQueue.shared.run { content.discard(new) }
    }

    func didFinishSave(succeeded: Bool) {
        let token = tokenBeingSaved
        // What is shown may be another package since the snapshot was taken.
        if token == 0 { return }
        tokenBeingSaved = 0
        if succeeded {
            draftError = nil
            hasPushedChanges = false
            didSave(token)
        } else {
            didFailToSave(token)
            // What a subclass writes itself it is asked for again.
            contentBeingSaved.rewriting = nil
            unsavedContent = allUnsavedContent
        }
        contentBeingSaved = AdditionalContentChanges()
    }

    // MARK: - Elsewhere

    /// Takes over what a copy is to have beyond the last save; on the main actor. The document stays as unsaved as it was.
    func takeCopySnapshot(
        content rewriting: AdditionalContentChanges.Rewriting?
    ) throws -> Snapshot {
        try pushChanges()
        var content = unsavedContent
        content.rewriting = rewriting
        return Snapshot(content: content, contentNames: contentNames)
    }

    /// Writes a copy of the document to another package.
    func writeCopy(to destination: SaveDestination, _ snapshot: Snapshot) async throws {
        let unsaved = UnsavedChanges(
            objects: try await unsavedObjects(), content: snapshot.content,
            contentNames: snapshot.contentNames)
        let package = package
        try await FileQueue.copies.run { try package.writeCopy(to: destination, with: unsaved) }
    }

    /// Saves the document to another package, and goes on with that.
    ///
    /// - Returns: The error that names the files which the new package lacks; see
    ///   ``DocumentPackage/saveAs(_:with:)``.
    func saveAs(
        _ destination: SaveDestination, _ snapshot: Snapshot
    ) async throws -> QuireError? {
        do {
            let old = package
            let unsaved = UnsavedChanges(
                objects: try await unsavedObjects(), content: snapshot.content,
                contentNames: snapshot.contentNames)
            let (new, derived, incomplete) = try await FileQueue.copies.run {
                try old.saveAs(destination, with: unsaved)
            }
            try await switchPackage(from: old, to: new, saved: unsaved.objects, derived)
            generation = try await FileQueue.shared.run { try new.liveGeneration() }
            mustRecordGeneration = false
            isStoreMissing = false
            if snapshot.content.rewriting != nil || incomplete != nil {
                try? await readContentNames(of: new)
            }
            didFinishSave(succeeded: true)
            let hadDraft = draftInStore != nil
            draftInStore = nil
            try? await FileQueue.shared.run {
                // What it stands for is saved elsewhere.
                if hadDraft { try? old.removeDraft() }
                try old.close()
            }
            return incomplete
        } catch {
            didFinishSave(succeeded: false)
            throw error
        }
    }

    /// What the parent has not saved yet.
    private func unsavedObjects() async throws -> ChangeSet {
        try await parent.performWithoutObjects { context in try context.withUnsavedChanges { $0 } }
    }

    /// Has the parent know that its changes are saved, to a package that takes the old one's place.
    private func switchPackage(
        from old: DocumentPackage, to new: DocumentPackage, saved: ChangeSet,
        _ derived: [ManagedObjectID]
    ) async throws {
        do {
            try await parent.performWithoutObjects { [parentChanges] context in
                parentChanges.beginSave()
                try context.save(replacing: old.store) { changes in
                    guard changes.hasSameObjects(as: saved) else {
                        throw QuireError(
                            .invalidState,
                            "Objects of “\(old.layout.path)” were saved to the context's parent while the document was "
                                + "being saved as “\(new.layout.path)”; that is a copy without them. Save it again.",
                            subject: .init(file: new.layout.path))
                    }
                    return (new.store, derived)
                }
                parentChanges.didSave()
            }
        } catch {
            try? await FileQueue.shared.run { try new.close() }
            throw error
        }
        package = new
    }

    // MARK: - Other content

    /// Makes the package's content that of another package. The contexts are to be reset afterwards.
    func replaceContent(with path: String, migrating migration: StoreMigrationOptions?) async throws
    {
        let old = package
        let new = try await FileQueue.copies.run {
            let other = try DocumentPackage.open(at: path, readOnly: true)
            defer { try? other.close() }
            return try old.replaceContent(with: other, migrating: migration)
        }
        await switchPackage(from: old, to: new)
    }

    /// Goes on with a package that has other content.
    func switchPackage(from old: DocumentPackage, to new: DocumentPackage) async {
        await parent.performWithoutObjects { $0.replaceStore(old.store, with: new.store) }
        package = new
        // What cannot be tidied up now is when the package is opened.
        try? await FileQueue.shared.run {
            try old.close()
            new.removeReplacedContent()
        }
    }

    /// Makes the files of the store again, which others have removed or replaced.
    func restoreStore() async throws {
        let old = package
        let new = try await FileQueue.copies.run { try old.restoringStore() }
        await switchPackage(from: old, to: new)
        isStoreMissing = false
    }

    // MARK: - Packages that are moved

    /// Renames the package's folder. It is gone on with there by ``follow()``.
    func move(to path: String) async throws {
        let old = package.layout.path
        try await FileQueue.shared.run {
            try FileSystem.renameWithoutReplacing(old, to: path)
            do {
                try FileSystem.synchronizeFolder(containing: path)
                try FileSystem.synchronizeFolder(containing: old)
            } catch {
                try? FileSystem.renameWithoutReplacing(path, to: old)
                throw error
            }
        }
    }

    /// Goes on with the package where it is now.
    ///
    /// - Returns: Its new path; `nil` if it is where it was.
    /// - Throws: ``QuireError`` with code `notFound` if it was deleted, `storeReplaced` if others have replaced it or its store,
    ///   or what opening its store there throws.
    func follow() async throws -> String? {
        let old = package
        let place = try await FileQueue.shared.run { () throws -> String? in
            switch old.location() {
            case .here: return nil
            case .moved(let path): return path
            case .removed: throw old.deleted
            case .replaced, .storeReplaced, .storeLost:
                throw QuireError(
                    .storeReplaced,
                    "“\(old.layout.path)”, or its store, was replaced by somebody else while it was open.",
                    subject: .init(file: old.layout.path))
            }
        }
        guard let place else { return nil }
        // With objects, so that whoever reads waits meanwhile: on a network the old store is closed before there is the new one.
        package = try await parent.perform { context in
            let moved = try old.moved(to: place)
            context.replaceStore(old.store, with: moved.store)
            return moved
        }
        try? await FileQueue.shared.run { try old.close() }
        return place
    }
}

extension ChangeSet {
    /// Whether it is about the same objects, in the same way.
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
