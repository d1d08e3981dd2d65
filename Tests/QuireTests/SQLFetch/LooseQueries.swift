import Foundation
import QuireTestSupport

@testable import Quire

/// Makes conditions on works without regard to types: any key path, any operator, any constant, in its own type or as
/// a text. Many of them make no sense.
struct LooseQueries {
    var random: SeededRandom
    let world: QueryWorld

    private static let paths = [
        "title", "subtitle", "link", "year", "pages", "rating", "price", "isRead", "added", "code",
        "digest", "scan", "size", "size.width", "size.depth", "title.length", "author.name.length",
        "year.length", "author", "author.name", "author.born", "author.mentor", "publisher",
        "author.objectID", "objectID", "tags", "tags.name", "tags.weight", "tags.@count",
        "notes.text", "sequels.year", "sequels.added", "sequels.price", "nothing", "entity.name",
        "author.entity.name", "sequels.entity.name",
    ]

    private static let operators: [QueryComparison.Operator] = [
        .equal, .equal, .equal, .notEqual, .less, .greaterOrEqual, .in, .in, .between, .contains,
        .beginsWith, .like,
    ]

    mutating func predicate() -> QueryPredicate {
        let comparison = QueryPredicate.comparison(comparison())
        switch Int.random(in: 0..<6, using: &random) {
        case 0: return .not(comparison)
        case 1: return .and([comparison, .comparison(self.comparison())])
        default: return comparison
        }
    }

    private mutating func comparison() -> QueryComparison {
        let path = pick(Self.paths)
        let comparisonOperator = pick(Self.operators)
        var right: QueryExpression
        switch comparisonOperator {
        case .in, .between:
            let count = comparisonOperator == .between ? 2 : Int.random(in: 0...3, using: &random)
            right = .collection((0..<count).map { _ in .constant(constant(for: path)) })
        default:
            right = chance(8) ? expression(pick(Self.paths)) : .constant(constant(for: path))
        }
        var comparison = QueryComparison(
            expression(path), comparisonOperator, right, modifier: modifier(for: path),
            options: chance(6) ? .caseInsensitive : [])
        if chance(10) { swap(&comparison.left, &comparison.right) }
        return comparison
    }

    private func expression(_ path: String) -> QueryExpression {
        path == "tags.@count" ? .function(.count, [.key("tags")]) : .key(path)
    }

    private mutating func modifier(for path: String) -> QueryComparison.Modifier {
        let isMany = ["tags", "notes", "sequels"].contains { path.hasPrefix($0) }
        if chance(12) { return isMany ? .direct : .any }
        return isMany ? (chance(4) ? .all : .any) : .direct
    }

    private mutating func constant(for path: String) -> AttributeValue {
        let value =
            chance(4)
            ? pick(Self.pools[pick(Array(Self.pools.keys.sorted()))] ?? []) : fitting(path)
        guard chance(2) else { return value }
        return value.text(as: .undefined).map { .string($0) } ?? value
    }

    private mutating func fitting(_ path: String) -> AttributeValue {
        switch path.split(separator: ".").last ?? "" {
        case "year", "born", "length", "@count": pick(QueryWorld.smallIntegers)
        case "pages": pick(QueryWorld.integers)
        case "rating", "width", "weight": pick(QueryWorld.doubles)
        case "price": pick(QueryWorld.decimals)
        case "isRead": pick(QueryWorld.booleans)
        case "added": pick(QueryWorld.dates)
        case "code": pick(QueryWorld.uuids)
        case "digest", "scan": pick(QueryWorld.bytes)
        case "link": pick(QueryWorld.links)
        case "author", "mentor", "publisher", "tags", "objectID":
            world.subjects[chance(2) ? "Author" : "Work"]?.randomElement(using: &random)
                .map { .objectID($0.objectID) } ?? .null
        case "entity",
            "name" where path.contains("entity"):
            pick(["Work", "Novel", "Author", "Laureate", "Tag", "novel", .null])
        default: pick(QueryWorld.texts)
        }
    }

    private static let pools: [String: [AttributeValue]] = [
        "texts": QueryWorld.texts + ["YES", "no", "5", "1.5", "soon", "AQI="],
        "integers": QueryWorld.integers, "doubles": QueryWorld.doubles,
        "decimals": QueryWorld.decimals, "booleans": QueryWorld.booleans,
        "dates": QueryWorld.dates, "uuids": QueryWorld.uuids, "links": QueryWorld.links,
        "bytes": QueryWorld.bytes,
    ]

    private mutating func chance(_ n: Int) -> Bool { Int.random(in: 0..<n, using: &random) == 0 }

    private mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &random)]
    }
}
