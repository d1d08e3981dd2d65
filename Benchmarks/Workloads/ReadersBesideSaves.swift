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

extension Run {
    private static let readerCount = 8

    /// What a document gives eight readers and one who saves, all at once.
    func measureReadersBesideSaves(progress: (String) -> Void) throws -> [Comparison] {
        let dataset = Dataset(count: 10_000)
        var finds: [EngineKind: [Double]] = [:]
        var saves: [EngineKind: [Double]] = [:]
        func path(_ kind: EngineKind) -> String {
            "\(folder)/readers-\(kind.rawValue).sqlite"
        }
        for kind in options.engines {
            let document = try kind.type.create(at: path(kind))
            try document.insert(dataset, withTags: false, Stopwatch())
            try document.close()
        }
        for round in 0..<3 {
            for kind in options.engines {
                progress("readers beside saves, \(kind.title), round \(round + 1)")
                let result = try measureBustle(kind, at: path(kind), dataset)
                finds[kind, default: []].append(result.finds)
                saves[kind, default: []].append(result.saves)
            }
        }
        return [
            ("S1", "notes found by \(Self.readerCount) readers beside saves", finds),
            ("S2", "changes saved beside \(Self.readerCount) readers", saves),
        ].map { id, title, samples in
            let medians = samples.compactMapValues(\.median)
            return Comparison(
                id, title, unit: "1/s", quire: medians[.quire] ?? 0,
                others: Comparison.others(medians), atLeast: EngineKind.grdb.title)
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
