import Crypto
import CryptoExtras
package import Foundation
import QuireSystem

/// A slot of a keybag, which unlocks its master key.
package struct KeybagSlot: Hashable, Sendable {
    /// The kind of credential, with its parameters and the wrapped master key.
    package enum Content: Hashable, Sendable {
        /// A passphrase, through scrypt.
        case passphrase(cost: ScryptCost, wrapped: Data)
        /// A file with random bytes.
        case keyFile(wrapped: Data)
        /// Words on paper.
        case recoveryKey(wrapped: Data)
        /// The keybag of a person.
        case domain(parent: UUID, wrapped: WrappedFileKey)
        /// A kind of a later version: preserved unchanged.
        case other(kind: UInt8, bytes: Data)
    }

    /// The greatest number of bytes of a label.
    package static let maximumLabelCount = 64

    /// The slot's identifier.
    package let identifier: UUID
    /// The creation time, in whole seconds since 1970.
    package let created: Int64
    /// The person's own name for it. It can be read without a key.
    package let label: String
    /// 32 random bytes.
    package let salt: Data
    /// The kind of slot, with its wrapped key.
    package let content: Content

    /// A slot by its parts.
    init(identifier: UUID, created: Int64, label: String, salt: Data, content: Content) {
        self.identifier = identifier
        self.created = created
        self.label = label
        self.salt = salt
        self.content = content
    }

    /// Wraps a master key for a credential.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the credential, or the label, cannot be used.
    init(
        _ credential: KeybagCredential, wrapping masterKey: SecretMemory, label: String,
        created: Date, cost: ScryptCost
    ) throws {
        try Self.check(label: label)
        try credential.checkUsable()
        let identifier = UUID()
        let salt = Self.randomSalt()
        let key = try Self.key(
            of: credential, slot: identifier, salt: salt, cost: cost, path: "the keybag")
        let wrapped = try KeyWrapping.wrap(masterKey, by: key)
        let content: Content =
            switch credential {
            case .passphrase: .passphrase(cost: cost, wrapped: wrapped)
            case .keyFile: .keyFile(wrapped: wrapped)
            case .recoveryKey: .recoveryKey(wrapped: wrapped)
            }
        self.init(
            identifier: identifier, created: Int64(created.timeIntervalSince1970), label: label,
            salt: salt, content: content)
    }

    /// A slot for a person's keybag, which has wrapped the master key already.
    init(parent: UUID, wrapped: WrappedFileKey, label: String, created: Date) throws {
        try Self.check(label: label)
        self.init(
            identifier: UUID(), created: Int64(created.timeIntervalSince1970), label: label,
            salt: Self.randomSalt(), content: .domain(parent: parent, wrapped: wrapped))
    }

    /// The master key, if the credential opens this slot.
    ///
    /// - Parameter path: The keybag's path, for errors.
    func masterKey(_ credential: KeybagCredential, path: String) throws -> SecretMemory? {
        let wrapped: Data
        var cost = ScryptCost.standard
        switch (content, credential) {
        case (.passphrase(let ownCost, let ownWrapped), .passphrase):
            cost = ownCost
            wrapped = ownWrapped
        case (.keyFile(let ownWrapped), .keyFile), (.recoveryKey(let ownWrapped), .recoveryKey):
            wrapped = ownWrapped
        default: return nil
        }
        let key = try Self.key(
            of: credential, slot: identifier, salt: salt, cost: cost, path: path)
        return try KeyWrapping.unwrap(wrapped, by: key)
    }

    private static func key(
        of credential: KeybagCredential, slot: UUID, salt: Data, cost: ScryptCost, path: String
    ) throws -> SymmetricKey {
        switch credential {
        case .passphrase(let passphrase):
            var bytes = wipingTraces {
                Array(passphrase.precomposedStringWithCanonicalMapping.utf8)
            }
            defer { bytes.withUnsafeMutableBytes { $0.wipe() } }
            return KeyWrapping.derive(
                from: try cost.derive(from: bytes, salt: salt, path: path), salt: slot.data,
                info: Data("Quire passphrase slot 1".utf8))
        case .keyFile(let bytes):
            return KeyWrapping.derive(
                from: SymmetricKey(data: bytes), salt: salt,
                info: Data("Quire key file slot 1".utf8))
        case .recoveryKey(let key):
            return KeyWrapping.derive(
                from: key.secret, salt: salt, info: "Quire recovery key slot 1")
        }
    }

    private static func check(label: String) throws {
        if label.utf8.count <= maximumLabelCount { return }
        throw QuireError(
            .invalidValue,
            "The label “\(label)” has more than \(maximumLabelCount) bytes; specify a shorter one.",
            subject: .init(value: label))
    }

    private static func randomSalt() -> Data {
        var generator = SystemRandomNumberGenerator()
        return Data((0..<32).map { _ in generator.next() as UInt8 })
    }
}

/// A credential that opens a slot of a keybag.
package enum KeybagCredential: Sendable {
    /// A passphrase. Its canonical composition (NFC) counts, in UTF-8.
    case passphrase(String)
    /// The bytes of a key file.
    case keyFile(Data)
    /// A recovery key.
    case recoveryKey(RecoveryKey)

    /// The valid sizes of a key file.
    package static let keyFileCounts = 16...65_536

    /// Throws if the credential is not valid for a new slot.
    func checkUsable() throws {
        switch self {
        case .passphrase(let passphrase):
            if !passphrase.isEmpty { return }
            throw QuireError(.invalidValue, "The passphrase is empty; specify another one.")
        case .keyFile(let bytes):
            if Self.keyFileCounts.contains(bytes.count) { return }
            throw QuireError(
                .invalidValue,
                "The key file has \(bytes.count) bytes; a key file has \(Self.keyFileCounts.lowerBound) to \(Self.keyFileCounts.upperBound) bytes, which should be random."
            )
        case .recoveryKey: return
        }
    }

    var name: String {
        switch self {
        case .passphrase: "passphrase"
        case .keyFile: "key file"
        case .recoveryKey: "recovery key"
        }
    }
}

/// The cost parameters of scrypt (RFC 7914).
package struct ScryptCost: Hashable, Sendable {
    /// The binary logarithm of N.
    package var logarithmOfN: UInt8
    /// The size of a block.
    package var r: UInt32
    /// The parallelization parameter.
    package var p: UInt32

    /// 128 MiB and about half a second.
    package static let standard = ScryptCost(logarithmOfN: 17, r: 8, p: 1)

    /// The parameters by their values.
    package init(logarithmOfN: UInt8, r: UInt32, p: UInt32) {
        self.logarithmOfN = logarithmOfN
        self.r = r
        self.p = p
    }

    /// The greatest work that a credential may cost, in all slots it is tried in together: a few seconds.
    static let maximumWork: UInt64 = 1 << 24
    /// The greatest memory that a slot may need, in bytes.
    static let maximumMemory: UInt64 = 1 << 28

    /// The work in blocks of scrypt, *N r p*.
    var work: UInt64 { (UInt64(r) * UInt64(p)) << UInt64(logarithmOfN) }

    /// Whether the parameters are valid for scrypt, and within the limits. Keybags are untrusted.
    var isAcceptable: Bool {
        // With larger blocks the library miscounts the memory that it needs.
        guard (1...20).contains(logarithmOfN), (1...16).contains(r), (1...16).contains(p),
            // N < 2^(128 · r / 8), by RFC 7914.
            UInt32(logarithmOfN) < 16 * r
        else { return false }
        let memory = (UInt64(r) << UInt64(logarithmOfN)) * 128
        return memory <= Self.maximumMemory && work <= Self.maximumWork
    }

    func derive(from passphrase: [UInt8], salt: Data, path: String) throws -> SymmetricKey {
        // An empty passphrase has no address to pass to the library.
        guard isAcceptable, !passphrase.isEmpty else { throw QuireError.wrongKey(path: path) }
        do {
            // The library does not wipe the bytes that it derives the key from.
            return try wipingTraces {
                try KDF.Scrypt.deriveKey(
                    from: passphrase, salt: salt, outputByteCount: 64,
                    rounds: 1 << Int(logarithmOfN), blockSize: Int(r), parallelism: Int(p))
            }
        } catch {
            throw QuireError(
                .inputOutput,
                "The key of “\(path)” cannot be derived from the passphrase: this needs \((UInt64(r) << UInt64(logarithmOfN)) >> 13) MiB of memory, which may not be available. Free some memory and try again.",
                file: path, underlying: error)
        }
    }
}

extension UnsafeMutableRawBufferPointer {
    /// Overwrites the bytes with zeros, also where nothing reads them any more.
    func wipe() {
        if let baseAddress { explicit_bzero(baseAddress, count) }
    }
}

extension QuireError {
    /// The error of a credential that opens no slot.
    static func wrongKey(_ name: String = "passphrase", path: String) -> QuireError {
        QuireError(
            .wrongKey,
            "This \(name) does not open any slot of “\(path)”: it is wrong, or the keybag is damaged. Try another one, or restore the keybag from a backup.",
            file: path)
    }
}
