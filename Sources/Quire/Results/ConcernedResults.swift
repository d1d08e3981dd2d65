/// Which objects may have become results, ceased to be, or have another place, after something has changed.
struct ConcernedResults {
    /// To be tested, each once.
    private(set) var tested: [UInt64] = []
    /// Known to be no results any more, if they were.
    private(set) var removed: [UInt64] = []
    /// Those that have changed themselves.
    private(set) var updated: Set<UInt64> = []
    /// Whether it may be any, also such as are not named here.
    private(set) var isUnbounded = false
    private var seen: Set<UInt64> = []

    init(_ changes: FollowedChanges, _ query: ResultQuery) {
        if changes.isSave {
            addSaved(changes.event, query)
            if query.dependsOnDerivedValues { addChanged(changes, query) }
        } else {
            addDeleted(changes, query)
            addChanged(changes, query)
        }
    }

    /// Whether nothing is concerned.
    var isEmpty: Bool { tested.isEmpty && removed.isEmpty && !isUnbounded }

    private mutating func addSaved(_ event: EventChanges, _ query: ResultQuery) {
        // Only now are these objects missing where something still leads to them.
        if event.deleted.contains(where: { query.dependsOnDeletion($0.objectID.bits) }) {
            isUnbounded = true
        }
        // New objects come last among those that are equal in order, saved ones do not.
        if query.isWindow, event.inserted.contains(where: { query.isAbout($0.objectID.bits) }) {
            isUnbounded = true
        }
    }

    private mutating func addDeleted(_ changes: FollowedChanges, _ query: ResultQuery) {
        let identifiers =
            changes.event.deleted.map(\.objectID.bits) + changes.merged.deleted.map(\.bits)
        for bits in identifiers {
            if query.dependsOnDeletion(bits) || (changes.isByRows && query.dependsOnRows(bits)) {
                isUnbounded = true
            }
            if query.isAbout(bits), seen.insert(bits).inserted { removed.append(bits) }
        }
    }

    private mutating func addChanged(_ changes: FollowedChanges, _ query: ResultQuery) {
        let (event, merged) = (changes.event, changes.merged)
        let objects = event.inserted + event.updated + event.refreshed + event.invalidated
        var identifiers = objects.map(\.objectID.bits)
        for list in [merged.inserted, merged.updated, merged.refreshed, merged.invalidated] {
            for id in list where query.context.isKnownStore(id) { identifiers.append(id.bits) }
        }
        for bits in identifiers {
            if changes.isByRows && query.dependsOnRows(bits) { isUnbounded = true }
            if query.isAbout(bits) {
                updated.insert(bits)
                if seen.insert(bits).inserted { tested.append(bits) }
            }
            if query.looksAt(bits) { addResults(decidedBy: bits, query) }
        }
    }

    private mutating func addResults(decidedBy bits: UInt64, _ query: ResultQuery) {
        if isUnbounded { return }
        // One that has left the context, and never was saved: what led to it has been changed with that.
        if bits >> 63 == 1 && query.context.identityMap.find(bits) == nil { return }
        guard let found = query.objects(leadingTo: query.context.object(bits: bits)) else {
            isUnbounded = true
            return
        }
        for bits in found where query.isAbout(bits) && seen.insert(bits).inserted {
            tested.append(bits)
        }
    }
}
