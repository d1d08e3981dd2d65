import Dispatch
import Quire

/// Encrypted shared documents.
extension SyncContainer {
    /// Whether the shared document in a transport's folder is encrypted, so that joining it takes a password.
    ///
    /// - Throws: `QuireError` with code `notFound` if there is none (yet), `invalidFormat` if its file is damaged, `unsupported` if
    ///   it was made by a later version.
    public static func isEncrypted(in transport: any SyncTransport) async throws -> Bool {
        let description = try await existingDescription(in: transport)
        try description.checkFormat()
        return description.isEncrypted
    }

    /// The cipher of a document that the store is not a replica of yet; `nil` if it is not encrypted.
    ///
    /// - Throws: `QuireError` with code `protectedDataUnavailable` if there is no password and it is encrypted,
    ///   `protectionUnavailable` if there is one and it is not, `wrongKey` if it is another one, `invalidFormat` if the description
    ///   is damaged, `unsupported` if it was made by a later version.
    static func cipher(
        of description: SyncContainerDescription, _ password: String?
    ) async throws -> SyncCipher? {
        try description.checkFormat()
        guard let password else {
            if description.isEncrypted { throw description.keylessError() }
            return nil
        }
        guard description.isEncrypted else {
            throw QuireError(
                .protectionUnavailable,
                "The shared document in the folder is not encrypted, although a password is given; join it without one, or make an encrypted one in another folder.",
                subject: .init(file: descriptionFile.path))
        }
        // Half a second, in which tasks of others need the threads of the concurrency pool.
        return try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(with: Result { try description.cipher(password) })
            }
        }
    }

    /// Encrypts and decrypts the files of the transport from now on, if the replica has a key.
    ///
    /// - Returns: The cipher.
    @discardableResult
    func useCipher() async throws -> SyncCipher? {
        let replica = replica
        let cipher = try await onQueue { try replica.cipher() }
        transport = cipher.map { EncryptedTransport(carrier: carrier, cipher: $0) } ?? carrier
        return cipher
    }
}
