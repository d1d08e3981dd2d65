package import QuireModel

extension SQLSchema {
    /// The schema that Core Data gives to a new store of a model, or of some entities of it.
    package init(fresh layout: ModelLayout, entities: Set<Int>? = nil) {
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

    /// The columns every table of objects begins with.
    package static let fixedColumns = [
        SQLColumn(name: SQLName.primaryKey, type: "INTEGER PRIMARY KEY"),
        SQLColumn(name: SQLName.entity, type: "INTEGER"),
        SQLColumn(name: SQLName.version, type: "INTEGER"),
    ]

    /// The name of the table that holds the objects of a root entity and its sub-entities.
    package static func tableName(ofRoot root: EntityLayout) -> String {
        "Z" + root.name.uppercased()
    }

    private static func freshJoinTables(
        of pairs: [SQLManyToMany], storeNumbers: [Int]
    ) -> [SQLJoinTable] {
        // Names of columns are unique among all join tables.
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
            // A column is called after the relationship that leads to the object in it.
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
