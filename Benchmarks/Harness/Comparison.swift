/// A row: a figure of Quire's beside those of others, and what it must be.
struct Comparison: Codable, Sendable {
    struct Figure: Codable, Sendable {
        var name: String
        var value: Double
    }

    /// An upper or a lower bound of a figure.
    struct Bound: Codable, Sendable {
        /// In the row's unit, or a multiple of another figure.
        var limit: Double
        /// The name of that figure.
        var of: String?
        var isMinimum = false

        static func plain(_ ratio: Double) -> Bound {
            Bound(limit: ratio, of: EngineKind.plain.title)
        }
        static func grdb(_ ratio: Double) -> Bound {
            Bound(limit: ratio, of: EngineKind.grdb.title)
        }
        static func most(_ figure: Double) -> Bound { Bound(limit: figure) }
        static func atLeast(_ name: String) -> Bound { Bound(limit: 1, of: name, isMinimum: true) }
    }

    /// The table in which a row stands.
    enum Section: String, Codable, CaseIterable {
        case times, memory, mainQueue, contexts, comparisons, synchronization
    }

    var section = Section.comparisons
    /// With the count, the name of the row: no other row of a run has it.
    var id: String
    var title: String
    /// The number of objects, if it is measured with several.
    var count: Int?
    var unit: String
    /// `nil` if Quire was not measured.
    var quire: Double?
    var others: [Figure]
    var must: [Bound]
    var aim: [Bound]
    /// The result of comparing the figure with its targets; `nil` if there is no target, or no figure to compare.
    private(set) var verdict: Verdict?
    /// Published figures, in a sentence.
    var note: String?

    /// - Parameters:
    ///   - ratio: The most it may be, as a multiple of the least of the others.
    ///   - most: The most it may be.
    init(
        _ id: String, _ title: String, count: Int? = nil, unit: String, quire: Double?,
        others: [Figure], ratio: Double? = nil, most: Double? = nil, must: [Bound] = [],
        aim: [Bound] = []
    ) {
        self.id = id
        self.title = title
        self.count = count
        self.unit = unit
        self.quire = quire
        self.others = others
        self.must = must + (most.map { [.most($0)] } ?? [])
        self.aim = aim
        if let ratio, let least = others.min(by: { $0.value < $1.value }) {
            self.must.append(Bound(limit: ratio, of: least.name))
        }
        let (musts, aims) = (self.must.compactMap(isMet), aim.compactMap(isMet))
        verdict =
            if musts.isEmpty && aims.isEmpty { nil } else if musts.contains(false) {
                .missed
            } else if aims.isEmpty || aims.contains(false) { .must } else { .aim }
    }

    static func others(_ figures: [EngineKind: Double]) -> [Figure] {
        EngineKind.allCases.filter { $0 != .quire }.compactMap { kind in
            figures[kind].map { Figure(name: kind.title, value: $0) }
        }
    }

    var name: String { count.map { "\(id) at \(Report.grouped($0))" } ?? id }

    /// Whether a larger figure is a better one.
    var isThroughput: Bool { unit == "1/s" }

    func other(_ name: String?) -> Double? { others.first { $0.name == name }?.value }

    /// Quire's figure as a multiple of another.
    func ratio(to name: String?) -> Double? {
        guard let quire, let other = other(name), other > 0 else { return nil }
        return quire / other
    }

    private func isMet(_ bound: Bound) -> Bool? {
        guard let figure = bound.of == nil ? quire : ratio(to: bound.of) else { return nil }
        return bound.isMinimum ? figure >= bound.limit : figure <= bound.limit
    }
}

/// The result of comparing a figure with its targets.
enum Verdict: String, Codable, Sendable {
    case missed = "MISSED"
    case must = "met"
    case aim = "met, aim too"
}
