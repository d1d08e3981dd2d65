package import Foundation
internal import QuireModel
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
        try examine(path) { try SQLiteMetadataReader(connection: $0, path: $1).metadata() }
    }

    /// The store's data beside its objects.
    package func ancillaryData() throws -> SQLiteAncillaryData {
        try read { try $0.ancillaryData() }
    }

    /// A store's data beside its objects, read without its model. Leaves no trace.
    ///
    /// - Throws: As ``metadata(at:)``.
    package static func ancillaryData(at path: String) throws -> SQLiteAncillaryData {
        try examine(path) { connection, _ in try connection.ancillaryData() }
    }

    /// Reads from the file of a store, which need not be open.
    ///
    /// - Parameter body: Gets a connection and the absolute path.
    private static func examine<Result>(
        _ path: String, _ body: (SQLiteConnection, String) throws -> Result
    ) throws -> Result {
        let path = FileSystem.absolute(path)
        guard exists(at: path) else { throw QuireError.notFound(at: path) }
        let source = try SQLiteDatabaseFile(path: path, isReadOnly: true)
        defer { source.release() }
        do {
            let connection = try source.connect(.reading, options: .reading())
            defer { connection.close() }
            return try body(connection, path)
        } catch let failure as SQLiteFailure {
            throw failure.openingError(path: path)
        }
    }

    /// Sets or removes an application's metadata value, in its own transaction.
    public func setMetadata(_ value: PropertyListValue?, forKey key: String) throws {
        try StoreMetadata.requireUnreserved(key, file: storePath)
        try changeMetadata { metadata, _ in metadata.values[key] = value }
    }

    /// Makes the model that the store was opened with the one that it carries. Its version hashes are the same.
    package func writeCarriedModel() throws {
        let model = schema.layout.model
        try changeMetadata { metadata, connection in
            metadata.setVersionIdentifiers(of: model)
            try connection.writeModel(model)
        }
    }

    /// Changes the metadata, and what belongs to it, in its own transaction.
    private func changeMetadata(
        _ body: (inout StoreMetadata, SQLiteConnection) throws -> Void
    ) throws {
        try withWriter { writer in
            let connection = writer.connection
            try connection.begin()
            do {
                try writer.modelVersionCheck.checkTriggers(connection)
                var metadata = try SQLiteMetadataReader(connection: connection, path: storePath)
                    .metadata()
                try body(&metadata, connection)
                try connection.run(
                    "UPDATE Z_METADATA SET Z_PLIST = ?1 WHERE Z_VERSION = (SELECT min(Z_VERSION) FROM Z_METADATA)",
                    metadata.propertyList)
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
    /// reading connections never commit. `nil` once another file is at the store's path, because the connections do not see its
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

extension SQLiteStore {
    /// The problems found by `PRAGMA integrity_check`, one text each.
    package func integrityProblems() throws -> [String] {
        try read { connection in
            var problems: [String] = []
            do {
                try connection.forEachRow("PRAGMA integrity_check") {
                    // One row can list a hundred problems under a heading.
                    let lines = $0.text(0).split(separator: "\n")
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

// MARK: - Drafts

/// Drafts: serialized unsaved changes, kept in the same file beside the objects.
///
/// A draft exists if its length is recorded. A save that contains the draft's changes removes that record, and its
/// transaction deletes the draft.
extension SQLiteStore {
    /// The record key of the draft's length.
    package static let draftRecordKey = "draft"

    /// Replaces the draft, in its own transaction. When it returns, the draft survives power loss.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `outOfSpace` or `storeUnavailable`.
    package func writeDraft(_ bytes: Data) throws {
        try changeDraft { try $0.writeDraft(bytes) }
    }

    /// The draft, or `nil`.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if its length differs from the recorded one, or errors of reading.
    package func draft() throws -> Data? {
        try read { try $0.draft(inStoreAt: storePath) }
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
        try connection.run("DELETE FROM \(SQLiteTables.records) WHERE Z_KEY = ?", draftRecordKey)
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
        return try row(
            "SELECT Z_VALUE FROM \(SQLiteTables.records) WHERE Z_KEY = ?",
            SQLiteStore.draftRecordKey
        ) { Int($0.text(0)) ?? 0 }
    }

    /// The draft of a store, or `nil`.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if its length differs from the recorded one, or errors of reading.
    package func draft(inStoreAt path: String) throws -> Data? {
        guard let size = try draftSize() else { return nil }
        var bytes = Data()
        if try hasTable(SQLiteTables.draft) {
            try forEachRow("SELECT Z_CONTENT FROM \(SQLiteTables.draft) ORDER BY Z_ORDER") {
                bytes.append($0.data(0))
            }
        }
        if bytes.count == size { return bytes }
        throw QuireError(
            .invalidFormat,
            "The draft in “\(path)” has \(bytes.count) bytes instead of \(size); it was not changed.",
            file: path)
    }

    /// Replaces the draft, within a transaction.
    package func writeDraft(_ bytes: Data) throws {
        let pieceSize = 1 << 20
        try execute(SQLiteTables.dropDraft)
        try execute(SQLiteTables.createDraft)
        var start = bytes.startIndex
        while start < bytes.endIndex {
            let end = min(start + pieceSize, bytes.endIndex)
            try run(
                "INSERT INTO \(SQLiteTables.draft) (Z_CONTENT) VALUES (?)", bytes[start..<end])
            start = end
        }
        try execute(SQLiteTables.createRecords)
        try run(
            "INSERT OR REPLACE INTO \(SQLiteTables.records) VALUES (?, ?)",
            SQLiteStore.draftRecordKey, String(bytes.count))
    }
}
