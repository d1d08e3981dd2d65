import QuireTestSupport
import Testing

@Suite struct NeedsTraitTests {
    @Test func aTestIsSkippedWithItsReasonWhereSomethingIsMissing() async throws {
        let missing: ConditionTrait = .needs(false, or: "there is no moon")
        #expect(try await missing.evaluate() == false)
        #expect(missing.comments.map(\.rawValue) == ["SKIPPED: there is no moon"])
        let present: ConditionTrait = .needs(true, or: "there is no sun")
        #expect(try await present.evaluate())
    }

    @Test func theCorpusIsNeededWhereThereIsNone() async throws {
        let trait: ConditionTrait = .corpus
        #expect(try await trait.evaluate() == (Corpus.folder != nil))
        #expect(trait.comments.first?.rawValue.hasPrefix("SKIPPED: ") == true)
    }
}
