package import Foundation
package import QuireModel
internal import QuireStore
internal import QuireSystem

/// An external data file as recorded by a store.
package struct SQLiteExternalFile: Sendable {
    /// The file's path.
    package var path: String
    /// The recorded size in bytes, if any.
    package var size: Int64?
    /// The recorded digest, if any.
    package var sha256: Data?
}

/// External data files: those that rows refer to, and the rest.
extension SQLiteStore {
    /// The referenced external data files, sorted by path.
    ///
    /// - Complexity: O(*n*) in the rows of entities with external attributes.
    package func externalFiles() throws -> [SQLiteExternalFile] {
        let names = try externalFileNames()
        var recorded: [String: (size: Int64, sha256: Data)] = [:]
        try read { connection in
            guard try connection.hasTable(SQLiteTables.externalData) else { return }
            try connection.forEachRow(
                "SELECT Z_UUID, Z_BYTES, Z_SHA256 FROM \(SQLiteTables.externalData)"
            ) { recorded[$0.text(0)] = ($0.integer(1), $0.data(2)) }
        }
        return names.sorted().map { name in
            SQLiteExternalFile(
                path: externalData.path(ofFileNamed: name), size: recorded[name]?.size,
                sha256: recorded[name]?.sha256)
        }
    }

    /// The existing external data files, referenced or not: for stores whose rows cannot be read.
    package func presentExternalFiles() throws -> [SQLiteExternalFile] {
        try externalData.names().filter(ExternalDataFolder.isFileName).sorted().map {
            SQLiteExternalFile(path: externalData.path(ofFileNamed: $0))
        }
    }

    /// The paths of unreferenced external data files: left by interrupted saves, or, while the store is open, by completed
    /// ones.
    ///
    /// - Parameter ownOnly: Whether only temporary files are meant, and those to which this store has referred since it was opened.
    package func unreferencedExternalFiles(ownOnly: Bool = false) throws -> [String] {
        let present = try externalData.names()
        if present.isEmpty { return [] }
        let own = ownOnly ? connections.withWriterIfOpen { $0.unreferencedFiles } ?? [] : nil
        let names = own?.isEmpty == true ? [] : try externalFileNames()
        return present.filter {
            ExternalDataFolder.isFileName($0) && !names.contains($0) && own?.contains($0) != false
                || FileSystem.isTemporaryName($0)
        }
        .map(externalData.path(ofFileNamed:))
    }

    /// The names of the referenced files.
    func externalFileNames() throws -> Set<String> {
        try read { try $0.externalFileNames(schema) }
    }
}

extension SQLSchema {
    /// The columns whose values may be external, with their tables, quoted.
    var externalColumns: [(table: String, column: String)] {
        var columns: Set<[String]> = []
        for entity in layout.entities {
            let place = self.entity(entity)
            for slot in entity.slots where slot.isExternalCapable {
                if let column = place.columns[slot.index] {
                    columns.insert([place.tableName, column.name])
                }
            }
        }
        return columns.map { (SQLName.quoted($0[0]), SQLName.quoted($0[1])) }
    }
}

extension SQLiteConnection {
    /// The names of the external data files that the rows of a schema refer to.
    package func externalFileNames(_ schema: SQLSchema) throws -> Set<String> {
        var names: Set<String> = []
        for (table, column) in schema.externalColumns {
            try forEachRow(
                "SELECT \(column) FROM \(table) WHERE substr(\(column), 1, 1) = x'02'"
            ) {
                if let name = $0.data(0).withUnsafeBytes(ExternalDataTag.fileName) {
                    names.insert(name)
                }
            }
        }
        return names
    }
}

// MARK: - Cleaning up

/// Files dereferenced by a save are removed when the store is closed: not earlier, because rows read before may still refer to
/// them. If other processes then have the store open, they are left for the last one to close it. Files of killed processes,
/// written for values never saved, are removed after a day; those of a document when it is opened, because they may belong to
/// a newer store. Files retained in this process stay.
extension SQLiteStore {
    /// The names of the files to remove.
    func unusedExternalFiles(_ writer: SQLiteWriter) -> Set<String> {
        var names = writer.unreferencedFiles
        do {
            names.formUnion(try orphans(writer))
            // The rows are authoritative: a restored version may refer to a file again.
            if !names.isEmpty { names.subtract(try writer.connection.externalFileNames(schema)) }
        } catch {
            return []
        }
        return names
    }

    /// Unrecorded files that no process can be about to refer to.
    private func orphans(_ writer: SQLiteWriter) throws -> [String] {
        guard carriesModel else { return [] }
        var known: Set<String> = []
        if try writer.connection.hasTable(SQLiteTables.externalData) {
            known = Set(
                try writer.connection.texts("SELECT Z_UUID FROM \(SQLiteTables.externalData)"))
        }
        let now = Date()
        return try externalData.names().filter { name in
            guard
                ExternalDataFolder.isFileName(name) && !known.contains(name)
                    || FileSystem.isTemporaryName(name)
            else { return false }
            if ExternalDataFolder.isRetained(name) { return false }
            if options.isOnlyWriter { return FileSystem.isTemporaryName(name) }
            // Another process may be about to refer to a new one.
            return try externalData.information(ofFileNamed: name)?.isOld(at: now) ?? false
        }
    }
}

// MARK: - Records

extension SQLiteStore: ExternalDataRecords {
    package var verifiesExternalData: Bool { options.verifiesExternalData }

    package func externalDataRecord(ofFileNamed name: String) -> ExternalDataRecord? {
        // Without a record the file cannot be verified; reading it still works.
        try? read { try $0.externalDataRecord(ofFileNamed: name) }
    }
}

extension SQLiteConnection {
    /// The recorded size and digest of an external data file.
    func externalDataRecord(ofFileNamed name: String) throws -> ExternalDataRecord? {
        guard try hasTable(SQLiteTables.externalData) else { return nil }
        return try row(
            "SELECT Z_BYTES, Z_SHA256 FROM \(SQLiteTables.externalData) WHERE Z_UUID = ?", name
        ) {
            let size = $0.integer(0)
            return size >= 0 ? ExternalDataRecord(size: Int(size), sha256: $0.data(1)) : nil
        }
    }

    /// Records the size and digest of an external data file.
    func writeExternalDataRecord(
        _ record: ExternalDataRecord, ofFileNamed name: String
    ) throws {
        try run(
            "INSERT OR REPLACE INTO \(SQLiteTables.externalData) VALUES (?, ?, ?)", name,
            Int64(record.size), record.sha256)
    }

    /// The names of files recorded with the same size and digest.
    func externalFiles(like record: ExternalDataRecord) throws -> [String] {
        guard try hasTable(SQLiteTables.externalData) else { return [] }
        return try rows(
            "SELECT Z_UUID FROM \(SQLiteTables.externalData) WHERE Z_BYTES = ? AND Z_SHA256 = ? LIMIT 4",
            Int64(record.size), record.sha256
        ) { $0.text(0) }
    }
}

// MARK: - External values

/// An attribute value stored in an external file.
package struct SQLiteExternalValue: Sendable {
    /// The known state of a file's bytes.
    package enum State: String, Sendable {
        /// A digest is recorded.
        case recorded
        /// No digest is recorded.
        case unrecorded
        /// The file does not exist.
        case missing
        /// The bytes differ from those saved.
        case damaged
        /// The bytes are those saved.
        case whole
    }

    /// The object.
    package var objectID: ManagedObjectID
    /// The attribute, or the element of a composite one.
    package var attribute: String
    /// The recorded size in bytes, or else the file's.
    package var size: Int64
    /// The recorded digest, if any.
    package var sha256: Data?
    /// The state known without reading the file.
    package var state: State
    private let file: ExternalDataFile

    /// The name of the file.
    package var name: String { file.name }

    fileprivate init(_ objectID: ManagedObjectID, _ attribute: String, _ file: ExternalDataFile) {
        self.objectID = objectID
        self.attribute = attribute
        self.file = file
        let record = file.record
        sha256 = record?.sha256
        let information = file.information
        size = record.map { Int64($0.size) } ?? information?.size ?? 0
        state =
            switch (information, record) {
            case (nil, _): .missing
            case (_, nil): .unrecorded
            case (let information?, let record?):
                information.size == Int64(record.size) ? .recorded : .damaged
            }
    }

    /// The state known after reading the file.
    ///
    /// - Throws: ``QuireError`` with code `inputOutput` if it cannot be read.
    package func verifiedState() throws -> State {
        guard state == .recorded else { return state }
        do {
            return try ExternalData(.file(file)).verify() ? .whole : .unrecorded
        } catch let error as QuireError where error.code == .invalidFormat {
            return .damaged
        }
    }
}

extension SQLiteStore {
    /// The external values, by entity, object and attribute.
    ///
    /// - Complexity: O(*n*) in the rows of entities with external attributes; no file is read.
    package func externalValues() throws -> [SQLiteExternalValue] {
        var found: [(id: ManagedObjectID, slot: ResolvedEntity.Slot, name: String)] = []
        try read { connection in
            for entity in layout.entities {
                let place = schema.entity(entity)
                for slot in entity.slots where slot.isExternalCapable {
                    guard let column = place.columns[slot.index] else { continue }
                    let name = SQLName.quoted(column.name)
                    let sql =
                        "SELECT Z_PK, substr(\(name), 1, 38) FROM \(SQLName.quoted(place.tableName)) "
                        + "WHERE substr(\(name), 1, 1) = x'02' AND Z_ENT = ? ORDER BY Z_PK"
                    try connection.forEachRow(sql, Int64(place.storeNumber)) { row in
                        let key = row.integer(0)
                        guard key > 0, key <= ManagedObjectID.maximumPrimaryKey,
                            let file = row.data(1).withUnsafeBytes(ExternalDataTag.fileName)
                        else { return }
                        let id = ManagedObjectID(
                            entityNumber: entity.number, primaryKey: key, store: identity)
                        found.append((id, slot, file))
                    }
                }
            }
        }
        found.sort {
            ($0.id.entityNumber, $0.id.primaryKey, $0.slot.index) < (
                $1.id.entityNumber, $1.id.primaryKey, $1.slot.index
            )
        }
        return found.map { id, slot, name in
            SQLiteExternalValue(id, slot.name, ExternalDataFile(name, in: externalData))
        }
    }
}
