import Foundation

/// Runs workloads on all engines in turn, so that whatever else the machine does falls on all alike.
struct Run {
    let options: Options
    /// A folder of our own, removed at the end.
    let folder: String

    init(options: Options) throws {
        self.options = options
        folder = "\(options.folder)/quire-benchmarks-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true)
    }

    func removeFolder() { try? FileManager.default.removeItem(atPath: folder) }

    /// Measures everything that the options ask for.
    @MainActor
    func measure(progress: (String) -> Void) async throws -> Report {
        var report = Report(effort: options.effort)
        for count in options.counts {
            report.add(try measure(count: count, progress: progress), to: .times)
            if options.measuresMemory {
                report.add(try measureMemory(count: count, progress: progress), to: .memory)
            }
            guard options.engines.contains(.quire) else { continue }
            if options.measuresMainQueue {
                progress("main queue, \(count) notes")
                report.add([try measureMainQueue(count: count)], to: .mainQueue)
            }
            if !options.graphTasks.isEmpty {
                report.add(try measureGraph(count: count, progress: progress), to: .contexts)
            }
        }
        if options.engines.contains(.quire) {
            if options.measuresGrowth {
                report.add([try measureGrowth(progress: progress)], to: .comparisons)
            }
            if options.measuresDocumentSaves {
                report.add(try await measureDocumentSaves(progress: progress), to: .mainQueue)
            }
            if options.measuresComparisons {
                report.add(try await measureComparisons(progress: progress), to: .comparisons)
            }
            if let size = options.synchronization {
                report.add(
                    try await measureSynchronization(of: size, progress: progress),
                    to: .synchronization)
            }
        }
        report.loadAfter = Machine.load
        try Report.requireUnique(report.rows.map(\.name))
        return report
    }

    /// Measures the chosen workloads for one size of document.
    ///
    /// - Throws: ``BenchmarkFailure`` if two engines have not done the same work.
    func measure(count: Int, progress: (String) -> Void) throws -> [Comparison] {
        let dataset = Dataset(count: count)
        let sites = try options.engines.map { kind in
            let path = path(of: kind, count: count)
            if options.workloads.contains(where: { !$0.startsEmpty }) {
                let document = try kind.type.create(at: path)
                try document.insert(dataset, withTags: true, Stopwatch())
                try document.close()
            }
            return Site(engine: kind.type, dataset: dataset, path: path)
        }
        let fresh = options.engines.map {
            Site(engine: $0.type, dataset: dataset, path: path(of: $0, count: count) + "-new")
        }
        defer { for site in sites { try? site.closeDocument() } }
        return try options.workloads.map { workload in
            progress("\(workload.id), \(count) notes")
            return try measure(workload, count: count, at: workload.startsEmpty ? fresh : sites)
        }
    }

    /// The document of an engine.
    func path(of kind: EngineKind, count: Int) -> String {
        "\(folder)/\(kind.rawValue)-\(count).sqlite"
    }

    private func measure(
        _ workload: Workload, count: Int, at sites: [Site]
    ) throws -> Comparison {
        let warmUps = 2
        let rounds = max(3, Int(Double(workload.rounds(count)) * options.effort))
        let stopwatches = sites.map { _ in Stopwatch() }
        for round in 0..<warmUps + rounds {
            var first: (engine: EngineKind, sum: Checksum)?
            for (site, stopwatch) in zip(sites, stopwatches) {
                site.round = round
                if round == warmUps { stopwatch.removeSamples() }
                let sum = try workload.run(site, stopwatch)
                if workload.startsEmpty { Self.removeDocument(at: site.path) }
                if let first, first.sum != sum {
                    throw BenchmarkFailure(
                        """
                        \(workload.id) with \(count) notes: the engines have not done the same work.
                          \(first.engine.title): \(first.sum)
                          \(site.engine.kind.title): \(sum)
                        """)
                }
                first = first ?? (site.engine.kind, sum)
            }
        }
        // Leaves nothing open, so that no engine's workload runs beside another's caches.
        for site in sites { try site.closeDocument() }
        var medians: [EngineKind: Double] = [:]
        for (site, stopwatch) in zip(sites, stopwatches) {
            medians[site.engine.kind] = stopwatch.median
        }
        return Comparison(
            workload.id, workload.title, count: count, unit: "ms", quire: medians[.quire],
            others: Comparison.others(medians), must: workload.must, aim: workload.aim)
    }

    /// Measures what is compared one by one, each with others of its kind.
    func measureComparisons(progress: (String) -> Void) async throws -> [Comparison] {
        let readers = ReadersBesideSaves(folder: folder, engines: options.engines)
        return try readers.measure(progress: progress)
            + readers.measureWithStatistics()
            + measureOrders(progress: progress)
            + measureThreeTiers(progress: progress)
            + measureGrowthOfTime(progress: progress)
            + measureHistory(progress: progress)
            + (await measureProtectedStore(progress: progress))
            + (await measureCommand(progress: progress))
    }

    static func removeDocument(at path: String) {
        for suffix in ["", "-wal", "-shm", ".keybag"] {
            try? FileManager.default.removeItem(atPath: path + suffix)
        }
    }
}
