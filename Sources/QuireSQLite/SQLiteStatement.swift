import CSQLite
package import Foundation
package import QuireModel
internal import QuireQuery
import Synchronization

/// The owner of a prepared statement.
///
/// Parameters count from 1, columns from 0, as in SQLite.
package final class SQLiteStatement {
    /// SQLite's statement.
    let handle: OpaquePointer
    /// Whether the statement is checked out of the cache.
    var isInUse = false

    init(_ handle: OpaquePointer) { self.handle = handle }

    deinit { sqlite3_finalize(handle) }

    // MARK: - Running

    /// Steps to the next row.
    ///
    /// - Returns: Whether there is one.
    @inline(__always)
    package func step() throws -> Bool {
        let code = sqlite3_step(handle)
        if code == SQLITE_ROW { return true }
        if code == SQLITE_DONE { return false }
        throw failure()
    }

    /// Runs a statement that returns no rows, and resets it.
    @inline(__always)
    package func run() throws {
        let code = sqlite3_step(handle)
        if code != SQLITE_DONE && code != SQLITE_ROW {
            let failure = failure()
            sqlite3_reset(handle)
            throw failure
        }
        sqlite3_reset(handle)
    }

    /// Resets the statement and clears its bindings.
    package func reset() {
        sqlite3_reset(handle)
        sqlite3_clear_bindings(handle)
    }

    private func failure() -> SQLiteFailure { SQLiteFailure(of: sqlite3_db_handle(handle)) }

    // MARK: - Binding

    package func bind(_ value: Int64, at index: Int32) throws {
        try check(sqlite3_bind_int64(handle, index, value))
    }

    package func bind(_ value: Double, at index: Int32) throws {
        try check(sqlite3_bind_double(handle, index, value))
    }

    package func bindNull(at index: Int32) throws {
        try check(sqlite3_bind_null(handle, index))
    }

    /// Binds a text, copied by SQLite.
    package func bind(_ value: String, at index: Int32) throws {
        var value = value
        try check(
            value.withUTF8 { bytes in
                guard let base = UnsafeRawPointer(bytes.baseAddress) else {
                    return quire_sqlite3_bind_text_transient(handle, index, "", 0)
                }
                return quire_sqlite3_bind_text_transient(
                    handle, index, base.assumingMemoryBound(to: CChar.self), UInt64(bytes.count))
            })
    }

    /// Binds bytes, copied by SQLite.
    package func bind(_ value: Data, at index: Int32) throws {
        try check(
            value.withUnsafeBytes { bytes in
                // A null pointer would bind NULL.
                bytes.baseAddress.map {
                    quire_sqlite3_bind_blob_transient(handle, index, $0, UInt64(bytes.count))
                } ?? sqlite3_bind_zeroblob(handle, index, 0)
            })
    }

    /// Binds zero bytes, to be overwritten by ``SQLiteBlob``.
    package func bindZeros(count: Int, at index: Int32) throws {
        try check(sqlite3_bind_zeroblob64(handle, index, UInt64(count)))
    }

    /// Binds values in their stored form to consecutive parameters.
    package func bind(_ values: [AttributeValue], from first: Int32 = 1) throws {
        for (offset, value) in values.enumerated() {
            let index = first + Int32(offset)
            switch try value.stored.loaded() {
            case .integer(let integer): try bind(integer, at: index)
            case .double(let double): try bind(double, at: index)
            case .string(let text): try bind(text, at: index)
            case .binary(let data): try bind(data, at: index)
            default: try bindNull(at: index)
            }
        }
    }

    /// Binds a text whose memory must stay valid until the statement is reset.
    @inline(__always)
    package func bindText(_ bytes: UnsafeRawBufferPointer, at index: Int32) throws {
        try check(
            quire_sqlite3_bind_text_static(
                handle, index, bytes.baseAddress?.assumingMemoryBound(to: CChar.self),
                UInt64(bytes.count)))
    }

    /// Binds bytes whose memory must stay valid until the statement is reset.
    @inline(__always)
    package func bindBlob(_ bytes: UnsafeRawBufferPointer, at index: Int32) throws {
        try check(
            quire_sqlite3_bind_blob_static(handle, index, bytes.baseAddress, UInt64(bytes.count)))
    }

    @inline(__always)
    private func check(_ code: Int32) throws {
        if code != SQLITE_OK { throw failure() }
    }

    // MARK: - Columns

    /// The number of columns of a row.
    package var columnCount: Int32 { sqlite3_column_count(handle) }

    package func isNull(_ column: Int32) -> Bool {
        sqlite3_column_type(handle, column) == SQLITE_NULL
    }

    package func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    /// The column as text; empty if NULL.
    package func text(_ column: Int32) -> String {
        guard let start = sqlite3_column_text(handle, column) else { return "" }
        return String(
            decoding: UnsafeBufferPointer(
                start: start, count: Int(sqlite3_column_bytes(handle, column))),
            as: UTF8.self)
    }

    /// The column as bytes; empty if NULL.
    package func data(_ column: Int32) -> Data {
        guard let start = sqlite3_column_blob(handle, column) else { return Data() }
        return Data(bytes: start, count: Int(sqlite3_column_bytes(handle, column)))
    }

    package func double(_ column: Int32) -> Double { sqlite3_column_double(handle, column) }

    /// The column in its stored form.
    package func value(_ column: Int32) -> AttributeValue {
        switch sqlite3_column_type(handle, column) {
        case SQLITE_NULL: .null
        case SQLITE_INTEGER: .integer(integer(column))
        case SQLITE_FLOAT: .double(sqlite3_column_double(handle, column))
        case SQLITE_TEXT: .string(text(column))
        default: .binary(data(column))
        }
    }

    /// Appends a column's type, size and bytes; numbers as text.
    func append(_ column: Int32, to bytes: inout [UInt8]) {
        let type = sqlite3_column_type(handle, column)
        let start = sqlite3_column_blob(handle, column)
        let size = Int(sqlite3_column_bytes(handle, column))
        bytes.append(UInt8(truncatingIfNeeded: type))
        withUnsafeBytes(of: size) { bytes.append(contentsOf: $0) }
        bytes.append(
            contentsOf: UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : size))
    }
}

// MARK: - Counting

/// A count of the statements that a store has run.
final class SQLiteStatementCounter: Sendable {
    private let value = Atomic(0)

    var count: Int { value.load(ordering: .relaxed) }

    func add() { value.add(1, ordering: .relaxed) }
}

// MARK: - Bindings

/// Memory for the bound texts and bytes of one row.
///
/// A value is copied once into memory that is reused for every row, instead of into a block that SQLite would allocate for
/// each value.
package final class SQLiteBindingArena {
    @exclusivity(unchecked) private var blocks: [UnsafeMutableRawBufferPointer] = []
    @exclusivity(unchecked) private var block = 0
    @exclusivity(unchecked) private var used = 0

    private static let blockSize = 64 * 1024

    package init() {
        blocks = [.allocate(byteCount: Self.blockSize, alignment: 16)]
    }

    deinit { for block in blocks { block.deallocate() } }

    /// Invalidates all addresses. Called after the statement has run.
    @inline(__always)
    package func reset() {
        used = 0
        if block > 0 { dropBlocks() }
    }

    private func dropBlocks() {
        for block in blocks.dropFirst() { block.deallocate() }
        blocks.removeLast(blocks.count - 1)
        block = 0
    }

    /// Reserves bytes at a stable, non-null address, valid until the arena is reset.
    @inline(__always)
    func allocate(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if used + count > blocks[block].count { addBlock(count) }
        let room = UnsafeMutableRawBufferPointer(rebasing: blocks[block][used..<used + count])
        used += count
        guard room.baseAddress == nil else { return room }
        return UnsafeMutableRawBufferPointer(start: blocks[block].baseAddress, count: 0)
    }

    private func addBlock(_ count: Int) {
        blocks.append(.allocate(byteCount: max(count, Self.blockSize), alignment: 16))
        block = blocks.count - 1
        used = 0
    }

    /// Copies bytes into the arena.
    @inline(__always)
    package func place(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let room = allocate(bytes.count)
        room.copyMemory(from: bytes)
        return UnsafeRawBufferPointer(room)
    }
}

// MARK: - Whole statements

/// A value for a parameter of a statement.
package protocol SQLiteParameter {
    func bind(to statement: SQLiteStatement, at index: Int32) throws
}

extension Int64: SQLiteParameter {
    package func bind(to statement: SQLiteStatement, at index: Int32) throws {
        try statement.bind(self, at: index)
    }
}

/// Integer literals are `Int`: without this they would be bound as floating-point numbers.
extension Int: SQLiteParameter {
    package func bind(to statement: SQLiteStatement, at index: Int32) throws {
        try statement.bind(Int64(self), at: index)
    }
}

extension Double: SQLiteParameter {
    package func bind(to statement: SQLiteStatement, at index: Int32) throws {
        try statement.bind(self, at: index)
    }
}

extension String: SQLiteParameter {
    package func bind(to statement: SQLiteStatement, at index: Int32) throws {
        try statement.bind(self, at: index)
    }
}

extension Data: SQLiteParameter {
    package func bind(to statement: SQLiteStatement, at index: Int32) throws {
        try statement.bind(self, at: index)
    }
}

extension Optional: SQLiteParameter where Wrapped: SQLiteParameter {
    package func bind(to statement: SQLiteStatement, at index: Int32) throws {
        if let self {
            try self.bind(to: statement, at: index)
        } else {
            try statement.bindNull(at: index)
        }
    }
}

/// Values in their stored form for consecutive parameters; must be the last argument.
extension Array: SQLiteParameter where Element == AttributeValue {
    package func bind(to statement: SQLiteStatement, at index: Int32) throws {
        try statement.bind(self, from: index)
    }
}

extension SQLiteDecimal.Stored: SQLiteParameter {
    @inline(__always)
    package func bind(to statement: SQLiteStatement, at index: Int32) throws {
        switch self {
        case .integer(let integer): try statement.bind(integer, at: index)
        case .double(let double): try statement.bind(double, at: index)
        case .text(let text): try statement.bind(text, at: index)
        }
    }
}

extension SQLiteConnection {
    /// Runs a statement with values for its parameters, which has no rows.
    package func run(_ sql: String, _ values: any SQLiteParameter...) throws {
        try withStatement(sql) { statement in
            try statement.bind(values)
            try statement.run()
        }
    }

    /// Reads each row of a statement with values for its parameters.
    package func rows<Row>(
        _ sql: String, _ values: any SQLiteParameter..., read: (SQLiteStatement) throws -> Row
    ) throws -> [Row] {
        try withStatement(sql) { statement in
            try statement.bind(values)
            var rows: [Row] = []
            while try statement.step() { rows.append(try read(statement)) }
            return rows
        }
    }

    /// The first column of each row as text; empty if NULL.
    package func texts(_ sql: String) throws -> [String] { try rows(sql) { $0.text(0) } }

    /// Reads the first row of a statement with values for its parameters; `nil` if there is none.
    package func row<Row>(
        _ sql: String, _ values: any SQLiteParameter..., read: (SQLiteStatement) throws -> Row?
    ) throws -> Row? {
        try withStatement(sql) { statement in
            try statement.bind(values)
            return try statement.step() ? try read(statement) : nil
        }
    }

    /// Calls a closure with each row of a statement with values for its parameters.
    package func forEachRow(
        _ sql: String, _ values: any SQLiteParameter..., body: (SQLiteStatement) throws -> Void
    ) throws {
        try withStatement(sql) { statement in
            try statement.bind(values)
            while try statement.step() { try body(statement) }
        }
    }

    /// The first column of the first row as an integer; `nil` if there is no row or the value is NULL.
    package func integer(_ sql: String, _ values: any SQLiteParameter...) throws -> Int64? {
        try withStatement(sql) { statement in
            try statement.bind(values)
            return try statement.step() && !statement.isNull(0) ? statement.integer(0) : nil
        }
    }
}

extension SQLiteStatement {
    fileprivate func bind(_ values: [any SQLiteParameter]) throws {
        for (offset, value) in values.enumerated() {
            try value.bind(to: self, at: Int32(offset + 1))
        }
    }
}
