import Dispatch
import Foundation
import Logging
import Quire
import QuireProtection
package import QuireSQLite
import QuireSystem

/// Making a shared document, joining it, and leaving it.
extension SyncContainer {
    /// Creates the shared document in the transport's folder, with the store as its first replica.
    ///
    /// With a password, the files and their names are encrypted. Each machine needs the password once, to join; then its store,
    /// and every copy of the store, contains the key. Protect the store itself if other users can read it. The carrier of the
    /// files still learns their number, their sizes and the times of changes; it can withhold files, bring back old ones, and try
    /// passwords at half a second each. Without the password and the replicas, the files cannot be recovered.
    ///
    /// ```swift
    /// try await sync.create(named: "Library", password: password)
    /// ```
    ///
    /// - Complexity: With a password, half a second and 128 MiB.
    /// - Throws: `QuireError` with code `invalidState` if the folder already contains a shared document, which can be joined, or
    ///   the store is a replica of another one; `invalidValue` if the password is empty; `protectionUnavailable` if the store is
    ///   protected and no password is specified, unless an unencrypted folder is allowed.
    public func create(named name: String, password: String? = nil) async throws {
        try await inTurn { try await $0.makeDocument(named: name, password) }
    }

    private func makeDocument(named name: String, _ password: String?) async throws {
        if try await onQueue({ try $0.settings() }) != nil { throw replica.alreadyAttached() }
        if password == nil { try checkEncryption(nil) }
        if try await Self.description(in: carrier) != nil { throw Self.existsAlready() }
        let container = SyncIdentifier()
        let new: (description: SyncContainerDescription, cipher: SyncCipher?)
        if let password {
            let cost = passwordCost
            new = try await onQueue { replica in
                try SyncContainerDescription.encrypted(
                    container: container, .init(name: name, model: replica.modelDigest),
                    password: password, cost: cost)
            }
        } else {
            let description = SyncContainerDescription(
                container: container, name: name, model: replica.modelDigest)
            new = (description, nil)
        }
        guard try await carrier.create(Self.descriptionFile, new.description.encoded()) else {
            throw Self.existsAlready()
        }
        try await attach(to: container, new.cipher)
    }

    private static func existsAlready() -> QuireError {
        QuireError(
            .invalidState, "The folder already contains a shared document; join it instead.")
    }

    /// Makes the store a replica of the document in the transport's folder, and merges their contents; nothing is lost.
    ///
    /// - Parameter password: The password of an encrypted document; see ``isEncrypted(in:)``. A store that is already a replica
    ///   contains the key and does not need it.
    /// - Throws: `QuireError` with code `notFound` if the folder does not contain a document (yet), `invalidState` if the store
    ///   is a replica of another one, `unsupported` if a later version created the document, `invalidFormat` if its file is
    ///   damaged; `protectedDataUnavailable` if it is encrypted and no password is specified, `wrongKey` if the password is
    ///   wrong; `protectionUnavailable` if a password is specified and the document is not encrypted, or if the store is
    ///   protected and the document is not encrypted, unless that is allowed.
    public func join(password: String? = nil) async throws {
        try await inTurn { try await $0.joinDocument(password) }
    }

    private func joinDocument(_ password: String?) async throws {
        let description = try await Self.existingDescription(in: carrier)
        let container = try description.identifier()
        var cipher: SyncCipher?
        if let attached = try await onQueue({ try $0.settings()?.container }) {
            cipher = try await onQueue { try $0.cipher() }
            do {
                try description.check(attached, cipher)
            } catch let error as QuireError where error.code == .syncedContentReplaced {
                throw replica.alreadyAttached()
            }
        }
        if cipher == nil { cipher = try await Self.cipher(of: description, password) }
        try checkEncryption(cipher)
        try await attach(to: container, cipher)
    }

    private func attach(to container: SyncIdentifier, _ cipher: SyncCipher?) async throws {
        try await onQueue { try $0.attach(to: container, key: cipher?.secret) }
        try await useCipher()
        try await sendModel()
    }

    /// Joins the document in the transport's folder, or makes it if there is none.
    ///
    /// A store whose document has been replaced by that of another machine, and that has met no other peer, joins that one.
    ///
    /// - Parameters:
    ///   - password: The password of an encrypted document; `nil` if it is not encrypted.
    ///   - identifier: The document that must be in the folder, if there is one; `nil` for any.
    /// - Throws: `QuireError` with code `syncedContentReplaced` if another document is in the folder; `syncedContentRemoved` if there is
    ///   none, because it was removed.
    func joinOrCreate(
        named name: String, password: String? = nil, identifier: SyncIdentifier? = nil
    ) async throws {
        do {
            let found = try await Self.description(in: carrier)?.identifier()
            if let identifier, let found, identifier != found {
                throw QuireError(
                    .syncedContentReplaced,
                    "The folder contains the shared document \(found) instead of \(identifier).")
            }
            if found == nil {
                if try await !carrier.fileNames(in: Self.removalMarks).isEmpty {
                    throw QuireError(
                        .syncedContentRemoved,
                        "The shared document was deliberately deleted from the folder; create a new one to synchronize again."
                    )
                }
                return try await create(named: name, password: password)
            }
        } catch let error as QuireError where error.code == .invalidState {
            // Another machine's has come just now.
        } catch let error as QuireError where error.code == .invalidFormat {
            return try await requireReplica(error)
        }
        do {
            try await join(password: password)
        } catch let error as QuireError where error.code == .invalidFormat {
            try await requireReplica(error)
        } catch let error as QuireError where error.code == .invalidState {
            guard try await onQueue({ try !$0.hasMergedOthers() }) else {
                throw QuireError(
                    .syncedContentReplaced, error.message, subject: error.subject,
                    underlying: error)
            }
            let peer = try await onQueue { try $0.settings()?.peer }
            try await removeSyncMetadata()
            try await join(password: password)
            if let peer { try await removeFiles(of: peer) }
        }
    }

    /// Removes the files that a replica has sent as one of another document: no replica reads them.
    private func removeFiles(of peer: SyncIdentifier) async throws {
        for folder in [SyncSegment.folder, SyncSnapshotPart.folder] {
            for name in try await transport.fileNames(in: folder)
            where SyncSegmentName(name)?.peer == peer {
                if let file = folder.entry(name) { try await transport.remove(file) }
            }
        }
    }

    /// Throws an error about the document's description unless the store is a replica already: its rounds go on without it, and
    /// report it.
    private func requireReplica(_ error: QuireError) async throws {
        if try await onQueue({ try $0.settings() }) == nil { throw error }
    }

    /// Makes the store local again. Its objects and the files in the folder stay; unsent changes are never sent.
    ///
    /// The store keeps the identifiers of its objects: if it joins this or another shared document, or creates one, objects in
    /// common with other replicas are not duplicated. For properties that both have changed in the meantime, the other replicas'
    /// values are kept and this store's are listed as conflicts; objects deleted here in the meantime are restored.
    ///
    /// If all changes have been sent and the folder can be reached, the other replicas are notified, so that they need not wait
    /// for this one; see ``retire(_:)``.
    public func removeSyncMetadata() async throws {
        try await inTurn { container in
            await container.retireItself()
            try await container.onQueue { try $0.detach() }
        }
    }

    /// Retires this replica, if all of its segments have been sent.
    private func retireItself() async {
        let date = clock()
        do {
            var result = SyncResult()
            try await claimStore()
            try await checkContainer(&result)
            guard let (name, bytes) = try await onQueue({ try $0.lastSegment(at: date) }),
                let file = SyncSegment.folder.entry(name.fileName)
            else { return }
            try await transport.create(file, bytes)
        } catch {
            Self.logger.info(
                "Could not notify the other replicas that this one is leaving: \(error)")
        }
    }

    /// Retires a replica that is gone for good: the others need not keep deleted objects until it knows of the deletions.
    ///
    /// A replica that has sent nothing for ninety days is retired anyway. Nothing is lost if it comes back: its changes are
    /// merged as those of another replica.
    ///
    /// - Parameter peer: The identifier of a replica in ``SyncStatus/peers``, other than this one.
    /// - Throws: `QuireError` with code `notFound` if no file of such a replica is known; `invalidValue` if it is this one, which
    ///   leaves by ``removeSyncMetadata()``.
    public func retire(_ peer: SyncIdentifier) async throws {
        let date = clock()
        try await claimStore()
        try await onQueue { try $0.retire(peer, at: date) }
    }

    // MARK: - Encryption

    /// Whether the shared document in a transport's folder is encrypted, so that joining it requires a password.
    ///
    /// - Throws: `QuireError` with code `notFound` if the folder does not contain a document (yet), `invalidFormat` if its file
    ///   is damaged, `unsupported` if a later version created it.
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
                "The shared document in the folder is not encrypted, but a password was specified; join it without a password, or create an encrypted one in another folder.",
                file: descriptionFile.path)
        }
        // Half a second, in which tasks of others need the threads of the concurrency pool.
        return try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(with: Result { try description.cipher(password) })
            }
        }
    }

    /// Checks that the objects of a protected store are not sent in clear without being asked to.
    ///
    /// - Parameter cipher: The cipher of the shared document; `nil` if it is not encrypted.
    /// - Throws: `QuireError` with code `protectionUnavailable`.
    func checkEncryption(_ cipher: SyncCipher?) throws {
        if cipher != nil || allowsUnencryptedFolder { return }
        try Self.checkProtection(of: replica.store)
    }

    /// Checks that a store may be synchronized through a folder that is not encrypted.
    ///
    /// - Throws: `QuireError` with code `protectionUnavailable` if it is protected.
    package static func checkProtection(of store: SQLiteStore) throws {
        guard let protection = store.protection, protection.fileProtection != .none else { return }
        let path = StorePath.packageRoot(of: store.storePath) ?? store.storePath
        throw QuireError(
            .protectionUnavailable,
            "“\(path)” is protected (\(protection.fileProtection.rawValue)), but the shared folder is not encrypted: anyone with access to the folder could read the objects. Encrypt the shared document with a password, or allow an unencrypted folder.",
            file: path)
    }

    /// Encrypts and decrypts the files of the transport from now on, if the replica has a key.
    ///
    /// - Returns: The cipher.
    @discardableResult
    func useCipher() async throws -> SyncCipher? {
        let cipher = try await onQueue { try $0.cipher() }
        transport = cipher.map { EncryptedTransport(carrier: carrier, cipher: $0) } ?? carrier
        return cipher
    }
}
