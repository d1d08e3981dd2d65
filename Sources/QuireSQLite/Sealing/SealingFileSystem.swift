import CSQLite
import Glibc
internal import QuireProtection
internal import QuireSystem

/// SQLite's VFS for protected stores: ``ArchiveFileSystem``, with ``SealingFile`` in between.
///
/// A connection names its cipher in its database URI, by a number valid as long as the connection. Opening a database with this
/// VFS but without cipher, as `VACUUM INTO` can, is refused. Temporary files are kept in memory.
package enum SealingFileSystem {
    /// The registered name of the VFS.
    static let name = "quire-sealing"
    /// The URI parameter with the cipher's number.
    static let parameter = "cipher"

    /// The URI query that opens a database with the default VFS.
    static var clearQuery: String {
        "vfs=" + (sqlite3_vfs_find(nil)?.pointee.zName.map { String(cString: $0) } ?? "unix")
    }

    /// A registered cipher, valid for opening connections as long as this object lives.
    package final class Registration: Sendable {
        /// The number in the URI parameter.
        let number: Int
        let cipher: PageCipher

        init(_ cipher: PageCipher) throws {
            guard SealingFileSystem.isRegistered else {
                throw QuireError(
                    .protectionUnavailable,
                    "SQLite does not accept the file system that protects stores; its version is \(String(cString: sqlite3_libversion()))."
                )
            }
            self.cipher = cipher
            number = SealingFileSystem.ciphers.withLock { table in
                table.last += 1
                table.ciphers[table.last] = cipher
                return table.last
            }
        }

        deinit { _ = SealingFileSystem.ciphers.withLock { $0.ciphers.removeValue(forKey: number) } }

        /// The URI query that opens a database with this cipher.
        package var query: String {
            "vfs=\(SealingFileSystem.name)&\(SealingFileSystem.parameter)=\(number)"
        }
    }

    private static let ciphers = Lock<(last: Int, ciphers: [Int: PageCipher])>((0, [:]))

    /// Whether the VFS is registered; registers it on first access.
    static let isRegistered: Bool = {
        guard let system = ArchiveFileSystem.registered else { return false }
        let table = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        // The VFS below implements everything except opening. It uses the table, too.
        table.initialize(to: system.pointee)
        table.pointee.pNext = nil
        table.pointee.zName = UnsafePointer(strdup(name))
        table.pointee.szOsFile =
            Int32(SQLiteFile.Record.size) + max(system.pointee.szOsFile, 0)
        table.pointee.xOpen = { _, name, file, flags, outFlags in
            guard let file else { return SQLITE_CANTOPEN }
            return open(name, file, flags, outFlags)
        }
        return sqlite3_vfs_register(table, 0) == SQLITE_OK
    }()

    private static func open(
        _ name: UnsafePointer<CChar>?, _ file: UnsafeMutablePointer<sqlite3_file>, _ flags: Int32,
        _ outFlags: UnsafeMutablePointer<Int32>?
    ) -> Int32 {
        let record = SQLiteFile.Record(file)
        record.clear()
        guard let name else {
            record.set(TemporaryMemoryFile())
            outFlags?.pointee = flags
            return SQLITE_OK
        }
        let kind: SealingFile.Kind
        var database: UnsafePointer<CChar>? = name
        if flags & SQLITE_OPEN_MAIN_DB != 0 {
            kind = .database
        } else if flags & SQLITE_OPEN_MAIN_JOURNAL != 0 {
            kind = .journal
            database = sqlite3_filename_database(name)
        } else if flags & SQLITE_OPEN_WAL != 0 {
            kind = .log
            database = sqlite3_filename_database(name)
        } else {
            // A super-journal, which our connections never create.
            return SQLITE_CANTOPEN
        }
        guard let database, let text = sqlite3_uri_parameter(database, parameter),
            let number = Int(String(cString: text)),
            let cipher = ciphers.withLock({ $0.ciphers[number] }),
            let system = ArchiveFileSystem.registered
        else { return SQLITE_CANTOPEN }
        let real = record.real
        real.pointee.pMethods = nil
        let code = system.pointee.xOpen(system, name, real, flags, outFlags)
        guard code == SQLITE_OK else {
            if real.pointee.pMethods != nil { _ = real.pointee.pMethods.pointee.xClose(real) }
            return code
        }
        record.set(SealingFile(SQLiteFile(real), kind: kind, cipher: cipher))
        return SQLITE_OK
    }
}
