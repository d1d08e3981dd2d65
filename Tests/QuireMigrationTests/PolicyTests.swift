import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct PolicyTests {
    static let old = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Car", FixtureModels.attribute("maker", .string),
            FixtureModels.attribute("year", .integer16),
            FixtureModels.toOne("owner", "Person", "cars")),
        FixtureModels.entity(
            "Person", FixtureModels.attribute("first", .string),
            FixtureModels.attribute("last", .string),
            FixtureModels.toMany("cars", "Car", "owner") { $0.isOrdered = true }),
    ])
    static let new = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Car", FixtureModels.attribute("year", .integer64),
            FixtureModels.attribute("ownerName", .string),
            FixtureModels.toOne("owner", "Person", "cars"),
            FixtureModels.toOne("createdBy", "Maker", "cars")),
        FixtureModels.entity(
            "Maker", FixtureModels.attribute("name", .string, optional: false),
            FixtureModels.toMany("cars", "Car", "createdBy")),
        FixtureModels.entity(
            "Person", FixtureModels.attribute("name", .string),
            FixtureModels.toMany("cars", "Car", "owner") { $0.isOrdered = true }),
    ])

    /// Makes makers of what was a text, and leaves out cars of before 1900.
    final class MakerPolicy: EntityMigrationPolicy {
        override func createDestinationObjects(
            for source: MigrationSource, mapping: EntityMapping, session: MigrationSession
        ) throws {
            if case .integer(let year) = try source["year"], year < 1900 { return }
            let car = try session.makeObject(for: source, mapping: mapping)
            let name = try source["maker"]
            if name.isNull { return }
            let maker =
                try session.objects(of: "Maker").first { $0["name"] == name }
                ?? session.makeObject(of: "Maker", values: ["name": name])
            try car.setObjects([maker.objectID], for: "createdBy")
        }

        override func performCustomValidation(
            _ mapping: EntityMapping, session: MigrationSession
        ) throws {
            if session.objects(of: "Car").count == 99 { throw QuireError(.validation, "99 cars") }
        }
    }

    /// Joins names.
    final class NamePolicy: EntityMigrationPolicy {
        override func value(
            of function: String, arguments: [AttributeValue], source: MigrationSource,
            session: MigrationSession
        ) throws -> AttributeValue {
            #expect(function == "fullName:")
            guard case .string(let first) = try source["first"],
                case .string(let last)? = arguments.first
            else { return .null }
            return .string("\(first) \(last)")
        }
    }

    static var mapping: MappingModel {
        get throws {
            var mapping = try MappingModel.inferred(from: old, to: new)
            mapping["Car"]?.entityMigrationPolicyName = "MakerPolicy"
            mapping["Car"]?.attributeMappings.set(.sourceValue("owner.last"), for: "ownerName")
            mapping["Person"]?.entityMigrationPolicyName = "NamePolicy"
            mapping["Person"]?.attributeMappings.set(
                .policyFunction("fullName:", [.sourceValue("last")]), for: "name")
            return mapping
        }
    }

    @MainActor static func stack() throws -> TestStack {
        let stack = try TestStack(old)
        let context = stack.mainContext()
        let person = try context.insertObject(entityName: "Person")
        person["first"] = "Ada"
        person["last"] = "King"
        for (number, year) in [1950, 1890, 1960, 1970].enumerated() {
            let car = try context.insertObject(entityName: "Car")
            car["maker"] = number == 3 ? "Benz" : "Ford"
            car["year"] = Int64(year)
            car["owner"] = person
        }
        try context.save()
        return stack
    }

    static func manager() throws -> MigrationManager {
        let manager = MigrationManager(mappingModel: try mapping)
        manager.policies = ["MakerPolicy": { MakerPolicy() }, "NamePolicy": { NamePolicy() }]
        return manager
    }

    static let expected = [
        "Car/p1 v1 createdBy=Maker/p1 owner=Person/p1 ownerName=string(\"King\") year=integer(1950)",
        "Car/p3 v1 createdBy=Maker/p1 owner=Person/p1 ownerName=string(\"King\") year=integer(1960)",
        "Car/p4 v1 createdBy=Maker/p2 owner=Person/p1 ownerName=string(\"King\") year=integer(1970)",
        "Maker/p1 v1 name=string(\"Ford\") cars=[Car/p1,Car/p3]",
        "Maker/p2 v1 name=string(\"Benz\") cars=[Car/p4]",
        "Person/p1 v1 name=string(\"Ada King\") cars=[Car/p1,Car/p3,Car/p4]",
    ]

    @Test @MainActor func policiesMakeObjectsInPlace() throws {
        let stack = try Self.stack()
        try stack.coordinator.close()
        try SQLiteStore.migrate(at: stack.path, to: Self.new, manager: Self.manager())
        #expect(try InPlaceTests.lines(at: stack.path) == Self.expected)
    }

    @Test @MainActor func policiesMakeObjectsByCopy() throws {
        let stack = try Self.stack()
        let copy = try SQLiteStore.create(at: stack.folder.path("copy.sqlite"), model: Self.new)
        try Self.manager().migrateStore(from: stack.coordinator.store, to: copy)
        #expect(try StoreDump.lines(of: copy) == Self.expected)
        try copy.close()
    }

    @Test @MainActor func onlyExpressionsNeedNoPolicy() throws {
        let stack = try Self.stack()
        var mapping = try MappingModel.inferred(from: Self.old, to: Self.new)
        mapping["Car"]?.attributeMappings.set(.sourceValue("owner.last"), for: "ownerName")
        mapping["Person"]?.attributeMappings.set(.constant("nobody"), for: "name")
        try stack.coordinator.close()
        try SQLiteStore.migrate(
            at: stack.path, to: Self.new, manager: MigrationManager(mappingModel: mapping))
        let lines = try InPlaceTests.lines(at: stack.path)
        #expect(lines.count == 5 && lines[1].contains("ownerName=string(\"King\")"))
        #expect(lines[4].contains("nobody") && lines[4].contains("Car/p1,Car/p2,Car/p3,Car/p4"))
    }

    @Test @MainActor func aPolicyThatIsNotRegisteredIsNamed() throws {
        let stack = try Self.stack()
        try stack.coordinator.close()
        let error = #expect(throws: QuireError.self) {
            try SQLiteStore.migrate(
                at: stack.path, to: Self.new, manager: MigrationManager(mappingModel: Self.mapping))
        }
        #expect(error?.code == .unsupported && error?.message.contains("MakerPolicy") == true)
        #expect(try InPlaceTests.lines(at: stack.path, Self.old).count == 5)
    }
}
