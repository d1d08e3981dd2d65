import Foundation
import Quire

extension Run {
    private static let protectedTasks: [(task: ComparedTask, ratio: Double)] = [
        (
            ComparedTask(id: "P1", title: "change one, save", rounds: 21) { site, stopwatch in
                let titles = site.dataset.titles(20 * (site.round + 1)).suffix(20)
                try site.openDocument().changeOneByOne(titles: Array(titles), stopwatch)
            }, 1.3
        ),
        (
            ComparedTask(id: "P2", title: "fetch everything", rounds: 11) { site, stopwatch in
                _ = try site.openDocument().readEverything(stopwatch)
            }, 1.6
        ),
        (
            ComparedTask(id: "P3", title: "open, fetch everything", rounds: 11) {
                site, stopwatch in
                try site.closeDocument()
                stopwatch.start()
                _ = try site.openDocument().readEverything(Stopwatch())
                stopwatch.stop()
            }, 2.0
        ),
    ]

    /// The cost of protection: a sealed store beside one in clear, and unlocking with a passphrase.
    func measureProtectedStore(progress: (String) -> Void) async throws -> [Comparison] {
        let count = 100_000
        progress("protected store, \(count) notes")
        let dataset = Dataset(count: count)
        let passphrase = "a passphrase of the benchmark"
        let domain = try await ProtectionDomain.setUp(
            at: "\(folder)/me.keybag", passphrase: passphrase)
        let sites = try [nil, domain].map { domain in
            let path = "\(folder)/protected-\(domain != nil).sqlite"
            var options = SQLiteStoreOptions()
            if let domain {
                (options.fileProtection, options.protectionDomain) = (.complete, domain)
            }
            let document = try QuireEngine.create(at: path, options: options)
            try document.insert(dataset, withTags: true, Stopwatch())
            try document.close()
            return Site(engine: QuireEngine.self, dataset: dataset, path: path)
        }
        defer {
            for site in sites {
                try? site.closeDocument()
                Self.removeDocument(at: site.path)
            }
        }
        var results = try Self.protectedTasks.map { task, ratio in
            progress("protected store, \(task.id)")
            let medians = try Self.medians(of: task, at: sites)
            return Comparison(
                task.id, "\(task.title), protected", unit: "ms", quire: medians[1],
                others: [.init(name: "unprotected", value: medians[0])], ratio: ratio)
        }
        for site in sites { try site.closeDocument() }
        let stopwatch = Stopwatch()
        for _ in 0..<11 {
            await domain.lock(after: .zero)
            stopwatch.start()
            try await domain.unlock(passphrase: passphrase)
            stopwatch.stop()
        }
        results.append(
            Comparison(
                "P4", "unlock with a passphrase", unit: "ms", quire: stopwatch.median,
                others: [], most: 300))
        return results
    }
}
