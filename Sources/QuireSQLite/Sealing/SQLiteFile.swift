import CSQLite
import Glibc

/// A file opened by SQLite's default VFS, with its methods.
struct SQLiteFile {
    /// The code for a short read, whose missing bytes SQLite requires to be zeroed.
    static let shortRead = SQLITE_IOERR | (2 << 8)
    static let readFailed = SQLITE_IOERR | (1 << 8)
    static let writeFailed = SQLITE_IOERR | (3 << 8)
    /// The code for a sealed page that fails authentication.
    static let damagedPage = SQLITE_IOERR | (32 << 8)
    /// The code for a key that is no longer available.
    static let lockedKey = SQLITE_IOERR | (28 << 8)

    private let file: UnsafeMutablePointer<sqlite3_file>
    private let methods: UnsafePointer<sqlite3_io_methods>

    /// - Precondition: The file is open.
    init(_ file: UnsafeMutablePointer<sqlite3_file>) {
        self.file = file
        methods = file.pointee.pMethods
    }

    func read(_ buffer: UnsafeMutableRawPointer, _ count: Int, at offset: Int64) -> Int32 {
        methods.pointee.xRead(file, buffer, Int32(count), offset)
    }

    func write(_ buffer: UnsafeRawPointer, _ count: Int, at offset: Int64) -> Int32 {
        methods.pointee.xWrite(file, buffer, Int32(count), offset)
    }

    func truncate(to size: Int64) -> Int32 { methods.pointee.xTruncate(file, size) }

    func size(_ size: inout Int64) -> Int32 { methods.pointee.xFileSize(file, &size) }
}

extension SQLiteFile {
    /// The layout of our `sqlite3_file`: the method table, and the object behind it; then, for a sealed file, the `sqlite3_file` of
    /// the VFS below.
    struct Record {
        static let size = 32

        private let address: UnsafeMutableRawPointer

        init(_ file: UnsafeMutablePointer<sqlite3_file>) { address = UnsafeMutableRawPointer(file) }

        /// The `sqlite3_file` of the VFS below.
        var real: UnsafeMutablePointer<sqlite3_file> {
            (address + Self.size).assumingMemoryBound(to: sqlite3_file.self)
        }

        private var methods: UnsafeMutablePointer<UnsafePointer<sqlite3_io_methods>?> {
            address.assumingMemoryBound(to: UnsafePointer<sqlite3_io_methods>?.self)
        }

        private var object: UnsafeMutablePointer<UnsafeRawPointer?> {
            (address + 8).assumingMemoryBound(to: UnsafeRawPointer?.self)
        }

        /// Marks the file as not open.
        func clear() {
            methods.pointee = nil
            object.pointee = nil
        }

        func set(_ file: SealingFile) { set(file, SealingFile.methods) }

        func set(_ file: UnsharedFile) { set(file, UnsharedFile.methods) }

        private func set(_ file: AnyObject, _ table: UnsafePointer<sqlite3_io_methods>) {
            object.pointee = UnsafeRawPointer(Unmanaged.passRetained(file).toOpaque())
            methods.pointee = table
        }

        var sealingFile: SealingFile { unmanaged().takeUnretainedValue() }
        var unsharedFile: UnsharedFile { unmanaged().takeUnretainedValue() }

        /// Releases the object of a file that is closed.
        func release() {
            (unmanaged() as Unmanaged<AnyObject>).release()
            object.pointee = nil
        }

        private func unmanaged<Object: AnyObject>() -> Unmanaged<Object> {
            // SQLite calls no method of a file that is not open.
            Unmanaged.fromOpaque(object.pointee!)
        }
    }
}

/// Calls a method of the default VFS's file; SQLite passes a file to all methods.
private func forward<Result>(
    _ file: UnsafeMutablePointer<sqlite3_file>?,
    _ call: (UnsafeMutablePointer<sqlite3_file>, borrowing sqlite3_io_methods) -> Result
) -> Result {
    let real = SQLiteFile.Record(file!).real
    return call(real, real.pointee.pMethods.pointee)
}

extension SealingFile {
    /// SQLite's method table. Methods unrelated to pages are forwarded to the default VFS's file. Version 2 has no memory
    /// mapping, which would expose sealed pages.
    ///
    /// Immutable after initialization.
    nonisolated(unsafe) static let methods: UnsafePointer<sqlite3_io_methods> = {
        let table = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        table.initialize(to: sqlite3_io_methods())
        table.pointee.iVersion = 2
        table.pointee.xClose = { file in
            let record = SQLiteFile.Record(file!)
            let code = record.real.pointee.pMethods.pointee.xClose(record.real)
            record.release()
            return code
        }
        table.pointee.xRead = { file, buffer, count, offset in
            SQLiteFile.Record(file!).sealingFile.read(buffer!, Int(count), at: offset)
        }
        table.pointee.xWrite = { file, buffer, count, offset in
            SQLiteFile.Record(file!).sealingFile.write(buffer!, Int(count), at: offset)
        }
        table.pointee.xTruncate = { file, size in
            SQLiteFile.Record(file!).sealingFile.truncate(to: size)
        }
        table.pointee.xSync = { file, flags in forward(file) { $1.xSync($0, flags) } }
        table.pointee.xFileSize = { file, size in forward(file) { $1.xFileSize($0, size) } }
        table.pointee.xLock = { file, level in forward(file) { $1.xLock($0, level) } }
        table.pointee.xUnlock = { file, level in forward(file) { $1.xUnlock($0, level) } }
        table.pointee.xCheckReservedLock = { file, isReserved in
            forward(file) { $1.xCheckReservedLock($0, isReserved) }
        }
        table.pointee.xFileControl = { file, operation, argument in
            switch operation {
            // Preallocation would leave zeroed pages; the others need features that are not offered here.
            case SQLITE_FCNTL_SIZE_HINT, SQLITE_FCNTL_CHUNK_SIZE, SQLITE_FCNTL_MMAP_SIZE,
                SQLITE_FCNTL_BEGIN_ATOMIC_WRITE, SQLITE_FCNTL_COMMIT_ATOMIC_WRITE,
                SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE:
                return SQLITE_NOTFOUND
            default:
                return forward(file) { $1.xFileControl($0, operation, argument) }
            }
        }
        table.pointee.xSectorSize = { forward($0) { $1.xSectorSize($0) } }
        table.pointee.xDeviceCharacteristics = {
            // No atomic writes: SQLite would omit the journal, or write it in different pieces.
            forward($0) { $1.xDeviceCharacteristics($0) }
                & (SQLITE_IOCAP_POWERSAFE_OVERWRITE | SQLITE_IOCAP_UNDELETABLE_WHEN_OPEN
                    | SQLITE_IOCAP_IMMUTABLE)
        }
        table.pointee.xShmMap = { file, region, size, extends, address in
            forward(file) { $1.xShmMap($0, region, size, extends, address) }
        }
        table.pointee.xShmLock = { file, offset, count, flags in
            forward(file) { $1.xShmLock($0, offset, count, flags) }
        }
        table.pointee.xShmBarrier = { forward($0) { $1.xShmBarrier($0) } }
        table.pointee.xShmUnmap = { file, deletes in forward(file) { $1.xShmUnmap($0, deletes) } }
        return UnsafePointer(table)
    }()
}

// MARK: - Files of one connection

/// A file that only the connection has which opened it: there is nothing to lock or to synchronize. It cannot be written unless a
/// subclass can.
class UnsharedFile {
    func read(_ buffer: UnsafeMutableRawPointer, _ count: Int, at offset: Int64) -> Int32 {
        SQLiteFile.readFailed
    }

    func write(_ buffer: UnsafeRawPointer, _ count: Int, at offset: Int64) -> Int32 {
        SQLITE_READONLY
    }

    func truncate(to size: Int64) -> Int32 { SQLITE_READONLY }

    /// `nil` if it cannot be determined.
    var size: Int64? { nil }
}

/// A temporary file of SQLite kept in memory: plaintext statement and savepoint journals.
final class TemporaryMemoryFile: UnsharedFile {
    private var bytes: [UInt8] = []

    override func read(
        _ buffer: UnsafeMutableRawPointer, _ count: Int, at offset: Int64
    ) -> Int32 {
        let start = Int(clamping: max(offset, 0))
        let present = max(min(bytes.count - start, count), 0)
        if present > 0 {
            bytes.withUnsafeBytes { _ = memcpy(buffer, $0.baseAddress! + start, present) }
        }
        if present == count { return SQLITE_OK }
        memset(buffer + present, 0, count - present)
        return SQLiteFile.shortRead
    }

    override func write(_ buffer: UnsafeRawPointer, _ count: Int, at offset: Int64) -> Int32 {
        guard let start = Int(exactly: offset), start >= 0, start <= Int.max / 2 - count else {
            return SQLITE_FULL
        }
        if start + count > bytes.count {
            bytes.append(contentsOf: repeatElement(0, count: start + count - bytes.count))
        }
        bytes.withUnsafeMutableBytes { _ = memcpy($0.baseAddress! + start, buffer, count) }
        return SQLITE_OK
    }

    override func truncate(to size: Int64) -> Int32 {
        let size = Int(clamping: max(size, 0))
        if size < bytes.count { bytes.removeLast(bytes.count - size) }
        return SQLITE_OK
    }

    override var size: Int64? { Int64(bytes.count) }
}

extension UnsharedFile {
    /// SQLite's method table.
    ///
    /// Immutable after initialization.
    nonisolated(unsafe) static let methods: UnsafePointer<sqlite3_io_methods> = {
        let table = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        table.initialize(to: sqlite3_io_methods())
        table.pointee.iVersion = 1
        table.pointee.xClose = { file in
            SQLiteFile.Record(file!).release()
            return SQLITE_OK
        }
        table.pointee.xRead = { file, buffer, count, offset in
            SQLiteFile.Record(file!).unsharedFile.read(buffer!, Int(count), at: offset)
        }
        table.pointee.xWrite = { file, buffer, count, offset in
            SQLiteFile.Record(file!).unsharedFile.write(buffer!, Int(count), at: offset)
        }
        table.pointee.xTruncate = { file, size in
            SQLiteFile.Record(file!).unsharedFile.truncate(to: size)
        }
        table.pointee.xSync = { _, _ in SQLITE_OK }
        table.pointee.xFileSize = { file, size in
            guard let found = SQLiteFile.Record(file!).unsharedFile.size else {
                return SQLiteFile.readFailed
            }
            size?.pointee = found
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
