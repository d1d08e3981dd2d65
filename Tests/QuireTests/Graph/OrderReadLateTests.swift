import Quire
import QuireTestSupport
import Testing

/// Ordered relationships that are first read, or not read at all, after something was taken out.
@MainActor @Suite struct OrderReadLateTests {
    /// `B.list` is one-to-many, the other two are many-to-many: ordered on one side, and on both.
    enum Order: String, CaseIterable, Sendable {
        case list, bothBy
        case rankedOf = "ranked"

        var owner: String { self == .rankedOf ? "A" : "B" }
        var member: String { self == .rankedOf ? "B" : "A" }
        var inverse: String {
            switch self {
            case .list: "inList"
            case .bothBy: "both"
            case .rankedOf: "rankedBy"
            }
        }
    }

    /// Where the contexts save, and whether there is an undo manager, which has more read in advance.
    enum Context: CaseIterable, Sendable {
        case root, child, undoingRoot, undoingChild

        var undoes: Bool { self == .undoingRoot || self == .undoingChild }

        @MainActor func make(_ stack: TestStack) -> ManagedObjectContext {
            let context = stack.context(
                self == .root || self == .undoingRoot ? .direct : .nested)
            if undoes { context.undoManager = UndoManager() }
            return context
        }
    }

    let stack: TestStack

    init() throws { stack = try TestStack(ReferenceModel.shared.description) }

    /// The identifiers of an owner and its three members, saved.
    private func saved(_ order: Order) throws -> (ManagedObjectID, [ManagedObjectID]) {
        let context = stack.mainContext()
        let owner = try context.insertObject(entityName: order.owner)
        let members = try (0..<3).map { _ in
            try context.insertObject(entityName: order.member)
        }
        owner[order.rawValue] = members
        try context.save()
        return (owner.objectID, members.map(\.objectID))
    }

    private func leave(_ member: ManagedObject, _ owner: ManagedObject, _ order: Order) {
        if order == .list {
            member[order.inverse] = nil
        } else {
            member.remove(owner, from: order.inverse)
        }
    }

    private func enter(_ member: ManagedObject, _ owner: ManagedObject, _ order: Order) {
        if order == .list {
            member[order.inverse] = owner
        } else {
            member.add(owner, to: order.inverse)
        }
    }

    private func committed(_ owner: ManagedObject, _ order: Order) throws -> PropertyValue? {
        try owner.committedValues(forKeys: [order.rawValue])[order.rawValue]
    }

    private func stored(_ owner: ManagedObjectID, _ order: Order) -> [ManagedObjectID] {
        let fresh = stack.mainContext()
        return fresh.object(with: owner).objectIDs(order.rawValue)
    }

    @Test(arguments: Order.allCases, Context.allCases)
    func aMemberIsPutBackInAnotherPlace(
        order: Order, kind: Context
    ) throws {
        let (id, ids) = try saved(order)
        let context = kind.make(stack)
        let (owner, first) = (context.object(with: id), context.object(with: ids[0]))
        leave(first, owner, order)
        #expect(owner.objectIDs(order.rawValue) == [ids[1], ids[2]])
        #expect(try committed(owner, order) == .objectIDs(ids))
        owner.insert(first, into: order.rawValue, at: 1)
        let expected = [ids[1], ids[0], ids[2]]
        #expect(owner.objectIDs(order.rawValue) == expected)
        #expect(try committed(owner, order) == .objectIDs(ids))
        #expect(owner.changedValues()[order.rawValue] == .objectIDs(expected))
        if kind.undoes {
            context.processPendingChanges()
            context.undo()
            #expect(owner.objectIDs(order.rawValue) == ids)
            #expect(!context.hasChanges)
            context.redo()
            #expect(owner.objectIDs(order.rawValue) == expected)
        }
        try context.save()
        if let parent = context.parent {
            #expect(
                parent.performAndWait { $0.object(with: id).objectIDs(order.rawValue) } == expected)
            try parent.performAndWait { try $0.save() }
        }
        #expect(stored(id, order) == expected)
        if kind.undoes {
            context.undo()
            #expect(owner.objectIDs(order.rawValue) == ids)
            try stack.save(context)
            #expect(stored(id, order) == ids)
        }
    }

    @Test(arguments: Order.allCases, Context.allCases)
    func aMemberThatLeavesAndComesUnreadIsLast(
        order: Order, kind: Context
    ) throws {
        let (id, ids) = try saved(order)
        let context = kind.make(stack)
        let (owner, first) = (context.object(with: id), context.object(with: ids[0]))
        leave(first, owner, order)
        enter(first, owner, order)
        let expected = [ids[1], ids[2], ids[0]]
        #expect(owner.objectIDs(order.rawValue) == expected)
        #expect(try committed(owner, order) == .objectIDs(ids))
        try stack.save(context)
        #expect(owner.objectIDs(order.rawValue) == expected)
        #expect(stored(id, order) == expected)
    }

    /// What changes the order of an owner whose own values nobody has read.
    enum Rearrangement: CaseIterable, Sendable {
        case leaveAndEnter, removeAndAdd, insertFirst, insertLast, move
    }

    /// The order is part of the owner's row, so a save must know what it is to follow on.
    @Test(arguments: Order.allCases, Rearrangement.allCases)
    func theOrderOfAnOwnerThatWasNotReadIsSaved(
        order: Order, rearrangement: Rearrangement
    ) throws {
        let (id, ids) = try saved(order)
        let other = stack.mainContext()
        let new = try other.insertObject(entityName: order.member)
        try other.save()
        for kind in Context.allCases {
            let context = kind.make(stack)
            let (owner, first) = (context.object(with: id), context.object(with: ids[0]))
            let old = owner.objectIDs(order.rawValue)
            #expect(owner.isFault)
            switch rearrangement {
            case .leaveAndEnter:
                leave(first, owner, order)
                enter(first, owner, order)
            case .removeAndAdd:
                owner.remove(first, from: order.rawValue)
                owner.add(first, to: order.rawValue)
            case .insertFirst:
                owner.insert(context.object(with: new.objectID), into: order.rawValue, at: 0)
            case .insertLast:
                owner.insert(context.object(with: new.objectID), into: order.rawValue, at: 3)
            case .move: owner.moveObject(in: order.rawValue, from: 0, to: 2)
            }
            let expected = owner.objectIDs(order.rawValue)
            #expect(expected != old)
            try stack.save(context)
            #expect(stored(id, order) == expected)
            owner[order.rawValue] = ids.map { context.object(with: $0) }
            try stack.save(context)
        }
    }

    @Test(arguments: Order.allCases, ContextArrangement.allCases)
    func theContentsBeforeTheEventHaveTheirOrder(
        order: Order, arrangement: ContextArrangement
    ) throws {
        let (id, ids) = try saved(order)
        let context = stack.context(arrangement)
        let (owner, first) = (context.object(with: id), context.object(with: ids[0]))
        leave(first, owner, order)
        #expect(owner.changedValuesForCurrentEvent()[order.rawValue] == .objectIDs(ids))
        owner.insert(first, into: order.rawValue, at: 1)
        #expect(owner.changedValuesForCurrentEvent()[order.rawValue] == .objectIDs(ids))
    }

    @Test(arguments: Order.allCases, ContextArrangement.allCases)
    func aMemberTakenOutBeforeTheFirstReadingOnlyGoes(
        order: Order, arrangement: ContextArrangement
    ) throws {
        let (id, ids) = try saved(order)
        let context = stack.context(arrangement)
        let (owner, second) = (context.object(with: id), context.object(with: ids[1]))
        leave(second, owner, order)
        #expect(owner.objectIDs(order.rawValue) == [ids[0], ids[2]])
        // Another's order is kept if there is none of its own here.
        if arrangement == .direct {
            let other = stack.mainContext()
            let theirs = other.object(with: id)
            theirs.moveObject(in: order.rawValue, from: 2, to: 0)
            try other.save()
            context.mergeChanges(from: ObjectIDChanges(updated: [id]))
            #expect(owner.objectIDs(order.rawValue) == [ids[2], ids[0]])
        }
        try stack.save(context)
        #expect(stored(id, order) == owner.objectIDs(order.rawValue))
    }
}
