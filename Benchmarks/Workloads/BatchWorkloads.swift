extension Workload {
    /// Changing many rows without an object for any.
    static let batches = [
        Workload(
            id: "B1", title: "insert N as a batch", must: [.plain(1.15)],
            rounds: { $0 >= 100_000 ? 5 : $0 >= 10_000 ? 11 : 21 }, startsEmpty: true
        ) { site, stopwatch in
            let document = try site.engine.create(at: site.path)
            try document.insertAsBatch(site.dataset, stopwatch)
            let sum = try document.readEverything(Stopwatch())
            try document.close()
            return sum
        },
        Workload(
            id: "B2", title: "change 10 % as a batch", must: [.plain(1.3)],
            rounds: { $0 >= 100_000 ? 9 : 21 }
        ) { site, stopwatch in
            let document = try site.openDocument()
            try document.changeAsBatch(
                before: site.dataset.endOfFirstTenth, price: Double(site.round) * 0.25, stopwatch)
            return try document.readEverything(Stopwatch())
        },
        Workload(
            id: "B3", title: "delete 10 % as a batch", must: [.plain(1.3)],
            rounds: { $0 >= 100_000 ? 3 : 11 }, startsEmpty: true
        ) { site, stopwatch in
            let document = try site.engine.create(at: site.path)
            try document.insert(site.dataset, withTags: true, Stopwatch())
            try document.deleteAsBatch(before: site.dataset.endOfFirstTenth, stopwatch)
            let sum = try document.readTags(Stopwatch())
            try document.close()
            return sum
        },
    ]
}
