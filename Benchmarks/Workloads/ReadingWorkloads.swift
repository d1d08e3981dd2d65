extension Workload {
    /// Reading from an open document.
    static let reading = [
        Workload(
            id: "W2", title: "fetch N, read everything",
            must: [.plain(1.4), .grdb(0.75)], aim: [.plain(1.15)],
            rounds: { $0 >= 100_000 ? 15 : 31 }
        ) { site, stopwatch in try site.openDocument().readEverything(stopwatch) },
        Workload(
            id: "W2b", title: "fetch N, read one attribute",
            must: [.grdb(0.55)], aim: [.grdb(0.45)],
            rounds: { $0 >= 100_000 ? 15 : 31 }
        ) { site, stopwatch in try site.openDocument().readRatings(stopwatch) },
        Workload(
            id: "W3", title: "1,000 fetches by an indexed value",
            must: [.plain(2)], aim: [.plain(1.3)],
            rounds: { _ in 15 }
        ) { site, stopwatch in
            try site.openDocument().find(titles: site.dataset.titles(1_000), stopwatch)
        },
        Workload(
            id: "W11", title: "count, sum, average by group",
            must: [.plain(1.15)], aim: [.plain(1.05)], rounds: { _ in 31 }
        ) { site, stopwatch in try site.openDocument().summarizeFolders(stopwatch) },
        Workload(
            id: "W4", title: "first 50 by an indexed key",
            must: [.plain(2)], aim: [.plain(1.3)],
            rounds: { _ in 101 }
        ) { site, stopwatch in try site.openDocument().readFirst(50, stopwatch) },
    ]
}
