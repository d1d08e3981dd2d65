extension Workload {
    /// Putting objects into a new document.
    static let insertion = [
        Workload(
            id: "W1", title: "insert N, one save",
            must: [.plain(1.3)], aim: [.plain(1.15)],
            rounds: { $0 >= 100_000 ? 5 : $0 >= 10_000 ? 11 : 21 }, startsEmpty: true
        ) { site, stopwatch in
            let document = try site.engine.create(at: site.path)
            try document.insert(site.dataset, withTags: false, stopwatch)
            let sum = try document.readEverything(Stopwatch())
            try document.close()
            return sum
        },
        Workload(
            id: "W1t", title: "the same with two tags each",
            must: [.plain(1.4)], aim: [.plain(1.25)],
            rounds: { $0 >= 100_000 ? 3 : 11 }, startsEmpty: true
        ) { site, stopwatch in
            let document = try site.engine.create(at: site.path)
            try document.insert(site.dataset, withTags: true, stopwatch)
            let sum = try document.readTags(Stopwatch())
            try document.close()
            return sum
        },
        Workload(
            id: "W6", title: "delete 10 %, one save",
            must: [.plain(1.3)], aim: [.plain(1.1)],
            rounds: { $0 >= 100_000 ? 3 : 11 }, startsEmpty: true
        ) { site, stopwatch in
            let new = try site.engine.create(at: site.path)
            try new.insert(site.dataset, withTags: true, Stopwatch())
            try new.close()
            let document = try site.engine.open(at: site.path)
            try document.delete(every: 10, stopwatch)
            let sum = try document.readTags(Stopwatch())
            try document.close()
            return sum
        },
    ]
}
