import Foundation
import Quire
import Testing

/// Several changes at once, over several versions at once, on values that are rare.
@MainActor @Suite struct MixedChangeSituationTests {
    // Renamed in version 2 and again in version 3; users update from 1 to 3, from 2 to 3, or one by one. The entity is renamed
    // with its attribute and relationship.
    // Apple, “Migrating your data model automatically”; woocommerce/woocommerce-ios#13736
    @Test(arguments: SituationStore.files, [true, false])
    func renamingOverTwoVersionsAtOnceKeepsAll(_ store: SituationStore, stopsBetween: Bool)
        async throws
    {
        func model(
            _ song: String, _ title: String, _ singer: String, _ name: String,
            identifiers: Bool
        ) -> ManagedObjectModel {
            func renamed(_ entity: Entity, _ name: String) -> Entity {
                identifiers ? entity.renamed(from: name) : entity
            }
            func renamed(_ attribute: Attribute, _ name: String) -> Attribute {
                identifiers ? attribute.renamed(from: name) : attribute
            }
            return ManagedObjectModel {
                renamed(
                    Entity(song) {
                        renamed(Attribute(title, .string).required(), "title")
                        identifiers
                            ? ToOne("by", singer, inverse: "work").renamed(from: "singer")
                            : ToOne("singer", singer, inverse: "songs")
                        Index("byTitle", on: .ascending(title))
                    }, "Song")
                renamed(
                    Entity(singer) {
                        renamed(Attribute(name, .string), "name")
                        identifiers
                            ? ToMany("work", song, inverse: "by").renamed(from: "songs")
                            : ToMany("songs", song, inverse: "singer")
                        Unique(name)
                    }, "Singer")
            }
        }
        try await withMigration(store) { program in
            try await program.run(
                model("Song", "title", "Singer", "name", identifiers: false)
            ) { context in
                let singer = try context.add("Singer", ["name": "Ella"])
                for title in ["Misty", "Angel Eyes"] {
                    try context.add("Song", ["title": title, "singer": singer])
                }
                try context.save()
            }
            if stopsBetween {
                try await program.run(
                    model("Track", "label", "Artist", "called", identifiers: true)
                ) { context in
                    let artist = try context.one("Artist", "work.@count == 2")
                    #expect(artist["called"] as? String == "Ella")
                }
            }
            // What was a singer's name is a title now, and the other way round.
            try await program.run(
                model("Piece", "name", "Person", "title", identifiers: true)
            ) { context in
                let person = try context.one("Person", "work.@count == 2 AND title == 'Ella'")
                let names = try person.value(forKeyPath: "work.name") as? [String]
                #expect(names?.sorted() == ["Angel Eyes", "Misty"])
                try context.add("Person", ["title": "Ella"])
                #expect(throws: QuireError.self) { try context.save() }
            }
        }
    }

    // Relationships without an inverse, to itself, and many to many to itself, across a renaming.
    // project-imas/encrypted-core-data#313 “Migration fails due to Many to Many relation tables”, #207
    @Test(arguments: SituationStore.files)
    func relationshipsToItselfAndWithoutInverseKeepTheirDirection(_ store: SituationStore)
        async throws
    {
        func model(_ name: String, _ changed: Bool) -> ManagedObjectModel {
            func part(_ part: ToMany, _ old: String) -> ToMany {
                changed ? part.renamed(from: old) : part
            }
            return ManagedObjectModel {
                Entity(name) {
                    Attribute("name", .string)
                    // Follows and is followed by; the names are exchanged.
                    part(
                        changed
                            ? ToMany("followers", name, inverse: "follows")
                            : ToMany("follows", name, inverse: "followers"), "follows")
                    part(
                        changed
                            ? ToMany("follows", name, inverse: "followers")
                            : ToMany("followers", name, inverse: "follows"), "followers")
                    part(ToMany(changed ? "liked" : "likes", "Tag"), "likes")
                    ToOne("best", "Tag")
                }.renamed(from: "User")
                Entity("Tag") {
                    Attribute("name", .string)
                    Attribute("extra", .string).default(changed ? "x" : "y")
                }
            }
        }
        try await withMigration(store) { program in
            try await program.run(model("User", false)) { context in
                let users = try ["a", "b", "c"].map { try context.add("User", ["name": $0]) }
                users[0]["follows"] = Set([users[1], users[2]])
                users[1]["follows"] = Set([users[2]])
                let tag = try context.add("Tag", ["name": "t"])
                users[0]["likes"] = Set([tag])
                users[1]["best"] = tag
                try context.save()
            }
            try await program.run(model("Person", true)) { context in
                let people = try context.sorted("Person", by: "name")
                func names(_ key: String) throws -> [[String]] {
                    try people.map {
                        (try $0.value(forKeyPath: "\(key).name") as? [String] ?? []).sorted()
                    }
                }
                #expect(try names("followers") == [["b", "c"], ["c"], []])
                #expect(try names("follows") == [[], ["a"], ["a", "b"]])
                #expect(try names("liked") == [["t"], [], []])
                let second = try context.one("Person", "best.name == 't'")
                #expect(second["name"] as? String == "b")
            }
        }
    }

    // Values at the edges of their types, and empty ones that are not nil, through a migration that rewrites every row.
    // realm/realm-swift#3413 “values are removed after migration”; nerdtypething.blogspot.com “Core Data Custom Migration”
    @Test(arguments: SituationStore.files)
    func rareValuesStayWhatTheyAre(_ store: SituationStore) async throws {
        let types: [(String, AttributeType, AttributeValue, AttributeValue)] = [
            ("i16", .integer16, .integer(-32768), .integer(0)),
            ("i64", .integer64, .integer(.min), .integer(.max)),
            ("d", .double, .double(.infinity), .double(.leastNonzeroMagnitude)),
            ("f", .float, .double(-.infinity), .double(Double(Float.leastNonzeroMagnitude))),
            ("dec", .decimal, .decimal(Decimal(string: "0.1") ?? 0), .decimal(-1)),
            ("s", .string, .string(""), .string("e\u{301}\u{0}x\u{1F469}\u{200D}\u{1F467}")),
            ("b", .boolean, .boolean(false), .boolean(true)),
            (
                "date", .date, .date(Date(timeIntervalSinceReferenceDate: -1e11)),
                .date(Date(timeIntervalSinceReferenceDate: 0.125))
            ),
            ("bin", .binary, .binary(Data()), .binary(Data([0, 255, 0]))),
            ("t", .transformable, .binary(Data([1])), .binary(Data("{}".utf8))),
            ("u", .uuid, .uuid(UUID()), .uuid(UUID())),
        ]
        func model(_ prefix: String, _ attribute: (Attribute, String) -> Attribute)
            -> ManagedObjectModel
        {
            var entity = EntityDescription(name: "Row")
            entity.properties = types.map {
                .attribute(attribute(Attribute(prefix + $0.0, $0.1), $0.0).description)
            }
            entity.properties.append(.attribute(Attribute("number", .integer16).description))
            return ManagedObjectModel(entities: [entity])
        }
        try await withMigration(store) { program in
            try await program.run(model("") { attribute, _ in attribute }) { context in
                for number in 0..<3 {
                    let row = try context.add("Row", ["number": number])
                    for (name, _, first, second) in types where number < 2 {
                        try row.setValue(number == 0 ? first : second, forKey: name)
                    }
                }
                try context.save()
            }
            // A parent makes that every row is written again.
            var parented = model("new") { $0.renamed(from: $1) }
            parented.entities[0].superentityName = "Base"
            parented.entities.append(EntityDescription(name: "Base"))
            try await program.run(parented) { context in
                let rows = try context.sorted("Row", by: "number")
                for (name, _, first, second) in types {
                    let values = try rows.map { try $0.attributeValue(forKey: "new" + name) }
                    #expect(values == [first, second, .null], "\(name)")
                }
            }
        }
    }

    // Objects of large stores, with their identifiers kept by the program (as URIs) across the update.
    // project-imas/encrypted-core-data#207 “Preserve ObjectIDs when migrating tables”
    @Test(arguments: SituationStore.files)
    func keptIdentifiersFindTheirObjectsAfterAMigration(_ store: SituationStore) async throws {
        let old = ManagedObjectModel {
            Entity("A") { Attribute("n", .integer32) }
            Entity("B") { Attribute("n", .integer32) }
        }
        let new = ManagedObjectModel {
            Entity("Root") { Attribute("n", .integer32) }.abstract()
            Entity("First", inherits: "Root").renamed(from: "A")
            Entity("B", inherits: "Root")
        }
        try await withMigration(store) { program in
            var uris: [String: Int] = [:]
            try await program.run(old) { context in
                for number in 0..<3_000 {
                    try context.add(number % 2 == 0 ? "A" : "B", ["n": number])
                }
                try context.save()
                for entity in ["A", "B"] {
                    for object in try context.sorted(entity, by: "n") {
                        uris[object.objectID.uriRepresentation] = object["n"] as? Int
                    }
                }
            }
            #expect(uris.count == 3_000)
            try await program.run(new) { context in
                var wrong = 0
                for (uri, number) in uris {
                    guard
                        let id = try? context.persistentStoreCoordinator.objectID(
                            for: uri),
                        let object = try? context.existingObject(with: id)
                    else { continue }
                    if object["n"] as? Int != number { wrong += 1 }
                }
                // An identifier must never lead to another object.
                #expect(wrong == 0)
                let count = try context.count(for: FetchRequest("Root"))
                #expect(count == 3_000)
            }
        }
    }
}
