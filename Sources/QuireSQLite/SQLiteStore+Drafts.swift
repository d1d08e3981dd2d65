package import Foundation
internal import QuireProtection
internal import QuireSystem

/// Drafts: bytes that stand for what somebody has not been able to save, in the same file, beside the objects.
///
/// There is a draft if the records say how long it is. A save that writes what the draft stands for removes that record,
/// and the draft goes in its transaction.
extension SQLiteStore {
    /// The key among the records under which the length of the draft is.
    package static let draftRecordKey = "draft"

    private static let pieceSize = 1 << 20

    /// Keeps a draft in the place of the one that there is, in a transaction of its own. When it returns, the draft
    /// survives power loss.
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

    /// The draft, or `nil` if there is none.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is not as long as it was, or what reading throws.
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

    /// Removes the draft, if there is one, in a transaction of its own.
    package func removeDraft() throws {
        guard try hasDraft() else { return }
        try changeDraft(Self.removeRecord)
    }

    /// Removes the draft of a copy that nobody has opened yet, and every trace of it.
    func dropDraft(ofCopyAt path: String, protectedBy protection: StoreProtection?) throws {
        let source = try SQLiteStoreSource(
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

    /// Runs a transaction in which the draft that there is goes first.
    private func changeDraft(_ body: (SQLiteConnection) throws -> Void) throws {
        try withWriter { writer in
            let connection = writer.connection
            try connection.begin()
            do {
                try writer.modelGuard.checkTriggers(connection)
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
    /// How long the draft is, or `nil` if there is none.
    package func draftSize() throws -> Int? {
        guard try hasTable(SQLiteTables.records) else { return nil }
        return try withStatement("SELECT Z_VALUE FROM \(SQLiteTables.records) WHERE Z_KEY = ?") {
            try $0.bind(SQLiteStore.draftRecordKey, at: 1)
            return try $0.step() ? Int($0.text(0)) ?? 0 : nil
        }
    }
}
