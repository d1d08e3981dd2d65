internal import QuireModel

/// The SQL of a batch deletion.
///
/// The objects to delete are collected in one temporary table, by rounds: those asked for are round 0, those that they
/// take along by cascade are round 1, and so on. Objects that lose a reference are collected in another. The tables may
/// grow larger than memory.
struct SQLBatchDeletion {
    let schema: SQLSchema
    private var layout: ResolvedModel { schema.layout }

    /// The objects to delete: the number of the root entity in the model, primary key, `Z_ENT`, round.
    static let deleted: SQLFragment = "temp.QUIRE_DELETED"
    /// Objects that lose a reference: the number of the root entity in the model, primary key.
    static let touched: SQLFragment = "temp.QUIRE_TOUCHED"

    /// Makes the tables, empty.
    static let begin = """
        CREATE TABLE IF NOT EXISTS temp.QUIRE_DELETED \
        (Z_ROOT INTEGER, Z_PK INTEGER, Z_ENT INTEGER, Z_ROUND INTEGER, PRIMARY KEY (Z_ROOT, Z_PK)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS temp.QUIRE_DELETED_ROUND ON QUIRE_DELETED (Z_ENT, Z_ROUND);
        CREATE TABLE IF NOT EXISTS temp.QUIRE_TOUCHED \
        (Z_ROOT INTEGER, Z_PK INTEGER, PRIMARY KEY (Z_ROOT, Z_PK)) WITHOUT ROWID;
        DELETE FROM temp.QUIRE_DELETED;
        DELETE FROM temp.QUIRE_TOUCHED
        """

    /// Empties the tables.
    static let end = "DELETE FROM temp.QUIRE_DELETED; DELETE FROM temp.QUIRE_TOUCHED"

    // MARK: - Which

    /// Collects the objects that a query of primary keys `k` and entity numbers `e` finds.
    func collect(_ query: SQLFragment, rootNumber: Int) -> SQLFragment {
        "INSERT OR IGNORE INTO \(Self.deleted) SELECT \(rootNumber), k, e, 0 FROM (\(query))"
    }

    /// Collects the object that has a primary key, if there is one of the entity.
    func collectOne(_ entity: ResolvedEntity) -> SQLFragment {
        let place = schema.entity(entity)
        let numbers = place.subtreeStoreNumbers.map { SQLFragment(sql: String($0)) }
        return
            "INSERT OR IGNORE INTO \(Self.deleted) SELECT \(entity.rootNumber), Z_PK, Z_ENT, 0 FROM \(name: place.tableName) WHERE Z_PK = ? AND Z_ENT IN (\(numbers.joined(by: ", ")))"
    }

    /// Collects, as the next round, what a relationship of the objects of an entity leads to that are of the round given
    /// as the only parameter.
    func cascade(_ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity)
        -> SQLFragment?
    {
        related(relationship, of: entity, round: "AND x.Z_ROUND = ?1").map {
            "INSERT OR IGNORE INTO \(Self.deleted) SELECT \(root(relationship)), d.Z_PK, d.Z_ENT, ?1 + 1 \($0)"
        }
    }

    /// The entities of the objects of a round, given as the only parameter.
    static let entitiesOfRound: SQLFragment =
        "SELECT DISTINCT Z_ENT FROM temp.QUIRE_DELETED WHERE Z_ROUND = ?1"

    // MARK: - Related objects

    /// Selects pairs of a deleted object and one that stays, to which a relationship leads: both primary keys, and the
    /// number of the second one's entity.
    func remaining(
        _ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity
    ) -> SQLFragment? {
        related(relationship, of: entity).map {
            "SELECT x.Z_PK, d.Z_PK, d.Z_ENT \($0) AND \(isKept(relationship))"
        }
    }

    /// Selects objects that stay and whose to-one relationship, the inverse of one of deleted objects, leads to these.
    private func referring(
        _ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity,
        _ column: SQLSlotColumn
    ) -> SQLFragment {
        let table = schema.entity(number: relationship.destinationNumber).tableName
        return
            "FROM \(Self.deleted) x CROSS JOIN \(name: table) d ON d.\(name: column.name) = x.Z_PK WHERE x.Z_ENT = \(number(entity)) AND \(isKept(relationship))"
    }

    /// What it takes to have objects that stay lose their reference to deleted ones.
    struct Clearing {
        /// Selects one that must not: its primary key, and the number of its entity. `nil` if all may.
        let required: SQLFragment?
        /// Collects them.
        let collect: SQLFragment
        /// Clears the reference.
        let clear: SQLFragment
    }

    /// Has objects that stay lose their reference to deleted ones, if the relationship's inverse keeps one.
    func clearing(_ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity)
        -> Clearing?
    {
        guard let inverse = layout.inverse(of: relationship), let slot = inverse.slot,
            !relationship.description.isTransient
        else { return nil }
        let place = schema.entity(number: relationship.destinationNumber)
        guard let column = place.columns[slot] else { return nil }
        let found = referring(relationship, of: entity, column)
        return Clearing(
            required: inverse.description.isOptional
                ? nil : "SELECT d.Z_PK, d.Z_ENT \(found) LIMIT 1",
            collect:
                "INSERT OR IGNORE INTO \(Self.touched) SELECT \(root(relationship)), d.Z_PK \(found)",
            clear: clear(
                [column.name, column.entityColumn, column.orderColumn], in: place.tableName,
                where: "Z_PK IN (SELECT d.Z_PK \(found))"))
    }

    /// Collects for ``SQLiteCountCheck`` the objects that stay and whose to-many relationship, the inverse of one of deleted
    /// objects, has rules about how many it leads to.
    func owners(
        _ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity,
        into table: SQLFragment
    ) -> SQLFragment? {
        guard let inverse = layout.inverse(of: relationship), inverse.hasCountRules else {
            return nil
        }
        return related(relationship, of: entity).map {
            "INSERT OR IGNORE INTO \(table) SELECT \(inverse.ownerNumber), \(inverse.index), d.Z_PK \($0) AND \(isKept(relationship))"
        }
    }

    /// Removes what the to-many relationships of deleted objects of an entity keep elsewhere: pairs, and columns of
    /// relationships without an inverse.
    func forget(_ entity: ResolvedEntity) -> [SQLFragment] {
        let keys: SQLFragment =
            "SELECT Z_PK FROM \(Self.deleted) WHERE Z_ENT = \(number(entity))"
        var statements: [SQLFragment] = []
        for case let place? in schema.entity(entity).toMany {
            switch place {
            case .join(let join):
                let sides =
                    join.isReflexive ? [join.sourceColumn, join.targetColumn] : [join.sourceColumn]
                for side in sides {
                    statements.append(
                        "DELETE FROM \(name: join.tableName) WHERE \(name: side) IN (\(keys))")
                }
            case .foreignKey(let key) where !key.isInverse:
                statements.append(
                    clear(
                        [key.column, key.entityColumn, key.orderColumn], in: key.tableName,
                        where: "\(name: key.column) IN (\(keys))"))
            case .foreignKey, .nowhere: break
            }
        }
        return statements
    }

    // MARK: - Rows

    /// The condition that a row of the table of a root entity is deleted.
    static func isDeleted(rootNumber: Int) -> SQLFragment {
        "Z_PK IN (SELECT Z_PK FROM \(deleted) WHERE Z_ROOT = \(rootNumber))"
    }

    /// Deletes the rows of a root entity's table.
    func delete(rootNumber: Int) -> SQLFragment {
        "DELETE FROM \(name: schema.entity(number: rootNumber).tableName) WHERE \(Self.isDeleted(rootNumber: rootNumber))"
    }

    /// Raises the versions of those objects of a root entity's table that lost a reference.
    func raiseVersions(rootNumber: Int) -> SQLFragment {
        "UPDATE \(name: schema.entity(number: rootNumber).tableName) SET Z_OPT = ifnull(Z_OPT, 0) + 1 WHERE Z_PK IN (SELECT Z_PK FROM \(Self.touched) WHERE Z_ROOT = \(rootNumber))"
    }

    /// Selects primary key and entity number of those objects of a root entity's table that lost a reference.
    func touchedObjects(rootNumber: Int) -> SQLFragment {
        "SELECT t.Z_PK, t.Z_ENT FROM \(Self.touched) x CROSS JOIN \(name: schema.entity(number: rootNumber).tableName) t ON t.Z_PK = x.Z_PK WHERE x.Z_ROOT = \(rootNumber)"
    }

    // MARK: - Parts

    private func number(_ entity: ResolvedEntity) -> Int { schema.entity(entity).storeNumber }

    private func root(_ relationship: ResolvedEntity.Relationship) -> Int {
        layout.destination(of: relationship).rootNumber
    }

    private func isKept(_ relationship: ResolvedEntity.Relationship) -> SQLFragment {
        "NOT EXISTS (SELECT 1 FROM \(Self.deleted) y WHERE y.Z_ROOT = \(root(relationship)) AND y.Z_PK = d.Z_PK)"
    }

    private func clear(
        _ columns: [String?], in table: String, where condition: SQLFragment
    ) -> SQLFragment {
        let assignments = columns.compactMap { $0 }.map { name -> SQLFragment in
            "\(name: name) = NULL"
        }
        return
            "UPDATE \(name: table) SET \(assignments.joined(by: ", ")) WHERE \(condition)"
    }

    /// What follows the columns of a query of deleted objects `x` and objects `d` to which a relationship of them leads;
    /// `nil` if the store keeps nothing of it. The deleted objects come first, whatever SQLite thinks.
    private func related(
        _ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity,
        round: SQLFragment = ""
    ) -> SQLFragment? {
        if relationship.description.isTransient { return nil }
        let destination: SQLFragment =
            "\(name: schema.entity(number: relationship.destinationNumber).tableName) d"
        let joins: SQLFragment
        if let slot = relationship.slot {
            let place = schema.entity(entity)
            guard let column = place.columns[slot]?.name else { return nil }
            joins =
                "CROSS JOIN \(name: place.tableName) s ON s.Z_PK = x.Z_PK CROSS JOIN \(destination) ON d.Z_PK = s.\(name: column)"
        } else {
            switch schema.toMany(relationship, of: entity) {
            case .nowhere: return nil
            case .foreignKey(let key):
                joins = "CROSS JOIN \(destination) ON d.\(name: key.column) = x.Z_PK"
            case .join(let join):
                joins =
                    "CROSS JOIN \(name: join.tableName) j ON j.\(name: join.sourceColumn) = x.Z_PK CROSS JOIN \(destination) ON d.Z_PK = j.\(name: join.targetColumn)"
            }
        }
        return "FROM \(Self.deleted) x \(joins) WHERE x.Z_ENT = \(number(entity)) \(round)"
    }
}
