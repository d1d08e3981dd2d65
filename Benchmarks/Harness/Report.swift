import Foundation

/// All that was measured, which ``tables``, ``markdown`` and ``json()`` show, and which a file keeps for comparison.
struct Report: Codable {
    /// Of the JSON form: a run in another form cannot be compared.
    static let currentVersion = 1

    var version: Int
    var date: Date
    /// The commit that was measured, if Git knows it.
    var commit: String?
    var machine: String
    /// Of the compiler and the libraries.
    var versions: String
    /// The part of the usual rounds.
    var effort: Double
    /// The machine's load before the run: above about 0.5, times are those of a busy machine.
    var loadBefore: Double
    var loadAfter = 0.0
    private(set) var rows: [Comparison] = []

    /// A run that begins now, without rows.
    init(effort: Double) {
        version = Self.currentVersion
        date = .now
        commit = try? OwnProcess.output(of: "git", ["describe", "--always", "--dirty"])
            .trimmingCharacters(in: .whitespacesAndNewlines)
        machine = Machine.summary
        versions = Machine.versions
        self.effort = effort
        loadBefore = Machine.load
    }

    mutating func add(_ rows: [Comparison], to section: Comparison.Section) {
        self.rows += rows.map {
            var row = $0
            row.section = section
            return row
        }
    }

    /// The rows of a table, those of a task by their counts.
    func rows(of section: Comparison.Section) -> [Comparison] {
        let rows = rows.filter { $0.section == section }
        let places = Dictionary(
            rows.enumerated().map { ($1.id, $0) }, uniquingKeysWith: { first, _ in first })
        return rows.sorted {
            (places[$0.id] ?? 0, $0.count ?? 0) < (places[$1.id] ?? 0, $1.count ?? 0)
        }
    }

    /// Two rows of one name cannot be compared with those of another run.
    static func requireUnique(_ names: [String]) throws {
        var known: Set<String> = []
        if let twice = names.first(where: { !known.insert($0).inserted }) {
            throw BenchmarkFailure("Two rows have the name “\(twice)”.")
        }
    }

    // MARK: - JSON

    func json() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        return try encoder.encode(self) + Data("\n".utf8)
    }

    /// Reads a run that was saved.
    init(contentsOf path: String) throws {
        struct Form: Decodable { var version: Int }
        let data: Data
        do {
            data = try Data(contentsOf: URL(fileURLWithPath: path))
        } catch {
            throw BenchmarkFailure("“\(path)” cannot be read: \(error.localizedDescription)")
        }
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        guard let form = try? decoder.decode(Form.self, from: data) else {
            throw BenchmarkFailure("“\(path)” is not a run that --save has written.")
        }
        guard form.version == Self.currentVersion else {
            throw BenchmarkFailure(
                "“\(path)” has version \(form.version) of the JSON form, but this program reads version "
                    + "\(Self.currentVersion). Measure that commit again with this version of the benchmark."
            )
        }
        do {
            self = try decoder.decode(Self.self, from: data)
        } catch {
            throw BenchmarkFailure("“\(path)” is damaged: \(error)")
        }
        try Self.requireUnique(rows.map(\.name))
    }

    // MARK: - Text

    var day: String { date.formatted(.iso8601.year().month().day()) }

    /// Three significant digits, or whole numbers from 100.
    static func number(_ value: Double) -> String {
        switch value {
        case 1e15...: String(format: "%.3g", value)
        case 100...: grouped(Int(value.rounded()))
        case 10..<100: String(format: "%.1f", value)
        case 1..<10: String(format: "%.2f", value)
        default: String(format: "%.3f", value)
        }
    }

    static func grouped(_ value: Int) -> String {
        var digits = String(value)
        var groups: [Substring] = []
        while digits.count > 3 {
            groups.insert(digits.suffix(3), at: 0)
            digits = String(digits.dropLast(3))
        }
        return ([Substring(digits)] + groups).joined(separator: ",")
    }
}
