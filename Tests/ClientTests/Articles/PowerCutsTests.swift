import Foundation
import Quire
import QuireDocuments
import QuireMacros
import Testing

@Entity final class Reading: ManagedObject {
    @Attribute(minimum: 0) var meters: Double
}

/// The code of the article “How a save survives a power cut”.
@MainActor @Suite struct PowerCutsTests {
    @Test func aFailedSaveLosesNothing() async throws {
        try await withProgramFolder { folder in
            let document = ManagedDocument(fileURL: folder.appendingPathComponent("Meter.quire"))
            try await document.create(model: ManagedObjectModel(classes: [Reading.self]))
            // snippet: power-cuts-1
            let reading = Reading(context: document.managedObjectContext)
            reading.meters = 12.5
            try await document.save()  // From here on a power cut does not lose the reading.
            // end
            #expect(!document.hasUnsavedChanges)

            // snippet: power-cuts-2
            reading.meters = -1
            do {
                try await document.save()
            } catch let error as QuireError {
                print(error.message, document.documentState.contains(.savingError))
            }
            reading.meters = 13
            try await document.save()
            // end
            #expect(document.lastSaveError == nil)
            #expect(document.documentState == .normal)

            // snippet: power-cuts-3
            for problem in try await document.check() { print(problem.message) }
            // end
            #expect(try await document.check().isEmpty)
            try await document.close()
        }
    }

    @Test func aProgramMayTradeDurabilityForSpeed() async throws {
        try await withProgramFolder { folder in
            let model = try ManagedObjectModel(classes: [Reading.self])
            // snippet: power-cuts-4
            var description = PersistentStoreDescription(
                url: folder.appendingPathComponent("Cache.sqlite"))
            description.sqliteOptions.synchronization = .normal
            let cache = try PersistentContainer(
                managedObjectModel: model, persistentStoreDescriptions: [description])
            // end
            Reading(context: cache.viewContext).meters = 1
            try cache.viewContext.save()
            #expect(try cache.viewContext.count(for: Reading.self) == 1)
            try cache.close()
        }
    }
}
