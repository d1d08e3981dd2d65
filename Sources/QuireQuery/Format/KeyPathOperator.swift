/// An operator in a key path: `books.@sum.pages`.
enum KeyPathOperator: String, CaseIterable {
    case count
    case sum
    case average = "avg"
    case minimum = "min"
    case maximum = "max"
    case distinctUnionOfObjects
    case unionOfObjects

    /// What it computes of the values at the key path; `nil` if it leaves them as they are.
    var function: QueryFunction? {
        switch self {
        case .count: .count
        case .sum: .sum
        case .average: .average
        case .minimum: .minimum
        case .maximum: .maximum
        case .distinctUnionOfObjects: .distinct
        case .unionOfObjects: nil
        }
    }

    /// Whether it gives several values, so that another operator can follow.
    var givesMany: Bool { self == .distinctUnionOfObjects || self == .unionOfObjects }

    /// The operator that a key is, if it is one.
    init?(key: String) {
        guard key.hasPrefix("@") else { return nil }
        self.init(rawValue: String(key.dropFirst()))
    }

    /// The operator that computes a function.
    init?(_ function: QueryFunction) {
        guard let found = Self.allCases.first(where: { $0.function == function }) else {
            return nil
        }
        self = found
    }

    /// What is expected where something else stands.
    static func expectation(of name: String) -> String {
        let close = CloseNames.of(name, among: allCases.map(\.rawValue))
        let names = close.isEmpty ? allCases.map(\.rawValue) : close
        return "expected " + (names.count > 1 ? "one of " : "")
            + names.map { "@\($0)" }.joined(separator: ", ")
    }
}
