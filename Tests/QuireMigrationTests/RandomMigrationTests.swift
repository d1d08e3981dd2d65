import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireMigration

/// Random models, random objects, random changes of the models: in place by SQL, in place row by row, and by copy the
/// result is the same.
@Suite struct RandomMigrationTests {
    static let isTorture = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"
    static let rounds = isTorture ? 400 : 36

    @Test @MainActor func allWaysOfMigratingGiveTheSame() throws {
        var counts = (sql: 0, rows: 0, failed: 0, edits: 0)
        // As many more as it takes for both ways to be gone.
        for round in 0..<Self.rounds * 10
        where round < Self.rounds || counts.sql == 0 || counts.rows == 0 {
            let seed = SeededRandom.baseSeed &* 1_000_003 &+ UInt64(round)
            try self.round(seed, &counts)
        }
        print(
            "migrated \(counts.sql) by SQL, \(counts.rows) by rows, \(counts.failed) refused, \(counts.edits) edits"
        )
        #expect(counts.edits > Self.rounds * 3)
        #expect(counts.sql > 0 && counts.rows > 0)
    }

    @Test func randomModelsSurviveAsText() throws {
        for round in 0..<Self.rounds {
            var maker = RandomModel(seed: SeededRandom.baseSeed &+ UInt64(round))
            for _ in 0..<20 { maker.edit() }
            let text = maker.model.modelText()
            #expect(
                try ManagedObjectModel(modelText: Data(text.utf8), name: "text") == maker.model,
                "seed \(SeededRandom.baseSeed &+ UInt64(round))")
        }
    }

    @MainActor private func round(
        _ seed: UInt64, _ counts: inout (sql: Int, rows: Int, failed: Int, edits: Int)
    ) throws {
        var maker = RandomModel(seed: seed)
        let stack = try TestStack(maker.model)
        try Self.fill(stack, &maker)
        let before = try StoreDump.lines(of: stack.coordinator.store)
        let numbers = try Self.counts(of: stack.coordinator.store)
        // Deleting objects leaves references in relationships without inverse.
        let filled = try #require(stack.coordinator.store as? SQLiteStore)
        let wasWhole = try StoreCheck.run(filled).problems.isEmpty
        try stack.coordinator.close()
        let oldModel = maker.model
        maker.beginVersion()
        // A third of the changes are small, and half of these are of a hierarchy alone: tables can stay then.
        let wanted = seed % 3 == 0 ? 1 : 6
        if seed % 6 == 0 { maker.editHierarchy() }
        for _ in 0..<40 where maker.edits.count < wanted { maker.edit() }
        counts.edits += maker.edits.count
        let comment: Comment = "seed \(seed): \(maker.edits.joined(separator: "; "))"

        // By copy.
        let old = try SQLiteStore.open(at: stack.path)
        let copyPath = stack.folder.path("copy.sqlite")
        let copy = try SQLiteStore.create(at: copyPath, model: maker.model)
        var failure: QuireError?
        do { try Self.manager().migrateStore(from: old, to: copy) } catch let error
            as QuireError
        {
            failure = error
        }
        try old.close()
        let expected = try StoreDump.lines(of: copy)
        let schema = try Self.schema(copy)
        try copy.close()

        let wantedNumbers = try Self.counts(numbers, after: oldModel, maker.model)
        for method in [SQLiteMigration.Method.automatic, .rowByRow] {
            let path = stack.folder.path("\(method).sqlite")
            let opened = try SQLiteStore.open(at: stack.path)
            try opened.writeCopy(to: path)
            try opened.close()
            var migration = SQLiteMigration(
                path: path, sourceModel: nil, model: maker.model, manager: Self.manager(),
                options: SQLiteStoreOptions())
            migration.method = method
            if let failure {
                let error = #expect(throws: QuireError.self, comment) { try migration.run() }
                #expect(error?.code == failure.code, comment)
                let store = try SQLiteStore.open(at: path, model: oldModel)
                #expect(try StoreDump.lines(of: store) == before, comment)
                try store.close()
                counts.failed += 1
                continue
            }
            do { try migration.run() } catch {
                Issue.record("\(method) \(comment): \(error)")
                continue
            }
            let store = try SQLiteStore.open(at: path)
            #expect(try Self.counts(of: store) == wantedNumbers, "\(method) \(comment)")
            let problems = try StoreCheck.run(store).problems.map(\.message)
            if wasWhole { #expect(problems == [], "\(method) \(comment)") }
            let lines = try StoreDump.lines(of: store)
            #expect(store.layout.model == (try Self.readBack(maker.model)), comment)
            if lines != expected {
                let difference = lines.difference(from: expected).prefix(6).map { "\($0)" }
                Issue.record("\(method) \(comment)\n\(difference.joined(separator: "\n"))")
            }
            #expect(try store.integrityProblems().isEmpty, comment)
            #expect(try Self.schema(store) == schema, "\(method) \(comment)")
            #expect(
                try Set(store.externalFiles().compactMap(\.sha256)).count
                    == Set(store.externalFiles().map(\.sha256)).count, comment)
            #expect(try store.unreferencedExternalFiles().isEmpty, comment)
            try store.close()
        }
        if failure == nil { try Self.count(oldModel, maker.model, stack.path, &counts) }
    }

    private static func manager() -> MigrationManager {
        let manager = MigrationManager()
        manager.allowsRemoval = true
        return manager
    }

    /// The number of objects of each entity, without those of its sub-entities.
    private static func counts(of store: any PersistentStore) throws -> [String: Int] {
        var counts: [String: Int] = [:]
        for entity in store.layout.entities {
            var request = FetchRequest(entity.name)
            request.includesSubentities = false
            counts[entity.name] = try store.count(matching: request.specification)
        }
        return counts
    }

    /// The number of objects that each entity is to have when those of the old entities have become theirs.
    private static func counts(
        _ before: [String: Int], after old: ManagedObjectModel, _ new: ManagedObjectModel
    ) throws -> [String: Int] {
        var counts = Dictionary(uniqueKeysWithValues: new.entities.map { ($0.name, 0) })
        guard let mapping = try? MappingModel.inferred(from: old, to: new) else { return counts }
        for entity in mapping.entityMappings {
            guard let source = entity.sourceEntityName,
                let destination = entity.destinationEntityName
            else { continue }
            counts[destination] = before[source]
        }
        return counts
    }

    /// A model as a store that carries it gives it back.
    private static func readBack(_ model: ManagedObjectModel) throws -> ManagedObjectModel {
        try ManagedObjectModel(modelXML: model.modelXML(), name: "model")
    }

    private static func count(
        _ old: ManagedObjectModel, _ new: ManagedObjectModel, _ path: String,
        _ counts: inout (sql: Int, rows: Int, failed: Int, edits: Int)
    ) throws {
        var plan = try TransferPlan(
            .inferred(from: old, to: new), from: old.layout(), to: new.layout())
        try plan.assignKeys { _ in 1 }
        let migration = try SQLMigration(
            plan: plan, old: SQLSchema(fresh: old.layout()), new: SQLSchema(fresh: new.layout()))
        if migration.work() == nil { counts.rows += 1 } else { counts.sql += 1 }
    }

    /// Tables with their columns and types, indexes and triggers, however they were made.
    private static func schema(_ store: SQLiteStore) throws -> [String] {
        try store.read { connection in
            let columns = try connection.withStatement(
                "SELECT s.name || '.' || c.name || ' ' || c.type FROM sqlite_schema s, pragma_table_info(s.name) c "
                    + "WHERE s.type = 'table' AND s.name LIKE 'Z%'"
            ) { statement in
                var lines: [String] = []
                while try statement.step() { lines.append(statement.text(0)) }
                return lines
            }
            let parts = try connection.withStatement(
                "SELECT replace(sql, '\"', '') FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql NOT NULL AND tbl_name NOT LIKE 'QUIRE%'"
            ) { statement in
                var lines: [String] = []
                while try statement.step() { lines.append(statement.text(0)) }
                return lines
            }
            let keys = try connection.withStatement(
                "SELECT Z_ENT, Z_NAME, Z_SUPER, Z_MAX FROM Z_PRIMARYKEY"
            ) {
                statement in
                var lines: [String] = []
                while try statement.step() {
                    lines.append((0..<4).map { statement.text($0) }.joined(separator: " "))
                }
                return lines
            }
            return (columns + parts + keys).sorted()
        }
    }

    // MARK: - Objects

    @MainActor static func fill(_ stack: TestStack, _ maker: inout RandomModel) throws {
        let context = stack.mainContext()
        var objects: [ManagedObject] = []
        let layout = stack.coordinator.store.layout
        for entity in layout.entities where !entity.isAbstract {
            for _ in 0..<Int.random(in: 1...5, using: &maker.random) {
                let object = try context.insertObject(entityName: entity.name)
                for slot in entity.slots {
                    guard let attribute = slot.attribute, !slot.isDerived else { continue }
                    if attribute.isOptional && Int.random(in: 0...2, using: &maker.random) == 0 {
                        continue
                    }
                    object[slot.name] = maker.value(of: attribute.type)
                }
                objects.append(object)
            }
        }
        for object in objects {
            for relationship in object.resolvedEntity.relationships {
                let subtree = layout.destination(of: relationship).subtree
                let targets = objects.filter { subtree.contains($0.resolvedEntity.number) }
                    .shuffled(using: &maker.random)
                if Bool.random(using: &maker.random) { continue }
                if relationship.isToMany {
                    for target in targets.prefix(3) { object.add(target, to: relationship.name) }
                } else if let target = targets.first {
                    object[relationship.name] = target
                }
            }
        }
        try context.save()
        for object in objects.shuffled(using: &maker.random).prefix(objects.count / 6) {
            context.delete(object)
        }
        try context.save()
    }
}
