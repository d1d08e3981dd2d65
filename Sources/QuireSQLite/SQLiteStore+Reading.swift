import CSQLite
import Foundation
public import QuireModel
public import QuireQuery
public import QuireStore
internal import QuireSystem

extension SQLiteStore {
    /// The rows matching a request, in its order, within its limit and offset.
    public func rows(matching request: FetchSpecification) throws -> RowSet {
        let query = try ResolvedQuery(request, in: layout, store: identity)
        let selection = selection(of: query.entity)
        let statement = try FetchStatement(
            query, selecting: .columns(selection.list), schema: schema, store: identity)
        let rows = try rows(
            selection, statement.sql, statement.bindings, monitor: request.monitor)
        if statement.isComplete { return rows }
        return try StoredObjects(store: self).filter(
            rows, statement.remainder, query.request, sorts: statement.sortsInMemory)
    }

    /// The number of rows matching a request.
    public func count(matching request: FetchSpecification) throws -> Int {
        let query = try ResolvedQuery(request, in: layout, store: identity)
        let fetch = try FetchStatement(query, selecting: .count, schema: schema, store: identity)
        if fetch.remainder != nil { return try rows(matching: request).count }
        return try connections.read(watchedBy: request.monitor) { connection in
            Int(try connection.integer(fetch.sql, fetch.bindings) ?? 0)
        }
    }

    /// The row of an object, or `nil`.
    public func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot? {
        guard owns(objectID) else { return nil }
        let entity = layout.entity(number: objectID.entityNumber)
        let selection = selection(of: layout.entity(number: entity.rootNumber))
        let found = try rows(
            selection,
            "SELECT \(selection.list) FROM \(table(of: entity)) t0 WHERE t0.Z_PK = ?1",
            [.integer(objectID.primaryKey)], expectedRows: 1)
        // A key is unique in the hierarchy; if another entity has it, this object is deleted.
        guard let row = found.first, entity.subtree.contains(row.entity.number) else { return nil }
        return row
    }

    /// The rows of objects of exactly one entity with primary keys greater than one, in their order.
    package func rows(of entity: ResolvedEntity, after key: Int64, limit: Int) throws -> RowSet {
        let number = schema.entity(entity).storeNumber
        // An entity whose objects another store has, has no table.
        guard number > 0 else { return RowSetBuilder(layout: layout, store: identity).finish() }
        let selection = selection(of: entity)
        return try rows(
            selection,
            """
            SELECT \(selection.list) FROM \(table(of: entity)) t0 WHERE t0.Z_PK > ?1 AND t0.Z_ENT = \(number) \
            ORDER BY t0.Z_PK LIMIT \(limit)
            """, [.integer(key)], expectedRows: limit)
    }

    /// The rows of a relationship's destinations, in its order or by primary key.
    public func relatedRows(
        of objectID: ManagedObjectID, through relationship: ResolvedEntity.Relationship
    ) throws -> RowSet {
        let destination = layout.destination(of: relationship)
        let selection = selection(of: destination)
        guard owns(objectID), !relationship.description.isTransient else {
            return RowSetBuilder(layout: layout, store: identity).finish()
        }
        let entity = layout.entity(number: objectID.entityNumber)
        guard let sql = relatedRowsStatement(relationship, of: entity, selection) else {
            return RowSetBuilder(layout: layout, store: identity).finish()
        }
        return try rows(
            selection, sql, [.integer(objectID.primaryKey)],
            expectedRows: relationship.isToMany ? 16 : 1)
    }

    /// The statement for the rows of an object's destinations, by the object's key; `nil` if the store has none. Cached: objects
    /// are mostly asked one after the other.
    private func relatedRowsStatement(
        _ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity,
        _ selection: SQLRowSelection
    ) -> String? {
        let key = entity.number << 32 | relationship.index
        if let known = relatedRowsStatements.withLock({ $0[key] }) { return known }
        let target = table(of: layout.destination(of: relationship))
        let rest: String
        if let slot = relationship.slot {
            guard let column = schema.entity(entity).columns[slot] else { return nil }
            rest =
                "\(target) t0 WHERE t0.Z_PK = (SELECT \(SQLName.quoted(column.name)) "
                + "FROM \(table(of: entity)) WHERE Z_PK = ?1)"
        } else {
            switch schema.toMany(relationship, of: entity) {
            case .nowhere: return nil
            case .foreignKey(let place):
                let order = place.orderColumn.map { "t0.\(SQLName.quoted($0)), " } ?? ""
                rest =
                    "\(target) t0 WHERE t0.\(SQLName.quoted(place.column)) = ?1 "
                    + "ORDER BY \(order)t0.Z_PK"
            case .join(let join):
                let order = join.orderColumn.map { "j.\(SQLName.quoted($0)), " } ?? ""
                rest =
                    "\(SQLName.quoted(join.tableName)) j CROSS JOIN \(target) t0 "
                    + "WHERE j.\(SQLName.quoted(join.sourceColumn)) = ?1 "
                    + "AND t0.Z_PK = j.\(SQLName.quoted(join.targetColumn)) "
                    + "ORDER BY \(order)t0.Z_PK"
            }
        }
        let sql = "SELECT \(selection.list) FROM \(rest)"
        relatedRowsStatements.withLock { $0[key] = sql }
        return sql
    }

    /// The records of earlier saves.
    public func records() throws -> [String: String] {
        try read { try $0.records() }
    }

    // MARK: - Parts of statements

    func owns(_ objectID: ManagedObjectID) -> Bool {
        objectID.entityNumber >= 1 && objectID.entityNumber <= layout.entities.count
            && identity.owns(objectID)
    }

    func table(of entity: ResolvedEntity) -> String {
        SQLName.quoted(schema.entity(entity).tableName)
    }

    private func rows(
        _ selection: SQLRowSelection, _ sql: String, _ bindings: [AttributeValue],
        expectedRows: Int = .max, monitor: FetchMonitor? = nil
    ) throws -> RowSet {
        var builder = RowSetBuilder(
            layout: layout, store: identity, externalData: externalData, expectedRows: expectedRows)
        try connections.read(watchedBy: monitor) { connection in
            let reader = SQLiteRowReader(
                connection: connection, selection: selection, store: self)
            try connection.withStatement(sql) { statement in
                try statement.bind(bindings)
                guard let monitor else { return try reader.readAll(statement, into: &builder) }
                var count = 0
                try reader.readAll(statement, into: &builder) { _ in
                    count += 1
                    monitor.didRead(rows: count)
                }
            }
        }
        return builder.finish()
    }
}

// MARK: - Dictionaries

/// Dictionary requests: values of objects and of groups of them.
extension SQLiteStore: DictionarySource {
    /// The dictionaries of a request, in its order, within its limit and offset.
    public func dictionaries(matching request: FetchSpecification) throws -> FetchedDictionaries {
        let query = try ResolvedDictionaryQuery(request, in: layout, store: identity)
        var values: ContiguousArray<AttributeValue> = []
        try forEachDictionary(of: query, request) { values += $0 }
        return FetchedDictionaries(names: query.columns.map(\.name), values: values)
    }

    package func dictionaryStream(matching request: FetchSpecification) throws -> DictionaryStream {
        let query = try ResolvedDictionaryQuery(request, in: layout, store: identity)
        return DictionaryStream(names: query.columns.map(\.name)) {
            try self.forEachDictionary(of: query, request, $0)
        }
    }

    private func forEachDictionary(
        of query: ResolvedDictionaryQuery, _ request: FetchSpecification,
        _ body: (ArraySlice<AttributeValue>) throws -> Void
    ) throws {
        guard let statement = try statement(for: query, request) else {
            return try DictionaryEvaluation.forEach(query, of: self, request, body)
        }
        try connections.read(watchedBy: request.monitor) { connection in
            try connection.withStatement(statement.sql) { row in
                try row.bind(statement.bindings)
                var count = 0
                while try row.step() {
                    try body(try statement.columns.map { try value(row, $0) }[...])
                    count += 1
                    request.monitor?.didRead(rows: count)
                }
            }
        }
    }

    /// The statement for dictionaries; `nil` if they cannot be translated to SQL. If only the predicate cannot, the matching
    /// objects are fetched first.
    private func statement(
        for query: ResolvedDictionaryQuery, _ request: FetchSpecification
    ) throws -> DictionaryStatement? {
        do {
            let context = CompilationContext(query: query.query, schema: schema, store: identity)
            let split = try PredicateSplit(query.query.predicate) { try context.isTranslatable($0) }
            if split.remainder == nil {
                return try DictionaryStatement(query, schema: schema, store: identity)
            }
            // Before anything is read, check whether the rest can be translated.
            _ = try DictionaryStatement(
                query.about(split.translatable), schema: schema, store: identity)
            let found = try objectIDs(matching: request.forObjects)
            let among = QueryPredicate.comparison(
                QueryComparison(
                    .evaluatedObject, .in, .collection(found.map { .constant(.objectID($0)) })))
            return try DictionaryStatement(query.about(among), schema: schema, store: identity)
        } catch is UntranslatableExpression {
            return nil
        }
    }

    // MARK: - Values

    private func value(
        _ row: SQLiteStatement, _ column: SQLDictionaryColumn
    ) throws -> AttributeValue {
        switch (column.form, row.value(column.index)) {
        case (.object(let number), .integer(let key)):
            return try object(key, layout.entity(number: number), row, column)
        case (.externalCapable, .binary(let bytes)):
            return try bytes.withUnsafeBytes { try content(of: $0) }
        case (let form, let stored): return form.value(of: stored)
        }
    }

    private func object(
        _ key: Int64, _ entity: ResolvedEntity, _ row: SQLiteStatement,
        _ column: SQLDictionaryColumn
    ) throws -> AttributeValue {
        guard key > 0, key <= ManagedObjectID.maximumPrimaryKey else {
            throw QuireError(
                .invalidFormat,
                "The store refers to an object of “\(entity.name)” with the primary key \(key), which is out of range; "
                    + "the store is damaged.",
                entity: entity.name, file: storePath)
        }
        var number = entity.number
        if let index = column.entityIndex, !row.isNull(index),
            let found = schema.modelNumber(ofStoreNumber: row.integer(index)),
            entity.subtree.contains(found)
        {
            number = found
        }
        return .objectID(ManagedObjectID(entityNumber: number, primaryKey: key, store: identity))
    }

    /// The value of an attribute that may be external. If its file cannot be read, the value is a reference to the file, and
    /// the fetch continues.
    private func content(of bytes: UnsafeRawBufferPointer) throws -> AttributeValue {
        if bytes.first == ExternalDataTag.inline { return .binary(Data(bytes.dropFirst())) }
        guard let name = ExternalDataTag.fileName(in: bytes) else {
            throw QuireError(
                .invalidFormat,
                "A binary value that may be kept in a file has an unknown format; the store is damaged.",
                file: storePath)
        }
        return AttributeValue.external(try externalData.externalData(named: name)).loadedIfReadable
    }
}

// MARK: - Explanations

/// EXPLAIN QUERY PLAN for fetch requests.
extension SQLiteStore {
    /// A request's statement and SQLite's plan for it.
    public func explain(_ request: FetchSpecification) throws -> FetchExplanation {
        switch request.resultType {
        case .objects:
            let entity = try layout.requireEntity(named: request.entityName)
            return try explain(request, selecting: .columns(selection(of: entity).list))
        case .objectIDs: return try explain(request, selecting: .identifiers)
        case .count: return try explain(request, selecting: .count)
        case .dictionaries: return try explainDictionaries(request)
        }
    }

    private func explain(
        _ request: FetchSpecification, selecting selection: FetchStatement.Selection,
        computesInMemory: Bool = false
    ) throws -> FetchExplanation {
        let query = try ResolvedQuery(request, in: layout, store: identity)
        let statement = try FetchStatement(
            query, selecting: selection, schema: schema, store: identity)
        return FetchExplanation(
            sql: statement.sql, bindings: statement.bindings, inMemory: statement.remainder,
            sortsInMemory: statement.sortsInMemory, computesInMemory: computesInMemory,
            plan: try plan(of: statement.sql, statement.bindings))
    }

    private func explainDictionaries(_ request: FetchSpecification) throws -> FetchExplanation {
        let query = try ResolvedDictionaryQuery(request, in: layout, store: identity)
        do {
            let context = CompilationContext(query: query.query, schema: schema, store: identity)
            let split = try PredicateSplit(query.query.predicate) { try context.isTranslatable($0) }
            let statement = try DictionaryStatement(
                query.about(split.translatable), schema: schema, store: identity)
            return FetchExplanation(
                sql: statement.sql, bindings: statement.bindings, inMemory: split.remainder,
                sortsInMemory: false, computesInMemory: false,
                plan: try plan(of: statement.sql, statement.bindings))
        } catch is UntranslatableExpression {
            return try explain(
                request.forObjects, selecting: .columns(selection(of: query.query.entity).list),
                computesInMemory: true)
        }
    }

    private func plan(
        of sql: String, _ bindings: [AttributeValue]
    ) throws -> [FetchExplanation.Step] {
        // Each step with its id and its parent's.
        let steps = try read { connection in
            try connection.rows("EXPLAIN QUERY PLAN " + sql, bindings) {
                (id: $0.integer(0), parent: $0.integer(1), detail: $0.text(3))
            }
        }
        func children(of parent: Int64) -> [FetchExplanation.Step] {
            steps.filter { $0.parent == parent && $0.id != parent }.map {
                FetchExplanation.Step(detail: $0.detail, children: children(of: $0.id))
            }
        }
        return children(of: 0)
    }
}
