import CSQLite
import Glibc

/// A temporary file of SQLite that is kept in memory: what a statement or a savepoint may take back, in clear.
final class TemporaryMemoryFile {
    private var bytes: [UInt8] = []

    func read(_ buffer: UnsafeMutableRawPointer, _ count: Int, at offset: Int64) -> Int32 {
        let start = Int(clamping: max(offset, 0))
        let present = max(min(bytes.count - start, count), 0)
        if present > 0 {
            bytes.withUnsafeBytes { _ = memcpy(buffer, $0.baseAddress! + start, present) }
        }
        if present == count { return SQLITE_OK }
        memset(buffer + present, 0, count - present)
        return SQLiteFile.shortRead
    }

    func write(_ buffer: UnsafeRawPointer, _ count: Int, at offset: Int64) -> Int32 {
        guard let start = Int(exactly: offset), start >= 0, start <= Int.max / 2 - count else {
            return SQLITE_FULL
        }
        if start + count > bytes.count {
            bytes.append(contentsOf: repeatElement(0, count: start + count - bytes.count))
        }
        bytes.withUnsafeMutableBytes { _ = memcpy($0.baseAddress! + start, buffer, count) }
        return SQLITE_OK
    }

    func truncate(to size: Int64) -> Int32 {
        let size = Int(clamping: max(size, 0))
        if size < bytes.count { bytes.removeLast(bytes.count - size) }
        return SQLITE_OK
    }

    var size: Int64 { Int64(bytes.count) }
}

extension TemporaryMemoryFile {
    /// SQLite's table of functions. Nobody else can have the file, so that locking it is doing nothing.
    ///
    /// Never written after it was made.
    nonisolated(unsafe) static let methods: UnsafePointer<sqlite3_io_methods> = {
        let table = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        table.initialize(to: sqlite3_io_methods())
        table.pointee.iVersion = 1
        table.pointee.xClose = { file in
            SQLiteFile.Record(file!).releaseMemoryFile()
            return SQLITE_OK
        }
        table.pointee.xRead = { file, buffer, count, offset in
            SQLiteFile.Record(file!).memoryFile.read(buffer!, Int(count), at: offset)
        }
        table.pointee.xWrite = { file, buffer, count, offset in
            SQLiteFile.Record(file!).memoryFile.write(buffer!, Int(count), at: offset)
        }
        table.pointee.xTruncate = { file, size in
            SQLiteFile.Record(file!).memoryFile.truncate(to: size)
        }
        table.pointee.xSync = { _, _ in SQLITE_OK }
        table.pointee.xFileSize = { file, size in
            size?.pointee = SQLiteFile.Record(file!).memoryFile.size
            return SQLITE_OK
        }
        table.pointee.xLock = { _, _ in SQLITE_OK }
        table.pointee.xUnlock = { _, _ in SQLITE_OK }
        table.pointee.xCheckReservedLock = { _, isReserved in
            isReserved?.pointee = 0
            return SQLITE_OK
        }
        table.pointee.xFileControl = { _, _, _ in SQLITE_NOTFOUND }
        table.pointee.xSectorSize = { _ in 0 }
        table.pointee.xDeviceCharacteristics = { _ in 0 }
        return UnsafePointer(table)
    }()
}
