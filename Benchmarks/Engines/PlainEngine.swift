import CSQLite
import Foundation

/// SQLite's C API, used as a program without any library would use it: a statement per task, prepared once.
final class PlainEngine: Engine {
    static let kind = EngineKind.plain

    private let connection: OpaquePointer
    private var statements: [String: OpaquePointer] = [:]

    private init(path: String, flags: Int32) throws {
        var pointer: OpaquePointer?
        let code = sqlite3_open_v2(path, &pointer, flags | SQLITE_OPEN_NOMUTEX, nil)
        guard code == SQLITE_OK, let pointer else {
            throw BenchmarkFailure("SQLite cannot open \(path): code \(code).")
        }
        connection = pointer
        // Beside one that saves, a reader may find the log's index locked for a moment.
        sqlite3_busy_timeout(connection, 5_000)
        try execute("PRAGMA journal_mode = WAL")
        try execute("PRAGMA synchronous = FULL")
    }

    static func create(at path: String) throws -> PlainEngine {
        try create(at: path, schema: NoteSchema.sql)
    }

    static func create(at path: String, schema: String) throws -> PlainEngine {
        let engine = try PlainEngine(path: path, flags: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
        try engine.execute(schema)
        return engine
    }

    static func open(at path: String) throws -> PlainEngine {
        try PlainEngine(path: path, flags: SQLITE_OPEN_READWRITE)
    }

    func close() throws {
        for statement in statements.values { sqlite3_finalize(statement) }
        statements = [:]
        guard sqlite3_close(connection) == SQLITE_OK else {
            throw BenchmarkFailure("SQLite cannot close: \(message).")
        }
    }

    func insert(_ dataset: Dataset, withTags: Bool, _ stopwatch: Stopwatch) throws {
        stopwatch.start()
        try execute("BEGIN IMMEDIATE")
        let folder = try statement("INSERT INTO folder (id, name) VALUES (?, ?)")
        for number in 0..<dataset.folderCount {
            sqlite3_bind_int64(folder, 1, Int64(number) + 1)
            try insert(name: Dataset.folderName(number), with: folder)
        }
        if withTags {
            let tag = try statement("INSERT INTO tag (id, name) VALUES (?, ?)")
            for number in 0..<Dataset.tagCount {
                sqlite3_bind_int64(tag, 1, Int64(number) + 1)
                try insert(name: Dataset.tagName(number), with: tag)
            }
        }
        let note = try statement(Self.insertNote)
        let noteTag = try statement("INSERT INTO note_tag (note_id, tag_id) VALUES (?, ?)")
        for number in 0..<dataset.count {
            let values = dataset[number]
            try insert(values, with: note)
            if withTags {
                let id = lastInsertedID
                for tag in [values.tags.0, values.tags.1] {
                    sqlite3_bind_int64(noteTag, 1, id)
                    sqlite3_bind_int64(noteTag, 2, Int64(tag) + 1)
                    try run(noteTag)
                }
            }
        }
        try execute("COMMIT")
        stopwatch.stop()
    }

    func insertAsBatch(_ dataset: Dataset, _ stopwatch: Stopwatch) throws {
        stopwatch.start()
        let note = try statement(Self.insertNote)
        try execute("BEGIN IMMEDIATE")
        for number in 0..<dataset.count { try insert(dataset[number], with: note) }
        try execute("COMMIT")
        stopwatch.stop()
    }

    func changeAsBatch(before: Double, price: Double, _ stopwatch: Stopwatch) throws {
        stopwatch.start()
        let update = try statement("UPDATE note SET flag = 1, price = ? WHERE created < ?")
        sqlite3_bind_double(update, 1, price)
        sqlite3_bind_double(update, 2, before)
        try run(update)
        stopwatch.stop()
    }

    func deleteAsBatch(before: Double, _ stopwatch: Stopwatch) throws {
        stopwatch.start()
        try execute("BEGIN IMMEDIATE")
        for sql in [
            "DELETE FROM note_tag WHERE note_id IN (SELECT id FROM note WHERE created < ?)",
            "DELETE FROM note WHERE created < ?",
        ] {
            let delete = try statement(sql)
            sqlite3_bind_double(delete, 1, before)
            try run(delete)
        }
        try execute("COMMIT")
        stopwatch.stop()
    }

    func insertInParts(_ dataset: Dataset, of size: Int) throws {
        let note = try statement(Self.insertNote)
        try execute("BEGIN IMMEDIATE")
        for number in 0..<dataset.count {
            try insert(dataset[number], with: note)
            if (number + 1) % size == 0 && number + 1 < dataset.count {
                try execute("COMMIT")
                try execute("BEGIN IMMEDIATE")
            }
        }
        try execute("COMMIT")
    }

    private static let insertNote = """
        INSERT INTO note (title, body, created, rating, flag, price, uuid, folder_id)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """

    func readEverything(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let select = try statement("SELECT \(Self.columns) FROM note")
        var sum = Checksum()
        while try step(select) { readNote(select, into: &sum) }
        return sum
    }

    func readRatings(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let select = try statement("SELECT id, rating FROM note")
        var sum = Checksum()
        while try step(select) {
            sum.count += sqlite3_column_int64(select, 0) > 0 ? 1 : 0
            sum.ratings &+= sqlite3_column_int64(select, 1)
        }
        return sum
    }

    func summarizeFolders(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let select = try statement(
            "SELECT folder_id, count(*), sum(rating), avg(price) FROM note GROUP BY folder_id")
        var sum = Checksum()
        while try step(select) {
            sum.related += 1
            sum.count += Int(sqlite3_column_int64(select, 1))
            sum.ratings &+= sqlite3_column_int64(select, 2)
            sum.prices += sqlite3_column_double(select, 3).rounded()
        }
        return sum
    }

    func find(titles: [String], _ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let select = try statement("SELECT \(Self.columns) FROM note WHERE title = ?")
        var sum = Checksum()
        for var title in titles {
            try title.withUTF8 {
                bind($0, to: 1, of: select)
                while try step(select) { readNote(select, into: &sum) }
            }
        }
        return sum
    }

    func readFirst(_ count: Int, _ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let select = try statement("SELECT \(Self.columns) FROM note ORDER BY created LIMIT ?")
        sqlite3_bind_int64(select, 1, Int64(count))
        var sum = Checksum()
        while try step(select) { readNote(select, into: &sum, ordered: true) }
        return sum
    }

    func change(every step: Int, _ stopwatch: Stopwatch) throws {
        var notes: [(id: Int64, rating: Int64, flag: Bool)] = []
        let select = try statement("SELECT id, rating, flag FROM note")
        var number = 0
        while try self.step(select) {
            if number % step == 0 {
                notes.append(
                    (
                        sqlite3_column_int64(select, 0), sqlite3_column_int64(select, 1),
                        sqlite3_column_int64(select, 2) != 0
                    ))
            }
            number += 1
        }
        stopwatch.start()
        try execute("BEGIN IMMEDIATE")
        let update = try statement("UPDATE note SET rating = ?, flag = ? WHERE id = ?")
        for note in notes {
            sqlite3_bind_int64(update, 1, note.rating + 1)
            sqlite3_bind_int64(update, 2, note.flag ? 0 : 1)
            sqlite3_bind_int64(update, 3, note.id)
            try run(update)
        }
        try execute("COMMIT")
        stopwatch.stop()
    }

    func changeOneByOne(titles: [String], _ stopwatch: Stopwatch) throws {
        let select = try statement("SELECT id, rating FROM note WHERE title = ?")
        let begin = try statement("BEGIN IMMEDIATE")
        let update = try statement("UPDATE note SET rating = ? WHERE id = ?")
        let commit = try statement("COMMIT")
        for var title in titles {
            var note: (id: Int64, rating: Int64)?
            try title.withUTF8 {
                bind($0, to: 1, of: select)
                while try step(select) {
                    note = (sqlite3_column_int64(select, 0), sqlite3_column_int64(select, 1))
                }
            }
            guard let note else { throw BenchmarkFailure("There is no note “\(title)”.") }
            stopwatch.start()
            try run(begin)
            sqlite3_bind_int64(update, 1, note.rating + 1)
            sqlite3_bind_int64(update, 2, note.id)
            try run(update)
            try run(commit)
            stopwatch.stop()
        }
    }

    func readWithFolders(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let folders = try names("SELECT id, name FROM folder")
        let select = try statement("SELECT \(Self.columns) FROM note")
        var sum = Checksum()
        while try step(select) {
            readNote(select, into: &sum)
            if let folder = folders[sqlite3_column_int64(select, 8)] {
                sum.addRelated(nameBytes: folder.utf8.count)
            }
        }
        return sum
    }

    func readFolderByFolder(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let folders = try statement("SELECT id FROM folder")
        let select = try statement("SELECT \(Self.columns) FROM note WHERE folder_id = ?")
        var sum = Checksum()
        while try step(folders) {
            sqlite3_bind_int64(select, 1, sqlite3_column_int64(folders, 0))
            while try step(select) { readNote(select, into: &sum) }
        }
        return sum
    }

    func readTags(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let tags = try names("SELECT id, name FROM tag")
        let notes = try statement("SELECT id FROM note ORDER BY id")
        let pairs = try statement("SELECT note_id, tag_id FROM note_tag ORDER BY note_id, tag_id")
        var sum = Checksum()
        while try step(notes) { sum.count += 1 }
        while try step(pairs) {
            if let tag = tags[sqlite3_column_int64(pairs, 1)] {
                sum.addRelated(nameBytes: tag.utf8.count)
            }
        }
        return sum
    }

    private func names(_ sql: String) throws -> [Int64: String] {
        let select = try statement(sql)
        var names: [Int64: String] = [:]
        while try step(select) {
            names[sqlite3_column_int64(select, 0)] = String(cString: sqlite3_column_text(select, 1))
        }
        return names
    }

    func delete(every step: Int, _ stopwatch: Stopwatch) throws {
        var notes: [Int64] = []
        let select = try statement("SELECT id FROM note")
        var number = 0
        while try self.step(select) {
            if number % step == 0 { notes.append(sqlite3_column_int64(select, 0)) }
            number += 1
        }
        stopwatch.start()
        try execute("BEGIN IMMEDIATE")
        let pairs = try statement("DELETE FROM note_tag WHERE note_id = ?")
        let note = try statement("DELETE FROM note WHERE id = ?")
        for id in notes {
            sqlite3_bind_int64(pairs, 1, id)
            try run(pairs)
            sqlite3_bind_int64(note, 1, id)
            try run(note)
        }
        try execute("COMMIT")
        stopwatch.stop()
    }

    // MARK: - Rows

    private static let columns =
        "id, title, body, created, rating, flag, price, uuid, folder_id"

    /// Reads every column and makes of it what the other engines hand out: texts become strings.
    @inline(__always)
    private func readNote(
        _ row: OpaquePointer, into sum: inout Checksum, ordered: Bool = false
    ) {
        let title = text(row, 1)
        let body = text(row, 2)
        let uuid = UnsafeRawPointer(sqlite3_column_blob(row, 7))
        let folded =
            uuid.map {
                $0.loadUnaligned(as: UInt64.self)
                    ^ $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
            } ?? 0
        let created = sqlite3_column_double(row, 3)
        let rating = sqlite3_column_int64(row, 4)
        let flag = sqlite3_column_int64(row, 5) != 0
        let price = sqlite3_column_double(row, 6)
        sum.add(
            titleBytes: title, bodyBytes: body, created: created, rating: rating, flag: flag,
            price: price, uuid: folded, ordered: ordered)
    }

    @inline(__always)
    func text(_ row: OpaquePointer, _ column: Int32) -> Int {
        guard let bytes = sqlite3_column_text(row, column) else { return 0 }
        let count = Int(sqlite3_column_bytes(row, column))
        return String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self).utf8
            .count
    }

    private func insert(_ values: NoteValues, with statement: OpaquePointer) throws {
        var title = values.title
        var body = values.body
        try title.withUTF8 { title in
            try body.withUTF8 { body in
                try withUnsafeBytes(of: values.uuid.uuid) { uuid in
                    bind(title, to: 1, of: statement)
                    bind(body, to: 2, of: statement)
                    sqlite3_bind_double(statement, 3, values.created)
                    sqlite3_bind_int64(statement, 4, values.rating)
                    sqlite3_bind_int64(statement, 5, values.flag ? 1 : 0)
                    sqlite3_bind_double(statement, 6, values.price)
                    _ = quire_sqlite3_bind_blob_static(
                        statement, 7, uuid.baseAddress, UInt64(uuid.count))
                    sqlite3_bind_int64(statement, 8, Int64(values.folder) + 1)
                    try run(statement)
                }
            }
        }
    }

    /// Binds a name as the second value.
    func insert(name: String, with statement: OpaquePointer) throws {
        var name = name
        try name.withUTF8 {
            bind($0, to: 2, of: statement)
            try run(statement)
        }
    }

    // MARK: - Statements

    private var message: String { String(cString: sqlite3_errmsg(connection)) }

    var lastInsertedID: Int64 { sqlite3_last_insert_rowid(connection) }

    func statement(_ sql: String) throws -> OpaquePointer {
        if let statement = statements[sql] { return statement }
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(connection, sql, -1, &statement, nil) == SQLITE_OK, let statement
        else { throw BenchmarkFailure("SQLite: \(message) in “\(sql)”.") }
        statements[sql] = statement
        return statement
    }

    /// The bytes must stay alive until the statement has run.
    @inline(__always)
    func bind(
        _ text: UnsafeBufferPointer<UInt8>, to index: Int32, of statement: OpaquePointer
    ) {
        text.withMemoryRebound(to: CChar.self) {
            _ = quire_sqlite3_bind_text_static(statement, index, $0.baseAddress, UInt64($0.count))
        }
    }

    /// Whether there is another row. The statement is ready for its next use once there is none.
    @inline(__always)
    func step(_ statement: OpaquePointer) throws -> Bool {
        let code = sqlite3_step(statement)
        if code == SQLITE_ROW { return true }
        sqlite3_reset(statement)
        guard code == SQLITE_DONE else { throw BenchmarkFailure("SQLite: \(message).") }
        return false
    }

    @inline(__always)
    func run(_ statement: OpaquePointer) throws {
        while try step(statement) {}
    }

    func execute(_ sql: String) throws {
        guard sqlite3_exec(connection, sql, nil, nil, nil) == SQLITE_OK else {
            throw BenchmarkFailure("SQLite: \(message) in “\(sql)”.")
        }
    }
}

/// The tables of the engines that have no schema of their own.
enum NoteSchema {
    static let sql = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE note (
            id INTEGER PRIMARY KEY, title TEXT, body TEXT, created REAL, rating INTEGER, flag INTEGER,
            price REAL, uuid BLOB, folder_id INTEGER);
        CREATE INDEX note_title ON note (title);
        CREATE INDEX note_created ON note (created);
        CREATE INDEX note_folder ON note (folder_id);
        CREATE TABLE note_tag (note_id INTEGER, tag_id INTEGER, PRIMARY KEY (note_id, tag_id));
        CREATE INDEX note_tag_tag ON note_tag (tag_id, note_id);
        """
}
