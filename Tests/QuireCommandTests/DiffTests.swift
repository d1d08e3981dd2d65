import Foundation
import Quire
import QuireStore
import Testing

@testable import QuireCommand
@testable import QuireSQLite

/// `quire diff`: what a transcript cannot make, or would not show.
@MainActor @Suite struct DiffTests {
    private func model(_ attributes: [Attribute], with others: String? = nil) -> ManagedObjectModel
    {
        ManagedObjectModel {
            Entity("Book") {
                Attribute("title", .string)
                for attribute in attributes { attribute }
            }
            if let others { Entity(others) { Attribute("name", .string) } }
        }
    }

    /// A store with books.
    @discardableResult private func makeStore(
        _ name: String, _ model: ManagedObjectModel, books: Int = 1, history: Bool = false,
        in shell: CommandShell, _ body: (ManagedObjectContext) throws -> Void = { _ in }
    ) throws -> String {
        var description = PersistentStoreDescription(path: shell.path(name))
        description.tracksHistory = history
        let container = try PersistentContainer(
            managedObjectModel: model, persistentStoreDescriptions: [description])
        let context = container.viewContext
        for number in 0..<books {
            try context.insertObject(entityName: "Book")["title"] = "Book \(number)"
        }
        try context.save()
        try body(context)
        if context.hasChanges { try context.save() }
        try container.close()
        return shell.path(name)
    }

    private func lines(_ command: String, in shell: CommandShell) throws -> [String] {
        try shell.output(command).split(separator: "\n").map(String.init)
    }

    // MARK: - History

    @Test func aHistoryKnowsWhatHasChangedSinceATransaction() throws {
        let shell = try CommandShell()
        try makeStore("R.sqlite", model([]), books: 3, history: true, in: shell)
        _ = try shell.output(
            """
            quire set R.sqlite Book/p1 title=Emma && quire delete R.sqlite Book/p2
            quire insert R.sqlite Book title=New && quire set R.sqlite Book/p4 title=Newer
            quire insert R.sqlite Book title=Gone && quire delete R.sqlite Book/p5
            """)
        #expect(
            try lines("quire diff R.sqlite 1", in: shell) == [
                "--- R.sqlite, transaction 1", "+++ R.sqlite",
                "~ Book/p1", "    title", "- Book/p2", "+ Book/p4",
                "Objects: 1 inserted, 1 changed, 1 deleted.",
            ])
        #expect(try lines("quire diff R.sqlite 7 --exit-code", in: shell).last == "No differences.")
        let uuid = try shell.output("quire info R.sqlite --json | grep -o '[0-9A-F-]\\{36\\}'")
        let token = "{\"transactionNumbers\": {\"\(uuid.split(separator: "\n")[0])\": 6}}"
        #expect(
            try lines("quire diff R.sqlite '\(token)'", in: shell).dropFirst(2) == [
                "- Book/p5", "Objects: 1 deleted.",
            ])
        let json = try shell.output("quire diff R.sqlite 1 --json --stat")
        #expect(
            json.contains(#""entities": {"Book": {"deleted": 1, "inserted": 1, "updated": 1}}"#))
    }

    @Test func whatAHistoryCannotTellIsAnError() throws {
        let shell = try CommandShell()
        try makeStore("R.sqlite", model([]), history: true, in: shell)
        try makeStore("Plain.sqlite", model([]), in: shell)
        let wrong: [(String, Int32, String)] = [
            ("quire diff R.sqlite 9", 3, "has no transaction 9; the last one is 1"),
            ("quire diff R.sqlite -- -1", 3, "has no transaction -1"),
            ("quire diff Plain.sqlite 1", 1, "keeps no history"),
            ("quire diff Plain.sqlite", 2, "has no versions; specify another store"),
            ("quire diff R.sqlite '{}'", 4, "is not a history token"),
            (
                "quire diff R.sqlite '{\"transactionNumbers\": {\"x\": 1}}'", 3,
                "does not belong to “R.sqlite”"
            ),
            ("quire diff R.sqlite 1 --entity Nothing", 3, "no entity “Nothing”"),
        ]
        for (command, code, sentence) in wrong {
            let result = try shell.run(command)
            #expect(result.code == code, "\(command): \(result.output)")
            #expect(result.output.contains(sentence), "\(command): \(result.output)")
            #expect(try shell.run(command + " --exit-code").code == 2)
        }
    }

    @Test func aHistoryThatWasDeletedIsAnError() throws {
        let shell = try CommandShell()
        try makeStore("R.sqlite", model([]), history: true, in: shell) { context in
            for number in 0..<3 {
                try context.insertObject(entityName: "Book")["title"] = "\(number)"
                try context.save()
            }
            _ = try context.execute(.deleteHistory(before: nil))
        }
        let result = try shell.run("quire diff R.sqlite 1")
        #expect(result.code == 1)
        #expect(result.output.contains("has been deleted"), "\(result.output)")
        #expect(try lines("quire diff R.sqlite 4", in: shell).last == "No differences.")
    }

    // MARK: - Models

    @Test func whatOnlyOneModelHasIsNamedAndNotCompared() throws {
        let shell = try CommandShell()
        let old = model(
            [Attribute("year", .integer16), Attribute("rating", .double)], with: "Author")
        try makeStore("Old.sqlite", old, in: shell) {
            try $0.insertObject(entityName: "Author")["name"] = "Jane"
        }
        let new = model([Attribute("year", .string), Attribute("pages", .integer32)], with: "Tag")
        try makeStore("New.sqlite", new, in: shell)
        #expect(
            try lines("quire diff New.sqlite Old.sqlite", in: shell) == [
                "--- Old.sqlite", "+++ New.sqlite",
                "! only the old model has Author (1 object)",
                "! only the new model has Book.pages",
                "! only the old model has Book.rating",
                "! Book.year has a different type in the new model",
                "! only the new model has Tag (0 objects)",
                "No differences in the parts that both models have.",
            ])
        #expect(try shell.run("quire diff New.sqlite Old.sqlite --exit-code").code == 1)
        #expect(try shell.run("quire diff New.sqlite Old.sqlite --entity Author").code == 0)
    }

    // MARK: - Values

    @Test func largeValuesAreToldByTheirDigest() throws {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            quire new N.quire --template Notes && quire insert N.quire Attachment name=a
            for c in x y; do head -c 300000 /dev/zero | tr '\\0' $c > $c; done
            quire data put N.quire Attachment/p1 data x
            quire versions keep N.quire
            """)
        #expect(try lines("quire diff N.quire", in: shell).last == "No differences.")
        _ = try shell.output("quire data put N.quire Attachment/p1 data y")
        let digests = try shell.output("sha256sum x y | cut -c1-12").split(separator: "\n")
        let diff = try lines("quire diff N.quire", in: shell)
        #expect(
            diff.contains(
                "    data: <300000 bytes, sha256 \(digests[0])> → <300000 bytes, sha256 \(digests[1])>"
            ),
            "\(diff)")
        // Without recorded digests, as in Core Data's stores, the bytes are read.
        _ = try shell.output(
            "sqlite3 N.quire/StoreContent/persistentStore 'DELETE FROM QUIRE_EXTERNAL_DATA'")
        #expect(try lines("quire diff N.quire", in: shell) == diff)
        // A value that cannot be read does not prevent comparing the others.
        _ = try shell.output(
            """
            quire set N.quire Post/p1 title=Changed
            find N.quire/StoreContent -path '*_EXTERNAL_DATA/*' -type f -delete
            """)
        let result = try shell.run("quire diff N.quire")
        #expect(result.code == 4)
        #expect(result.output.contains(" → <unreadable>"), "\(result.output)")
        #expect(result.output.contains("→ \"Changed\""), "\(result.output)")
        #expect(try shell.run("quire diff N.quire --exit-code").code == 2)
    }

    // MARK: - Replicas

    @Test func objectsOfReplicasAreTheSameWhateverTheirKeys() throws {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            mkdir a b; quire new a/L.quire --template Library
            quire sync init a/L.quire shared; quire sync join shared b/L.quire
            quire insert a/L.quire Author name=Austen; quire insert b/L.quire Author name=Brontë
            quire insert a/L.quire Book title=Emma author=Author/p1
            quire insert b/L.quire Book title=Villette author=Author/p1
            for round in 1 2; do quire sync run a/L.quire; quire sync run b/L.quire; done
            """)
        #expect(
            try shell.output("quire fetch a/L.quire Author")
                != shell.output("quire fetch b/L.quire Author"))
        let same = try shell.output("quire diff a/L.quire b/L.quire --exit-code")
        #expect(same.hasSuffix("No differences.\n"))
        // Where the keys are others: Emma is the second book there, and Austen the second author.
        _ = try shell.output(
            """
            quire set b/L.quire Book/p2 title=Emma2 author=Author/p1
            quire insert b/L.quire Author name=Eliot; quire delete a/L.quire Book/p2
            """)
        #expect(
            try shell.output("quire diff b/L.quire a/L.quire") == """
                --- a/L.quire
                +++ b/L.quire
                ~ Author/p1
                    books: +Book/p1, +Book/p2
                ~ Author/p2
                    books: -Book/p2
                + Author/p3
                    name: "Eliot"
                + Book/p1
                    author: Author/p1
                    title: "Villette"
                ~ Book/p2
                    author: Author/p2 → Author/p1
                    title: "Emma" → "Emma2"
                Objects: 2 inserted, 3 changed.

                """)
        #expect(
            try shell.output("quire diff a/L.quire b/L.quire --entity Book") == """
                --- b/L.quire
                +++ a/L.quire
                ~ Book/p1
                    author: Author/p2 → Author/p1
                    title: "Emma2" → "Emma"
                - Book/p1
                    author: Author/p2
                    title: "Villette"
                Objects: 1 changed, 1 deleted.

                """)
    }

    // MARK: - Size and damage

    private func comparison(_ old: SQLiteStore, _ new: SQLiteStore) throws -> StoreComparison {
        StoreComparison(
            old: old, new: new, model: try ComparedModel(old.layout, new.layout, only: nil),
            includesProperties: true, unreadable: UnreadableValues())
    }

    @Test func objectsAreReadInBatchesAsTheyAreCompared() throws {
        let shell = try CommandShell()
        let path = try makeStore("A.sqlite", model([]), books: 5000, in: shell)
        _ = try shell.output(
            "cp A.sqlite B.sqlite; quire set B.sqlite Book/p1 title=Emma; quire delete B.sqlite Book/p4999"
        )
        let old = try SQLiteStore.open(at: path)
        let new = try SQLiteStore.open(at: shell.path("B.sqlite"))
        let start = old.readStatementCount
        var found: [(String, statements: Int)] = []
        try comparison(old, new).forEachDifference { _, difference in
            found.append(
                (
                    "\(difference.kind.sign)\(difference.objectID.shortDescription)",
                    old.readStatementCount - start
                ))
        }
        #expect(found.map(\.0) == ["~Book/p1", "-Book/p4999"])
        // The first difference is found in the first batch; there are ten and an empty one.
        #expect(found.first?.statements == 1)
        #expect(old.readStatementCount - start == 11)
        try old.close()
        try new.close()
    }

    /// Damage is an error, or a difference.
    @Test func damagedStoresAreComparedWithoutACrash() throws {
        let shell = try CommandShell()
        let path = try makeStore("A.sqlite", model([]), books: 400, in: shell)
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        var seed: UInt64 = 7
        func random(_ bound: Int) -> Int {
            seed = seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(seed >> 33) % bound
        }
        let old = try SQLiteStore.open(at: path)
        for number in 0..<40 {
            var bytes = whole
            for _ in 0..<20 { bytes[100 + random(bytes.count - 100)] = UInt8(random(256)) }
            let damaged = shell.path("\(number).sqlite")
            try bytes.write(to: URL(fileURLWithPath: damaged))
            do {
                guard let new = try StoreFile(at: damaged).open() as? SQLiteStore else { continue }
                defer { new.closeSaved() }
                var count = 0
                try comparison(old, new).forEachDifference { _, _ in count += 1 }
            } catch is QuireError {}
        }
        try old.close()
    }
}
