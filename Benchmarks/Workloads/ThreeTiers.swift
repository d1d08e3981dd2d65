import CSQLite
import Foundation
import GRDB
import Quire
import QuireSQLite

/// One object at the top, a thousand below it, and a thousand below each of these, saved and forgotten by the thousand. Matt
/// Gallagher published this test of Core Data in 2008; it took 259 s and 20 MB.
struct ThreeTiers {
    static let name = "three-tiers"
    private static let width = 1_000

    var engine: EngineKind
    var path: String

    init(engine: EngineKind, path: String) {
        self.engine = engine
        self.path = path
    }

    init?(arguments: [String]) {
        guard arguments.count == 2, let engine = EngineKind(rawValue: arguments[0]) else {
            return nil
        }
        self.init(engine: engine, path: arguments[1])
    }

    /// Does the work in this process, and prints the seconds and the peak in kilobytes.
    func run() throws {
        let stopwatch = Stopwatch()
        stopwatch.start()
        switch engine {
        case .plain: try insertPlainly()
        case .grdb: try insertRecords()
        case .quire: try insertObjects()
        }
        stopwatch.stop()
        print((stopwatch.median ?? 0) / 1_000, try OwnProcess.peakKilobytes())
    }

    private static func name(_ number: Int) -> String { "Object \(number)" }

    private static let schema = """
        CREATE TABLE top (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE middle (id INTEGER PRIMARY KEY, name TEXT, top_id INTEGER);
        CREATE TABLE bottom (id INTEGER PRIMARY KEY, name TEXT, middle_id INTEGER);
        CREATE INDEX middle_top ON middle (top_id);
        CREATE INDEX bottom_middle ON bottom (middle_id);
        INSERT INTO top VALUES (1, 'Top');
        """

    private func insertPlainly() throws {
        let engine = try PlainEngine.create(at: path, schema: Self.schema)
        let middle = try engine.statement("INSERT INTO middle (top_id, name) VALUES (?, ?)")
        let bottom = try engine.statement("INSERT INTO bottom (middle_id, name) VALUES (?, ?)")
        for number in 0..<Self.width {
            try engine.execute("BEGIN IMMEDIATE")
            sqlite3_bind_int64(middle, 1, 1)
            try engine.insert(name: Self.name(number), with: middle)
            let id = engine.lastInsertedID
            for lower in 0..<Self.width {
                sqlite3_bind_int64(bottom, 1, id)
                try engine.insert(name: Self.name(lower), with: bottom)
            }
            try engine.execute("COMMIT")
        }
        try engine.close()
    }

    private struct Middle: MutablePersistableRecord {
        static let databaseTableName = "middle"
        var id: Int64?
        var name: String

        func encode(to container: inout PersistenceContainer) {
            container["id"] = id
            container["name"] = name
            container["top_id"] = 1
        }

        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    private struct Bottom: PersistableRecord {
        static let databaseTableName = "bottom"
        var name: String
        var middle: Int64?

        func encode(to container: inout PersistenceContainer) {
            container["name"] = name
            container["middle_id"] = middle
        }
    }

    private func insertRecords() throws {
        let engine = try GRDBEngine.create(at: path, schema: Self.schema)
        for number in 0..<Self.width {
            try engine.writer.write { database in
                var middle = Middle(id: nil, name: Self.name(number))
                try middle.insert(database)
                for lower in 0..<Self.width {
                    try Bottom(name: Self.name(lower), middle: middle.id).insert(database)
                }
            }
        }
        try engine.close()
    }

    private static let model = ManagedObjectModel {
        Entity("Top") {
            Attribute("name", .string)
            ToMany("below", "Middle", inverse: "above")
        }
        Entity("Middle") {
            Attribute("name", .string)
            ToOne("above", "Top", inverse: "below")
            ToMany("below", "Bottom", inverse: "above")
        }
        Entity("Bottom") {
            Attribute("name", .string)
            ToOne("above", "Middle", inverse: "below")
        }
    }

    private func insertObjects() throws {
        let store = try SQLiteStore.create(at: path, model: Self.model)
        let coordinator = PersistentStoreCoordinator(store: store)
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            let first = try context.insertObject(entityName: "Top")
            first["name"] = "Top"
            try context.save()
            let topID = first.objectID
            for number in 0..<Self.width {
                let middle = try context.insertObject(entityName: "Middle")
                middle["name"] = Self.name(number)
                middle["above"] = context.object(with: topID)
                for lower in 0..<Self.width {
                    let bottom = try context.insertObject(entityName: "Bottom")
                    bottom["name"] = Self.name(lower)
                    bottom["above"] = middle
                }
                try context.save()
                context.reset()
            }
        }
        try coordinator.close()
    }
}

extension Run {
    func measureThreeTiers(progress: (String) -> Void) throws -> [Comparison] {
        var seconds: [EngineKind: Double] = [:]
        var megabytes: [EngineKind: Double] = [:]
        for kind in options.engines {
            progress("three tiers, \(kind.title)")
            let path = "\(folder)/tiers-\(kind.rawValue).sqlite"
            defer { Self.removeDocument(at: path) }
            let output = try OwnProcess.run(ThreeTiers.name, [kind.rawValue, path])
            let figures = output.split(whereSeparator: \.isWhitespace).compactMap { Double($0) }
            guard figures.count == 2 else {
                throw BenchmarkFailure("The process that makes three tiers said “\(output)”.")
            }
            seconds[kind] = figures[0]
            megabytes[kind] = figures[1] / 1_024
        }
        return [
            Comparison(
                "M1", "three tiers of 1, 1,000 and 1,000,000 objects", unit: "s",
                quire: seconds[.quire], others: Comparison.others(seconds), most: 10),
            Comparison(
                "M2", "the same, peak memory", unit: "MB", quire: megabytes[.quire],
                others: Comparison.others(megabytes), most: 60),
        ]
    }
}
