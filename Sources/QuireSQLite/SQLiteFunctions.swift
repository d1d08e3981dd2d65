import CSQLite
internal import QuireQuery
internal import QuireSystem

/// The SQL functions that a store's own statements and its triggers call.
enum SQLiteFunctions {
    /// Makes the functions known to a connection.
    static func register(on connection: SQLiteConnection) throws {
        try registerTextFunctions(on: connection)
        try registerWordsFunction(on: connection)
        try registerValueFunctions(on: connection)
        // Innocuous, or triggers could not call them, as the schema is not trusted.
        for name in triggerFunctions {
            try add(name, argumentCount: 5, flags: SQLITE_INNOCUOUS, to: connection) {
                context, count, values in
                SQLiteFunctions.noteAffectedObject(context, count, values)
            }
        }
        try add(
            SQLDerivedFunction.now, argumentCount: 0, flags: SQLITE_INNOCUOUS, to: connection
        ) { context, _, _ in
            sqlite3_result_double(context, SQLiteFunctions.log(context)?.now ?? 0)
        }
    }

    // MARK: - Texts

    private static func registerTextFunctions(on connection: SQLiteConnection) throws {
        try add(
            TextFunctions.foldName, argumentCount: 2, flags: SQLITE_DETERMINISTIC, to: connection
        ) { context, _, values in
            guard let text = SQLiteFunctions.text(values, 0) else {
                return sqlite3_result_null(context)
            }
            let folded = TextFunctions.fold(text, options: sqlite3_value_int64(values?[1]))
            SQLiteFunctions.setResult(folded, of: context)
        }
        try add(
            TextFunctions.likeName, argumentCount: 3, flags: SQLITE_DETERMINISTIC, to: connection
        ) { context, _, values in
            guard let pattern = SQLiteFunctions.text(values, 0),
                let text = SQLiteFunctions.text(values, 1)
            else { return sqlite3_result_null(context) }
            let isLike = TextFunctions.like(
                pattern: pattern, text: text, options: sqlite3_value_int64(values?[2]))
            sqlite3_result_int(context, isLike ? 1 : 0)
        }
        try add(
            TextFunctions.matchesName, argumentCount: 3, flags: SQLITE_DETERMINISTIC, to: connection
        ) { context, _, values in
            guard let pattern = SQLiteFunctions.text(values, 0),
                let text = SQLiteFunctions.text(values, 1)
            else { return sqlite3_result_null(context) }
            do {
                let matches = try TextFunctions.matches(
                    pattern: pattern, text: text, options: sqlite3_value_int64(values?[2]))
                sqlite3_result_int(context, matches ? 1 : 0)
            } catch {
                SQLiteFunctions.fail(context, error)
            }
        }
    }

    private static func registerWordsFunction(on connection: SQLiteConnection) throws {
        try add(
            TextFunctions.matchesTextName, argumentCount: 2, flags: SQLITE_DETERMINISTIC,
            to: connection
        ) { context, _, values in
            guard let query = SQLiteFunctions.text(values, 0),
                let text = SQLiteFunctions.text(values, 1)
            else { return sqlite3_result_null(context) }
            do {
                let matches = try TextFunctions.matchesText(query: query, text: text)
                sqlite3_result_int(context, matches ? 1 : 0)
            } catch {
                SQLiteFunctions.fail(context, error)
            }
        }
    }

    /// Ends the statement with an error of the query.
    private static func fail(_ context: OpaquePointer?, _ error: any Error) {
        sqlite3_result_error(
            context, SQLiteFailure.queryPrefix + ((error as? QuireError)?.message ?? "\(error)"), -1
        )
    }

    /// An argument as a text; `nil` if it is NULL.
    private static func text(
        _ values: UnsafeMutablePointer<OpaquePointer?>?, _ index: Int
    ) -> String? {
        guard let value = values?[index], sqlite3_value_type(value) != SQLITE_NULL,
            let start = sqlite3_value_text(value)
        else { return nil }
        return String(
            decoding: UnsafeBufferPointer(start: start, count: Int(sqlite3_value_bytes(value))),
            as: UTF8.self)
    }

    // MARK: - Triggers

    /// What the triggers that Core Data writes for derived attributes call after they have set a column, with the
    /// table, `Z_ENT`, `Z_PK`, the property's (the last: the column's) name and the new value.
    ///
    /// The triggers do the work in plain SQL; the call tells which objects in memory are out of date.
    private static let triggerFunctions = SQLDerivedFunction.allNotes

    private typealias Implementation =
        @convention(c) (
            OpaquePointer?, Int32, UnsafeMutablePointer<OpaquePointer?>?
        ) -> Void

    private static func add(
        _ name: String, argumentCount: Int32, flags: Int32, to connection: SQLiteConnection,
        _ implementation: @escaping Implementation
    ) throws {
        let code = sqlite3_create_function_v2(
            connection.handle, name, argumentCount, SQLITE_UTF8 | flags,
            Unmanaged.passRetained(connection.derivedLog).toOpaque(), implementation, nil, nil,
            { log in
                if let log { Unmanaged<SQLiteDerivedLog>.fromOpaque(log).release() }
            })
        if code != SQLITE_OK { throw connection.failure() }
    }

    /// The log of the connection that a function is called on.
    private static func log(_ context: OpaquePointer?) -> SQLiteDerivedLog? {
        sqlite3_user_data(context).map {
            Unmanaged<SQLiteDerivedLog>.fromOpaque($0).takeUnretainedValue()
        }
    }

    /// Fails the statement if the call is not of the form that the triggers of Core Data have: then somebody else
    /// wrote the trigger, and what it means to do is unknown.
    private static func noteAffectedObject(
        _ context: OpaquePointer?, _ count: Int32,
        _ values: UnsafeMutablePointer<OpaquePointer?>?
    ) {
        let types = (0..<Int(count)).map { sqlite3_value_type(values?[$0]) }
        let isKnown =
            types.count == 5 && types[0] == SQLITE_TEXT && types[1] == SQLITE_INTEGER
            && types[2] == SQLITE_INTEGER && types[3] == SQLITE_TEXT
        if isKnown {
            log(context)?.note(
                entity: sqlite3_value_int64(values?[1]), key: sqlite3_value_int64(values?[2]))
            sqlite3_result_null(context)
        } else {
            sqlite3_result_error(
                context,
                "a trigger of the store calls Core Data's function for derived attributes in an unknown way",
                -1)
        }
    }
}
