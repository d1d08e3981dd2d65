import Foundation
import QuireDocuments
import QuireProtection
import QuireTestSupport
import Testing

/// `quire unlock` and `quire lock`. The tests share the user keyring with the user's programs, and remove only their own keys.
@Suite(.needs(UserKeyring.isAvailable, or: "the kernel's user keyring may not be used"))
struct KeyringTests {
    private let shell: CommandShell

    init() throws {
        shell = try CommandShell()
        _ = try shell.output(
            """
            quire keys make me.keybag --key-file me.key --make-key-file
            quire new A.quire --template Library --class complete --keybag me.keybag --key-file me.key
            quire new B.quire --template Library --class complete --key-file b.key --make-key-file
            """)
    }

    private func run(_ command: String) throws -> (code: Int32, output: String) {
        let result = try shell.run(command)
        return (result.code, result.output)
    }

    private func lock() { _ = try? shell.run("quire lock A.quire B.quire me.keybag") }

    @Test func oneUnlockServesAllCommandsUntilLock() throws {
        defer { lock() }
        let fetch = "quire fetch B.quire Book --count"
        #expect(try run(fetch).code == 5)
        #expect(try run("quire unlock B.quire < /dev/null").code == 5)
        #expect(try run("quire unlock B.quire --timeout 0 --key-file b.key").code == 2)
        #expect(
            try run("quire unlock B.quire --key-file b.key --timeout 900").output
                == "Unlocked B.quire for 900 s.\n")
        #expect(try run(fetch) == (0, "0\n"))
        #expect(try run("quire status B.quire").output.contains("Protected (complete).\n"))
        #expect(try run("quire protect B.quire --show").output.contains("complete, unlocked"))
        #expect(try run("quire library list . --json").output.contains("\"locked\": false"))
        #expect(try run("quire export B.quire B.zip --keep-protection").code == 0)
        #expect(try run("quire info B.zip").code == 0)
        #expect(
            try run("quire unlock B.quire --json").output.contains("\"timeout\": null"))
        #expect(
            try run("quire lock B.quire").output == "Removed 1 key from the user keyring.\n")
        #expect(try run(fetch).code == 5)
        #expect(try run("quire info B.zip").code == 5)
        #expect(try run("quire lock B.quire --json").output.contains("\"removed\": 0"))
        #expect(try run("quire lock C.quire").code == 3)
    }

    /// The document has its new keys by then: an error would say that nothing has changed.
    @Test(.needs(FailingCall.isPossible, or: "there is no strace"))
    func failingKeyringDoesNotMakeAFinishedExchangeFail() throws {
        defer { lock() }
        func folder() throws -> UInt64? {
            try FileManager.default.attributesOfItem(atPath: shell.path("B.quire"))[
                .systemFileNumber] as? UInt64
        }
        for number in 1...30 {
            _ = try shell.output("quire unlock B.quire --key-file b.key")
            let before = try folder()
            let name = number.isMultiple(of: 2) ? "complete" : "completeUnlessOpen"
            let result = try run(
                FailingCall.command(
                    "quire protect B.quire --class \(name) --key-file b.key", failing: "keyctl",
                    number, "EACCES"))
            #expect(try (result.code == 0) == (folder() != before), "\(result)")
            if try !FailingCall.happened(in: shell) {
                #expect(number > 1)
                return
            }
        }
        Issue.record("There are more calls.")
    }

    @Test func theKeybagOfAPersonUnlocksAllThatBelongsToIt() throws {
        defer { lock() }
        let fetch = "quire fetch A.quire Book --count"
        #expect(try run("\(fetch) --key-file me.key").output.contains("--keybag FILE"))
        #expect(try run("\(fetch) --keybag me.keybag --key-file me.key") == (0, "0\n"))
        #expect(
            try run("quire fetch B.quire Book --count --keybag me.keybag --key-file me.key").code
                == 5)
        #expect(try run("quire unlock me.keybag --key-file me.key").code == 0)
        #expect(try run(fetch) == (0, "0\n"))
        #expect(
            try run("quire insert A.quire Author name=New && quire check A.quire").code == 0)
        #expect(try run("quire fetch B.quire Book --count").code == 5)
        #expect(try run("quire lock A.quire").output.contains("still unlocked"))
        let rotate = "quire protect A.quire --rotate --keybag me.keybag --key-file me.key"
        #expect(try run("\(rotate) && \(fetch)").code == 0)
        // It is elsewhere now.
        #expect(try run("mv me.keybag you.keybag; \(fetch)").code == 5)
        #expect(try run("mv you.keybag me.keybag; \(fetch)").code == 0)
        #expect(try run("quire lock me.keybag; \(fetch)").code == 5)
    }

    @Test func newKeysAndErasureTakeTheKeyFromTheKeyring() throws {
        defer { lock() }
        let unlock = "quire unlock B.quire --key-file b.key"
        for change in [
            "--rotate --key-file b.key", "--class completeUnlessOpen", "--class none", "--erase",
        ] {
            if change == "--erase" {
                _ = try shell.output("quire protect B.quire --class complete --key-file b.key")
            }
            _ = try shell.output(unlock)
            let domain = try #require(
                try DocumentPackage.protectionDomain(at: shell.path("B.quire")))
            #expect(domain.isInUserKeyring)
            _ = try shell.output("quire protect B.quire \(change)")
            #expect(!domain.isInUserKeyring, "\(change)")
            #expect(
                try run("quire fetch B.quire Book --count").code
                    == (change == "--class none" ? 0 : change == "--erase" ? 3 : 5), "\(change)")
        }
    }

    @Test func anOpenDocumentIsLockedWithItsKey() throws {
        defer { lock() }
        let result = try run(
            """
            quire unlock B.quire --key-file b.key
            mkfifo lines; quire open B.quire < lines > answers 2>&1 & pid=$!
            exec 3> lines
            ask() { echo "$1" >&3; until grep -q "$2" answers; do kill -0 $pid || exit 1; done; }
            ask 'fetch Book --count' '^0$'
            quire lock B.quire
            until grep -q 'is locked' answers; do kill -0 $pid || exit 1; echo 'insert Author name=New' >&3; \
              echo save >&3; done
            quire unlock B.quire --key-file b.key
            until test "$(quire fetch B.quire Author --count)" -gt 0; do kill -0 $pid || exit 1; echo save >&3; done
            exec 3>&-; wait $pid; true
            """)
        #expect(result.code == 0, "\(result.output)")
        #expect(try run("quire check B.quire").code == 0)
    }
}
