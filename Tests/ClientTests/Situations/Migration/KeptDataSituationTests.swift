import Foundation
import Quire
import Testing

/// A new version of a program stores attributes in another way: in files, unique, derived, as parts of a composite one.
@MainActor @Suite struct KeptDataSituationTests {
    // Migrating a model with external binary data dropped some of the data, or left the files at the old place.
    // magicalpanda/MagicalRecord#178, JohnEstropia/CoreStore#232
    @Test(arguments: SituationStore.files)
    func largeDataStaysWhereverItIsKept(_ store: SituationStore) async throws {
        func model(_ name: String, from old: String? = nil, external: Bool) -> ManagedObjectModel {
            ManagedObjectModel {
                Entity("Photo") {
                    Attribute("key", .string)
                    old.map {
                        Attribute(name, .binary).externalStorage(external).renamed(from: $0)
                    } ?? Attribute(name, .binary).externalStorage(external)
                }
            }
        }
        let large = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        let small = Data([1, 2, 3])
        try await withMigration(store) { program in
            @MainActor func check(_ context: ManagedObjectContext, _ name: String) throws {
                let photos = try context.sorted("Photo", by: "key")
                #expect(photos.map { $0["key"] as? String } == ["large", "none", "same", "small"])
                #expect(photos.map { $0[name] as? Data } == [large, nil, large, small])
            }
            try await program.run(model("image", external: true)) { context in
                try context.add("Photo", ["key": "large", "image": large])
                try context.add("Photo", ["key": "same", "image": large])
                try context.add("Photo", ["key": "small", "image": small])
                try context.add("Photo", ["key": "none"])
                try context.save()
            }
            try await program.run(model("picture", from: "image", external: true)) { context in
                try check(context, "picture")
            }
            try await program.run(model("picture", external: false)) { context in
                try check(context, "picture")
                let photo = try context.one("Photo", "key == 'same'")
                photo["picture"] = small
                try context.save()
                photo["picture"] = large
                try context.save()
            }
            try await program.run(model("image", from: "picture", external: true)) { context in
                try check(context, "image")
                for photo in try context.sorted("Photo", by: "key") { context.delete(photo) }
                try context.save()
            }
            // Nothing of the deleted photos is left.
            let left = try program.contents().values.filter { $0.count >= large.count }
            #expect(left.allSatisfy { $0.range(of: large.prefix(100_000)) == nil })
        }
    }

    // A uniqueness constraint added to users' stores with duplicates made the program crash at the start; so they were removed
    // first, in a stage before the migration. Objects without a value are not duplicates.
    // wireapp/wire-ios#925, wireapp/wire-ios#1149, kasianov-mikhail/scout#1191, realm/realm-java#5983
    @Test func aUniquenessConstraintOverDuplicatesIsRefusedUntilTheyAreRemoved() async throws {
        let old = ManagedObjectModel {
            Entity("User") {
                Attribute("identifier", .string)
                Attribute("name", .string)
                ToMany("devices", "Device", inverse: "user").deleteRule(.cascade)
            }
            Entity("Device") { ToOne("user", "User", inverse: "devices") }
        }
        let new = ManagedObjectModel {
            Entity("User") {
                Attribute("identifier", .string)
                Attribute("name", .string)
                ToMany("devices", "Device", inverse: "user").deleteRule(.cascade)
                Unique("identifier")
            }
            Entity("Device") { ToOne("user", "User", inverse: "devices") }
        }
        try await withMigration(.sqlite) { program in
            try await program.run(old) { context in
                for name in ["first", "second", "third"] {
                    let user = try context.add("User", ["identifier": "x", "name": name])
                    try context.add("Device", ["user": user])
                }
                try context.add("User", ["name": "nobody"])
                try context.add("User", ["name": "nobody else"])
                try context.save()
            }
            let error = try await program.refused(new)
            #expect(error.message.contains("User"))
            #expect(error.message.contains("identifier"))

            struct Failure: Error {}
            let failing = StagedMigration([
                .custom("remove", from: old, to: new, willMigrate: { _ in throw Failure() })
            ])
            #expect(throws: Failure.self) { try failing.migrateStore(at: program.url.path) }
            try await program.run(old, migration: nil) { context in
                let users = try context.sorted("User", by: "name")
                #expect(users.count == 5)
            }
            let staged = StagedMigration([
                .custom(
                    "remove", from: old, to: new,
                    willMigrate: { store in
                        var found = FetchRequest("User")
                        found.predicate = try QueryPredicate(
                            format: "identifier == 'x' AND name != 'first'")
                        _ = try store.delete(BatchDeleteRequest(fetchRequest: found))
                    })
            ])
            try staged.migrateStore(at: program.url.path)
            try await program.run(new, migration: nil) { context in
                let users = try context.sorted("User", by: "name")
                #expect(
                    users.map { $0["name"] as? String } == ["first", "nobody", "nobody else"])
                #expect(try context.count(for: FetchRequest("Device")) == 1)
                try context.add("User", ["identifier": "x"])
                #expect(throws: QuireError.self) { try context.save() }
            }
        }
    }

    // The same without stages, on every type of store; and duplicates that come with the migration itself: all objects get the
    // same default value of a new unique attribute.
    // realm/realm-java#5630, realm/realm-java#2312
    @Test(arguments: SituationStore.files)
    func aNewUniqueAttributeWithOneDefaultForAllIsRefused(_ store: SituationStore) async throws {
        func model(_ parts: [EntityBuilder.Part]) -> ManagedObjectModel {
            ManagedObjectModel {
                Entity("Info") {
                    Attribute("name", .string)
                    parts
                }
            }
        }
        try await withMigration(store) { program in
            let old = model([])
            try await program.run(old) { context in
                try context.add("Info", ["name": "a"])
                try context.add("Info", ["name": "b"])
                try context.save()
            }
            let key = EntityBuilder.buildExpression(
                Attribute("key", .string).required().default("none"))
            let unique = EntityBuilder.buildExpression(Unique("key"))
            let error = try await program.refused(model(key + unique))
            #expect(error.message.contains("Info"))
            #expect(error.message.contains("key"))
            // Without a default value nothing is equal.
            let optional = EntityBuilder.buildExpression(Attribute("key", .string))
            try await program.run(model(optional + unique)) { context in
                for info in try context.sorted("Info", by: "name") { info["key"] = info["name"] }
                try context.save()
            }
            try await program.run(model(key + unique)) { context in
                let infos = try context.sorted("Info", by: "key")
                #expect(infos.map { $0["key"] as? String } == ["a", "b"])
            }
        }
    }

    // A derived attribute that was added by a new version was nil in old objects until each was saved again; one whose
    // expression changed kept its old values.
    // avanderlee.com “Derived Attributes to improve Core Data Fetch Performance”; WWDC 2019, session 230
    @Test(arguments: SituationStore.files)
    func derivedAttributesAreRightAtOnceInOldObjects(_ store: SituationStore) async throws {
        func model(
            _ text: String, _ total: String, _ source: Attribute
        ) -> ManagedObjectModel {
            ManagedObjectModel {
                Entity("Order") {
                    Attribute("name", .string)
                    Attribute("search", .string).derived(text)
                    Attribute("total", .double).derived(total)
                    ToMany("items", "Item", inverse: "order")
                }
                Entity("Item") {
                    source
                    Attribute("weight", .double).default(1)
                    ToOne("order", "Order", inverse: "items")
                }
            }
        }
        let old = ManagedObjectModel {
            Entity("Order") {
                Attribute("name", .string)
                ToMany("items", "Item", inverse: "order")
            }
            Entity("Item") {
                Attribute("price", .double)
                ToOne("order", "Order", inverse: "items")
            }
        }
        try await withMigration(store) { program in
            try await program.run(old) { context in
                let order = try context.add("Order", ["name": "Évora"])
                try context.add("Item", ["price": 2.5, "order": order])
                try context.add("Item", ["price": 4.0, "order": order])
                try context.add("Order", ["name": "empty"])
                try context.save()
            }
            let cost = Attribute("cost", .double).renamed(from: "price")
            try await program.run(
                model("canonical:(name)", "items.cost.@sum", cost)
            ) { context in
                let order = try context.one("Order", "search == 'evora' AND total == 6.5")
                #expect(order["name"] as? String == "Évora")
                let empty = try context.one("Order", "total == 0")
                #expect(empty["search"] as? String == "empty")
            }
            try await program.run(
                model("uppercase:(name)", "items.weight.@sum", Attribute("cost", .double))
            ) { context in
                let order = try context.one("Order", "search == 'ÉVORA' AND total == 2")
                try context.add("Item", ["weight": 5.0, "order": order])
                try context.save()
                #expect(order["total"] as? Double == 7)
            }
            // Derived no longer: the values stay, and can be set.
            try await program.run(
                ManagedObjectModel {
                    Entity("Order") {
                        Attribute("name", .string)
                        Attribute("search", .string)
                        Attribute("total", .double)
                        ToMany("items", "Item", inverse: "order")
                    }
                    Entity("Item") {
                        Attribute("cost", .double)
                        Attribute("weight", .double).default(1)
                        ToOne("order", "Order", inverse: "items")
                    }
                }
            ) { context in
                let order = try context.one("Order", "search == 'ÉVORA' AND total == 7")
                order["total"] = 1.5
                try context.add("Item", ["weight": 5.0, "order": order])
                try context.save()
                #expect(order["total"] as? Double == 1.5)
            }
        }
    }

    // A composite attribute gains, loses and renames elements; another version makes it of single attributes.
    // WWDC 2023, session 10186 “What's new in Core Data”; groue/GRDB.swift#626
    @Test(arguments: SituationStore.files)
    func elementsOfACompositeAttributeChange(_ store: SituationStore) async throws {
        func model(
            _ name: String, from old: String? = nil, _ elements: [AttributeDescription]
        ) -> ManagedObjectModel {
            let place = CompositeDescription(name: "Place", elements: elements)
            var model = ManagedObjectModel {
                Entity("Shop") {
                    Attribute("key", .string)
                    old.map { Attribute(name, composite: "Place").renamed(from: $0) }
                        ?? Attribute(name, composite: "Place")
                }
            }
            model.composites = [place]
            return model
        }
        let street = Attribute("street", .string)
        try await withMigration(store) { program in
            let old = model(
                "place", [street.description, Attribute("number", .integer16).description])
            try await program.run(old) { context in
                let shop = try context.add("Shop", ["key": "a"])
                try shop.setValue(
                    AttributeValue.composite(["street": "Main", "number": 5]), forKey: "place")
                try context.add("Shop", ["key": "b"])
                try context.save()
            }
            let new = model(
                "site", from: "place",
                [
                    Attribute("road", .string).renamed(from: "street").description,
                    Attribute("number", .integer32).description,
                    Attribute("city", .string).default("Paris").description,
                ])
            try await program.run(new) { context in
                let shop = try context.one("Shop", "site.road == 'Main' AND site.number == 5")
                #expect(shop["key"] as? String == "a")
                #expect(try shop.value(forKeyPath: "site.road") as? String == "Main")
                shop["key"] = "c"
                try context.save()
                let other = try context.one("Shop", "key == 'b'")
                #expect(other["key"] as? String == "b")
            }
            // Less than there is.
            let smaller = model("site", [Attribute("number", .integer32).description])
            let error = try await program.refused(smaller)
            #expect(error.code == .removalDenied)
            #expect(error.message.contains("site.road"))
            var options = StoreMigrationOptions()
            options.allowsRemoval = true
            try await program.run(smaller, migration: options) { context in
                let shop = try context.one("Shop", "site.number == 5")
                #expect(shop["key"] as? String == "c")
            }
        }
    }
}
