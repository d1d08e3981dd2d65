package import QuireModel
internal import QuireSystem

/// Relationships are written when all objects are there.
extension SQLiteBulkLoad {
    package func relate(
        _ owner: ManagedObjectID, through relationship: EntityLayout.Relationship,
        to members: [ManagedObjectID]
    ) throws {
        let entity = schema.layout.entity(number: owner.entityNumber)
        guard relationship.isToMany else {
            try refer(owner, relationship, to: members.first)
            if let member = members.first, let inverse = schema.layout.inverse(of: relationship) {
                let back = schema.layout.entity(number: member.entityNumber)
                    .relationships[inverse.index]
                if back.isToMany {
                    // The column is the owner's own.
                } else {
                    try requireFree(member, back, for: owner)
                    try refer(member, back, to: owner)
                }
            }
            return
        }
        switch schema.toMany(relationship, of: entity) {
        case .foreignKey(let key): try point(members, to: owner, key)
        case .join(let join): try pair(owner, members, join)
        case .nowhere:
            preconditionFailure("A fresh schema has a place for every relationship.")
        }
    }

    /// Sets the column of a to-one relationship.
    private func refer(
        _ owner: ManagedObjectID, _ relationship: EntityLayout.Relationship,
        to member: ManagedObjectID?
    ) throws {
        let place = schema.entity(number: owner.entityNumber)
        guard let column = relationship.slot.flatMap({ place.columns[$0] }) else { return }
        var assignments = "\(SQLName.quoted(column.name)) = ?2"
        if let entityColumn = column.entityColumn {
            let number = member.map { schema.entity(number: $0.entityNumber).storeNumber }
            assignments +=
                ", \(SQLName.quoted(entityColumn)) = \(number.map(String.init) ?? "NULL")"
        }
        try connection.withStatement(
            "UPDATE \(SQLName.quoted(place.tableName)) SET \(assignments) WHERE Z_PK = ?1"
        ) {
            try $0.bind(owner.primaryKey, at: 1)
            if let member { try $0.bind(member.primaryKey, at: 2) }
            try $0.run()
        }
    }

    /// Fails if an object that one other may refer to is referred to already.
    private func requireFree(
        _ member: ManagedObjectID, _ back: EntityLayout.Relationship, for owner: ManagedObjectID
    ) throws {
        let place = schema.entity(number: member.entityNumber)
        guard let column = back.slot.flatMap({ place.columns[$0] }) else { return }
        let found = try connection.integer(
            "SELECT \(SQLName.quoted(column.name)) FROM \(SQLName.quoted(place.tableName)) "
                + "WHERE Z_PK = ?", member.primaryKey)
        guard let found, found != owner.primaryKey else { return }
        throw QuireError(
            .validation,
            "“\(back.name)” of \(member.shortDescription) would lead to two objects, \(owner.entityName)/p\(found) and "
                + "\(owner.shortDescription), and takes one; remove one of them, or map the relationship by a policy.",
            subject: .init(
                entity: member.entityName, property: back.name, object: member.uriRepresentation))
    }

    /// Makes members point to their owner, in their order.
    private func point(
        _ members: [ManagedObjectID], to owner: ManagedObjectID, _ key: SQLForeignKey
    ) throws {
        let number = schema.entity(number: owner.entityNumber).storeNumber
        var assignments = "\(SQLName.quoted(key.column)) = ?1"
        if let column = key.entityColumn {
            assignments += ", \(SQLName.quoted(column)) = \(number)"
        }
        if let column = key.orderColumn { assignments += ", \(SQLName.quoted(column)) = ?3" }
        try connection.withStatement(
            "UPDATE \(SQLName.quoted(key.tableName)) SET \(assignments) WHERE Z_PK = ?2"
        ) { statement in
            for (member, order) in zip(
                members, SQLOrderKeys.appending(members.count, after: nil))
            {
                try statement.bind(owner.primaryKey, at: 1)
                try statement.bind(member.primaryKey, at: 2)
                if key.orderColumn != nil { try statement.bind(order, at: 3) }
                try statement.run()
            }
        }
    }

    /// Pairs members with their owner, in their order. Pairs may be there already, from the other side.
    private func pair(
        _ owner: ManagedObjectID, _ members: [ManagedObjectID], _ join: SQLJoin
    ) throws {
        let table = SQLName.quoted(join.tableName)
        let (source, target) = (
            SQLName.quoted(join.sourceColumn), SQLName.quoted(join.targetColumn)
        )
        let order = join.orderColumn.map(SQLName.quoted)
        let sql =
            "INSERT INTO \(table) (\(source), \(target)\(order.map { ", " + $0 } ?? "")) VALUES (?1, ?2"
            + (order == nil ? "" : ", ?3") + ") ON CONFLICT DO "
            + (order.map { "UPDATE SET \($0) = ?3" } ?? "NOTHING")
        try connection.withStatement(sql) { statement in
            for (member, key) in zip(members, SQLOrderKeys.appending(members.count, after: nil)) {
                try statement.bind(owner.primaryKey, at: 1)
                try statement.bind(member.primaryKey, at: 2)
                if order != nil { try statement.bind(key, at: 3) }
                try statement.run()
            }
        }
    }

    /// Gives places to what has none in an ordered relationship, after the others and by primary key.
    package func completeOrders() throws {
        for entity in schema.layout.entities {
            for relationship in entity.relationships
            where relationship.isOrdered && relationship.ownerNumber == entity.number {
                switch schema.entity(entity).toMany[relationship.index] {
                case .foreignKey(let key)?:
                    guard let order = key.orderColumn else { continue }
                    try completeOrder(
                        in: key.tableName, owner: key.column, member: SQLName.primaryKey, order)
                case .join(let join)?:
                    guard let order = join.orderColumn else { continue }
                    try completeOrder(
                        in: join.tableName, owner: join.sourceColumn, member: join.targetColumn,
                        order)
                case .nowhere?, nil: continue
                }
            }
        }
    }

    private func completeOrder(
        in table: String, owner: String, member: String, _ order: String
    ) throws {
        let (table, owner, member, order) = (
            SQLName.quoted(table), SQLName.quoted(owner), SQLName.quoted(member),
            SQLName.quoted(order)
        )
        let missing = "\(owner) IS NOT NULL AND \(order) IS NULL"
        guard try connection.integer("SELECT 1 FROM \(table) WHERE \(missing) LIMIT 1") != nil
        else { return }
        let (first, step) = (SQLOrderKeys.first, SQLOrderKeys.step)
        try connection.execute(
            """
            WITH last AS (SELECT \(owner) o, max(\(order)) k FROM \(table) WHERE \(owner) IS NOT NULL GROUP BY 1),
            places AS (SELECT t.rowid r, coalesce(last.k, \(first - step)) + \(step) *
                row_number() OVER (PARTITION BY t.\(owner) ORDER BY t.\(member)) k
                FROM \(table) t JOIN last ON last.o = t.\(owner) WHERE t.\(order) IS NULL)
            UPDATE \(table) SET \(order) = places.k FROM places WHERE \(table).rowid = places.r
            """)
    }
}
