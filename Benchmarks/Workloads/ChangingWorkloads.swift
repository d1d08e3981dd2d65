extension Workload {
    /// Saving changes of an open document.
    static let changing = [
        Workload(
            id: "W5", title: "change 10 %, one save",
            must: [.plain(1.2)], aim: [.plain(1)],
            rounds: { $0 >= 100_000 ? 9 : 21 }
        ) { site, stopwatch in
            let document = try site.openDocument()
            try document.change(every: 10, stopwatch)
            return try document.readEverything(Stopwatch())
        },
        Workload(
            id: "W10", title: "change one, save",
            must: [.plain(1.3)],
            rounds: { _ in 11 }
        ) { site, stopwatch in
            let document = try site.openDocument()
            let titles = site.dataset.titles(20 * (site.round + 1)).suffix(20)
            try document.changeOneByOne(titles: Array(titles), stopwatch)
            return try document.readEverything(Stopwatch())
        },
    ]
}
