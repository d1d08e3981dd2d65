import Foundation
import Quire
import Testing

/// Stores whose version of the model is not the program's: newer, unknown, read-only, in several files, or in use.
@MainActor @Suite struct OtherVersionSituationTests {
    private static func model(
        _ parts: EntityBuilder.Part...
    ) -> ManagedObjectModel {
        ManagedObjectModel {
            Entity("List") {
                Attribute("name", .string)
                ToMany("items", "Item", inverse: "list")
                parts
            }
            Entity("Item") {
                Attribute("name", .string)
                ToOne("list", "List", inverse: "items")
            }
        }
    }
    private static func part(_ attribute: Attribute) -> EntityBuilder.Part {
        EntityBuilder.buildExpression(attribute)[0]
    }

    // The user went back to an older version of the program, which does not know the model of the store.
    // JohnEstropia/CoreStore#434, magicalpanda/MagicalRecord#150, OpenEmu/OpenEmu#2896
    @Test(arguments: SituationStore.files)
    func anOlderProgramRefusesANewerStoreWithData(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            let newer = Self.model(Self.part(Attribute("color", .string)))
            try await program.run(newer) { context in
                try context.add("List", ["name": "new", "color": "red"])
                try context.save()
            }
            for migration in [nil, StoreMigrationOptions()] {
                let error = try await program.refused(Self.model(), migration: migration)
                #expect(error.message.contains("Situation"))
                #expect(error.message.contains(migration == nil ? "model" : "List.color"))
            }
            // Versions are given, and the store has none of them, and may not be changed.
            var options = StoreMigrationOptions()
            options.versions = ["1": Self.model()]
            options.infersMappingModel = false
            _ = try await program.refused(Self.model(), migration: options)
            options.infersMappingModel = true
            options.migratesAutomatically = false
            _ = try await program.refused(Self.model(), migration: options)
            try await program.run(newer, migration: nil) { context in
                let list = try context.one("List", "color == 'red'")
                #expect(list["name"] as? String == "new")
            }
        }
    }

    // The versions that the program knows are there to get from any of them to the newest. On the way through a version without
    // the attribute, objects got the new default instead of the old one.
    // JohnEstropia/CoreStore#384, magicalpanda/MagicalRecord#1224 “progressive migration”; Apple Developer Forums 804902
    @Test(arguments: SituationStore.files, [0, 7])
    func noValueIsLostOnTheWayThroughAVersionWithoutIt(_ store: SituationStore, size: Int)
        async throws
    {
        let second = Self.model(
            Self.part(Attribute("size", .integer32).required().default(0)))
        let third = Self.model(
            Self.part(Attribute("size", .integer16).required().default(1)))
        try await withMigration(store) { program in
            try await program.run(second) { context in
                try context.add("List", ["name": "a", "size": size])
                try context.save()
            }
            var options = StoreMigrationOptions()
            options.versions = ["1": Self.model(), "2": second, "3": third]
            let error = try await program.refused(third, migration: options)
            #expect(error.code == .removalDenied)
            #expect(error.message.contains("1 value of “List.size”"))
            options.allowsRemoval = true
            try await program.run(third, migration: options) { context in
                let list = try context.one("List", "name == 'a'")
                #expect(list["size"] as? Int == 1)
            }
        }
    }

    // A read-only store, such as one that comes with the program, is of the old version.
    // realm/realm-swift#3534 “Readonly database migration error/warning”; JohnEstropia/CoreStore#491
    @Test(arguments: SituationStore.files)
    func aReadOnlyStoreOfAnOldVersionSaysWhy(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            try await program.run(Self.model()) { context in
                try context.add("List", ["name": "old"])
                try context.save()
            }
            let newer = Self.model(Self.part(Attribute("color", .string).default("blue")))
            let error = try await program.refused(newer, configure: { $0.isReadOnly = true })
            #expect(error.code == .readOnly)
            #expect(error.message.contains("migrate"))
            // What does not concern the rows needs no migration.
            try await program.run(
                Self.model(
                    EntityBuilder.buildExpression(Index("byName", on: .ascending("name")))[0],
                    EntityBuilder.buildExpression(Unique("name"))[0]),
                configure: { $0.isReadOnly = true }
            ) { context in
                let list = try context.one("List", "name == 'old'")
                #expect(list["items"] as? Set<ManagedObject> == [])
            }
            // The file itself cannot be written.
            let manager = FileManager.default
            try manager.setAttributes([.posixPermissions: 0o444], ofItemAtPath: program.url.path)
            defer {
                try? manager.setAttributes(
                    [.posixPermissions: 0o644], ofItemAtPath: program.url.path)
            }
            if manager.isWritableFile(atPath: program.url.path) { return }
            _ = try await program.refused(newer)
        }
    }

    // One model in two stores, by configurations; each is migrated by itself, and one of them cannot be.
    // JohnEstropia/CoreStore#277; MIT-Mobile/MIT-Mobile-for-iOS#77; lionheart/openradar-mirror#14128
    @Test(arguments: SituationStore.files)
    func storesOfConfigurationsAreMigratedOneByOne(_ store: SituationStore) async throws {
        func model(_ user: Attribute, _ cache: Attribute) -> ManagedObjectModel {
            ManagedObjectModel {
                Entity("User") {
                    Attribute("name", .string)
                    user
                }
                Entity("Cached") {
                    Attribute("key", .string)
                    cache
                }
                ModelConfiguration("Local", entities: ["User"])
                ModelConfiguration("Cache", entities: ["Cached"])
            }
        }
        func container(
            _ model: ManagedObjectModel, _ folder: URL, allows: Bool = false
        ) throws -> PersistentContainer {
            let container = try PersistentContainer(name: "Two", managedObjectModel: model)
            container.persistentStoreDescriptions = ["Local", "Cache"].map {
                var description = PersistentStoreDescription(
                    url: folder.appendingPathComponent("\($0).store"))
                description.type = StoreType(rawValue: store.rawValue)
                description.configuration = $0
                description.migration = StoreMigrationOptions()
                description.migration?.allowsRemoval = allows
                return description
            }
            return container
        }
        let text = Attribute("text", .string)
        try await withProgramFolder { folder in
            for isNew in [true, false] {
                let first = try container(model(text, text), folder)
                try await first.loadPersistentStores()
                if isNew {
                    try first.viewContext.add("User", ["name": "Ada", "text": "t"])
                    try first.viewContext.add("Cached", ["key": "k", "text": "t"])
                    try first.viewContext.save()
                }
                #expect(try first.viewContext.count(for: FetchRequest("Cached")) == 1)
                try first.close()
            }

            let renamed = Attribute("label", .string).renamed(from: "text")
            let second = try container(model(renamed, renamed), folder)
            try await second.loadPersistentStores()
            let ada = try second.viewContext.one("User", "label == 't'")
            #expect(ada["name"] as? String == "Ada")
            let cached = try second.viewContext.one("Cached", "label == 't'")
            #expect(cached["key"] as? String == "k")
            try second.close()

            // The second store loses something and is refused; the first one is migrated, and stays usable.
            let third = model(
                Attribute("title", .string).renamed(from: "label"), Attribute("n", .integer16))
            let failing = try container(third, folder)
            let error = await #expect(throws: QuireError.self) {
                try await failing.loadPersistentStores()
            }
            #expect(error?.message.contains("Cached.label") == true)
            try failing.close()
            let again = try container(third, folder, allows: true)
            try await again.loadPersistentStores()
            let user = try again.viewContext.one("User", "title == 't'")
            #expect(user["name"] as? String == "Ada")
            let left = try again.viewContext.one("Cached", "key == 'k'")
            #expect(left["n"] == nil)
            try again.close()
        }
    }

    // A change of the other store's entities, which the open store does not have and which cannot be inferred, and a fetched
    // property that leads there.
    // JohnEstropia/CoreStore#491 “Read only store in app bundle”; lionheart/openradar-mirror#14128
    @Test(arguments: SituationStore.files)
    func entitiesOfAnotherStoreDoNotHinderAMigration(_ store: SituationStore) async throws {
        func model(_ type: AttributeType, _ extra: String) -> ManagedObjectModel {
            ManagedObjectModel {
                Entity("User") {
                    Attribute("name", .string)
                    Attribute(extra, .string)
                    FetchedProperty("cached", of: "Cached", where: "key == $FETCH_SOURCE.name")
                }
                Entity("Cached") { Attribute("key", type) }
                ModelConfiguration("Local", entities: ["User"])
                ModelConfiguration("Cache", entities: ["Cached"])
            }
        }
        try await withMigration(store) { program in
            let versions = [
                model(.string, "a"), model(.integer16, "a"), model(.integer16, "b"),
                model(.string, "b"),
            ]
            for (number, version) in versions.enumerated() {
                try await program.run(version, configure: { $0.configuration = "Local" }) {
                    context in
                    #expect(try context.count(for: FetchRequest("User")) == number)
                    try context.add("User", ["name": "Ada"])
                    try context.save()
                }
            }
        }
    }

    // Another process, or another container of the program, still has the store open in the old version.
    // home-assistant/iOS#4998 (an extension and its app share one database, which either migrates)
    @Test(arguments: SituationStore.files)
    func aContainerWithTheOldModelDoesNotWriteIntoTheMigratedStore(_ store: SituationStore)
        async throws
    {
        try await withMigration(store) { program in
            let old = try await store.container(Self.model(), in: program.folder)
            let list = try old.viewContext.add("List", ["name": "old"])
            try old.viewContext.save()
            list["name"] = "changed"
            let newer = Self.model(Self.part(Attribute("color", .string).default("blue")))
            do {
                try await program.run(newer) { context in
                    let found = try context.one("List", "color == 'blue'")
                    #expect(found["name"] as? String == "old")
                }
                #expect(throws: QuireError.self) { try old.viewContext.save() }
                try old.close()
                try await program.run(newer) { context in
                    let found = try context.one("List", "color == 'blue'")
                    #expect(found["name"] as? String == "old")
                }
            } catch let error as QuireError {
                // Refused as long as it is open.
                #expect(error.code == .locked || error.code == .storeUnavailable, "\(error)")
                try old.viewContext.save()
                try old.close()
                try await program.run(newer) { context in
                    let found = try context.one("List", "color == 'blue'")
                    #expect(found["name"] as? String == "changed")
                }
            }
        }
    }

    // The history of changes, and tokens that a widget or a synchronization kept, across a migration that renames.
    // nightscout/Trio#1247, quran/quran-ios#989
    @Test func historyAndTokensSurviveAMigration() async throws {
        try await withMigration(.sqlite) { program in
            var token: PersistentHistoryToken?
            try await program.run(Self.model(), configure: { $0.tracksHistory = true }) {
                context in
                try context.add("List", ["name": "first"])
                try context.save()
                let history = PersistentHistoryChangeRequest.fetchHistory(after: nil)
                token = try context.execute(history).transactions.last?.token
                let list = try context.one("List", "name == 'first'")
                list["name"] = "second"
                try context.save()
            }
            let renamed = ManagedObjectModel {
                Entity("Folder") {
                    Attribute("title", .string).renamed(from: "name")
                    ToMany("items", "Item", inverse: "folder")
                }.renamed(from: "List")
                Entity("Item") {
                    Attribute("name", .string)
                    ToOne("folder", "Folder", inverse: "items").renamed(from: "list")
                }
            }
            try await program.run(renamed, configure: { $0.tracksHistory = true }) { context in
                let folder = try context.one("Folder", "title == 'second'")
                folder["title"] = "third"
                try context.save()
                let request = PersistentHistoryChangeRequest.fetchHistory(after: token)
                let changes = try context.execute(request).transactions.flatMap(\.changes)
                #expect(changes.map(\.objectID.entityName) == ["Folder", "Folder"])
                #expect(changes.last?.updatedProperties?.contains("title") == true)
            }
        }
    }
}
