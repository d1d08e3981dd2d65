import Dispatch
import Foundation
import Quire
import QuireSQLite

extension Run {
    /// The time for which a list keeps its queue busy when another coordinator has changed ten of its objects, which it must not
    /// matter how long the list is.
    func measureRemoteChanges(progress: (String) -> Void) throws -> Comparison {
        let times = try [100_000, 1_000_000].map { count in
            progress("remote changes, \(count) notes")
            return try timeOfMerging(count)
        }
        return Comparison(
            "H4", "list of 1,000,000, 10 changed by others", unit: "ms", quire: times[1],
            others: [.init(name: "of 100,000", value: times[0])], ratio: 1.25)
    }

    private func timeOfMerging(_ count: Int) throws -> Double {
        let path = "\(folder)/remote-\(count).sqlite"
        defer { Self.removeDocument(at: path) }
        var options = SQLiteStoreOptions()
        options.tracksHistory = true
        let other = try QuireEngine.create(at: path, options: options)
        try other.insertAsBatch(Dataset(count: count), Stopwatch())
        options.postsRemoteChanges = true
        let coordinator = PersistentStoreCoordinator(
            store: try SQLiteStore.open(at: path, options: options))
        let reported = DispatchSemaphore(value: 0)
        let observer = NotificationCenter.default.addObserver(
            forName: PersistentStoreCoordinator.remoteChangeNotification, object: coordinator,
            queue: nil
        ) { _ in reported.signal() }
        defer { NotificationCenter.default.removeObserver(observer) }
        let stopwatch = Stopwatch()
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            context.automaticallyMergesChangesFromParent = true
            let list = FetchedResultsController(
                fetchRequest: FetchRequest<ManagedObject>(
                    "Note", sortOrderings: [SortOrdering("title")]),
                managedObjectContext: context)
            try list.performFetch()
            guard let objects = list.fetchedObjects else { return }
            // Those on the screen.
            let shown = objects[count / 2..<count / 2 + 50].map { $0 }
            for object in shown { _ = object["title"] }
            for round in 0..<11 {
                try other.changeTitles(of: shown.prefix(10).map(\.objectID), to: "round \(round)")
                reported.wait()
                stopwatch.start()
                context.mergePendingSaves()
                stopwatch.stop()
                if shown[0]["title", as: String.self] != "round \(round)" {
                    throw BenchmarkFailure("A change by another coordinator was not merged.")
                }
            }
        }
        try coordinator.close()
        try other.close()
        return stopwatch.median ?? 0
    }
}

extension QuireEngine {
    fileprivate func changeTitles(of objectIDs: [ManagedObjectID], to title: String) throws {
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            for id in objectIDs { try context.existingObject(with: id)["title"] = title }
            try context.save()
        }
    }
}
