import ArgumentParser
import Quire

/// `quire unlock PATH…`
struct UnlockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlock",
        abstract: "Unlocks documents for all programs of the user that use the keyring.",
        discussion: """
            Adds their master keys to the kernel's user keyring, until quire lock, the timeout, or \
            shutdown. Root and every program of the same user can read them there. All commands of \
            quire use the keyring. A person's keybag unlocks all documents that belong to it.

            EXAMPLES:
              quire unlock D.quire
              quire unlock D.quire --key-file my.key --timeout 3600
              quire unlock me.keybag
            """)

    @Argument(help: ArgumentHelp("Documents, stores or persons' keybags.", valueName: "PATH"))
    var paths: [String]

    @Option(help: ArgumentHelp("Lock it again after this time.", valueName: "SECONDS"))
    var timeout: Int?

    @OptionGroup var opening: OpeningOptions

    func validate() throws {
        if let timeout, !(1...Int(Int32.max)).contains(timeout) {
            throw ValidationError(
                "--timeout must be at least 1 second, and at most \(Int32.max) seconds.")
        }
    }

    func run() async throws {
        for path in paths {
            try opening.unlock.unlockedDomain(at: path).addToUserKeyring(
                timeout: timeout.map { .seconds($0) })
        }
        let time = timeout.map { " for \($0) s" } ?? ""
        try opening.printResult(paths.map { "Unlocked \($0)\(time)." }) {
            .object([
                "unlocked": .array(paths.map { .string($0) }),
                "timeout": timeout.map { .integer(Int64($0)) } ?? .null,
            ])
        }
    }
}

/// `quire lock [PATH…]`
struct LockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Locks documents that quire unlock has unlocked.",
        discussion: """
            Removes their keys from the kernel's user keyring; without a path, all of Quire's \
            keys. Programs that follow the keyring, such as quire open, save and lock their \
            documents; other programs keep them unlocked.

            EXAMPLES:
              quire lock D.quire
              quire lock
            """)

    @Argument(help: ArgumentHelp("Documents, stores or persons' keybags.", valueName: "PATH"))
    var paths: [String] = []

    @OptionGroup var printing: JSONOption

    func run() async throws {
        var count = 0
        for path in paths {
            let domain = try UnlockOptions.requiredDomain(at: path)
            if try domain.removeFromUserKeyring() { count += 1 }
            if try domain.unlockFromUserKeyring() {
                Output.report(
                    "“\(path)” is still unlocked, because the person's keybag that it belongs to is unlocked; lock the keybag too."
                )
            }
        }
        if paths.isEmpty { count = try ProtectionDomain.removeAllFromUserKeyring() }
        try printing.printResult(["Removed \(Count.of(count, "key")) from the user keyring."]) {
            .object(["removed": .integer(Int64(count))])
        }
    }
}
