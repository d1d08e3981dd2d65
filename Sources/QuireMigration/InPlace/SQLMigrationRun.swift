import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSQLite

/// Executes a migration in SQL, within the caller's transaction.
///
/// New tables are created under temporary names and filled from the unchanged old ones; then old tables are dropped or
/// altered, and the new ones renamed.
struct SQLMigrationRun {
    let work: SQLMigration.Work
    let migration: SQLMigration
    let connection: SQLiteConnection
    let manager: MigrationManager

    func run(
        _ completion: SQLiteSchemaCompletion,
        checkpoint: (SQLiteMigration.Checkpoint) throws -> Void
    ) throws {
        let monitor = FetchMonitor { _ in }
        manager.progress.cancellationHandler = { monitor.cancel() }
        defer { manager.progress.cancellationHandler = nil }
        if manager.progress.isCancelled { monitor.cancel() }
        manager.progress.totalUnitCount = Int64(work.tables.count + work.joins.count)
        do {
            try connection.watched(by: monitor) {
                try checkAbstract()
                let tables = try work.tables.map(withoutImpossibleAlteration)
                let check = try transferCheck(tables)
                try completion.removeParts { name in
                    // Tables that stay in place keep their indexes.
                    !tables.contains {
                        $0.alteration.map { $0.oldTable == name && !$0.isRenumbered } ?? false
                    } && !work.joins.contains { $0.kept == name }
                }
                try fill(tables, checkpoint: checkpoint)
                try replace(tables)
                try checkRequired()
                try check?.requireAll(
                    in: SQLContentCounter(connection: connection, schema: migration.new),
                    path: nil)
            }
        } catch let failure as SQLiteFailure where manager.progress.isCancelled {
            _ = failure
            try manager.advance(0)
        }
    }

    // MARK: - Checks

    /// Objects of abstract entities cannot be.
    private func checkAbstract() throws {
        for transfer in migration.plan.transfers
        where transfer.destination.isAbstract && !transfer.source.isAbstract {
            let place = migration.old.entity(transfer.source)
            let count = try connection.integer(
                "SELECT count(*) FROM \(SQLName.quoted(place.tableName)) WHERE Z_ENT = ?",
                Int64(place.storeNumber))
            if let count, count > 0 { throw transfer.abstractError(count: Int(count)) }
        }
    }

    /// Counts the rows of tables that are filled anew; other tables lose nothing.
    private func transferCheck(_ tables: [SQLMigration.TableWork]) throws -> TransferCheck? {
        let filled = Set(
            tables.filter { $0.alteration == nil }.map(\.table.name)
                + work.joins.filter { $0.kept == nil }.map(\.table.name))
        if manager.allowsRemoval || filled.isEmpty { return nil }
        return try TransferCheck(
            migration.plan,
            from: SQLContentCounter(connection: connection, schema: migration.old)
        ) { entity in
            let place = migration.new.entity(entity)
            return filled.contains(place.tableName)
                || place.toMany.contains { $0.map { filled.contains($0.tableName) } ?? false }
        }
    }

    /// Falls back to filling if the old table's declaration has a constraint, which ALTER TABLE cannot drop.
    private func withoutImpossibleAlteration(
        _ table: SQLMigration.TableWork
    ) throws -> SQLMigration.TableWork {
        guard let alteration = table.alteration else { return table }
        let hasConstraint =
            try connection.integer(
                "SELECT 1 FROM pragma_index_list(?) WHERE origin = 'u'", alteration.oldTable) != nil
        var table = table
        if hasConstraint { table.alteration = nil }
        return table
    }

    /// Checks required references that could be NULL before.
    private func checkRequired() throws {
        for transfer in migration.plan.transfers where !transfer.source.isAbstract {
            let place = migration.new.entity(transfer.destination)
            for (slot, value) in transfer.values.enumerated() {
                guard case .reference(_, required: true) = value,
                    let column = place.columns[slot]
                else { continue }
                let key = try connection.integer(
                    "SELECT Z_PK FROM \(SQLName.quoted(place.tableName)) WHERE Z_ENT = ? AND "
                        + "\(SQLName.quoted(column.name)) IS NULL LIMIT 1", Int64(place.storeNumber)
                )
                guard let key else { continue }
                let offset = migration.plan.keyOffsets[transfer.keyGroup]
                throw transfer.missingError(
                    slot, object: "\(transfer.source.name)/p\(key - offset)", uri: nil)
            }
        }
    }

    // MARK: - Filling

    private func fill(
        _ tables: [SQLMigration.TableWork],
        checkpoint: (SQLiteMigration.Checkpoint) throws -> Void
    ) throws {
        let statements = SQLSchemaStatements(schema: migration.new)
        for (index, table) in tables.enumerated() where table.alteration == nil {
            try make(statements.tables[index], table.table.name, Self.temporaryTable(index))
        }
        for (index, join) in work.joins.enumerated() where join.kept == nil {
            try make(statements.joinTables[index], join.table.name, Self.temporaryJoin(index))
        }
        try checkpoint(.tablesMade)
        for (index, table) in tables.enumerated() {
            if table.alteration == nil {
                for filling in table.fillings {
                    try fill(Self.temporaryTable(index), table.table, filling)
                }
            }
            try manager.advance(1)
        }
        for (index, join) in work.joins.enumerated() {
            if join.kept == nil, let filling = join.filling {
                try run(
                    "INSERT OR IGNORE INTO \(name: Self.temporaryJoin(index)) \(filling)")
            }
            try manager.advance(1)
        }
    }

    private static func temporaryTable(_ index: Int) -> String { "QUIRE_NEW_\(index)" }
    private static func temporaryJoin(_ index: Int) -> String { "QUIRE_NEW_JOIN_\(index)" }

    /// Makes a table under a temporary name.
    private func make(_ sql: String, _ name: String, _ temporary: String) throws {
        let head = "CREATE TABLE \(SQLName.quoted(name)) "
        precondition(sql.hasPrefix(head), "Expected a CREATE TABLE statement: \(head)")
        try connection.execute("CREATE TABLE \(temporary) " + sql.dropFirst(head.count))
    }

    private func fill(
        _ name: String, _ table: SQLTable, _ filling: SQLMigration.Filling
    ) throws {
        let columns = table.columns.dropFirst(SQLSchema.fixedColumns.count).map(\.name)
            .filter { column in filling.values.contains { $0[column] != nil } }
        let names = ([SQLName.primaryKey, SQLName.entity, SQLName.version] + columns)
            .map { "\(name: $0)" as SQLFragment }.joined(by: ", ")
        let key: SQLFragment = filling.offset == 0 ? "Z_PK" : "Z_PK + \(Int(filling.offset))"
        let values =
            [key, migration.entityNumber(filling), "max(ifnull(Z_OPT, 1), 1)"]
            + columns.map { migration.value(of: $0, filling) }
        try run(
            "INSERT INTO \(name: name) (\(names)) SELECT \(values.joined(by: ", ")) FROM \(name: filling.oldTable) WHERE Z_ENT IN (\(migration.oldNumbers(filling)))"
        )
    }

    private func run(_ fragment: SQLFragment) throws {
        try connection.run(fragment.sql, fragment.bindings)
    }

    // MARK: - Replacing

    private func replace(_ tables: [SQLMigration.TableWork]) throws {
        let kept = Set(
            tables.compactMap { $0.alteration?.oldTable } + work.joins.compactMap(\.kept))
        for name in migration.old.tables.map(\.name) + migration.old.joinTables.map(\.name)
        where !kept.contains(name) {
            try connection.execute("DROP TABLE \(SQLName.quoted(name))")
        }
        // Names may be exchanged, so all go out of the way first.
        var renamed: [(String, String)] = []
        for (index, table) in tables.enumerated() {
            guard let alteration = table.alteration else {
                renamed.append((Self.temporaryTable(index), table.table.name))
                continue
            }
            try alter(alteration, table)
            if alteration.oldTable != table.table.name {
                let name = "QUIRE_OLD_\(index)"
                try rename(alteration.oldTable, to: name)
                renamed.append((name, table.table.name))
            }
        }
        for (index, join) in work.joins.enumerated() where join.kept == nil {
            renamed.append((Self.temporaryJoin(index), join.table.name))
        }
        for (name, newName) in renamed {
            // A leftover table of unknown origin.
            try connection.execute("DROP TABLE IF EXISTS \(SQLName.quoted(newName))")
            try rename(name, to: newName)
        }
    }

    private func rename(_ name: String, to newName: String) throws {
        try connection.execute(
            "ALTER TABLE \(SQLName.quoted(name)) RENAME TO \(SQLName.quoted(newName))")
    }

    private func alter(
        _ alteration: SQLMigration.Alteration, _ table: SQLMigration.TableWork
    ) throws {
        let name = SQLName.quoted(alteration.oldTable)
        if alteration.dropsRows {
            try run(
                "DELETE FROM \(name: alteration.oldTable) WHERE Z_ENT NOT IN (\(migration.oldNumbers(table.fillings[0])))"
            )
        }
        for (index, column) in alteration.renamed.enumerated() {
            try connection.execute(
                "ALTER TABLE \(name) RENAME COLUMN \(SQLName.quoted(column.old)) TO QUIRE_\(index)")
        }
        for (index, column) in alteration.renamed.enumerated() {
            try connection.execute(
                "ALTER TABLE \(name) RENAME COLUMN QUIRE_\(index) TO \(SQLName.quoted(column.new))")
        }
        for column in alteration.added {
            try connection.execute(
                "ALTER TABLE \(name) ADD COLUMN \(SQLName.quoted(column.name)) \(column.type)")
        }
        var assignments = alteration.assignments
        if alteration.isRenumbered {
            assignments.append("Z_ENT = \(migration.entityNumber(table.fillings[0]))")
        }
        if !assignments.isEmpty {
            try run("UPDATE \(name: alteration.oldTable) SET \(assignments.joined(by: ", "))")
        }
    }
}

// MARK: - Alterations

extension SQLMigration {
    /// The alteration of an old table to a new one; `nil` if it has to be filled anew.
    func alteration(to table: SQLTable, _ filling: Filling) -> Alteration? {
        guard filling.offset == 0,
            let oldTable = old.tables.first(where: { $0.name == filling.oldTable })
        else { return nil }
        var alteration = Alteration(oldTable: oldTable.name)
        let oldColumns = Dictionary(
            oldTable.columns.map { ($0.name, $0.type.uppercased()) },
            uniquingKeysWith: { first, _ in first })
        // Values in a column that the new entity does not use must not become meaningful.
        let used = filling.transfers.map { usedColumns(of: $0.source) }
        var kept: Set<String> = ["Z_PK", "Z_ENT", "Z_OPT"]
        for column in table.columns.dropFirst(SQLSchema.fixedColumns.count) {
            let values = filling.values.map { $0[column.name] }
            let given = Set(values.compactMap { $0 })
            if given.isEmpty {
                if let type = oldColumns[column.name] {
                    // Unused before, unused now.
                    guard type == column.type, kept.insert(column.name).inserted,
                        !used.contains(where: { $0.contains(column.name) })
                    else { return nil }
                    continue
                }
                alteration.added.append(column)
                continue
            }
            if given.count == 1, let only = given.first,
                let name = oldColumns.keys.first(where: { SQLName.quoted($0) == only.sql }),
                only.bindings.isEmpty
            {
                let isStale = zip(values, used).contains { $0.0 == nil && $0.1.contains(name) }
                guard oldColumns[name] == column.type, kept.insert(name).inserted, !isStale else {
                    return nil
                }
                if name != column.name { alteration.renamed.append((name, column.name)) }
                continue
            }
            guard given.allSatisfy(\.isConstant) else { return nil }
            alteration.added.append(column)
            alteration.assignments.append(
                "\(name: column.name) = \(value(of: column.name, filling))")
        }
        // Columns that are left over go, and for that all rows are written.
        guard Set(oldColumns.keys).isSubset(of: kept) else { return nil }
        alteration.isRenumbered = filling.transfers.contains {
            old.entity($0.source).storeNumber != $0.destination.number
        }
        let taken = Set(filling.transfers.map(\.source.number))
        alteration.dropsRows =
            old.hasStrays
            || old.keptEntities.contains {
                !$0.isAbstract && !taken.contains($0.number)
                    && old.entity($0).tableName == oldTable.name
            }
        return alteration
    }

    /// The value of a new column for the rows of an old table, whatever their entities.
    func value(of column: String, _ filling: Filling) -> SQLFragment {
        let values = filling.values.map { $0[column] ?? "NULL" }
        if Set(values).count == 1 { return values[0] }
        return byEntity(filling, values)
    }

    /// A value that depends on the old entity of a row.
    func byEntity(_ filling: Filling, _ values: [SQLFragment]) -> SQLFragment {
        let cases = zip(filling.transfers, values).map { transfer, value -> SQLFragment in
            "WHEN \(old.entity(transfer.source).storeNumber) THEN \(value)"
        }
        return "CASE Z_ENT \(cases.joined(by: " ")) END"
    }

    /// The new number of a row's entity.
    func entityNumber(_ filling: Filling) -> SQLFragment {
        let numbers = filling.transfers.map { "\($0.destination.number)" as SQLFragment }
        return Set(numbers).count == 1 ? numbers[0] : byEntity(filling, numbers)
    }

    /// The old numbers of the migrated entities.
    func oldNumbers(_ filling: Filling) -> SQLFragment {
        filling.transfers.map { "\(old.entity($0.source).storeNumber)" as SQLFragment }
            .joined(by: ", ")
    }

    private func usedColumns(of entity: ResolvedEntity) -> Set<String> {
        var names: Set<String> = []
        for case let column? in old.entity(entity).columns {
            names.formUnion(
                [column.name, column.entityColumn, column.orderColumn].compactMap { $0 })
        }
        for owner in plan.source.entities {
            for case .foreignKey(let key)? in old.entity(owner).toMany
            where !key.isInverse && key.tableName == old.entity(entity).tableName {
                names.formUnion(
                    [key.column, key.entityColumn, key.orderColumn].compactMap { $0 })
            }
        }
        return names
    }
}

extension SQLFragment {
    /// Whether the value does not depend on the row.
    fileprivate var isConstant: Bool { sql == "?" || sql == "NULL" }
}
