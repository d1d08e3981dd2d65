internal import QuireModel
internal import QuireQuery

/// What the indexes that are tables of their own can say.
extension FetchScope {
    // MARK: - Full text

    /// `MATCHES TEXT` of an attribute that a full-text index has; `nil` if none has it.
    func fullTextCondition(_ comparison: QueryComparison) throws -> FetchCondition? {
        guard comparison.operator == .matchesText, case .keyPath(let keys) = comparison.left,
            case .constant(let value) = comparison.right, let query = value.text
        else { return nil }
        let path = try path(keys)
        guard case .slot(let slot) = path.end, path.keys.count == path.steps.count + 1,
            let (index, column) = context.schema.fullTextIndex(
                of: path.destination, covering: slot)
        else { return nil }
        guard let search = try TextFunctions.search(query).matchExpression(in: [column]) else {
            return nil
        }
        func isFound(_ operand: FetchComparison.Operand) -> FetchCondition {
            guard case .object(let place) = operand else { return .never }
            return FetchCondition(
                """
                \(place.key) IN (SELECT rowid FROM \(name: index.name) \
                WHERE \(name: index.name) MATCH \(bind: .string(search)))
                """, canBeNull: place.isOptional)
        }
        let owner: QueryExpression =
            path.keys.count == 1 ? .evaluatedObject : .keyPath(path.keys.dropLast())
        if comparison.modifier == .direct { return isFound(try operand(owner)) }
        let collection = try collection(owner)
        let test = isFound(collection.element)
        return comparison.modifier == .all
            ? !collection.contains(!test) : collection.containsOneOfFew(test)
    }

    // MARK: - R-trees

    /// What an R-tree says of the objects that satisfy a condition, if the condition puts both bounds on each of the
    /// attributes that the R-tree is of. It finds a few more objects besides, so the condition itself is still tested.
    func boxCondition(_ predicate: QueryPredicate) throws -> FetchCondition {
        let indexes = context.schema.rtreeIndexes(of: start.entity)
        if indexes.isEmpty { return .always }
        let bounds = bounds(predicate)
        let conditions = indexes.compactMap { index -> FetchCondition? in
            var tests: [FetchCondition] = []
            for slot in index.slots {
                guard let bound = bounds[slot], let least = bound.least,
                    let greatest = bound.greatest, let columns = index.rangeColumns(of: slot)
                else { return nil }
                tests.append(
                    FetchCondition("\(name: columns.greatest) >= \(bind: .double(least))"))
                tests.append(
                    FetchCondition("\(name: columns.least) <= \(bind: .double(greatest))"))
            }
            let test = FetchCondition.all(of: tests).fragment
            return FetchCondition(
                "\(start.key) IN (SELECT Z_PK FROM \(name: index.name) WHERE \(test))")
        }
        return .all(of: conditions)
    }

    /// The range in which the values of a slot must be.
    private struct Bounds {
        var least: Double?
        var greatest: Double?

        mutating func raise(_ value: Double) { least = max(least ?? value, value) }
        mutating func lower(_ value: Double) { greatest = min(greatest ?? value, value) }
    }

    /// The ranges that a condition puts the attributes of the object itself in, by slot.
    private func bounds(_ predicate: QueryPredicate) -> [Int: Bounds] {
        var result: [Int: Bounds] = [:]
        func number(_ expression: QueryExpression) -> Double? {
            guard case .constant(let value) = expression else { return nil }
            return ValueFunctions.Number(value)?.double
        }
        func collect(_ predicate: QueryPredicate) {
            if case .and(let parts) = predicate { return parts.forEach(collect) }
            guard case .comparison(let comparison) = predicate, comparison.modifier == .direct,
                case .keyPath(let keys) = comparison.left,
                case .attribute(let slot)? = start.entity.properties[keys.joined(separator: ".")]
            else { return }
            if comparison.operator == .between, case .collection(let both) = comparison.right,
                both.count == 2
            {
                if let least = number(both[0]) { result[slot, default: Bounds()].raise(least) }
                if let greatest = number(both[1]) {
                    result[slot, default: Bounds()].lower(greatest)
                }
                return
            }
            guard let value = number(comparison.right) else { return }
            switch comparison.operator {
            case .less, .lessOrEqual: result[slot, default: Bounds()].lower(value)
            case .greater, .greaterOrEqual: result[slot, default: Bounds()].raise(value)
            case .equal:
                result[slot, default: Bounds()].raise(value)
                result[slot, default: Bounds()].lower(value)
            default: return
            }
        }
        collect(predicate)
        return result
    }
}
