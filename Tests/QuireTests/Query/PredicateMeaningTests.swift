import Foundation
import Testing

@testable import Quire

/// What Apple's documentation says of predicates, on examples: each is read, printed and tested on objects.
@Suite struct PredicateMeaningTests {
    static let meanings =
        PredicateMeaning.comparisons + PredicateMeaning.texts + PredicateMeaning.collections
        + PredicateMeaning.literals + PredicateMeaning.computations + PredicateMeaning.functions

    @Test func thereAreEnough() {
        #expect(Self.meanings.count >= 300)
        #expect(Set(Self.meanings.map { "\($0.text) \($0.printed)" }).count == Self.meanings.count)
    }

    @Test(arguments: meanings)
    func meansWhatIsDocumented(_ meaning: PredicateMeaning) throws {
        var predicate = try QueryPredicate(format: meaning.text, arguments: meaning.arguments)
        #expect(predicate.format == meaning.printed)
        #expect(try QueryPredicate(format: predicate.format) == predicate)

        if !meaning.variables.isEmpty {
            predicate = try predicate.substituting(variables: meaning.variables)
        }
        try test(meaning, predicate)
    }

    @Test(arguments: PredicateMeaning.objects)
    func meansTheObjects(_ meaning: PredicateMeaning) throws {
        let predicate = try QueryPredicate(format: meaning.text, arguments: meaning.arguments)
        try test(
            meaning,
            meaning.variables.isEmpty
                ? predicate : predicate.substituting(variables: meaning.variables))
    }

    private func test(_ meaning: PredicateMeaning, _ predicate: QueryPredicate) throws {
        let library = try QueryLibrary()
        #expect(try library.keys { try predicate.isSatisfied(by: $0) } == meaning.keys)
        let query = try ResolvedQuery(
            FetchSpecification("Work", predicate: predicate), in: QueryFixture.layout,
            store: QueryFixture.store)
        #expect(try library.keys { try query.matches($0) } == meaning.keys, "resolved")
    }
}
