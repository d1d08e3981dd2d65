import CSQLite
import Foundation
internal import QuireModel
internal import QuireQuery

/// The functions of expressions that SQL cannot compute as memory does: both call ``ValueFunctions`` and
/// ``AggregateFunctions``.
extension SQLiteFunctions {
    static func registerValueFunctions(on connection: SQLiteConnection) throws {
        for (number, function, name) in registered {
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

    /// The functions that each connection is told of, by the numbers that stand for them.
    private static let registered: [(number: Int, function: QueryFunction, name: String)] =
        QueryFunction.allCases.enumerated().filter { $0.element.hasSQLFunction }.map {
            ($0.offset, $0.element, $0.element.sqlName)
        }

    private typealias Values = UnsafeMutablePointer<OpaquePointer?>?

    /// The function that a registration was made for; its number stands in place of a pointer.
    private static func function(of context: OpaquePointer?) -> QueryFunction {
        QueryFunction.allCases[Int(bitPattern: sqlite3_user_data(context)) - 1]
    }

    private static func compute(_ context: OpaquePointer?, _ count: Int32, _ values: Values) {
        let arguments = (0..<Int(count)).map { value(values?[$0]) }
        setResult(ValueFunctions.value(of: function(of: context), arguments), of: context)
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

    // MARK: - Several values

    /// What an aggregate function has been given so far.
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

    /// SQLite calls this once for each group, even if the statement is given up, so the values are released.
    private static func finish(_ context: OpaquePointer?) {
        var values: [AttributeValue] = []
        if let place = place(in: context), let known = place.pointee {
            values = Unmanaged<CollectedValues>.fromOpaque(known).takeRetainedValue().values
            place.pointee = nil
        }
        setResult(AggregateFunctions.value(of: function(of: context), values), of: context)
    }

    /// Where a group keeps its pointer; SQLite fills it with zeros at first.
    private static func place(
        in context: OpaquePointer?
    ) -> UnsafeMutablePointer<UnsafeMutableRawPointer?>? {
        let size = MemoryLayout<UnsafeMutableRawPointer?>.size
        return sqlite3_aggregate_context(context, Int32(size))?
            .assumingMemoryBound(to: UnsafeMutableRawPointer?.self)
    }

    // MARK: - Values

    /// An argument in the form that stores keep.
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

    /// Gives a text back as a function's result.
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
