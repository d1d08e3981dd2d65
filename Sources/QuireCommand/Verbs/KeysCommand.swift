import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire keys …`
struct KeysCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Lists, adds and removes the keys of a protected document.",
        discussion: """
            A key is a passphrase, a key file, or a recovery key of 17 words. Each key unlocks the \
            whole document. A document can also belong to a person's keybag; the keys of that \
            keybag then unlock all documents of that person. A removed key still opens older \
            copies.

            EXAMPLES:
              quire keys list D.quire
              quire keys add D.quire --key-file my.key --new-passphrase --label 'at home'
              quire keys add D.quire --key-file my.key --recovery-key
              quire keys remove D.quire 5E0C --key-file my.key
              quire keys make me.keybag --recovery-key
              quire protect D.quire --class complete --keybag me.keybag
            """,
        subcommands: [
            KeysListCommand.self, KeysAddCommand.self, KeysRemoveCommand.self, KeysMakeCommand.self,
        ])
}

/// `quire keys list PATH`
struct KeysListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Lists the keys of a document. Needs no key.")

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @OptionGroup var printing: RowOptions

    func run() async throws {
        try Defaults.read(besideDocument: path)
        _ = try DocumentPath.kind(of: path)
        let domain = try UnlockOptions.domain(at: path)
        if domain == nil { try UnlockOptions.checkIsNotSealed(path) }
        try printing.print {
            try $0.printRows(
                of: domain?.slots ?? [], ProtectionListing.columns,
                members: ["id", "kind", "label", "created"],
                ifEmpty: domain == nil ? "\(path) is not protected." : nil
            ) { (ProtectionListing.texts($0), ProtectionListing.json($0)) }
        }
    }
}

/// `quire keys add PATH`
struct KeysAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Adds a passphrase, a key file or a recovery key.",
        discussion: """
            --make-key-file, --recovery-key and the options that begin with --new specify the key to \
            add; the options under KEYS specify the key that unlocks the document.
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @Option(
        help: ArgumentHelp("Add a key file.", valueName: "FILE"), completion: .file())
    var newKeyFile: String?

    @Flag(help: "Create the new key file, with random bytes, readable only by you.")
    var makeKeyFile = false

    @Flag(help: "Add a passphrase, which is asked for on the terminal.")
    var newPassphrase = false

    @Option(
        name: .customLong("new-passphrase-fd"),
        help: ArgumentHelp(
            "Add a passphrase, read as a line from this file descriptor.", valueName: "N"))
    var newPassphraseDescriptor: Int32?

    @Flag(help: "Create and add a recovery key, and print its words; they are shown only once.")
    var recoveryKey = false

    @Option(help: ArgumentHelp("A label, which is readable without a key.", valueName: "L"))
    var label = ""

    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions
    @OptionGroup var printing: JSONOption

    func validate() throws {
        let given = [
            newKeyFile != nil, newPassphrase, newPassphraseDescriptor != nil, recoveryKey,
        ]
        if given.count(where: \.self) != 1 {
            throw ValidationError(
                "Specify one of --new-key-file, --new-passphrase, --new-passphrase-fd and --recovery-key."
            )
        }
        if makeKeyFile && newKeyFile == nil {
            throw ValidationError("Specify the path of the new key file with --new-key-file.")
        }
        if let newPassphraseDescriptor, newPassphraseDescriptor == unlock.passphraseDescriptor {
            throw ValidationError(
                "--passphrase-fd and --new-passphrase-fd must be different descriptors.")
        }
        try UnlockOptions.check(newPassphraseDescriptor, of: "--new-passphrase-fd")
    }

    func run() async throws {
        let domain = try unlock.unlockedDomain(at: path)
        let (credential, words) = try newCredential()
        let id = try domain.addSlot(credential, label: label)
        let lines = words.map { [ProtectionListing.wordsNote, $0] } ?? []
        try printing.printResult(lines + ["Added the key \(id.uuidString) to \(path)."]) {
            .object(["id": .string(id.uuidString), "recoveryKey": JSONValue(words)])
        }
    }

    private func newCredential() throws -> (KeybagCredential, words: String?) {
        if let newKeyFile {
            try DocumentPackage.checkOutside(newKeyFile)
            if makeKeyFile { try ProtectionDomain.makeKeyFile(at: newKeyFile) }
            return (.keyFile(try KeyFile.read(newKeyFile)), nil)
        }
        if let newPassphraseDescriptor {
            let passphrase = try SecretLine.read(
                "the new passphrase", from: newPassphraseDescriptor)
            return (.passphrase(passphrase), nil)
        }
        if recoveryKey {
            let key = try RecoveryKey()
            return (.recoveryKey(key), key.words)
        }
        guard let passphrase = try SecretLine.askForNew("passphrase", "New passphrase: ")
        else {
            throw Failure.usage(
                "A passphrase cannot be asked for without a terminal; specify one with --new-passphrase-fd N."
            )
        }
        return (.passphrase(passphrase), nil)
    }
}

/// `quire keys remove PATH KEY`
struct KeysRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Removes a key, but not the last one.")

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @Argument(
        help: ArgumentHelp("Its identifier, as listed, or the beginning of it.", valueName: "KEY"))
    var key: String

    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions
    @OptionGroup var printing: JSONOption

    func run() async throws {
        let domain = try unlock.unlockedDomain(at: path)
        let prefix = key.uppercased()
        let meant = domain.slots.map(\.id).filter {
            !prefix.isEmpty && $0.uuidString.hasPrefix(prefix)
        }
        if meant.count > 1 {
            throw QuireError(
                .invalidValue,
                "\(meant.count) keys of “\(path)” begin with “\(key)”; specify more of the identifier.",
                file: path)
        }
        guard let id = meant.first else {
            throw QuireError(.notFound, "“\(path)” has no key “\(key)”.", file: path)
        }
        try domain.removeSlot(id)
        try printing.printResult(["Removed the key \(id.uuidString) from \(path)."]) {
            .object(["removed": .string(id.uuidString)])
        }
    }
}

/// `quire keys make KEYBAG`
struct KeysMakeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "make",
        abstract: "Creates a person's keybag, which can own documents.",
        discussion:
            "Keep a backup: without the keybag, the documents that belong to it cannot be read.")

    @Argument(help: ArgumentHelp("The keybag to create.", valueName: "KEYBAG"))
    var path: String

    @OptionGroup(title: HelpText.keys) var keys: NewKeyOptions

    @OptionGroup var printing: JSONOption

    func validate() throws {
        if keys.unlock.keybag != nil {
            throw ValidationError(
                "A person's keybag cannot belong to another keybag; omit --keybag.")
        }
    }

    func run() async throws {
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        // The document may replace or remove its files, and then nothing would open what belongs to the keybag.
        try DocumentPackage.checkOutside(path)
        let (slots, words) = try keys.slots()
        if let words, !printing.json { try ProtectionListing.printWords(words) }
        try ProtectionDomain.setUp(at: path, slots: slots)
        try printing.printResult(reportsChanges: words == nil, ["Created the keybag \(path)."]) {
            .object(["path": .string(path), "recoveryKey": JSONValue(words)])
        }
    }
}

/// Classes of protection, and what unlocks, as the command prints them.
enum ProtectionListing {
    /// A class, and whether what has it cannot be read now.
    static func json(_ protection: FileProtection, isLocked: Bool) -> JSONValue {
        .object(["class": .string(protection.rawValue), "locked": .boolean(isLocked)])
    }

    /// A class, and, of a replica, whether its shared folder is encrypted; `nil` for neither.
    static func line(_ protection: FileProtection, encryptedFolder: Bool?) -> String? {
        guard let encryptedFolder else {
            return protection == .none ? nil : "Protection: \(protection.rawValue)"
        }
        let folder = encryptedFolder ? "encrypted with a password" : "not encrypted"
        return "Protection: \(protection.rawValue); shared folder: \(folder)"
    }

    /// A slot.
    static func json(_ slot: ProtectionDomain.Slot) -> JSONValue {
        .object([
            "id": .string(slot.id.uuidString), "kind": .string(slot.kind.rawValue),
            "label": .string(slot.label), "created": PrintedDate.json(slot.created),
        ])
    }

    /// The columns of a table of slots.
    static let columns: [TextTable.Column] = [
        ("key", .left), ("kind", .left), ("label", .left), ("created", .left),
    ]

    /// The texts of the columns.
    static func texts(_ slot: ProtectionDomain.Slot) -> [String] {
        [slot.id.uuidString, slot.kind.rawValue, slot.label, PrintedDate.text(slot.created)]
    }

    /// Prints the words of a new recovery key, which may be the only key, before anything is sealed with it.
    static func printWords(_ words: String) throws {
        let output = Output()
        for line in [wordsNote, words] { try output.print(line) }
        try output.flush()
    }

    /// The line printed before the words of a new recovery key.
    static let wordsNote =
        "The recovery key is shown only once; write it down and keep it in a safe place:"
}

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

    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions
    @OptionGroup var printing: JSONOption

    func validate() throws {
        if let timeout, !(1...Int(Int32.max)).contains(timeout) {
            throw ValidationError(
                "--timeout must be at least 1 second, and at most \(Int32.max) seconds.")
        }
    }

    func run() async throws {
        for path in paths {
            try unlock.unlockedDomain(at: path).addToUserKeyring(
                timeout: timeout.map { .seconds($0) })
        }
        let time = timeout.map { " for \($0) s" } ?? ""
        try printing.printResult(paths.map { "Unlocked \($0)\(time)." }) {
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
