import Quire
import QuireTestSupport
import Testing

/// Children that save what they have read before a sibling's save, into a parent that holds none of the objects.
@MainActor @Suite struct StaleChildTests {
    /// The parent that both children share, and what it saves to.
    enum Parent: CaseIterable, Sendable {
        case root
        case middle

        @MainActor func context(_ stack: TestStack, _ policy: MergePolicy) -> ManagedObjectContext {
            let root = stack.mainContext()
            root.mergePolicy = policy
            return self == .root ? root : .mainQueue(parent: root)
        }
    }

    nonisolated static let policies: [MergePolicy] = [
        .error, .overwrite, .rollback, .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump,
    ]

    /// What the parent forgets between the siblings' saves.
    enum Forgetting: CaseIterable, Sendable {
        case nothing
        case refreshAll
        case reset
    }

    let stack: TestStack

    init() throws { stack = try TestStack(ReferenceModel.shared.description) }

    private func child(_ parent: ManagedObjectContext) -> ManagedObjectContext {
        .mainQueue(parent: parent)
    }

    /// The identifiers of new objects, saved.
    private func saved(
        _ entities: [String], _ set: ([ManagedObject]) -> Void = { _ in }
    ) throws -> [ManagedObjectID] {
        let context = stack.mainContext()
        let objects = try entities.enumerated().map { number, entity in
            let object = try context.insertObject(entityName: entity)
            object["number"] = Int64(number)
            object["text"] = "old"
            return object
        }
        set(objects)
        try context.save()
        return objects.map(\.objectID)
    }

    /// Saves a context and all above it.
    private func saveAll(_ context: ManagedObjectContext) throws {
        try stack.save(context)
    }

    private func forget(_ forgetting: Forgetting, _ context: ManagedObjectContext) {
        switch forgetting {
        case .nothing: break
        case .refreshAll: context.refreshAllObjects()
        case .reset: context.reset()
        }
    }

    private func expect(
        _ id: ManagedObjectID, _ number: Int64, _ text: String, _ context: ManagedObjectContext,
        _ location: SourceLocation = #_sourceLocation
    ) throws {
        let object = context.object(with: id)
        #expect(object["number", as: Int64.self] == number, sourceLocation: location)
        #expect(object["text", as: String.self] == text, sourceLocation: location)
        let fresh = stack.mainContext()
        let stored = fresh.object(with: id)
        #expect(stored["number", as: Int64.self] == number, "stored", sourceLocation: location)
        #expect(stored["text", as: String.self] == text, "stored", sourceLocation: location)
    }

    // MARK: Values

    @Test(arguments: Parent.allCases, policies)
    func otherPropertiesKeepWhatASiblingSaved(kind: Parent, policy: MergePolicy) throws {
        let parent = kind.context(stack, policy)
        let object = try parent.insertObject(entityName: "A")
        object["number"] = 1
        object["text"] = "a"
        try saveAll(parent)
        let id = object.objectID
        parent.reset()
        let (stale, sibling) = (child(parent), child(parent))
        let theirs = stale.object(with: id)
        #expect(theirs["text", as: String.self] == "a")
        sibling.object(with: id)["number"] = 2
        try sibling.save()
        try saveAll(parent)
        theirs["text"] = "b"
        try stale.save()
        #expect(parent.object(with: id)["number", as: Int64.self] == 2)
        #expect(parent.object(with: id)["text", as: String.self] == "b")
        try saveAll(parent)
        try expect(id, 2, "b", parent)
    }

    @Test(arguments: Parent.allCases, Forgetting.allCases)
    func whatTheParentHasForgottenSinceChangesNothing(
        kind: Parent, forgetting: Forgetting
    ) throws {
        let id = try saved(["A"])[0]
        let parent = kind.context(stack, .error)
        let (stale, sibling) = (child(parent), child(parent))
        let theirs = stale.object(with: id)
        #expect(theirs["text", as: String.self] == "old")
        sibling.object(with: id)["number"] = 2
        try sibling.save()
        try saveAll(parent)
        forget(forgetting, parent)
        theirs["text"] = "b"
        try stale.save()
        #expect(parent.object(with: id)["number", as: Int64.self] == 2)
        try saveAll(parent)
        try expect(id, 2, "b", parent)
    }

    @Test(arguments: Parent.allCases, Forgetting.allCases)
    func aChildThatHasSavedBeforeKeepsWhatItsSiblingSavedSince(
        kind: Parent, forgetting: Forgetting
    ) throws {
        let id = try saved(["A"])[0]
        let parent = kind.context(stack, .error)
        let (stale, sibling) = (child(parent), child(parent))
        let theirs = stale.object(with: id)
        theirs["text"] = "first"
        try stale.save()
        try saveAll(parent)
        sibling.object(with: id)["number"] = 2
        try sibling.save()
        try saveAll(parent)
        forget(forgetting, parent)
        for text in ["second", "third"] {
            theirs["text"] = text
            try stale.save()
            #expect(parent.object(with: id)["number", as: Int64.self] == 2)
            try saveAll(parent)
            try expect(id, 2, text, parent)
        }
    }

    @Test(arguments: Parent.allCases)
    func whatTheParentItselfSavedIsKept(kind: Parent) throws {
        let id = try saved(["A"])[0]
        let parent = kind.context(stack, .error)
        let stale = child(parent)
        let theirs = stale.object(with: id)
        theirs["text"] = "first"
        try stale.save()
        parent.object(with: id)["number"] = 2
        try saveAll(parent)
        theirs["text"] = "second"
        try stale.save()
        #expect(parent.object(with: id)["number", as: Int64.self] == 2)
        try saveAll(parent)
        try expect(id, 2, "second", parent)
    }

    @Test(arguments: Parent.allCases)
    func whatTheParentHasTakenBackDoesNotComeAgain(kind: Parent) throws {
        let id = try saved(["A"])[0]
        let parent = kind.context(stack, .error)
        let other = child(parent)
        let theirs = other.object(with: id)
        theirs["text"] = "first"
        try other.save()
        try saveAll(parent)
        theirs["number"] = 7
        try other.save()
        parent.rollback()
        theirs["text"] = "second"
        try other.save()
        #expect(parent.object(with: id)["number", as: Int64.self] == 0)
        try saveAll(parent)
        try expect(id, 0, "second", parent)
    }

    @Test func whatAnUncleSavedIsKeptOnBothLevels() throws {
        let id = try saved(["A"])[0]
        let root = stack.mainContext()
        let (middle, uncle) = (child(root), child(root))
        let stale = child(middle)
        let theirs = stale.object(with: id)
        #expect(theirs["text", as: String.self] == "old")
        uncle.object(with: id)["number"] = 2
        try uncle.save()
        theirs["text"] = "b"
        try stale.save()
        #expect(middle.object(with: id)["number", as: Int64.self] == 2)
        try middle.save()
        #expect(root.object(with: id)["number", as: Int64.self] == 2)
        try root.save()
        uncle.refreshAllObjects()
        uncle.object(with: id)["number"] = 3
        try uncle.save()
        try root.save()
        theirs["text"] = "c"
        try stale.save()
        #expect(middle.object(with: id)["number", as: Int64.self] == 3)
        try middle.save()
        try root.save()
        try expect(id, 3, "c", middle)
        try expect(id, 3, "c", root)
    }

    @Test(arguments: Parent.allCases)
    func theSamePropertyIsTheLastChilds(kind: Parent) throws {
        let id = try saved(["A"])[0]
        let parent = kind.context(stack, .error)
        let (stale, sibling) = (child(parent), child(parent))
        let theirs = stale.object(with: id)
        #expect(theirs["text", as: String.self] == "old")
        sibling.object(with: id)["text"] = "sibling"
        try sibling.save()
        try saveAll(parent)
        theirs["text"] = "stale"
        try stale.save()
        try saveAll(parent)
        try expect(id, 0, "stale", parent)
    }

    // MARK: Deletions

    @Test(arguments: Parent.allCases, policies)
    func aStaleDeletionIsNoConflict(kind: Parent, policy: MergePolicy) throws {
        let id = try saved(["A"])[0]
        let parent = kind.context(stack, policy)
        let (stale, sibling) = (child(parent), child(parent))
        let theirs = stale.object(with: id)
        #expect(theirs["text", as: String.self] == "old")
        sibling.object(with: id)["number"] = 2
        try sibling.save()
        try saveAll(parent)
        stale.delete(theirs)
        try stale.save()
        try saveAll(parent)
        #expect(try stack.mainContext().count(for: FetchRequest("A")) == 0)
    }

    @Test(arguments: Parent.allCases, policies)
    func whatASiblingDeletedAndSavedStaysDeleted(kind: Parent, policy: MergePolicy) throws {
        let ids = try saved(["A", "A"])
        let parent = kind.context(stack, policy)
        let (stale, sibling) = (child(parent), child(parent))
        let theirs = ids.map { stale.object(with: $0) }
        for object in theirs { #expect(object["text", as: String.self] == "old") }
        for id in ids { sibling.delete(sibling.object(with: id)) }
        try sibling.save()
        try saveAll(parent)
        theirs[0]["text"] = "b"
        stale.delete(theirs[1])
        try stale.save()
        try saveAll(parent)
        #expect(try stack.mainContext().count(for: FetchRequest("A")) == 0)
    }

    // MARK: Relationships

    @Test(arguments: Parent.allCases)
    func aStaleMoveLeavesWhereASiblingMovedTheObject(kind: Parent) throws {
        let ids = try saved(["A", "B", "B", "B"]) { $0[0]["owner"] = $0[1] }
        let parent = kind.context(stack, .error)
        let (stale, sibling) = (child(parent), child(parent))
        let theirs = stale.object(with: ids[0])
        #expect(theirs.object("owner")?.objectID == ids[1])
        sibling.object(with: ids[0])["owner"] = sibling.object(with: ids[2])
        try sibling.save()
        try saveAll(parent)
        theirs["owner"] = stale.object(with: ids[3])
        try stale.save()
        func owned(_ context: ManagedObjectContext) -> [Int] {
            ids[1...].map { context.object(with: $0).objectIDs("owned").count }
        }
        #expect(owned(parent) == [0, 0, 1])
        try saveAll(parent)
        #expect(owned(parent) == [0, 0, 1])
        #expect(owned(stack.mainContext()) == [0, 0, 1])
    }

    @Test(arguments: Parent.allCases)
    func aStaleOrderKeepsWhatASiblingAdded(kind: Parent) throws {
        let ids = try saved(["B", "A", "A", "A"]) {
            $0[0]["list"] = [$0[1], $0[2]]
        }
        let parent = kind.context(stack, .error)
        let (stale, sibling) = (child(parent), child(parent))
        let theirs = stale.object(with: ids[0])
        #expect(theirs.objectIDs("list") == [ids[1], ids[2]])
        sibling.object(with: ids[0]).add(sibling.object(with: ids[3]), to: "list")
        try sibling.save()
        try saveAll(parent)
        theirs.moveObject(in: "list", from: 1, to: 0)
        try stale.save()
        let expected = [ids[2], ids[1], ids[3]]
        #expect(parent.object(with: ids[0]).objectIDs("list") == expected)
        try saveAll(parent)
        #expect(parent.object(with: ids[0]).objectIDs("list") == expected)
        let fresh = stack.mainContext()
        #expect(fresh.object(with: ids[0]).objectIDs("list") == expected)
    }

    // MARK: Conflicts with others

    @Test func aRivalsSaveIsStillAConflict() throws {
        let id = try saved(["A"])[0]
        let rival = PersistentStoreCoordinator(
            store: try SQLiteStore.open(at: stack.path, model: ReferenceModel.shared.description))
        defer { try? rival.close() }
        let parent = stack.mainContext()
        let (stale, sibling) = (child(parent), child(parent))
        let theirs = stale.object(with: id)
        theirs["text"] = "first"
        try stale.save()
        try parent.save()
        sibling.object(with: id)["number"] = 2
        try sibling.save()
        try parent.save()
        let elsewhere = ManagedObjectContext.mainQueue(coordinator: rival)
        elsewhere.object(with: id)["text"] = "rival"
        try elsewhere.save()
        theirs["text"] = "second"
        try stale.save()
        #expect(throws: QuireError.self) { try parent.save() }
        parent.mergePolicy = .mergeByPropertyStoreTrump
        try parent.save()
        let fresh = ManagedObjectContext.mainQueue(coordinator: rival)
        let stored = fresh.object(with: id)
        #expect(stored["text", as: String.self] == "rival")
        #expect(stored["number", as: Int64.self] == 2)
    }
}
