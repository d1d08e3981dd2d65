import Foundation
import Glibc
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireMigration

/// What happens when a migration does not come to its end.
@Suite struct InPlaceTests {
    /// A library whose books get a publisher, whose tags become words, and whose covers are kept in the rows.
    static func newModel(rowByRow: Bool = false) -> ManagedObjectModel {
        var model = FixtureModels.library
        for index in model.entities.indices {
            switch model.entities[index].name {
            case "Book":
                var publisher = AttributeDescription(name: "publisher", type: .string)
                publisher.isOptional = false
                publisher.defaultValue = "unknown"
                model.entities[index].properties.append(.attribute(publisher))
            case "Cover" where rowByRow:
                var image = AttributeDescription(name: "image", type: .binary)
                image.allowsExternalBinaryDataStorage = false
                model.entities[index].properties[0] = .attribute(image)
            case "Tag":
                model.entities[index].properties[0] = .attribute(
                    {
                        var word = AttributeDescription(name: "word", type: .string)
                        word.renamingIdentifier = "name"
                        return word
                    }())
                model.entities[index].uniquenessConstraints = [["word"]]
            default: break
            }
        }
        return model
    }

    /// A library at rest, and what it holds.
    @MainActor static func library(books: Int = 40) throws -> (TestStack, [String]) {
        let stack = try TestStack()
        try stack.fill(books: books)
        let context = stack.mainContext()
        let shelf = try context.insertObject(entityName: "Shelf")
        let cover = try context.insertObject(entityName: "Cover")
        cover["image"] = Data(repeating: 7, count: 150_000)
        for book in try context.fetch(FetchRequest("Book")).prefix(5).reversed() {
            shelf.add(book, to: "books")
        }
        try context.save()
        let lines = try StoreDump.lines(of: stack.coordinator.store)
        try stack.coordinator.close()
        return (stack, lines)
    }

    static func lines(
        at path: String, _ model: ManagedObjectModel? = nil, mayHaveRubbish: Bool = false
    ) throws -> [String] {
        let store = try SQLiteStore.open(at: path, model: model)
        defer { try? store.close() }
        #expect(try store.integrityProblems().isEmpty)
        if !mayHaveRubbish { #expect(try store.unreferencedExternalFiles().isEmpty) }
        for file in try store.externalFiles() {
            #expect(FileManager.default.fileExists(atPath: file.path))
        }
        return try StoreDump.lines(of: store)
    }

    private struct Failed: Error {}

    @Test(
        arguments: SQLiteMigration.Checkpoint.allCases.filter { $0 != .committed }, [false, true])
    @MainActor func aMigrationThatFailsLeavesTheStoreAsItWas(
        point: SQLiteMigration.Checkpoint, rowByRow: Bool
    ) throws {
        let (stack, before) = try Self.library()
        let file = try Data(contentsOf: URL(fileURLWithPath: stack.path))
        var migration = SQLiteMigration(
            path: stack.path, sourceModel: nil, model: Self.newModel(rowByRow: rowByRow),
            manager: MigrationManager(), options: SQLiteStoreOptions())
        migration.method = rowByRow ? .rowByRow : .automatic
        migration.checkpoint = { if $0 == point { throw Failed() } }
        #expect(throws: Failed.self) { try migration.run() }
        #expect(try Self.lines(at: stack.path, FixtureModels.library) == before)
        #expect(try Data(contentsOf: URL(fileURLWithPath: stack.path)) == file)
        // It can be tried again.
        migration.checkpoint = { _ in }
        try migration.run()
        #expect(try Self.lines(at: stack.path).count == before.count)
    }

    @Test(arguments: SQLiteMigration.Checkpoint.allCases, [false, true])
    @MainActor func aKilledMigrationLeavesTheOldStoreOrTheNewOne(
        point: SQLiteMigration.Checkpoint, rowByRow: Bool
    ) async throws {
        let (stack, before) = try Self.library()
        let (path, name) = (stack.path, "\(point)")
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [path = path as String, name = name as String, rowByRow = rowByRow as Bool] in
            var migration = SQLiteMigration(
                path: path, sourceModel: nil, model: InPlaceTests.newModel(rowByRow: rowByRow),
                manager: MigrationManager(), options: SQLiteStoreOptions())
            migration.method = rowByRow ? .rowByRow : .automatic
            migration.checkpoint = { if "\($0)" == name { kill(getpid(), SIGKILL) } }
            try migration.run()
        }
        if point == .committed {
            // Files that nothing refers to any more go last, or when the store is next closed.
            let lines = try Self.lines(
                at: path, Self.newModel(rowByRow: rowByRow), mayHaveRubbish: true)
            #expect(lines.count == before.count && lines.contains { $0.contains("publisher=") })
        } else {
            #expect(try Self.lines(at: path, FixtureModels.library) == before)
        }
    }

    @Test @MainActor func aMigrationKilledAnywhereLeavesTheOldStoreOrTheNewOne() async throws {
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        let rounds = RandomMigrationTests.isTorture ? 100 : 4
        var kills = 0
        for round in 0..<rounds {
            let rowByRow = round % 2 == 0
            let (stack, before) = try Self.library(books: 300)
            let path = stack.path
            let delay = UInt32.random(in: 1...60_000, using: &random)
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = path as String, delay = delay as UInt32, rowByRow = rowByRow as Bool] in
                var migration = SQLiteMigration(
                    path: path, sourceModel: nil, model: InPlaceTests.newModel(rowByRow: rowByRow),
                    manager: MigrationManager(), options: SQLiteStoreOptions())
                migration.method = rowByRow ? .rowByRow : .automatic
                let thread = Thread {
                    usleep(delay)
                    kill(getpid(), SIGKILL)
                }
                thread.start()
                try migration.run()
                while true { sleep(1) }
            }
            let model = Self.newModel(rowByRow: rowByRow)
            let isNew = try SQLiteStore.isStore(at: path, compatibleWith: model)
            if isNew {
                #expect(
                    try Self.lines(at: path, model, mayHaveRubbish: true).count == before.count)
            } else {
                kills += 1
                #expect(
                    try Self.lines(at: path, FixtureModels.library, mayHaveRubbish: true) == before)
            }
        }
        print("\(kills) of \(rounds) migrations were killed before they were done")
    }

    @Test @MainActor func aCancelledMigrationLeavesTheStoreAsItWas() throws {
        for method in [SQLiteMigration.Method.automatic, .rowByRow] {
            let (stack, before) = try Self.library()
            let manager = MigrationManager()
            var migration = SQLiteMigration(
                path: stack.path, sourceModel: nil, model: Self.newModel(), manager: manager,
                options: SQLiteStoreOptions())
            migration.method = method
            migration.checkpoint = { if $0 == .tablesMade { manager.progress.cancel() } }
            let error = #expect(throws: QuireError.self) { try migration.run() }
            #expect(error?.code == .cancelled)
            #expect(try Self.lines(at: stack.path) == before)
        }
    }

    @Test @MainActor func externalDataIsCarriedOverOrTakenIn() throws {
        let (stack, _) = try Self.library()
        try SQLiteStore.migrate(at: stack.path, to: Self.newModel())
        var store = try SQLiteStore.open(at: stack.path)
        let files = try store.externalFiles()
        #expect(files.count == 1 && files[0].size == 150_000)
        try store.close()
        try SQLiteStore.migrate(at: stack.path, to: Self.newModel(rowByRow: true))
        store = try SQLiteStore.open(at: stack.path)
        #expect(try store.externalFiles().isEmpty)
        #expect(!FileManager.default.fileExists(atPath: files[0].path))
        let cover = try #require(try store.rows(matching: FetchSpecification("Cover")).first)
        #expect(
            try cover.value(at: 0) == .binary(Data(repeating: 7, count: 150_000)))
        try store.close()
        try SQLiteStore.migrate(at: stack.path, to: FixtureModels.library)
        store = try SQLiteStore.open(at: stack.path)
        #expect(try store.externalFiles().map(\.size) == [150_000])
        try store.close()
    }

    @Test @MainActor func addingAnAttributeRewritesNoTable() throws {
        let (stack, _) = try Self.library()
        var model = FixtureModels.library
        for index in model.entities.indices where model.entities[index].name == "Book" {
            model.entities[index].properties.append(
                .attribute(AttributeDescription(name: "subtitle", type: .string)))
        }
        var plan = try TransferPlan(
            .inferred(from: FixtureModels.library, to: model), from: FixtureModels.library.layout(),
            to: model.layout())
        try plan.assignKeys { _ in 9 }
        let work = try #require(
            try SQLMigration(
                plan: plan, old: SQLSchema(fresh: FixtureModels.library.layout()),
                new: SQLSchema(fresh: model.layout())
            ).work())
        #expect(work.tables.allSatisfy { $0.alteration != nil })
        #expect(
            work.tables.filter { $0.alteration?.isEmpty == false }.map(\.table.name) == ["ZBOOK"])
        #expect(work.joins.allSatisfy { $0.kept != nil })
        try SQLiteStore.migrate(at: stack.path, to: model)
        #expect(try Self.lines(at: stack.path).contains { $0.contains("subtitle=null") })
    }

    @Test @MainActor func aStoreWithoutLogMigratesRowByRow() throws {
        let folder = try TemporaryFolder()
        var options = SQLiteStoreOptions()
        options.journal = .rollback
        let path = folder.path("store.sqlite")
        let store = try SQLiteStore.create(
            at: path, model: FixtureModels.library, options: options)
        let ids = try store.reserveObjectIDs(
            for: store.layout.requireEntity(named: "Cover"), count: 1, durably: false)
        var changes = ChangeSet()
        changes.inserted = [
            ObjectChange(
                objectID: ids[0], entity: try store.layout.requireEntity(named: "Cover"),
                version: 0,
                values: [.binary(Data(repeating: 1, count: 120_000)), .null],
                changedSlots: SlotMask(first: 2))
        ]
        try store.save(changes)
        try store.close()
        try SQLiteStore.migrate(at: path, to: Self.newModel(rowByRow: true), options: options)
        #expect(try Self.lines(at: path).count == 1)
    }

    @Test @MainActor func readOnlyStoresRefuse() throws {
        let (stack, before) = try Self.library()
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        for run in [
            {
                try SQLiteStore.migrate(at: stack.path, to: Self.newModel(), options: options)
            },
            {
                _ = try SQLiteStore.open(
                    at: stack.path, model: Self.newModel(), options: options,
                    migrating: StoreMigrationOptions())
            },
        ] {
            let error = #expect(throws: QuireError.self) { try run() }
            #expect(error?.code == .readOnly)
        }
        #expect(try Self.lines(at: stack.path) == before)
    }

    @Test @MainActor func openingMigratesIfItMay() throws {
        let (stack, before) = try Self.library()
        var options = StoreMigrationOptions()
        options.migratesAutomatically = false
        let error = #expect(throws: QuireError.self) {
            _ = try SQLiteStore.open(at: stack.path, model: Self.newModel(), migrating: options)
        }
        #expect(error?.code == .incompatibleModel)
        #expect(try Self.lines(at: stack.path) == before)
        options.migratesAutomatically = true
        let store = try SQLiteStore.open(
            at: stack.path, model: Self.newModel(), migrating: options)
        #expect(try store.count(matching: FetchSpecification("Book")) == 40)
        try store.close()
        #expect(try SQLiteStore.isStore(at: stack.path, compatibleWith: Self.newModel()))
        #expect(try !SQLiteStore.isStore(at: stack.path, compatibleWith: FixtureModels.library))
    }

    // MARK: - Others

    @Test @MainActor func aStoreThatIsOpenIsNotMigrated() throws {
        let stack = try TestStack()
        let error = #expect(throws: QuireError.self) {
            try SQLiteStore.migrate(at: stack.path, to: Self.newModel())
        }
        #expect(error?.code == .locked)
        #expect(try stack.coordinator.store.count(matching: FetchSpecification("Book")) == 0)
    }

    @Test func onlyAFileIsMigrated() throws {
        let folder = try TemporaryFolder()
        for (path, code) in [
            (folder.path, QuireError.Code.invalidFormat), (folder.path("none"), .notFound),
        ] {
            var error = #expect(throws: QuireError.self) {
                try SQLiteStore.migrate(at: path, to: Self.newModel())
            }
            #expect(error?.code == code)
            error = #expect(throws: QuireError.self) {
                _ = try SQLiteStore.isStore(at: path, compatibleWith: Self.newModel())
            }
            #expect(error?.code == code)
            #expect(error?.subject.file == path)
        }
    }

    @Test @MainActor func whatAnotherProcessHasMigratedIsNotWrittenByTheOldModel() throws {
        let stack = try TestStack()
        try stack.fill(books: 3)
        let context = stack.mainContext()
        let book = try #require(try context.fetch(FetchRequest("Book")).first)
        // What a migration to this model would leave in the books.
        let other = try SQLiteStore.create(
            at: stack.folder.path("new.sqlite"), model: Self.newModel())
        let plist = try other.metadata().propertyList.map { String(format: "%02x", $0) }.joined()
        try other.close()
        let shell = Process()
        shell.executableURL = URL(fileURLWithPath: "/usr/bin/sqlite3")
        shell.arguments = [
            stack.path,
            "ALTER TABLE ZBOOK ADD COLUMN ZPUBLISHER VARCHAR; UPDATE Z_METADATA SET Z_PLIST = x'\(plist)'",
        ]
        try shell.run()
        shell.waitUntilExit()
        #expect(shell.terminationStatus == 0)
        book["title"] = "changed"
        let saved = #expect(throws: QuireError.self) { try context.save() }
        #expect(saved?.code == .incompatibleModel)
        #expect(context.hasChanges)
        var request = BatchUpdateRequest(entityName: "Book")
        request.propertiesToUpdate = ["title": "changed"]
        let batch = #expect(throws: QuireError.self) { try context.execute(request) }
        #expect(batch?.code == .incompatibleModel)
        #expect(
            !(try stack.stored("Book", "title").contains("\(AttributeValue.string("changed"))")))
    }
}
