internal import OrderedCollections

/// The contents of a to-many relationship of one object, and their difference from the saved ones.
///
/// The contents are a fault until the first access. Additions and removals before that are kept as differences, so that adding
/// to a relationship never reads it.
///
/// Invariants: `added` and `removed` are disjoint; `members`, unless `nil`, contains all of `added` and none of `removed`. Both
/// are changes made here, whatever other contexts save: the inverse has them as differences too, and reading one side must not
/// change that.
struct ToManyState {
    /// The contents; `nil` for a fault.
    var members: OrderedSet<ManagedObjectID>?
    /// The members added since the last save.
    var added: OrderedSet<ManagedObjectID> = []
    /// The members removed since the last save.
    var removed: OrderedSet<ManagedObjectID> = []
    /// For an ordered relationship whose order may have changed, the saved order.
    var committedOrder: OrderedSet<ManagedObjectID>?
    /// The part of `added` that the saved contents have, and of `removed` that they lack: another context has saved the same.
    /// Known only while `members` is not `nil`.
    private(set) var shared: OrderedSet<ManagedObjectID> = []

    var hasChanges: Bool {
        !added.isEmpty || !removed.isEmpty || (committedOrder != nil && committedOrder != members)
    }

    /// Whether the order differs from the saved contents less `removed` followed by `added`.
    var isArranged: Bool {
        guard let committedOrder, let members else { return false }
        let appended = committedOrder.subtracting(removed).union(added)
        return appended != members
    }

    /// Whether the order must be saved as a whole. Members that another context has added as well have a position already.
    var needsOrder: Bool { isArranged || (committedOrder != nil && !shared.isEmpty) }

    /// Whether the saved contents have an object; `nil` if unknown.
    func isSaved(_ id: ManagedObjectID) -> Bool? {
        guard let members else { return nil }
        if added.contains(id) { return shared.contains(id) }
        if removed.contains(id) { return !shared.contains(id) }
        return members.contains(id)
    }

    /// Inserts an object, at a position or last. Returns whether it was not a member.
    mutating func insert(_ id: ManagedObjectID, at index: Int?, ordered: Bool) -> Bool {
        if members != nil {
            if ordered || index != nil {
                if members?.contains(id) == true { return false }
                if ordered { rememberOrder() }
            }
            if let index {
                members?.insert(id, at: index)
            } else if members?.append(id).inserted == false {
                return false
            }
        }
        if removed.removeUnordered(id) {
            if shared.removeUnordered(id) { added.append(id) }
            return true
        }
        return added.append(id).inserted
    }

    /// Removes an object. Returns its position (`nil` while the contents are a fault) if it was or may have been a member.
    mutating func remove(_ id: ManagedObjectID, ordered: Bool) -> (index: Int?, Void)? {
        var index: Int?
        if members != nil {
            // Not bound to a name: a second reference would have the removal copy the set.
            guard let position = members?.firstIndex(of: id) else { return nil }
            index = position
            if ordered { rememberOrder() }
            members?.remove(at: position)
        } else if removed.contains(id) {
            return nil
        }
        if added.remove(id) == nil || shared.removeUnordered(id) {
            removed.append(id)
        }
        return (index, ())
    }

    /// Whether an object was added here and is not in the saved contents, as far as these are known.
    func isUnsavedMember(_ id: ManagedObjectID) -> Bool {
        added.contains(id) && !shared.contains(id)
    }

    /// Records a member as a difference: the saved contents no longer have it.
    mutating func keep(_ id: ManagedObjectID, ordered: Bool) {
        if members != nil {
            if ordered { rememberOrder() }
            members?.append(id)
            committedOrder?.remove(id)
        }
        _ = shared.removeUnordered(id)
        added.append(id)
    }

    /// Sets the contents to an arrangement of the same objects.
    mutating func reorder(_ order: OrderedSet<ManagedObjectID>, ordered: Bool) {
        if ordered { rememberOrder() }
        members = order
        if !added.isEmpty { added = order.filter(added.contains) }
    }

    /// The differences that saved contents have too.
    func differences(in saved: OrderedSet<ManagedObjectID>) -> [ManagedObjectID] {
        added.elements.filter(saved.contains) + removed.elements.filter { !saved.contains($0) }
    }

    /// Sets the contents read from the source. Of ``differences(in:)`` only those in `shared` remain differences.
    mutating func load(
        _ saved: OrderedSet<ManagedObjectID>, isOrdered: Bool,
        shared: OrderedSet<ManagedObjectID> = []
    ) {
        self.shared = shared
        var contents = saved
        if !removed.isEmpty {
            removed = removed.filter { saved.contains($0) || shared.contains($0) }
            for id in removed { contents.remove(id) }
        }
        if !added.isEmpty {
            added = added.filter { !saved.contains($0) || shared.contains($0) }
            for id in added { contents.append(id) }
        }
        // The contents do not tell the saved positions of removed members and of those appended.
        committedOrder = isOrdered && !(added.isEmpty && removed.isEmpty) ? saved : nil
        members = contents
    }

    /// Adopts newer saved contents, under an unsaved order if there is one: new members come last.
    mutating func rebase(
        onto saved: OrderedSet<ManagedObjectID>, isOrdered: Bool,
        shared: OrderedSet<ManagedObjectID>
    ) {
        let arranged = isArranged ? members : nil
        load(saved, isOrdered: isOrdered, shared: shared)
        guard let arranged, let contents = members else { return }
        members = OrderedSet(arranged.filter(contents.contains)).union(contents)
        committedOrder = saved
    }

    /// Turns the contents into a fault. Differences are kept, an unsaved order is not.
    mutating func forgetContents() {
        members = nil
        committedOrder = nil
        shared = []
    }

    /// Drops the differences that another context has saved too.
    mutating func dropShared() {
        added.subtract(shared)
        removed.subtract(shared)
        shared = []
    }

    private mutating func rememberOrder() {
        if committedOrder == nil, let members {
            committedOrder = members.subtracting(added)
        }
    }

    /// Makes the present contents the saved ones.
    mutating func commit() {
        added = []
        removed = []
        committedOrder = nil
        shared = []
    }

    /// Discards changes and contents.
    mutating func rollBack() {
        members = nil
        commit()
    }

    /// Replaces identifiers of any kind.
    mutating func replaceEveryID(_ replacement: (ManagedObjectID) -> ManagedObjectID) {
        members = members.map { OrderedSet($0.map(replacement)) }
        added = OrderedSet(added.map(replacement))
    }

    /// Replaces temporary identifiers.
    mutating func replaceIDs(_ replacement: (ManagedObjectID) -> ManagedObjectID) {
        func replace(_ set: inout OrderedSet<ManagedObjectID>) {
            if set.contains(where: \.isTemporaryID) { set = OrderedSet(set.map(replacement)) }
        }
        replace(&added)
        if members != nil, members?.contains(where: \.isTemporaryID) == true {
            members = members.map { OrderedSet($0.map(replacement)) }
        }
    }
}

extension OrderedSet {
    /// Removes an element, and moves the last one to its position. Returns whether it was an element.
    ///
    /// - Complexity: O(1).
    fileprivate mutating func removeUnordered(_ element: Element) -> Bool {
        guard let index = firstIndex(of: element) else { return false }
        swapAt(index, count - 1)
        removeLast()
        return true
    }
}
