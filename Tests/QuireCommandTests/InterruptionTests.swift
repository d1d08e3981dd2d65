import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCommand

/// Commands that are killed while they write.
@Suite struct InterruptionTests {
    /// A folder with a document of 60 MB, and its archive.
    private static let folder = Result {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            quire new L.quire --template Notes
            quire insert L.quire Attachment name=a post=Post/p1
            head -c 60000000 /dev/urandom > picture
            quire data put L.quire Attachment/p1 data picture && rm picture
            quire export L.quire L.tar
            """)
        return shell.folder
    }

    private func makeShell() throws -> CommandShell {
        let shell = try CommandShell()
        let made = try Self.folder.get().path
        _ = try shell.output("mkdir tmp && cp -r '\(made)/L.quire' . && ln '\(made)/L.tar' .")
        return shell
    }

    static let commands = [
        "export L.quire New.zip", "export L.quire New.tar.zst", "save-as L.quire New.quire",
        "duplicate L.quire", "extract L.tar New.quire", "info L.tar",
        "save-as L.quire Old.quire --replace",
    ]

    /// Starts a command, and signals it when its temporary files are there.
    private func interrupt(_ command: String, _ signal: String, in shell: CommandShell) throws
        -> CommandShell.Result
    {
        try shell.run(
            """
            # Jobs of their own: others ignore SIGINT, as may whoever runs the tests in the background. What the shell says
            # of them is not looked at.
            set -m; shopt -s nullglob dotglob; exec 2> /dev/null
            export TMPDIR=$PWD/tmp
            cp -r L.quire Old.quire
            for attempt in $(seq 50); do
                env --default-signal quire \(command) > /dev/null 2> errors & pid=$!
                found=
                while kill -0 $pid 2> /dev/null; do
                    for name in .*quire-building-* tmp/.*quire-building-*; do found=$name; done
                    [ -n "$found" ] && break
                done
                [ -n "$found" ] && kill -\(signal) $pid 2> /dev/null
                wait $pid; code=$?
                [ $code -gt 128 ] && break
                rm -rf New.* "L 2.quire"
            done
            echo "code $code"
            cat errors
            rm -f errors
            """)
    }

    @Test(arguments: commands, ["INT", "TERM", "HUP"])
    func aSignalLeavesNothing(_ command: String, _ signal: String) throws {
        let shell = try makeShell()
        let result = try interrupt(command, signal, in: shell)
        let codes = ["INT": 130, "TERM": 143, "HUP": 129]
        #expect(result.lines == ["code \(try #require(codes[signal]))"])
        #expect(try shell.output("find . -name '*quire-building*'; ls tmp").isEmpty)
        // A copy that has its name already is whole.
        let check = "for copy in *.quire; do quire check \"$copy\" | grep -v well; done; true"
        #expect(try shell.output(check).isEmpty)
    }

    @Test(arguments: commands)
    func whatAKilledCommandLeavesTheNextOneRemoves(_ command: String) throws {
        let shell = try makeShell()
        for _ in 0..<2 {
            _ = try interrupt(command, "KILL", in: shell)
            _ = try shell.output("rm -rf Old.quire")
        }
        let next = command.hasPrefix("info") ? "info L.tar" : "save-as L.quire Next.quire"
        _ = try shell.output("export TMPDIR=$PWD/tmp; quire \(next)")
        #expect(
            try shell.output("find . -name '*quire-building*'").isEmpty)
        #expect(try shell.output("quire check L.quire").hasSuffix("all is well.\n"))
    }

    @Test(arguments: ["INT", "TERM", "HUP", "KILL"])
    func aKilledWriterLeavesNoSocket(_ signal: String) throws {
        let shell = try makeShell()
        let left = try shell.output(
            """
            set -m; exec 2> /dev/null
            mkdir -m 700 run; export XDG_RUNTIME_DIR=$PWD/run
            mkfifo pipe; env --default-signal quire open L.quire < pipe > out & pid=$!
            exec 3> pipe
            echo status >&3; until [ -s out ]; do :; done
            ls run/quire | wc -l
            kill -\(signal) $pid; wait $pid
            exec 3>&-
            quire new Other.quire --template Notes > out
            echo "status" | quire open Other.quire > out
            ls run/quire
            """)
        #expect(left.split(separator: "\n").first == "1")
        #expect(left.split(separator: "\n").count == 1, "\(left)")
    }

    /// Starts a session, has it run a line, and signals it.
    private func interruptSession(
        _ line: String, _ signal: String, in shell: CommandShell, document: String = "L.quire"
    ) throws -> String {
        try shell.output(
            """
            set -m; exec 2> /dev/null
            mkfifo pipe; env --default-signal quire open \(document) < pipe > out & pid=$!
            exec 3> pipe
            echo '\(line)' >&3; until [ -s out ]; do :; done
            kill -\(signal) $pid; wait $pid; echo "code $?"
            exec 3>&-; rm pipe out
            find . -name .lock -o -name '*-wal' -o -name '*-shm' -o -name '.*quire-*'
            """)
    }

    @Test(arguments: ["INT", "TERM", "HUP"])
    func aSignalSavesWhatASessionHasEdited(_ signal: String) throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        let codes = ["INT": 130, "TERM": 143, "HUP": 129]
        #expect(
            try interruptSession("insert Author name=New", signal, in: shell)
                == "code \(try #require(codes[signal]))\n")
        #expect(
            try shell.output("quire fetch L.quire Author --where 'name = \"New\"' --count") == "1\n"
        )
    }

    @Test(arguments: ["sqlite", "xml", "binary"])
    func aSignalSavesWhatASessionHasEditedInABareStore(_ type: String) throws {
        let shell = try CommandShell()
        let name = "B.\(type)"
        _ = try shell.output(
            "quire new L.quire --template Library; quire convert L.quire \(name) --to \(type)")
        #expect(
            try interruptSession("insert Author name=New", "TERM", in: shell, document: name)
                == "code 143\n")
        #expect(
            try shell.output("quire fetch \(name) Author --where 'name = \"New\"' --count")
                == "1\n")
    }

    @Test func aSignalKeepsWhatCannotBeSavedAsADraft() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        #expect(try interruptSession("insert Book", "TERM", in: shell) == "code 143\n")
        let draft = try shell.output("echo status | quire open L.quire 2> /dev/null; true")
        #expect(draft.contains("1 inserted"), "\(draft)")
    }
}
