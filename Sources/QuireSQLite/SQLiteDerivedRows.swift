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
        try settleImpossibleValues()
    }

    /// Recomputes all objects' values and writes those that differ, because a batch request does not report the rows that it
    /// changes.
    ///
    /// - Complexity: O(*n*) in the objects of entities with such attributes.
    package func writeAll() throws {
        for (entity, derivation) in derivations {
            let numbers = entity.subtree.map { String(schema.entity(number: $0).storeNumber) }
            let table = SQLName.quoted(schema.entity(entity).tableName)
            let keys = try connection.rows(
                "SELECT Z_PK FROM \(table) WHERE Z_ENT IN (\(numbers.joined(separator: ", ")))"
            ) { $0.integer(0) }
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
        try connection.forEachRow(sql, objectID.primaryKey) {
            if !$0.isNull(0) { owners[position].insert($0.integer(0)) }
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
        let value: any SQLiteParameter
        switch derivation.form {
        case .text(let function, let index, let slot):
            value =
                try text(
                    at: slot, index.map { entity.relationships[$0] }, of: key, in: entity
                ).map { function.apply(to: $0) }
        case .sum(let index, let slot):
            guard let sum = try sum(of: slot, entity.relationships[index], of: key, in: entity)
            else { return }
            value = SQLiteDecimal.stored(sum)
        default: return
        }
        try connection.run(
            "UPDATE \(table) SET \(column) = ?1 WHERE Z_PK = ?2 AND \(column) IS NOT ?1", value, key
        )
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
            return try connection.row(
                "SELECT \(SQLName.quoted(column.name)) FROM \(SQLName.quoted(place.tableName)) WHERE Z_PK = ?",
                key
            ) { $0.isNull(0) ? nil : $0.text(0) }
        }
        let destination = schema.entity(schema.layout.destination(of: relationship))
        guard let reference = relationship.slot.flatMap({ place.columns[$0] }),
            let column = destination.columns[slot]
        else { return nil }
        return try connection.row(
            "SELECT t.\(SQLName.quoted(column.name)) FROM \(SQLName.quoted(place.tableName)) o JOIN "
                + "\(SQLName.quoted(destination.tableName)) t ON t.Z_PK = "
                + "o.\(SQLName.quoted(reference.name)) WHERE o.Z_PK = ?", key
        ) { $0.isNull(0) ? nil : $0.text(0) }
    }

    /// The exact sum of decimal numbers over a relationship's destinations.
    private func sum(
        of slot: Int, _ relationship: ResolvedEntity.Relationship, of key: Int64,
        in entity: ResolvedEntity
    ) throws -> Decimal? {
        var sum = Decimal(0)
        return try forEachMember(slot, relationship, of: key, in: entity) {
            sum += $0.decimal(0) ?? 0
        } ? sum : nil
    }

    /// The exact sum of integers over a relationship's destinations.
    private func integerSum(
        of slot: Int, _ relationship: ResolvedEntity.Relationship, of key: Int64,
        in entity: ResolvedEntity
    ) throws -> Int128? {
        var sum: Int128 = 0
        return try forEachMember(slot, relationship, of: key, in: entity) {
            sum += Int128($0.integer(0))
        } ? sum : nil
    }

    /// Calls a closure with the value of a slot of each of a relationship's destinations, in the first column.
    ///
    /// - Returns: Whether the store keeps the relationship and the values.
    private func forEachMember(
        _ slot: Int, _ relationship: ResolvedEntity.Relationship, of key: Int64,
        in entity: ResolvedEntity, _ body: (SQLiteStatement) -> Void
    ) throws -> Bool {
        let destination = schema.entity(schema.layout.destination(of: relationship))
        guard let column = destination.columns[slot].map({ "m.\(SQLName.quoted($0.name))" }) else {
            return false
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
        case .nowhere?, nil: return false
        }
        try connection.forEachRow(sql, key, body: body)
        return true
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

// MARK: - Values beyond an attribute's type

/// Triggers compute with SQLite's numbers: a sum beyond 64 bits becomes a floating-point number, and a column declared for 16
/// bits holds 64. Such a value must not be committed.
extension SQLiteDerivedRows {
    /// Whether a derived attribute's type excludes numbers that triggers can compute.
    fileprivate static func isBounded(_ slot: ResolvedEntity.Slot) -> Bool {
        slot.storage == .integer || slot.attribute?.type == .float
    }

    /// Computes the values that the log notes as impossible once more, exactly: another change of the save may have made them
    /// possible.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue`, naming the property, if a type cannot hold a value.
    func settleImpossibleValues() throws {
        for found in connection.derivedLog.impossibleValues {
            guard let number = schema.modelNumber(ofStoreNumber: found.row.entity) else { continue }
            let entity = schema.layout.entity(number: number)
            let columns = schema.entity(entity).columns
            for derivation in schema.layout.derivations[entity]
            where found.property == entity.slots[derivation.slot].name
                || found.property == columns[derivation.slot]?.name
            {
                try settle(derivation, of: found.row.key, in: entity)
            }
        }
    }

    /// Checks all values that triggers maintain, after they have been filled in.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue`, naming the property, if a type cannot hold a value.
    package func checkAll() throws {
        for entity in schema.keptEntities {
            for derivation in schema.layout.derivations[entity] {
                let slot = entity.slots[derivation.slot]
                guard Self.isBounded(slot), let column = schema.entity(entity).columns[slot.index]
                else { continue }
                let name = SQLName.quoted(column.name)
                var keys: [Int64] = []
                try connection.forEachRow(
                    "SELECT Z_PK, \(name) FROM \(SQLName.quoted(schema.entity(entity).tableName)) WHERE "
                        + "Z_ENT = \(schema.entity(entity).storeNumber) AND \(name) IS NOT NULL"
                ) {
                    if !slot.canHold(derived: $0.value(1)) { keys.append($0.integer(0)) }
                }
                for key in keys { try settle(derivation, of: key, in: entity) }
            }
        }
    }

    private func settle(
        _ derivation: ResolvedEntity.Derivation, of key: Int64, in entity: ResolvedEntity
    ) throws {
        let slot = entity.slots[derivation.slot]
        guard let column = schema.entity(entity).columns[slot.index] else { return }
        let (table, name) = (
            SQLName.quoted(schema.entity(entity).tableName), SQLName.quoted(column.name)
        )
        let stored = try connection.row("SELECT \(name) FROM \(table) WHERE Z_PK = ?", key) {
            $0.value(0)
        }
        guard let stored else { return }
        var value = stored
        if slot.storage == .integer, case .sum(let index, let source) = derivation.form,
            let sum = try integerSum(of: source, entity.relationships[index], of: key, in: entity)
        {
            value = ResolvedEntity.Derivation.exactly(sum)
            if case .integer(let integer) = value, value != stored {
                try connection.run("UPDATE \(table) SET \(name) = ? WHERE Z_PK = ?", integer, key)
            }
        }
        if slot.canHold(derived: value) { return }
        throw slot.derivedValueError(value, primaryKey: key, in: entity)
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
    /// Values that triggers have set and the attribute's type cannot hold: a row, and the name of the attribute or its column.
    private(set) var impossibleValues: Set<ImpossibleValue> = []
    /// The derived attributes whose type excludes numbers, by their names and those of their columns.
    private var boundedSlots: [String: [ResolvedEntity.Slot]] = [:]
    /// The time of the save.
    private var date: Date?

    struct ImpossibleValue: Hashable {
        let row: Row
        let property: String
    }

    /// The value of `now()`, in seconds since the year 2001: constant throughout a save.
    var now: Double { (date ?? Date()).timeIntervalSinceReferenceDate }

    /// Starts logging for a save.
    func begin(_ schema: SQLSchema) {
        rows = []
        impossibleValues = []
        boundedSlots = [:]
        date = Date()
        if schema.layout.derivations.isEmpty { return }
        for entity in schema.keptEntities {
            for derivation in schema.layout.derivations[entity] {
                let slot = entity.slots[derivation.slot]
                guard slot.ownerNumber == entity.number, SQLiteDerivedRows.isBounded(slot),
                    let column = schema.entity(entity).columns[slot.index]
                else { continue }
                for name in Set([slot.name, column.name]) {
                    boundedSlots[name, default: []].append(slot)
                }
            }
        }
    }

    /// Notes the value that a trigger has set.
    func note(_ value: AttributeValue, at property: String, entity: Int64, key: Int64) {
        guard let slots = boundedSlots[property],
            !slots.allSatisfy({ $0.canHold(derived: value) })
        else { return }
        impossibleValues.insert(
            ImpossibleValue(row: Row(entity: entity, key: key), property: property))
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
