import Foundation
import Quire
import Testing

/// A new version of a program changes a relationship.
@MainActor @Suite struct RelationshipChangeSituationTests {
    /// Recipes and tags, with a relationship of any kind on both sides.
    private static func model(
        _ tags: any RelationshipPart, _ recipes: (any RelationshipPart)?
    ) -> ManagedObjectModel {
        var recipe = EntityDescription(name: "Recipe")
        recipe.properties = [
            .attribute(Attribute("name", .string).description), .relationship(tags.description),
        ]
        var tag = EntityDescription(name: "Tag")
        tag.properties = [.attribute(Attribute("name", .string).description)]
        if let recipes { tag.properties.append(.relationship(recipes.description)) }
        return ManagedObjectModel(entities: [recipe, tag])
    }

    private static let oneToMany = model(
        ToOne("tag", "Tag", inverse: "recipes"), ToMany("recipes", "Recipe", inverse: "tag"))
    private static let manyToMany = model(
        ToMany("tags", "Tag", inverse: "recipes").renamed(from: "tag"),
        ToMany("recipes", "Recipe", inverse: "tags"))

    private func names(_ object: ManagedObject, _ key: String) throws -> [String] {
        let found = try object.value(forKeyPath: "\(key).name") as? [String]
        return try #require(found).sorted()
    }

    // One tag a recipe was not enough; many of each were, and later one again, with recipes that have several.
    // Hacking with Swift, project 38 “lightweight vs heavyweight migration”; Apple, “Migrating your data model automatically”
    @Test(arguments: SituationStore.files)
    func oneBecomesManyAndManyBecomeOneIfThereIsOne(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            try await program.run(Self.oneToMany) { context in
                let sweet = try context.add("Tag", ["name": "sweet"])
                for name in ["cake", "pie"] {
                    try context.add("Recipe", ["name": name, "tag": sweet])
                }
                try context.add("Recipe", ["name": "soup"])
                try context.add("Tag", ["name": "unused"])
                try context.save()
            }
            try await program.run(Self.manyToMany) { context in
                let cake = try context.one("Recipe", "ANY tags.name == 'sweet' AND name == 'cake'")
                let sweet = try context.one("Tag", "recipes.@count == 2")
                #expect(try names(sweet, "recipes") == ["cake", "pie"])
                cake["tags"] = [sweet, try context.one("Tag", "name == 'unused'")]
                try context.save()
            }
            let back = Self.model(
                ToOne("tag", "Tag", inverse: "recipes").renamed(from: "tags"),
                ToMany("recipes", "Recipe", inverse: "tag"))
            let error = try await program.refused(back)
            #expect(error.message.contains("tag"))
            try await program.run(Self.manyToMany) { context in
                let cake = try context.one("Recipe", "name == 'cake'")
                cake["tags"] = [try context.one("Tag", "name == 'sweet'")]
                try context.save()
            }
            try await program.run(back) { context in
                let sweet = try context.one("Tag", "recipes.@count == 2")
                #expect(try names(sweet, "recipes") == ["cake", "pie"])
                let soup = try context.one("Recipe", "tag == nil")
                #expect(soup["name"] as? String == "soup")
            }
        }
    }

    // The order of an ordered relationship was lost when something else about it changed: its name, its destination's, its
    // inverse's, or its being one side of many to many.
    // nvie/VDOrderedEntityMigrationPolicy; project-imas/encrypted-core-data#313
    @Test(arguments: SituationStore.files)
    func anOrderSurvivesRenamingOnBothSides(_ store: SituationStore) async throws {
        for isMany in [false, true] {
            try await withMigration(store) { program in
                let inverse: any RelationshipPart =
                    isMany
                    ? ToMany("playlists", "Playlist", inverse: "songs")
                    : ToOne("playlists", "Playlist", inverse: "songs")
                var list = EntityDescription(name: "Playlist")
                list.properties = [
                    .attribute(Attribute("name", .string).description),
                    .relationship(
                        ToMany("songs", "Song", inverse: "playlists").ordered().description),
                ]
                var song = EntityDescription(name: "Song")
                song.properties = [
                    .attribute(Attribute("name", .string).description),
                    .relationship(inverse.description),
                ]
                let old = ManagedObjectModel(entities: [list, song])
                let order = ["d", "a", "c", "b"]
                try await program.run(old) { context in
                    let songs = try ["a", "b", "c", "d"].map {
                        try context.add("Song", ["name": $0])
                    }
                    try context.save()
                    let list = try context.add("Playlist", ["name": "mix"])
                    list["songs"] = order.compactMap { name in
                        songs.first { $0["name"] as? String == name }
                    }
                    try context.save()
                }
                let renamed = ManagedObjectModel {
                    Entity("Mix") {
                        Attribute("title", .string).renamed(from: "name")
                        ToMany("tracks", "Track", inverse: "mixes").ordered().renamed(
                            from: "songs")
                    }.renamed(from: "Playlist")
                    Entity("Track") {
                        Attribute("name", .string)
                        ToMany("mixes", "Mix", inverse: "tracks").renamed(from: "playlists")
                    }.renamed(from: "Song")
                }
                try await program.run(renamed) { context in
                    let mix = try context.one("Mix", "title == 'mix'")
                    let tracks = try #require(mix["tracks"] as? [ManagedObject])
                    #expect(tracks.map { $0["name"] as? String } == order)
                    mix.insert(try context.add("Track", ["name": "new"]), into: "tracks", at: 1)
                    try context.save()
                }
                // Without order, and with one again.
                let set = ManagedObjectModel {
                    Entity("Mix") {
                        Attribute("title", .string)
                        ToMany("tracks", "Track", inverse: "mixes")
                    }
                    Entity("Track") {
                        Attribute("name", .string)
                        ToMany("mixes", "Mix", inverse: "tracks")
                    }
                }
                var options = StoreMigrationOptions()
                options.allowsRemoval = true
                try await program.run(set, migration: options) { context in
                    let mix = try context.one("Mix", "title == 'mix'")
                    #expect(try names(mix, "tracks") == ["a", "b", "c", "d", "new"])
                }
                try await program.run(renamed) { context in
                    let mix = try context.one("Mix", "title == 'mix'")
                    let tracks = try #require(mix["tracks"] as? [ManagedObject])
                    #expect(tracks.count == 5)
                    mix["tracks"] = Array(tracks.reversed())
                    try context.save()
                }
                try await program.run(renamed) { context in
                    let mix = try context.one("Mix", "title == 'mix'")
                    let tracks = try #require(mix["tracks"] as? [ManagedObject])
                    #expect(tracks.count == 5)
                }
            }
        }
    }

    // A missing inverse was added (the warning of the model editor, CloudKit's requirement), and taken away again.
    // Apple, “Migrating your data model automatically”
    @Test(arguments: SituationStore.files)
    func anInverseIsAddedAndRemoved(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            try await program.run(Self.model(ToOne("tag", "Tag"), nil)) { context in
                let sweet = try context.add("Tag", ["name": "sweet"])
                for name in ["cake", "pie"] {
                    try context.add("Recipe", ["name": name, "tag": sweet])
                }
                try context.save()
            }
            try await program.run(Self.oneToMany) { context in
                let sweet = try context.one("Tag", "recipes.@count == 2")
                #expect(try names(sweet, "recipes") == ["cake", "pie"])
                sweet.remove(try context.one("Recipe", "name == 'pie'"), from: "recipes")
                try context.save()
            }
            try await program.run(Self.model(ToOne("tag", "Tag"), nil)) { context in
                let cake = try context.one("Recipe", "tag.name == 'sweet'")
                #expect(cake["name"] as? String == "cake")
            }
        }
    }

    // Two objects name the same one, which may have only one of them in the new version.
    // Apple, “Migrating your data model automatically”
    @Test(arguments: SituationStore.files)
    func aToOneInverseOverSeveralOwnersIsRefused(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            let old = Self.model(ToOne("tag", "Tag"), nil)
            try await program.run(old) { context in
                let sweet = try context.add("Tag", ["name": "sweet"])
                for name in ["cake", "pie"] {
                    try context.add("Recipe", ["name": name, "tag": sweet])
                }
                try context.save()
            }
            let oneToOne = Self.model(
                ToOne("tag", "Tag", inverse: "recipe"), ToOne("recipe", "Recipe", inverse: "tag"))
            let error = try await program.refused(oneToOne)
            #expect(error.message.contains("Tag"))
            try await program.run(old) { context in
                context.delete(try context.one("Recipe", "name == 'pie'"))
                try context.save()
            }
            try await program.run(oneToOne) { context in
                let sweet = try context.one("Tag", "recipe.name == 'cake'")
                #expect(sweet["name"] as? String == "sweet")
            }
        }
    }

    // A relationship became required, or got a minimum count, and some objects have none. It is new, or was optional.
    // Simperium/simperium-ios#64 (mandatory attributes; here a relationship)
    @Test(arguments: SituationStore.files)
    func aRequiredRelationshipOfObjectsWithoutOneIsNoticed(_ store: SituationStore) async throws {
        try await withMigration(store) { program in
            try await program.run(Self.oneToMany) { context in
                let sweet = try context.add("Tag", ["name": "sweet"])
                try context.add("Recipe", ["name": "cake", "tag": sweet])
                try context.add("Recipe", ["name": "soup"])
                try context.save()
            }
            let required = Self.model(
                ToOne("tag", "Tag", inverse: "recipes").required(),
                ToMany("recipes", "Recipe", inverse: "tag").deleteRule(.cascade))
            let error = try await program.refused(required)
            #expect(error.message.contains("Recipe.tag"))
            try await program.run(Self.oneToMany) { context in
                let soup = try context.one("Recipe", "tag == nil")
                soup["tag"] = try context.one("Tag", "name == 'sweet'")
                try context.save()
            }
            try await program.run(required) { context in
                context.delete(try context.one("Tag", "recipes.@count == 2"))
                try context.save()
                #expect(try context.count(for: FetchRequest("Recipe")) == 0)
            }
        }
    }

    // Delete rules are part of the program, not of the data: the new one applies to old objects.
    // informit.com, Core Data, “Versioning” (any change of the model is another version)
    @Test(arguments: SituationStore.files)
    func aNewDeleteRuleAppliesToOldObjects(_ store: SituationStore) async throws {
        func model(_ rule: DeleteRule) -> ManagedObjectModel {
            Self.model(
                ToOne("tag", "Tag", inverse: "recipes"),
                ToMany("recipes", "Recipe", inverse: "tag").deleteRule(rule))
        }
        try await withMigration(store) { program in
            try await program.run(model(.nullify)) { context in
                let sweet = try context.add("Tag", ["name": "sweet"])
                try context.add("Recipe", ["name": "cake", "tag": sweet])
                try context.save()
            }
            try await program.run(model(.deny)) { context in
                context.delete(try context.one("Tag", "name == 'sweet'"))
                #expect(throws: QuireError.self) { try context.save() }
                context.rollback()
            }
            try await program.run(model(.cascade)) { context in
                context.delete(try context.one("Tag", "name == 'sweet'"))
                try context.save()
                #expect(try context.count(for: FetchRequest("Recipe")) == 0)
            }
        }
    }
}
