internal import QuireProtection
internal import QuireSQLite
internal import QuireSystem

/// The pages of a database file that may be damaged, with its write-ahead log applied.
///
/// Reads the file directly, never through SQLite, and changes nothing. All metadata in the file is untrusted and checked
/// before use: page size, page count, offsets.
///
/// A sealed page that fails authentication is unreadable.
struct DatabasePages {
    /// The number of bytes of a page.
    let pageSize: Int
    /// The usable size of a page: all of it except the reserved bytes for sealing.
    let usableSize: Int
    /// The number of the last page, from 1.
    let pageCount: Int
    /// The number of pages according to the header or the log.
    let declaredPageCount: Int
    /// The first 100 bytes, if page 1 exists.
    let header: [UInt8]
    /// Whether the header begins as it must.
    let hasMagic: Bool
    /// The pages changed by committed transactions in the log.
    let log: DatabaseLog
    private let file: OpenFile
    private let logFile: OpenFile?
    private let unsealer: PageUnsealer?
    private let filePageCount: Int

    private static let magic = Array("SQLite format 3\0".utf8)
    static let headerSize = 100

    /// Opens a file and the log beside it.
    ///
    /// - Parameter cipher: Opens the pages of a protected database.
    /// - Throws: ``QuireError`` with code `notFound`, `readOnly` or `inputOutput` if one cannot be opened, `locked` if the file is open in this process, or
    ///   `invalidFormat` if it is too short to hold anything.
    init(path: String, cipher: PageCipher? = nil) throws {
        let path = FileSystem.absolute(path)
        try OpenDatabaseRegistry.requireClosed(path, before: "recovering it")
        try SQLiteFiles.check(path)
        file = try OpenFile.open(path, for: .reading)
        let information = try file.information()
        guard information.kind == .regular else { throw QuireError.noStoreFile(at: path) }
        let size = Int(clamping: information.size)
        // Without a log that cannot be opened, transactions would be lost in silence.
        let logFile =
            try FileSystem.hasEntry(at: path + "-wal")
            ? OpenFile.open(path + "-wal", for: .reading) : nil
        self.logFile = logFile
        let unsealer = cipher.map { PageUnsealer($0) }
        self.unsealer = unsealer
        let start = try file.read(min(size, Self.headerSize), at: 0)
        let pageSize =
            unsealer != nil
            ? PageCipher.pageSize
            : Self.pageSize(
                declared: start, size: size,
                logged: logFile.flatMap { DatabaseLog.pageSize(of: $0) }, file)
        self.pageSize = pageSize
        let filePageCount = size / pageSize
        self.filePageCount = filePageCount
        log =
            logFile.map {
                DatabaseLog(
                    $0, pageSize: pageSize, filePageCount: filePageCount, unsealer: unsealer)
            } ?? DatabaseLog()
        let logged = log.pageCount ?? 0
        pageCount = log.isEmpty ? filePageCount : max(logged, 1)
        guard pageCount > 0 else {
            throw QuireError(
                .invalidFormat, "“\(path)” is too short to contain any data: it has \(size) bytes.",
                file: path)
        }
        let place = log.offset(ofPage: 1).flatMap { offset in logFile.map { ($0, offset) } }
        let first: [UInt8]
        if let unsealer {
            let page = try? (place?.0 ?? file).read(pageSize, at: place?.1 ?? 0)
            first = Array(
                page.flatMap { unsealer.open($0, number: 1) }?.prefix(Self.headerSize) ?? [])
        } else {
            first = place.flatMap { try? $0.read(Self.headerSize, at: $1) } ?? start
        }
        header = first
        hasMagic = first.starts(with: Self.magic)
        var reserved = hasMagic && first.count > 20 ? Int(first[20]) : 0
        if unsealer != nil { reserved = PageCipher.reservedSize }
        usableSize = pageSize - reserved >= 480 ? pageSize - reserved : pageSize
        let inHeader = first.count >= 32 && hasMagic ? Int(first.bigEndian32(at: 28)) : 0
        declaredPageCount = max(log.isEmpty ? inHeader : logged, pageCount)
    }

    /// The bytes of a page; `nil` if the file ends before it or cannot be read there, or if it is sealed and does not open.
    func page(_ number: Int) -> [UInt8]? {
        guard let bytes = storedPage(number) else { return nil }
        guard let unsealer else { return bytes }
        return unsealer.open(bytes, number: number)
    }

    /// Checks that no page was considered unreadable because the protection domain was locked meanwhile.
    ///
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable`.
    func checkWasAvailable() throws {
        guard let unsealer, unsealer.wasLocked else { return }
        throw QuireError(
            .protectedDataUnavailable,
            "“\(file.path)” was locked while it was being read; unlock it, and try again.",
            file: file.path)
    }

    private func storedPage(_ number: Int) -> [UInt8]? {
        guard number > 0, number <= pageCount else { return nil }
        if let offset = log.offset(ofPage: number), let logFile {
            return try? logFile.read(pageSize, at: offset)
        }
        guard number <= filePageCount else { return nil }
        return try? file.read(pageSize, at: Int64(number - 1) * Int64(pageSize))
    }

    /// The number of readable bytes.
    var byteCount: Int { pageCount &* pageSize }

    // MARK: - The size of a page

    private static let pageSizes = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]

    /// The page size according to the header or the log, unless the pages contradict it.
    private static func pageSize(
        declared header: [UInt8], size: Int, logged: Int?, _ file: OpenFile
    ) -> Int {
        var declared = 0
        if header.count > 17 {
            declared = Int(header[16]) << 8 | Int(header[17])
            if declared == 1 { declared = 65536 }
        }
        if let logged, !pageSizes.contains(declared) || logged == declared { return logged }
        guard let sample = try? file.read(min(size, sampleSize), at: 0) else { return 4096 }
        let counts = pageSizes.map { ($0, beginnings(of: $0, in: sample)) }
        let most = counts.map(\.1).max() ?? 0
        if let own = counts.first(where: { $0.0 == declared }), own.1 * 4 >= most * 3 {
            return declared
        }
        // Half the size finds as many beginnings of pages, twice the size half of them: so the largest of the best.
        return most > 0 ? counts.last { $0.1 * 4 >= most * 3 }?.0 ?? 4096 : 4096
    }

    /// The number of bytes sampled to detect the page size.
    private static let sampleSize = 8 << 20

    /// The number of page starts, for an assumed page size, that look valid.
    private static func beginnings(of pageSize: Int, in bytes: [UInt8]) -> Int {
        stride(from: pageSize, to: max(bytes.count - 8, pageSize), by: pageSize).count {
            TreePage.looksLikeHeader(Array(bytes[$0..<$0 + 8]), pageSize: pageSize)
        }
    }
}

extension [UInt8] {
    /// A big-endian number of two bytes. The caller has checked the bounds.
    func bigEndian16(at offset: Int) -> Int { Int(self[offset]) << 8 | Int(self[offset + 1]) }

    /// A big-endian number of four bytes. The caller has checked the bounds.
    func bigEndian32(at offset: Int) -> UInt32 {
        UInt32(self[offset]) << 24 | UInt32(self[offset + 1]) << 16 | UInt32(self[offset + 2]) << 8
            | UInt32(self[offset + 3])
    }
}

// MARK: - The map

/// The use of each page, as far as it can be determined from b-trees, the freelist, and pointer map pages.
struct DatabaseMap {
    /// The use of a page.
    enum Use: UInt8 {
        /// Not reachable.
        case unknown
        /// It is part of the tree of a table or an index.
        case tree
        /// On the freelist: its content is deleted, or an older copy.
        case free
        /// A pointer map page.
        case pointerMap
    }

    let pages: DatabasePages
    private var uses: [Use]
    private let hasPointerMaps: Bool
    /// Unreadable or missing pages of trees.
    private(set) var lostPages: Set<Int> = []
    /// Whether the list of free pages was read to its end.
    private(set) var knowsFreePages = false

    init(_ pages: DatabasePages) {
        self.pages = pages
        hasPointerMaps = Self.hasPointerMaps(pages)
        uses = [Use](repeating: .unknown, count: pages.pageCount + 1)
        markPointerMaps()
    }

    subscript(number: Int) -> Use {
        number > 0 && number < uses.count ? uses[number] : .unknown
    }

    // MARK: - Trees

    /// Traverses a b-tree from its root.
    ///
    /// - Returns: The leaves of a table, in order, without those reached from another tree.
    mutating func leaves(ofTreeAt root: Int) -> [Int] {
        var leaves: [Int] = []
        var pending = [root]
        while let number = pending.popLast() {
            guard number > 0, number < uses.count else {
                if number > 0, number <= pages.declaredPageCount, lostPages.count < uses.count {
                    lostPages.insert(number)
                }
                continue
            }
            guard uses[number] != .tree, uses[number] != .pointerMap else { continue }
            guard let bytes = pages.page(number),
                let page = TreePage(bytes, number: number, usableSize: pages.usableSize)
            else {
                lostPages.insert(number)
                continue
            }
            uses[number] = .tree
            if page.kind == .tableLeaf { leaves.append(number) }
            pending += page.children.reversed()
        }
        return leaves
    }

    // MARK: - Free pages

    /// Marks the free pages: those on the freelist from page 1, and those that pointer maps declare free.
    mutating func markFreePages() {
        markFreeList()
        if knowsFreePages { return }
        for map in pointerMapPages {
            guard let bytes = pages.page(map) else { continue }
            for entry in 0..<entriesPerPointerMap {
                let number = map + 1 + entry
                guard number < uses.count else { break }
                if bytes[entry * 5] == 2, uses[number] == .unknown { uses[number] = .free }
            }
        }
    }

    private mutating func markFreeList() {
        guard pages.hasMagic, pages.header.count >= 40 else { return }
        var trunk = Int(pages.header.bigEndian32(at: 32))
        let declared = Int(pages.header.bigEndian32(at: 36))
        var found = 0
        while trunk != 0 {
            guard trunk < uses.count, uses[trunk] == .unknown, let bytes = pages.page(trunk) else {
                return
            }
            uses[trunk] = .free
            found += 1
            let count = Int(bytes.bigEndian32(at: 4))
            guard count <= pages.usableSize / 4 - 2 else { return }
            for index in 0..<count {
                let number = Int(bytes.bigEndian32(at: 8 + 4 * index))
                guard number > 0, number < uses.count else { return }
                if uses[number] == .unknown { uses[number] = .free }
                found += 1
            }
            trunk = Int(bytes.bigEndian32(at: 0))
        }
        knowsFreePages = found == declared
    }

    // MARK: - Pointer maps

    private var entriesPerPointerMap: Int { pages.usableSize / 5 }

    /// The pointer map pages, if the database has any.
    private var pointerMapPages: StrideTo<Int> {
        stride(from: 2, to: hasPointerMaps ? uses.count : 2, by: entriesPerPointerMap + 1)
    }

    private mutating func markPointerMaps() {
        for number in pointerMapPages { uses[number] = .pointerMap }
    }

    /// Whether page 2 is a pointer map page, according to the header, or, if that is lost, its content.
    private static func hasPointerMaps(_ pages: DatabasePages) -> Bool {
        if pages.hasMagic, pages.header.count >= 56, pages.header.bigEndian32(at: 52) == 0 {
            return false
        }
        guard let bytes = pages.page(2) else { return false }
        let count = min(pages.usableSize / 5, max(pages.pageCount - 2, 0))
        return (0..<count).allSatisfy { entry in
            let kind = bytes[entry * 5]
            let parent = Int(bytes.bigEndian32(at: entry * 5 + 1))
            return (1...5).contains(kind) && parent <= pages.declaredPageCount
                && (kind > 2 || parent == 0)
        }
    }
}
