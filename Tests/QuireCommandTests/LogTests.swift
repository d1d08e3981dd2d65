import Foundation
import Quire
import QuireSQLite
import Testing

@testable import QuireCommand

/// `quire log`: the history of a store that an app tracks, with what the command itself has saved to it.
@MainActor @Suite struct LogTests {
    private static let model = ManagedObjectModel {
        Entity("Recipe") {
            Attribute("title", .string)
            Attribute("slug", .string).preservedInHistoryOnDeletion()
            ToMany("steps", "Step", inverse: "recipe").deleteRule(.cascade)
        }
        Entity("Step") {
            Attribute("text", .string)
            ToOne("recipe", "Recipe", inverse: "steps")
        }
    }

    /// A store with two transactions of an app.
    private func makeStore(in shell: CommandShell) throws {
        var description = PersistentStoreDescription(path: shell.path("R.sqlite"))
        description.tracksHistory = true
        let container = try PersistentContainer(
            managedObjectModel: Self.model, persistentStoreDescriptions: [description])
        let context = container.viewContext
        context.transactionAuthor = "app"
        context.name = "view"
        let soup = try context.insertObject(entityName: "Recipe")
        soup["title"] = "Soup"
        soup["slug"] = "soup\u{1B}[2J"
        try context.save()
        try context.insertObject(entityName: "Step")["recipe"] = soup
        try context.save()
        try container.close()
    }

    /// The lines without the times and the name of the test's process.
    private func lines(_ command: String, in shell: CommandShell) throws -> [String] {
        try shell.output(command).split(separator: "\n").map(String.init).map {
            $0.replacing(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/, with: "TIME")
                .replacing(", " + ProcessInfo.processInfo.processName, with: ", TESTS")
        }
    }

    @Test func whatTheAppAndTheCommandHaveSavedIsListed() throws {
        let shell = try CommandShell()
        try makeStore(in: shell)
        _ = try shell.output(
            "quire set R.sqlite Recipe/p1 title=Broth && quire delete R.sqlite Recipe/p1")
        #expect(
            try lines("quire log R.sqlite", in: shell) == [
                "4  TIME  quire, quire",
                "   delete Recipe/p1: slug “soup\\u001b[2J”",
                "   delete Step/p1",
                "3  TIME  quire, quire",
                "   update Recipe/p1: title",
                "2  TIME  app, view, TESTS",
                "   insert Step/p1",
                "   update Recipe/p1: steps",
                "1  TIME  app, view, TESTS",
                "   insert Recipe/p1",
            ])
        #expect(
            try lines("quire log R.sqlite --entity Step --author app", in: shell) == [
                "2  TIME  app, view, TESTS", "   insert Step/p1",
            ])
        #expect(
            try lines("quire log R.sqlite --object Recipe/p1 --limit 1", in: shell) == [
                "4  TIME  quire, quire", "   delete Recipe/p1: slug “soup\\u001b[2J”",
            ])
        #expect(
            try lines("quire log R.sqlite --since 2999-01-01T00:00:00Z", in: shell)
                == ["No transactions."])
    }

    @Test func statCountsTheChangesOfEachTransactionByEntity() throws {
        let shell = try CommandShell()
        try makeStore(in: shell)
        _ = try shell.output("quire delete R.sqlite Recipe/p1")
        #expect(
            try lines("quire log R.sqlite --stat", in: shell) == [
                "3  TIME  quire, quire", "   Recipe: 1 deleted", "   Step: 1 deleted",
                "2  TIME  app, view, TESTS", "   Recipe: 1 changed", "   Step: 1 inserted",
                "1  TIME  app, view, TESTS", "   Recipe: 1 inserted",
            ])
        #expect(
            try lines("quire log R.sqlite --stat --entity Step --limit 1", in: shell) == [
                "3  TIME  quire, quire", "   Step: 1 deleted",
            ])
        #expect(
            try shell.output("quire log R.sqlite --stat --author app --limit 1 --json").contains(
                #""entities": {"Recipe": {"deleted": 0, "inserted": 0, "updated": 1}, "Step": {"deleted": 0, "inserted": 1, "updated": 0}}"#
            ))
    }

    @Test func importedRowsHaveTheAuthorOfTheCommand() throws {
        let shell = try CommandShell()
        try makeStore(in: shell)
        _ = try shell.output(
            "printf 'title\\nStew\\nPie\\n' > r.csv && quire import R.sqlite Recipe r.csv")
        #expect(
            try lines("quire log R.sqlite --author quire", in: shell) == [
                "3  TIME  quire, quire", "   insert Recipe/p2", "   insert Recipe/p3",
            ])
    }

    @Test func jsonHasWhoWhenAndWhat() throws {
        let shell = try CommandShell()
        try makeStore(in: shell)
        let data = Data(try shell.output("quire log R.sqlite --json").utf8)
        let transactions = try #require(
            try JSONSerialization.jsonObject(with: data) as? [[String: Any]])
        #expect(transactions.map { $0["number"] as? Int } == [2, 1])
        #expect(transactions.map { $0["author"] as? String } == ["app", "app"])
        let changes = try #require(transactions[0]["changes"] as? [[String: Any]])
        #expect(changes.map { $0["kind"] as? String } == ["insert", "update"])
        #expect(changes[1]["properties"] as? [String] == ["steps"])
    }

    @Test func theOldestTransactionsArePurged() throws {
        let shell = try CommandShell()
        try makeStore(in: shell)
        _ = try shell.output("for n in 1 2 3; do quire set R.sqlite Recipe/p1 title=$n; done")
        let numbers = "quire log R.sqlite | grep -v '^ ' | cut -d ' ' -f 1 | tr '\\n' ' '"
        #expect(
            try shell.output("quire history purge R.sqlite --keep 4 --dry-run")
                == "Would remove 1 transaction; 4 remain.\n")
        #expect(try shell.output(numbers) == "5 4 3 2 1 ")
        #expect(
            try shell.output("quire history purge R.sqlite --before 3 --dry-run --json")
                .filter { !$0.isWhitespace } == #"{"kept":3,"removed":2}"#)
        #expect(
            try shell.output("quire history purge R.sqlite --before 3")
                == "Removed 2 transactions; 3 remain.\n")
        #expect(try shell.output(numbers) == "5 4 3 ")
        for when in ["--older-than 1h", "--before 2001-01-01T00:00:00Z"] {
            #expect(
                try shell.output("quire history purge R.sqlite \(when)")
                    == "Removed 0 transactions; 3 remain.\n")
        }
        let store = try SQLiteStore.open(at: shell.path("R.sqlite"))
        let uuid = store.identity.uuid
        try store.close()
        let token = String(
            decoding: try JSONEncoder().encode(
                PersistentHistoryToken(transactionNumbers: [uuid: 4])), as: UTF8.self)
        for flag in [" --dry-run", ""] {
            #expect(
                try shell.output("quire history purge R.sqlite --before '\(token)'\(flag)")
                    == "\(flag.isEmpty ? "Removed" : "Would remove") 1 transaction; 2 remain.\n")
        }
        for flag in [" --dry-run", ""] {
            #expect(
                try shell.output(
                    "quire history purge R.sqlite --before 2999-01-01T00:00:00Z\(flag)")
                    == "\(flag.isEmpty ? "Removed" : "Would remove") 2 transactions; 0 remain.\n")
        }
        #expect(try shell.output("quire log R.sqlite") == "No transactions.\n")
        _ = try shell.output("quire set R.sqlite Recipe/p1 title=Pie")
        #expect(try shell.output(numbers) == "6 ")
        #expect(
            try shell.output("quire history purge R.sqlite --older-than 0s --dry-run")
                == "Would remove 1 transaction; 0 remain.\n")
    }

    @Test func theHistoryOfADocumentIsPurged() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        _ = try shell.output("quire insert L.quire Book title=Emma")
        #expect(
            try shell.output("quire history purge L.quire --keep 0")
                == "Removed 2 transactions; 0 remain.\n")
        #expect(try shell.output("quire log L.quire") == "No transactions.\n")
    }

    @Test func aPurgeThatCannotBeDoneSaysWhy() throws {
        let shell = try CommandShell()
        try makeStore(in: shell)
        let wrong = [
            ("quire history purge R.sqlite", "--before, --older-than and --keep"),
            ("quire history purge R.sqlite --keep 1 --older-than 1d", "--before, --older-than"),
            ("quire history purge R.sqlite --keep=-1", "--keep must be at least 0"),
            ("quire history purge R.sqlite --older-than 30", "a number and a unit"),
            ("quire history purge R.sqlite --older-than=-1d", "a number and a unit"),
            ("quire history purge R.sqlite --before yesterday", "--before accepts a time"),
            ("quire history purge R.sqlite --before '{}'", "--before accepts a token"),
            (
                "quire convert R.sqlite R.xml --to xml && quire history purge R.xml --keep 1",
                "keeps no history"
            ),
            ("quire history purge R.xml --keep 1 --dry-run", "keeps no history"),
            ("quire history purge None.sqlite --keep 1", "None.sqlite"),
        ]
        for (command, sentence) in wrong {
            let result = try shell.run(command)
            #expect(result.code != 0)
            #expect(result.output.contains(sentence), "\(command): \(result.output)")
        }
        #expect(try shell.output("quire log R.sqlite | grep -cv '^ '") == "2\n")
    }

    @Test func whatIsNotThereIsSaid() throws {
        let shell = try CommandShell()
        try makeStore(in: shell)
        let wrong = [
            ("quire log R.sqlite --entity Soup", "no entity “Soup”"),
            ("quire log R.sqlite --since yesterday", "--since accepts a time"),
            ("quire log R.sqlite --limit 0", "--limit must be at least 1"),
            ("quire convert R.sqlite R.xml --to xml && quire log R.xml", "keeps no history"),
        ]
        for (command, sentence) in wrong {
            let result = try shell.run(command)
            #expect(result.code != 0)
            #expect(result.output.contains(sentence), "\(command): \(result.output)")
        }
    }
}
