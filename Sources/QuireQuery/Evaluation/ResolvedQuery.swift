package import QuireModel

/// A request checked against the model: every key is known, every comparison is between values that compare,
/// constants have the type of what they are compared with. Stores compile this, and contexts test objects with
/// it in memory, so that both mean the same.
package struct ResolvedQuery: Sendable {
    /// The model.
    package let layout: ModelLayout
    /// The entity whose objects are asked for.
    package let entity: EntityLayout
    /// The request, with condition and order in their checked form.
    package let request: FetchRequest
    /// The condition.
    package var predicate: QueryPredicate { request.predicate ?? .constant(true) }
    /// The key paths of condition and order.
    package let keyPaths: [QueryKeyPath]
    /// Whether the answer may be another each time.
    package let isRandom: Bool

    /// Checks a request.
    ///
    /// - Parameters:
    ///   - store: The store to which texts such as `Author/p3` refer; without it they are errors.
    ///   - allowsTransient: Whether transient attributes may be used, as only memory has them.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery` or `unsupported`.
    package init(
        _ request: FetchRequest, in layout: ModelLayout, store: StoreIdentity? = nil,
        allowsTransient: Bool = false
    ) throws {
        self.layout = layout
        var request = request
        entity = try layout.requireEntity(named: request.entityName)
        var resolver = PredicateResolver(
            entity: entity, layout: layout, store: store, allowsTransient: allowsTransient)
        request.predicate = try request.predicate.map { try resolver.resolve($0) }
        if request.excludesOnly(store) { request.predicate = .constant(false) }
        request.sortOrderings = try request.sortOrderings.map { try resolver.resolve($0) }
        self.request = request
        keyPaths = resolver.keyPaths
        isRandom = resolver.isRandom
    }

    /// A request that has been checked.
    init(
        resolved request: FetchRequest, of entity: EntityLayout, in layout: ModelLayout,
        keyPaths: [QueryKeyPath], isRandom: Bool
    ) {
        self.layout = layout
        self.entity = entity
        self.request = request
        self.keyPaths = keyPaths
        self.isRandom = isRandom
    }

    /// Whether an object of the entity satisfies the condition.
    package func matches(_ subject: some QuerySubject) throws -> Bool {
        if let stores = request.affectedStores {
            let bound = (subject as? any ContextBoundSubject)?.boundStoreUUID
            guard let store = bound ?? subject.objectID.storeUUID,
                stores.contains(where: { $0.uppercased() == store })
            else { return false }
        }
        return try PredicateEvaluator(subject: subject).holds(predicate)
    }
}

extension ResolvedQuery {
    /// Whether the condition or the order looks at a derived attribute.
    package var asksForDerivedValues: Bool {
        keyPaths.contains {
            if case .slot(let slot) = $0.end { $0.destination.slots[slot].isDerived } else { false }
        }
    }

    /// The entities of the objects, other than the one tested, whose attributes or relationships decide whether
    /// an object is found and where it stands.
    package var entitiesBeyond: [EntityLayout] {
        var found: [EntityLayout] = []
        for path in keyPaths {
            var steps = path.steps[...]
            // Which object a relationship leads to, its owner says, and of which entity that is never changes.
            if path.slot == nil { steps = steps.dropLast() }
            for step in steps where !found.contains(where: { $0 === step.destination }) {
                found.append(step.destination)
            }
            if let source = path.derivationSource(in: layout),
                !found.contains(where: { $0 === source })
            {
                found.append(source)
            }
        }
        return found
    }
}

extension FetchRequest {
    /// Whether a store is none of those to look into.
    package func excludes(_ store: StoreIdentity) -> Bool {
        guard let affectedStores else { return false }
        return !affectedStores.contains { $0.uppercased() == store.uuid }
    }

    /// Whether a store that is the only one of its coordinator is none of those to look into. Of several, only those
    /// that are to be looked into are asked.
    func excludesOnly(_ store: StoreIdentity?) -> Bool {
        guard let store, affectedStores != nil else { return false }
        return store.isAlone && excludes(store)
    }
}
