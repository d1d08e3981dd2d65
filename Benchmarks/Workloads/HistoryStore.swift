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
                "H2", "insert \(count), with history", unit: "ms", quire: insertion[1].median,
                others: [.init(name: "without", value: insertion[0].median ?? 0)], ratio: 1.3),
            try measurePurge(of: count, progress: progress),
            try measureRemoteChanges(progress: progress),
        ]
    }

    /// The time to delete all but the last of the transactions of so many saves, each of one change, beside SQLite's API with
    /// the statements that do only that.
    ///
    /// The rows are made by SQL, because saving them takes minutes.
    private func measurePurge(of count: Int, progress: (String) -> Void) throws -> Comparison {
        progress("history, H3")
        let path = "\(folder)/history-purge.sqlite"
        defer { Self.removeDocument(at: path) }
        var options = SQLiteStoreOptions()
        options.tracksHistory = true
        let (quire, plain) = (Stopwatch(), Stopwatch())
        for round in 0..<10 {
            Self.removeDocument(at: path)
            let document = try QuireEngine.create(at: path, options: options)
            try document.insert(Dataset(count: 1), withTags: false, Stopwatch())
            try document.close()
            let connection = try PlainEngine.open(at: path)
            try connection.execute(Self.transactions(count))
            if round.isMultiple(of: 2) {
                plain.start()
                try connection.execute(
                    """
                    BEGIN IMMEDIATE;
                    DELETE FROM ACHANGE WHERE ZTRANSACTIONID < \(count);
                    DELETE FROM ATRANSACTION WHERE Z_PK < \(count);
                    COMMIT
                    """)
                plain.stop()
            }
            try connection.close()
            if !round.isMultiple(of: 2) {
                try QuireEngine.open(at: path).deleteHistory(keepingLast: 1, quire)
            }
        }
        return Comparison(
            "H3", "purge \(count) transactions", unit: "ms", quire: quire.median,
            others: [.init(name: "SQLite", value: plain.median ?? 0)], ratio: 1.25)
    }

    /// The statements that add transactions, up to a number, to a store that has one.
    private static func transactions(_ count: Int) -> String {
        let numbers =
            "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < \(count)) INSERT INTO"
        return """
            BEGIN IMMEDIATE;
            \(numbers) ATRANSACTION (Z_PK, Z_ENT, ZPROCESSIDTS, ZTIMESTAMP) SELECT i, 16002, 1, i FROM n;
            \(numbers) ACHANGE (Z_PK, Z_ENT, ZCHANGETYPE, ZENTITY, ZENTITYPK, ZTRANSACTIONID)
                SELECT i + 1000, 16001, 0, 1, 1, i FROM n;
            COMMIT
            """
    }
}

extension QuireEngine {
    /// Deletes history, and closes the document.
    fileprivate func deleteHistory(keepingLast count: Int, _ stopwatch: Stopwatch) throws {
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            stopwatch.start()
            try context.execute(.deleteHistory(keepingLast: count))
            stopwatch.stop()
        }
        try close()
    }
}
