internal import QuireModel
internal import QuireSQLite
internal import QuireStore

extension StoreCheck {
    private var places: RelationshipColumns { RelationshipColumns(schema: schema) }

    /// Checks references for missing destinations.
    mutating func checkReferences() throws {
        for place in places.references {
            let name = place.relationship.name
            let entityColumn = place.entityColumn.map { "t.\($0)" } ?? "NULL"
            try each(
                """
                SELECT t.Z_PK, t.Z_ENT, t.\(place.column), d.Z_ENT, \(entityColumn) FROM \(place.table) t \
                LEFT JOIN \(place.target) d ON d.Z_PK = t.\(place.column) \
                WHERE t.Z_ENT IN \(place.owners) AND t.\(place.column) IS NOT NULL \
                AND (d.Z_PK IS NULL OR d.Z_ENT NOT IN \(place.targets)\
                \(place.entityColumn.map { " OR t.\($0) IS NOT d.Z_ENT" } ?? ""))
                """
            ) { check, row in
                let id = check.id(row.integer(0), storeNumber: row.integer(1), in: place.entity)
                let number = row.isNull(3) ? row.integer(4) : row.integer(3)
                let target = check.id(row.integer(2), storeNumber: number, in: place.destination)
                if row.isNull(3) {
                    check.add(
                        .reference,
                        "“\(name)” refers to \(target.shortDescription), which does not exist.",
                        object: id, isRepairable: true)
                } else if !place.destination.subtree.contains(target.entityNumber) {
                    check.add(
                        .reference,
                        "“\(name)” refers to \(target.shortDescription), which is not of entity \(place.destination.name).",
                        object: id, isRepairable: true)
                } else {
                    check.add(
                        .entity,
                        "“\(name)” refers to \(target.shortDescription), but states the entity number "
                            + "\(row.isNull(4) ? "NULL" : row.text(4)).",
                        object: id, isRepairable: true, isNote: check.schema.hasStrays)
                }
            }
        }
        for place in places.loneColumns {
            let (table, column) = (
                SQLName.quoted(place.key.tableName), SQLName.quoted(place.key.column)
            )
            let destination = schema.layout.destination(of: place.relationship)
            try each(
                """
                SELECT t.Z_PK, t.Z_ENT, t.\(column) FROM \(table) t WHERE t.\(column) IS NOT NULL AND NOT EXISTS \
                (SELECT 1 FROM \(place.owner) o WHERE o.Z_PK = t.\(column) AND o.Z_ENT IN \(place.owners))
                """
            ) { check, row in
                check.add(
                    .reference,
                    "it is in “\(place.relationship.name)” of \(place.entity.name)/p\(row.text(2)), which does not exist.",
                    object: check.id(row.integer(0), storeNumber: row.integer(1), in: destination),
                    isRepairable: true)
            }
        }
    }

    /// Checks that inverses agree, where both sides are stored. Core Data stores a one-to-one relationship as set by the
    /// program, possibly on one side only; in a store created by Quire that is damage.
    mutating func checkInverses() throws {
        for (one, other) in places.oneToOne {
            let sides =
                one.relationship === other.relationship
                ? [(one, other)] : [(one, other), (other, one)]
            for (this, that) in sides {
                try each(
                    """
                    SELECT t.Z_PK, t.Z_ENT, d.Z_PK, d.Z_ENT FROM \(this.table) t JOIN \(that.table) d \
                    ON d.Z_PK = t.\(this.column) WHERE t.Z_ENT IN \(this.owners) AND d.Z_ENT IN \(that.owners) \
                    AND d.\(that.column) IS NOT t.Z_PK
                    """
                ) { check, row in
                    let target = check.id(
                        row.integer(2), storeNumber: row.integer(3), in: this.destination)
                    check.add(
                        .inverse,
                        "“\(this.relationship.name)” refers to \(target.shortDescription), whose "
                            + "“\(that.relationship.name)” does not refer back.",
                        object: check.id(
                            row.integer(0), storeNumber: row.integer(1), in: this.entity),
                        isRepairable: true, isNote: check.schema.hasStrays)
                }
            }
        }
        try countToMany()
    }

    private mutating func countToMany() throws {
        for (entity, relationship, place) in places.ownToMany {
            let destination = schema.layout.destination(of: relationship)
            let target = SQLName.quoted(schema.entity(destination).tableName)
            let targets = StorageClassCheck.list(schema.entity(destination).subtreeStoreNumbers)
            let owner = SQLName.quoted(schema.entity(entity).tableName)
            let owners = StorageClassCheck.list(schema.entity(entity).subtreeStoreNumbers)
            let sql: String
            switch place {
            case .nowhere: continue
            case .foreignKey(let key):
                sql =
                    "SELECT count(*) FROM \(target) d JOIN \(owner) o ON o.Z_PK = d.\(SQLName.quoted(key.column)) "
                    + "WHERE d.Z_ENT IN \(targets) AND o.Z_ENT IN \(owners)"
            case .join(let join):
                sql =
                    "SELECT count(*) FROM \(SQLName.quoted(join.tableName)) j "
                    + "JOIN \(target) d ON d.Z_PK = j.\(SQLName.quoted(join.targetColumn)) "
                    + "JOIN \(owner) o ON o.Z_PK = j.\(SQLName.quoted(join.sourceColumn)) "
                    + "WHERE d.Z_ENT IN \(targets) AND o.Z_ENT IN \(owners)"
            }
            count(references: Int(try connection.integer(sql) ?? 0))
            try checkCount(of: relationship, entity, place)
        }
    }

    /// Checks the number of related objects against the model's minimum and maximum counts.
    private mutating func checkCount(
        of relationship: ResolvedEntity.Relationship, _ entity: ResolvedEntity, _ place: SQLToMany
    ) throws {
        guard relationship.hasCountRules else { return }
        guard let members = place.rowsOfOwner else { return }
        let isNote = !store.carriesModel
        try each(
            """
            SELECT * FROM (SELECT o.Z_PK, o.Z_ENT, (SELECT count(*) FROM \(members)) AS found FROM \
            \(SQLName.quoted(schema.entity(entity).tableName)) o WHERE o.Z_ENT IN \
            \(StorageClassCheck.list(schema.entity(entity).subtreeStoreNumbers))) WHERE \(relationship.countViolationSQL(column: "found"))
            """
        ) { check, row in
            let count = row.integer(2)
            check.add(
                .validation,
                "“\(relationship.name)” refers to \(count) objects, which the model does not allow.",
                object: check.id(row.integer(0), storeNumber: row.integer(1), in: entity),
                isNote: isNote)
        }
    }

    /// Whether pairs are of objects that are there.
    mutating func checkJoinTables() throws {
        for join in schema.joinTables {
            let table = SQLName.quoted(join.name)
            let ends = places.ends(of: join)
            for end in ends {
                try each(
                    """
                    SELECT j.\(ends[0].column), j.\(ends[1].column) FROM \(table) j WHERE NOT EXISTS \
                    (SELECT 1 FROM \(end.table) e WHERE e.Z_PK = j.\(end.column) AND e.Z_ENT IN \(end.numbers))
                    """
                ) { check, row in
                    func key(_ index: Int32) -> String {
                        row.isNull(index) ? "NULL" : row.text(index)
                    }
                    check.add(
                        .reference,
                        "\(join.name) pairs \(ends[0].entity.name)/p\(key(0)) with \(ends[1].entity.name)/p\(key(1)), "
                            + "but that \(end.entity.name) does not exist.",
                        table: join.name, isRepairable: true)
                }
            }
            guard join.isReflexive else { continue }
            let (first, second) = (ends[0].column, ends[1].column)
            try each(
                """
                SELECT j.\(first), j.\(second) FROM \(table) j WHERE NOT EXISTS (SELECT 1 FROM \(table) k \
                WHERE k.\(first) = j.\(second) AND k.\(second) = j.\(first))
                """
            ) { check, row in
                let name = ends[0].entity.relationships[join.namingSide.index].name
                check.add(
                    .inverse,
                    "“\(name)” of \(ends[0].entity.name)/p\(row.text(0)) refers to \(ends[0].entity.name)/p\(row.text(1)), "
                        + "whose “\(name)” does not refer back.", table: join.name,
                    isRepairable: true)
            }
        }
    }

    /// Checks that members of ordered relationships have distinct order values.
    mutating func checkOrders() throws {
        let isNote = schema.hasStrays
        for order in places.orders {
            try each(RepairStatements.disorderedOwners(order)) { check, row in
                check.add(
                    .order,
                    "Not all objects in “\(order.relationship.name)” of \(order.entity.name)/p\(row.text(0)) have a "
                        + "distinct position in its order.", table: order.table, isRepairable: true,
                    isNote: isNote)
            }
        }
    }

    /// Checks uniqueness constraints.
    mutating func checkUniqueness() throws {
        for entity in schema.keptEntities {
            let place = schema.entity(entity)
            for constraint in entity.uniquenessConstraints
            where constraint.ownerNumber == entity.number {
                let columns = constraint.properties.flatMap { property -> [String] in
                    switch entity.properties[property] {
                    case .attribute(let slot)?: [place.columns[slot]?.name].compactMap { $0 }
                    case .relationship(let index)?:
                        [entity.relationships[index].slot.flatMap { place.columns[$0]?.name }]
                            .compactMap { $0 }
                    case .composite(let slots)?: slots.compactMap { place.columns[$0]?.name }
                    case .fetched?, nil: []
                    }
                }.map(SQLName.quoted)
                guard !columns.isEmpty else { continue }
                let list = columns.joined(separator: ", ")
                let names = constraint.properties.map { "“\($0)”" }.joined(separator: " and ")
                try each(
                    "SELECT count(*), min(Z_PK), max(Z_PK) FROM \(SQLName.quoted(place.tableName)) WHERE Z_ENT IN "
                        + "\(StorageClassCheck.list(place.subtreeStoreNumbers)) AND "
                        + columns.map { "\($0) IS NOT NULL" }.joined(separator: " AND ")
                        + " GROUP BY \(list) HAVING count(*) > 1"
                ) { check, row in
                    check.add(
                        .uniqueness,
                        "\(row.integer(0)) objects of “\(entity.name)”, p\(row.integer(1)) and p\(row.integer(2)) among them, "
                            + "have the same \(names), which must be unique.",
                        table: place.tableName)
                }
            }
        }
    }
}
