extension FetchedResultsController: ContextFollower {
    func contextDidChange(_ changes: FollowedChanges) {
        if state == nil { return }
        waiting.append(changes)
        if isBusy { return }
        isBusy = true
        defer { isBusy = false }
        while !waiting.isEmpty {
            let next = waiting.removeFirst()
            guard let state else { return waiting = [] }
            do {
                try follow(next, state)
            } catch {
                fail(error)
            }
        }
    }

    func contextDidReplaceIDs(_ replaced: [(old: UInt64, new: UInt64)]) {
        guard let list = state?.list else { return }
        state?.objects = nil
        for (old, new) in replaced where list.replace(old, by: new) {
            let original = originals.removeValue(forKey: old) ?? old
            if original != new { originals[new] = original }
        }
    }

    private func fail(_ error: any Error) {
        state = nil
        originals = [:]
        waiting = []
        let error =
            error as? QuireError
            ?? QuireError(
                .storeUnavailable, "The results could not be kept up to date: \(error).",
                underlying: error)
        delegate?.controller(self, didFailWith: error)
    }

    // MARK: What is concerned

    private func follow(_ changes: FollowedChanges, _ state: State) throws {
        if changes.concernsAll { return try refetch(state, updated: nil) }
        let concerned = ConcernedResults(changes, state.query)
        if concerned.isEmpty && originals.isEmpty { return }
        if try concerned.isUnbounded || concerns(concerned, window: state) {
            return try refetch(state, updated: concerned.updated)
        }
        var items: [ResultList.Item] = []
        var removed: [UInt64] = []
        if !state.query.isWindow {
            removed = concerned.removed
            try state.query.test(concerned.tested) { bits, item in
                if let item { items.append(item) } else { removed.append(bits) }
            }
        }
        // Others whose identifiers have changed go where that has them.
        if !originals.isEmpty {
            let known = Set(concerned.tested).union(concerned.removed)
            for bits in originals.keys where !known.contains(bits) {
                if let item = state.list.item(bits) { items.append(item) }
            }
        }
        if items.isEmpty && removed.isEmpty { return originals = [:] }
        try change(state, items, removed, updated: concerned.updated)
    }

    /// Whether what has changed may be, or have been, among the results within limit and offset.
    private func concerns(_ concerned: ConcernedResults, window state: State) throws -> Bool {
        let identifiers = concerned.tested + concerned.removed
        if !state.query.isWindow || identifiers.isEmpty { return false }
        if state.query.request.fetchOffset > 0 { return true }
        if identifiers.contains(where: { state.list.handles[$0] != nil }) { return true }
        var isConcerned = false
        try state.query.test(concerned.tested) { _, item in
            if item != nil { isConcerned = true }
        }
        return isConcerned
    }

    /// Finds all results again. `updated` are those that have changed otherwise than by their order, `nil` if any
    /// may have.
    private func refetch(_ state: State, updated: Set<UInt64>?) throws {
        let items = try state.query.fetch()
        let present = Set(items.map(\.bits))
        try change(
            state, Array(items), state.list.order.filter { !present.contains($0) },
            updated: updated ?? present)
    }

    private func change(
        _ state: State, _ items: [ResultList.Item], _ removed: [UInt64], updated: Set<UInt64>
    ) throws {
        // So that the identifiers need not be copied.
        self.state?.objects = nil
        let originals = originals
        self.originals = [:]
        let changes = try state.list.change(
            to: items, removing: removed, updated: updated, originals: originals)
        if !changes.isEmpty { tell(changes) }
    }
}
