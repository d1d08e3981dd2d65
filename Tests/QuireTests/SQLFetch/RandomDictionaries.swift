import Foundation
import QuireTestSupport

@testable import Quire

/// Makes requests for dictionaries of works that make sense.
struct RandomDictionaries {
    var queries: RandomQueries
    var random: SeededRandom

    private static let columns = [
        "title", "year", "pages", "price", "isRead", "added", "code", "link", "digest",
        "author", "author.name", "author.mentor", "publisher.city", "size.width", "SELF",
    ]
    private static let groups = [
        "year", "isRead", "author", "author.name", "publisher.city", "added", "link", "code",
        "price",
    ]
    /// Of which sums do not depend on the order in which SQLite meets them.
    private static let numbers = ["year", "isRead", "author.born"]
    private static let ordered = ["title", "year", "pages", "price", "added", "link", "rating"]

    mutating func request() -> FetchSpecification {
        var request = FetchSpecification(
            chance(4) ? "Novel" : "Work", predicate: chance(2) ? nil : queries.predicate(depth: 2))
        request.includesSubentities = !chance(5)
        request.returnsDistinctResults = chance(3)
        if chance(2) { group(&request) } else { plain(&request) }
        if chance(4) { request.fetchLimit = Int.random(in: 1...9, using: &random) }
        if chance(4) { request.fetchOffset = Int.random(in: 1...3, using: &random) }
        return request
    }

    private mutating func plain(_ request: inout FetchSpecification) {
        let names = Self.columns.shuffled(using: &random).prefix(chance(2) ? 1 : 4)
        request.propertiesToFetch = names.map { ExpressionDescription($0) }
        if chance(2) {
            var expressions = RandomExpressions(random: random)
            request.propertiesToFetch.append(ExpressionDescription("n", expressions.number(2)))
            random = expressions.random
        }
        if chance(2) {
            order(&request, by: names.filter { !["author", "author.mentor"].contains($0) })
        }
    }

    private mutating func group(_ request: inout FetchSpecification) {
        let groups = chance(5) ? [] : Self.groups.shuffled(using: &random).prefix(chance(2) ? 1 : 2)
        request.propertiesToGroupBy = groups.map { ExpressionDescription($0) }
        request.propertiesToFetch = request.propertiesToGroupBy
        if chance(3), !groups.isEmpty {
            request.propertiesToFetch = []
            request.propertiesToGroupBy.append(
                ExpressionDescription("half", .function(.divide, [.key("year"), .constant(2)])))
            request.propertiesToFetch = request.propertiesToGroupBy
        }
        var names = Array(groups)
        for number in 0..<Int.random(in: groups.isEmpty ? 1...3 : 0...3, using: &random) {
            names.append("a\(number)")
            request.propertiesToFetch.append(ExpressionDescription("a\(number)", aggregate()))
        }
        if chance(3), !groups.isEmpty {
            request.havingPredicate = .comparison(
                QueryComparison(
                    aggregate(), chance(2) ? .greater : .notEqual,
                    .constant(.integer(Int64.random(in: 0...3, using: &random)))))
        }
        if chance(2) { order(&request, by: names.filter { $0 != "author" }) }
    }

    private mutating func order(_ request: inout FetchSpecification, by names: [String]) {
        guard let name = names.randomElement(using: &random) else { return }
        request.sortOrderings = [SortOrdering(name, ascending: chance(2))]
    }

    private mutating func aggregate() -> QueryExpression {
        switch Int.random(in: 0..<5, using: &random) {
        case 0:
            .function(.count, [chance(2) ? .evaluatedObject : column()])
        case 1: .function(.count, [.function(.distinct, [.key(pick(Self.groups))])])
        case 2: .function(.sum, [.key(pick(Self.numbers))])
        case 3:
            .function(
                pick([.average, .median, .standardDeviation]),
                [chance(3) ? .function(.distinct, [.key("year")]) : .key(pick(Self.numbers))])
        default:
            .function(
                .subtract,
                [
                    .function(.maximum, [.key(pick(Self.numbers))]),
                    .function(.minimum, [.key(pick(Self.numbers))]),
                ])
        }
    }

    private mutating func column() -> QueryExpression {
        ExpressionDescription(pick(Self.columns)).expression
    }

    private mutating func chance(_ n: Int) -> Bool { Int.random(in: 0..<n, using: &random) == 0 }

    private mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &random)]
    }
}
