import Foundation
import Quire
import QuireMigration
import QuireRescue
import QuireTestSupport
import Testing

@testable import QuireSync

/// Versions of the model on replicas of one document: nothing is lost, or there twice, when one machine after another is updated.
@MainActor @Suite struct SyncMigrationTests {
    private static let old = makeModel(isNew: false)

    private static func makeModel(isNew: Bool) -> ManagedObjectModel {
        ManagedObjectModel {
            Entity("Writer") {
                Attribute("name", .string)
                if isNew {
                    Attribute("surname", .string)
                    Attribute("kind", .string).required().default("person")
                }
                ToMany("works", "Work", inverse: "writer").ordered()
                ToMany("friends", "Writer", inverse: "friends")
            }
            Entity("Work") {
                Attribute("title", .string)
                ToOne("writer", "Writer", inverse: "works")
                Unique("title")
            }
        }
    }

    /// Every entity and property has another name.
    private static let renamed = ManagedObjectModel {
        Entity("Author") {
            Attribute("fullName", .string).renamed(from: "name")
            ToMany("books", "Book", inverse: "author").ordered().renamed(from: "works")
            ToMany("acquaintances", "Author", inverse: "acquaintances").renamed(from: "friends")
        }.renamed(from: "Writer")
        Entity("Book") {
            Attribute("name", .string).renamed(from: "title")
            ToOne("author", "Author", inverse: "books").renamed(from: "writer")
            Unique("name")
        }.renamed(from: "Work")
    }

    private func makeSites(_ model: ManagedObjectModel = old) async throws -> SyncSites {
        let sites = try SyncSites(2, model: model)
        let context = sites.sites[0].context
        let writer = try context.insertObject(entityName: "Writer")
        writer["name"] = "Jane Austen"
        for title in ["Persuasion", "Emma"] {
            let work = try context.insertObject(entityName: "Work")
            work["title"] = title
            work["writer"] = writer
        }
        let friend = try context.insertObject(entityName: "Writer")
        friend["name"] = "Anne Sharp"
        try friend.mutableSetValue(forKey: "friends").add(writer)
        try context.save()
        try await sites.begin()
        return sites
    }

    private func object(
        _ entity: String, _ key: String, _ value: String, _ site: SyncSite
    ) throws -> ManagedObject {
        try #require(try site.objects(entity).first { $0[key, as: String.self] == value })
    }

    private func values(_ entity: String, _ key: String, _ site: SyncSite) throws -> [String] {
        site.context.refreshAllObjects()
        return try site.objects(entity).map { $0[key, as: String.self] ?? "none" }.sorted()
    }

    @Test func whatIsRenamedIsTheSameOnAllMachines() async throws {
        var sites = try await makeSites()
        let (first, second) = (sites.sites[0], sites.sites[1])
        try first.reopen(model: Self.renamed)
        try await sites.exchange()
        #expect(try values("Author", "fullName", first) == ["Anne Sharp", "Jane Austen"])
        // Each has another version, and sees what the other changes.
        try object("Book", "name", "Emma", first)["name"] = "Emma Woodhouse"
        try first.context.insertObject(entityName: "Book")["name"] = "Sanditon"
        try first.context.save()
        try object("Work", "title", "Persuasion", second)["title"] = "The Elliots"
        try second.context.save()
        try await sites.exchange()
        let titles = ["Emma Woodhouse", "Sanditon", "The Elliots"]
        #expect(try values("Book", "name", first) == titles)
        #expect(try values("Work", "title", second) == titles)

        try second.reopen(model: Self.renamed)
        sites = sites.with(model: Self.renamed)
        try await sites.addSite().sync.join()
        try await sites.exchange()
        for site in sites.sites {
            #expect(try site.rows() == first.rows())
            let author = try object("Author", "fullName", "Jane Austen", site)
            let books = author["books", as: [ManagedObject].self]
            #expect(
                books.map { $0["name", as: String.self] } == ["The Elliots", "Emma Woodhouse"])
            #expect(author["acquaintances", as: Set<ManagedObject>.self].count == 1)
        }
        #expect(try await first.sync.conflicts().isEmpty)
        try sites.close()
    }

    /// Divides names into two.
    private final class NamePolicy: EntityMigrationPolicy {
        override func createDestinationObjects(
            for source: MigrationSource, mapping: EntityMapping, session: MigrationSession
        ) throws {
            // Another version of this has run elsewhere.
            guard case .string(let name) = try source["name"] else { return }
            let words = name.split(separator: " ").map(String.init)
            let writer = try session.makeObject(for: source, mapping: mapping)
            try writer.setValue(.string(words[0]), for: "name")
            if words.count > 1 { try writer.setValue(.string(words[1]), for: "surname") }
        }
    }

    @Test func whatAMigrationComputesIsKeptAndSent() async throws {
        let sites = try await makeSites()
        let (first, second) = (sites.sites[0], sites.sites[1])
        let new = Self.makeModel(isNew: true)
        func update(_ site: SyncSite) throws {
            var mapping = try MappingModel.inferred(from: Self.old, to: new)
            mapping["Writer"]?.entityMigrationPolicyName = "NamePolicy"
            let manager = MigrationManager(mappingModel: mapping)
            manager.policies = ["NamePolicy": { NamePolicy() }]
            try site.close()
            try SQLiteStore.migrate(at: site.path, to: new, manager: manager)
            try site.reopen(model: new)
        }
        // Not sent when the program is updated.
        try object("Writer", "name", "Anne Sharp", first)["name"] = "Anne Sharpe"
        try first.context.save()
        try update(first)
        try await sites.exchange()
        #expect(try values("Writer", "name", second) == ["Anne", "Jane"])
        #expect(try values("Writer", "surname", first) == ["Austen", "Sharpe"])
        #expect(try values("Writer", "kind", first) == ["person", "person"])
        try object("Writer", "name", "Jane", first)["kind"] = "novelist"
        try first.context.save()
        try await sites.exchange()
        try update(second)
        try await sites.exchange()
        #expect(try values("Writer", "surname", second) == ["Austen", "Sharpe"])
        #expect(try values("Writer", "kind", second) == ["novelist", "person"])
        #expect(try first.rows() == second.rows())
        #expect(try await first.sync.conflicts().isEmpty)
        try sites.close()
    }

    @Test func constraintsOfANewVersionHoldForWhatWasThere() async throws {
        var sites = try await makeSites()
        var new = Self.old
        new.entities[0].uniquenessConstraints = [["name"]]
        let second = sites.sites[1]
        try second.context.insertObject(entityName: "Writer")["name"] = "Jane Austen"
        try second.context.save()
        try sites.sites[0].reopen(model: new)
        try await sites.exchange()
        #expect(try values("Writer", "name", sites.sites[0]) == ["Anne Sharp", "Jane Austen"])
        sites = sites.with(model: new)
        try await sites.addSite().sync.join()
        try await sites.exchange()
        #expect(try sites.sites[2].rows() == sites.sites[0].rows())
        try sites.close()
    }

    /// Two entities that get one superentity are in one table then, so that objects of one of them get other primary keys.
    @Test func objectsThatMoveToAnotherTableAreTheSame() async throws {
        let old = ManagedObjectModel {
            Entity("Author") { Attribute("name", .string) }
            Entity("Editor") { Attribute("name", .string) }
        }
        let new = ManagedObjectModel {
            Entity("Person") { Attribute("name", .string) }.abstract()
            Entity("Author", inherits: "Person")
            Entity("Editor", inherits: "Person")
        }
        var sites = try SyncSites(2, model: old)
        for number in 0..<3 {
            let context = sites.sites[0].context
            try context.insertObject(entityName: "Author")["name"] = "Author \(number)"
            try context.insertObject(entityName: "Editor")["name"] = "Editor \(number)"
            try context.save()
        }
        try await sites.begin()
        sites.sites[1].context.delete(try object("Author", "name", "Author 1", sites.sites[1]))
        try sites.sites[1].context.save()
        try sites.sites[0].reopen(model: new)
        try await sites.exchange()
        #expect(try values("Author", "name", sites.sites[0]) == ["Author 0", "Author 2"])
        #expect(try values("Editor", "name", sites.sites[0]).count == 3)
        try sites.sites[1].reopen(model: new)
        try object("Editor", "name", "Editor 2", sites.sites[1])["name"] = "Editor 3"
        try sites.sites[1].context.save()
        sites = sites.with(model: new)
        try await sites.addSite().sync.join()
        try await sites.exchange()
        for site in sites.sites {
            #expect(try values("Author", "name", site) == ["Author 0", "Author 2"])
            #expect(try values("Editor", "name", site) == ["Editor 0", "Editor 1", "Editor 3"])
            #expect(try site.rows() == sites.sites[0].rows())
        }
        try sites.close()
    }

    /// The identifiers that were forgotten in the next version, and that of which only the last name was kept.
    @Test(arguments: [nil, "Author"])
    func aNameThatIsLostIsAnErrorAndIsMended(_ identifier: String?) async throws {
        var sites = try await makeSites()
        let first = sites.sites[0]
        try first.reopen(model: Self.renamed)
        try await sites.exchange()
        func version(_ identifier: String?) -> ManagedObjectModel {
            ManagedObjectModel {
                Entity(identifier == nil ? "Author" : "Person") {
                    Attribute("fullName", .string).renamed(from: "name")
                    ToMany(
                        "acquaintances", identifier == nil ? "Author" : "Person",
                        inverse: "acquaintances"
                    ).renamed(from: "friends")
                }.renamed(from: identifier ?? "Author")
                Entity("Book") { Attribute("name", .string).renamed(from: "title") }
                    .renamed(from: "Work")
            }
        }
        var options = StoreMigrationOptions()
        options.allowsRemoval = true
        try first.reopen(model: version(identifier), migration: options)
        try first.context.insertObject(entityName: "Book")["name"] = "Sanditon"
        try first.context.save()
        let error = await #expect(throws: QuireError.self) { try await first.sync.synchronize() }
        #expect(error?.code == .invalidModel)
        #expect(error?.message.contains("renaming identifier “Writer”") ?? false)
        var mended = version(identifier)
        for index in mended.entities.indices where mended.entities[index].name != "Book" {
            mended.entities[index].renamingIdentifier = "Writer"
        }
        options.versions = [:]
        try first.reopen(model: mended, migration: options)
        sites = sites.with(model: mended)
        try await sites.addSite().sync.join()
        try await sites.exchange()
        #expect(try values("Work", "title", sites.sites[1]) == ["Emma", "Persuasion", "Sanditon"])
        #expect(try sites.sites[2].rows() == first.rows())
        try sites.close()
    }

    @Test func twoEntitiesOrPropertiesOfOneNameAreAnError() throws {
        let models = [
            ManagedObjectModel {
                Entity("Author") { Attribute("name", .string) }.renamed(from: "Writer")
                Entity("Writer") { Attribute("name", .string) }
            },
            ManagedObjectModel {
                Entity("Author") {
                    Attribute("name", .string)
                    Attribute("fullName", .string).renamed(from: "name")
                }
            },
        ]
        for model in models {
            let error = #expect(throws: QuireError.self) { try SyncSites(1, model: model) }
            #expect(error?.code == .invalidModel)
            #expect(error?.message.contains("its own renaming identifier") ?? false)
        }
    }

    // MARK: - Stricter versions

    /// The second machine has a version that requires a title, and short texts.
    private func makeSitesOfTwoVersions() async throws -> SyncSites {
        func model(isStrict: Bool) -> ManagedObjectModel {
            ManagedObjectModel {
                Entity("Note") {
                    if isStrict {
                        Attribute("title", .string).required()
                        Attribute("text", .string).length(atMost: 5)
                    } else {
                        Attribute("title", .string)
                        Attribute("text", .string)
                    }
                }
            }
        }
        var sites = try SyncSites(1, model: model(isStrict: false))
        try await sites.begin()
        try await sites.addSite(model: model(isStrict: true)).sync.join()
        return sites
    }

    private func insertNote(_ title: String?, _ text: String, on site: SyncSite) throws {
        let note = try site.context.insertObject(entityName: "Note")
        (note["title"], note["text"]) = (title, text)
        try site.context.save()
    }

    @Test func anObjectWithoutAValueIsHiddenWhereThatIsRequired() async throws {
        let sites = try await makeSitesOfTwoVersions()
        let second = sites.sites[1]
        try insertNote(nil, "abc", on: sites.sites[0])
        try await sites.exchange()
        #expect(try second.objects("Note").isEmpty)
        #expect(try StoreCheck.run(second.store).isWhole)
        #expect(try await second.sync.checkInvariants() == [])
        let conflict = try #require(try await second.sync.conflicts().first)
        #expect(conflict.kind == .hidden)
        #expect(conflict.propertyName == "title")
        await #expect(throws: QuireError.self) { try await second.sync.choose(conflict) }
        try await second.sync.show(conflict, setting: ["title": .string("Emma")])
        try await sites.exchange()
        for site in sites.sites {
            site.context.refreshAllObjects()
            #expect(
                try site.objects("Note").map { $0["title", as: String.self] } == ["Emma"])
            #expect(try await site.sync.conflicts().isEmpty)
        }
        try sites.close()
    }

    @Test func aValueThatBreaksARuleOfAStricterVersionIsShown() async throws {
        let sites = try await makeSitesOfTwoVersions()
        let second = sites.sites[1]
        try insertNote("a", "too long", on: sites.sites[0])
        try await sites.exchange()
        let note = try #require(try second.objects("Note").first)
        #expect(note["text", as: String.self] == "too long")
        #expect(try StoreCheck.run(second.store).problems.map(\.kind) == [.validation])
        note["title"] = "b"
        try second.context.save()
        note["text"] = "longer still"
        #expect(throws: QuireError.self) { try second.context.save() }
        note["text"] = "short"
        try second.context.save()
        try await sites.exchange()
        for site in sites.sites {
            site.context.refreshAllObjects()
            #expect(
                try site.objects("Note").map { $0["text", as: String.self] } == ["short"])
        }
        try sites.close()
    }
}
