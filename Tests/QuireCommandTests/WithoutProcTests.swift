import Foundation
import QuireTestSupport
import Testing

@testable import QuireCommand

/// In a `chroot` or a container there may be no `/proc`, where Swift looks for a program's arguments.
@Suite(.needs(HiddenProc.isPossible, or: "there is no way to hide /proc"))
struct WithoutProcTests {
    @Test func nothingIsDone() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        let before = try shell.output("quire dump L.quire")
        for step in [
            "quire", "quire info L.quire", "quire set L.quire Author/p1 born=1775",
            "quire export L.quire L.zip", "echo undo | quire open L.quire",
        ] {
            let result = try shell.run(HiddenProc.command(step))
            #expect(result.code == ExitStatus.failed.rawValue, "\(step): \(result.output)")
            #expect(
                result.lines.first?.contains("/proc is not mounted") == true,
                "\(step): \(result.output)")
            #expect(!result.output.contains("OVERVIEW"), "\(step): \(result.output)")
        }
        #expect(try shell.output("quire dump L.quire") == before)
        #expect(!FileManager.default.fileExists(atPath: shell.path("L.zip")))
    }
}

private enum HiddenProc {
    static let isPossible = (try? CommandShell().run(command("true")))?.code == 0

    /// A command that is run where nothing is mounted at `/proc`.
    static func command(_ command: String) -> String {
        "unshare -m sh -c 'mount -t tmpfs none /proc && \(command)'"
    }
}
