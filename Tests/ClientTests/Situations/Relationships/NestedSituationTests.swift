import Foundation
import Quire
import Testing

/// Relationships in child contexts: an editor edits a scratch copy, and saves it or throws it away.
@MainActor @Suite struct NestedSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Order") {
            Attribute("name", .string)
            ToMany("lines", "Line", inverse: "order").ordered().deleteRule(.cascade)
            ToOne("customer", "Customer", inverse: "orders").required()
        }
        Entity("Line") {
            Attribute("name", .string)
            ToOne("order", "Order", inverse: "lines").required()
            ToMany("tags", "Tag", inverse: "lines")
        }
        Entity("Customer") {
            Attribute("name", .string)
            ToMany("orders", "Order", inverse: "customer").deleteRule(.deny)
        }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("lines", "Line", inverse: "tags")
        }
    }

    private func fill(_ context: ManagedObjectContext) throws {
        let tag = try context.insertNamed("Tag", "t")
        for (name, order) in [("c", "o"), ("d", "p")] {
            let customer = try context.insertNamed("Customer", name)
            let order = try context.insertNamed("Order", order, ["customer": customer])
            order["lines"] = try ["1", "2", "3"].map {
                try context.insertNamed("Line", $0 + name, ["tags": Set([tag])])
            }
        }
        try context.save()
    }

    /// A new order with new lines is made in a child of a child; each level has whole relationships after each save, also
    /// with what was there before, and before and after the objects have permanent identifiers.
    /// Source: wbyoung.tumblr.com “Core Data Growing Pains” (nested contexts: relationships and permanent identifiers).
    @Test(arguments: SituationStore.allCases, [false, true])
    func newObjectsOfAGrandchildAreRelatedOnEveryLevel(
        store: SituationStore, obtainsIDs: Bool
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let top = container.viewContext
            try fill(top)
            #expect(try top.findNamed("Customer", "c").memberNames("orders") == "o")
            let middle = ManagedObjectContext.mainQueue(parent: top)
            let bottom = ManagedObjectContext.mainQueue(parent: middle)
            let order = try bottom.insertNamed("Order", "n")
            order["customer"] = try bottom.findNamed("Customer", "c")
            let lines = try ["x", "y"].map { try bottom.insertNamed("Line", $0) }
            order["lines"] = lines
            lines[0].add(try bottom.findNamed("Tag", "t"), to: "tags")
            let moved = try bottom.findNamed("Line", "2c")
            order.insert(moved, into: "lines", at: 1)
            if obtainsIDs { try bottom.obtainPermanentIDs(for: lines) }
            @MainActor func check(_ context: ManagedObjectContext) throws {
                #expect(try context.findNamed("Customer", "c").memberNames("orders") == "no")
                #expect(try context.findNamed("Order", "n").memberNames("lines") == "x2cy")
                #expect(try context.findNamed("Order", "o").memberNames("lines") == "1c3c")
                #expect(try context.foundNames("Line", "order.customer.name == 'c'") == "1c2c3cxy")
                #expect(try context.findNamed("Tag", "t").memberNames("lines") == "1c1d2c2d3c3dx")
                #expect(
                    try context.foundNames("Line", "ANY tags.name == 't' AND order.name == 'n'")
                        == "2cx")
            }
            try check(bottom)
            try bottom.save()
            try check(bottom)
            try check(middle)
            try middle.save()
            try check(middle)
            try check(top)
            try top.save()
            for context in [top, middle, bottom] {
                try check(context)
                context.refreshAllObjects()
                try check(context)
            }
            // And once more, now that everything is saved.
            order.moveObject(in: "lines", from: 0, to: 2)
            bottom.delete(lines[1])
            try bottom.save()
            try middle.save()
            try top.save()
            #expect(try top.findNamed("Order", "n").memberNames("lines") == "2cx")
            top.reset()
            #expect(try top.findNamed("Order", "n").memberNames("lines") == "2cx")
        }
    }

    /// The editor is cancelled: what it related, moved and deleted is as before in the parent, also unsaved there.
    /// Source: Apple documentation, NSManagedObjectContext, “Parent Store”.
    @Test(arguments: SituationStore.allCases)
    func whatACancelledEditorDidIsNowhere(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let parent = container.viewContext
            try fill(parent)
            let order = try parent.findNamed("Order", "o")
            // Unsaved in the parent.
            order.insert(try parent.insertNamed("Line", "u"), into: "lines", at: 0)
            order["customer"] = try parent.findNamed("Customer", "d")
            do {
                let editor = ManagedObjectContext.mainQueue(parent: parent)
                let order = try #require(editor.object(with: order.objectID) as ManagedObject?)
                #expect(order.memberNames("lines") == "u1c2c3c")
                #expect(order.destinationName("customer") == "d")
                order.moveObject(in: "lines", from: 0, to: 3)
                editor.delete(try editor.findNamed("Line", "2c"))
                order["customer"] = try editor.findNamed("Customer", "c")
                editor.delete(try editor.findNamed("Order", "p"))
                editor.delete(try editor.findNamed("Customer", "d"))
                #expect(order.memberNames("lines") == "1c3cu")
                editor.rollback()
                #expect(order.memberNames("lines") == "u1c2c3c")
                order.remove(try editor.findNamed("Line", "u"), from: "lines")
            }
            #expect(order.memberNames("lines") == "u1c2c3c")
            #expect(try parent.findNamed("Customer", "d").memberNames("orders") == "op")
            #expect(try parent.findNamed("Customer", "c").memberNames("orders") == "")
            try parent.save()
            parent.reset()
            #expect(try parent.findNamed("Order", "o").memberNames("lines") == "u1c2c3c")
            #expect(try parent.findNamed("Customer", "d").memberNames("orders") == "op")
        }
    }

    /// The user deletes an object in the main context while an editor or a background context relates others to it.
    /// Source: ioscake.com “How to correctly propagate delete from main thread’s NSManagedObjectContext to child context on
    /// a background thread?”.
    @Test(arguments: SituationStore.allCases, [true, false])
    func relatingToWhatIsDeletedMeanwhileNeverDangles(
        store: SituationStore, isChild: Bool
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let main = container.viewContext
            try fill(main)
            let editor =
                isChild
                ? ManagedObjectContext.mainQueue(parent: main)
                : ManagedObjectContext.mainQueue(coordinator: container.persistentStoreCoordinator)
            let order = try editor.findNamed("Order", "o")
            let line = try editor.insertNamed("Line", "n", ["order": order])
            let kept = try editor.findNamed("Line", "1d")
            order.add(kept, to: "lines")
            let tag = try editor.findNamed("Tag", "t")
            line.add(tag, to: "tags")

            main.delete(try main.findNamed("Order", "o"))
            main.delete(try main.findNamed("Tag", "t"))
            if !isChild { try main.save() }
            do {
                try editor.save()
                if isChild { try main.save() }
                Issue.record("A line without its order was saved.")
            } catch let error as QuireError {
                #expect(error.code == .mergeConflict || error.code == .validation, "\(error)")
            }
            editor.rollback()
            if isChild {
                main.rollback()
                main.delete(try main.findNamed("Order", "o"))
                try main.save()
            }
            main.reset()
            editor.reset()
            for context in [main, editor] {
                #expect(try context.foundNames("Order") == "p")
                #expect(try context.foundNames("Line", "order == nil OR order.name == nil") == "")
                #expect(try context.foundNames("Line") == "1d2d3d")
            }
        }
    }

    /// Prefetched relationships of a child context are read, show the parent’s unsaved changes, and follow deletions.
    /// Source: openradar-mirror #15332 “Core data prefetching does not work from iOS8 for child managed object contexts”,
    /// MagicalRecord #1099, CoreStore #355; wire-ios-data-model #55 “Discard deleted messages from prefetch”.
    @Test(arguments: SituationStore.allCases, [true, false])
    func prefetchedRelationshipsOfAChildAreOfThisMoment(
        store: SituationStore, isChild: Bool
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let main = container.viewContext
            try fill(main)
            main.reset()
            let child = isChild ? ManagedObjectContext.mainQueue(parent: main) : main
            let order = try main.findNamed("Order", "o")
            order.insert(try main.insertNamed("Line", "u"), into: "lines", at: 0)
            main.delete(try main.findNamed("Line", "2c"))
            var request = FetchRequest<ManagedObject>(
                "Customer", sortOrderings: [SortOrdering("name")])
            request.relationshipKeyPathsForPrefetching = ["orders.lines.tags"]
            let customers: [ManagedObject] = try child.fetch(request)
            let found = try #require(customers[0].objects("orders").first)
            #expect(found.memberNames("lines") == "u1c3c")
            #expect(found.objects("lines").last?.memberNames("tags") == "t")
            child.delete(try child.findNamed("Line", "1c"))
            #expect(found.memberNames("lines") == "u3c")
            #expect(try child.findNamed("Tag", "t").memberNames("lines") == "1d2d3c3d")
            let again: [ManagedObject] = try child.fetch(request)
            #expect(again[0].objects("orders").first?.memberNames("lines") == "u3c")
            try child.save()
            if isChild { try main.save() }
            #expect(order.memberNames("lines") == "u3c")
            main.reset()
            #expect(try main.findNamed("Order", "o").memberNames("lines") == "u3c")
        }
    }
}
