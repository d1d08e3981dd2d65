import Quire
import QuireTestSupport
import Testing

/// Links that are unsaved in one context, saved in another, and taken back there, and the contrary.
@MainActor @Suite struct TakenBackLinkTests {
    /// A relationship of the model, by its name in `A`, and its other side.
    enum Shape: String, CaseIterable, Sendable {
        case partner, owner, inList, tags, ranked, both, spouse, friends, parent

        var destination: String {
            self == .spouse || self == .friends || self == .parent ? "A" : "B"
        }

        var inverse: String {
            switch self {
            case .partner: "partner"
            case .owner: "owned"
            case .inList: "list"
            case .tags: "tagged"
            case .ranked: "rankedBy"
            case .both: "bothBy"
            case .spouse: "spouse"
            case .friends: "friends"
            case .parent: "children"
            }
        }
    }

    let stack: TestStack
    let context: ManagedObjectContext
    let other: ManagedObjectContext

    init() throws {
        stack = try TestStack(ReferenceModel.shared.description)
        context = stack.mainContext()
        other = stack.mainContext()
    }

    private func pair(_ shape: Shape, linked: Bool) throws -> (ManagedObject, ManagedObject) {
        let objects = try ["A", shape.destination].map { entity in
            let object = try context.insertObject(entityName: entity)
            object["text"] = "x"
            return object
        }
        if linked { set(true, objects[0], objects[1], shape) }
        try context.save()
        return (objects[0], objects[1])
    }

    private func set(_ isLinked: Bool, _ a: ManagedObject, _ b: ManagedObject, _ shape: Shape) {
        if a.resolvedEntity.relationship(named: shape.rawValue)?.isToMany == false {
            a[shape.rawValue] = isLinked ? b : nil
        } else if isLinked {
            a.add(b, to: shape.rawValue)
        } else {
            a.remove(b, from: shape.rawValue)
        }
    }

    private func leads(_ object: ManagedObject, _ key: String, to other: ManagedObject) -> Bool {
        object.resolvedEntity.relationship(named: key)?.isToMany == true
            ? object.objects(key).contains(other) : object.object(key) === other
    }

    private func saveAndMerge(
        _ isLinked: Bool, _ a: ManagedObject, _ b: ManagedObject, _ shape: Shape
    )
        throws
    {
        other.refreshAllObjects()
        set(isLinked, other.object(with: a.objectID), other.object(with: b.objectID), shape)
        let changes = ObjectIDChanges(updated: other.updatedObjects.map(\.objectID))
        try other.save()
        context.mergeChanges(from: changes)
    }

    /// What is read between the merges, which must not matter.
    enum Reading: CaseIterable, Sendable {
        case nothing, one, both
    }

    @Test(arguments: Shape.allCases)
    func aLinkThatWasPutBackHereGoesWithWhatOthersDelete(shape: Shape) throws {
        let (a, b) = try pair(shape, linked: true)
        for isLinked in [false, true] {
            set(isLinked, a, b, shape)
            context.processPendingChanges()
        }
        other.delete(other.object(with: b.objectID))
        other.processPendingChanges()
        let changes = ObjectIDChanges(
            updated: other.updatedObjects.map(\.objectID),
            deleted: other.deletedObjects.map(\.objectID))
        try other.save()
        context.mergeChanges(from: changes)
        if !changes.deleted.contains(a.objectID) {
            #expect(!leads(a, shape.rawValue, to: b))
            a["text"] = "y"
        }
        try context.save()
    }

    /// Whom others have put in the place of which end of a link that was made here.
    enum Replacement: CaseIterable, Sendable {
        case destination, source
    }

    @Test(arguments: [Shape.partner, .owner, .inList, .spouse, .parent], Replacement.allCases)
    func undoOfALinkEndsTheOneInItsPlaceThoughNobodyHoldsThat(
        shape: Shape, replacement: Replacement
    ) throws {
        context.undoManager = UndoManager()
        let (a, b) = try pair(shape, linked: false)
        set(true, a, b, shape)
        context.processPendingChanges()
        try context.save()

        let entity = replacement == .destination ? shape.destination : "A"
        let third = try other.insertObject(entityName: entity)
        let ends = [a, b].map { other.object(with: $0.objectID) }
        if replacement == .destination {
            set(true, ends[0], third, shape)
        } else {
            set(true, third, ends[1], shape)
        }
        let updated = other.updatedObjects.map(\.objectID)
        try other.save()
        context.mergeChanges(
            from: ObjectIDChanges(inserted: [third.objectID], updated: updated))
        #expect(context.registeredObject(for: third.objectID) == nil)
        context.undo()

        func check(_ context: ManagedObjectContext) {
            let (a, b, third) = (
                context.object(with: a.objectID), context.object(with: b.objectID),
                context.object(with: third.objectID)
            )
            #expect(!leads(a, shape.rawValue, to: b) && !leads(b, shape.inverse, to: a))
            if replacement == .destination {
                #expect(!leads(a, shape.rawValue, to: third))
                #expect(!leads(third, shape.inverse, to: a))
            } else {
                #expect(
                    leads(third, shape.rawValue, to: b) == leads(b, shape.inverse, to: third))
            }
        }
        check(context)
        try context.save()
        check(stack.mainContext())
    }

    @Test(arguments: Shape.allCases, Reading.allCases)
    func anOwnLinkStaysOnBothSides(shape: Shape, reading: Reading) throws {
        let (a, b) = try pair(shape, linked: false)
        set(true, a, b, shape)
        for isLinked in [true, false, true, false] {
            try saveAndMerge(isLinked, a, b, shape)
            if reading != .nothing { #expect(leads(b, shape.inverse, to: a)) }
            if reading == .both { #expect(leads(a, shape.rawValue, to: b)) }
        }
        #expect(leads(a, shape.rawValue, to: b))
        #expect(leads(b, shape.inverse, to: a))
        try context.save()
        let fresh = stack.mainContext()
        let (storedA, storedB) = (fresh.object(with: a.objectID), fresh.object(with: b.objectID))
        #expect(leads(storedA, shape.rawValue, to: storedB))
        #expect(leads(storedB, shape.inverse, to: storedA))
    }

    @Test(arguments: Shape.allCases, Reading.allCases)
    func anOwnRemovalStaysOnBothSides(shape: Shape, reading: Reading) throws {
        let (a, b) = try pair(shape, linked: true)
        context.refreshAllObjects()
        set(false, a, b, shape)
        for isLinked in [false, true, false, true] {
            try saveAndMerge(isLinked, a, b, shape)
            if reading != .nothing { #expect(!leads(b, shape.inverse, to: a)) }
            if reading == .both { #expect(!leads(a, shape.rawValue, to: b)) }
        }
        #expect(!leads(a, shape.rawValue, to: b))
        #expect(!leads(b, shape.inverse, to: a))
        try context.save()
        let fresh = stack.mainContext()
        let (storedA, storedB) = (fresh.object(with: a.objectID), fresh.object(with: b.objectID))
        #expect(!leads(storedA, shape.rawValue, to: storedB))
        #expect(!leads(storedB, shape.inverse, to: storedA))
    }

    /// What others have saved as well is taken out of the store when it is taken back here.
    @Test(arguments: Shape.allCases, Reading.allCases)
    func anOwnLinkThatOthersSavedTooIsTakenBack(shape: Shape, reading: Reading) throws {
        let (a, b) = try pair(shape, linked: false)
        set(true, a, b, shape)
        try saveAndMerge(true, a, b, shape)
        if reading != .nothing { #expect(leads(b, shape.inverse, to: a)) }
        if reading == .both { #expect(leads(a, shape.rawValue, to: b)) }
        set(false, a, b, shape)
        #expect(!leads(a, shape.rawValue, to: b))
        #expect(!leads(b, shape.inverse, to: a))
        try context.save()
        let fresh = stack.mainContext()
        let (storedA, storedB) = (fresh.object(with: a.objectID), fresh.object(with: b.objectID))
        #expect(!leads(storedA, shape.rawValue, to: storedB))
        #expect(!leads(storedB, shape.inverse, to: storedA))
    }

    @Test(arguments: Shape.allCases, Reading.allCases)
    func anOwnRemovalThatOthersSavedTooIsTakenBack(shape: Shape, reading: Reading) throws {
        let (a, b) = try pair(shape, linked: true)
        context.refreshAllObjects()
        set(false, a, b, shape)
        try saveAndMerge(false, a, b, shape)
        if reading != .nothing { #expect(!leads(b, shape.inverse, to: a)) }
        if reading == .both { #expect(!leads(a, shape.rawValue, to: b)) }
        set(true, a, b, shape)
        #expect(leads(a, shape.rawValue, to: b))
        #expect(leads(b, shape.inverse, to: a))
        try context.save()
        let fresh = stack.mainContext()
        let (storedA, storedB) = (fresh.object(with: a.objectID), fresh.object(with: b.objectID))
        #expect(leads(storedA, shape.rawValue, to: storedB))
        #expect(leads(storedB, shape.inverse, to: storedA))
    }

    /// What was taken out and put back here is set here, to-one, though it is what was saved; to-many it is no change.
    @Test(arguments: Shape.allCases, Reading.allCases)
    func aLinkPutBackStaysOnBothSidesOrNone(shape: Shape, reading: Reading) throws {
        let (a, b) = try pair(shape, linked: true)
        context.refreshAllObjects()
        set(false, a, b, shape)
        set(true, a, b, shape)
        let isSetHere = a.resolvedEntity.relationship(named: shape.rawValue)?.isToMany == false
        for isLinked in [false, true, false] {
            try saveAndMerge(isLinked, a, b, shape)
            let isThere = isLinked || isSetHere
            if reading != .nothing { #expect(leads(b, shape.inverse, to: a) == isThere) }
            if reading == .both { #expect(leads(a, shape.rawValue, to: b) == isThere) }
        }
        #expect(leads(a, shape.rawValue, to: b) == isSetHere)
        #expect(leads(b, shape.inverse, to: a) == isSetHere)
        try context.save()
        let fresh = stack.mainContext()
        let (storedA, storedB) = (fresh.object(with: a.objectID), fresh.object(with: b.objectID))
        #expect(leads(storedA, shape.rawValue, to: storedB) == isSetHere)
        #expect(leads(storedB, shape.inverse, to: storedA) == isSetHere)
    }

    /// A member that was put back in a place of its own, and led elsewhere by others, stays there.
    @Test(arguments: [false, true])
    func aMemberPutBackKeepsItsPlace(isRefreshed: Bool) throws {
        let (a, b) = try pair(.inList, linked: true)
        let (c, d) = try pair(.inList, linked: true)
        b.add(c, to: "list")
        try context.save()
        if isRefreshed { context.refreshAllObjects() }
        c["inList"] = nil
        b.insert(c, into: "list", at: 0)
        try saveAndMerge(true, c, d, .inList)
        #expect(b.objects("list") == [c, a])
        #expect(c.object("inList") == b)
        #expect(d.objects("list") == [])
        try context.save()
        let fresh = stack.mainContext()
        #expect(fresh.object(with: b.objectID).objectIDs("list") == [c.objectID, a.objectID])
        #expect(fresh.object(with: d.objectID).objectIDs("list") == [])
    }

    /// A child pushes both sides of what it has linked, whatever it has read since.
    @Test(arguments: Shape.allCases, Reading.allCases)
    func aChildsLinkArrivesOnBothSides(shape: Shape, reading: Reading) throws {
        let (a, b) = try pair(shape, linked: false)
        let (child, sibling) = (
            ManagedObjectContext.mainQueue(parent: context),
            ManagedObjectContext.mainQueue(parent: context)
        )
        func here(_ object: ManagedObject) -> ManagedObject { child.object(with: object.objectID) }
        func there(_ object: ManagedObject) -> ManagedObject {
            sibling.object(with: object.objectID)
        }
        set(true, here(a), here(b), shape)
        set(true, there(a), there(b), shape)
        try sibling.save()
        if reading != .nothing { #expect(leads(here(b), shape.inverse, to: here(a))) }
        if reading == .both { #expect(leads(here(a), shape.rawValue, to: here(b))) }
        set(false, there(a), there(b), shape)
        try sibling.save()
        try child.save()
        #expect(leads(a, shape.rawValue, to: b))
        #expect(leads(b, shape.inverse, to: a))
        try context.save()
        let fresh = stack.mainContext()
        let (storedA, storedB) = (fresh.object(with: a.objectID), fresh.object(with: b.objectID))
        #expect(leads(storedA, shape.rawValue, to: storedB))
        #expect(leads(storedB, shape.inverse, to: storedA))
    }
}
