import Foundation
import Testing

@testable import QuireCommand

/// `quire sync repair`, `rebuild`, `retire` and `leave --everywhere`: folders that have lost files, and replicas that are made anew or go.
@MainActor @Suite struct SyncRepairCommandTests {
    /// A shell with a document of three authors, shared in `shared`, and a replica.
    private func makeShell() throws -> CommandShell {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            mkdir a b; quire new a/L.quire --template Library; quire insert a/L.quire Author name=Austen
            quire sync init a/L.quire shared; quire sync join shared b/L.quire
            for n in Brontë Carroll; do quire insert a/L.quire Author name=$n; quire sync run a/L.quire; done
            quire insert b/L.quire Book title=Emma; quire sync run b/L.quire; quire sync run a/L.quire
            """)
        return shell
    }

    private func count(_ path: String, _ shell: CommandShell) throws -> String {
        try shell.output("quire fetch \(path) Author --count")
    }

    @Test func aFolderThatLostFilesIsRepaired() throws {
        let shell = try makeShell()
        _ = try shell.output(
            "rm $(ls shared/log/*.seg | head -2); for f in shared/log/*.seg; do truncate -s -9 $f; done"
        )
        #expect(try shell.output("quire sync repair a/L.quire 2> errors").hasPrefix("Repaired: "))
        #expect(try shell.output("ls shared/log | wc -l") == "0\n")
        _ = try shell.output("quire sync join shared c.quire")
        #expect(try count("c.quire", shell) == "3\n")
        #expect(
            try shell.output("quire diff a/L.quire c.quire --exit-code").hasSuffix(
                "No differences.\n"))
    }

    @Test func aReplicaIsMadeAnewFromAWholeFolderOnly() throws {
        let shell = try makeShell()
        _ = try shell.output("quire insert b/L.quire Author name=Dickens")
        #expect(
            try shell.output("quire sync rebuild b/L.quire").hasPrefix(
                "Rebuilt: sent 1 file, received "))
        #expect(try count("b/L.quire", shell) == "4\n")
        #expect(try shell.output("quire check b/L.quire").hasSuffix("all is well.\n"))
        _ = try shell.output("rm shared/log/*-0000000002-*")
        let result = try shell.run("quire sync rebuild b/L.quire")
        #expect(result.code == 1)
        #expect(
            result.output.contains("files that it has merged are missing from the folder")
        )
        #expect(try count("b/L.quire", shell) == "4\n")
        let json = try shell.output("quire sync rebuild b/L.quire --discard-missing --json")
        #expect(json.contains(#""deleted": 2"#), "\(json)")
        #expect(try count("b/L.quire", shell) == "2\n")
    }

    /// Both are other stores, which have the same objects.
    @Test(arguments: ["recover b/L.quire new.quire", "convert b/L.quire new.sqlite --to sqlite"])
    func whatWasRecoveredOrConvertedJoinsAgain(_ command: String) throws {
        let shell = try makeShell()
        let new = command.contains("recover") ? "new.quire" : "new.sqlite"
        _ = try shell.output(
            """
            quire insert b/L.quire Author name=Dickens; quire set b/L.quire Author/p1 born=1775
            quire set a/L.quire Author/p1 name='Jane Austen'; quire sync run a/L.quire
            quire \(command)
            quire sync join shared \(new); quire sync run a/L.quire
            """)
        #expect(try count("a/L.quire", shell) == "4\n")
        #expect(
            try shell.output("quire diff a/L.quire \(new) --exit-code").hasSuffix(
                "No differences.\n"))
        #expect(
            try shell.output(
                "quire fetch a/L.quire Author --where 'name == \"Jane Austen\" AND born == 1775' --count"
            ) == "1\n")
        // It remembers identifiers that it had before, too.
        _ = try shell.output(
            "quire sync leave \(new); quire \(command.replacing("b/L.quire new", with: "\(new) again"))"
        )
        _ = try shell.output("quire sync join shared again*; quire sync run a/L.quire")
        #expect(try count("a/L.quire", shell) == "4\n")
    }

    @Test func aReplicaThatDoesNotComeBackIsRetired() throws {
        let shell = try makeShell()
        let peer = try shell.output(
            "quire sync status b/L.quire | sed -n 's/.*, replica \\(.*\\)[.]$/\\1/p'")
        let retired = try shell.output("quire sync retire a/L.quire \(peer)")
        #expect(retired == "Retired: sent 1 file, received 0 files.\n")
        #expect(try shell.output("quire sync status a/L.quire").contains("retired."))
        // It comes back all the same, as another one.
        _ = try shell.output("quire insert b/L.quire Author name=Dickens")
        _ = try shell.output("quire sync run b/L.quire; quire sync run b/L.quire")
        _ = try shell.output("quire sync run a/L.quire")
        #expect(try count("a/L.quire", shell) == "4\n")
        #expect(
            try !shell.output("quire sync status b/L.quire | head -1").contains(
                peer.trimmingCharacters(in: .whitespacesAndNewlines)))
    }

    @Test func aDocumentThatIsRemovedFromTheFolderStaysOnEachMachine() throws {
        let shell = try makeShell()
        _ = try shell.output("quire sync run b/L.quire")
        #expect(
            try shell.output("quire sync leave a/L.quire --everywhere").hasSuffix(
                "The shared document was removed from the folder.\n"))
        #expect(try shell.output("find shared -type f | grep -vc removed/ || true") == "0\n")
        let result = try shell.run("quire sync run b/L.quire")
        #expect(result.code == 1)
        #expect(result.output.contains("was deliberately deleted from the folder"))
        #expect(try shell.run("quire sync status b/L.quire").code == 1)
        for path in ["a/L.quire", "b/L.quire"] { #expect(try count(path, shell) == "3\n") }
        // It may be shared anew.
        _ = try shell.output("quire sync init b/L.quire shared; quire sync join shared c.quire")
        #expect(try count("c.quire", shell) == "3\n")
    }
}
