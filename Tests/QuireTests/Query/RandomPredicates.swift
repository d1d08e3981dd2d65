import Foundation
import Quire
import QuireTestSupport

/// Makes predicates and expressions of every shape, whether they make sense for an entity or not.
struct RandomPredicates {
    var generator: SeededRandom

    mutating func predicate(depth: Int = 4) -> QueryPredicate {
        switch Int.random(in: 0..<(depth > 0 ? 10 : 5), using: &generator) {
        case 0: .constant(Bool.random(using: &generator))
        case 1...4: .comparison(comparison())
        case 5, 6: .and(parts(depth))
        case 7, 8: .or(parts(depth))
        default: .not(predicate(depth: depth - 1))
        }
    }

    private mutating func parts(_ depth: Int) -> [QueryPredicate] {
        let count = Int.random(in: 2...4, using: &generator)
        return (0..<count).map { _ in predicate(depth: depth - 1) }
    }

    private mutating func comparison() -> QueryComparison {
        let comparisonOperator = pick(QueryComparison.Operator.allCases)
        let right: QueryExpression
        switch comparisonOperator {
        case .between: right = .collection([expression(), expression()])
        case .in: right = .collection(expressions(0...3, 2))
        default: right = expression()
        }
        return QueryComparison(
            expression(), comparisonOperator, right,
            modifier: pick([.direct, .direct, .any, .all]),
            options: .init(rawValue: UInt8.random(in: 0...15, using: &generator)))
    }

    mutating func expression(depth: Int = 3) -> QueryExpression {
        switch Int.random(in: 0..<(depth > 0 ? 22 : 10), using: &generator) {
        case 0...4: return .constant(constant())
        case 5...7: return .keyPath(keys())
        case 8: return .evaluatedObject
        case 9: return .variable(keys().map { $0.lowercased() }.joined(separator: "."))
        case 10: return .collection(expressions(0...3, depth))
        case 11:
            let inner = expression(depth: depth - 1)
            // The cast of a constant is read as a constant.
            if case .constant = inner { return inner }
            return .cast(inner, pick(QueryCast.allCases))
        case 12:
            return .subquery(
                expression(depth: depth - 1), variable: key().lowercased(),
                predicate(depth: min(depth - 1, 1)))
        case 13:
            return .conditional(
                predicate(depth: min(depth - 1, 1)), expression(depth: depth - 1),
                expression(depth: depth - 1))
        case 14, 15: return .path(expression(depth: depth - 1), keys())
        default:
            let function = pick(QueryFunction.allCases)
            let count = function.argumentCount
            return .function(function, expressions(count...count, depth))
        }
    }

    private mutating func expressions(_ counts: ClosedRange<Int>, _ depth: Int) -> [QueryExpression]
    {
        (0..<Int.random(in: counts, using: &generator)).map { _ in expression(depth: depth - 1) }
    }

    private mutating func keys() -> [String] {
        (0..<Int.random(in: 1...3, using: &generator)).map { _ in key() }
    }

    private mutating func key() -> String {
        pick([
            "title", "in", "SELF", "ANY", "größe", "_a1", "cast", "Null", "yes", "x", "text",
            "first", "SIZE", "union", "minus", "ternary", "count",
        ])
    }

    private mutating func constant() -> AttributeValue {
        switch Int.random(in: 0..<10, using: &generator) {
        case 0: .null
        case 1: .integer(Int64.random(in: Int64.min...Int64.max, using: &generator))
        case 2:
            .double(Double(bitPattern: UInt64.random(in: 0...UInt64.max, using: &generator)).finite)
        case 3: .boolean(Bool.random(using: &generator))
        case 4: .string(text())
        case 5:
            .date(
                Date(
                    timeIntervalSinceReferenceDate: Double.random(
                        in: -1e10...1e10, using: &generator)))
        case 6: .binary(Data(text().utf8))
        case 7: .uuid(UUID(uuid: uuid()))
        case 8:
            .decimal(
                Decimal(Int64.random(in: -1_000_000_000...1_000_000_000, using: &generator)) / 1000)
        default:
            .uri(URL(string: "https://example.org/\(Int.random(in: 0...9, using: &generator))")!)
        }
    }

    private mutating func uuid() -> uuid_t {
        var bytes = (
            UInt64.random(in: 0...UInt64.max, using: &generator),
            UInt64.random(in: 0...UInt64.max, using: &generator)
        )
        return withUnsafeBytes(of: &bytes) { $0.load(as: uuid_t.self) }
    }

    private mutating func text() -> String {
        let scalars: [Unicode.Scalar] = [
            "a", "B", "é", "\"", "'", "\\", "\n", "\t", "\0", "%", "@", "*", "?", "😀", "\u{301}",
            "\u{200D}", "\u{600}", " ", "\r",
        ]
        var view = String.UnicodeScalarView()
        for _ in 0..<Int.random(in: 0...6, using: &generator) { view.append(pick(scalars)) }
        return String(view)
    }

    private mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &generator)]
    }
}

extension Double {
    fileprivate var finite: Double { isNaN ? 0 : self }
}
