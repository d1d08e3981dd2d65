import Foundation
internal import QuireModel
internal import QuireModelFiles
internal import QuireSQLite
internal import QuireStore
internal import QuireSystem

/// A store's metadata before and after a migration.
struct MetadataMigration {
    let path: String
    let metadata: StoreMetadata
    let schema: SQLSchema
    private let tables: Set<String>
    /// Whether the store carries its model the way this framework writes it.
    let carriesModel: Bool

    /// Reads the books.
    ///
    /// - Throws: ``QuireError`` with code `incompatibleModel` if the store carries no model and none is given, or the
    ///   tables do not fit.
    static func read(
        _ connection: SQLiteConnection, path: String, model given: ManagedObjectModel?
    ) throws -> MetadataMigration {
        let reader = SQLiteCatalogReader(connection: connection)
        let tables = try reader.storeTables(path: path)
        let metadata = try SQLiteMetadataReader(connection: connection, path: path).metadata()
        let carriesModel = tables.contains(SQLiteTables.model)
        guard let model = try given ?? connection.carriedModel(path: path) else {
            throw QuireError.noModel(carriedBy: path)
        }
        do {
            let schema = try SQLSchema(
                model.layout(), catalog: reader.catalog(), hasStrays: !carriesModel)
            return MetadataMigration(
                path: path, metadata: metadata, schema: schema, tables: tables,
                carriesModel: carriesModel)
        } catch let error as QuireError where error.code == .incompatibleModel {
            throw QuireError(
                .incompatibleModel,
                "“\(path)” was not created with the source model of the migration: \(error.message)",
                entity: error.subject.entity, property: error.subject.property, file: path,
                underlying: error,
                failures: error.failures)
        }
    }

    /// The greatest key that an object of a hierarchy has had.
    func maximumKey(of root: ResolvedEntity, _ connection: SQLiteConnection) throws -> Int64 {
        try connection.greatestUsedKey(of: schema.entity(root))
    }

    // MARK: - Writing

    /// Writes the store's metadata with the new model.
    ///
    /// - Returns: The paths of files that are unreferenced once this is committed.
    func write(
        _ plan: TransferPlan, _ schema: SQLSchema, model: ManagedObjectModel,
        carried: ManagedObjectModel, loading: SQLiteBulkLoad, filesBefore: Set<String>,
        _ connection: SQLiteConnection
    ) throws -> [String] {
        try writeEntities(schema.layout, connection)
        for (root, key) in plan.maximumKeys {
            loading.reservePrimaryKeys(
                through: key, root: plan.destination.entity(number: root))
        }
        _ = try loading.writeGreatestKeys()
        try writeMetadata(model, connection)
        try connection.writeModel(carried)
        try writeHistory(plan, connection)
        try writeMirroring(plan, connection)
        try connection.moveSynchronizedRows(movedRows(plan, schema))
        let unused = try filesBefore.subtracting(connection.externalFileNames(schema))
        if tables.contains(SQLiteTables.externalData) {
            for name in unused {
                try connection.run(
                    "DELETE FROM \(SQLiteTables.externalData) WHERE Z_UUID = ?", name)
            }
        }
        return unused.map(loading.externalData.path(ofFileNamed:))
    }

    /// The rows of each entity, for shared documents.
    private func movedRows(
        _ plan: TransferPlan, _ new: SQLSchema
    ) -> [SQLiteConnection.MovedRows] {
        plan.source.entities.compactMap { entity in
            guard let transfer = plan.transfers(ofEntity: entity.number).first else { return nil }
            let root = plan.source.entity(number: entity.rootNumber)
            let newRoot = plan.destination.entity(number: transfer.destination.rootNumber)
            // Its name in shared documents stays, whatever this version calls it.
            let isSame =
                plan.transfers(ofEntity: root.number).first?.destination.number == newRoot.number
            return (
                oldRoot: root.renamingIdentifier,
                newRoot: isSame ? root.renamingIdentifier : newRoot.renamingIdentifier,
                newTable: new.entity(transfer.destination).tableName,
                entityNumber: transfer.destination.number,
                offset: plan.keyOffsets[transfer.keyGroup]
            )
        }
    }

    private func writeEntities(_ layout: ResolvedModel, _ connection: SQLiteConnection) throws {
        try connection.execute(
            "DELETE FROM Z_PRIMARYKEY WHERE Z_ENT <= \(SQLCatalog.maximumEntityNumber)")
        for entity in layout.entities {
            try connection.run(
                "INSERT INTO Z_PRIMARYKEY VALUES (?, ?, ?, 0)", Int64(entity.number), entity.name,
                Int64(entity.superentityNumber ?? 0))
        }
    }

    private func writeMetadata(
        _ model: ManagedObjectModel, _ connection: SQLiteConnection
    ) throws {
        let new = try metadata.replacingModel(model).propertyList
        try connection.run("UPDATE Z_METADATA SET Z_PLIST = ?", new)
    }

    /// Renumbers the entities in the persistent history. Masks of changed columns, which refer to the old schema, are cleared,
    /// and values of deleted objects moved to the columns of the new one; history of removed entities is deleted.
    private func writeHistory(_ plan: TransferPlan, _ connection: SQLiteConnection) throws {
        guard let tombstoneCount = try connection.addTombstones(for: plan.destination) else {
            return
        }
        var cases: [(old: Int, new: Int, offset: Int64)] = []
        var tombstones = [String](repeating: "", count: tombstoneCount)
        for entity in plan.source.entities {
            guard let transfer = plan.transfers(ofEntity: entity.number).first else { continue }
            cases.append(
                (
                    schema.entity(entity).storeNumber, transfer.destination.number,
                    plan.keyOffsets[transfer.keyGroup]
                ))
            for (column, oldColumn) in transfer.tombstoneColumns {
                tombstones[column] +=
                    " WHEN \(schema.entity(entity).storeNumber) THEN ZTOMBSTONE\(oldColumn)"
            }
        }
        let known = cases.map { String($0.old) }.joined(separator: ", ")
        try connection.execute("DELETE FROM ACHANGE WHERE ZENTITY NOT IN (\(known))")
        if cases.isEmpty { return }
        let numbers = cases.map { "WHEN \($0.old) THEN \($0.new)" }.joined(separator: " ")
        let offsets = cases.map { "WHEN \($0.old) THEN \($0.offset)" }.joined(separator: " ")
        let values = tombstones.enumerated().map { column, cases in
            "ZTOMBSTONE\(column) = "
                + (cases.isEmpty ? "NULL, " : "CASE ZENTITY\(cases) END, ")
        }
        try connection.execute(
            "UPDATE ACHANGE SET ZENTITYPK = ZENTITYPK + CASE ZENTITY \(offsets) END, ZCOLUMNS = NULL, "
                + values.joined() + "ZENTITY = CASE ZENTITY \(numbers) END")
    }
}

// MARK: - Mirroring

extension MetadataMigration {
    /// Renumbers the entities in the tables by which Core Data mirrors a store to CloudKit, as `ANSCKRECORDMETADATA`, which
    /// otherwise would name other objects. Rows of removed entities are deleted.
    private func writeMirroring(_ plan: TransferPlan, _ connection: SQLiteConnection) throws {
        var cases: [(old: Int, new: Int, offset: Int64)] = []
        for entity in plan.source.entities {
            guard let transfer = plan.transfers(ofEntity: entity.number).first else { continue }
            cases.append(
                (
                    schema.entity(entity).storeNumber, transfer.destination.number,
                    plan.keyOffsets[transfer.keyGroup]
                ))
        }
        let known = cases.map { String($0.old) }.joined(separator: ", ")
        let numbers = cases.map { "WHEN \($0.old) THEN \(-$0.new)" }.joined(separator: " ")
        let offsets = cases.map { "WHEN \($0.old) THEN \($0.offset)" }.joined(separator: " ")
        for table in tables.sorted() where table.hasPrefix(SQLiteTables.mirroringPrefix) {
            let columns = try connection.columnNames(of: table)
            guard columns.contains("ZENTITYID") else { continue }
            let name = SQLName.quoted(table)
            try connection.execute("DELETE FROM \(name) WHERE ZENTITYID NOT IN (\(known))")
            if cases.isEmpty { continue }
            let keys =
                columns.contains("ZENTITYPK")
                ? "ZENTITYPK = ZENTITYPK + CASE ZENTITYID \(offsets) END, " : ""
            // Negative at first: numbers may be exchanged, and a row's must be unique at any time.
            try connection.execute(
                "UPDATE \(name) SET \(keys)ZENTITYID = CASE ZENTITYID \(numbers) END")
            try connection.execute(
                "UPDATE \(name) SET ZENTITYID = -ZENTITYID WHERE ZENTITYID < 0")
        }
    }
}

extension EntityTransfer {
    /// The columns of the history that hold values of deleted objects, each with the old one of the same attribute and type.
    fileprivate var tombstoneColumns: [(column: Int, oldColumn: Int)] {
        let old = source.tombstoneSlots
        return destination.tombstoneSlots.enumerated().compactMap { column, slot in
            guard case .copy(let index, _, _) = values[slot.index],
                let oldColumn = old.firstIndex(where: { $0.index == index }),
                old[oldColumn].storage == slot.storage
            else { return nil }
            return (column, oldColumn)
        }
    }
}
