/// Whether inserting with a save and a reset every 10,000 notes takes more memory the more notes there are.
struct GrowthResult: Sendable {
    /// The numbers of notes, and the peaks in megabytes.
    var counts: (Int, Int)
    var megabytes: (Double, Double)

    /// What the peak may grow by, in megabytes: noise.
    static let maximumGrowth = 4.0

    var growth: Double { megabytes.1 - megabytes.0 }
    var isMet: Bool { growth <= Self.maximumGrowth }
}

extension Run {
    func measureGrowth(progress: (String) -> Void) throws -> GrowthResult {
        // With fewer, SQLite's cache of pages is not full yet.
        let counts = (250_000, 1_000_000)
        func peak(_ count: Int) throws -> Double {
            progress("growth of memory, \(count) notes")
            let path = "\(folder)/growth-\(count).sqlite"
            let task = MemoryTask(work: .insertInParts, engine: .quire, count: count, path: path)
            defer { Self.removeDocument(at: path + "-parts") }
            return try task.measure()
        }
        return GrowthResult(counts: counts, megabytes: (try peak(counts.0), try peak(counts.1)))
    }
}
