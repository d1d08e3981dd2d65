import CSQLite

/// The owner of a handle for incremental I/O of one value: bytes of a column of type BLOB, read or overwritten in pieces.
///
/// The size of the value cannot be changed: a value to be written in pieces is inserted as `zeroblob(size)` first. The handle
/// expires when its row is changed; later calls throw.
package final class SQLiteBlob {
    private let connection: SQLiteConnection
    private let handle: OpaquePointer
    /// The number of bytes of the value.
    package let size: Int

    /// Opens the value of a column in the row of a rowid.
    ///
    /// - Throws: ``SQLiteFailure`` if there is no such row, its value is neither a BLOB nor TEXT, or the column is indexed and
    ///   to be written.
    package init(
        _ connection: SQLiteConnection, table: String, column: String, row: Int64,
        isWritable: Bool = false
    ) throws {
        self.connection = connection
        var opened: OpaquePointer?
        let code = sqlite3_blob_open(
            connection.handle, "main", table, column, row, isWritable ? 1 : 0, &opened)
        guard code == SQLITE_OK, let opened else { throw connection.failure() }
        handle = opened
        size = Int(sqlite3_blob_bytes(opened))
    }

    deinit { sqlite3_blob_close(handle) }

    /// Overwrites bytes from an offset on.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws {
        let code = sqlite3_blob_write(
            handle, bytes.baseAddress, Int32(clamping: bytes.count), Int32(clamping: offset))
        if code != SQLITE_OK { throw connection.failure() }
    }

    /// Calls a closure with all bytes, block by block.
    package func forEachBlock(
        ofSize blockSize: Int = 1 << 20, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        var offset = 0
        try withUnsafeTemporaryAllocation(
            byteCount: max(1, min(size, blockSize)), alignment: 16
        ) { buffer in
            while offset < size {
                let count = min(buffer.count, size - offset)
                let code = sqlite3_blob_read(
                    handle, buffer.baseAddress, Int32(count), Int32(offset))
                if code != SQLITE_OK { throw connection.failure() }
                try body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                offset += count
            }
        }
    }
}
