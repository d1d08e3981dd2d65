import Crypto
import Foundation
public import Quire

/// The key that has signed an archive.
public struct ArchiveSigner: Sendable, Hashable {
    /// The type of the key, such as `ssh-ed25519`.
    public var keyType: String
    /// The fingerprint of the key as OpenSSH shows it: `SHA256:` and 43 characters.
    public var fingerprint: String
    /// The identities that the list of allowed signers has for the key, as they are written there; `nil` if the key was not
    /// compared with a list.
    public var principals: String?
}

extension QuireError.Code {
    /// An archive is not signed, or not by a signer who is allowed.
    public static let untrustedSignature = Self(rawValue: "untrustedSignature")
}

/// The signature of an archive's manifest, in the form of `ssh-keygen -Y sign` (PROTOCOL.sshsig of OpenSSH).
///
/// Armored, it is base64 between two lines. Its fields are strings preceded by their length, as everywhere in SSH:
///
/// ```text
/// "SSHSIG"  version  public key  namespace  reserved  hash algorithm  signature
/// ```
///
/// The signed bytes are the same strings without the version and the key, with the manifest's digest as the last one. The bytes are
/// untrusted: whatever they are, parsing them throws or gives a signature, which is worth nothing before ``verify(_:)``.
struct ArchiveSignature {
    /// The path in the package of the signature. It is written last, and not listed in the manifest.
    static let path = ArchiveManifest.path + ".sig"
    /// The namespace of signatures of manifests: one that was made for another purpose is refused.
    static let namespace = "quire-archive"
    /// The maximum size of an armored signature; the largest that OpenSSH makes have a few kilobytes.
    static let maximumSize = 64 << 10

    /// The key that has made the signature.
    let key: SSHPublicKey
    private let namespace: String
    private let reserved: [UInt8]
    private let hashAlgorithm: String
    private let signature: [UInt8]
    private let archive: String

    /// Parses an armored signature.
    ///
    /// - Parameter archive: The archive, for errors.
    /// - Throws: ``QuireError`` with code `invalidFormat`, or `unsupported` for a later version of the format.
    init(armored: Data, archive: String) throws {
        func malformed() -> QuireError {
            QuireError(
                .invalidFormat, "The signature of “\(archive)” is damaged: it cannot be read.",
                file: archive)
        }
        guard armored.count <= Self.maximumSize, let blob = Self.blob(inArmored: armored) else {
            throw malformed()
        }
        var reader = BinaryFields(ofSSH: blob)
        guard reader.bytes(6) == Array("SSHSIG".utf8)[...], let version = reader.next(UInt32.self)
        else {
            throw malformed()
        }
        if version > 1 {
            throw QuireError(
                .unsupported,
                "The signature of “\(archive)” has version \(version), but this version of Quire reads only version 1.",
                file: archive)
        }
        guard version == 1, let key = reader.string().flatMap(SSHPublicKey.init),
            let namespace = reader.name(), let reserved = reader.string(),
            let hashAlgorithm = reader.name(), let signature = reader.string(), reader.isAtEnd
        else { throw malformed() }
        self.key = key
        self.namespace = namespace
        self.reserved = Array(reserved)
        self.hashAlgorithm = hashAlgorithm
        self.signature = Array(signature)
        self.archive = archive
    }

    /// The bytes between the lines of an armored signature, or `nil`.
    private static func blob(inArmored armored: Data) -> [UInt8]? {
        let newline = UInt8(ascii: "\n")
        var lines = armored.split(separator: newline, omittingEmptySubsequences: false)
            .map { $0.last == UInt8(ascii: "\r") ? $0.dropLast() : $0 }
        while lines.last?.isEmpty == true { lines.removeLast() }
        guard lines.count > 2, lines.removeFirst() == Data("-----BEGIN SSH SIGNATURE-----".utf8),
            lines.removeLast() == Data("-----END SSH SIGNATURE-----".utf8)
        else { return nil }
        let text = Data(lines.joined())
        // One signature has one form: encoding it again shows bits that decoding ignores.
        guard let blob = Data(base64Encoded: text), blob.base64EncodedData() == text else {
            return nil
        }
        return Array(blob)
    }

    /// The digests of a manifest, one of which is signed.
    struct Message {
        fileprivate let sha256: SHA256.Digest
        fileprivate let sha512: SHA512.Digest

        /// - Parameter manifest: The bytes of the manifest, as they are in the archive.
        init(_ manifest: Data) {
            sha256 = SHA256.hash(data: manifest)
            sha512 = SHA512.hash(data: manifest)
        }
    }

    /// Checks that the key in the signature has signed a manifest. Whose key it is remains to be seen.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`, or `unsupported` if the key is not Ed25519.
    func verify(_ message: Message) throws {
        guard namespace == Self.namespace else {
            throw QuireError(
                .invalidFormat,
                "The signature of “\(archive)” was created for another purpose: its namespace is “\(namespace)”, not “\(Self.namespace)”.",
                file: archive)
        }
        let digest: [UInt8]
        switch hashAlgorithm {
        case "sha256": digest = Array(message.sha256)
        case "sha512": digest = Array(message.sha512)
        default:
            throw QuireError(
                .unsupported,
                "The signature of “\(archive)” uses the unknown hash algorithm \(hashAlgorithm).",
                file: archive)
        }
        var signed = Array("SSHSIG".utf8)
        for string in [Array(namespace.utf8), reserved, Array(hashAlgorithm.utf8), digest] {
            signed.append(bigEndian: UInt32(string.count))
            signed += string
        }
        guard key.isSupported else {
            throw QuireError(
                .unsupported,
                "“\(archive)” is signed with a key of type \(key.type), but only Ed25519 signatures can be verified here. Unpack it, and run: ssh-keygen -Y verify -f ALLOWED_SIGNERS -I IDENTITY -n \(Self.namespace) -s \(Self.path) < \(ArchiveManifest.path)",
                file: archive)
        }
        guard key.isValid(signature, of: signed) else {
            throw QuireError(
                .invalidFormat,
                "“\(archive)” was changed after it was signed: its signature does not match its manifest.",
                file: archive)
        }
    }
}

// MARK: - Keys

/// A public key in the form of SSH: strings, of which the first is its type.
struct SSHPublicKey: Equatable {
    private static let ed25519 = "ssh-ed25519"
    /// An Ed25519 key in a FIDO authenticator.
    private static let hardwareEd25519 = "sk-ssh-ed25519@openssh.com"

    let bytes: [UInt8]
    /// The type, in printable characters.
    let type: String

    /// - Returns: `nil` if the bytes do not begin with a type.
    init?(_ bytes: some Sequence<UInt8>) {
        self.bytes = Array(bytes)
        var reader = BinaryFields(ofSSH: self.bytes)
        guard let type = reader.name() else { return nil }
        self.type = type
    }

    /// The fingerprint as OpenSSH shows it.
    var fingerprint: String {
        let digest = Data(SHA256.hash(data: bytes)).base64EncodedString()
        return "SHA256:" + digest.prefix { $0 != "=" }
    }

    /// Whether signatures of this type of key can be checked.
    var isSupported: Bool { [Self.ed25519, Self.hardwareEd25519].contains(type) }

    /// Whether a signature is that of a message by this key. Both are untrusted.
    func isValid(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        var keyReader = BinaryFields(ofSSH: bytes)
        var reader = BinaryFields(ofSSH: signature)
        guard isSupported, keyReader.name() == type, reader.name() == type,
            let point = keyReader.string(), point.count == 32,
            let value = reader.string(), value.count == 64,
            let key = try? Curve25519.Signing.PublicKey(rawRepresentation: Data(point))
        else { return false }
        var signed = message
        if type == Self.hardwareEd25519 {
            // The authenticator signs digests of the application and the message, whether it was touched, and a counter.
            guard let application = keyReader.string(), let state = reader.bytes(5) else {
                return false
            }
            signed =
                Array(SHA256.hash(data: application)) + state + Array(SHA256.hash(data: message))
        }
        guard keyReader.isAtEnd, reader.isAtEnd else { return false }
        return key.isValidSignature(Data(value), for: signed)
    }
}

/// The parts of SSH's binary formats (RFC 4251, section 5).
extension BinaryFields {
    init(ofSSH bytes: [UInt8]) { self.init(bytes, isBigEndian: true) }

    /// Bytes preceded by their number.
    mutating func string() -> ArraySlice<UInt8>? {
        next(UInt32.self).flatMap { bytes(Int(clamping: $0)) }
    }

    /// A string of 1 to 255 printable ASCII characters without spaces.
    mutating func name() -> String? {
        guard let name = string(), (1...255).contains(name.count),
            name.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return nil }
        return String(decoding: name, as: UTF8.self)
    }
}
