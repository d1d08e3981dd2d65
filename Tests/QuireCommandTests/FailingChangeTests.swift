import Foundation
import QuireTestSupport
import Testing

/// Every command that changes something, while one call that changes files fails: the exit code says whether the change was
/// made, or the sentence does.
///
/// Some calls of each command, drawn by the seed, or with `QUIRE_TORTURE=1` all of them.
@Suite(.needs(FailingCall.isPossible, or: "there is no strace"))
struct FailingChangeTests {
    @Test(arguments: FailingChange.all)
    func exitCodeSaysWhetherTheChangeWasMade(change: FailingChange) throws {
        let shell = try CommandShell()
        func renew() throws {
            _ = try shell.output("rm -rf work && cp -r \(FailingChange.folder.get().path) work")
        }
        try renew()
        let failures = try FailingCall.changing(in: shell, "cd work && quire \(change.command)")
            .flatMap { call in ["ENOSPC", "EIO"].map { (call: call, error: $0) } }
        #expect(failures.count >= 2)
        for (call, error) in SeededRandom.sample(
            of: failures, 2, for: change.testDescription)
        {
            try renew()
            let result = try shell.run(
                "cd work && "
                    + FailingCall.command(
                        "quire \(change.command)", failing: call.name, call.number, error))
            let found = try shell.output("cd work; \(change.probe)")
            let what = "\(error) at \(call.name) \(call.number): \(result.lines)"
            if result.code == 0 {
                #expect(found == change.after, "\(what)")
            } else if found != change.before {
                #expect(found == change.after, "\(what)")
                #expect(result.output.contains(#/has been (migrated|replaced)/#), "\(what)")
            }
            // What cannot be written may be the sentence.
            let isTold = !(call.name == "write" && result.output.isEmpty)
            if error == "ENOSPC" && result.code != 0 && isTold {
                #expect(result.output.contains(#/too full|No space left/#), "\(what)")
            }
            #expect(!result.output.contains(#/NSCocoa|Error Domain|code \d/#), "\(what)")
            if result.code != 0 {
                #expect(!result.output.contains(".quire-"), "\(what)")
            }
        }
    }

    /// All of a document is sealed anew, or none of it, wherever the process is killed; and it can be done again.
    @Test(arguments: FailingChange.protecting)
    func aKilledChangeOfProtectionIsMadeOrNotAndCanBeRepeated(change: FailingChange) throws {
        let shell = try CommandShell()
        func renew() throws {
            _ = try shell.output("rm -rf work && cp -r \(FailingChange.folder.get().path) work")
        }
        func probe() throws -> String { try shell.output("cd work; \(change.probe)") }
        try renew()
        #expect(try probe() == change.before)
        let calls = try FailingCall.changing(in: shell, "cd work && quire \(change.command)")
        #expect(try probe() == change.after)
        for call in SeededRandom.sample(of: calls, 4, for: "killed " + change.testDescription) {
            try renew()
            let result = try shell.run(
                "cd work && " + FailingCall.command("quire \(change.command)", killedIn: call))
            #expect(result.code != 0)
            let found = try probe()
            #expect([change.before, change.after].contains(found), "\(call): \(found)")
            if found == change.before {
                #expect(try shell.run("cd work && quire \(change.command)").code == 0, "\(call)")
                #expect(try probe() == change.after, "\(call)")
            }
        }
    }
}

/// A command that changes something, in a folder that is made once for all.
struct FailingChange: CustomTestStringConvertible, Sendable {
    /// The command, without “quire”.
    var command: String
    /// What tells whether the change was made, as a command of the shell.
    var probe: String
    /// What that prints before, and after.
    var before: String
    var after: String

    var testDescription: String { command }

    static let all: [FailingChange] =
        ["L.quire", "B.sqlite", "B.xml"].flatMap { path in
            [
                FailingChange(
                    command: "import \(path) Author a.csv",
                    probe: checked(path, "quire fetch \(path) Author --count"),
                    before: "1\n", after: "3\n"),
                FailingChange(
                    command: "delete \(path) Author --where 'name == \"Austen\"'",
                    probe: checked(path, "quire fetch \(path) Author --count"),
                    before: "1\n", after: "0\n"),
            ]
        }
        + ["L.quire", "B.sqlite"].map { path in
            FailingChange(
                command: "migrate \(path) --model New.xcdatamodel",
                probe: checked(path, "quire model \(path) | grep -c motto"),
                before: "0\n", after: "1\n")
        } + [
            FailingChange(
                command: "content add V.quire a.csv more --to new",
                probe: checked("V.quire", "quire content list V.quire | grep -c new/"),
                before: "0\n", after: "3\n"),
            FailingChange(
                command: "content add V.quire a.csv --as note.txt",
                probe: checked("V.quire", "quire content get V.quire note.txt | head -c 4"),
                before: "old\n", after: "name"),
            FailingChange(
                command: "content remove V.quire note.txt",
                probe: checked("V.quire", "quire content list V.quire | grep -c note.txt"),
                before: "1\n", after: "0\n"),
            FailingChange(
                command: "versions keep V.quire --name two",
                probe: checked("V.quire", "quire versions list V.quire | grep -c two"),
                before: "0\n", after: "1\n"),
            FailingChange(
                command: "versions delete V.quire one",
                probe: checked("V.quire", "quire versions list V.quire | grep -c one"),
                before: "1\n", after: "0\n"),
            FailingChange(
                command: "versions restore V.quire one",
                probe: checked(
                    "V.quire",
                    "quire fetch V.quire Author --where born=1 --count; "
                        + "quire content list V.quire | grep -c more/two"),
                before: "0\n0\n", after: "1\n1\n"),
            FailingChange(
                command: "save-as V.quire L.quire --replace",
                probe: checked("L.quire", "quire content list L.quire | grep -c note.txt"),
                before: "0\n", after: "1\n"),
        ] + protecting + [
            made("save-as V.quire N.quire", "N.quire"),
            made("duplicate V.quire", "V 2.quire"),
            made("versions show V.quire one --to N.quire", "N.quire"),
            made("export V.quire N.zip", "N.zip", probe: "info"),
            made("extract V.zip N.quire", "N.quire"),
            made("convert V.quire N.sqlite --to sqlite", "N.sqlite"),
            made("new N.quire --template Notes", "N.quire"),
        ]

    /// Changes of a document's protection, with all that it has.
    static let protecting: [FailingChange] = [
        FailingChange(
            command: "protect V.quire --class complete --key-file my.key",
            probe: sealed("V.quire"), before: "none\n2\n1\n", after: "complete\n2\n1\n"),
        FailingChange(
            command: "protect P.quire --class completeUnlessOpen --key-file my.key",
            probe: sealed("P.quire"), before: "complete\n2\n1\n",
            after: "completeUnlessOpen\n2\n1\n"),
        FailingChange(
            command: "protect P.quire --class none --key-file my.key",
            probe: sealed("P.quire"), before: "complete\n2\n1\n", after: "none\n2\n1\n"),
        FailingChange(
            command: "protect P.quire --rotate --key-file my.key",
            probe: sealed("P.quire")
                + "; cmp -s P.quire/Protection.keybag P.keybag && echo former || echo new",
            before: "complete\n2\n1\nformer\n", after: "complete\n2\n1\nnew\n"),
    ]

    /// The class of a document, its number of files and that of its versions, if it is whole.
    private static func sealed(_ path: String) -> String {
        "quire check \(path) --key-file my.key >/dev/null || echo damaged; "
            + "quire protect \(path) --show --json | grep -oE '\"class\": \"[a-zA-Z]+\"' "
            + "| cut -d '\"' -f 4; "
            + "quire content list \(path) --key-file my.key --json | grep -c '\"path\"'; "
            + "quire versions list \(path) --key-file my.key | grep -c one"
    }

    /// What a probe prints of a document or store that is whole.
    private static func checked(_ path: String, _ probe: String) -> String {
        "quire check \(path) >/dev/null || echo damaged; \(probe) || true"
    }

    /// Something that is there and whole, or not there.
    private static func made(
        _ command: String, _ path: String, probe: String = "check"
    ) -> FailingChange {
        FailingChange(
            command: command,
            probe: "test -e '\(path)' || exit 0; "
                + "quire \(probe) '\(path)' >/dev/null && echo there || echo damaged",
            before: "", after: "there\n")
    }

    /// The folder: “L.quire” has an object; so have the stores. “V.quire” has files of additional content and a version too,
    /// from which it differs.
    static let folder = Result {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            set -e
            printf 'name,born\\nBronte,1816\\nEliot,1819\\n' > a.csv
            echo old > note.txt
            mkdir more
            echo 1 > more/one
            echo 2 > more/two
            cp -r "$QUIRE_TEMPLATES"/Library/Model.xcdatamodeld/Model.xcdatamodel New.xcdatamodel
            motto='<attribute name="motto" optional="YES" attributeType="String"\\/>'
            sed -i -e 's/Library 1/Library 2/' -e "0,/<attribute name=.born./s//$motto&/" \
              New.xcdatamodel/contents
            quire new L.quire --template Library
            quire insert L.quire Author name=Austen born=1
            quire convert L.quire B.sqlite --to sqlite
            quire convert L.quire B.xml --to xml
            quire save-as L.quire V.quire
            quire content add V.quire note.txt more
            quire versions keep V.quire --name one
            quire set V.quire Author --where 'name == "Austen"' born=2
            quire content remove V.quire more/two
            quire export V.quire V.zip
            quire save-as V.quire P.quire
            quire protect P.quire --class complete --key-file my.key --make-key-file
            quire versions keep P.quire --name one --key-file my.key
            cp P.quire/Protection.keybag P.keybag
            """)
        return shell.folder
    }
}
