import CSQLite
import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireStore

/// Computes, within a save, the derived values that triggers cannot: text functions of other objects' attributes, as SQLite's
/// functions know ASCII only, and sums of decimal numbers, which triggers only approximate.
///
/// The affected rows are determined from the change set: rows that it inserts, or whose relationship it changes, and rows
/// related to objects which it inserts, updates or deletes.
package final class SQLiteDerivedRows {
    private let schema: SQLSchema
    private let connection: SQLiteConnection
    private let changes: ChangeSet
    private let derivations: [(entity: ResolvedEntity, derivation: ResolvedEntity.Derivation)]
    /// The primary keys of the affected rows, by index of the derivation.
    private var owners: [Set<Int64>]

    init(schema: SQLSchema, connection: SQLiteConnection, changes: ChangeSet) {
        self.schema = schema
        self.connection = connection
        self.changes = changes
        derivations = Self.derivations(of: schema, includingOwnTexts: false)
        owners = [Set<Int64>](repeating: [], count: derivations.count)
    }

    /// Creates a computation for a batch request, which has no change set.
    package init(schema: SQLSchema, connection: SQLiteConnection) {
        self.schema = schema
        self.connection = connection
        changes = ChangeSet()
        derivations = Self.derivations(of: schema, includingOwnTexts: true)
        owners = []
    }

    /// - Parameter includingOwnTexts: Whether to include text functions of the object's own attributes, which a save writes
    ///   with the object's row.
    private static func derivations(
        of schema: SQLSchema, includingOwnTexts: Bool
    ) -> [(entity: ResolvedEntity, derivation: ResolvedEntity.Derivation)] {
        if schema.layout.derivations.isEmpty { return [] }
        return schema.keptEntities.flatMap { entity in
            schema.layout.derivations[entity].filter { derivation in
                let slot = entity.slots[derivation.slot]
                guard slot.ownerNumber == entity.number else { return false }
                return switch derivation.form {
                case .text(_, let index, _): index != nil || includingOwnTexts
                case .sum: slot.storage == .decimal
                default: false
                }
            }.map { (entity, $0) }
        }
    }

    // MARK: - Affected rows

    /// Must be called before the rows are written: afterwards deleted rows have no references.
    func prepare() throws {
        for (position, item) in derivations.enumerated() {
            guard case .sum(let index, _) = item.derivation.form else { continue }
            let relationship = item.entity.relationships[index]
            let subtree = schema.layout.destination(of: relationship).subtree
            for deletion in changes.deleted where subtree.contains(deletion.objectID.entityNumber) {
                try addOwners(of: deletion.objectID, relationship, position)
            }
        }
    }

    /// Computes and writes the values. Must be called after everything else is written.
    func write() throws {
        for (position, item) in derivations.enumerated() {
            try collect(item.entity, item.derivation, position)
            for key in owners[position].sorted() {
                try write(item.derivation, of: key, in: item.entity)
            }
        }
    }

    /// Recomputes all objects' values and writes those that differ, because a batch request does not report the rows that it
    /// changes.
    ///
    /// - Complexity: O(*n*) in the objects of entities with such attributes.
    package func writeAll() throws {
        for (entity, derivation) in derivations {
            let numbers = entity.subtree.map { String(schema.entity(number: $0).storeNumber) }
            let table = SQLName.quoted(schema.entity(entity).tableName)
            let keys = try connection.withStatement(
                "SELECT Z_PK FROM \(table) WHERE Z_ENT IN (\(numbers.joined(separator: ", ")))"
            ) { statement in
                var keys: ContiguousArray<Int64> = []
                while try statement.step() { keys.append(statement.integer(0)) }
                return keys
            }
            for key in keys { try write(derivation, of: key, in: entity) }
        }
    }

    private func collect(
        _ entity: ResolvedEntity, _ derivation: ResolvedEntity.Derivation, _ position: Int
    ) throws {
        guard let index = derivation.relationshipIndex else { return }
        let relationship = entity.relationships[index]
        let destination = schema.layout.destination(of: relationship)
        let inverse = schema.layout.inverse(of: relationship)
        let source: Int
        switch derivation.form {
        case .sum(_, let slot), .text(_, _, let slot): source = slot
        case .count, .copy, .now: return
        }
        for change in changes.inserted {
            if entity.subtree.contains(change.entity.number) {
                owners[position].insert(change.objectID.primaryKey)
            }
            if destination.subtree.contains(change.entity.number) {
                try addOwners(of: change.objectID, relationship, position)
            }
        }
        for change in changes.updated {
            if entity.subtree.contains(change.entity.number),
                relationship.slot.map(change.changedSlots.contains)
                    ?? change.toManyChanges.contains(where: { $0.relationshipIndex == index })
            {
                owners[position].insert(change.objectID.primaryKey)
            }
            if destination.subtree.contains(change.entity.number),
                change.changedSlots.contains(source)
                    || inverse?.slot.map(change.changedSlots.contains) == true
            {
                try addOwners(of: change.objectID, relationship, position)
            }
        }
        for deletion in changes.deleted
        where relationship.slot != nil
            && destination.subtree.contains(deletion.objectID.entityNumber)
        {
            try addOwners(of: deletion.objectID, relationship, position)
        }
        for deletion in changes.deleted
        where entity.subtree.contains(deletion.objectID.entityNumber) {
            owners[position].remove(deletion.objectID.primaryKey)
        }
    }

    /// Adds the rows that refer to an object by a relationship.
    private func addOwners(
        of objectID: ManagedObjectID, _ relationship: ResolvedEntity.Relationship, _ position: Int
    ) throws {
        let place = schema.entity(derivations[position].entity)
        let sql: String
        if let slot = relationship.slot {
            guard let column = place.columns[slot] else { return }
            sql =
                "SELECT Z_PK FROM \(SQLName.quoted(place.tableName)) WHERE \(SQLName.quoted(column.name)) = ?"
        } else {
            switch place.toMany[relationship.index] {
            case .foreignKey(let key)?:
                sql =
                    "SELECT \(SQLName.quoted(key.column)) FROM \(SQLName.quoted(key.tableName)) WHERE Z_PK = ?"
            case .join(let join)?:
                sql =
                    "SELECT \(SQLName.quoted(join.sourceColumn)) FROM \(SQLName.quoted(join.tableName)) "
                    + "WHERE \(SQLName.quoted(join.targetColumn)) = ?"
            case .nowhere?, nil: return
            }
        }
        try connection.withStatement(sql) { statement in
            try statement.bind(objectID.primaryKey, at: 1)
            while try statement.step() {
                if !statement.isNull(0) { owners[position].insert(statement.integer(0)) }
            }
        }
    }

    // MARK: - Values

    private func write(
        _ derivation: ResolvedEntity.Derivation, of key: Int64, in entity: ResolvedEntity
    ) throws {
        let place = schema.entity(entity)
        guard let column = place.columns[derivation.slot].map({ SQLName.quoted($0.name) }) else {
            return
        }
        let table = SQLName.quoted(place.tableName)
        let value: AttributeValue
        switch derivation.form {
        case .text(let function, let index, let slot):
            value =
                try text(
                    at: slot, index.map { entity.relationships[$0] }, of: key, in: entity
                ).map { .string(function.apply(to: $0)) } ?? .null
        case .sum(let index, let slot):
            guard let sum = try sum(of: slot, entity.relationships[index], of: key, in: entity)
            else { return }
            value = .decimal(sum)
        default: return
        }
        try connection.withStatement(
            "UPDATE \(table) SET \(column) = ?1 WHERE Z_PK = ?2 AND \(column) IS NOT ?1"
        ) { statement in
            switch value {
            case .string(let text): try statement.bind(text, at: 1)
            case .decimal(let number):
                switch SQLiteDecimal.stored(number) {
                case .integer(let integer): try statement.bind(integer, at: 1)
                case .double(let double): try statement.bind(double, at: 1)
                case .text(let text): try statement.bind(text, at: 1)
                }
            default: try statement.bindNull(at: 1)
            }
            try statement.bind(key, at: 2)
            try statement.run()
        }
        guard connection.changeCount > 0 else { return }
        if let number = try connection.integer("SELECT Z_ENT FROM \(table) WHERE Z_PK = ?", key) {
            connection.derivedLog.note(entity: number, key: key)
        }
    }

    /// The text in a row, or in its to-one destination.
    private func text(
        at slot: Int, _ relationship: ResolvedEntity.Relationship?, of key: Int64,
        in entity: ResolvedEntity
    ) throws -> String? {
        let place = schema.entity(entity)
        guard let relationship else {
            guard let column = place.columns[slot] else { return nil }
            return try connection.withStatement(
                "SELECT \(SQLName.quoted(column.name)) FROM \(SQLName.quoted(place.tableName)) WHERE Z_PK = ?"
            ) { statement in
                try statement.bind(key, at: 1)
                return try statement.step() && !statement.isNull(0) ? statement.text(0) : nil
            }
        }
        let destination = schema.entity(schema.layout.destination(of: relationship))
        guard let reference = relationship.slot.flatMap({ place.columns[$0] }),
            let column = destination.columns[slot]
        else { return nil }
        return try connection.withStatement(
            "SELECT t.\(SQLName.quoted(column.name)) FROM \(SQLName.quoted(place.tableName)) o JOIN "
                + "\(SQLName.quoted(destination.tableName)) t ON t.Z_PK = "
                + "o.\(SQLName.quoted(reference.name)) WHERE o.Z_PK = ?"
        ) { statement in
            try statement.bind(key, at: 1)
            return try statement.step() && !statement.isNull(0) ? statement.text(0) : nil
        }
    }

    /// The exact sum over a relationship's destinations.
    private func sum(
        of slot: Int, _ relationship: ResolvedEntity.Relationship, of key: Int64,
        in entity: ResolvedEntity
    ) throws -> Decimal? {
        let destination = schema.entity(schema.layout.destination(of: relationship))
        guard let column = destination.columns[slot].map({ "m.\(SQLName.quoted($0.name))" }) else {
            return nil
        }
        let members = "\(SQLName.quoted(destination.tableName)) m"
        let sql: String
        switch schema.entity(entity).toMany[relationship.index] {
        case .foreignKey(let place)?:
            sql = "SELECT \(column) FROM \(members) WHERE m.\(SQLName.quoted(place.column)) = ?"
        case .join(let join)?:
            sql =
                "SELECT \(column) FROM \(SQLName.quoted(join.tableName)) j CROSS JOIN \(members) WHERE "
                + "j.\(SQLName.quoted(join.sourceColumn)) = ? AND m.Z_PK = "
                + "j.\(SQLName.quoted(join.targetColumn))"
        case .nowhere?, nil: return nil
        }
        return try connection.withStatement(sql) { statement in
            try statement.bind(key, at: 1)
            var sum = Decimal(0)
            while try statement.step() { sum += statement.decimal(0) ?? 0 }
            return sum
        }
    }
}

extension SQLiteStatement {
    /// The column as a decimal number; `nil` if it is not one.
    fileprivate func decimal(_ column: Int32) -> Decimal? {
        switch sqlite3_column_type(handle, column) {
        case SQLITE_INTEGER: Decimal(integer(column))
        case SQLITE_FLOAT: SQLiteDecimal.decimal(sqlite3_column_double(handle, column))
        case SQLITE_TEXT: SQLiteDecimal.decimal(text(column))
        default: nil
        }
    }
}

// MARK: - The log of changed rows

/// The reports and queries of derived attributes' triggers during a save. Used by the thread that uses the connection.
final class SQLiteDerivedLog {
    /// A row by its `Z_ENT` and primary key.
    struct Row: Hashable {
        let entity: Int64
        let key: Int64
    }

    private var rows: Set<Row> = []
    /// The time of the save.
    private var date: Date?

    /// The value of `now()`, in seconds since the year 2001: constant throughout a save.
    var now: Double { (date ?? Date()).timeIntervalSinceReferenceDate }

    /// Starts logging for a save.
    func begin() {
        rows = []
        date = Date()
    }

    /// Notes that a derived value of a row was set.
    func note(entity: Int64, key: Int64) { rows.insert(Row(entity: entity, key: key)) }

    /// Ends a save. Returns the objects outside the change set whose derived values it has set.
    func end(besides changes: ChangeSet, schema: SQLSchema, store: StoreIdentity)
        -> [ManagedObjectID]
    {
        date = nil
        if rows.isEmpty { return [] }
        var saved = Set<UInt64>(minimumCapacity: changes.inserted.count + changes.updated.count)
        changes.inserted.forEachInPlace { saved.insert($0.pointee.objectID.bits) }
        changes.updated.forEachInPlace { saved.insert($0.pointee.objectID.bits) }
        for deletion in changes.deleted { saved.insert(deletion.objectID.bits) }
        var found: [ManagedObjectID] = []
        for row in rows {
            guard let number = schema.modelNumber(ofStoreNumber: row.entity), row.key > 0,
                row.key <= ManagedObjectID.maximumPrimaryKey
            else { continue }
            let id = ManagedObjectID(entityNumber: number, primaryKey: row.key, store: store)
            if !saved.contains(id.bits) { found.append(id) }
        }
        rows = []
        return found.sorted { $0.bits < $1.bits }
    }
}
