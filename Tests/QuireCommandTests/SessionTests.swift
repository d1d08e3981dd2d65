import Foundation
import QuireTestSupport
import Testing

/// Sessions whose document others change or delete.
@Suite struct SessionTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// Runs a script in the folder, after a session of `L.quire` has answered its first line. `say LINE` gives it a line and
    /// prints what it answers; `noticed` waits until it has said something on its standard error. `remove` removes a package
    /// for good: one try is not enough if the session makes a file in there meanwhile.
    private func run(
        _ script: String, template: String = "Library", first: String = "insert Friend name=Ann"
    ) async throws -> ChildProcess.Outcome {
        let start = """
            cd "$1"; PATH="${2%/*}:$PATH"; export QUIRE_TEMPLATES="$3"
            quire new L.quire --template \(template) >/dev/null
            mkfifo in out; quire open L.quire <in >out 2>errors & session=$!
            exec 3>in 4<out
            say() { echo "$1" >&3; read -r answer <&4 || answer="(no answer)"; echo "$answer"; }
            noticed() { while ! [ -s errors ]; do say status >silent; kill -0 $session || return; done; }
            remove() { while [ -e "$1" ]; do rm -rf "$1" 2>silent; done; }
            say '\(first)'
            """
        let end = "exec 3>&-; cat <&4; wait $session; echo \"ended $?\"; cat errors"
        return try await ChildProcess.run(
            "/bin/sh",
            [
                "-c", [start, script, end].joined(separator: "\n"), "sh", folder.path,
                try TestProgram.path(named: "quire"), Self.templates,
            ])
    }

    private static let templates = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Sources/QuireDocuments/Resources/Templates").path

    @Test func aDeletedPackageIsASentenceAndTheSessionGoesOnUntilItIsSavedElsewhere() async throws {
        let outcome = try await run(
            """
            remove L.quire; noticed
            say 'fetch Friend --count'; say 'set Friend/p1 name=Ada2'
            say 'save-as New.quire'; say 'status'
            """)
        #expect(
            outcome.output == """
                Inserted Friend/p3.
                3
                Changed Friend/p1.
                Saved. No unsaved changes; can undo.
                No unsaved changes; can undo.
                ended 3
                quire: “L.quire” was deleted or replaced by another program; “save-as NEW” \
                keeps the unsaved changes.

                """)
        let fetched = try await ChildProcess.run(
            TestProgram.path(named: "quire"),
            ["fetch", folder.path("New.quire"), "Friend", "--count"])
        #expect(fetched.output == "3\n")
    }

    /// As under `nohup`: both a command's own handling and that of its session leave it alone.
    @Test func aSessionGoesOnWhenASignalArrivesThatWasIgnoredAtItsStart() async throws {
        let script = """
            cd "$1"; PATH="${2%/*}:$PATH"; export QUIRE_TEMPLATES="$3"
            quire new L.quire --template Library >silent
            mkfifo in out; (trap '' HUP; exec quire open L.quire) <in >out 2>&1 & session=$!
            exec 3>in 4<out
            say() { echo "$1" >&3; read -r answer <&4 || answer="(no answer)"; echo "$answer"; }
            say 'insert Friend name=Ann'; kill -HUP $session; say status
            kill -TERM $session; wait $session; echo "ended $?"
            """
        let outcome = try await ChildProcess.run(
            "/bin/sh",
            [
                "-c", script, "sh", folder.path, try TestProgram.path(named: "quire"),
                Self.templates,
            ])
        #expect(
            outcome.output == """
                Inserted Friend/p3.
                Unsaved: 1 inserted; can undo.
                ended 143

                """)
    }

    /// `ulimit -f` imitates a disk that is too full for the draft, and not for what the session itself needs.
    @Test(arguments: [true, false])
    func aSessionSaysWhetherWhatItCouldNotSaveIsLost(_ isFull: Bool) async throws {
        let script = """
            cd "$1"; PATH="${2%/*}:$PATH"; export QUIRE_TEMPLATES="$3"
            quire new L.quire --template Notes >silent
            head -c 300000 /dev/zero | tr '\\0' a >text
            printf '%s\\n' 'insert Post title= body=@text' 'insert Tag name=valid' >lines
            (\(isFull ? "ulimit -f 128;" : "") quire open L.quire <lines >silent) 2>&1; echo "ended $?"
            echo status | quire open L.quire 2>&1
            """
        let outcome = try await ChildProcess.run(
            "/bin/sh",
            [
                "-c", script, "sh", folder.path, try TestProgram.path(named: "quire"),
                Self.templates,
            ])
        let lines = outcome.output.split(separator: "\n").map(String.init)
        let error = try #require(lines.first)
        #expect(error.contains("“Post.title” is required"), "\(outcome.output)")
        #expect(error.contains("could not be kept as a draft") == isFull)
        #expect(error.contains("are lost: 2 inserted.") == isFull)
        #expect(lines.dropFirst().first == "ended 4", "\(outcome.output)")
        #expect(outcome.output.contains("No unsaved changes.") == isFull, "\(outcome.output)")
    }

    @Test func filesThatWentWithADeletedPackageAreNamedByTheSessionThatSavesItElsewhere()
        async throws
    {
        let outcome = try await run(
            """
            head -c 200000 /dev/zero >zeros
            say 'insert Attachment name=zeros data=@zeros'; say save
            say 'insert Tag name=unsaved'
            remove L.quire; noticed
            echo 'save-as New.quire' >&3; say status
            say 'insert Tag name=later'
            """, template: "Notes", first: "status")
        let lines = outcome.output.split(separator: "\n").map(String.init)
        // The save before.
        #expect(lines.filter { $0.hasPrefix("Saved.") }.count == 1, "\(outcome.output)")
        #expect(lines.contains("ended 3"), "\(outcome.output)")
        let error = try #require(lines.last)
        #expect(error.contains("the external data “"), "\(outcome.output)")
        #expect(error.contains("the additional content “Style.css”"), "\(outcome.output)")
        let fetched = try await ChildProcess.run(
            TestProgram.path(named: "quire"), ["fetch", folder.path("New.quire"), "Tag", "--count"])
        // One is the template's.
        #expect(fetched.output == "3\n")
    }

    @Test(arguments: [
        "remove L.quire", "mv L.quire M.quire; remove M.quire",
        "quire new M.quire --template Library >silent; remove L.quire; mv M.quire L.quire",
    ])
    func aPackageThatIsGoneEndsASessionWithASentence(_ way: String) async throws {
        let outcome = try await run(
            """
            \(way)
            noticed
            say 'fetch Friend --count'; say 'status'; echo save >&3
            """)
        #expect(!outcome.timedOut)
        let lines = outcome.output.split(separator: "\n").map(String.init)
        #expect(
            lines.prefix(4) == [
                "Inserted Friend/p3.", "3", "Unsaved: 1 inserted; can undo.", "ended 3",
            ], "\(outcome.output)")
        #expect(lines.dropFirst(4).allSatisfy { $0.hasPrefix("quire: “") }, "\(outcome.output)")
    }

    @Test func aSaveAfterTheStoreWasReplacedIsNotCalledSaved() async throws {
        let outcome = try await run(
            """
            quire save-as L.quire M.quire >silent
            mv M.quire/StoreContent/persistentStore L.quire/StoreContent/persistentStore
            echo save >&3
            """)
        #expect(!outcome.output.contains("Saved"))
        #expect(outcome.output.contains("ended 1"))
        #expect(outcome.output.contains("resolve the conflict"))
        // What was not saved comes back.
        let again = try await ChildProcess.run(
            "/bin/sh",
            [
                "-c", "echo 'fetch Friend --count' | \"$1\" open \"$2\"", "sh",
                try TestProgram.path(named: "quire"), folder.path("L.quire"),
            ])
        #expect(again.output == "3\n")
    }
}
