internal import QuireStore

/// A child's saved change, with the state that the parent's save needs.
struct PendingChange: Sendable {
    enum Kind: Sendable {
        case inserted, updated, deleted
        /// It was inserted and deleted.
        case none
    }

    var kind: Kind
    /// The change; of a deletion only its subject.
    var change: ObjectChange
    /// The store's version; 0 if unknown, which is allowed unless the row is written.
    var version: UInt32
    /// The number of the child, which has seen all values of the object.
    var author: UInt32

    var bits: UInt64 { change.objectID.bits }
    var entity: ResolvedEntity { change.entity }

    /// Whether there are unsaved values. Then all values of the object are known.
    var hasValues: Bool {
        switch kind {
        case .inserted: true
        case .updated: !change.changedSlots.isEmpty
        case .deleted, .none: false
        }
    }

    /// The version that the store has after the change is saved.
    var nextVersion: UInt32 {
        switch kind {
        case .inserted: 1
        case .updated where change.writesRow: version &+ 1
        default: version
        }
    }

    /// Whether an update's value of an attribute is the one that was saved before.
    private func hasSavedValue(_ slot: Int) -> Bool {
        if change.entity.slots[slot].relationshipIndex != nil { return false }
        let saved =
            try? change.base?.valueWithoutLoading(at: slot)
            ?? change.savedValues?.value(at: slot)
        return saved.map { $0.isSame(as: change.values[slot]) } ?? false
    }

    /// Adds a later change of the same author.
    ///
    /// - Parameter isMaybeStored: Whether the store may have this one already, so that the later one does not cancel it.
    mutating func add(_ next: PendingChange, isMaybeStored: Bool) {
        guard next.kind == .updated else {
            kind = kind == .inserted && !isMaybeStored ? .none : .deleted
            return
        }
        if version == 0 && kind == .updated { version = next.version }
        if change.baseVersion == nil {
            (change.base, change.savedValues) = (next.change.base, next.change.savedValues)
        }
        change.changedSlots.formUnion(next.change.changedSlots)
        for slot in change.values.indices where next.change.changedSlots.contains(slot) {
            change.values[slot] = next.change.values[slot]
            if kind == .updated, !isMaybeStored, hasSavedValue(slot) {
                change.changedSlots.remove(slot)
            }
        }
        for toMany in next.change.toManyChanges {
            let index = change.toManyChanges.firstIndex {
                $0.relationshipIndex == toMany.relationshipIndex
            }
            if let index {
                change.toManyChanges[index].add(toMany, isMaybeStored: isMaybeStored)
            } else {
                change.toManyChanges.append(toMany)
            }
        }
    }
}

extension ToManyChange {
    /// Adds a later change.
    fileprivate mutating func add(_ next: ToManyChange, isMaybeStored: Bool) {
        if let order = next.order {
            if self.order == nil {
                let added = Set(added)
                // The positions of members removed before are unknown.
                previousOrder =
                    removed.isEmpty ? next.previousOrder?.filter { !added.contains($0) } : nil
            }
            self.order = order
        } else if let order {
            let gone = Set(next.removed)
            self.order = order.filter { !gone.contains($0) } + next.added
        }
        for id in next.removed {
            let index = added.firstIndex(of: id)
            if let index { added.remove(at: index) }
            if index == nil || isMaybeStored { removed.append(id) }
        }
        for id in next.added {
            let index = removed.firstIndex(of: id)
            if let index { removed.remove(at: index) }
            if index == nil || isMaybeStored { added.append(id) }
        }
    }
}

/// The merged saves of a parent's children: one change for each object.
struct PendingChangeSet: Sendable {
    private(set) var changes: ContiguousArray<PendingChange> = []
    private var positions: [UInt64: Int] = [:]
    /// The numbers of the children.
    private(set) var authors: Set<UInt32> = []
    private(set) var hasDeletions = false
    /// Texts to record with the objects.
    private(set) var records: [String: String?] = [:]
    /// The author of the latest save that named one.
    private var origin = TransactionOrigin()
    /// Whether the store may have the changes already, or some of them: then those are kept which cancel each other, so that
    /// all is right in either case.
    var isMaybeStored = false

    var isEmpty: Bool { positions.isEmpty && records.isEmpty }

    subscript(bits: UInt64) -> PendingChange? { positions[bits].map { changes[$0] } }

    func contains(_ bits: UInt64) -> Bool { positions[bits] != nil }

    /// The position of an object's change.
    func position(of bits: UInt64) -> Int? { positions[bits] }

    /// The value that a changed object with values has in a slot; one that is in a file is not read.
    func value(ofChangeAt position: Int, slot: Int) throws -> AttributeValue {
        // A copy of the whole change would cost more than anything else here.
        if changes[position].change.changedSlots.contains(slot) {
            return changes[position].change.values[slot]
        }
        return try changes[position].change.base?.valueWithoutLoading(at: slot)
            ?? changes[position].change.savedValues?.value(at: slot) ?? .null
    }

    /// Adds changes of different objects.
    mutating func add(
        _ added: ContiguousArray<PendingChange>, records: [String: String?],
        origin: TransactionOrigin
    ) {
        self.origin = origin.completed(by: self.origin)
        self.records.merge(records) { _, new in new }
        for position in added.indices {
            if position == 0 || added[position].author != added[position - 1].author {
                authors.insert(added[position].author)
            }
            if added[position].kind == .deleted { hasDeletions = true }
        }
        positions.reserveCapacity(positions.count + added.count)
        if changes.isEmpty {
            changes = added
            for position in added.indices { positions[added[position].bits] = position }
        } else {
            changes.reserveCapacity(changes.count + added.count)
            for change in added { add(change) }
        }
    }

    private mutating func add(_ change: PendingChange) {
        guard let position = positions[change.bits] else {
            positions[change.bits] = changes.count
            changes.append(change)
            return
        }
        changes[position].add(change, isMaybeStored: isMaybeStored)
        if changes[position].kind == .none { positions[change.bits] = nil }
    }

    /// Adds later saves.
    mutating func add(_ later: PendingChangeSet) {
        add(
            ContiguousArray(later.changes.lazy.filter { $0.kind != .none }), records: later.records,
            origin: later.origin)
    }

    /// The change set of a save to the store.
    ///
    /// - Parameter includesBases: Whether it has the children's base snapshots, even where they are no rows of the store.
    func changeSet(includesBases: Bool = false) -> ChangeSet {
        var set = ChangeSet()
        set.records = records
        set.origin = origin
        for pending in changes {
            var change = pending.change
            if change.version != pending.version { change.version = pending.version }
            if !includesBases, change.baseVersion == 0 {
                (change.base, change.savedValues) = (nil, nil)
            }
            switch pending.kind {
            case .inserted: set.inserted.append(change)
            case .updated: set.updated.append(change)
            case .deleted:
                set.deleted.append(
                    ObjectDeletion(
                        objectID: change.objectID,
                        version: pending.version == 0 ? nil : pending.version))
            case .none: break
            }
        }
        return set
    }
}
