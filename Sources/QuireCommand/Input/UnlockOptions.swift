public import ArgumentParser
import Foundation
public import Quire
import QuireDocuments

/// The options of commands that open documents, stores or models, and report in words or as JSON.
struct OpeningOptions: ParsableArguments, ResultPrinting {
    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions
}

/// The options of every verb that opens documents: what unlocks those that are protected.
struct UnlockOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("Key file that unlocks it.", valueName: "FILE"),
        completion: .file())
    var keyFile: String?

    @Option(
        name: .customLong("passphrase-fd"),
        help: ArgumentHelp(
            "Unlock it with a passphrase: a line read from this file descriptor.",
            valueName: "N"))
    var passphraseDescriptor: Int32?

    @Option(
        name: .customLong("recovery-key-fd"),
        help: ArgumentHelp(
            "Unlock it with the words of a recovery key, read from this file descriptor.",
            valueName: "N"))
    var recoveryKeyDescriptor: Int32?

    @Option(
        help: ArgumentHelp(
            "Keybag of the document's owner; the other options then specify one of its keys.",
            valueName: "FILE"),
        completion: .file())
    var keybag: String?

    /// Whether there is any of the options.
    var isGiven: Bool { givesKey || keybag != nil }

    private var givesKey: Bool { keyCount > 0 }

    private var keyCount: Int {
        [keyFile != nil, passphraseDescriptor != nil, recoveryKeyDescriptor != nil].count { $0 }
    }

    func validate() throws {
        if keyCount > 1 {
            throw ValidationError(
                "Specify only one of --key-file, --passphrase-fd and --recovery-key-fd.")
        }
        try Self.check(passphraseDescriptor, of: "--passphrase-fd")
        try Self.check(recoveryKeyDescriptor, of: "--recovery-key-fd")
    }

    /// Throws a usage error if an option gives a descriptor that cannot be read.
    static func check(_ descriptor: Int32?, of option: String) throws {
        guard let descriptor, !SecretLine.canRead(descriptor) else { return }
        throw ValidationError(
            "\(option) \(descriptor): no file is open for reading as descriptor \(descriptor); open one, as in “\(option) 3 3< FILE”."
        )
    }

    /// The credential read before: a descriptor can be read only once, but a copy that a verb opens needs it again.
    private static let known = Lock<KeybagCredential?>(nil)

    /// The credential that was given or typed; `nil` before, and if nothing was needed.
    static var credentialInUse: KeybagCredential? { known.withLock { $0 } }

    /// Forgets the credential, for a process that goes on: its domains stay unlocked. What lies about of a passphrase is
    /// overwritten as far as it can be, see ``ProtectionDomain/unlock(passphrase:)``.
    static func forgetCredential() { wipingTraces { known.withLock { $0 = nil } } }

    /// The credential of the options; `nil` without one.
    func credential() throws -> KeybagCredential? {
        if !givesKey { return nil }
        if let known = Self.known.withLock({ $0 }) { return known }
        var credential: KeybagCredential?
        if let keyFile {
            credential = .keyFile(try KeyFile.read(keyFile))
        } else if let passphraseDescriptor {
            credential = .passphrase(
                try SecretLine.read("the passphrase", from: passphraseDescriptor))
        } else if let recoveryKeyDescriptor {
            credential = .recoveryKey(
                try SecretLine.readRecoveryKey(from: recoveryKeyDescriptor))
        }
        Self.known.withLock { $0 = credential }
        return credential
    }

    // MARK: - Unlocking

    /// The domains that were unlocked, which stay so until the process ends. Nothing else holds one before a document is open.
    private static let held = Lock<[ProtectionDomain]>([])

    /// Holds a domain, and with it its keys, until the process ends.
    static func hold(_ domain: ProtectionDomain) {
        held.withLock { held in
            if !held.contains(where: { $0 === domain }) { held.append(domain) }
        }
    }

    /// The domain of a document, a bare store or a keybag at a path; `nil` if it is not protected, or does not exist.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` or `unsupported` if its keybag cannot be read.
    static func domain(at path: String) throws -> ProtectionDomain? {
        let information = (try? FileSystem.information(at: path)) ?? nil
        if information?.kind == .folder { return try DocumentPackage.protectionDomain(at: path) }
        if Keybag.isKeybag(at: path) { return try ProtectionDomain.domain(of: path) }
        return try StoreProtection.domain(ofStoreAt: path)
    }

    /// Checks that a document or a bare store without a keybag has not lost one.
    ///
    /// - Throws: `QuireError` with code `invalidFormat`, which names the keybag, `unsupported` if it is an archive, whose keys cannot
    ///   be changed, or errors of reading.
    static func checkIsNotSealed(_ path: String) throws {
        switch try DocumentPath.kind(of: path) {
        case .package: try DocumentPackage.checkIsNotSealed(at: path)
        case .store: _ = try StoreFile(at: path)
        case .archive: throw DocumentPath.archiveError(path)
        }
    }

    /// The domain of the person whose keybag was given, unlocked; `nil` if none was.
    ///
    /// - Throws: As ``unlockedDomain(at:)``.
    func person() throws -> ProtectionDomain? {
        guard let keybag else { return nil }
        let domain = try ProtectionDomain.domain(of: keybag)
        Self.hold(domain)
        if try !domain.unlockFromUserKeyring() { try unlockByKey(domain, of: keybag) }
        if domain.isUnlocked { return domain }
        throw StoreProtection.lockedError(keybag, domain)
    }

    /// Unlocks a document or a store, if it is protected, before it is opened: with the given key, a key in the user keyring, or a
    /// passphrase that is asked for on the terminal. Without any of these it stays locked, and opening it fails.
    ///
    /// - Throws: `QuireError` with code `wrongKey` if it opens no slot, or what reading the key or the keybag throws.
    func unlock(_ path: String) throws {
        if let domain = try Self.domain(at: path) { try unlock(domain, of: path) }
    }

    /// Opens the document in an archive for reading.
    ///
    /// - Throws: `QuireError` with code `invalidFormat`, or `protectedDataUnavailable` if it is protected and no key is given.
    func open(archive path: String, model: ManagedObjectModel? = nil) throws -> DocumentPackage {
        var options = SQLiteStoreOptions()
        options.infersModel = true
        options.verifiesExternalData = true
        return try DocumentPackage.open(archive: path, model: model, options: options) {
            try unlock($0, of: path)
        }
    }

    /// Unlocks the domain of a document or store, and holds it.
    ///
    /// - Parameter asks: Whether a passphrase may be asked for.
    func unlock(_ domain: ProtectionDomain, of path: String, asks: Bool = true) throws {
        Self.hold(domain)
        let person = try person()
        if !givesKey || person != nil, try domain.unlockFromUserKeyring() { return }
        if person != nil { throw foreignError(path) }
        try unlockByKey(domain, of: path, asks: asks)
    }

    /// Unlocks a domain with the given key, or with one that is asked for.
    private func unlockByKey(_ domain: ProtectionDomain, of path: String, asks: Bool = true) throws
    {
        if domain.isUnlocked { return }
        guard let given = try credential() else {
            if try Self.unlocksByDefault(domain) { return }
            if asks, domain.slots.contains(where: { $0.kind == .passphrase }) {
                try Self.askToUnlock(domain, of: path)
            }
            return
        }
        do { try domain.unlock(given) } catch var error as QuireError where error.code == .wrongKey
        {
            if domain.slots.contains(where: { $0.kind == .domain }) {
                error.message +=
                    " It belongs to a person's keybag; to use a key of that keybag, specify --keybag FILE."
            }
            throw error
        }
    }

    /// Unlocks a domain with the user's default key file, if there is one and it is its key.
    private static func unlocksByDefault(_ domain: ProtectionDomain) throws -> Bool {
        guard let path = try Defaults.current().keyFile, FileSystem.exists(path) else {
            return false
        }
        do { try domain.unlock(.keyFile(KeyFile.read(path))) } catch let error as QuireError
            where error.code == .wrongKey
        { return false }
        return true
    }

    private func foreignError(_ path: String) -> QuireError {
        QuireError(
            .wrongKey,
            "“\(path)” does not belong to the keybag “\(keybag ?? "")”; omit --keybag, or specify the right one.",
            file: path)
    }

    /// Unlocks a domain with the passphrase that was typed for another, or asks for one at a terminal.
    private static func askToUnlock(_ domain: ProtectionDomain, of path: String) throws {
        if let known = known.withLock({ $0 }) {
            do { return try domain.unlock(known) } catch let error as QuireError
                where error.code == .wrongKey
            {}
        }
        guard
            let passphrase = try SecretLine.ask(
                "the passphrase", "Passphrase for “\(path)”: ")
        else { return }
        try domain.unlock(.passphrase(passphrase))
        known.withLock { $0 = .passphrase(passphrase) }
    }

    /// The domain of something that is protected, unlocked.
    ///
    /// - Throws: As ``unlock(_:)``, and `QuireError` with code `protectionUnavailable` if it is not protected,
    ///   `protectedDataUnavailable` if it is still locked.
    func unlockedDomain(at path: String) throws -> ProtectionDomain {
        let domain = try Self.requiredDomain(at: path)
        try unlock(domain, of: path)
        if domain.isUnlocked { return domain }
        throw StoreProtection.lockedError(path, domain)
    }

    /// The domain of something that must exist and be protected.
    static func requiredDomain(at path: String) throws -> ProtectionDomain {
        _ = try DocumentPath.kind(of: path)
        if let domain = try domain(at: path) { return domain }
        try checkIsNotSealed(path)
        throw QuireError(
            .protectionUnavailable,
            "“\(path)” is not protected, so it has no keys; protect it with “quire protect”.",
            file: path)
    }
}

/// The options of verbs that protect an unprotected item: the keys that will unlock it.
struct NewKeyOptions: ParsableArguments {
    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions

    @Flag(help: "Create the key file, with random bytes, readable only by you.")
    var makeKeyFile = false

    @Flag(help: "Also create a recovery key, and print its words; they are shown only once.")
    var recoveryKey = false

    func validate() throws {
        if makeKeyFile && unlock.keyFile == nil {
            throw ValidationError("Specify the path of the new key file with --key-file.")
        }
    }

    /// Whether anything is to be made.
    var makesKeys: Bool { makeKeyFile || recoveryKey }

    /// Whether there is any of the options.
    var isGiven: Bool { makesKeys || unlock.isGiven }

    /// Throws if the key file or the keybag is in a document: the document may replace or remove its files, and then nothing
    /// would open it.
    func checkOutsideDocuments() throws {
        for path in [unlock.keyFile, unlock.keybag].compactMap(\.self) {
            try DocumentPackage.checkOutside(path)
        }
    }

    /// The slots of a new keybag, and the words of a new recovery key. Makes the key file if that was asked for, and asks for a
    /// passphrase on the terminal if nothing was given.
    ///
    /// - Throws: ``Failure`` with the status `usage` if nothing was given and there is no terminal, `QuireError` with code
    ///   `alreadyExists` if the key file is there, `invalidValue` if it is to be in a document, or what reading it throws.
    func slots() throws -> (slots: [NewSlot], words: String?) {
        try checkOutsideDocuments()
        if unlock.recoveryKeyDescriptor != nil {
            throw Failure.usage(
                "--recovery-key-fd reads an existing recovery key; use --recovery-key to create one."
            )
        }
        if makeKeyFile, let keyFile = unlock.keyFile {
            try ProtectionDomain.makeKeyFile(at: keyFile)
        }
        var slots: [NewSlot] = []
        if unlock.keybag != nil {
            // The person's keybag is the way to it.
        } else if let credential = try unlock.credential() {
            slots.append(NewSlot(credential))
        } else if !recoveryKey {
            guard let passphrase = try SecretLine.askForNew("passphrase", "New passphrase: ") else {
                throw Failure.usage(
                    "Specify a key: --key-file FILE, with --make-key-file to create it, --passphrase-fd N or --recovery-key."
                )
            }
            slots.append(NewSlot(.passphrase(passphrase)))
        }
        guard recoveryKey else { return (slots, nil) }
        let key = try RecoveryKey()
        slots.append(NewSlot(.recoveryKey(key)))
        return (slots, key.words)
    }
}

extension FileProtection: ExpressibleByArgument {}

// MARK: - Secrets

/// Reads passphrases and recovery keys: a line from an open descriptor, or from the terminal without echo. They are never
/// arguments, which every user of the machine can see.
enum SecretLine {
    /// The longest one, in bytes.
    private static let maximumCount = 65_536

    /// Whether something can be read from a descriptor.
    static func canRead(_ descriptor: Int32) -> Bool {
        let flags = fcntl(descriptor, F_GETFL)
        return flags >= 0 && flags & O_ACCMODE != O_WRONLY
    }

    /// Reads one line, or up to the end of the input, and no byte more: the rest may be lines of a session.
    ///
    /// - Parameter name: What is read, for errors: “the passphrase”.
    /// - Throws: ``Failure`` with the status `usage` if it cannot be read, is empty, too long or no UTF-8.
    static func read(_ name: String, from descriptor: Int32) throws -> String {
        let text = try line(name, from: descriptor).text
        if text.isEmpty { throw failure(name, "is empty; enter another one") }
        return text
    }

    /// Reads the words of a recovery key: lines until there are as many as a key has, or up to the end of the input.
    ///
    /// - Throws: As ``read(_:from:)``, and `QuireError` with code `invalidValue` if they cannot be the words of any key.
    static func readRecoveryKey(from descriptor: Int32) throws -> RecoveryKey {
        let name = "the recovery key"
        var words = ""
        while RecoveryKey.wordCount(in: words) < RecoveryKey.wordCount {
            let next = try line(name, from: descriptor)
            words += next.text + "\n"
            if words.utf8.count > maximumCount {
                throw failure(name, "has more than \(maximumCount) bytes")
            }
            if next.isLast { break }
        }
        if words.allSatisfy(\.isNewline) { throw failure(name, "is empty; enter another one") }
        return try RecoveryKey(words: words)
    }

    private static func failure(_ name: String, _ what: String) -> Failure {
        Failure.usage("\(name.prefix(1).uppercased())\(name.dropFirst()) \(what).")
    }

    /// Reads one line, which may be empty.
    private static func line(
        _ name: String, from descriptor: Int32
    ) throws -> (text: String, isLast: Bool) {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: maximumCount, alignment: 1)
        defer {
            if let start = bytes.baseAddress { explicit_bzero(start, bytes.count) }
            bytes.deallocate()
        }
        var count = 0
        var isLast = false
        var next: UInt8 = 0
        defer { explicit_bzero(&next, 1) }
        while true {
            let result = Glibc.read(descriptor, &next, 1)
            if result < 0 {
                if errno == EINTR { continue }
                let reason = String(cString: strerror(errno))
                throw failure(name, "cannot be read from descriptor \(descriptor): \(reason)")
            }
            isLast = result == 0
            if isLast || next == UInt8(ascii: "\n") { break }
            if count == maximumCount { throw failure(name, "has more than \(maximumCount) bytes") }
            bytes[count] = next
            count += 1
        }
        guard let text = String(validating: bytes[..<count], as: UTF8.self) else {
            throw failure(name, "is not UTF-8 text")
        }
        return (text, isLast)
    }

    /// Asks on the terminal.
    ///
    /// - Returns: The text that was typed; `nil` if there is no terminal.
    /// - Throws: As ``read(_:from:)``.
    static func ask(_ name: String, _ question: String) throws -> String? {
        guard isatty(STDERR_FILENO) == 1 else { return nil }
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        guard terminal >= 0 else { return nil }
        defer { close(terminal) }
        var former = termios()
        guard tcgetattr(terminal, &former) == 0 else { return nil }
        var silent = former
        silent.c_lflag &= ~tcflag_t(ECHO)
        silent.c_lflag |= tcflag_t(ECHONL)
        // A signal that ends the process would leave the terminal silent.
        let cleanup = TerminationCleanup.add { [former] in
            var former = former
            tcsetattr(terminal, TCSANOW, &former)
        }
        defer {
            tcsetattr(terminal, TCSANOW, &former)
            TerminationCleanup.remove(cleanup)
        }
        guard tcsetattr(terminal, TCSAFLUSH, &silent) == 0 else { return nil }
        let prompt = Array(TerminalText.line(question).utf8)
        _ = prompt.withUnsafeBytes { write(terminal, $0.baseAddress, $0.count) }
        return try read(name, from: terminal)
    }

    /// Asks twice for a passphrase, or password, that is to be a new one.
    ///
    /// - Parameters:
    ///   - word: What is asked for.
    ///   - question: The first question.
    /// - Returns: The text that was typed; `nil` if there is no terminal.
    /// - Throws: ``Failure`` if the two differ.
    static func askForNew(_ word: String, _ question: String) throws -> String? {
        guard let secret = try ask("the \(word)", question),
            let again = try ask("the \(word)", "Repeat the \(word): ")
        else { return nil }
        if secret.unicodeScalars.elementsEqual(again.unicodeScalars) { return secret }
        throw Failure(
            sentence: "The \(word)s do not match. Nothing was changed; try again.",
            status: .failed)
    }
}
