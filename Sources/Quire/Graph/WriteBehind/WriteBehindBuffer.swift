internal import QuireStore

/// The saves of the children of a document's parent context that the store does not have: buffered as values, which any thread
/// may read, until the parent's own objects are used.
///
/// Either the values are buffered, and the parent has no objects; then children read and save without waiting for its queue. Or
/// they are materialized as changes of its objects by ``ManagedObjectContext/takeOver(_:)``, and children read these on its
/// queue. They are materialized when a block begins to use the context, when a child's save contradicts another child's, and
/// when the store reports a conflict; buffering resumes when the context has neither changes nor objects.
final class WriteBehindBuffer: Sendable {
    struct State: ~Copyable {
        /// Whether values are buffered.
        var isBuffering = false
        /// The pending changes of the next save.
        var current = PendingChangeSet()
        /// The changes of the running save.
        var saving: PendingChangeSet?
        /// Both, while a save runs, for readers.
        var both = PendingChangeSet()
        /// Cached predicate matches among the visible changes.
        var matches = PredicateMatchCache()
        var savedVersions = SavedVersions()
        /// Incremented whenever rows of the store may be newer than an existing view.
        var generation = 0
        /// The children's snapshot, if one was made since the last change.
        var view: WriteBehindSnapshot?
        /// The merges pending for the context, if it merges automatically.
        var parentSaveMerger: ParentSaveMerger?
        /// Called on the thread of a child that has saved.
        var didTakeChanges: (@Sendable () -> Void)?

        /// All changes that the store does not have.
        var visible: PendingChangeSet { saving == nil ? current : both }
    }

    private let state = Lock(State())
    private let coordinator: PersistentStoreCoordinator
    /// The entities with pending changes that derived values depend on; `nil` if the model derives nothing.
    private let dirtyDerivationSources: DirtyDerivationSources?

    init(coordinator: PersistentStoreCoordinator, dirtyDerivationSources: DirtyDerivationSources?) {
        self.coordinator = coordinator
        self.dirtyDerivationSources = dirtyDerivationSources
    }

    func withState<Result>(_ body: (inout sending State) throws -> sending Result) rethrows
        -> Result
    {
        try state.withLock(body)
    }

    var isBuffering: Bool { state.withLock { $0.isBuffering } }

    /// Whether there are values that the store does not have.
    var isEmpty: Bool { state.withLock { $0.visible.isEmpty } }

    /// The values that the store does not have; `nil` if the context's objects have the changes.
    var unsaved: PendingChangeSet? {
        state.withLock { $0.isBuffering && !$0.visible.isEmpty ? $0.visible : nil }
    }

    // MARK: Reading

    /// The children's snapshot; `nil` if they must read the context's objects.
    var view: WriteBehindSnapshot? {
        state.withLock { state in
            guard state.isBuffering else { return nil }
            if let view = state.view { return view }
            let view = WriteBehindSnapshot(
                changes: state.visible, matches: state.matches, generation: state.generation,
                isBeingSaved: state.saving != nil, coordinator: coordinator)
            state.view = view
            return view
        }
    }

    /// Whether the store has nothing newer than a snapshot.
    func isCurrent(_ view: WriteBehindSnapshot) -> Bool {
        state.withLock { $0.isBuffering && $0.generation == view.generation }
    }

    /// Invalidates all snapshots; concurrent readers retry against the new store.
    func invalidateViews() {
        state.withLock { state in
            state.generation += 1
            state.view = nil
        }
    }

    /// As ``ObjectSource/outdated(_:by:)``; `nil` if the context's objects know.
    func outdated(_ rows: [KnownRowVersion], by child: UInt32) -> Set<UInt64>? {
        state.withLock { state in
            guard state.isBuffering else { return nil }
            var outdated: Set<UInt64> = []
            for row in rows {
                let isOutdated: Bool
                if let pending = state.current[row.bits] ?? state.saving?[row.bits],
                    pending.hasValues
                {
                    isOutdated = row.version > 0 || child == 0 || pending.author != child
                } else {
                    isOutdated = row.isOutdated(state.savedVersions[row.bits], for: child)
                }
                if isOutdated { outdated.insert(row.bits) }
            }
            return outdated
        }
    }

    // MARK: Taking

    /// Buffers a child's save, if it is compatible with the buffered changes.
    ///
    /// - Parameter isNoted: Whether the context's change observers are notified.
    /// - Complexity: O(*n*) in the changes.
    func take(_ changes: ChangeSet, isNoted: Bool) -> Bool {
        let taken = state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
            guard state.isBuffering, let added = state.accept(changes, in: coordinator.layout)
            else {
                return (false, nil)
            }
            if let dirtyDerivationSources {
                for number in Set(added.map(\.entity.number)) {
                    dirtyDerivationSources.note(number)
                }
            }
            state.current.add(added, records: changes.records, origin: changes.origin)
            if state.saving != nil {
                state.both.add(added, records: changes.records, origin: changes.origin)
            }
            state.view = nil
            state.matches = PredicateMatchCache()
            return (true, state.didTakeChanges)
        }
        guard taken.0 else { return false }
        if isNoted { taken.1?() }
        return true
    }

    // MARK: Saving

    /// Begins a save of all buffered changes. Returns `nil` if the context's objects have the changes.
    func beginSave() -> PendingChangeSet? {
        state.withLock { state in
            guard state.isBuffering, state.saving == nil else { return nil }
            let saving = state.current
            state.both = saving
            state.both.isMaybeStored = true
            state.saving = saving
            state.current = PendingChangeSet()
            state.generation += 1
            state.view = nil
            return saving
        }
    }

    /// The save has succeeded.
    ///
    /// - Parameter notesVersions: Whether there are children, which may hold older rows.
    func didSave(notesVersions: Bool) {
        // Freed after the lock, which readers wait for.
        let saved = state.withLock { state in
            let saved = (state.saving, state.both, state.view)
            if let saving = state.saving {
                if notesVersions { state.noteVersions(of: saving) }
                state.saving = nil
                state.both = PendingChangeSet()
                state.view = nil
                state.matches = PredicateMatchCache()
            }
            return saved
        }
        withExtendedLifetime(saved) {}
    }

    /// Makes the changes of a failed save pending again.
    func didFailToSave() {
        state.withLock { state in
            guard var all = state.saving else { return }
            all.add(state.current)
            state.current = all
            state.saving = nil
            state.both = PendingChangeSet()
            state.view = nil
            state.matches = PredicateMatchCache()
        }
    }

    /// Ends the computing of derived values by children, if no changes are pending. Children must have been notified of the save
    /// before, so that they read the values again.
    func clearDirtyDerivationSources() {
        guard let dirtyDerivationSources else { return }
        state.withLock { state in
            if state.isBuffering, state.visible.isEmpty { dirtyDerivationSources.clear() }
        }
    }

    // MARK: Objects

    /// Returns the buffered changes for the context's objects and ends buffering; children read those objects from then on.
    func materialize() -> PendingChangeSet? {
        state.withLock { state in
            guard state.isBuffering else { return nil }
            state.isBuffering = false
            state.generation += 1
            state.view = nil
            defer { state.current = PendingChangeSet() }
            return state.current
        }
    }

    /// The context has neither changes nor objects.
    func resumeBuffering() { state.withLock { $0.isBuffering = true } }
}

extension WriteBehindBuffer.State {
    /// The changes with the store's versions; `nil` if they are not compatible with the buffered ones.
    ///
    /// Changes of several children are compatible if they are about different objects and delete none: both sides of a
    /// relationship are among the changes, so contradictory changes are about the same object.
    fileprivate borrowing func accept(
        _ changes: ChangeSet, in layout: ResolvedModel
    ) -> ContiguousArray<PendingChange>? {
        let author = changes.child
        let visible = visible
        let hasOthers = visible.authors.contains { $0 != author }
        if hasOthers && (visible.hasDeletions || !changes.deleted.isEmpty) { return nil }
        var accepted: ContiguousArray<PendingChange> = []
        accepted.reserveCapacity(
            changes.inserted.count + changes.updated.count + changes.deleted.count)
        for change in changes.inserted {
            if visible.contains(change.objectID.bits) { return nil }
            accepted.append(
                PendingChange(
                    kind: .inserted, change: change, version: change.version, author: author))
        }
        for change in changes.updated {
            guard let version = version(of: change, by: author) else { return nil }
            if !change.changedSlots.isEmpty && change.baseVersion == nil { return nil }
            accepted.append(
                PendingChange(kind: .updated, change: change, version: version, author: author))
        }
        for deletion in changes.deleted {
            guard let version = version(of: deletion, by: author) else { return nil }
            let id = deletion.objectID
            let change = ObjectChange(
                objectID: id, entity: layout.entity(number: id.entityNumber), version: version,
                values: [], changedSlots: SlotMask())
            accepted.append(
                PendingChange(kind: .deleted, change: change, version: version, author: author))
        }
        return accepted
    }

    /// The version that the store has, or will have, of a changed object; `nil` if the child's base version is not the latest,
    /// so that the context's objects must be compared.
    private borrowing func version(of change: ObjectChange, by author: UInt32) -> UInt32? {
        let bits = change.objectID.bits
        if let pending = current[bits] ?? saving?[bits] {
            guard let known = pendingVersion(of: bits, by: author) else { return nil }
            if known > 0 || pending.kind == .inserted || !change.writesRow { return known }
            // So far it was only added to another object's relationship.
            return change.baseVersion.flatMap { $0 > 0 ? $0 : nil }
        }
        let saved = savedVersions[bits]
        if let saved, !saved.isSeen(by: author),
            change.toManyChanges.contains(where: { $0.order != nil })
        {
            return nil
        }
        guard let base = change.baseVersion else { return change.writesRow ? nil : 0 }
        if base > 0 {
            return saved.map { $0.version > base } == true ? nil : base
        }
        guard let saved, saved.isSeen(by: author) else { return nil }
        return saved.known
    }

    /// The version of an object that has changed already; `nil` if another child has changed it, or it is deleted.
    private borrowing func pendingVersion(of bits: UInt64, by author: UInt32) -> UInt32? {
        if let pending = current[bits] {
            return pending.author == author && pending.kind != .deleted
                ? pending.version : nil
        }
        guard let pending = saving?[bits], pending.author == author, pending.kind != .deleted else {
            return nil
        }
        return pending.nextVersion
    }

    /// The same of a deleted object; 0 if its row was never read.
    private borrowing func version(of deletion: ObjectDeletion, by author: UInt32) -> UInt32? {
        let bits = deletion.objectID.bits
        if current[bits] != nil || saving?[bits] != nil {
            return pendingVersion(of: bits, by: author)
        }
        let saved = savedVersions[bits]
        if let version = deletion.version, saved.map({ $0.version > version }) != true {
            return version
        }
        if let known = saved?.known { return known }
        return deletion.version != nil || saved?.isDeleted == true ? nil : 0
    }

    fileprivate mutating func noteVersions(of saved: PendingChangeSet) {
        for pending in saved.changes {
            switch pending.kind {
            case .inserted, .updated:
                var version = pending.nextVersion
                // A fault that was only added to another object's relationship was never read, and its row is not written.
                if version == 0 { version = savedVersions[pending.bits]?.version ?? 0 }
                savedVersions.set(version, seenBy: pending.author, for: pending.bits)
            case .deleted: savedVersions.setDeleted(pending.bits)
            case .none: break
            }
        }
    }
}
