import Foundation
import Quire
import Testing

/// Linked lists and deep trees: thousands of cascades, one after the other.
@MainActor @Suite struct LongChainSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Link") {
            Attribute("name", .string)
            ToOne("next", "Link", inverse: "previous").deleteRule(.cascade)
            ToOne("previous", "Link", inverse: "next")
            ToOne("parent", "Link", inverse: "children")
            ToMany("children", "Link", inverse: "parent").deleteRule(.cascade)
        }
    }

    private static let length = 6_000

    private func makeChain(_ key: String, in context: ManagedObjectContext) throws -> ManagedObject
    {
        let first = try context.insertNamed("Link", "first")
        var last = first
        for _ in 1..<Self.length {
            let link = try context.insertObject(entityName: "Link")
            link[key] = last
            last = link
        }
        last["name"] = "last"
        return first
    }

    /// Deleting the first object of a long list deletes all of it, unsaved, saved or unread, and does not overflow the stack.
    /// Source: realm-core #746 “Support Cascading Deletes”.
    @Test(arguments: [SituationStore.sqlite, .inMemory], ["previous", "parent"])
    func aLongChainIsDeletedByItsFirstObject(store: SituationStore, key: String) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            context.delete(try makeChain(key, in: context))
            #expect(try context.count(for: FetchRequest("Link")) == 0)
            _ = try makeChain(key, in: context)
            try context.save()
            context.reset()
            #expect(try context.count(for: FetchRequest("Link")) == Self.length)
            context.undoManager = UndoManager()
            context.delete(try context.findNamed("Link", "first"))
            context.processPendingChanges()
            #expect(try context.count(for: FetchRequest("Link")) == 0)
            context.undo()
            #expect(try context.findNamed("Link", "last").object(key) != nil)
            context.redo()
            try context.save()
            #expect(try context.count(for: FetchRequest("Link")) == 0)
        }
    }
}
