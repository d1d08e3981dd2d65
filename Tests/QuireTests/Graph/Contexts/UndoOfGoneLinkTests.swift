import Quire
import QuireTestSupport
import Testing

/// Undo that would lead objects to what is gone, which nobody has held since.
@MainActor @Suite struct UndoOfGoneLinkTests {
    let stack: TestStack
    let context: ManagedObjectContext
    let other: ManagedObjectContext

    init() throws {
        stack = try TestStack(ReferenceModel.shared.description)
        context = stack.mainContext()
        other = stack.mainContext()
        context.undoManager = UndoManager()
    }

    private func insert(_ entity: String, in context: ManagedObjectContext) throws -> ManagedObject
    {
        let object = try context.insertObject(entityName: entity)
        object["text"] = "x"
        return object
    }

    private func leads(_ object: ManagedObject, _ key: String) -> Bool {
        object.resolvedEntity.relationship(named: key)?.isToMany == true
            ? !object.objects(key).isEmpty : object.object(key) != nil
    }

    /// Saves the other context, and merges that here.
    private func saveOther() throws {
        other.processPendingChanges()
        let inserted = other.insertedObjects
        var changes = ObjectIDChanges(
            updated: other.updatedObjects.map(\.objectID),
            deleted: other.deletedObjects.map(\.objectID))
        try other.save()
        changes.inserted = inserted.map(\.objectID)
        context.mergeChanges(from: changes)
    }

    @Test(arguments: ["partner", "owner", "inList", "tags", "ranked", "both", "bookmark"])
    func whatOthersHaveDeletedIsNotLedToAgain(key: String) throws {
        func link(_ a: ManagedObject, to b: ManagedObject?, in context: ManagedObjectContext) {
            guard a.resolvedEntity.relationship(named: key)?.isToMany == true else {
                return a[key] = b
            }
            for b in a.objects(key) { a.remove(b, from: key) }
            if let b { a.add(b, to: key) }
        }
        let a = try insert("A", in: context)
        // Of what a child changes the undo log knows only the side that it has saved.
        func changeInChild() throws -> ManagedObjectID {
            let b = try insert("B", in: context)
            link(a, to: b, in: context)
            try context.save()
            // Which knows, and holds, what was made here.
            context.undoManager?.removeAllActions()
            let child = ManagedObjectContext.mainQueue(parent: context)
            link(child.object(with: a.objectID), to: nil, in: child)
            try child.save()
            try context.save()
            return b.objectID
        }
        let b = try changeInChild()
        other.delete(other.object(with: b))
        try saveOther()
        context.undo()
        #expect(!leads(a, key))
        a["text"] = "y"
        try context.save()
    }

    @Test(arguments: ["owner", "inList"])
    func whatIsBroughtBackDoesNotLeadToWhatIsTakenAway(key: String) throws {
        let b = try insert("B", in: context)
        context.processPendingChanges()
        try context.save()
        let their = try insert("A", in: other)
        their[key] = other.object(with: b.objectID)
        try saveOther()
        let a = context.object(with: their.objectID)
        #expect(leads(a, key))
        context.delete(a)
        context.processPendingChanges()
        try context.save()
        context.undo()
        #expect(a.isInserted && leads(a, key))
        context.undo()
        #expect(b.isDeleted && !leads(a, key))
        try context.save()
    }

    /// A reference without inverse stays when what it leads to is deleted.
    @Test(arguments: ["bookmark", "pins"], [false, true])
    func whatIsMadeAgainDoesNotLeadToWhatIsGone(key: String, isDeletedByOthers: Bool) throws {
        let isToMany = key == "pins"
        let a = try insert(isToMany ? "B" : "A", in: context)
        let b = try insert(isToMany ? "A" : "B", in: context)
        if isToMany { a.add(b, to: key) } else { a[key] = b }
        try context.save()
        context.delete(b)
        try context.save()
        context.undoManager?.removeAllActions()
        context.delete(a)
        context.processPendingChanges()
        if isDeletedByOthers {
            other.delete(other.object(with: a.objectID))
            try saveOther()
        } else {
            try context.save()
        }
        context.undo()
        #expect(a.isInserted && a["text", as: AttributeValue.self] == "x" && !leads(a, key))
        try context.save()
    }
}
