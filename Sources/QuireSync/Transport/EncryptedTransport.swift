internal import Crypto
internal import Foundation
internal import QuireProtection
internal import QuireSystem

/// A transport whose files another one carries encrypted, under encrypted names; see ``SyncCipher``.
///
/// A file that another key has encrypted, or that is carried in the place of another file, is either not listed or cannot be read.
///
/// The carrier, and others who can read its files, still learn
/// - how many files there are, their sizes, which are in one folder, and when they come and go;
/// - from which machine a file comes, if it is the one that carries it, and so which person works when;
/// - the identifier of the shared document and when it was made, from `container.json`.
///
/// It can withhold files, and bring back those that were removed, which are merged without effect. It cannot change any.
struct EncryptedTransport: SyncTransport {
    /// The transport that carries the encrypted files.
    let carrier: any SyncTransport
    let cipher: SyncCipher

    /// Lists the files in a folder. Names that are not encrypted with the key, for this folder, are left out.
    func fileNames(in folder: SyncFileName) async throws -> [String] {
        try await carrier.fileNames(in: cipher.encryptedFolder(folder)).compactMap {
            try cipher.name(ofEncrypted: $0, in: folder)
        }
    }

    /// Reads a file.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` if its contents are not those that were encrypted for its name, or errors of
    ///   the carrier.
    func contents(of file: SyncFileName, maximumSize: Int) async throws -> Data? {
        let (size, isTooLarge) = maximumSize.addingReportingOverflow(SyncCipher.overhead)
        let place = try cipher.encryptedFile(file)
        return try await carrier.contents(of: place, maximumSize: isTooLarge ? .max : size)
            .map { try cipher.open($0, as: file, from: place) }
    }

    @discardableResult
    func create(_ file: SyncFileName, _ contents: Data) async throws -> Bool {
        try await carrier.create(
            cipher.encryptedFile(file), cipher.seal(contents, as: file))
    }

    func remove(_ file: SyncFileName) async throws {
        try await carrier.remove(cipher.encryptedFile(file))
    }

    var changes: AsyncStream<Void> { carrier.changes }
}

/// The key of an encrypted shared document, and what it makes of the names and contents of files.
///
/// Each purpose has a key of its own, derived with HKDF-SHA256 from the document's, with the container's identifier as the salt.
///
/// ```text
/// folder     HMAC-SHA256 of the folder's name, 16 bytes
/// file name  tag, 16 bytes: HMAC-SHA256 of the whole name; then its last part, XOR HKDF-Expand(tag)
/// contents   version 1; nonce, 12 random bytes; ciphertext and tag of AES-256-GCM.
///            Authenticated with it: the version, the container's identifier, the file's whole name
/// ```
///
/// Names are written in base 32. A name is encrypted deterministically (SIV, by Rogaway and Shrimpton), because a file that is
/// there must not be created again; so a file has the same encrypted name on all machines, in its folder and in no other one. All
/// folders are at the top.
struct SyncCipher: Sendable {
    let container: SyncIdentifier
    /// The document's key, 32 bytes.
    let secret: SecretMemory
    private let key: FileKey

    /// The number of bytes that contents grow by.
    static let overhead = 1 + nonceCount + AuthenticatedEncryption.tagByteCount
    /// The greatest number of characters of a file's last part: encrypted it has ``SyncFileName/maximumPartLength``.
    static let maximumNameLength = SyncFileName.maximumPartLength * 5 / 8 - tagCount

    private static let version: UInt8 = 1
    private static let nonceCount = AuthenticatedEncryption.nonceByteCount
    private static let tagCount = 16

    init(container: SyncIdentifier, secret: SecretMemory) {
        self.container = container
        self.secret = secret
        let salt = container.bytes.withUnsafeBytes {
            UUID(uuid: $0.loadUnaligned(as: uuid_t.self))
        }
        key = FileKey(file: salt, fileProtection: .complete, secret: secret)
    }

    // MARK: - Names

    /// The folder that carries a folder's files.
    func encryptedFolder(_ folder: SyncFileName) throws -> SyncFileName {
        let code = try authenticationCode(folder, "Quire sync folders 1")
        return SyncFileName(unchecked: Base32.encode(code))
    }

    /// The file that carries a file.
    ///
    /// - Throws: `QuireError` with code `invalidValue` if its name is too long.
    func encryptedFile(_ file: SyncFileName) throws -> SyncFileName {
        let name = Array(file.lastPart.utf8)
        guard (1...Self.maximumNameLength).contains(name.count) else {
            throw QuireError(
                .invalidValue,
                "“\(file)” cannot be the name of an encrypted file; specify a name whose last part has 1 to \(Self.maximumNameLength) bytes.",
                file: file.path)
        }
        let tag = try nameTag(of: file)
        let encrypted = try Base32.encode(tag + masked(name, by: tag))
        return SyncFileName(unchecked: try encryptedFolder(file.folder).path + "/" + encrypted)
    }

    /// The last part of the name of a file that is carried in a folder's place; `nil` if the file is not one of that folder.
    func name(ofEncrypted text: String, in folder: SyncFileName) throws -> String? {
        guard text.utf8.count <= SyncFileName.maximumPartLength, let bytes = Base32.decode(text),
            bytes.count > Self.tagCount
        else { return nil }
        let tag = Array(bytes.prefix(Self.tagCount))
        let plain = try masked(Array(bytes.dropFirst(Self.tagCount)), by: tag)
        guard let name = String(validating: plain, as: UTF8.self), SyncFileName.isValidPart(name),
            let file = folder.entry(name), try nameTag(of: file) == tag
        else { return nil }
        return name
    }

    private func nameTag(of file: SyncFileName) throws -> [UInt8] {
        try authenticationCode(file, "Quire sync name tags 1")
    }

    private func authenticationCode(_ name: SyncFileName, _ purpose: String) throws -> [UInt8] {
        try wipingTraces {
            try key.withDerivedKey(purpose) {
                Array(
                    HMAC<SHA256>.authenticationCode(for: Data(name.path.utf8), using: $0)
                        .prefix(Self.tagCount))
            }
        }
    }

    private func masked(_ name: [UInt8], by tag: [UInt8]) throws -> [UInt8] {
        try wipingTraces {
            try key.withDerivedKey("Quire sync names 1") { key in
                HKDF<SHA256>.expand(
                    pseudoRandomKey: key, info: tag, outputByteCount: name.count
                ).withUnsafeBytes { mask in zip(name, mask).map { $0 ^ $1 } }
            }
        }
    }

    // MARK: - Contents

    /// Encrypts the contents of a file.
    func seal(_ contents: Data, as file: SyncFileName) throws -> Data {
        var generator = SystemRandomNumberGenerator()
        let nonce = (0..<Self.nonceCount).map { _ in generator.next() as UInt8 }
        let start = [Self.version] + nonce
        var sealed = Data(count: contents.count + Self.overhead)
        let authenticated = authenticatedData(of: file)
        try withContentsKey(nonce, authenticated) { key, nonce, authenticated in
            try sealed.withUnsafeMutableBytes { sealed in
                sealed.copyBytes(from: start)
                try contents.withUnsafeBytes { contents in
                    try AuthenticatedEncryption.seal(
                        contents, key: key, nonce: nonce, authenticating: authenticated,
                        into: UnsafeMutableRawBufferPointer(rebasing: sealed[start.count...]))
                }
            }
        }
        return sealed
    }

    /// Decrypts the contents of a file.
    ///
    /// - Parameter place: The file that carries it, for errors.
    /// - Throws: `QuireError` with code `invalidFormat` if they are not those of this file, whole and unchanged; `unsupported` if
    ///   a later version has encrypted them.
    func open(_ sealed: Data, as file: SyncFileName, from place: SyncFileName) throws -> Data {
        guard sealed.first ?? Self.version == Self.version else {
            throw QuireError(
                .unsupported,
                "“\(file)” cannot be decrypted: “\(place)” is damaged, or was written by a later version of this program; update the program to read it.",
                file: place.path)
        }
        let start = 1 + Self.nonceCount
        var contents = Data(count: max(sealed.count - Self.overhead, 0))
        let nonce = Array(sealed.dropFirst().prefix(Self.nonceCount))
        let authenticated = authenticatedData(of: file)
        let isRight =
            try sealed.count >= Self.overhead
            && withContentsKey(nonce, authenticated) { key, nonce, authenticated in
                try contents.withUnsafeMutableBytes { contents in
                    try sealed.withUnsafeBytes { sealed in
                        try AuthenticatedEncryption.open(
                            UnsafeRawBufferPointer(rebasing: sealed[start...]), key: key,
                            nonce: nonce, authenticating: authenticated, into: contents)
                    }
                }
            }
        if isRight { return contents }
        throw QuireError(
            .invalidFormat,
            "“\(file)” cannot be decrypted: “\(place)” is damaged, has not arrived completely, or is another file.",
            file: place.path)
    }

    private func authenticatedData(of file: SyncFileName) -> [UInt8] {
        [Self.version] + container.bytes + Array(file.path.utf8)
    }

    private func withContentsKey<Result>(
        _ nonce: [UInt8], _ authenticated: [UInt8],
        _ body: (SymmetricKey, UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Result
    ) throws -> Result {
        try key.withDerivedKey("Quire sync contents 1") { key in
            try nonce.withUnsafeBytes { nonce in
                try authenticated.withUnsafeBytes { try body(key, nonce, $0) }
            }
        }
    }
}

/// Base 32 (RFC 4648) in lower case and without padding: letters and digits that every file system tells apart.
enum Base32 {
    private static let digits = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)

    static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        var (bits, count) = (0, 0)
        for byte in bytes {
            (bits, count) = ((bits << 8 | Int(byte)) & 0xFFFF, count + 8)
            while count >= 5 {
                count -= 5
                text.append(digits[bits >> count & 31])
            }
        }
        if count > 0 { text.append(digits[bits << (5 - count) & 31]) }
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes that ``encode(_:)`` gives a text for; `nil` if there are none.
    static func decode(_ text: String) -> [UInt8]? {
        var bytes: [UInt8] = []
        var (bits, count) = (0, 0)
        for character in text.utf8 {
            guard let digit = digits.firstIndex(of: character) else { return nil }
            (bits, count) = ((bits << 5 | digit) & 0xFFFF, count + 5)
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> count))
            }
        }
        return encode(bytes) == text ? bytes : nil
    }
}
