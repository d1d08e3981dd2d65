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
    /// The possessor may do everything, the user all but link it, others nothing.
    private static let permissions: UInt32 = 0x3F2F_0000
    private static let version: UInt8 = 1
    private static let keySize = 32
    private static let greatestSize = 1 + keySize + 4096

    /// The payload of a key: the master key of a keybag, and the path of the keybag.
    struct Entry {
        var masterKey: SecretMemory
        var path: String
    }

    /// Adds a key, or replaces it. Without a timeout it stays until it is removed or the machine ends.
    ///
    /// - Throws: ``QuireError`` with code `protectionUnavailable` if there is no keyring, or it is full.
    static func add(_ entry: Entry, as description: String, timeout: Duration?) throws {
        let path = Array(entry.path.utf8)
        let count = 1 + keySize + path.count
        guard entry.masterKey.count == keySize, count <= greatestSize else {
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
        // Complete before it is in the keyring, and possessed by this thread: what the session keyring has no link to may be
        // found, but not changed.
        let key = quire_key_make(description, payload.baseAddress!, payload.count)
        if key < 0 { throw unavailableError(errno) }
        defer { _ = quire_key_remove_from_thread(key) }
        if quire_key_set_timeout(key, seconds ?? 0) < 0
            || quire_key_set_permissions(key, permissions) < 0 || quire_keyring_add(key) < 0
        {
            throw unavailableError(errno)
        }
    }

    /// The key with a description; `nil` if there is none, no keyring, or nothing of Quire's in it.
    ///
    /// - Throws: ``QuireError`` with code `inputOutput` if there is no memory for it.
    static func find(_ description: String) throws -> Entry? {
        guard let key = number(of: description) else { return nil }
        return try withUnsafeTemporaryAllocation(byteCount: greatestSize, alignment: 1) { payload in
            defer { wipe(payload) }
            let count = quire_key_read(key, payload.baseAddress!, payload.count)
            guard count > 1 + keySize, count <= greatestSize, payload[0] == version,
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
    /// - Returns: Whether it was there.
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
    /// - Returns: How many there were.
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

    /// The number of a key: none if it has expired, too, or there is no keyring.
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
            ? "There is no room for more keys: “quire lock” removes those of Quire."
            : "Containers may forbid it: unlock with a key in each program instead."
        return QuireError(
            .protectionUnavailable,
            "The kernel's user keyring cannot be used: \(text(error)). \(advice)")
    }
}
