internal import OrderedCollections

/// The contents of a to-many relationship of one object, and how they differ from what is saved.
///
/// The contents are a fault until asked for. What comes in or goes out before that is kept as a difference, so
/// that adding to a relationship never reads it.
///
/// Invariants: `added` and `removed` are disjoint; if `members` is there, it contains all of `added` and none
/// of `removed`.
struct ToManyState {
    /// The contents; `nil` for a fault.
    var members: OrderedSet<ManagedObjectID>?
    /// What came in since the last save.
    var added: OrderedSet<ManagedObjectID> = []
    /// What went out since the last save.
    var removed: OrderedSet<ManagedObjectID> = []
    /// For an ordered relationship whose order has changed, the saved order.
    var committedOrder: OrderedSet<ManagedObjectID>?

    var hasChanges: Bool {
        !added.isEmpty || !removed.isEmpty || (committedOrder != nil && committedOrder != members)
    }

    /// Whether the order differs from the saved contents less `removed` followed by `added`.
    var needsOrder: Bool {
        guard let committedOrder, let members else { return false }
        let appended = committedOrder.subtracting(removed).union(added)
        return appended != members
    }

    /// Puts an object in, at a position or last. Returns whether it was not there.
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
        if !removed.isEmpty && removed.remove(id) != nil { return true }
        return added.append(id).inserted
    }

    /// Takes an object out. Returns its position (`nil` while the contents are a fault) if it was or may have
    /// been there.
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
        if added.remove(id) == nil { removed.append(id) }
        return (index, ())
    }

    /// Sets the contents of an ordered relationship to an arrangement of the same objects.
    mutating func reorder(_ order: OrderedSet<ManagedObjectID>) {
        rememberOrder()
        members = order
    }

    /// Fills in the contents read from the source. What has come in or gone out there in the meantime is no
    /// difference any more.
    mutating func load(_ saved: some Sequence<ManagedObjectID>) {
        let saved = OrderedSet(saved)
        var contents = saved
        if !removed.isEmpty {
            removed.formIntersection(saved)
            for id in removed { contents.remove(id) }
        }
        if !added.isEmpty {
            added.subtract(saved)
            for id in added { contents.append(id) }
        }
        members = contents
    }

    /// Takes over newer saved contents, under an order of its own if there is one: what is new comes last.
    mutating func rebase(onto saved: OrderedSet<ManagedObjectID>) {
        guard committedOrder != nil, let arranged = members else { return load(saved) }
        load(saved)
        guard let contents = members else { return }
        members = OrderedSet(arranged.filter(contents.contains)).union(contents)
        committedOrder = saved
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
    }

    /// Forgets changes and contents.
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
            if set.contains(where: \.isTemporary) { set = OrderedSet(set.map(replacement)) }
        }
        replace(&added)
        if members != nil, members?.contains(where: \.isTemporary) == true {
            members = members.map { OrderedSet($0.map(replacement)) }
        }
    }
}
