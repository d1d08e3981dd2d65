import Foundation
import QuireDocuments
import QuireTestSupport
import Testing

/// Commands that change a document that others have open for writing: they wait for each other.
@Suite struct WaitingTests {
    @Test(arguments: ["L.quire", "B.sqlite"])
    func tenChangesAtOnceAreAllMade(path: String) throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        _ = try shell.output(
            "(echo name; seq 10) > a.csv; quire import L.quire Author a.csv")
        _ = try shell.output("quire convert L.quire B.sqlite --to sqlite")
        let result = try shell.run(
            "for i in {1..10}; do quire set \(path) Author/p$i born=7 --wait 60 & done; "
                + "for job in $(jobs -p); do wait $job || echo \"failed: $?\"; done")
        #expect(!result.output.contains("failed:"), "\(result.output)")
        #expect(try shell.output("quire fetch \(path) Author --where born=7 --count") == "10\n")
    }

    @Test func waitsForWhoHasItOpenAndSaysWhoThatIs() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        let package = try DocumentPackage.open(at: shell.path("L.quire"))
        let me = ProcessInfo.processInfo.processIdentifier
        for arguments in [
            "insert L.quire Author name=A", "content add L.quire .", "versions keep L.quire",
            "revert L.quire", "open L.quire",
        ] {
            let result = try shell.run("quire \(arguments) --wait 0.1 </dev/null")
            #expect(result.code == 1, "\(arguments)")
            #expect(
                result.lines.first?.contains("is open for writing by process \(me) (") == true
                    && result.lines.first?.hasSuffix("waiting up to 0.1 s.") == true,
                "\(arguments): \(result.output)")
            // At once, and without a word about waiting.
            let atOnce = try shell.run("quire \(arguments) --wait 0 </dev/null")
            #expect(atOnce.code == 1 && !atOnce.output.contains("waiting"), "\(atOnce.output)")
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
