import QuireTestSupport
import Testing

@testable import Quire

/// Uniqueness constraints that are added to a model when there are objects already.
@Suite struct UniquenessMigrationTests {
    private static func model(
        unique: [[String]] = [], _ more: PropertyDescription...
    ) -> ManagedObjectModel {
        var item = FixtureModels.entity(
            "Item", FixtureModels.attribute("code", .string),
            FixtureModels.attribute("number", .integer32), FixtureModels.toOne("box", "Box", nil))
        item.properties += more
        var special = FixtureModels.entity(
            "Special", parent: "Item", FixtureModels.attribute("extra", .string))
        special.uniquenessConstraints = unique.filter { $0 == ["extra"] }
        item.uniquenessConstraints = unique.filter { $0 != ["extra"] }
        return ManagedObjectModel(entities: [item, special, FixtureModels.entity("Box")])
    }

    @MainActor private static func store() throws -> TestStack {
        let stack = try TestStack(model())
        let context = stack.mainContext()
        let box = try context.insertObject(entityName: "Box")
        for (name, code, number) in [
            ("Item", "a", 1), ("Special", "b", 2), ("Item", "b", 2), ("Special", "c", 2),
        ] as [(String, AttributeValue, AttributeValue)] {
            let object = try context.insertObject(entityName: name)
            object["code"] = code
            object["number"] = number
            object["box"] = box
            if name == "Special" { object["extra"] = "same" }
        }
        try context.save()
        try stack.coordinator.close()
        return stack
    }

    private static let cases: [(unique: [[String]], entity: String, message: String)] = [
        (
            [["code"]], "Item",
            "“Item.code” must be unique, and Item/p2 and Special/p3 both have “b”"
        ),
        (
            [["code", "number"]], "Item",
            "“Item.code” and “number” must be unique together, and Item/p2 and Special/p3 both have “b” and 2"
        ),
        (
            [["extra"]], "Special",
            "“Special.extra” must be unique, and Special/p3 and Special/p4 both have “same”"
        ),
    ]

    @Test(arguments: cases.indices, [false, true]) @MainActor
    func addingOneOverDuplicatesNamesEntityAttributesAndAnExample(
        index: Int, migrates: Bool
    ) throws {
        let stack = try Self.store()
        let (unique, entity, message) = Self.cases[index]
        let model =
            migrates
            ? Self.model(unique: unique, FixtureModels.attribute("more", .string))
            : Self.model(unique: unique)
        let before = try InPlaceTests.lines(at: stack.path, Self.model())
        let error = #expect(throws: QuireError.self) {
            try SQLiteStore.open(at: stack.path, model: model, migrating: StoreMigrationOptions())
                .close()
        }
        #expect(error?.code == .constraintConflict)
        #expect(error?.subject.entity == entity)
        #expect(error?.subject.property == unique[0][0])
        #expect(error?.subject.file == stack.path)
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("UNIQUE") == false)
        #expect(try InPlaceTests.lines(at: stack.path, Self.model()) == before)
    }
}
