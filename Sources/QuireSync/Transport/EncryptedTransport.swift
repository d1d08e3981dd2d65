internal import Foundation

/// A transport whose files another one carries encrypted, under encrypted names; see ``SyncCipher``.
///
/// A file that another key has encrypted, or that is carried in the place of another file, is either not listed or cannot be read.
///
/// The carrier, and whoever can read what it carries, still learns
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
