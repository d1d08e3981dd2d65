import Foundation
import Testing

@testable import QuireCommand

/// In a `chroot` or a container there may be no `/proc`, where Swift looks for a program's arguments.
@Suite(.enabled(if: HiddenProc.isPossible, "there is no way to hide /proc"))
struct WithoutProcTests {
    private func run(_ command: String, in shell: CommandShell) throws -> CommandShell.Result {
        try shell.run(HiddenProc.command(command))
    }

    @Test func commandsDoWhatTheyAreTold() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        let expected = try shell.output("quire fetch L.quire Friend --columns name")
        #expect(
            try run("quire fetch L.quire Friend --columns name", in: shell).output == expected)
        let steps = [
            "quire insert L.quire Author name=Emma", "quire set L.quire Author/p1 born=1775",
            "quire check L.quire", "quire info L.quire", "quire save-as L.quire M.quire",
            "quire export L.quire L.zip", "quire extract L.zip E.quire",
            "echo undo | quire open L.quire || true", "quire library list .",
            "quire data list L.quire", "quire dump L.quire", "quire new N.quire --template Library",
        ]
        for step in steps {
            let result = try run(step, in: shell)
            #expect(result.code == 0, "\(step): \(result.output)")
            #expect(!result.output.contains("OVERVIEW"), "\(step): \(result.output)")
        }
        #expect(try shell.output("quire fetch L.quire Author --columns born").contains("1775"))
    }

    @Test func failuresHaveTheirCodesAndSentences() throws {
        let shell = try CommandShell()
        let missing = try run("quire info none.quire", in: shell)
        #expect(missing.lines == ["quire: There is no document “none.quire”.", "[3]"])
        let wrong = try run("quire fetch none.quire --frob", in: shell)
        #expect(wrong.code == ExitStatus.usage.rawValue)
        #expect(wrong.output.hasPrefix("quire: "))
        #expect(try run("quire", in: shell).output.contains("OVERVIEW"))
    }

    /// They are found beside the program.
    @Test func templatesAreFound() throws {
        let shell = try CommandShell()
        let expected = try shell.output("env -u QUIRE_TEMPLATES quire templates")
        #expect(try run("env -u QUIRE_TEMPLATES quire templates", in: shell).output == expected)
    }
}

private enum HiddenProc {
    static let isPossible = (try? CommandShell().run(command("true")))?.code == 0

    /// A command that is run where nothing is mounted at `/proc`.
    static func command(_ command: String) -> String {
        "unshare -m sh -c 'mount -t tmpfs none /proc && \(command)'"
    }
}
