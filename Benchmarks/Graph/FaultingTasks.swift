import Quire

extension GraphTask {
    /// Batches, and reading ahead.
    static let fetching = [
        GraphTask(
            id: "F1", title: "show 50 in the middle of N, in batches",
            otherTitle: "without batches", must: 1
        ) { site, measured, other in
            try show(site, batchSize: 0, other)
            try show(site, batchSize: 50, measured)
        },
        GraphTask(
            id: "F2", title: "fetch N in batches of 500, read one attribute",
            otherTitle: "without batches", must: 2.5
        ) { site, measured, other in
            let one = try read(site, batchSize: 0, other)
            if try read(site, batchSize: 500, measured) != one {
                throw BenchmarkFailure("Batches have brought other values.")
            }
        },
        GraphTask(
            id: "F3", title: "folders of 1,000 notes, read ahead",
            otherTitle: "as they are asked for", must: 1
        ) { site, measured, other in
            try follow(site, "folder", other: other, measured) {
                $0.object("folder")?.string(at: site.slots.folderName)?.utf8.count ?? 0
            }
        },
        GraphTask(
            id: "F4", title: "tags of 1,000 notes, read ahead",
            otherTitle: "as they are asked for", must: 0.5
        ) { site, measured, other in
            try follow(site, "tags", other: other, measured) {
                $0.objects("tags").reduce(0) {
                    $0 + ($1.string(at: site.slots.tagName)?.utf8.count ?? 0)
                }
            }
        },
    ]

    private static func show(
        _ site: GraphSite, batchSize: Int, _ stopwatch: Stopwatch
    ) throws {
        try QueueConfinedContext(coordinator: site.coordinator).performAndWait { context in
            var request = FetchRequest("Note", sortOrderings: [SortOrdering("created")])
            request.fetchBatchSize = batchSize
            stopwatch.start()
            let notes = try context.fetch(request)
            let start = notes.count / 2
            let shown = notes[start..<start + 50].reduce(0) {
                $0 + ($1.string(at: site.slots.title)?.utf8.count ?? 0)
            }
            stopwatch.stop()
            if shown == 0 { throw BenchmarkFailure("There is nothing to show.") }
        }
    }

    private static func read(
        _ site: GraphSite, batchSize: Int, _ stopwatch: Stopwatch
    ) throws -> Int64 {
        try QueueConfinedContext(coordinator: site.coordinator).performAndWait { context in
            var request = FetchRequest("Note")
            request.fetchBatchSize = batchSize
            stopwatch.start()
            var sum: Int64 = 0
            for note in try context.fetch(request) {
                sum += note.integer(at: site.slots.rating) ?? 0
            }
            stopwatch.stop()
            return sum
        }
    }

    /// Follows a relationship of the first notes, first without reading ahead, then with.
    private static func follow(
        _ site: GraphSite, _ keyPath: String, other: Stopwatch, _ measured: Stopwatch,
        _ read: (ManagedObject) -> Int
    ) throws {
        var sums: [Int] = []
        for (keyPaths, stopwatch) in [([], other), ([keyPath], measured)] {
            try QueueConfinedContext(coordinator: site.coordinator).performAndWait { context in
                var request = FetchRequest("Note")
                request.fetchLimit = 1_000
                request.relationshipKeyPathsForPrefetching = keyPaths
                // Otherwise rows that the coordinator has kept since the last round would serve the faults.
                context.stalenessInterval = 0
                stopwatch.start()
                var sum = 0
                for note in try context.fetch(request) { sum += read(note) }
                stopwatch.stop()
                sums.append(sum)
            }
        }
        if sums[0] != sums[1] { throw BenchmarkFailure("Reading ahead has found other objects.") }
    }
}
