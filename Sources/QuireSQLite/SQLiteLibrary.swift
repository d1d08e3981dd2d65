import CSQLite

/// The settings of the SQLite library, which all connections of the process share, other libraries' too.
enum SQLiteLibrary {
    /// Whether the library has Quire's settings; sets them on first access, which must precede any other use of it.
    ///
    /// It keeps no statistics of memory, for which every allocation would take a lock of the whole process. A program that has
    /// initialized SQLite before keeps its own setting: SQLite refuses to change it then.
    static let isConfigured: Bool =
        sqlite3_memory_used() == 0
        && quire_sqlite3_config_int(SQLITE_CONFIG_MEMSTATUS, 0) == SQLITE_OK
}

// MARK: - Statistics of tables

/// Statistics by which SQLite chooses among indexes, collected when a store that was made here and saved is closed. Stores of other
/// programs keep their tables as they are.
///
/// SQLite judges by the queries of a connection whether they would help, and whether a table has grown so much that they are out
/// of date. Queries run in reading connections, which cannot write: so these are asked, and the writing one collects.
extension SQLiteConnection {
    /// The statements that would collect statistics, which SQLite advises after the queries of this connection.
    func advisedAnalyses() -> [String] { (try? texts("PRAGMA optimize(3)")) ?? [] }

    /// Collects statistics, from a limited number of rows of each index, so that the time does not grow with the store.
    func analyze(_ statements: Set<String>) throws {
        if statements.isEmpty { return }
        try execute("PRAGMA analysis_limit = 400")
        try begin()
        do {
            for statement in statements.sorted() { try execute(statement) }
            try commit()
        } catch {
            if isInTransaction { try? execute("ROLLBACK") }
            throw error
        }
    }
}
