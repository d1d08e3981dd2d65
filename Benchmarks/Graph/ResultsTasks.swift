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
