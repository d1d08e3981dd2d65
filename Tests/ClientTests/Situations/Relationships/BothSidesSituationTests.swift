import Foundation
import Observation
import Quire
import Testing

/// Both sides of a relationship are changed by changing one: what is announced, refreshed, rolled back and refused.
@MainActor @Suite struct BothSidesSituationTests {
    private static let model = ManagedObjectModel {
        Entity("List") {
            Attribute("name", .string)
            ToMany("tasks", "Task", inverse: "list").ordered()
            ToMany("tags", "Tag", inverse: "lists")
        }
        Entity("Task") {
            Attribute("name", .string)
            ToOne("list", "List", inverse: "tasks")
            ToOne("next", "Task", inverse: "previous")
            ToOne("previous", "Task", inverse: "next")
        }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("lists", "List", inverse: "tags")
        }
    }

    private func fill(_ context: ManagedObjectContext) throws {
        let tag = try context.insertNamed("Tag", "t")
        for name in ["x", "y"] {
            let list = try context.insertNamed("List", name, ["tags": Set([tag])])
            list["tasks"] = try ["1", "2"].map { try context.insertNamed("Task", name + $0) }
        }
        try context.save()
    }

    /// A task is moved by its to-one side; both lists are among the updated objects, so that views of lists update.
    /// Source: Apple documentation, NSManagedObjectContextObjectsDidChange.
    @Test(arguments: SituationStore.allCases, [false, true])
    func listsAreAmongTheUpdatedObjectsWhenTheirTasksMove(
        store: SituationStore, isRead: Bool
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try fill(context)
            context.refreshAllObjects()
            let (x, y) = (try context.findNamed("List", "x"), try context.findNamed("List", "y"))
            if isRead { #expect(x.memberNames("tasks") + y.memberNames("tasks") == "x1x2y1y2") }
            let task = try context.findNamed("Task", "x1")
            final class Updates: @unchecked Sendable { var objects: [Set<ManagedObject>] = [] }
            let updates = Updates()
            let observer = NotificationCenter.default.addObserver(
                forName: ManagedObjectContext.didChangeObjectsNotification, object: context,
                queue: nil
            ) { notification in
                updates.objects.append(Set(notification.updatedObjects))
            }
            defer { NotificationCenter.default.removeObserver(observer) }
            task["list"] = y
            context.processPendingChanges()
            #expect(updates.objects == [[task, x, y]])
            #expect(x.hasChanges && y.hasChanges && Set(context.updatedObjects) == [task, x, y])
            let tag = try context.findNamed("Tag", "t")
            tag.remove(x, from: "lists")
            context.processPendingChanges()
            #expect(updates.objects.last == [tag, x])
            context.delete(task)
            context.processPendingChanges()
            #expect(updates.objects.last?.contains(y) == true)
            context.rollback()
            #expect(!context.hasChanges && x.memberNames("tasks") == "x1x2")
            #expect(x.memberNames("tags") == "t" && task.object("list") === x)
        }
    }

    /// A view that showed the tasks of a list is told when a task is moved there by its other side, undone, and merged from
    /// the background.
    /// Source: fatbobman.com “Core Data + Observation: From Property-Level Reactivity to a Freer Mental Model”.
    @Test(arguments: SituationStore.allCases)
    func observationOfAListHearsOfEveryWayItChanges(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try fill(context)
            context.undoManager = UndoManager()
            let y = try context.findNamed("List", "y")
            final class Count: @unchecked Sendable { var value = 0 }
            let count = Count()
            func watch() -> String {
                withObservationTracking {
                    y.memberNames("tasks")
                } onChange: {
                    count.value += 1
                }
            }
            #expect(watch() == "y1y2")
            try context.findNamed("Task", "x1")["list"] = y
            #expect(count.value == 1)
            #expect(watch() == "y1y2x1")
            context.processPendingChanges()
            context.undo()
            #expect(count.value == 2)
            #expect(watch() == "y1y2")
            y.moveObject(in: "tasks", from: 0, to: 1)
            #expect(count.value == 3)
            #expect(watch() == "y2y1")
            try context.save()
            var saves = container.saves.makeAsyncIterator()
            try await container.performBackgroundTask { other in
                other.delete(try other.findNamed("Task", "y2"))
                try other.findNamed("Task", "x2")["list"] = try other.findNamed("List", "y")
                try other.save()
            }
            context.mergeChanges(from: try #require(await saves.next()))
            #expect(count.value == 4)
            #expect(watch() == "y1x2")
        }
    }

    /// “Revert” of one object: its unsaved changes are discarded, and no other object keeps half of a relationship.
    /// Source: Apple documentation, `refresh(_:mergeChanges:)` (“any pending changes are lost”).
    @Test(arguments: SituationStore.allCases, ["task", "old list", "new list", "all"])
    func revertingOneObjectLeavesNoHalfRelationship(store: SituationStore, what: String)
        async throws
    {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try fill(context)
            let (x, y) = (try context.findNamed("List", "x"), try context.findNamed("List", "y"))
            let task = try context.findNamed("Task", "x1")
            let other = try context.findNamed("Task", "x2")
            let tag = try context.findNamed("Tag", "t")
            y.insert(task, into: "tasks", at: 0)
            task["next"] = other
            x.remove(tag, from: "tags")
            let objects = [
                "task": [task], "old list": [x], "new list": [y], "all": [task, x, y, other, tag],
            ]
            for object in try #require(objects[what]) {
                context.refresh(object, mergeChanges: false)
            }
            func check() throws {
                for list in [x, y] {
                    for task in list.objects("tasks") { #expect(task.object("list") === list) }
                    for each in list.objects("tags") {
                        #expect(each.objects("lists").contains(list))
                    }
                }
                let isInY = y.objects("tasks").contains(task)
                let isInX = x.objects("tasks").contains(task)
                #expect(!isInX || !isInY)
                #expect(task.object("list") === (isInY ? y : isInX ? x : nil))
                #expect((task.object("next") === other) == (other.object("previous") === task))
                #expect(x.objects("tags").contains(tag) == tag.objects("lists").contains(x))
            }
            try check()
            if what == "task" { #expect(x.memberNames("tasks").sorted() == ["1", "2", "x", "x"]) }
            if what == "all" {
                #expect(x.memberNames("tasks") == "x1x2" && y.memberNames("tasks") == "y1y2")
                #expect(task.object("next") == nil && x.memberNames("tags") == "t")
            }
            let names = [x.memberNames("tasks"), y.memberNames("tasks"), x.memberNames("tags")]
            try context.save()
            context.refreshAllObjects()
            try check()
            #expect(
                [x.memberNames("tasks"), y.memberNames("tasks"), x.memberNames("tags")] == names)
        }
    }

    /// A relationship is set to an object by an identifier from yesterday whose row does not exist any more.
    /// Source: wire-ios-data-model #85 “Attempt at fixing crash updating deleted asset message”.
    @Test(arguments: SituationStore.files)
    func anObjectThatIsGoneIsNotRelated(store: SituationStore) async throws {
        try await withProgramFolder { folder in
            let container = try await store.container(Self.model, in: folder)
            try fill(container.viewContext)
            let uri = try container.viewContext.findNamed("List", "x").objectID.uriRepresentation
            container.viewContext.delete(try container.viewContext.findNamed("List", "x"))
            try container.viewContext.save()
            try container.close()

            let next = try await store.container(Self.model, in: folder)
            let context = next.viewContext
            let gone = context.object(
                with: try next.persistentStoreCoordinator.objectID(for: uri))
            let task = try context.findNamed("Task", "y1")
            for isTried in [false, true] {
                do {
                    if isTried {
                        try task.setValue(gone, forKey: "list")
                    } else {
                        try context.findNamed("Tag", "t").mutableSetValue(forKey: "lists").add(gone)
                    }
                    try context.save()
                    #expect(context.takeFaultError() != nil, "A relation to nothing was saved.")
                } catch is QuireError {
                    context.rollback()
                }
            }
            context.reset()
            #expect(try context.foundNames("Task", "list.name == nil") == "x1x2")
            #expect(try context.findNamed("Tag", "t").memberNames("lists") == "y")
            #expect(try context.foundNames("Tag", "lists.@count == 1") == "t")
            try next.close()
        }
    }
}
