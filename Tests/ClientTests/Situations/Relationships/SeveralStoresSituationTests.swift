import Foundation
import Quire
import Testing

/// Books in one store, the user’s feedback in another one, linked by a fetched property; and one entity in two stores.
@MainActor @Suite struct SeveralStoresSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Book") {
            Attribute("name", .string)
            Attribute("uuid", .uuid)
            ToOne("author", "Author", inverse: "books")
            ToMany("sequels", "Book", inverse: "prequel").ordered()
            ToOne("prequel", "Book", inverse: "sequels")
            FetchedProperty(
                "feedbackList", of: "Feedback", where: "bookUUID == $FETCH_SOURCE.uuid")
            FetchedProperty(
                "byColleagues", of: "Book",
                where: "author != nil AND author == $FETCH_SOURCE.author AND SELF != $FETCH_SOURCE")
        }
        Entity("Author") {
            Attribute("name", .string)
            ToMany("books", "Book", inverse: "author").ordered()
        }
        Entity("Feedback") {
            Attribute("name", .string)
            Attribute("bookUUID", .uuid)
        }
        Entity("Note") {
            Attribute("name", .string)
            ToOne("parent", "Note", inverse: "children")
            ToMany("children", "Note", inverse: "parent").deleteRule(.cascade)
        }
        ModelConfiguration("Library", entities: ["Book", "Author", "Note"])
        ModelConfiguration("User", entities: ["Feedback", "Note"])
    }

    private func container(
        in folder: URL, _ first: SituationStore, _ second: SituationStore
    ) async throws -> PersistentContainer {
        let container = try PersistentContainer(name: "Books", managedObjectModel: Self.model)
        container.persistentStoreDescriptions = [("Library", first), ("User", second)].map {
            var description = PersistentStoreDescription(url: folder.appendingPathComponent($0.0))
            description.type = StoreType(rawValue: $0.1.rawValue)
            description.configuration = $0.0
            return description
        }
        try await container.loadPersistentStores()
        return container
    }

    nonisolated static let pairs: [(SituationStore, SituationStore)] = [
        (.sqlite, .sqlite), (.sqlite, .xml), (.binary, .sqlite), (.xml, .binary),
    ]

    /// A book shows the feedback from the other store; after a change and a refresh it shows the new feedback. Feedback in
    /// the background counts, a deleted book’s stays.
    /// Source: Apple sample code “Linking Data Between Two Core Data Stores”.
    @Test(arguments: pairs)
    func feedbackOfABookIsInTheOtherStore(first: SituationStore, second: SituationStore)
        async throws
    {
        try await withProgramFolder { folder in
            var container = try await container(in: folder, first, second)
            var context = container.viewContext
            let author = try context.insertNamed("Author", "a")
            for name in ["x", "y"] {
                let book = try context.insertNamed(
                    "Book", name, ["uuid": UUID(), "author": author])
                for mark in ["1", "2"] {
                    _ = try context.insertNamed(
                        "Feedback", name + mark, ["bookUUID": try #require(book["uuid"] as? UUID)])
                }
            }
            let x = try context.findNamed("Book", "x")
            func feedback(_ book: ManagedObject) throws -> String {
                try book.fetchedObjects("feedbackList").compactMap { $0["name"] as? String }
                    .sorted().joined()
            }
            #expect(try feedback(x) == "x1x2")
            #expect(try x.fetchedObjects("byColleagues").map { $0["name"] as? String } == ["y"])
            try context.save()
            _ = try context.insertNamed(
                "Feedback", "x3", ["bookUUID": try #require(x["uuid"] as? UUID)])
            context.delete(try context.findNamed("Feedback", "x1"))
            try context.save()
            context.refresh(x, mergeChanges: true)
            #expect(try feedback(x) == "x2x3")
            #expect(try (x.value(forKey: "feedbackList") as? [ManagedObject])?.count == 2)
            try container.close()

            container = try await self.container(in: folder, first, second)
            context = container.viewContext
            let books: [ManagedObject] = try context.fetch(
                FetchRequest("Book", sortOrderings: [SortOrdering("name")]))
            #expect(try books.map { try feedback($0) } == ["x2x3", "y1y2"])
            context.delete(books[0])
            try context.save()
            #expect(try context.foundNames("Feedback") == "x2x3y1y2")
            #expect(try context.findNamed("Author", "a").memberNames("books") == "y")
            try container.close()
        }
    }

    /// Objects of one entity in two stores may not be related; the save says so, and nothing is saved. Within each store the
    /// same relationship works, and cascades stay in it.
    /// Source: Core Data Programming Guide, “Cross-Store Relationships”; Apple, “Troubleshooting Core Data”.
    @Test(arguments: pairs)
    func aRelationshipToAnotherStoreIsRefused(first: SituationStore, second: SituationStore)
        async throws
    {
        try await withProgramFolder { folder in
            let container = try await container(in: folder, first, second)
            let context = container.viewContext
            let stores = container.persistentStoreCoordinator.persistentStores
            #expect(stores.count == 2)
            for (index, name) in ["a", "b"].enumerated() {
                let note = try context.insertNamed("Note", name)
                try context.assign(note, to: stores[index])
                // New objects without a store follow what they are related to, or are assigned.
                let child = try context.insertNamed("Note", name + "1", ["parent": note])
                try context.assign(child, to: stores[index])
            }
            try context.save()
            let a = try context.findNamed("Note", "a")
            let b = try context.findNamed("Note", "b")
            #expect(a.objectID.storeUUID != b.objectID.storeUUID)
            #expect(a.memberNames("children") == "a1" && b.memberNames("children") == "b1")
            do {
                try a.setValue(b, forKey: "parent")
                try context.save()
                Issue.record("A reference to another store was saved.")
            } catch is QuireError {
                context.rollback()
            }
            #expect(a.object("parent") == nil && b.memberNames("children") == "b1")
            let new = try context.insertNamed("Note", "n")
            try context.assign(new, to: stores[0])
            do {
                try b.mutableSetValue(forKey: "children").add(new)
                try context.save()
                Issue.record("A new object of another store was saved.")
            } catch is QuireError {
                context.rollback()
            }
            context.delete(b)
            try context.save()
            context.reset()
            #expect(try context.foundNames("Note") == "aa1")
            try container.close()
        }
    }

    /// A new note is added to a parent in the second store, and nobody assigned it: that is an error, not a note without
    /// its parent. Assigned, it is saved.
    /// Source: Core Data Programming Guide, “Cross-Store Relationships”, and NSManagedObjectContext.assign(_:to:).
    @Test(arguments: pairs, [false, true])
    func anUnassignedChildOfAnObjectOfTheSecondStoreIsRefused(
        pair: (SituationStore, SituationStore), setsToOne: Bool
    ) async throws {
        try await withProgramFolder { folder in
            let container = try await container(in: folder, pair.0, pair.1)
            let context = container.viewContext
            let second = container.persistentStoreCoordinator.persistentStores[1]
            let parent = try context.insertNamed("Note", "p")
            try context.assign(parent, to: second)
            try context.save()
            for isAssigned in [false, true] {
                let child = try context.insertNamed("Note", "c")
                if isAssigned { try context.assign(child, to: second) }
                do {
                    if setsToOne {
                        try child.setValue(parent, forKey: "parent")
                    } else {
                        try parent.mutableSetValue(forKey: "children").add(child)
                    }
                    try context.save()
                    #expect(isAssigned)
                } catch let error as QuireError {
                    #expect(!isAssigned, "\(error)")
                    context.rollback()
                    #expect(parent.objects("children").isEmpty)
                }
            }
            context.reset()
            #expect(try context.findNamed("Note", "p").memberNames("children") == "c")
            #expect(try context.findNamed("Note", "c").destinationName("parent") == "p")
            try container.close()
        }
    }
}
