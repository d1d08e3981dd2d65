/// What Quire wants to reach in a workload. Ratios of times; lower is better.
struct Targets: Codable, Sendable {
    /// The most it may take, as a multiple of the C API's time.
    var mustOfPlain: Double?
    /// The most it should take, as a multiple of the C API's time.
    var aimOfPlain: Double?
    /// The most it may take, as a multiple of GRDB's time.
    var mustOfGRDB: Double?
    /// The most it should take, as a multiple of GRDB's time.
    var aimOfGRDB: Double?
    /// The most it may take, in milliseconds or megabytes.
    var must: Double?
    /// The most it should take, in milliseconds or megabytes.
    var aim: Double?

    /// Whether measured figures reach the targets; `nil` without a figure to compare.
    func verdict(quire: Double?, plain: Double?, grdb: Double?) -> Verdict? {
        guard let quire else { return nil }
        var verdict: Verdict?
        func compare(_ figure: Double?, must: Double?, aim: Double?) {
            guard let figure, must != nil || aim != nil else { return }
            let one: Verdict =
                if let must, figure > must { .missed } else if let aim, figure > aim { .must } else
                { .aim }
            verdict = min(verdict ?? .aim, one)
        }
        compare(plain.map { quire / $0 }, must: mustOfPlain, aim: aimOfPlain)
        compare(grdb.map { quire / $0 }, must: mustOfGRDB, aim: aimOfGRDB)
        compare(quire, must: must, aim: aim)
        return verdict
    }
}

/// How a figure compares with its targets.
enum Verdict: Int, Comparable, Codable, Sendable {
    case missed, must, aim

    static func < (left: Verdict, right: Verdict) -> Bool { left.rawValue < right.rawValue }

    var text: String {
        switch self {
        case .missed: "MISSED"
        case .must: "met"
        case .aim: "met, aim too"
        }
    }
}
