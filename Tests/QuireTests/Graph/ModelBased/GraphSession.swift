import Quire
import QuireTestSupport
import Testing

/// Edits a context at random and the reference graph with it, and compares.
///
/// One event is one to three operations. `history` and `future` hold whole graphs: what undo and redo lead to.
///
/// It is used within a closure given to its context's owner, on that context's queue.
final class GraphSession {
    let model = ReferenceModel.shared
    let owner: QueueConfinedContext
    let context: ManagedObjectContext
    /// What the context should hold now.
    var graph: ReferenceGraph
    /// What it should hold after a rollback.
    var base: ReferenceGraph
    var history: [ReferenceGraph] = []
    var future: [ReferenceGraph] = []
    /// By the numbers of the reference graph. Identifiers, not objects, so that objects come and go.
    var ids: [Int: ManagedObjectID]
    var random: SeededRandom
    /// The last number given out.
    var last: Int
    /// Whether it changes to-many relationships without inverse. They are kept in the rows of what they lead to, so that
    /// contexts which do not know of each other must not both.
    var changesUnpaired = true
    /// Whether there is an undo manager. Without one, less is read before it is changed.
    let usesUndo: Bool
    /// Whether the last operation may have led back to where it began, which is a step of undo all the same.
    private var isPutBack = false
    /// What was done, for a failure's message.
    private(set) var trace: [String] = []

    init(
        _ owner: QueueConfinedContext, _ context: ManagedObjectContext, _ graph: ReferenceGraph,
        ids: [Int: ManagedObjectID], last: Int, random: SeededRandom, usesUndo: Bool = true
    ) {
        self.owner = owner
        self.context = context
        self.graph = graph
        base = graph
        self.ids = ids
        self.last = last
        self.random = random
        self.usesUndo = usesUndo
        context.undoManager = usesUndo ? UndoManager() : nil
    }

    func note(_ text: @autoclosure () -> String) { trace.append(text()) }

    func object(_ number: Int) throws -> ManagedObject {
        context.object(with: try #require(ids[number]))
    }

    private func chance(_ percent: Int) -> Bool {
        Int.random(in: 0..<100, using: &random) < percent
    }

    private func pick<Choices: Collection>(_ choices: Choices) -> Choices.Element? {
        choices.randomElement(using: &random)
    }

    private func numbers(of kind: String) -> [Int] {
        graph.numbers.filter {
            ReferenceModel.kinds[graph.nodes[$0]?.entity ?? ""]?.contains(kind) == true
        }
    }

    private func texts(_ list: [Int]) -> String { list.map(String.init).joined(separator: ",") }

    // MARK: Events

    /// One user event.
    func edit() throws {
        let before = graph
        var changed = false
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            let present = graph
            isPutBack = false
            try operation()
            if graph != present || isPutBack { changed = true }
        }
        context.processPendingChanges()
        if changed {
            history.append(before)
            future = []
        }
    }

    private func operation() throws {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<18: try insert()
        case 18..<30: try setText()
        case 30..<40: try delete()
        case 40..<46: try putBack()
        default: try relate()
        }
    }

    private func insert() throws {
        guard graph.nodes.count < 14, let entity = pick(["A", "A", "AA", "B", "B"]) else { return }
        last += 1
        note("insert \(entity) \(last)")
        let object = try context.insertObject(entityName: entity)
        object["number"] = Int64(last)
        object["text"] = ""
        ids[last] = object.objectID
        graph.insert(last, entity: entity)
    }

    func setText() throws {
        guard let number = pick(graph.numbers) else { return }
        let text = "\(Int.random(in: 0..<1_000_000, using: &random))"
        if graph.nodes[number]?.text == text { return }
        note("set \(number) \(text)")
        try object(number)["text"] = text
        graph.setText(text, of: number)
    }

    private func delete() throws {
        guard let number = pick(graph.numbers) else { return }
        if graph.denies(deletionOf: number, model) { return }
        // A row that is gone takes along which set without an inverse it was in; undo after a save cannot know.
        var after = graph
        after.delete(number, model)
        let gone = graph.numbers.filter { after.nodes[$0] == nil }
        if isPinned(gone) { return }
        note("delete \(number)")
        try context.delete(object(number))
        graph.delete(number, model)
    }

    /// A deletion that a deny rule forbids, if there is one: the save fails and undo brings everything back.
    func deleteDenied() throws {
        if !usesUndo { return }
        let denied = graph.numbers.filter { base.nodes[$0] != nil }
            .filter { graph.denies(deletionOf: $0, model) }
        guard let number = pick(denied) else { return }
        note("delete denied \(number)")
        try context.delete(object(number))
        #expect(throws: QuireError.self) { try context.save() }
        context.undo()
        forgetHistory()
    }

    private func isPinned(_ numbers: [Int]) -> Bool {
        (Array(graph.nodes.values) + Array(base.nodes.values)).contains {
            $0.links["pins"]?.contains(where: numbers.contains) == true
        }
    }

    private func relate() throws {
        guard let number = pick(graph.numbers), let node = graph.nodes[number],
            let link = pick(model.links(of: node.entity))
        else { return }
        var candidates = numbers(of: link.destination)
        if link.isToMany && link.back == nil {
            if !changesUnpaired { return }
            // Core Data's tables keep such a relationship in a column of the destination, so an object can be
            // in one of them only.
            candidates.removeAll { target in
                graph.numbers.contains {
                    $0 != number
                        && (graph.links(of: $0, link.name).contains(target)
                            || base.links(of: $0, link.name).contains(target))
                }
            }
        }
        guard link.isToMany else {
            let target = chance(25) ? nil : pick(candidates)
            let relationship = link.name
            note("\(number).\(relationship) = \(target.map(String.init) ?? "nil")")
            try object(number)[relationship] = target.map { try object($0) }
            graph.set(target.map { [$0] } ?? [], of: number, link)
            return
        }
        try relateToMany(number, link, candidates)
    }

    /// Takes a member of an ordered relationship out by its own side, and puts it back in a place, what is left having
    /// been read in between or not.
    private func putBack() throws {
        let links = model.links(of: "B") + model.links(of: "AA")
        let owners = graph.numbers.flatMap { number in
            model.links(of: graph.nodes[number]?.entity ?? "").compactMap { link in
                link.isOrdered && !graph.links(of: number, link.name).isEmpty
                    ? (number, link) : nil
            }
        }
        guard let (number, link) = pick(owners), let back = link.back,
            let member = pick(graph.links(of: number, link.name).filter { graph.nodes[$0] != nil }),
            let inverse = links.first(where: { $0.name == back.name && $0.inverse == link.name })
        else { return }
        isPutBack = true
        note("\(member).\(inverse.name) -= \(number)")
        if inverse.isToMany {
            try object(member).remove(object(number), from: inverse.name)
        } else {
            try object(member)[inverse.name] = nil
        }
        graph.remove(number, from: member, inverse)
        if chance(50) {
            note("read \(number).\(link.name)")
            _ = try object(number).objectIDs(link.name)
        }
        if chance(30) {
            note("\(number).\(link.name) += \(member)")
            try object(number).add(object(member), to: link.name)
            graph.add(member, to: number, link)
        } else {
            let index = Int.random(
                in: 0...graph.links(of: number, link.name).count, using: &random)
            note("\(number).\(link.name)[\(index)] = \(member)")
            try object(number).insert(object(member), into: link.name, at: index)
            graph.insert(member, into: number, link, at: index)
        }
    }

    private func relateToMany(
        _ number: Int, _ link: ReferenceModel.Link, _ candidates: [Int]
    ) throws {
        let present = graph.links(of: number, link.name).filter { graph.nodes[$0] != nil }
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<2:
            guard let target = pick(present.isEmpty ? candidates : present) else { return }
            note("\(number).\(link.name) -= \(target)")
            try object(number).remove(object(target), from: link.name)
            graph.remove(target, from: number, link)
        case 2..<4:
            let targets = candidates.filter { _ in chance(40) }.shuffled(using: &random)
            note("\(number).\(link.name) = \(texts(targets))")
            try object(number)[link.name] = targets.map { try object($0) }
            graph.set(targets, of: number, link)
        case 4..<7 where link.isOrdered:
            guard let target = pick(candidates) else { return }
            let count = present.count - (present.contains(target) ? 1 : 0)
            let index = Int.random(in: 0...count, using: &random)
            note("\(number).\(link.name)[\(index)] = \(target)")
            try object(number).insert(object(target), into: link.name, at: index)
            graph.insert(target, into: number, link, at: index)
        default:
            guard let target = pick(candidates) else { return }
            note("\(number).\(link.name) += \(target)")
            try object(number).add(object(target), to: link.name)
            graph.add(target, to: number, link)
        }
    }

    func undo() {
        note("undo")
        context.undo()
        if let before = history.popLast() {
            future.append(graph)
            graph = before
        }
    }

    func redo() {
        note("redo")
        context.redo()
        if let after = future.popLast() {
            history.append(graph)
            graph = after
        }
    }

    func forgetHistory() {
        context.undoManager?.removeAllActions()
        history = []
        future = []
    }

    // MARK: Saving and forgetting

    /// Saves to the parent or the store.
    func save() throws {
        note("save")
        let new = context.insertedObjects
        let numbers = Dictionary(uniqueKeysWithValues: ids.map { ($0.value, $0.key) })
        let renamed = new.map { (numbers[$0.objectID], $0) }
        try context.save()
        for (number, object) in renamed { if let number { ids[number] = object.objectID } }
        base = graph
        #expect(!context.hasChanges)
    }

    func rollback() {
        note("rollback")
        context.rollback()
        graph = base
        history = []
        future = []
    }

    /// Makes everything faults, changes lost.
    func reset() {
        note("reset")
        context.reset()
        graph = base
        history = []
        future = []
    }

    // MARK: Comparing

    /// What the objects of a context say, as plain values.
    func seen(in context: ManagedObjectContext, _ numbers: [Int]) throws -> ReferenceGraph {
        var seen = ReferenceGraph()
        let live = Set(numbers)
        for number in numbers {
            let object = context.object(with: try #require(ids[number]))
            #expect(object["number", as: Int64.self] == Int64(number))
            var node = ReferenceGraph.Node(
                entity: object.resolvedEntity.name,
                text: object["text", as: String.self] ?? "missing")
            for link in model.links(of: object.resolvedEntity.name) {
                let targets =
                    link.isToMany
                    ? object.objects(link.name) : object.object(link.name).map { [$0] } ?? []
                let found = targets.compactMap { target -> Int? in
                    #expect(context.object(with: target.objectID) === target)
                    guard let number = target["number", as: Int64.self].map(Int.init),
                        live.contains(number),
                        !target.isDeleted
                    else { return nil }
                    return number
                }
                if !found.isEmpty {
                    node.links[link.name] = link.isOrdered ? found : found.sorted()
                }
            }
            seen.put(node, at: number)
        }
        return seen
    }

    /// Compares the context with the reference graph, and its sets of changes with what was done.
    func compare() throws {
        let expected = graph.canonical
        let seen = try seen(in: context, graph.numbers)
        if seen != expected {
            fail("The graph differs:\n\(seen.difference(to: expected))")
        }
        let asymmetries = seen.asymmetries(model)
        if !asymmetries.isEmpty { fail("\(asymmetries)") }
        try compareChanges()
        for kind in ["A", "B"] {
            let found = try Set(
                context.fetch(FetchRequest(kind)).map { $0["number", as: Int64.self].map(Int.init) }
            )
            if found != Set(numbers(of: kind)) {
                fail("A fetch of \(kind) finds \(found)")
            }
        }
    }

    /// New, deleted and changed objects are exactly those that are not in the base, not any more, or differ.
    private func compareChanges() throws {
        let numberByID = Dictionary(uniqueKeysWithValues: ids.map { ($0.value, $0.key) })
        func numbers(_ objects: [ManagedObject]) -> Set<Int> {
            Set(objects.map { numberByID[$0.objectID] ?? -1 })
        }
        let live = Set(graph.numbers)
        let saved = Set(base.numbers)
        let inserted = numbers(context.insertedObjects)
        if inserted != live.subtracting(saved) {
            fail("Inserted are \(inserted), expected \(live.subtracting(saved))")
        }
        // Faults whose rows are gone are among them, which are no changes.
        let deleted = numbers(context.deletedObjects.filter(\.hasChanges))
        if deleted != saved.subtracting(live) {
            fail("Deleted are \(deleted), expected \(saved.subtracting(live))")
        }
        let (present, before) = (graph.canonical, base.canonical)
        let changed = live.intersection(saved).filter { present.nodes[$0] != before.nodes[$0] }
        let updated = numbers(context.updatedObjects)
        // An object that only lost a reference to one that is gone may count as changed or not.
        if !changed.subtracting(deleted).isSubset(of: updated) {
            let missing = changed.subtracting(updated).filter { number in
                graph.nodes[number]?.links.contains { name, list in
                    let old = base.links(of: number, name)
                    return list.filter { live.contains($0) } != old.filter { live.contains($0) }
                } == true || graph.nodes[number]?.text != base.nodes[number]?.text
            }
            if !missing.isEmpty { fail("\(missing) are not counted as updated") }
        }
    }

    /// Whether every comparison was right.
    private(set) var isClean = true

    /// Records a failure with everything that led to it.
    func fail(_ message: String) {
        isClean = false
        Issue.record("\(message)\n\(trace.joined(separator: "\n"))")
    }
}
