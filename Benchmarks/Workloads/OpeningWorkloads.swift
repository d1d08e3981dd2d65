extension Workload {
    /// Opening a document.
    static let opening = [
        Workload(
            id: "W9", title: "open, show first 50 (warm)",
            targets: Targets(mustOfPlain: 4, aimOfPlain: 2, mustMilliseconds: 3),
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
