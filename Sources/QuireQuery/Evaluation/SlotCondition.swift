package import QuireModel

/// A condition that compares nothing but attributes of the object itself with constants: what it needs is looked up once, and
/// not for each object that is tested.
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

    /// Looks up the attributes of a checked predicate; `nil` if it asks for anything else.
    package init?(_ predicate: QueryPredicate, of entity: EntityLayout) {
        guard let root = Self.test(predicate, entity) else { return nil }
        self.root = root
    }

    private static func test(_ predicate: QueryPredicate, _ entity: EntityLayout) -> Test? {
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

    private static func tests(_ parts: [QueryPredicate], _ entity: EntityLayout) -> [Test]? {
        let tests = parts.compactMap { test($0, entity) }
        return tests.count == parts.count ? tests : nil
    }

    /// Whether an object satisfies the condition, as ``PredicateEvaluator`` would say.
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
