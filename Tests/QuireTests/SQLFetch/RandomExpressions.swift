import Foundation
import QuireTestSupport

@testable import Quire

/// Makes comparisons of what functions compute, of subqueries and of conditions, all of which make sense for works.
struct RandomExpressions {
    var random: SeededRandom

    // MARK: - Comparisons

    mutating func comparison(depth: Int) -> QueryComparison {
        switch Int.random(in: 0..<11, using: &random) {
        case 0...3: numbers(depth)
        case 4, 5: texts(depth)
        case 6: dates(depth)
        case 7, 8: anyOfSubquery(depth)
        case 9: membership(depth)
        default: untranslatable(depth)
        }
    }

    private mutating func numbers(_ depth: Int) -> QueryComparison {
        let left = number(depth)
        if chance(6) {
            let bounds = [number(depth - 1), .constant(pick(QueryWorld.smallIntegers))]
            return QueryComparison(left, .between, .collection(bounds))
        }
        return QueryComparison(
            left, pick(Self.orders), chance(2) ? number(depth) : constantNumber())
    }

    private mutating func texts(_ depth: Int) -> QueryComparison {
        let right = chance(2) ? text(depth) : .constant(pick(QueryWorld.texts))
        return QueryComparison(
            text(depth), pick(Self.orders + [.contains, .beginsWith, .endsWith, .like]), right,
            options: .init(rawValue: UInt8.random(in: 0...15, using: &random)))
    }

    private mutating func dates(_ depth: Int) -> QueryComparison {
        QueryComparison(date(depth), pick(Self.orders), date(depth))
    }

    private mutating func anyOfSubquery(_ depth: Int) -> QueryComparison {
        let (subquery, entity) = subquery(depth)
        let key = pick(Self.texts[entity] ?? ["name"])
        return QueryComparison(
            .path(subquery, key.split(separator: ".").map(String.init)), pick(Self.orders),
            .constant(pick(QueryWorld.texts)),
            modifier: chance(3) ? .all : .any)
    }

    private mutating func membership(_ depth: Int) -> QueryComparison {
        let elements = (0..<3).map { _ in chance(2) ? number(depth - 1) : constantNumber() }
        return chance(3)
            ? QueryComparison(.key("tags.weight"), .in, .collection(elements), modifier: .all)
            : QueryComparison(number(depth), .in, .collection(elements))
    }

    /// What only memory can say.
    private mutating func untranslatable(_ depth: Int) -> QueryComparison {
        let others = QueryExpression.collection(
            (0..<2).map { _ in .constant(pick(QueryWorld.texts)) })
        let sets = pick([QueryFunction.union, .intersection, .difference])
        return QueryComparison(
            .function(.count, [.function(sets, [.key("tags.name"), others])]), pick(Self.orders),
            .constant(.integer(Int64.random(in: 0...3, using: &random))))
    }

    private static let orders: [QueryComparison.Operator] = [
        .equal, .notEqual, .less, .lessOrEqual, .greater, .greaterOrEqual,
    ]

    // MARK: - Values

    mutating func number(_ depth: Int) -> QueryExpression {
        guard depth > 0 else { return chance(4) ? constantNumber() : .key(pick(Self.numbers)) }
        switch Int.random(in: 0..<12, using: &random) {
        case 0...3:
            let function = pick([
                QueryFunction.add, .subtract, .multiply, .divide, .modulus, .power, .bitwiseAnd,
                .bitwiseXor, .leftShift, .rightShift,
            ])
            return .function(function, [number(depth - 1), number(depth - 1)])
        case 4, 5:
            let function = pick([
                QueryFunction.squareRoot, .logarithm, .naturalLogarithm, .exponential, .absolute,
                .ceiling, .floor, .truncate, .onesComplement, .noIndex,
            ])
            return .function(function, [number(depth - 1)])
        case 6: return .function(.length, [text(depth - 1)])
        case 7:
            return .conditional(
                .comparison(numbers(depth - 1)), number(depth - 1), number(depth - 1))
        case 8:
            return chance(2)
                ? .cast(date(depth - 1), .number) : .cast(text(depth - 1), .number)
        case 9: return .function(.count, [subquery(depth - 1).expression])
        default: return aggregate()
        }
    }

    private mutating func aggregate() -> QueryExpression {
        let path = QueryExpression.key(pick(Self.manyNumbers))
        let function = pick([
            QueryFunction.sum, .average, .minimum, .maximum, .median, .mode, .standardDeviation,
            .count,
        ])
        return .function(function, [chance(4) ? .function(.distinct, [path]) : path])
    }

    mutating func text(_ depth: Int) -> QueryExpression {
        guard depth > 0 else { return .key(pick(["title", "subtitle", "author.name", "link"])) }
        switch Int.random(in: 0..<5, using: &random) {
        case 0, 1:
            let function = pick([
                QueryFunction.uppercase, .lowercase, .canonical, .lastPathComponent,
            ])
            return .function(function, [text(depth - 1)])
        case 2: return .conditional(.comparison(texts(depth - 1)), text(0), text(0))
        case 3: return .cast(chance(2) ? number(0) : date(0), .string)
        default:
            return .function(
                pick([.minimum, .maximum, .mode]), [.key(pick(["tags.name", "notes.by.name"]))])
        }
    }

    private mutating func date(_ depth: Int) -> QueryExpression {
        switch Int.random(in: 0..<(depth > 0 ? 6 : 2), using: &random) {
        case 0: return .key("added")
        case 1: return .constant(pick(QueryWorld.dates))
        case 2: return .function(.add, [.key("added"), number(0)])
        case 3: return .function(.subtract, [.key("added"), .key("year")])
        case 4: return .function(.maximum, [.key("sequels.added")])
        default: return .cast(.key("year"), .date)
        }
    }

    private mutating func constantNumber() -> QueryExpression {
        .constant(pick(pick([QueryWorld.smallIntegers, QueryWorld.doubles, QueryWorld.integers])))
    }

    // MARK: - Subqueries

    mutating func subquery(_ depth: Int) -> (expression: QueryExpression, entity: String) {
        let (path, entity) = pick(Self.collections)
        let condition = condition(on: "x", entity, depth)
        return (.subquery(.key(path), variable: "x", condition), entity)
    }

    private mutating func condition(
        on variable: String, _ entity: String, _ depth: Int
    ) -> QueryPredicate {
        let text = QueryComparison(
            .variable("\(variable).\(pick(Self.texts[entity] ?? ["name"]))"), pick(Self.orders),
            chance(2) ? .constant(pick(QueryWorld.texts)) : .key("title"))
        switch Int.random(in: 0..<(depth > 0 ? 5 : 2), using: &random) {
        case 0: return .comparison(text)
        case 1:
            let inner = Self.inner[entity] ?? ("works", "Work")
            return .comparison(
                QueryComparison(
                    .function(.count, [.variable("\(variable).\(inner.0)")]), pick(Self.orders),
                    .constant(.integer(Int64.random(in: 0...3, using: &random)))))
        case 2:
            return .or([.comparison(text), condition(on: variable, entity, depth - 1)])
        case 3: return .not(condition(on: variable, entity, depth - 1))
        default:
            let inner = Self.inner[entity] ?? ("works", "Work")
            let nested = QueryExpression.subquery(
                .variable("\(variable).\(inner.0)"), variable: variable + "y",
                .and([
                    condition(on: variable + "y", inner.1, depth - 1),
                    .comparison(
                        QueryComparison(.variable(variable + "y"), .notEqual, .evaluatedObject)),
                ]))
            return .comparison(
                QueryComparison(
                    .function(.count, [nested]), .greater,
                    .constant(.integer(Int64.random(in: 0...1, using: &random)))))
        }
    }

    private static let numbers = [
        "year", "pages", "rating", "price", "isRead", "author.born", "size.width",
    ]
    private static let manyNumbers = [
        "tags.weight", "prequels.pages", "sequels.tags.weight", "author.works.price",
        "author.pupils.works.isRead", "author.works.author.born",
    ]
    private static let collections = [
        ("tags", "Tag"), ("sequels", "Work"), ("author.works", "Work"), ("notes", "Note"),
        ("author.pupils", "Author"), ("sequels.tags", "Tag"),
    ]
    private static let texts = [
        "Tag": ["name"], "Work": ["title", "author.name"], "Note": ["text", "by.name"],
        "Author": ["name", "mentor.name"],
    ]
    private static let inner = [
        "Tag": ("works", "Work"), "Work": ("tags", "Tag"), "Note": ("by.works", "Work"),
        "Author": ("works", "Work"),
    ]

    private mutating func chance(_ n: Int) -> Bool { Int.random(in: 0..<n, using: &random) == 0 }

    private mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &random)]
    }
}
