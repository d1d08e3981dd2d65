import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCommand

/// The options that unlock what is protected.
@Suite struct UnlockTests {
    /// Gives a body a descriptor from which bytes can be read.
    private func withDescriptor<Result>(
        of bytes: some Sequence<UInt8>, _ body: (Int32) throws -> Result
    ) throws -> Result {
        let folder = try TemporaryFolder()
        let path = folder.path("secret")
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        return try body(descriptor)
    }

    @discardableResult
    private func secret(_ bytes: some Sequence<UInt8>) throws -> String {
        try withDescriptor(of: bytes) { try SecretLine.read("the passphrase", from: $0) }
    }

    // MARK: - Descriptors

    @Test func secretIsALine() throws {
        #expect(try secret("correct horse\nbattery".utf8) == "correct horse")
        #expect(try secret("correct horse".utf8) == "correct horse")
        #expect(try secret(" ä\t\r\n".utf8) == " ä\t\r")
    }

    @Test func whatFollowsTheLineIsNotRead() throws {
        let lines = try withDescriptor(of: "one\ntwo\n".utf8) {
            [
                try SecretLine.read("the passphrase", from: $0),
                try SecretLine.read("the passphrase", from: $0),
            ]
        }
        #expect(lines == ["one", "two"])
    }

    @Test func wordsOfARecoveryKeyMayBeOnSeveralLines() throws {
        let words = try RecoveryKey().words
        for text in [
            words, words + "\nfetch Book\n", "\n" + words.replacing("-", with: "\n"),
            words.replacing("-", with: " \r\n\r\n") + "\nfetch Book\n",
        ] {
            try withDescriptor(of: text.utf8) { (descriptor: Int32) throws in
                #expect(try SecretLine.readRecoveryKey(from: descriptor).words == words)
                guard text.hasSuffix("Book\n") else { return }
                #expect(try SecretLine.read("the rest", from: descriptor) == "fetch Book")
            }
        }
        let error = #expect(throws: QuireError.self) {
            try withDescriptor(of: words.dropLast(6).utf8) {
                try SecretLine.readRecoveryKey(from: $0)
            }
        }
        #expect(error?.code == .invalidValue)
        for text in ["", "\n", "\n\n"] {
            let failure = #expect(throws: Failure.self) {
                try withDescriptor(of: text.utf8) { try SecretLine.readRecoveryKey(from: $0) }
            }
            #expect(failure?.status == .usage)
        }
    }

    @Test func secretMayHave64KiBAndNoMore() throws {
        let longest = [UInt8](repeating: 0x61, count: 65_536)
        #expect(try secret(longest + [0x0A]).utf8.count == 65_536)
        #expect(try secret(longest).utf8.count == 65_536)
        #expect(throws: Failure.self) { try secret(longest + [0x61]) }
    }

    @Test(arguments: [[], [0x0A], [0x0A, 0x61], [0xFF, 0x61, 0x0A]] as [[UInt8]])
    func whatIsNoSecretIsAUsageError(_ bytes: [UInt8]) throws {
        let failure = #expect(throws: Failure.self) { try secret(bytes) }
        #expect(failure?.status == .usage)
        #expect(failure?.sentence.hasPrefix("The passphrase is ") == true)
    }

    @Test func folderIsAUsageErrorWhenRead() throws {
        let descriptor = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { close(descriptor) }
        let failure = #expect(throws: Failure.self) {
            try SecretLine.read("the passphrase", from: descriptor)
        }
        #expect(failure?.status == .usage)
    }

    @Test(arguments: ["--passphrase-fd", "--recovery-key-fd"])
    func badDescriptorIsAUsageError(_ option: String) throws {
        let shell = try CommandShell()
        let expected =
            "quire: \(option) 9: no file is open for reading as descriptor 9; open one, as in “\(option) 3 3< FILE”."
        for redirection in ["", "9> out"] {
            let result = try shell.run("quire info L.quire \(option) 9 \(redirection)")
            #expect(result.code == 2)
            #expect(result.output.hasPrefix(expected), "\(result.output)")
        }
        #expect(try shell.run("quire info L.quire \(option) -1").code == 2)
        #expect(try shell.run("quire info L.quire \(option) secret").code == 2)
    }

    @Test func onlyOneKeyIsTaken() throws {
        let result = try CommandShell().run("quire info L.quire --key-file a --passphrase-fd 0")
        #expect(result.code == 2)
        #expect(result.output.contains("Specify only one of --key-file"), "\(result.output)")
    }

    // MARK: - Verbs

    /// What takes a path, or other words, and opens no document for its caller.
    private static let withoutKey: Set<String> = [
        "quire status", "quire keys list", "quire library list", "quire lock",
        "quire library new", "quire library rename", "quire library trash",
        "quire library trashed", "quire library restore", "quire library watch",
        "quire sync ignore", "quire verify", "quire completion", "quire complete-words",
        "quire manual", "quire merge-driver",
    ]

    /// The parser's description of a command.
    private struct Command: Decodable {
        struct Argument: Decodable {
            struct Name: Decodable { var name: String }
            var kind: String
            var names: [Name]?
        }
        var commandName: String
        var subcommands: [Command]?
        var arguments: [Argument]?
    }

    private struct Description: Decodable { var command: Command }

    private func leaves(
        of command: Command, _ prefix: String = ""
    ) -> [(name: String, command: Command)] {
        let name = prefix + command.commandName
        let below = (command.subcommands ?? []).filter { $0.commandName != "help" }
        if below.isEmpty { return [(name, command)] }
        return below.flatMap { leaves(of: $0, name + " ") }
    }

    @Test func everyVerbOfADocumentCanUnlockIt() throws {
        let text = try CommandShell().output("quire --experimental-dump-help")
        let root = try JSONDecoder().decode(Description.self, from: Data(text.utf8)).command
        var names: Set<String> = []
        for (name, command) in leaves(of: root) {
            let arguments = command.arguments ?? []
            guard arguments.contains(where: { $0.kind == "positional" }) else { continue }
            names.insert(name)
            let options = Set(arguments.flatMap { $0.names ?? [] }.map(\.name))
            let unlocking: Set = ["key-file", "passphrase-fd", "recovery-key-fd"]
            #expect(
                Self.withoutKey.contains(name)
                    ? options.isDisjoint(with: unlocking) : options.isSuperset(of: unlocking),
                "\(name)")
        }
        #expect(names.isSuperset(of: Self.withoutKey))
        #expect(names.isSuperset(of: ["quire fetch", "quire model check", "quire data get"]))
    }

    /// A document that is protected, and its key file.
    private static let folder = Result {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            quire new L.quire --template Library --class complete --key-file key --make-key-file
            """)
        return shell.folder
    }

    static let commands = [
        "info L.quire", "model L.quire", "model print L.quire", "model check L.quire",
        "model compile L.quire -o L.mom", "model diff L.quire L.quire",
        "model generate L.quire Classes", "check L.quire", "fetch L.quire Book",
        "explain L.quire Book", "insert L.quire Author name=New", "dump L.quire",
        "data list L.quire", "content list L.quire", "save-as L.quire New.quire",
        "duplicate L.quire", "revert L.quire", "repair L.quire --dry-run",
        "convert L.quire New.xml --to xml", "open L.quire",
        "library duplicate L.quire", "protect L.quire --class none",
        "keys add L.quire --recovery-key",
    ]

    @Test(arguments: commands)
    func verbIsLockedWithoutAKeyAndRunsWithOne(_ command: String) throws {
        let shell = try CommandShell()
        let made = try Self.folder.get().path
        _ = try shell.output("cp -rp '\(made)/L.quire' '\(made)/key' .")
        let locked = try shell.run("quire \(command)")
        #expect(locked.code == 5, "\(locked.output)")
        #expect(locked.output.contains("--key-file"), "\(locked.output)")
        let unlocked = try shell.run("quire \(command) --key-file key")
        #expect(unlocked.code == 0, "\(unlocked.output)")
    }

    // MARK: - The terminal

    /// Runs a command at a terminal, and types when it asks.
    private func run(
        _ command: String, typing: [(question: String, answer: String)], in shell: CommandShell
    ) throws -> String {
        let answers = typing.map {
            """
            until grep -q '\($0.question)' seen || ! kill -0 $pid 2> /dev/null; do :; done
            printf '\($0.answer)' >&3
            """
        }
        return try shell.output(
            """
            mkfifo typed; exec 3<> typed; : > seen
            timeout 600 script -qefc "\(command)" seen < typed > /dev/null & pid=$!
            \(answers.joined(separator: "\n"))
            wait $pid; echo "code $?"; exec 3>&-; rm typed
            sed '1d;$d' seen | tr -d '\\r'
            """)
    }

    private func makeDocumentWithPassphrase() throws -> CommandShell {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            echo 'correct horse' > phrase
            quire new L.quire --template Library --class complete --passphrase-fd 3 3< phrase
            """)
        return shell
    }

    @Test func passphraseIsAskedForWithoutEcho() throws {
        let shell = try makeDocumentWithPassphrase()
        let seen = try run(
            "quire fetch L.quire Book --count; stty -a",
            typing: [("Passphrase", "correct horse\\n")], in: shell)
        #expect(seen.hasPrefix("code 0\nPassphrase for “L.quire”: \n0\n"), "\(seen)")
        #expect(seen.contains(" echo "), "\(seen)")
    }

    @Test func interruptionGivesTheTerminalItsEchoBack() throws {
        let shell = try makeDocumentWithPassphrase()
        let seen = try run(
            "trap : INT; quire fetch L.quire Book --count; stty -a",
            typing: [("Passphrase", "corr\\003")], in: shell)
        #expect(!seen.contains("corr"), "\(seen)")
        #expect(seen.contains(" echo "), "\(seen)")
    }

    @Test func newPassphraseIsAskedForTwice() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        let differing = try run(
            "quire protect L.quire --class complete",
            typing: [("New passphrase", "one\\n"), ("Repeat the passphrase", "two\\n")], in: shell)
        #expect(differing.hasPrefix("code 1\n"), "\(differing)")
        #expect(differing.contains("do not match"), "\(differing)")
        let equal = try run(
            "quire protect L.quire --class complete",
            typing: [("New passphrase", "one\\n"), ("Repeat the passphrase", "one\\n")], in: shell)
        #expect(equal.hasPrefix("code 0\n"), "\(equal)")
        #expect(
            try shell.output("echo one | quire fetch L.quire Book --count --passphrase-fd 0")
                == "0\n")
    }

    @Test func passwordOfASharedFolderIsAskedFor() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        let made = try run(
            "quire sync init L.quire shared --encrypt",
            typing: [("New password", "one\\n"), ("Repeat the password", "one\\n")], in: shell)
        #expect(made.hasPrefix("code 0\n"), "\(made)")
        let joined = try run(
            "quire sync join shared M.quire", typing: [("Password of", "one\\n")], in: shell)
        #expect(
            joined.hasPrefix("code 0\nPassword of the shared folder “shared”: \nCreated M.quire"),
            "\(joined)")
        // It has the key, and asks for nothing.
        #expect(try run("quire sync join shared M.quire", typing: [], in: shell).contains("code 0"))
    }
}
