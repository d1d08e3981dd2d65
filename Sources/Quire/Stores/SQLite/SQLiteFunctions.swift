import CSQLite

/// The SQL functions that a store's own statements and its triggers call.
enum SQLiteFunctions {
    /// Makes the functions known to a connection.
    static func register(on connection: SQLiteConnection) throws {
        for name in triggerFunctions {
            // Innocuous, or triggers could not call it, as the schema is not trusted.
            try add(name, argumentCount: 5, flags: SQLITE_INNOCUOUS, to: connection) {
                context, count, values in
                SQLiteFunctions.noteAffectedObject(context, count, values)
            }
        }
    }

    /// What the triggers that Core Data writes for derived attributes call after they have set a column, with the
    /// table, `Z_ENT`, `Z_PK`, the property's (the last: the column's) name and the new value.
    ///
    /// The triggers do the work in plain SQL; the call tells Core Data which objects in memory are out of date.
    private static let triggerFunctions = [
        "NSCoreDataDATriggerInsertUpdatedAffectedObjectValue",
        "NSCoreDataDATriggerUpdatedAffectedObjectValue",
        "NSCoreDataTriggerUpdateAffectedObjectValue",
    ]

    private typealias Implementation =
        @convention(c) (
            OpaquePointer?, Int32, UnsafeMutablePointer<OpaquePointer?>?
        ) -> Void

    private static func add(
        _ name: String, argumentCount: Int32, flags: Int32, to connection: SQLiteConnection,
        _ implementation: @escaping Implementation
    ) throws {
        let code = sqlite3_create_function_v2(
            connection.handle, name, argumentCount, SQLITE_UTF8 | flags, nil, implementation, nil,
            nil, nil)
        if code != SQLITE_OK { throw connection.failure() }
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
            sqlite3_result_null(context)
        } else {
            sqlite3_result_error(
                context,
                "a trigger of the store calls Core Data's function for derived attributes in an unknown way",
                -1)
        }
    }
}
