import Foundation
import QuireTestSupport

@testable import Quire

/// Makes requests for works that make sense, of all operators on all kinds of values.
struct RandomQueries {
    var random: SeededRandom
    let world: QueryWorld

    /// Key paths with the pools of values to compare them with.
    private static let paths:
        [(path: String, isToMany: Bool, kind: ValueKind, pool: [AttributeValue])] = [
            ("title", false, .text, QueryWorld.texts), ("subtitle", false, .text, QueryWorld.texts),
            ("author.name", false, .text, QueryWorld.texts),
            ("link", false, .text, QueryWorld.links),
            ("author.mentor.name", false, .text, QueryWorld.texts),
            ("publisher.city", false, .text, QueryWorld.texts),
            ("year", false, .number, QueryWorld.smallIntegers),
            ("pages", false, .number, QueryWorld.integers),
            ("rating", false, .number, QueryWorld.doubles),
            ("price", false, .number, QueryWorld.decimals),
            ("isRead", false, .number, QueryWorld.booleans),
            ("author.born", false, .number, QueryWorld.smallIntegers),
            ("size.width", false, .number, QueryWorld.doubles),
            ("added", false, .date, QueryWorld.dates), ("code", false, .uuid, QueryWorld.uuids),
            ("digest", false, .bytes, QueryWorld.bytes),
            ("tags.name", true, .text, QueryWorld.texts),
            ("notes.text", true, .text, QueryWorld.texts),
            ("notes.by.name", true, .text, QueryWorld.texts),
            ("author.works.title", true, .text, QueryWorld.texts),
            ("sequels.author.name", true, .text, QueryWorld.texts),
            ("sequels.author.pupils.name", true, .text, QueryWorld.texts),
            ("tags.weight", true, .number, QueryWorld.doubles),
            ("sequels.tags.weight", true, .number, QueryWorld.doubles),
            ("prequels.pages", true, .number, QueryWorld.integers),
            ("author.pupils.works.isRead", true, .number, QueryWorld.booleans),
            ("sequels.added", true, .date, QueryWorld.dates),
            ("author.works.code", true, .uuid, QueryWorld.uuids),
        ]

    private static let objects: [(path: String, isToMany: Bool, entity: String)] = [
        ("SELF", false, "Work"), ("author", false, "Author"), ("publisher", false, "Publisher"),
        ("author.mentor", false, "Author"), ("tags", true, "Tag"), ("notes", true, "Note"),
        ("notes.by", true, "Author"), ("sequels", true, "Work"), ("author.works", true, "Work"),
        ("sequels.author", true, "Author"), ("author.works.publisher", true, "Publisher"),
        ("tags.works.sequels", true, "Work"),
    ]

    mutating func request() -> FetchSpecification {
        var request = FetchSpecification(
            chance(4) ? "Novel" : "Work", predicate: chance(10) ? nil : predicate(depth: 3))
        request.includesSubentities = !chance(5)
        for _ in 0..<Int.random(in: 0...2, using: &random) {
            let path = chance(10) ? "SELF" : pick(Self.paths.filter { !$0.isToMany }).path
            request.sortOrderings.append(
                SortOrdering(path, ascending: chance(2), options: chance(3) ? options() : []))
        }
        if chance(4) { request.fetchLimit = Int.random(in: 1...9, using: &random) }
        if chance(4) { request.fetchOffset = Int.random(in: 1...9, using: &random) }
        return request
    }

    mutating func predicate(depth: Int) -> QueryPredicate {
        switch Int.random(in: 0..<(depth > 0 ? 14 : 9), using: &random) {
        case 0...4: .comparison(comparison())
        case 7, 8: .comparison(computed())
        case 5, 6: .comparison(objectComparison())
        case 9, 10: .and((0..<2).map { _ in predicate(depth: depth - 1) })
        case 11: .or((0..<3).map { _ in predicate(depth: depth - 1) })
        case 12: .not(predicate(depth: depth - 1))
        default: chance(4) ? .constant(chance(2)) : .not(.comparison(comparison()))
        }
    }

    private mutating func computed() -> QueryComparison {
        var expressions = RandomExpressions(random: random)
        defer { random = expressions.random }
        return expressions.comparison(depth: 2)
    }

    private mutating func comparison() -> QueryComparison {
        let left = pick(Self.paths)
        let isText = left.kind == .text
        var operators: [QueryComparison.Operator] = [
            .equal, .equal, .notEqual, .less, .lessOrEqual, .greater, .greaterOrEqual, .in,
            .between,
        ]
        if isText {
            operators += [.beginsWith, .endsWith, .contains, .like, .matches, .in, .beginsWith]
        }
        let comparisonOperator = pick(operators)
        let others = Self.paths.filter { !$0.isToMany && $0.kind == left.kind }
        var right: QueryExpression
        switch comparisonOperator {
        case .between:
            right = .collection([.constant(pick(left.pool)), .constant(pick(left.pool))])
        case .in where !isText || chance(2):
            let count = chance(8) ? 200 : Int.random(in: 0...5, using: &random)
            right = .collection((0..<count).map { _ in .constant(pick(left.pool)) })
            if chance(10), !left.isToMany {
                right = .collection([.key(pick(others).path), .constant(.null)])
            }
        case .like: right = .constant(pick(Self.patterns))
        case .matches: right = .constant(pick(Self.expressions))
        default:
            right = chance(5) ? .key(pick(others).path) : .constant(pick(left.pool))
        }
        var comparison = QueryComparison(
            .key(left.path), comparisonOperator, right,
            modifier: left.isToMany ? (chance(3) ? .all : .any) : .direct,
            options: isText && chance(2) ? options() : [])
        if !left.isToMany, case .constant = right, comparisonOperator != .like,
            comparisonOperator != .matches, chance(8)
        {
            swap(&comparison.left, &comparison.right)
        }
        return comparison
    }

    private static let patterns: [AttributeValue] = [
        .null, "", "*", "a*", "*c", "*b*", "a?c", "?", "??", "a*c", "A*", "x\\*y", "a\\?b",
        "*\u{301}*", "*ß*", "\\", "s*e", "*\0*",
    ]
    private static let expressions: [AttributeValue] = [
        .null, "", ".*", "a.*", "[a-z]+", "a|abc", "\\w+", "(?i)ABC", ".", "STRASSE", "a\\?b",
        "σ.*",
    ]

    private mutating func objectComparison() -> QueryComparison {
        let left = pick(Self.objects)
        let others = Self.objects.filter {
            !$0.isToMany && ($0.entity == left.entity || chance(20))
        }
        let expression: QueryExpression = left.path == "SELF" ? .evaluatedObject : .key(left.path)
        let modifier: QueryComparison.Modifier = left.isToMany ? (chance(4) ? .all : .any) : .direct
        switch Int.random(in: 0..<6, using: &random) {
        case 0, 1:
            return QueryComparison(
                expression, chance(2) ? .equal : .notEqual, .constant(id(left.entity)),
                modifier: modifier)
        case 2:
            let count = chance(8) ? 200 : Int.random(in: 0...4, using: &random)
            return QueryComparison(
                expression, .in,
                .collection((0..<count).map { _ in .constant(id(left.entity)) }),
                modifier: modifier)
        case 3 where left.isToMany:
            return chance(2)
                ? QueryComparison(.constant(id(left.entity)), .in, expression)
                : QueryComparison(expression, .contains, .constant(id(left.entity)))
        case 4 where !others.isEmpty:
            let other = pick(others)
            return QueryComparison(
                expression, chance(2) ? .equal : .notEqual,
                other.path == "SELF" ? .evaluatedObject : .key(other.path), modifier: modifier)
        default:
            return QueryComparison(
                expression, chance(2) ? .equal : .notEqual, .constant(.null), modifier: modifier)
        }
    }

    private mutating func id(_ entity: String) -> AttributeValue {
        if chance(10) { return .null }
        if chance(15) {
            return .objectID(
                ManagedObjectID(temporaryOf: 1, serial: 1, model: world.store.identity))
        }
        let root = chance(15) ? "Tag" : entity
        return world.subjects[root]?.randomElement(using: &random).map { .objectID($0.objectID) }
            ?? .null
    }

    private mutating func options() -> QueryComparison.Options {
        .init(rawValue: UInt8.random(in: 1...3, using: &random))
    }

    private mutating func chance(_ n: Int) -> Bool { Int.random(in: 0..<n, using: &random) == 0 }

    private mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &random)]
    }
}
