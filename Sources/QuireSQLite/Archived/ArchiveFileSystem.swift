import CSQLite
import Glibc
internal import QuireSystem

/// SQLite's VFS for stores in mounted archives: the default VFS, and in an archive read-only files.
///
/// Connections to such a store are immutable: there is neither a log nor a lock. See ``ArchiveMount``.
enum ArchiveFileSystem {
    /// The registered name of the VFS.
    static let name = "quire-archive"

    /// The VFS, registered on first access; `nil` if SQLite does not take it.
    ///
    /// Immutable after initialization.
    nonisolated(unsafe) static let registered: UnsafeMutablePointer<sqlite3_vfs>? = {
        guard let system else { return nil }
        let table = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        table.initialize(to: system.pointee)
        table.pointee.pNext = nil
        table.pointee.zName = UnsafePointer(strdup(name))
        table.pointee.szOsFile = max(system.pointee.szOsFile, Int32(SQLiteFile.Record.size))
        table.pointee.xOpen = { _, name, file, flags, outFlags in
            guard let file, let system = ArchiveFileSystem.system else { return SQLITE_CANTOPEN }
            guard let name, isArchived(name) else {
                return system.pointee.xOpen(system, name, file, flags, outFlags)
            }
            return openArchived(name, file, flags, outFlags)
        }
        table.pointee.xFullPathname = { _, name, capacity, buffer in
            guard let name, let buffer, let system = ArchiveFileSystem.system else {
                return SQLITE_CANTOPEN
            }
            // The default VFS would examine the path.
            guard isArchived(name) else {
                return system.pointee.xFullPathname(system, name, capacity, buffer)
            }
            let count = strlen(name) + 1
            guard count <= Int(capacity) else { return SQLITE_CANTOPEN }
            memcpy(buffer, name, count)
            return SQLITE_OK
        }
        table.pointee.xAccess = { _, name, flags, result in
            guard let name, let system = ArchiveFileSystem.system else { return SQLITE_CANTOPEN }
            guard isArchived(name) else {
                return system.pointee.xAccess(system, name, flags, result)
            }
            // SQLite asks for logs, which archives do not have.
            result?.pointee = 0
            return SQLITE_OK
        }
        return sqlite3_vfs_register(table, 0) == SQLITE_OK ? table : nil
    }()

    /// SQLite's default VFS.
    private static var system: UnsafeMutablePointer<sqlite3_vfs>? { sqlite3_vfs_find(nil) }

    private static func path(_ name: UnsafePointer<CChar>) -> String {
        FileName(bytes: UnsafeRawBufferPointer(start: name, count: strlen(name))).text
    }

    private static func isArchived(_ name: UnsafePointer<CChar>) -> Bool {
        ArchiveMount.contains(path(name))
    }

    private static func openArchived(
        _ name: UnsafePointer<CChar>, _ file: UnsafeMutablePointer<sqlite3_file>, _ flags: Int32,
        _ outFlags: UnsafeMutablePointer<Int32>?
    ) -> Int32 {
        let record = SQLiteFile.Record(file)
        record.clear()
        guard flags & SQLITE_OPEN_READONLY != 0 else { return SQLITE_CANTOPEN }
        do {
            record.set(ArchivedDatabaseFile(try OpenFile.open(path(name), for: .reading)))
        } catch let error as QuireError where error.code == .invalidFormat {
            return SQLiteFile.damagedPage
        } catch {
            return SQLITE_CANTOPEN
        }
        outFlags?.pointee = flags
        return SQLITE_OK
    }
}

/// A database in an archive.
private final class ArchivedDatabaseFile: UnsharedFile {
    private let file: OpenFile

    init(_ file: OpenFile) { self.file = file }

    override func read(
        _ buffer: UnsafeMutableRawPointer, _ count: Int, at offset: Int64
    ) -> Int32 {
        let buffer = UnsafeMutableRawBufferPointer(start: buffer, count: count)
        do {
            let found = try file.read(into: buffer, at: offset)
            if found == count { return SQLITE_OK }
            UnsafeMutableRawBufferPointer(rebasing: buffer[found...])
                .initializeMemory(as: UInt8.self, repeating: 0)
            return SQLiteFile.shortRead
        } catch let error as QuireError where error.code == .invalidFormat {
            return SQLiteFile.damagedPage
        } catch {
            return SQLiteFile.readFailed
        }
    }

    override var size: Int64? { (try? file.information())?.size }
}
