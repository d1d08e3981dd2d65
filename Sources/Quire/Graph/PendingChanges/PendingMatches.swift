/// Which of the changes of one state satisfy conditions, as far as that was asked for.
final class PendingMatches: Sendable {
    fileprivate struct Question: Hashable {
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

    /// The positions of the changes that a request is to find, if that was asked before.
    subscript(query: ResolvedQuery) -> [Int]? {
        get {
            let question = Question(query)
            return answers.withLock { $0[question] }
        }
        set {
            let question = Question(query)
            answers.withLock { answers in
                if answers.count >= Self.greatestCount { answers = [:] }
                answers[question] = newValue
            }
        }
    }
}

extension PendingMatches.Question {
    init(_ query: ResolvedQuery) {
        entity = query.entity.number
        includesSubentities = query.request.includesSubentities
        predicate = query.predicate
        var texts: [UInt8] = []
        predicate.appendTexts(to: &texts)
        self.texts = texts
        stores = query.request.affectedStores
    }
}
