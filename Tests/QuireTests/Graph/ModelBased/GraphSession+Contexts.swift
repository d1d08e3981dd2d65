import Quire
import QuireTestSupport
import Testing

/// Several contexts: children, siblings, and stacks of their own over the same file.
extension GraphSession {
    // MARK: Refreshing

    /// Reads an object anew, its unsaved changes kept, or makes everything without changes a fault.
    func refresh() throws {
        guard let number = graph.numbers.randomElement(using: &random) else { return }
        switch Int.random(in: 0..<3, using: &random) {
        case 0:
            note("refresh \(number) merging")
            try context.refresh(object(number), mergeChanges: true)
        case 1:
            let object = try object(number)
            if object.hasChanges { return }
            note("refresh \(number)")
            context.refresh(object, mergeChanges: false)
        default:
            note("refresh all")
            context.refreshAllObjects()
        }
    }

    // MARK: Children

    /// Edits a child context on a queue of its own, and saves it to this one or lets it go.
    func child(depth: Int = 1) throws {
        context.processPendingChanges()
        note("child {")
        let childOwner = PrivateQueueContext(parent: owner)
        // What a child looks at has a permanent identifier.
        _ = try childOwner.performAndWait { try $0.count(for: FetchRequest("A")) }
        for (number, id) in ids where id.isTemporary {
            ids[number] = context.object(with: id).objectID
        }
        let isKept = Int.random(in: 0..<3, using: &random) > 0
        try childOwner.performAndWait { childContext in
            let child = GraphSession(
                childOwner, childContext, graph, ids: ids, last: last,
                random: SeededRandom(seed: random.next()))
            do { try child.editAsChild(depth: depth) } catch { child.fail("\(error)") }
            for line in child.trace { note("  " + line) }
            last = child.last
            if !child.isClean { return fail("The child went wrong.") }
            if isKept {
                try child.save()
                ids = child.ids
                takeOver(child)
            }
        }
        // What the child has changed is a step of its own.
        context.processPendingChanges()
        note(isKept ? "} saved" : "} let go")
    }

    private func editAsChild(depth: Int) throws {
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            switch Int.random(in: 0..<8, using: &random) {
            case 0: undo()
            case 1 where depth < 3: try child(depth: depth + 1)
            case 2: try refresh()
            case 3: rollback()
            default: try edit()
            }
            try compare()
            if !isClean { return }
        }
    }

    private func takeOver(_ child: GraphSession) {
        if child.graph != graph {
            history.append(graph)
            future = []
            graph = child.graph
        } else {
            // It may have written what was there already; that is a step or none.
            forgetHistory()
        }
    }

    // MARK: Siblings

    /// Has another context over the same store save something, and merges it.
    ///
    /// Without unsaved changes here the result is what the other has saved. With some it is a graph in which both
    /// sides agree, which can be saved as it is, and a rollback leads to what the other has saved.
    ///
    /// Whether it was saved is returned.
    func merge(_ sibling: GraphSession) throws -> Bool {
        sibling.changesUnpaired = false
        for _ in 0..<Int.random(in: 1...3, using: &random) { try sibling.edit() }
        for line in sibling.trace { note("  sibling " + line) }
        let inserted = sibling.context.insertedObjects
        var changes = ObjectIDChanges(
            updated: sibling.context.updatedObjects.map(\.objectID),
            deleted: sibling.context.deletedObjects.map(\.objectID))
        try sibling.save()
        changes.inserted = inserted.map(\.objectID)
        last = sibling.last
        note("merge")
        context.processPendingChanges()
        let isQuiet = !context.hasChanges
        context.parent?.performAndWait { $0.mergeChanges(from: changes) }
        context.mergeChanges(from: changes)
        if !isQuiet {
            try checkSymmetry(of: context)
            for _ in 0..<Int.random(in: 0...2, using: &random) {
                note("undo after merge")
                context.undo()
                try checkSymmetry(of: context)
            }
        }
        forgetHistory()
        ids.merge(sibling.ids) { _, new in new }
        graph = sibling.graph.stored(model)
        if !isQuiet {
            if Bool.random(using: &random) {
                graph = try known(in: context)
                try save()
                return true
            }
            note("rollback")
            context.rollback()
        }
        base = graph
        return false
    }

    /// Everything that a context finds, as plain values.
    func known(in context: ManagedObjectContext) throws -> ReferenceGraph {
        var numbers: [Int] = []
        for kind in ["A", "B"] {
            for object in try context.fetch(FetchRequest(kind)) {
                let number = Int(try #require(object.integer("number")))
                if ids[number] == nil { ids[number] = object.objectID }
                numbers.append(number)
            }
        }
        return try seen(in: context, numbers)
    }

    private func checkSymmetry(of context: ManagedObjectContext) throws {
        let asymmetries = try known(in: context).asymmetries(model)
        if !asymmetries.isEmpty { fail("\(asymmetries)") }
    }
}
