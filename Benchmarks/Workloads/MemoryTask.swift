import Foundation

/// The greatest amount of memory that a process uses for one workload, in a process that does nothing else.
struct MemoryTask {
    static let name = "memory"

    enum Work: String, CaseIterable {
        case insert = "W1m"
        case read = "W2m"
        case insertInParts = "W1r"

        var title: String {
            switch self {
            case .insert: "insert N, one save"
            case .read: "fetch N, read everything"
            case .insertInParts: "insert N, save and reset every 10,000"
            }
        }

        /// The most that it must and should take, in megabytes.
        var targets: (must: Double, aim: Double)? {
            switch self {
            case .insert: (80, 50)
            case .read: (44, 36)
            case .insertInParts: nil
            }
        }
    }

    var work: Work
    var engine: EngineKind
    var count: Int
    var path: String

    init(work: Work, engine: EngineKind, count: Int, path: String) {
        self.work = work
        self.engine = engine
        self.count = count
        self.path = path
    }

    init?(arguments: [String]) {
        guard arguments.count == 4, let work = Work(rawValue: arguments[0]),
            let engine = EngineKind(rawValue: arguments[1]), let count = Int(arguments[2])
        else { return nil }
        self.init(work: work, engine: engine, count: count, path: arguments[3])
    }

    /// Does the work in this process and prints the peak in kilobytes.
    func run() throws {
        switch work {
        case .insert:
            let document = try engine.type.create(at: path)
            // Values are made one by one: a list of them would be most of what is measured.
            let dataset = Dataset(count: count, inAdvance: false)
            try document.insert(dataset, withTags: false, Stopwatch())
            try document.close()
        case .insertInParts:
            let document = try engine.type.create(at: path + "-parts")
            let dataset = Dataset(count: count, inAdvance: false)
            try document.insertInParts(dataset, of: 10_000)
            try document.close()
        case .read:
            let document = try engine.type.open(at: path)
            _ = try document.readEverything(Stopwatch())
            try document.close()
        }
        print(try OwnProcess.peakKilobytes())
    }

    /// Does the work in a process of its own and returns the peak in megabytes.
    func measure() throws -> Double {
        let output = try OwnProcess.run(
            Self.name, [work.rawValue, engine.rawValue, "\(count)", path])
        guard let kilobytes = Double(output.trimmingCharacters(in: .whitespacesAndNewlines)) else {
            throw BenchmarkFailure(
                "The process that measures the memory of \(work.rawValue) said “\(output)”.")
        }
        return kilobytes / 1_024
    }
}

extension Run {
    /// Measures peak memory with one size of document, each engine in fresh processes.
    func measureMemory(count: Int, progress: (String) -> Void) throws -> [Comparison] {
        try MemoryTask.Work.allCases.map { work in
            progress("memory of \(work.rawValue), \(count) notes")
            var megabytes: [EngineKind: Double] = [:]
            for kind in options.engines {
                // The document that inserting makes is the one that reading reads.
                let path = "\(folder)/memory-\(kind.rawValue)-\(count).sqlite"
                let task = MemoryTask(work: work, engine: kind, count: count, path: path)
                megabytes[kind] = try task.measure()
            }
            return Comparison(
                work.rawValue, "memory: \(work.title)", count: count, unit: "MB",
                quire: megabytes[.quire], others: Comparison.others(megabytes),
                most: work.targets?.must, aim: work.targets.map { [.most($0.aim)] } ?? [])
        }
    }
}
