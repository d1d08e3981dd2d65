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
        let old = rival.graph
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
            let conflict = Conflict(
                base: base, before: before, old: old, rival: rival.graph, policy: name)
            let unexpected =
                error.code == .deleteDenied && name != "error"
                ? conflict.unresolved(in: after, model)
                : after == before ? "" : after.difference(to: before)
            if !unexpected.isEmpty { fail("A failed save changed the graph:\n\(unexpected)") }
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

/// What a merge policy may have resolved.
private struct Conflict {
    /// What was saved when this side began, and what this side has made of it.
    let base, before: ReferenceGraph
    /// What was saved when the rival began, and what it has made of it.
    let old, rival: ReferenceGraph
    let policy: String

    /// How a graph differs from what this side had, other than by the policy; empty if it does not.
    ///
    /// By a policy, objects that the rival has changed, and only they, have texts, and links to others or from others,
    /// as the rival has them.
    func unresolved(in after: ReferenceGraph, _ model: ReferenceModel) -> String {
        let (old, new) = (old.canonical, rival.canonical)
        let concerned = Set(old.numbers).union(new.numbers)
            .filter { old.nodes[$0] != new.nodes[$0] }
        // What the rival has changed may have been read before that or after.
        var found = after.asymmetries(model, except: concerned)
        for number in Set(before.numbers).union(after.numbers) {
            guard let was = before.nodes[number], let node = after.nodes[number] else {
                if before.nodes[number] != after.nodes[number]
                    && (after.nodes[number] == nil) != (new.nodes[number] == nil)
                {
                    found.append("\(number) came or went, which is not the rival's doing")
                }
                continue
            }
            if node.text != was.text && node.text != resolvedText(of: number) {
                found.append("\(number) has the text \(node.text) instead of \(was.text)")
            }
            for name in Set(was.links.keys).union(node.links.keys) {
                let (left, right) = (was.links[name] ?? [], node.links[name] ?? [])
                let others = Set(left).symmetricDifference(right)
                if left != right && !concerned.contains(number)
                    && !others.isSubset(of: concerned.union([0]))
                {
                    found.append("\(number).\(name) is \(right) instead of \(left)")
                }
            }
        }
        return found.joined(separator: "\n")
    }

    private func resolvedText(of number: Int) -> String? {
        let (own, saved) = (before.nodes[number]?.text, base.nodes[number]?.text)
        let other = rival.nodes[number]?.text
        switch policy {
        case "store trump": return other == old.nodes[number]?.text ? own : other
        case "object trump": return own == saved ? other : own
        case "rollback": return other
        default: return own
        }
    }
}
