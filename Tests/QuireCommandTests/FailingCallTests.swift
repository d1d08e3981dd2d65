import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCommand

/// A command whose system calls fail: the exit code says whether the change was made.
@Suite(.needs(FailingCall.isPossible, or: "there is no strace"))
struct FailingCallTests {
    /// What is changed.
    enum Subject: String, CaseIterable {
        case document = "L.quire"
        case store = "B.sqlite"
        case xmlStore = "B.xml"
    }

    private func shell(_ subject: Subject) throws -> CommandShell {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        _ = try shell.output("quire insert L.quire Author name=Austen born=1")
        switch subject {
        case .document: break
        case .store: _ = try shell.output("quire convert L.quire B.sqlite --to sqlite")
        case .xmlStore: _ = try shell.output("quire convert L.quire B.xml --to xml")
        }
        return shell
    }

    /// Of the calls a third is drawn by the seed; all of them with `QUIRE_TORTURE=1`.
    @Test(arguments: Subject.allCases, ["ENOSPC", "EIO"])
    func exitCodeSaysWhetherTheChangeWasMade(subject: Subject, error: String) throws {
        let shell = try shell(subject)
        let (path, copy) = (subject.rawValue, "copy-\(subject.rawValue)")
        func command(_ year: Int) -> String {
            "quire set \(copy) Author --where 'name == \"Austen\"' born=\(year)"
        }
        _ = try shell.output("cp -r \(path) \(copy)")
        let calls = try FailingCall.changing(in: shell, command(1000))
        #expect(calls.count >= 3)
        let sample = SeededRandom.sample(of: calls, calls.count / 3, for: "\(path) \(error)")
        for (index, call) in sample.enumerated() {
            let year = 1001 + index
            _ = try shell.output("rm -rf \(copy) && cp -r \(path) \(copy)")
            let result = try shell.run(
                FailingCall.command(command(year), failing: call.name, call.number, error))
            let found = try shell.output("quire fetch \(copy) Author --where born=\(year) --count")
            let what = "\(error) at \(call.name) \(call.number): \(result.lines)"
            #expect(found == (result.code == 0 ? "1\n" : "0\n"), "\(what) \(found)")
            if error == "ENOSPC" && result.code != 0 {
                #expect(
                    result.output.contains("too full") || result.output.contains("No space"),
                    "\(what)")
            }
            #expect(!result.output.contains("NSCocoa"), "\(what)")
        }
    }

    /// Of the calls a third is drawn by the seed; all of them with `QUIRE_TORTURE=1`.
    @Test(arguments: [Subject.document, .store], ["ENOSPC", "EIO"])
    func compactionThatFailsLeavesTheContent(subject: Subject, error: String) throws {
        let shell = try shell(subject)
        let (path, copy) = (subject.rawValue, "copy-\(subject.rawValue)")
        _ = try shell.output(
            """
            (echo name; for i in $(seq 2000); do echo "$i $(printf '%0100d' $i)"; done) > a.csv
            quire import \(path) Author a.csv; quire delete \(path) Author --where 'name ENDSWITH "7"'
            cp -r \(path) \(copy); quire dump \(path) > before.json
            """)
        let calls = try FailingCall.changing(in: shell, "quire compact \(copy)")
        #expect(calls.count >= 3)
        for call in SeededRandom.sample(of: calls, calls.count / 3, for: "\(path) \(error)") {
            _ = try shell.output("rm -rf \(copy) && cp -r \(path) \(copy)")
            let result = try shell.run(
                FailingCall.command("quire compact \(copy)", failing: call.name, call.number, error)
            )
            let what = "\(error) at \(call.name) \(call.number): \(result.lines)"
            let check = try shell.run(
                "quire check \(copy) && quire dump \(copy) | cmp - before.json")
            #expect(check.code == 0, "\(what): \(check.lines)")
            if error == "ENOSPC" && result.code != 0 {
                #expect(
                    result.output.contains("too full") || result.output.contains("No space"),
                    "\(what)")
            }
        }
    }

    /// Of the calls a tenth is drawn by the seed; all of them with `QUIRE_TORTURE=1`.
    @Test(arguments: [
        ("extract L.zip X.quire", "test -e X.quire"),
        ("library rename L.quire M", "test -e M.quire"),
        (
            "migrate L.quire --model New.xcdatamodel --no-backup",
            "quire model L.quire | grep -q nickname"
        ),
    ])
    func exitCodeSaysWhetherItIsDone(command: String, isDone: String) throws {
        let shell = try shell(.document)
        _ = try shell.output("quire export L.quire L.zip && mkdir New.xcdatamodel")
        let store = try SQLiteStore.open(at: shell.path("L.quire/StoreContent/persistentStore"))
        var model = store.layout.model
        try store.close()
        model.entities[0].properties.append(
            .attribute(AttributeDescription(name: "nickname", type: .string)))
        try model.modelXML().write(
            to: URL(fileURLWithPath: shell.path("New.xcdatamodel/contents")))
        _ = try shell.output("cp -r L.quire kept")
        let calls = try FailingCall.changing(in: shell, "quire \(command)")
        #expect(calls.count >= 2)
        #expect(try shell.run(isDone).code == 0)
        for call in SeededRandom.sample(of: calls, max(calls.count / 10, 3), for: command) {
            _ = try shell.output("rm -rf L.quire X.quire M.quire && cp -r kept L.quire")
            let result = try shell.run(
                FailingCall.command("quire \(command)", failing: call.name, call.number, "EIO"))
            let what = "EIO at \(call.name) \(call.number): \(result.lines)"
            #expect((try shell.run(isDone).code == 0) == (result.code == 0), "\(what)")
        }
    }

    /// Writing to `/dev/full` fails like writing to a file on a full disk.
    @Test(arguments: Subject.allCases)
    func fullOutputDoesNotChangeTheExitCodeOfAChange(subject: Subject) throws {
        let shell = try shell(subject)
        for (index, command) in [
            "set \(subject.rawValue) Author --where 'born == 1' born=2",
            "insert \(subject.rawValue) Author name=B",
            "delete \(subject.rawValue) Author --where 'born == 2'",
        ].enumerated() {
            let result = try shell.run("quire \(command) >/dev/full")
            #expect(
                result.lines == [
                    "quire: The output could not be written: No space left on device. "
                        + "The operation completed; only its output is lost."
                ], "\(index)")
        }
        #expect(try shell.output("quire fetch \(subject.rawValue) Author --count") == "1\n")
        // What is only read has not been told.
        #expect(try shell.run("quire fetch \(subject.rawValue) Author >/dev/full").code == 1)
    }

    @Test func fullOutputDoesNotChangeTheExitCodeOfWhatIsMade() throws {
        let shell = try shell(.document)
        for command in [
            "new M.quire --template Notes", "content add L.quire note.txt",
            "save-as L.quire N.quire",
            "duplicate L.quire", "versions keep L.quire",
            "versions show L.quire latest --to V.quire", "export L.quire L.zip",
            "extract L.zip X.quire", "convert L.quire L.xml --to xml", "repair L.quire",
            "recover L.quire R.quire", "compact L.quire",
        ] {
            let result = try shell.run("echo x > note.txt; quire \(command) >/dev/full")
            #expect(result.code == 0, "\(command): \(result.output)")
            #expect(
                result.output.contains("The operation completed"), "\(command): \(result.output)")
        }
    }

    @Test func temporaryFolderThatCannotBeMadeIsNamedInWords() throws {
        let shell = try shell(.document)
        _ = try shell.output("quire export L.quire L.tar")
        let result = try shell.run(
            FailingCall.command("quire info L.tar", failing: "mkdir,mkdirat", 1, "ENOSPC"))
        #expect(result.code == 1)
        #expect(result.output.contains("No space left on device"), "\(result.output)")
        #expect(!result.output.contains("NSCocoa"), "\(result.output)")
    }
}
