internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Writes relationship storage outside the owners' rows: join tables, order keys, and columns of relationships without
/// inverse. Runs after all rows are written.
final class SQLiteRelationshipWriter {
    private let store: SQLiteStore
    private let connection: SQLiteConnection
    private let schema: SQLSchema
    /// The INSERT statements by index of the join table.
    private var pairings: [Int: SQLiteStatement] = [:]
    private var lastPairing: (index: Int, statement: SQLiteStatement)?

    init(store: SQLiteStore, connection: SQLiteConnection) {
        self.store = store
        self.connection = connection
        schema = store.schema
    }

    func write(_ changes: ChangeSet) throws {
        for deletion in changes.deleted { try forget(deletion.objectID) }
        // Join rows are written from the naming side; both sides are in the change set.
        try changes.updated.forEachInPlace {
            if !$0.pointee.toManyChanges.isEmpty { try writeMembers(of: $0.pointee) }
        }
        try changes.inserted.forEachInPlace {
            if !$0.pointee.toManyChanges.isEmpty { try writeMembers(of: $0.pointee) }
        }
        try changes.updated.forEachInPlace {
            if !$0.pointee.toManyChanges.isEmpty { try writeOrders(of: $0.pointee) }
        }
        try changes.inserted.forEachInPlace {
            if !$0.pointee.toManyChanges.isEmpty { try writeOrders(of: $0.pointee) }
        }
    }

    private func forEachMapping(
        of change: ObjectChange,
        _ body: (ToManyChange, SQLToMany, _ isOrdered: Bool) throws -> Void
    ) throws {
        for toMany in change.toManyChanges {
            let relationship = change.entity.relationships[toMany.relationshipIndex]
            guard let place = schema.entity(change.entity).toMany[toMany.relationshipIndex] else {
                continue
            }
            try body(toMany, place, relationship.isOrdered)
        }
    }

    // MARK: - Members

    private func writeMembers(of change: ObjectChange) throws {
        try forEachMapping(of: change) { toMany, place, _ in
            switch place {
            case .join(let join) where join.isNamingSide:
                for target in toMany.removed { try unpair(change.objectID, target, join) }
                for target in toMany.added { try pair(change.objectID, target, join) }
            case .foreignKey(let key) where !key.isInverse:
                for target in toMany.removed { try clear(target, of: change.objectID, key) }
                for target in toMany.added { try set(target, of: change.objectID, key) }
            case .nowhere: throw missing(toMany, of: change)
            case .join, .foreignKey: break
            }
        }
    }

    private func missing(_ toMany: ToManyChange, of change: ObjectChange) -> QuireError {
        let name = change.entity.relationships[toMany.relationshipIndex].name
        return QuireError(
            .incompatibleModel,
            "“\(store.storePath)” was created with another model and cannot store “\(change.entity.name)"
                + ".\(name)”, so it cannot be changed.",
            entity: change.entity.name, property: name, object: change.objectID.uriRepresentation,
            file: store.storePath)
    }

    private func pair(
        _ source: ManagedObjectID, _ target: ManagedObjectID, _ join: SQLJoin
    ) throws {
        let statement = try pairing(of: join)
        try statement.bind(source.primaryKey, at: 1)
        try statement.bind(target.primaryKey, at: 2)
        try statement.run()
    }

    private func pairing(of join: SQLJoin) throws -> SQLiteStatement {
        if let lastPairing, lastPairing.index == join.tableIndex { return lastPairing.statement }
        let names = columns(of: join)
        let statement =
            try pairings[join.tableIndex]
            ?? connection.prepare(
                "INSERT OR IGNORE INTO \(names.table) (\(names.source), \(names.target)) "
                    + "VALUES (?, ?)")
        pairings[join.tableIndex] = statement
        lastPairing = (join.tableIndex, statement)
        return statement
    }

    private func unpair(
        _ source: ManagedObjectID, _ target: ManagedObjectID, _ join: SQLJoin
    ) throws {
        let names = columns(of: join)
        try connection.run(
            "DELETE FROM \(names.table) WHERE \(names.source) = ? AND \(names.target) = ?",
            source.primaryKey, target.primaryKey)
    }

    private func set(
        _ target: ManagedObjectID, of source: ManagedObjectID, _ key: SQLForeignKey
    ) throws {
        var assignments = "\(SQLName.quoted(key.column)) = ?1"
        if let column = key.entityColumn {
            let number = schema.entity(number: source.entityNumber).storeNumber
            assignments += ", \(SQLName.quoted(column)) = \(number)"
        }
        if let column = key.orderColumn {
            assignments += ", \(SQLName.quoted(column)) = NULL"
        }
        try connection.run(
            "UPDATE \(SQLName.quoted(key.tableName)) SET \(assignments) WHERE Z_PK = ?2",
            source.primaryKey, target.primaryKey)
    }

    private func clear(
        _ target: ManagedObjectID, of source: ManagedObjectID, _ key: SQLForeignKey
    ) throws {
        try connection.run(
            "UPDATE \(SQLName.quoted(key.tableName)) SET \(clearing(key)) "
                + "WHERE Z_PK = ?2 AND \(SQLName.quoted(key.column)) = ?1",
            source.primaryKey, target.primaryKey)
    }

    private func clearing(_ key: SQLForeignKey) -> String {
        [key.column, key.entityColumn, key.orderColumn].compactMap { $0 }
            .map { "\(SQLName.quoted($0)) = NULL" }.joined(separator: ", ")
    }

    /// Removes references to a deleted object: join rows, and columns of relationships without inverse.
    private func forget(_ objectID: ManagedObjectID) throws {
        let places = schema.entity(number: objectID.entityNumber).toMany
        for case let place? in places {
            switch place {
            case .join(let join):
                let names = columns(of: join)
                let sides = join.isReflexive ? [names.source, names.target] : [names.source]
                for side in sides {
                    try connection.run(
                        "DELETE FROM \(names.table) WHERE \(side) = ?", objectID.primaryKey)
                }
            case .foreignKey(let key) where !key.isInverse:
                try connection.run(
                    "UPDATE \(SQLName.quoted(key.tableName)) SET \(clearing(key)) "
                        + "WHERE \(SQLName.quoted(key.column)) = ?1", objectID.primaryKey)
            case .foreignKey, .nowhere: break
            }
        }
    }

    // MARK: - Orders

    private func writeOrders(of change: ObjectChange) throws {
        try forEachMapping(of: change) { toMany, place, isOrdered in
            guard isOrdered, let order = OrderKeySlot(place) else { return }
            if let members = toMany.order {
                try arrange(members.map(\.primaryKey), of: change.objectID.primaryKey, order)
            } else if !toMany.added.isEmpty {
                try append(toMany.added.map(\.primaryKey), to: change.objectID.primaryKey, order)
            }
        }
    }

    /// The table and columns with the order keys of an ordered relationship.
    private struct OrderKeySlot {
        let table: String
        let owner: String
        let member: String
        let order: String

        init?(_ place: SQLToMany) {
            switch place {
            case .foreignKey(let key):
                guard let order = key.orderColumn else { return nil }
                table = SQLName.quoted(key.tableName)
                owner = SQLName.quoted(key.column)
                member = SQLName.primaryKey
                self.order = SQLName.quoted(order)
            case .join(let join):
                guard let order = join.orderColumn else { return nil }
                table = SQLName.quoted(join.tableName)
                owner = SQLName.quoted(join.sourceColumn)
                member = SQLName.quoted(join.targetColumn)
                self.order = SQLName.quoted(order)
            case .nowhere: return nil
            }
        }
    }

    /// Assigns order keys to all members of an owner, keeping those already in order.
    private func arrange(_ members: [Int64], of owner: Int64, _ place: OrderKeySlot) throws {
        var present: [Int64: Int64] = [:]
        try connection.forEachRow(
            "SELECT \(place.member), \(place.order) FROM \(place.table) WHERE \(place.owner) = ?",
            owner
        ) {
            if !$0.isNull(1) { present[$0.integer(0)] = $0.integer(1) }
        }
        let keys = SQLOrderKeys.keys(for: members.map { present[$0] })
        for (member, key) in zip(members, keys) where present[member] != key {
            try setKey(key, of: member, owner, place)
        }
    }

    /// Appends new members of an owner to the order.
    private func append(_ members: [Int64], to owner: Int64, _ place: OrderKeySlot) throws {
        let last = try connection.integer(
            "SELECT max(\(place.order)) FROM \(place.table) WHERE \(place.owner) = ?", owner)
        for (member, key) in zip(members, SQLOrderKeys.appending(members.count, after: last)) {
            try setKey(key, of: member, owner, place)
        }
    }

    private func setKey(
        _ key: Int64, of member: Int64, _ owner: Int64, _ place: OrderKeySlot
    ) throws {
        try connection.run(
            "UPDATE \(place.table) SET \(place.order) = ?1 WHERE \(place.member) = ?2 AND \(place.owner) = ?3",
            key, member, owner)
    }

    private func columns(of join: SQLJoin) -> (table: String, source: String, target: String) {
        (
            SQLName.quoted(join.tableName), SQLName.quoted(join.sourceColumn),
            SQLName.quoted(join.targetColumn)
        )
    }
}
