/// Which of the changes of one state satisfy conditions, as far as that was asked for.
final class PendingMatches: Sendable {
    private struct Question: Hashable {
        let entity: Int
        let includesSubentities: Bool
        let predicate: QueryPredicate
        /// The bytes of its texts, where these are not all that tells it from others.
        let texts: [UInt8]
        let stores: [String]?
    }

    private let answers = Lock<[Question: [Int]]>([:])
    /// How many questions are remembered.
    private static var greatestCount: Int { 64 }

    /// The positions of the changes that a request is to find, found out by a closure if that was not asked before.
    func positions(for query: ResolvedQuery, _ find: () throws -> [Int]) rethrows -> [Int] {
        var texts: [UInt8] = []
        query.predicate.appendTexts(to: &texts)
        let question = Question(
            entity: query.entity.number, includesSubentities: query.request.includesSubentities,
            predicate: query.predicate, texts: texts, stores: query.request.affectedStores)
        if let known = answers.withLock({ $0[question] }) { return known }
        let found = try find()
        answers.withLock { answers in
            if answers.count >= Self.greatestCount { answers = [:] }
            answers[question] = found
        }
        return found
    }
}
