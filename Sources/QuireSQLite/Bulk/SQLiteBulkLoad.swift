import Foundation
package import QuireModel
internal import QuireQuery
package import QuireStore
internal import QuireSystem

/// Writes whole objects into the tables of a schema, within the caller's transaction, without the checks that
/// cannot fail when both sides are complete: versions, references, changes of other writers.
///
/// Triggers and indexes are dropped meanwhile; see ``SQLiteSchemaCompletion``. Memory is independent of the number of objects.
package final class SQLiteBulkLoad: BulkInserter {
    package let connection: SQLiteConnection
    package let schema: SQLSchema
    package let externalData: ExternalDataFolder
    private let options: SQLiteStoreOptions
    /// The names of the files created, to be removed if the transaction fails.
    private(set) var newFiles: [String] = []
    /// The store's own files already referenced: each value needs its own file.
    private var adopted: Set<String> = []
    private var inserts: [Int: Insertion] = [:]
    private var lastInsert: Insertion?
    private var maximumKeys: [Int: Int64] = [:]
    /// Records the insertions, if the store keeps a history.
    private let makeHistory: (_ isRequired: Bool) throws -> SQLiteHistoryWriter?
    private var history: SQLiteHistoryWriter?

    /// Loads into tables that are made within the transaction, as a migration in place does. It records no history.
    package convenience init(
        connection: SQLiteConnection, schema: SQLSchema, externalData: ExternalDataFolder,
        options: SQLiteStoreOptions
    ) {
        self.init(
            connection: connection, schema: schema, externalData: externalData, options: options
        ) { _ in nil }
    }

    /// - Parameter makeHistory: Makes the writer of the store's history; `nil` if it keeps none.
    init(
        connection: SQLiteConnection, schema: SQLSchema, externalData: ExternalDataFolder,
        options: SQLiteStoreOptions,
        makeHistory: @escaping (_ isRequired: Bool) throws -> SQLiteHistoryWriter?
    ) {
        self.makeHistory = makeHistory
        self.options = options
        self.connection = connection
        self.schema = schema
        self.externalData = externalData
    }

    /// The INSERT statement of an entity.
    private final class Insertion {
        struct Column {
            let slot: ResolvedEntity.Slot
            let index: Int32
            /// The parameter of the destination's entity; 0 if it is not stored.
            let entityIndex: Int32
        }

        let entity: Int
        let columns: [Column]
        let statement: SQLiteStatement

        init(_ entity: ResolvedEntity, _ schema: SQLSchema, _ connection: SQLiteConnection) throws {
            self.entity = entity.number
            let place = schema.entity(entity)
            var names = [SQLName.primaryKey, SQLName.version, SQLName.entity]
            var values = ["?1", "?2", String(place.storeNumber)]
            var columns: [Column] = []
            var count: Int32 = 2
            for slot in entity.slots where !slot.isDerived || slot.isDerivedFromTime {
                guard let column = place.columns[slot.index] else { continue }
                count += 1
                names.append(column.name)
                values.append("?\(count)")
                let index = count
                if let entityColumn = column.entityColumn {
                    count += 1
                    names.append(entityColumn)
                    values.append("?\(count)")
                }
                columns.append(
                    Column(slot: slot, index: index, entityIndex: count > index ? count : 0))
            }
            self.columns = columns
            statement = try connection.prepare(
                "INSERT INTO \(SQLName.quoted(place.tableName)) ("
                    + names.map(SQLName.quoted).joined(separator: ", ") + ") VALUES ("
                    + values.joined(separator: ", ") + ")", isKept: true)
        }
    }

    // MARK: - History

    /// Begins recording insertions if the store keeps a history. Must be called before objects are inserted.
    ///
    /// - Parameter isRequired: Whether it is to keep one whatever its options say, as a copy of a store that does.
    package func beginHistory(isRequired: Bool) throws {
        if history == nil { history = try makeHistory(isRequired) }
    }

    /// Records the numbers used in the history. Must be called at the end.
    func finishHistory() throws { try history?.finish() }

    // MARK: - Objects

    package func insert(_ object: ObjectChange) throws {
        let insertion = try insertion(of: object.entity)
        let statement = insertion.statement
        let key = object.objectID.primaryKey
        try statement.bind(key, at: 1)
        try statement.bind(Int64(object.version), at: 2)
        for column in insertion.columns {
            let value = object.values[column.slot.index]
            if column.slot.isExternalCapable {
                try statement.bind(externalValue(value), orNullAt: column.index)
            } else if column.slot.storage == .decimal, case .decimal(let number) = value {
                if options.refusesInexactDecimals {
                    try SQLiteDecimal.checkIsExact(
                        number, for: column.slot, of: object.entity, object.objectID)
                }
                try SQLiteDecimal.stored(number).bind(to: statement, at: column.index)
            } else {
                try statement.bind(value.stored, orNullAt: column.index)
            }
            if column.entityIndex > 0 {
                if case .objectID(let id) = value {
                    let number = schema.entity(number: id.entityNumber).storeNumber
                    try statement.bind(Int64(number), at: column.entityIndex)
                } else {
                    try statement.bindNull(at: column.entityIndex)
                }
            }
        }
        try statement.run()
        try history?.recordInsertion(of: object.objectID)
        let root = object.entity.rootNumber
        if key > maximumKeys[root] ?? 0 { maximumKeys[root] = key }
    }

    private func insertion(of entity: ResolvedEntity) throws -> Insertion {
        if let lastInsert, lastInsert.entity == entity.number { return lastInsert }
        let insertion =
            try inserts[entity.number] ?? Insertion(entity, schema, connection)
        inserts[entity.number] = insertion
        lastInsert = insertion
        return insertion
    }

    package func reservePrimaryKeys(through greatest: Int64, root: ResolvedEntity) {
        if greatest > maximumKeys[root.number] ?? 0 { maximumKeys[root.number] = greatest }
    }

    /// Records the greatest keys. Must be called at the end.
    ///
    /// - Returns: The keys, by the number of the root entity.
    package func writeGreatestKeys() throws -> [Int: Int64] {
        for (root, key) in maximumKeys {
            let number = schema.entity(number: root).storeNumber
            let recorded = try connection.maximumPrimaryKey(of: number)
            if key > recorded { try connection.recordGreatestPrimaryKey(key, of: number) }
        }
        return maximumKeys
    }

    // MARK: - Records

    package func setRecords(_ records: [String: String]) throws {
        if records.isEmpty { return }
        try connection.execute(SQLiteTables.createRecords)
        for (key, value) in records {
            try connection.run(
                "INSERT OR REPLACE INTO \(SQLiteTables.records) VALUES (?, ?)", key, value)
        }
    }

    // MARK: - External data

    private func externalValue(_ value: AttributeValue) throws -> AttributeValue {
        if case .external(let data) = value, let file = data.file,
            !file.isSpooled || data.size > options.externalDataThreshold
        {
            return .binary(
                ExternalDataTag.reference(toFileNamed: try adopt(data, in: file)))
        }
        guard let data = try value.contents() else { return .null }
        if data.count > options.externalDataThreshold {
            let name = UUID().uuidString
            try prepareFolder()
            try externalData.write(data, toFileNamed: name)
            newFiles.append(name)
            try record(
                .init(size: data.count, sha256: RunningDigest.sha256(of: data)), name)
            return .binary(ExternalDataTag.reference(toFileNamed: name))
        }
        return .binary(Data([ExternalDataTag.inline]) + data)
    }

    /// Copies the file of a value into this store, and returns its name. A file in the store's own folder stays.
    private func adopt(_ value: ExternalData, in file: ExternalDataFile) throws -> String {
        let isHere = file.folder == externalData.folder
        if isHere && adopted.insert(file.name).inserted { return file.name }
        try prepareFolder()
        // The copy is verified against it.
        _ = file.record
        let name = UUID().uuidString
        let copy = try externalData.write(value, toFileNamed: name)
        newFiles.append(name)
        try record(copy, name)
        return name
    }

    private func record(_ record: ExternalDataRecord, _ name: String) throws {
        try connection.execute(SQLiteTables.createExternalData)
        try connection.writeExternalDataRecord(record, ofFileNamed: name)
    }

    private func prepareFolder() throws {
        guard newFiles.isEmpty else { return }
        try externalData.make()
    }

    /// Makes the names of new files durable. Must be called before the commit.
    package func synchronizeFiles() throws {
        if !newFiles.isEmpty { try externalData.synchronize() }
    }

    /// Removes the files of a failed load.
    package func removeFiles() {
        newFiles.forEach(externalData.removeFile)
        newFiles = []
    }
}

extension SQLiteStatement {
    /// Binds a value in its stored form.
    fileprivate func bind(_ value: AttributeValue, orNullAt index: Int32) throws {
        switch value {
        case .integer(let integer): try bind(integer, at: index)
        case .double(let double): try bind(double, at: index)
        case .string(let text): try bind(text, at: index)
        case .binary(let data): try bind(data, at: index)
        default: try bindNull(at: index)
        }
    }
}

// MARK: - Relationships

/// Relationships, which are written after all objects exist.
extension SQLiteBulkLoad {
    package func relate(
        _ owner: ManagedObjectID, through relationship: ResolvedEntity.Relationship,
        to members: [ManagedObjectID]
    ) throws {
        let entity = schema.layout.entity(number: owner.entityNumber)
        guard relationship.isToMany else {
            try refer(owner, relationship, to: members.first)
            if let member = members.first, let inverse = schema.layout.inverse(of: relationship) {
                let back = schema.layout.entity(number: member.entityNumber)
                    .relationships[inverse.index]
                if back.isToMany {
                    // The column is in the owner's own row.
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
            preconditionFailure("A new schema has a place for every relationship.")
        }
    }

    /// Sets the foreign key of a to-one relationship.
    private func refer(
        _ owner: ManagedObjectID, _ relationship: ResolvedEntity.Relationship,
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
        try connection.run(
            "UPDATE \(SQLName.quoted(place.tableName)) SET \(assignments) WHERE Z_PK = ?1",
            owner.primaryKey, member?.primaryKey)
    }

    /// Fails if the single destination of a one-to-one relationship is already referenced.
    private func requireFree(
        _ member: ManagedObjectID, _ back: ResolvedEntity.Relationship, for owner: ManagedObjectID
    ) throws {
        let place = schema.entity(number: member.entityNumber)
        guard let column = back.slot.flatMap({ place.columns[$0] }) else { return }
        let found = try connection.integer(
            "SELECT \(SQLName.quoted(column.name)) FROM \(SQLName.quoted(place.tableName)) "
                + "WHERE Z_PK = ?", member.primaryKey)
        guard let found, found != owner.primaryKey else { return }
        throw QuireError(
            .validation,
            "“\(back.name)” of \(member.shortDescription) would refer to two objects, \(owner.entityName)/p\(found) and "
                + "\(owner.shortDescription), but allows only one; remove one of them, or map the relationship with a policy.",
            entity: member.entityName, property: back.name, object: member.uriRepresentation)
    }

    /// Sets the members' foreign keys to their owner, in order.
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

    /// Inserts join rows of members and owner, in order. Rows may exist already, from the inverse side.
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

    /// Assigns missing order keys in ordered relationships, after the others and by primary key.
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
