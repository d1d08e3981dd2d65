import Foundation
import Glibc
import QuireTestSupport
import Testing

/// Sessions of a user at a terminal.
@Suite struct ShellTests {
    /// A session in a terminal of its own, which sends signals for Ctrl-C and Ctrl-Z.
    private struct Session {
        let terminal: PseudoTerminal
        let process = Process()
        /// Its folder goes with it.
        private let shell: CommandShell

        init(
            _ shell: CommandShell, _ arguments: [String] = ["open", "L.quire"], columns: Int = 100,
            pager: String = ""
        ) throws {
            self.shell = shell
            terminal = try PseudoTerminal(columns: columns)
            process.executableURL = URL(fileURLWithPath: "/usr/bin/setsid")
            process.currentDirectoryURL = shell.folder.url
            process.arguments =
                ["--ctty", "--wait", try TestProgram.path(named: "quire")] + arguments
            process.environment = ProcessInfo.processInfo.environment.merging([
                "TERM": "xterm", "NO_COLOR": "1", "XDG_STATE_HOME": shell.path("state"),
                "HOME": shell.path("home"), "QUIRE_PAGER": pager, "LC_ALL": "C.UTF-8",
            ]) { $1 }
            let end = FileHandle(fileDescriptor: terminal.device)
            process.standardInput = end
            process.standardOutput = end
            process.standardError = end
            try process.run()
            _ = try terminal.read(until: "L.quire> ")
        }

        /// Types keys, and reads what is shown until a text has come.
        func type(_ keys: String, until end: String) throws -> String {
            terminal.type(keys)
            return try terminal.read(until: end)
        }

        func ended() -> Int32 {
            process.waitUntilExit()
            return process.terminationStatus
        }
    }

    private func document() throws -> CommandShell {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            quire new L.quire --template Library >/dev/null
            quire insert L.quire Author name=Austen >/dev/null
            quire insert L.quire Book title=Emma >/dev/null
            """)
        return shell
    }

    @Test func tabCompletesVerbsEntitiesKeysObjectsAndFiles() throws {
        let shell = try document()
        let session = try Session(shell)
        // The editor shows only what a completion adds.
        _ = try session.type("fet\t", until: "ch ")
        _ = try session.type("Aut\t", until: "hor ")
        _ = try session.type("--so\t", until: "rt ")
        _ = try session.type("na\t", until: "me ")
        #expect(try session.type("\r", until: "quire> ").contains("Author/p1              Austen"))
        _ = try session.type("set Book/\t", until: "p1 ")
        _ = try session.type("tit\t", until: "le=")
        #expect(try session.type("New\r", until: "*> ").contains("Changed Book/p1."))
        _ = try session.type("versions k\t", until: "eep ")
        _ = try session.type("\u{3}", until: "*> ")
        _ = try session.type("save-as L.qui\t", until: "re/")
        _ = try session.type("\u{3}", until: "^C")
        _ = try session.type("", until: "*> ")
        _ = try session.type("\u{4}", until: "Saved: 1 changed.")
        #expect(session.ended() == 0)
    }

    @Test func severalCandidatesAreListed() throws {
        let shell = try document()
        let session = try Session(shell, columns: 40)
        let shown = try session.type("fetch \t", until: "Loan")
        #expect(shown.contains("Author  Book    Friend  Loan"), "\(shown)")
        _ = try session.type("\u{3}", until: "^C")
        _ = try session.type("", until: "quire> ")
        _ = try session.type("quit\r", until: "Nothing to save.")
        #expect(session.ended() == 0)
    }

    @Test func interruptionDropsTheLineAndSavesNothing() throws {
        let shell = try document()
        let session = try Session(shell)
        _ = try session.type("insert Author name=New\r", until: "*> ")
        _ = try session.type("insert Author name=Dropped\u{3}", until: "^C")
        _ = try session.type("", until: "*> ")
        #expect(try shell.output("quire fetch L.quire Author --count 2>&1").contains("1\n"))
        _ = try session.type("insert Author name='of two\r", until: "-> ")
        _ = try session.type("\u{3}", until: "*> ")
        _ = try session.type("revert\r", until: "L.quire> ")
        _ = try session.type("quit\r", until: "Nothing to save.")
        #expect(session.ended() == 0)
        #expect(try shell.output("quire fetch L.quire Author --count") == "1\n")
    }

    @Test func interruptionStopsALineThatRuns() throws {
        let shell = try document()
        _ = try shell.output(
            "(echo name; seq 100000) > names.csv; mkfifo rows; quire import L.quire Author names.csv"
        )
        let session = try Session(shell)
        _ = try session.type("fetch Author\r", until: "Author/p5")
        _ = try session.type("\u{3}", until: "Interrupted.")
        _ = try session.type("", until: "L.quire> ")
        #expect(try session.type("fetch Author --count\r", until: "L.quire> ").contains("100001"))
        _ = try session.type("quit\r", until: "Nothing to save.")
        #expect(session.ended() == 0)
    }

    @Test func openQuotationMarksAndBackslashesContinueALine() throws {
        let shell = try document()
        let session = try Session(shell)
        _ = try session.type("set Author/p1 name='Jane\r", until: "-> ")
        _ = try session.type("Austen' \\\r", until: "-> ")
        // Before Ctrl-D, which a terminal takes for itself while a line runs.
        #expect(try session.type("born=1775\r", until: "*> ").contains("Changed Author/p1."))
        _ = try session.type("\u{4}", until: "Saved: 1 changed.")
        #expect(session.ended() == 0)
        #expect(
            try shell.output("quire fetch L.quire Author --columns name,born --jsonl")
                .contains(#""born": 1775, "entity": "Author""#))
        #expect(try shell.output("quire fetch L.quire Author --jsonl").contains(#"Jane\nAusten"#))
    }

    @Test func linesAreRecalledInTheNextSession() throws {
        let shell = try document()
        let first = try Session(shell)
        _ = try first.type("fetch Author --where 'name == \"Zoë\"'\r", until: "No objects.")
        _ = try first.type(" fetch Book\r", until: "Emma")
        _ = try first.type("fetch Author \\\r", until: "-> ")
        _ = try first.type("--count\r", until: "L.quire> ")
        _ = try first.type("quit\r", until: "Nothing to save.")
        #expect(first.ended() == 0)
        #expect(
            try shell.output("cat state/quire/history; stat -c %a state/quire/history")
                == "fetch Author --where 'name == \"Zoë\"'\nfetch Author --count\nquit\n600\n")
        let second = try Session(shell)
        // Three times up.
        _ = try second.type("\u{1B}[A\u{1B}[A\u{1B}[A", until: "Zoë")
        _ = try second.type("\r", until: "No objects.")
        _ = try second.type("quit\r", until: "Nothing to save.")
        #expect(second.ended() == 0)
    }

    @Test func rowsAreShownByThePager() throws {
        let shell = try document()
        _ = try shell.output(
            "(echo name; seq 30) > names.csv; quire import L.quire Author names.csv")
        let session = try Session(shell, pager: "sed s/^/page:/")
        _ = try session.type("fetch Author\r", until: "page:Author/p31")
        _ = try session.type("", until: "L.quire> ")
        // What fits on the screen is not.
        #expect(
            try session.type("fetch Author --limit 20\r", until: "> ").contains("\nAuthor/p20"))
        _ = try session.type("quit\r", until: "Nothing to save.")
        #expect(session.ended() == 0)
    }

    @Test func terminationSavesAndGivesTheTerminalBack() throws {
        let shell = try document()
        let session = try Session(shell)
        _ = try session.type("set Book/p1 title=Saved\r", until: "*> ")
        var mode = termios()
        _ = try session.type("insert", until: "insert")
        #expect(tcgetattr(session.terminal.device, &mode) == 0)
        #expect(mode.c_lflag & UInt32(ICANON) == 0)
        _ = try shell.output(
            "kill -TERM $(pgrep -P \(session.process.processIdentifier) || echo \(session.process.processIdentifier))"
        )
        _ = session.ended()
        #expect(tcgetattr(session.terminal.device, &mode) == 0)
        #expect(mode.c_lflag & UInt32(ICANON) != 0)
        #expect(try shell.output("quire fetch L.quire Book --columns title").contains("Saved"))
    }
}
