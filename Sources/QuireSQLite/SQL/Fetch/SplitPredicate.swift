internal import QuireQuery

/// A condition in two parts, both of which must hold: what SQL can say, and what is left to be tested in memory on the
/// objects that satisfy the first.
struct SplitPredicate {
    /// What SQL can say.
    let translatable: QueryPredicate
    /// What it cannot; `nil` if it can say all.
    let remainder: QueryPredicate?

    init(_ predicate: QueryPredicate, canSay: (QueryPredicate) throws -> Bool) throws {
        guard predicate.mayBeUntranslatable, try !canSay(predicate) else {
            (translatable, remainder) = (predicate, nil)
            return
        }
        guard case .and(let parts) = predicate else {
            (translatable, remainder) = (.constant(true), predicate)
            return
        }
        let split = try parts.map { try SplitPredicate($0, canSay: canSay) }
        translatable = .and(split.map(\.translatable).filter { $0 != .constant(true) })
        let remainders = split.compactMap(\.remainder)
        remainder = remainders.count == 1 ? remainders[0] : .and(remainders)
    }
}

extension QueryPredicate {
    /// Whether there is anything in it but plain comparisons, which SQL can always say. Most requests need no trial.
    fileprivate var mayBeUntranslatable: Bool {
        switch self {
        case .constant: false
        case .comparison(let comparison):
            comparison.left.isComputed || comparison.right.isComputed
        case .and(let parts), .or(let parts): parts.contains(where: \.mayBeUntranslatable)
        case .not(let inner): inner.mayBeUntranslatable
        }
    }
}

extension QueryExpression {
    /// Whether it is a constant or stands at a key path, which SQL can always say.
    var isPlain: Bool { !isComputed }

    fileprivate var isComputed: Bool {
        switch self {
        case .constant, .keyPath, .evaluatedObject, .variable: false
        case .collection(let elements): elements.contains(where: \.isComputed)
        case .function, .cast, .subquery, .conditional, .path: true
        }
    }
}
