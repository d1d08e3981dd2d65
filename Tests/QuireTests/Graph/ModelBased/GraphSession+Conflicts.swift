import Quire
import QuireTestSupport
import Testing

/// Stacks of their own over the same file.
extension GraphSession {
    // MARK: Rivals

    /// Has a stack of its own over the same file save something, then saves under a policy.
    ///
    /// An error leaves this context's changes alone; otherwise memory equals the store, in which both sides agree.
    func conflict(
        with rival: GraphSession, policy: MergePolicy, name: String,
        store fresh: ManagedObjectContext
    ) throws {
        rival.changesUnpaired = false
        for _ in 0..<Int.random(in: 1...3, using: &random) { try rival.edit() }
        for line in rival.trace { note("  rival " + line) }
        try rival.save()
        // Numbers are given out in turn, so that none is in use twice.
        last = rival.last
        note("save under \(name)")
        context.processPendingChanges()
        let before = try known(in: context)
        context.mergePolicy = policy
        let numbers = Dictionary(uniqueKeysWithValues: ids.map { ($0.value, $0.key) })
        let renamed = context.insertedObjects.map { (numbers[$0.objectID], $0) }
        ids.merge(rival.ids) { _, new in new }
        do {
            try context.save()
        } catch let error as QuireError {
            note("failed: \(error.code.rawValue)")
            for (number, object) in renamed { if let number { ids[number] = object.objectID } }
            let after = try known(in: context)
            // What the policy has resolved stays done if the save then fails for another reason.
            if after != before && error.code != .deleteDenied {
                fail("A failed save changed the graph:\n\(after.difference(to: before))")
            }
            context.rollback()
        }
        for (number, object) in renamed { if let number { ids[number] = object.objectID } }
        context.refreshAllObjects()
        forgetHistory()
        let stored = try known(in: fresh)
        let asymmetries = stored.asymmetries(model)
        if !asymmetries.isEmpty { fail("In the store: \(asymmetries)") }
        graph = stored
        base = stored
        ids = ids.filter { stored.nodes[$0.key] != nil }
    }
}
