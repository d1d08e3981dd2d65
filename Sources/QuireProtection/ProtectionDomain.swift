public import Foundation
import QuireSystem

/// The live state of a keybag: which of its keys this process has.
///
/// A person has a domain of their own, which their documents belong to; a document has one as well, because it has a keybag,
/// and may have passphrases and recovery keys for other people. Unlocking the person's domain opens their documents.
///
/// ```swift
/// let domain = try await ProtectionDomain.setUp(at: "me.keybag", passphrase: passphrase)
/// ProtectionDomain.default = domain
/// …
/// await domain.lock()                       // documents of class complete close
/// try await domain.unlock(passphrase: passphrase)     // and open again
/// ```
///
/// ``FileProtection`` has the table of what can be done in which state. The state is that of this process; it begins locked.
///
/// May be used from any thread. Invariants:
/// - Keys are in ``SecretMemory`` only, and in no copy when nothing here has them any more.
/// - Locked means: no master key, no key of `complete` and no private key of `completeUnlessOpen` is here, and the file keys
///   of `complete` that were handed out are revoked. What holds a ``ClassKey`` of `completeUnlessOpen` that it got before has
///   that one. The key of `completeUntilFirstUserAuthentication` stays until the domain is freed.
/// - The keybag in ``State`` was verified if the domain was ever unlocked. It is then replaced only by one that is verified as
///   well, has the same class keys and is not older.
/// - Nothing is called, and no file is read, under the lock of the state.
public final class ProtectionDomain: Sendable {
    struct State {
        var keybag: Keybag
        /// The path of the keybag; `nil` if it is not on disk yet.
        var file: KeybagFile?
        /// The unwrapped keys; `nil` while it is locked.
        var unlocked: UnlockedKeys?
        /// The keys of `completeUntilFirstUserAuthentication` by their epochs, from the first unlock on.
        var untilFirstAuthentication: [UInt32: SecretMemory] = [:]
        /// The domain that it was unlocked through, and that it is locked with.
        var parent: ProtectionDomain?
        /// Whether it was locked by itself, and so is not unlocked through another domain by use.
        var isLockedByItself = false
        /// The domains that were unlocked through this one.
        var children = WeakList<ProtectionDomain>()
        /// The keys of files of `complete` that were handed out.
        var fileKeys = WeakList<FileKey>()
        var responders: [WeakResponder] = []
        /// The continuations that end the grace periods of pending locks, by lock number.
        var pendingLocks: [Int: AsyncStream<Void>.Continuation] = [:]
        var lastLock = 0
    }

    struct UnlockedKeys {
        let masterKey: SecretMemory
        /// The latest last; there is one at least.
        let classKeys: [Keybag.UnwrappedClassKeys]
    }

    let state: Lock<State>
    let broadcast = Broadcast<Event>()
    /// The keybag's identifier.
    package let identifier: UUID
    /// See ``Keybag/classKeyDigest``.
    let classKeyDigest: Data

    init(_ keybag: Keybag, file: KeybagFile?) {
        identifier = keybag.identifier
        classKeyDigest = keybag.classKeyDigest
        state = Lock(State(keybag: keybag, file: file))
    }

    private static let processDomain = Lock<ProtectionDomain?>(nil)

    /// The domain that new documents and stores of this process belong to; at first there is none.
    public static var `default`: ProtectionDomain? {
        get { processDomain.withLock { $0 } }
        set { processDomain.withLock { $0 = newValue } }
    }
}

// MARK: - Domains

extension ProtectionDomain {
    /// Makes the keybag of a person that a passphrase unlocks, readable by its user only.
    ///
    /// - Parameters:
    ///   - path: Where the keybag will be. Keep a copy: without it nothing that is protected with it can be read.
    ///   - fileProtection: The class of what is new and does not ask for another; not `none`.
    ///   - label: The person's name for the passphrase, at most 64 bytes. It can be read without a key.
    /// - Returns: Its domain, unlocked.
    /// - Throws: ``QuireError`` with code `alreadyExists` if there is something at the path, `invalidValue` if the passphrase
    ///   or the label cannot be used, or what writing throws.
    public static func setUp(
        at path: String, passphrase: String,
        fileProtection: FileProtection = .completeUntilFirstUserAuthentication,
        label: String = ""
    ) async throws -> ProtectionDomain {
        try await apart {
            try setUp(
                at: path, credential: .passphrase(passphrase), fileProtection: fileProtection,
                label: label)
        }.get()
    }

    /// Makes the keybag of a person that a key file unlocks, readable by its user only.
    ///
    /// - Parameters:
    ///   - path: Where the keybag will be. Keep a copy: without it nothing that is protected with it can be read.
    ///   - keyFile: A file with 16 to 65,536 random bytes, which can be made by ``makeKeyFile(at:)``. Whoever can read it has
    ///     the key: keep it where others cannot.
    ///   - fileProtection: The class of what is new and does not ask for another; not `none`.
    ///   - label: The person's name for the key file, at most 64 bytes. It can be read without a key.
    /// - Returns: Its domain, unlocked.
    /// - Throws: As ``setUp(at:passphrase:fileProtection:label:)``; `invalidValue` also if others may write to the key file.
    public static func setUp(
        at path: String, keyFile: String,
        fileProtection: FileProtection = .completeUntilFirstUserAuthentication,
        label: String = ""
    ) throws -> ProtectionDomain {
        try setUp(
            at: path, credential: .keyFile(KeyFile.read(keyFile)),
            fileProtection: fileProtection, label: label)
    }

    /// Makes the keybag of a person, on the caller's thread.
    package static func setUp(
        at path: String, credential: KeybagCredential,
        fileProtection: FileProtection = .completeUntilFirstUserAuthentication,
        label: String = "", cost: ScryptCost = .standard
    ) throws -> ProtectionDomain {
        try setUp(
            at: path, slots: [NewSlot(credential, label: label, cost: cost)],
            fileProtection: fileProtection)
    }

    /// Makes the keybag of a person with several slots, on the caller's thread.
    @discardableResult
    package static func setUp(
        at path: String, slots: [NewSlot],
        fileProtection: FileProtection = .completeUntilFirstUserAuthentication
    ) throws -> ProtectionDomain {
        let path = FileSystem.absolute(path)
        if try FileSystem.informationWithoutFollowing(at: path) != nil {
            throw FileSystem.failure("create", path, errno: EEXIST)
        }
        let domain = try make(fileProtection, path: path, slots: slots, parent: nil)
        try domain.write(to: path, isPrivate: true)
        return domain
    }

    /// Makes a key file of 32 random bytes that only its user may read.
    ///
    /// - Throws: ``QuireError`` with code `alreadyExists` if there is something at the path, or what writing throws.
    public static func makeKeyFile(at path: String) throws { try KeyFile.make(at: path) }

    /// The domain of a keybag, locked unless this process has unlocked it before and still has it.
    ///
    /// As long as something holds a domain, its keybag always gives the same one.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` if it is not a keybag, `unsupported` if a later version
    ///   has made it.
    public static func domain(of keybagPath: String) throws -> ProtectionDomain {
        try domain(of: keybagPath, beneath: nil)
    }

    /// The domain of a keybag in a package, which is not trusted; see ``FileLocation``.
    package static func domain(
        of keybagPath: String, beneath root: String?
    ) throws -> ProtectionDomain {
        let file = KeybagFile(path: FileSystem.absolute(keybagPath), root: root)
        return ProtectionDomainRegistry.domain(of: try file.read(), in: file)
    }

    /// Runs a body where it may take its time, and gives what comes of it.
    ///
    /// An error is returned because of the compiler: if a function that runs elsewhere throws to one that is
    /// `nonisolated(nonsending)`, optimized code does not come back to the caller's executor.
    @concurrent static func apart<Success: Sendable>(
        _ body: @Sendable () throws -> Success
    ) async -> Result<Success, any Error> {
        Result { try body() }
    }
}

// MARK: - What is known of it

extension ProtectionDomain {
    /// Whether everything of the domain can be read and written.
    public var isUnlocked: Bool { state.withLock { $0.unlocked != nil } }

    /// Whether it was unlocked since the process began, or since something last held the domain: what is of class
    /// ``FileProtection/completeUntilFirstUserAuthentication`` can be read and written then.
    public var wasUnlockedOnce: Bool {
        state.withLock { !$0.untilFirstAuthentication.isEmpty }
    }

    /// The class of its files. Until it was unlocked once, this is what the file says, which anybody could have written.
    public var protection: FileProtection { state.withLock { $0.keybag.fileProtection } }

    /// The path of the keybag; `nil` if it is not on disk yet.
    public var path: String? { state.withLock { $0.file?.path } }

    /// The path of the keybag, for errors.
    var name: String { state.withLock { $0.keybag.path } }

    /// Whether another domain has the same class keys, as that of a copy has.
    package func hasSameClassKeys(as other: ProtectionDomain) -> Bool {
        identifier == other.identifier && classKeyDigest == other.classKeyDigest
    }

    /// The keys of the store that the keybag belongs to, wrapped.
    package var storeKeys: [Keybag.StoreKey] { state.withLock { $0.keybag.storeKeys } }

    /// One of the ways to unlock a domain.
    public struct Slot: Sendable, Hashable, Identifiable {
        /// The kind of credential. The set is open: later versions may add kinds.
        public struct Kind: RawRepresentable, Hashable, Sendable {
            /// The kind's stable name.
            public let rawValue: String

            /// Makes a kind from its stable name.
            public init(rawValue: String) { self.rawValue = rawValue }

            /// A passphrase.
            public static let passphrase = Kind(rawValue: "passphrase")
            /// A key file.
            public static let keyFile = Kind(rawValue: "keyFile")
            /// Words on paper.
            public static let recoveryKey = Kind(rawValue: "recoveryKey")
            /// The domain of a person.
            public static let domain = Kind(rawValue: "domain")
            /// Something that this version does not know.
            public static let unknown = Kind(rawValue: "unknown")
        }

        /// The slot's identifier.
        public let id: UUID
        /// The kind of credential.
        public let kind: Kind
        /// The person's name for it.
        public let label: String
        /// When it was made.
        public let created: Date
    }

    /// The ways to unlock it, in the order in which they were made, as they were last read.
    public var slots: [Slot] {
        state.withLock { $0.keybag.slots }.map { slot in
            let kind: Slot.Kind =
                switch slot.content {
                case .passphrase: .passphrase
                case .keyFile: .keyFile
                case .recoveryKey: .recoveryKey
                case .domain: .domain
                case .other: .unknown
                }
            return Slot(
                id: slot.identifier, kind: kind, label: slot.label,
                created: Date(timeIntervalSince1970: TimeInterval(slot.created)))
        }
    }
}

/// Objects that are not kept.
struct WeakList<Object: AnyObject & Sendable>: Sendable {
    private struct Reference: Sendable {
        weak var object: Object?
    }

    private var references: [Reference] = []
    private var pruningCount = 16

    /// The objects that are there.
    var objects: [Object] { references.compactMap(\.object) }

    /// Adds an object, and forgets those that are gone, when their number has doubled.
    mutating func append(_ object: Object) {
        references.append(Reference(object: object))
        if references.count < pruningCount { return }
        references.removeAll { $0.object == nil }
        pruningCount = max(16, 2 * references.count)
    }

    mutating func removeAll(where isRemoved: (Object) -> Bool) {
        references.removeAll { $0.object.map(isRemoved) ?? true }
    }
}

// MARK: - Registry

/// The domains that this process has, so that a keybag gives the same one as long as something holds it.
///
/// A keybag is known by its identifier and its class keys: a copy that somebody has made with the same identifier and other
/// keys is another one. A true copy at another path, as of a document that was copied, is another one too, because its slots
/// are its own; unless the file is no longer where it was: then it was moved.
enum ProtectionDomainRegistry {
    private static let domains = Lock(WeakList<ProtectionDomain>())

    static func add(_ domain: ProtectionDomain) { domains.withLock { $0.append(domain) } }

    /// The domain of a keybag that was read from a file: one that is there, or a new one, locked.
    static func domain(of keybag: Keybag, in file: KeybagFile) -> ProtectionDomain {
        let digest = keybag.classKeyDigest
        // Two that are asked for at once get the same.
        return domains.withLock { domains in
            let same = domains.objects.filter {
                $0.identifier == keybag.identifier && $0.classKeyDigest == digest
            }
            if let found = same.first(where: { $0.path == file.path }) {
                found.adopt(keybag)
                return found
            }
            let information = file.information
            for domain in same {
                guard let formerFile = domain.state.withLock({ $0.file }) else { continue }
                if let former = formerFile.information {
                    // Another path may lead to it through a symbolic link.
                    guard information?.isSameFile(as: former) == true else { continue }
                } else {
                    domain.didMove(to: file.path, beneath: file.root)
                }
                domain.adopt(keybag)
                return domain
            }
            let domain = ProtectionDomain(keybag, file: file)
            domains.append(domain)
            return domain
        }
    }

    /// The domains of keybags with an identifier.
    static func domains(_ identifier: UUID) -> [ProtectionDomain] {
        domains.withLock { $0.objects }.filter { $0.identifier == identifier }
    }
}

// MARK: - Classes

/// When the contents of a store or document can be read and written: Apple's four classes of data protection.
///
/// The keys belong to a ``ProtectionDomain``. What is protected is sealed on disk at all times; the class says what can be
/// done with it while the domain is locked.
///
/// | class | before the first unlock | unlocked | locked again |
/// |---|---|---|---|
/// | ``none`` | everything | everything | everything |
/// | ``completeUntilFirstUserAuthentication`` | nothing | everything | everything |
/// | ``completeUnlessOpen`` | new ones are made and used; none is opened | everything | what is open goes on; new ones are made; none is opened |
/// | ``complete`` | nothing | everything | nothing |
///
/// Source: *Data Protection classes* in Apple's Platform Security guide, and `FileProtectionType` of Foundation.
public enum FileProtection: String, Codable, Hashable, Sendable, CaseIterable {
    /// Not sealed: whoever can read the files can read what is in them.
    case none
    /// Readable and writable only while the domain is unlocked.
    case complete
    /// As ``complete``, but what is open when the domain is locked can be used until it is closed, and new ones can be made.
    case completeUnlessOpen
    /// Readable and writable from the first time that the domain is unlocked until the process, or the login, ends.
    case completeUntilFirstUserAuthentication
}
