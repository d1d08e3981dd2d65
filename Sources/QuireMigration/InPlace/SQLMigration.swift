internal import QuireModel
internal import QuireSQLite
internal import QuireStore

/// Compiles a migration of a store's tables to SQL, if SQL can express it.
///
/// Each new table is the old one unchanged, the old one altered, or a new one filled from old tables by one statement each.
/// Values stay in place if their bytes stay the same; not supported are values computed outside SQL, or moved between rows
/// and files, or between both sides of a relationship.
struct SQLMigration {
    let plan: TransferPlan
    let old: SQLSchema
    let new: SQLSchema

    /// The work of a migration.
    struct Work {
        var tables: [TableWork] = []
        var joins: [JoinWork] = []
    }

    /// The source of an object table.
    struct TableWork {
        let table: SQLTable
        var fillings: [Filling]
        /// The alteration of an old table, if that suffices.
        var alteration: Alteration?
    }

    /// The rows inserted into a table from an old one: objects of some entities, with one key offset.
    struct Filling {
        let oldTable: String
        let offset: Int64
        var transfers: [EntityTransfer]
        /// The values of the new columns, by name, for each transfer.
        var values: [[String: SQLFragment]]
    }

    /// An old table that becomes a new one by renaming and adding columns.
    struct Alteration {
        let oldTable: String
        /// Renamed columns.
        var renamed: [(old: String, new: String)] = []
        var added: [SQLColumn] = []
        /// Assignments to all rows afterwards.
        var assignments: [SQLFragment] = []
        /// Whether entity numbers change.
        var isRenumbered = false
        /// Whether some rows of the old table are not migrated.
        var dropsRows = false

        /// Whether anything is done at all, but for the table's name.
        var isEmpty: Bool {
            renamed.isEmpty && added.isEmpty && assignments.isEmpty && !isRenumbered
                && !dropsRows
        }
    }

    /// The source of a join table.
    struct JoinWork {
        let table: SQLJoinTable
        /// The old table that is kept unchanged.
        var kept: String?
        /// The statement that fills it; `nil` if it is empty.
        var filling: SQLFragment?
    }

    /// Thrown where SQL is not enough.
    private struct Beyond: Error {}

    /// The work; `nil` if SQL cannot express it.
    func work() -> Work? {
        guard plan.policyMappings.isEmpty,
            plan.transfers.allSatisfy({
                $0.mapping.sourcePredicateFormat == nil
                    && $0.mapping.entityMigrationPolicyName == nil
            })
        else { return nil }
        do {
            var work = Work()
            for transfer in plan.transfers {
                try checkDestinations(of: transfer)
                for edge in transfer.edges { try check(edge) }
            }
            for table in new.tables { work.tables.append(try tableWork(table)) }
            for table in new.joinTables { work.joins.append(try joinWork(table)) }
            // An old table can become only one new table.
            var uses: [String: Int] = [:]
            for name in work.tables.flatMap({ $0.fillings.map(\.oldTable) }) {
                uses[name, default: 0] += 1
            }
            for index in work.tables.indices {
                if let alteration = work.tables[index].alteration, uses[alteration.oldTable] != 1 {
                    work.tables[index].alteration = nil
                }
            }
            return work
        } catch {
            return nil
        }
    }

    // MARK: - Relationships

    /// Checks that all members of relationships are valid members afterwards: otherwise rows have to be read.
    private func checkDestinations(of transfer: EntityTransfer) throws {
        for (index, expression) in transfer.relationships {
            guard let name = expression.relationshipName,
                let before = transfer.source.relationship(named: name)
            else { continue }
            let relationship = transfer.destination.relationships[index]
            if plan.isNarrowing(
                from: plan.source.destination(of: before),
                to: plan.destination.destination(of: relationship))
            {
                throw Beyond()
            }
        }
    }

    /// Checks that a relationship stored outside its owner's row has the same kind of storage as before.
    private func check(_ edge: EntityTransfer.Edge) throws {
        let owner = plan.destination.entity(number: edge.relationship.ownerNumber)
        let oldOwner = plan.source.entity(number: edge.source.ownerNumber)
        guard edge.relationship.isToMany, edge.source.isToMany,
            sources(of: edge.relationship).count == 1
        else { throw Beyond() }
        let inverse = plan.destination.inverse(of: edge.relationship)
        let oldInverse = plan.source.inverse(of: edge.source)
        switch (
            new.toMany(edge.relationship, of: owner), old.toMany(edge.source, of: oldOwner)
        ) {
        case (_, .nowhere): break
        case (.foreignKey(let key), .foreignKey(let oldKey)) where key.isInverse == oldKey.isInverse:
            guard key.isInverse else { break }
            guard let inverse, let oldInverse, isOnlySource(oldInverse, of: inverse) else {
                throw Beyond()
            }
        case (.join(let join), .join(let oldJoin)) where join.isReflexive == oldJoin.isReflexive:
            guard let inverse, let oldInverse else { throw Beyond() }
            let mapped = sources(of: inverse)
            guard mapped.isEmpty || isOnlySource(oldInverse, of: inverse) else { throw Beyond() }
        default: throw Beyond()
        }
    }

    /// The old relationships that entity mappings name for a new one.
    private func sources(of relationship: ResolvedEntity.Relationship) -> Set<SQLRelationshipKey> {
        var found: Set<SQLRelationshipKey> = []
        for transfer in plan.transfers
        where plan.destination.entity(number: relationship.ownerNumber).subtree
            .contains(transfer.destination.number)
        {
            guard let name = transfer.relationships[relationship.index]?.relationshipName,
                let source = transfer.source.relationship(named: name)
            else { continue }
            found.insert(.init(entityNumber: source.ownerNumber, index: source.index))
        }
        return found
    }

    private func isOnlySource(
        _ old: ResolvedEntity.Relationship, of relationship: ResolvedEntity.Relationship
    ) -> Bool {
        sources(of: relationship) == [.init(entityNumber: old.ownerNumber, index: old.index)]
    }

    private func oldRelationship(_ key: SQLRelationshipKey) -> ResolvedEntity.Relationship {
        plan.source.entity(number: key.entityNumber).relationships[key.index]
    }

    // MARK: - Tables of objects

    private func tableWork(_ table: SQLTable) throws -> TableWork {
        var fillings: [Filling] = []
        var groups: [Int] = []
        for transfer in plan.transfers where transfer.destination.rootNumber == table.rootNumber {
            let values = try self.values(of: transfer)
            if let index = groups.firstIndex(of: transfer.keyGroup) {
                fillings[index].transfers.append(transfer)
                fillings[index].values.append(values)
            } else {
                groups.append(transfer.keyGroup)
                fillings.append(
                    Filling(
                        oldTable: old.entity(transfer.source).tableName,
                        offset: plan.keyOffsets[transfer.keyGroup], transfers: [transfer],
                        values: [values]))
            }
        }
        var work = TableWork(table: table, fillings: fillings)
        if fillings.count == 1 { work.alteration = alteration(to: table, fillings[0]) }
        return work
    }

    /// The column values of a new entity's rows.
    private func values(of transfer: EntityTransfer) throws -> [String: SQLFragment] {
        var values: [String: SQLFragment] = [:]
        let place = new.entity(transfer.destination)
        let oldPlace = old.entity(transfer.source)
        for (slot, value) in transfer.values.enumerated() {
            guard let column = place.columns[slot] else { continue }
            switch value {
            case .nothing:
                // Recomputed at the end, so the old values need not be moved.
                if transfer.destination.slots[slot].isDerived,
                    let from = transfer.source.slot(named: transfer.destination.slots[slot].name),
                    let oldColumn = oldPlace.columns[from]
                {
                    values[column.name] = "\(name: oldColumn.name)"
                }
            case .constant(let constant):
                if !constant.isNull {
                    values[column.name] = try stored(
                        constant, in: transfer.destination.slots[slot])
                }
            case .copy(let from, let conversion, let fallback):
                guard let oldColumn = oldPlace.columns[from] else { break }
                let destination = transfer.destination.slots[slot]
                guard
                    destination.isExternalCapable == transfer.source.slots[from].isExternalCapable
                else { throw Beyond() }
                var expression = conversion.fragment(of: "\(name: oldColumn.name)")
                if !fallback.isNull {
                    expression = "ifnull(\(expression), \(try stored(fallback, in: destination)))"
                }
                values[column.name] = expression
            case .reference(let from, _):
                try addReference(transfer, from, slot, column, to: &values)
            case .expression: throw Beyond()
            }
        }
        try addLoneColumns(transfer, to: &values)
        return values
    }

    private func stored(
        _ value: AttributeValue, in slot: ResolvedEntity.Slot
    ) throws -> SQLFragment {
        if slot.isExternalCapable {
            guard case .binary(let data) = value,
                data.count <= ExternalDataTag.maximumInlineSize
            else { throw Beyond() }
            return "\(bind: .binary([ExternalDataTag.inline] + data))"
        }
        return SQLFragment(stored: value)
    }

    private func addReference(
        _ transfer: EntityTransfer, _ from: Int, _ slot: Int, _ column: SQLSlotColumn,
        to values: inout [String: SQLFragment]
    ) throws {
        guard let oldColumn = old.entity(transfer.source).columns[from],
            let oldIndex = transfer.source.slots[from].relationshipIndex,
            let index = transfer.destination.slots[slot].relationshipIndex
        else { return }
        let relationship = transfer.destination.relationships[index]
        let before = transfer.source.relationships[oldIndex]
        let reference = SQLReference(
            key: oldColumn.name, entity: oldColumn.entityColumn,
            from: plan.source.destination(of: before),
            to: plan.destination.destination(of: relationship), plan: plan, old: old)
        if reference.isNarrowing { throw Beyond() }
        values[column.name] = reference.keyFragment
        if let entityColumn = column.entityColumn {
            values[entityColumn] = reference.entityFragment
        }
        guard let orderColumn = column.orderColumn, let oldOrder = oldColumn.orderColumn,
            let inverse = plan.destination.inverse(of: relationship),
            let oldInverse = plan.source.inverse(of: before), oldInverse.isOrdered,
            isOnlySource(oldInverse, of: inverse)
        else { return }
        values[orderColumn] = reference.ifKept("\(name: oldOrder)")
    }

    /// Adds the columns of relationships without inverse whose destination is a transfer's entity.
    private func addLoneColumns(
        _ transfer: EntityTransfer, to values: inout [String: SQLFragment]
    ) throws {
        for owner in plan.destination.entities {
            for relationship in owner.relationships
            where relationship.ownerNumber == owner.number
                && plan.destination.destination(of: relationship).subtree
                    .contains(transfer.destination.number)
            {
                guard case .foreignKey(let key)? = new.entity(owner).toMany[relationship.index],
                    !key.isInverse, let source = sources(of: relationship).first
                else { continue }
                let before = oldRelationship(source)
                let oldOwner = plan.source.entity(number: before.ownerNumber)
                guard case .foreignKey(let oldKey)? = old.entity(oldOwner).toMany[before.index],
                    !oldKey.isInverse,
                    plan.source.destination(of: before).subtree.contains(transfer.source.number)
                else { continue }
                let reference = SQLReference(
                    key: oldKey.column, entity: oldKey.entityColumn, from: oldOwner, to: owner,
                    plan: plan, old: old)
                if reference.isNarrowing { throw Beyond() }
                values[key.column] = reference.keyFragment
                if let entityColumn = key.entityColumn {
                    values[entityColumn] = reference.entityFragment
                }
                if let order = key.orderColumn, let oldOrder = oldKey.orderColumn {
                    values[order] = reference.ifKept("\(name: oldOrder)")
                }
            }
        }
    }

    // MARK: - Join tables

    private func joinWork(_ table: SQLJoinTable) throws -> JoinWork {
        var work = JoinWork(table: table)
        let sides = [table.namingSide, table.otherSide]
        for (position, side) in sides.enumerated() {
            let relationship = plan.destination.entity(number: side.entityNumber)
                .relationships[side.index]
            guard let source = sources(of: relationship).first else { continue }
            let before = oldRelationship(source)
            let oldOwner = plan.source.entity(number: before.ownerNumber)
            guard case .join(let join)? = old.entity(oldOwner).toMany[before.index] else {
                if case .nowhere? = old.entity(oldOwner).toMany[before.index] { continue }
                throw Beyond()
            }
            guard join.isReflexive == table.isReflexive,
                let inverse = plan.destination.inverse(of: relationship),
                let oldInverse = plan.source.inverse(of: before),
                case .join(let back)? = old.entity(
                    plan.source.entity(number: oldInverse.ownerNumber)
                ).toMany[oldInverse.index]
            else { throw Beyond() }
            let isBackMapped = isOnlySource(oldInverse, of: inverse)
            let owner = SQLReference(
                key: join.sourceColumn, entity: nil, from: oldOwner,
                to: plan.destination.entity(number: relationship.ownerNumber), plan: plan, old: old)
            let member = SQLReference(
                key: join.targetColumn, entity: nil, from: plan.source.destination(of: before),
                to: plan.destination.destination(of: relationship), plan: plan, old: old)
            if owner.isNarrowing || member.isNarrowing { throw Beyond() }
            // In the order of the new table's columns.
            let isFirst = position == 0
            let keys = isFirst ? [owner, member] : [member, owner]
            let memberOrder = relationship.isOrdered ? join.orderColumn : nil
            let ownerOrder = inverse.isOrdered && isBackMapped ? back.orderColumn : nil
            let orders = isFirst ? [memberOrder, ownerOrder] : [ownerOrder, memberOrder]
            let parts =
                keys.map(\.keyFragment)
                + zip([table.secondOrderColumn, table.firstOrderColumn], orders).compactMap {
                    column, order in
                    column == nil ? nil : order.map { "\(name: $0)" } ?? "NULL"
                }
            let oldColumns = [
                keys[0].key, keys[1].key, table.secondOrderColumn == nil ? nil : orders[0],
                table.firstOrderColumn == nil ? nil : orders[1],
            ]
            let columns = [
                table.firstColumn, table.secondColumn, table.secondOrderColumn,
                table.firstOrderColumn,
            ]
            let oldTable = old.joinTables[join.tableIndex]
            let isSame =
                keys.allSatisfy(\.isPlain) && oldColumns == columns
                && oldTable.name == table.name
                && Set([oldTable.secondOrderColumn, oldTable.firstOrderColumn])
                    == Set([table.secondOrderColumn, table.firstOrderColumn])
            if isSame { work.kept = oldTable.name }
            work.filling =
                "SELECT \(parts.joined(by: ", ")) FROM \(name: join.tableName) WHERE "
                + "\(keys[0].keyFragment) NOT NULL AND \(keys[1].keyFragment) NOT NULL"
            return work
        }
        return work
    }
}

extension AttributeConversion {
    /// The SQL conversion of a column's value.
    fileprivate func fragment(of column: SQLFragment) -> SQLFragment {
        switch self {
        case .same, .integerToDecimal: column
        case .integerToDouble: "CAST(\(column) AS REAL)"
        case .booleanToInteger: "(\(column) <> 0)"
        }
    }
}

extension SQLFragment {
    /// A value in the form in which a column without external storage has it.
    init(stored value: AttributeValue) {
        guard case .decimal(let number) = value else {
            self = "\(bind: value)"
            return
        }
        switch SQLiteDecimal.stored(number) {
        case .integer(let integer): self = "\(bind: .integer(integer))"
        case .double(let double): self = "\(bind: .double(double))"
        case .text(let text): self = "\(bind: .string(text))"
        }
    }

    fileprivate static func + (left: SQLFragment, right: SQLFragment) -> SQLFragment {
        var result = left
        result.append(right)
        return result
    }
}
