import Foundation
import Quire
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

/// One document on several machines: what is saved on one is on the others, property by property.
@MainActor @Suite struct SyncTests {
    static let model = makeModel(isNew: false)

    /// - Parameter isNew: Whether it is that of a later version.
    static func makeModel(isNew: Bool) -> ManagedObjectModel {
        ManagedObjectModel {
            Entity("Author") {
                Attribute("name", .string)
                if isNew {
                    Attribute("birthYear", .integer16).renamed(from: "born")
                } else {
                    Attribute("born", .integer16)
                }
                ToMany("books", "Book", inverse: "author").deleteRule(.cascade)
                ToOne("profile", "Profile", inverse: "author").deleteRule(.cascade)
                ToOne("partner", "Author", inverse: "partner")
                if isNew { ToMany("awards", "Award", inverse: "author") }
            }
            Entity("Profile") {
                Attribute("text", .string)
                ToOne("author", "Author", inverse: "profile")
            }
            Entity("Book") {
                Attribute("title", .string)
                Attribute("price", .decimal)
                Attribute("cover", .binary).externalStorage()
                Attribute("reads", .integer32).userInfo(["syncPolicy": "counter"])
                Attribute("notes", .string).userInfo(["syncPolicy": "text"])
                if isNew { Attribute("pages", .integer32) }
                ToOne("author", "Author", inverse: "books")
                if isNew {
                    ToMany("labels", "Tag", inverse: "books").renamed(from: "tags")
                } else {
                    ToMany("tags", "Tag", inverse: "books")
                }
                ToMany("chapters", "Chapter", inverse: "book").ordered().deleteRule(.cascade)
            }
            Entity("Chapter") {
                Attribute("title", .string)
                ToOne("book", "Book", inverse: "chapters").required()
            }
            Entity("Named") {
                Attribute("name", .string)
                Unique("name")
            }.abstract()
            Entity("Tag", inherits: "Named") {
                ToMany("books", "Book", inverse: isNew ? "labels" : "tags")
            }
            Entity("Place", inherits: "Named") {}
            if isNew {
                Entity("Award") {
                    Attribute("name", .string)
                    ToOne("author", "Author", inverse: "awards")
                }
            }
        }
    }

    @Test func whatIsSavedOnOneMachineIsOnTheOthers() async throws {
        let sites = try SyncSites(2, model: Self.model)
        let first = sites.sites[0].context
        let author = try first.insertObject(entityName: "Author")
        author["name"] = "Jane Austen"
        let book = try first.insertObject(entityName: "Book")
        book["title"] = "Emma"
        book["price"] = Decimal(string: "12.50")
        book["author"] = author
        book["cover"] = Data(repeating: 7, count: 300_000)
        for name in ["novel", "1815"] {
            let tag = try first.insertObject(entityName: "Tag")
            tag["name"] = name
            try tag.mutableSetValue(forKey: "books").add(book)
        }
        var chapters: [ManagedObject] = []
        for number in 1...3 {
            let chapter = try first.insertObject(entityName: "Chapter")
            chapter["title"] = "Chapter \(number)"
            chapter["book"] = book
            chapters.append(chapter)
        }
        book["chapters"] = [chapters[2], chapters[0], chapters[1]]
        let profile = try first.insertObject(entityName: "Profile")
        profile["text"] = "1775"
        profile["author"] = author
        try first.save()
        try await sites.begin()
        try await sites.expectSame()

        let other = try #require(try sites.sites[1].objects("Book").first)
        #expect(other["title", as: String.self] == "Emma")
        #expect(other["price", as: Decimal.self] == Decimal(string: "12.50"))
        #expect(other["cover", as: Data.self] == Data(repeating: 7, count: 300_000))
        #expect(other["author", as: ManagedObject.self]?["name", as: String.self] == "Jane Austen")
        #expect(
            other["chapters", as: [ManagedObject].self].map { $0["title", as: String.self] }
                == ["Chapter 3", "Chapter 1", "Chapter 2"])
        #expect(
            other["tags", as: Set<ManagedObject>.self].compactMap { $0["name", as: String.self] }
                .sorted() == ["1815", "novel"])

        // Edits on both sides of one object.
        book["title"] = "Emma, a novel"
        try first.save()
        other["price"] = Decimal(3)
        let moved = other["chapters", as: [ManagedObject].self]
        other["chapters"] = [moved[1], moved[2], moved[0]]
        try sites.sites[1].context.save()
        try await sites.exchange()
        try await sites.expectSame()
        #expect(other["title", as: String.self] == "Emma, a novel")
        #expect(book["price", as: Decimal.self] == Decimal(3))
        #expect(
            book["chapters", as: [ManagedObject].self].map { $0["title", as: String.self] }
                == ["Chapter 1", "Chapter 2", "Chapter 3"])
        #expect(try await sites.sites[0].sync.conflicts().isEmpty)

        first.delete(author)
        try first.save()
        try await sites.exchange()
        try await sites.expectSame()
        #expect(try sites.sites[1].objects("Book").isEmpty)
        #expect(try sites.sites[1].objects("Chapter").isEmpty)
        #expect(try sites.sites[1].objects("Tag").count == 2)
        try sites.close()
    }

    @Test func ofTwoValuesTheLaterOneStaysAndTheOtherIsListed() async throws {
        let sites = try SyncSites(2, model: Self.model)
        let (first, second) = (sites.sites[0], sites.sites[1])
        let author = try first.context.insertObject(entityName: "Author")
        author["name"] = "Austen"
        try first.context.save()
        try await sites.begin()
        let other = try #require(try second.objects("Author").first)
        author["name"] = "Jane Austen"
        try first.context.save()
        try await first.sync.synchronize()
        other["name"] = "J. Austen"
        try second.context.save()
        try await sites.exchange()
        try await sites.expectSame()
        #expect(author["name", as: String.self] == "J. Austen")
        for site in sites.sites {
            let conflicts = try await site.sync.conflicts()
            #expect(conflicts.map(\.lost) == [.string("Jane Austen")])
            #expect(conflicts.map(\.kept) == [.string("J. Austen")])
            #expect(conflicts.map(\.propertyName) == ["name"])
        }
        // Choosing the lost value is a change like any other.
        let conflict = try #require(try await first.sync.conflicts().first)
        try await first.sync.choose(conflict)
        try await sites.exchange()
        try await sites.expectSame()
        #expect(other["name", as: String.self] == "Jane Austen")
        for site in sites.sites { #expect(try await site.sync.conflicts().isEmpty) }
        try sites.close()
    }

    @Test func aChangeOfADeletedObjectIsListed() async throws {
        let sites = try SyncSites(2, model: Self.model)
        let (first, second) = (sites.sites[0], sites.sites[1])
        let author = try first.context.insertObject(entityName: "Author")
        author["name"] = "Austen"
        try first.context.save()
        try await sites.begin()
        let other = try #require(try second.objects("Author").first)
        first.context.delete(author)
        try first.context.save()
        other["name"] = "Jane Austen"
        try second.context.save()
        try await sites.exchange()
        try await sites.expectSame()
        for site in sites.sites {
            #expect(try site.objects("Author").isEmpty)
            let conflicts = try await site.sync.conflicts()
            #expect(conflicts.map(\.kind) == [.deletion])
            #expect(conflicts.map(\.lost) == [.string("Jane Austen")])
        }
        try await second.sync.choose(try #require(try await second.sync.conflicts().first))
        try await sites.exchange()
        try await sites.expectSame()
        #expect(try first.objects("Author").map { $0["name", as: String.self] } == ["Jane Austen"])
        try sites.close()
    }

    @Test func objectsWithOneUniqueValueBecomeTheOlderOne() async throws {
        let sites = try SyncSites(2, model: Self.model)
        try await sites.begin()
        for site in sites.sites {
            let tag = try site.context.insertObject(entityName: "Tag")
            tag["name"] = "novel"
            let book = try site.context.insertObject(entityName: "Book")
            book["title"] = "Book \(site.machine)"
            try tag.mutableSetValue(forKey: "books").add(book)
            try site.context.save()
        }
        try await sites.exchange()
        try await sites.expectSame()
        for site in sites.sites {
            let tags = try site.objects("Tag")
            #expect(tags.count == 1)
            #expect(
                tags[0]["books", as: Set<ManagedObject>.self]
                    .compactMap { $0["title", as: String.self] }.sorted() == ["Book 0", "Book 1"])
        }
        // What was deleted is gone on both machines: the other one does not come back.
        let tag = try #require(try sites.sites[1].objects("Tag").first)
        sites.sites[1].context.delete(tag)
        try sites.sites[1].context.save()
        try await sites.exchange()
        try await sites.expectSame()
        #expect(try sites.sites[0].objects("Tag").isEmpty)
        try sites.close()
    }

    /// The objects of one one-to-one relationship are not taken for those of another one.
    @Test func twoRelationshipsBetweenTheSameEntitiesAreApart() async throws {
        let model = ManagedObjectModel {
            Entity("Author") {
                Attribute("name", .string)
                ToOne("profile", "Profile", inverse: "author")
                ToOne("favorite", "Profile", inverse: "admirer")
            }
            Entity("Profile") {
                Attribute("text", .string)
                ToOne("author", "Author", inverse: "profile")
                ToOne("admirer", "Author", inverse: "favorite")
            }
        }
        let sites = try SyncSites(2, model: model)
        let first = sites.sites[0].context
        var authors: [ManagedObject] = []
        var profiles: [ManagedObject] = []
        for number in 0..<2 {
            authors.append(try first.insertObject(entityName: "Author"))
            authors[number]["name"] = "\(number)"
            profiles.append(try first.insertObject(entityName: "Profile"))
            profiles[number]["text"] = "\(number)"
        }
        for number in 0..<2 { authors[number]["profile"] = profiles[number] }
        try first.save()
        try await sites.begin()
        // The later change is of the author that has the other profile.
        authors[0]["favorite"] = profiles[1]
        authors[0]["profile"] = nil
        try first.save()
        try await sites.exchange()
        authors[0]["profile"] = profiles[0]
        try first.save()
        try await sites.exchange()
        try await sites.expectSame()
        for author in try sites.sites[1].objects("Author") {
            #expect(
                author["profile", as: ManagedObject.self]?["text", as: String.self]
                    == author["name", as: String.self])
        }
        try sites.close()
    }

    /// A one-to-one relationship to an object that another one stands for.
    @Test func aRelationshipToADuplicateIsOneToTheObjectThatStays() async throws {
        let model = ManagedObjectModel {
            Entity("Author") {
                Attribute("name", .string)
                ToOne("profile", "Profile", inverse: "author")
            }
            Entity("Profile") {
                Attribute("text", .string)
                ToOne("author", "Author", inverse: "profile")
                Unique("text")
            }
        }
        let sites = try SyncSites(2, model: model)
        try await sites.begin()
        for site in sites.sites {
            let profile = try site.context.insertObject(entityName: "Profile")
            profile["text"] = "one"
            let author = try site.context.insertObject(entityName: "Author")
            author["name"] = "\(site.machine)"
            author["profile"] = profile
            try site.context.save()
        }
        try await sites.exchange()
        try await sites.expectSame()
        for site in sites.sites {
            site.context.refreshAllObjects()
            let profiles = try site.objects("Profile")
            #expect(profiles.count == 1)
            // The later one has it, and both sides agree.
            let author = profiles[0]["author", as: ManagedObject.self]
            #expect(author?["name", as: String.self] == "1")
            #expect(author?["profile", as: ManagedObject.self] === profiles[0])
        }
        try sites.close()
    }

    @Test func anObjectWithoutWhatItRequiresIsHidden() async throws {
        let sites = try SyncSites(2, model: Self.model)
        let (first, second) = (sites.sites[0], sites.sites[1])
        let book = try first.context.insertObject(entityName: "Book")
        book["title"] = "Emma"
        try first.context.save()
        try await sites.begin()
        let other = try #require(try second.objects("Book").first)
        let chapter = try second.context.insertObject(entityName: "Chapter")
        chapter["book"] = other
        try second.context.save()
        first.context.delete(book)
        try first.context.save()
        try await sites.exchange()
        try await sites.expectSame()
        #expect(try second.objects("Chapter").isEmpty)
        #expect(try second.objects("Book").isEmpty)
        try sites.close()
    }

    @Test func whatAnOlderProgramDoesNotKnowIsThereAfterItsUpdate() async throws {
        let old = ManagedObjectModel { Entity("Author") { Attribute("name", .string) } }
        let new = ManagedObjectModel {
            Entity("Author") {
                Attribute("name", .string)
                Attribute("born", .integer16)
                ToMany("awards", "Award", inverse: "author")
            }
            Entity("Award") {
                Attribute("title", .string)
                ToOne("author", "Author", inverse: "awards")
            }
        }
        var sites = try SyncSites(2, model: old)
        let author = try sites.sites[1].context.insertObject(entityName: "Author")
        author["name"] = "Heaney"
        try sites.sites[1].context.save()
        try await sites.begin()
        try sites.sites[0].reopen(model: new)
        let known = try #require(try sites.sites[0].objects("Author").first)
        known["born"] = Int16(1939)
        let award = try sites.sites[0].context.insertObject(entityName: "Award")
        award["title"] = "Nobel Prize"
        award["author"] = known
        try sites.sites[0].context.save()
        try await sites.exchange()
        author["name"] = "Seamus Heaney"
        try sites.sites[1].context.save()
        try await sites.exchange()
        #expect(known["name", as: String.self] == "Seamus Heaney")
        #expect(known["born", as: Int16.self] == 1939)

        try sites.sites[1].reopen(model: new)
        let same = try #require(try sites.sites[1].objects("Author").first)
        same["name"] = "S. Heaney"
        try sites.sites[1].context.save()
        try await sites.exchange()
        try await sites.expectSame()
        sites.sites[1].context.refreshAllObjects()
        #expect(same["born", as: Int16.self] == 1939)
        #expect(same["awards", as: Set<ManagedObject>.self].count == 1)
        #expect(known["name", as: String.self] == "S. Heaney")
        // A machine that has the newer program from the beginning.
        sites = sites.with(model: new)
        try await sites.addSite().sync.join()
        try await sites.exchange()
        try await sites.expectSame()
        try sites.close()
    }

    /// More objects than one segment takes, in one save.
    @Test func aLargeSaveIsSeveralSegments() async throws {
        let sites = try SyncSites(2, model: Self.model)
        try await sites.begin()
        let (first, second) = (sites.sites[0], sites.sites[1])
        for number in 0..<4_500 {
            try first.context.insertObject(entityName: "Author")["name"] = "Author \(number)"
        }
        try first.context.save()
        #expect(try await first.sync.synchronize().sentCount == 3)
        try await sites.exchange()
        try await sites.expectSame()
        #expect(try second.objects("Author").count == 4_500)
        try sites.close()
    }

    /// A snapshot takes the place of many segments: what was deleted is deleted for a machine that joins, and for one that was away.
    @Test func manyFilesBecomeAFew() async throws {
        var sites = try SyncSites(2, model: Self.model, segmentsBeforeSnapshot: [8])
        try await sites.begin()
        let (first, away) = (sites.sites[0], sites.sites[1])
        let author = try first.context.insertObject(entityName: "Author")
        try first.context.save()
        try await sites.exchange()
        for number in 0..<20 {
            author["name"] = "Author \(number)"
            if number == 10 { try first.context.insertObject(entityName: "Tag")["name"] = "novel" }
            try first.context.save()
            try await first.sync.synchronize()
        }
        first.context.delete(author)
        try first.context.save()
        try await first.sync.synchronize()
        let files = sites.folder.files(on: 0).keys
        #expect(files.count { $0.hasPrefix("log/") } <= 9)
        #expect(files.count { $0.hasPrefix("base/") } == 1)
        try away.objects("Author").first?["born"] = Int16(1775)
        try away.context.save()
        try await sites.exchange()
        try await sites.addSite().sync.join()
        try await sites.exchange()
        try await sites.expectSame()
        #expect(try away.objects("Author").isEmpty)
        #expect(try away.objects("Tag").count == 1)
        // The change of what was deleted meanwhile is not lost.
        #expect(try await away.sync.conflicts().map(\.lost) == [.integer(1775)])
        try sites.close()
    }

    @Test func aCopiedStoreBecomesAnotherPeer() async throws {
        var sites = try SyncSites(2, model: Self.model)
        try await sites.begin()
        let original = sites.sites[0]
        try sites.clone(original)
        let copy = sites.sites[2]
        for (number, site) in [original, copy].enumerated() {
            try site.context.insertObject(entityName: "Author")["name"] = "Author \(number)"
            try site.context.save()
        }
        let peers = [try await original.sync.status()?.peer, try await copy.sync.status()?.peer]
        #expect(peers[0] == peers[1])
        try await sites.exchange()
        try await sites.expectSame()
        #expect(try sites.sites[1].objects("Author").count == 2)
        #expect(
            try await original.sync.status()?.peer != copy.sync.status()?.peer)
        try sites.close()
    }

    /// Its one connection is asked for the settings, and then for the history.
    @Test(.timeLimit(.minutes(10))) func aReplacedStoreIsAnError() async throws {
        let sites = try SyncSites(1, model: Self.model)
        try await sites.sites[0].sync.create(named: "Library")
        let (path, copy) = (sites.sites[0].path, sites.temporary.path("copy"))
        try FileManager.default.copyItem(atPath: path, toPath: copy)
        try FileSystem.rename(copy, to: path)
        let error = await #expect(throws: QuireError.self) {
            try await sites.sites[0].sync.synchronize()
        }
        #expect(error?.code == .storeReplaced)
        try? sites.close()
    }

    /// A file that is larger than others read would be a loss, because the segments are removed.
    @Test func aSnapshotOfLargeValuesIsSeveralFiles() async throws {
        var sites = try SyncSites(1, model: Self.model, segmentsBeforeSnapshot: [1])
        try await sites.begin()
        let first = sites.sites[0]
        for number in 0..<250 {
            let book = try first.context.insertObject(entityName: "Book")
            book["title"] = "Book \(number)"
            book["cover"] = Data(repeating: UInt8(number), count: 90_000)
        }
        try first.context.save()
        try await first.sync.synchronize()
        try await first.sync.synchronize()
        let files = sites.folder.files(on: 0)
        #expect(!files.keys.contains { $0.hasPrefix("log/") })
        let parts = files.filter { $0.key.hasPrefix("base/") }
        #expect(parts.count == 3)
        #expect(parts.values.allSatisfy { $0.count < 9 << 20 })
        try await sites.addSite().sync.join()
        try await sites.exchange()
        try await sites.expectSame()
        #expect(try sites.sites[1].objects("Book").count == 250)
        try sites.close()
    }
}
