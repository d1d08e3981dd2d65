internal import QuireModel
internal import QuireProtection
internal import QuireStore
internal import QuireSystem

/// The pages of a store's database by what they are used for, in bytes.
package struct SQLiteSpaceUse: Sendable {
    /// The size of the database, without a log.
    package var database: Int64
    /// Pages that nothing uses; ``SQLiteStore/compact()`` returns them to the file system.
    package var free: Int64
    /// The tables and indexes of objects, with full-text indexes and R-trees, by the number of the root entity.
    package var entities: [Int: Int64] = [:]
    /// The join tables of many-to-many relationships.
    package var relationships: Int64 = 0
    /// The store's history.
    package var history: Int64 = 0
    /// Everything else, such as metadata and the model.
    package var other: Int64 = 0
}

extension SQLiteStore {
    /// Rebuilds the database at minimal size (`VACUUM`): without free pages and with the rows of each table in sequence.
    ///
    /// Either the whole database is rebuilt or nothing is changed. Its content and the identifiers of objects stay the same.
    /// Other processes and contexts can read in the meantime; saves wait. If readers still use the old content when it is done,
    /// the file shrinks when the store is closed. The history is not pruned; delete it first, see
    /// ``PersistentHistoryChangeRequest``.
    ///
    /// ```swift
    /// let store = try SQLiteStore.open(at: path)
    /// try store.compact()
    /// try store.close()
    /// ```
    ///
    /// Temporarily needs up to twice the space of the compact database: in the temporary directory, or in memory if the store is
    /// protected, and for the write-ahead log.
    ///
    /// - Complexity: O(*n*) in the size of the database.
    /// - Throws: ``QuireError`` with code `outOfSpace`, `locked` if another process is writing to it, `readOnly`,
    ///   `storeReplaced`, `invalidFormat` if it is damaged, or `storeUnavailable`.
    public func compact() throws {
        try withWriter { writer in
            let connection = writer.connection
            do {
                try connection.files?.check()
                // A protected database must not be in a temporary file.
                if protection == nil { try connection.execute("PRAGMA temp_store = FILE") }
                defer { try? connection.execute("PRAGMA temp_store = MEMORY") }
                try connection.execute("VACUUM")
                try connection.files?.checkAfterCommit()
                if usesReaderPool { try connection.execute("PRAGMA wal_checkpoint(TRUNCATE)") }
            } catch {
                let failure = error as? SQLiteFailure
                SQLiteSave.undo(after: failure, store: self, writer: writer)
                if let failure, failure.isOutOfSpace { throw noSpaceToCompact(failure) }
                throw error
            }
        }
    }

    private func noSpaceToCompact(_ failure: SQLiteFailure) -> QuireError {
        QuireError(
            .outOfSpace,
            "The disk is too full to compact “\(storePath)”, which temporarily needs as much space as its content, both beside it "
                + "and in the temporary directory; free some space and try again.",
            file: storePath, underlying: failure)
    }

    /// The use of the database's pages, as of the last save; `nil` if SQLite was built without `dbstat`.
    ///
    /// - Complexity: O(*n*) in the size of the database, which is read.
    /// - Throws: Errors of reading.
    package func spaceUse() throws -> SQLiteSpaceUse? {
        try read { connection in
            guard
                try connection.integer(
                    "SELECT count(*) FROM pragma_module_list WHERE name = 'dbstat'") == 1
            else { return nil }
            let page = try connection.integer("PRAGMA page_size") ?? 0
            var use = SQLiteSpaceUse(
                database: try page * (connection.integer("PRAGMA page_count") ?? 0),
                free: try page * (connection.integer("PRAGMA freelist_count") ?? 0))
            let tables = try connection.rows(
                """
                SELECT upper(coalesce(s.tbl_name, d.name)), sum(d.pgsize) FROM dbstat AS d \
                LEFT JOIN sqlite_schema AS s ON s.name = d.name WHERE d.aggregate = 1 GROUP BY 1
                """
            ) { ($0.text(0), $0.integer(1)) }
            for (name, bytes) in tables { add(bytes, ofTable: name, to: &use) }
            return use
        }
    }

    private func add(_ bytes: Int64, ofTable name: String, to use: inout SQLiteSpaceUse) {
        if let table = schema.tables.first(where: { $0.name.uppercased() == name }) {
            use.entities[table.rootNumber, default: 0] += bytes
        } else if let index = schema.computedIndexes.first(where: {
            name.hasPrefix($0.name.uppercased() + "_")
        }) {
            let entity = schema.layout.entity(number: index.entityNumber)
            use.entities[entity.rootNumber, default: 0] += bytes
        } else if schema.joinTables.contains(where: { $0.name.uppercased() == name }) {
            use.relationships += bytes
        } else if SQLiteHistoryTables.Entity.allCases.contains(where: { $0.table == name }) {
            use.history += bytes
        } else {
            use.other += bytes
        }
    }
}
