extension Run {
    /// Whether inserting with a save and a reset every 10,000 notes takes more memory the more notes there are.
    func measureGrowth(progress: (String) -> Void) throws -> Comparison {
        // With fewer, SQLite's cache of pages is not full yet.
        let peaks = try [250_000, 1_000_000].map { count in
            progress("growth of memory, \(count) notes")
            let path = "\(folder)/growth-\(count).sqlite"
            let task = MemoryTask(work: .insertInParts, engine: .quire, count: count, path: path)
            defer { Self.removeDocument(at: path + "-parts") }
            return try task.measure()
        }
        let noise = 4.0
        return Comparison(
            "G1", "memory: insert 1,000,000, save and reset every 10,000", unit: "MB",
            quire: peaks[1],
            others: [.init(name: "250,000", value: peaks[0])], most: peaks[0] + noise)
    }
}
