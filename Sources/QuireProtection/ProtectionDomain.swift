public import Foundation
import QuireSystem

/// The live state of a keybag: the keys available to this process.
///
/// Each person has a domain for their documents; each protected document has its own domain too, because its keybag may contain
/// passphrases and recovery keys of other people. Unlocking the person's domain unlocks their documents.
///
/// ```swift
/// let domain = try await ProtectionDomain.setUp(at: "me.keybag", passphrase: passphrase)
/// ProtectionDomain.default = domain
/// …
/// await domain.lock()                       // Data of class complete cannot be read.
/// try await domain.unlock(passphrase: passphrase)
/// ```
///
/// ``FileProtection`` has the table of permitted operations by state. The state is that of this process; it is initially locked.
///
/// Thread-safe. Invariants:
/// - Keys are in `SecretMemory` only, which is wiped when it is released.
/// - While the domain is locked, this process has no master key, no key of `complete` and no private key of `completeUnlessOpen`,
///   and issued file keys of `complete` are revoked. A `ClassKey` of `completeUnlessOpen` obtained before keeps its key. The key
///   of `completeUntilFirstUserAuthentication` stays until the domain is deallocated.
/// - The keybag in `State` was verified if the domain was ever unlocked. It is then replaced only by a verified one with the same
///   class keys that is not older.
/// - No callback runs, and no file is read, under the lock of the state.
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
        /// Whether it was locked individually, and so is not unlocked on use through another domain.
        var isLockedByItself = false
        /// The domains that were unlocked through this one.
        var children = WeakList<ProtectionDomain>()
        /// The keys of files of `complete` that were handed out.
        var fileKeys = WeakList<FileKey>()
        var responders = WeakList<any ProtectedDataResponder>()
        /// The continuations that end the grace periods of pending locks, by lock number.
        var pendingLocks: [Int: AsyncStream<Void>.Continuation] = [:]
        var lastLock = 0
    }

    struct UnlockedKeys {
        let masterKey: SecretMemory
        /// In ascending order; not empty.
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

    /// The domain of new documents and stores in this process; initially `nil`.
    public static var `default`: ProtectionDomain? {
        get { processDomain.withLock { $0 } }
        set { processDomain.withLock { $0 = newValue } }
    }
}

// MARK: - Domains

extension ProtectionDomain {
    /// Creates a person's keybag with a passphrase, readable by its owner only.
    ///
    /// - Parameters:
    ///   - path: The path of the keybag. Keep a backup: without it, data protected with it cannot be read.
    ///   - fileProtection: The default class of new documents and stores; not `none`.
    ///   - label: A name for the passphrase, at most 64 bytes. It can be read without a key.
    /// - Returns: Its domain, unlocked.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the path is taken, `invalidValue` if the passphrase or the label is
    ///   not valid, or errors of writing.
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

    /// Creates a person's keybag with a key file, readable by its owner only.
    ///
    /// - Parameters:
    ///   - path: The path of the keybag. Keep a backup: without it, data protected with it cannot be read.
    ///   - keyFile: A file with 16 to 65,536 random bytes, such as one created by ``makeKeyFile(at:)``. Read access to it is
    ///     access to the key: keep it private.
    ///   - fileProtection: The default class of new documents and stores; not `none`.
    ///   - label: A name for the key file, at most 64 bytes. It can be read without a key.
    /// - Returns: Its domain, unlocked.
    /// - Throws: As ``setUp(at:passphrase:fileProtection:label:)``; `invalidValue` also if other users may write to the key file.
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

    /// Creates a key file of 32 random bytes that only its owner may read.
    ///
    /// - Throws: ``QuireError`` with code `alreadyExists` if the path is taken, or errors of writing.
    public static func makeKeyFile(at path: String) throws { try KeyFile.make(at: path) }

    /// The domain of a keybag, locked unless this process has unlocked it before and still retains it.
    ///
    /// Domains are unique: as long as a keybag's domain is retained, the same one is returned.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` if it is not a keybag, `unsupported` if a later version
    ///   created it.
    public static func domain(of keybagPath: String) throws -> ProtectionDomain {
        try domain(of: keybagPath, beneath: nil)
    }

    /// The domain of a keybag in a package, which is not trusted; see ``FileLocation``.
    package static func domain(
        of keybagPath: String, beneath root: String?
    ) throws -> ProtectionDomain {
        var file = KeybagFile(path: FileSystem.absolute(keybagPath), root: root)
        file.mount = ArchiveMount.mount(containing: file.path)
        return ProtectionDomainRegistry.domain(of: try file.read(), in: file)
    }

    /// Runs a slow body off the caller's executor, and returns its result.
    ///
    /// An error is returned because of a compiler bug: if a concurrent function throws to one that is
    /// `nonisolated(nonsending)`, optimized code does not return to the caller's executor.
    @concurrent static func apart<Success: Sendable>(
        _ body: @Sendable () throws -> Success
    ) async -> Result<Success, any Error> {
        Result { try body() }
    }
}

// MARK: - Properties

extension ProtectionDomain {
    /// Whether all data of the domain can be read and written.
    public var isUnlocked: Bool { state.withLock { $0.unlocked != nil } }

    /// Whether it was unlocked since the process began, or since the domain was last deallocated: data of class
    /// ``FileProtection/completeUntilFirstUserAuthentication`` can then be read and written.
    public var wasUnlockedOnce: Bool {
        state.withLock { !$0.untilFirstAuthentication.isEmpty }
    }

    /// The class of its files. Until the first unlock, this is the unverified value in the file.
    public var protection: FileProtection { state.withLock { $0.keybag.fileProtection } }

    /// The path of the keybag; `nil` if it is not on disk yet.
    public var path: String? { state.withLock { $0.file?.path } }

    /// The path of the keybag, for errors.
    var name: String { state.withLock { $0.keybag.path } }

    /// Whether another domain has the same class keys, as that of a copy has.
    package func hasSameClassKeys(as other: ProtectionDomain) -> Bool {
        identifier == other.identifier && classKeyDigest == other.classKeyDigest
    }

    /// The wrapped keys of the keybag's store.
    package var storeKeys: [Keybag.StoreKey] { state.withLock { $0.keybag.storeKeys } }

    /// A slot of a domain: a credential that unlocks it.
    public struct Slot: Sendable, Hashable, Identifiable {
        /// The kind of credential. The set is open: later versions may add kinds.
        public struct Kind: RawRepresentable, Hashable, Sendable {
            /// The kind's stable name.
            public let rawValue: String

            /// Creates a kind from its stable name.
            public init(rawValue: String) { self.rawValue = rawValue }

            /// A passphrase.
            public static let passphrase = Kind(rawValue: "passphrase")
            /// A key file.
            public static let keyFile = Kind(rawValue: "keyFile")
            /// A recovery key: words to keep on paper.
            public static let recoveryKey = Kind(rawValue: "recoveryKey")
            /// The domain of a person.
            public static let domain = Kind(rawValue: "domain")
            /// A kind unknown to this version.
            public static let unknown = Kind(rawValue: "unknown")
        }

        /// The slot's identifier.
        public let id: UUID
        /// The kind of credential.
        public let kind: Kind
        /// The person's name for it.
        public let label: String
        /// The creation time.
        public let created: Date
    }

    /// The slots, in order of creation, as of the last read.
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

// MARK: - Registry

/// The domains of this process, so that a keybag has a unique domain as long as it is retained.
///
/// A keybag is identified by its identifier and its class keys: a forged copy with the same identifier and other keys is
/// distinct. A true copy at another path, as of a copied document, is distinct too, because it has separate slots; unless the
/// file at the former path is gone: then it was moved.
enum ProtectionDomainRegistry {
    private static let domains = Lock(WeakList<ProtectionDomain>())

    static func add(_ domain: ProtectionDomain) { domains.withLock { $0.append(domain) } }

    /// The domain of a keybag that was read from a file: an existing one, or a new one, locked.
    static func domain(of keybag: Keybag, in file: KeybagFile) -> ProtectionDomain {
        let digest = keybag.classKeyDigest
        // Concurrent calls get the same one.
        return domains.withLock { domains in
            let same = domains.objects.filter {
                $0.identifier == keybag.identifier && $0.classKeyDigest == digest
            }
            if let found = same.first(where: { $0.path.map(FileName.init) == FileName(file.path) })
            {
                found.adopt(keybag)
                return found
            }
            for domain in same {
                guard let formerFile = domain.state.withLock({ $0.file }) else { continue }
                do {
                    if let former = try formerFile.information {
                        // Another path may refer to it through a symbolic link.
                        guard try file.information?.isSameFile(as: former) == true else { continue }
                    } else {
                        domain.didMove(to: file.path, beneath: file.root)
                    }
                } catch {
                    // It may still be at its path, and this one be a copy.
                    continue
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

/// The availability of a store's or document's contents: Apple's four classes of data protection.
///
/// The keys belong to a ``ProtectionDomain``. Protected contents are encrypted on disk at all times; the class determines which
/// operations are possible while the domain is locked.
///
/// | class | before the first unlock | unlocked | locked again |
/// |---|---|---|---|
/// | ``none`` | everything | everything | everything |
/// | ``completeUntilFirstUserAuthentication`` | nothing | everything | everything |
/// | ``completeUnlessOpen`` | create and use new files | everything | use open files; create new ones |
/// | ``complete`` | nothing | everything | nothing |
///
/// Source: *Data Protection classes* in Apple's Platform Security guide, and `FileProtectionType` of Foundation.
public enum FileProtection: String, Codable, Hashable, Sendable, CaseIterable {
    /// Not encrypted: read access to the files is access to the contents.
    case none
    /// Readable and writable only while the domain is unlocked.
    case complete
    /// As ``complete``, but data open when the domain is locked can be used until it is closed, and new files can be created.
    case completeUnlessOpen
    /// Readable and writable from the first unlock of the domain until the process, or the login, ends.
    case completeUntilFirstUserAuthentication
}
