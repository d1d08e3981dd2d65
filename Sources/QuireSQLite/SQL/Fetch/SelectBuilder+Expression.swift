internal import QuireModel
internal import QuireQuery
internal import QuireSystem

extension SelectBuilder {
    /// The expression stage: translates an expression to SQL.
    ///
    /// - Throws: ``UntranslatableExpression`` if it has no SQL equivalent.
    func operand(_ expression: QueryExpression) throws -> FetchComparison.Operand {
        switch expression {
        case .constant(let value): return .constant(value)
        case .collection(let elements): return .list(try elements.map { try operand($0) })
        case .evaluatedObject: return .object(root.start)
        case .keyPath(let keys):
            let path = try path(keys)
            return try root.operand(path, behind: path.steps[...], from: root.start)
        case .variable(let name): return .object(try place(ofVariable: name))
        case .path(.variable(let name), let keys):
            let place = try place(ofVariable: name)
            let path = try QueryKeyPath(keys, from: place.entity, in: context.query.layout)
            return try operand(path, behind: path.steps[...], from: place)
        case .function(let function, let arguments):
            return try operand(function, arguments, of: expression)
        case .cast(let inner, let type): return try cast(operand(inner), type, of: expression)
        case .conditional(let condition, let first, let second):
            return try conditional(condition, first, second, of: expression)
        case .path, .subquery: throw UntranslatableExpression(expression)
        }
    }

    // MARK: - Key paths

    func path(_ keys: [String]) throws -> QueryKeyPath {
        try context.query.keyPaths.first { $0.keys == keys }
            ?? QueryKeyPath(keys, from: root.start.entity, in: context.query.layout)
    }

    func place(ofVariable name: String) throws -> TableReference {
        guard let place = variables[name] else {
            throw QuireError(.invalidQuery, "No value is given for the variable $\(name).")
        }
        return place
    }

    func operand(
        _ path: QueryKeyPath, behind steps: ArraySlice<QueryKeyPath.Step>,
        from place: TableReference
    ) throws -> FetchComparison.Operand {
        var place = place
        for step in steps { place = try follow(step, from: place) }
        switch path.end {
        case .object: return .object(place)
        case .slot(let slot): return .value(try value(of: slot, at: place), path.kind)
        case .entityName: return .value(entityName(of: place), path.kind)
        }
    }

    // MARK: - Functions

    private func operand(
        _ function: QueryFunction, _ arguments: [QueryExpression], of expression: QueryExpression
    ) throws -> FetchComparison.Operand {
        if function.isAggregate { return try aggregate(function, arguments[0]) }
        let operands: [FetchComparison.Operand]
        switch function {
        case .distinct, .union, .intersection, .difference, .element, .first, .last:
            throw UntranslatableExpression(expression)
        default: operands = try arguments.map { try operand($0) }
        }
        if function == .noIndex { return operands[0].withoutIndex }
        if operands.contains(where: \.isList) { throw UntranslatableExpression(expression) }
        let kind = function.kind(of: operands.map(\.kind)) ?? .number
        let sign: SQLFragment? =
            switch function {
            case .add: "+"
            case .subtract: "-"
            case .multiply: "*"
            case .divide: "/"
            default: nil
            }
        let list = operands.map(\.computable).joined(by: ", ")
        if try operands.allSatisfy({ $0.kind == .number }) && isDecimal(expression) {
            return .value("\(SQLFragment(sql: function.decimalSQLName))(\(list))", kind)
        }
        if let sign {
            return .value("(\(operands[0].computable) \(sign) \(operands[1].computable))", kind)
        }
        return .value("\(SQLFragment(sql: function.sqlName))(\(list))", kind)
    }

    private func aggregate(
        _ function: QueryFunction, _ argument: QueryExpression
    ) throws -> FetchComparison.Operand {
        if try isMany(argument) {
            let collection = try collection(argument)
            let areSmallIntegers = try [.integer16, .integer32, .boolean].contains(
                type(of: argument))
            return .value(
                collection.aggregate(
                    function, areSmallIntegers: areSmallIntegers,
                    areDecimal: try isDecimal(argument)),
                function.kind(of: [collection.element.kind]) ?? .number)
        }
        return try groupAggregate(function, argument)
    }

    /// The aggregate over a group of objects.
    private func groupAggregate(
        _ function: QueryFunction, _ argument: QueryExpression
    ) throws -> FetchComparison.Operand {
        var argument = argument
        var distinct: SQLFragment = ""
        if case .function(.distinct, let arguments) = argument {
            argument = arguments[0]
            distinct = "DISTINCT "
        }
        let operand = try operand(argument)
        let name: SQLFragment
        switch function {
        // Every row is an object; SQLite counts rows faster than values.
        case .count where argument == .evaluatedObject && distinct.sql.isEmpty:
            return .value("count(*)", .number)
        case .count: name = "count"
        case .minimum: name = "min"
        case .maximum: name = "max"
        case _ where try function.isDecimalArithmetic && isDecimal(argument):
            name = SQLFragment(sql: function.decimalSQLName)
        case .average: name = "avg"
        case .sum where try isPlainNumber(argument):
            return .value("ifnull(sum(\(distinct)\(operand.computable)), 0)", .number)
        default: name = SQLFragment(sql: function.sqlName)
        }
        return .value(
            "\(name)(\(distinct)\(operand.plain))", function.kind(of: [operand.kind]) ?? .number)
    }

    /// Whether values are numbers whose sum is the same in the registered `sum` and in memory.
    private func isPlainNumber(_ expression: QueryExpression) throws -> Bool {
        try [.integer16, .integer32, .integer64, .boolean, .double, .float].contains(
            type(of: expression))
    }

    /// The type of the attribute at a key path.
    private func type(of expression: QueryExpression) throws -> AttributeType? {
        switch expression {
        case .keyPath(let keys): try path(keys).slot?.attribute?.type
        case .function(.distinct, let arguments): try type(of: arguments[0])
        default: nil
        }
    }

    // MARK: - Decimal numbers

    /// Whether an expression's values are decimal numbers, as they are where it is evaluated in memory.
    private func isDecimal(_ expression: QueryExpression) throws -> Bool {
        switch expression {
        case .constant(.decimal), .cast(_, .decimal): return true
        case .keyPath(let keys): return try path(keys).slot?.storage == .decimal
        case .path(let inner, let keys):
            guard let entity = try entity(of: inner) else { return false }
            return try QueryKeyPath(keys, from: entity, in: context.query.layout).slot?.storage
                == .decimal
        case .conditional(_, let first, let second):
            return try isDecimal(first) || isDecimal(second)
        case .function(let function, let arguments):
            switch function {
            case .distinct, .noIndex, .minimum, .maximum, .mode: return try isDecimal(arguments[0])
            case _ where function.isDecimalArithmetic:
                return try arguments.contains(where: isDecimal)
            default: return false
            }
        default: return false
        }
    }

    /// The entity of an expression's objects; `nil` if it has none.
    private func entity(of expression: QueryExpression) throws -> ResolvedEntity? {
        switch expression {
        case .evaluatedObject: return start.entity
        case .keyPath(let keys): return try path(keys).destination
        case .variable(let name): return try place(ofVariable: name).entity
        case .path(let inner, let keys):
            return try entity(of: inner).map {
                try QueryKeyPath(keys, from: $0, in: context.query.layout).destination
            }
        case .subquery(let inner, _, _): return try entity(of: inner)
        case .function(.distinct, let arguments), .function(.noIndex, let arguments):
            return try entity(of: arguments[0])
        default: return nil
        }
    }

    // MARK: - Casts and conditions

    private func cast(
        _ operand: FetchComparison.Operand, _ cast: QueryCast, of expression: QueryExpression
    ) throws -> FetchComparison.Operand {
        if operand.isList { throw UntranslatableExpression(expression) }
        if cast == .objectID, case .object = operand { return operand }
        let type = SQLFragment(sql: SQLName.literal(cast.rawValue))
        let isDate = operand.kind == .date ? 1 : operand.kind == .uuid ? 2 : 0
        return .value(
            "\(SQLFragment(sql: QueryCast.sqlName))(\(operand.computable), \(type), \(isDate))",
            cast.kind)
    }

    private func conditional(
        _ condition: QueryPredicate, _ first: QueryExpression, _ second: QueryExpression,
        of expression: QueryExpression
    ) throws -> FetchComparison.Operand {
        let condition = try self.condition(condition)
        let operands = [try operand(first), try operand(second)]
        let kind = operands[0].kind ?? operands[1].kind
        if kind == .object || operands.contains(where: \.isList) {
            throw UntranslatableExpression(expression)
        }
        return .value(
            """
            CASE WHEN \(condition.fragment) THEN \(operands[0].computable) \
            ELSE \(operands[1].computable) END
            """, kind ?? .number)
    }
}

extension FetchComparison.Operand {
    var isList: Bool { if case .list = self { true } else { false } }

    /// The kind of its values; `nil` for null.
    var kind: ValueKind? {
        switch self {
        case .constant(let value): ValueKind(of: value)
        case .value(_, let kind): kind
        case .object: .object
        case .list: nil
        }
    }

    /// The value in its stored form.
    var plain: SQLFragment {
        switch self {
        case .constant(let value): "\(bind: value)"
        case .value(let value, _): value
        case .object(let place): place.key
        case .list: "NULL"
        }
    }

    /// The value as function argument. Whole dates are stored as integers, but computed as floating-point numbers.
    var computable: SQLFragment {
        if case .value(let value, .date) = self { return "CAST(\(value) AS REAL)" }
        return plain
    }

    /// The value, wrapped to prevent index use.
    fileprivate var withoutIndex: FetchComparison.Operand {
        if case .value(let value, let kind) = self { return .value("+\(value)", kind) }
        return self
    }
}

extension QueryFunction {
    /// The name of the SQL function with the same result as in memory.
    var sqlName: String { "QUIRE_" + rawValue.prefix { $0 != ":" }.uppercased() }

    /// The name of the SQL function of decimal numbers.
    var decimalSQLName: String { "QUIRE_DECIMAL_" + rawValue.prefix { $0 != ":" }.uppercased() }

    /// Whether there is an SQL function for it, besides SQLite's own.
    var hasSQLFunction: Bool {
        switch self {
        case .add, .subtract, .multiply, .divide, .count, .minimum, .maximum, .distinct, .union,
            .intersection, .difference, .element, .first, .last, .noIndex, .now:
            false
        default: true
        }
    }
}

extension QueryCast {
    /// The name of the cast function: its arguments are the value, the type and 1 for a date, 2 for a UUID.
    static let sqlName = "QUIRE_CAST"
}

// MARK: - Indexes

/// Conditions answered by virtual tables: R-tree and FTS5.
extension SelectBuilder {
    // MARK: - Full text

    /// `MATCHES TEXT` by a full-text index; `nil` if none covers the attribute.
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

    /// The R-tree condition implied by a predicate, if it bounds all attributes of the R-tree on both sides. The R-tree may
    /// return false positives, so the predicate itself is still tested.
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

    /// The range of a slot's values.
    private struct Bounds {
        var least: Double?
        var greatest: Double?

        mutating func raise(_ value: Double) { least = max(least ?? value, value) }
        mutating func lower(_ value: Double) { greatest = min(greatest ?? value, value) }
    }

    /// The ranges implied by a predicate on attributes of the object itself, by slot.
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

// MARK: - Values of batch updates

/// The computed values of a batch update.
extension SelectBuilder {
    /// The value of a checked expression for the builder's start object.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if it has no SQL equivalent.
    func batchValue(_ expression: QueryExpression) throws -> SQLFragment {
        do {
            return try operand(expression).computable
        } catch is UntranslatableExpression {
            throw QuireError(
                .unsupported,
                "“\(expression)” cannot be computed by a batch update, because SQL cannot express it.",
                entity: start.entity.name)
        }
    }
}
