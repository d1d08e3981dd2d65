import Foundation
import Quire

extension GraphTask {
    /// Keeping results in order while single objects change.
    static let followingResults = [
        GraphTask(
            id: "R1", title: "100 changes, each moved among N results",
            otherTitle: "among 1,000 results", must: 10, maximumMilliseconds: 100
        ) { site, measured, other in
            try move(site, among: min(1_000, site.count), other)
            try move(site, among: site.count, measured)
        },
        GraphTask(
            id: "R2", title: "fetch N results in order and sections",
            otherTitle: "fetch the objects", must: 10
        ) { site, measured, other in
            try QueueConfinedContext(coordinator: site.coordinator).performAndWait { context in
                other.start()
                for note in try context.fetch(request(for: site.count)) { _ = note }
                other.stop()
                measured.start()
                let controller = controller(for: site.count, context)
                try controller.performFetch()
                measured.stop()
                var ratings: Set<Int64> = []
                if let notes = controller.fetchedObjects {
                    for note in notes { ratings.insert(site.ratings(of: [note])) }
                }
                if controller.sections?.count != ratings.count {
                    throw BenchmarkFailure("There are \(controller.sections?.count ?? 0) sections.")
                }
            }
        },
        GraphTask(
            id: "R3", title: "20,000 inserts of 4 saves, merged into N results",
            otherTitle: "fetch them", must: 10, maximumMilliseconds: 500
        ) { site, measured, other in
            try mergeInsertions(site, measured, other)
        },
    ]

    /// A request for so many notes.
    private static func request(for count: Int) -> FetchRequest<ManagedObject> {
        FetchRequest(
            "Note",
            predicate: .comparison(
                QueryComparison(
                    .key("title"), .less, .constant(.string(NoteValues.title(count))))),
            sortOrderings: [SortOrdering("rating"), SortOrdering("created")])
    }

    private static func controller(
        for count: Int, _ context: ManagedObjectContext
    ) -> FetchedResultsController<ManagedObject> {
        FetchedResultsController(
            fetchRequest: request(for: count), managedObjectContext: context,
            sectionNameKeyPath: "rating")
    }

    /// Changes objects one by one, so that each moves to another section.
    private static func move(
        _ site: GraphSite, among count: Int, _ stopwatch: Stopwatch
    ) throws {
        try QueueConfinedContext(coordinator: site.coordinator).performAndWait { context in
            let controller = controller(for: count, context)
            try controller.performFetch()
            guard let found = controller.fetchedObjects, found.count == count else {
                throw BenchmarkFailure("The controller has not found \(count) notes.")
            }
            let notes = (0..<100).map { found[$0 * count / 100] }
            stopwatch.start()
            for note in notes {
                try site.raiseRating(of: note)
                context.processPendingChanges()
            }
            stopwatch.stop()
            let place = controller.indexPath(forObject: notes[99])
            let section = place.flatMap { controller.sections?[$0.section].name }
            if section != "\(site.ratings(of: [notes[99]]))" {
                throw BenchmarkFailure("A changed note is in the section \(section ?? "none").")
            }
        }
    }
}

// MARK: - Merged insertions

/// Counts what a controller reports.
private final class ReportCounter: FetchedResultsControllerDelegate {
    private(set) var rounds = 0
    private(set) var insertions = 0

    func controllerDidChangeContent(_ controller: FetchedResultsController<ManagedObject>) {
        rounds += 1
    }

    func controller(
        _ controller: FetchedResultsController<ManagedObject>, didChange anObject: ManagedObject,
        at indexPath: IndexPath?, for type: FetchedResultsChangeType, newIndexPath: IndexPath?
    ) {
        if type == .insert { insertions += 1 }
    }
}

extension GraphTask {
    /// Merges what another context has inserted, in four saves, before the controller's context had a turn.
    private static func mergeInsertions(
        _ site: GraphSite, _ measured: Stopwatch, _ other: Stopwatch
    ) throws {
        let (saves, insertions) = (4, 20_000)
        let reader = QueueConfinedContext(coordinator: site.coordinator)
        let writer = QueueConfinedContext(coordinator: site.coordinator)
        try reader.performAndWait { context in
            context.automaticallyMergesChangesFromParent = true
            let controller = controller(for: site.count, context)
            let counter = ReportCounter()
            controller.delegate = counter
            try controller.performFetch()
            for save in 0..<saves {
                try writer.performAndWait { context in
                    for number in 0..<insertions / saves {
                        let number = number * saves + save
                        let note = try context.insertObject(entityName: "Note")
                        try note.setValue(.string("Insertion \(number)"), at: site.slots.title)
                        try note.setValue(.integer(Int64(number % 9)), at: site.slots.rating)
                        let date = Date(timeIntervalSinceReferenceDate: NoteValues.created(number))
                        try note.setValue(.date(date), at: site.slots.created)
                    }
                    try context.save()
                }
            }
            measured.start()
            context.mergePendingSaves()
            measured.stop()
            guard counter.rounds == 1, counter.insertions == insertions,
                controller.fetchedObjects?.count == site.count + insertions
            else {
                throw BenchmarkFailure(
                    "\(counter.insertions) insertions were reported in \(counter.rounds) rounds.")
            }
        }
        try QueueConfinedContext(coordinator: site.coordinator).performAndWait { context in
            let inserted = FetchRequest<ManagedObject>(
                "Note", predicate: try QueryPredicate(format: "title BEGINSWITH 'Insertion'"))
            other.start()
            for note in try context.fetch(inserted) { _ = note }
            other.stop()
            for note in try context.fetch(inserted) { context.delete(note) }
            try context.save()
        }
    }
}
