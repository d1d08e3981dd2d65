import CSQLite
import Foundation
import Quire
import Synchronization

/// What the threads of one measurement share.
private final class Bustle: Sendable {
    let isOver = Atomic(false)
    let finds = Atomic(0)
    let saves = Atomic(0)
    let failure = Lock<(any Error)?>(nil)
}

/// An engine that several threads may use at once.
///
/// Sendable because all that it holds is: GRDB's pool and Quire's coordinator are, and of the C API every thread has its own.
private struct SharedEngine: @unchecked Sendable {
    let engine: any Engine
}

/// The throughput of eight readers and of one writer of a document, all at once.
///
/// SQLite's memory statistics, which take a lock at each allocation, are off in this program. In a process of its own the
/// task measures with them.
struct ReadersBesideSaves {
    static let name = "readers"
    private static let readerCount = 8

    var folder: String
    var engines: [EngineKind]
    private var hasMemoryStatistics = false

    init(folder: String, engines: [EngineKind]) {
        self.folder = folder
        self.engines = engines
    }

    init?(arguments: [String]) {
        guard let folder = arguments.first else { return nil }
        self.init(folder: folder, engines: arguments.dropFirst().compactMap(EngineKind.init))
        hasMemoryStatistics = true
    }

    /// Measures in this process, and prints the rows as JSON.
    func run() throws {
        print(String(decoding: try JSONEncoder().encode(measure(progress: report)), as: UTF8.self))
    }

    /// Measures in a process of its own, with memory statistics.
    func measureWithStatistics() throws -> [Comparison] {
        let output = try OwnProcess.run(Self.name, [folder] + engines.map(\.rawValue))
        return try JSONDecoder().decode([Comparison].self, from: Data(output.utf8))
    }

    func measure(progress: (String) -> Void) throws -> [Comparison] {
        let dataset = Dataset(count: 10_000)
        var finds: [EngineKind: [Double]] = [:]
        var saves: [EngineKind: [Double]] = [:]
        func path(_ kind: EngineKind) -> String {
            "\(folder)/readers-\(kind.rawValue).sqlite"
        }
        for kind in engines {
            Run.removeDocument(at: path(kind))
            let document = try kind.type.create(at: path(kind))
            try document.insert(dataset, withTags: false, Stopwatch())
            guard (sqlite3_memory_used() > 0) == hasMemoryStatistics else {
                throw BenchmarkFailure("SQLite has not taken the setting of its memory statistics.")
            }
            try document.close()
        }
        for round in 0..<3 {
            for kind in engines {
                progress("readers beside saves, \(kind.title), round \(round + 1)")
                let result = try measureBustle(kind, at: path(kind), dataset)
                finds[kind, default: []].append(result.finds)
                saves[kind, default: []].append(result.saves)
            }
        }
        return [
            ("RW1", "notes found by \(Self.readerCount) readers beside saves", finds),
            ("RW2", "changes saved beside \(Self.readerCount) readers", saves),
        ].map { id, title, samples in
            let medians = samples.compactMapValues(\.median)
            return Comparison(
                hasMemoryStatistics ? "\(id)s" : id,
                hasMemoryStatistics ? "as \(id), with memory statistics" : title, unit: "1/s",
                quire: medians[.quire], others: Comparison.others(medians),
                must: hasMemoryStatistics ? [] : [.atLeast(EngineKind.grdb.title)])
        }
    }

    /// Lets threads read and one save for a second.
    private func measureBustle(
        _ kind: EngineKind, at path: String, _ dataset: Dataset
    ) throws -> (finds: Double, saves: Double) {
        let readerCount = Self.readerCount
        let engines: [SharedEngine] =
            switch kind {
            case .plain:
                try (0...readerCount).map { _ in
                    SharedEngine(engine: try PlainEngine.open(at: path))
                }
            case .grdb:
                Array(
                    repeating: SharedEngine(
                        engine: try GRDBEngine.openPool(at: path, readers: readerCount)),
                    count: readerCount + 1)
            case .quire:
                Array(
                    repeating: SharedEngine(engine: try QuireEngine.open(at: path)),
                    count: readerCount + 1)
            }
        let bustle = Bustle()
        let group = DispatchGroup()
        for (number, shared) in engines.enumerated() {
            group.enter()
            Thread.detachNewThread {
                var round = number
                do {
                    while !bustle.isOver.load(ordering: .relaxed) {
                        let titles = Array(dataset.titles(20 * (round + 1)).suffix(20))
                        round = (round + 1) % 100
                        if number == readerCount {
                            try shared.engine.changeOneByOne(titles: titles, Stopwatch())
                            bustle.saves.add(titles.count, ordering: .relaxed)
                        } else {
                            let sum = try shared.engine.find(titles: titles, Stopwatch())
                            bustle.finds.add(sum.count, ordering: .relaxed)
                        }
                    }
                } catch {
                    bustle.failure.withLock { $0 = error }
                }
                group.leave()
            }
        }
        let seconds = 1.0
        Thread.sleep(forTimeInterval: seconds)
        bustle.isOver.store(true, ordering: .relaxed)
        group.wait()
        for shared in kind == .plain ? engines : Array(engines.prefix(1)) {
            try shared.engine.close()
        }
        if let error = bustle.failure.withLock({ $0 }) { throw error }
        return (
            Double(bustle.finds.load(ordering: .relaxed)) / seconds,
            Double(bustle.saves.load(ordering: .relaxed)) / seconds
        )
    }
}
