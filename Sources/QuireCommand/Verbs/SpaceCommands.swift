import ArgumentParser
import Foundation
import Quire
import QuireDocuments
import QuireSQLite

/// `quire stats PATH`
struct StatsVerb: DocumentVerb {
    static let name = "stats"
    static let abstract = "Shows what takes up space: by entity, with empty and large values."
    static let discussion = """
        Values are counted as last saved: texts in UTF-8, binary values by their size, UUIDs as 16 bytes, \
        and numbers, dates and references as 8. “external” is the size of values in external files. \
        “database” is the size of the pages of a table with its indexes, on the line of the entity that owns \
        the table. Attributes that are empty in at least half of the objects, and the ten largest texts and \
        binary values, are listed too. --only prints one of these three parts. Formats other than tables and \
        JSON always print one: the entities by default.

        EXAMPLES:
          quire stats Library.quire
          quire stats Library.quire --only largest --csv
          quire stats Library.quire --json
        """
    typealias Printing = RowOptions

    @Option(help: ArgumentHelp("Print only this part.", valueName: "PART"))
    var only: StatisticsListing.Part?

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let statistics = try ProgressBar.showing("Reading \(document.path)", of: .objects) {
            try StoreStatistics(of: document.store, progress: $0)
        }
        let listing = StatisticsListing(statistics: statistics, only: only)
        return Reply { try listing.print($0) }
    }
}

// MARK: - Counting

/// The space that the values of a store take, counted object by object.
struct StoreStatistics {
    /// The values of objects of exactly one entity.
    struct EntityUse {
        let entity: ResolvedEntity
        var objects = 0
        /// The bytes of values in the store, and of those in files of their own.
        var bytes: Int64 = 0
        var external: Int64 = 0
        /// The bytes of the pages of the table and its indexes, if it is the entity's own.
        var database: Int64?
    }

    /// An attribute that is null or an empty text in some objects of exactly one entity.
    struct EmptyAttribute {
        let entity: String
        let key: String
        let empty: Int
        let objects: Int
    }

    /// A value with its size.
    struct LargeValue {
        let id: ManagedObjectID
        let key: String
        let bytes: Int64
        let isExternal: Bool
    }

    /// The entities, the largest first.
    private(set) var entities: [EntityUse] = []
    /// The attributes that are empty in at least half of the objects.
    private(set) var empty: [EmptyAttribute] = []
    /// The largest values, the largest first.
    private(set) var largest: [LargeValue] = []
    /// The use of the database's pages; `nil` if the store is not a database, or SQLite cannot tell.
    let database: SQLiteSpaceUse?

    private static let largestCount = 10

    /// Reads all objects of a store.
    ///
    /// - Parameter progress: Counts the objects.
    /// - Throws: Errors of reading.
    init(of store: any PersistentStore, progress: Progress) throws {
        database = try (store as? SQLiteStore)?.spaceUse()
        for entity in store.layout.entities {
            var use = EntityUse(entity: entity)
            use.database = database?.entities[entity.number]
            try count(&use, in: store, progress)
            if !entity.isAbstract || use.database != nil { entities.append(use) }
        }
        func size(_ use: EntityUse) -> Int64 { use.bytes + use.external }
        entities.sort { (size($1), $0.entity.name) < (size($0), $1.entity.name) }
    }

    private mutating func count(
        _ use: inout EntityUse, in store: any PersistentStore, _ progress: Progress
    ) throws {
        let entity = use.entity
        let slots = entity.slots.filter(\.isStored)
        var empty = [Int](repeating: 0, count: entity.slots.count)
        let cursor = try ObjectCursor(entity, of: store)
        while let row = try cursor.next() {
            use.objects += 1
            progress.completedUnitCount += 1
            for slot in slots {
                let (bytes, form) = Self.size(of: try row.valueWithoutLoading(at: slot.index))
                if bytes == 0 { empty[slot.index] += 1 }
                if form == .external { use.external += bytes } else { use.bytes += bytes }
                if form == .fixed { continue }
                note(
                    LargeValue(
                        id: row.objectID, key: slot.name, bytes: bytes,
                        isExternal: form == .external))
            }
        }
        for slot in slots
        where slot.attribute != nil && empty[slot.index] > 0
            && empty[slot.index] * 2 >= use.objects
        {
            self.empty.append(
                EmptyAttribute(
                    entity: entity.name, key: slot.name, empty: empty[slot.index],
                    objects: use.objects))
        }
    }

    private mutating func note(_ value: LargeValue) {
        let isFull = largest.count == Self.largestCount
        if value.bytes <= (isFull ? largest[largest.count - 1].bytes : 0) { return }
        if isFull { largest.removeLast() }
        let place = largest.firstIndex { $0.bytes < value.bytes } ?? largest.endIndex
        largest.insert(value, at: place)
    }

    /// Whether all values of a type have one size, and where others are.
    private enum Form { case fixed, inStore, external }

    private static func size(of value: AttributeValue) -> (Int64, Form) {
        switch value {
        case .null, .composite: (0, .fixed)
        case .string(let text): (Int64(text.utf8.count), .inStore)
        case .uri(let uri): (Int64(uri.absoluteString.utf8.count), .inStore)
        case .binary(let data): (Int64(data.count), .inStore)
        case .external(let data): (Int64(data.size), .external)
        case .uuid: (16, .fixed)
        case .integer, .double, .boolean, .decimal, .date, .objectID: (8, .fixed)
        }
    }
}

// MARK: - Printing

/// The space of a store's values as `stats` prints it.
struct StatisticsListing {
    /// A part of the output.
    enum Part: String, CaseIterable, ExpressibleByArgument {
        case entities, empty, largest
    }

    let statistics: StoreStatistics
    /// The part that is asked for; `nil` for all.
    let only: Part?

    func print(_ output: Output) throws {
        if let only { return try print(only, output) }
        switch output.format {
        case .table: try printAll(output)
        case .json: try output.print(json, levels: 2)
        case .csv, .tsv, .jsonl, .markdown: try print(.entities, output)
        }
    }

    // MARK: - Parts

    private func print(_ part: Part, _ output: Output) throws {
        switch part {
        case .entities: try printEntities(output)
        case .empty: try printEmpty(output)
        case .largest: try printLargest(output)
        }
    }

    private func printEntities(_ output: Output) throws {
        try output.printRows(
            of: statistics.entities,
            [
                ("entity", .left), ("objects", .right), ("bytes", .right), ("external", .right),
                ("database", .right),
            ], members: ["entity", "objects", "bytes", "external", "database"],
            ifEmpty: "No entities."
        ) {
            let database = $0.database.map { "\($0)" } ?? ""
            return (
                [$0.entity.name, "\($0.objects)", "\($0.bytes)", "\($0.external)", database],
                Self.json($0)
            )
        }
    }

    private func printEmpty(_ output: Output) throws {
        try output.printRows(
            of: statistics.empty,
            [("entity", .left), ("key", .left), ("empty", .right), ("objects", .right)],
            members: ["entity", "key", "empty", "objects"], ifEmpty: "No empty values."
        ) { ([$0.entity, $0.key, "\($0.empty)", "\($0.objects)"], Self.json($0)) }
    }

    private func printLargest(_ output: Output) throws {
        try output.printRows(
            of: statistics.largest,
            [("id", .left), ("key", .left), ("bytes", .right), ("", .left)],
            members: ["id", "entity", "key", "bytes", "external"], ifEmpty: "No values."
        ) {
            let place = $0.isExternal ? "external" : ""
            return ([$0.id.shortDescription, $0.key, "\($0.bytes)", place], Self.json($0))
        }
    }

    private func printAll(_ output: Output) throws {
        try printEntities(output)
        if !statistics.empty.isEmpty {
            try output.print("")
            try output.print("Empty in at least half of the objects", .bold)
            try printEmpty(output)
        }
        if !statistics.largest.isEmpty {
            try output.print("")
            try output.print("Largest values", .bold)
            try printLargest(output)
        }
        if let use = statistics.database {
            let parts = [
                (use.relationships, "in relationships"), (use.history, "in the history"),
                (use.other, "in other tables"), (use.free, "free"),
            ].filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
            try output.print("")
            try output.print(
                (["Database: \(use.database) bytes"] + parts).joined(separator: ", ") + ".")
        }
    }

    // MARK: - JSON

    private var json: JSONValue {
        .object([
            "entities": .array(statistics.entities.map(Self.json)),
            "empty": .array(statistics.empty.map(Self.json)),
            "largest": .array(statistics.largest.map(Self.json)),
            "database": statistics.database.map { use in
                .object([
                    "bytes": .integer(use.database), "free": .integer(use.free),
                    "relationships": .integer(use.relationships),
                    "history": .integer(use.history), "other": .integer(use.other),
                ])
            } ?? .null,
        ])
    }

    private static func json(_ use: StoreStatistics.EntityUse) -> JSONValue {
        .object([
            "entity": .string(use.entity.name), "objects": .integer(Int64(use.objects)),
            "bytes": .integer(use.bytes), "external": .integer(use.external),
            "database": use.database.map { .integer($0) } ?? .null,
        ])
    }

    private static func json(_ attribute: StoreStatistics.EmptyAttribute) -> JSONValue {
        .object([
            "entity": .string(attribute.entity), "key": .string(attribute.key),
            "empty": .integer(Int64(attribute.empty)),
            "objects": .integer(Int64(attribute.objects)),
        ])
    }

    private static func json(_ value: StoreStatistics.LargeValue) -> JSONValue {
        .object([
            "id": .string(value.id.uriRepresentation), "entity": .string(value.id.entityName),
            "key": .string(value.key), "bytes": .integer(value.bytes),
            "external": .boolean(value.isExternal),
        ])
    }
}

/// `quire compact PATH`
struct CompactCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compact",
        abstract: "Rebuilds the database of a document or a store at minimal size.",
        discussion: """
            Returns the space of deleted objects and values to the file system. The content does not \
            change. This temporarily needs up to twice the space of the compact database; if the disk is \
            full, the document does not change. XML and binary stores are always compact. To remove old \
            transactions and versions first, use quire history purge and quire versions prune. The next \
            version takes the space of the whole database, because its pages have moved. quire stats \
            shows what takes up space.

            EXAMPLES:
              quire compact Library.quire
              quire compact Recipes.sqlite --json
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @OptionGroup var options: DocumentOptions
    @OptionGroup var wait: WaitOption

    @MainActor
    func run() async throws {
        try options.unlock.unlock(path)
        let document = try await DocumentSession.open(
            path, modelPath: options.model, access: .write, waiting: wait)
        let storePath = document.store.path ?? path
        let before = try size(ofStoreAt: storePath)
        let isDatabase = try await document.closing {
            if let note = document.modelNote { Output.report(note) }
            guard let store = document.store as? SQLiteStore else { return false }
            try ProgressBar.showing("Compacting \(path)", of: .fraction) { _ in
                try store.compact()
            }
            return true
        }
        let after = try size(ofStoreAt: storePath)
        let line =
            !isDatabase
            ? "“\(path)” is always compact; only SQLite stores can be rebuilt."
            : after < before
                ? "Compacted \(path) from \(before) to \(after) bytes."
                : "“\(path)” was already compact: \(after) bytes."
        try options.printResult(levels: 0, [line]) {
            .object([
                "path": .string(path), "before": .integer(before), "after": .integer(after),
            ])
        }
    }

    /// The size of a store's file and its log.
    private func size(ofStoreAt path: String) throws -> Int64 {
        try ["", "-wal"].reduce(0) { size, suffix in
            try size + (FileSystem.information(at: path + suffix)?.size ?? 0)
        }
    }
}
