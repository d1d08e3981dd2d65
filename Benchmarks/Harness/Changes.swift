extension Report {
    /// The part of a figure by which a row must have changed to be listed.
    private static let smallestChange = 0.05

    /// The rows that have changed since an earlier run: their ratios to the C API, or where it does not do the same, their figures.
    ///
    /// Figures of two machines are not compared; rows then need another figure of their own run.
    func changes(since earlier: Report) -> String {
        let since = "\(earlier.day)\(earlier.commit.map { " (\($0))" } ?? "")"
        let isSameMachine = earlier.machine == machine
        let before = Dictionary(
            earlier.rows.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        var changed = [["Changed by more than 5 % since \(since)", "then", "now", "", "", ""]]
        var skipped = Set(before.keys)
        for row in Comparison.Section.allCases.flatMap({ rows(of: $0) }) {
            let reference =
                row.other(EngineKind.plain.title) != nil
                ? EngineKind.plain.title
                : isSameMachine ? nil : row.must.compactMap(\.of).first
            guard let old = before[row.name], old.unit == row.unit,
                isSameMachine || reference != nil,
                let now = reference == nil ? row.quire : row.ratio(to: reference),
                let then = reference == nil ? old.quire : old.ratio(to: reference), then > 0
            else { continue }
            skipped.remove(row.name)
            let change = now / then - 1
            guard abs(change) > Self.smallestChange else { continue }
            changed.append([
                "\(row.name) \(row.title)", Self.number(then), Self.number(now),
                reference.map { "× \($0)" } ?? row.unit,
                (change > 0 ? "+" : "-") + Self.number(abs(change) * 100) + " %",
                (change > 0) == row.isThroughput ? "better" : "worse",
            ])
        }
        var parts: [String] = []
        if !isSameMachine {
            parts.append(
                "The run of \(since) is of another machine (\(earlier.machine)): only ratios are compared.\n"
            )
        }
        parts.append(
            changed.count > 1
                ? Self.format(changed) : "No row has changed by more than 5 % since \(since).\n")
        if !skipped.isEmpty {
            let rest = skipped.count > 10 ? " and \(skipped.count - 10) more" : ""
            parts.append(
                "Not compared with that run: \(skipped.sorted().prefix(10).joined(separator: ", "))\(rest).\n"
            )
        }
        return parts.joined(separator: "\n")
    }
}
