import Foundation
import Quire
import QuireMacros
import Testing

// snippet: from-swift-data-1
@Entity final class Trip: ManagedObject {
    @Attribute(.unique) var name: String
    @Attribute var begin: Date
    @Attribute var rating: Int = 3
    @Relationship(deleteRule: .cascade, inverse: \Stay.trip) var stays: Set<Stay>
}

@Entity final class Stay: ManagedObject {
    @Attribute var hotel: String
    @Attribute(minimum: 1) var nights: Int = 1
    @Relationship var trip: Trip?
}
// end

/// The code of the article “From SwiftData”.
@MainActor @Suite struct FromSwiftDataTests {
    @Test func tripsAreSavedAndFollowed() async throws {
        try await withProgramFolder { folder in
            // snippet: from-swift-data-2
            let container = try PersistentContainer(
                name: "Trips", managedObjectModel: ManagedObjectModel(classes: [Trip.self]))
            container.persistentStoreDescriptions[0].url =
                folder.appendingPathComponent("Trips.sqlite")
            try await container.loadPersistentStores()
            let context = container.viewContext
            context.automaticallyMergesChangesFromParent = true
            // end
            // snippet: from-swift-data-3
            let trip = Trip(context: context)
            trip.name = "Lyme Regis"
            trip.begin = .now
            let stay = Stay(context: context)
            stay.hotel = "The Cobb"
            stay.nights = 4
            stay.trip = trip
            try context.save()

            let long = try context.fetch(
                Trip.self, where: #Predicate { $0.stays.contains { $0.nights > 3 } },
                sortBy: [SortDescriptor(\.begin, order: .reverse)])
            print(long.map(\.name))
            // end
            #expect(long.map(\.name) == ["Lyme Regis"])
            // snippet: from-swift-data-4
            let count = try await container.performBackgroundTask { context in
                let trips = try context.fetch(Trip.self)
                for trip in trips { trip.rating += 1 }
                try context.save()
                return trips.count
            }
            // end
            #expect(count == 1)
            #expect(trip.rating == 4)
            // snippet: from-swift-data-5
            let controller = FetchedResultsController(
                fetchRequest: FetchRequest<Trip>(sortBy: [SortDescriptor(\.name)]),
                managedObjectContext: context)
            try controller.performFetch()
            for await snapshot in controller.snapshots {
                print(snapshot.numberOfItems, "trips")
                break
            }
            // end
            #expect(controller.fetchedObjects?.count == 1)
            context.delete(trip)
            try context.save()
            #expect(controller.fetchedObjects?.count == 0)
            #expect(try context.count(for: Stay.self) == 0)
            try container.close()
        }
    }
}
