internal import QuireModel
internal import QuireQuery

/// One comparison in SQL: one function per family of operators.
struct FetchComparison {
    /// A side of a comparison.
    enum Operand {
        /// A constant.
        case constant(AttributeValue)
        /// The value of an attribute.
        case value(SQLFragment, ValueKind)
        /// The object tested, or one that a relationship leads to.
        case object(FetchScope.ObjectPlace)
        /// A collection that is written out.
        case list([Operand])
    }

    let left: Operand
    let comparisonOperator: QueryComparison.Operator
    let options: QueryComparison.Options
    let right: Operand
    /// The scope of the left side.
    let scope: FetchScope

    init(left: Operand, _ comparison: QueryComparison, right: Operand, scope: FetchScope) {
        self.left = left
        self.right = right
        self.scope = scope
        comparisonOperator = comparison.operator
        options = comparison.options
    }

    init(
        _ left: Operand, _ comparisonOperator: QueryComparison.Operator, _ right: Operand,
        options: QueryComparison.Options, scope: FetchScope
    ) {
        self.left = left
        self.comparisonOperator = comparisonOperator
        self.right = right
        self.options = options
        self.scope = scope
    }

    func condition() throws -> FetchCondition {
        switch comparisonOperator {
        case .equal: try equality()
        case .notEqual: try inequality()
        case .less: order("<")
        case .lessOrEqual: order("<=")
        case .greater: order(">")
        case .greaterOrEqual: order(">=")
        case .between: between()
        case .in: try membership()
        case .beginsWith, .endsWith, .contains: textPart(comparisonOperator, of: left, right)
        case .like: textFunction("QUIRE_LIKE")
        case .matches: textFunction("QUIRE_MATCHES")
        case .matchesText: wordsFunction()
        }
    }

    // MARK: - Equality

    /// Both missing, or equal.
    private func equality() throws -> FetchCondition {
        switch (left, right) {
        case (.object(let place), _), (_, .object(let place)):
            return try objectEquality(place)
        case (_, .constant(let value)) where ValueOrder.isMissing(value):
            return isMissing(left)
        case (.constant(let value), _) where ValueOrder.isMissing(value):
            return isMissing(right)
        case (.value, .value):
            return compared("IS", canBeNull: false)
        default:
            return compared("=", canBeNull: true)
        }
    }

    private func inequality() throws -> FetchCondition {
        switch (left, right) {
        case (.object, .constant(.null)):
            return isPresent(left)
        case (.object(let place), _), (_, .object(let place)):
            return try !objectEquality(place)
        case (_, .constant(let value)) where ValueOrder.isMissing(value):
            return isPresent(left)
        case (.constant(let value), _) where ValueOrder.isMissing(value):
            return isPresent(right)
        default:
            return compared("IS NOT", canBeNull: false)
        }
    }

    func isMissing(_ operand: Operand) -> FetchCondition {
        switch operand {
        case .constant(let value): ValueOrder.isMissing(value) ? .always : .never
        case .value(let column, _): FetchCondition("\(column) IS NULL")
        case .object(let place):
            place.isOptional ? FetchCondition("\(place.key) IS NULL") : .never
        case .list: .never
        }
    }

    private func isPresent(_ operand: Operand) -> FetchCondition {
        switch operand {
        case .value(let column, _): FetchCondition("\(column) IS NOT NULL")
        case .object(let place) where place.isOptional:
            FetchCondition("\(place.key) IS NOT NULL")
        default: !isMissing(operand)
        }
    }

    private func compared(_ sign: SQLFragment, canBeNull: Bool) -> FetchCondition {
        FetchCondition("\(sql(left)) \(sign) \(sql(right))", canBeNull: canBeNull)
    }

    // MARK: - Order

    /// False if one of both is missing.
    private func order(_ sign: SQLFragment) -> FetchCondition {
        if isAbsent(left) || isAbsent(right) { return .never }
        return compared(sign, canBeNull: true)
    }

    private func between() -> FetchCondition {
        guard case .list(let bounds) = right, bounds.count == 2, !bounds.contains(where: isAbsent)
        else { return .never }
        return FetchCondition(
            "\(sql(left)) BETWEEN \(sql(bounds[0])) AND \(sql(bounds[1]))", canBeNull: true)
    }

    private func isAbsent(_ operand: Operand) -> Bool {
        if case .constant(let value) = operand { return ValueOrder.isMissing(value) }
        return false
    }

    // MARK: - Operands in SQL

    /// A side in SQL, without differences that the options ignore.
    func sql(_ operand: Operand) -> SQLFragment {
        switch operand {
        case .constant(let value):
            guard let text = value.text else { return "\(bind: value)" }
            return "\(bind: .string(TextFolding.fold(text, options)))"
        case .value(let column, .text): return Self.folded(column, options)
        case .value(let column, _): return column
        case .object(let place): return place.key
        case .list: return "NULL"
        }
    }

    /// A text without differences that the options ignore.
    static func folded(_ text: SQLFragment, _ options: QueryComparison.Options) -> SQLFragment {
        options.isEmpty ? text : "QUIRE_FOLD(\(text), \(Int(options.rawValue)))"
    }
}
