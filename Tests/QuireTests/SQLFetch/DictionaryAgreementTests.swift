import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireStore

/// SQL and memory make the same dictionaries.
@Suite struct DictionaryAgreementTests {
    @Test(arguments: 0..<4)
    func randomRequestsGiveTheSameInSQLAndInMemory(_ round: Int) throws {
        let seed = SeededRandom.baseSeed &+ UInt64(round)
        var random = SeededRandom(seed: seed)
        let world = try QueryWorld(&random)
        defer { try? world.store.close() }
        var requests = RandomDictionaries(
            queries: RandomQueries(random: random, world: world), random: random)
        var found = 0
        for number in 0..<250 {
            let request = requests.request()
            let place: Comment = "seed \(seed), request \(number): \(Self.describe(request))"
            do {
                let query = try ResolvedDictionaryQuery(
                    request, in: world.store.layout, store: world.store.identity)
                let expected = try DictionaryEvaluation(
                    query: query, subjects: subjects(of: query, world)
                ).dictionaries()
                let actual = try world.store.dictionaries(matching: request)
                try #require(actual.names == expected.names, place)
                try #require(Self.texts(actual) == Self.texts(expected), place)
                found += actual.count
            } catch let error as QuireError {
                Issue.record("\(error); \(place)")
            }
        }
        // Most requests would find nothing if the generator were poor.
        #expect(found > 500)
    }

    private func subjects(
        of query: ResolvedDictionaryQuery, _ world: QueryWorld
    ) throws -> [any QuerySubject] {
        try (world.subjects["Work"] ?? []).filter { work in
            let isOfEntity =
                query.query.request.includesSubentities
                ? query.query.entity.subtree.contains(work.resolvedEntity.number)
                : query.query.entity.number == work.resolvedEntity.number
            return try isOfEntity && query.query.matches(work)
        }.sorted { ValueOrder.compareObjects($0.objectID, $1.objectID) < 0 }
    }

    /// The values so that differences in the last digits of a computed number, and the sign of zero, do not count: SQL rounds
    /// each decimal number to the nearest floating-point number.
    private static func texts(_ dictionaries: FetchedDictionaries) -> [[String]] {
        dictionaries.map { row in
            row.values.map { value in
                switch value {
                case .double(let number):
                    return number == 0 ? "0" : String(format: "%.12g", number)
                case .decimal(let number):
                    return String(format: "decimal %.12g", Double(number.description) ?? .nan)
                default: return "\(value)"
                }
            }
        }
    }

    private static func describe(_ request: FetchSpecification) -> String {
        let columns = request.propertiesToFetch.map { "\($0.expression) AS \($0.name)" }
        return """
            SELECT \(request.returnsDistinctResults ? "DISTINCT " : "")\(columns.joined(separator: ", ")) \
            FROM \(request.entityName) WHERE \(request.predicate?.format ?? "-") \
            GROUP BY \(request.propertiesToGroupBy.map { "\($0.expression)" }.joined(separator: ", ")) \
            HAVING \(request.havingPredicate?.format ?? "-") \
            ORDER BY \(request.sortOrderings.map { "\($0.keyPath) \($0.ascending)" }.joined(separator: ", ")) \
            LIMIT \(request.fetchLimit) OFFSET \(request.fetchOffset)
            """
    }
}
