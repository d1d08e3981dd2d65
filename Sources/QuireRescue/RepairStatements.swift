import Foundation
internal import QuireModel
internal import QuireSQLite
internal import QuireStore

/// Repairs the tables of a store with SQL, within the caller's transaction, on a private copy.
///
/// Nothing is guessed: only dangling references are removed, and additions follow from existing rows.
struct RepairStatements {
    let schema: SQLSchema
    let connection: SQLiteConnection
    let externalData: ExternalDataFolder
    /// Whether the rows were just recovered. Then unreadable values are removed even from required attributes, and the entity
    /// columns of references have not been set yet.
    let isRecovery: Bool
    /// Completed repairs, one sentence each.
    private(set) var actions: [String] = []
    private var places: RelationshipColumns { RelationshipColumns(schema: schema) }

    /// Does all of it.
    ///
    /// - Complexity: O(*n*) in rows and references.
    mutating func run() throws {
        try mendEntityNumbers()
        try mendVersions()
        try mendValues()
        try mendExternalValues()
        try dropDanglingReferences()
        try pairOneToOne()
        try mendEntityColumns()
        try mendJoinTables()
        try mendOrders()
        try mendGreatestKeys()
    }

    /// - Parameters:
    ///   - noun: The kind of the changed rows, in the singular.
    ///   - sentence: The description of the repair, given the count.
    private mutating func change(
        _ sql: String, _ noun: String, _ sentence: (String) -> String
    ) throws {
        try connection.execute(sql)
        note(connection.changeCount, noun, sentence)
    }

    private mutating func note(_ count: Int, _ noun: String, _ sentence: (String) -> String) {
        if count == 0 { return }
        actions.append(sentence(count == 1 ? "1 \(noun)" : "\(count) \(noun)s"))
    }

    // MARK: - Rows

    /// In a table of a single entity all rows have its number.
    private mutating func mendEntityNumbers() throws {
        if schema.hasStrays { return }
        for table in schema.tables {
            let root = schema.layout.entity(number: table.rootNumber)
            if root.hasSubentities { continue }
            let number = schema.entity(root).storeNumber
            try change(
                "UPDATE \(SQLName.quoted(table.name)) SET Z_ENT = \(number) WHERE Z_ENT IS NOT \(number)",
                "row"
            ) { "Set the entity number of \($0) of \(table.name) to \(number)." }
        }
    }

    private mutating func mendVersions() throws {
        for table in schema.tables {
            try change(
                "UPDATE \(SQLName.quoted(table.name)) SET Z_OPT = 1 WHERE typeof(Z_OPT) <> 'integer' "
                    + "OR Z_OPT NOT BETWEEN 1 AND \(UInt32.max)", "row"
            ) { "Set the version of \($0) of \(table.name) to 1." }
        }
    }

    private mutating func mendValues() throws {
        for (entity, slot, column) in places.attributes {
            let place = schema.entity(entity)
            let table = SQLName.quoted(place.tableName)
            let isOfEntity = "Z_ENT IN \(StorageClassCheck.list(place.subtreeStoreNumbers))"
            let title = "“\(entity.name).\(slot.name)”"
            if slot.isExternalCapable {
                // A value with neither tag was written without one by another program.
                try change(
                    "UPDATE \(table) SET \(column) = CAST(x'01' || \(column) AS BLOB) WHERE \(isOfEntity) "
                        + "AND typeof(\(column)) = 'blob' AND substr(\(column), 1, 1) NOT IN (x'01', x'02')",
                    "value"
                ) { "Added the missing tag to \($0) of \(title)." }
            }
            guard slot.attribute?.isOptional == true || isRecovery else { continue }
            try change(
                "UPDATE \(table) SET \(column) = NULL WHERE \(isOfEntity) AND \(column) IS NOT NULL "
                    + "AND NOT \(StorageClassCheck.isReadable(slot, column))", "value"
            ) { "Removed \($0) of \(title) that cannot be read." }
        }
    }

    /// Clears values with missing files.
    private mutating func mendExternalValues() throws {
        for (entity, slot, column) in places.attributes where slot.isExternalCapable {
            guard slot.attribute?.isOptional == true || isRecovery else { continue }
            let place = schema.entity(entity)
            let table = SQLName.quoted(place.tableName)
            var missing: [Int64] = []
            let externalData = externalData
            try connection.forEachRow(
                "SELECT Z_PK, \(column) FROM \(table) WHERE substr(\(column), 1, 1) = x'02' "
                    + "AND Z_ENT IN \(StorageClassCheck.list(place.subtreeStoreNumbers))"
            ) {
                let name = $0.data(1).withUnsafeBytes(ExternalDataTag.fileName)
                // Directory entries that are not files stay, for the user to inspect.
                if name.map(externalData.lacksFile) ?? true { missing.append($0.integer(0)) }
            }
            for key in missing {
                try connection.run("UPDATE \(table) SET \(column) = NULL WHERE Z_PK = ?", key)
            }
            note(missing.count, "value") {
                "Removed \($0) of “\(entity.name).\(slot.name)” whose files are missing."
            }
        }
    }

    // MARK: - References

    private mutating func dropDanglingReferences() throws {
        for place in places.references {
            let others = [place.entityColumn, place.orderColumn].compactMap { $0 }
                .map { ", \($0) = NULL" }.joined()
            try change(
                """
                UPDATE \(place.table) SET \(place.column) = NULL\(others) WHERE \(place.isSet) AND NOT EXISTS \
                (SELECT 1 FROM \(place.target) d WHERE d.Z_PK = \(place.table).\(place.column) \
                AND d.Z_ENT IN \(place.targets))
                """, "reference"
            ) {
                "Cleared \($0) of “\(place.entity.name).\(place.relationship.name)” to objects that do not exist."
            }
        }
        for place in places.loneColumns {
            let (table, column) = (
                SQLName.quoted(place.key.tableName), SQLName.quoted(place.key.column)
            )
            let others = [place.key.entityColumn, place.key.orderColumn].compactMap { $0 }
                .map { ", \(SQLName.quoted($0)) = NULL" }.joined()
            try change(
                """
                UPDATE \(table) SET \(column) = NULL\(others) WHERE \(column) IS NOT NULL AND NOT EXISTS \
                (SELECT 1 FROM \(place.owner) o WHERE o.Z_PK = \(table).\(column) AND o.Z_ENT IN \(place.owners))
                """, "object"
            ) {
                "Removed \($0) from “\(place.entity.name).\(place.relationship.name)” of objects that do not exist."
            }
        }
    }

    /// Makes both sides of one-to-one relationships consistent: matching pairs stay, a NULL side is set from the other side,
    /// and references that contradict a pair are cleared.
    private mutating func pairOneToOne() throws {
        if schema.hasStrays { return }
        for (one, other) in places.oneToOne {
            var count = 0
            let sides =
                one.relationship === other.relationship
                ? [(one, other)] : [(one, other), (other, one)]
            for (this, that) in sides {
                try connection.execute(
                    """
                    UPDATE \(this.table) SET \(this.column) = NULL WHERE \(this.isSet) AND EXISTS \
                    (SELECT 1 FROM \(that.table) b JOIN \(this.table) a ON a.Z_PK = b.\(that.column) \
                    WHERE b.Z_PK = \(this.table).\(this.column) AND a.\(this.column) = b.Z_PK \
                    AND a.Z_PK <> \(this.table).Z_PK)
                    """)
                count += connection.changeCount
            }
            for (this, that) in sides {
                let owner =
                    "(SELECT min(b.Z_PK) FROM \(that.table) b WHERE b.\(that.column) = \(this.table).Z_PK "
                    + "AND b.Z_ENT IN \(that.owners))"
                try connection.execute(
                    "UPDATE \(this.table) SET \(this.column) = \(owner) WHERE \(this.table).\(this.column) IS NULL "
                        + "AND \(this.table).Z_ENT IN \(this.owners) AND \(owner) IS NOT NULL")
                count += connection.changeCount
            }
            for (this, that) in sides + sides {
                try connection.execute(
                    """
                    UPDATE \(this.table) SET \(this.column) = NULL WHERE \(this.isSet) AND \
                    (SELECT b.\(that.column) FROM \(that.table) b WHERE b.Z_PK = \(this.table).\(this.column)) \
                    IS NOT \(this.table).Z_PK
                    """)
                count += connection.changeCount
            }
            note(count, "object") {
                "Made “\(one.entity.name).\(one.relationship.name)” and “\(other.entity.name)."
                    + "\(other.relationship.name)” agree on \($0)."
            }
        }
    }

    private mutating func mendEntityColumns() throws {
        for place in places.references {
            guard let column = place.entityColumn else { continue }
            let number =
                "(SELECT d.Z_ENT FROM \(place.target) d WHERE d.Z_PK = \(place.table).\(place.column))"
            let sql =
                "UPDATE \(place.table) SET \(column) = \(number) WHERE \(place.isSet) AND \(column) IS NOT \(number)"
            if isRecovery {
                try connection.execute(sql)
                continue
            }
            try change(sql, "reference") {
                "Set the entity of \($0) of “\(place.entity.name).\(place.relationship.name)”."
            }
        }
    }

    private mutating func mendJoinTables() throws {
        for join in schema.joinTables {
            let table = SQLName.quoted(join.name)
            let ends = places.ends(of: join)
            let isWhole = ends.map {
                "EXISTS (SELECT 1 FROM \($0.table) e WHERE e.Z_PK = \(table).\($0.column) AND e.Z_ENT IN \($0.numbers))"
            }.joined(separator: " AND ")
            try change("DELETE FROM \(table) WHERE NOT (\(isWhole))", "pair") {
                "Removed \($0) of objects that do not exist from \(join.name)."
            }
            guard join.isReflexive else { continue }
            let columns = "\(ends[0].column), \(ends[1].column)"
            try change(
                "INSERT OR IGNORE INTO \(table) (\(columns)) SELECT \(ends[1].column), \(ends[0].column) FROM \(table)",
                "pair"
            ) { "Added the other direction of \($0) to \(join.name)." }
        }
    }

    private mutating func mendOrders() throws {
        for order in places.orders {
            let (owner, key) = (order.ownerColumn, order.orderColumn)
            try change(
                """
                UPDATE \(order.table) SET \(key) = r.n FROM \
                (SELECT rowid AS p, row_number() OVER (PARTITION BY \(owner) ORDER BY \(key) IS NULL, \(key), rowid) \
                * \(SQLOrderKeys.step) + \(SQLOrderKeys.first - SQLOrderKeys.step) AS n FROM \(order.table) \
                WHERE \(order.condition) AND \(owner) IN (\(Self.disorderedOwners(order)))) r \
                WHERE \(order.table).rowid = r.p AND \(key) IS NOT r.n
                """, "object"
            ) {
                "Renumbered \($0) of “\(order.entity.name).\(order.relationship.name)”, in the same order."
            }
        }
    }

    /// Selects the owners whose objects are not all in an order.
    static func disorderedOwners(_ order: RelationshipColumns.Order) -> String {
        """
        SELECT \(order.ownerColumn) FROM \(order.table) WHERE \(order.ownerColumn) IS NOT NULL AND \(order.condition) \
        GROUP BY \(order.ownerColumn) HAVING count(\(order.orderColumn)) < count(*) \
        OR count(DISTINCT \(order.orderColumn)) < count(*)
        """
    }

    // MARK: - Metadata

    private mutating func mendGreatestKeys() throws {
        for table in schema.tables {
            let root = schema.entity(number: table.rootNumber)
            let greatest =
                "(SELECT coalesce(max(Z_PK), 0) FROM \(SQLName.quoted(table.name)) WHERE \(StorageClassCheck.isKey("Z_PK")))"
            try change(
                "UPDATE Z_PRIMARYKEY SET Z_MAX = \(greatest) WHERE Z_ENT = \(root.storeNumber) "
                    + "AND (typeof(Z_MAX) <> 'integer' OR Z_MAX < \(greatest))", "row"
            ) { _ in "Set the greatest key of \(table.name) in Z_PRIMARYKEY." }
        }
    }

    /// Recomputes derived attributes.
    mutating func deriveAnew() throws {
        if schema.layout.derivations.isEmpty { return }
        var done: Set<String> = []
        for part in SQLDerivedTriggers(schema: schema).parts {
            guard let filling = part.filling, done.insert(filling).inserted else { continue }
            try connection.execute(filling)
        }
        let rows = SQLiteDerivedRows(schema: schema, connection: connection)
        try rows.writeAll()
        try rows.checkAll()
    }
}
