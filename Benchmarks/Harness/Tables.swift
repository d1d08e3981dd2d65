extension Comparison.Section {
    var title: String {
        switch self {
        case .times: "Medians in milliseconds"
        case .memory: "Peak memory of a process in megabytes"
        case .mainQueue: "The main queue during a save"
        case .contexts: "What contexts do"
        case .comparisons: "One by one"
        case .synchronization: "Synchronization"
        }
    }

    /// Whether the libraries have columns of their own.
    fileprivate var isOfEngines: Bool { self == .times || self == .memory }
}

extension Report {
    /// All tables, and how many rows meet their targets.
    var tables: String {
        var parts = [
            """
            Quire beside SQLite's C API and GRDB, rounds interleaved, write-ahead logging and synchronous = FULL
            for all. \(day)\(commit.map { ", \($0)" } ?? ""); \(machine); \(versions).
            Load \(loadBefore) before and \(loadAfter) after.

            """
        ]
        for section in Comparison.Section.allCases {
            let rows = rows(of: section)
            if rows.isEmpty { continue }
            parts.append(
                Self.format(
                    section.isOfEngines ? Self.columns(section, rows) : Self.list(section, rows)))
            parts += rows.compactMap { row in row.note.map { "\(row.name): \($0)\n" } }
        }
        let verdicts = rows.compactMap(\.verdict)
        parts.append(
            "\(verdicts.count { $0 != .missed }) of \(verdicts.count) rows with targets are met.")
        return parts.joined(separator: "\n")
    }

    private static func columns(
        _ section: Comparison.Section, _ rows: [Comparison]
    ) -> [[String]] {
        let engines = EngineKind.allCases.filter { kind in
            kind == .quire || rows.contains { $0.other(kind.title) != nil }
        }
        return [
            [section.title, "N"] + engines.map(\.title)
                + ["Quire/C", "Quire/GRDB", "must", "aim", ""]
        ]
            + rows.map { row in
                ["\(row.id) \(row.title)", row.count.map(grouped) ?? ""]
                    + engines.map { engine in
                        (engine == .quire ? row.quire : row.other(engine.title)).map(number) ?? "–"
                    }
                    + [EngineKind.plain, .grdb].map { row.ratioText(to: $0.title) ?? "–" }
                    + [
                        row.text(of: row.must), row.text(of: row.aim),
                        row.verdict?.rawValue ?? "",
                    ]
            }
    }

    private static func list(_ section: Comparison.Section, _ rows: [Comparison]) -> [[String]] {
        [[section.title, "N", "Quire", "", "beside", "", "must", ""]]
            + rows.map { row in
                [
                    "\(row.id) \(row.title)", row.count.map(grouped) ?? "",
                    row.quire.map(number) ?? "–", row.unit,
                    row.others.map { "\($0.name) \(number($0.value))" }.joined(separator: ", "),
                    row.must.lazy.compactMap { row.ratioText(to: $0.of) }.first ?? "",
                    row.text(of: row.must), row.verdict?.rawValue ?? "",
                ]
            }
    }

    /// Lines up columns: the first, and those whose text is not a figure, to the left; the others to the right.
    static func format(_ rows: [[String]]) -> String {
        guard let heading = rows.first else { return "" }
        let widths = heading.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        let toTheLeft = heading.indices.map { column in
            column == 0
                || rows.dropFirst().contains {
                    $0[column].first.map { !"0123456789–+-".contains($0) } ?? false
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

    // MARK: - Markdown

    /// One table of times and memory for a page: the figures with the largest count, the ratios with all.
    var markdown: String {
        let rows = self.rows(of: .times) + self.rows(of: .memory)
        let counts = Set(rows.compactMap(\.count)).sorted()
        let all = counts.map(Self.grouped).joined(separator: " · ")
        var lines = [
            "Measured on \(day)\(commit.map { " (\($0))" } ?? "") on \(machine), with \(versions). Medians with "
                + "N = \(counts.last.map(Self.grouped) ?? "–"); ratios with N = \(all).",
            "",
            "| | Quire | C API | GRDB | Quire / C API | Quire / GRDB |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        for row in rows where row.count == counts.last {
            func figure(_ value: Double?) -> String {
                value.map { "\(Self.number($0)) \(row.unit)" } ?? "–"
            }
            func ratios(to kind: EngineKind) -> String {
                let ratios = counts.map { count in
                    rows.first { $0.id == row.id && $0.count == count }?.ratio(to: kind.title)
                }
                return ratios.map { $0.map(Self.number) ?? "–" }.joined(separator: " · ")
            }
            let cells = [
                "\(row.id) \(row.title)", figure(row.quire),
                figure(row.other(EngineKind.plain.title)), figure(row.other(EngineKind.grdb.title)),
                ratios(to: .plain), ratios(to: .grdb),
            ]
            lines.append("| \(cells.joined(separator: " | ")) |")
        }
        return lines.joined(separator: "\n")
    }
}

extension Comparison {
    func ratioText(to name: String?) -> String? {
        ratio(to: name).map { Report.number($0) + " ×" }
    }

    /// Bounds in words, which name the figure that they multiply if there are several.
    func text(of bounds: [Bound]) -> String {
        bounds.map { bound in
            let sign = bound.isMinimum ? "≥" : "≤"
            let limit = Report.number(bound.limit)
            guard let name = bound.of else { return "\(sign) \(limit) \(unit)" }
            return others.count == 1 && !section.isOfEngines
                ? "\(sign) \(limit) ×" : "\(sign) \(limit) × \(name)"
        }.joined(separator: ", ")
    }
}
