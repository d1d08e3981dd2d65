import Foundation
import GRDB

/// GRDB with records whose coding is written by hand, its fastest kind.
final class GRDBEngine: Engine {
    static let kind = EngineKind.grdb

    /// A queue, or a pool where many read at once.
    let writer: any DatabaseWriter

    private init(_ writer: any DatabaseWriter) throws {
        self.writer = writer
        // GRDB turns `synchronous` down to NORMAL, with which the last saves before a power failure are lost.
        try writer.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = FULL") }
    }

    private convenience init(path: String) throws {
        var configuration = Configuration()
        configuration.journalMode = .wal
        try self.init(DatabaseQueue(path: path, configuration: configuration))
    }

    /// Opens a document in which so many may read at once.
    static func openPool(at path: String, readers: Int) throws -> GRDBEngine {
        var configuration = Configuration()
        configuration.maximumReaderCount = readers
        return try GRDBEngine(DatabasePool(path: path, configuration: configuration))
    }

    static func create(at path: String) throws -> GRDBEngine {
        try create(at: path, schema: NoteSchema.sql)
    }

    static func create(at path: String, schema: String) throws -> GRDBEngine {
        let engine = try GRDBEngine(path: path)
        try engine.writer.write { try $0.execute(sql: schema) }
        return engine
    }

    static func open(at path: String) throws -> GRDBEngine { try GRDBEngine(path: path) }

    func close() throws { try writer.close() }

    func insert(_ dataset: Dataset, withTags: Bool, _ stopwatch: Stopwatch) throws {
        stopwatch.start()
        try writer.write { database in
            for number in 0..<dataset.folderCount {
                try FolderRecord(id: Int64(number) + 1, name: Dataset.folderName(number))
                    .insert(database)
            }
            if withTags {
                for number in 0..<Dataset.tagCount {
                    try TagRecord(id: Int64(number) + 1, name: Dataset.tagName(number))
                        .insert(database)
                }
            }
            for number in 0..<dataset.count {
                let values = dataset[number]
                var note = NoteRecord(values)
                try note.insert(database)
                if withTags, let id = note.id {
                    for tag in [values.tags.0, values.tags.1] {
                        try NoteTagRecord(noteID: id, tagID: Int64(tag) + 1).insert(database)
                    }
                }
            }
        }
        stopwatch.stop()
    }

    func insertAsBatch(_ dataset: Dataset, _ stopwatch: Stopwatch) throws {
        stopwatch.start()
        try writer.write { database in
            for number in 0..<dataset.count {
                var note = NoteRecord(dataset[number])
                try note.insert(database)
            }
        }
        stopwatch.stop()
    }

    func changeAsBatch(before: Double, price: Double, _ stopwatch: Stopwatch) throws {
        stopwatch.start()
        _ = try writer.write {
            try NoteRecord.filter(Column("created") < before)
                .updateAll($0, Column("flag").set(to: true), Column("price").set(to: price))
        }
        stopwatch.stop()
    }

    func deleteAsBatch(before: Double, _ stopwatch: Stopwatch) throws {
        stopwatch.start()
        _ = try writer.write { database in
            let notes = NoteRecord.filter(Column("created") < before)
            try NoteTagRecord.filter(notes.select(Column("id")).contains(Column("note_id")))
                .deleteAll(database)
            return try notes.deleteAll(database)
        }
        stopwatch.stop()
    }

    func insertInParts(_ dataset: Dataset, of size: Int) throws {
        for start in stride(from: 0, to: dataset.count, by: size) {
            try writer.write { database in
                for number in start..<min(start + size, dataset.count) {
                    var note = NoteRecord(dataset[number])
                    try note.insert(database)
                }
            }
        }
    }

    func readEverything(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let notes = try writer.read { try NoteRecord.fetchAll($0) }
        var sum = Checksum()
        for note in notes { note.add(to: &sum) }
        return sum
    }

    func readRatings(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let notes = try writer.read { try NoteRecord.fetchAll($0) }
        var sum = Checksum()
        for note in notes {
            sum.count += 1
            sum.ratings &+= note.rating
        }
        return sum
    }

    func summarizeFolders(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let rows = try writer.read {
            try Row.fetchAll(
                $0,
                sql: """
                    SELECT folder_id, count(*) AS notes, sum(rating) AS ratings, avg(price) AS price
                    FROM note GROUP BY folder_id
                    """)
        }
        var sum = Checksum()
        for row in rows {
            sum.related += 1
            sum.count += row["notes"] as Int
            sum.ratings &+= row["ratings"] as Int64
            sum.prices += (row["price"] as Double).rounded()
        }
        return sum
    }

    func find(titles: [String], _ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        var sum = Checksum()
        for title in titles {
            let notes = try writer.read {
                try NoteRecord.filter(Column("title") == title).fetchAll($0)
            }
            for note in notes { note.add(to: &sum) }
        }
        return sum
    }

    func readFirst(_ count: Int, _ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let notes = try writer.read {
            try NoteRecord.order(Column("created")).limit(count).fetchAll($0)
        }
        var sum = Checksum()
        for note in notes { note.add(to: &sum, ordered: true) }
        return sum
    }

    func change(every step: Int, _ stopwatch: Stopwatch) throws {
        let all = try writer.read { try NoteRecord.fetchAll($0) }
        var notes = stride(from: 0, to: all.count, by: step).map { all[$0] }
        stopwatch.start()
        try writer.write { database in
            for index in notes.indices {
                notes[index].rating += 1
                notes[index].flag.toggle()
                try notes[index].update(database, columns: ["rating", "flag"])
            }
        }
        stopwatch.stop()
    }

    func readWithFolders(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let (folders, notes) = try writer.read {
            (try FolderRecord.fetchAll($0), try NoteRecord.fetchAll($0))
        }
        let names = Dictionary(uniqueKeysWithValues: folders.map { ($0.id, $0.name) })
        var sum = Checksum()
        for note in notes {
            note.add(to: &sum)
            if let name = names[note.folderID] { sum.addRelated(nameBytes: name.utf8.count) }
        }
        return sum
    }

    func readFolderByFolder(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        var sum = Checksum()
        try writer.read { database in
            for folder in try FolderRecord.fetchAll(database) {
                let notes = try NoteRecord.filter(Column("folder_id") == folder.id)
                    .fetchAll(database)
                for note in notes { note.add(to: &sum) }
            }
        }
        return sum
    }

    func readTags(_ stopwatch: Stopwatch) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let notes = try writer.read {
            try NoteRecord.including(all: NoteRecord.tags).asRequest(of: TaggedNote.self)
                .fetchAll($0)
        }
        var sum = Checksum()
        for note in notes {
            sum.count += 1
            for tag in note.tags { sum.addRelated(nameBytes: tag.name.utf8.count) }
        }
        return sum
    }

    func delete(every step: Int, _ stopwatch: Stopwatch) throws {
        let all = try writer.read { try NoteRecord.fetchAll($0) }
        let notes = stride(from: 0, to: all.count, by: step).map { all[$0] }
        stopwatch.start()
        try writer.write { database in
            for note in notes {
                try NoteTagRecord.filter(Column("note_id") == note.id).deleteAll(database)
                try note.delete(database)
            }
        }
        stopwatch.stop()
    }

    func changeOneByOne(titles: [String], _ stopwatch: Stopwatch) throws {
        for title in titles {
            let found = try writer.read {
                try NoteRecord.filter(Column("title") == title).fetchOne($0)
            }
            guard var note = found else { throw BenchmarkFailure("There is no note “\(title)”.") }
            stopwatch.start()
            note.rating += 1
            try writer.write { try note.update($0, columns: ["rating"]) }
            stopwatch.stop()
        }
    }
}

// MARK: - Records

private struct FolderRecord: FetchableRecord, PersistableRecord {
    static let databaseTableName = "folder"
    var id: Int64
    var name: String

    init(id: Int64, name: String) {
        self.id = id
        self.name = name
    }

    init(row: Row) {
        id = row[0]
        name = row[1]
    }

    func encode(to container: inout PersistenceContainer) {
        container["id"] = id
        container["name"] = name
    }
}

private struct TagRecord: FetchableRecord, PersistableRecord {
    static let databaseTableName = "tag"
    var id: Int64
    var name: String

    init(id: Int64, name: String) {
        self.id = id
        self.name = name
    }

    init(row: Row) {
        id = row[0]
        name = row[1]
    }

    func encode(to container: inout PersistenceContainer) {
        container["id"] = id
        container["name"] = name
    }
}

/// A note with the tags that were read along.
private struct TaggedNote: FetchableRecord {
    var note: NoteRecord
    var tags: [TagRecord]

    init(row: Row) {
        note = NoteRecord(row: row)
        tags = row.prefetchedRows["tags"]?.map { TagRecord(row: $0) } ?? []
    }
}

private struct NoteTagRecord: PersistableRecord {
    static let databaseTableName = "note_tag"
    static let tag = belongsTo(TagRecord.self, using: ForeignKey(["tag_id"]))
    var noteID: Int64
    var tagID: Int64

    func encode(to container: inout PersistenceContainer) {
        container["note_id"] = noteID
        container["tag_id"] = tagID
    }
}

private struct NoteRecord: FetchableRecord, MutablePersistableRecord {
    static let databaseTableName = "note"
    static let noteTags = hasMany(NoteTagRecord.self, using: ForeignKey(["note_id"]))
    static let tags = hasMany(TagRecord.self, through: noteTags, using: NoteTagRecord.tag)
        .forKey("tags")
    var id: Int64?
    var title: String
    var body: String
    var created: Date
    var rating: Int64
    var flag: Bool
    var price: Double
    var uuid: UUID
    var folderID: Int64

    init(_ values: NoteValues) {
        title = values.title
        body = values.body
        created = Date(timeIntervalSinceReferenceDate: values.created)
        rating = values.rating
        flag = values.flag
        price = values.price
        uuid = values.uuid
        folderID = Int64(values.folder) + 1
    }

    /// By position, which is GRDB's fastest access; the columns come in the order of the table.
    init(row: Row) {
        id = row[0]
        title = row[1]
        body = row[2]
        created = Date(timeIntervalSinceReferenceDate: row[3])
        rating = row[4]
        flag = row[5]
        price = row[6]
        uuid = row[7]
        folderID = row[8]
    }

    func encode(to container: inout PersistenceContainer) {
        container["id"] = id
        container["title"] = title
        container["body"] = body
        container["created"] = created.timeIntervalSinceReferenceDate
        container["rating"] = rating
        container["flag"] = flag
        container["price"] = price
        container["uuid"] = uuid
        container["folder_id"] = folderID
    }

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }

    @inline(__always)
    func add(to sum: inout Checksum, ordered: Bool = false) {
        sum.add(
            titleBytes: title.utf8.count, bodyBytes: body.utf8.count,
            created: created.timeIntervalSinceReferenceDate, rating: rating, flag: flag,
            price: price, uuid: uuid.folded, ordered: ordered)
    }
}
