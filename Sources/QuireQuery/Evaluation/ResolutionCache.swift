internal import QuireModel
internal import QuireSystem

/// Predicates and orderings that have been checked, for testing and sorting objects one by one.
enum ResolutionCache {
    private struct Key<Form: Hashable & Sendable>: Hashable, Sendable {
        let form: Form
        /// The bytes of its texts, where these are not all that tells it from others.
        let texts: [UInt8]
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
        var texts: [UInt8] = []
        predicate.appendTexts(to: &texts)
        return try resolved(predicate, texts, for: subject, in: predicates) { try $0.resolve($1) }
    }

    /// An ordering, checked likewise.
    static func ordering(
        _ ordering: SortOrdering, for subject: some QuerySubject
    ) throws -> SortOrdering {
        var texts: [UInt8] = []
        try ordering.expression.appendTexts(to: &texts)
        return try resolved(ordering, texts, for: subject, in: orderings) { try $0.resolve($1) }
    }

    private static func resolved<Form>(
        _ form: Form, _ texts: [UInt8], for subject: some QuerySubject, in cache: Cache<Form>,
        _ resolve: (inout PredicateResolver, Form) throws -> Form
    ) throws -> Form {
        let entity = subject.entity
        let bound = subject as? any ContextBoundSubject
        let store = try bound.map { try $0.requireStoreIdentity() } ?? subject.ownIdentity
        let key = Key(
            form: form, texts: texts, entity: ObjectIdentifier(entity),
            store: store.map(ObjectIdentifier.init))
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

// Texts that Swift has for equal may be of different bytes, by which predicates compare them. Those of ASCII are not.

extension QueryPredicate {
    package func appendTexts(to bytes: inout [UInt8]) {
        switch self {
        case .constant: break
        case .comparison(let comparison):
            comparison.left.appendTexts(to: &bytes)
            comparison.right.appendTexts(to: &bytes)
        case .and(let parts), .or(let parts):
            for part in parts { part.appendTexts(to: &bytes) }
        case .not(let inner): inner.appendTexts(to: &bytes)
        }
    }
}

extension QueryExpression {
    fileprivate func appendTexts(to bytes: inout [UInt8]) {
        switch self {
        case .constant(let value):
            guard let text = value.text, !text.utf8.allSatisfy({ $0 < 0x80 }) else { return }
            bytes += text.utf8
            bytes.append(0xFF)
        case .keyPath, .evaluatedObject, .variable: break
        case .collection(let elements), .function(_, let elements):
            for element in elements { element.appendTexts(to: &bytes) }
        case .cast(let inner, _), .path(let inner, _): inner.appendTexts(to: &bytes)
        case .subquery(let collection, _, let condition):
            collection.appendTexts(to: &bytes)
            condition.appendTexts(to: &bytes)
        case .conditional(let condition, let first, let second):
            condition.appendTexts(to: &bytes)
            first.appendTexts(to: &bytes)
            second.appendTexts(to: &bytes)
        }
    }
}

extension QuerySubject {
    /// The store that the object's identifier is of, if it is in one.
    fileprivate var ownIdentity: StoreIdentity? { objectID.isTemporary ? nil : objectID.store }
}
