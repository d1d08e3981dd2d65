import QuireTestSupport
import Testing

@testable import Quire

@Suite struct StagedMigrationTests {
    private static func model(_ names: String...) -> ManagedObjectModel {
        var entity = EntityDescription(name: "E")
        entity.properties = names.map { FixtureModels.attribute($0, .string) }
        return ManagedObjectModel(entities: [entity])
    }

    private static let versions = [
        model("first"), model("first", "last"), model("first", "last", "full"), model("full"),
    ]

    private static func store(_ model: ManagedObjectModel) throws -> (TemporaryFolder, String) {
        let folder = try TemporaryFolder()
        let path = folder.path("store.sqlite")
        let store = try SQLiteStore.create(at: path, model: model)
        let entity = try store.layout.requireEntity(named: "E")
        var changes = ChangeSet()
        changes.inserted = [
            ObjectChange(
                objectID: try store.reserveObjectIDs(for: entity, count: 1, durably: false)[0],
                entity: entity, version: 0,
                values: ContiguousArray(entity.slots.map { .string($0.name) }),
                changedSlots: SlotMask(first: entity.slots.count))
        ]
        try store.save(changes)
        try store.close()
        return (folder, path)
    }

    /// Fills the full name.
    private static let fill: MigrationStage.Handler = { store in
        let entity = try store.layout.requireEntity(named: "E")
        var changes = ChangeSet()
        for row in try store.rows(matching: FetchSpecification("E")) {
            var parts: [String] = []
            for name in ["first", "last"] {
                guard let slot = entity.slot(named: name),
                    case .string(let text) = try row.value(at: slot)
                else { continue }
                parts.append(text)
            }
            var values = ContiguousArray<AttributeValue>(repeating: .null, count: 3)
            let slot = try #require(entity.slot(named: "full"))
            values[slot] = .string(parts.joined(separator: " "))
            var mask = SlotMask()
            mask.insert(slot)
            changes.updated.append(
                ObjectChange(
                    objectID: row.objectID, entity: entity, version: row.version, values: values,
                    changedSlots: mask))
        }
        try store.save(changes)
    }

    private static func migration(
        removes: Bool = true, _ did: @escaping MigrationStage.Handler = fill
    ) -> StagedMigration {
        StagedMigration([
            .lightweight(through: [versions[0], versions[1]]),
            .custom("names", from: versions[1], to: versions[2], didMigrate: did),
            .lightweight(through: [versions[3]], allowsRemoval: removes),
        ])
    }

    @Test(arguments: [(0, "first"), (1, "first last")])
    func storesOfAnyVersionComeToTheNewest(version: Int, full: String) throws {
        let (folder, path) = try Self.store(Self.versions[version])
        try Self.migration().migrateStore(at: path)
        let lines = try InPlaceTests.lines(at: path, Self.versions[3])
        #expect(lines.count == 1 && lines[0].contains("full=string(\"\(full)\")"))
        // There is nothing left to do.
        try Self.migration { _ in Issue.record("called again") }.migrateStore(at: path)
        withExtendedLifetime(folder) {}
    }

    @Test func aStageRemovesNothingUnlessItMay() throws {
        let (folder, path) = try Self.store(Self.versions[1])
        let error = #expect(throws: QuireError.self) {
            try Self.migration(removes: false).migrateStore(at: path)
        }
        #expect(error?.code == .removalDenied)
        #expect(error?.failures.map(\.subject.property) == ["first", "last"])
        #expect(try SQLiteStore.isStore(at: path, compatibleWith: Self.versions[2]))
        try Self.migration { _ in Issue.record("called again") }.migrateStore(at: path)
        #expect(try InPlaceTests.lines(at: path, Self.versions[3]).count == 1)
        withExtendedLifetime(folder) {}
    }

    private struct Failed: Error {}

    @Test func aHandlerThatFailedIsCalledAgain() throws {
        let (folder, path) = try Self.store(Self.versions[1])
        #expect(throws: Failed.self) {
            try Self.migration { _ in throw Failed() }.migrateStore(at: path)
        }
        #expect(try SQLiteStore.isStore(at: path, compatibleWith: Self.versions[2]))
        try Self.migration().migrateStore(at: path)
        #expect(try InPlaceTests.lines(at: path)[0].contains("full=string(\"first last\")"))
        withExtendedLifetime(folder) {}
    }
}
