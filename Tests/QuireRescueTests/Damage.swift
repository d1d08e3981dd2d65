import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// Stores to damage, and ways to damage them.
enum Damage {
    /// A SQLite store of the corpus, with its model if that is known.
    struct CorpusFile: Sendable, CustomTestStringConvertible {
        let url: URL
        let modelURL: URL?
        var testDescription: String { url.lastPathComponent }
        var isPackage: Bool { url.lastPathComponent == "persistentStore" }
    }

    /// All SQLite stores of the corpus, those in packages too.
    static let corpus: [CorpusFile] = {
        guard let folder = Corpus.folder,
            let index = try? String(
                contentsOf: folder.appendingPathComponent("INDEX.md"), encoding: .utf8)
        else { return [] }
        var models: [String: URL] = [:]
        for line in index.split(separator: "\n") {
            guard let start = line.range(of: "model: `"), line.hasPrefix("| `stores/") else {
                continue
            }
            let path = String(line.dropFirst(3).prefix { $0 != "`" })
            let repository = path.split(separator: "/")[1]
            models[path] = folder.appendingPathComponent(
                "models/\(repository)/\(line[start.upperBound...].prefix { $0 != "`" })")
        }
        return Corpus.files { path in
            (path.hasPrefix("stores/") || path.hasPrefix("packages/"))
                && !path.hasSuffix("-wal") && !path.hasSuffix("-shm")
        }.compactMap { url in
            guard let file = FileHandle(forReadingAtPath: url.path),
                (try? file.read(upToCount: 16)) == Data("SQLite format 3\0".utf8)
            else { return nil }
            return CorpusFile(
                url: url, modelURL: models[String(url.path.dropFirst(folder.path.count + 1))])
        }
    }()

    /// Copies a store, and the log that belongs to it.
    static func copy(_ url: URL, to path: String) throws {
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: url.path + suffix) {
            try FileManager.default.copyItem(atPath: url.path + suffix, toPath: path + suffix)
        }
    }

    /// Runs SQL on a file, and gives the rows as texts.
    @discardableResult
    static func query(_ path: String, _ sql: String) throws -> [[String]] {
        let connection = try connect(path)
        defer { connection.close() }
        try SQLiteFunctions.register(on: connection)
        let statement = try connection.prepare(sql)
        var rows: [[String]] = []
        while try statement.step() {
            rows.append(
                (0..<statement.columnCount).map {
                    statement.isNull($0) ? "NULL" : statement.text($0)
                })
        }
        return rows
    }

    /// A connection that writes a store, which may be protected.
    static func connect(_ path: String) throws -> SQLiteConnection {
        try SQLiteConnection(
            path: path, mode: .writing, cipher: StoreProtection.find(forStoreAt: path)?.cipher)
    }

    /// Takes away what tells a store's model.
    static func dropModels(_ path: String) throws {
        try query(path, "DROP TABLE IF EXISTS QUIRE_MODEL")
        try query(path, "DROP TABLE IF EXISTS Z_MODELCACHE")
    }

    /// Merges the log into a store, so that it is one file.
    static func settle(_ path: String) throws {
        try query(path, "PRAGMA wal_checkpoint(TRUNCATE)")
        for suffix in ["-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: path + suffix)
        }
    }

    // MARK: - Damaging

    static func pageSize(_ bytes: Data) -> Int {
        let size = Int(bytes[16]) << 8 | Int(bytes[17])
        return size == 1 ? 65536 : size
    }

    /// The size of the pages of a store, sealed or not.
    private static func pageSize(of path: String, _ bytes: Data) throws -> Int {
        try StoreProtection.domain(ofStoreAt: path) != nil
            ? PageCipher.pageSize : pageSize(bytes)
    }

    /// The pages of a store as SQLite sees them.
    private static func clearBytes(_ path: String) throws -> [UInt8] {
        var bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
        guard let cipher = try StoreProtection.find(forStoreAt: path)?.cipher else { return bytes }
        bytes.withUnsafeMutableBytes { bytes in
            for start in stride(from: 0, to: bytes.count, by: PageCipher.pageSize) {
                let number = UInt32(start / PageCipher.pageSize + 1)
                #expect(cipher.open(bytes.baseAddress! + start, number: number) == .done)
            }
        }
        return bytes
    }

    /// Overwrites pages with noise.
    static func overwrite(
        _ path: String, pages: some Sequence<Int>, with random: inout SeededRandom
    ) throws {
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        let size = try pageSize(of: path, bytes)
        for page in pages {
            for offset in (page - 1) * size..<page * size {
                bytes[offset] = UInt8.random(in: 0...255, using: &random)
            }
            // No page of a tree begins so.
            bytes[(page - 1) * size] = 0xEE
        }
        try bytes.write(to: URL(fileURLWithPath: path))
    }

    /// Cuts a file off behind a page.
    static func truncate(_ path: String, afterPage page: Int) throws {
        let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        try bytes.prefix(page * pageSize(of: path, bytes)).write(to: URL(fileURLWithPath: path))
    }

    /// Damages a file in one of several ways.
    static func fuzz(_ path: String, _ random: inout SeededRandom) throws -> String {
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        let size = try pageSize(of: path, bytes)
        let pages = max(bytes.count / max(size, 512), 1)
        let what: String
        switch Int.random(in: 0..<6, using: &random) {
        case 0:
            let length = Int.random(in: 0...bytes.count, using: &random)
            bytes = bytes.prefix(length)
            what = "cut to \(length)"
        case 1:
            let page = Int.random(in: 0...pages, using: &random)
            bytes = bytes.prefix(page * size)
            what = "cut behind page \(page)"
        case 2:
            let page = Int.random(in: 0..<pages, using: &random)
            let range = page * size..<min((page + 1) * size, bytes.count)
            for offset in range { bytes[offset] = 0 }
            what = "page \(page + 1) emptied"
        case 3:
            let (one, two) = (
                Int.random(in: 0..<pages, using: &random), Int.random(in: 0..<pages, using: &random)
            )
            for offset in 0..<size where max(one, two) * size + offset < bytes.count {
                bytes.swapAt(one * size + offset, two * size + offset)
            }
            what = "pages \(one + 1) and \(two + 1) swapped"
        case 4:
            // The heads of pages say the most.
            let count = Int.random(in: 1...8, using: &random)
            for _ in 0..<count {
                let offset =
                    Int.random(in: 0..<pages, using: &random) * size
                    + Int.random(in: 0..<64, using: &random)
                if offset < bytes.count {
                    bytes[offset] = UInt8.random(in: 0...255, using: &random)
                }
            }
            what = "\(count) bytes in heads of pages"
        default:
            let count = Int.random(in: 1...64, using: &random)
            for _ in 0..<count where !bytes.isEmpty {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] ^=
                    UInt8(1) << UInt8.random(in: 0..<8, using: &random)
            }
            what = "\(count) bits"
        }
        try bytes.write(to: URL(fileURLWithPath: path))
        return what
    }

    // MARK: - What is on which page

    /// A row of a table, and the pages that it is on.
    struct PlacedRow {
        let table: String
        let key: Int64
        let pages: Set<Int>
    }

    /// The rows of the tables of objects and of pairs with the pages that each is on, by SQLite's own account of its pages
    /// and a reading of the leaves' keys that shares nothing with the recovery's.
    static func placedRows(_ path: String) throws -> [PlacedRow] {
        let bytes = try clearBytes(path)
        let size = pageSize(Data(bytes.prefix(100)))
        let tables = Set(
            try query(
                path,
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'Z%' AND sql NOT LIKE '%VIRTUAL%'"
            ).map { $0[0] })
        let pages = try query(
            path, "SELECT name, path, pageno, pagetype FROM dbstat ORDER BY name, path")
        var overflow: [String: Set<Int>] = [:]
        for page in pages where page[3] == "overflow" {
            let cell = page[0] + page[1].prefix { $0 != "+" }
            overflow[cell, default: []].insert(Int(page[2]) ?? 0)
        }
        var rows: [PlacedRow] = []
        for page in pages where page[3] == "leaf" && tables.contains(page[0]) {
            let number = Int(page[2]) ?? 0
            let start = (number - 1) * size
            let head = number == 1 ? start + 100 : start
            guard bytes[head] == 13 else { continue }
            for index in 0..<Int(bytes[head + 3]) << 8 + Int(bytes[head + 4]) {
                let pointer = head + 8 + 2 * index
                var offset = start + Int(bytes[pointer]) << 8 + Int(bytes[pointer + 1])
                func number() -> Int64 {
                    var value: Int64 = 0
                    for count in 1...9 {
                        let byte = bytes[offset]
                        offset += 1
                        if count == 9 { return value << 8 | Int64(byte) }
                        value = value << 7 | Int64(byte & 0x7F)
                        if byte < 0x80 { break }
                    }
                    return value
                }
                _ = number()
                let key = number()
                let hex = String(index, radix: 16)
                let cell =
                    page[0] + page[1] + String(repeating: "0", count: max(0, 3 - hex.count)) + hex
                rows.append(
                    PlacedRow(
                        table: page[0], key: key,
                        pages: (overflow[cell] ?? []).union([Int(page[2]) ?? 0])))
            }
        }
        return rows
    }

    static func pageCount(_ path: String) throws -> Int {
        let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        return try bytes.count / pageSize(of: path, bytes)
    }

    // MARK: - Stores of ours

    private struct Library: Hashable {
        let books: Int
        let protection: FileProtection
    }

    /// The stores that have been made.
    @MainActor private static var libraries: [Library: TemporaryFolder] = [:]

    /// The domain that unlocks protected stores, and all copies of them.
    @MainActor static let domain: Result<ProtectionDomain, any Error> = Result {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        return try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
    }

    /// Makes a store with objects of every kind, with rows that need several pages and with external data.
    @MainActor
    static func makeLibrary(
        at path: String, books: Int = 400, protection: FileProtection = .none
    ) throws {
        let key = Library(books: books, protection: protection)
        let folder = try libraries[key] ?? TemporaryFolder()
        let made = folder.path("library.sqlite")
        if libraries[key] == nil {
            try fillLibrary(at: made, books: books, protection)
            libraries[key] = folder
        }
        try FileManager.default.copyItem(atPath: made, toPath: path)
        if protection != .none {
            try FileManager.default.copyItem(
                atPath: made + ".keybag", toPath: path + ".keybag")
        }
        let files = ExternalDataFolder(storePath: made).folder
        if FileSystem.exists(files) {
            let target = ExternalDataFolder(storePath: path).folder
            try FileSystem.makeFolder(FileSystem.folder(of: target), withIntermediates: true)
            try FileSystem.copyTree(files, to: target, by: .copying)
        }
    }

    @MainActor
    private static func fillLibrary(
        at path: String, books: Int, _ protection: FileProtection
    ) throws {
        var options = SQLiteStoreOptions()
        options.fileProtection = protection
        options.protectionDomain = try domain.get()
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options)
        let coordinator = PersistentStoreCoordinator(store: store)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        var random = SeededRandom(seed: 7)
        func make(_ entity: String, _ values: [String: AttributeValue] = [:]) throws
            -> ManagedObject
        {
            let object = try context.insertObject(entityName: entity)
            for (key, value) in values { object[key] = value }
            return object
        }
        let authors = try (0..<20).map { try make("Author", ["name": .string("Author \($0)")]) }
        let tags = try (0..<10).map { try make("Tag", ["name": .string("tag\($0)")]) }
        let shelf = try make("Shelf", ["name": "Top"])
        var previous: ManagedObject?
        for index in 0..<books {
            let length = index % 50 == 0 ? 12_000 : Int.random(in: 5...80, using: &random)
            let book = try make(
                "Book",
                [
                    "title": .string("Book \(index) " + String(repeating: "é", count: length)),
                    "year": .integer(Int64(index % 300 + 1700)),
                ])
            book["author"] = authors[index % authors.count]
            book["tags"] = [tags[index % 10], tags[(index + 3) % 10]]
            if index % 3 == 0 { book["shelf"] = shelf }
            if let previous, index % 7 == 0 { book["sequels"] = [previous] }
            if index % 40 == 0 {
                let cover = try make(
                    "Cover",
                    [
                        "image": .binary(
                            Data(
                                repeating: UInt8(index % 256),
                                count: index % 80 == 0 ? 150_000 : 9000))
                    ])
                book["cover"] = cover
            }
            previous = book
        }
        let manager = try make("Manager", ["name": "Boss", "salary": 10])
        let person = try make("Person", ["name": "Jo"])
        let spouse = try make("Employee", ["name": "Al", "salary": 5])
        person["spouse"] = spouse
        person["manager"] = manager
        spouse["manager"] = manager
        let songs = try (0..<5).map { try make("Song", ["title": .string("Song \($0)")]) }
        let list = try make("Playlist")
        list["songs"] = songs.reversed()
        try context.save()
        try store.close()
    }
}
