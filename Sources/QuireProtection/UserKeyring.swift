import CLinux
import Foundation
import QuireSystem

/// The kernel's keyring of the user: keys in memory that all processes of the user share and that end with the machine, or
/// after a timeout; see `keyrings(7)`.
///
/// A key has the description `quire:<keybag>:<digest>` and the payload that *The user keyring* in `EncryptionFormat.md` has.
/// Payloads are untrusted: any program of the user could have written them.
package enum UserKeyring {
    /// The beginning of descriptions.
    static let prefix = "quire:"
    /// The possessor has all permissions, the user all but link, others none.
    private static let permissions: UInt32 = 0x3F2F_0000
    private static let version: UInt8 = 1
    private static let keySize = 32
    private static let maximumSize = 1 + keySize + 4096

    /// The payload of a key: the master key of a keybag, and the path of the keybag.
    struct Entry {
        var masterKey: SecretMemory
        var path: String
    }

    /// Adds or replaces a key. Without a timeout it stays until it is removed or the machine shuts down.
    ///
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if there is no keyring, or it is full.
    static func add(_ entry: Entry, as description: String, timeout: Duration?) throws {
        let path = Array(entry.path.utf8)
        let count = 1 + keySize + path.count
        guard entry.masterKey.count == keySize, count <= maximumSize else {
            throw unavailableError(ENAMETOOLONG)
        }
        let seconds = timeout.map {
            UInt32(min(max(1, ($0 / .seconds(1)).rounded(.up)), Double(UInt32.max)))
        }
        try withUnsafeTemporaryAllocation(byteCount: count, alignment: 1) { payload in
            defer { wipe(payload) }
            payload[0] = version
            entry.masterKey.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: payload[1...]).copyMemory(from: $0)
            }
            UnsafeMutableRawBufferPointer(rebasing: payload[(1 + keySize)...]).copyBytes(from: path)
            try add(UnsafeRawBufferPointer(payload), as: description, seconds: seconds)
        }
    }

    /// Adds a key with any payload.
    static func add(
        _ payload: UnsafeRawBufferPointer, as description: String, seconds: UInt32? = nil
    ) throws {
        // Complete before it is linked into the keyring, and possessed by this thread: keys that the session keyring does not
        // link to may be found, but not changed.
        let key = quire_key_make(description, payload.baseAddress!, payload.count)
        if key < 0 { throw unavailableError(errno) }
        defer { _ = quire_key_remove_from_thread(key) }
        if quire_key_set_timeout(key, seconds ?? 0) < 0
            || quire_key_set_permissions(key, permissions) < 0 || quire_keyring_add(key) < 0
        {
            throw unavailableError(errno)
        }
    }

    /// The key with a description; `nil` if there is none, no keyring, or its content is not Quire's.
    ///
    /// - Throws: ``QuireError`` with code `inputOutput` if memory is exhausted.
    static func find(_ description: String) throws -> Entry? {
        guard let key = number(of: description) else { return nil }
        return try withUnsafeTemporaryAllocation(byteCount: maximumSize, alignment: 1) { payload in
            defer { wipe(payload) }
            let count = quire_key_read(key, payload.baseAddress!, payload.count)
            guard count > 1 + keySize, count <= maximumSize, payload[0] == version,
                let path = String(
                    validating: payload[(1 + keySize)..<count], as: UTF8.self)
            else { return nil }
            return Entry(
                masterKey: try SecretMemory(
                    copying: UnsafeRawBufferPointer(rebasing: payload[1..<(1 + keySize)])),
                path: path)
        }
    }

    /// Whether the kernel lets this process use it.
    package static var isAvailable: Bool {
        var none: Int32 = 0
        return quire_keyring_list(&none, 0) >= 0
    }

    /// Whether there is a key with a description.
    static func contains(_ description: String) -> Bool { number(of: description) != nil }

    /// Removes a key.
    ///
    /// - Returns: Whether it existed.
    /// - Throws: ``QuireError`` with code `inputOutput` if it cannot be removed.
    @discardableResult
    static func remove(_ description: String) throws -> Bool {
        guard let key = number(of: description) else { return false }
        if quire_keyring_remove(key) == 0 || !contains(description) { return true }
        throw QuireError(
            .inputOutput,
            "The key “\(description)” could not be removed from the kernel's user keyring: \(text(errno)). “keyctl purge user” may remove it."
        )
    }

    /// Removes the keys whose descriptions have a prefix.
    ///
    /// - Returns: The number of removed keys.
    static func removeAll(withPrefix prefix: String = prefix) throws -> Int {
        try descriptions.count { try $0.hasPrefix(prefix) && remove($0) }
    }

    /// The descriptions of all keys of Quire's.
    static var descriptions: [String] {
        keys.compactMap { key in
            var text = [CChar](repeating: 0, count: 512)
            let count = quire_key_describe(Int(key), &text, text.count)
            guard count > 1, count <= text.count else { return nil }
            let bytes = text.prefix(count - 1).map { UInt8(bitPattern: $0) }
            let parts = String(decoding: bytes, as: UTF8.self).split(separator: ";", maxSplits: 4)
            guard parts.count == 5, parts[0] == "user", parts[4].hasPrefix(prefix) else {
                return nil
            }
            return String(parts[4])
        }
    }

    /// The numbers of all keys.
    private static var keys: [Int32] {
        var keys = [Int32](repeating: 0, count: 64)
        while true {
            let size = keys.withUnsafeMutableBytes { quire_keyring_list($0.baseAddress!, $0.count) }
            let count = max(0, size) / MemoryLayout<Int32>.size
            if count <= keys.count { return Array(keys.prefix(count)) }
            keys = [Int32](repeating: 0, count: count + 16)
        }
    }

    /// The serial number of a key; `nil` also if it has expired, or there is no keyring.
    private static func number(of description: String) -> Int? {
        let number = quire_keyring_search(description)
        return number >= 0 ? number : nil
    }

    private static func wipe(_ bytes: UnsafeMutableRawBufferPointer) {
        explicit_bzero(bytes.baseAddress!, bytes.count)
    }

    private static func text(_ error: Int32) -> String { String(cString: strerror(error)) }

    private static func unavailableError(_ error: Int32) -> QuireError {
        let advice =
            error == EDQUOT
            ? "It has no room for more keys: “quire lock” removes those of Quire."
            : "Containers may forbid it: unlock with a key in each program instead."
        return QuireError(
            .protectionUnavailable,
            "The kernel's user keyring cannot be used: \(text(error)). \(advice)")
    }
}

// MARK: - Domains in the keyring

// One unlock for all programs of a user, as ssh-agent provides for SSH: the master key in the kernel's user keyring.

extension ProtectionDomain {
    private static let processUsesKeyring = Lock(false)

    /// Whether locked domains of this process are unlocked on use with keys in the kernel's user keyring; initially `false`.
    ///
    /// A domain locked by ``lock(after:)`` is not: it requires an explicit unlock. Removing a key from the keyring does not lock
    /// the domain; ``followUserKeyring(every:grace:)`` does that.
    public static var usesUserKeyring: Bool {
        get { processUsesKeyring.withLock { $0 } }
        set { processUsesKeyring.withLock { $0 = newValue } }
    }

    /// Adds the master key to the kernel's user keyring, so that every program of the user can unlock the domain.
    ///
    /// It stays until it is removed, the timeout expires, or the machine shuts down. Any process of the user, and root, can read
    /// it. Adding it again replaces the timeout.
    ///
    /// - Parameter timeout: The time until the kernel removes the key, in whole seconds, at least one; `nil` for never.
    /// - Throws: ``QuireError`` with code `protectedDataUnavailable` if the domain is locked, `protectionUnavailable` if the
    ///   keyring cannot be used or is full, `invalidState` if the keybag is not on disk.
    ///   no keyring or it is full, `invalidState` if the keybag is not on disk.
    public func addToUserKeyring(timeout: Duration? = nil) throws {
        let (unlocked, path) = state.withLock { ($0.unlocked, $0.file?.path) }
        guard let unlocked else { throw Self.lockedError(name) }
        guard let path else {
            throw QuireError(
                .invalidState, "“\(name)” has not been written to disk; create the document first.")
        }
        try UserKeyring.add(
            .init(masterKey: unlocked.masterKey, path: path), as: keyringDescription,
            timeout: timeout)
    }

    /// Removes the master key from the kernel's user keyring. Programs that have unlocked the domain keep it unlocked, unless
    /// they follow the keyring.
    ///
    /// - Returns: Whether it existed.
    /// - Throws: ``QuireError`` with code `inputOutput`.
    @discardableResult
    public func removeFromUserKeyring() throws -> Bool {
        try UserKeyring.remove(keyringDescription)
    }

    /// Removes the master keys of all domains from the kernel's user keyring.
    ///
    /// - Returns: The number of removed keys.
    /// - Throws: ``QuireError`` with code `inputOutput`.
    @discardableResult
    public static func removeAllFromUserKeyring() throws -> Int {
        try UserKeyring.removeAll()
    }

    /// Whether the master key is in the kernel's user keyring.
    public var isInUserKeyring: Bool { UserKeyring.contains(keyringDescription) }

    /// Unlocks the domain with the master key in the kernel's user keyring, or through the domain of a person whose key is there.
    /// Open documents are notified, and not awaited.
    ///
    /// - Returns: Whether the domain is unlocked: `false` if the keyring has no key, or the key of another keybag.
    /// - Throws: ``QuireError`` with code `invalidFormat` if the keybag is damaged, `storeReplaced` if the file contains another
    ///   keybag or an older one, or errors of reading.
    @discardableResult
    public func unlockFromUserKeyring() throws -> Bool {
        if isUnlocked { return true }
        if let entry = try UserKeyring.find(keyringDescription) {
            let keybag = try currentKeybag()
            do { try keybag.verify(entry.masterKey) } catch let error as QuireError
                where error.code == .invalidFormat
            {
                // Both are untrusted: any program of the user may have written the key, and the keybag may be forged.
                return false
            }
            try unlock(entry.masterKey, of: keybag)
            return true
        }
        try unlockThroughParent(endingOwnLock: true, fromKeyring: true)
        return isUnlocked
    }

    /// Unlocks a domain on use: through that of a person, or with a key in the user keyring if this process uses it. A domain
    /// that was locked individually stays locked.
    func unlockWhenUsed() throws {
        if state.withLock({ $0.isLockedByItself }) { return }
        if Self.usesUserKeyring { try unlockFromUserKeyring() } else { try unlockThroughParent() }
    }

    /// Locks the domain when its key is removed from the kernel's user keyring, and unlocks it when one is added, until the task
    /// is cancelled. A domain that was unlocked through a person's domain follows the person's key.
    ///
    /// ```swift
    /// ProtectionDomain.usesUserKeyring = true
    /// let following = Task { try await domain.followUserKeyring() }
    /// ```
    ///
    /// - Parameters:
    ///   - interval: The polling interval; one system call each time.
    ///   - grace: See ``lock(after:)``.
    /// - Throws: Errors of ``unlockFromUserKeyring()``, and `CancellationError`.
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

    /// The unlocked domain of a person whose key is in the keyring; `nil` if there is none.
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
