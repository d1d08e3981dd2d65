import Foundation
import Quire
import QuireSQLite
import Testing

@testable import QuireCommand

/// `quire watch`: what other processes save while it runs.
@MainActor @Suite struct WatchTests {
    private static let model = ManagedObjectModel {
        Entity("Recipe") {
            Attribute("title", .string)
            ToMany("steps", "Step", inverse: "recipe").deleteRule(.cascade)
        }
        Entity("Step") {
            Attribute("text", .string)
            ToOne("recipe", "Recipe", inverse: "steps")
        }
    }

    /// A folder with a store in which an app has saved one recipe.
    private func makeShell(tracksHistory: Bool = true) throws -> CommandShell {
        let shell = try CommandShell()
        try save(to: shell.path("R.sqlite"), Self.model, tracksHistory: tracksHistory) {
            try $0.insertObject(entityName: "Recipe")["title"] = "Soup"
        }
        return shell
    }

    private func save(
        to path: String, _ model: ManagedObjectModel, tracksHistory: Bool = true,
        _ change: (ManagedObjectContext) throws -> Void
    ) throws {
        var description = PersistentStoreDescription(path: path)
        description.tracksHistory = tracksHistory
        let container = try PersistentContainer(
            managedObjectModel: model, persistentStoreDescriptions: [description])
        container.viewContext.transactionAuthor = "app"
        try change(container.viewContext)
        try container.viewContext.save()
        try container.close()
    }

    /// Runs commands while a store is watched, and gives what is printed to `out`, the code, and to `err`. In the commands,
    /// `printed N` waits for so many lines.
    private func watch(
        _ arguments: String, while commands: String, in shell: CommandShell
    ) throws -> [String] {
        try shell.run(
            """
            running() { kill -0 $watcher 2> /dev/null; }
            printed() { until [ $(wc -l < out) -ge $1 ] || ! running; do :; done; }
            env --default-signal quire watch \(arguments) > out 2> err & watcher=$!
            until grep -q Watching err 2> /dev/null || ! running; do :; done
            { \(commands); } > /dev/null
            wait $watcher 2> /dev/null; code=$?
            cat out; echo "code $code"; cat err
            """
        ).lines.map {
            $0.replacing(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/, with: "TIME")
        }
    }

    @Test func whatIsSavedIsPrintedAtOnce() throws {
        let shell = try makeShell()
        #expect(
            try watch(
                "R.sqlite --count 2",
                while: """
                    quire set R.sqlite Recipe/p1 title=Broth; printed 2
                    quire insert R.sqlite Step text=Stir
                    """, in: shell)
                == [
                    "2  TIME  quire, quire", "   update Recipe/p1: title",
                    "3  TIME  quire, quire", "   insert Step/p1",
                    "code 0", "quire: Watching “R.sqlite”.",
                ])
        // Its log is merged.
        #expect(try shell.output("ls -A") == "R.sqlite\nerr\nout\n")
    }

    @Test func eachTransactionIsALineOfJSONAsInTheLog() throws {
        let shell = try makeShell()
        let lines = try watch(
            "R.sqlite --count 2 --json",
            while: """
                quire set R.sqlite Recipe/p1 title=Broth; printed 1
                quire delete R.sqlite Recipe/p1
                """, in: shell)
        #expect(lines.dropFirst(2).first == "code 0", "\(lines)")
        let log = try shell.output("quire log R.sqlite --json --limit 2").split(separator: "\n")
            .dropFirst().dropLast().map {
                $0.trimmingCharacters(in: [" ", ","])
                    .replacing(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/, with: "TIME")
            }
        #expect(Array(lines.prefix(2)) == log.reversed())
    }

    @Test func aDocumentIsWatchedBesideItsWriter() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        let lines = try watch(
            "L.quire --count 2",
            while: """
                mkfifo pipe; quire open L.quire < pipe & owner=$!; exec 3> pipe
                echo 'insert Author name=Brontë' >&3; echo save >&3; printed 2
                exec 3>&-; wait $owner
                quire insert L.quire Author name=Eliot
                """, in: shell)
        #expect(
            lines.filter { !$0.hasPrefix("   ") } == [
                "2  TIME  quire, quire", "3  TIME  quire, quire", "code 0",
                "quire: Watching “L.quire”.",
            ], "\(lines)")
        #expect(try shell.output("find L.quire -name '*-wal' -o -name '*-shm'").isEmpty)
        #expect(try shell.output("quire check L.quire").hasSuffix("all is well.\n"))
    }

    @Test func ofAStoreWithoutHistoryALineSaysThatSomethingWasSaved() throws {
        let shell = try makeShell(tracksHistory: false)
        let beginning =
            "quire: Watching “R.sqlite”, which has no history; only the time of each save is printed."
        let save = "quire set R.sqlite Recipe/p1 title=Broth"
        #expect(
            try watch("R.sqlite --count 1", while: save, in: shell)
                == ["TIME  saved", "code 0", beginning])
        #expect(
            try watch("R.sqlite --count 1 --json", while: save, in: shell)
                == [#"{"date": "TIME"}"#, "code 0", beginning])
    }

    @Test func onlyWhatIsAskedForIsPrinted() throws {
        let shell = try makeShell()
        #expect(
            try watch(
                "R.sqlite --entity Step --count 1",
                while: """
                    quire set R.sqlite Recipe/p1 title=Broth
                    quire insert R.sqlite Step text=Stir
                    """, in: shell)
                == [
                    "3  TIME  quire, quire", "   insert Step/p1", "code 0",
                    "quire: Watching “R.sqlite”.",
                ])
    }

    @Test func anEarlierTransactionMayBeTheBeginning() throws {
        let shell = try makeShell()
        _ = try shell.output("quire set R.sqlite Recipe/p1 title=Broth")
        #expect(
            try watch(
                "R.sqlite --since 1 --count 2",
                while: "printed 2; quire insert R.sqlite Step text=Stir", in: shell)
                == [
                    "2  TIME  quire, quire", "   update Recipe/p1: title",
                    "3  TIME  quire, quire", "   insert Step/p1",
                    "code 0", "quire: Watching “R.sqlite”.",
                ])
    }

    @Test func afterAPurgeItGoesOnFromThePresent() throws {
        let shell = try makeShell()
        _ = try shell.output(
            "for n in 1 2 3; do quire set R.sqlite Recipe/p1 title=$n; done; quire history purge R.sqlite --keep 1"
        )
        #expect(
            try watch(
                "R.sqlite --since 1 --count 1",
                while: """
                    until grep -q deleted err 2> /dev/null || ! running; do :; done
                    quire insert R.sqlite Step text=Stir
                    """, in: shell)
                == [
                    "5  TIME  quire, quire", "   insert Step/p1", "code 0",
                    "quire: Watching “R.sqlite”.",
                    "quire: The history of “R.sqlite” after transaction 1 has been deleted, in whole or in part; saves from now on are printed.",
                ])
    }

    @Test(arguments: ["INT", "TERM", "HUP"])
    func aSignalEndsItWithSuccess(_ signal: String) throws {
        let shell = try makeShell()
        #expect(
            try watch(
                "R.sqlite",
                while: """
                    quire set R.sqlite Recipe/p1 title=Broth; printed 2; kill -\(signal) $watcher
                    """, in: shell)
                == [
                    "2  TIME  quire, quire", "   update Recipe/p1: title", "code 0",
                    "quire: Watching “R.sqlite”.",
                ])
        #expect(try shell.output("ls -A") == "R.sqlite\nerr\nout\n")
    }

    @Test func aStoreThatIsReplacedEndsIt() throws {
        let shell = try makeShell()
        let lines = try watch(
            "R.sqlite", while: "cp R.sqlite New.sqlite; mv New.sqlite R.sqlite", in: shell)
        #expect(lines.first == "code 1")
        #expect(lines.last?.contains("has replaced or removed") == true, "\(lines)")
    }

    @Test func whatCannotBeWatchedIsSaid() throws {
        let shell = try makeShell()
        try save(to: shell.path("Plain.sqlite"), Self.model, tracksHistory: false) {
            try $0.insertObject(entityName: "Recipe")["title"] = "Pie"
        }
        _ = try shell.output(
            "quire convert R.sqlite R.xml --to xml; quire convert R.sqlite R.binary --to binary")
        let wrong: [(String, Int32, String)] = [
            ("R.sqlite --count 0", 2, "--count must be at least 1"),
            ("R.sqlite --since=-1", 2, "--since must be at least 0"),
            ("R.sqlite --since yesterday", 2, "--since"),
            ("R.sqlite --since 9", 3, "has no transaction 9; the last one is 1"),
            ("R.sqlite --entity Soup", 3, "no entity “Soup”"),
            ("Plain.sqlite --since 0", 1, "keeps no history"),
            ("Plain.sqlite --author app", 1, "keeps no history"),
            ("R.xml", 1, "cannot be watched"),
            ("R.binary", 1, "cannot be watched"),
            ("None.sqlite", 3, "None.sqlite"),
        ]
        for (arguments, code, sentence) in wrong {
            let result = try shell.run("quire watch \(arguments)")
            #expect(result.code == code, "\(arguments): \(result.output)")
            #expect(result.output.contains(sentence), "\(arguments): \(result.output)")
        }
    }
}
