package import Foundation
package import QuireModel
public import QuireProtection
public import QuireQuery
public import QuireStore
public import QuireSystem

extension SQLiteStore {
    /// The store's capabilities.
    public var capabilities: StoreCapabilities {
        let common: StoreCapabilities = [
            .saving, .atomicSaves, .versions, .constraints, .derivedAttributes,
            .orderedRelationships, .batchRequests, .records, .metadata, .predicates, .explaining,
            .preparedSaves,
        ]
        return isInMemory
            ? common
            : common.union([
                .durableSaves, .reopening, .externalData, .sharing, .lastingIdentifiers,
                .lastingVersions,
            ])
    }

    /// The store's metadata, including the version hashes of its model.
    public func metadata() throws -> StoreMetadata {
        try read { try SQLiteMetadataReader(connection: $0, path: storePath).metadata() }
    }

    /// The protection class of a store on disk, or of the document package around it. Read without keys, so it is not
    /// authenticated: opening the store does that.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` or `unsupported` if its keybag cannot be read.
    public static func fileProtection(at path: String) throws -> FileProtection {
        try StoreProtection.domain(ofStoreAt: path)?.protection ?? .none
    }

    /// The metadata of a store, read without its model. Leaves no trace.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `storeUnavailable`.
    public static func metadata(at path: String) throws -> StoreMetadata {
        let path = FileSystem.absolute(path)
        guard exists(at: path) else { throw QuireError.notFound(at: path) }
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let source = try SQLiteDatabaseFile(path: path, isReadOnly: true)
        defer { source.release() }
        do {
            let connection = try source.connect(.reading, options: options)
            defer { connection.close() }
            return try SQLiteMetadataReader(connection: connection, path: path).metadata()
        } catch let failure as SQLiteFailure {
            throw failure.openingError(path: path)
        }
    }

    /// Sets or removes an application's metadata value, in its own transaction.
    public func setMetadata(_ value: PropertyListValue?, forKey key: String) throws {
        try StoreMetadata.requireUnreserved(key, file: storePath)
        try withWriter { writer in
            let connection = writer.connection
            try connection.begin()
            do {
                try writer.modelVersionCheck.checkTriggers(connection)
                var metadata = try SQLiteMetadataReader(connection: connection, path: storePath)
                    .metadata()
                metadata.values[key] = value
                try connection.withStatement(
                    "UPDATE Z_METADATA SET Z_PLIST = ?1 WHERE Z_VERSION = (SELECT min(Z_VERSION) FROM Z_METADATA)"
                ) {
                    try $0.bind(metadata.propertyList, at: 1)
                    try $0.run()
                }
                try connection.commit()
            } catch {
                SQLiteSave.undo(after: error as? SQLiteFailure, store: self, writer: writer)
                throw error
            }
        }
    }
}

// MARK: - Versions of content

extension SQLiteStore {
    /// The database version as a reading connection sees it: `PRAGMA data_version` counts the commits of other connections, and
    /// reading connections never commit. `nil` once another file is at the store's path: the connections do not see its
    /// commits.
    public var contentVersion: ContentVersion? {
        guard usesReaderPool, fileReplacement == nil else { return nil }
        let version = try? read { connection in
            try connection.integer("PRAGMA data_version").map {
                ContentVersion(counter: connection.number, number: $0)
            }
        }
        return version ?? nil
    }
}

// MARK: - Checking

/// An external data file as recorded by a store.
package struct SQLiteExternalFile: Sendable {
    /// The file's path.
    package var path: String
    /// The recorded size in bytes, if any.
    package var size: Int64?
    /// The recorded digest, if any.
    package var sha256: Data?
}

extension SQLiteStore {
    /// The problems found by `PRAGMA integrity_check`, one text each.
    package func integrityProblems() throws -> [String] {
        try read { connection in
            try connection.withStatement("PRAGMA integrity_check") { statement in
                var problems: [String] = []
                do {
                    while try statement.step() {
                        // One row can list a hundred problems under a heading.
                        let lines = statement.text(0).split(separator: "\n")
                        let findings = lines.filter { !$0.hasPrefix("***") }
                        problems += (findings.isEmpty ? lines : findings).map(String.init)
                    }
                } catch let failure as SQLiteFailure where !problems.isEmpty {
                    // The check stops at an unreadable page; the earlier problems say which.
                    let error = failure.error(path: storePath)
                    if error.code != .invalidFormat { throw failure }
                }
                return problems == ["ok"] ? [] : problems
            }
        }
    }

    /// The referenced external data files, sorted by path.
    ///
    /// - Complexity: O(*n*) in the rows of entities with external attributes.
    package func externalFiles() throws -> [SQLiteExternalFile] {
        let names = try externalFileNames()
        var recorded: [String: (size: Int64, sha256: Data)] = [:]
        try read { connection in
            guard try connection.hasTable(SQLiteTables.externalData) else { return }
            let sql = "SELECT Z_UUID, Z_BYTES, Z_SHA256 FROM \(SQLiteTables.externalData)"
            try connection.withStatement(sql) {
                while try $0.step() { recorded[$0.text(0)] = ($0.integer(1), $0.data(2)) }
            }
        }
        return names.sorted().map { name in
            SQLiteExternalFile(
                path: externalData.path(ofFileNamed: name), size: recorded[name]?.size,
                sha256: recorded[name]?.sha256)
        }
    }

    /// The existing external data files, referenced or not: for stores whose rows cannot be read.
    package func presentExternalFiles() throws -> [SQLiteExternalFile] {
        try externalData.names().filter(SQLiteExternalData.isFileName).sorted().map {
            SQLiteExternalFile(path: externalData.path(ofFileNamed: $0))
        }
    }

    /// The paths of unreferenced external data files: left by interrupted saves, or, while the store is open, by completed
    /// ones.
    package func unreferencedExternalFiles() throws -> [String] {
        let present = try externalData.names()
        if present.isEmpty { return [] }
        let names = try externalFileNames()
        return present.filter {
            SQLiteExternalData.isFileName($0) && !names.contains($0)
                || FileSystem.isTemporaryName($0)
        }
        .map(externalData.path(ofFileNamed:))
    }

    /// The names of the referenced files.
    func externalFileNames() throws -> Set<String> { try read(externalFileNames) }

    /// The names of the referenced files, as a connection sees them.
    func externalFileNames(_ connection: SQLiteConnection) throws -> Set<String> {
        var names: Set<String> = []
        for (table, column) in externalColumns {
            let sql = "SELECT \(column) FROM \(table) WHERE substr(\(column), 1, 1) = x'02'"
            try connection.withStatement(sql) { statement in
                while try statement.step() {
                    let value = statement.data(0)
                    if let name = value.withUnsafeBytes(SQLiteExternalData.fileName) {
                        names.insert(name)
                    }
                }
            }
        }
        return names
    }

    /// The columns whose values may be external, with their tables, quoted.
    var externalColumns: [(table: String, column: String)] {
        var columns: Set<[String]> = []
        for entity in layout.entities {
            let place = schema.entity(entity)
            for slot in entity.slots where slot.isExternalCapable {
                if let column = place.columns[slot.index] {
                    columns.insert([place.tableName, column.name])
                }
            }
        }
        return columns.map { (SQLName.quoted($0[0]), SQLName.quoted($0[1])) }
    }
}

// MARK: - Drafts

/// Drafts: serialized unsaved changes, kept in the same file beside the objects.
///
/// A draft exists if its length is recorded. A save that contains the draft's changes removes that record, and its
/// transaction deletes the draft.
extension SQLiteStore {
    /// The record key of the draft's length.
    package static let draftRecordKey = "draft"

    private static let pieceSize = 1 << 20

    /// Replaces the draft, in its own transaction. When it returns, the draft survives power loss.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `outOfSpace` or `storeUnavailable`.
    package func writeDraft(_ bytes: Data) throws {
        try changeDraft { connection in
            try connection.execute(SQLiteTables.createDraft)
            var start = bytes.startIndex
            while start < bytes.endIndex {
                let end = min(start + Self.pieceSize, bytes.endIndex)
                try connection.withStatement(
                    "INSERT INTO \(SQLiteTables.draft) (Z_CONTENT) VALUES (?)"
                ) { statement in
                    try bytes[start..<end].withUnsafeBytes {
                        try statement.bindBlob($0, at: 1)
                        try statement.run()
                    }
                }
                start = end
            }
            try connection.execute(SQLiteTables.createRecords)
            try connection.withStatement(
                "INSERT OR REPLACE INTO \(SQLiteTables.records) VALUES (?, ?)"
            ) {
                try $0.bind(Self.draftRecordKey, at: 1)
                try $0.bind(String(bytes.count), at: 2)
                try $0.run()
            }
        }
    }

    /// The draft, or `nil`.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if its length differs from the recorded one, or errors of reading.
    package func draft() throws -> Data? {
        try read { connection in
            guard let size = try connection.draftSize() else { return nil }
            var bytes = Data()
            if try connection.hasTable(SQLiteTables.draft) {
                try connection.withStatement(
                    "SELECT Z_CONTENT FROM \(SQLiteTables.draft) ORDER BY Z_ORDER"
                ) { while try $0.step() { bytes.append($0.data(0)) } }
            }
            if bytes.count != size {
                throw QuireError(
                    .invalidFormat,
                    "The draft in “\(storePath)” has \(bytes.count) bytes instead of \(size); it is left alone.",
                    subject: .init(file: storePath))
            }
            return bytes
        }
    }

    /// Whether there is a draft.
    package func hasDraft() throws -> Bool {
        try read { try $0.draftSize() != nil }
    }

    /// Removes the draft, if any, in its own transaction.
    package func removeDraft() throws {
        guard try hasDraft() else { return }
        try changeDraft(Self.removeRecord)
    }

    /// Removes the draft, and every trace of it, from a copy that has not been opened yet.
    func dropDraft(ofCopyAt path: String, protectedBy protection: StoreProtection?) throws {
        let source = try SQLiteDatabaseFile(
            path: path, isReadOnly: false, protection: protection)
        defer { source.release() }
        let connection = try source.connect(.writing, options: SQLiteStoreOptions())
        defer { connection.close() }
        guard try connection.draftSize() != nil else { return }
        try connection.execute(SQLiteTables.dropDraft)
        try Self.removeRecord(connection)
        try connection.execute("VACUUM")
    }

    private static func removeRecord(_ connection: SQLiteConnection) throws {
        try connection.withStatement("DELETE FROM \(SQLiteTables.records) WHERE Z_KEY = ?") {
            try $0.bind(draftRecordKey, at: 1)
            try $0.run()
        }
    }

    /// Runs a transaction that first deletes the existing draft.
    private func changeDraft(_ body: (SQLiteConnection) throws -> Void) throws {
        try withWriter { writer in
            let connection = writer.connection
            try connection.begin()
            do {
                try writer.modelVersionCheck.checkTriggers(connection)
                try connection.execute(SQLiteTables.dropDraft)
                try body(connection)
                try connection.commit()
            } catch {
                SQLiteSave.undo(after: error as? SQLiteFailure, store: self, writer: writer)
                throw error
            }
        }
    }
}

extension SQLiteConnection {
    /// The length of the draft; `nil` if there is none.
    package func draftSize() throws -> Int? {
        guard try hasTable(SQLiteTables.records) else { return nil }
        return try withStatement("SELECT Z_VALUE FROM \(SQLiteTables.records) WHERE Z_KEY = ?") {
            try $0.bind(SQLiteStore.draftRecordKey, at: 1)
            return try $0.step() ? Int($0.text(0)) ?? 0 : nil
        }
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
    /// The name of the file.
    package var name: String
    /// The recorded size in bytes, or else the file's.
    package var size: Int64
    /// The recorded digest, if any.
    package var sha256: Data?
    /// The state known without reading the file.
    package var state: State
    private let file: ExternalDataFile

    fileprivate init(
        _ objectID: ManagedObjectID, _ attribute: String, _ file: ExternalDataFile,
        _ record: ExternalDataRecord?
    ) {
        self.objectID = objectID
        self.attribute = attribute
        self.file = file
        name = file.name
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
                    try connection.withStatement(sql) { statement in
                        try statement.bind(Int64(place.storeNumber), at: 1)
                        while try statement.step() {
                            let key = statement.integer(0)
                            guard key > 0, key <= ManagedObjectID.maximumPrimaryKey,
                                let file = statement.data(1).withUnsafeBytes(
                                    SQLiteExternalData.fileName)
                            else { continue }
                            let id = ManagedObjectID(
                                entityNumber: entity.number, primaryKey: key, store: identity)
                            found.append((id, slot, file))
                        }
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
            let file = ExternalDataFile(
                name, in: externalData.place, records: externalData.records)
            return SQLiteExternalValue(id, slot.name, file, file.record)
        }
    }
}
