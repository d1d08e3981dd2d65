import Foundation
public import Quire
import QuireModel
import QuireProtection

// The description of a shared document: `container.json`, which is made once, and the model of its creator.

extension SyncContainer {
    static let descriptionFile = SyncFileName(unchecked: "container.json")

    static func description(
        in transport: any SyncTransport
    ) async throws -> SyncContainerDescription? {
        try await transport.contents(of: descriptionFile, maximumSize: 1 << 16).map {
            try SyncContainerDescription($0)
        }
    }

    static func existingDescription(
        in transport: any SyncTransport
    ) async throws -> SyncContainerDescription {
        if let description = try await description(in: transport) { return description }
        throw QuireError(
            .notFound,
            "The folder does not contain a shared document. If another machine created one, wait until it arrives; otherwise create one."
        )
    }

    // MARK: - Model

    /// The maximum size of a file with a model.
    private static let maximumModelSize = 4 << 20

    private static func modelFile(_ digest: String) -> SyncFileName? {
        SyncFileName(unchecked: "model").entry("\(digest).xml")
    }

    /// Hands the model over, for programs that make a new replica.
    func sendModel() async throws {
        guard let file = Self.modelFile(replica.modelDigest) else { return }
        try await transport.create(file, try await onQueue { $0.modelXML() })
    }

    /// The model of the shared document in a transport's folder, as its creator saved it, to create a new store that joins the
    /// document.
    ///
    /// - Parameters:
    ///   - transport: The shared folder.
    ///   - password: The password of an encrypted document; see ``isEncrypted(in:)``.
    /// - Throws: `QuireError` with code `notFound` if the folder does not contain a shared document, or its model has not arrived
    ///   yet; `invalidFormat` if a file is damaged or has not arrived completely; `unsupported` if a later version created the
    ///   document; `protectedDataUnavailable` if it is encrypted and no password is specified, `wrongKey` if the password is
    ///   wrong; `protectionUnavailable` if a password is specified and the document is not encrypted.
    public static func model(
        in transport: any SyncTransport, password: String? = nil
    ) async throws -> ManagedObjectModel {
        let description = try await existingDescription(in: transport)
        var (transport, digest) = (transport, description.model)
        if let cipher = try await cipher(of: description, password) {
            transport = EncryptedTransport(carrier: transport, cipher: cipher)
            digest = try description.content(cipher).model
        }
        guard let file = modelFile(digest) else {
            throw QuireError(
                .invalidFormat, "“\(descriptionFile)” does not name a valid model.",
                file: descriptionFile.path, value: digest)
        }
        guard let xml = try await transport.contents(of: file, maximumSize: maximumModelSize) else {
            throw QuireError(
                .notFound,
                "The model of the shared document has not arrived in the folder yet; try again later.",
                file: file.path)
        }
        let model = try ManagedObjectModel(modelXML: xml, name: file.path)
        guard try SyncModel(model.layout()).digest == digest else {
            throw QuireError(
                .invalidFormat, "The model in “\(file)” does not match its name.", file: file.path)
        }
        return model
    }
}

/// The content of `container.json`.
///
/// Of an encrypted document it has the keybag, which the password opens, and the rest is encrypted as the content of this file is:
/// so it cannot be changed without the key.
struct SyncContainerDescription: Codable {
    let format: Int
    let container: String
    /// The name of the document; empty if it is encrypted.
    var name = ""
    /// The digest of the creator's model; empty if it is encrypted.
    var model = ""
    /// The keybag with the document's key, if the document is encrypted.
    var keybag: Data?
    /// The ``Content``, if the document is encrypted.
    var sealed: Data?

    /// The encrypted part of the description.
    struct Content: Codable {
        let name: String
        let model: String
    }

    /// The format of documents that are not encrypted, and of those that are.
    private static let (plainFormat, encryptedFormat) = (1, 2)
    private static let file = SyncContainer.descriptionFile

    /// Describes a document that is not encrypted.
    init(container: SyncIdentifier, name: String, model: String) {
        format = Self.plainFormat
        self.container = container.description
        self.name = name
        self.model = model
    }

    /// Describes a document that is encrypted with a new key, which a password opens.
    ///
    /// - Throws: `QuireError` with code `invalidValue` if the password is empty.
    /// - Complexity: That of deriving a key from the password: 128 MiB and about half a second at the standard cost.
    static func encrypted(
        container: SyncIdentifier, _ content: Content, password: String, cost: ScryptCost
    ) throws -> (description: SyncContainerDescription, cipher: SyncCipher) {
        var (keybag, key) = try Keybag.make(path: file.path, fileProtection: .complete)
        try keybag.addSlot(.passphrase(password), label: "", masterKey: key, cost: cost)
        let cipher = SyncCipher(container: container, secret: key)
        let sealed = try cipher.seal(JSONEncoder().encode(content), as: file)
        let description = SyncContainerDescription(
            format: encryptedFormat, container: container.description,
            keybag: keybag.encoded(key), sealed: sealed)
        return (description, cipher)
    }

    private init(format: Int, container: String, keybag: Data, sealed: Data) {
        self.format = format
        self.container = container
        self.keybag = keybag
        self.sealed = sealed
    }

    /// - Throws: `QuireError` with code `invalidFormat`. The format is not checked.
    init(_ data: Data) throws {
        do {
            self = try JSONDecoder().decode(Self.self, from: data)
        } catch {
            throw QuireError(
                .invalidFormat, "“\(Self.file)” is damaged or has not arrived completely.",
                file: Self.file.path, underlying: error)
        }
    }

    /// - Throws: `QuireError` with code `unsupported` if a later version has made it.
    func checkFormat() throws {
        if format == Self.plainFormat || isEncrypted { return }
        throw QuireError(
            .unsupported,
            "The shared document was created by a later version of this program (format \(format)); update the program.",
            file: Self.file.path)
    }

    var isEncrypted: Bool { format == Self.encryptedFormat }

    func encoded() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted, .withoutEscapingSlashes]
        return try encoder.encode(self)
    }

    func identifier() throws -> SyncIdentifier {
        guard let id = SyncIdentifier(container) else {
            throw QuireError(
                .invalidFormat, "“\(Self.file)” does not contain a valid identifier.",
                file: Self.file.path, value: container)
        }
        return id
    }

    // MARK: - Keys

    /// The cipher of an encrypted document.
    ///
    /// - Throws: `QuireError` with code `wrongKey` if the password is another one, or the keybag is damaged; `invalidFormat` if
    ///   the file is damaged.
    func cipher(_ password: String) throws -> SyncCipher {
        guard let keybag else { throw damage() }
        let secret: SecretMemory
        do {
            secret = try Keybag(keybag, path: Self.file.path).masterKey(.passphrase(password))
        } catch let error as QuireError where error.code == .wrongKey {
            throw QuireError(
                .wrongKey,
                "The password does not open the shared document: it is wrong, or “\(Self.file)” is damaged.",
                file: Self.file.path, underlying: error)
        }
        let cipher = SyncCipher(container: try identifier(), secret: secret)
        _ = try content(cipher)
        return cipher
    }

    /// Decrypts that part.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` if it is damaged, or encrypted with another key.
    func content(_ cipher: SyncCipher) throws -> Content {
        guard let sealed else { throw damage() }
        do {
            let content = try cipher.open(sealed, as: Self.file, from: Self.file)
            return try JSONDecoder().decode(Content.self, from: content)
        } catch {
            throw damage()
        }
    }

    private func hasKeybag(of cipher: SyncCipher) -> Bool {
        guard let keybag else { return false }
        do {
            try Keybag(keybag, path: Self.file.path).verify(cipher.secret)
            return true
        } catch {
            return false
        }
    }

    private func hasContent(of cipher: SyncCipher) -> Bool {
        do {
            _ = try content(cipher)
            return true
        } catch {
            return false
        }
    }

    /// Checks that it describes the document that a store is a replica of.
    ///
    /// - Parameter cipher: The replica's; `nil` if its document is not encrypted.
    /// - Throws: `QuireError` with code `invalidFormat` if it is damaged, or was changed without the key; `syncedContentReplaced` if
    ///   it is that of another document; `unsupported` if a later version has made it; `protectedDataUnavailable` if it is encrypted
    ///   and the replica has no key.
    func check(_ container: SyncIdentifier, _ cipher: SyncCipher?) throws {
        guard let cipher else {
            try checkFormat()
            guard try identifier() == container else { throw foreignError() }
            if isEncrypted { throw keylessError() }
            return
        }
        let isNamed = SyncIdentifier(self.container) == container
        let (hasKeybag, hasContent) = (hasKeybag(of: cipher), hasContent(of: cipher))
        if isEncrypted, isNamed, hasKeybag, hasContent { return }
        if isNamed || hasKeybag || hasContent { throw damage() }
        try checkFormat()
        throw foreignError()
    }

    private func damage() -> QuireError {
        QuireError(
            .invalidFormat,
            "“\(Self.file)” is damaged, or was changed without a key; restore it from a backup so that other machines can join.",
            file: Self.file.path)
    }

    private func foreignError() -> QuireError {
        QuireError(
            .syncedContentReplaced,
            "The folder contains a different shared document from the one the store belongs to.",
            file: Self.file.path)
    }

    /// The error of an encrypted document without a password.
    func keylessError() -> QuireError {
        QuireError(
            .protectedDataUnavailable,
            "The shared document in the folder is encrypted; join it with its password.",
            file: Self.file.path)
    }
}
