import Foundation
import Quire
import QuireMacros
import Testing

@Entity final class Letter: ManagedObject {
    @Attribute var subject: String
    @Attribute(default: 0) var readings: Int
}

/// The code of the article “Several contexts”.
@MainActor @Suite struct SeveralContextsTests {
    private func makeContainer() throws -> PersistentContainer {
        try PersistentContainer(
            managedObjectModel: ManagedObjectModel(classes: [Letter.self]),
            persistentStoreDescriptions: [PersistentStoreDescription(type: .inMemory)])
    }

    @Test func whatTheBackgroundSavesIsShown() async throws {
        let container = try makeContainer()
        // snippet: several-contexts-1
        container.viewContext.automaticallyMergesChangesFromParent = true
        let count = try await container.performBackgroundTask { context in
            for subject in ["Rent", "Invitation"] {
                Letter(context: context).subject = subject
            }
            try context.save()
            return try context.count(for: Letter.self)
        }
        let letters = try container.viewContext.fetch(
            Letter.self, sortBy: [SortDescriptor(\.subject)])
        // end
        #expect(count == 2)
        #expect(letters.map(\.subject) == ["Invitation", "Rent"])

        let letter = try #require(letters.first)
        // snippet: several-contexts-2
        let id = letter.objectID
        let background = container.newBackgroundContext()
        try await background.perform { context in
            guard let letter = try context.existingObject(with: id) as? Letter else { return }
            letter.readings += 1
            try context.save()
        }
        // end
        #expect(letter.readings == 1)

        // snippet: several-contexts-3
        let editor = ManagedObjectContext.mainQueue(parent: container.viewContext)
        if let draft = try editor.existingObject(with: id) as? Letter {
            draft.subject = "Invitation to Bath"
        }
        try editor.save()  // Moves the change to the view context; dropping the editor cancels it.
        try container.viewContext.save()  // Writes it to the store.
        // end
        #expect(letter.subject == "Invitation to Bath")
        #expect(!container.viewContext.hasChanges)
    }

    @Test func aConflictIsDecidedByThePolicy() async throws {
        let container = try makeContainer()
        let letter = Letter(context: container.viewContext)
        letter.subject = "Rent"
        try container.viewContext.save()
        let id = letter.objectID
        try await container.performBackgroundTask { context in
            (try context.existingObject(with: id) as? Letter)?.readings = 7
            try context.save()
        }
        letter.subject = "Rent for May"
        let context = container.viewContext
        // snippet: several-contexts-4
        do {
            try context.save()
        } catch let error as QuireError where error.code == .mergeConflict {
            print(error.mergeConflicts.count, "objects were changed by others, too.")
            context.mergePolicy = .mergeByPropertyObjectTrump
            try context.save()
        }
        // end
        #expect(letter.subject == "Rent for May")
        #expect(letter.readings == 7)
    }

    @Test func savesAreFollowed() async throws {
        let container = try makeContainer()
        let context = container.viewContext
        // snippet: several-contexts-5
        let saves = container.saves
        let following = Task {
            for await changes in saves where !changes.inserted.isEmpty {
                return changes.inserted.count
            }
            return 0
        }
        Letter(context: context).subject = "Rent"
        try context.save()
        print(await following.value, "inserted")
        // end
        #expect(await following.value == 1)
        try container.close()
    }
}
