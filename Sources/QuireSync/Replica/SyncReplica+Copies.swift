internal import Crypto
internal import Foundation
internal import Quire
internal import QuireSQLite
internal import QuireSystem

/// Copies of a store: a replica's identifier is for one file on one machine.
///
/// Files in the shared folder are named by replica and number, and vectors count on two of them never having one name. So a replica keeps
/// with its identifier which file it is; a copy of it, and a backup that takes its place, are others, and take another identifier
/// before they write anything.
extension SyncReplica {
    /// Takes another identifier if the store is not the file that the present one is for, or has come to another machine.
    ///
    /// - Returns: Whether it has.
    func takeAnotherIdentifierIfCopied() throws -> Bool {
        guard let present = try StoreFileIdentity.digest(of: store.storePath) else { return false }
        let known = try reading(present) { tables in
            try tables.connection.row("SELECT Z_VALUE FROM QUIRE_SYNC WHERE Z_KEY = 'file'") {
                $0.data(0)
            }
        }
        if known == present { return false }
        return try transact { tables in
            // Replicas of earlier versions have not kept it.
            let isCopy = known != nil
            if isCopy { try tables.becomeAnotherPeer() }
            try tables.noteStoreFile()
            return isCopy
        }
    }
}

extension SyncTables {
    /// Keeps which file the replica's identifier is for.
    func noteStoreFile() throws {
        guard let digest = try StoreFileIdentity.digest(of: store.storePath) else { return }
        try connection.run("INSERT OR REPLACE INTO QUIRE_SYNC VALUES ('file', ?)", digest)
    }
}

/// The identity of a store's file, which its copies do not have.
private enum StoreFileIdentity {
    /// A digest of the machine and the file's number; `nil` if there is no file.
    ///
    /// The number of the device is left out, because the same disk may have another one after a restart; the machine's identifier is
    /// not to be found in a document, so it is digested.
    static func digest(of path: String) throws -> Data? {
        guard let found = try FileSystem.information(at: path) else { return nil }
        var hash = SHA256()
        hash.update(data: Data("Quire replica\n\(machine)\n\(found.inode)".utf8))
        return Data(hash.finalize().prefix(16))
    }

    /// The identifier of machine-id(5); the host's name where there is none, as in many containers.
    private static let machine: String = {
        let name = ProcessInfo.processInfo.hostName
        do {
            let text = String(
                decoding: try FileSystem.contents(of: "/etc/machine-id", limit: 64), as: UTF8.self)
            return text.isEmpty ? name : text
        } catch {
            return name
        }
    }()
}
