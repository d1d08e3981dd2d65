import Foundation
import Quire
import Testing

/// Things that belong to one owner, or to each other: moved, stolen, chained and swapped.
@MainActor @Suite struct OwnershipSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Person") {
            Attribute("name", .string)
            ToOne("spouse", "Person", inverse: "spouse")
            ToMany("friends", "Person", inverse: "friends")
            ToMany("follows", "Person", inverse: "followers")
            ToMany("followers", "Person", inverse: "follows")
            ToMany("orders", "Order", inverse: "customer")
            ToOne("passport", "Passport", inverse: "person")
        }
        Entity("Order") {
            Attribute("name", .string)
            ToOne("customer", "Person", inverse: "orders").required()
            ToOne("item", "Item", inverse: "orders")
        }
        Entity("Item") {
            Attribute("name", .string)
            ToMany("orders", "Order", inverse: "item")
        }
        Entity("Passport") {
            Attribute("name", .string)
            ToOne("person", "Person", inverse: "passport").required()
        }
        Entity("Film") {
            Attribute("name", .string)
            ToOne("sequel", "Film", inverse: "prequel")
            ToOne("prequel", "Film", inverse: "sequel")
        }
        Entity("Folder") {
            Attribute("name", .string)
            ToOne("parent", "Folder", inverse: "children")
            ToMany("children", "Folder", inverse: "parent").deleteRule(.cascade)
        }
    }

    private func isFriend(_ a: String, _ b: String, _ context: ManagedObjectContext) throws -> Bool
    {
        try context.findNamed("Person", a).objects("friends").contains {
            $0["name"] as? String == b
        }
    }

    /// “friends” is its own inverse: whoever is added on one side has it on the other, also after a restart, also oneself.
    /// Source: encrypted-core-data #227 “Self referencing a table don't work” (a comment: User.friends), #155 “Better
    /// support for reflexiv ManyToMany Relationships”.
    @Test(arguments: SituationStore.files)
    func friendsAreFriendsOfEachOther(store: SituationStore) async throws {
        try await withProgramFolder { folder in
            var container = try await store.container(Self.model, in: folder)
            var context = container.viewContext
            @MainActor func restart() async throws {
                try context.save()
                try container.close()
                container = try await store.container(Self.model, in: folder)
                context = container.viewContext
            }
            let people = try ["a", "b", "c", "d"].map { try context.insertNamed("Person", $0) }
            people[0]["friends"] = Set([people[1], people[2], people[0]])
            people[3].add(people[1], to: "friends")
            try await restart()
            for (name, friends) in [("a", "abc"), ("b", "ad"), ("c", "a"), ("d", "b")] {
                #expect(try context.findNamed("Person", name).memberNames("friends") == friends)
                #expect(try context.foundNames("Person", "ANY friends.name == %@", name) == friends)
            }
            #expect(try context.foundNames("Person", "friends.@count == 2") == "b")
            // From the other side than they were added, without reading either.
            let b = try context.findNamed("Person", "b")
            b.remove(try context.findNamed("Person", "a"), from: "friends")
            let a = try context.findNamed("Person", "a")
            a.remove(a, from: "friends")
            #expect(a.memberNames("friends") == "c")
            try await restart()
            #expect(try context.findNamed("Person", "a").memberNames("friends") == "c")
            #expect(try context.findNamed("Person", "b").memberNames("friends") == "d")
            context.delete(try context.findNamed("Person", "b"))
            try await restart()
            #expect(try context.findNamed("Person", "d").objects("friends").isEmpty)
            try container.close()
        }
    }

    /// Two many-to-many relationships of one entity are each other’s inverse: directions are not confused.
    /// Source: encrypted-core-data #265 “Handle self-referential asymmetric many-to-many relationships”.
    @Test(arguments: SituationStore.allCases)
    func followersAndFollowedAreNotConfused(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let people = try ["a", "b", "c"].map { try context.insertNamed("Person", $0) }
            people[0]["follows"] = Set([people[1], people[2]])
            people[1]["followers"] = Set([people[0], people[2]])
            people[2].add(people[2], to: "follows")
            for isSaved in [false, true] {
                if isSaved {
                    try context.save()
                    context.reset()
                }
                #expect(try context.findNamed("Person", "a").memberNames("follows") == "bc")
                #expect(try context.findNamed("Person", "a").memberNames("followers") == "")
                #expect(try context.findNamed("Person", "b").memberNames("followers") == "ac")
                #expect(try context.findNamed("Person", "c").memberNames("follows") == "bc")
                #expect(try context.findNamed("Person", "c").memberNames("followers") == "ac")
                #expect(try context.foundNames("Person", "follows.@count == 0") == "b")
                #expect(try context.foundNames("Person", "ANY followers.name == 'c'") == "bc")
                #expect(
                    try context.foundNames(
                        "Person", "SUBQUERY(follows, $p, $p.followers.@count > 1).@count == 2")
                        == "ac")
            }
        }
    }

    /// A child of two parents: after a save and a fetch the second parent was nil when read by key.
    /// Source: swiftlang/swift #88796 “programmatic NSManagedObjectModel: to-one relationship returns nil via KVC”;
    /// encrypted-core-data #220 “One to Many relationship not working/inconsistent”, #4 “One-to-one … do not work”.
    @Test(arguments: SituationStore.files)
    func everyDirectionIsThereAfterARestart(store: SituationStore) async throws {
        try await withProgramFolder { folder in
            let container = try await store.container(Self.model, in: folder)
            let context = container.viewContext
            let person = try context.insertNamed("Person", "p")
            let item = try context.insertNamed("Item", "i")
            _ = try context.insertNamed("Order", "o", ["customer": person, "item": item])
            item.add(try context.insertNamed("Order", "o2", ["customer": person]), to: "orders")
            person["passport"] = try context.insertNamed("Passport", "n")
            try context.save()
            try container.close()

            let next = try await store.container(Self.model, in: folder)
            let order = try next.viewContext.findNamed("Order", "o")
            #expect(try order.value(forKeyPath: "customer.name") as? String == "p")
            #expect(try order.value(forKeyPath: "item.name") as? String == "i")
            #expect(try order.value(forKeyPath: "customer.passport.person.name") as? String == "p")
            let passport = try next.viewContext.findNamed("Passport", "n")
            #expect(passport.object("person")?.memberNames("orders") == "oo2")
            #expect(order.object("item")?.memberNames("orders") == "oo2")
            try next.close()
        }
    }

    /// The inverse of a required relationship was to-one by mistake: the second passport takes the person from the first,
    /// and the save fails for the first, which nobody touched.
    /// Source: mcohen.me “Core Data validation error” (?p=6584).
    @Test(arguments: SituationStore.allCases, [false, true])
    func aStolenPartnerIsNamedByTheSave(store: SituationStore, isRead: Bool) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let person = try context.insertNamed("Person", "p")
            let first = try context.insertNamed("Passport", "1", ["person": person])
            try context.save()
            let id = first.objectID
            context.reset()
            let again = try context.findNamed("Person", "p")
            if isRead { #expect(again.destinationName("passport") == "1") }
            let second = try context.insertNamed("Passport", "2", ["person": again])
            #expect(again.object("passport") === second)
            let error = try #require(#expect(throws: QuireError.self) { try context.save() })
            #expect(error.code == .validation && error.subject.property == "person")
            #expect(error.subject.object == id.uriRepresentation)
            #expect(try context.foundNames("Passport", "person == nil") == "1")
            second["person"] = nil
            context.delete(second)
            again["passport"] = context.object(with: id)
            try context.save()
            context.reset()
            #expect(try context.findNamed("Person", "p").destinationName("passport") == "1")
        }
    }

    /// Two people exchange their (required, unique) passports, and two couples their partners, in one save.
    /// Source: mikro-orm #7439 (replacing the partner of a one-to-one relationship whose inverse is set already).
    @Test(arguments: SituationStore.allCases)
    func partnersAreExchangedInOneSave(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            for name in ["a", "b", "c", "d"] {
                _ = try context.insertNamed(
                    "Person", name, ["passport": try context.insertNamed("Passport", name)])
            }
            let person = try ["a", "b", "c", "d"].map { try context.findNamed("Person", $0) }
            person[0]["spouse"] = person[1]
            person[3]["spouse"] = person[2]
            try context.save()
            context.refreshAllObjects()

            person[0]["spouse"] = person[2]
            #expect(person[1].object("spouse") == nil && person[3].object("spouse") == nil)
            person[1]["spouse"] = person[3]
            let own = try #require(person[0].object("passport"))
            person[0]["passport"] = person[1].object("passport")
            person[1]["passport"] = own
            try context.save()
            context.reset()
            for (name, spouse, passport) in [
                ("a", "c", "b"), ("b", "d", "a"), ("c", "a", "c"), ("d", "b", "d"),
            ] {
                let person = try context.findNamed("Person", name)
                #expect(person.destinationName("spouse") == spouse)
                #expect(person.destinationName("passport") == passport)
                #expect(try context.foundNames("Person", "spouse.name == %@", name) == spouse)
                #expect(try context.foundNames("Passport", "person.name == %@", name) == passport)
            }
        }
    }

    /// A film is put between two others of a chain of sequels, from either end; then the middle is deleted.
    /// Source: Core Data Programming Guide, “Creating Managed Object Relationships” (reflexive relationships).
    @Test(arguments: SituationStore.allCases, ["sequel", "prequel"])
    func aChainOfSequelsIsOpenedAndClosed(store: SituationStore, side: String) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            func chain() throws -> String {
                var film = try context.fetch(
                    FetchRequest<ManagedObject>(
                        "Film",
                        predicate: try QueryPredicate(format: "prequel == nil AND sequel != nil"))
                ).first
                var names = ""
                while let each = film, names.count < 9 {
                    names += each["name"] as? String ?? "-"
                    #expect(each.object("sequel").map { $0.object("prequel") === each } ?? true)
                    film = each.object("sequel")
                }
                return names
            }
            let films = try ["1", "3", "2"].map { try context.insertNamed("Film", $0) }
            films[0]["sequel"] = films[1]
            try context.save()
            context.refreshAllObjects()
            if side == "sequel" {
                films[0]["sequel"] = films[2]
                films[2]["sequel"] = films[1]
            } else {
                films[1]["prequel"] = films[2]
                films[2]["prequel"] = films[0]
            }
            #expect(try chain() == "123")
            try context.save()
            context.refreshAllObjects()
            #expect(try chain() == "123")
            // Out of the middle, and the neighbours meet.
            films[2].object("prequel")?["sequel"] = films[2].object("sequel")
            #expect(films[2].object("prequel") == nil && films[2].object("sequel") == nil)
            context.delete(films[2])
            #expect(try chain() == "13")
            try context.save()
            context.reset()
            #expect(try chain() == "13")
        }
    }

    /// A folder is dragged into its own subfolder; the circle is cut off from the root, and deleting any folder of it ends.
    /// Source: Stack Overflow 79082293 “One-to-Many circular reference deletion has unexpected side-effects” (SwiftData).
    @Test(arguments: SituationStore.allCases)
    func aFolderInItsOwnSubfolderIsACircleThatCanBeDeleted(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            context.undoManager = UndoManager()
            let root = try context.insertNamed("Folder", "r")
            let a = try context.insertNamed("Folder", "a", ["parent": root])
            let b = try context.insertNamed("Folder", "b", ["parent": a])
            let c = try context.insertNamed("Folder", "c")
            c["parent"] = b
            try context.save()
            // Deleting a leaf leaves its parents; deleting the middle takes its children only.
            context.delete(c)
            #expect(!b.isDeleted && b.objects("children").isEmpty)
            context.processPendingChanges()
            context.undo()
            #expect(b.memberNames("children") == "c")
            a["parent"] = c
            #expect(root.objects("children").isEmpty)
            try context.save()
            context.refreshAllObjects()
            #expect(try context.foundNames("Folder", "parent.parent.parent == SELF") == "abc")
            context.delete(b)
            context.processPendingChanges()
            #expect(try context.foundNames("Folder") == "r")
            try context.save()
            context.undo()
            #expect(try context.foundNames("Folder", "parent.parent.parent.name == name") == "abc")
            try context.save()
            context.reset()
            #expect(try context.foundNames("Folder") == "abcr")
            #expect(try context.findNamed("Folder", "c").memberNames("children") == "a")
        }
    }
}
