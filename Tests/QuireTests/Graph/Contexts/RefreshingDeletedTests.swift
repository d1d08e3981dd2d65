import Quire
import QuireTestSupport
import Testing

/// Refreshing an object without its changes: all that it was linked to is linked to it again, on both sides.
@MainActor @Suite struct RefreshingDeletedTests {
    /// Links that an object has before it is changed or deleted: relationship, and positions among the other objects.
    struct Links: Sendable, CustomTestStringConvertible {
        var entity: String
        var key: String
        var others: [Int]

        var testDescription: String { "\(entity).\(key) = \(others)" }

        static let all: [Links] = [
            Links(entity: "A", key: "partner", others: [0]),
            Links(entity: "A", key: "owner", others: [1]),
            Links(entity: "A", key: "inList", others: [1]),
            Links(entity: "A", key: "tags", others: [0, 1, 2]),
            Links(entity: "A", key: "ranked", others: [2, 0, 1]),
            Links(entity: "A", key: "both", others: [1, 2, 0]),
            Links(entity: "A", key: "spouse", others: [2]),
            Links(entity: "A", key: "friends", others: [0, 1]),
            Links(entity: "A", key: "parent", others: [0]),
            Links(entity: "A", key: "children", others: [1, 2]),
            Links(entity: "A", key: "bookmark", others: [1]),
            Links(entity: "A", key: "guarded", others: [0]),
            Links(entity: "B", key: "partner", others: [1]),
            Links(entity: "B", key: "owned", others: [0, 2]),
            Links(entity: "B", key: "list", others: [2, 1, 0]),
            Links(entity: "B", key: "tagged", others: [0, 1]),
            Links(entity: "B", key: "rankedBy", others: [1, 2]),
            Links(entity: "B", key: "bothBy", others: [2, 0]),
            Links(entity: "B", key: "pins", others: [1]),
            Links(entity: "B", key: "guards", others: [0, 1]),
        ]
    }

    let stack: TestStack

    init() throws { stack = try TestStack(ReferenceModel.shared.description) }

    /// What all objects' relationships lead to, by number; and what leads to objects only on one side.
    private func seen(_ context: ManagedObjectContext, _ ids: [ManagedObjectID]) -> [String] {
        let numbers = Dictionary(uniqueKeysWithValues: ids.enumerated().map { ($1, $0) })
        return ids.enumerated().flatMap { number, id -> [String] in
            guard let object = try? context.existingObject(with: id) else { return [] }
            return object.resolvedEntity.relationships.compactMap { relationship in
                var targets =
                    relationship.isToMany
                    ? object.objectIDs(relationship.name).map { numbers[$0] ?? -1 }
                    : object.object(relationship.name).map { [numbers[$0.objectID] ?? -1] } ?? []
                if targets.isEmpty { return nil }
                if !relationship.isOrdered { targets.sort() }
                return "\(number).\(relationship.name) = \(targets)"
            }
        }
    }

    /// The subject is the first, three `A` and three `B` follow. All are saved; those beside the subject have links
    /// among each other too, so that orders have something around it.
    private func objects(
        _ links: Links, in context: ManagedObjectContext, isSelf: Bool = false
    ) throws -> [ManagedObject] {
        let objects = try [links.entity, "A", "A", "A", "B", "B", "B"].map { entity in
            let object = try context.insertObject(entityName: entity)
            object["text"] = "old"
            return object
        }
        let subject = objects[0]
        guard let relationship = subject.resolvedEntity.relationship(named: links.key) else {
            return []
        }
        let isA = context.layout.destination(of: relationship).name == "A"
        let others = links.others.map { objects[$0 + (isA ? 1 : 4)] }
        if let inverse = context.layout.inverse(of: relationship), inverse.isToMany,
            relationship.isToMany
        {
            // The subject is in the middle of what leads back to it.
            for other in others {
                let peers = (0..<2).map { objects[$0 + (links.entity == "A" ? 1 : 4)] }
                    .filter { $0 !== other && !others.contains($0) }
                other[inverse.name] = peers.prefix(1) + [subject] + peers.dropFirst()
            }
            if relationship.isOrdered { subject[links.key] = others }
        } else if relationship.isToMany {
            subject[links.key] = others
        } else {
            if let inverse = context.layout.inverse(of: relationship), inverse.isToMany {
                let peers = (1...2).map { objects[$0] }.filter { $0 !== others[0] }
                others[0][inverse.name] = peers.prefix(1) + [subject] + peers.dropFirst()
            } else {
                subject[links.key] = others[0]
            }
        }
        if isSelf, isA, links.entity == "A" {
            if relationship.isToMany {
                subject.add(subject, to: links.key)
            } else {
                subject[links.key] = subject
            }
        }
        try stack.save(context)
        return objects
    }

    private func expectStored(
        _ context: ManagedObjectContext, _ ids: [ManagedObjectID], _ expected: [String]
    ) throws {
        #expect(seen(context, ids) == expected)
        try stack.save(context)
        #expect(seen(context, ids) == expected)
        #expect(seen(stack.mainContext(), ids) == expected, "stored")
    }

    /// How the objects are when the first is deleted.
    enum Reading: CaseIterable, Sendable {
        case inMemory, faults
    }

    @Test(arguments: Links.all, ContextArrangement.allCases)
    func aDeletedObjectIsThereAgainWithAllItsLinks(
        links: Links, arrangement: ContextArrangement
    ) throws {
        for (reading, isSelf) in [
            (Reading.inMemory, false), (.faults, false), (.faults, true), (.inMemory, true),
        ] {
            let context = stack.context(arrangement)
            let objects = try objects(links, in: context, isSelf: isSelf)
            let ids = objects.map(\.objectID)
            let before = seen(context, ids)
            if reading == .faults { context.refreshAllObjects() }
            context.delete(objects[0])
            for object in [objects[0]] + objects[1...].filter(\.isDeleted) {
                context.refresh(object, mergeChanges: false)
            }
            #expect(context.deletedObjects == [])
            try expectStored(context, ids, before)
        }
    }

    @Test(arguments: Links.all, ContextArrangement.allCases)
    func undoDeletesItAgain(links: Links, arrangement: ContextArrangement) throws {
        let context = stack.context(arrangement)
        context.undoManager = UndoManager()
        let objects = try objects(links, in: context)
        let ids = objects.map(\.objectID)
        let before = seen(context, ids)
        context.delete(objects[0])
        context.processPendingChanges()
        let deleted = seen(context, ids)
        context.refresh(objects[0], mergeChanges: false)
        let refreshed = seen(context, ids)
        context.undo()
        #expect(objects[0].isDeleted)
        #expect(seen(context, ids) == deleted)
        context.redo()
        #expect(seen(context, ids) == refreshed)
        context.undo()
        context.undo()
        #expect(seen(context, ids) == before)
        #expect(!context.hasChanges)
    }

    @Test(arguments: Links.all, ContextArrangement.allCases)
    func unsavedLinksOfADeletedObjectAreGone(
        links: Links, arrangement: ContextArrangement
    ) throws {
        let context = stack.context(arrangement)
        let objects = try objects(links, in: context)
        let ids = objects.map(\.objectID)
        let before = seen(context, ids)
        guard let relationship = objects[0].resolvedEntity.relationship(named: links.key) else {
            return
        }
        let isA = context.layout.destination(of: relationship).name == "A"
        guard let free = (0..<3).first(where: { !links.others.contains($0) }) else { return }
        let unsaved = objects[free + (isA ? 1 : 4)]
        if relationship.isToMany {
            objects[0].add(unsaved, to: links.key)
        } else {
            objects[0][links.key] = unsaved
        }
        context.delete(objects[0])
        for object in [objects[0]] + objects[1...].filter(\.isDeleted) {
            context.refresh(object, mergeChanges: false)
        }
        try expectStored(context, ids, before)
    }

    @Test(arguments: Links.all, ContextArrangement.allCases)
    func aChangedObjectGoesBackToItsPlaces(
        links: Links, arrangement: ContextArrangement
    ) throws {
        let context = stack.context(arrangement)
        let objects = try objects(links, in: context)
        let ids = objects.map(\.objectID)
        let before = seen(context, ids)
        guard let relationship = objects[0].resolvedEntity.relationship(named: links.key) else {
            return
        }
        if relationship.isToMany {
            objects[0][links.key] = [ManagedObject]()
        } else {
            objects[0][links.key] = nil
        }
        context.refresh(objects[0], mergeChanges: false)
        try expectStored(context, ids, before)
    }

    @Test func whatWasDeletedInAChildIsThereAgainInItsParent() throws {
        // The child's save would be denied for what it guards.
        for links in Links.all where links.key != "guards" {
            let parent = stack.mainContext()
            let ids = try objects(links, in: parent).map(\.objectID)
            let before = seen(stack.mainContext(), ids)
            parent.refreshAllObjects()
            let child = ManagedObjectContext.mainQueue(parent: parent)
            child.delete(child.object(with: ids[0]))
            try child.save()
            for id in ids where parent.object(with: id).isDeleted {
                parent.refresh(parent.object(with: id), mergeChanges: false)
            }
            #expect(parent.deletedObjects == [])
            try expectStored(parent, ids, before)
        }
    }

    @Test func linksToWhatWasDeletedMeanwhileDoNotComeBack() throws {
        let context = stack.mainContext()
        let (p, q) = (
            try context.insertObject(entityName: "A"), try context.insertObject(entityName: "A")
        )
        p.add(q, to: "friends")
        p["spouse"] = q
        try context.save()
        context.delete(p)
        context.delete(q)
        context.refresh(p, mergeChanges: false)
        #expect(p.objects("friends") == [])
        #expect(p.object("spouse") == nil)
        try context.save()
        let fresh = stack.mainContext()
        #expect(fresh.object(with: p.objectID).objects("friends") == [])
        #expect(fresh.object(with: p.objectID).object("spouse") == nil)
        #expect(try fresh.count(for: FetchRequest("A")) == 1)
    }

    @Test func aPlaceThatWasTakenMeanwhileIsGivenBackOnBothSides() throws {
        let context = stack.mainContext()
        let objects = try (0..<3).map { _ in try context.insertObject(entityName: "A") }
        objects[0]["spouse"] = objects[1]
        try context.save()
        context.delete(objects[0])
        objects[1]["spouse"] = objects[2]
        context.refresh(objects[0], mergeChanges: false)
        #expect(objects.map { $0.object("spouse") } == [objects[1], objects[0], nil])
        try context.save()
        let fresh = stack.mainContext()
        #expect(
            objects.map { fresh.object(with: $0.objectID).object("spouse")?.objectID }
                == [objects[1].objectID, objects[0].objectID, nil])
    }
}
