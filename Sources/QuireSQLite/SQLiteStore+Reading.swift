public import QuireModel
public import QuireQuery
public import QuireStore

extension SQLiteStore {
    /// The rows that a request finds, in its order, within its limit and offset.
    public func rows(matching request: FetchRequest) throws -> RowSet {
        let query = try ResolvedQuery(request, in: layout, store: identity)
        let selection = selection(of: query.entity)
        let statement = try FetchStatement(
            query, selecting: .columns(selection.list), schema: schema, store: identity)
        let rows = try rows(
            selection, statement.sql, statement.bindings, monitor: request.watch.monitor)
        if statement.isComplete { return rows }
        return try StoredObjects(store: self).filter(
            rows, statement.remainder, query.request, sorts: statement.sortsInMemory)
    }

    /// The number of rows that a request finds.
    public func count(matching request: FetchRequest) throws -> Int {
        let query = try ResolvedQuery(request, in: layout, store: identity)
        let fetch = try FetchStatement(query, selecting: .count, schema: schema, store: identity)
        if fetch.remainder != nil { return try rows(matching: request).count }
        return try read(watchedBy: request.watch.monitor) { connection in
            try connection.withStatement(fetch.sql) { statement in
                try statement.bind(fetch.bindings)
                return try statement.step() ? Int(statement.integer(0)) : 0
            }
        }
    }

    /// The row of an object, or `nil` if there is none.
    public func row(for objectID: ManagedObjectID) throws -> ObjectSnapshot? {
        guard isMine(objectID) else { return nil }
        let entity = layout.entity(number: objectID.entityNumber)
        let found = try rows(
            selection(of: layout.entity(number: entity.rootNumber)),
            from: "FROM \(table(of: entity)) t0 WHERE t0.Z_PK = ?1", objectID.primaryKey,
            expectedRows: 1)
        // A key is given to one object of the hierarchy; if to one of another entity, this one is gone.
        guard let row = found.first, entity.subtree.contains(row.entity.number) else { return nil }
        return row
    }

    /// The rows of the objects that a relationship leads to, in its order or by primary key.
    public func relatedRows(
        of objectID: ManagedObjectID, through relationship: EntityLayout.Relationship
    ) throws -> RowSet {
        let destination = layout.destination(of: relationship)
        let selection = selection(of: destination)
        guard isMine(objectID), !relationship.description.isTransient else {
            return RowSetBuilder(layout: layout, store: identity).finish()
        }
        let entity = layout.entity(number: objectID.entityNumber)
        let key = objectID.primaryKey
        guard relationship.isToMany else {
            guard let slot = relationship.slot, let column = schema.entity(entity).columns[slot]
            else { return RowSetBuilder(layout: layout, store: identity).finish() }
            return try rows(
                selection,
                from: "FROM \(table(of: destination)) t0 WHERE t0.Z_PK = (SELECT "
                    + "\(SQLName.quoted(column.name)) FROM \(table(of: entity)) WHERE Z_PK = ?1)",
                key, expectedRows: 1)
        }
        switch schema.toMany(relationship, of: entity) {
        case .nowhere: return RowSetBuilder(layout: layout, store: identity).finish()
        case .foreignKey(let place):
            let order = place.orderColumn.map { "t0.\(SQLName.quoted($0)), " } ?? ""
            return try rows(
                selection,
                from:
                    "FROM \(table(of: destination)) t0 WHERE t0.\(SQLName.quoted(place.column)) = ?1 "
                    + "ORDER BY \(order)t0.Z_PK", key, expectedRows: 16)
        case .join(let join):
            let order = join.orderColumn.map { "j.\(SQLName.quoted($0)), " } ?? ""
            return try rows(
                selection,
                from:
                    "FROM \(SQLName.quoted(join.tableName)) j CROSS JOIN \(table(of: destination)) t0 "
                    + "WHERE j.\(SQLName.quoted(join.sourceColumn)) = ?1 "
                    + "AND t0.Z_PK = j.\(SQLName.quoted(join.targetColumn)) "
                    + "ORDER BY \(order)t0.Z_PK", key, expectedRows: 16)
        }
    }

    /// What earlier saves recorded.
    public func records() throws -> [String: String] {
        try read { connection in
            guard try connection.hasTable(SQLiteTables.records) else { return [:] }
            return try connection.withStatement(
                "SELECT Z_KEY, Z_VALUE FROM \(SQLiteTables.records)"
            ) { statement in
                var records: [String: String] = [:]
                while try statement.step() { records[statement.text(0)] = statement.text(1) }
                return records
            }
        }
    }

    // MARK: - Parts of statements

    func isMine(_ objectID: ManagedObjectID) -> Bool {
        objectID.entityNumber >= 1 && objectID.entityNumber <= layout.entities.count
            && identity.owns(objectID)
    }

    func table(of entity: EntityLayout) -> String {
        SQLName.quoted(schema.entity(entity).tableName)
    }

    private func rows(
        _ selection: SQLRowSelection, from rest: String, _ key: Int64, expectedRows: Int
    ) throws -> RowSet {
        try rows(
            selection, "SELECT \(selection.list) \(rest)", [.integer(key)],
            expectedRows: expectedRows)
    }

    private func rows(
        _ selection: SQLRowSelection, _ sql: String, _ bindings: [AttributeValue],
        expectedRows: Int = .max, monitor: FetchMonitor? = nil
    ) throws -> RowSet {
        var builder = RowSetBuilder(
            layout: layout, store: identity, externalData: externalData, expectedRows: expectedRows)
        try read(watchedBy: monitor) { connection in
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
