extension Workload {
    /// Reading from an open document.
    static let reading = [
        Workload(
            id: "W2", title: "fetch N, read everything",
            targets: Targets(mustOfPlain: 1.4, aimOfPlain: 1.15, mustOfGRDB: 0.75),
            rounds: { $0 >= 100_000 ? 15 : 31 }
        ) { site, stopwatch in try site.openDocument().readEverything(stopwatch) },
        Workload(
            id: "W2b", title: "fetch N, read one attribute",
            targets: Targets(mustOfGRDB: 0.55, aimOfGRDB: 0.45),
            rounds: { $0 >= 100_000 ? 15 : 31 }
        ) { site, stopwatch in try site.openDocument().readRatings(stopwatch) },
        Workload(
            id: "W3", title: "1,000 fetches by an indexed value",
            targets: Targets(mustOfPlain: 2, aimOfPlain: 1.3),
            rounds: { _ in 15 }
        ) { site, stopwatch in
            try site.openDocument().find(titles: site.dataset.titles(1_000), stopwatch)
        },
        Workload(
            id: "W11", title: "count, sum, average by group",
            targets: Targets(mustOfPlain: 1.15, aimOfPlain: 1.05), rounds: { _ in 31 }
        ) { site, stopwatch in try site.openDocument().summarizeFolders(stopwatch) },
        Workload(
            id: "W4", title: "first 50 by an indexed key",
            targets: Targets(mustOfPlain: 2, aimOfPlain: 1.3),
            rounds: { _ in 101 }
        ) { site, stopwatch in try site.openDocument().readFirst(50, stopwatch) },
    ]
}
