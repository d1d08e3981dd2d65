internal import Foundation
internal import Quire
internal import QuireProtection
internal import QuireSQLite

/// The key of an encrypted shared document is kept in the store, so that the password is needed once on each machine.
extension SyncReplica {
    /// The cipher of the shared document; `nil` if its files are not encrypted, or the store is not a replica.
    func cipher() throws -> SyncCipher? {
        try reading(nil) { tables in
            guard let bytes = try tables.documentKey() else { return nil }
            guard bytes.count == 32 else {
                throw QuireError(
                    .invalidFormat,
                    "“\(store.storePath)” has a damaged key of its shared document; leave that, and join it again with its password.",
                    subject: .init(file: store.storePath))
            }
            return SyncCipher(
                container: tables.settings.container, secret: try SecretMemory(copying: bytes))
        }
    }

    /// Keeps the key of the shared document, in the transaction that makes the store a replica.
    func writeKey(_ key: SecretMemory, to connection: SQLiteConnection) throws {
        try connection.withStatement("INSERT OR REPLACE INTO QUIRE_SYNC VALUES ('key', ?)") {
            try $0.bind(key.withUnsafeBytes { Data($0) }, at: 1)
            try $0.run()
        }
    }
}

extension SyncTables {
    /// The bytes of the key of the shared document; `nil` if its files are not encrypted.
    func documentKey() throws -> Data? {
        try connection.withStatement("SELECT Z_VALUE FROM QUIRE_SYNC WHERE Z_KEY = 'key'") {
            try $0.step() ? $0.data(0) : nil
        }
    }
}
