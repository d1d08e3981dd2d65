package import QuireModel
internal import QuireSystem

/// A request checked against the model: keys are resolved, comparisons are type-checked, and constants have the type of the
/// other operand. Stores compile it and contexts evaluate it in memory, with the same semantics.
package struct ResolvedQuery: Sendable {
    /// The model.
    package let layout: ResolvedModel
    /// The entity of the fetched objects.
    package let entity: ResolvedEntity
    /// The request with checked condition and order.
    package let request: FetchSpecification
    /// The condition.
    package var predicate: QueryPredicate { request.predicate ?? .constant(true) }
    /// The key paths of condition and order.
    package let keyPaths: [QueryKeyPath]
    /// Whether results are nondeterministic.
    package let isRandom: Bool
    /// Whether the request names temporary identifiers: it is to be checked again after their objects were saved.
    package let namesTemporaryIDs: Bool

    /// Checks a request.
    ///
    /// - Parameters:
    ///   - store: The store to which texts such as `Author/p3` refer; without it they are errors.
    ///   - allowsTransient: Whether transient attributes may be used, which are in memory only.
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery` or `unsupported`.
    package init(
        _ request: FetchSpecification, in layout: ResolvedModel, store: StoreIdentity? = nil,
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
        namesTemporaryIDs = resolver.namesTemporaryIDs
    }

    /// Wraps a checked request.
    init(
        resolved request: FetchSpecification, of entity: ResolvedEntity, in layout: ResolvedModel,
        keyPaths: [QueryKeyPath], isRandom: Bool
    ) {
        self.layout = layout
        self.entity = entity
        self.request = request
        self.keyPaths = keyPaths
        self.isRandom = isRandom
        namesTemporaryIDs = false
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
    /// Whether the condition or the order uses a derived attribute.
    package var asksForDerivedValues: Bool {
        keyPaths.contains {
            if case .slot(let slot) = $0.end { $0.destination.slots[slot].isDerived } else { false }
        }
    }

    /// The entities of objects other than the tested one whose attributes or relationships affect the results or their
    /// order.
    package var entitiesBeyond: [ResolvedEntity] {
        var found: [ResolvedEntity] = []
        for path in keyPaths {
            var steps = path.steps[...]
            // The owner determines a relationship's destination, whose entity never changes.
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

extension FetchSpecification {
    /// Whether a store is not among the affected stores.
    package func excludes(_ store: StoreIdentity) -> Bool {
        guard let affectedStores else { return false }
        return !affectedStores.contains { $0.uppercased() == store.uuid }
    }

    /// Whether the only store of a coordinator is not among the affected stores. With several, only affected stores are
    /// queried.
    func excludesOnly(_ store: StoreIdentity?) -> Bool {
        guard let store, affectedStores != nil else { return false }
        return store.isAlone && excludes(store)
    }
}

// MARK: - The cache

/// Checked predicates and orderings, for evaluating and sorting individual objects.
enum ResolutionCache {
    private struct Key<Form: Hashable & Sendable>: Hashable, Sendable {
        let form: Form
        /// The bytes of its texts, if equality alone does not distinguish them.
        let texts: [UInt8]
        let entity: ObjectIdentifier
        let store: ObjectIdentifier?
    }

    /// The cache key. It retains neither models nor stores, and entries for other instances at the same address do not
    /// match.
    private struct Entry<Form: Sendable>: Sendable {
        let form: Form
        weak let entity: ResolvedEntity?
        weak let store: StoreIdentity?
    }

    private typealias Cache<Form: Hashable & Sendable> = BoundedCache<Key<Form>, Entry<Form>>

    private static let predicates = Cache<QueryPredicate>(maximumCount: 32)
    private static let orderings = Cache<SortOrdering>(maximumCount: 32)
    private static let expressions = Cache<QueryExpression>(maximumCount: 32)

    /// A predicate checked for an object's entity, as in a request.
    ///
    /// - Throws: ``QuireError`` with code `unknownKey`, `invalidQuery` or `unsupported`; `notFound` if the object's context
    ///   is gone.
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

    /// An expression, checked likewise.
    static func expression(
        _ expression: QueryExpression, for subject: some QuerySubject
    ) throws -> QueryExpression {
        var texts: [UInt8] = []
        expression.appendTexts(to: &texts)
        return try resolved(expression, texts, for: subject, in: expressions) {
            try $0.side($1).expression
        }
    }

    private static func resolved<Form>(
        _ form: Form, _ texts: [UInt8], for subject: some QuerySubject, in cache: Cache<Form>,
        _ resolve: (inout PredicateResolver, Form) throws -> Form
    ) throws -> Form {
        let entity = subject.resolvedEntity
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
        if !resolver.dependsOnTime && !resolver.namesTemporaryIDs {
            cache[key] = Entry(form: resolved, entity: entity, store: store)
        }
        return resolved
    }
}

// Texts equal to Swift may differ in their bytes, by which predicates compare them. ASCII texts do not.

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
    /// The store of the object's identifier, if it is permanent.
    fileprivate var ownIdentity: StoreIdentity? { objectID.isTemporaryID ? nil : objectID.store }
}

// MARK: - Conditions on one slot

/// A condition that compares only the object's own attributes with constants: slots are resolved once, not for each tested
/// object.
package struct SlotCondition {
    private indirect enum Test {
        case constant(Bool)
        case comparison(slot: Int, QueryComparison, AttributeValue)
        case and([Test])
        case or([Test])
        case not(Test)
    }

    private let root: Test
    private let evaluator = PredicateEvaluator(subject: nil)

    /// Resolves the attributes of a checked predicate; `nil` if it uses anything else.
    package init?(_ predicate: QueryPredicate, of entity: ResolvedEntity) {
        guard let root = Self.test(predicate, entity) else { return nil }
        self.root = root
    }

    private static func test(_ predicate: QueryPredicate, _ entity: ResolvedEntity) -> Test? {
        switch predicate {
        case .constant(let value): return .constant(value)
        case .comparison(let comparison):
            guard comparison.modifier == .direct,
                case .keyPath(let keys) = comparison.left, keys.count == 1,
                keys[0] != QueryKeyPath.objectKey,
                case .attribute(let slot)? = entity.properties[keys[0]],
                case .constant(let value) = comparison.right
            else { return nil }
            return .comparison(slot: slot, comparison, value)
        case .and(let parts): return tests(parts, entity).map { .and($0) }
        case .or(let parts): return tests(parts, entity).map { .or($0) }
        case .not(let inner): return test(inner, entity).map { .not($0) }
        }
    }

    private static func tests(_ parts: [QueryPredicate], _ entity: ResolvedEntity) -> [Test]? {
        let tests = parts.compactMap { test($0, entity) }
        return tests.count == parts.count ? tests : nil
    }

    /// Whether an object satisfies the condition, equivalent to ``PredicateEvaluator``.
    ///
    /// - Parameter value: The object's value in a slot.
    package func holds(_ value: (Int) throws -> AttributeValue) throws -> Bool {
        try holds(root, value)
    }

    private func holds(_ test: Test, _ value: (Int) throws -> AttributeValue) throws -> Bool {
        switch test {
        case .constant(let holds): return holds
        case .comparison(let slot, let comparison, let constant):
            return try evaluator.test(
                value(slot), comparison.operator, constant, comparison.options)
        case .and(let parts): return try parts.allSatisfy { try holds($0, value) }
        case .or(let parts): return try parts.contains { try holds($0, value) }
        case .not(let inner): return try !holds(inner, value)
        }
    }
}
