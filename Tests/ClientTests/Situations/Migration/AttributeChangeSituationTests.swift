import Foundation
import Quire
import Testing

/// A new version of a program changes an attribute, and there are values that do not fit.
@MainActor @Suite struct AttributeChangeSituationTests {
    private static func person(
        @EntityBuilder _ parts: () -> [EntityBuilder.Part]
    ) -> ManagedObjectModel {
        let parts = parts()
        return ManagedObjectModel {
            Entity("Person") {
                Attribute("key", .string)
                parts
            }
        }
    }

    // Attributes became required with a default value; objects that had none kept nil, and no save passed validation any more.
    // drewmccormack/ensembles#146, Simperium/simperium-ios#64
    @Test(arguments: SituationStore.files)
    func requiringAnAttributeGivesItsDefaultToObjectsWithoutValue(_ store: SituationStore)
        async throws
    {
        try await withMigration(store) { program in
            try await program.run(
                Self.person {
                    Attribute("name", .string)
                    Attribute("age", .integer16)
                    Attribute("born", .date)
                }
            ) { context in
                try context.add("Person", ["key": "full", "name": "Ada", "age": 36])
                try context.add("Person", ["key": "empty"])
                try context.save()
            }
            let date = Date(timeIntervalSinceReferenceDate: 0)
            try await program.run(
                Self.person {
                    Attribute("name", .string).required().default("Unnamed")
                    Attribute("age", .integer16).required().default(1)
                    Attribute("born", .date).required().default(.date(date))
                }
            ) { context in
                let full = try context.one("Person", "key == 'full'")
                #expect(full["name"] as? String == "Ada")
                #expect(full["age"] as? Int == 36)
                #expect(full["born"] as? Date == date)
                let empty = try context.one("Person", "name == 'Unnamed' AND age == 1")
                #expect(empty["key"] as? String == "empty")
                empty["key"] = "changed"
                full["key"] = "changed"
                try context.save()
            }
        }
    }

    // Becoming required without a default value crashed at the start of the program: some users had objects without a value.
    // Pocket/pocket-ios#414, paulw11/Seam3#77
    @Test(arguments: SituationStore.files)
    func requiringAnAttributeWithoutDefaultIsRefusedAndNamesIt(_ store: SituationStore)
        async throws
    {
        try await withMigration(store) { program in
            let old = Self.person { Attribute("name", .string) }
            try await program.run(old) { context in
                try context.add("Person", ["key": "empty"])
                try context.save()
            }
            let error = try await program.refused(
                Self.person { Attribute("name", .string).required() })
            #expect(error.message.contains("Person.name"))
            let other = try await program.refused(
                Self.person {
                    Attribute("name", .string)
                    Attribute("identifier", .uuid).required()
                })
            #expect(other.message.contains("Person.identifier"))
            try await program.run(old) { context in
                let person = try context.one("Person", "key == 'empty'")
                #expect(person["name"] == nil)
            }
        }
    }

    // The type of an attribute changes: Integer 16 was too small, a year was kept as a text, a price as a double.
    // Stack Overflow 17534859 “Changing attribute type in Core Data with NSInferMappingModelAutomaticallyOption”
    @Test(arguments: SituationStore.files)
    func widerNumbersKeepValuesOrderAndSums(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            try await program.run(
                Self.person {
                    Attribute("small", .integer16).default(0)
                    Attribute("medium", .integer32)
                    Attribute("share", .float)
                    Attribute("count", .integer32)
                    Attribute("flag", .boolean)
                }
            ) { context in
                for (key, value) in [("a", -32768), ("b", 0), ("c", 32767)] {
                    try context.add(
                        "Person",
                        [
                            "key": key, "small": value, "medium": value, "share": 0.1,
                            "count": value, "flag": value > 0,
                        ])
                }
                try context.add("Person", ["key": "nothing"])
                try context.save()
            }
            try await program.run(
                Self.person {
                    Attribute("small", .integer64).default(7)
                    Attribute("medium", .double)
                    Attribute("share", .double)
                    Attribute("count", .decimal)
                    Attribute("flag", .integer16)
                }
            ) { context in
                let sorted = try context.sorted("Person", by: "medium")
                #expect(sorted.map { $0["key"] as? String } == ["nothing", "a", "b", "c"])
                #expect(sorted.map { $0["small"] as? Int } == [0, -32768, 0, 32767])
                #expect(sorted.map { $0["medium"] as? Double } == [nil, -32768, 0, 32767])
                #expect(sorted.map { $0["count"] as? Decimal } == [nil, -32768, 0, 32767])
                #expect(sorted.map { $0["flag"] as? Int } == [nil, 0, 0, 1])
                let share = try #require(sorted[1]["share"] as? Double)
                #expect(abs(share - 0.1) < 0.000_001)
                #expect(try context.one("Person", "count == 32767")["key"] as? String == "c")
                #expect(try context.one("Person", "medium < -32767.5")["key"] as? String == "a")
                sorted[0]["small"] = 5_000_000_000
                sorted[0]["count"] = Decimal(string: "1.25")
                try context.save()
                #expect(
                    try context.one("Person", "count == 1.25")["small"] as? Int == 5_000_000_000)
            }
        }
    }

    // As above, to a type that loses something, or of another kind.
    @Test(arguments: SituationStore.files)
    func anotherTypeIsRefusedUnlessAMappingConverts(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            let old = Self.person { Attribute("year", .string) }
            try await program.run(old) { context in
                try context.add("Person", ["key": "good", "year": "1815"])
                try context.add("Person", ["key": "bad", "year": "about 1815"])
                try context.add("Person", ["key": "empty"])
                try context.save()
            }
            let new = Self.person { Attribute("year", .integer16) }
            let error = try await program.refused(new)
            #expect(error.code == .incompatibleModel)
            #expect(error.message.contains("Person.year"))

            // A policy that throws at the second object leaves everything.
            var mapping = MappingModel()
            var entity = EntityMapping(
                name: "PersonToPerson", type: .transform, from: "Person", to: "Person")
            entity.attributeMappings = [
                PropertyMapping(name: "key", valueExpression: .sourceValue("key"))
            ]
            entity.entityMigrationPolicyName = "Years"
            mapping.entityMappings = [entity]
            var options = StoreMigrationOptions()
            options.mappings = [CustomMapping(from: old, to: new, mapping: mapping)]
            options.policies["Years"] = { YearPolicy(isStrict: true) }
            let strict = try await program.refused(new, migration: options)
            #expect(strict.message.contains("about 1815"))
            options.policies["Years"] = { YearPolicy(isStrict: false) }
            try await program.run(new, migration: options) { context in
                let found = try context.sorted("Person", by: "key")
                #expect(found.map { $0["key"] as? String } == ["bad", "empty", "good"])
                #expect(found.map { $0["year"] as? Int } == [nil, nil, 1815])
            }
        }
    }

    // A new default value in a new version: what do the objects of the users have that were stored with the old one?
    // Apple Developer Forums 734693 (default values of successive versions)
    @Test(arguments: SituationStore.files)
    func aNewDefaultValueConcernsNewObjectsOnly(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            try await program.run(
                Self.person { Attribute("stars", .integer16).required().default(0) }
            ) { context in
                try context.add("Person", ["key": "old"])
                try context.save()
            }
            try await program.run(
                Self.person { Attribute("stars", .integer16).required().default(3) }
            ) { context in
                try context.add("Person", ["key": "new"])
                try context.save()
            }
            try await program.run(
                Self.person { Attribute("stars", .integer16).required().default(5) }
            ) { context in
                let found = try context.sorted("Person", by: "stars")
                #expect(found.map { $0["stars"] as? Int } == [0, 3])
                #expect(found.map { $0["key"] as? String } == ["old", "new"])
            }
        }
    }

    // Rules became stricter (pattern, length, range) while objects of users break them: the program must start, show them, and
    // let the user change something else about them.
    // RestKit/RestKit#694, OpenStack-mobile/summit-app-ios#73
    @Test(arguments: SituationStore.files)
    func stricterRulesApplyToWhatIsChanged(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            try await program.run(
                Self.person {
                    Attribute("mail", .string)
                    Attribute("age", .integer16)
                    Attribute("note", .string)
                }
            ) { context in
                try context.add(
                    "Person", ["key": "k", "mail": "none", "age": 200, "note": "longer than that"])
                try context.save()
            }
            try await program.run(
                Self.person {
                    Attribute("mail", .string).matching(".+@.+")
                    Attribute("age", .integer16).minimum(0).maximum(150)
                    Attribute("note", .string).length(atMost: 5)
                }
            ) { context in
                let person = try context.one("Person", "age == 200")
                #expect(person["mail"] as? String == "none")
                person["key"] = "other"
                try context.save()
                person["age"] = 199
                let error = #expect(throws: QuireError.self) { try context.save() }
                #expect(error?.subject.property == "age")
                person["age"] = 99
                try context.save()
                #expect(throws: QuireError.self) {
                    try context.add("Person", ["mail": "no"])
                    try context.save()
                }
                context.rollback()
                #expect(try context.one("Person", "age == 99")["note"] as? String != nil)
            }
        }
    }

    // One attribute replaced by two, or two names exchanged, with renaming identifiers.
    // JohnEstropia/CoreStore#142, JohnEstropia/CoreStore#308
    @Test(arguments: SituationStore.files)
    func exchangedNamesExchangeTheValues(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            try await program.run(
                Self.person {
                    Attribute("first", .string)
                    Attribute("last", .string)
                    Attribute("old", .integer16)
                }
            ) { context in
                try context.add("Person", ["first": "Lovelace", "last": "Ada", "old": 1])
                try context.save()
            }
            try await program.run(
                Self.person {
                    Attribute("first", .string).renamed(from: "last")
                    Attribute("last", .string).renamed(from: "first")
                    // A new attribute with the name of a renamed one.
                    Attribute("older", .integer16).renamed(from: "old")
                    Attribute("old", .string).renamed(from: "older")
                }
            ) { context in
                let ada = try context.one("Person", "first == 'Ada' AND last == 'Lovelace'")
                #expect(ada["older"] as? Int == 1)
                #expect(ada["old"] == nil)
                ada["old"] = "text"
                try context.save()
            }
        }
    }
}

/// Reads years from texts.
private final class YearPolicy: EntityMigrationPolicy {
    let isStrict: Bool
    init(isStrict: Bool) { self.isStrict = isStrict }

    override func createDestinationObjects(
        for source: MigrationSource, mapping: EntityMapping, session: MigrationSession
    ) throws {
        let person = try session.makeObject(for: source, mapping: mapping)
        guard case .string(let text) = try source["year"] else { return }
        if let year = Int64(text) { return try person.setValue(.integer(year), for: "year") }
        if isStrict { throw QuireError(.invalidValue, "“\(text)” is not a year.") }
    }
}
