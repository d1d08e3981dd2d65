internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// A SELECT statement with its bound values.
struct FetchStatement: Sendable, Hashable {
    /// The result columns of a statement.
    enum Selection: Sendable {
        /// One row per object with a list of columns, qualified by the table alias `t0`.
        case columns(String)
        /// The primary key and entity number of each object.
        case identifiers
        /// One row: the number of objects.
        case count
    }

    /// The SQL text.
    let sql: String
    /// The bound values: integers, floating-point numbers, texts, blobs or null.
    let bindings: [AttributeValue]
    /// The residual predicate, which cannot be translated to SQL. If present, the statement has no limit and no offset.
    let remainder: QueryPredicate?
    /// Whether the order cannot be translated to SQL, so that rows are sorted in memory. Then there is no limit or offset,
    /// either.
    var sortsInMemory = false
    /// Whether no work remains to be done in memory.
    var isComplete: Bool { remainder == nil && !sortsInMemory }

    /// SQLite's maximum number of parameters in a statement.
    static let maximumBindingCount = 32_766
}

extension FetchStatement {
    /// Compiles a request for a store, in stages: split off the residual predicate, compile condition and order with the joins
    /// they need, assemble the parts.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` or `unsupported`.
    init(
        _ query: ResolvedQuery, selecting selection: Selection, schema: SQLSchema,
        store: StoreIdentity
    ) throws {
        let context = CompilationContext(query: query, schema: schema, store: store)
        let split = try PredicateSplit(query.predicate) { try context.isTranslatable($0) }
        let scope = SelectBuilder(entity: query.entity, in: context)
        let condition = try scope.entityTest.and(scope.boxCondition(split.translatable))
            .and(scope.condition(split.translatable))
        sortsInMemory = try !selection.isCount && !context.canSort()
        let order =
            selection.isCount
            ? nil : try scope.order(sortsInMemory ? [] : query.request.sortOrderings)
        remainder = split.remainder
        let isComplete = remainder == nil && !sortsInMemory
        let limit = isComplete ? CompilationContext.limit(of: query.request) : nil

        var text: SQLFragment = "SELECT "
        text.sql.reserveCapacity(256)
        text.append(selection.list(of: schema.entity(query.entity), isBounded: limit != nil))
        text.append(" FROM ")
        text.append(scope.tables)
        text.append(" WHERE ", condition.isAlways ? nil : condition.fragment)
        text.append(" ORDER BY ", order)
        text.append(" LIMIT ", limit)
        if limit != nil, selection.isCount { text = "SELECT count(*) FROM (\(text))" }
        try text.checkBindingCount(of: query.entity)
        sql = text.sql
        bindings = text.bindings
    }
}

extension FetchStatement.Selection {
    fileprivate var isCount: Bool { if case .count = self { true } else { false } }

    fileprivate func list(of entity: SQLEntity, isBounded: Bool) -> SQLFragment {
        switch self {
        case .columns(let list): SQLFragment(sql: list)
        // If all rows are of one entity its number is a constant: then an index can cover the query.
        case .identifiers:
            entity.entityTest(includingSubentities: false) == nil
                ? SQLFragment(sql: "t0.Z_PK, \(entity.storeNumber)") : "t0.Z_PK, t0.Z_ENT"
        // With limit or offset, the rows of a subquery are counted.
        case .count: isBounded ? "1" : "count(*)"
        }
    }
}

extension SQLFragment {
    /// Appends a clause with its keyword, if the statement has it.
    fileprivate mutating func append(_ keyword: SQLFragment, _ clause: SQLFragment?) {
        guard let clause else { return }
        append(keyword)
        append(clause)
    }

    /// Throws if the statement exceeds SQLite's parameter limit.
    func checkBindingCount(of entity: ResolvedEntity) throws {
        guard bindings.count > FetchStatement.maximumBindingCount else { return }
        throw QuireError(
            .unsupported,
            "The request has \(bindings.count) values, more than the "
                + "\(FetchStatement.maximumBindingCount) that SQLite accepts; split it.",
            entity: entity.name)
    }
}

// MARK: - Conditions

/// A condition in SQL, and whether it can be NULL.
///
/// Predicates are true or false, never unknown. SQL comparisons with NULL are NULL, which acts as false under AND and OR and
/// in WHERE, so comparisons stay plain enough for an index; NOT inverts a nullable condition with `IS NOT TRUE`.
struct FetchCondition {
    var fragment: SQLFragment
    /// Whether it can be NULL rather than false.
    var canBeNull = false
    /// The operator that determines whether it needs brackets.
    private(set) var form = Form.single

    enum Form { case always, never, single, conjunction, disjunction }

    init(_ fragment: SQLFragment, canBeNull: Bool = false) {
        self.fragment = fragment
        self.canBeNull = canBeNull
    }

    /// True for every row.
    static let always = FetchCondition("1", form: .always)
    /// False for every row.
    static let never = FetchCondition("0", form: .never)

    private init(_ fragment: SQLFragment, form: Form) {
        self.fragment = fragment
        self.form = form
    }

    /// Whether it is true for every row.
    var isAlways: Bool { form == .always }
    /// Whether it is false for every row.
    var isNever: Bool { form == .never }

    /// The condition in brackets, if needed in a larger one.
    private var bracketed: SQLFragment {
        switch form {
        case .conjunction, .disjunction: "(\(fragment))"
        case .always, .never, .single: fragment
        }
    }

    func and(_ other: FetchCondition) -> FetchCondition {
        isAlways || other.isNever ? other : .all(of: [self, other])
    }

    func or(_ other: FetchCondition) -> FetchCondition { .any(of: [self, other]) }

    static prefix func ! (condition: FetchCondition) -> FetchCondition {
        if condition.isAlways { return .never }
        if condition.isNever { return .always }
        if condition.canBeNull { return FetchCondition("(\(condition.fragment)) IS NOT TRUE") }
        return FetchCondition("NOT (\(condition.fragment))")
    }

    static func all(of parts: [FetchCondition]) -> FetchCondition {
        if parts.contains(where: \.isNever) { return .never }
        return joined(parts.filter { !$0.isAlways }, by: " AND ", as: .conjunction) ?? .always
    }

    static func any(of parts: [FetchCondition]) -> FetchCondition {
        if parts.contains(where: \.isAlways) { return .always }
        return joined(parts.filter { !$0.isNever }, by: " OR ", as: .disjunction) ?? .never
    }

    /// The maximum number of operands of one AND or OR: SQLite's expression tree is as deep as there are operands, limited to
    /// 1,000 levels.
    private static let maximumWidth = 100

    private static func joined(
        _ parts: [FetchCondition], by word: SQLFragment, as form: Form
    ) -> FetchCondition? {
        if parts.count <= 1 { return parts.first }
        if parts.count > maximumWidth {
            let size = (parts.count + maximumWidth - 1) / maximumWidth
            let groups = stride(from: 0, to: parts.count, by: size).compactMap { start in
                joined(Array(parts[start..<min(start + size, parts.count)]), by: word, as: form)
            }
            return joined(groups, by: word, as: form)
        }
        var result = FetchCondition(
            // A pair of the same form needs no brackets.
            parts.map { $0.form == form && parts.count == 2 ? $0.fragment : $0.bracketed }
                .joined(by: word),
            canBeNull: parts.contains(where: \.canBeNull))
        result.form = form
        return result
    }
}

// MARK: - Residual predicates

/// A conjunction of two parts: the translatable one, and the residual predicate, tested in memory on the objects that satisfy
/// the first.
struct PredicateSplit {
    /// The part that can be translated to SQL.
    let translatable: QueryPredicate
    /// The residual predicate; `nil` if all can be translated.
    let remainder: QueryPredicate?

    init(_ predicate: QueryPredicate, isTranslatable: (QueryPredicate) throws -> Bool) throws {
        guard predicate.mayBeUntranslatable, try !isTranslatable(predicate) else {
            (translatable, remainder) = (predicate, nil)
            return
        }
        guard case .and(let parts) = predicate else {
            (translatable, remainder) = (.constant(true), predicate)
            return
        }
        let split = try parts.map { try PredicateSplit($0, isTranslatable: isTranslatable) }
        translatable = .and(split.map(\.translatable).filter { $0 != .constant(true) })
        let remainders = split.compactMap(\.remainder)
        remainder = remainders.count == 1 ? remainders[0] : .and(remainders)
    }
}

extension QueryPredicate {
    /// Whether it has other than plain comparisons, which can always be translated. Most requests need no trial.
    fileprivate var mayBeUntranslatable: Bool {
        switch self {
        case .constant: false
        case .comparison(let comparison):
            comparison.left.isComputed || comparison.right.isComputed
        case .and(let parts), .or(let parts): parts.contains(where: \.mayBeUntranslatable)
        case .not(let inner): inner.mayBeUntranslatable
        }
    }
}

extension QueryExpression {
    /// Whether it is a constant or a key path, which can always be translated.
    var isPlain: Bool { !isComputed }

    fileprivate var isComputed: Bool {
        switch self {
        case .constant, .keyPath, .evaluatedObject, .variable: false
        case .collection(let elements): elements.contains(where: \.isComputed)
        case .function, .cast, .subquery, .conditional, .path: true
        }
    }
}

// MARK: - Dictionaries

/// A SELECT statement for a dictionary request, with its bound values.
struct DictionaryStatement: Sendable {
    /// The SQL text.
    let sql: String
    /// The bound values: integers, floating-point numbers, texts, blobs or null.
    let bindings: [AttributeValue]
    /// The result columns.
    let columns: [SQLDictionaryColumn]
}

extension DictionaryStatement {
    /// Compiles a request with a translatable predicate, in the stages of ``FetchStatement`` and a few more.
    ///
    /// - Throws: ``UntranslatableExpression`` if a column, a group, the HAVING predicate or the order has no SQL equivalent, or
    ///   ``QuireError``.
    init(_ query: ResolvedDictionaryQuery, schema: SQLSchema, store: StoreIdentity) throws {
        let entity = query.query.entity
        let context = CompilationContext(query: query.query, schema: schema, store: store)
        let scope = SelectBuilder(entity: entity, in: context)
        let predicate = query.query.predicate
        let condition = try scope.entityTest.and(scope.boxCondition(predicate))
            .and(scope.condition(predicate))
        let (list, places) = try scope.columns(query.columns)
        let groups = try scope.groups(query.groups)
        let having = try query.having.map { try scope.condition($0) } ?? .always
        let rest = query.isDistinct ? list : query.isGrouped ? groups : [scope.start.key]
        let order = try scope.order(query.orderings, then: rest)

        var text: SQLFragment = query.isDistinct ? "SELECT DISTINCT " : "SELECT "
        text.append(list.joined(by: ", "))
        text.append(" FROM ")
        text.append(scope.tables)
        text.append(" WHERE ", condition.isAlways ? nil : condition.fragment)
        text.append(" GROUP BY ", groups.isEmpty ? nil : groups.joined(by: ", "))
        text.append(" HAVING ", having.isAlways ? nil : having.fragment)
        text.append(" ORDER BY ", order)
        text.append(" LIMIT ", CompilationContext.limit(of: query.query.request))
        try text.checkBindingCount(of: entity)
        sql = text.sql
        bindings = text.bindings
        columns = places
    }
}
