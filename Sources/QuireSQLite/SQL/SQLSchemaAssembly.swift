package import QuireModel

/// Assembles a schema from the names of columns and join tables.
///
/// Names are looked up by purpose, so that fresh and existing stores differ only in the source of the names.
struct SQLSchemaAssembly {
    let layout: ResolvedModel
    /// Store numbers by model number minus one; 0 for entities that the store does not keep.
    let storeNumbers: [Int]
    /// Tables by the model number of their root.
    var tables: [Int: SQLTable] = [:]
    /// Column names by the model number of the root and the purpose.
    var names: [Int: [SQLColumnNaming.Purpose: String]] = [:]
    /// Join tables by number.
    var joinTables: [SQLJoinTable] = []
    /// Whether tables may hold rows whose `Z_ENT` does not belong there.
    var hasStrays = false
    /// Relationships without storage in the store.
    var missing: [SQLRelationshipKey] = []
    /// Optional columns that the store lacks.
    var missingColumns: [SQLMissingColumn] = []

    /// The root entities that the store keeps.
    var roots: [ResolvedEntity] {
        layout.entities.filter { $0.number == $0.rootNumber && storeNumbers[$0.number - 1] > 0 }
    }

    func schema() -> SQLSchema {
        let roots = roots
        let indexes = Dictionary(
            uniqueKeysWithValues: roots.enumerated().map { ($0.element.number, $0.offset) })
        var joins: [SQLRelationshipKey: SQLJoin] = [:]
        for (index, table) in joinTables.enumerated() {
            joins[table.otherSide] = SQLJoin(
                tableName: table.name, sourceColumn: table.secondColumn,
                targetColumn: table.firstColumn, orderColumn: table.firstOrderColumn,
                tableIndex: index, isNamingSide: false, isReflexive: table.isReflexive)
            joins[table.namingSide] = SQLJoin(
                tableName: table.name, sourceColumn: table.firstColumn,
                targetColumn: table.secondColumn, orderColumn: table.secondOrderColumn,
                tableIndex: index, isNamingSide: true, isReflexive: table.isReflexive)
        }
        let entities = layout.entities.map { entity in
            SQLEntity(
                number: entity.number, storeNumber: storeNumbers[entity.number - 1],
                tableIndex: indexes[entity.rootNumber] ?? 0,
                tableName: tableName(of: entity),
                subtreeStoreNumbers: entity.subtree.map { storeNumbers[$0 - 1] },
                ownsTable: entity.number == entity.rootNumber && !hasStrays,
                columns: entity.slots.map { column(of: $0, in: entity) },
                toMany: entity.relationships.map { toMany($0, joins: joins) })
        }
        return SQLSchema(
            layout: layout, entities: entities,
            tables: roots.compactMap { tables[$0.number] }, joinTables: joinTables,
            hasStrays: hasStrays, missing: missing, missingColumns: missingColumns)
    }

    private func tableName(of entity: ResolvedEntity) -> String {
        tables[entity.rootNumber]?.name ?? ""
    }

    private func column(of slot: ResolvedEntity.Slot, in entity: ResolvedEntity) -> SQLSlotColumn? {
        guard slot.isStored, let names = names[entity.rootNumber],
            let name = names[.slot(owner: slot.ownerNumber, slot: slot.index)]
        else { return nil }
        return SQLSlotColumn(
            name: name,
            entityColumn: names[.slotEntity(owner: slot.ownerNumber, slot: slot.index)],
            orderColumn: names[.slotOrder(owner: slot.ownerNumber, slot: slot.index)])
    }

    private func toMany(
        _ relationship: ResolvedEntity.Relationship, joins: [SQLRelationshipKey: SQLJoin]
    ) -> SQLToMany? {
        guard relationship.isToMany, !relationship.description.isTransient else { return nil }
        let key = SQLRelationshipKey(
            entityNumber: relationship.ownerNumber, index: relationship.index)
        if let join = joins[key] { return .join(join) }
        let destination = layout.destination(of: relationship)
        let names = names[destination.rootNumber] ?? [:]
        if let inverse = layout.inverse(of: relationship) {
            guard let slot = inverse.slot,
                let column = column(of: destination.slots[slot], in: destination)
            else { return .nowhere(tableName: tableName(of: destination)) }
            return .foreignKey(
                SQLForeignKey(
                    tableName: tableName(of: destination), column: column.name,
                    entityColumn: column.entityColumn,
                    orderColumn: relationship.isOrdered ? column.orderColumn : nil,
                    isInverse: true))
        }
        guard let column = names[.lone(key)] else {
            return .nowhere(tableName: tableName(of: destination))
        }
        return .foreignKey(
            SQLForeignKey(
                tableName: tableName(of: destination), column: column,
                entityColumn: names[.loneEntity(key)],
                orderColumn: relationship.isOrdered ? names[.loneOrder(key)] : nil,
                isInverse: false))
    }
}

/// A many-to-many relationship of a model: each pair of inverses once, naming side first.
struct SQLManyToMany {
    let namingSide: SQLRelationshipKey
    let otherSide: SQLRelationshipKey
    /// The relationship of the naming side's entity.
    let relationship: ResolvedEntity.Relationship
    /// The inverse, of the other entity.
    let inverse: ResolvedEntity.Relationship

    /// All pairs that a store keeps. A table is named after the side whose entity has the lower number.
    static func all(of layout: ResolvedModel, storeNumbers: [Int]) -> [SQLManyToMany] {
        var result: [SQLManyToMany] = []
        var done: Set<SQLRelationshipKey> = []
        for entity in layout.entities where storeNumbers[entity.number - 1] > 0 {
            let own = entity.relationships.filter { $0.ownerNumber == entity.number }
            for relationship in own.sorted(by: { $0.name < $1.name }) {
                guard relationship.isToMany, !relationship.description.isTransient,
                    let inverse = layout.inverse(of: relationship), inverse.isToMany
                else { continue }
                let side = SQLRelationshipKey(
                    entityNumber: entity.number, index: relationship.index)
                let other = SQLRelationshipKey(
                    entityNumber: inverse.ownerNumber, index: inverse.index)
                guard done.insert(side).inserted else { continue }
                done.insert(other)
                result.append(
                    SQLManyToMany(
                        namingSide: side, otherSide: other, relationship: relationship,
                        inverse: inverse))
            }
        }
        return result
    }
}

// MARK: - New stores

extension SQLSchema {
    /// The schema that Core Data creates in a new store for a model, or some of its entities.
    package init(fresh layout: ResolvedModel, entities: Set<Int>? = nil) {
        var count = 0
        let numbers = layout.entities.map { entity in
            guard entities?.contains(entity.number) ?? true else { return 0 }
            count += 1
            return count
        }
        var assembly = SQLSchemaAssembly(layout: layout, storeNumbers: numbers)
        for root in assembly.roots {
            let naming = SQLColumnNaming(root: root, layout: layout, storeNumbers: numbers)
            assembly.tables[root.number] = SQLTable(
                name: Self.tableName(ofRoot: root), rootNumber: root.number,
                columns: Self.fixedColumns
                    + naming.columns.map { SQLColumn(name: $0.name, type: $0.type) })
            assembly.names[root.number] = Dictionary(
                uniqueKeysWithValues: naming.columns.map { ($0.purpose, $0.name) })
        }
        assembly.joinTables = Self.freshJoinTables(
            of: SQLManyToMany.all(of: layout, storeNumbers: numbers), storeNumbers: numbers)
        self = assembly.schema()
        computedIndexes = allComputedIndexes
    }

    /// The first columns of every object table.
    package static let fixedColumns = [
        SQLColumn(name: SQLName.primaryKey, type: "INTEGER PRIMARY KEY"),
        SQLColumn(name: SQLName.entity, type: "INTEGER"),
        SQLColumn(name: SQLName.version, type: "INTEGER"),
    ]

    /// The name of the table of a root entity and its sub-entities.
    package static func tableName(ofRoot root: ResolvedEntity) -> String {
        "Z" + root.name.uppercased()
    }

    private static func freshJoinTables(
        of pairs: [SQLManyToMany], storeNumbers: [Int]
    ) -> [SQLJoinTable] {
        // Column names are unique among all join tables.
        var taken: Set<String> = []
        func unique(_ base: String) -> String {
            var name = base
            var suffix = 0
            while !taken.insert(name).inserted {
                suffix += 1
                name = base + String(suffix)
            }
            return name
        }
        return pairs.map { pair in
            let number = storeNumbers[pair.namingSide.entityNumber - 1]
            let otherNumber = storeNumbers[pair.otherSide.entityNumber - 1]
            // A column is named after the relationship whose destination it holds.
            let isReflexive = pair.namingSide == pair.otherSide
            let first = unique("Z_\(number)\(pair.inverse.name.uppercased())")
            let second =
                isReflexive
                ? "REFLEXIVE" : unique("Z_\(otherNumber)\(pair.relationship.name.uppercased())")
            return SQLJoinTable(
                name: "Z_\(number)\(pair.relationship.name.uppercased())",
                firstColumn: first, secondColumn: second,
                secondOrderColumn: pair.relationship.isOrdered
                    ? "Z_FOK_\(isReflexive ? second[...] : second.dropFirst(2))" : nil,
                firstOrderColumn: pair.inverse.isOrdered && !isReflexive
                    ? "Z_FOK_\(first.dropFirst(2))" : nil,
                namingSide: pair.namingSide, otherSide: pair.otherSide)
        }
    }
}
