import Foundation
import Quire
import Testing

/// Relationships without an inverse: an item with a tag that does not know its items, a list of bookmarks.
@MainActor @Suite struct OneWaySituationTests {
    private static let model = ManagedObjectModel {
        Entity("Item") {
            Attribute("name", .string)
            ToOne("tag", "Tag")
            ToOne("cover", "Picture").deleteRule(.cascade)
            ToOne("maker", "Maker").required()
        }
        Entity("Tag") { Attribute("name", .string) }
        Entity("Picture") { Attribute("name", .string) }
        Entity("Maker") { Attribute("name", .string) }
        Entity("Reader") {
            Attribute("name", .string)
            ToMany("pages", "Page")
            ToMany("marks", "Mark").ordered()
            ToMany("own", "Slip").deleteRule(.cascade)
            ToMany("held", "Stone").deleteRule(.deny)
        }
        Entity("Page") { Attribute("name", .string) }
        Entity("Mark") { Attribute("name", .string) }
        Entity("Slip") { Attribute("name", .string) }
        Entity("Stone") { Attribute("name", .string) }
    }

    private func makeItem(_ name: String, in context: ManagedObjectContext) throws -> ManagedObject
    {
        try context.insertNamed(
            "Item", name,
            [
                "tag": try context.insertNamed("Tag", name),
                "cover": try context.insertNamed("Picture", name),
                "maker": try context.insertNamed("Maker", name),
            ])
    }

    /// A tag that items refer to, without an inverse, was deleted; the program goes through the items that referred to it
    /// and gives them another tag, or none.
    /// Source: Apple Developer Forums 776645 “Debugging/Fixing deleted relationship objects with SwiftData”.
    @Test(arguments: SituationStore.allCases, [false, true])
    func itemsWhoseTagIsGoneAreFoundAndRepaired(
        store: SituationStore, isDeletedElsewhere: Bool
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let items = try ["a", "b", "c"].map { try makeItem($0, in: context) }
            try context.save()
            if isDeletedElsewhere {
                try await container.performBackgroundTask { other in
                    for name in ["a", "b"] { other.delete(try other.findNamed("Tag", name)) }
                    try other.save()
                }
                context.refreshAllObjects()
            } else {
                for name in ["a", "b"] { context.delete(try context.findNamed("Tag", name)) }
                try context.save()
            }
            #expect(items[0].destinationName("tag") == nil)
            #expect(items[2].destinationName("tag") == "c")
            #expect(try context.foundNames("Item", "tag.name == nil") == "ab")
            items[0]["name"] = "A"  // An item may be saved as it is.
            try context.save()
            let broken = try context.fetch(
                FetchRequest<ManagedObject>(
                    "Item", predicate: try QueryPredicate(format: "tag.name == nil"),
                    sortOrderings: [SortOrdering("name")]))
            #expect(broken.count == 2)
            broken[0]["tag"] = nil
            broken[1]["tag"] = try context.findNamed("Tag", "c")
            try context.save()
            context.reset()
            #expect(try context.foundNames("Item", "tag == nil") == "A")
            #expect(try context.foundNames("Item", "tag.name == 'c'") == "bc")
        }
    }

    /// One-way relationships of every kind survive a restart, in XML and binary stores too.
    /// Source: encrypted-core-data #275 “Can not fetch objects if there is no inverse relationship in entity”, #296 “For
    /// One to Many relationship”, #169; prodopsy.com “Avoid Core Data Crash with Unidirectional SwiftData Relationships”.
    @Test(arguments: SituationStore.files)
    func oneWayRelationshipsAreThereAfterARestart(store: SituationStore) async throws {
        try await withProgramFolder { folder in
            var container = try await store.container(Self.model, in: folder)
            var context = container.viewContext
            @MainActor func restart() async throws {
                try context.save()
                try container.close()
                container = try await store.container(Self.model, in: folder)
                context = container.viewContext
            }
            _ = try makeItem("i", in: context)
            let reader = try context.insertNamed("Reader", "r")
            for (key, entity) in [("pages", "Page"), ("marks", "Mark"), ("own", "Slip")] {
                try reader.setValue(
                    key == "marks"
                        ? ["3", "1", "2"].map { try context.insertNamed(entity, $0) } as Any
                        : Set(["3", "1", "2"].map { try context.insertNamed(entity, $0) }),
                    forKey: key)
            }
            try await restart()
            let item = try context.findNamed("Item", "i")
            for key in ["tag", "cover", "maker"] { #expect(item.destinationName(key) == "i") }
            var found = try context.findNamed("Reader", "r")
            #expect(found.memberNames("pages") == "123" && found.memberNames("marks") == "312")
            found.moveObject(in: "marks", from: 0, to: 2)
            found.remove(try context.findNamed("Mark", "2"), from: "marks")
            found.insert(try context.insertNamed("Mark", "4"), into: "marks", at: 0)
            found.remove(try context.findNamed("Page", "3"), from: "pages")
            context.delete(try context.findNamed("Page", "1"))
            context.delete(try context.findNamed("Mark", "1"))
            try await restart()
            found = try context.findNamed("Reader", "r")
            #expect(found.memberNames("marks") == "43" && found.memberNames("pages") == "2")
            #expect(try context.foundNames("Reader", "ANY pages.name == '2'") == "r")
            #expect(
                try context.foundNames("Reader", "marks.@count == 2 AND pages.@count == 1") == "r")
            // To another reader, and the order of both.
            let other = try context.insertNamed("Reader", "s")
            let moved = try context.findNamed("Mark", "3")
            found.remove(moved, from: "marks")
            other["marks"] = [moved, try context.insertNamed("Mark", "5")]
            try await restart()
            #expect(try context.findNamed("Reader", "r").memberNames("marks") == "4")
            #expect(try context.findNamed("Reader", "s").memberNames("marks") == "35")
            context.delete(try context.findNamed("Reader", "r"))
            try await restart()
            #expect(try context.foundNames("Slip") == "" && context.foundNames("Mark") == "2345")
            try container.close()
        }
    }

    /// Delete rules of one-way relationships, with undo before and after the save.
    /// Source: Core Data Programming Guide, “Relationship Delete Rules” and “Unidirectional Relationships”.
    @Test(arguments: SituationStore.allCases, [false, true])
    func oneWayCascadesAndDenialsAreFollowedAndUndone(
        store: SituationStore, isSaved: Bool
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let item = try makeItem("i", in: context)
            let reader = try context.insertNamed("Reader", "r")
            reader.add(try context.insertNamed("Slip", "s"), to: "own")
            let stone = try context.insertNamed("Stone", "t")
            reader.add(stone, to: "held")
            reader.add(try context.insertNamed("Mark", "2"), to: "marks")
            reader.insert(try context.insertNamed("Mark", "1"), into: "marks", at: 0)
            try context.save()
            context.undoManager = UndoManager()
            context.delete(item)
            context.delete(reader)
            context.processPendingChanges()
            #expect(try context.foundNames("Picture") == "" && context.foundNames("Slip") == "")
            #expect(try context.foundNames("Tag") == "i" && context.foundNames("Maker") == "i")
            let error = #expect(throws: QuireError.self) { try context.save() }
            #expect(error?.code == .deleteDenied)
            context.delete(stone)
            context.processPendingChanges()
            if isSaved { try context.save() }
            context.undo()
            context.undo()
            #expect(try context.foundNames("Item", "cover.name == 'i' AND tag.name == 'i'") == "i")
            let back = try context.findNamed("Reader", "r")
            #expect(back.memberNames("own") == "s" && back.memberNames("marks") == "12")
            #expect(try context.foundNames("Stone") == "t")
            try context.save()
            context.reset()
            let again = try context.findNamed("Reader", "r")
            #expect(again.memberNames("own") == "s" && again.memberNames("marks") == "12")
            #expect(
                try context.foundNames("Item", "cover.name == 'i' AND maker.name == 'i'") == "i")
        }
    }

    /// A required one-way relationship whose object is deleted in the same save, or in another context before.
    /// Source: prodopsy.com “Avoid Core Data Crash with Unidirectional SwiftData Relationships” (Code=1570, a required
    /// value).
    @Test(arguments: SituationStore.allCases)
    func aRequiredOneWayPartnerIsCheckedWhenItIsSet(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let item = try makeItem("i", in: context)
            item["maker"] = nil
            let missing = try #require(#expect(throws: QuireError.self) { try context.save() })
            #expect(missing.code == .validation && missing.subject.property == "maker")
            let maker = try context.insertNamed("Maker", "m")
            item["maker"] = maker
            context.delete(maker)
            let deleted = try #require(#expect(throws: QuireError.self) { try context.save() })
            #expect(deleted.code == .validation && deleted.subject.property == "maker")
            item["maker"] = try context.findNamed("Maker", "i")
            try context.save()
            // Deleted elsewhere while it is chosen here.
            let other = try context.insertNamed("Maker", "o")
            try context.save()
            item["maker"] = other
            try await container.performBackgroundTask { background in
                background.delete(try background.findNamed("Maker", "o"))
                try background.save()
            }
            let gone = try #require(#expect(throws: QuireError.self) { try context.save() })
            #expect(gone.code == .mergeConflict)
            context.rollback()
            #expect(item.destinationName("maker") == "i")
            try context.save()
        }
    }
}
