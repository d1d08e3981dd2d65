extension Workload {
    /// Opening a document.
    static let opening = [
        Workload(
            id: "W9", title: "open, show first 50 (warm)",
            must: [.plain(2), .grdb(0.7)], aim: [.plain(1.2)],
            rounds: { _ in 51 }
        ) { site, stopwatch in
            try site.closeDocument()
            stopwatch.start()
            let document = try site.engine.open(at: site.path)
            let sum = try document.readFirst(50, Stopwatch())
            stopwatch.stop()
            try document.close()
            return sum
        }
    ]
}
