import Foundation
import Quire
import QuireMacros
import Testing

@Entity final class Contact: ManagedObject {
    @Attribute(.unique) var email: String
    @Attribute(default: "") var name: String
    @Attribute(default: 0) var visits: Int
}

/// Contacts that are imported in the background while a list shows them.
@MainActor @Suite struct BackgroundImportTests {
    private func withContainer(
        _ program: @MainActor (PersistentContainer) async throws -> Void
    ) async throws {
        try await withProgramFolder { folder in
            let container = try PersistentContainer(
                name: "Contacts", managedObjectModel: ManagedObjectModel(classes: [Contact.self]))
            container.persistentStoreDescriptions = [
                PersistentStoreDescription(url: folder.appendingPathComponent("Contacts.sqlite"))
            ]
            try await container.loadPersistentStores()
            container.viewContext.automaticallyMergesChangesFromParent = true
            try await program(container)
            try container.close()
        }
    }

    @Test func theViewContextShowsWhatWasImported() async throws {
        try await withContainer { container in
            let ada = Contact(context: container.viewContext)
            ada.email = "ada@example.org"
            ada.name = "Ada"
            try container.viewContext.save()

            let lines = ["ada@example.org,Ada Lovelace", "alan@example.org,Alan Turing"]
            let progress = Progress(totalUnitCount: Int64(lines.count))
            let count = try await container.performBackgroundTask { context in
                context.mergePolicy = .mergeByPropertyObjectTrump
                for line in lines {
                    let fields = line.split(separator: ",").map(String.init)
                    let contact = Contact(context: context)
                    contact.email = fields[0]
                    contact.name = fields[1]
                    progress.completedUnitCount += 1
                }
                try context.save()
                return try context.count(for: Contact.self)
            }
            #expect(count == 2)
            #expect(progress.isFinished)
            #expect(ada.name == "Ada Lovelace")
            let names = try container.viewContext.fetch(
                Contact.self, sortBy: [SortDescriptor(\.name)]
            ).map(\.name)
            #expect(names == ["Ada Lovelace", "Alan Turing"])
        }
    }

    @Test func aBatchInsertIsMergedAndCounted() async throws {
        try await withContainer { container in
            let progress = Progress(totalUnitCount: 1000)
            let result = try await container.performBackgroundTask { context in
                var number = 0
                var request = try BatchInsertRequest(Contact.self) { row in
                    if number == 1000 { return true }
                    number += 1
                    progress.completedUnitCount = Int64(number)
                    try row.set(\.email, to: "person\(number)@example.org")
                    try row.set(\.name, to: "Person \(number)")
                    return false
                }
                request.resultType = .objectIDs
                return try context.execute(request)
            }
            #expect(result.count == 1000)
            #expect(progress.fractionCompleted == 1)
            ManagedObjectContext.mergeChanges(
                fromRemoteContextSave: result.changes, into: [container.viewContext])
            #expect(try container.viewContext.count(for: Contact.self) == 1000)

            let reading = Progress(totalUnitCount: 1000)
            let found = try await container.viewContext.fetchAsynchronously(
                Contact.fetchRequest(), progress: reading)
            #expect(found.count == 1000)
            #expect(reading.isFinished)
        }
    }

    @Test func identifiersGoBetweenContexts() async throws {
        try await withContainer { container in
            let contact = Contact(context: container.viewContext)
            contact.email = "ada@example.org"
            try container.viewContext.save()
            let id = contact.objectID

            let background = container.newBackgroundContext()
            try await background.perform { context in
                let contact = try #require(try context.existingObject(with: id) as? Contact)
                contact.visits += 1
                try context.save()
            }
            #expect(contact.visits == 1)

            // A failure arrives where the work was asked for.
            let error = await #expect(throws: QuireError.self) {
                try await container.performBackgroundTask { context in
                    Contact(context: context).email = "ada@example.org"
                    try context.save()
                }
            }
            #expect(error?.code == .constraintConflict)
            #expect(try container.viewContext.count(for: Contact.self) == 1)
        }
    }
}
