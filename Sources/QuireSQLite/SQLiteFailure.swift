import CSQLite
import Glibc
internal import QuireModel
internal import QuireProtection
internal import QuireQuery
internal import QuireStore
package import QuireSystem

/// A failed SQLite call: its result code and message.
package struct SQLiteFailure: Error, CustomStringConvertible {
    /// The extended result code.
    package let code: Int32
    /// SQLite's message.
    let message: String
    /// `errno` of the failed system call, if SQLite knows it.
    var systemError: Int32 = 0

    /// The primary result code.
    var primaryCode: Int32 { code & 0xFF }

    package var description: String { "SQLite error \(code): \(message)" }

    /// Whether the on-disk state is unknown after this error; the writer must then be poisoned.
    ///
    /// After a failed fsync the kernel may have dropped the dirty pages, and the next fsync succeeds all the same. So a failed
    /// call is never retried.
    var leavesFileUnknown: Bool {
        primaryCode == SQLITE_IOERR
            && ![
                Self.sharedMemoryMap, Self.sharedMemorySize, SQLiteFile.lockedKey,
                SQLiteFile.damagedPage,
            ].contains(code)
    }

    /// Whether the disk or a quota is full. SQLite has a code for it only when writing pages: creating a journal or the log's
    /// index fails with different codes.
    var isOutOfSpace: Bool {
        switch primaryCode {
        case SQLITE_FULL: true
        case SQLITE_IOERR, SQLITE_CANTOPEN: [ENOSPC, EDQUOT, EFBIG].contains(systemError)
        default: false
        }
    }

    /// The system's message for the failed call.
    private var systemText: String? {
        systemError == 0 ? nil : String(cString: strerror(systemError))
    }

    /// SQLITE_BUSY or SQLITE_LOCKED.
    var isBusy: Bool { primaryCode == SQLITE_BUSY || primaryCode == SQLITE_LOCKED }

    /// The prefix of error messages of this framework's SQL functions for invalid queries.
    static let queryPrefix = "QUIRE: "

    // The extended codes are computed macros, which Swift does not import.
    private static let sharedMemorySize = SQLITE_IOERR | (19 << 8)
    private static let sharedMemoryMap = SQLITE_IOERR | (21 << 8)
    /// Failed fsync of a file or folder, truncate or unlink: calls whose `errno` SQLite forgets if it has to roll back.
    private static let unrecordedCodes = [4, 5, 6, 10].map { SQLITE_IOERR | ($0 << 8) }
    /// The file is no longer at its path.
    private static let databaseMoved = SQLITE_READONLY | (4 << 8)
    /// A primary key is already in use.
    static let primaryKeyConstraint = SQLITE_CONSTRAINT | (6 << 8)
    /// A rowid is already in use.
    static let rowNumberConstraint = SQLITE_CONSTRAINT | (10 << 8)
    /// A value of a unique index is already in use.
    package static let uniqueConstraint = SQLITE_CONSTRAINT | (8 << 8)
}

extension SQLiteFailure {
    /// The last error of a connection.
    init(of connection: OpaquePointer?) {
        let lastError = errno
        let code = sqlite3_extended_errcode(connection)
        self.init(
            code: code, message: String(cString: sqlite3_errmsg(connection)),
            systemError: Self.systemError(code, of: connection, lastError))
    }

    /// The failure of a call that does not record it in its connection. Must be created right after the call.
    init(_ code: Int32, of connection: OpaquePointer?) {
        let lastError = errno
        self.init(
            code: code, message: String(cString: sqlite3_errstr(code)),
            systemError: Self.systemError(code, of: connection, lastError))
    }

    /// `errno` of the failed system call, or 0.
    private static func systemError(
        _ code: Int32, of connection: OpaquePointer?, _ lastError: Int32
    ) -> Int32 {
        let known = sqlite3_system_errno(connection)
        guard unrecordedCodes.contains(code) else { return known }
        return fileError(of: connection) ?? (known == 0 ? lastError : known)
    }

    /// `errno` of the last failed call on a file that is still open. SQLite's own record is overwritten by its next call.
    private static func fileError(of connection: OpaquePointer?) -> Int32? {
        for whose in [SQLITE_FCNTL_JOURNAL_POINTER, SQLITE_FCNTL_FILE_POINTER] {
            var file: UnsafeMutablePointer<sqlite3_file>?
            var number: Int32 = 0
            guard sqlite3_file_control(connection, "main", whose, &file) == SQLITE_OK, let file,
                let control = file.pointee.pMethods?.pointee.xFileControl,
                control(file, SQLITE_FCNTL_LAST_ERRNO, &number) == SQLITE_OK, number != 0
            else { continue }
            return number
        }
        return nil
    }

    /// The error to throw to callers of the store.
    ///
    /// The only place that maps SQLite's result codes to error codes and messages.
    ///
    /// - Parameters:
    ///   - path: The store's path.
    ///   - schema: Names the entity and properties of a violated constraint, if known already.
    package func error(path: String, schema: SQLSchema? = nil) -> QuireError {
        let subject = QuireError.Subject(file: path)
        func make(_ code: QuireError.Code, _ sentence: String) -> QuireError {
            QuireError(code, sentence, subject: subject, underlying: self)
        }
        if isOutOfSpace {
            return make(
                .outOfSpace,
                "The disk is too full to save “\(path)”; free some space and try again.")
        }
        if [SQLITE_IOERR, SQLITE_CANTOPEN].contains(primaryCode),
            [EMFILE, ENFILE].contains(systemError)
        {
            return make(
                .storeUnavailable,
                "Could not open “\(path)”, or a file beside it: \(FileSystem.tooManyOpenFiles(systemError))"
            )
        }
        switch primaryCode {
        case SQLITE_READONLY where code == Self.databaseMoved:
            return OpenFileIdentity.replacedError(path)
        case SQLITE_READONLY:
            return make(
                .readOnly,
                "“\(path)” cannot be written; check the permissions of the file and its folder.")
        case SQLITE_BUSY, SQLITE_LOCKED:
            return make(
                .locked,
                "“\(path)” is locked\(FileLockHolder.find(path)?.phrase ?? " by another process"); "
                    + "try again when it has finished.")
        case SQLITE_CORRUPT:
            return make(.invalidFormat, "“\(path)” is damaged: \(message).")
        case SQLITE_NOTADB:
            let error = StoreProtection.missingKeybagError(path)
            return make(error.code, error.message)
        case SQLITE_CONSTRAINT:
            return constraintError(path: path, schema: schema)
        case SQLITE_CANTOPEN:
            return make(
                .storeUnavailable,
                "“\(path)” cannot be opened; check that it exists, and the permissions of the file and its folder."
            )
        case SQLITE_PERM, SQLITE_AUTH:
            return make(.storeUnavailable, "This use of “\(path)” is not permitted: \(message).")
        case SQLITE_INTERRUPT:
            return FetchMonitor.cancelledError
        case SQLITE_TOOBIG:
            return make(.invalidValue, "A value is too large for “\(path)”: \(message).")
        case SQLITE_NOMEM:
            return make(.storeUnavailable, "Not enough memory to use “\(path)”.")
        case SQLITE_IOERR where code == SQLiteFile.lockedKey:
            return make(
                .protectedDataUnavailable,
                "“\(path)” cannot be read or written because its protection domain is locked; unlock it and try again."
            )
        case SQLITE_IOERR where code == SQLiteFile.damagedPage && ArchiveMount.contains(path):
            return make(
                .invalidFormat,
                "“\(path)” is damaged: it does not match the manifest of its archive. Get the archive again."
            )
        case SQLITE_IOERR where code == SQLiteFile.damagedPage:
            return make(
                .invalidFormat,
                "“\(path)” is damaged, or was changed without its keys: a page cannot be decrypted. "
                    + "Restore it from a backup, or recover the readable objects.")
        case SQLITE_IOERR:
            return make(
                .storeUnavailable,
                "Reading or writing “\(path)” failed: \(systemText ?? message). Check the disk, and try again."
            )
        default:
            if message.hasPrefix(Self.queryPrefix) {
                return QuireError(
                    .invalidQuery, String(message.dropFirst(Self.queryPrefix.count)),
                    underlying: self)
            }
            return make(.storeUnavailable, "“\(path)” cannot be used: \(message) (code \(code)).")
        }
    }

    /// The error for a log that could not be checkpointed on close.
    func notMergedError(path: String) -> QuireError {
        QuireError(
            error(path: path).code,
            "Everything saved to “\(path)” is safe, but its log “\(path)-wal”, which contains part of it, could not be "
                + "merged into it (\(systemText ?? message)); keep the log beside it: opening the store again merges it.",
            file: path, underlying: self)
    }

    private func constraintError(path: String, schema: SQLSchema?) -> QuireError {
        if code == Self.primaryKeyConstraint || code == Self.rowNumberConstraint {
            return QuireError(
                .mergeConflict,
                "Another process used the same identifiers for new objects in “\(path)”; save again.",
                file: path, underlying: self)
        }
        guard let found = schema?.uniqueProperties(inMessage: message) else {
            return QuireError(
                .constraintConflict, "“\(path)” does not allow the change: \(message).",
                file: path, underlying: self)
        }
        var error = QuireError.notUnique(found.properties, of: found.entity, file: path)
        error.underlying = self
        return error
    }
}

extension Error {
    /// Whether the outcome of the commit is unknown until the store is reopened. A full disk counts if it was detected while
    /// the log was synchronized.
    package var leavesCommitOpen: Bool {
        let error = self as? QuireError
        return error?.code == .storeUnavailable || isFailedSynchronization
            || (error?.underlying as? SQLiteFailure)?.leavesFileUnknown == true
    }
}

// MARK: - Messages of constraints

extension SQLSchema {
    /// The entity and properties of a constraint in SQLite's message, such as
    /// `UNIQUE constraint failed: ZCAR.ZNUMBERPLATE`.
    func uniqueProperties(
        inMessage message: String
    ) -> (entity: String, properties: [String], table: String, columns: [String])? {
        guard let colon = message.firstIndex(of: ":") else { return nil }
        let fields = message[message.index(after: colon)...].split(separator: ",").map { part in
            part.drop { $0 == " " }.split(separator: ".", maxSplits: 1).map(String.init)
        }
        guard let first = fields.first, first.count == 2,
            let table = tables.first(where: { $0.name.uppercased() == first[0].uppercased() })
        else { return nil }
        let columns = fields.compactMap { $0.count == 2 ? $0[1].uppercased() : nil }
        // The topmost entity that has all columns declares the constraint.
        for number in layout.entity(number: table.rootNumber).subtree {
            let entity = layout.entity(number: number)
            var names: [String: String] = [:]
            for (slot, column) in zip(entity.slots, self.entity(number: number).columns) {
                if let column { names[column.name.uppercased()] = slot.name }
            }
            let properties = columns.compactMap { names[$0] }
            if properties.count == columns.count {
                return (entity.name, properties, table.name, columns)
            }
        }
        return nil
    }
}
