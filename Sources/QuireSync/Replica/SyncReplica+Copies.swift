internal import Crypto
internal import Foundation
internal import Quire
internal import QuireSQLite
internal import QuireSystem

/// Copies of a store: a replica's identifier is for one file on one machine.
///
/// Files in the shared folder are named by replica and number, and vectors count on two of them never having one name. So a store has an
/// identifier, with the number of its last segment, for each file on each machine that it has been; a copy of it, and a backup that
/// takes its place, are others, and take another identifier before they write anything. A store on a disk that is carried between
/// machines has one for each of these.
extension SyncReplica {
    /// Takes another identifier if the store is another file than when it was synchronized last, or is on another machine: the one
    /// that it had there, or a new one.
    ///
    /// - Returns: Whether it has.
    func takeAnotherIdentifierIfCopied() throws -> Bool {
        guard let present = try StoreFileIdentity.digest(of: store.storePath) else { return false }
        let known = try reading(present) { try $0.storeFile() }
        if known == present { return false }
        let former = try StoreFileIdentity.digest(of: store.storePath, withTime: false)
        return try transact { tables in
            // Replicas of earlier versions have not kept it, or without the time.
            if let known, known != former {
                let earlier = try tables.identifier(ofFile: present)
                try tables.keepIdentifier(ofFile: known)
                try tables.becomeAnotherPeer(earlier)
            }
            try tables.noteStoreFile()
            return known != nil && known != former
        }
    }
}

extension SyncTables {
    /// The file that the replica's identifier is for; `nil` if it was not kept.
    fileprivate func storeFile() throws -> Data? {
        try connection.row("SELECT Z_VALUE FROM QUIRE_SYNC WHERE Z_KEY = 'file'") { $0.data(0) }
    }

    /// Keeps which file the replica's identifier is for.
    func noteStoreFile() throws {
        guard let digest = try StoreFileIdentity.digest(of: store.storePath) else { return }
        try connection.run("INSERT OR REPLACE INTO QUIRE_SYNC VALUES ('file', ?)", digest)
    }

    /// The identifier that the store has as another file, and the number of the last segment that was written there; `nil` if it has
    /// none, or a copy has been used there meanwhile.
    fileprivate func identifier(
        ofFile digest: Data
    ) throws -> (peer: SyncIdentifier, sequence: Int64)? {
        let bytes = try connection.row(
            "SELECT Z_VALUE FROM QUIRE_SYNC WHERE Z_KEY = ?", Self.key(of: digest)
        ) { $0.data(0) }
        guard let bytes else { return nil }
        var reader = SyncByteReader(Array(bytes)[...], file: store.storePath)
        let peer = try reader.identifier()
        let sequence = Int64(try reader.unsigned() & 0x1FFF_FFFF_FFFF_FFFF)
        let last = [settings.seen, settings.known].compactMap {
            $0.ranges[peer]?.ranges.last?.upperBound
        }.max()
        return last ?? 0 > sequence + 1 ? nil : (peer, sequence)
    }

    /// Keeps the identifier that the store has as another file, with the number of the last segment that was sent.
    fileprivate func keepIdentifier(ofFile digest: Data) throws {
        var writer = SyncByteWriter()
        writer.identifier(settings.peer)
        writer.unsigned(UInt64(settings.sequence - Int64(try outboxCount())))
        try connection.run(
            "INSERT OR REPLACE INTO QUIRE_SYNC VALUES (?, ?)", Self.key(of: digest),
            Data(writer.bytes))
    }

    private static func key(of digest: Data) -> String { "file \(digest.hexadecimal)" }
}

/// The identity of a store's file, which its copies do not have.
private enum StoreFileIdentity {
    /// A digest of the machine, the file's number and the time when it was made; `nil` if there is no file.
    ///
    /// A backup that takes the place of a file that was removed often gets its number, hence the time.
    /// The number of the device is left out, because the same disk may have another one after a restart; the machine's identifier is
    /// not to be found in a document, so it is digested.
    static func digest(of path: String, withTime: Bool = true) throws -> Data? {
        guard let found = try FileSystem.information(at: path) else { return nil }
        let time = withTime ? try FileSystem.birthTime(at: path) : nil
        var hash = SHA256()
        hash.update(data: Data("Quire replica\n\(machine)\n\(found.inode)".utf8))
        if let time { hash.update(data: Data("\n\(time)".utf8)) }
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
