import Foundation
import Quire
import QuireSQLite
import QuireTestSupport
import Testing

@testable import QuireMigration

/// The history of a store that is migrated: never a wrong object, property or value.
@MainActor @Suite struct HistoryMigrationTests {
    private static let old = ManagedObjectModel {
        Entity("Draft") { Attribute("text", .string) }
        Entity("Note") {
            Attribute("colour", .string).preservedInHistoryOnDeletion()
            Attribute("title", .string).preservedInHistoryOnDeletion()
            Attribute("year", .integer16).preservedInHistoryOnDeletion()
        }
    }

    /// Entities and properties have other places: drafts are gone, there is an entity before notes, an attribute before the
    /// colour, which has another name, the title is not preserved any more, and years are texts.
    private static let new = ManagedObjectModel {
        Entity("Author") { Attribute("name", .string) }
        Entity("Note") {
            Attribute("body", .string).preservedInHistoryOnDeletion()
            Attribute("hue", .string).renamed(from: "colour").preservedInHistoryOnDeletion()
            Attribute("area", .string).preservedInHistoryOnDeletion()
            Attribute("title", .string)
            Attribute("year", .integer64).preservedInHistoryOnDeletion()
        }
    }

    private static func coordinator(
        at path: String, _ model: ManagedObjectModel, tracking: Bool = false
    ) throws -> PersistentStoreCoordinator {
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: model)
        var description = PersistentStoreDescription(path: path)
        description.tracksHistory = tracking
        try coordinator.addPersistentStore(description)
        return coordinator
    }

    /// A store with an insertion, an update and a deletion of notes.
    ///
    /// - Returns: The token before the update.
    private static func makeStore(at path: String) throws -> PersistentHistoryToken {
        let coordinator = try coordinator(at: path, old, tracking: true)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        try context.insertObject(entityName: "Draft")["text"] = "…"
        let note = try context.insertObject(entityName: "Note")
        note["colour"] = "red"
        note["title"] = "Emma"
        note["year"] = 1815
        try context.save()
        let token = try #require(try coordinator.currentPersistentHistoryToken())
        note["title"] = "Emma!"
        try context.save()
        context.delete(note)
        try context.save()
        try coordinator.close()
        return token
    }

    @Test(arguments: [SQLiteMigration.Method.automatic, .rowByRow])
    private func aMigrationInPlaceKeepsHistoryWithoutWrongNames(
        method: SQLiteMigration.Method
    ) throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        let token = try Self.makeStore(at: path)
        let manager = MigrationManager()
        manager.allowsRemoval = true
        try SQLiteMigration(
            path: path, sourceModel: nil, model: Self.new, manager: manager,
            options: SQLiteStoreOptions(), method: method
        ).run()

        let coordinator = try Self.coordinator(at: path, Self.new)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let all = try context.execute(.fetchHistory(after: nil)).transactions
        #expect(all.map(\.number) == [1, 2, 3])
        let changes = all.flatMap(\.changes)
        #expect(changes.map { "\($0.kind)" } == ["insert", "update", "delete"])
        #expect(changes.allSatisfy { $0.objectID.shortDescription == "Note/p1" })
        #expect(changes.allSatisfy { $0.updatedProperties == nil })
        let tombstone = try #require(changes.last?.tombstone)
        #expect(tombstone["hue"] as? String == "red")
        // The type has changed, and the other attributes are new or not preserved.
        #expect(Set(tombstone.keys).isSubset(of: ["hue", "year"]))
        #expect(tombstone["year"].map { "\($0)" } ?? "1815" == "1815")

        // The history goes on.
        #expect(
            try context.execute(.fetchHistory(after: token)).transactions.map(\.number) == [2, 3])
        let note = try context.insertObject(entityName: "Note")
        note["body"] = "…"
        try context.save()
        note["hue"] = "blue"
        try context.save()
        context.delete(note)
        try context.save()
        let later = try context.execute(.fetchHistory(after: all[2])).transactions
        #expect(later.map(\.number) == [4, 5, 6])
        #expect(later[1].changes[0].updatedProperties == ["hue"])
        #expect(later[2].changes[0].tombstone?["hue"] as? String == "blue")
        #expect(later[2].changes[0].tombstone?["body"] as? String == "…")
        try coordinator.close()
    }

    /// A copy with another model has another UUID, so that no token of the old store says anything about it.
    @Test(arguments: [true, false])
    func aCopyWithHistoryBeginsItsOwn(tracking: Bool) throws {
        let folder = try TemporaryFolder()
        let token = try Self.makeStore(at: folder.path("a.sqlite"))
        do {
            let coordinator = try Self.coordinator(at: folder.path("a.sqlite"), Self.old)
            let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
            for _ in 0..<3 { _ = try context.insertObject(entityName: "Note") }
            try context.save()
            try coordinator.close()
        }
        var options = SQLiteStoreOptions()
        options.tracksHistory = tracking
        let source = try SQLiteStore.open(at: folder.path("a.sqlite"))
        let destination = try SQLiteStore.create(
            at: folder.path("b.sqlite"), model: Self.new, options: options)
        let manager = MigrationManager()
        manager.allowsRemoval = true
        try manager.migrateStore(from: source, to: destination)
        try source.close()
        try destination.close()

        let coordinator = try Self.coordinator(at: folder.path("b.sqlite"), Self.new)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let history = try context.execute(.fetchHistory(after: nil)).transactions
        #expect(history.map(\.number) == [1])
        #expect(history.flatMap(\.changes).map(\.kind) == [.insert, .insert, .insert])
        #expect(
            Set(history.flatMap(\.changes).map(\.objectID))
                == Set(try context.fetch(FetchRequest("Note")).map(\.objectID)))
        let error = #expect(throws: QuireError.self) {
            try context.execute(.fetchHistory(after: token))
        }
        #expect(error?.code == .historyTokenExpired)
        try context.insertObject(entityName: "Note")["body"] = "…"
        try context.save()
        #expect(try context.execute(.fetchHistory(after: nil)).count == 2)
        try coordinator.close()
    }

    @Test func aCopyOfAStoreWithoutHistoryHasOneIfItsOptionsSaySo() throws {
        let folder = try TemporaryFolder()
        for tracking in [true, false] {
            var options = SQLiteStoreOptions()
            let source = try SQLiteStore.create(
                at: folder.path("a-\(tracking).sqlite"), model: Self.old, options: options)
            let context = ManagedObjectContext.mainQueue(
                coordinator: PersistentStoreCoordinator(store: source))
            try context.insertObject(entityName: "Note")["title"] = "Emma"
            try context.save()
            options.tracksHistory = tracking
            let destination = try SQLiteStore.create(
                at: folder.path("b-\(tracking).sqlite"), model: Self.old, options: options)
            try MigrationManager().migrateStore(from: source, to: destination)
            #expect(try destination.lastHistoryTransactionNumber() == (tracking ? 1 : nil))
            try source.close()
            try destination.close()
        }
    }

    /// Records of CloudKit name objects by the number of their entity, which a new entity before them changes.
    @Test func mirroringTablesAreRenumbered() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.sqlite")
        let old = ManagedObjectModel {
            Entity("Apple") { Attribute("name", .string) }
            Entity("Banana") { Attribute("name", .string) }
            Entity("Pear") { Attribute("name", .string) }
        }
        let new = ManagedObjectModel {
            Entity("Aardvark") { Attribute("name", .string) }
            Entity("Apple") { Attribute("name", .string) }
            Entity("Pear") { Attribute("name", .string) }
        }
        try SQLiteStore.create(at: path, model: old).close()
        let connection = try SQLiteConnection(path: path, mode: .writing)
        for sql in [
            "CREATE TABLE ANSCKRECORDMETADATA (Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZENTITYID INTEGER, "
                + "ZENTITYPK INTEGER, ZCKRECORDNAME VARCHAR)",
            "CREATE UNIQUE INDEX Z_NSCKRecordMetadata_UNIQUE_entityId_entityPK ON ANSCKRECORDMETADATA (ZENTITYID, ZENTITYPK)",
            "INSERT INTO ANSCKRECORDMETADATA VALUES (1, 16010, 1, 1, 7, 'apple'), (2, 16010, 1, 2, 7, 'banana'), "
                + "(3, 16010, 1, 3, 7, 'pear')",
        ] { try connection.execute(sql) }
        connection.close()
        let manager = MigrationManager()
        manager.allowsRemoval = true
        try SQLiteStore.migrate(at: path, to: new, manager: manager)
        let migrated = try SQLiteConnection(path: path, mode: .writing)
        defer { migrated.close() }
        let records = try migrated.withStatement(
            "SELECT ZENTITYID || '/' || ZENTITYPK || ' ' || ZCKRECORDNAME FROM ANSCKRECORDMETADATA ORDER BY 1"
        ) {
            var records: [String] = []
            while try $0.step() { records.append($0.text(0)) }
            return records
        }
        #expect(records == ["2/7 apple", "3/7 pear"])
    }
}
