import Foundation
import Quire
import QuireSync
import Testing

/// The second machine is updated to a new version of the model; both edit; then the first one is updated, too.
struct ModelUpdate: Sendable, CustomTestStringConvertible {
    typealias Edit = @MainActor @Sendable (Replica) throws -> Void
    let name: String
    let old: ManagedObjectModel
    let new: ManagedObjectModel
    let start: Edit
    /// The edits with the old version, and those with the new one.
    let edits: (old: Edit, new: Edit)
    /// What the old version has when both have synchronized, and what both have after the update.
    let rows: (old: [String], new: [String])
    var testDescription: String { name }

    /// - Parameter sendsFirst: Whether the old version synchronizes before the new one after the edits.
    @MainActor func run(sendsFirst: Bool) async throws {
        try await withReplicas(2, old, start: start) { replicas, folder in
            let first = replicas[0]
            try replicas[1].container.close()
            var migration = StoreMigrationOptions()
            migration.allowsRemoval = true
            let second = try Replica(
                new, store: folder.appendingPathComponent("1.sqlite"), shared: first.shared,
                migration: migration)
            try first.edit(edits.old)
            try second.edit(edits.new)
            try await settle(sendsFirst ? [first, second] : [second, first])
            expectLines(try first.rows(), rows.old.sorted(), "the old version")
            #expect(try await first.sync.checkInvariants() == [])
            #expect(try await second.sync.checkInvariants() == [])

            try first.container.close()
            let updated = try Replica(
                new, store: folder.appendingPathComponent("0.sqlite"), shared: first.shared,
                migration: migration)
            try await settle([updated, second])
            expectLines(try second.rows(), rows.new.sorted(), "the new version")
            try await expectSame([updated, second])
            let late = try Replica(
                new, store: folder.appendingPathComponent("late.sqlite"), shared: first.shared)
            try await late.sync.join()
            try await settle([late, updated, second])
            try await expectSame([updated, second, late])
            for replica in [updated, second, late] { try replica.container.close() }
        }
    }
}

/// One machine is updated before the other. “Each model version syncs only with itself” (iCloud Core Data, “Migrating an iCloud Core
/// Data store”); Ensembles error 204, unknown model version.
@MainActor @Suite struct ModelVersionsSituationTests {
    private static func model(isNew: Bool) -> ManagedObjectModel {
        var model = ManagedObjectModel {
            Entity("Book") { Attribute("name", .string) }
            Entity("Tag") { Attribute("name", .string) }
        }
        if !isNew { return model }
        let book = Entity("Book") {
            Attribute("stars", .integer16).default(3)
            ToOne("main", "Tag", inverse: "mainOf")
            ToMany("tags", "Tag", inverse: "books")
        }
        let tag = Entity("Tag") {
            ToMany("books", "Book", inverse: "tags")
            ToMany("mainOf", "Book", inverse: "main")
        }
        model.entities[0].properties += book.description.properties
        model.entities[1].properties += tag.description.properties
        return model
    }

    private static func model(isUnique: Bool) -> ManagedObjectModel {
        ManagedObjectModel {
            Entity("Book") {
                Attribute("name", .string)
                Attribute("code", .string)
                if isUnique { Unique("code") }
            }
        }
    }

    /// Opens the store of a machine with another version of the model.
    private func update(
        _ replica: Replica, _ store: String, _ model: ManagedObjectModel, in folder: URL
    ) throws -> Replica {
        try replica.container.close()
        return try Replica(
            model, store: folder.appendingPathComponent(store), shared: replica.shared,
            migration: StoreMigrationOptions())
    }

    @Test(arguments: ModelUpdate.all, [true, false])
    func machinesWithTwoVersionsAgreeAfterTheUpdate(update: ModelUpdate, sendsFirst: Bool)
        async throws
    {
        try await update.run(sendsFirst: sendsFirst)
    }

    /// What is edited after the update and before the next round is kept, also of properties that the other machine has set meanwhile,
    /// which the old version only passed on. Apple, “Core Data Model Versioning and Data Migration: iCloud”.
    @Test(arguments: [true, false])
    func editsBetweenTheUpdateAndTheNextRoundAreKept(isOnline: Bool) async throws {
        try await withReplicas(
            2, Self.model(isNew: false),
            start: {
                for name in ["a", "b"] {
                    try $0.insert("Book", name)
                    try $0.insert("Tag", "tag \(name)")
                }
            }
        ) { replicas, folder in
            let new = Self.model(isNew: true)
            let second = try update(replicas[1], "1.sqlite", new, in: folder)
            try second.edit {
                for name in ["a", "b"] {
                    let (book, tag) = (
                        try $0.object("Book", name), try $0.object("Tag", "tag \(name)")
                    )
                    (book["stars"], book["main"], book["tags"]) = (5, tag, Set([tag]))
                }
            }
            try await settle([replicas[0], second])
            let first = try update(replicas[0], "0.sqlite", new, in: folder)
            if !isOnline {
                // A round that finds no folder, and what is saved after it.
                let aside = folder.appendingPathComponent("Aside")
                try FileManager.default.moveItem(at: first.shared, to: aside)
                await #expect(throws: QuireError.self) { try await first.sync.synchronize() }
                try FileManager.default.moveItem(at: aside, to: first.shared)
            }
            try first.edit {
                let (book, tag) = (try $0.object("Book", "a"), try $0.object("Tag", "tag b"))
                (book["stars"], book["main"]) = (1, tag)
                book.add(tag, to: "tags")
                try $0.object("Book", "b")["name"] = "B"
            }
            try await settle([first, second])
            expectLines(
                try second.rows(),
                [
                    "Book B main→tag b stars=5 tags{tag b}",
                    "Book a main→tag b stars=1 tags{tag a tag b}", "Tag tag a books{a}",
                    "Tag tag b books{B a} mainOf{B a}",
                ], "the second")
            try await expectSame([first, second])
            for replica in [first, second] { try replica.container.close() }
        }
    }

    /// A machine with duplicates cannot be updated to a version with a constraint; after the one that the others hide has got another
    /// value with the old version, it can. Core Data fails to migrate such a store in the same way.
    @Test func duplicatesAreGivenUpBeforeTheUpdateToAConstraint() async throws {
        try await withReplicas(
            2, Self.model(isUnique: false), start: { try $0.insert("Book", "a", ["code": "1"]) }
        ) { replicas, folder in
            let new = Self.model(isUnique: true)
            let second = try update(replicas[1], "1.sqlite", new, in: folder)
            try replicas[0].edit { try $0.insert("Book", "b", ["code": "1"]) }
            try await settle([replicas[0], second])
            #expect(try second.rows() == ["Book a code=1"])
            #expect(throws: QuireError.self) {
                try update(replicas[0], "0.sqlite", new, in: folder)
            }
            let again = try Replica(
                Self.model(isUnique: false), store: folder.appendingPathComponent("0.sqlite"),
                shared: second.shared)
            try again.edit { try $0.object("Book", "b")["code"] = "2" }
            let first = try update(again, "0.sqlite", new, in: folder)
            try await settle([first, second])
            #expect(try second.rows() == ["Book a code=1", "Book b code=2"])
            try await expectSame([first, second])
            for replica in [first, second] { try replica.container.close() }
        }
    }
}

extension ModelUpdate {
    private static func model(
        _ attributes: [Attribute],
        _ relationship: ToMany = ToMany("pages", "Page", inverse: "book"),
        isUnique: Bool = false, _ other: [Entity] = []
    ) -> ManagedObjectModel {
        let book = Entity("Book") {
            Attribute("name", .string)
            relationship
        }
        var description = book.description
        description.properties += attributes.map { .attribute($0.description) }
        if isUnique { description.uniquenessConstraints = [["code"]] }
        let page = Entity("Page") {
            Attribute("name", .string)
            ToOne("book", "Book", inverse: "pages")
        }
        return ManagedObjectModel(
            entities: [description, page.description] + other.map(\.description))
    }

    private static func loans(isRequired: Bool) -> ManagedObjectModel {
        ManagedObjectModel {
            Entity("Book") {
                Attribute("name", .string)
                ToMany("loans", "Loan", inverse: "book").deleteRule(.cascade)
            }
            Entity("Loan") {
                Attribute("name", .string)
                ToOne("book", "Book", inverse: "loans").optional(!isRequired)
            }
        }
    }

    private static func lists(isOrdered: Bool) -> ManagedObjectModel {
        ManagedObjectModel {
            Entity("Reader") {
                Attribute("name", .string)
                ToMany("books", "Book", inverse: "readers").ordered(isOrdered)
            }
            Entity("Book") {
                Attribute("name", .string)
                ToMany("readers", "Reader", inverse: "books")
            }
        }
    }

    static let all = [
        ModelUpdate(
            name: "aNewAttributeWithADefault",
            old: model([]),
            new: model([Attribute("stars", .integer16).default(3).required()]),
            start: { try $0.insert("Book", "a") },
            edits: (
                { try $0.insert("Book", "b") },
                {
                    try $0.object("Book", "a")["stars"] = 5
                    try $0.insert("Book", "c", ["stars": 1])
                }
            ),
            rows: (
                ["Book a", "Book b", "Book c"],
                ["Book a stars=5", "Book b stars=3", "Book c stars=1"]
            )),
        ModelUpdate(
            name: "anAttributeThatIsRemoved",
            old: model([Attribute("note", .string), Attribute("code", .string)]),
            new: model([Attribute("code", .string)]),
            start: { try $0.insert("Book", "a", ["note": "n", "code": "1"]) },
            edits: (
                {
                    try $0.object("Book", "a")["note"] = "m"
                    try $0.insert("Book", "b", ["note": "n"])
                },
                { try $0.object("Book", "a")["code"] = "2" }
            ),
            rows: (["Book a code=2 note=m", "Book b note=n"], ["Book a code=2", "Book b"])),
        ModelUpdate(
            name: "anAttributeOfAWiderType",
            old: model([Attribute("count", .integer16), Attribute("price", .integer32)]),
            new: model([Attribute("count", .integer64), Attribute("price", .double)]),
            start: { try $0.insert("Book", "a", ["count": 1, "price": 2]) },
            edits: (
                { try $0.object("Book", "a")["price"] = 3 },
                {
                    try $0.object("Book", "a")["count"] = 7
                    try $0.insert("Book", "b", ["count": 8, "price": 1.5])
                }
            ),
            rows: (
                // Its type has no place for 1.5.
                ["Book a count=7 price=3", "Book b count=8"],
                ["Book a count=7 price=3.0", "Book b count=8 price=1.5"]
            )),
        // So that all rows are compared with what was merged after the update.
        ModelUpdate(
            name: "anAttributeOfAWiderTypeBesideANewOne",
            old: model([Attribute("price", .integer32)]),
            new: model([Attribute("price", .double), Attribute("note", .string)]),
            start: { try $0.insert("Book", "a", ["price": 2]) },
            edits: (
                { try $0.insert("Book", "c", ["price": 4]) },
                {
                    try $0.object("Book", "a")["price"] = 2.5
                    try $0.insert("Book", "b", ["note": "n", "price": 70_000.5])
                }
            ),
            rows: (
                ["Book a", "Book b", "Book c price=4"],
                ["Book a price=2.5", "Book b note=n price=70000.5", "Book c price=4.0"]
            )),
        ModelUpdate(
            name: "aRelationshipThatBecomesOrdered",
            old: model([]),
            new: model([], ToMany("pages", "Page", inverse: "book").ordered()),
            start: {
                let book = try $0.insert("Book", "a")
                try $0.insert("Page", "1", ["book": book])
            },
            edits: (
                { try $0.insert("Page", "2", ["book": $0.object("Book", "a")]) },
                {
                    let pages = try [$0.insert("Page", "4"), $0.object("Page", "1")]
                    try $0.object("Book", "a")["pages"] = pages
                }
            ),
            rows: (
                ["Book a pages{1 2 4}", "Page 1 book→a", "Page 2 book→a", "Page 4 book→a"],
                ["Book a pages[4 1 2]", "Page 1 book→a", "Page 2 book→a", "Page 4 book→a"]
            )),
        ModelUpdate(
            name: "anAttributeThatIsRequired",
            old: model([Attribute("code", .string)]),
            new: model([Attribute("code", .string).required().default("none")]),
            start: { try $0.insert("Book", "a", ["code": "1"]) },
            edits: (
                {
                    try $0.object("Book", "a")["code"] = "2"
                    try $0.insert("Page", "p", ["book": $0.object("Book", "a")])
                },
                { try $0.insert("Book", "c") }
            ),
            rows: (
                ["Book a code=2 pages{p}", "Book c code=none", "Page p book→a"],
                ["Book a code=2 pages{p}", "Book c code=none", "Page p book→a"]
            )),
        ModelUpdate(
            name: "anAttributeThatIsNotRequiredAnyMore",
            old: model([Attribute("code", .string).required().default("none")]),
            new: model([Attribute("code", .string)]),
            start: { try $0.insert("Book", "a", ["code": "1"]) },
            edits: (
                { try $0.insert("Book", "b") },
                {
                    try $0.object("Book", "a")["code"] = nil
                    try $0.insert("Book", "c")
                }
            ),
            rows: (
                ["Book a code=none", "Book b code=none", "Book c code=none"],
                ["Book a", "Book b code=none", "Book c"]
            )),
        ModelUpdate(
            name: "anAttributeThatIsNotRequiredAnyMoreBesideANewOne",
            old: model([Attribute("code", .string).required().default("none")]),
            new: model([Attribute("code", .string), Attribute("note", .string)]),
            start: { try $0.insert("Book", "a", ["code": "1"]) },
            edits: (
                { try $0.insert("Book", "b") }, { try $0.object("Book", "a")["code"] = nil }
            ),
            rows: (["Book a code=none", "Book b code=none"], ["Book a", "Book b code=none"])),
        ModelUpdate(
            name: "aValueThatIsNotRequiredAnyMore",
            old: model([Attribute("code", .string).required()]),
            new: model([Attribute("code", .string)]),
            start: { try $0.insert("Book", "a", ["code": "1"]) },
            edits: (
                { try $0.insert("Book", "b", ["code": "2"]) },
                {
                    try $0.object("Book", "a")["code"] = nil
                    try $0.insert("Page", "p", ["book": $0.object("Book", "a")])
                }
            ),
            rows: (
                ["Book b code=2", "Page p"], ["Book a pages{p}", "Book b code=2", "Page p book→a"]
            )),
        ModelUpdate(
            name: "anObjectThatIsNotRequiredAnyMore",
            old: loans(isRequired: true), new: loans(isRequired: false),
            start: { try $0.insert("Book", "a") },
            edits: (
                { try $0.insert("Loan", "l", ["book": $0.object("Book", "a")]) },
                {
                    try $0.delete("Book", "a")
                    try $0.insert("Loan", "m")
                }
            ),
            rows: ([], ["Loan l", "Loan m"])),
        ModelUpdate(
            name: "aManyToManyRelationshipThatBecomesOrdered",
            old: lists(isOrdered: false), new: lists(isOrdered: true),
            start: {
                let books = try ["1", "2"].map { [replica = $0] in try replica.insert("Book", $0) }
                try $0.insert("Reader", "r", ["books": Set(books)])
            },
            edits: (
                { try $0.object("Reader", "r").add($0.insert("Book", "3"), to: "books") },
                {
                    let books = try [$0.insert("Book", "4"), $0.object("Book", "2")]
                    try $0.object("Reader", "r")["books"] = books + [$0.object("Book", "1")]
                }
            ),
            rows: (
                ["Reader r books{1 2 3 4}"] + (1...4).map { "Book \($0) readers{r}" },
                ["Reader r books[4 2 1 3]"] + (1...4).map { "Book \($0) readers{r}" }
            )),
        ModelUpdate(
            name: "aNewEntityAndARelationshipToIt",
            old: model([]),
            new: model(
                [], ToMany("pages", "Page", inverse: "book"),
                [
                    Entity("Shelf") {
                        Attribute("name", .string)
                        ToMany("books", "Book")
                    }
                ]),
            start: { try $0.insert("Book", "a") },
            edits: (
                {
                    try $0.delete("Book", "a")
                    try $0.insert("Book", "b")
                },
                {
                    try $0.insert("Shelf", "s", ["books": Set([$0.object("Book", "a")])])
                }
            ),
            rows: (["Book b"], ["Book b", "Shelf s"])),
        ModelUpdate(
            name: "anEntityThatGetsASubentity",
            old: model([Attribute("code", .string)]),
            new: model(
                [Attribute("code", .string)], ToMany("pages", "Page", inverse: "book"),
                [Entity("Comic", inherits: "Book") { Attribute("artist", .string) }]),
            start: { try $0.insert("Book", "a", ["code": "1"]) },
            edits: (
                { try $0.insert("Page", "p", ["book": $0.object("Book", "a")]) },
                {
                    let comic = try $0.insert("Comic", "c", ["artist": "Hergé", "code": "2"])
                    try $0.object("Book", "a")["code"] = "3"
                    try $0.insert("Page", "q", ["book": comic])
                }
            ),
            rows: (
                ["Book a code=3 pages{p}", "Page p book→a", "Page q"],
                [
                    "Book a code=3 pages{p}", "Comic c artist=Hergé code=2 pages{q}",
                    "Page p book→a", "Page q book→c",
                ]
            )),
    ]
}
