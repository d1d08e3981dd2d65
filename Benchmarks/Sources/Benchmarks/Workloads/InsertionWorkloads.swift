extension Workload {
    /// Putting objects into a new document.
    static let insertion = [
        Workload(
            id: "W1", title: "insert N, one save",
            targets: Targets(mustOfPlain: 1.6, aimOfPlain: 1.2, mustOfGRDB: 1),
            rounds: { $0 >= 100_000 ? 5 : $0 >= 10_000 ? 11 : 21 }, startsEmpty: true
        ) { site, stopwatch in
            let document = try site.engine.create(at: site.path)
            try document.insert(site.dataset, withTags: false, stopwatch)
            let sum = try document.readEverything(Stopwatch())
            try document.close()
            return sum
        }
    ]
}
