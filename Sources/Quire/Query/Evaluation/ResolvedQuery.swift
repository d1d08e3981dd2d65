/// A request checked against the model: every key is known, every comparison is between values that compare,
/// constants have the type of what they are compared with. Stores compile this, and contexts test objects with
/// it in memory, so that both mean the same.
struct ResolvedQuery: Sendable {
    /// The model.
    let layout: ModelLayout
    /// The entity whose objects are asked for.
    let entity: EntityLayout
    /// The condition, without variables.
    let predicate: QueryPredicate
    /// The order.
    let sortOrderings: [SortOrdering]
    /// All key paths of predicate and order by their keys.
    let keyPaths: [[String]: QueryKeyPath]
    /// The request.
    let request: FetchRequest

    /// Checks a request.
    ///
    /// - Parameters:
    ///   - store: The store to which texts such as `Author/p3` refer; without it they are errors.
    ///   - allowsTransient: Whether transient attributes may be used, as only memory has them.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery` or `unsupported`.
    init(
        _ request: FetchRequest, in layout: ModelLayout, store: StoreIdentity? = nil,
        allowsTransient: Bool = false
    ) throws {
        self.layout = layout
        self.request = request
        entity = try layout.requireEntity(named: request.entityName)
        var resolver = PredicateResolver(
            entity: entity, layout: layout, store: store, allowsTransient: allowsTransient)
        predicate = try request.predicate.map { try resolver.resolve($0) } ?? .constant(true)
        sortOrderings = try request.sortOrderings.map { try resolver.resolve($0) }
        keyPaths = resolver.keyPaths
    }

    /// Whether an object of the entity satisfies the condition.
    func matches(_ subject: some QuerySubject) throws -> Bool {
        try PredicateEvaluator(subject: subject, keyPaths: keyPaths).holds(predicate)
    }
}
