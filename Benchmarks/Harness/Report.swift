import Foundation

/// All that was measured, as tables or JSON.
struct Report {
    var options: Options
    var workloads: [WorkloadResult] = []
    var memory: [MemoryResult] = []
    var mainQueue: [MainQueueResult] = []
    var graph: [GraphResult] = []
    var documentSaves: [DocumentSaveResult] = []
    var growth: GrowthResult?
    var comparisons: [Comparison] = []
    /// The machine's load before the run: above about 0.5, times are those of a busy machine.
    var loadBefore = Machine.load

    // MARK: - Tables

    func printTables() {
        print(
            """
            Quire beside SQLite's C API and GRDB 7.10.0, rounds interleaved, write-ahead logging and
            synchronous = FULL for all. \(Machine.summary), load \(loadBefore) before and \(Machine.load) after.

            """)
        if !workloads.isEmpty {
            print(
                table(
                    "Medians in milliseconds",
                    workloads.map {
                        row(
                            $0.id, $0.title, $0.count, $0.milliseconds, $0.targets, $0.verdict,
                            "ms")
                    }
                ))
        }
        if !memory.isEmpty {
            print(
                table(
                    "Peak memory of a process in megabytes",
                    memory.map {
                        row(
                            $0.id, $0.title, $0.count, $0.megabytes, $0.targets, $0.verdict, "MB")
                    }
                ))
        }
        if !mainQueue.isEmpty {
            print(
                Self.format(
                    [
                        [
                            "Save of one changed object", "N", "main queue µs", "in all ms", "must",
                            "",
                        ]
                    ]
                        + mainQueue.map {
                            [
                                "child to parent to store", Self.grouped($0.count),
                                Self.number($0.mainQueueMicroseconds),
                                Self.number($0.totalMilliseconds),
                                "< 100 µs", $0.mainQueueMicroseconds < 100 ? "met" : "MISSED",
                            ]
                        }))
        }
        if !documentSaves.isEmpty { print(Self.format(documentRows)) }
        if !graph.isEmpty { print(Self.format(graphRows)) }
        if let growth {
            print(
                "Peak memory of inserting with a save and a reset every 10,000: "
                    + "\(Self.number(growth.megabytes.0)) MB for \(Self.grouped(growth.counts.0)) notes, "
                    + "\(Self.number(growth.megabytes.1)) MB for \(Self.grouped(growth.counts.1)); it may grow by "
                    + "\(Self.number(GrowthResult.maximumGrowth)) MB: \(growth.isMet ? "met" : "MISSED").\n"
            )
        }
        if !comparisons.isEmpty { print(Self.format(comparisonRows)) }
        let verdicts =
            (workloads.compactMap(\.verdict) + memory.compactMap(\.verdict)).map { $0 >= .must }
            + documentSaves.map(\.isMet) + comparisons.map(\.isMet)
        if !verdicts.isEmpty {
            print("\(verdicts.count { $0 }) of \(verdicts.count) rows with targets are met.")
        }
    }

    private var documentRows: [[String]] {
        [
            [
                "Save of a document", "changed", "external MB", "longest turn ms", "in all ms",
                "must", "",
            ]
        ]
            + documentSaves.map {
                [
                    $0.reads ? "main queue that reads" : "main queue", Self.grouped($0.changes),
                    Self.grouped($0.megabytes),
                    Self.number($0.longestTurnMilliseconds), Self.number($0.totalMilliseconds),
                    "≤ \(Self.number(DocumentSaveResult.mustMilliseconds)) ms",
                    $0.isMet ? "met" : "MISSED",
                ]
            }
    }

    private var comparisonRows: [[String]] {
        [["One by one", "", "Quire", "beside", "must", ""]]
            + comparisons.map {
                [
                    "\($0.id) \($0.title)", $0.unit, Self.number($0.quire),
                    $0.others.map { "\($0.name) \(Self.number($0.value))" }
                        .joined(separator: ", "), $0.must, $0.isMet ? "met" : "MISSED",
                ]
            }
    }

    private var graphRows: [[String]] {
        [["What contexts do, in milliseconds", "N", "", "beside", "", "", "must", ""]]
            + graph.map {
                [
                    "\($0.id) \($0.title)", Self.grouped($0.count), Self.number($0.measured),
                    $0.otherTitle, Self.number($0.other), Self.number($0.ratio) + " ×",
                    "≤ \(Self.number($0.must)) ×"
                        + ($0.maximumMilliseconds.isFinite
                            ? ", ≤ \(Self.number($0.maximumMilliseconds)) ms" : ""),
                    $0.isMet ? "met" : "MISSED",
                ]
            }
    }

    private func row(
        _ id: String, _ title: String, _ count: Int, _ figures: [EngineKind: Double],
        _ targets: Targets, _ verdict: Verdict?, _ unit: String
    ) -> [String] {
        func ratio(to kind: EngineKind) -> String {
            guard let quire = figures[.quire], let other = figures[kind] else { return "–" }
            return Self.number(quire / other) + " ×"
        }
        return ["\(id) \(title)", Self.grouped(count)]
            + options.engines.map { figures[$0].map(Self.number) ?? "–" }
            + [
                ratio(to: .plain), ratio(to: .grdb), Self.bounds(targets, must: true, unit),
                Self.bounds(targets, must: false, unit), verdict?.text ?? "",
            ]
    }

    private func table(_ title: String, _ rows: [[String]]) -> String {
        Self.format(
            [
                [title, "N"] + options.engines.map(\.title)
                    + ["Quire/C", "Quire/GRDB", "must", "aim", ""]
            ] + rows)
    }

    private static func bounds(_ targets: Targets, must: Bool, _ unit: String) -> String {
        let plain = must ? targets.mustOfPlain : targets.aimOfPlain
        let grdb = must ? targets.mustOfGRDB : targets.aimOfGRDB
        var parts: [String] = []
        if let plain { parts.append("≤ \(number(plain)) C") }
        if let grdb { parts.append("≤ \(number(grdb)) GRDB") }
        if let figure = must ? targets.must : targets.aim {
            parts.append("≤ \(number(figure)) \(unit)")
        }
        return parts.joined(separator: ", ")
    }

    /// Lines up columns: the first, and those whose text is not a figure, to the left; the others to the right.
    private static func format(_ rows: [[String]]) -> String {
        guard let heading = rows.first else { return "" }
        let widths = heading.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        let toTheLeft = heading.indices.map { column in
            column == 0
                || rows.dropFirst().contains {
                    $0[column].first.map { !"0123456789–".contains($0) } ?? false
                }
        }
        var lines = rows.map { row in
            row.indices.map { column in
                let padding = String(repeating: " ", count: widths[column] - row[column].count)
                return toTheLeft[column] ? row[column] + padding : padding + row[column]
            }.joined(separator: "  ")
        }
        lines.insert(
            String(repeating: "─", count: widths.reduce(0, +) + 2 * (widths.count - 1)), at: 1)
        return lines.map {
            String($0.reversed().drop { $0 == " " }.reversed())
        }.joined(separator: "\n") + "\n"
    }

    /// Three significant digits, or whole numbers from 100.
    private static func number(_ value: Double) -> String {
        switch value {
        case 100...: grouped(Int(value.rounded()))
        case 10..<100: String(format: "%.1f", value)
        case 1..<10: String(format: "%.2f", value)
        default: String(format: "%.3f", value)
        }
    }

    private static func grouped(_ value: Int) -> String {
        var digits = String(value)
        var groups: [Substring] = []
        while digits.count > 3 {
            groups.insert(digits.suffix(3), at: 0)
            digits = String(digits.dropLast(3))
        }
        return ([Substring(digits)] + groups).joined(separator: ",")
    }

    // MARK: - JSON

    func printJSON() throws {
        struct Row: Encodable {
            var id: String
            var title: String
            var count: Int
            var figures: [String: Double]
            var targets: Targets
            var met: Bool?
        }
        struct MainQueueRow: Encodable {
            var count: Int
            var mainQueueMicroseconds: Double
            var totalMilliseconds: Double
        }
        struct DocumentRow: Encodable {
            var changes: Int
            var externalMegabytes: Int
            var longestTurnMilliseconds: Double
            var totalMilliseconds: Double
            var met: Bool
        }
        struct GraphRow: Encodable {
            var id: String
            var title: String
            var count: Int
            var milliseconds: Double
            var beside: String
            var besideMilliseconds: Double
            var must: Double
            var met: Bool
        }
        struct GrowthRow: Encodable {
            var counts: [Int]
            var megabytes: [Double]
            var met: Bool
        }
        struct Document: Encodable {
            var machine: String
            var loadBefore: Double
            var loadAfter: Double
            var milliseconds: [Row]
            var megabytes: [Row]
            var mainQueue: [MainQueueRow]
            var documentSaves: [DocumentRow]
            var graph: [GraphRow]
            var growth: GrowthRow?
            var comparisons: [Comparison]
        }
        func figures(_ figures: [EngineKind: Double]) -> [String: Double] {
            Dictionary(uniqueKeysWithValues: figures.map { ($0.key.rawValue, $0.value) })
        }
        let document = Document(
            machine: Machine.summary, loadBefore: loadBefore, loadAfter: Machine.load,
            milliseconds: workloads.map {
                Row(
                    id: $0.id, title: $0.title, count: $0.count, figures: figures($0.milliseconds),
                    targets: $0.targets, met: $0.verdict.map { $0 >= .must })
            },
            megabytes: memory.map {
                Row(
                    id: $0.id, title: $0.title, count: $0.count, figures: figures($0.megabytes),
                    targets: $0.targets, met: $0.verdict.map { $0 >= .must })
            },
            mainQueue: mainQueue.map {
                MainQueueRow(
                    count: $0.count, mainQueueMicroseconds: $0.mainQueueMicroseconds,
                    totalMilliseconds: $0.totalMilliseconds)
            },
            documentSaves: documentSaves.map {
                DocumentRow(
                    changes: $0.changes, externalMegabytes: $0.megabytes,
                    longestTurnMilliseconds: $0.longestTurnMilliseconds,
                    totalMilliseconds: $0.totalMilliseconds, met: $0.isMet)
            },
            graph: graph.map {
                GraphRow(
                    id: $0.id, title: $0.title, count: $0.count, milliseconds: $0.measured,
                    beside: $0.otherTitle, besideMilliseconds: $0.other, must: $0.must,
                    met: $0.isMet)
            },
            growth: growth.map {
                GrowthRow(
                    counts: [$0.counts.0, $0.counts.1],
                    megabytes: [$0.megabytes.0, $0.megabytes.1],
                    met: $0.isMet)
            }, comparisons: comparisons)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        print(String(decoding: try encoder.encode(document), as: UTF8.self))
    }
}

/// What a reader must know of the machine to judge the figures.
enum Machine {
    static var summary: String {
        let gibibytes = Double(ProcessInfo.processInfo.physicalMemory) / 1_073_741_824
        return "\(ProcessInfo.processInfo.activeProcessorCount) cores, "
            + String(format: "%.0f GiB", gibibytes)
    }

    /// The load average of the last minute.
    static var load: Double {
        let text = try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8)
        return text?.split(separator: " ").first.flatMap { Double($0) } ?? 0
    }
}
