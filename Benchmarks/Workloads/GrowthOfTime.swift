/// A task of a comparison of Quire beside Quire.
struct ComparedTask: Sendable {
    var id: String
    var title: String
    var rounds: Int
    var run: @Sendable (Site, Stopwatch) throws -> Void
}

extension Run {
    private static let growthTasks = [
        ComparedTask(id: "G4", title: "first 50 by an indexed key", rounds: 101) {
            site, stopwatch in
            _ = try site.openDocument().readFirst(50, stopwatch)
        },
        ComparedTask(id: "G10", title: "change one, save", rounds: 11) { site, stopwatch in
            let titles = site.dataset.titles(20 * (site.round + 1)).suffix(20)
            try site.openDocument().changeOneByOne(titles: Array(titles), stopwatch)
        },
        ComparedTask(id: "G9", title: "open, show first 50 (warm)", rounds: 51) { site, stopwatch in
            try site.closeDocument()
            stopwatch.start()
            _ = try site.openDocument().readFirst(50, Stopwatch())
            stopwatch.stop()
        },
    ]

    /// Whether what concerns a few notes takes as long in a document of a million as in one of a thousand.
    func measureGrowthOfTime(progress: (String) -> Void) throws -> [Comparison] {
        var sites: [Site] = []
        for count in [1_000, 1_000_000] {
            progress("growth of time, \(count) notes")
            let path = "\(folder)/growth-of-time-\(count).sqlite"
            let dataset = Dataset(count: count, inAdvance: false)
            let document = try QuireEngine.create(at: path)
            try document.insertInParts(dataset, of: 10_000)
            try document.close()
            sites.append(Site(engine: QuireEngine.self, dataset: dataset, path: path))
        }
        defer {
            for site in sites {
                try? site.closeDocument()
                Self.removeDocument(at: site.path)
            }
        }
        return try Self.growthTasks.map { task in
            progress("growth of time, \(task.id)")
            let medians = try Self.medians(of: task, at: sites)
            return Comparison(
                task.id, "\(task.title), 1,000,000 notes", unit: "ms", quire: medians[1],
                others: [.init(name: "1,000 notes", value: medians[0])], ratio: 1.3)
        }
    }

    /// Runs a task at all sites in turn.
    ///
    /// - Returns: The median of each, in milliseconds.
    static func medians(of task: ComparedTask, at sites: [Site]) throws -> [Double] {
        let stopwatches = sites.map { _ in Stopwatch() }
        for round in 0..<2 + task.rounds {
            for (site, stopwatch) in zip(sites, stopwatches) {
                if round == 2 { stopwatch.removeSamples() }
                site.round = round
                try task.run(site, stopwatch)
            }
        }
        return try stopwatches.map {
            guard let median = $0.median else {
                throw BenchmarkFailure("\(task.id) has measured nothing.")
            }
            return median
        }
    }
}
