internal import QuireModel

/// The statements that create a fresh store's tables and indexes.
package struct SQLSchemaStatements {
    package let schema: SQLSchema

    package init(schema: SQLSchema) {
        self.schema = schema
    }

    /// Core Data's metadata tables.
    static let bookkeepingTables = [
        "CREATE TABLE Z_PRIMARYKEY (Z_ENT INTEGER PRIMARY KEY, Z_NAME VARCHAR, Z_SUPER INTEGER, Z_MAX INTEGER)",
        "CREATE TABLE Z_METADATA (Z_VERSION INTEGER PRIMARY KEY, Z_UUID VARCHAR(255), Z_PLIST BLOB)",
    ]

    /// All statements: object tables, join tables, indexes, computed tables, and their triggers.
    var all: [String] {
        tables + joinTables + indexes
            + (SQLComputedIndexStatements(schema: schema).parts
            + SQLDerivedTriggers(schema: schema).parts).map(\.sql)
    }

    /// The statements that create the tables of objects.
    package var tables: [String] {
        schema.tables.map { table in
            let columns = table.columns.map { "\(SQLName.quoted($0.name)) \($0.type)" }
            return
                "CREATE TABLE \(SQLName.quoted(table.name)) ( \(columns.joined(separator: ", ")) )"
        }
    }

    /// The statements that create the tables of many-to-many relationships.
    package var joinTables: [String] {
        schema.joinTables.map { table in
            let keys = [table.firstColumn, table.secondColumn].map(SQLName.quoted)
            let orders = [table.secondOrderColumn, table.firstOrderColumn].compactMap { $0 }
            let columns = keys + orders.map(SQLName.quoted)
            return "CREATE TABLE \(SQLName.quoted(table.name)) ( "
                + columns.map { "\($0) INTEGER" }.joined(separator: ", ")
                + ", PRIMARY KEY (\(keys.joined(separator: ", "))) )"
        }
    }

    /// The statements that create the indexes.
    var indexes: [String] { collectedIndexes.map(\.part.sql) }

    /// The indexes of the model's fetch indexes and uniqueness constraints.
    var fetchIndexes: [SQLSchemaPart] {
        collectedIndexes.filter { $0.role == .fetch }.map(\.part)
    }

    /// The indexes of every table of its shape: on references, entities and join columns.
    var fixedIndexes: [SQLSchemaPart] {
        collectedIndexes.filter { $0.role == .fixed }.map(\.part)
    }

    /// The indexes of properties marked as indexed, for old versions of Core Data.
    var legacyIndexes: [SQLSchemaPart] {
        collectedIndexes.filter { $0.role == .legacy }.map(\.part)
    }

    /// All indexes, with unique names.
    private var collectedIndexes: [(part: SQLSchemaPart, role: SQLIndexCollector.Role)] {
        var indexes = SQLIndexCollector()
        for table in schema.tables { addFixedIndexes(of: table, to: &indexes) }
        for join in schema.joinTables {
            indexes.add(
                "\(join.name)_\(join.secondColumn)_INDEX", on: join.name,
                columns: [join.secondColumn, join.firstColumn].map(SQLName.quoted))
        }
        for entity in schema.keptEntities {
            addIndexes(of: entity, to: &indexes)
            addUniquenessConstraints(of: entity, to: &indexes)
        }
        return indexes.collected
    }

    /// Adds the indexes that every table of its shape has.
    private func addFixedIndexes(of table: SQLTable, to indexes: inout SQLIndexCollector) {
        let root = schema.layout.entity(number: table.rootNumber)
        if root.hasSubentities {
            indexes.add("\(table.name)_Z_ENT_INDEX", on: table.name, columns: [SQLName.entity])
        }
        var columns: [String] = []
        for number in root.subtree {
            let entity = schema.layout.entity(number: number)
            for slot in entity.slots where slot.ownerNumber == number && slot.attribute == nil {
                if let column = schema.entity(entity).columns[slot.index] {
                    columns.append(column.name)
                }
            }
        }
        for entity in schema.keptEntities {
            for relationship in entity.relationships where relationship.ownerNumber == entity.number
            {
                if case .foreignKey(let key)? = schema.entity(entity).toMany[relationship.index],
                    !key.isInverse, key.tableName == table.name
                {
                    columns.append(key.column)
                }
            }
        }
        for column in columns {
            indexes.add(
                "\(table.name)_\(column)_INDEX", on: table.name, columns: [SQLName.quoted(column)])
        }
    }

    /// Adds fetch indexes, and their precursors in old models.
    private func addIndexes(of entity: ResolvedEntity, to indexes: inout SQLIndexCollector) {
        let table = schema.entity(entity).tableName
        for slot in entity.slots where slot.ownerNumber == entity.number {
            guard let attribute = slot.attribute, attribute.isIndexed,
                let column = schema.entity(entity).columns[slot.index]
            else { continue }
            indexes.add(
                "Z_\(entity.name)_\(attribute.name)", on: table,
                columns: ["\(SQLName.quoted(column.name)) COLLATE BINARY ASC"], role: .legacy)
        }
        for index in entity.description.indexes
        where index.elements.allSatisfy({ $0.kind == .binary }) {
            guard let columns = columns(of: index, in: entity) else { continue }
            let partial = SQLPartialIndex(entity: entity, schema: schema)
            indexes.add(
                "Z_\(entity.name)_\(index.name)", on: table, columns: columns, role: .fetch,
                condition: index.partialIndexPredicate.flatMap(partial.condition))
        }
        for properties in entity.description.compoundIndexes {
            // An index on a property of another entity is not created.
            let isItself = { $0 == FetchIndexDescription.objectItself }
            if properties.contains(where: { entity.properties[$0] == nil && !isItself($0) }) {
                continue
            }
            let columns = properties.flatMap { names(of: $0, in: entity) }
            guard !columns.isEmpty else { continue }
            indexes.add(
                "\(table)_\(columns.joined(separator: "_"))", on: table,
                columns: columns.map(SQLName.quoted), role: .legacy)
        }
    }

    /// The columns of an index; `nil` if it is not created: because it has a single relationship, which is indexed anyway, or
    /// an expression other than `entity` and a property name. Other expressions differ from SQLite's functions in detail, and
    /// an index is for speed only.
    private func columns(of index: FetchIndexDescription, in entity: ResolvedEntity) -> [String]? {
        if index.elements.count == 1, let name = index.elements[0].propertyName,
            entity.relationship(named: name) != nil
        {
            return nil
        }
        var result: [String] = []
        for element in index.elements {
            let direction = element.isAscending ? "ASC" : "DESC"
            let names: [String]
            if let property = element.propertyName {
                names = self.names(of: property, in: entity)
            } else if element.expression == "entity" {
                names = [SQLName.entity]
            } else {
                names = element.expression.map { self.names(of: $0, in: entity) } ?? []
            }
            if names.isEmpty { return nil }
            result += names.map { "\(SQLName.quoted($0)) COLLATE BINARY \(direction)" }
        }
        return result.isEmpty ? nil : result
    }

    private func addUniquenessConstraints(
        of entity: ResolvedEntity, to indexes: inout SQLIndexCollector
    ) {
        for properties in entity.description.uniquenessConstraints {
            let columns = properties.flatMap { names(of: $0, in: entity) }
            guard !columns.isEmpty else { continue }
            indexes.add(
                "Z_\(entity.name)_UNIQUE_\(properties.joined(separator: "_"))",
                on: schema.entity(entity).tableName,
                columns: columns.map { "\(SQLName.quoted($0)) COLLATE BINARY ASC" }, role: .fetch,
                unique: columns)
        }
    }

    /// The columns of an attribute, a to-one relationship or a composite's elements, or of the object itself.
    private func names(of property: String, in entity: ResolvedEntity) -> [String] {
        if property == FetchIndexDescription.objectItself { return [SQLName.primaryKey] }
        let columns = schema.entity(entity).columns
        switch entity.properties[property] {
        case .attribute(let slot): return columns[slot].map { [$0.name] } ?? []
        case .relationship(let index):
            return entity.relationships[index].slot.flatMap { columns[$0] }.map { [$0.name] } ?? []
        case .composite(let slots): return slots.compactMap { columns[$0]?.name }
        case .fetched, nil: return []
        }
    }
}

/// Collects indexes, omitting duplicate names.
private struct SQLIndexCollector {
    /// The purpose of an index.
    enum Role {
        /// Present in every table of its shape.
        case fixed
        /// Marked as indexed for old versions of Core Data.
        case legacy
        /// A fetch index or uniqueness constraint of the model.
        case fetch
    }

    private(set) var collected: [(part: SQLSchemaPart, role: Role)] = []
    private var names: Set<String> = []

    mutating func add(
        _ name: String, on table: String, columns: [String], role: Role = .fixed,
        unique: [String]? = nil, condition: String? = nil
    ) {
        // SQLite's names are case-insensitive.
        guard names.insert(name.uppercased()).inserted else { return }
        let sql =
            "CREATE \(unique == nil ? "" : "UNIQUE ")INDEX \(SQLName.quoted(name)) ON "
            + "\(SQLName.quoted(table)) (\(columns.joined(separator: ", ")))"
            + (condition.map { " WHERE \($0)" } ?? "")
        var part = SQLSchemaPart(kind: .index, name: name, sql: sql)
        part.unique = unique.map { SQLSchemaPart.Unique(table: table, columns: $0) }
        collected.append((part, role))
    }
}
