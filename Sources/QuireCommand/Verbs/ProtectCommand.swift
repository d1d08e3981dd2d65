import ArgumentParser
import Quire
import QuireDocuments

/// `quire protect PATH --class C`, and with `--show`, `--rotate` or `--erase`
struct ProtectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "protect",
        abstract: "Encrypts a document or a store, or changes or shows its protection.",
        discussion: """
            The whole document is encrypted again. If this is interrupted, it has either the new \
            or the old protection. No process may have it open for writing. A bare store (SQLite, \
            XML or binary) is protected with its external data; its keys are in a file with \
            .keybag appended to its name. Without a key, the document cannot be read: keep \
            backups of key files, and a recovery key on paper. The classes complete, \
            completeUnlessOpen and completeUntilFirstUserAuthentication differ in what a program \
            that has the document open can do while it is locked.

            For an unprotected document, the specified key becomes the first key. For a protected \
            document, it unlocks the document, which keeps its keys; quire keys changes them. \
            --class none decrypts the document.

            --rotate encrypts the document with new keys; old keys that someone has read become \
            useless. The key that unlocked the document still unlocks it, and so do persons' \
            keybags. Other passphrases, key files and recovery keys must be added again; if there \
            are any, the command fails, unless you specify --remove-other-keys. --erase overwrites \
            the keys and deletes the document package; it needs no key. Older copies and archives \
            keep their keys.

            EXAMPLES:
              quire protect D.quire --class complete --key-file my.key --make-key-file
              quire protect D.quire --class complete --recovery-key
              quire protect D.quire --show
              quire protect Library.sqlite --class complete --key-file my.key
              quire protect D.quire --class none --key-file my.key
              quire protect D.quire --rotate --key-file my.key
              quire protect D.quire --erase
            """)

    @Argument(help: ArgumentHelp("A document package or a bare store.", valueName: "PATH"))
    var path: String

    @Option(
        name: .customLong("class"),
        help: ArgumentHelp("The class of protection.", valueName: "CLASS"))
    var protection: FileProtection?

    @Flag(help: "Print the class, the lock state and the keys. Needs no key.")
    var show = false

    @Flag(help: "Replace all of its keys.")
    var rotate = false

    @Flag(
        help:
            "With --rotate, remove passphrases, key files and recovery keys that were not specified."
    )
    var removeOtherKeys = false

    @Flag(help: "Overwrite its keys and delete it.")
    var erase = false

    @OptionGroup(title: HelpText.keys) var keys: NewKeyOptions

    @OptionGroup var printing: JSONOption

    @OptionGroup var wait: WaitOption

    func validate() throws {
        if [show, rotate, erase, protection != nil].count(where: \.self) != 1 {
            throw ValidationError("Specify one of --class, --show, --rotate and --erase.")
        }
        if removeOtherKeys && !rotate {
            throw ValidationError("--remove-other-keys requires --rotate.")
        }
        if keys.makesKeys, protection == nil || protection == FileProtection.none {
            throw ValidationError(
                "--make-key-file and --recovery-key require --class with a class other than none.")
        }
    }

    func run() async throws {
        let kind = try DocumentPath.kind(of: path)
        switch kind {
        case .package: try DocumentPackage.checkIsPackage(DocumentPackageLayout(path: path))
        case .store where erase:
            throw QuireError(
                .unsupported,
                "“\(path)” is a bare store; --erase requires a document package. Overwrite its keybag “\(StoreProtection.keybag(ofStoreAt: path).path)”, and delete it with the store.",
                file: path)
        case .store: break
        case .archive: throw DocumentPath.archiveError(path)
        }
        // Also after an interruption, when there is no keybag to read any more.
        if erase { return try eraseKeys() }
        if !show { try keys.checkOutsideDocuments() }
        let domain = try UnlockOptions.domain(at: path)
        if domain == nil { try UnlockOptions.checkIsNotSealed(path) }
        if rotate { return try rotateKeys() }
        guard let protection else { return try printState(of: domain) }
        let former = domain?.protection ?? .none
        if domain != nil {
            try changeClass(from: former, to: protection)
        } else if protection == .none {
            try answer("\(path) is not protected.", protection, former)
        } else {
            try protect(as: protection)
        }
    }

    /// Protects a document that was not.
    private func protect(as protection: FileProtection) throws {
        let person = try keys.unlock.person()
        let (slots, words) = try keys.slots()
        let sentence = "Protected \(path) as \(protection.rawValue)."
        // Before anything is sealed: if they cannot be printed, the only key may be lost.
        if let words {
            try printing.printResult(reportsChanges: false, [ProtectionListing.wordsNote, words]) {
                members(protection, .none, words)
            }
        }
        try set(protection, domain: person, slots: slots)
        if words == nil || !printing.json { try answer(sentence, protection, .none) }
        Output.report(
            "The unencrypted data of “\(path)” may remain readable on the disk until its blocks are reused."
        )
    }

    /// Changes the class of a document that is protected.
    private func changeClass(from former: FileProtection, to protection: FileProtection) throws {
        if keys.makesKeys {
            throw Failure.usage(
                "“\(path)” is already protected, and keeps its keys; add another with “quire keys add”."
            )
        }
        _ = try keys.unlock.unlockedDomain(at: path)
        try set(protection, domain: nil, slots: [])
        let sentence =
            if protection == former {
                "\(path) is already protected as \(protection.rawValue)."
            } else if protection == .none {
                "\(path) is no longer encrypted: anyone who can read its files can read its content."
            } else {
                "\(path) is now protected as \(protection.rawValue), no longer as \(former.rawValue)."
            }
        try answer(sentence, protection, former)
    }

    private func set(
        _ protection: FileProtection, domain: ProtectionDomain?, slots: [NewSlot]
    ) throws {
        if try DocumentPath.kind(of: path) == .store {
            return try StoreFile(at: path).setFileProtection(
                protection, domain: domain, slots: slots)
        }
        try DocumentPackage.setFileProtection(
            protection, ofDocumentAt: path, domain: domain, slots: slots,
            waiting: wait.lockWait(for: path))
    }

    /// Makes all keys of a protected document anew, and keeps the slot that it was unlocked with.
    private func rotateKeys() throws {
        let domain = try keys.unlock.unlockedDomain(at: path)
        // That of a person opens a slot of the person's keybag.
        let credential = keys.unlock.keybag == nil ? UnlockOptions.credentialInUse : nil
        let kept = try credential.flatMap { try domain.slot(openedBy: $0) }
        let others = domain.slots.filter { $0.id != kept?.id && $0.kind != .domain }
        if !others.isEmpty, !removeOtherKeys {
            throw Failure.usage(
                "“\(path)” has other keys that cannot be kept: \(others.map(Self.name).joined(separator: ", ")). Specify --remove-other-keys to remove them, then add them again with “quire keys add”."
            )
        }
        var slots: [NewSlot] = []
        if let kept, let credential { slots = [NewSlot(credential, label: kept.label)] }
        if try DocumentPath.kind(of: path) == .store {
            try StoreFile(at: path).rotateKeys(slots: slots)
        } else {
            try DocumentPackage.rotateKeys(
                ofDocumentAt: path, slots: slots, waiting: wait.lockWait(for: path))
        }
        try answer(
            "Replaced the keys of \(path).", domain.protection, domain.protection)
        if !others.isEmpty {
            Output.report("Removed: \(others.map(Self.name).joined(separator: ", ")).")
        }
    }

    private static func name(_ slot: ProtectionDomain.Slot) -> String {
        slot.label.isEmpty ? slot.kind.rawValue : "\(slot.kind.rawValue) “\(slot.label)”"
    }

    private func eraseKeys() throws {
        // A damaged keybag can be erased too.
        let former = (try? DocumentPackage.fileProtection(at: path)) ?? .none
        try DocumentPackage.erase(documentAt: path, waiting: wait.lockWait(for: path))
        try answer("Erased the keys of \(path), and deleted it.", .none, former)
        Output.report("Older copies and archives of “\(path)” keep their keys.")
    }

    // MARK: - Printing

    private func members(
        _ protection: FileProtection, _ former: FileProtection, _ words: String?
    ) -> JSONValue {
        .object([
            "path": .string(path), "class": .string(protection.rawValue),
            "formerClass": .string(former.rawValue), "recoveryKey": JSONValue(words),
        ])
    }

    private func answer(
        _ sentence: String, _ protection: FileProtection, _ former: FileProtection
    ) throws {
        try printing.printResult([sentence]) { members(protection, former, nil) }
    }

    private func printState(of domain: ProtectionDomain?) throws {
        if let domain {
            UnlockOptions.hold(domain)
            if keys.unlock.isGiven { try keys.unlock.unlock(path) }
            try domain.unlockFromUserKeyring()
        }
        let (protection, isLocked) = (domain?.protection ?? .none, domain?.isUnlocked == false)
        let lines =
            domain.map {
                ["\(path): \(protection.rawValue), \(isLocked ? "locked" : "unlocked")", ""]
                    + TextTable(
                        ProtectionListing.columns, rows: $0.slots.map(ProtectionListing.texts)
                    ).lines
            } ?? ["\(path) is not protected."]
        try printing.printResult(reportsChanges: false, levels: 2, lines) {
            .object([
                "path": .string(path), "class": .string(protection.rawValue),
                "locked": .boolean(isLocked),
                "keys": .array((domain?.slots ?? []).map(ProtectionListing.json)),
            ])
        }
    }
}
