import Quire
import QuireTestSupport
import Testing

/// Several contexts: children, siblings, and stacks of their own over the same file.
extension GraphSession {
    // MARK: Refreshing

    /// Reads an object anew, its unsaved changes kept or lost, or makes everything without changes a fault.
    func refresh() throws {
        let numbers = Set(graph.numbers).union(base.numbers).sorted()
        guard let number = numbers.randomElement(using: &random) else { return }
        // Another may have what it had in a relationship without inverse, whose objects can be in one only.
        if graph.nodes[number] == nil && !base.links(of: number, "pins").isEmpty { return }
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
            note("refresh \(number) merging")
            try context.refresh(object(number), mergeChanges: true)
        case 1, 2:
            let before = graph
            note("refresh \(number)")
            let object = try object(number)
            let hadChanges = object.hasChanges
            context.refresh(object, mergeChanges: false)
            graph.restore(number, from: base, model)
            if graph.canonical != before.canonical {
                history.append(before)
                future = []
            } else if hadChanges {
                // Taking back what made no difference may be a step or none.
                forgetHistory()
            }
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
        let childOwner = QueueConfinedContext(parent: owner)
        // What a child looks at has a permanent identifier.
        _ = try childOwner.performAndWait { try $0.count(for: FetchRequest("A")) }
        for (number, id) in ids where id.isTemporaryID {
            ids[number] = context.object(with: id).objectID
        }
        let isKept = Int.random(in: 0..<3, using: &random) > 0
        try childOwner.performAndWait { childContext in
            let child = GraphSession(
                childOwner, childContext, graph, ids: ids, last: last,
                random: SeededRandom(seed: random.next()), usesUndo: Bool.random(using: &random))
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
            case 0 where usesUndo: undo()
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
        if child.graph.canonical != graph.canonical {
            history.append(graph)
            future = []
        } else {
            // It may have written what was there already; that is a step or none.
            forgetHistory()
        }
        graph = child.graph
    }

    // MARK: Stale children

    /// A child's session that outlives a visit to its queue, with what it saw when it last saved.
    private final class StaleChild: @unchecked Sendable {
        // Used on the child's queue, or while that is idle.
        let session: GraphSession
        var seen: ReferenceGraph
        var notedCount: Int

        init(_ session: GraphSession) {
            self.session = session
            seen = session.graph
            notedCount = session.trace.count
        }
    }

    /// Has two children edit what both have read, one after the other: nothing that the first has saved is lost, and
    /// nothing arrives here but what they have changed.
    ///
    /// One of them changes texts, the other whatever it likes, so that all of it is to be there in the end.
    func staleChildren(saveAll: () throws -> Void) throws {
        context.processPendingChanges()
        note("stale children {")
        let children = try (0..<2).map { _ in try staleChild() }
        let writer = Int.random(in: 0..<2, using: &random)
        for _ in 0..<Int.random(in: 1...2, using: &random) {
            for (index, child) in children.enumerated() {
                try edit(child, isWriter: index == writer)
                for line in child.session.trace.dropFirst(child.notedCount) {
                    note("  \(index) " + line)
                }
                child.notedCount = child.session.trace.count
                context.processPendingChanges()
                forgetHistory()
                switch Int.random(in: 0..<6, using: &random) {
                case 0, 1: try saveAll()
                case 2:
                    try saveAll()
                    note("refresh all")
                    context.refreshAllObjects()
                case 3:
                    try saveAll()
                    reset()
                default: break
                }
                if !isClean { return }
            }
        }
        note("}")
    }

    /// A child that holds all that it has read.
    private func staleChild() throws -> StaleChild {
        let childOwner = QueueConfinedContext(parent: owner)
        _ = try childOwner.performAndWait { try $0.count(for: FetchRequest("A")) }
        for (number, id) in ids where id.isTemporaryID {
            ids[number] = context.object(with: id).objectID
        }
        return try childOwner.performAndWait { childContext in
            let session = GraphSession(
                childOwner, childContext, graph, ids: ids, last: last,
                random: SeededRandom(seed: random.next()), usesUndo: false)
            session.changesUnpaired = false
            childContext.retainsRegisteredObjects = true
            try session.compare()
            return StaleChild(session)
        }
    }

    private func edit(_ child: StaleChild, isWriter: Bool) throws {
        let session = child.session
        session.last = last
        try session.owner.performAndWait { _ in
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                if isWriter { try session.edit() } else { try session.setText() }
            }
            try session.save()
        }
        last = session.last
        ids.merge(session.ids) { _, new in new }
        graph = graph.taking(session.graph, changedFrom: child.seen, withLinks: isWriter)
        child.seen = session.graph
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
        context.processPendingChanges()
        let isQuiet = !context.hasChanges
        try saveAndMerge(sibling)
        return try settle(sibling, isQuiet: isQuiet)
    }

    /// Links or unlinks two objects here without saving, has another context over the same store save the same and take
    /// it back, and merges both. As ``merge(_:)``; `nil` if there is nothing to link.
    func mergeTakenBack(_ sibling: GraphSession) throws -> Bool? {
        sibling.changesUnpaired = false
        let numbers = graph.numbers.filter { sibling.graph.nodes[$0] != nil }
        guard let number = numbers.randomElement(using: &random),
            let link = model.links(of: graph.nodes[number]?.entity ?? "")
                .filter({ $0.back != nil }).randomElement(using: &random),
            let target = numbers.filter({
                ReferenceModel.kinds[graph.nodes[$0]?.entity ?? ""]?.contains(link.destination)
                    == true
            }).randomElement(using: &random)
        else { return nil }
        let isLinked = graph.links(of: number, link.name).contains(target)
        try self.link(number, link, target, !isLinked)
        context.processPendingChanges()
        for isLinkedThere in [!isLinked, isLinked] {
            try sibling.link(number, link, target, isLinkedThere)
            note("  sibling " + (sibling.trace.last ?? ""))
            try saveAndMerge(sibling)
            if Bool.random(using: &random) { try checkSymmetry(of: context) }
        }
        return try settle(sibling, isQuiet: false)
    }

    private func link(
        _ number: Int, _ link: ReferenceModel.Link, _ target: Int, _ isLinked: Bool
    ) throws {
        note("\(number).\(link.name) \(isLinked ? "+=" : "-=") \(target)")
        if graph.links(of: number, link.name).contains(target) == isLinked { return }
        let (object, other) = (try object(number), try object(target))
        if !link.isToMany {
            object[link.name] = isLinked ? other : nil
        } else if isLinked {
            object.add(other, to: link.name)
        } else {
            object.remove(other, from: link.name)
        }
        if isLinked {
            graph.set(
                link.isToMany ? graph.links(of: number, link.name) + [target] : [target],
                of: number, link)
        } else {
            graph.remove(target, from: number, link)
        }
        context.processPendingChanges()
    }

    private func saveAndMerge(_ sibling: GraphSession) throws {
        let inserted = sibling.context.insertedObjects
        var changes = ObjectIDChanges(
            updated: sibling.context.updatedObjects.map(\.objectID),
            deleted: sibling.context.deletedObjects.map(\.objectID))
        try sibling.save()
        changes.inserted = inserted.map(\.objectID)
        last = sibling.last
        note("merge")
        context.parent?.performAndWait { $0.mergeChanges(from: changes) }
        context.mergeChanges(from: changes)
    }

    private func settle(_ sibling: GraphSession, isQuiet: Bool) throws -> Bool {
        if !isQuiet {
            try checkSymmetry(of: context)
            for _ in 0..<Int.random(in: 0...2, using: &random) where usesUndo {
                note("undo after merge")
                context.undo()
                try checkSymmetry(of: context)
            }
        }
        forgetHistory()
        ids.merge(sibling.ids) { _, new in new }
        graph = sibling.graph.stored(model)
        if !isQuiet {
            let denied = try deniedDeletions()
            if Bool.random(using: &random) {
                if denied.isEmpty {
                    graph = try known(in: context)
                    try save()
                    return true
                }
                note("save, denied for \(denied)")
                let error = #expect(throws: QuireError.self) { try context.save() }
                #expect(error?.code == .deleteDenied)
            }
            note("rollback")
            context.rollback()
        }
        base = graph
        return false
    }

    /// The objects that are deleted here while others, which have just come to be guarded, lead to them.
    private func deniedDeletions() throws -> [Int] {
        let deleted = Set(context.deletedObjects.filter(\.hasChanges).map(\.objectID))
        var denied: Set<ManagedObjectID> = []
        for object in try context.fetch(FetchRequest("A")) {
            if let id = object.object("guarded")?.objectID, deleted.contains(id) {
                denied.insert(id)
            }
        }
        return ids.filter { denied.contains($0.value) }.keys.sorted()
    }

    /// Everything that a context finds, as plain values, with the references to objects that are gone: to set one to nil
    /// is a change. Those lead to 0, which is no object's number.
    func known(in context: ManagedObjectContext) throws -> ReferenceGraph {
        var numbers: [Int] = []
        for kind in ["A", "B"] {
            for object in try context.fetch(FetchRequest(kind)) {
                let number = Int(try #require(object["number", as: Int64.self]))
                if ids[number] == nil { ids[number] = object.objectID }
                numbers.append(number)
            }
        }
        var known = try seen(in: context, numbers)
        for number in numbers {
            let object = context.object(with: try #require(ids[number]))
            for link in model.links(of: object.resolvedEntity.name)
            where !link.isToMany && link.back == nil && object.object(link.name) != nil
                && known.links(of: number, link.name).isEmpty
            {
                known.set([0], of: number, link)
            }
        }
        return known
    }

    private func checkSymmetry(of context: ManagedObjectContext) throws {
        let asymmetries = try known(in: context).asymmetries(model)
        if !asymmetries.isEmpty { fail("\(asymmetries)") }
    }
}
