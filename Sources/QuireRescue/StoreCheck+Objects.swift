import Foundation
internal import QuireModel
internal import QuireProtection
internal import QuireSQLite
internal import QuireStore
internal import QuireSystem

extension StoreCheck {
    /// The number of rows read at once.
    private static let portion = 500

    /// Reads every object, and checks its values.
    mutating func checkObjects() throws {
        let total = estimatedRowCount()
        var checked: Int64 = 0
        for table in schema.tables {
            let root = schema.layout.entity(number: table.rootNumber)
            let numbers = StorageClassCheck.list(schema.entity(root).subtreeStoreNumbers)
            let selection = store.selection(of: root)
            let head =
                "SELECT \(selection.list) FROM \(SQLName.quoted(table.name)) t0 WHERE t0.Z_ENT IN \(numbers) AND "
            var last: Int64 = 0
            var unreadable = 0
            var listed: [String: Int] = [:]
            // In a damaged table keys may be out of order, or duplicate.
            while let keys = try keys(after: last, in: table, numbers), let end = keys.last,
                end > last
            {
                do {
                    try check(
                        try rows(selection, head + "t0.Z_PK > ?1 AND t0.Z_PK <= ?2", last, end),
                        &listed)
                } catch let error as QuireError where error.code == .invalidFormat {
                    // One of the rows cannot be read; the rest can.
                    for key in keys {
                        do {
                            try check(
                                try rows(selection, head + "t0.Z_PK = ?1 AND ?2 = ?2", key, key),
                                &listed)
                        } catch let error as QuireError where error.code == .invalidFormat {
                            unreadable += 1
                            count(objects: 1)
                            if unreadable <= Self.maximumListCount {
                                try addUnreadable(error, key, root)
                            } else {
                                addUnlisted()
                            }
                        }
                    }
                }
                last = end
                checked += Int64(keys.count)
                try advance(0.3 + 0.4 * min(Double(checked) / total, 1))
            }
        }
        try checkCounts()
    }

    /// The number of rows that ``progress`` counts on. A damaged table cannot be counted.
    private func estimatedRowCount() -> Double {
        if progress == nil { return 1 }
        return schema.tables.reduce(1) {
            let sql = "SELECT count(*) FROM \(SQLName.quoted($1.name))"
            return $0 + Double((try? connection.integer(sql)) ?? 0)
        }
    }

    private func keys(
        after last: Int64, in table: SQLTable, _ numbers: String
    ) throws -> [Int64]? {
        try connection.rows(
            "SELECT Z_PK FROM \(SQLName.quoted(table.name)) WHERE Z_PK > ? "
                + "AND Z_PK <= \(ManagedObjectID.maximumPrimaryKey) AND Z_ENT IN \(numbers) "
                + "ORDER BY Z_PK LIMIT \(Self.portion)", last
        ) { $0.integer(0) }
    }

    private func rows(
        _ selection: SQLRowSelection, _ sql: String, _ first: Int64, _ second: Int64
    ) throws -> RowSet {
        var builder = RowSetBuilder(
            layout: schema.layout, store: store.identity, externalData: store.externalData)
        let reader = SQLiteRowReader(connection: connection, selection: selection, store: store)
        try connection.withStatement(sql) { statement in
            try statement.bind(first, at: 1)
            try statement.bind(second, at: 2)
            try reader.readAll(statement, into: &builder)
        }
        return builder.finish()
    }

    private mutating func addUnreadable(
        _ error: QuireError, _ key: Int64, _ root: ResolvedEntity
    ) throws {
        let property = error.subject.property
        let number = try connection.integer(
            "SELECT Z_ENT FROM \(SQLName.quoted(schema.entity(root).tableName)) WHERE Z_PK = ?", key
        )
        let id = id(key, storeNumber: number ?? 0, in: root)
        let entity = schema.layout.entity(number: id.entityNumber)
        let isOptional =
            property.flatMap { name in entity.slots.first { $0.name == name } }
            .map { $0.attribute?.isOptional ?? true } ?? false
        add(
            .value, property.map { "“\($0)” cannot be read: \(error.message)" } ?? error.message,
            object: id, isRepairable: isOptional)
    }

    private mutating func check(_ rows: RowSet, _ listed: inout [String: Int]) throws {
        count(objects: rows.count)
        for index in rows.indices {
            let row = rows[index]
            for slot in row.entity.slots where slot.isStored {
                guard let attribute = slot.attribute else {
                    try checkRequired(slot, row, &listed)
                    continue
                }
                let packed = PackedRow(chunk: row.chunk, offset: row.offset)
                let hasValue = packed.hasValue(slot.index)
                if hasValue { count(values: 1) }
                // External values are checked with the files.
                if slot.isExternalCapable {
                    let bytes = packed.bytes(slot.index, slotCount: row.entity.slots.count)
                    if hasValue, bytes.first == ExternalDataTag.external { continue }
                }
                if !hasValue && !slot.hasRules { continue }
                do {
                    let value = try row.value(at: slot.index)
                    if slot.hasRules { try attribute.validate(value, entity: row.entity.name) }
                } catch let error as QuireError {
                    let kind: StoreProblem.Kind = error.code == .validation ? .validation : .value
                    addListed(kind, "“\(slot.name)”: \(error.message)", row, slot, &listed)
                }
            }
        }
    }

    private mutating func checkRequired(
        _ slot: ResolvedEntity.Slot, _ row: ObjectSnapshot, _ listed: inout [String: Int]
    ) throws {
        let packed = PackedRow(chunk: row.chunk, offset: row.offset)
        if packed.hasValue(slot.index) {
            count(references: 1)
        } else if let index = slot.relationshipIndex,
            !row.entity.relationships[index].description.isOptional
        {
            addListed(
                .validation, "“\(slot.name)” is required, but not set.", row, slot, &listed)
        }
    }

    /// Many rows at once violate rules of the model if the model has changed: Core Data checks them only when an object is
    /// saved. So they are notes in a store created by Core Data.
    private mutating func addListed(
        _ kind: StoreProblem.Kind, _ message: String, _ row: ObjectSnapshot,
        _ slot: ResolvedEntity.Slot, _ listed: inout [String: Int]
    ) {
        let isNote = kind == .validation && !store.carriesModel
        let number = listed["\(row.entity.name).\(slot.name)", default: 0] + 1
        listed["\(row.entity.name).\(slot.name)"] = number
        if number <= Self.maximumListCount {
            add(kind, message, object: row.objectID, isNote: isNote)
        } else if !isNote {
            addUnlisted()
        }
    }

    /// Counting uses an index where there is one, listing scans the table.
    private mutating func checkCounts() throws {
        for entity in schema.keptEntities where !entity.isAbstract {
            let place = schema.entity(entity)
            let table = SQLName.quoted(place.tableName)
            let counted = try connection.integer(
                "SELECT count(*) FROM \(table) WHERE Z_ENT = ?", Int64(place.storeNumber))
            let listed = try connection.integer(
                "SELECT count(*) FROM \(table) NOT INDEXED WHERE Z_ENT = ?",
                Int64(place.storeNumber))
            if counted != listed {
                add(
                    .count,
                    "\(entity.name) has \(counted ?? 0) objects by count but \(listed ?? 0) by list.",
                    table: place.tableName, isRepairable: true)
            }
        }
    }

    // MARK: - Files

    /// Looks at the files with external data.
    mutating func checkExternalData() throws {
        var names: Set<String> = []
        for (entity, slot, column) in RelationshipColumns(schema: schema).attributes
        where slot.isExternalCapable {
            let place = schema.entity(entity)
            try each(
                "SELECT Z_PK, Z_ENT, \(column) FROM \(SQLName.quoted(place.tableName)) "
                    + "WHERE substr(\(column), 1, 1) = x'02' AND Z_ENT IN \(StorageClassCheck.list(place.subtreeStoreNumbers))",
                isProblem: { check, statement in
                    guard
                        let name = statement.data(2).withUnsafeBytes(ExternalDataTag.fileName)
                    else { return false }
                    names.insert(name)
                    return !check.store.externalData.hasFile(named: name)
                }
            ) { check, statement in
                let name = statement.data(2).withUnsafeBytes(ExternalDataTag.fileName) ?? ""
                check.add(
                    .externalData,
                    "“\(slot.name)” cannot be read: \(check.store.externalData.problem(withFileNamed: name))",
                    object: check.id(
                        statement.integer(0), storeNumber: statement.integer(1), in: entity),
                    isRepairable: slot.attribute?.isOptional == true
                        && check.store.externalData.lacksFile(named: name))
            }
        }
        count(files: names.count)
        try checkDigests(names)
        for path in try orphans(names) {
            add(
                .externalData, "No object refers to the file “\(path)”.", isRepairable: true,
                isNote: true)
        }
    }

    private func orphans(_ names: Set<String>) throws -> [String] {
        // If the folder cannot be read, reading the files in it fails and is reported.
        guard let present = try? store.externalData.names() else { return [] }
        return present.filter {
            ExternalDataFolder.isFileName($0) && !names.contains($0)
        }.map(store.externalData.path(ofFileNamed:))
    }

    private mutating func checkDigests(_ names: Set<String>) throws {
        guard try connection.hasTable(SQLiteTables.externalData) else { return }
        var checked: Int64 = 0
        try each(
            "SELECT Z_UUID, Z_BYTES, Z_SHA256 FROM \(SQLiteTables.externalData) ORDER BY Z_UUID",
            isProblem: { check, statement in
                let name = statement.text(0)
                let files = check.store.externalData
                guard names.contains(name), ExternalDataFolder.isFileName(name),
                    files.hasFile(named: name),
                    let information = try files.information(ofFileNamed: name)
                else { return false }
                let classKey = files.classKey
                let size = ContentFile.count(of: information, sealed: classKey != nil)
                if size != statement.integer(1) { return true }
                defer { checked += information.size }
                return try !FileDigest.isSHA256(
                    statement.data(2), ofFileAt: files.path(ofFileNamed: name),
                    beneath: files.root, unsealing: classKey
                ) { try check.advance(1, bytes: checked + $0) }
            }
        ) { check, statement in
            let path = check.store.externalData.path(ofFileNamed: statement.text(0))
            check.add(.externalData, "The external data “\(path)” was changed after it was saved.")
        }
    }
}
