internal import QuireModel
internal import QuireSQLite

extension SQLMigration {
    /// How an old table becomes a new one; `nil` if it has to be filled anew.
    func alteration(to table: SQLTable, _ filling: Filling) -> Alteration? {
        guard filling.offset == 0,
            let oldTable = old.tables.first(where: { $0.name == filling.oldTable })
        else { return nil }
        var alteration = Alteration(oldTable: oldTable.name)
        let oldColumns = Dictionary(
            oldTable.columns.map { ($0.name, $0.type.uppercased()) },
            uniquingKeysWith: { first, _ in first })
        // What an entity's rows have in a column that its new entity does not use must not come to mean something.
        let used = filling.transfers.map { usedColumns(of: $0.source) }
        var kept: Set<String> = ["Z_PK", "Z_ENT", "Z_OPT"]
        for column in table.columns.dropFirst(SQLSchema.fixedColumns.count) {
            let values = filling.values.map { $0[column.name] }
            let given = Set(values.compactMap { $0 })
            if given.isEmpty {
                if let type = oldColumns[column.name] {
                    // Nobody's before, nobody's now.
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

    /// What a new column gets from the rows of an old table, whatever their entities.
    func value(of column: String, _ filling: Filling) -> SQLFragment {
        let values = filling.values.map { $0[column] ?? "NULL" }
        if Set(values).count == 1 { return values[0] }
        return byEntity(filling, values)
    }

    /// What depends on the old entity of a row.
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

    /// The old numbers of the entities whose rows are taken over.
    func oldNumbers(_ filling: Filling) -> SQLFragment {
        filling.transfers.map { "\(old.entity($0.source).storeNumber)" as SQLFragment }
            .joined(by: ", ")
    }

    private func usedColumns(of entity: EntityLayout) -> Set<String> {
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
    /// Whether it is a value that no row has to be asked for.
    fileprivate var isConstant: Bool { sql == "?" || sql == "NULL" }
}
