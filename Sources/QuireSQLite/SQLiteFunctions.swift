import CSQLite
package import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// The SQL functions used by a store's statements and triggers.
enum SQLiteFunctions {
    /// Registers the functions with a connection.
    static func register(on connection: SQLiteConnection) throws {
        try registerTextFunctions(on: connection)
        try registerWordsFunction(on: connection)
        try registerValueFunctions(on: connection)
        try registerSum(on: connection)
        // Innocuous; otherwise triggers could not call them, as the schema is not trusted.
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

    /// Fails the statement with a query error.
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

    /// The functions that Core Data's triggers of derived attributes call after setting a column, with the table, `Z_ENT`,
    /// `Z_PK`, the property's (the last: the column's) name and the new value.
    ///
    /// The triggers do the work in plain SQL; the call reports which objects in memory are stale.
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

    /// The log of the connection that calls a function.
    private static func log(_ context: OpaquePointer?) -> SQLiteDerivedLog? {
        sqlite3_user_data(context).map {
            Unmanaged<SQLiteDerivedLog>.fromOpaque($0).takeUnretainedValue()
        }
    }

    /// Fails the statement if the call does not have the form of Core Data's triggers: then the trigger is foreign and its
    /// purpose unknown.
    private static func noteAffectedObject(
        _ context: OpaquePointer?, _ count: Int32,
        _ values: UnsafeMutablePointer<OpaquePointer?>?
    ) {
        let types = (0..<Int(count)).map { sqlite3_value_type(values?[$0]) }
        let isKnown =
            types.count == 5 && types[0] == SQLITE_TEXT && types[1] == SQLITE_INTEGER
            && types[2] == SQLITE_INTEGER && types[3] == SQLITE_TEXT
        if isKnown, let log = log(context) {
            let (entity, key) = (sqlite3_value_int64(values?[1]), sqlite3_value_int64(values?[2]))
            log.note(entity: entity, key: key)
            if isWide(values?[4]), let property = text(values, 3) {
                log.note(value(values?[4]), at: property, entity: entity, key: key)
            }
            sqlite3_result_null(context)
        } else {
            sqlite3_result_error(
                context,
                "a trigger of the store calls Core Data's function for derived attributes with unknown arguments",
                -1)
        }
    }
}

extension SQLiteFunctions {
    /// Whether a value is a number that some types of number cannot hold.
    private static func isWide(_ value: OpaquePointer?) -> Bool {
        switch sqlite3_value_type(value) {
        case SQLITE_INTEGER: Int16(exactly: sqlite3_value_int64(value)) == nil
        case SQLITE_FLOAT: true
        default: false
        }
    }

    // MARK: - Sums

    /// Replaces SQLite's `sum`, which fails beyond 64 bits, whatever the save changes afterwards. This one returns a
    /// floating-point number then; see ``SQLiteDerivedRows/settleImpossibleValues()``.
    fileprivate static func registerSum(on connection: SQLiteConnection) throws {
        let code = sqlite3_create_function_v2(
            connection.handle, "sum", 1,
            SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, nil, nil,
            { SQLiteFunctions.addToSum($0, $2) }, { SQLiteFunctions.finishSum($0) }, nil)
        if code != SQLITE_OK { throw connection.failure() }
    }

    /// A sum of integers, exactly, and of floating-point numbers, with the low-order bits that adding them loses. SQLite
    /// provides its memory, filled with zeros.
    private struct Sum {
        /// The sum of the integers: 128 bits, in two parts because SQLite aligns them to 8 bytes.
        private var low: UInt64
        private var high: Int64
        private var number: Double
        private var lost: Double
        private var hasIntegers: Bool
        private var hasNumbers: Bool

        mutating func add(_ integer: Int64) {
            hasIntegers = true
            let (sum, carries) = low.addingReportingOverflow(UInt64(bitPattern: integer))
            low = sum
            high &+= (integer < 0 ? -1 : 0) + (carries ? 1 : 0)
        }

        mutating func add(_ addend: Double) {
            hasNumbers = true
            let sum = number + addend
            lost += abs(number) >= abs(addend) ? number - sum + addend : addend - sum + number
            number = sum
        }

        func setResult(of context: OpaquePointer?) {
            let integers = Int128(high) << 64 | Int128(low)
            if hasNumbers {
                let sum = lost.isFinite ? number + lost : number
                sqlite3_result_double(context, sum + Double(integers))
            } else if !hasIntegers {
                sqlite3_result_null(context)
            } else if let integer = Int64(exactly: integers) {
                sqlite3_result_int64(context, integer)
            } else {
                sqlite3_result_double(context, Double(integers))
            }
        }
    }

    private static func sum(in context: OpaquePointer?) -> UnsafeMutablePointer<Sum>? {
        sqlite3_aggregate_context(context, Int32(MemoryLayout<Sum>.size))?
            .assumingMemoryBound(to: Sum.self)
    }

    private static func addToSum(
        _ context: OpaquePointer?, _ values: UnsafeMutablePointer<OpaquePointer?>?
    ) {
        let type = sqlite3_value_numeric_type(values?[0])
        if type == SQLITE_NULL { return }
        guard let sum = sum(in: context) else { return sqlite3_result_error_nomem(context) }
        if type == SQLITE_INTEGER {
            sum.pointee.add(sqlite3_value_int64(values?[0]))
        } else {
            sum.pointee.add(sqlite3_value_double(values?[0]))
        }
    }

    private static func finishSum(_ context: OpaquePointer?) {
        guard let sum = sum(in: context) else { return sqlite3_result_error_nomem(context) }
        sum.pointee.setResult(of: context)
    }
}

// MARK: - Values

/// The functions of expressions that plain SQL computes differently from memory: both call ``ValueFunctions`` and
/// ``AggregateFunctions``.
extension SQLiteFunctions {
    static func registerValueFunctions(on connection: SQLiteConnection) throws {
        for (number, (function, name, _)) in registered.enumerated() {
            let isRandom = function == .random || function == .randomBelow
            let code =
                function.isAggregate
                ? sqlite3_create_function_v2(
                    connection.handle, name, 1, SQLITE_UTF8,
                    UnsafeMutableRawPointer(bitPattern: number + 1), nil,
                    { SQLiteFunctions.collect($0, $2) }, { SQLiteFunctions.finish($0) }, nil)
                : sqlite3_create_function_v2(
                    connection.handle, name, Int32(function.argumentCount),
                    SQLITE_UTF8 | (isRandom ? 0 : SQLITE_DETERMINISTIC),
                    UnsafeMutableRawPointer(bitPattern: number + 1),
                    { SQLiteFunctions.compute($0, $1, $2) }, nil, nil, nil)
            if code != SQLITE_OK { throw connection.failure() }
        }
        let code = sqlite3_create_function_v2(
            connection.handle, QueryCast.sqlName, 3, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nil,
            { SQLiteFunctions.cast($0, $2) }, nil, nil, nil)
        if code != SQLITE_OK { throw connection.failure() }
    }

    private typealias Registration = (function: QueryFunction, name: String, isDecimal: Bool)

    /// The registered functions: of values as they are stored, and of decimal numbers.
    private static let registered: [Registration] =
        QueryFunction.allCases.filter(\.hasSQLFunction).map { ($0, $0.sqlName, false) }
        + QueryFunction.allCases.filter(\.isDecimalArithmetic).map { ($0, $0.decimalSQLName, true) }

    private typealias Values = UnsafeMutablePointer<OpaquePointer?>?

    /// The function that is called; the user-data pointer is its number.
    private static func registration(of context: OpaquePointer?) -> Registration {
        registered[Int(bitPattern: sqlite3_user_data(context)) - 1]
    }

    /// A value in the form that decimal arithmetic takes; missing if it is not a number.
    private static func decimal(_ value: AttributeValue) -> AttributeValue {
        switch value {
        case .integer(let integer): .decimal(Decimal(integer))
        // Infinite ones stay what they are.
        case .double(let number): SQLiteDecimal.decimal(number).map { .decimal($0) } ?? value
        default: .null
        }
    }

    private static func compute(_ context: OpaquePointer?, _ count: Int32, _ values: Values) {
        let (function, _, isDecimal) = registration(of: context)
        let arguments = (0..<Int(count)).map {
            isDecimal ? decimal(value(values?[$0])) : value(values?[$0])
        }
        setResult(ValueFunctions.value(of: function, arguments), of: context)
    }

    private static func cast(_ context: OpaquePointer?, _ values: Values) {
        var value = value(values?[0])
        switch (sqlite3_value_int(values?[2]), value) {
        case (1, .double(let seconds)):
            value = .date(Date(timeIntervalSinceReferenceDate: seconds))
        case (2, .binary(let bytes)) where bytes.count == 16:
            value = .uuid(bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) })
        default: break
        }
        guard case .string(let name) = self.value(values?[1]),
            let type = QueryCast(rawValue: name), !ValueOrder.isMissing(value)
        else { return sqlite3_result_null(context) }
        setResult(type.value(of: value) ?? .null, of: context)
    }

    // MARK: - Aggregates

    /// The values collected by an aggregate function.
    private final class CollectedValues {
        var values: [AttributeValue] = []
    }

    private static func collect(_ context: OpaquePointer?, _ values: Values) {
        guard let place = place(in: context) else { return sqlite3_result_error_nomem(context) }
        let collected: CollectedValues
        if let known = place.pointee {
            collected = Unmanaged<CollectedValues>.fromOpaque(known).takeUnretainedValue()
        } else {
            collected = CollectedValues()
            place.pointee = Unmanaged.passRetained(collected).toOpaque()
        }
        collected.values.append(value(values?[0]))
    }

    /// SQLite calls this once for each group, even if the statement is aborted, so the values are released.
    private static func finish(_ context: OpaquePointer?) {
        var values: [AttributeValue] = []
        if let place = place(in: context), let known = place.pointee {
            values = Unmanaged<CollectedValues>.fromOpaque(known).takeRetainedValue().values
            place.pointee = nil
        }
        let (function, _, isDecimal) = registration(of: context)
        if isDecimal { values = values.map { decimal($0) } }
        setResult(AggregateFunctions.value(of: function, values), of: context)
    }

    /// The aggregate context with a group's pointer; zeroed by SQLite at first.
    private static func place(
        in context: OpaquePointer?
    ) -> UnsafeMutablePointer<UnsafeMutableRawPointer?>? {
        let size = MemoryLayout<UnsafeMutableRawPointer?>.size
        return sqlite3_aggregate_context(context, Int32(size))?
            .assumingMemoryBound(to: UnsafeMutableRawPointer?.self)
    }

    // MARK: - Values

    /// An argument in its stored form.
    private static func value(_ value: OpaquePointer?) -> AttributeValue {
        switch sqlite3_value_type(value) {
        case SQLITE_INTEGER: return .integer(sqlite3_value_int64(value))
        case SQLITE_FLOAT: return .double(sqlite3_value_double(value))
        case SQLITE_TEXT:
            let start = sqlite3_value_text(value)
            let bytes = UnsafeBufferPointer(start: start, count: Int(sqlite3_value_bytes(value)))
            return .string(String(decoding: bytes, as: UTF8.self))
        case SQLITE_BLOB:
            let start = sqlite3_value_blob(value)
            return .binary(
                Data(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_value_bytes(value)))))
        default: return .null
        }
    }

    private static func setResult(_ value: AttributeValue, of context: OpaquePointer?) {
        switch value.stored {
        case .integer(let integer): sqlite3_result_int64(context, integer)
        case .double(let number): sqlite3_result_double(context, number)
        case .string(let text): setResult(text, of: context)
        case .binary(let bytes):
            bytes.withUnsafeBytes {
                quire_sqlite3_result_blob_transient(
                    context, $0.baseAddress, UInt64($0.count))
            }
        default: sqlite3_result_null(context)
        }
    }

    /// Sets a text as a function's result.
    static func setResult(_ text: String, of context: OpaquePointer?) {
        var text = text
        text.withUTF8 { bytes in
            guard let start = UnsafeRawPointer(bytes.baseAddress) else {
                return quire_sqlite3_result_text_transient(context, "", 0)
            }
            guard let count = Int32(exactly: bytes.count) else {
                return sqlite3_result_error_toobig(context)
            }
            quire_sqlite3_result_text_transient(
                context, start.assumingMemoryBound(to: CChar.self), count)
        }
    }
}

// MARK: - Decimal numbers

/// Decimal numbers as in Core Data's stores: as an integer, or as the nearest floating-point number.
///
/// A floating-point number is read as its shortest decimal text, so 0.1 reads as 0.1. Numbers of up to 15 digits round-trip,
/// others become the nearest floating-point number.
package enum SQLiteDecimal {
    /// The stored form of a decimal number.
    package enum Stored: Equatable {
        case integer(Int64)
        case double(Double)
        /// NaN.
        case text(String)
    }

    /// Core Data's stored form of NaN.
    private static let notANumber = "NaN"

    /// The stored form.
    package static func stored(_ value: Decimal) -> Stored {
        if value.isNaN { return .text(notANumber) }
        let text = value.description
        if let integer = Int64(text) { return .integer(integer) }
        // The text of a decimal number is a valid floating-point literal.
        return .double(Double(text) ?? 0)
    }

    /// Checks that a number round-trips.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue`, naming the property, if it has more digits than the stored form.
    static func checkIsExact(
        _ value: Decimal, for slot: ResolvedEntity.Slot, of entity: ResolvedEntity,
        _ objectID: ManagedObjectID? = nil
    ) throws {
        guard case .double(let number) = stored(value), decimal(number) != value else { return }
        let object = objectID.map { " of \($0.shortDescription)" } ?? ""
        throw QuireError(
            .invalidValue,
            "“\(entity.name).\(slot.name)”\(object) cannot be stored exactly: a SQLite store keeps 15 digits of a "
                + "decimal number with a fraction, and \(value) has more; round it.",
            entity: entity.name, property: slot.name, object: objectID?.uriRepresentation,
            value: value.description)
    }

    /// The decimal value of a floating-point number; `nil` if it is infinite, too large or too small.
    package static func decimal(_ value: Double) -> Decimal? {
        guard value.isFinite else { return nil }
        // Most have few digits. With at most 15 the scaled number is exact, and dividing it rounds correctly.
        var scale = 1.0
        for exponent in 0...6 {
            let scaled = (value * scale).rounded()
            if abs(scaled) >= 1e15 { break }
            if scaled / scale == value {
                return Decimal(
                    sign: scaled < 0 ? .minus : .plus, exponent: -exponent,
                    significand: Decimal(Int64(abs(scaled))))
            }
            scale *= 10
        }
        return decimal(value.description)
    }

    /// The decimal value of a text; `nil` if it is not a number.
    static func decimal(_ text: String) -> Decimal? {
        if text == notANumber { return .nan }
        guard Double(text) != nil else { return nil }
        if let decimal = Decimal(string: text, locale: nil), !decimal.isNaN { return decimal }
        return Decimal(numberText: text)
    }
}
