import CSQLite
import Glibc
internal import QuireProtection
import Synchronization

/// A database, its rollback journal or its write-ahead log, with pages in plaintext for SQLite and sealed on disk.
///
/// Only pages are sealed: the headers of both logs and of their records, which are page numbers, counts, salts and checksums,
/// stay in plaintext. The checksums cover the pages as SQLite sees them, with zeros in the reserved bytes. Writes of any other
/// form than those of SQLite's pager are refused, so that no plaintext reaches the disk.
///
/// A log page that fails authentication is usually torn or stale, and ends the log as a wrong checksum does. A failing page of
/// the database, or one that a reader takes from the log, is an error.
///
/// SQLite uses a file, like its connection, on one thread at a time.
final class SealingFile {
    enum Kind {
        case database, journal, log
    }

    private static let pageSize = PageCipher.pageSize
    private static let logHeaderSize = 32
    /// The part of the first page that SQLite reads when it opens a database.
    private static let headerSize = 100
    private static let frameHeaderSize = 24
    private static let maximumClearWrite = 512

    private let kind: Kind
    private let cipher: PageCipher
    private let file: SQLiteFile
    /// A buffer for a page, preceded by its frame header. The cipher is slow with some other alignments.
    private let scratch = UnsafeMutableRawPointer.allocate(byteCount: 8192, alignment: 4096)
    private var nonces = PageNonces()
    /// The page number of the record header written last, and the expected offset of its content.
    private var announced: (page: UInt32, offset: Int64)?

    init(_ file: SQLiteFile, kind: Kind, cipher: PageCipher) {
        self.file = file
        self.kind = kind
        self.cipher = cipher
    }

    deinit {
        // It may contain a plaintext page.
        explicit_bzero(scratch, 8192)
        scratch.deallocate()
    }

    // MARK: - Reading

    func read(_ buffer: UnsafeMutableRawPointer, _ count: Int, at offset: Int64) -> Int32 {
        switch kind {
        case .database: readDatabase(buffer, count, at: offset)
        case .journal:
            Self.isJournaledPage(count, offset)
                ? readJournaledPage(buffer, at: offset) : file.read(buffer, count, at: offset)
        case .log: readLog(buffer, count, at: offset)
        }
    }

    private func readDatabase(
        _ buffer: UnsafeMutableRawPointer, _ count: Int, at offset: Int64
    ) -> Int32 {
        let start = offset - offset % Int64(Self.pageSize)
        let isWhole = count == Self.pageSize && start == offset
        // SQLite also reads parts of the first page.
        guard isWhole || start + Int64(Self.pageSize) >= offset + Int64(count),
            let number = UInt32(exactly: start / Int64(Self.pageSize) + 1)
        else { return SQLiteFile.readFailed }
        let page = isWhole ? buffer : scratch
        let code = file.read(page, Self.pageSize, at: start)
        if code == SQLiteFile.shortRead {
            // Pages beyond the end are empty for SQLite. A truncated page is not empty.
            var size: Int64 = 0
            let found = file.size(&size)
            if found != SQLITE_OK { return found }
            if size > start { return SQLiteFile.damagedPage }
            memset(buffer, 0, count)
            return code
        }
        if code != SQLITE_OK { return code }
        let opened = open(page, number: number)
        // SQLite reads the header when it opens the file, before it looks for a log or a journal, which may have the page that
        // was being written when the power failed. It looks at the page again after that.
        if opened == SQLiteFile.damagedPage, offset == 0, count == Self.headerSize {
            memset(buffer, 0, count)
            return SQLiteFile.shortRead
        }
        if opened == SQLITE_OK, !isWhole {
            memcpy(buffer, page + Int(offset - start), count)
        }
        return opened
    }

    /// Reads a page of the rollback journal, which its number precedes.
    private func readJournaledPage(_ buffer: UnsafeMutableRawPointer, at offset: Int64) -> Int32 {
        let code = file.read(scratch, 4 + Self.pageSize, at: offset - 4)
        if code != SQLITE_OK { return code }
        let opened = open(scratch + 4, number: Self.number(at: scratch))
        if opened == SQLiteFile.damagedPage { return SQLiteFile.shortRead }
        if opened == SQLITE_OK { memcpy(buffer, scratch + 4, Self.pageSize) }
        return opened
    }

    private func readLog(
        _ buffer: UnsafeMutableRawPointer, _ count: Int, at offset: Int64
    ) -> Int32 {
        if count == Self.frameHeaderSize + Self.pageSize {
            // Recovery reads whole frames. One with a different salt ends the log.
            let code = file.read(buffer, count, at: offset)
            if code != SQLITE_OK { return code }
            let opened = open(
                buffer + Self.frameHeaderSize, number: Self.number(at: buffer))
            if opened == SQLiteFile.damagedPage {
                for index in 8..<16 {
                    let byte = buffer.load(fromByteOffset: index, as: UInt8.self)
                    buffer.storeBytes(of: ~byte, toByteOffset: index, as: UInt8.self)
                }
                return SQLITE_OK
            }
            return opened
        }
        guard count == Self.pageSize else { return file.read(buffer, count, at: offset) }
        guard isFrameContent(offset) else { return SQLiteFile.readFailed }
        // The header's page number is valid even where SQLite has rewritten the content without it.
        let code = file.read(
            scratch, Self.frameHeaderSize + Self.pageSize, at: offset - Int64(Self.frameHeaderSize))
        if code != SQLITE_OK { return code }
        let opened = open(scratch + Self.frameHeaderSize, number: Self.number(at: scratch))
        if opened == SQLITE_OK { memcpy(buffer, scratch + Self.frameHeaderSize, Self.pageSize) }
        return opened
    }

    /// Decrypts a page in place.
    private func open(_ page: UnsafeMutableRawPointer, number: UInt32) -> Int32 {
        switch cipher.open(page, number: number) {
        case .done: SQLITE_OK
        case .damaged: SQLiteFile.damagedPage
        case .locked: SQLiteFile.lockedKey
        case .failed: SQLiteFile.readFailed
        }
    }

    // MARK: - Writing

    func write(_ buffer: UnsafeRawPointer, _ count: Int, at offset: Int64) -> Int32 {
        switch kind {
        case .database:
            guard count == Self.pageSize, offset % Int64(Self.pageSize) == 0,
                let number = UInt32(exactly: offset / Int64(Self.pageSize) + 1)
            else { return SQLiteFile.writeFailed }
            let code = fillGap(before: offset)
            if code != SQLITE_OK { return code }
            return seal(buffer, number: number, at: offset)
        case .journal:
            if Self.isJournaledPage(count, offset) {
                return sealAnnounced(buffer, headerSize: 4, at: offset)
            }
            if count == 4 { announce(buffer, contentAt: offset + 4) }
            // The journal header fills a sector.
            guard count <= Self.maximumClearWrite || offset % 512 == 0 else {
                return SQLiteFile.writeFailed
            }
        case .log:
            if count == Self.pageSize {
                guard isFrameContent(offset) else { return SQLiteFile.writeFailed }
                return sealAnnounced(buffer, headerSize: Self.frameHeaderSize, at: offset)
            }
            if count == Self.frameHeaderSize {
                announce(buffer, contentAt: offset + Int64(Self.frameHeaderSize))
            }
            guard count <= Self.logHeaderSize else { return SQLiteFile.writeFailed }
        }
        return file.write(buffer, count, at: offset)
    }

    private func announce(_ header: UnsafeRawPointer, contentAt offset: Int64) {
        announced = (Self.number(at: header), offset)
    }

    /// Seals the content of a record whose header was written just before, or is in the file already: a transaction that
    /// changes a page again rewrites only its content.
    private func sealAnnounced(
        _ buffer: UnsafeRawPointer, headerSize: Int, at offset: Int64
    ) -> Int32 {
        if let announced, announced.offset == offset {
            return seal(buffer, number: announced.page, at: offset)
        }
        let code = file.read(scratch, 4, at: offset - Int64(headerSize))
        if code != SQLITE_OK { return SQLiteFile.writeFailed }
        return seal(buffer, number: Self.number(at: scratch), at: offset)
    }

    private func seal(_ page: UnsafeRawPointer, number: UInt32, at offset: Int64) -> Int32 {
        switch cipher.seal(page, number: number, nonces: &nonces, into: scratch) {
        case .done: file.write(scratch, Self.pageSize, at: offset)
        case .locked: SQLiteFile.lockedKey
        case .damaged, .failed: SQLiteFile.writeFailed
        }
    }

    /// Seals the pages between the end of the database and a write beyond it. SQLite does not write pages on its free list, and
    /// the zeros of a hole would fail authentication.
    private func fillGap(before offset: Int64) -> Int32 {
        // Not remembered: other connections may truncate the file, and a write may fail.
        var size: Int64 = 0
        let code = file.size(&size)
        if code != SQLITE_OK { return code }
        var end = size - size % Int64(Self.pageSize)
        if end >= offset { return SQLITE_OK }
        let empty = UnsafeMutableRawPointer.allocate(byteCount: Self.pageSize, alignment: 16)
        defer { empty.deallocate() }
        memset(empty, 0, Self.pageSize)
        while end < offset {
            let code = seal(empty, number: UInt32(end / Int64(Self.pageSize)) + 1, at: end)
            if code != SQLITE_OK { return code }
            end += Int64(Self.pageSize)
        }
        return SQLITE_OK
    }

    func truncate(to size: Int64) -> Int32 {
        announced = nil
        return file.truncate(to: size)
    }

    // MARK: - Record formats

    /// Whether a write is a journaled page: records start with the page number, at a multiple of eight; headers at one of 512.
    private static func isJournaledPage(_ count: Int, _ offset: Int64) -> Bool {
        count == pageSize && offset % 8 == 4
    }

    private func isFrameContent(_ offset: Int64) -> Bool {
        let start = offset - Int64(Self.logHeaderSize + Self.frameHeaderSize)
        return start >= 0 && start % Int64(Self.frameHeaderSize + Self.pageSize) == 0
    }

    private static func number(at header: UnsafeRawPointer) -> UInt32 {
        UInt32(bigEndian: header.loadUnaligned(as: UInt32.self))
    }
}
