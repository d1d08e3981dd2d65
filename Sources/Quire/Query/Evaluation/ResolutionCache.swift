/// Predicates and orderings that have been checked, for testing and sorting objects one by one.
enum ResolutionCache {
    private struct Key<Form: Hashable & Sendable>: Hashable, Sendable {
        let form: Form
        let entity: ObjectIdentifier
        let store: ObjectIdentifier?
    }

    /// What was checked, and for what. Neither models nor stores are kept by it, and what others at the same address
    /// were checked for does not count.
    private struct Entry<Form: Sendable>: Sendable {
        let form: Form
        weak let entity: EntityLayout?
        weak let store: StoreIdentity?
    }

    private typealias Cache<Form: Hashable & Sendable> = BoundedCache<Key<Form>, Entry<Form>>

    private static let predicates = Cache<QueryPredicate>(greatestCount: 32)
    private static let orderings = Cache<SortOrdering>(greatestCount: 32)

    /// A predicate, checked for an object's entity as a request for it would be.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, `invalidQuery` or `unsupported`; `notFound` if the object belongs
    ///   to no context any more.
    static func predicate(
        _ predicate: QueryPredicate, for subject: some QuerySubject
    ) throws -> QueryPredicate {
        try resolved(predicate, for: subject, in: predicates) { try $0.resolve($1) }
    }

    /// An ordering, checked likewise.
    static func ordering(
        _ ordering: SortOrdering, for subject: some QuerySubject
    ) throws -> SortOrdering {
        try resolved(ordering, for: subject, in: orderings) { try $0.resolve($1) }
    }

    private static func resolved<Form>(
        _ form: Form, for subject: some QuerySubject, in cache: Cache<Form>,
        _ resolve: (inout PredicateResolver, Form) throws -> Form
    ) throws -> Form {
        let entity = subject.entity
        let bound = subject as? any ContextBoundSubject
        let store = try bound.map { try $0.requireStoreIdentity() } ?? subject.ownIdentity
        let key = Key(
            form: form, entity: ObjectIdentifier(entity), store: store.map(ObjectIdentifier.init))
        if let known = cache[key], known.entity === entity, known.store === store {
            return known.form
        }
        var resolver = PredicateResolver(
            entity: entity, layout: subject.queryLayout, store: store, allowsTransient: true)
        let resolved = try resolve(&resolver, form)
        if !resolver.dependsOnTime {
            cache[key] = Entry(form: resolved, entity: entity, store: store)
        }
        return resolved
    }
}

extension QuerySubject {
    /// The store that the object's identifier is of, if it is in one.
    fileprivate var ownIdentity: StoreIdentity? { objectID.isTemporary ? nil : objectID.store }
}
