import Foundation
import QuireSystem

// One unlocking for all programs of a user, as ssh-agent does it for SSH: the master key in the kernel's user keyring.

extension ProtectionDomain {
    private static let processUsesKeyring = Lock(false)

    /// Whether domains of this process that are locked unlock themselves, when they are used, with keys that are in the kernel's
    /// user keyring; at first they do not.
    ///
    /// A domain that ``lock(after:)`` has locked does not: it is unlocked by a call. Nor does a domain lock itself when its key
    /// is removed from the keyring; ``followUserKeyring(every:grace:)`` does that.
    public static var usesUserKeyring: Bool {
        get { processUsesKeyring.withLock { $0 } }
        set { processUsesKeyring.withLock { $0 = newValue } }
    }

    /// Adds the master key to the kernel's user keyring, with which every program of the user can unlock the domain.
    ///
    /// It stays until it is removed, the timeout is over, or the machine ends. Any process of the user can read it, and root.
    /// Adding it again replaces the timeout.
    ///
    /// - Parameter timeout: When the kernel removes the key, in whole seconds, one at least; `nil` for never.
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if the domain is locked, `protectionUnavailable` if there is
    ///   no keyring or it is full, `invalidState` if the keybag is not on disk.
    public func addToUserKeyring(timeout: Duration? = nil) throws {
        let (unlocked, path) = state.withLock { ($0.unlocked, $0.file?.path) }
        guard let unlocked else { throw Self.lockedError(name) }
        guard let path else {
            throw QuireError(
                .invalidState, "“\(name)” is not on disk yet; make the document first.")
        }
        try UserKeyring.add(
            .init(masterKey: unlocked.masterKey, path: path), as: keyringDescription,
            timeout: timeout)
    }

    /// Removes the master key from the kernel's user keyring. Programs that have unlocked the domain keep it unlocked, unless
    /// they follow the keyring.
    ///
    /// - Returns: Whether it was there.
    /// - Throws: ``QuireError`` with code `inputOutput`.
    @discardableResult
    public func removeFromUserKeyring() throws -> Bool {
        try UserKeyring.remove(keyringDescription)
    }

    /// Removes the master keys of all domains from the kernel's user keyring.
    ///
    /// - Returns: How many there were.
    /// - Throws: ``QuireError`` with code `inputOutput`.
    @discardableResult
    public static func removeAllFromUserKeyring() throws -> Int {
        try UserKeyring.removeAll()
    }

    /// Whether the master key is in the kernel's user keyring.
    public var isInUserKeyring: Bool { UserKeyring.contains(keyringDescription) }

    /// Unlocks the domain with the master key in the kernel's user keyring, or through the domain of a person whose key is
    /// there. Documents that are open are notified, and not awaited.
    ///
    /// - Returns: Whether the domain is unlocked: `false` if there is no key, or one of another keybag.
    /// - Throws: ``QuireError`` with code `invalidFormat` if the keybag was damaged, `storeReplaced` if another keybag or an
    ///   older one is in its place, or what reading throws.
    @discardableResult
    public func unlockFromUserKeyring() throws -> Bool {
        if isUnlocked { return true }
        if let entry = try UserKeyring.find(keyringDescription) {
            let keybag = try currentKeybag()
            do { try keybag.verify(entry.masterKey) } catch let error as QuireError
                where error.code == .invalidFormat
            {
                // Any program of the user may have written the key, and anybody the keybag.
                return false
            }
            try unlock(entry.masterKey, of: keybag)
            return true
        }
        try unlockThroughParent(endingOwnLock: true, fromKeyring: true)
        return isUnlocked
    }

    /// Unlocks a domain that is used: through that of a person, or with a key in the user keyring if this process uses it. One
    /// that was locked by itself stays locked.
    func unlockWhenUsed() throws {
        if state.withLock({ $0.isLockedByItself }) { return }
        if Self.usesUserKeyring { try unlockFromUserKeyring() } else { try unlockThroughParent() }
    }

    /// Locks the domain when its key is removed from the kernel's user keyring, and unlocks it when one is added, until the task is
    /// cancelled. A domain that was unlocked through that of a person follows the person's key.
    ///
    /// ```swift
    /// ProtectionDomain.usesUserKeyring = true
    /// let following = Task { try await domain.followUserKeyring() }
    /// ```
    ///
    /// - Parameters:
    ///   - interval: How often it looks; one system call each time.
    ///   - grace: See ``lock(after:)``.
    /// - Throws: What ``unlockFromUserKeyring()`` throws, and `CancellationError`.
    public func followUserKeyring(
        every interval: Duration = .seconds(1), grace: Duration = .seconds(10)
    ) async throws {
        try await followUserKeyring(grace: grace) { try await Task.sleep(for: interval) }
    }

    /// Follows the keyring with a clock of the caller's.
    package func followUserKeyring(
        grace: Duration, sleep: @escaping @Sendable () async throws -> Void
    ) async throws {
        let domain = state.withLock { $0.parent } ?? self
        var wasThere = domain.isInUserKeyring
        while true {
            try await sleep()
            let isThere = domain.isInUserKeyring
            if wasThere, !isThere { await domain.lock(after: grace) }
            if isThere, !wasThere { try domain.unlockFromUserKeyring() }
            wasThere = isThere
        }
    }

    /// The domain of a person whose key is in the keyring, unlocked; `nil` if there is none.
    static func inUserKeyring(_ identifier: UUID) throws -> ProtectionDomain? {
        let prefix = keyringPrefix(identifier)
        for description in UserKeyring.descriptions where description.hasPrefix(prefix) {
            guard let entry = try UserKeyring.find(description),
                FileSystem.exists(entry.path)
            else { continue }
            let domain = try domain(of: entry.path)
            if domain.keyringDescription == description, try domain.unlockFromUserKeyring() {
                return domain
            }
        }
        return nil
    }

    private static func keyringPrefix(_ identifier: UUID) -> String {
        "\(UserKeyring.prefix)\(identifier.uuidString):"
    }

    /// The description of its key.
    var keyringDescription: String {
        let digest = classKeyDigest.prefix(16).map { String(format: "%02x", $0) }.joined()
        return Self.keyringPrefix(identifier) + digest
    }
}
