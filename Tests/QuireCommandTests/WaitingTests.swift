import Foundation
import QuireDocuments
import QuireTestSupport
import Testing

@testable import Quire

/// Commands that change a document that others have open for writing: they wait for each other.
@Suite struct WaitingTests {
    /// A shell with a document and a bare store of each type, with ten authors each.
    private func makeShell() throws -> CommandShell {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            quire new L.quire --template Library
            (echo name; seq 10) > a.csv; quire import L.quire Author a.csv
            for type in sqlite xml binary; do quire convert L.quire B.$type --to $type; done
            """)
        return shell
    }

    static let stores = ["B.sqlite", "B.xml", "B.binary"]

    @Test(arguments: ["L.quire"] + stores)
    func tenChangesAtOnceAreAllMade(path: String) throws {
        let shell = try makeShell()
        let result = try shell.run(
            """
            for id in $(quire fetch \(path) Author --json | grep -o 'Author/p[0-9]*'); do
                quire set \(path) $id born=7 --wait 60 &
            done
            for job in $(jobs -p); do wait $job || echo "failed: $?"; done
            """)
        #expect(!result.output.contains("failed:"), "\(result.output)")
        #expect(try shell.output("quire fetch \(path) Author --where born=7 --count") == "10\n")
    }

    /// What a session saves is not what lets others in: it has the new file as well.
    @Test(arguments: ["B.xml", "B.binary"])
    func waitsForASessionWithAStoreThatIsWrittenAsAWhole(path: String) throws {
        let shell = try makeShell()
        let result = try shell.run(
            """
            mkfifo pipe; quire open \(path) < pipe > out & owner=$!; exec 3> pipe
            echo 'insert Author name=A' >&3; echo save >&3
            until [ "$(quire fetch \(path) Author --where 'name = "A"' --count)" = 1 ]; do :; done
            quire insert \(path) Author name=B --wait 0; echo "code $?"
            quire insert \(path) Author name=B --wait 60 2> waiting 3>&- & waiter=$!
            until grep -q waiting waiting; do :; done; cat waiting
            echo 'insert Author name=C' >&3; exec 3>&-
            wait $owner; echo "owner $?"; wait $waiter; echo "waiter $?"
            echo "is $owner"
            quire fetch \(path) Author --where 'name in {"A", "B", "C"}' --count
            """)
        let owner = try #require(result.lines.first { $0.hasPrefix("is ") }).dropFirst(3)
        let holder = "by process \(owner) (quire)"
        #expect(
            result.lines.contains(
                "quire: “\(path)” is open for writing \(holder); close it there, or open it for reading only."
            ),
            "\(result.output)")
        #expect(
            result.lines.contains("quire: “\(path)” is locked \(holder); waiting up to 60 s."),
            "\(result.output)")
        #expect(result.lines.contains("code 6"), "\(result.output)")
        #expect(result.lines.contains("owner 0"), "\(result.output)")
        #expect(result.lines.contains("waiter 0"), "\(result.output)")
        #expect(result.lines.last == "3", "\(result.output)")
    }

    @Test func readersTellOfUnsavedChangesOfOthers() throws {
        let shell = try makeShell()
        let result = try shell.run(
            """
            mkfifo pipe; quire open L.quire < pipe > out & owner=$!; exec 3> pipe
            until quire status L.quire | grep -q 'no unsaved changes'; do :; done
            quire fetch L.quire Author --count
            echo 'insert Author name=A' >&3
            # It has a tenth of a second to answer.
            until quire fetch L.quire Author --count 2>&1 | grep unsaved; do :; done
            until quire search L.quire none 2>&1 > found | grep unsaved; do :; done; cat found
            echo save >&3; until quire status L.quire | grep -q 'no unsaved changes'; do :; done
            quire fetch L.quire Author --count; exec 3>&-; wait $owner; echo "is $owner"
            """)
        let owner = try #require(result.lines.last).dropFirst(3)
        let isNote = { (line: String) in
            line.hasPrefix("quire: “L.quire” is open for writing by process \(owner) (quire)")
                && line.hasSuffix(" with unsaved changes, which are not shown.")
        }
        #expect(
            result.lines.dropLast().filter { !$0.isEmpty }.map { isNote($0) ? "note" : $0 }
                == ["10", "note", "note", "Nothing found.", "11"], "\(result.output)")
    }

    @Test func waitsForWhoWritesASQLiteStoreAndSaysWhoThatIs() throws {
        let shell = try makeShell()
        let damage = try SQLiteConnection(path: shell.path("B.sqlite"), mode: .writing)
        try damage.execute("UPDATE Z_PRIMARYKEY SET Z_MAX = 0")
        damage.close()
        let store = try SQLiteHolder(shell.path("B.sqlite"))
        let me = ProcessInfo.processInfo.processIdentifier
        for arguments in [
            "insert B.sqlite Author name=A", "repair B.sqlite", "compact B.sqlite",
        ] {
            let result = try shell.run("quire \(arguments) --wait 0.1")
            #expect(result.code == 6, "\(arguments)")
            #expect(
                result.lines.first?.hasPrefix("quire: “B.sqlite” is locked by process \(me) (")
                    == true && result.lines.first?.hasSuffix("waiting up to 0.1 s.") == true,
                "\(arguments): \(result.output)")
            let atOnce = try shell.run("quire \(arguments) --wait 0")
            #expect(atOnce.code == 6 && !atOnce.output.contains("waiting"), "\(atOnce.output)")
        }
        try store.release()
    }

    @Test func waitsForWhoHasItOpenAndSaysWhoThatIs() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library; quire duplicate L.quire")
        _ = try shell.output("mv 'L 2.quire' M.quire")
        let package = try DocumentPackage.open(at: shell.path("L.quire"))
        let me = ProcessInfo.processInfo.processIdentifier
        for arguments in [
            "insert L.quire Author name=A", "content add L.quire .", "versions keep L.quire",
            "revert L.quire", "open L.quire", "repair L.quire", "compact L.quire",
            "library rename L.quire Other",
            "library trash L.quire", "save-as M.quire L.quire --replace",
        ] {
            let result = try shell.run("quire \(arguments) --wait 0.1 </dev/null")
            #expect(result.code == 6, "\(arguments)")
            #expect(
                result.lines.first?.contains("is open for writing by process \(me) (") == true
                    && result.lines.first?.hasSuffix("waiting up to 0.1 s.") == true,
                "\(arguments): \(result.output)")
            // At once, and without a word about waiting.
            let atOnce = try shell.run("quire \(arguments) --wait 0 </dev/null")
            #expect(atOnce.code == 6 && !atOnce.output.contains("waiting"), "\(atOnce.output)")
        }
        try package.close()
    }

    /// The wait ends with the lock, not with a next look: also when its owner is killed.
    @Test func waitEndsWhenTheOwnerDoes() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        let result = try shell.run(
            """
            mkfifo pipe; quire open L.quire < pipe & owner=$!; exec 3> pipe
            until quire status L.quire --json | grep -q '"process"'; do :; done
            quire insert L.quire Author name=A --wait 60 2> waiting & waiter=$!
            until grep -q waiting waiting; do :; done
            kill -KILL $owner; wait $waiter; echo $?
            """)
        #expect(result.lines.contains("Inserted Author/p1."), "\(result.output)")
        #expect(result.lines.last == "0", "\(result.output)")
    }
}

/// A connection of this process that has the write lock of a database.
private struct SQLiteHolder {
    private let connection: SQLiteConnection

    init(_ path: String) throws {
        connection = try SQLiteConnection(path: path, mode: .writing)
        try connection.execute("BEGIN IMMEDIATE")
    }

    func release() throws {
        try connection.execute("ROLLBACK")
        connection.close()
    }
}
