import Foundation
import Quire
import QuireSQLite

extension Run {
    private static let historyTask = ComparedTask(id: "H1", title: "change one, save", rounds: 21) {
        site, stopwatch in
        let titles = site.dataset.titles(20 * (site.round + 1)).suffix(20)
        try site.openDocument().changeOneByOne(titles: Array(titles), stopwatch)
    }

    /// The cost of history: a store that records its saves beside one that does not.
    func measureHistory(progress: (String) -> Void) throws -> [Comparison] {
        let count = 100_000
        progress("history, \(count) notes")
        let dataset = Dataset(count: count)
        let paths = [false, true].map { "\(folder)/history-\($0).sqlite" }
        let insertion = [Stopwatch(), Stopwatch()]
        for _ in 0..<5 {
            for (tracks, path) in zip([false, true], paths) {
                Self.removeDocument(at: path)
                var options = SQLiteStoreOptions()
                options.tracksHistory = tracks
                let document = try QuireEngine.create(at: path, options: options)
                try document.insert(dataset, withTags: true, insertion[tracks ? 1 : 0])
                try document.close()
            }
        }
        let sites = paths.map { Site(engine: QuireEngine.self, dataset: dataset, path: $0) }
        defer {
            for site in sites {
                try? site.closeDocument()
                Self.removeDocument(at: site.path)
            }
        }
        progress("history, H1")
        let saves = try Self.medians(of: Self.historyTask, at: sites)
        return [
            Comparison(
                "H1", "change one, save, with history", unit: "ms", quire: saves[1],
                others: [.init(name: "without", value: saves[0])], ratio: 1.25),
            Comparison(
                "H2", "insert \(count), with history", unit: "ms", quire: insertion[1].median ?? 0,
                others: [.init(name: "without", value: insertion[0].median ?? 0)], ratio: 1.3),
        ]
    }
}
