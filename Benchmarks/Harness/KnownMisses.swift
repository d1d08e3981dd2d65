/// A target that is known to be missed, so that the run does not fail for it.
struct KnownMiss {
    var ids: [String]
    /// The numbers of objects with which it is missed; `nil` for all.
    var counts: [Int]?
    /// The figure above which the run fails nevertheless.
    var upTo: Double?
    var reason: String

    init(_ ids: String..., at counts: [Int]? = nil, upTo: Double? = nil, reason: String) {
        self.ids = ids
        self.counts = counts
        self.upTo = upTo
        self.reason = reason
    }

    static let all = [
        KnownMiss(
            "W1", "W1t", "B1",
            reason: "Retaining and releasing objects and touching fresh memory take time."),
        KnownMiss(
            "W2", "W2b", reason: "Creating an object for each row takes more time than a struct."),
        KnownMiss(
            "W3", at: [1_000, 10_000],
            reason: "A fetch has a fixed cost, which small documents show."),
        KnownMiss(
            "W4", at: [1_000, 100_000],
            reason: "A fetch has a fixed cost, of which 50 rows hide little."),
        KnownMiss(
            "W5", at: [1_000], reason: "A save has a fixed cost, which small documents show."),
        KnownMiss("W6", reason: "Quire reads the relationships of each note that it deletes."),
        KnownMiss(
            "W7m", "W8a", "W8b", reason: "Retaining and releasing objects takes most of the time."),
        KnownMiss(
            "W9", reason: "Quire checks the schema and reads the model when it opens a document."),
        KnownMiss(
            "W10",
            reason: "The files are compared with those at the path before and after each commit."),
        KnownMiss(
            "W11", at: [1_000],
            reason: "Resolving and translating the request takes half of the time."),
        KnownMiss(
            "B3", at: [1_000],
            reason: "A connection creates temporary tables for its first deletion."),
        KnownMiss(
            "W1m", at: [100_000], reason: "All inserted objects are in memory until the save."),
        KnownMiss(
            "W2m", at: [100_000], reason: "All fetched rows are in memory while their list is."),
        KnownMiss(
            "D3", "D6", upTo: 50,
            reason: "Writing 500 MB keeps the processors busy, and a turn waits for one of them."),
        KnownMiss(
            "C4", at: [10_000],
            reason: "Each level of contexts has objects of its own for the changed rows."),
        KnownMiss("RW2", reason: "The writer waits for processors while eight readers run."),
        KnownMiss("M2", reason: "SQLite's page cache for saving takes most of the memory."),
        KnownMiss("P4", reason: "Unlocking derives a key, which takes its time on purpose."),
        KnownMiss(
            "I1", reason: "Rows become objects and are validated, which sqlite3 does not do."),
        KnownMiss("A1", reason: "Export takes a little more time than bsdtar."),
    ]

    /// Why a row may miss its target, if it may.
    static func reason(for row: Comparison) -> String? {
        all.first { $0.covers(row) }?.reason
    }

    private func covers(_ row: Comparison) -> Bool {
        guard ids.contains(row.id) else { return false }
        if let counts, !counts.contains(row.count ?? 0) { return false }
        if let upTo, let figure = row.quire, figure > upTo { return false }
        return true
    }
}

/// The rows that have missed their targets.
struct Judgement {
    /// The names and targets of those that make the run fail.
    private(set) var missed: [String] = []
    private var known: [(reason: String, names: [String])] = []
    private var noLongerMissed: [String] = []
    /// Fewer rounds than usual are too few to fail for.
    private let isFinal: Bool

    init(_ report: Report) {
        isFinal = report.effort >= 1
        for row in report.rows {
            switch (row.verdict, KnownMiss.reason(for: row)) {
            case (.missed, let reason?):
                if let index = known.firstIndex(where: { $0.reason == reason }) {
                    known[index].names.append(row.name)
                } else {
                    known.append((reason, [row.name]))
                }
            case (.missed, nil):
                missed.append("\(row.name), which must be \(row.text(of: row.must))")
            case (.must, _?), (.aim, _?): noLongerMissed.append(row.name)
            default: break
            }
        }
    }

    var text: String {
        var parts = known.map {
            "Missed, as known: \($0.names.joined(separator: ", ")). \($0.reason)"
        }
        if !noLongerMissed.isEmpty && isFinal {
            parts.append("No longer missed: \(noLongerMissed.joined(separator: ", ")).")
        }
        if !missed.isEmpty && !isFinal {
            parts.append("Missed, with too few rounds to judge: \(missed.joined(separator: "; ")).")
        }
        return parts.joined(separator: "\n")
    }

    /// Fails if a target was missed that is not known to be.
    func requireTargets() throws {
        guard isFinal, !missed.isEmpty else { return }
        throw BenchmarkFailure(
            """
            Missed: \(missed.joined(separator: "; ")). Make them faster, or add them to \
            Benchmarks/Harness/KnownMisses.swift with the reason.
            """)
    }
}
