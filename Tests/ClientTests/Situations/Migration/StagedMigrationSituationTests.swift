import Foundation
import Quire
import Synchronization
import Testing

/// Migrations in stages, with code of the program before and after them.
@MainActor @Suite struct StagedMigrationSituationTests {
    private static func model(_ attributes: Attribute...) -> ManagedObjectModel {
        let parts = attributes.flatMap { EntityBuilder.buildExpression($0) }
        return ManagedObjectModel {
            Entity("Note") {
                Attribute("key", .string)
                parts
            }
        }
    }
    private static let first = model(Attribute("text", .string))
    private static let second = model(Attribute("text", .string), Attribute("size", .integer16))
    private static let third = model(
        Attribute("text", .string), Attribute("size", .integer16), Attribute("mark", .string))
    private static let fourth = model(Attribute("text", .integer64))

    private struct Failure: Error {}

    private nonisolated static func fill(_ key: String, _ expression: String)
        -> MigrationStage.Handler
    {
        { store in
            var update = BatchUpdateRequest(entityName: "Note")
            update.propertiesToUpdate[key] = try QueryExpression(format: expression)
            _ = try store.update(update)
        }
    }

    private func makeFirst(_ program: MigratedProgram) async throws {
        try await program.run(Self.first) { context in
            for key in ["a", "b"] { try context.add("Note", ["key": key, "text": "text \(key)"]) }
            try context.save()
        }
    }

    // The code after a stage failed, or the program was ended during it; at the next start the store already had the new
    // version, and the code did not run again.
    // Apple Developer Forums 734693 “Has anyone successfully used NSStagedMigrationManager?”
    @Test func theCodeAfterAStageRunsAgainEvenIfAnotherStageBeginsThere() async throws {
        try await withMigration(.sqlite) { program in
            try await makeFirst(program)
            let calls = Mutex<[String]>([])
            let fails = Mutex(true)
            let staged = StagedMigration([
                .custom(
                    "sizes", from: Self.first, to: Self.second,
                    didMigrate: { store in
                        calls.withLock { $0.append("sizes") }
                        if fails.withLock({ $0 }) { throw Failure() }
                        try Self.fill("size", "5")(store)
                    }),
                .custom(
                    "marks", from: Self.second, to: Self.third,
                    willMigrate: { _ in calls.withLock { $0.append("before marks") } },
                    didMigrate: { store in
                        calls.withLock { $0.append("marks") }
                        try Self.fill("mark", "text")(store)
                    }),
            ])
            for _ in 0..<2 {
                #expect(throws: Failure.self) { try staged.migrateStore(at: program.url.path) }
            }
            fails.withLock { $0 = false }
            try staged.migrateStore(at: program.url.path)
            #expect(
                calls.withLock { $0 } == ["sizes", "sizes", "sizes", "before marks", "marks"])
            try staged.migrateStore(at: program.url.path)
            #expect(calls.withLock { $0.count } == 5)
            try await program.run(Self.third, migration: nil) { context in
                let note = try context.one("Note", "key == 'a'")
                #expect(note["size"] as? Int == 5)
                #expect(note["mark"] as? String == "text a")
            }
        }
    }

    // As above, with lightweight stages before and after.
    @Test func theCodeAfterAStageRunsAgainBetweenLightweightStages() async throws {
        try await withMigration(.sqlite) { program in
            try await makeFirst(program)
            let calls = Mutex(0)
            let staged = StagedMigration([
                .lightweight(through: [Self.first]),
                .custom(
                    from: Self.first, to: Self.second,
                    didMigrate: { store in
                        if calls.withLock({
                            $0 += 1; return $0 == 1
                        }) {
                            throw Failure()
                        }
                        try Self.fill("size", "5")(store)
                    }),
                .lightweight(through: [Self.second, Self.third]),
            ])
            #expect(throws: Failure.self) { try staged.migrateStore(at: program.url.path) }
            try staged.migrateStore(at: program.url.path)
            #expect(calls.withLock { $0 } == 2)
            try await program.run(Self.third, migration: nil) { context in
                let note = try context.one("Note", "key == 'b'")
                #expect(note["size"] as? Int == 5)
            }
        }
    }

    // Two versions with the same hash: a stage whose code prepares objects for stricter rules or unique values never ran.
    // Apple Developer Forums 734693 (“Duplicate version checksums across stages detected”); Hacking with Swift “How to create a
    // complex migration using VersionedSchema”
    @Test func aStageBetweenVersionsWithoutDifferenceIsAnErrorAndNotIgnored() async throws {
        let loose = Self.model(Attribute("text", .string))
        let strict = Self.model(Attribute("text", .string).length(atMost: 3))
        let marked = Self.model(
            Attribute("text", .string).length(atMost: 3).versionHashModifier("short"))
        try await withMigration(.sqlite) { program in
            try await makeFirst(program)
            let calls = Mutex(0)
            let shorten: MigrationStage.Handler = { store in
                calls.withLock { $0 += 1 }
                try Self.fill("text", "key")(store)
            }
            let unclear = StagedMigration([
                .custom("shorten", from: loose, to: strict, willMigrate: shorten)
            ])
            let error = #expect(throws: QuireError.self) {
                try unclear.migrateStore(at: program.url.path)
            }
            #expect(error?.message.contains("shorten") == true)
            let clear = StagedMigration([
                .custom("shorten", from: loose, to: marked, willMigrate: shorten)
            ])
            try clear.migrateStore(at: program.url.path)
            try clear.migrateStore(at: program.url.path)
            #expect(calls.withLock { $0 } == 1)
            try await program.run(marked, migration: nil) { context in
                let note = try context.one("Note", "text == 'a'")
                note["key"] = "c"
                try context.save()
            }
        }
    }

    // Only lightweight stages, and the way from the first to the last version cannot be inferred in one step.
    // Apple Developer Forums 804902 “NSStagedMigrationManager shortcomings”
    @Test func lightweightStagesGoThroughEveryVersion() async throws {
        let without = Self.model()
        for stages: [MigrationStage] in [
            [.lightweight(through: [Self.first, without, Self.fourth], allowsRemoval: true)],
            [
                .lightweight(through: [Self.first]),
                .lightweight(through: [without], allowsRemoval: true),
                .lightweight(through: [Self.fourth]),
            ],
            [
                .custom(from: Self.first, to: without, allowsRemoval: true),
                .lightweight(through: [Self.fourth]),
            ],
        ] {
            try await withMigration(.sqlite) { program in
                try await makeFirst(program)
                _ = try await program.refused(Self.fourth)
                try StagedMigration(stages).migrateStore(at: program.url.path)
                try await program.run(Self.fourth, migration: nil) { context in
                    let notes = try context.sorted("Note", by: "key")
                    #expect(notes.map { $0["key"] as? String } == ["a", "b"])
                    #expect(notes.allSatisfy { $0["text"] == nil })
                }
            }
        }
    }

    // A store of a version that is none of the stages' (a newer program's), or that is no SQLite store.
    // JohnEstropia/CoreStore#434 “model versions rollback”
    @Test func aStoreOfANewerVersionIsLeftAlone() async throws {
        let newer = Self.model(
            Attribute("text", .string), Attribute("size", .integer16), Attribute("new", .string))
        try await withMigration(.sqlite) { program in
            try await program.run(newer) { context in
                try context.add("Note", ["key": "a", "new": "newer"])
                try context.save()
            }
            let before = try program.contents()
            let staged = StagedMigration([
                .custom(
                    from: Self.first, to: Self.second,
                    willMigrate: { _ in Issue.record("called") },
                    didMigrate: { _ in Issue.record("called") })
            ])
            #expect(throws: QuireError.self) { try staged.migrateStore(at: program.url.path) }
            #expect(try program.contents() == before)
        }
        try await withMigration(.xml) { program in
            try await makeFirst(program)
            let before = try program.contents()
            let error = #expect(throws: QuireError.self) {
                try StagedMigration([.lightweight(through: [Self.first, Self.second])])
                    .migrateStore(at: program.url.path)
            }
            #expect(error?.message.contains("SQLite") == true)
            #expect(try program.contents() == before)
        }
    }

    // The code before a stage changed some objects and then threw: what it saved stays, in the old version.
    // Apple documentation, NSCustomMigrationStage
    @Test func codeBeforeAStageThatThrowsLeavesTheOldVersionUsable() async throws {
        try await withMigration(.sqlite) { program in
            try await makeFirst(program)
            let staged = StagedMigration([
                .custom(
                    from: Self.first, to: Self.second,
                    willMigrate: { store in
                        try Self.fill("text", "'changed'")(store)
                        throw Failure()
                    })
            ])
            for _ in 0..<2 {
                #expect(throws: Failure.self) { try staged.migrateStore(at: program.url.path) }
            }
            try await program.run(Self.first, migration: nil) { context in
                let notes = try context.sorted("Note", by: "key")
                #expect(notes.map { $0["text"] as? String } == ["changed", "changed"])
                notes[0]["text"] = "again"
                try context.save()
            }
        }
    }
}
