package import QuireModel
internal import QuireSystem

extension SQLSchema {
    /// Matches a model with an existing store.
    ///
    /// Names are those Core Data would give, as far as the store has them; where migration or old versions left different
    /// trailing digits or named a join table after the other side, the existing names are used.
    ///
    /// To-many relationships without storage are not an error: they are empty; see ``missing``.
    ///
    /// - Parameters:
    ///   - entities: The numbers of the entities that the store keeps; `nil` for all.
    ///   - hasStrays: Whether tables may hold rows whose `Z_ENT` does not belong there.
    /// - Throws: ``QuireError`` with code `incompatibleModel`, naming everything else that the store lacks.
    package init(
        _ layout: ResolvedModel, catalog: SQLCatalog, entities: Set<Int>? = nil,
        hasStrays: Bool = false
    ) throws {
        var reader = SQLSchemaReader(layout: layout, catalog: catalog, entities: entities)
        self = try reader.read(hasStrays: hasStrays)
    }

    /// The tables and columns of a model that a store lacks; none if it has different entities.
    package static func gaps(_ layout: ResolvedModel, in catalog: SQLCatalog) -> SQLSchemaGaps {
        var reader = SQLSchemaReader(layout: layout, catalog: catalog, entities: nil)
        return (try? reader.findGaps()) ?? SQLSchemaGaps()
    }
}

extension SQLSchema {
    /// The columns of object tables that the model does not use.
    package var unknownColumns: [(table: SQLTable, columns: [String])] {
        var known: [String: Set<String>] = [:]
        for entity in layout.entities {
            let place = self.entity(entity)
            for case let column? in place.columns {
                known[place.tableName, default: []].formUnion(
                    [column.name, column.entityColumn, column.orderColumn].compactMap { $0 })
            }
            for case .foreignKey(let key)? in place.toMany {
                known[key.tableName, default: []].formUnion(
                    [key.column, key.entityColumn, key.orderColumn].compactMap { $0 })
            }
        }
        let fixed = Set(Self.fixedColumns.map(\.name))
        return tables.compactMap { table in
            let columns = table.columns.map(\.name).filter {
                !fixed.contains($0.uppercased()) && known[table.name]?.contains($0) != true
            }
            return columns.isEmpty ? nil : (table, columns)
        }
    }
}

/// The parts of a model's tables that a store lacks.
package struct SQLSchemaGaps {
    /// Object tables, as a new store would have them.
    package var tables: [SQLTable] = []
    /// Columns of existing tables.
    package var columns: [SQLMissingColumn] = []
    /// Many-to-many relationships without a join table.
    package var pairs: [SQLRelationshipKey] = []
}

/// Matches a model with a store's catalog.
private struct SQLSchemaReader {
    let layout: ResolvedModel
    let catalog: SQLCatalog
    private var missing: [QuireError] = []
    /// To-many relationships without inverse whose column is missing.
    private var placeless: [SQLRelationshipKey] = []
    private var gaps = SQLSchemaGaps()
    /// The missing optional columns.
    private var dispensable: [SQLMissingColumn] = []

    /// The entities that the store keeps.
    private let kept: [ResolvedEntity]

    init(layout: ResolvedModel, catalog: SQLCatalog, entities: Set<Int>?) {
        self.layout = layout
        self.catalog = catalog
        kept = layout.entities.filter { entities?.contains($0.number) ?? true }
    }

    /// - Throws: ``QuireError`` with code `incompatibleModel` if the store has different entities.
    mutating func findGaps() throws -> SQLSchemaGaps {
        do { _ = try read(hasStrays: true) } catch {
            if gaps.tables.isEmpty && gaps.columns.isEmpty { throw error }
        }
        return gaps
    }

    mutating func read(hasStrays: Bool) throws -> SQLSchema {
        let numbers = try storeNumbers()
        var assembly = SQLSchemaAssembly(layout: layout, storeNumbers: numbers)
        assembly.hasStrays = hasStrays
        for root in kept where root.number == root.rootNumber {
            let name = SQLSchema.tableName(ofRoot: root)
            guard let table = catalog.table(name) else {
                gaps.tables.append(freshTable(of: root, named: name, storeNumbers: numbers))
                miss(
                    catalog.views.contains(name.uppercased())
                        ? "The store has a view instead of the table \(name) for the entity “\(root.name)”."
                        : "The store has no table \(name) for the entity “\(root.name)”.",
                    entity: root.name)
                continue
            }
            for column in SQLSchema.fixedColumns where table.column(column.name) == nil {
                miss("The table \(table.name) has no column \(column.name).", entity: root.name)
            }
            assembly.tables[root.number] = SQLTable(
                name: table.name, rootNumber: root.number, columns: table.columns)
            assembly.names[root.number] = columnNames(of: root, in: table, storeNumbers: numbers)
        }
        for pair in SQLManyToMany.all(of: layout, storeNumbers: numbers) {
            if let table = joinTable(for: pair, storeNumbers: numbers) {
                assembly.joinTables.append(table)
            } else {
                assembly.missing += Set([pair.namingSide, pair.otherSide])
                gaps.pairs.append(pair.namingSide)
            }
        }
        assembly.missing += placeless
        assembly.missingColumns = dispensable
        if !missing.isEmpty { throw QuireError.combining(missing) }
        return assembly.schema()
    }

    // MARK: - Entities

    /// The store numbers of the model's entities; 0 for those it does not keep.
    private func storeNumbers() throws -> [Int] {
        let byName = Dictionary(
            catalog.entities.map { ($0.name, $0.number) }, uniquingKeysWith: { first, _ in first })
        let known = Set(kept.map(\.name))
        let absent = kept.filter { byName[$0.name] == nil }
        let unknown = catalog.entities.filter { !known.contains($0.name) }
        if absent.isEmpty && unknown.isEmpty {
            return layout.entities.map { known.contains($0.name) ? byName[$0.name] ?? 0 : 0 }
        }
        // A renamed entity keeps its position in the hierarchy, with its old name in Z_PRIMARYKEY.
        let parents = layout.entities.map { $0.superentityNumber ?? 0 }
        if catalog.entities.map(\.number) == layout.entities.map(\.number),
            catalog.entities.map(\.superentityNumber) == parents,
            absent.allSatisfy({ catalog.table(SQLSchema.tableName(ofRoot: root(of: $0))) != nil })
        {
            return layout.entities.map(\.number)
        }
        var failures = absent.map {
            QuireError(
                .incompatibleModel,
                "The entity “\($0.name)” is in the model, but not in the store.",
                entity: $0.name)
        }
        failures += unknown.map {
            QuireError(
                .incompatibleModel,
                "The entity “\($0.name)” is in the store, but not in the model.",
                entity: $0.name)
        }
        throw QuireError.combining(failures)
    }

    private func root(of entity: ResolvedEntity) -> ResolvedEntity {
        layout.entity(number: entity.rootNumber)
    }

    private mutating func miss(_ sentence: String, entity: String, property: String? = nil) {
        missing.append(
            QuireError(.incompatibleModel, sentence, entity: entity, property: property))
    }

    // MARK: - Columns

    private func freshTable(
        of root: ResolvedEntity, named name: String, storeNumbers: [Int]
    ) -> SQLTable {
        let naming = SQLColumnNaming(root: root, layout: layout, storeNumbers: storeNumbers)
        return SQLTable(
            name: name, rootNumber: root.number,
            columns: SQLSchema.fixedColumns
                + naming.columns.map { SQLColumn(name: $0.name, type: $0.type) })
    }

    private mutating func columnNames(
        of root: ResolvedEntity, in table: SQLCatalog.Table, storeNumbers: [Int]
    ) -> [SQLColumnNaming.Purpose: String] {
        let naming = SQLColumnNaming(root: root, layout: layout, storeNumbers: storeNumbers)
        var names: [SQLColumnNaming.Purpose: String] = [:]
        var used: Set<String> = []
        var rest: [SQLColumnNaming.Column] = []
        for column in naming.columns {
            if let name = table.column(column.name) {
                names[column.purpose] = name
                used.insert(name)
            } else {
                rest.append(column)
            }
        }
        for column in rest {
            let found: String?
            switch column.purpose {
            case .slotEntity, .loneEntity:
                found = entityColumn(like: column.base, in: table, without: used)
            default: found = table.suffixedColumn(column.base, without: used)
            }
            if let found {
                names[column.purpose] = found
                used.insert(found)
                continue
            }
            let role: SQLMissingColumn.Role =
                switch column.purpose {
                case .slot, .slotOrder: .required
                case .lone, .loneOrder: .unpaired
                case .slotEntity, .loneEntity: .lookup
                }
            let lacking = SQLMissingColumn(
                table: table.name, column: SQLColumn(name: column.name, type: column.type),
                role: role)
            gaps.columns.append(lacking)
            if case .lone(let key) = column.purpose {
                placeless.append(key)
            } else if let property = requiredProperty(of: column.purpose) {
                miss(
                    "The table \(table.name) has no column \(column.name) for “\(property.entity)"
                        + ".\(property.name)”.", entity: property.entity, property: property.name)
            } else {
                dispensable.append(lacking)
            }
        }
        return names
    }

    /// An entity column whose number differs from the model's.
    private func entityColumn(
        like base: String, in table: SQLCatalog.Table, without used: Set<String>
    ) -> String? {
        guard let underscore = base.firstIndex(of: "_") else { return nil }
        let tail = base[underscore...].uppercased()
        let found = table.columnNames.filter { upper, name in
            guard upper.hasSuffix(tail), upper.hasPrefix("Z"), !used.contains(name) else {
                return false
            }
            let digits = upper.dropFirst().dropLast(tail.count)
            return !digits.isEmpty && digits.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 }
        }
        return found.count == 1 ? found.first?.value : nil
    }

    /// The property that requires a column; `nil` for optional columns.
    private func requiredProperty(
        of purpose: SQLColumnNaming.Purpose
    ) -> (entity: String, name: String)? {
        switch purpose {
        case .slot(let owner, let slot), .slotOrder(let owner, let slot):
            let entity = layout.entity(number: owner)
            return (entity.name, entity.slots[slot].name)
        case .slotEntity, .lone, .loneEntity, .loneOrder: return nil
        }
    }

    // MARK: - Join tables

    /// The join table of a pair, named after either side.
    private func joinTable(for pair: SQLManyToMany, storeNumbers: [Int]) -> SQLJoinTable? {
        let straight = joinTable(
            named: pair.relationship, side: pair.namingSide, inverse: pair.inverse,
            other: pair.otherSide, storeNumbers: storeNumbers)
        if let straight { return straight }
        return joinTable(
            named: pair.inverse, side: pair.otherSide, inverse: pair.relationship,
            other: pair.namingSide, storeNumbers: storeNumbers)
    }

    private func joinTable(
        named relationship: ResolvedEntity.Relationship, side: SQLRelationshipKey,
        inverse: ResolvedEntity.Relationship, other: SQLRelationshipKey, storeNumbers: [Int]
    ) -> SQLJoinTable? {
        let number = storeNumbers[side.entityNumber - 1]
        let otherNumber = storeNumbers[other.entityNumber - 1]
        let base = "Z_\(number)\(relationship.name.uppercased())"
        let firstBase = "Z_\(number)\(inverse.name.uppercased())"
        let secondBase =
            side == other ? "REFLEXIVE" : "Z_\(otherNumber)\(relationship.name.uppercased())"
        var candidates = catalog.tables.values.filter {
            SQLCatalog.isSuffixed($0.name.uppercased(), base: base)
        }
        candidates.sort { $0.name.utf8.count < $1.name.utf8.count }
        for table in candidates {
            guard let first = key(firstBase, in: table, besides: nil),
                let second = key(secondBase, in: table, besides: first)
            else { continue }
            let secondOrder = order(of: second, base: secondBase, in: table)
            let firstOrder = side == other ? nil : order(of: first, base: firstBase, in: table)
            if relationship.isOrdered && secondOrder == nil { continue }
            if inverse.isOrdered && firstOrder == nil && side != other { continue }
            return SQLJoinTable(
                name: table.name, firstColumn: first, secondColumn: second,
                secondOrderColumn: relationship.isOrdered ? secondOrder : nil,
                firstOrderColumn: inverse.isOrdered ? firstOrder : nil, namingSide: side,
                otherSide: other)
        }
        return nil
    }

    private func key(_ base: String, in table: SQLCatalog.Table, besides other: String?) -> String?
    {
        if let exact = table.column(base), exact != other { return exact }
        return table.suffixedColumn(base, without: other.map { [$0] } ?? [])
    }

    private func order(of column: String, base: String, in table: SQLCatalog.Table) -> String? {
        let tail = column.uppercased().hasPrefix("Z_") ? column.dropFirst(2) : column[...]
        let baseTail = base.hasPrefix("Z_") ? base.dropFirst(2) : base[...]
        return table.column("Z_FOK_\(tail)")
            ?? table.suffixedColumn("Z_FOK_\(baseTail)", without: [])
    }
}
