/// A figure of Quire's beside those of others, and what it must be.
struct Comparison: Codable, Sendable {
    struct Figure: Codable, Sendable {
        var name: String
        var value: Double
    }

    var id: String
    var title: String
    var unit: String
    var quire: Double
    var others: [Figure]
    /// What it must be, in words.
    var must: String
    var isMet: Bool

    /// A figure that must be small.
    ///
    /// - Parameters:
    ///   - ratio: The most it may be, as a multiple of the least of the others.
    ///   - most: The most it may be.
    init(
        _ id: String, _ title: String, unit: String, quire: Double, others: [Figure],
        ratio: Double? = nil, most: Double? = nil
    ) {
        self.id = id
        self.title = title
        self.unit = unit
        self.quire = quire
        self.others = others
        var parts: [String] = []
        isMet = true
        if let ratio, let least = others.min(by: { $0.value < $1.value }) {
            parts.append("≤ \(ratio) × \(least.name)")
            if quire > least.value * ratio { isMet = false }
        }
        if let most {
            parts.append("≤ \(most) \(unit)")
            if quire > most { isMet = false }
        }
        must = parts.joined(separator: ", ")
    }

    /// A figure that must be at least another one.
    init(
        _ id: String, _ title: String, unit: String, quire: Double, others: [Figure],
        atLeast name: String
    ) {
        self.init(id, title, unit: unit, quire: quire, others: others)
        must = "≥ \(name)"
        isMet = others.allSatisfy { $0.name != name || quire >= $0.value }
    }

    static func others(_ figures: [EngineKind: Double]) -> [Figure] {
        EngineKind.allCases.filter { $0 != .quire }.compactMap { kind in
            figures[kind].map { Figure(name: kind.title, value: $0) }
        }
    }
}
