import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireQuery

/// SQL and memory give the same objects in the same order, and so does testing objects one by one.
@Suite struct AgreementTests {
    @Test(arguments: SeededRandom.seeds(20))
    func randomRequestsFindTheSameInSQLAndInMemory(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let world = try QueryWorld(&random)
        defer { try? world.store.close() }
        var queries = RandomQueries(random: random, world: world)
        var (found, tested) = (0, 0)
        for number in 0..<1000 {
            let request = queries.request()
            let place: Comment = "seed \(seed), request \(number): \(describe(request))"
            let query: ResolvedQuery
            do {
                query = try ResolvedQuery(
                    request, in: world.store.layout, store: world.store.identity)
            } catch {
                Issue.record("\(error); \(place)")
                continue
            }
            let expected = try inMemory(query, world)
            try checkEvaluation(of: query, request, world, place, bySlots: &tested)
            let rows = try world.store.rows(matching: request)
            let actual = rows.map(\.objectID)
            try #require(actual == expected, place)
            if number % 8 == 0 {
                try #require(try world.store.count(matching: request) == expected.count, place)
                let found = try world.store.objectIDs(matching: request)
                try #require(found.map(\.self) == expected, place)
            }
            found += expected.count
        }
        // Most requests would find nothing, or everything, if the generator were poor.
        #expect(found > 1000)
        #expect(tested > 1000)
    }

    /// Conditions whose constants are of any type, on key paths of any kind: each store answers them or refuses them
    /// as ``QueryPredicate/evaluate(with:)`` does.
    @Test(arguments: SeededRandom.seeds(10))
    func looseConditionsAreAnsweredOrRefusedAlike(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let world = try QueryWorld(&random)
        defer { try? world.store.close() }
        var queries = LooseQueries(random: random, world: world)
        var answered = 0
        for number in 0..<1000 {
            let predicate = queries.predicate()
            let place: Comment = "seed \(seed), condition \(number): \(predicate.format)"
            let request = FetchSpecification("Work", predicate: predicate)
            let fetched = Outcome { try world.store.rows(matching: request).map(\.objectID) }
            let works = world.subjects["Work"] ?? []
            let evaluated = Outcome {
                try works.filter { try predicate.isSatisfied(by: $0) }.map(\.objectID)
            }
            try #require(fetched == evaluated, place)
            if case .found = fetched { answered += 1 }
        }
        #expect((200...800).contains(answered), "\(answered) of 1000 conditions make sense")
    }

    /// What a condition finds, or how it is refused.
    private enum Outcome: Equatable {
        case found(Set<ManagedObjectID>)
        case refused(QuireError.Code?)

        init(_ body: () throws -> [ManagedObjectID]) {
            do { self = .found(Set(try body())) } catch {
                self = .refused((error as? QuireError)?.code)
            }
        }
    }

    /// Objects tested one by one satisfy the condition that they satisfy as candidates of the request.
    private func checkEvaluation(
        of query: ResolvedQuery, _ request: FetchSpecification, _ world: QueryWorld,
        _ place: Comment,
        bySlots tested: inout Int
    ) throws {
        guard let predicate = request.predicate else { return }
        let condition = SlotCondition(query.predicate, of: query.entity)
        for work in world.subjects["Work"] ?? []
        where query.entity.subtree.contains(work.resolvedEntity.number) {
            try #require(try predicate.isSatisfied(by: work) == query.matches(work), place)
            let holds = try condition?.holds { slot in
                try work.queryValue(forKey: work.resolvedEntity.slots[slot].name).attributeValue
            }
            if let holds, query.request.affectedStores == nil {
                try #require(try holds == query.matches(work), place)
                tested += 1
            }
        }
    }

    private func inMemory(_ query: ResolvedQuery, _ world: QueryWorld) throws -> [ManagedObjectID] {
        let works = world.subjects["Work"] ?? []
        let candidates = works.filter {
            query.request.includesSubentities
                ? query.entity.subtree.contains($0.resolvedEntity.number)
                : $0.resolvedEntity.number == query.entity.number
        }
        let matching = try candidates.filter { try query.matches($0) }
        let sorted = try query.request.sortOrderings.sorted(matching)
        let rest = sorted.dropFirst(query.request.fetchOffset)
        let limited = query.request.fetchLimit > 0 ? rest.prefix(query.request.fetchLimit) : rest
        return limited.map(\.objectID)
    }

    private func describe(_ request: FetchSpecification) -> String {
        "\(request.entityName) WHERE \(request.predicate?.format ?? "-") BY "
            + request.sortOrderings.map {
                "\($0.keyPath) \($0.ascending ? "asc" : "desc") \($0.options.rawValue)"
            }.joined(separator: ", ")
            + " LIMIT \(request.fetchLimit) OFFSET \(request.fetchOffset)"
    }
}
