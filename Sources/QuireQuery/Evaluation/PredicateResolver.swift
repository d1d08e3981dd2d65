import Foundation
package import QuireModel
internal import QuireSystem

/// Checks a predicate against an entity and normalizes it to the form described by ``ResolvedQuery``.
package struct PredicateResolver {
    let entity: ResolvedEntity
    let layout: ResolvedModel
    let store: StoreIdentity?
    let allowsTransient: Bool
    /// Whether aggregates of a group are allowed, as in the columns of a request for dictionaries.
    var allowsGrouping: Bool
    /// The value of `now()`.
    let now = Date()
    /// Whether ``now`` was used, so that the resolved query is valid for this moment only.
    var dependsOnTime = false
    /// Whether temporary identifiers are named, so that the resolved query is valid until their objects are saved.
    var namesTemporaryIDs = false
    /// Whether the resolved query is nondeterministic.
    var isRandom = false
    /// The key paths found so far, all from the tested object.
    private(set) var keyPaths: [QueryKeyPath] = []
    /// The aggregates over a group's objects found so far.
    var groupAggregates: Set<QueryExpression> = []
    /// The variables of enclosing subqueries, and the key paths of their objects.
    var variables: [String: QueryKeyPath] = [:]

    package init(
        entity: ResolvedEntity, layout: ResolvedModel, store: StoreIdentity?, allowsTransient: Bool,
        allowsGrouping: Bool = false
    ) {
        self.entity = entity
        self.layout = layout
        self.store = store
        self.allowsTransient = allowsTransient
        self.allowsGrouping = allowsGrouping
    }

    // MARK: - Predicates

    mutating func resolve(_ predicate: QueryPredicate) throws -> QueryPredicate {
        switch predicate {
        case .constant: return predicate
        case .comparison(let comparison): return try resolve(comparison)
        case .and(let parts):
            return .all(of: try parts.map { try resolve($0) })
        case .or(let parts):
            return .any(of: try parts.map { try resolve($0) })
        case .not(let inner):
            let inner = try resolve(inner)
            if case .constant(let value) = inner { return .constant(!value) }
            return .not(inner)
        }
    }

    // MARK: - Comparisons

    /// An operand with resolved keys.
    indirect enum Side {
        case constant(AttributeValue)
        /// A value read or computed for each object.
        case value(QueryExpression, ExpressionType)
        case collection([Side])

        static func path(_ path: QueryKeyPath) -> Side {
            .value(
                path.keys.isEmpty ? .evaluatedObject : .keyPath(path.keys),
                ExpressionType(at: path, isMany: path.isToMany))
        }

        var type: ExpressionType? { if case .value(_, let type) = self { type } else { nil } }
        var isToMany: Bool { type?.isMany ?? false }
        /// Whether it has several values.
        var isSeveral: Bool { if case .collection = self { true } else { isToMany } }

        var expression: QueryExpression {
            switch self {
            case .constant(let value): .constant(value)
            case .value(let expression, _): expression
            case .collection(let elements): .collection(elements.map(\.expression))
            }
        }
    }

    mutating func keyPath(_ keys: [String]) throws -> QueryKeyPath {
        if let known = keyPaths.first(where: { $0.keys == keys }) { return known }
        let path = try QueryKeyPath(keys, from: entity, in: layout)
        if allowsTransient {
            keyPaths.append(path)
            return path
        }
        if case .slot(let slot) = path.end, !path.destination.slots[slot].isStored {
            throw QuireError(
                .invalidQuery,
                "“\(path.text)” of \(entity.name) is transient; a query of a store cannot use it.",
                entity: entity.name, property: path.text)
        }
        if let step = path.steps.first(where: {
            $0.source.relationships[$0.index].description.isTransient
        }) {
            throw QuireError(
                .invalidQuery,
                "“\(step.relationship.name)” of \(step.source.name) is transient; a query of a "
                    + "store cannot use it.",
                entity: step.source.name, property: step.relationship.name)
        }
        keyPaths.append(path)
        return path
    }

    private mutating func resolve(_ comparison: QueryComparison) throws -> QueryPredicate {
        if let rewritten = try rewriteComposite(comparison) { return rewritten }
        var comparison = comparison
        var left = try side(comparison.left)
        var right = try side(comparison.right)
        if comparison.modifier == .direct {
            rewriteMembership(&comparison, &left, &right)
            flip(&comparison, &left, &right)
        }
        if let rewritten = try rewriteCollection(comparison, left, right) { return rewritten }
        try checkShape(comparison, left, right)
        (left, right) = try typed(comparison, left, right)
        comparison.left = left.expression
        comparison.right = right.expression
        sortConstants(of: &comparison)
        return try simplify(comparison)
    }

    /// Sorts the values that `IN` looks among, if all are constants of one kind: each object is then compared with few of them.
    /// Texts that are compared with options are sorted in the order of their folded forms.
    private func sortConstants(of comparison: inout QueryComparison) {
        guard comparison.operator == .in, case .collection(let elements) = comparison.right,
            elements.count > 4
        else { return }
        let options = comparison.options
        var constants: [(value: AttributeValue, key: AttributeValue)] = []
        for element in elements {
            guard case .constant(let value) = element else { return }
            var key = value
            if !options.isEmpty {
                guard let text = value.text else { return }
                key = .string(TextFolding.fold(text, options))
            }
            guard ValueOrder.compare(constants.first?.key ?? key, key) != nil else { return }
            constants.append((value, key))
        }
        constants.sort { (ValueOrder.compare($0.key, $1.key) ?? 0) < 0 }
        comparison.right = .collection(constants.map { .constant($0.value) })
        comparison.hasSortedConstants = true
    }

    /// Rewrites whether a composite attribute is missing, which it is if all its elements are.
    private mutating func rewriteComposite(_ comparison: QueryComparison) throws -> QueryPredicate?
    {
        guard comparison.operator == .equal || comparison.operator == .notEqual else { return nil }
        let composite: QueryExpression
        switch (comparison.left, comparison.right) {
        case (let expression, .constant(.null)), (.constant(.null), let expression):
            composite = expression
        default: return nil
        }
        if comparison.modifier != .direct { return try rewriteComposites(composite, comparison) }
        guard let elements = try elements(ofCompositeAt: composite) else { return nil }
        let parts = try elements.map {
            try resolve(QueryComparison($0, comparison.operator, .constant(.null)))
        }
        return comparison.operator == .equal ? .all(of: parts) : .any(of: parts)
    }

    /// Rewrites whether composite attributes of any or all objects of a to-many relationship are missing.
    private mutating func rewriteComposites(
        _ expression: QueryExpression, _ comparison: QueryComparison
    ) throws -> QueryPredicate? {
        guard case .keyPath(let keys) = expression else { return nil }
        for count in keys.indices.dropFirst() {
            let (objects, rest) = (Array(keys[..<count]), Array(keys[count...]))
            if QueryKeyPath.compositeElements(at: rest, after: objects, from: entity, in: layout)
                == nil
            {
                continue
            }
            let variable = "quireElement"
            let element = QueryComparison(
                .path(.variable(variable), rest), comparison.operator, .constant(.null))
            let isAny = comparison.modifier == .any
            let found = QueryExpression.subquery(
                .keyPath(objects), variable: variable,
                isAny ? .comparison(element) : .not(.comparison(element)))
            return try resolve(
                QueryComparison(
                    .function(.count, [found]), isAny ? .greater : .equal, .constant(.integer(0))))
        }
        return nil
    }

    /// The elements of a composite attribute of one object; `nil` if the expression is something else.
    private mutating func elements(
        ofCompositeAt expression: QueryExpression
    ) throws -> [QueryExpression]? {
        func elements(
            after origin: [String], _ keys: [String], _ element: ([String]) -> QueryExpression
        ) -> [QueryExpression]? {
            QueryKeyPath.compositeElements(at: keys, after: origin, from: entity, in: layout)?
                .map(element)
        }
        switch expression {
        case .keyPath(let keys):
            return elements(after: [], keys) { .keyPath($0) }
        case .variable(let name):
            let keys = name.split(separator: ".").map(String.init)
            guard let origin = keys.first.flatMap({ variables[$0] }) else { return nil }
            return elements(after: origin.keys, Array(keys.dropFirst())) {
                .variable(([keys[0]] + $0).joined(separator: "."))
            }
        case .path(let inner, let keys):
            guard let type = try side(inner).type, !type.isMany, let origin = type.origin else {
                return nil
            }
            return elements(after: origin.keys, keys) { .path(inner, $0) }
        default: return nil
        }
    }

    /// Rewrites IN and CONTAINS on the objects of a to-many relationship to ANY, and CONTAINS on a collection to IN.
    private func rewriteMembership(
        _ comparison: inout QueryComparison, _ left: inout Side, _ right: inout Side
    ) {
        if comparison.operator == .contains, case .collection = left, !right.isSeveral {
            swap(&left, &right)
            comparison.operator = .in
            return
        }
        if comparison.operator == .in, right.isToMany, !left.isToMany {
            swap(&left, &right)
        } else if comparison.operator == .contains, left.isToMany, !right.isToMany,
            left.type?.kind == .object
        {
            // The operands are already in order.
        } else {
            return
        }
        comparison.operator = .equal
        comparison.modifier = .any
    }

    /// Moves the key path to the left of a constant.
    private func flip(
        _ comparison: inout QueryComparison, _ left: inout Side, _ right: inout Side
    ) {
        guard case .constant = left, case .value = right, let flipped = comparison.operator.flipped
        else { return }
        comparison.operator = flipped
        swap(&left, &right)
    }

    private func checkShape(_ comparison: QueryComparison, _ left: Side, _ right: Side) throws {
        if case .collection = left {
            throw invalid(comparison, "a collection is allowed only on the right of IN and BETWEEN")
        }
        if comparison.modifier == .direct, left.isToMany {
            throw PredicateEvaluator.needsModifier(left.expression)
        }
        if comparison.modifier != .direct, !left.isToMany {
            throw invalid(
                comparison,
                "“\(left.expression)” has at most one value; ANY, ALL and NONE need a key path "
                    + "through a to-many relationship")
        }
        if right.isToMany { throw severalOnTheRight(right, comparison) }
        switch (comparison.operator, right) {
        case (.in, _): return
        case (.between, .collection(let bounds)) where bounds.count == 2: return
        case (.between, _):
            throw invalid(comparison, "BETWEEN needs two bounds, as in BETWEEN {1, 5}")
        case (_, .collection):
            throw invalid(comparison, "a collection is allowed only on the right of IN and BETWEEN")
        default: return
        }
    }

    /// Rewrites ANY and ALL of a literal collection, and IN and BETWEEN with key paths among the elements, to simpler
    /// comparisons.
    private mutating func rewriteCollection(
        _ comparison: QueryComparison, _ left: Side, _ right: Side
    ) throws -> QueryPredicate? {
        if case .collection(let elements) = left, comparison.modifier != .direct {
            let parts = try elements.map {
                try resolve(
                    QueryComparison(
                        $0.expression, comparison.operator, right.expression,
                        options: comparison.options))
            }
            return comparison.modifier == .any ? .any(of: parts) : .all(of: parts)
        }
        if comparison.operator == .between, comparison.modifier == .direct, !left.isSeveral,
            case .collection(let bounds) = right, bounds.count == 2, !right.expression.isConstant
        {
            let orders: [QueryComparison.Operator] = [.greaterOrEqual, .lessOrEqual]
            return .all(
                of: try zip(orders, bounds).map { order, bound in
                    try resolve(
                        QueryComparison(
                            left.expression, order, bound.expression, options: comparison.options))
                })
        }
        guard comparison.operator == .in, case .collection(let elements) = right,
            comparison.modifier != .all, elements.contains(where: { !$0.expression.isConstant })
        else { return nil }
        return .any(
            of: try elements.map { element in
                try resolve(
                    QueryComparison(
                        left.expression, .equal, element.expression, modifier: comparison.modifier,
                        options: comparison.options))
            })
    }

    private func simplify(_ comparison: QueryComparison) throws -> QueryPredicate {
        var comparison = comparison
        if case .constant(.string(let pattern)) = comparison.right {
            if comparison.operator == .like,
                let simpler = TextPattern(pattern, comparison.options).simpler
            {
                comparison.operator = simpler.operator
                comparison.right = .constant(.string(simpler.text))
            }
            if comparison.operator == .matches {
                try TextFunctions.check(pattern, comparison.options)
            }
            if comparison.operator == .matchesText { _ = try TextFunctions.search(pattern) }
        }
        guard comparison.left.isConstant, comparison.right.isConstant else {
            return .comparison(comparison)
        }
        return .constant(try PredicateEvaluator(subject: nil).holds(.comparison(comparison)))
    }

    func severalOnTheRight(_ side: Side, _ comparison: QueryComparison) -> QuireError {
        invalid(
            comparison,
            "“\(side.expression)” can have several values and is on the right; write it on the left, with "
                + "ANY or ALL before it")
    }

    func invalid(_ comparison: QueryComparison, _ problem: String) -> QuireError {
        QuireError(
            .invalidQuery,
            "“\(QueryPredicate.comparison(comparison))” is not valid: \(problem).",
            entity: entity.name)
    }
}

extension QueryComparison.Operator {
    /// The equivalent operator with the operands swapped.
    var flipped: QueryComparison.Operator? {
        switch self {
        case .equal, .notEqual: self
        case .less: .greater
        case .lessOrEqual: .greaterOrEqual
        case .greater: .less
        case .greaterOrEqual: .lessOrEqual
        default: nil
        }
    }
}

extension QueryExpression {
    /// Whether it is a constant or a literal collection of constants.
    package var isConstant: Bool {
        switch self {
        case .constant: true
        case .collection(let elements): elements.allSatisfy(\.isConstant)
        default: false
        }
    }
}

extension QueryPredicate {
    /// The conjunction of conditions, without those that are always true.
    fileprivate static func all(of parts: [QueryPredicate]) -> QueryPredicate {
        if parts.contains(.constant(false)) { return .constant(false) }
        let parts = parts.filter { $0 != .constant(true) }
        return parts.isEmpty ? .constant(true) : parts.count == 1 ? parts[0] : .and(parts)
    }

    /// The disjunction of conditions, without those that are always false.
    fileprivate static func any(of parts: [QueryPredicate]) -> QueryPredicate {
        if parts.contains(.constant(true)) { return .constant(true) }
        let parts = parts.filter { $0 != .constant(false) }
        return parts.isEmpty ? .constant(false) : parts.count == 1 ? parts[0] : .or(parts)
    }
}
