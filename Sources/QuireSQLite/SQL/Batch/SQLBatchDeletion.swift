internal import QuireModel

/// The SQL of a batch deletion.
///
/// The objects to delete are collected in a temporary table, in rounds: those matching the request are round 0, those deleted
/// by cascade from these are round 1, and so on. Objects whose reference is nullified are collected in another. The tables may
/// exceed memory.
struct SQLBatchDeletion {
    let schema: SQLSchema
    private var layout: ResolvedModel { schema.layout }

    /// The objects to delete: the number of the root entity in the model, primary key, `Z_ENT`, round.
    static let deleted: SQLFragment = "temp.QUIRE_DELETED"
    /// The objects with a nullified reference: the number of the root entity in the model, primary key.
    static let touched: SQLFragment = "temp.QUIRE_TOUCHED"

    /// Creates the empty tables.
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

    // MARK: - Collecting

    /// Collects the results of a query of primary keys `k` and entity numbers `e`.
    func collect(_ query: SQLFragment, rootNumber: Int) -> SQLFragment {
        "INSERT OR IGNORE INTO \(Self.deleted) SELECT \(rootNumber), k, e, 0 FROM (\(query))"
    }

    /// Collects the object with a primary key, if it exists and is of the entity.
    func collectOne(_ entity: ResolvedEntity) -> SQLFragment {
        let place = schema.entity(entity)
        let numbers = place.subtreeStoreNumbers.map { SQLFragment(sql: String($0)) }
        return
            "INSERT OR IGNORE INTO \(Self.deleted) SELECT \(entity.rootNumber), Z_PK, Z_ENT, 0 FROM \(name: place.tableName) WHERE Z_PK = ? AND Z_ENT IN (\(numbers.joined(by: ", ")))"
    }

    /// Collects, as the next round, the destinations of a relationship for an entity's objects of the round given as the only
    /// parameter.
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

    /// Selects pairs of a deleted object and a remaining destination of a relationship: both primary keys, and the number of
    /// the destination's entity.
    func remaining(
        _ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity
    ) -> SQLFragment? {
        related(relationship, of: entity).map {
            "SELECT x.Z_PK, d.Z_PK, d.Z_ENT \($0) AND \(isKept(relationship))"
        }
    }

    /// Selects remaining objects whose to-one relationship, the inverse of one of deleted objects, refers to these.
    private func referring(
        _ relationship: ResolvedEntity.Relationship, of entity: ResolvedEntity,
        _ column: SQLSlotColumn
    ) -> SQLFragment {
        let table = schema.entity(number: relationship.destinationNumber).tableName
        return
            "FROM \(Self.deleted) x CROSS JOIN \(name: table) d ON d.\(name: column.name) = x.Z_PK WHERE x.Z_ENT = \(number(entity)) AND \(isKept(relationship))"
    }

    /// The statements that nullify references of remaining objects to deleted ones.
    struct Clearing {
        /// Selects an object whose reference is required: its primary key and entity number. `nil` if the reference is
        /// optional.
        let required: SQLFragment?
        /// Collects the objects.
        let collect: SQLFragment
        /// Nullifies the reference.
        let clear: SQLFragment
    }

    /// The statements that nullify references to deleted objects, if the relationship's inverse stores one.
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

    /// Collects for ``SQLiteCountCheck`` the remaining objects whose to-many relationship, the inverse of one of deleted
    /// objects, has count constraints.
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

    /// Removes the storage of deleted objects' to-many relationships elsewhere: rows of join tables, and columns of
    /// relationships without inverse.
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

    /// The condition that a row of a root entity's table is collected for deletion.
    static func isDeleted(rootNumber: Int) -> SQLFragment {
        "Z_PK IN (SELECT Z_PK FROM \(deleted) WHERE Z_ROOT = \(rootNumber))"
    }

    /// Deletes the collected rows of a root entity's table.
    func delete(rootNumber: Int) -> SQLFragment {
        "DELETE FROM \(name: schema.entity(number: rootNumber).tableName) WHERE \(Self.isDeleted(rootNumber: rootNumber))"
    }

    /// Increments the versions of objects in a root entity's table with a nullified reference.
    func raiseVersions(rootNumber: Int) -> SQLFragment {
        "UPDATE \(name: schema.entity(number: rootNumber).tableName) SET Z_OPT = ifnull(Z_OPT, 0) + 1 WHERE Z_PK IN (SELECT Z_PK FROM \(Self.touched) WHERE Z_ROOT = \(rootNumber))"
    }

    /// Selects primary key and entity number of objects in a root entity's table with a nullified reference.
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

    /// The FROM clause and condition for deleted objects `x` and destinations `d` of a relationship; `nil` without storage. The
    /// join order is fixed: deleted objects first.
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
